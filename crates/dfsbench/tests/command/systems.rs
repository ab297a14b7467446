//! Recipes by name or file, and systems that were kept up.

use std::fs::{self, File};
use std::process::Command;
use std::thread;

use crate::cli::{Cli, End};

#[test]
fn checks_recipe_by_name_or_file() {
    let cli = Cli::new();
    let built_in = cli.run(&["systems", "check", "glusterfs"]);
    assert_eq!(built_in.code, 0, "{built_in:?}");
    assert!(built_in.stdout.starts_with("glusterfs: GlusterFS: "), "{built_in:?}");
    // As in plans, only a path names a file.
    fs::write(cli.folder().join("glusterfs"), "name = 1\n").unwrap();
    fs::write(cli.folder().join("mine"), "name = 1\n").unwrap();
    fs::write(cli.folder().join("new.toml"), "name = 1\n").unwrap();
    assert_eq!(cli.run(&["systems", "check", "glusterfs"]).stdout, built_in.stdout);
    cli.refused(&["systems", "check", "./glusterfs"], 2, &["./glusterfs:1:8: name: "]);
    for command in ["check", "up"] {
        cli.refused(&["systems", command, "mine"], 2, &["`mine`", "write `./mine`"]);
        cli.refused(&["systems", command, "new"], 2, &["`new`", "write `new.toml`"]);
        cli.refused(&["systems", command, "glusterf"], 2, &["did you mean `glusterfs`"]);
        let none = ["can't read recipe `none.toml`: No such file", "`dfsbench systems` lists"];
        cli.refused(&["systems", command, "none.toml"], 2, &none);
    }
}

#[test]
fn leaves_no_partial_recipe() {
    let cli = Cli::new();
    let program = env!("CARGO_BIN_EXE_dfsbench");
    let script = format!("ulimit -f 0; exec {program} systems new mine");
    let full = Command::new("sh").args(["-c", &script]).current_dir(cli.folder()).output().unwrap();
    assert_eq!(full.status.code(), Some(3), "{full:?}");
    assert!(!cli.folder().join("mine.toml").exists());
    let name = cli.refused(&["systems", "new", "a\nb"], 2, &["`a\\nb` is not a name"]);
    assert_eq!(name.trim_end().lines().count(), 1, "{name}");
}

#[test]
fn refuses_addresses_that_no_recipe_can_admit() {
    let cli = Cli::new();
    for allow in ["10.0.0.1;reboot", "$(reboot)", "10.0.0.0/33", "10.0.0.0/x", "", "a b", "-x"] {
        let allow = format!("--allow={allow}");
        cli.refused(&["systems", "up", "unfs3", &allow], 2, &["--allow"]);
    }
    // The lines of the plan that is made from the flags would not help.
    let host = cli.refused(&["systems", "up", "unfs3", "--hosts", "a=b c"], 2, &["`b c`"]);
    assert!(host.starts_with("error: systems up: address: "), "{host}");
    let anybody = ["systems", "up", "go-nfs", "--allow=10.0.0.1"];
    cli.refused(&anybody, 2, &["--allow", "doesn't limit who may mount"]);
    assert_eq!(fs::read_dir(cli.folder().join("state")).unwrap().count(), 0);
}

/// Writes the record of a system as `systems up ./mine.toml` leaves it.
fn leave_record(cli: &Cli, pid: u32, hosts: &[Option<&str>]) -> std::path::PathBuf {
    let folder = cli.folder().join("state/dfsbench");
    fs::create_dir_all(&folder).unwrap();
    let host = |ssh: Option<&str>| {
        let name = ssh.unwrap_or("here");
        serde_json::json!({ "name": name, "ssh": ssh, "ssh_config": null, "address": null,
            "interface": null })
    };
    let hosts: Vec<_> = hosts.iter().copied().map(host).collect();
    let record = serde_json::json!({ "source": "./mine.toml", "name": "mine", "pid": pid,
        "hosts": hosts });
    let path = folder.join("up-4711.lock");
    fs::write(&path, record.to_string()).unwrap();
    path
}

/// The exit code is that of what is left, however the process ended that kept the system up.
#[test]
fn down_tries_again_what_is_left() {
    let cli = Cli::new();
    let down = |name: &str| End::from_output(down_command(&cli, name).output().unwrap());
    assert_eq!(down("mine").code, 2);
    // Nothing listens on port 1.
    let record = leave_record(&cli, 7, &[Some("nobody@127.0.0.1"), None]);
    let unreachable = down("mine");
    assert_eq!(unreachable.code, 3, "{unreachable:?}");
    assert!(unreachable.stderr.contains("127.0.0.1"), "{unreachable:?}");
    assert!(unreachable.stdout.contains("here: nothing to restore"), "the others: {unreachable:?}");
    assert!(record.exists(), "the next attempt needs it");
    assert_eq!(down("other").code, 2);
    leave_record(&cli, 7, &[None]);
    for (name, code) in [("./mine.toml", 0), ("./mine.toml", 2), ("mine", 2)] {
        let end = down(name);
        assert_eq!((end.code, record.exists()), (code, false), "{end:?}");
    }
}

fn down_command(cli: &Cli, name: &str) -> Command {
    let mut command = cli.command(&["systems", "down", name]);
    // An ssh that reaches no host.
    let ssh = cli.folder().join("bin/ssh");
    if !ssh.exists() {
        use std::os::unix::fs::PermissionsExt as _;
        fs::create_dir(cli.folder().join("bin")).unwrap();
        fs::write(&ssh, "#!/bin/sh\necho 'connect to host 127.0.0.1: refused' >&2\nexit 255\n")
            .unwrap();
        fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let path = std::env::var("PATH").unwrap();
    command.env("PATH", format!("{}:{path}", ssh.parent().unwrap().display()));
    command
}

#[test]
fn down_waits_for_holder() {
    let cli = Cli::new();
    let mut holder = Command::new("sleep").arg("600").spawn().unwrap();
    let record = leave_record(&cli, holder.id(), &[None]);
    let lock = File::open(&record).unwrap();
    lock.lock().unwrap();
    let ended = thread::spawn(move || {
        let status = holder.wait().unwrap();
        drop(lock);
        status
    });
    let down = cli.run(&["systems", "down", "mine"]);
    assert_eq!((down.code, record.exists()), (0, false), "{down:?}");
    assert!(!ended.join().unwrap().success(), "it was ended by a signal");
}

/// `clean` drops the record of a system whose hosts are restored, and without `--forget` only then.
#[test]
fn clean_restores_hosts_of_left_system() {
    let cli = Cli::new();
    let clean = |flags: &[&str]| {
        let mut command = down_command(&cli, "mine");
        let path = command.get_envs().find(|(name, _)| *name == "PATH").unwrap().1.unwrap();
        let path = path.to_owned();
        command = cli.command(&[&["clean"][..], flags].concat());
        End::from_output(command.env("PATH", path).output().unwrap())
    };
    let record = leave_record(&cli, 7, &[Some("nobody@127.0.0.1")]);
    let kept = clean(&[]);
    assert_eq!((kept.code, record.exists()), (3, true), "{kept:?}");
    let forgotten = clean(&["--forget"]);
    assert_eq!((forgotten.code, record.exists()), (3, false), "{forgotten:?}");
    assert!(forgotten.stdout.contains("forgotten: the hosts of `dfsbench systems up mine`"));
    leave_record(&cli, 7, &[None]);
    assert_eq!((clean(&[]).code, record.exists()), (0, false));
}

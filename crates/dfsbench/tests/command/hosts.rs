//! Plans with hosts that are set up: the dry run, and errors that are reported immediately.

use crate::cli::Cli;

const PLAN: &str = r#"
name = "hosts"
seed = 1
[[host]]
name = "server"
ssh = "root@192.0.2.1"
ssh_config = "lab config"
[[host]]
name = "client"
address = "192.0.2.2"
[[target]]
name = "nfs"
server = "server"
client = "client"
devices = ["/dev/vdz"]
[factors]
file_size = "1MiB"
data_path = ["disk", "network"]
nfsvers = [3, 4.2]
export_options = "async"
invalidation = "remount"
[[workload]]
kind = "stream"
"#;

/// Returns the output of a dry run from the list of hosts on.
fn dry_run(plan: &str, flags: &[&str]) -> Vec<String> {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("hosts.toml"), plan).unwrap();
    let end = cli.run(&[&["run", "hosts.toml", "--dry-run"], flags].concat());
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    cli.assert_target_is_empty();
    let lines = end.stdout.lines().skip_while(|line| *line != "hosts:");
    lines.map(|line| line.trim().to_owned()).collect()
}

/// Returns the lines of one state.
fn state(output: &[String], number: usize) -> &[String] {
    let begins = |line: &String| line.starts_with(&format!("state {number}, "));
    let state = &output[output.iter().position(begins).unwrap()..];
    &state[..state.iter().position(String::is_empty).unwrap()]
}

#[test]
fn lists_host_changes_in_dry_run() {
    let output = dry_run(PLAN, &[]);
    assert_eq!(output[1], "server: ssh -F lab config root@192.0.2.1");
    assert_eq!(output[2], "client: this host");
    let disk = state(&output, 1);
    assert_eq!(disk[0], "state 1, for run 1:");
    assert!(
        disk[1].starts_with("server: mkfs.ext4 ") && disk[1].ends_with(" /dev/vdz"),
        "{disk:?}"
    );
    assert!(disk.last().unwrap().starts_with("before a pass reads: remount, "), "{disk:?}");
    assert!(disk.iter().all(|line| !line.contains("exportfs")), "{disk:?}");
    let old = state(&output, 2);
    let export = old.iter().position(|line| line.starts_with("server: exportfs ")).unwrap();
    assert!(old[export].contains("async") && old[export].contains("192.0.2.2"), "{old:?}");
    let mount = old.iter().position(|line| line.contains("vers=3,proto=tcp")).unwrap();
    assert!(mount > export && old[mount].starts_with("client: mount -t nfs "), "{old:?}");
    // Only the mount differs: everything else stays.
    let new = state(&output, 3);
    assert!(new.iter().skip(2).all(|line| !line.starts_with("server: ")), "{new:?}");
    assert!(new.iter().any(|line| line.starts_with("client: undo ") && line.contains("vers=3")));
    assert!(new.iter().any(|line| line.contains("vers=4.2")), "{new:?}");
    let end = &output[output.len() - 2..];
    insta::assert_snapshot!(end.join("\n"), @"
    order grouped: hosts are set up 3 times
    lost:     all data on /dev/vdz of server (--allow-destroy /dev/vdz)
    ");
}

#[test]
fn rejects_other_devices_before_contact() {
    let planted = [
        ("format_options = [\"-f /dev/loop4\"]", "`-f` is not allowed"),
        ("format_options = [\"-K /dev/loop4\"]", "`/dev/loop4` is not part of an option"),
        ("format_options = [\"-b 4096 /dev/loop4\"]", "`/dev/loop4` is not part of an option"),
        ("fs_mount_options = [\"loop=/dev/loop4\"]", "names another file or device"),
        ("server_sysctl = [\"kernel.core_pattern=|/tmp/x\"]", "kernel.core_pattern"),
    ];
    for (line, says) in planted {
        let system = if line.contains("-b") { "ext4" } else { "btrfs" };
        let levels = format!("[factors]\nfile_system = \"{system}\"\n{line}\n");
        let cli = Cli::new();
        let plan = PLAN.replace("[factors]\n", &levels);
        std::fs::write(cli.folder().join("hosts.toml"), plan).unwrap();
        for flags in [&["--dry-run"][..], &["--allow-destroy", "/dev/vdz"]] {
            let end = cli.run(&[&["run", "hosts.toml"], flags].concat());
            let key = line.split(' ').next().unwrap();
            assert_eq!(end.code, 2, "{line}: {end:?}");
            assert!(end.stderr.contains(key) && end.stderr.contains("hint: "), "{line}: {end:?}");
            assert!(end.stderr.contains(says), "{line}: {end:?}");
        }
    }
}

#[test]
fn lists_client_hosts_in_dry_run() {
    let host = |n| format!("[[host]]\nname = \"c{n}\"\naddress = \"192.0.2.{n}\"\n");
    let clients = (2..=12).map(host).collect::<Vec<_>>().concat();
    let names: Vec<String> = (2..=12).map(|n| format!("\"c{n}\"")).collect();
    let plan = PLAN
        .replace("[[target]]", &format!("{clients}[[target]]"))
        .replace("client = \"client\"", &format!("clients = [{}]", names.join(", ")))
        .replace("[\"disk\", \"network\"]", "\"network\"")
        .replace("[3, 4.2]", "3\nclient_hosts = [1, 2, 11]");
    let output = dry_run(&plan, &[]);
    let at_work: Vec<&str> =
        output.iter().filter_map(|line| line.strip_prefix("clients in ")).collect();
    let all = "run 3: c2, c3, c4, c5, c6, c7, c8, c9, c10, c11 and 1 more";
    assert_eq!(at_work, ["run 1: c2", "run 2: c2, c3", all]);
    let two = state(&output, 2);
    assert_eq!(two[1], "3 of 6 steps are already applied", "{two:?}");
    assert!(two.iter().any(|line| line.contains("192.0.2.2:/") && line.contains("192.0.2.3:/")));
    let mounts = |state: &[String]| {
        let mount = |line: &&String| !line.contains("undo") && line.contains("mount -t nfs");
        state.iter().filter(mount).count()
    };
    assert_eq!((mounts(two), mounts(state(&output, 3))), (2, 11));
    assert!(two.iter().all(|line| !line.contains("mkfs")), "{two:?}");
}

#[test]
fn estimates_cost_of_other_order() {
    let blocks = dry_run(PLAN, &["--order", "blocks", "--trials", "4"]);
    let last = blocks.iter().find(|line| line.starts_with("order ")).unwrap();
    // Twelve trials; neighbors may be equal at the boundary of two blocks.
    assert!(last.ends_with("times; order grouped needs 3"), "{last}");
    // Dry runs of plans that do not set up hosts don't mention them.
    let null = "name = \"t\"\n[[target]]\nname = \"n\"\nnull = true\n";
    assert!(dry_run(&format!("{null}[[workload]]\nkind = \"stream\"\n"), &[]).is_empty());
}

#[test]
fn confirms_devices_before_contacting_hosts() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("hosts.toml"), PLAN).unwrap();
    let words = ["/dev/vdz on host `server`", "--allow-destroy /dev/vdz"];
    cli.refused(&["run", "hosts.toml"], 2, &words);
    let other = ["run", "hosts.toml", "--allow-destroy", "/dev/vda"];
    cli.refused(&other, 2, &["the plan does not format `/dev/vda`"]);
}

#[test]
fn explains_empty_rows_of_data_paths() {
    let cli = Cli::new();
    let end = cli.run(&["run", "seed-001", "--dry-run"]);
    assert_eq!((end.code, end.stderr.as_str()), (0, ""), "{end:?}");
    let rows = |what: &str| end.stdout.lines().filter(|line| line.contains(what)).count();
    // For each of four mounts, two of them through the tunnel: v4 twice over UDP, v2 over both.
    assert_eq!(rows("runs over TCP only"), 4 * 2);
    assert_eq!(rows("file too large for v2"), 4 * 2);
    assert_eq!(rows("write, read"), 1 + 4 * (2 + 2));
    // The VPN of the report carries packets; ports would only carry TCP.
    let ports = cli.run(&["run", "seed-001", "--dry-run", "--tunnel-forwards", "ports"]);
    let of_ports =
        ports.stdout.lines().filter(|line| line.contains("a tunnel that forwards ports"));
    assert_eq!(of_ports.count(), 2 * 4, "{}", ports.stdout);
    assert!(end.stdout.contains("client: mount -t nfs -o vers=4.2,proto=tcp"), "{}", end.stdout);
    assert!(end.stdout.contains("hosts are set up 17 times"), "{}", end.stdout);
}

/// An ssh that prints the output of a host; its argument is the command line for the host's shell.
const NO_SSH: &str = r#"#!/bin/sh
for words; do :; done
case "$words" in
exit) ;;
sh) cat > /dev/null; LOOK ;;
*new-*) cat > /dev/null; echo 'cat: write error: No space left on device' >&2; exit 1 ;;
esac
"#;

#[test]
fn rejects_unusable_hosts() {
    use std::os::unix::fs::PermissionsExt as _;

    let cli = Cli::new();
    let ssh = cli.folder().join("ssh");
    let path = format!("{}:{}", cli.folder().display(), std::env::var("PATH").unwrap());
    let plan = "name = \"t\"\n[[host]]\nname = \"one\"\nssh = \"h1\"\n[[host]]\nname = \"two\"\n\
                ssh = \"h2\"\n[[target]]\nname = \"d\"\npath = \"/mnt\"\nhosts = [\"one\", \
                \"two\"]\n[[workload]]\nkind = \"stream\"\nfile_size = \"1MiB\"\n";
    std::fs::write(cli.folder().join("hosts.toml"), plan).unwrap();
    let ours = std::env::consts::ARCH;
    let folder = "echo /tmp/dfsbench-7";
    for (look, words) in [
        (
            format!("echo 'dfsbench-host Linux riscv64 '; {folder}"),
            ["host one: it runs Linux on riscv64, but", &format!("is for Linux on {ours}")],
        ),
        (
            format!("echo 'dfsbench-host Linux {ours} '; {folder}"),
            ["MiB) in /tmp/dfsbench-7: ", "No space left on device"],
        ),
        (
            "echo 'Host key verification failed.' >&2; exit 255".to_owned(),
            ["host one: unknown host key", "log in once by hand with `ssh h1`"],
        ),
    ] {
        std::fs::write(&ssh, NO_SSH.replace("LOOK", &look)).unwrap();
        std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = cli.command(&["run", "hosts.toml"]);
        let end = crate::cli::End::from_output(command.env("PATH", &path).output().unwrap());
        assert_eq!((end.code, end.stdout.as_str()), (3, ""), "{end:?}");
        let errors = end.stderr.lines().filter(|line| line.starts_with("error: "));
        assert_eq!(errors.count(), 1, "{end:?}");
        assert!(words.iter().all(|word| end.stderr.contains(word)), "{end:?}");
    }
}

#[test]
fn rejects_duplicate_host_with_line() {
    let cli = Cli::new();
    let listed = |hosts: &str, list: &str, words: &[&str]| {
        let text = format!(
            "name = \"t\"\n{hosts}[[target]]\nname = \"d\"\npath = \"/mnt\"\nhosts = [{list}]\n\
             [[workload]]\nkind = \"stream\"\n"
        );
        std::fs::write(cli.folder().join("hosts.toml"), text).unwrap();
        cli.refused(&["run", "hosts.toml", "--dry-run"], 2, words);
    };
    let one = "[[host]]\nname = \"one\"\nssh = \"h1\"\n";
    listed(one, "\"one\", \"one\"", &["`one` is listed twice", "`slots`"]);
    listed(&one.repeat(2), "\"one\"", &["hosts.toml:6:8", "`one`", "its own name"]);
}

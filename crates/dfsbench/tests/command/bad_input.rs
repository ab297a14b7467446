//! Wrong arguments and targets: one clear error, exit code 2, nothing left behind.

use std::path::Path;

use crate::cli::Cli;

#[test]
fn rejects_bad_sizes_counts_and_names() {
    let cli = Cli::new();
    insta::assert_snapshot!(cli.errors_of(&[
        &["run", "target", "--io-size", "12XB"],
        &["run", "target", "--trials", "0"],
        &["run", "target", "--workers", "1,0"],
        &["run", "target", "--workload", "stram"],
        &["run", "target", "--backend", "nfs"],
        &["run", "target", "--io-size", "1MiB", "--file-size", "64KiB"],
        &["run", "target", "--direct=maybe"],
        &["run", "target", "--read-percent", "101"],
        &["run", "target", "--io-size", "4kb"],
        &["run", "target", "--workers", "1-4"],
        &["run", "target", "--io-size", "4k-1m"],
        &["run", "target", "--file-size", "100GB"],
        &["run", "target", "--rate", "2k", "--workload", "mixed"],
        &["run", "target", "--durability", "fsync"],
        &["run", "target", "--proto", "TCP"],
        &["run", "target", "--scale", "2"],
        &["run", "target", "--duration", "-5s"],
        &["run", "target", "--workload", "randread"],
        &["run", "target", "--backend", "libaio"],
        &["run", "target", "--nfsvers", "3"],
        &["run", "target", "--files", "2", "--workload", "metadata"],
    ]));
}

#[test]
fn rejects_bad_jobs_of_fio() {
    let cli = Cli::new();
    let job = "[a]\nsize=1m\nbssplit=4k/50:8k/50\n[b]\nsize=1m\nexec_postrun=reboot\n";
    std::fs::write(cli.folder().join("job.fio"), job).unwrap();
    let with = |more: &[&'static str]| [&["run", "target", "--like", "job.fio"], more].concat();
    insta::assert_snapshot!(cli.errors_of(&[
        &["run", "target", "--like", "missing.fio"],
        &["run", "nfs://server/export", "--like", "job.fio"],
        &with(&[]),
        &with(&["--section", "a"]),
        &with(&["--section", "a", "--accept", "bssplit,bs"]),
        &with(&["--section", "b"]),
        &with(&["--section", "a", "--accept", "bssplit", "--file-size", "1GiB"]),
        &with(&["--quick"]),
        &["run", "target", "--section", "a"],
    ]));
}

#[test]
fn guesses_commands_and_options() {
    let cli = Cli::new();
    insta::assert_snapshot!(cli.errors_of(&[
        &["rnu", "target"],
        &["/srv/data"],
        &["run", "target", "--bs", "4k"],
        &["run", "target", "--iodepth", "4"],
        &["run", "target", "--rw", "read"],
        &["run", "target", "--nfsver", "3"],
    ]));
    // Nothing resembles it: there is no misleading tip.
    let end = cli.run(&["run", "target", "--colour", "red"]);
    assert_eq!((end.code, end.stderr.contains("tip:")), (2, false), "{end:?}");
}

#[test]
fn names_missing_folder_of_results() {
    let cli = Cli::new();
    for command in ["run", "report", "resume"] {
        let args = [command, "--results", "no/such/x.db"];
        cli.refused(&args, 2, &["the folder `no/such` of the results file does not exist"]);
    }
}

#[test]
fn rejects_unusable_directories() {
    let cli = Cli::new();
    std::fs::write(cli.folder().join("file"), "").unwrap();
    cli.refused(&["run", "nowhere"], 2, &["`nowhere` does not exist", "hint"]);
    cli.refused(&["run", "file/below"], 2, &["file/below"]);
    // No user, not even root, can create directories there.
    assert!(Path::new("/sys/kernel").is_dir());
    cli.refused(&["run", "/sys/kernel", "--file-size", "1MiB"], 2, &["/sys/kernel"]);
}

#[test]
fn rejects_file_set_beyond_file_system() {
    let cli = Cli::new();
    let set = ["--workload", "stream", "--file-size", "1TiB", "--files", "30"];
    let args = [&["run", "target"][..], &set].concat();
    cli.refused(&args, 2, &["not enough space", "30 TiB", "hint"]);
}

#[test]
fn rejects_bad_plans() {
    let cli = Cli::new();
    let plan = cli.folder().join("plan.toml");
    let head = "name = \"p\"\n[[target]]\nname = \"d\"\npath = \"target\"\n\n\
                [[workload]]\nkind = \"stream\"\n";
    std::fs::write(&plan, format!("{head}io_szie = \"4KiB\"\n")).unwrap();
    std::fs::write(cli.folder().join("no-toml.toml"), "trials = = 5\n").unwrap();
    insta::assert_snapshot!(cli.errors_of(&[
        &["run", "plan.toml"],
        &["run", "no-toml.toml"],
        &["run", "missing.toml"],
    ]));
}

#[test]
fn rejects_bad_addresses() {
    let cli = Cli::new();
    insta::assert_snapshot!(cli.errors_of(&[
        &["run", "nfs://"],
        &["run", "nfs://host"],
        &["run", "nfs://host/export?verison=3"],
        &["run", "nfs://host/export?version=9"],
        &["run", "http://host/export"],
        &["run", "s3://bucket"],
        &["run", "me@host:/export"],
        &["run", "10.0.0.1:2049/export"],
        &["run", "nfs:/host/export"],
        &["run", "nfs:host/export"],
        &["run", "nfs://host/export?vers=3"],
        &["run", "nfs://host/export?port=1"],
    ]));
}

#[test]
fn tolerates_closed_output_pipe() {
    let cli = Cli::new();
    let binary = env!("CARGO_BIN_EXE_dfsbench");
    let script = format!(
        "{binary} run null --workload mixed --duration 100ms --trials 1 --quiet | head -c 1; \
         echo \"${{PIPESTATUS[0]}}\""
    );
    let output = std::process::Command::new("bash")
        .args(["-c", &script])
        .current_dir(cli.folder())
        .output()
        .unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(stdout.ends_with("0\n"), "{stdout}");
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
    assert!(cli.folder().join("dfsbench.db").exists(), "what was measured is saved");
}

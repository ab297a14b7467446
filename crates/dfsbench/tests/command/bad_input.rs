//! Wrong arguments and targets: one clear error, exit code 2, nothing left behind.

use std::path::Path;

use crate::cli::Cli;

#[test]
fn rejects_bad_sizes_counts_and_names() {
    let cli = Cli::new();
    for (args, words) in [
        (&["--io-size", "12XB"][..], &["--io-size", "`12XB`", "64KiB"][..]),
        (&["--trials", "0"], &["--trials", "`0`"]),
        (&["--workers", "1,0"], &["--workers", "`0`"]),
        (&["--workload", "stram"], &["--workload", "stram", "stream"]),
        (&["--backend", "nfs"], &["nfs"]),
        (&["--io-size", "1MiB", "--file-size", "64KiB"], &["1 MiB", "64 KiB"]),
        (&["--direct=maybe"], &["--direct", "`maybe`"]),
        (&["--read-percent", "101"], &["--read-percent", "101"]),
        (&["--io-size", "4kb"], &["4000 bytes", "\"4KiB\""]),
        (&["--workers", "1-4"], &["`1..4`", "`1,4`"]),
        (&["--io-size", "4k-1m"], &["`4k..1m*2`"]),
        (&["--file-size", "100GB"], &["100GB", "\"100GiB\""]),
        (&["--rate", "2k", "--workload", "mixed"], &["`2k`", "`2000`"]),
        (&["--durability", "fsync"], &["did you mean `sync`?"]),
        (&["--proto", "TCP"], &["did you mean `tcp`?"]),
        (&["--scale", "2"], &["applies only to plans and presets", "`target`"]),
        (&["--duration", "-5s"], &["negative"]),
        (&["--workload", "randread"], &["`mixed`", "read_percent 100"]),
        (&["--backend", "libaio"], &["did you mean `uring`?"]),
        (&["--nfsvers", "3"], &["applies only to nfs:// targets", "`target` is a directory"]),
        (&["--files", "2", "--workload", "metadata"], &["does not apply to metadata"]),
    ] {
        let args: Vec<&str> = ["run", "target"].iter().chain(args).copied().collect();
        cli.refused(&args, 2, words);
    }
}

#[test]
fn guesses_commands_and_options() {
    let cli = Cli::new();
    for (args, words) in [
        (&["rnu", "target"][..], &["a similar subcommand exists: 'run'"][..]),
        (&["/srv/data"], &["dfsbench run /srv/data"]),
        (&["run", "target", "--bs", "4k"], &["it is called '--io-size' here"]),
        (&["run", "target", "--iodepth", "4"], &["it is called '--queue-depth' here"]),
        (&["run", "target", "--rw", "read"], &["it is called '--workload' here"]),
        (&["run", "target", "--nfsver", "3"], &["a similar argument exists: '--nfsvers'"]),
    ] {
        cli.refused(args, 2, words);
    }
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
fn directories_that_can_not_be_used() {
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
fn plans_that_are_wrong() {
    let cli = Cli::new();
    let plan = cli.folder().join("plan.toml");
    let head = "name = \"p\"\n[[target]]\nname = \"d\"\npath = \"target\"\n\n\
                [[workload]]\nkind = \"stream\"\n";
    std::fs::write(&plan, format!("{head}io_szie = \"4KiB\"\n")).unwrap();
    cli.refused(&["run", "plan.toml"], 2, &["plan.toml:8", "`io_szie`", "`io_size`"]);
    std::fs::write(&plan, "trials = = 5\n").unwrap();
    cli.refused(&["run", "plan.toml"], 2, &["plan.toml:1"]);
    cli.refused(&["run", "missing.toml"], 2, &["missing.toml"]);
}

#[test]
fn addresses_that_are_wrong() {
    let cli = Cli::new();
    for (url, word) in [
        ("nfs://", "nfs://"),
        ("nfs://host", "path"),
        ("nfs://host/export?verison=3", "version"),
        ("nfs://host/export?version=9", "version"),
        ("http://host/export", "did you mean `nfs://host/export`?"),
        ("s3://bucket", "mount any other"),
        ("me@host:/export", "`nfs://host/export`"),
        ("10.0.0.1:2049/export", "`nfs://10.0.0.1:2049/export`"),
        ("nfs:/host/export", "did you mean `nfs://host/export`?"),
        ("nfs:host/export", "did you mean `nfs://host/export`?"),
        ("nfs://host/export?vers=3", "it is called `version` here"),
        ("nfs://host/export?port=1", "nfs://host:port/path"),
    ] {
        cli.refused(&["run", url], 2, &[word]);
    }
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

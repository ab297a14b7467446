//! A file system for which the kernel does not report how much was read from storage.

use std::process::Command;

use crate::cli::{Cli, End};

/// Mounts an overlay in its own namespaces and runs a command there. If the first argument is
/// `storage`, the overlay uses the current directory, otherwise a tmpfs.
const SCRIPT: &str = "set -e; base=$1; shift; [ $base = storage ] || mount -t tmpfs none target; \
    cd target; mkdir lower upper work target; \
    mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work none target; exec \"$@\"";

const READ: [&str; 7] = [
    "run",
    "target",
    "--workload=stream",
    "--file-size=4MiB",
    "--io-size=64KiB",
    "--trials=1",
    "--quiet",
];

/// As root in its own namespace; `None` if the machine does not allow that without root.
fn on_an_overlay(base: &str, program: &str, args: &[&str]) -> Option<End> {
    let target = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::create_dir(target.path().join("target")).unwrap();
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", SCRIPT, "overlay", base]);
    command.arg(program).args(args).current_dir(target.path());
    let end = End::from_output(command.output().unwrap());
    (end.code == 0).then_some(end)
}

#[allow(clippy::print_stderr, reason = "a test that may not mount prints which user may")]
#[test]
fn notes_files_that_fit_in_memory() {
    let cli = Cli::new();
    assert!(!cli.run(&READ).stdout.contains("fits-memory"), "the kernel counts here");
    if on_an_overlay("storage", "true", &[]).is_none() {
        eprintln!("no overlay without root here: `cargo xtask real disk` plants it as root");
        return;
    }
    // On a tmpfs nothing is read from disk, with or without O_DIRECT. On a disk, O_DIRECT always
    // reads from it.
    for (base, direct, is_noted) in [
        ("memory", "--direct=false", true),
        ("memory", "--direct=true", true),
        ("storage", "--direct=true", false),
    ] {
        let args = [&READ[..], &[direct]].concat();
        let end = on_an_overlay(base, env!("CARGO_BIN_EXE_dfsbench"), &args).expect("measured");
        assert!(end.stdout.contains("stream read"), "{end:?}");
        assert_eq!(end.stdout.contains("fits-memory"), is_noted, "{base} {direct}: {}", end.stdout);
    }
}

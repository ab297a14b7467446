//! A file system of which the kernel doesn't tell how much was read from storage.

use std::process::Command;

use crate::rig::{End, Rig};

/// Mounts an overlay in namespaces of its own, and runs what follows there.
const SCRIPT: &str = "set -e; mkdir -p lower upper work; \
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

/// As root in a namespace of its own; `None` where the machine refuses that to who is not root.
fn on_an_overlay(rig: &Rig, program: &str, args: &[&str]) -> Option<End> {
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "bash", "-c", SCRIPT, "overlay"]);
    command.arg(program).args(args).current_dir(rig.folder());
    let end = End::of(command.output().unwrap());
    (end.code == 0).then_some(end)
}

#[allow(clippy::print_stderr, reason = "a test that may not mount prints which user may")]
#[test]
fn files_that_fit_in_memory_are_noted_where_nothing_tells_what_was_read() {
    let rig = Rig::new();
    assert!(!rig.run(&READ).stdout.contains("fits-memory"), "the kernel counts here");
    if on_an_overlay(&rig, "true", &[]).is_none() {
        eprintln!("no overlay without root here: `cargo xtask real disk` plants it as root");
        return;
    }
    for (direct, noted) in [("--direct=false", true), ("--direct=true", false)] {
        let args = [&READ[..], &[direct]].concat();
        let end = on_an_overlay(&rig, env!("CARGO_BIN_EXE_dfsbench"), &args).expect("measured");
        assert!(end.stdout.contains("stream read"), "{end:?}");
        assert_eq!(end.stdout.contains("fits-memory"), noted, "{direct}: {}", end.stdout);
    }
}

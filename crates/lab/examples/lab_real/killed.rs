//! Kills a process that sets this host up at many points, and cleans up after it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lab::LabError;
use model::{Action, FileSystem, action};

use crate::tuning::{mtu, shape, sysctl};
use crate::{Check, Host, apply_all, run};

/// Every check of this file.
pub(crate) const CHECKS: &[Check] =
    checks![leaves_nothing_after_kill, removes_only_files_after_reboot,];

/// How often to kill it.
const KILLS: u64 = 30;
/// Arguments that start the child, without and with the kernel's server.
pub(crate) const CHILD: &str = "child";
pub(crate) const KERNEL_CHILD: &str = "kernel-child";
const STATE: &str = "DFSBENCH_TEST_STATE";

fn actions(host: &std::path::Path) -> Vec<Action> {
    let mut actions = vec![
        mtu(9_000),
        shape(Some(1_000_000_000), None),
        sysctl("net.ipv4.tcp_rmem", "4096 131072 1048576"),
    ];
    let disk = host.join("disks/disk");
    actions.extend(crate::storage::stack(disk, FileSystem::Ext4, 32 << 20));
    let directory = crate::storage::POINT.into();
    actions.push(Action::Ganesha(action::Ganesha { directory, threads: 0, versions: Vec::new() }));
    actions
}

/// The child to be killed: sets this host up and restores it, over and over.
pub(crate) fn child_that_never_ends(word: &str) {
    let folder = std::env::var_os(STATE).map(std::path::PathBuf::from).expect("a folder");
    let mut lab = lab::Lab::open(&folder.join("state"), "killed", Vec::new()).unwrap();
    let actions = match word {
        KERNEL_CHILD => crate::kernel::tunnelled(&folder.join("disk")),
        _ => actions(&folder),
    };
    loop {
        apply_all(&mut lab, &actions);
        lab.undo_all().unwrap();
    }
}

fn start(host: &Host, word: &str) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.arg(word);
    command.env(STATE, host.folder.path()).stdin(Stdio::null()).stdout(Stdio::null());
    command.spawn().unwrap()
}

fn leaves_nothing_after_kill() {
    // A round of the child takes about three seconds.
    let found = kill_often(&Host::new(), CHILD, KILLS, 4_000);
    assert!(found > 30, "the child was rarely killed in the middle of its work: {found} changes");
}

/// Repeatedly kills the child within the given number of milliseconds after its start, and cleans
/// up; returns the number of changes that it made.
pub(crate) fn kill_often(host: &Host, word: &str, kills: u64, within_ms: u64) -> usize {
    let before = host.traces();
    // A fixed seed, spread over a whole round of the child.
    let mut random = 0x2545_f491_4f6c_dd1d_u64;
    let mut found = 0;
    for kill in 0..kills {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let mut child = start(host, word);
        std::thread::sleep(Duration::from_millis(20 + random % within_ms));
        assert!(child.try_wait().unwrap().is_none(), "kill {kill}: the child failed");
        child.kill().unwrap();
        child.wait().unwrap();
        // If the child had not begun yet, the log is not locked.
        if let Err(error) = lab::Lab::open(&host.state(), "next", Vec::new()) {
            assert!(matches!(error, LabError::Leftovers(_)), "{error}");
        }
        let cleaned = lab::clean(&host.state()).unwrap();
        found += cleaned.len();
        for one in &cleaned {
            assert!(one.outcome.is_ok(), "kill {kill}: {one:?}");
        }
        host.assert_as_before(&before);
        assert!(lab::clean(&host.state()).unwrap().is_empty());
    }
    found
}

/// After a reboot, kernel state is gone, and current settings belong to other programs.
fn removes_only_files_after_reboot() {
    let host = Host::new();
    let before = host.traces();
    let mut lab = host.lab();
    apply_all(&mut lab, &[mtu(9_000)]);
    apply_all(
        &mut lab,
        &crate::storage::stack(host.path("disks/disk"), FileSystem::Ext4, 32 << 20),
    );
    drop(lab);
    // Simulates a reboot.
    run(&["umount", crate::storage::POINT]);
    run(&["ip", "link", "set", "lo", "mtu", "2000"]);
    let log = host.state().join("undo.jsonl");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let text = std::fs::read_to_string(&log).unwrap();
    assert!(text.contains(boot.trim()), "{text}");
    let disk = host.path("disks/disk");
    run(&["losetup", "--detach", &loop_of(&disk)]);
    std::fs::write(&log, text.replace(boot.trim(), "an-earlier-boot")).unwrap();
    let cleaned = lab::clean(&host.state()).unwrap();
    assert!(cleaned.len() >= 4 && cleaned.iter().all(|one| one.outcome.is_ok()), "{cleaned:?}");
    assert!(!disk.exists() && run(&["ip", "link", "show", "lo"]).contains("mtu 2000"));
    run(&["ip", "link", "set", "lo", "mtu", "65536"]);
    host.assert_as_before(&before);
}

fn loop_of(file: &std::path::Path) -> String {
    let file = file.to_str().unwrap();
    let output = run(&["losetup", "--associated", file, "--noheadings", "--output", "NAME"]);
    output.trim().to_owned()
}

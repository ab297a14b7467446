//! Tests with the kernel's server and client, md and dm-crypt, on a virtual machine that has them.
//!
//! Only we use the machine: its exports are changed, stopped and restored.

use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use lab::{Lab, compose, redo_from};
use model::{
    Action, DataPath, FileSystem, Invalidation, LabSpec, LabStep, NfsVersion, Raid, Storage, action,
};

use crate::killed::{KERNEL_CHILD, kill_often};
use crate::storage::POINT;
use crate::tuning::shape;
use crate::{Check, Host, apply_all, fact, read, run};

/// Every check of this file.
pub(crate) const CHECKS: &[Check] = checks![
    changes_and_restores_running_server,
    serves_requested_versions_and_sizes,
    restarted_server_reads_from_disk,
    keeps_foreign_exports,
    creates_and_removes_arrays,
    a_stopped_host_is_stopped_again,
    tunnel_carries_nfs,
    delays_every_packet,
    cut_blocks_only_nfs,
    restores_stopped_server,
    switches_localio_if_supported,
    leaves_no_kernel_state_after_kill,
];

/// How often to kill a process that sets this machine up, and within how many milliseconds: an
/// emulated machine takes about ten seconds for a setup.
const KILLS: (u64, u64) = (5, 12_000);

const MOUNT: &str = "/run/dfsbench/mount";
const MIB: u64 = 1 << 20;

/// State of the kernel's server.
fn server() -> Vec<String> {
    let file = |name: &str| {
        let text = fs::read_to_string(format!("/proc/fs/nfsd/{name}")).unwrap_or_default();
        format!("{name}: {}", text.trim())
    };
    let mut all: Vec<String> = ["threads", "versions", "max_block_size"].map(file).to_vec();
    // A v6 socket may be at another position of the list.
    let mut ports: Vec<String> = file("portlist").lines().map(str::to_owned).collect();
    ports.sort();
    all.extend(ports);
    all.push(run(&["exportfs", "-v"]));
    all
}

fn nfsd(threads: u32, versions: &[NfsVersion], udp: bool, transfer_max_bytes: u32) -> Action {
    let versions = versions.to_vec();
    let nfsd =
        action::Nfsd { threads, threads_min: 0, versions, udp, rdma: false, transfer_max_bytes };
    Action::Nfsd(nfsd)
}

fn mount(options: &str) -> Action {
    Action::NfsMount(action::NfsMount {
        trunk_connections: None,
        source: format!("127.0.0.1:{POINT}"),
        point: MOUNT.into(),
        options: options.split(',').map(str::to_owned).collect(),
    })
}

fn export(options: &str) -> Action {
    Action::Export(action::Export {
        directory: POINT.into(),
        clients: "127.0.0.1".to_owned(),
        options: options.split(',').map(str::to_owned).collect(),
    })
}

/// The kernel's server on a disk of the host, mounted by the host itself.
fn loopback(disk: &Path) -> LabSpec {
    let here = model::Host::local("here");
    let mut spec = LabSpec::new(here.clone(), here);
    spec.path = DataPath::Loopback;
    spec.storage = Storage {
        devices: vec![disk.to_owned()],
        loop_bytes: 64 * MIB,
        file_system: FileSystem::Ext4,
        mount_options: vec!["noatime".to_owned()],
        ..Storage::default()
    };
    spec.serving.export_options = vec!["async".to_owned(), "no_root_squash".to_owned()];
    spec.serving.threads.max = 3;
    spec.mounting.nfs.version = NfsVersion::V4_2;
    spec.mounting.read_ahead_kib = Some(512);
    spec
}

fn actions(steps: &[LabStep]) -> Vec<Action> {
    steps.iter().map(|step| step.action.clone()).collect()
}

fn changes_and_restores_running_server() {
    let host = Host::machine();
    let before = host.traces();
    let mut lab = host.lab();
    let server_before = server();
    apply_all(&mut lab, &actions(&compose(&loopback(&host.path("disk"))).unwrap()));
    assert_eq!(read("/proc/fs/nfsd/threads").trim(), "3");
    fs::write(format!("{MOUNT}/file"), "something").unwrap();
    assert_eq!(read(&format!("{POINT}/file")), "something");
    let again = lab.apply(&export("rw")).unwrap_err().to_string();
    assert!(again.contains("is already exported to 127.0.0.1"), "{again}");
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
    assert_eq!(server(), server_before);
}

fn serves_requested_versions_and_sizes() {
    let host = Host::machine();
    let before = host.traces();
    let mut lab = host.lab();
    let server_before = server();
    let found = lab.apply(&nfsd(2, &[NfsVersion::V3], true, 32_768)).unwrap();
    assert_eq!(found.differences, []);
    assert!(fact(&found, "versions of nfsd").contains("+3"), "{found:?}");
    assert!(read("/proc/fs/nfsd/portlist").contains("udp"));
    let memory = Action::Mount(action::Mount {
        device: None,
        file_system: FileSystem::Tmpfs,
        point: POINT.into(),
        options: Vec::new(),
    });
    apply_all(&mut lab, &[memory, export("rw,async,no_subtree_check,fsid=3573,no_wdelay")]);
    let error = lab.apply(&mount("vers=4.2,proto=tcp")).unwrap_err().to_string();
    assert!(error.contains("mount -t nfs -o vers=4.2"), "{error}");
    let found = lab.apply(&mount("vers=3,proto=tcp,nolock,rsize=65536,nconnect=2")).unwrap();
    let names: Vec<&str> = found.differences.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["rsize"], "{found:?}");
    assert_eq!((found.differences[0].found.as_str(), fact(&found, "connections")), ("32768", "2"));
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
    assert_eq!(server(), server_before);
}

fn restarted_server_reads_from_disk() {
    let host = Host::machine();
    let mut lab = host.lab();
    let steps = compose(&loopback(&host.path("disk"))).unwrap();
    apply_all(&mut lab, &actions(&steps));
    let file = format!("{MOUNT}/file");
    fs::write(&file, vec![7; 4 << 20]).unwrap();
    run(&["sync"]);
    assert_client_keeps(&file, &host, "after it was written");
    let all = [Invalidation::Remount, Invalidation::ServerRemount, Invalidation::ServerRestart];
    for how in all {
        invalidate(&mut lab, &steps, how);
        let (of_server, of_disk) = reads(&file, &host);
        assert!(of_server >= 4 * MIB, "{how}: only {of_server} bytes came from the server");
        assert!(of_disk >= 4 * MIB, "{how}: only {of_disk} bytes came from the disk");
        assert_client_keeps(&file, &host, &how.to_string());
    }
    lab.undo_all().unwrap();
}

/// The invalidation between two passes.
fn invalidate(lab: &mut Lab, steps: &[LabStep], how: Invalidation) {
    let from = redo_from(steps, how);
    for _ in from..steps.len() {
        lab.undo_last().unwrap();
    }
    lab.invalidate(how, Some(Path::new(POINT))).unwrap();
    apply_all(lab, &actions(&steps[from..]));
    // Otherwise the next pass would include the time during which it may not open files.
    assert_eq!(
        read("/proc/fs/nfsd/v4_end_grace").trim(),
        "Y",
        "{how}: the server is still in its grace period"
    );
}

/// Asserts that the client reads a file from its own memory once it has cached it.
///
/// If two replies overtake each other, the kernel's client drops its copy and reads the file again,
/// so it has several attempts. Without a cache, every attempt goes to the server.
fn assert_client_keeps(file: &str, host: &Host, when: &str) {
    const READINGS: usize = 5;
    let mut seen = Vec::new();
    for _ in 0..READINGS {
        seen.push(reads(file, host));
        if seen.last().is_some_and(|(of_server, _)| *of_server == 0) {
            return;
        }
    }
    panic!("{when}: the client's page cache stays empty; bytes from server and disk: {seen:?}");
}

/// Reads a file; returns the bytes that the server sent for it, and those that its disk read.
fn reads(file: &str, host: &Host) -> (u64, u64) {
    let count = || (bytes_of_server(), bytes_of_disk(&host.path("disk")));
    let before = count();
    assert_eq!(fs::read(file).unwrap().len() as u64, 4 * MIB);
    let after = count();
    (after.0 - before.0, after.1 - before.1)
}

fn bytes_of_server() -> u64 {
    let text = read("/proc/self/mountstats");
    let (_, mine) = text.split_once(&format!("mounted on {MOUNT} ")).unwrap();
    let line = mine.lines().find_map(|line| line.trim().strip_prefix("bytes:")).unwrap();
    line.split_whitespace().nth(4).unwrap().parse().unwrap()
}

fn bytes_of_disk(file: &Path) -> u64 {
    let name = run(&[
        "losetup",
        "--associated",
        file.to_str().unwrap(),
        "--noheadings",
        "--output",
        "NAME",
    ]);
    let text = read(&format!("/sys/block/{}/stat", name.trim().rsplit('/').next().unwrap()));
    // In sectors of 512 bytes.
    text.split_whitespace().nth(2).unwrap().parse::<u64>().unwrap() * 512
}

fn keeps_foreign_exports() {
    let host = Host::machine();
    let mut lab = host.lab();
    let theirs = host.path("theirs");
    fs::create_dir(&theirs).unwrap();
    let theirs_name = format!("10.9.9.9:{}", theirs.display());
    run(&["exportfs", "-o", "ro,no_subtree_check", theirs_name.as_str()]);
    let before = server();
    for (directory, why) in [(theirs.as_path(), "not by dfsbench"), (Path::new("/"), "the root")] {
        let action = Action::Export(action::Export {
            directory: directory.to_owned(),
            clients: "127.0.0.1".to_owned(),
            options: Vec::new(),
        });
        let error = lab.apply(&action).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    assert_eq!(server(), before);
    run(&["exportfs", "-u", theirs_name.as_str()]);
}

fn creates_and_removes_arrays() {
    let host = Host::machine();
    let before = host.traces();
    let mut lab = host.lab();
    let mut spec = loopback(&host.path("disk"));
    spec.path = DataPath::Disk;
    let disks = ["a", "b", "c", "d"].map(|name| host.path(name));
    for (level, crypt) in [(Raid::Raid0, true), (Raid::Raid1, false), (Raid::Raid5, true)] {
        spec.storage.devices = disks[..if level == Raid::Raid5 { 3 } else { 2 }].to_vec();
        spec.storage.raid = level;
        spec.storage.crypt = crypt;
        spec.storage.loop_bytes = 48 * MIB;
        apply_all(&mut lab, &actions(&compose(&spec).unwrap()));
        fs::write(format!("{POINT}/file"), "something").unwrap();
        lab.undo_all().unwrap();
        host.assert_as_before(&before);
        assert!(!read("/proc/mdstat").contains("active"), "{level}");
    }
}

fn a_stopped_host_is_stopped_again() {
    let host = Host::machine();
    let before = host.traces();
    let mut lab = host.lab();
    let was: PathBuf = "/proc/fs/nfsd/threads".into();
    let threads = read(was.to_str().unwrap());
    run(&["rpc.nfsd", "0"]);
    let steps = compose(&loopback(&host.path("disk"))).unwrap();
    apply_all(&mut lab, &actions(&steps));
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
    assert_eq!(read(was.to_str().unwrap()).trim(), "0");
    run(&["rpc.nfsd", threads.trim()]);
}

/// Not every kernel has netem, but those of the virtual machines do.
fn delays_every_packet() {
    const DELAY_US: u32 = 20_000;
    let host = Host::machine();
    let before = host.traces();
    let mut lab = host.lab();
    apply_all(&mut lab, &[shape(None, Some(DELAY_US))]);
    let begun = Instant::now();
    // To rpcbind and back: two packets before a connection is established.
    TcpStream::connect("127.0.0.1:111").unwrap();
    let took = begun.elapsed();
    lab.undo_all().unwrap();
    assert!(took >= 2 * Duration::from_micros(DELAY_US.into()), "{took:?}");
    host.assert_as_before(&before);
}

fn cut_blocks_only_nfs() {
    let host = Host::machine();
    let before = host.traces();
    let mut lab = host.lab();
    let answers = |port: u16| {
        let limit = Duration::from_secs(2);
        TcpStream::connect_timeout(&([127, 0, 0, 1], port).into(), limit).is_ok()
    };
    assert!(answers(111) && answers(2_049));
    apply_all(&mut lab, &[Action::Cut(action::Cut { interface: "lo".to_owned(), port: 2_049 })]);
    assert!(answers(111) && !answers(2_049));
    lab.undo_all().unwrap();
    assert!(answers(2_049));
    host.assert_as_before(&before);
}

fn restores_stopped_server() {
    let host = Host::machine();
    let before = host.traces();
    let was = server();
    let mut lab = host.lab();
    apply_all(&mut lab, &[Action::NfsdStop(action::NfsdStop {})]);
    assert_eq!(read("/proc/fs/nfsd/threads").trim(), "0");
    assert!(
        lab.apply(&Action::NfsdStop(action::NfsdStop {}))
            .unwrap_err()
            .to_string()
            .contains("nfsd is not running")
    );
    lab.undo_all().unwrap();
    assert_eq!(server(), was);
    host.assert_as_before(&before);
}

fn switches_localio_if_supported() {
    const PARAMETER: &str = "/sys/module/nfs/parameters/localio_enabled";
    let host = Host::machine();
    let mut lab = host.lab();
    let set = |is_on| Action::Localio(action::Localio { is_on });
    run(&["modprobe", "nfs"]);
    if !Path::new(PARAMETER).exists() {
        let found = lab.apply(&set(false)).unwrap();
        assert_eq!(fact(&found, "LOCALIO"), "not in this kernel");
        let error = lab.apply(&set(true)).unwrap_err().to_string();
        assert!(error.contains("not supported by kernel"), "{error}");
        return lab.undo_all().unwrap();
    }
    let before = read(PARAMETER);
    for (is_on, letter) in [(false, "N"), (true, "Y"), (false, "N")] {
        apply_all(&mut lab, &[set(is_on)]);
        assert_eq!(read(PARAMETER).trim(), letter);
    }
    lab.undo_all().unwrap();
    assert_eq!(read(PARAMETER), before);
}

fn leaves_no_kernel_state_after_kill() {
    let host = Host::machine();
    let before = server();
    // The ssh configuration belongs to the user: it exists before, and is kept.
    let _ = tunnelled(&host.path("disk"));
    let found = kill_often(&host, KERNEL_CHILD, KILLS.0, KILLS.1);
    assert!(
        found as u64 > KILLS.0,
        "the child was rarely killed in the middle of its work: {found} changes"
    );
    assert_eq!(server(), before);
}

/// Actions for a file, the kernel's server on it, a tunnel, and a mount on this machine.
pub(crate) fn tunnelled(disk: &Path) -> Vec<Action> {
    let mut spec = loopback(disk);
    spec.path = DataPath::Tunnel;
    let config = disk.with_file_name("ssh_config");
    let options = "IdentityFile /root/lab_key\nStrictHostKeyChecking no\n\
                   UserKnownHostsFile /dev/null\n";
    fs::write(&config, options).unwrap();
    spec.server.ssh = Some("root@127.0.0.1".to_owned());
    spec.server.ssh_config = Some(config);
    spec.tunnelling.cipher = Some("aes128-ctr".to_owned());
    actions(&compose(&spec).unwrap())
}

/// The machine's own ssh, with the key that xtask has installed, connects to itself.
fn tunnel_carries_nfs() {
    let host = Host::machine();
    let actions = tunnelled(&host.path("disk"));
    let before = host.traces();
    let mut lab = host.lab();
    apply_all(&mut lab, &actions);
    fs::write(format!("{MOUNT}/file"), "something").unwrap();
    assert_eq!(read(&format!("{POINT}/file")), "something");
    assert!(read("/proc/self/mountstats").contains("port=20490"));
    lab.undo_all().unwrap();
    host.assert_as_before(&before);
}

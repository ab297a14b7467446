//! Caveats about `O_DIRECT` that a file system ignores, and about programs on mounts.

use agent::caveats::{RESIDENT_SHARE_MAX, RunCounts, about_direct, about_run};
use engine::RunReads;
use engine::residency::Residency;
use fleet::Report;
use lab::mounts::Mount;
use model::{CaveatCode, OpKind, Pass, PassResult, RunSpec, Workload};

use crate::driven_agent::{DrivenAgent, stream};
use crate::mount::{nfs_mount, telemetry};

fn evidence(agent: &mut DrivenAgent, pass: Pass) -> Option<String> {
    let end = agent.run(pass);
    assert_eq!(end.broken, None);
    let mut caveats = end.result.caveats.into_iter();
    let found = caveats.find(|caveat| caveat.code == CaveatCode::OptionNotEffective)?;
    Some(found.evidence)
}

fn direct_spec(path: &std::path::Path) -> RunSpec {
    RunSpec { direct: true, file_size_bytes: 4 << 20, ..stream(path) }
}

/// From Linux 6.6 on, files on tmpfs can be opened with `O_DIRECT`, but go through the page cache;
/// older kernels refuse to open them.
#[test]
fn reports_direct_io_on_tmpfs() {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut agent = DrivenAgent::new();
    let begun = agent.try_begin(&direct_spec(memory.path()));
    if opens_direct(memory.path()) {
        assert!(matches!(begun, Report::Begun(_)), "{begun:?}");
        let evidence = evidence(&mut agent, Pass::Write).expect("the caveat was not raised");
        assert!(evidence.contains("1024 of 1024 pages"), "{evidence}");
    } else {
        let Report::Failed(reason) = begun else { panic!("{begun:?}") };
        assert!(reason.contains("O_DIRECT (hint: --direct false)"), "{reason}");
    }
}

/// Returns true if the file system opens files with `O_DIRECT`; fails for any error except EINVAL.
fn opens_direct(directory: &std::path::Path) -> bool {
    let mut dd = std::process::Command::new("dd");
    dd.env("LC_ALL", "C").args(["if=/dev/zero", "of=probe", "oflag=direct", "bs=64k", "count=1"]);
    let output = dd.current_dir(directory).output().unwrap();
    // An open that is refused may have created the file, or not.
    std::fs::remove_file(directory.join("probe")).ok();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() || error.contains("Invalid argument"), "{error}");
    output.status.success()
}

#[test]
fn accepts_direct_io_that_reaches_storage() {
    let storage = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut agent = DrivenAgent::new();
    agent.begin(&direct_spec(storage.path()));
    for pass in [Pass::Write, Pass::Rewrite, Pass::Read] {
        assert_eq!(evidence(&mut agent, pass), None, "{pass}");
    }
}

#[test]
fn ignores_pages_cached_before() {
    let pages = |resident_pages| Some(Residency { resident_pages, pages: 1000 });
    let at_bound = (RESIDENT_SHARE_MAX * 1000.0) as u64;
    assert_eq!(about_direct(Pass::Read, pages(0), pages(at_bound)), None);
    assert!(about_direct(Pass::Read, pages(0), pages(at_bound + 1)).is_some());
    assert_eq!(about_direct(Pass::Read, pages(900), pages(900 + at_bound)), None);
    assert_eq!(about_direct(Pass::Read, pages(900), None), None);
    // Otherwise its previous content would be lost.
    assert!(about_direct(Pass::Rewrite, pages(900), pages(900)).is_some());
}

#[test]
fn judges_mounted_program_by_wire_bytes() {
    let mount = nfs_mount();
    let result = |pass, kind, bytes| PassResult {
        pass,
        kinds: vec![crate::mount::done(kind, bytes)],
        ..crate::figures::result()
    };
    let evidence_of = |wire, result: &PassResult| {
        let telemetry = telemetry(&[("server_read_bytes", wire)]);
        let reads = RunReads { read_bytes: 200, storage_read_bytes: 0 };
        let run = RunCounts { workload: Workload::Iozone, reads, telemetry: Some(&telemetry) };
        about_run(&run, result, Some(&mount)).map(|caveat| caveat.evidence)
    };
    let read = result(Pass::Read, OpKind::Read, 100);
    assert_eq!(evidence_of(180, &read), None);
    insta::assert_snapshot!(evidence_of(179, &read).unwrap());
    assert_eq!(evidence_of(0, &result(Pass::Write, OpKind::Write, 100)), None);
}

#[test]
fn trusts_program_that_read_storage() {
    let mount = Mount { file_system: "ext4".to_owned(), ..nfs_mount() };
    let overlay = Mount { file_system: "overlay".to_owned(), ..nfs_mount() };
    let kinds = vec![crate::mount::done(OpKind::Read, 100)];
    let result = PassResult { pass: Pass::Read, kinds, ..crate::figures::result() };
    let is_cached = |storage_read_bytes, mount: &Mount| {
        let reads = RunReads { read_bytes: 200, storage_read_bytes };
        let run = RunCounts { workload: Workload::Bonniexx, reads, telemetry: None };
        about_run(&run, &result, Some(mount)).is_some()
    };
    assert!(is_cached(179, &mount) && !is_cached(180, &mount));
    assert!(!is_cached(0, &overlay));
}

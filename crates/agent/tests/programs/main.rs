//! Programs that work for us: their results, their failures, and their leftovers.
//!
//! They keep the machine busy, so they have their own test program: other tests measure times.

#[path = "../agent_thread/mod.rs"]
mod agent_thread;
#[allow(dead_code, reason = "not every test uses all of it")]
#[path = "../caveats/driven_agent.rs"]
mod driven_agent;

use std::path::Path;

use fleet::{PassEnd, Report, TrialAbort};
use model::work::Command;
use model::{
    BackendKind, CaveatCode, Durability, Impossible, NfsTarget, OpKind, Pass, RunSpec, Target,
    Workload,
};

use driven_agent::{BusyProcesses, DrivenAgent, codes, evidence, stream};

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

fn app(path: &Path, run: &str) -> RunSpec {
    let command = Command { run: words(run), ..Command::default() };
    RunSpec { workload: Workload::App, command, ..stream(path) }
}

fn tool(path: &Path, workload: Workload, passes: &[Pass]) -> RunSpec {
    RunSpec {
        workload,
        passes: passes.to_vec(),
        file_size_bytes: 8 << 20,
        timeout_ms: 600_000,
        ..stream(path)
    }
}

/// The reason why the trial of an app could not continue.
fn reason(end: &PassEnd) -> &str {
    let Some(TrialAbort::Failed(reason)) = &end.broken else { panic!("{:?}", end.broken) };
    reason
}

#[test]
fn times_tar_of_generated_tree() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = app(folder.path(), "tar -cf copy.tar tree");
    spec.command.setup = words("dfsbench:tree files=300");
    spec.command.cleanup = words("rm copy.tar");
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let PassEnd { result, facts, broken, .. } = agent.run(Pass::App);
    assert_eq!(broken, None);
    let [execute] = result.kinds.as_slice() else { panic!("{:?}", result.kinds) };
    assert_eq!((execute.kind, execute.issued, execute.done), (OpKind::Execute, 1, 1));
    assert!(result.window_ns > 0 && result.client_cpu_ns > 0);
    assert_eq!(execute.service_time.max(), result.window_ns);
    for name in ["wall time", "user time", "system time", "largest memory"] {
        let name = format!("app: {name}");
        assert!(facts.iter().any(|fact| fact.name == name && !fact.value.is_empty()), "{name}");
    }
    agent.end();
    assert_eq!(folder.path().read_dir().unwrap().count(), 0);
}

#[test]
fn runs_tools_of_developers() {
    for (form, command) in [
        ("archive", "tar -xf tree.tar --one-top-level=unpacked"),
        ("repository", "git clone --quiet --no-hardlinks tree clone"),
        ("repository", "git -C tree diff --quiet --exit-code HEAD"),
        ("copy", "diff --recursive tree copy"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = app(folder.path(), command);
        spec.command.setup = words(&format!("dfsbench:tree files=50 as={form}"));
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        assert_eq!(agent.run(Pass::App).broken, None, "{command}");
        agent.end();
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "{command}");
    }
}

#[test]
fn builds_small_tree() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = app(folder.path(), "make --directory tree --jobs 2");
    spec.command.setup = words("dfsbench:tree files=6 needs=make,cc");
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let end = agent.run(Pass::App);
    assert_eq!(end.broken, None);
    let work = folder.path().read_dir().unwrap().next().unwrap().unwrap().path();
    assert!(work.join("tree/program").is_file());
}

#[test]
fn reports_code_and_last_lines() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = DrivenAgent::new();
    agent.begin(&app(folder.path(), "tar -cf copy.tar not-there"));
    let end = agent.run(Pass::App);
    assert!(codes(&end).contains(&CaveatCode::Errors));
    let reason = reason(&end);
    assert!(reason.starts_with("app: tar: exit code 2: "), "{reason}");
    assert!(reason.contains("not-there: Cannot stat"), "{reason}");
    assert_eq!(end.result.errors(), 1);
}

#[test]
fn ends_command_that_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = app(folder.path(), "sleep 60");
    spec.command.limit_ms = 300;
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let end = agent.run(Pass::App);
    assert!(reason(&end).contains("still running after 3"), "{}", reason(&end));
    assert!(end.result.window_ns < 5_000_000_000);
}

#[test]
fn ends_tool_that_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = tool(folder.path(), Workload::Fio, &[Pass::Mix]);
    spec.read_percent = 50;
    spec.duration_ms = 60_000;
    spec.timeout_ms = 300;
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let end = agent.run(Pass::Mix);
    let why = reason(&end);
    assert!(why.contains("fio: still running after") && why.contains("a longer timeout"), "{why}");
}

#[test]
fn ends_hanging_setup_and_cleanup() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = app(folder.path(), "true");
    spec.command.setup = words("sleep 60");
    spec.command.limit_ms = 300;
    let why = match DrivenAgent::new().try_begin(&spec) {
        Report::Failed(reason) => reason,
        other => panic!("{other:?}"),
    };
    assert!(why.contains("setup `sleep 60` failed: "), "{why}");
    spec.command.cleanup = std::mem::take(&mut spec.command.setup);
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    assert_eq!(agent.run(Pass::App).broken, None);
    let Report::Failed(why) = agent.try_end() else { panic!("it ended well") };
    assert!(why.contains("cleanup `sleep 60` failed: "), "{why}");
}

#[test]
fn names_package_of_missing_program() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = app(folder.path(), "true");
    let refused = |spec: &RunSpec| match DrivenAgent::new().try_begin(spec) {
        Report::Failed(reason) => reason,
        other => panic!("{other:?}"),
    };
    let reasons = ["no-such-set-up", "dfsbench:tree files=none"].map(|setup| {
        spec.command.setup = words(setup);
        refused(&spec)
    });
    insta::assert_snapshot!(reasons.join("\n"));
    spec.command.setup = words("cat /not/there");
    assert!(refused(&spec).contains("setup `cat /not/there` failed: exit code 1"));
}

#[test]
fn reports_target_without_path() {
    let nfs = Target::Nfs(NfsTarget::new("h", "/e"));
    let spec = RunSpec { target: nfs, backend: BackendKind::Nfs, ..app(Path::new("/"), "true") };
    assert_eq!(spec.impossible(), Some(Impossible::ProgramElsewhere));
}

#[test]
fn runs_dd_and_fio() {
    for workload in [Workload::Dd, Workload::Fio] {
        let folder = tempfile::tempdir().unwrap();
        let spec = tool(folder.path(), workload, &[Pass::Write, Pass::Read]);
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        for pass in [Pass::Write, Pass::Read] {
            let PassEnd { result, broken, .. } = agent.run(pass);
            assert_eq!(broken, None, "{workload}");
            assert_eq!((result.ops(), result.bytes()), (128, 8 << 20), "{workload} {pass}");
            assert!(
                result
                    .cross_checks
                    .iter()
                    .all(|cross_check| cross_check.expected == cross_check.found)
            );
            let times = u64::from(workload == Workload::Fio) * 128;
            assert_eq!(result.response_time().count(), times, "{workload} {pass}");
        }
    }
}

#[test]
fn runs_timed_fio_mix() {
    let folder = tempfile::tempdir().unwrap();
    let mut spec = tool(folder.path(), Workload::Fio, &[Pass::Mix]);
    spec.read_percent = 50;
    spec.duration_ms = 300;
    spec.workers = 2;
    spec.files = 2;
    spec.backend = BackendKind::Uring;
    spec.queue_depth = 4;
    let mut agent = DrivenAgent::new();
    agent.begin(&spec);
    let PassEnd { result, broken, .. } = agent.run(Pass::Mix);
    assert_eq!(broken, None);
    assert!((300_000_000..2_000_000_000).contains(&result.window_ns), "{}", result.window_ns);
    let kinds: Vec<OpKind> = result.kinds.iter().map(|kind| kind.kind).collect();
    assert_eq!(kinds, [OpKind::Read, OpKind::Write, OpKind::Sync]);
}

#[test]
fn runs_iozone_and_bonnie_passes() {
    let cases = [
        (Workload::Iozone, vec![Pass::Write, Pass::Reread, Pass::RandomRead]),
        (Workload::Bonniexx, vec![Pass::Write, Pass::Update, Pass::Read, Pass::Seeks]),
    ];
    for (workload, passes) in cases {
        let folder = tempfile::tempdir().unwrap();
        let mut spec = tool(folder.path(), workload, &passes);
        spec.durability = Durability::None;
        let mut agent = DrivenAgent::new();
        agent.begin(&spec);
        for pass in passes {
            let PassEnd { result, broken, .. } = agent.run(pass);
            assert_eq!(broken, None, "{workload}");
            assert!(result.ops() > 0 && result.window_ns > 0, "{workload} {pass}");
            // bonnie++ syncs its files although that was not requested.
            let syncs = result.kinds.iter().any(|kind| kind.kind == OpKind::Sync);
            let unrequested = workload == Workload::Bonniexx && pass.writes();
            assert_eq!(syncs, unrequested, "{workload} {pass}");
            let reported = result.caveats.iter().map(|caveat| caveat.code).collect::<Vec<_>>();
            assert_eq!(
                reported.contains(&CaveatCode::OptionNotEffective),
                unrequested,
                "{reported:?}"
            );
            assert!(!reported.contains(&CaveatCode::NotDurable) || !unrequested, "{reported:?}");
        }
    }
}

#[test]
fn reports_contention_beside_programs() {
    let folder = tempfile::tempdir_in("/dev/shm").unwrap();
    let mut fio = tool(folder.path(), Workload::Fio, &[Pass::Mix]);
    fio.read_percent = 50;
    fio.duration_ms = 1_000;
    let mut dd = tool(folder.path(), Workload::Dd, &[Pass::Write]);
    // Small blocks, so that the run is long enough to be measured.
    dd.file_size_bytes = 128 << 20;
    dd.io_size_bytes = 512;
    let [mut iozone, mut bonnie] = [Workload::Iozone, Workload::Bonniexx]
        .map(|kind| tool(folder.path(), kind, &[Pass::Write]));
    iozone.file_size_bytes = 512 << 20;
    iozone.io_size_bytes = 4 << 10;
    bonnie.file_size_bytes = 32 << 20;
    let _hogs = BusyProcesses::start();
    for spec in [fio, dd, iozone, bonnie] {
        // A program may exit before the kernel has counted enough ticks.
        let stated = (0..5).find_map(|_| {
            let mut agent = DrivenAgent::new();
            agent.begin(&spec);
            let PassEnd { result, broken, .. } = agent.run(spec.passes()[0]);
            assert_eq!(broken, None, "{}", spec.workload);
            agent.end();
            evidence(&result.caveats, CaveatCode::ProcessorContention).map(str::to_owned)
        });
        let stated = stated.unwrap_or_else(|| panic!("{} was not named", spec.workload));
        assert!(stated.starts_with("the program's threads were runnable"), "{stated}");
        // Names the other programs; on a busy machine those may not be ours.
        assert!(stated.contains(" other processes ") && stated.contains(" % ("), "{stated}");
    }
}

#[test]
fn names_tracer_of_program() {
    let folder = tempfile::tempdir().unwrap();
    let traced = |command: &str| {
        let mut agent = DrivenAgent::new();
        agent.begin(&app(folder.path(), command));
        let PassEnd { result, broken, .. } = agent.run(Pass::App);
        assert_eq!(broken, None);
        evidence(&result.caveats, CaveatCode::Traced).map(str::to_owned)
    };
    let stated = traced("strace -o /dev/null sleep 2").expect("traced");
    assert!(stated.starts_with("traced by strace (pid "), "{stated}");
    assert_eq!(traced("sleep 0.3"), None);
}

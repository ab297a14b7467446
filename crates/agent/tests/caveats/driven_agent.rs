//! An agent in a thread, driven as a controller would.

use std::path::Path;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread::JoinHandle;

use agent::{Calls, LocalServer, ServerCounts};
use engine::{Clock, SystemClock};
use fleet::in_process::InProcess;
use fleet::{Assignment, JournalLocation, Order, PassEnd, Report, Transport as _};
use model::testing::nfs_target;
use model::{
    BackendKind, Caveat, CaveatCode, Durability, NfsSettings, Pass, RunSpec, Share, Target,
    Workload,
};
use nfs_server::{Server, ServerConfig};

use crate::agent_thread;

/// A controller's hand on an agent.
pub struct DrivenAgent {
    transport: Option<InProcess>,
    thread: Option<JoinHandle<Vec<String>>>,
    stop: Arc<AtomicBool>,
    share: Share,
    /// Stops as soon as a pass reports its progress.
    pub stops_at_progress: bool,
    /// Stops between the work of a pass and its accounting.
    pub stops_after_work: bool,
}

impl DrivenAgent {
    pub fn new() -> Self {
        Self::with(None, Arc::new(SystemClock::new()))
    }

    /// An agent with its own clock.
    pub fn on(clock: Arc<dyn Clock>) -> Self {
        Self::with(None, clock)
    }

    /// An agent that can read the counters of a server.
    pub fn beside(server: &Arc<Server>) -> Self {
        let server = Arc::clone(server);
        let counts = Box::new(move || {
            let counters = server.cluster_counters();
            ServerCounts {
                read_bytes: counters.payload_read_bytes,
                write_bytes: counters.payload_written_bytes,
                copied_bytes: counters.copied_bytes,
                calls: Calls::from_counts(|kind| counters.calls_of_kind(kind)),
            }
        });
        let server = LocalServer { counts, thread_ids: Vec::new(), inject_fault: None };
        Self::with(Some(server), Arc::new(SystemClock::new()))
    }

    fn with(local_server: Option<LocalServer>, clock: Arc<dyn Clock>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (transport, thread) = agent_thread::start(clock, Arc::clone(&stop), local_server);
        Self {
            transport: Some(transport),
            thread: Some(thread),
            stop,
            share: Share::ALL,
            stops_at_progress: false,
            stops_after_work: false,
        }
    }

    fn ask(&mut self, order: Order) -> Report {
        let transport = self.transport.as_mut().unwrap();
        transport.send(order).unwrap();
        loop {
            match transport.receive().unwrap() {
                Report::Progress(_) if self.stops_at_progress => self.stop.store(true, Relaxed),
                Report::Progress(_) => {}
                report => {
                    if self.stops_after_work && matches!(report, Report::Worked { .. }) {
                        self.stop.store(true, Relaxed);
                    }
                    return report;
                }
            }
        }
    }

    /// Begins a trial; its working directory has the name that is returned.
    pub fn begin(&mut self, spec: &RunSpec) -> String {
        let work_name = new_name();
        match self.ask_to_begin(spec, &work_name) {
            Report::Begun(_) => work_name,
            other => panic!("{other:?}"),
        }
    }

    /// Begins a trial of a campaign of this name.
    pub fn begin_of(&mut self, campaign: &str, spec: &RunSpec) {
        let work_name = model::work::directory_name(campaign, next_number());
        let begun = self.ask_to_begin(spec, &work_name);
        assert!(matches!(begun, Report::Begun(_)), "{begun:?}");
    }

    /// Begins a trial that may be refused.
    pub fn try_begin(&mut self, spec: &RunSpec) -> Report {
        self.ask_to_begin(spec, &new_name())
    }

    /// Begins a trial in which another agent has the other workers, and prepares a pass.
    pub fn join(&mut self, spec: &RunSpec, work_name: &str, share: Share) {
        let begun = self.ask_to_begin_share(spec, work_name, share);
        assert!(matches!(begun, Report::Begun(_)), "{begun:?}");
        let prepared = self.ask(Order::Prepare(spec.passes()[0]));
        assert!(matches!(prepared, Report::Prepared), "{prepared:?}");
    }

    /// Makes a pass that is prepared.
    pub fn run_prepared(&mut self, pass: Pass) -> PassEnd {
        let share = self.share;
        let mut answer = Report::Prepared;
        for order in [
            Order::Arm { pass, share },
            Order::Go { start_ns: 0 },
            Order::Account { others: Vec::new() },
        ] {
            answer = self.ask(order);
        }
        match answer {
            Report::Ran(end) => *end,
            other => panic!("{other:?}"),
        }
    }

    fn ask_to_begin(&mut self, spec: &RunSpec, work_name: &str) -> Report {
        self.ask_to_begin_share(spec, work_name, Share::whole(spec.workers))
    }

    fn ask_to_begin_share(&mut self, spec: &RunSpec, work_name: &str, share: Share) -> Report {
        let spec = spec.clone();
        let work_name = work_name.to_owned();
        let joins = share.count < spec.workers;
        self.share = share;
        let assignment = Assignment {
            spec,
            seed: 1,
            schedule_seed: 1,
            work_name,
            keep: false,
            share,
            joins,
            journal: JournalLocation::InMemory,
        };
        self.ask(Order::Begin(Box::new(assignment)))
    }

    pub fn try_end(&mut self) -> Report {
        self.ask(Order::End { inherits: false })
    }

    /// Ends the trial.
    pub fn end(&mut self) {
        let ended = self.try_end();
        assert!(matches!(ended, Report::Ended), "{ended:?}");
    }

    pub fn run(&mut self, pass: Pass) -> PassEnd {
        match self.try_run(pass) {
            Report::Ran(end) => *end,
            other => panic!("{other:?}"),
        }
    }

    /// Makes a pass that may be refused.
    pub fn try_run(&mut self, pass: Pass) -> Report {
        let share = self.share;
        let orders = [
            Order::Prepare(pass),
            Order::Arm { pass, share },
            Order::Go { start_ns: 0 },
            Order::Account { others: Vec::new() },
        ];
        let mut answer = Report::Prepared;
        for order in orders {
            answer = self.ask(order);
            if matches!(answer, Report::Failed(_)) {
                break;
            }
        }
        answer
    }

    /// Begins a trial, runs its first pass, and returns the caveats.
    pub fn first_pass(&mut self, spec: &RunSpec) -> Vec<CaveatCode> {
        self.begin(spec);
        let end = self.run(spec.passes()[0]);
        assert_eq!(end.broken, None);
        codes(&end)
    }
}

impl Drop for DrivenAgent {
    fn drop(&mut self) {
        drop(self.transport.take());
        let ended = self.thread.take().unwrap().join();
        assert!(ended.is_ok() || std::thread::panicking());
    }
}

fn new_name() -> String {
    model::work::directory_name(&std::process::id().to_string(), next_number())
}

fn next_number() -> u32 {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    NUMBER.fetch_add(1, Relaxed)
}

/// Processes that take all the time they get.
pub struct BusyProcesses(Vec<Child>);

impl BusyProcesses {
    pub fn start() -> Self {
        let count = std::thread::available_parallelism().map_or(2, usize::from) * 4;
        let hog = || Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        Self((0..count).map(|_| hog()).collect())
    }
}

impl Drop for BusyProcesses {
    fn drop(&mut self) {
        for hog in &mut self.0 {
            let _ = hog.kill();
            let _ = hog.wait();
        }
    }
}

/// The evidence of a caveat, if it is raised.
pub fn evidence(caveats: &[Caveat], code: CaveatCode) -> Option<&str> {
    caveats.iter().find(|caveat| caveat.code == code).map(|caveat| caveat.evidence.as_str())
}

pub fn codes(end: &PassEnd) -> Vec<CaveatCode> {
    end.result.caveats.iter().map(|caveat| caveat.code).collect()
}

/// A stream on a directory, large enough to be timed.
pub fn stream(path: &Path) -> RunSpec {
    RunSpec {
        target_name: "dir".into(),
        target: Target::Directory { path: path.to_owned() },
        backend: BackendKind::Posix,
        io_size_bytes: 64 << 10,
        file_size_bytes: 64 << 20,
        invalidate: true,
        durability: Durability::Sync,
        ..RunSpec::null(Workload::Stream)
    }
}

pub fn metadata(path: &Path, files: u32) -> RunSpec {
    RunSpec {
        workload: Workload::Metadata,
        files,
        file_size_bytes: 100,
        io_size_bytes: 100,
        ..stream(path)
    }
}

pub fn server(config: ServerConfig) -> Server {
    Server::start(config).unwrap()
}

pub fn nfs(server: &Server) -> RunSpec {
    let target = nfs_target(server.address().port(), NfsSettings::default());
    RunSpec {
        target_name: "nfs".into(),
        target: Target::Nfs(target),
        backend: BackendKind::Nfs,
        queue_depth: 8,
        ..stream(Path::new("/"))
    }
}

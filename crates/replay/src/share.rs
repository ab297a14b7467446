//! The messages of a replay that several hosts share, and the end of such a host.
//!
//! Each host gets the trace and creates the same plan from it. It connects only its own clients and
//! replays them from a common start time. Notices that its operations need from other hosts come as
//! messages through the controller.

use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use engine::{Clock, SystemClock};
use fleet::stdio::{self, Flags};
use fleet::{ClockReading, MessageSender, Output};
use nfs_client::proto::client::ProtocolVersion;
use nfs_client::proto::nfs3::FileHandle;
use plan::Surroundings;
use serde::{Deserialize, Serialize};

use crate::division::Division;
use crate::exchange::{Exchange, NoticeSender, OpenExchange, StepEnd};
use crate::executor::BatchSchedule;
use crate::lanes::Pace;
use crate::operation::{Files, KnownHandle};
use crate::outcome::ShareRecord;
use crate::plan::ReplayPlan;
use crate::planner::PlanSettings;
use crate::replayer::{Clients, Replayer};
use crate::target::NamedTarget;
use crate::target_kind::TargetKind;
use crate::window::Window;

/// An order to a host.
#[derive(Debug, Serialize, Deserialize)]
pub enum ShareOrder {
    /// A piece of the trace.
    Trace(Vec<u8>),
    /// Create the plan, and keep a share of it; answered by `PlannedShare`.
    Plan(Box<ShareTask>),
    /// Handles of the tree, which the controller has built.
    Handles(Vec<ObjectHandle>),
    /// Connect the clients; answered by `Connected`.
    Connect,
    /// Read the clock; answered by `Clock`.
    Clock,
    /// Replay; answered by `Replayed`.
    Replay(ReplayStart),
    /// An operation of another host has ended.
    Ended(Notice),
}

/// A report from a host.
#[derive(Debug, Serialize, Deserialize)]
pub enum ShareReport {
    /// The plan is complete and has this digest.
    Planned(u64),
    /// All clients are connected.
    Connected,
    Clock(ClockReading),
    /// An operation has ended that other hosts wait for.
    Ended(Notice),
    /// The replay is over.
    Replayed(Box<ShareRecord>),
    /// It can't continue.
    Failed(String),
}

/// The share of a host.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ShareTask {
    /// The target as given by the user.
    pub target: String,
    /// NFS version to use.
    pub version: String,
    /// The part of the trace.
    pub window: Window,
    /// Maximum number of clients to emulate, on all hosts together.
    pub clients_max: Option<u32>,
    /// Largest READ, in bytes.
    pub rsize: u32,
    /// Largest WRITE, in bytes.
    pub wsize: u32,
    /// The host of each client.
    pub division: Division,
    pub host: u32,
}

/// When a replay begins.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct ReplayStart {
    /// How its steps are scheduled.
    pub pace: Pace,
    /// Start time, by the clock of the host that receives it.
    pub begin_ns: u64,
}

/// The handle of an object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectHandle {
    object: u32,
    handle: Vec<u8>,
}

/// The message that a step has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notice {
    /// Number of the step.
    pub step: u32,
    after_ns: u64,
    handle: Option<Vec<u8>>,
}

impl From<KnownHandle> for ObjectHandle {
    fn from(known: KnownHandle) -> Self {
        Self { object: known.object, handle: known.handle.as_slice().to_vec() }
    }
}

impl From<StepEnd> for Notice {
    fn from(end: StepEnd) -> Self {
        let handle = end.handle.map(|handle| handle.as_slice().to_vec());
        Self { step: end.step, after_ns: end.after_ns, handle }
    }
}

impl From<Notice> for StepEnd {
    fn from(notice: Notice) -> Self {
        let handle = notice.handle.and_then(|bytes| FileHandle::from_slice(&bytes));
        Self { step: notice.step, after_ns: notice.after_ns, handle }
    }
}

/// The queue for notices, filled by the thread that reads messages; `None` between replays.
type Incoming = Arc<Mutex<Option<NoticeSender>>>;

/// Reads the clocks of this host.
pub(crate) fn read_clocks(clock: SystemClock) -> ClockReading {
    ClockReading { mono_ns: clock.now_ns(), wall_ns: clock.calendar_ns() }
}

fn lock(incoming: &Incoming) -> MutexGuard<'_, Option<NoticeSender>> {
    incoming.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Executes the orders of a replay's controller until it is gone. `around` has the IDs of the
/// caller, for targets without any.
pub fn serve_share(
    input: impl Read + Send + 'static,
    output: impl Output + 'static,
    clock: SystemClock,
    flags: Flags,
    around: Surroundings,
) {
    let stop = Arc::clone(&flags.stop);
    let (sender, orders) = channel();
    let at_end = sender.clone();
    let incoming = Incoming::default();
    let incoming_here = Arc::clone(&incoming);
    let handle = move |order| {
        match order {
            ShareOrder::Ended(end) => {
                if let Some(incoming) = &*lock(&incoming_here) {
                    incoming.send(end.into());
                }
            }
            // The receiver exists until the end.
            order => _ = sender.send(Some(order)),
        }
    };
    let on_end = move || _ = at_end.send(None);
    let reports = stdio::message_end(input, output, flags, handle, on_end);
    let mut host =
        SharingHost { clock, around, stop, incoming, reports: &reports, trace: Vec::new() };
    host.execute_order(&orders);
}

/// A host with its share of a replay.
struct SharingHost<'a> {
    clock: SystemClock,
    around: Surroundings,
    stop: Arc<AtomicBool>,
    incoming: Incoming,
    reports: &'a MessageSender<ShareReport>,
    trace: Vec<u8>,
}

/// A share with its plan.
struct PlannedShare<'a> {
    plan: ReplayPlan,
    replayer: Replayer<'a>,
    handles: Vec<KnownHandle>,
    ready: Option<Ready<'a>>,
}

/// A share whose clients are connected.
struct Ready<'a> {
    clients: Clients<'a>,
    files: Files,
    exchange: Exchange,
    outgoing: Receiver<StepEnd>,
}

impl SharingHost<'_> {
    fn execute_order(&mut self, orders: &Receiver<Option<ShareOrder>>) {
        let clock = self.clock;
        let stop = Arc::clone(&self.stop);
        let mut planned: Option<PlannedShare<'_>> = None;
        while let Ok(Some(order)) = orders.recv() {
            let answer = match (order, &mut planned) {
                (ShareOrder::Trace(piece), _) => {
                    self.trace.extend(piece);
                    None
                }
                (ShareOrder::Plan(task), _) => Some(match self.plan(&task, &clock, &stop) {
                    Ok(made) => {
                        let digest = made.digest;
                        planned = Some(made.planned);
                        ShareReport::Planned(digest)
                    }
                    Err(why) => ShareReport::Failed(why),
                }),
                (ShareOrder::Handles(handles), Some(planned)) => {
                    planned.add_handles(handles);
                    None
                }
                (ShareOrder::Connect, Some(planned)) => Some(self.connect(planned)),
                (ShareOrder::Clock, _) => Some(ShareReport::Clock(read_clocks(clock))),
                (ShareOrder::Replay(begin), Some(planned)) => Some(self.replay(planned, begin)),
                (order, _) => Some(ShareReport::Failed(format!("unexpected order {order:?}"))),
            };
            if let Some(answer) = answer {
                self.reports.send(answer);
            }
        }
    }

    fn plan<'c>(
        &mut self,
        task: &ShareTask,
        clock: &'c SystemClock,
        stop: &'c AtomicBool,
    ) -> Result<DigestedShare<'c>, String> {
        let version: ProtocolVersion = task
            .version
            .parse()
            .map_err(|_| format!("`{}` is not an NFS version", task.version))?;
        let named = NamedTarget::find(&task.target, None, &self.around);
        let NamedTarget::Server(mut options, None) = named.map_err(|error| error.to_string())?
        else {
            return Err(format!(
                "`{}` is not an NFS server that other hosts can reach",
                task.target
            ));
        };
        options.version = version;
        let replayer =
            Replayer::connect(&options, clock, stop).map_err(|error| error.to_string())?;
        let settings = PlanSettings {
            window: task.window,
            clients_max: task.clients_max,
            target: TargetKind::Nfs(version),
            rsize: task.rsize,
            wsize: task.wsize,
        };
        // It is only needed once, and may be large.
        let trace = std::mem::take(&mut self.trace);
        let mut plan = ReplayPlan::read(&trace[..], &settings)
            .map_err(|error| format!("its trace {error}"))?;
        let digest = plan.digest();
        plan.keep_share(&task.division, task.host);
        let planned = PlannedShare { plan, replayer, handles: Vec::new(), ready: None };
        Ok(DigestedShare { planned, digest })
    }

    fn connect(&self, planned: &mut PlannedShare<'_>) -> ShareReport {
        let handles = std::mem::take(&mut planned.handles);
        let files = Files::with_handles(&planned.plan, &handles);
        let clients = match planned.replayer.open_clients(&planned.plan) {
            Ok(clients) => clients,
            Err(error) => return ShareReport::Failed(error.to_string()),
        };
        match Exchange::open() {
            Ok(OpenExchange { exchange, incoming, outgoing }) => {
                *lock(&self.incoming) = Some(incoming);
                planned.ready = Some(Ready { clients, files, exchange, outgoing });
                ShareReport::Connected
            }
            Err(error) => ShareReport::Failed(format!("cannot create an eventfd: {error}")),
        }
    }

    fn replay(&self, planned: &mut PlannedShare<'_>, begin: ReplayStart) -> ShareReport {
        let Some(Ready { clients, mut files, exchange, outgoing }) = planned.ready.take() else {
            return ShareReport::Failed("its clients are not connected".to_owned());
        };
        let plan = &planned.plan;
        let replayed = thread::scope(|scope| {
            scope.spawn(move || {
                for end in outgoing {
                    self.reports.send(ShareReport::Ended(end.into()));
                }
            });
            let exchange = exchange;
            let course = BatchSchedule {
                pace: begin.pace,
                begin_ns: Some(begin.begin_ns),
                exchange: Some(&exchange),
                awaited: plan.awaited(),
            };
            // The exchange ends here, and so does the sending thread.
            clients.replay(plan, &mut files, course)
        });
        *lock(&self.incoming) = None;
        match replayed {
            Ok(share) => ShareReport::Replayed(Box::new(share)),
            Err(error) => ShareReport::Failed(error.to_string()),
        }
    }
}

/// A share with the digest of the whole plan.
struct DigestedShare<'a> {
    planned: PlannedShare<'a>,
    digest: u64,
}

impl PlannedShare<'_> {
    fn add_handles(&mut self, handles: Vec<ObjectHandle>) {
        for ObjectHandle { object, handle } in handles {
            if let Some(handle) = FileHandle::from_slice(&handle) {
                self.handles.push(KnownHandle { object, handle });
            }
        }
    }
}

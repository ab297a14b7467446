//! Hosts that share the clients of a trace, from the controller's point of view.
//!
//! This host builds the tree, removes it, and forwards notices between the hosts; it replays
//! nothing itself. Losing a host ends the replay, because its share would be missing.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;

use engine::{Clock, SystemClock};
use fleet::clock::{Exchanges, Sample};
use fleet::{MessageSender, PeerGone, Remote};

use crate::division::Division;
use crate::lanes::Pace;
use crate::operation::Files;
use crate::outcome::{HostShare, Record, ShareRecord};
use crate::plan::ReplayPlan;
use crate::planner::PlanSettings;
use crate::share::{ObjectHandle, ReplayStart, ShareOrder, ShareReport, ShareTask, read_clocks};
use crate::target_kind::TargetKind;

/// Bytes of the trace per message.
const PIECE_BYTES: usize = 4 << 20;
/// Handles per message.
const HANDLES: usize = 1 << 14;
/// How far ahead the start is scheduled, so that the order to start has reached all hosts by then.
const AHEAD_NS: u64 = 50_000_000;

/// A started host, with its end of the connection.
pub type ShareRemote = Remote<ShareReport, ShareOrder>;

/// The hosts of a replay.
pub struct ShareHosts {
    hosts: Vec<ShareHost>,
    division: Division,
    stop: Arc<AtomicBool>,
    clock: SystemClock,
}

struct ShareHost {
    name: String,
    remote: ShareRemote,
}

/// The input from which all hosts create the same plan.
pub struct SharedTrace<'a> {
    /// The target as given by the user.
    pub target: &'a str,
    /// The content of the trace.
    pub trace: &'a [u8],
    pub settings: PlanSettings,
    /// The plan as created here.
    pub plan: &'a ReplayPlan,
}

impl ShareHosts {
    /// Sends the trace to started hosts, each with its name, and makes them create their plans.
    ///
    /// # Errors
    /// If a host is lost, or creates a different plan.
    pub fn prepare(
        remotes: Vec<(String, ShareRemote)>,
        shared: &SharedTrace<'_>,
        clock: SystemClock,
        stop: &Arc<AtomicBool>,
    ) -> Result<Self, PeerGone> {
        let hosts: Vec<_> =
            remotes.into_iter().map(|(name, remote)| ShareHost { name, remote }).collect();
        let division = Division::new(&shared.plan.batch, hosts.len() as u32);
        let mut all = Self { hosts, division, stop: Arc::clone(stop), clock };
        all.send_plan(shared)?;
        Ok(all)
    }

    /// Returns the hosts without clients: there are more hosts than clients.
    pub fn idle(&self) -> Vec<&str> {
        self.hosts
            .iter()
            .enumerate()
            .filter(|(number, _)| self.division.clients_of(*number as u32).is_empty())
            .map(|(_, host)| host.name.as_str())
            .collect()
    }

    fn send_plan(&mut self, shared: &SharedTrace<'_>) -> Result<(), PeerGone> {
        let PlanSettings { window, clients_max, target, rsize, wsize } = shared.settings;
        let TargetKind::Nfs(version) = target else {
            unreachable!("a directory cannot be shared by hosts");
        };
        let task = ShareTask {
            target: shared.target.to_owned(),
            version: version.name().to_owned(),
            window,
            clients_max,
            rsize,
            wsize,
            division: self.division.clone(),
            host: 0,
        };
        let digest = shared.plan.digest();
        self.on_all(|number, host| {
            for piece in shared.trace.chunks(PIECE_BYTES) {
                host.remote.send_message(ShareOrder::Trace(piece.to_vec()))?;
            }
            let task = ShareTask { host: number, ..task.clone() };
            host.remote.send_message(ShareOrder::Plan(Box::new(task)))?;
            match host.answer()? {
                ShareReport::Planned(theirs) if theirs == digest => Ok(()),
                ShareReport::Planned(_) => {
                    let why =
                        "it made a different plan from the trace (hint: please report this bug)";
                    Err(host.gone(why))
                }
                other => Err(host.wrong(&other)),
            }
        })?;
        Ok(())
    }

    /// Replays on an existing tree.
    pub fn replay(
        &mut self,
        plan: &ReplayPlan,
        files: &Files,
        pace: Pace,
        target: TargetKind,
    ) -> Result<Record, PeerGone> {
        let handles = files.handles();
        let clock = self.clock;
        let samples = self.on_all(|_, host| {
            for some in handles.chunks(HANDLES) {
                let piece: Vec<ObjectHandle> = some.iter().map(|handle| (*handle).into()).collect();
                host.remote.send_message(ShareOrder::Handles(piece))?;
            }
            host.remote.send_message(ShareOrder::Connect)?;
            match host.answer()? {
                ShareReport::Connected => host.compare_clocks(clock),
                other => Err(host.wrong(&other)),
            }
        })?;
        let shares = self.run(plan, pace, &samples)?;
        let record = Record::from_shares(plan, pace, target, shares);
        record.ok_or_else(|| PeerGone("no host takes part in the replay".to_owned()))
    }

    /// Starts all hosts at the same time, and forwards notices until all are done.
    fn run(
        &mut self,
        plan: &ReplayPlan,
        pace: Pace,
        samples: &[Sample],
    ) -> Result<Vec<HostShare>, PeerGone> {
        let mut relay = Relay { plan, division: self.division.clone(), senders: Vec::new() };
        for host in &self.hosts {
            relay.senders.extend(host.remote.sender());
        }
        let here_ns = self.clock.now_ns() + AHEAD_NS;
        let relay = &relay;
        let shares = self.on_all(|number, host| {
            let sample = &samples[number as usize];
            let begin_ns = sample.there_ns(here_ns);
            host.remote.send_message(ShareOrder::Replay(ReplayStart { pace, begin_ns }))?;
            let share = host.replayed(number, relay)?;
            let name = host.name.clone();
            Ok(HostShare { name, clock_error_ns: sample.error_ns, share })
        })?;
        Ok(shares)
    }

    /// Does something with all hosts at the same time. If one fails, the others are stopped.
    fn on_all<T: Send>(
        &mut self,
        work: impl Fn(u32, &mut ShareHost) -> Result<T, PeerGone> + Sync,
    ) -> Result<Vec<T>, PeerGone> {
        let stop = &self.stop;
        let work = &work;
        let mut results = Vec::with_capacity(self.hosts.len());
        thread::scope(|scope| {
            let mut threads = Vec::with_capacity(self.hosts.len());
            for (number, host) in self.hosts.iter_mut().enumerate() {
                threads.push(scope.spawn(move || {
                    let result = work(number as u32, host);
                    if result.is_err() {
                        // Others may be waiting for notices from this one.
                        stop.store(true, Relaxed);
                    }
                    result
                }));
            }
            for thread in threads {
                results.push(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
        });
        results.into_iter().collect()
    }
}

/// Forwards the ends of steps to the hosts that wait for them.
struct Relay<'a> {
    plan: &'a ReplayPlan,
    division: Division,
    senders: Vec<MessageSender<ShareOrder>>,
}

impl ShareHost {
    fn answer(&mut self) -> Result<ShareReport, PeerGone> {
        match self.remote.receive_message()? {
            ShareReport::Failed(why) => Err(self.gone(&why)),
            report => Ok(report),
        }
    }

    fn gone(&self, why: &str) -> PeerGone {
        PeerGone(format!("host {}: {why}", self.name))
    }

    fn wrong(&self, report: &ShareReport) -> PeerGone {
        self.gone(&format!("unexpected answer {report:.40?} (hint: please report this bug)"))
    }

    /// Compares its clock with this host's.
    fn compare_clocks(&mut self, clock: SystemClock) -> Result<Sample, PeerGone> {
        let mut exchanges = Exchanges::default();
        loop {
            let sent = read_clocks(clock);
            self.remote.send_message(ShareOrder::Clock)?;
            let there = match self.answer()? {
                ShareReport::Clock(there) => there,
                other => return Err(self.wrong(&other)),
            };
            let is_enough = exchanges.add(Sample::new(sent, there, read_clocks(clock)));
            if let Some(best) = exchanges.best()
                && is_enough
            {
                return Ok(best);
            }
        }
    }

    /// Waits for the end of its replay, and forwards its notices.
    fn replayed(&mut self, number: u32, relay: &Relay<'_>) -> Result<ShareRecord, PeerGone> {
        let mut waiting = Vec::new();
        loop {
            match self.answer()? {
                ShareReport::Ended(notice) => {
                    let batch = &relay.plan.batch;
                    if notice.step as usize >= batch.steps.len() {
                        return Err(self.gone("it reported the end of a step that does not exist"));
                    }
                    waiting.clear();
                    relay.division.hosts_waiting_for(batch, notice.step, &mut waiting);
                    waiting.retain(|host| *host != number);
                    for host in &waiting {
                        relay.senders[*host as usize].send(ShareOrder::Ended(notice.clone()));
                    }
                }
                ShareReport::Replayed(share) => return Ok(*share),
                other => return Err(self.wrong(&other)),
            }
        }
    }
}

//! A network of agents in virtual time, fully determined by a seed.
//!
//! [`World`] contains the controller's clock and the messages on their way to it. An order is
//! simulated when it is sent: when it arrives, what the agent's clock shows then, and when the
//! answer arrives. Delays vary from message to message and differ between the two directions; as
//! with TCP, a lost message arrives later, and none overtakes another. What really happened is
//! recorded in [`CrossCheck`], by the controller's clock.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::rc::Rc;

use controller::LocalClock;
use fleet::{
    ClockReading, KindTotals, Order, PassEnd, PeerGone, Report, Transport, TrialSetup, Wakeup,
};
use model::random::{SplitMix64, below};
use model::{Histogram, KindResult, OpKind, Pass, PassResult, Span, TimelinePoint, Work};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// Bytes of each op.
pub const OP_BYTES: u64 = 4_096;

/// Properties of a world.
#[derive(Clone, Copy, Debug)]
pub struct WorldSettings {
    pub seed: u64,
    pub agents: usize,
    /// One message in this many is lost once; 0 means none.
    pub lost_one_in: u64,
    /// One agent in this many is slow.
    pub slow_one_in: usize,
    /// This agent never removes what it created, and stays alive.
    pub never_ends: Option<usize>,
}

/// The actual work of an agent, in nanoseconds of the controller's clock.
#[derive(Clone, Debug, Default)]
pub struct CrossCheck {
    pub start_ns: u64,
    pub end_ns: u64,
    pub ops: u64,
    pub op_ns: u64,
    pub is_slow: bool,
}

pub struct World {
    nature: WorldSettings,
    now_ns: Cell<u64>,
    random: RefCell<SplitMix64>,
    /// Messages in flight to the controller: arrival time, sequence number, sender.
    in_flight: RefCell<BinaryHeap<Reverse<(u64, u64, usize)>>>,
    sent: Cell<u64>,
    agents: RefCell<Vec<Agent>>,
}

struct Agent {
    /// The time of its clock when the controller's clock was at zero.
    offset_ns: u64,
    /// Rate of its clock relative to the controller's, in ppm above 1.
    rate_off: i64,
    /// Minimum delay in each direction: to the agent, and back.
    delay_ns: (u64, u64),
    /// Arrival of the last message at either end, which later ones can't overtake.
    arrived_ns: (u64, u64),
    /// Future reports in their order, and the arrived ones.
    coming: VecDeque<Report>,
    come: VecDeque<Report>,
    wakeup: Option<Wakeup>,
    cross_check: CrossCheck,
}

impl Agent {
    fn there_ns(&self, here_ns: u64) -> u64 {
        let gained = i128::from(here_ns) * i128::from(self.rate_off) / 1_000_000;
        (i128::from(here_ns) + gained) as u64 + self.offset_ns
    }

    fn here_ns(&self, there_ns: u64) -> u64 {
        let passed = i128::from(there_ns) - i128::from(self.offset_ns);
        (passed * 1_000_000 / (1_000_000 + i128::from(self.rate_off))).max(0) as u64
    }
}

impl LocalClock for World {
    fn read(&self) -> ClockReading {
        ClockReading { mono_ns: self.now_ns.get(), wall_ns: self.now_ns.get() }
    }

    fn wait(&self, _: &Wakeup) {
        self.pass();
    }
}

impl World {
    pub fn new(nature: WorldSettings) -> Rc<Self> {
        let mut random = SplitMix64::new(nature.seed);
        let mut below = |range: u64| below(random.next(), range);
        let agent = |index: usize| {
            let is_slow = index % nature.slow_one_in == nature.slow_one_in / 2;
            // About 200 ops of 1 ms each; those of a slow agent take three times as long.
            let op_ns = (900 * US + below(200 * US)) * if is_slow { 3 } else { 1 };
            Agent {
                offset_ns: below(1 << 50),
                rate_off: below(200).cast_signed() - 100,
                delay_ns: (100 * US + below(400 * US), 100 * US + below(400 * US)),
                arrived_ns: (0, 0),
                coming: VecDeque::new(),
                come: VecDeque::new(),
                wakeup: None,
                cross_check: CrossCheck {
                    ops: 150 + below(100),
                    op_ns,
                    is_slow,
                    ..CrossCheck::default()
                },
            }
        };
        let agents = RefCell::new((0..nature.agents).map(agent).collect());
        Rc::new(Self {
            nature,
            now_ns: Cell::new(1_000 * MS),
            random: RefCell::new(random),
            in_flight: RefCell::default(),
            sent: Cell::new(0),
            agents,
        })
    }

    /// Returns the actual work of the agents.
    pub fn cross_checks(&self) -> Vec<CrossCheck> {
        self.agents.borrow().iter().map(|agent| agent.cross_check.clone()).collect()
    }

    /// Lets time pass until the next message arrives, or for a while if none is in flight.
    fn pass(&self) {
        let next = self.in_flight.borrow_mut().pop();
        let Some(Reverse((at_ns, _, index))) = next else {
            return self.now_ns.set(self.now_ns.get() + 100 * MS);
        };
        self.now_ns.set(self.now_ns.get().max(at_ns));
        let agent = &mut self.agents.borrow_mut()[index];
        let report = agent.coming.pop_front().expect("every message in flight has a report");
        agent.come.push_back(report);
        agent.wakeup.iter().for_each(Wakeup::notify);
    }

    /// Returns the delay beyond the minimum: usually little, sometimes a lot, for lost messages a
    /// TCP timeout.
    fn jitter_ns(&self) -> u64 {
        let mut random = self.random.borrow_mut();
        let mut below = |range: u64| below(random.next(), range);
        // The minimum of three is usually small; one in fifty waits in a queue.
        let usual = (0..3).map(|_| below(600 * US)).min().unwrap_or(0);
        let queued = if below(50) == 0 { below(3 * MS) } else { 0 };
        let lost_one_in = self.nature.lost_one_in;
        let again = if lost_one_in > 0 && below(lost_one_in) == 0 { 200 * MS } else { 0 };
        usual + queued + again
    }

    fn order(&self, index: usize, order: Order) {
        if self.nature.never_ends == Some(index) && matches!(order, Order::End { .. }) {
            return;
        }
        let there = self.jitter_ns();
        let back = self.jitter_ns();
        let mut agents = self.agents.borrow_mut();
        let agent = &mut agents[index];
        let arrives_ns = (self.now_ns.get() + agent.delay_ns.0 + there).max(agent.arrived_ns.0 + 1);
        agent.arrived_ns.0 = arrives_ns;
        let (report, leaves_ns) = answer(agent, order, arrives_ns, there % (20 * US));
        let comes_ns = (leaves_ns + agent.delay_ns.1 + back).max(agent.arrived_ns.1 + 1);
        agent.arrived_ns.1 = comes_ns;
        agent.coming.push_back(report);
        self.sent.set(self.sent.get() + 1);
        self.in_flight.borrow_mut().push(Reverse((comes_ns, self.sent.get(), index)));
    }

    fn take(&self, index: usize) -> Option<Report> {
        self.agents.borrow_mut()[index].come.pop_front()
    }
}

/// Returns an agent's answer and when it is sent; its workers wake up `wakes_ns` late.
fn answer(agent: &mut Agent, order: Order, arrives_ns: u64, wakes_ns: u64) -> (Report, u64) {
    let soon_ns = arrives_ns + 5 * US;
    let report = match order {
        Order::Facts => Report::Facts(Vec::new()),
        Order::Begin(_) => Report::Begun(TrialSetup::default()),
        Order::Prepare(_) => Report::Prepared,
        Order::Arm { .. } => Report::Armed,
        Order::Clock => {
            let there_ns = agent.there_ns(arrives_ns);
            Report::Clock(ClockReading { mono_ns: there_ns, wall_ns: there_ns })
        }
        Order::Go { start_ns } => {
            let cross_check = &agent.cross_check;
            let start_ns = agent.here_ns(start_ns).max(arrives_ns) + wakes_ns;
            let end_ns = start_ns + cross_check.ops * cross_check.op_ns;
            let done = KindTotals {
                kind: OpKind::Read,
                ops: cross_check.ops,
                bytes: cross_check.ops * OP_BYTES,
                failed: 0,
            };
            agent.cross_check.start_ns = start_ns;
            agent.cross_check.end_ns = end_ns;
            return (Report::Worked { done: vec![done], is_broken: false }, end_ns + 5 * US);
        }
        Order::Account { .. } => Report::Ran(Box::new(reported(agent))),
        Order::End { .. } => Report::Ended,
        other => Report::Failed(format!("unexpected order {other:?}")),
    };
    (report, soon_ns)
}

/// The report of an agent about its pass, by its own clock.
fn reported(agent: &Agent) -> PassEnd {
    let CrossCheck { start_ns, end_ns, ops, op_ns, .. } = agent.cross_check;
    let mut times = Histogram::sparse();
    times.record_n(op_ns, ops);
    let kind = KindResult {
        kind: OpKind::Read,
        issued: ops,
        done: ops,
        bytes: ops * OP_BYTES,
        errors: Vec::new(),
        service_time: times.clone(),
        response_time: times,
    };
    let own = |here_ns| agent.there_ns(here_ns);
    let span = Span {
        first_start_ns: own(start_ns),
        last_start_ns: own(start_ns),
        first_end_ns: own(end_ns),
        last_end_ns: own(end_ns),
    };
    let work = |ops: u64| Work { ops, bytes: ops * OP_BYTES };
    // About twenty points, as many as an agent's observer would record.
    let steps = (0..=20).map(|step| ops * step / 20);
    let point = |done: u64| TimelinePoint { at_ns: own(start_ns + done * op_ns), done: work(done) };
    let window_ns = span.last_end_ns - span.first_start_ns;
    let result = PassResult {
        window_ns,
        common_window_ns: window_ns,
        first_done_ops: ops,
        first_done_bytes: ops * OP_BYTES,
        first_done_ns: window_ns,
        kinds: vec![kind],
        ..PassResult::new(Pass::Mix)
    };
    PassEnd { result, facts: Vec::new(), broken: None, span, timeline: steps.map(point).collect() }
}

/// The transport to one of the agents.
pub struct Simulated {
    pub world: Rc<World>,
    pub index: usize,
}

impl Transport for Simulated {
    fn send(&mut self, order: Order) -> Result<(), PeerGone> {
        self.world.order(self.index, order);
        Ok(())
    }

    fn receive(&mut self) -> Result<Report, PeerGone> {
        loop {
            if let Some(report) = self.world.take(self.index) {
                return Ok(report);
            }
            self.world.pass();
        }
    }

    fn try_receive(&mut self) -> Result<Option<Report>, PeerGone> {
        Ok(self.world.take(self.index))
    }

    fn set_wakeup(&mut self, wakeup: &Wakeup) {
        self.world.agents.borrow_mut()[self.index].wakeup = Some(wakeup.clone());
    }
}

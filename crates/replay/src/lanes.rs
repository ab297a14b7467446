//! The schedule of a replay: which step starts when. Independent of sockets and the real time.
//!
//! [`Lanes`] has a lane for each client. The steps of a lane start in order: the first step that
//! must wait holds up those behind it. It may wait for a point in time, for steps of other lanes,
//! or for the client's own calls. [`Lanes::next_step`] also returns the time since which only this
//! program has kept the step from starting, so that our own delays can be distinguished from the
//! server's. All tables are allocated before the start.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use serde::{Deserialize, Serialize};

use crate::step::Batch;

/// How steps are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// At their times in the trace, divided by a speed.
    Open {
        /// Factor relative to the trace; greater than 0.
        speed: f64,
    },
    /// As soon as their dependencies have ended, with as many calls in flight as in the trace.
    Closed,
    /// Like `Closed`, but with the trace's think time after the last reply to the client.
    Thinking,
}

impl Pace {
    /// Returns when a step is scheduled, in nanoseconds of the clock.
    pub fn instant_ns(self, begin_ns: u64, scheduled_ns: u64) -> u64 {
        match self {
            Self::Open { speed } => begin_ns + (scheduled_ns as f64 / speed) as u64,
            Self::Closed => begin_ns,
            Self::Thinking => begin_ns + scheduled_ns,
        }
    }

    /// Returns true if steps wait for replies instead of points in time.
    pub const fn is_closed(self) -> bool {
        matches!(self, Self::Closed | Self::Thinking)
    }
}

/// A step that starts now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Start {
    /// Number of the step.
    pub step: u32,
    /// When it was scheduled, in nanoseconds of the clock.
    pub scheduled_ns: u64,
    /// When the last reply it had to wait for arrived; not before `scheduled_ns`.
    pub(crate) ready_ns: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// It is in `ready`.
    Ready,
    /// It is in `timed`.
    Timed,
    /// Its first step waits for other steps.
    Ordered,
    /// Its first step waits for a call of the same client.
    Full,
    /// It has no more steps.
    Done,
}

#[derive(Debug)]
struct Lane {
    next: usize,
    in_flight: u32,
    state: State,
    /// When the last obstacle disappeared.
    clear_ns: u64,
    /// When the last of its calls ended.
    ended_ns: u64,
    /// When its first step starts, known once nothing else holds it up.
    think_until_ns: Option<u64>,
}

/// The schedule of a batch.
#[derive(Debug)]
pub(crate) struct Lanes<'a> {
    batch: &'a Batch,
    pace: Pace,
    begin_ns: u64,
    /// Number of nodes that each node still waits for.
    waits: Vec<u32>,
    lanes: Vec<Lane>,
    /// Lanes that wait for a point in time.
    timed: BinaryHeap<Reverse<Timer>>,
    /// Lanes whose first step may be able to start.
    ready: Vec<u32>,
    /// Nodes that have just ended.
    ended: Vec<u32>,
    left: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Timer {
    instant_ns: u64,
    client: u32,
}

impl<'a> Lanes<'a> {
    /// Creates the schedule of a batch that begins at `begin_ns`.
    pub(crate) fn new(batch: &'a Batch, pace: Pace, begin_ns: u64) -> Self {
        let count = batch.clients.len();
        let mut lanes = Self {
            batch,
            pace,
            begin_ns,
            waits: batch.graph.waits.clone(),
            lanes: Vec::with_capacity(count),
            timed: BinaryHeap::with_capacity(count),
            ready: Vec::with_capacity(count),
            ended: Vec::with_capacity(batch.graph.join_count() + 1),
            left: batch.ops(),
        };
        // Elements are taken from the end, so push the first client last.
        for client in (0..count as u32).rev() {
            lanes.ready.push(client);
        }
        for _ in 0..count {
            let state = State::Ready;
            lanes.lanes.push(Lane {
                next: 0,
                in_flight: 0,
                state,
                clear_ns: begin_ns,
                ended_ns: begin_ns,
                think_until_ns: None,
            });
        }
        lanes
    }

    /// Returns a client whose next step may start at this time.
    pub(crate) fn pop_ready(&mut self, now_ns: u64) -> Option<u32> {
        if let Some(Reverse(timer)) = self.timed.peek()
            && timer.instant_ns <= now_ns
        {
            let client = timer.client;
            self.timed.pop();
            return Some(client);
        }
        self.ready.pop()
    }

    /// Returns the scheduled time of the next step that waits for nothing else.
    pub(crate) fn next_instant_ns(&self) -> Option<u64> {
        self.timed.peek().map(|Reverse(timer)| timer.instant_ns)
    }

    /// Returns the next step of a client if it can start now, and counts it as in flight.
    /// `has_place` is true if the connection can take another call.
    pub(crate) fn next_step(&mut self, client: u32, now_ns: u64, has_place: bool) -> Option<Start> {
        let lane = &mut self.lanes[client as usize];
        let Some(number) = self.batch.clients[client as usize].get(lane.next).copied() else {
            lane.state = State::Done;
            return None;
        };
        let step = &self.batch.steps[number as usize];
        if let Pace::Open { .. } = self.pace {
            let instant_ns = self.pace.instant_ns(self.begin_ns, step.scheduled_ns);
            if now_ns < instant_ns {
                lane.state = State::Timed;
                self.timed.push(Reverse(Timer { instant_ns, client }));
                return None;
            }
        }
        if self.waits[number as usize] > 0 {
            lane.state = State::Ordered;
            return None;
        }
        if !has_place || (self.pace.is_closed() && lane.in_flight >= step.depth) {
            lane.state = State::Full;
            return None;
        }
        let scheduled_ns = match self.pace {
            Pace::Open { .. } => self.pace.instant_ns(self.begin_ns, step.scheduled_ns),
            Pace::Closed => lane.clear_ns,
            Pace::Thinking => *lane.think_until_ns.get_or_insert(lane.ended_ns + step.think_ns),
        };
        // A closed replay begins at its start time, too.
        let instant_ns = scheduled_ns.max(self.begin_ns);
        if now_ns < instant_ns {
            lane.state = State::Timed;
            self.timed.push(Reverse(Timer { instant_ns, client }));
            return None;
        }
        lane.next += 1;
        lane.in_flight += 1;
        lane.state = State::Ready;
        lane.think_until_ns = None;
        Some(Start { step: number, scheduled_ns, ready_ns: scheduled_ns.max(lane.clear_ns) })
    }

    /// Records that a step has ended at this time, with or without a reply.
    pub(crate) fn end_step(&mut self, step: u32, now_ns: u64) {
        self.left -= 1;
        let client = self.batch.steps[step as usize].client;
        let lane = &mut self.lanes[client as usize];
        lane.in_flight -= 1;
        lane.ended_ns = lane.ended_ns.max(now_ns);
        self.free_place(client, now_ns);
        self.free_waiting(step, now_ns);
    }

    /// Records that another host's step has ended at this time, with or without a reply.
    pub(crate) fn end_elsewhere(&mut self, step: u32, now_ns: u64) {
        self.free_waiting(step, now_ns);
    }

    /// Releases everything that was waiting for a step.
    fn free_waiting(&mut self, step: u32, now_ns: u64) {
        self.ended.push(step);
        while let Some(node) = self.ended.pop() {
            for successor in self.batch.graph.successors(node) {
                let waits = &mut self.waits[*successor as usize];
                *waits -= 1;
                if *waits > 0 {
                    continue;
                }
                if *successor >= self.batch.graph.steps {
                    self.ended.push(*successor);
                    continue;
                }
                // Only the first step of a lane can make it ready; the turn of others comes later.
                // Steps of other hosts have no lane here.
                let client = self.batch.steps[*successor as usize].client;
                let Some(lane) = self.lanes.get(client as usize) else { continue };
                let first = self.batch.clients[client as usize].get(lane.next);
                if lane.state == State::Ordered && first == Some(successor) {
                    self.clear(client, now_ns);
                }
            }
        }
    }

    /// Records that a connection can take another call as of this time.
    pub(crate) fn free_place(&mut self, client: u32, now_ns: u64) {
        if self.lanes[client as usize].state == State::Full {
            self.clear(client, now_ns);
        }
    }

    /// Returns the number of steps that haven't ended.
    pub(crate) const fn left(&self) -> usize {
        self.left
    }

    fn clear(&mut self, client: u32, now_ns: u64) {
        let lane = &mut self.lanes[client as usize];
        lane.state = State::Ready;
        lane.clear_ns = lane.clear_ns.max(now_ns);
        self.ready.push(client);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::Action;
    use crate::order::{AccessKind, DependencyBuilder, Resource, Span};
    use crate::step::Step;

    /// Returns steps of two clients, each with a time and the file it creates or reads.
    fn batch() -> Batch {
        let mut order = DependencyBuilder::default();
        let mut steps = Vec::new();
        for (client, scheduled_ns, file, class, depth) in [
            (0, 0, 0, AccessKind::Exclusive, 1),
            (0, 100, 1, AccessKind::Read, 1),
            (1, 200, 0, AccessKind::Read, 1),
            (1, 300, 2, AccessKind::Read, 2),
        ] {
            let span = Span { start_ns: scheduled_ns, end_ns: scheduled_ns + 50 };
            order.access(steps.len() as u32, span, Resource::File(file), class);
            steps.push(Step { client, depth, scheduled_ns, ..Step::new(Action::Getattr) });
        }
        Batch::new(steps, order, 2)
    }

    /// Starts everything that can start at this time.
    fn start_all(lanes: &mut Lanes<'_>, now_ns: u64) -> Vec<Start> {
        let mut started = Vec::new();
        while let Some(client) = lanes.pop_ready(now_ns) {
            while let Some(start) = lanes.next_step(client, now_ns, true) {
                started.push(start);
            }
        }
        started
    }

    fn start(step: u32, scheduled_ns: u64, ready_ns: u64) -> Start {
        Start { step, scheduled_ns, ready_ns }
    }

    #[test]
    fn starts_steps_on_schedule() {
        let batch = batch();
        let mut lanes = Lanes::new(&batch, Pace::Open { speed: 1.0 }, 1000);
        assert_eq!(start_all(&mut lanes, 1000), [start(0, 1000, 1000)]);
        // The client's second step doesn't depend on the first.
        assert_eq!(lanes.next_instant_ns(), Some(1100));
        assert_eq!(start_all(&mut lanes, 1100), [start(1, 1100, 1100)]);
        // This one waits for the reply to the first, and holds up the one behind it.
        assert_eq!(start_all(&mut lanes, 1400), []);
        lanes.end_step(1, 1450);
        assert_eq!(start_all(&mut lanes, 1460), []);
        lanes.end_step(0, 1500);
        assert_eq!(start_all(&mut lanes, 1510), [start(2, 1200, 1500), start(3, 1300, 1500)]);
        lanes.end_step(2, 1600);
        lanes.end_step(3, 1600);
        assert_eq!(lanes.left(), 0);
    }

    #[test]
    fn a_speed_divides_all_instants() {
        let batch = batch();
        let mut lanes = Lanes::new(&batch, Pace::Open { speed: 2.0 }, 1000);
        start_all(&mut lanes, 1000);
        assert_eq!(lanes.next_instant_ns(), Some(1050));
        let mut slow = Lanes::new(&batch, Pace::Open { speed: 0.5 }, 1000);
        start_all(&mut slow, 1000);
        assert_eq!(slow.next_instant_ns(), Some(1200));
    }

    #[test]
    fn keeps_concurrency_of_trace() {
        let batch = batch();
        let mut lanes = Lanes::new(&batch, Pace::Closed, 1000);
        assert_eq!(start_all(&mut lanes, 1000), [start(0, 1000, 1000)]);
        lanes.end_step(0, 1030);
        // The second client's first step was held up by its dependency, the first client's by its
        // depth. The last one may run along with one call in flight.
        let started = start_all(&mut lanes, 1040);
        assert_eq!(started, [start(2, 1030, 1030), start(3, 1030, 1030), start(1, 1030, 1030)]);
    }

    #[test]
    fn waits_for_step_on_other_host() {
        let mut batch = batch();
        // The first client is on another host, and the second one waits for its first step.
        batch.keep(&[1]);
        let mut lanes = Lanes::new(&batch, Pace::Open { speed: 1.0 }, 1000);
        assert_eq!((lanes.left(), start_all(&mut lanes, 1400)), (2, vec![]));
        lanes.end_elsewhere(0, 1390);
        // It was ready when the other host got its reply, not when the notice arrived.
        assert_eq!(start_all(&mut lanes, 1410), [start(2, 1200, 1390), start(3, 1300, 1390)]);
        lanes.end_step(2, 1500);
        lanes.end_step(3, 1500);
        assert_eq!(lanes.left(), 0);
    }

    #[test]
    fn keeps_think_time_after_reply() {
        let mut order = DependencyBuilder::default();
        let mut steps = Vec::new();
        for (number, think_ns) in [(0, 30), (1, 70), (2, 0)] {
            let span = Span { start_ns: number * 100, end_ns: number * 100 + 10 };
            order.access(number as u32, span, Resource::File(0), AccessKind::Read);
            steps.push(Step { think_ns, ..Step::new(Action::Getattr) });
        }
        let batch = Batch::new(steps, order, 1);
        let mut lanes = Lanes::new(&batch, Pace::Thinking, 1000);
        assert_eq!(start_all(&mut lanes, 1000), []);
        assert_eq!(start_all(&mut lanes, 1035), [start(0, 1030, 1030)]);
        // Think time starts with the reply, no matter how late that is.
        lanes.end_step(0, 5000);
        assert_eq!(start_all(&mut lanes, 5060), []);
        assert_eq!(lanes.next_instant_ns(), Some(5070));
        assert_eq!(start_all(&mut lanes, 5075), [start(1, 5070, 5070)]);
        lanes.end_step(1, 5100);
        assert_eq!(start_all(&mut lanes, 5101), [start(2, 5100, 5100)]);
    }

    #[test]
    fn a_full_connection_holds_its_client() {
        let batch = batch();
        let mut lanes = Lanes::new(&batch, Pace::Open { speed: 1.0 }, 0);
        let client = lanes.pop_ready(400).unwrap();
        assert!(lanes.next_step(client, 400, true).is_some());
        assert_eq!(lanes.next_step(client, 400, false), None);
        lanes.end_step(0, 450);
        assert_eq!(lanes.pop_ready(460), Some(client));
        assert_eq!(lanes.pop_ready(460), Some(1));
    }
}

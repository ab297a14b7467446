//! One connection's way through the plan: draws, in a fixed order for each call.
//!
//! [`FaultState::begin`] decides on a call before it is carried out, [`FaultState::meet`] on each
//! procedure or operation in it, and [`FaultState::end`] says how long its reply waits. How many
//! draws a call takes depends on the plan and the call alone.

use nfs_proto::Status;

use super::{FaultPlan, FaultedCalls, PartsPerMillion};
use crate::clock::mix;

/// The outcome of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out; what becomes of its reply.
    Carry {
        /// The reply is not sent.
        drop: bool,
        /// The reply is sent so many nanoseconds late.
        delay_ns: u64,
        /// The reply is sent twice.
        duplicate: bool,
    },
    /// The connection falls silent.
    Hang,
    /// The connection is closed.
    Close,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct FaultState {
    random: u64,
    calls: u64,
    service_time_ns: u64,
}

impl FaultState {
    pub(super) fn new(seed: u64, number: u64) -> Self {
        Self { random: mix(seed ^ mix(number)), calls: 0, service_time_ns: 0 }
    }

    /// Decides on the next call.
    pub(crate) fn begin(&mut self, plan: &FaultPlan) -> Fate {
        let reached = |limit: Option<u64>| limit.is_some_and(|limit| self.calls >= limit);
        if reached(plan.close_after_calls) {
            return Fate::Close;
        }
        if reached(plan.hang_after_calls) {
            return Fate::Hang;
        }
        self.calls += 1;
        self.service_time_ns = 0;
        let drop = self.strikes(plan.drop_reply);
        let late = self.strikes(plan.delay_reply.share);
        let delay_ns = if late { plan.delay_reply.delay_ns } else { 0 };
        Fate::Carry { drop, delay_ns, duplicate: self.strikes(plan.duplicate_reply) }
    }

    /// Meets one procedure, or one operation of a compound: the status to answer with instead of
    /// doing it. `first` says that `FaultedCalls::All` may strike here.
    pub(crate) fn meet(
        &mut self,
        plan: &FaultPlan,
        called: FaultedCalls,
        first: bool,
    ) -> Option<Status> {
        if first || plan.service_times.iter().any(|special| special.calls == called) {
            let special = plan.service_times.iter().find(|special| fits(special.calls, called));
            let time = special.map_or(plan.service_time, |special| special.time);
            self.service_time_ns = self.service_time_ns.max(time.draw(&mut self.random));
        }
        for fault in &plan.errors {
            let meant = fault.calls == called || (first && fits(fault.calls, called));
            if meant && self.strikes(fault.share) {
                return Some(fault.status);
            }
        }
        None
    }

    /// Tells how long the reply waits for its service time, in nanoseconds.
    pub(crate) fn service_time_ns(&self) -> u64 {
        self.service_time_ns
    }

    /// Draws once, unless the outcome is certain.
    pub(crate) fn strikes(&mut self, share: PartsPerMillion) -> bool {
        match share.0 {
            0 => false,
            1_000_000.. => true,
            parts => {
                self.random = mix(self.random);
                self.random % 1_000_000 < u64::from(parts)
            }
        }
    }
}

/// Whether a fault for `wanted` can befall what was called; NULL of v2 and v3 is never meant by
/// `All`.
fn fits(wanted: FaultedCalls, called: FaultedCalls) -> bool {
    match wanted {
        FaultedCalls::All => !matches!(called, FaultedCalls::V2(0) | FaultedCalls::V3(0)),
        wanted => wanted == called,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::{CallServiceTime, DelayFault, ErrorFault, ServiceTime};

    const ALWAYS: PartsPerMillion = PartsPerMillion(1_000_000);
    const READ: FaultedCalls = FaultedCalls::V3(6);
    const WRITE: FaultedCalls = FaultedCalls::V3(7);
    const NULL: FaultedCalls = FaultedCalls::V3(0);
    const CARRY: Fate = Fate::Carry { drop: false, delay_ns: 0, duplicate: false };

    fn fates(plan: &FaultPlan, connection: u64, calls: usize) -> Vec<Fate> {
        let mut state = plan.start(connection).unwrap();
        (0..calls).map(|_| state.begin(plan)).collect()
    }

    #[test]
    fn no_plan_needs_no_state() {
        assert!(FaultPlan::default().start(1).is_none());
        let limits = FaultPlan { read_bytes_max: Some(4096), ..FaultPlan::default() };
        assert!(limits.start(1).is_none());
    }

    #[test]
    fn one_seed_gives_one_sequence_for_each_connection() {
        let half = PartsPerMillion(500_000);
        let plan = FaultPlan { seed: 1, drop_reply: half, ..FaultPlan::default() };
        assert_eq!(fates(&plan, 1, 100), fates(&plan, 1, 100));
        assert_ne!(fates(&plan, 1, 100), fates(&plan, 2, 100));
        let other = FaultPlan { seed: 2, ..plan.clone() };
        assert_ne!(fates(&plan, 1, 100), fates(&other, 1, 100));
        let dropped = fates(&plan, 1, 10_000).iter().filter(|fate| **fate != CARRY).count();
        assert!((4_800..5_200).contains(&dropped), "{dropped}");
    }

    #[test]
    fn drop_delay_and_duplicate_are_drawn_apart() {
        let plan = FaultPlan {
            drop_reply: PartsPerMillion(100_000),
            delay_reply: DelayFault { share: PartsPerMillion(200_000), delay_ns: 9 },
            duplicate_reply: PartsPerMillion(300_000),
            ..FaultPlan::default()
        };
        let mut counts = [0; 3];
        for fate in fates(&plan, 0, 10_000) {
            let Fate::Carry { drop, delay_ns, duplicate } = fate else { unreachable!() };
            counts[0] += usize::from(drop);
            counts[1] += usize::from(delay_ns == 9);
            counts[2] += usize::from(duplicate);
        }
        for (count, share) in counts.iter().zip([1000, 2000, 3000]) {
            assert!(count.abs_diff(share) < 150, "{counts:?}");
        }
    }

    #[test]
    fn errors_befall_the_calls_they_name() {
        let fault = ErrorFault { calls: READ, status: Status::Io, share: ALWAYS };
        let plan = FaultPlan { errors: vec![fault], ..FaultPlan::default() };
        let mut state = plan.start(0).unwrap();
        assert_eq!(state.meet(&plan, READ, true), Some(Status::Io));
        assert_eq!(state.meet(&plan, WRITE, true), None);
        assert_eq!(state.meet(&plan, FaultedCalls::V2(6), true), None);
        let errors = vec![ErrorFault { calls: FaultedCalls::All, ..fault }];
        let all = FaultPlan { errors, ..plan };
        assert_eq!(state.meet(&all, WRITE, true), Some(Status::Io));
        assert_eq!(state.meet(&all, FaultedCalls::V4(25), true), Some(Status::Io));
        assert_eq!(state.meet(&all, FaultedCalls::V4(25), false), None);
        assert_eq!(state.meet(&all, NULL, true), None);
    }

    #[test]
    fn a_compound_takes_the_longest_of_its_operations() {
        let fixed = |time_ns| ServiceTime::Fixed { time_ns };
        let special =
            |op, time_ns| CallServiceTime { calls: FaultedCalls::V4(op), time: fixed(time_ns) };
        let plan = FaultPlan {
            service_time: fixed(5),
            service_times: vec![special(25, 70), special(9, 1)],
            ..FaultPlan::default()
        };
        let mut state = plan.start(0).unwrap();
        let mut time = |operations: &[u32]| {
            state.begin(&plan);
            for (position, op) in operations.iter().enumerate() {
                state.meet(&plan, FaultedCalls::V4(*op), position == 0);
            }
            state.service_time_ns()
        };
        assert_eq!(time(&[22, 25, 9]), 70);
        assert_eq!(time(&[22, 9]), 5);
        assert_eq!(time(&[9]), 1);
        assert_eq!(time(&[]), 0);
    }

    #[test]
    fn hanging_and_closing_come_after_so_many_calls() {
        let plan = FaultPlan { hang_after_calls: Some(2), ..FaultPlan::default() };
        assert_eq!(fates(&plan, 0, 3), [CARRY, CARRY, Fate::Hang]);
        let plan = FaultPlan { close_after_calls: Some(0), ..FaultPlan::default() };
        assert_eq!(fates(&plan, 0, 1), [Fate::Close]);
    }
}

//! One connection's way through the plan: draws, in a fixed order for each call.
//!
//! [`FaultState::begin_call`] decides on a call before it is carried out,
//! [`FaultState::draw_error`] on each procedure or operation in it, and
//! [`FaultState::service_time_ns`] returns how long its reply waits. The number of draws per call
//! depends only on the plan and the call.

use nfs_proto::Status;

use super::service_time::draw_time;
use super::{FaultPlan, FaultedCalls, PartsPerMillion};
use crate::clock::mix;

/// The outcome of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallOutcome {
    /// It is executed; the fields decide on its reply.
    Execute {
        /// The reply is not sent.
        drop: bool,
        /// How late the reply is sent, in nanoseconds.
        delay_ns: u64,
        /// The reply is sent twice.
        duplicate: bool,
    },
    /// The connection goes silent.
    Hang,
    /// The connection is closed.
    Close,
}

/// The part of a call that a fault is drawn for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallPart {
    /// A whole procedure, or the first operation of a compound after SEQUENCE: faults of
    /// `FaultedCalls::All` are drawn here, once per call.
    First,
    /// Any other operation of a compound: only faults that name it are drawn.
    Further,
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
    pub(crate) fn begin_call(&mut self, plan: &FaultPlan) -> CallOutcome {
        if self.calls >= plan.close_after_calls.unwrap_or(u64::MAX) {
            return CallOutcome::Close;
        }
        if self.calls >= plan.hang_after_calls.unwrap_or(u64::MAX) {
            return CallOutcome::Hang;
        }
        self.calls += 1;
        self.service_time_ns = 0;
        // Every call makes the same draws in the same order, even those whose result is not used: a
        // dropped reply must not shift the faults of later calls.
        let drop = self.draw_strike(plan.drop_reply);
        let late = self.draw_strike(plan.delay_reply.share);
        let delay_ns = if late { plan.delay_reply.delay_ns } else { 0 };
        CallOutcome::Execute { drop, delay_ns, duplicate: self.draw_strike(plan.duplicate_reply) }
    }

    /// Draws for one procedure, or one operation of a compound: returns the status to answer with
    /// instead of executing it.
    pub(crate) fn draw_error(
        &mut self,
        plan: &FaultPlan,
        called: FaultedCalls,
        part: CallPart,
    ) -> Option<Status> {
        let is_first = part == CallPart::First;
        let special = plan.service_times.iter().find(|special| fits(special.calls, called));
        // The longest time among a compound's operations counts. The general one is drawn at the
        // first operation only, so a seed gives the same times however many operations follow.
        let is_named = plan.service_times.iter().any(|special| special.calls == called);
        if is_first || is_named {
            let time = match special {
                Some(special) => Some(special.time),
                None => plan.service_time,
            };
            if let Some(time) = time {
                let time_ns = draw_time(time, &mut self.random);
                self.service_time_ns = self.service_time_ns.max(time_ns);
            }
        }
        for fault in &plan.errors {
            let meant = fault.calls == called || (is_first && fits(fault.calls, called));
            if meant && self.draw_strike(fault.share) {
                return Some(fault.status);
            }
        }
        None
    }

    /// Makes the reply wait at least this long.
    pub(crate) fn hold(&mut self, time_ns: u64) {
        self.service_time_ns = self.service_time_ns.max(time_ns);
    }

    /// Returns how long the reply waits for its service time, in nanoseconds.
    pub(crate) fn service_time_ns(&self) -> u64 {
        self.service_time_ns
    }

    /// Draws once, unless the outcome is certain.
    pub(crate) fn draw_strike(&mut self, share: PartsPerMillion) -> bool {
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

/// Whether a fault for `wanted` affects the call; `All` never includes NULL of v2 and v3.
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
    const EXECUTE: CallOutcome =
        CallOutcome::Execute { drop: false, delay_ns: 0, duplicate: false };

    fn outcomes(plan: &FaultPlan, connection: u64, calls: usize) -> Vec<CallOutcome> {
        let mut state = plan.start_on(connection).unwrap();
        (0..calls).map(|_| state.begin_call(plan)).collect()
    }

    #[test]
    fn no_plan_needs_no_state() {
        assert!(FaultPlan::default().start_on(1).is_none());
        let limits = FaultPlan { read_bytes_max: Some(4096), ..FaultPlan::default() };
        assert!(limits.start_on(1).is_none());
    }

    #[test]
    fn repeats_faults_for_seed() {
        let half = PartsPerMillion(500_000);
        let plan = FaultPlan { seed: 1, drop_reply: half, ..FaultPlan::default() };
        assert_eq!(outcomes(&plan, 1, 100), outcomes(&plan, 1, 100));
        assert_ne!(outcomes(&plan, 1, 100), outcomes(&plan, 2, 100));
        let other = FaultPlan { seed: 2, ..plan.clone() };
        assert_ne!(outcomes(&plan, 1, 100), outcomes(&other, 1, 100));
        let dropped =
            outcomes(&plan, 1, 10_000).iter().filter(|outcome| **outcome != EXECUTE).count();
        assert!((4_800..5_200).contains(&dropped), "{dropped}");
    }

    #[test]
    fn draws_faults_independently() {
        let plan = FaultPlan {
            drop_reply: PartsPerMillion(100_000),
            delay_reply: DelayFault { share: PartsPerMillion(200_000), delay_ns: 9 },
            duplicate_reply: PartsPerMillion(300_000),
            ..FaultPlan::default()
        };
        let mut counts = [0; 3];
        for outcome in outcomes(&plan, 0, 10_000) {
            let CallOutcome::Execute { drop, delay_ns, duplicate } = outcome else {
                unreachable!()
            };
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
        let mut state = plan.start_on(0).unwrap();
        assert_eq!(state.draw_error(&plan, READ, CallPart::First), Some(Status::Io));
        assert_eq!(state.draw_error(&plan, WRITE, CallPart::First), None);
        assert_eq!(state.draw_error(&plan, FaultedCalls::V2(6), CallPart::First), None);
        let errors = vec![ErrorFault { calls: FaultedCalls::All, ..fault }];
        let all = FaultPlan { errors, ..plan };
        assert_eq!(state.draw_error(&all, WRITE, CallPart::First), Some(Status::Io));
        assert_eq!(state.draw_error(&all, FaultedCalls::V4(25), CallPart::First), Some(Status::Io));
        assert_eq!(state.draw_error(&all, FaultedCalls::V4(25), CallPart::Further), None);
        assert_eq!(state.draw_error(&all, NULL, CallPart::First), None);
    }

    #[test]
    fn takes_longest_time_of_compound() {
        let fixed = |time_ns| ServiceTime::Fixed { time_ns };
        let special =
            |op, time_ns| CallServiceTime { calls: FaultedCalls::V4(op), time: fixed(time_ns) };
        let plan = FaultPlan {
            service_time: Some(fixed(5)),
            service_times: vec![special(25, 70), special(9, 1)],
            ..FaultPlan::default()
        };
        let mut state = plan.start_on(0).unwrap();
        let mut time = |operations: &[u32]| {
            state.begin_call(&plan);
            for (position, op) in operations.iter().enumerate() {
                let part = if position == 0 { CallPart::First } else { CallPart::Further };
                state.draw_error(&plan, FaultedCalls::V4(*op), part);
            }
            state.service_time_ns()
        };
        assert_eq!(time(&[22, 25, 9]), 70);
        assert_eq!(time(&[22, 9]), 5);
        assert_eq!(time(&[9]), 1);
        assert_eq!(time(&[]), 0);
    }

    #[test]
    fn hangs_or_closes_after_count() {
        let plan = FaultPlan { hang_after_calls: Some(2), ..FaultPlan::default() };
        assert_eq!(outcomes(&plan, 0, 3), [EXECUTE, EXECUTE, CallOutcome::Hang]);
        let plan = FaultPlan { close_after_calls: Some(0), ..FaultPlan::default() };
        assert_eq!(outcomes(&plan, 0, 1), [CallOutcome::Close]);
    }
}

//! Planned faults: what the server does wrong on purpose, and when.
//!
//! A [`FaultPlan`] is the plan; each connection walks through it with a [`FaultState`] of its own,
//! seeded by the plan's seed and the connection's number. So the faults one connection sees depend
//! on the calls it makes and on nothing else. Without a plan no connection has a state, and each
//! call pays one test of an `Option`.

use nfs_proto::mount3::MountStatus;
use nfs_proto::nfs3::{Procedure, Status};

use crate::clock::mix;

/// A probability in parts per million: 1,000,000 is certainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartsPerMillion(pub u32);

/// A status to answer with instead of doing what is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ErrorFault {
    /// The procedure it befalls; `None` means all but NULL.
    pub procedure: Option<Procedure>,
    /// What is answered.
    pub status: Status,
    /// How often.
    pub probability: PartsPerMillion,
}

/// All faults of a server; the default has none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// Seed of all random choices.
    pub seed: u64,
    /// Time that each reply is held back, in nanoseconds; the call is carried out at once.
    pub service_time_ns: u64,
    /// Largest READ granted, in bytes, where below the configured one.
    pub read_bytes_max: Option<u32>,
    /// Largest WRITE granted, in bytes, where below the configured one.
    pub write_bytes_max: Option<u32>,
    /// Errors to answer with; the first that strikes counts.
    pub errors: Vec<ErrorFault>,
    /// Every MNT is answered with this.
    pub refuse_mount: Option<MountStatus>,
    /// How often a call is carried out and never answered.
    pub drop_reply: PartsPerMillion,
    /// Calls answered on a connection before it falls silent, staying open.
    pub hang_after_calls: Option<u64>,
    /// Calls answered on a connection before it is closed.
    pub close_after_calls: Option<u64>,
}

/// What becomes of one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is carried out and answered, after so many nanoseconds.
    Answer(u64),
    /// It is answered with an error, after so many nanoseconds.
    Fail(Status, u64),
    /// It is carried out and not answered.
    Drop,
    /// The connection falls silent.
    Hang,
    /// The connection is closed.
    Close,
}

/// One connection's way through the plan.
#[derive(Debug)]
pub(crate) struct FaultState {
    random: u64,
    calls: u64,
}

impl FaultPlan {
    /// Whether calls have to be looked at one by one.
    fn touches_calls(&self) -> bool {
        self.service_time_ns > 0
            || !self.errors.is_empty()
            || self.drop_reply.0 > 0
            || self.hang_after_calls.is_some()
            || self.close_after_calls.is_some()
    }

    /// Starts the way of connection `number` through the plan, where there is anything to do.
    pub(crate) fn start(&self, number: u64) -> Option<Box<FaultState>> {
        let state = || Box::new(FaultState { random: mix(self.seed ^ mix(number)), calls: 0 });
        self.touches_calls().then(state)
    }
}

impl FaultState {
    /// Decides on the next call; `procedure` is `None` for other programs than NFS.
    pub(crate) fn next(&mut self, plan: &FaultPlan, procedure: Option<Procedure>) -> Fate {
        let reached = |limit: Option<u64>| limit.is_some_and(|limit| self.calls >= limit);
        if reached(plan.close_after_calls) {
            return Fate::Close;
        }
        if reached(plan.hang_after_calls) {
            return Fate::Hang;
        }
        self.calls += 1;
        if self.strikes(plan.drop_reply) {
            return Fate::Drop;
        }
        for fault in &plan.errors {
            let meant = match (fault.procedure, procedure) {
                (None, Some(called)) => called != Procedure::Null,
                (wanted, called) => wanted.is_some() && wanted == called,
            };
            if meant && self.strikes(fault.probability) {
                return Fate::Fail(fault.status, plan.service_time_ns);
            }
        }
        Fate::Answer(plan.service_time_ns)
    }

    /// Draws once, unless the outcome is certain.
    fn strikes(&mut self, probability: PartsPerMillion) -> bool {
        match probability.0 {
            0 => false,
            1_000_000.. => true,
            parts => {
                self.random = mix(self.random);
                self.random % 1_000_000 < u64::from(parts)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(plan: &FaultPlan, connection: u64, calls: usize) -> Vec<Fate> {
        let mut state = plan.start(connection).unwrap();
        (0..calls).map(|_| state.next(plan, Some(Procedure::Getattr))).collect()
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
        let dropped = fates(&plan, 1, 10_000).iter().filter(|fate| **fate == Fate::Drop).count();
        assert!((4_800..5_200).contains(&dropped), "{dropped}");
    }

    #[test]
    fn errors_befall_the_procedure_they_name() {
        let fault = ErrorFault {
            procedure: Some(Procedure::Read),
            status: Status::Io,
            probability: PartsPerMillion(1_000_000),
        };
        let plan = FaultPlan { errors: vec![fault], service_time_ns: 5, ..FaultPlan::default() };
        let mut state = plan.start(0).unwrap();
        assert_eq!(state.next(&plan, Some(Procedure::Read)), Fate::Fail(Status::Io, 5));
        assert_eq!(state.next(&plan, Some(Procedure::Write)), Fate::Answer(5));
        assert_eq!(state.next(&plan, None), Fate::Answer(5));
        let all = FaultPlan { errors: vec![ErrorFault { procedure: None, ..fault }], ..plan };
        assert_eq!(state.next(&all, Some(Procedure::Write)), Fate::Fail(Status::Io, 5));
        assert_eq!(state.next(&all, Some(Procedure::Null)), Fate::Answer(5));
        assert_eq!(state.next(&all, None), Fate::Answer(5));
    }

    #[test]
    fn hanging_and_closing_come_after_so_many_calls() {
        let plan = FaultPlan { hang_after_calls: Some(2), ..FaultPlan::default() };
        assert_eq!(fates(&plan, 0, 3), [Fate::Answer(0), Fate::Answer(0), Fate::Hang]);
        let plan = FaultPlan { close_after_calls: Some(0), ..FaultPlan::default() };
        assert_eq!(fates(&plan, 0, 1), [Fate::Close]);
    }
}

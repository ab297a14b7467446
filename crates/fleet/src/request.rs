//! Orders together with what their answers hold.
//!
//! A [`Request`] is sent as its [`Order`]; the report that comes back is read by its [`Answer`],
//! which is the one place where an answer of the wrong kind is found: whatever a remote agent sends
//! is an error there and never a panic. Each function here names an order and the one report that
//! answers it; [`Report::Failed`] is handled before, by the receiving end.

use std::path::PathBuf;

use model::{Action, EffectiveSettings, Fact, Invalidation, Pass, Share, Telemetry};

use crate::order::{
    Assignment, Begun, ClockReading, Done, Opening, Order, PassEnd, QuietWait, Report,
    RestoredChange,
};

/// An order whose answer holds a `T`.
#[derive(Clone, Debug)]
pub struct Request<T> {
    order: Order,
    read: fn(Report) -> Result<T, Report>,
}

/// Reads the answer to an order.
#[derive(Debug)]
pub struct Answer<T> {
    order: &'static str,
    read: fn(Report) -> Result<T, Report>,
}

/// An answer that does not belong to its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "answered {answer} to {order} (hint: its dfsbench is another one or broken; install this one \
     there)"
)]
pub struct WrongAnswer {
    /// Name of the report that was received.
    pub answer: &'static str,
    /// Name of the order that was given.
    pub order: &'static str,
}

impl<T> Request<T> {
    /// The order to send, and what reads its answer.
    pub fn into_parts(self) -> (Order, Answer<T>) {
        let answer = Answer { order: self.order.name(), read: self.read };
        (self.order, answer)
    }
}

impl<T> Answer<T> {
    /// Reads a report.
    ///
    /// # Errors
    /// When it is no answer to the order.
    pub fn read(&self, report: Report) -> Result<T, WrongAnswer> {
        match (self.read)(report) {
            Ok(value) => Ok(value),
            Err(other) => Err(WrongAnswer { answer: other.name(), order: self.order }),
        }
    }
}

/// Makes the request of an order and the pattern of its answer.
macro_rules! request {
    ($order:expr, $answer:pat => $value:expr) => {
        Request {
            order: $order,
            read: |report| match report {
                $answer => Ok($value),
                other => Err(other),
            },
        }
    };
}

/// Makes a fresh target; answered by what was found there.
pub fn begin(assignment: Assignment) -> Request<Begun> {
    request!(Order::Begin(Box::new(assignment)), Report::Begun(begun) => begun)
}

/// Makes what a pass expects to find.
pub const fn prepare(pass: Pass) -> Request<()> {
    request!(Order::Prepare(pass), Report::Prepared => ())
}

/// Has the workers of a share wait to start.
pub const fn arm(pass: Pass, share: Share) -> Request<()> {
    request!(Order::Arm { pass, share }, Report::Armed => ())
}

/// Starts the workers at an instant of the agent's clock, in nanoseconds; answered by their work.
pub const fn go(start_ns: u64) -> Request<Vec<Done>> {
    request!(Order::Go { start_ns }, Report::Worked { done, .. } => done)
}

/// Counts what a pass left; answered by its result.
pub const fn account(others: Vec<Done>) -> Request<PassEnd> {
    request!(Order::Account { others }, Report::Ran(end) => *end)
}

/// Removes the working directory, also where `inherits` says that another agent made it, which is
/// lost.
pub const fn end(inherits: bool) -> Request<()> {
    request!(Order::End { inherits }, Report::Ended => ())
}

/// Requests the settings of the host.
pub const fn facts() -> Request<Vec<Fact>> {
    request!(Order::Facts, Report::Facts(facts) => facts)
}

/// Requests a reading of the clocks.
pub const fn clock() -> Request<ClockReading> {
    request!(Order::Clock, Report::Clock(reading) => reading)
}

/// Makes ready to change the host.
pub const fn open(opening: Opening) -> Request<()> {
    request!(Order::Open(opening), Report::Opened => ())
}

/// Changes the host; answered by what is effective then.
pub fn apply(action: Action) -> Request<EffectiveSettings> {
    request!(Order::Apply(Box::new(action)), Report::Applied(effective) => effective)
}

/// Undoes what was applied last.
pub const fn undo_last() -> Request<()> {
    request!(Order::UndoLast, Report::Undone => ())
}

/// Undoes all that was applied.
pub const fn undo_all() -> Request<()> {
    request!(Order::UndoAll, Report::Undone => ())
}

/// Has nothing held open below the target.
pub const fn release() -> Request<()> {
    request!(Order::Release, Report::Released => ())
}

/// Drops from the host's memory what is to be read from elsewhere; answered by what was in it.
pub const fn invalidate(how: Invalidation, directory: Option<PathBuf>) -> Request<Vec<Fact>> {
    request!(Order::Invalidate { how, directory }, Report::Facts(facts) => facts)
}

/// Waits until disks and networks of the host are quiet; answered by how that went.
pub const fn await_quiet(within_ms: u64) -> Request<QuietWait> {
    request!(Order::AwaitQuiet { within_ms }, Report::Quiet(wait) => wait)
}

/// Watches the host from now on.
pub const fn watch() -> Request<()> {
    request!(Order::Watch, Report::Watching => ())
}

/// Ends watching it; answered by what was seen.
pub const fn unwatch() -> Request<Telemetry> {
    request!(Order::Unwatch, Report::Watched(seen) => *seen)
}

/// Restores as [`clean`] does, and drops from the undo log what can't be restored.
pub const fn clean_and_forget() -> Request<Vec<RestoredChange>> {
    request!(Order::Clean { forget: true }, Report::Cleaned(found) => found)
}

/// Restores what campaigns that were killed left changed; answered by what that was.
pub const fn clean() -> Request<Vec<RestoredChange>> {
    request!(Order::Clean { forget: false }, Report::Cleaned(found) => found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_another_kind_is_named_together_with_its_order() {
        let (order, answer) = clock().into_parts();
        assert_eq!(order, Order::Clock);
        let reading = ClockReading { mono_ns: 1, wall_ns: 2 };
        assert_eq!(answer.read(Report::Clock(reading)), Ok(reading));
        let wrong = answer.read(Report::Ended).unwrap_err();
        assert!(wrong.to_string().starts_with("answered Ended to Clock (hint: "), "{wrong}");
    }
}

//! Orders paired with the type of their answers.
//!
//! A [`Request`] is sent as its [`Order`], and the report that comes back is read by its
//! [`AnswerReader`]. That is the only place that detects an answer of the wrong kind, so anything a
//! remote agent sends can cause an error but never a panic. Each function here pairs an order with
//! the one report that answers it. [`Report::Failed`] is handled earlier, by the receiver.

use std::path::PathBuf;

use model::{Action, EffectiveSettings, Fact, Invalidation, Pass, Share, Target, Telemetry};

use crate::order::{
    Assignment, ClockReading, HostPermissions, KindTotals, Order, PassEnd, QuietWait, Report,
    RestoredChange, TrialSetup,
};

/// An order whose answer is a `T`.
#[derive(Clone, Debug)]
pub struct Request<T> {
    order: Order,
    read: fn(Report) -> Result<T, Report>,
}

/// Reads the answer to an order.
#[derive(Debug)]
pub struct AnswerReader<T> {
    order: String,
    read: fn(Report) -> Result<T, Report>,
}

/// The answer does not match the order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "answered {answer} to {order} (hint: a different or damaged dfsbench is installed there; \
     replace it with this one)"
)]
pub struct WrongAnswer {
    /// Name of the report that was received.
    pub answer: String,
    /// Name of the order that was sent.
    pub order: String,
}

impl<T> Request<T> {
    /// Splits the request into the order to send and the reader of its answer.
    pub fn into_parts(self) -> (Order, AnswerReader<T>) {
        let answer = AnswerReader { order: self.order.name(), read: self.read };
        (self.order, answer)
    }
}

impl<T> AnswerReader<T> {
    /// Extracts the answer from a report.
    ///
    /// # Errors
    /// If the report does not answer this order.
    pub fn read(&self, report: Report) -> Result<T, WrongAnswer> {
        (self.read)(report)
            .map_err(|other| WrongAnswer { answer: other.name(), order: self.order.clone() })
    }
}

/// Builds a request from an order and the pattern of its answer.
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

/// Creates a fresh target.
pub fn begin(assignment: Assignment) -> Request<TrialSetup> {
    request!(Order::Begin(Box::new(assignment)), Report::Begun(begun) => begun)
}

/// Creates what a pass expects to find.
pub const fn prepare(pass: Pass) -> Request<()> {
    request!(Order::Prepare(pass), Report::Prepared => ())
}

/// Gets the workers of a share ready to start.
pub const fn arm(pass: Pass, share: Share) -> Request<()> {
    request!(Order::Arm { pass, share }, Report::Armed => ())
}

/// Starts the workers at a time of the agent's clock, in nanoseconds. Answered with the work done.
pub const fn go(start_ns: u64) -> Request<Vec<KindTotals>> {
    request!(Order::Go { start_ns }, Report::Worked { done, .. } => done)
}

/// Accounts for what a pass left behind. Answered with its result.
pub const fn account(others: Vec<KindTotals>) -> Request<PassEnd> {
    request!(Order::Account { others }, Report::Ran(end) => *end)
}

/// Removes the working directory. If `inherits` is set, also removes one created by an agent that
/// is now lost.
pub const fn end(inherits: bool) -> Request<()> {
    request!(Order::End { inherits }, Report::Ended => ())
}

/// Asks for the host's settings.
pub const fn facts() -> Request<Vec<Fact>> {
    request!(Order::Facts, Report::Facts(facts) => facts)
}

/// Asks for a reading of the clocks.
pub const fn clock() -> Request<ClockReading> {
    request!(Order::Clock, Report::Clock(reading) => reading)
}

/// Prepares to change the host.
pub const fn open(opening: HostPermissions) -> Request<()> {
    request!(Order::Open(opening), Report::Opened => ())
}

/// Changes the host. Answered with the settings now in effect.
pub fn apply(action: Action) -> Request<EffectiveSettings> {
    request!(Order::Apply(Box::new(action)), Report::Applied(effective) => effective)
}

/// Undoes the last change.
pub const fn undo_last() -> Request<()> {
    request!(Order::UndoLast, Report::Undone => ())
}

/// Undoes all changes.
pub const fn undo_all() -> Request<()> {
    request!(Order::UndoAll, Report::Undone => ())
}

/// Closes everything below the target.
pub const fn release() -> Request<()> {
    request!(Order::Release, Report::Released => ())
}

/// Drops cached data that will be read from another host. Answered with what was cached.
pub const fn invalidate(how: Invalidation, directory: Option<PathBuf>) -> Request<Vec<Fact>> {
    request!(Order::Invalidate { how, directory }, Report::Facts(facts) => facts)
}

/// Waits until the host's disks and networks are idle.
pub const fn await_quiet(within_ms: u64) -> Request<QuietWait> {
    request!(Order::AwaitQuiet { within_ms }, Report::Quiet(wait) => wait)
}

/// Starts collecting telemetry.
pub const fn watch() -> Request<()> {
    request!(Order::Watch, Report::Watching => ())
}

/// Stops collecting telemetry and returns it.
pub const fn unwatch() -> Request<Telemetry> {
    request!(Order::Unwatch, Report::Watched(seen) => *seen)
}

/// Restores changes like [`clean`], and drops those that cannot be restored from the undo log.
pub const fn clean_and_forget() -> Request<Vec<RestoredChange>> {
    request!(Order::Clean { forget: true }, Report::Cleaned(found) => found)
}

/// Restores changes left behind by killed campaigns. Answered with what they were.
pub const fn clean() -> Request<Vec<RestoredChange>> {
    request!(Order::Clean { forget: false }, Report::Cleaned(found) => found)
}

/// Writes and syncs a small file in a new folder of a target.
pub fn write_probe(target: Target, folder: &str) -> Request<()> {
    let (target, folder) = (Box::new(target), folder.to_owned());
    request!(Order::WriteProbe { target, folder }, Report::Probed => ())
}

/// Removes the folder of such a file.
pub fn remove_probe(target: Target, folder: &str) -> Request<()> {
    let (target, folder) = (Box::new(target), folder.to_owned());
    request!(Order::RemoveProbe { target, folder }, Report::Probed => ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_unexpected_answer_and_order() {
        let (order, answer) = clock().into_parts();
        assert_eq!(order, Order::Clock);
        let reading = ClockReading { mono_ns: 1, wall_ns: 2 };
        assert_eq!(answer.read(Report::Clock(reading)), Ok(reading));
        let wrong = answer.read(Report::Ended).unwrap_err();
        assert!(wrong.to_string().starts_with("answered Ended to Clock (hint: "), "{wrong}");
    }
}

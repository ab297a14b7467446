//! Panics as values, so that a bug of ours ends one trial with a message instead of the program.
//!
//! [`catch`] runs a function and turns a panic into a [`Panicked`]. Only the panic hook can see the
//! source location, so the hook, which the binary owns, calls [`note`] to record it for the
//! unwinding thread. The caller decides what to undo; it must not rely on the state of anything
//! that the function held by reference.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// Where to report bugs.
pub(crate) const ISSUES_URL: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/issues");

/// The message with which a scope reports the panic of one of its threads. The thread's own message
/// is recorded separately.
///
/// **Source:** `std::thread::scope`, "Panics".
const OF_A_SCOPE: &str = "a scoped thread panicked";

thread_local! {
    /// How many calls of [`catch`] this thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The panic recorded by the hook on this thread.
    static NOTED: RefCell<Option<Panicked>> = const { RefCell::new(None) };
}

/// The last panic on a thread without [`catch`]. A scope passes such a panic on without its
/// message.
static ELSEWHERE: Mutex<Option<Panicked>> = Mutex::new(None);

/// A caught panic. Its message explains how to report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    pub message: String,
    /// File, line and column, or `None` if no hook recorded them.
    pub location: Option<String>,
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "panicked: {}", self.message)?;
        if let Some(location) = &self.location {
            write!(f, " ({location})")?;
        }
        let version = env!("CARGO_PKG_VERSION");
        write!(
            f,
            "; this is a bug of dfsbench {version} (hint: report it at {ISSUES_URL} with this \
             message, the command and its plan; RUST_BACKTRACE=1 shows its origin)"
        )
    }
}

impl std::error::Error for Panicked {}

/// Runs a function and catches panics.
///
/// # Errors
/// Returns [`Panicked`] if it panicked.
pub fn catch<T>(work: impl FnOnce() -> T) -> Result<T, Panicked> {
    DEPTH.set(DEPTH.get() + 1);
    let done = catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get() - 1);
    let payload = match done {
        Ok(value) => return Ok(value),
        Err(payload) => payload,
    };
    let payload = match payload.downcast::<Panicked>() {
        Ok(resumed) => return Err(*resumed),
        Err(payload) => payload,
    };
    let message = message_of(payload.as_ref());
    // If the messages differ, the recorded panic is an older one: a foreign panic hook records
    // nothing and leaves it in place.
    if let Some(noted) = NOTED.take()
        && noted.message == message
    {
        return Err(noted);
    }
    match take_forwarded_panic(&message) {
        Some(panicked) => Err(panicked),
        None => Err(Panicked { message, location: None }),
    }
}

/// Continues a panic that was caught in order to restore something.
pub fn resume(panicked: Panicked) -> ! {
    resume_unwind(Box::new(panicked))
}

/// Returns true if panics of this thread are caught by [`catch`].
pub fn is_caught() -> bool {
    DEPTH.get() > 0
}

/// Records message and location of a panic for [`catch`]. To be called by the panic hook.
pub fn note(info: &PanicHookInfo<'_>) {
    let message = message_of(info.payload());
    let panicked = Panicked { message, location: info.location().map(ToString::to_string) };
    // A panic on a scoped thread ends there and reaches the joining thread without its message, so
    // keep it for that thread.
    if is_caught() {
        NOTED.replace(Some(panicked));
    } else {
        *ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner) = Some(panicked);
    }
}

/// Returns the panic of another thread that was passed on to this one by joining it.
fn take_forwarded_panic(message: &str) -> Option<Panicked> {
    let mut elsewhere = ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner);
    elsewhere.take_if(|noted| message == OF_A_SCOPE || noted.message == message)
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    // `panic!` has a `&str` payload if there is nothing to format, and a `String` otherwise.
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_owned()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "no message".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_panic_message_and_hint() {
        assert_eq!(catch(|| 7), Ok(7));
        let number = 42;
        let panicked = catch(|| panic!("the answer is {number}")).unwrap_err();
        assert_eq!(panicked.message, "the answer is 42");
        let text = Panicked { location: Some("src/a.rs:1:2".into()), ..panicked }.to_string();
        assert!(text.contains(ISSUES_URL) && text.contains(env!("CARGO_PKG_VERSION")), "{text}");
        let text = text.replace(ISSUES_URL, "[url]");
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "[version]"));
        assert!(!is_caught());
    }

    #[test]
    fn does_not_report_caught_panic() {
        let outer = catch(|| {
            assert!(is_caught());
            catch(|| panic!("inner")).unwrap_err().message
        });
        assert_eq!(outer.as_deref(), Ok("inner"));
        let known = Panicked { message: "known".into(), location: Some("a.rs:1:2".into()) };
        assert_eq!(catch(|| resume(known.clone())), Err(known));
    }
}

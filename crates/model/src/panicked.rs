//! Panics as values: a bug of ours ends one trial with its message, and not the program.
//!
//! [`catch`] runs something and turns a panic into a [`Panicked`]. Only the panic hook knows its
//! place in the source: the binary, which owns the hook, has it call [`note`], which keeps the
//! place for the thread that unwinds. The caller decides what is undone; nothing that the work held
//! by reference may be trusted to be whole afterwards.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind, resume_unwind};
use std::sync::{Mutex, PoisonError};

/// The address where bugs are reported.
pub const ISSUES_URL: &str = concat!(env!("CARGO_PKG_REPOSITORY"), "/issues");

/// The message of a scope for a panic of one of its threads; the thread's own is recorded
/// elsewhere.
///
/// **Source:** `std::thread::scope`, "Panics".
const OF_A_SCOPE: &str = "a scoped thread panicked";

thread_local! {
    /// Calls of [`catch`] that this thread is within.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The panic that the hook recorded on this thread.
    static NOTED: RefCell<Option<Panicked>> = const { RefCell::new(None) };
}

/// The last panic on a thread where nothing catches: a scope passes it on without its
/// message.
static ELSEWHERE: Mutex<Option<Panicked>> = Mutex::new(None);

/// A panic that was caught; says how to report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Panicked {
    /// The panic message.
    pub message: String,
    /// File, line and column; `None` where no hook noted it.
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

/// Runs something to its end or its panic.
///
/// # Errors
/// [`Panicked`] where it panicked.
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
    // The noted panic is another one where the messages differ: a panic hook that is not ours
    // notes nothing, and leaves what an earlier panic left.
    if let Some(noted) = NOTED.take()
        && noted.message == message
    {
        return Err(noted);
    }
    match passed_on(&message) {
        Some(panicked) => Err(panicked),
        None => Err(Panicked { message, location: None }),
    }
}

/// Goes on with a panic that was caught to restore something on its way.
pub fn resume(panicked: Panicked) -> ! {
    resume_unwind(Box::new(panicked))
}

/// Says whether a panic of this thread is caught by [`catch`].
pub fn is_caught() -> bool {
    DEPTH.get() > 0
}

/// Takes note of a panic, for a panic hook: its message and place are part of what [`catch`]
/// returns then.
pub fn note(info: &PanicHookInfo<'_>) {
    let message = message_of(info.payload());
    let panicked = Panicked { message, location: info.location().map(ToString::to_string) };
    // A panic on a thread of a scope ends there, and reaches the thread that joins it without its
    // message: it is kept for that one.
    if is_caught() {
        NOTED.replace(Some(panicked));
    } else {
        *ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner) = Some(panicked);
    }
}

/// The panic of another thread that reached this one when it was joined.
fn passed_on(message: &str) -> Option<Panicked> {
    let mut elsewhere = ELSEWHERE.lock().unwrap_or_else(PoisonError::into_inner);
    elsewhere.take_if(|noted| message == OF_A_SCOPE || noted.message == message)
}

fn message_of(payload: &(dyn Any + Send)) -> String {
    // `panic!` has a `&str` where there is nothing to format, and a `String` otherwise.
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
    fn a_panic_is_its_message_and_says_how_to_report_it() {
        assert_eq!(catch(|| 7), Ok(7));
        let number = 42;
        let panicked = catch(|| panic!("the answer is {number}")).unwrap_err();
        assert_eq!(panicked.message, "the answer is 42");
        let text = Panicked { location: Some("src/a.rs:1:2".into()), ..panicked }.to_string();
        assert!(text.starts_with("panicked: the answer is 42 (src/a.rs:1:2); this is a bug"));
        assert!(text.contains(ISSUES_URL) && text.contains(env!("CARGO_PKG_VERSION")), "{text}");
        assert!(!is_caught());
    }

    #[test]
    fn what_is_caught_inside_is_no_panic_outside() {
        let outer = catch(|| {
            assert!(is_caught());
            catch(|| panic!("inner")).unwrap_err().message
        });
        assert_eq!(outer.as_deref(), Ok("inner"));
        let known = Panicked { message: "known".into(), location: Some("a.rs:1:2".into()) };
        assert_eq!(catch(|| resume(known.clone())), Err(known));
    }
}

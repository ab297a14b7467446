//! Reads planned faults: a kind, and the words of its value.
//!
//! The same words serve the command line and `[server.faults]`, and are refused alike.

use model::units::{parse_size, parse_time_ns};

use crate::written::error::{Fault, Place, PlanError};
use crate::written::fault::{
    CALLS, Calls, ClaimedStability, ERRORS, Endless, KINDS, PlannedFault, Share, Times,
    VerifierChange,
};
use crate::written::near::unknown_word;

/// One is so many parts per million.
const CERTAIN: u64 = 1_000_000;

/// Reads a fault from the command line: `KIND VALUE`, such as `drop 1%`.
///
/// # Errors
/// When the kind is not known or the value can't be read.
pub fn parse_fault(text: &str) -> Result<PlannedFault, PlanError> {
    let text = text.trim();
    let (kind, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let kind = kind.replace('-', "_");
    PlannedFault::read(&kind, value).map_err(|fault| fault.at(Place::Flag("--fault")))
}

/// Refuses faults that contradict each other.
///
/// # Errors
/// When one of them says what an earlier one says already.
pub fn check_faults(faults: &[PlannedFault]) -> Result<(), PlanError> {
    let Some(again) = PlannedFault::contradiction(faults) else { return Ok(()) };
    let what = format!("`{}` contradicts an earlier one", again.text());
    Err(Fault::new(what).hint("say each once").at(Place::Flag("--fault")))
}

impl PlannedFault {
    /// Reads the value of a kind.
    pub(crate) fn read(kind: &str, value: &str) -> Result<Self, Fault> {
        let Some(known) = KINDS.iter().find(|known| known.name == kind) else {
            let names: Vec<&str> = KINDS.iter().map(|known| known.name).collect();
            return Err(unknown_word("fault", kind, &names));
        };
        let words: Vec<&str> = value.split_whitespace().collect();
        let malformed = || {
            let what = format!("`{value}` is no value of {kind}");
            match known.form {
                "" => Fault::new(what).hint("it has none"),
                form => Fault::new(what).hint(format!("the form is {kind} {form}")),
            }
        };
        read_words(kind, &words).unwrap_or_else(|| Err(malformed()))
    }
}

/// Reads the words of a value; `None` where they don't have the kind's form.
fn read_words(kind: &str, words: &[&str]) -> Option<Result<PlannedFault, Fault>> {
    use PlannedFault as F;
    Some(match (kind, words) {
        ("service_time", [times @ .., "on", name]) => both(read_times(times)?, calls(name))
            .map(|(times, calls)| F::ServiceTime { times, calls }),
        ("service_time", times) => {
            read_times(times)?.map(|times| F::ServiceTime { times, calls: Calls::All })
        }
        ("bandwidth", [rate]) => {
            bytes_per_s(rate)?.map(|bytes_per_s| F::Bandwidth { bytes_per_s, wire: false })
        }
        ("bandwidth", [rate, "wire"]) => {
            bytes_per_s(rate)?.map(|bytes_per_s| F::Bandwidth { bytes_per_s, wire: true })
        }
        ("drop", [share]) => self::share(share).map(F::Drop),
        ("duplicate", [share]) => self::share(share).map(F::Duplicate),
        ("short_writes", [share]) => self::share(share).map(F::ShortWrites),
        ("write_stability", ["UNSTABLE"]) => Ok(F::WriteStability(ClaimedStability::Unstable)),
        ("write_stability", ["FILE_SYNC"]) => Ok(F::WriteStability(ClaimedStability::FileSync)),
        ("delay", [share, late]) => {
            both(self::share(share), time(late)).map(|(share, time_ns)| F::Delay { share, time_ns })
        }
        ("error", [name, error, share]) => {
            both(both(calls(name), self::error(error)), self::share(share))
                .map(|((calls, error), share)| F::Error { calls, error, share })
        }
        ("stall", [lasts, "at", at]) => {
            both(time(lasts), time(at)).map(|(lasts_ns, at_ns)| F::Stall { lasts_ns, at_ns })
        }
        ("restart", ["at", at]) => time(at).map(|at_ns| F::Restart { at_ns }),
        ("lose_unstable", []) => Ok(F::LoseUnstable),
        ("lose_committed", []) => Ok(F::LoseCommitted),
        ("grace", [lasts]) => time(lasts).map(F::Grace),
        ("refuse_mount", []) => Ok(F::RefuseMount),
        ("hang_from_clients", [number]) => count(number).map(F::HangFromClients),
        ("hang_after", [number]) => count(number).map(F::HangAfter),
        ("close_after", [number]) => count(number).map(F::CloseAfter),
        ("idle_close", [after]) => time(after).map(F::IdleClose),
        ("read_size", [size]) => transfer(size).map(F::ReadSize),
        ("write_size", [size]) => transfer(size).map(F::WriteSize),
        _ => return read_hostile_words(kind, words),
    })
}

/// Reads the faults that break the protocol, as [`read_words`] does the others.
fn read_hostile_words(kind: &str, words: &[&str]) -> Option<Result<PlannedFault, Fault>> {
    use PlannedFault as F;
    Some(match (kind, words) {
        ("endless_readdir", ["cookies"]) => Ok(F::EndlessReaddir(Endless::Cookies)),
        ("endless_readdir", ["names"]) => Ok(F::EndlessReaddir(Endless::Names)),
        ("trickle", [rate]) => bytes_per_s(rate)?.map(F::Trickle),
        ("changing_verifier", [call]) if call.eq_ignore_ascii_case("COMMIT") => {
            Ok(F::ChangingVerifier(VerifierChange::Commit))
        }
        ("changing_verifier", [call]) if call.eq_ignore_ascii_case("WRITE") => {
            Ok(F::ChangingVerifier(VerifierChange::Write))
        }
        ("session_slots", [number]) => slots(number).map(F::SessionSlots),
        ("wrong_xid", [share]) => self::share(share).map(F::WrongXid),
        ("cut_replies", [share]) => {
            self::share(share).map(|share| F::CutReplies { share, close: false })
        }
        ("cut_replies", [share, "close"]) => {
            self::share(share).map(|share| F::CutReplies { share, close: true })
        }
        ("oversized_records", [share]) => self::share(share).map(F::OversizedRecords),
        ("directory_loops", []) => Ok(F::DirectoryLoops),
        ("symlink_loops", []) => Ok(F::SymlinkLoops),
        ("changing_handles", [number]) => at_least_one(number).map(F::ChangingHandles),
        _ => return None,
    })
}

fn both<A, B>(a: Result<A, Fault>, b: Result<B, Fault>) -> Result<(A, B), Fault> {
    Ok((a?, b?))
}

fn read_times(words: &[&str]) -> Option<Result<Times, Fault>> {
    Some(match words {
        [fixed] => time(fixed).map(Times::Fixed),
        ["uniform", least, most] => both(time(least), time(most)).and_then(|(least, most)| {
            let fault = || Fault::new(format!("`{}` is no range", words.join(" ")));
            if least <= most { Ok(Times::Uniform(least, most)) } else { Err(fault()) }
        }),
        ["exponential", mean] => time(mean).map(Times::Exponential),
        _ => return None,
    })
}

fn time(text: &str) -> Result<u64, Fault> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let ns = parse_time_ns(text)?;
    if ns > 24 * HOUR_NS {
        return Err(Fault::new(format!("`{text}` is longer than a day")));
    }
    Ok(ns)
}

/// Reads `100MB/s`; `None` where the words are no rate at all.
fn bytes_per_s(text: &str) -> Option<Result<u64, Fault>> {
    let size = text.strip_suffix("/s")?;
    Some(match parse_size(size) {
        Ok(0) => Err(Fault::new(format!("`{text}` lets nothing pass"))),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(error.into()),
    })
}

/// Reads `0.1%` into parts per million.
fn share(text: &str) -> Result<Share, Fault> {
    let fault =
        || Fault::new(format!("`{text}` is no share")).hint("0% to 100%, to the millionth: `0.1%`");
    let number = text.strip_suffix('%').ok_or_else(fault)?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction:0<4}");
    let plain = digits.len() <= 8 && digits.bytes().all(|digit| digit.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 4 || !plain {
        return Err(fault());
    }
    // A percent is ten thousand parts per million.
    let parts: u64 = digits.parse().map_err(|_| fault())?;
    if parts > CERTAIN { Err(fault()) } else { Ok(Share(parts as u32)) }
}

fn count(text: &str) -> Result<u64, Fault> {
    crate::reading::level::read_integer(text)
}

fn at_least_one(text: &str) -> Result<u64, Fault> {
    match count(text)? {
        0 => Err(Fault::new("must be 1 or more, not `0`".to_owned())),
        number => Ok(number),
    }
}

/// Reads a number of slots; a session has at least one, and the server grants 1024 at most anyway.
fn slots(text: &str) -> Result<u32, Fault> {
    let number = at_least_one(text)?;
    u32::try_from(number).map_err(|_| Fault::new(format!("`{text}` is too many slots")))
}

fn transfer(text: &str) -> Result<u32, Fault> {
    match parse_size(text)? {
        bytes @ 512..=0x0010_0000 => Ok(bytes as u32),
        _ => Err(Fault::new(format!("must be 512 B to 1 MiB, not `{text}`"))),
    }
}

/// Reads `READ`, `v3.READ` or `all`; case and the version's prefix don't matter.
fn calls(text: &str) -> Result<Calls, Fault> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(Calls::All);
    }
    let (version, name) = match text.split_once('.') {
        Some(("v2", name)) => (Some(2), name),
        Some(("v3", name)) => (Some(3), name),
        Some(("v4", name)) => (Some(4), name),
        Some(_) => {
            let fault = Fault::new(format!("`{text}` names no version"));
            return Err(fault.hint("write v2., v3. or v4. before the call, or nothing"));
        }
        None => (None, text),
    };
    let name = word("call", name, CALLS)?;
    Ok(Calls::Named { version, name })
}

/// Reads `IO`, `NFS3ERR_IO`, `nfs4err_delay`.
fn error(text: &str) -> Result<&'static str, Fault> {
    let upper = text.to_ascii_uppercase();
    let bare = ["NFSERR_", "NFS3ERR_", "NFS4ERR_"].iter().find_map(|p| upper.strip_prefix(p));
    word("error", bare.unwrap_or(&upper), ERRORS)
}

fn word(what: &str, text: &str, known: &'static [&'static str]) -> Result<&'static str, Fault> {
    let upper = text.to_ascii_uppercase();
    let found = known.iter().copied().find(|name| *name == upper);
    found.ok_or_else(|| unknown_word(what, text, known))
}

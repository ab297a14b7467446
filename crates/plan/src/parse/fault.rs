//! Parses planned faults: a kind, and the words of its value.
//!
//! The command line and `[server.faults]` share these parsers, and so their error messages.

use model::units::{parse_size, parse_time_ns};

use crate::parse::level::read_integer;
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::fault::{
    CALLS, Calls, CappedBytes, ChangingVerifier, ClaimedStability, CopyFault, DataServerFate,
    ERRORS, EndlessListing, KINDS, LayoutFate, PartsPerMillion, PlannedFault, ServiceTime,
};
use crate::syntax::limits::DATA_SERVERS_MAX;
use crate::syntax::suggestion::{known_word, unknown_word};

/// Parts per million in a whole.
const CERTAIN: u32 = 1_000_000;

/// Parses a fault from the command line: `KIND VALUE`, such as `drop 1%`.
///
/// # Errors
/// If the kind is unknown or the value is invalid.
pub fn parse_fault(text: &str) -> Result<PlannedFault, PlanError> {
    let text = text.trim();
    let (kind, value) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let kind = kind.replace('-', "_");
    Ok(PlanPosition::Flag("--fault").accept(PlannedFault::read(&kind, value))?.value)
}

/// Refuses faults that contradict each other.
///
/// # Errors
/// If a fault repeats or contradicts an earlier one.
pub fn check_faults(faults: &[PlannedFault]) -> Result<(), PlanError> {
    let Some(again) = PlannedFault::contradiction(faults) else { return Ok(()) };
    let what = format!("`{}` conflicts with an earlier one", again.text());
    Err(Fault::new(what).hint("set each once").at(PlanPosition::Flag("--fault")))
}

impl PlannedFault {
    /// Parses the value of a kind.
    pub(crate) fn read(kind: &str, value: &str) -> Result<Self, Fault> {
        let Some(known) = KINDS.iter().find(|known| known.name == kind) else {
            let names: Vec<&str> = KINDS.iter().map(|known| known.name).collect();
            return Err(unknown_word("fault", kind, &names));
        };
        let words: Vec<&str> = value.split_whitespace().collect();
        if let Some(fault) = read_words(kind, &words)? {
            return Ok(fault);
        }
        let malformed = Fault::new(format!("`{value}` is not a value of {kind}"));
        Err(match known.form {
            "" => malformed.hint("it has none"),
            form => malformed.hint(format!("the form is {kind} {form}")),
        })
    }
}

/// Parses the words of a value; `None` if they don't have the form of this kind.
fn read_words(kind: &str, words: &[&str]) -> Result<Option<PlannedFault>, Fault> {
    use PlannedFault as F;
    Ok(Some(match (kind, words) {
        ("service_time", [time @ .., "on", name]) => match read_service_time(time)? {
            Some(time) => F::ServiceTime { time, calls: calls(name)? },
            None => return Ok(None),
        },
        ("service_time", time) => match read_service_time(time)? {
            Some(time) => F::ServiceTime { time, calls: Calls::All },
            None => return Ok(None),
        },
        ("bandwidth", [rate, rest @ ..]) => return read_bandwidth(rate, rest),
        ("slow_file", [number, late]) => {
            F::SlowFile { number: file_number(number)?, time_ns: time(late)? }
        }
        ("drop", [rate]) => F::Drop(share(rate)?),
        ("duplicate", [rate]) => F::Duplicate(share(rate)?),
        ("short_reads", [rate]) => F::ShortReads(share(rate)?),
        ("short_writes", [rate]) => F::ShortWrites(share(rate)?),
        ("lose_writes", [rate]) => F::LoseWrites(share(rate)?),
        ("write_stability", ["UNSTABLE"]) => F::WriteStability(ClaimedStability::Unstable),
        ("write_stability", ["FILE_SYNC"]) => F::WriteStability(ClaimedStability::FileSync),
        ("delay", [rate, late]) => F::Delay { share: share(rate)?, time_ns: time(late)? },
        ("error", [name, code, rate]) => {
            F::Error { calls: calls(name)?, error: error(code)?, share: share(rate)? }
        }
        ("stall", [lasts, "at", at]) => F::Stall { lasts_ns: time(lasts)?, at_ns: time(at)? },
        ("restart", ["at", at]) => F::Restart { at_ns: time(at)? },
        ("data_server", [number, fate @ ..]) => {
            return read_data_server(number, fate);
        }
        ("layouts", [word, "at", at]) => {
            let Some(fate) = LayoutFate::ALL.into_iter().find(|fate| fate.name() == *word) else {
                return Ok(None);
            };
            F::Layouts { fate, at_ns: time(at)? }
        }
        ("lose_unstable", []) => F::LoseUnstable,
        ("lose_committed", []) => F::LoseCommitted,
        ("lose_last", [number]) => F::LoseLast(few_writes(number)?),
        ("grace", [lasts]) => F::Grace(time(lasts)?),
        ("refuse_mount", []) => F::RefuseMount,
        ("reserved_ports", []) => F::ReservedPorts,
        ("minor_ids", []) => F::MinorIds,
        ("hang_from_clients", [number]) => F::HangFromClients(read_integer(number)?),
        ("hang_after", [number]) => F::HangAfter(read_integer(number)?),
        ("close_after", [number]) => F::CloseAfter(read_integer(number)?),
        ("idle_close", [after]) => F::IdleClose(time(after)?),
        ("read_size", [size]) => F::ReadSize(transfer(size)?),
        ("write_size", [size]) => F::WriteSize(transfer(size)?),
        _ => return read_hostile_words(kind, words),
    }))
}

/// Parses what happens to a data server, which has this number.
fn read_data_server(number: &str, fate: &[&str]) -> Result<Option<PlannedFault>, Fault> {
    let fate = match fate {
        ["slow", late] => DataServerFate::Slow { time_ns: time(late)? },
        ["hang", "at", at] => DataServerFate::Hang { lasts_ns: None, at_ns: time(at)? },
        ["hang", lasts, "at", at] => {
            DataServerFate::Hang { lasts_ns: Some(time(lasts)?), at_ns: time(at)? }
        }
        ["die", "at", at] => DataServerFate::Die { at_ns: time(at)? },
        _ => return Ok(None),
    };
    match read_integer(number)? {
        given if (1..=u64::from(DATA_SERVERS_MAX)).contains(&given) => {
            Ok(Some(PlannedFault::DataServer { number: given as u32, fate }))
        }
        _ => Err(Fault::new(format!("must be 1 to {DATA_SERVERS_MAX}, not `{number}`"))),
    }
}

/// Parses the number of a file.
fn file_number(text: &str) -> Result<u32, Fault> {
    let number = read_integer(text)?;
    u32::try_from(number).map_err(|_| Fault::new(format!("there is no file {number}")))
}

/// Parses `SIZE/s [wire] [after SIZE]`; `rest` has the words after the rate.
fn read_bandwidth(rate: &str, rest: &[&str]) -> Result<Option<PlannedFault>, Fault> {
    let (counts, rest) = match rest {
        ["wire", rest @ ..] => (CappedBytes::Wire, rest),
        rest => (CappedBytes::Payload, rest),
    };
    let burst_bytes = match rest {
        [] => 0,
        ["after", size] => parse_size(size)?,
        _ => return Ok(None),
    };
    let cap = |bytes_per_s| PlannedFault::Bandwidth { bytes_per_s, counts, burst_bytes };
    Ok(bytes_per_s(rate)?.map(cap))
}

/// Like [`read_words`], for faults that violate the protocol.
fn read_hostile_words(kind: &str, words: &[&str]) -> Result<Option<PlannedFault>, Fault> {
    use PlannedFault as F;
    Ok(Some(match (kind, words) {
        ("endless_readdir", ["cookies"]) => F::EndlessReaddir(EndlessListing::RepeatedCookies),
        ("endless_readdir", ["names"]) => F::EndlessReaddir(EndlessListing::InventedNames),
        ("trickle", [rate]) => match bytes_per_s(rate)? {
            Some(rate) => F::Trickle(rate),
            None => return Ok(None),
        },
        ("changing_verifier", [call]) if call.eq_ignore_ascii_case("COMMIT") => {
            F::ChangingVerifier(ChangingVerifier::EveryCommit)
        }
        ("changing_verifier", [call]) if call.eq_ignore_ascii_case("WRITE") => {
            F::ChangingVerifier(ChangingVerifier::EveryWrite)
        }
        ("copies", ["synchronous"]) => F::Copies(CopyFault::Synchronous),
        ("copies", ["unreported"]) => F::Copies(CopyFault::Unreported),
        ("session_slots", [number]) => F::SessionSlots(slots(number)?),
        ("wrong_xid", [rate]) => F::WrongXid(share(rate)?),
        ("cut_replies", [rate]) => F::CutReplies { share: share(rate)?, close: false },
        ("cut_replies", [rate, "close"]) => F::CutReplies { share: share(rate)?, close: true },
        ("oversized_records", [rate]) => F::OversizedRecords(share(rate)?),
        ("directory_loops", []) => F::DirectoryLoops,
        ("symlink_loops", []) => F::SymlinkLoops,
        ("changing_handles", [number]) => F::ChangingHandles(at_least_one(number)?),
        _ => return Ok(None),
    }))
}

fn read_service_time(words: &[&str]) -> Result<Option<ServiceTime>, Fault> {
    Ok(Some(match words {
        [fixed] => ServiceTime::Fixed { time_ns: time(fixed)? },
        ["uniform", least, most] => {
            let min_ns = time(least)?;
            let max_ns = time(most)?;
            if min_ns > max_ns {
                return Err(Fault::new(format!("`{}` is not a range", words.join(" "))));
            }
            ServiceTime::Uniform { min_ns, max_ns }
        }
        ["exponential", mean] => ServiceTime::Exponential { mean_ns: time(mean)? },
        _ => return Ok(None),
    }))
}

fn time(text: &str) -> Result<u64, Fault> {
    const HOUR_NS: u64 = 3_600_000_000_000;
    let ns = parse_time_ns(text)?;
    if ns > 24 * HOUR_NS {
        return Err(Fault::new(format!("`{text}` is longer than a day")));
    }
    Ok(ns)
}

/// Parses `100MB/s`; `None` if the text is not a rate at all.
fn bytes_per_s(text: &str) -> Result<Option<u64>, Fault> {
    let Some(size) = text.strip_suffix("/s") else { return Ok(None) };
    match parse_size(size)? {
        0 => Err(Fault::new(format!("`{text}` would let nothing through"))),
        bytes => Ok(Some(bytes)),
    }
}

/// Parses a percentage such as `0.1%` into parts per million.
fn share(text: &str) -> Result<PartsPerMillion, Fault> {
    let number = text.strip_suffix('%').unwrap_or_default();
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    // One percent is ten thousand parts per million, so padding the fraction to four digits makes
    // the number an integer. `parse` would accept more than digits, for example a sign.
    let digits = format!("{whole}{fraction:0<4}");
    let is_plain = digits.len() <= 8 && digits.bytes().all(|digit| digit.is_ascii_digit());
    match digits.parse() {
        Ok(parts) if is_plain && !whole.is_empty() && fraction.len() <= 4 && parts <= CERTAIN => {
            Ok(PartsPerMillion(parts))
        }
        _ => Err(Fault::new(format!("`{text}` is not a percentage"))
            .hint("0% to 100%, with up to four decimals: `0.1%`")),
    }
}

fn at_least_one(text: &str) -> Result<u64, Fault> {
    match read_integer(text)? {
        0 => Err(Fault::new("must be 1 or more, not `0`".to_owned())),
        number => Ok(number),
    }
}

/// Parses a number of writes for which the server keeps undo data.
fn few_writes(text: &str) -> Result<u32, Fault> {
    match at_least_one(text)? {
        number @ 1..=1_000_000 => Ok(number as u32),
        _ => Err(Fault::new(format!("must be 1 to 1000000, not `{text}`"))),
    }
}

/// Parses a number of slots. A session needs at least one, and the server never grants more than
/// 1024.
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

/// Parses `READ`, `v3.READ` or `all`; case and the version's prefix don't matter.
fn calls(text: &str) -> Result<Calls, Fault> {
    if text.eq_ignore_ascii_case("all") {
        return Ok(Calls::All);
    }
    let (version, name) = match text.split_once('.') {
        Some(("v2", name)) => (Some(2), name),
        Some(("v3", name)) => (Some(3), name),
        Some(("v4", name)) => (Some(4), name),
        Some(_) => {
            let fault = Fault::new(format!("`{text}` has an unknown version"));
            return Err(fault.hint("write v2., v3. or v4. before the call, or nothing"));
        }
        None => (None, text),
    };
    let name = word("call", name, CALLS)?;
    Ok(Calls::Named { version, name })
}

/// Parses `IO`, `NFS3ERR_IO` or `nfs4err_delay`.
fn error(text: &str) -> Result<&'static str, Fault> {
    let upper = text.to_ascii_uppercase();
    for prefix in ["NFSERR_", "NFS3ERR_", "NFS4ERR_"] {
        if let Some(bare) = upper.strip_prefix(prefix) {
            return word("error", bare, ERRORS);
        }
    }
    word("error", &upper, ERRORS)
}

fn word(what: &str, text: &str, known: &'static [&'static str]) -> Result<&'static str, Fault> {
    let upper = text.to_ascii_uppercase();
    known_word(known.iter().copied().find(|name| *name == upper), what, text, known)
}

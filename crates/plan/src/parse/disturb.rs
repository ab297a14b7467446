//! Parses the disturbances of a soak: `[[disturb]]` in a plan, `--disturb` and `--fault` on the
//! command line.
//!
//! All become a [`Disturbance`] with its place, pass the same checks ([`checked`]), and are written
//! in a form that parses back to the same value. Whether a disturbance fits into the soak, and
//! whether a host of the plan can make it, is checked elsewhere.

use std::fmt::Write as _;

use model::soak::{Disturbance, FaultKind};
use model::units::parse_time_ns;

use crate::parse::document::Table;
use crate::parse::placement::known_host;
use crate::parse::section::Section;
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};
use crate::syntax::fault::KINDS;
use crate::syntax::hosts::PlannedHost;
use crate::syntax::limits;
use crate::syntax::suggestion::known_word;
use crate::syntax::text::{quoted, time};

const FORM: &str = "write WHAT [on HOST] at TIME [for TIME] [by TIME], such as `server-stall at \
                    20s for 3s`";

/// Short names of the in-memory server's faults that are also disturbances.
const SHORT_NAMES: [(&str, FaultKind); 2] =
    [("restart", FaultKind::ServerRestart), ("stall", FaultKind::ServerStall)];

/// Returns true if a command-line argument begins with the name of a disturbance.
pub fn names_disturbance(text: &str) -> bool {
    let name = text.split_whitespace().next().unwrap_or_default();
    find_kind(name).is_some()
}

/// Parses a disturbance from a flag: `WHAT [on HOST] at TIME [for TIME] [by TIME]`, or `stall TIME
/// at TIME` in the form used for faults of the in-memory server.
///
/// # Errors
/// If the text has neither form, or the disturbance is impossible.
pub fn parse_disturbance(
    flag: &'static str,
    text: &str,
) -> Result<Located<Disturbance>, PlanError> {
    let place = PlanPosition::Flag(flag);
    let read = read_words(text).and_then(checked);
    place.accept(
        read.map_err(|fault| Fault { message: format!("`{text}`: {}", fault.message), ..fault }),
    )
}

fn read_words(text: &str) -> Result<Disturbance, Fault> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [name, rest @ ..] = words.as_slice() else {
        return Err(Fault::new("it is empty").hint(FORM));
    };
    let mut one =
        Disturbance { fault: fault_named(name)?, host: None, at_ms: 0, lasts_ms: 0, by_ms: 0 };
    let mut seen: Vec<&str> = Vec::new();
    let mut rest = rest;
    if rest.len() % 2 == 1
        && let [time, pairs @ ..] = rest
        && let Ok(lasts_ms) = read_ms(time)
    {
        one.lasts_ms = lasts_ms;
        rest = pairs;
        seen.push("for");
    }
    for pair in rest.chunks(2) {
        match *pair {
            // Each word may appear only once; a word without a value ends up in the last arm.
            [word, _] if seen.contains(&word) => return Err(malformed()),
            ["on", host] => one.host = Some(host.to_owned()),
            ["at", time] => one.at_ms = read_ms(time)?,
            ["for", time] => one.lasts_ms = read_ms(time)?,
            ["by", time] => one.by_ms = read_signed_ms(time)?,
            _ => return Err(malformed()),
        }
        seen.push(pair[0]);
    }
    if seen.contains(&"at") { Ok(one) } else { Err(malformed()) }
}

fn malformed() -> Fault {
    Fault::new("its times can't be parsed").hint(FORM)
}

/// Parses every `[[disturb]]`, in the order of the text.
pub(crate) fn read_disturbances(
    root: &Table<'_>,
    hosts: &[PlannedHost],
) -> Result<Vec<Located<Disturbance>>, PlanError> {
    let mut disturbances = Vec::new();
    if let Some(field) = root.field("disturb") {
        for table in field.tables(Section::Disturb)? {
            disturbances.push(read_one(&table, hosts)?);
        }
    }
    Ok(disturbances)
}

fn read_one(table: &Table<'_>, hosts: &[PlannedHost]) -> Result<Located<Disturbance>, PlanError> {
    let field = table.required("kind", "for example `kind = \"server-restart\"`")?;
    let fault = field.parse("\"server-restart\"", fault_named)?.value;
    let host = table.read("host", |field| Ok(known_host(field, hosts)?.host.name))?;
    let at_ms =
        table.required("at", "for example `at = \"20s\"`")?.parse("\"20s\"", read_ms)?.value;
    let lasts_ms = match table.field("for") {
        Some(lasts) => lasts.parse("\"20s\"", read_ms)?.value,
        None => 0,
    };
    let by_ms = match table.field("by") {
        Some(by) => by.parse("\"-5s\"", read_signed_ms)?.value,
        None => 0,
    };
    field.accept(checked(Disturbance { fault, host, at_ms, lasts_ms, by_ms }))
}

/// Refuses a disturbance that contradicts itself.
fn checked(one: Disturbance) -> Result<Disturbance, Fault> {
    let kind = one.fault;
    let lasts = one.lasts_ms > 0;
    let steps = one.by_ms != 0;
    let is_step = kind == FaultKind::ClockStep;
    if kind.is_lasting() && !lasts {
        let fault = Fault::new(format!("it does not say how long {kind} lasts"));
        return Err(fault.hint("`for 30s` in a flag, `for = \"30s\"` in a plan"));
    }
    if kind == FaultKind::ClientKill && lasts {
        let fault = Fault::new("a killed client does not return until its segment ends");
        return Err(fault.hint("leave `for` out"));
    }
    if is_step && !steps {
        let fault = Fault::new("it does not say how far the clock steps");
        return Err(fault.hint("`by`, such as `by 5s`, or `by -5s` for a step back"));
    }
    if !is_step && steps {
        return Err(Fault::new(format!("{kind} has no `by`")).hint("only clock-step has it"));
    }
    Ok(one)
}

fn find_kind(name: &str) -> Option<FaultKind> {
    let short = SHORT_NAMES.iter().find(|(short, _)| *short == name);
    short.map(|(_, kind)| *kind).or_else(|| FaultKind::from_name(name))
}

fn fault_named(name: &str) -> Result<FaultKind, Fault> {
    let kind = find_kind(name);
    if kind.is_none() && KINDS.iter().any(|known| known.name == name.replace('-', "_")) {
        let what = format!("`{name}` is a fault of the in-memory server and not a disturbance");
        return Err(Fault::new(what).hint(format!("--fault '{name} ...'")));
    }
    known_word(kind, "disturbance", name, FaultKind::NAMES)
}

/// Parses a time of at most a day, in milliseconds.
fn read_ms(text: &str) -> Result<u64, Fault> {
    let ms = parse_time_ns(text)? / 1_000_000;
    if ms > limits::SOAK_MS_MAX {
        let most = time(limits::SOAK_MS_MAX);
        return Err(Fault::new(format!("must be at most {most}, not `{text}`"))
            .hint("no soak lasts longer"));
    }
    Ok(ms)
}

/// Parses a time that may be negative.
fn read_signed_ms(text: &str) -> Result<i64, Fault> {
    let (is_back, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let ms = read_ms(text)?.cast_signed();
    Ok(if is_back { -ms } else { ms })
}

/// Writes disturbances in the form of a plan.
pub(crate) fn write(out: &mut String, disturbances: &[Disturbance]) {
    for one in disturbances {
        // Writing to a String can't fail.
        let _ = writeln!(out, "\n[[disturb]]\nkind = {}", quoted(one.fault.name()));
        if let Some(host) = &one.host {
            let _ = writeln!(out, "host = {}", quoted(host));
        }
        let _ = writeln!(out, "at = {}", quoted(&time(one.at_ms)));
        if one.lasts_ms > 0 {
            let _ = writeln!(out, "for = {}", quoted(&time(one.lasts_ms)));
        }
        if one.by_ms != 0 {
            let sign = if one.by_ms < 0 { "-" } else { "" };
            let by = format!("{sign}{}", time(one.by_ms.unsigned_abs()));
            let _ = writeln!(out, "by = {}", quoted(&by));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FLAG: &str = "--disturb";

    #[test]
    fn parses_disturbance_flag() {
        let one = parse_disturbance(FLAG, "clock-step on one at 10s for 500ms by -5s").unwrap();
        let wanted = Disturbance {
            fault: FaultKind::ClockStep,
            host: Some("one".to_owned()),
            at_ms: 10_000,
            lasts_ms: 500,
            by_ms: -5_000,
        };
        assert_eq!((one.value, one.place), (wanted, PlanPosition::Flag(FLAG)));
        let restart = parse_disturbance(FLAG, "server-restart at 1m").unwrap().value;
        assert_eq!((restart.at_ms, restart.lasts_ms, restart.host), (60_000, 0, None));
    }

    #[test]
    fn reads_both_vocabularies() {
        for (short, long) in [
            ("restart at 3s", "server-restart at 3s"),
            ("stall 2s at 3s", "server-stall at 3s for 2s"),
            ("stall at 3s for 2s", "server-stall at 3s for 2s"),
        ] {
            assert!(names_disturbance(short) && names_disturbance(long));
            let [short, long] = [short, long].map(|text| parse_disturbance("--fault", text));
            assert_eq!(short, long);
            assert_eq!(short.unwrap().place, PlanPosition::Flag("--fault"));
        }
        assert!(!names_disturbance("drop 1%") && !names_disturbance(""));
    }

    #[test]
    fn rejects_bad_disturbance_flag() {
        let errors = [
            "",
            "server-stal at 1s for 1s",
            "server-stall at 1s",
            "server-stall for 1s",
            "server-stall at 1s at 2s for 1s",
            "server-stall at 1s for",
            "stall 2s at 1s for 3s",
            "drop 1%",
            "server-stall at soon for 1s",
            "server-stall at 25h for 1s",
            "client-kill on a at 1s for 1s",
            "clock-step on a at 1s for 1s",
            "network-cut at 1s for 1s by 5s",
        ]
        .map(|text| format!("{text}\n  {}", parse_disturbance(FLAG, text).unwrap_err()));
        insta::assert_snapshot!(errors.join("\n"));
    }
}

//! Disturbances of a soak: `WHAT [on HOST] at TIME [for TIME]`, and whether they can be made.

use model::soak::{Blow, Disturbance};
use model::{RunSpec, Soak, Target};

use super::asked::{shown, time_ms};
use crate::exit::Failure;

const PLACE: &str = "--disturb";
const FORM: &str = "write WHAT [on HOST] at TIME [for TIME], such as `server-stall at 20s for 3s`";

/// Reads what flags ask for; where they say nothing the in-memory server restarts once and stalls
/// once.
///
/// # Errors
/// When one can't be read, or is not over within its segment.
pub fn read(
    texts: &[String],
    is_embedded: bool,
    segment_ms: u64,
    duration_ms: u64,
) -> Result<Vec<Disturbance>, Failure> {
    let mut all = match texts {
        [] if is_embedded => usual(segment_ms, duration_ms),
        [none] if none == "none" => Vec::new(),
        texts => texts.iter().map(|text| one(text)).collect::<Result<Vec<_>, _>>()?,
    };
    all.sort_by_key(|one| one.at_ms);
    for one in &all {
        let (at_ms, lasts_ms) = (one.at_ms % segment_ms, one.lasts_ms);
        let text = written(one);
        if one.at_ms >= duration_ms {
            return Err(Failure::Usage(format!(
                "{PLACE} `{text}`: the soak measures for {} only",
                shown(duration_ms)
            )));
        }
        if at_ms.saturating_add(lasts_ms) >= segment_ms {
            return Err(Failure::Usage(format!(
                "{PLACE} `{text}`: it is not over before its segment of {} is (hint: another \
                 instant, or a longer --segment)",
                shown(segment_ms)
            )));
        }
    }
    Ok(all)
}

/// A third into the first segment the server restarts, a third into the second it stalls.
fn usual(segment_ms: u64, duration_ms: u64) -> Vec<Disturbance> {
    let one = |blow, at_ms, lasts_ms| Disturbance { blow, host: None, at_ms, lasts_ms };
    let stall_at_ms = if duration_ms >= 2 * segment_ms {
        segment_ms + segment_ms / 3
    } else {
        segment_ms / 3 * 2
    };
    vec![
        one(Blow::ServerRestart, segment_ms / 3, 0),
        one(Blow::ServerStall, stall_at_ms, segment_ms / 5),
    ]
}

/// Reads one.
fn one(text: &str) -> Result<Disturbance, Failure> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let refused = |what: String, hint: &str| {
        Failure::Usage(format!("{PLACE} `{text}`: {what} (hint: {hint})"))
    };
    let (name, host, times) = match words.as_slice() {
        [name, "on", host, times @ ..] => (*name, Some((*host).to_owned()), times),
        [name, times @ ..] => (*name, None, times),
        [] => return Err(refused("it is empty".to_owned(), FORM)),
    };
    let Some(blow) = Blow::from_name(name) else {
        let known = format!("one of {}", Blow::NAMES.join(", "));
        return Err(refused(format!("unknown disturbance `{name}`"), &known));
    };
    let time = |text: &str| time_ms(text, PLACE);
    let (at_ms, lasts_ms) = match times {
        ["at", at] => (time(at)?, 0),
        ["at", at, "for", lasts] => (time(at)?, time(lasts)?),
        _ => return Err(refused("its times can't be read".to_owned(), FORM)),
    };
    let lasts = blow != Blow::ServerRestart;
    if lasts && lasts_ms == 0 {
        return Err(refused(format!("it does not say how long {blow} lasts"), FORM));
    }
    Ok(Disturbance { blow, host, at_ms, lasts_ms })
}

/// One as it is written.
pub fn written(one: &Disturbance) -> String {
    let host = one.host.as_ref().map_or_else(String::new, |host| format!(" on {host}"));
    let lasts = match one.lasts_ms {
        0 => String::new(),
        ms => format!(" for {}", shown(ms)),
    };
    format!("{}{host} at {}{lasts}", one.blow, shown(one.at_ms))
}

/// Refuses disturbances that nobody here can make.
///
/// # Errors
/// When there is one.
pub fn check(run: &RunSpec, soak: &Soak) -> Result<(), Failure> {
    for (number, one) in soak.disturbances.iter().enumerate() {
        let refused = |(what, hint): (String, &str)| {
            let text = written(one);
            Failure::Usage(format!("{PLACE} `{text}`: {what} (hint: {hint})"))
        };
        can_be_made(run, one).map_err(refused)?;
        let ends_ms = one.at_ms.saturating_add(one.lasts_ms);
        if soak.disturbances[number + 1..].iter().any(|next| next.at_ms <= ends_ms) {
            let what = "it is not over before the next one begins".to_owned();
            return Err(refused((what, "one disturbance after the other can be told apart")));
        }
    }
    Ok(())
}

/// Why a disturbance can't be made, and what could be done.
fn can_be_made(run: &RunSpec, one: &Disturbance) -> Result<(), (String, &'static str)> {
    let is_embedded = matches!(&run.target, Target::Nfs(nfs) if nfs.embedded);
    if matches!(one.blow, Blow::ServerRestart | Blow::ServerStall) {
        return match &one.host {
            None if is_embedded => Ok(()),
            _ => Err((
                format!("nobody here has the right to do that to {}", run.target),
                "only the in-memory server, `embedded`, can be told to",
            )),
        };
    }
    let Some(lab) = &run.lab else {
        let whom = one.host.as_deref().unwrap_or("the server");
        return Err((
            format!("nobody here has the right to do that to {whom}"),
            "it needs a host that the plan sets up, as root: [[host]] and [target.server]",
        ));
    };
    let step = lab::disturbance(lab, one.blow).map_err(|why| (why, "`dfsbench soak --help`"))?;
    match &one.host {
        Some(host) if *host != step.host => Err((
            format!("{} can't be done to host {host}", one.blow),
            "it is done to the host that serves",
        )),
        _ => Ok(()),
    }
}

//! Parses the arguments of a replay.

use model::units::parse_time_ns;
use model::work::replay_directory;
use plan::TargetArg;
use replay::{Pace, Rounds, SPEEDS_MAX, TracePoint, TreeUse, Window};

use crate::args::ReplayArgs;
use crate::calendar;
use crate::exit::Failure;

/// Minimum and maximum speed of a replay.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// The parsed arguments.
pub(super) struct Request {
    pub paces: Vec<Pace>,
    pub rounds: Rounds,
    pub window: Window,
    pub directory: String,
    pub tree_use: TreeUse,
}

/// Refuses hosts that can't share this replay.
pub(super) fn check_hosts(args: &ReplayArgs) -> Result<(), Failure> {
    for (number, name) in args.hosts.iter().enumerate() {
        if args.hosts[..number].contains(name) {
            return Err(Failure::Usage(format!(
                "--hosts: `{name}` is named twice (hint: each host gets a share of the clients)"
            )));
        }
    }
    if args.hosts.is_empty() || matches!(plan::parse_target(&args.target)?, TargetArg::Nfs(_)) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "--hosts: `{}` is not an NFS server that other hosts can reach (hint: nfs://server/export; \
         `dfsbench serve` starts one in memory)",
        args.target
    )))
}

/// Parses the arguments.
pub(super) fn read_request(args: &ReplayArgs) -> Result<Request, Failure> {
    let mut paces = Vec::new();
    for text in &args.speed {
        match text.trim().parse::<f64>() {
            Ok(speed) if SPEEDS.contains(&speed) => paces.push(Pace::Open { speed }),
            _ => {
                return Err(Failure::Usage(format!(
                    "--speed: `{text}` is not a factor from {} to {} (hint: for example 0.5,1,2)",
                    SPEEDS.start(),
                    SPEEDS.end()
                )));
            }
        }
    }
    if paces.len() > SPEEDS_MAX {
        return Err(Failure::Usage(format!(
            "--speed: {} factors, but at most {SPEEDS_MAX} are allowed (hint: `dfsbench curve \
             TRACE` chooses them)",
            paces.len()
        )));
    }
    if args.closed {
        paces = vec![if args.think_times { Pace::Thinking } else { Pace::Closed }];
    }
    let rounds = match &args.r#loop {
        Some(text) => read_rounds(text)?,
        None => Rounds::Count(1),
    };
    if args.tree.is_some() && rounds != Rounds::Count(1) {
        return Err(Failure::Usage(
            "--tree: one tree can't serve several rounds, since each changes it (hint: leave out \
             --tree or --loop)"
                .to_owned(),
        ));
    }
    if args.prepare_only {
        paces.truncate(1);
    }
    if args.tree.is_some() && paces.len() > 1 {
        return Err(Failure::Usage(
            "--tree: one tree can't serve several speeds, since each replay changes it (hint: name \
             one --speed, or leave out --tree)"
                .to_owned(),
        ));
    }
    let window = match &args.window {
        Some(text) => read_window(text)?,
        None => Window::ALL,
    };
    let directory = match &args.tree {
        Some(name) if name.is_empty() || name.contains('/') || name == "." || name == ".." => {
            return Err(Failure::Usage(format!(
                "--tree: `{name}` is not a directory name (hint: the directory is created in the \
                 export)"
            )));
        }
        Some(name) => name.clone(),
        // Clients on different hosts may have the same process ID, so that isn't unique on a
        // server.
        None => replay_directory(calendar::token()),
    };
    let tree_use = match &args.tree {
        None => TreeUse::Temporary,
        Some(_) if args.prepare_only => TreeUse::OnlyBuilt,
        Some(_) => TreeUse::Kept,
    };
    Ok(Request { paces, rounds, window, directory, tree_use })
}

/// Parses how often a trace is replayed: `5` or `10m`.
fn read_rounds(text: &str) -> Result<Rounds, Failure> {
    if let Ok(count) = text.parse::<u64>()
        && count > 0
    {
        return Ok(Rounds::Count(count));
    }
    match parse_time_ns(text) {
        Ok(time_ns) if time_ns > 0 && text.parse::<u64>().is_err() => Ok(Rounds::Time(time_ns)),
        _ => Err(Failure::Usage(format!(
            "--loop: `{text}` is neither a number of rounds nor a time (hint: for example 5 or 10m)"
        ))),
    }
}

/// Parses a part of a trace: `10s..40s`, `10s..`, `..40s`, or times of day such as `10:00..10:05`.
fn read_window(text: &str) -> Result<Window, Failure> {
    let bad = |why: &str| {
        Failure::Usage(format!(
            "--window: `{text}` {why} (hint: for example 10s..40s or 5m.., or 10:00..10:05 UTC)"
        ))
    };
    let Some((from, to)) = text.split_once("..") else { return Err(bad("has no `..`")) };
    let from = read_moment(from, 0).ok_or_else(|| bad("does not begin with a time"))?;
    let to = read_moment(to, u64::MAX).ok_or_else(|| bad("does not end with a time"))?;
    if let (TracePoint::After(from_ns), TracePoint::After(to_ns)) = (from, to)
        && from_ns >= to_ns
    {
        return Err(bad("is empty"));
    }
    Ok(Window { from, to })
}

/// Parses a moment of a trace; `None` if it is invalid.
fn read_moment(text: &str, otherwise_ns: u64) -> Option<TracePoint> {
    if text.is_empty() {
        return Some(TracePoint::After(otherwise_ns));
    }
    if !text.contains(':') {
        return parse_time_ns(text).ok().map(TracePoint::After);
    }
    let mut seconds = 0;
    let mut parts = 0;
    for (part, limit) in text.split(':').zip([24, 60, 60]) {
        let is_two_digits = part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
        let number = part.parse::<u64>().ok().filter(|number| is_two_digits && *number < limit)?;
        seconds = seconds * 60 + number;
        parts += 1;
    }
    if parts != text.split(':').count() || parts < 2 {
        return None;
    }
    let seconds = if parts == 2 { seconds * 60 } else { seconds };
    Some(TracePoint::Daytime(seconds * 1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rounds_as_count_or_time() {
        assert_eq!(read_rounds("5").unwrap(), Rounds::Count(5));
        assert_eq!(read_rounds("10m").unwrap(), Rounds::Time(600_000_000_000));
        for text in ["", "0", "0s", "x", "-1"] {
            let error = read_rounds(text).unwrap_err().to_string();
            assert!(error.contains("--loop") && error.contains("hint"), "{text}: {error}");
        }
    }

    #[test]
    fn allows_open_ended_window() {
        let window = |text: &str| read_window(text).unwrap();
        let second = 1_000_000_000;
        assert_eq!(window("10s..40s"), Window::between(10 * second, 40 * second));
        assert_eq!(window("1m.."), Window::between(60 * second, u64::MAX));
        assert_eq!(window("..500ms"), Window::between(0, second / 2));
        assert_eq!(window(".."), Window::ALL);
        let daytime = |hours: u64, minutes: u64, seconds: u64| {
            TracePoint::Daytime(((hours * 60 + minutes) * 60 + seconds) * second)
        };
        assert_eq!(
            window("10:00..10:05:30"),
            Window { from: daytime(10, 0, 0), to: daytime(10, 5, 30) }
        );
        assert_eq!(window("23:59.."), Window { from: daytime(23, 59, 0), ..Window::ALL });
        for text in [
            "",
            "10s",
            "40s..10s",
            "5s..5s",
            "x..2s",
            "1s..y",
            "24:00..",
            "1:00..",
            "10:60..",
            "10:00:00:00..",
            "10:..",
            "+1:00..",
        ] {
            let error = read_window(text).unwrap_err().to_string();
            assert!(error.contains("--window") && error.contains("hint"), "{text}: {error}");
        }
    }
}

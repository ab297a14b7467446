//! The arguments of a replay, as they are used.

use model::units::parse_time_ns;
use plan::TargetArg;
use replay::{Pace, Window};

use super::SPEEDS_MAX;
use crate::args::ReplayArgs;
use crate::calendar;
use crate::exit::Failure;

/// Slowest and fastest replay.
const SPEEDS: std::ops::RangeInclusive<f64> = 0.001..=1000.0;

/// The arguments as they are used.
pub struct Request {
    pub paces: Vec<Pace>,
    pub rounds: Rounds,
    pub window: Window,
    pub directory: String,
    pub keeps_tree: bool,
}

/// How often a trace is replayed at each speed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounds {
    /// So many times.
    Count(u64),
    /// Until so much time has passed, in nanoseconds; the last round is finished.
    Time(u64),
}

impl Rounds {
    /// Says whether there is a further round.
    pub const fn has_next(self, made: u64, took_ns: u64) -> bool {
        match self {
            Self::Count(count) => made < count,
            Self::Time(time_ns) => took_ns < time_ns,
        }
    }
}

/// Refuses hosts that can't share this replay.
pub fn check_hosts(args: &ReplayArgs) -> Result<(), Failure> {
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
        "--hosts: `{}` is no NFS server that other hosts reach (hint: nfs://server/export;          `dfsbench serve` starts one in memory)",
        args.target
    )))
}

/// Reads the arguments.
///
/// # Errors
/// When one can't be used, or two exclude each other.
pub fn read_request(args: &ReplayArgs) -> Result<Request, Failure> {
    let mut paces = Vec::new();
    for text in &args.speed {
        match text.trim().parse::<f64>() {
            Ok(speed) if SPEEDS.contains(&speed) => paces.push(Pace::Open { speed }),
            _ => {
                return Err(Failure::Usage(format!(
                    "--speed: `{text}` is no factor from {} to {} (hint: such as 0.5,1,2)",
                    SPEEDS.start(),
                    SPEEDS.end()
                )));
            }
        }
    }
    if paces.len() > SPEEDS_MAX {
        return Err(Failure::Usage(format!(
            "--speed: {} factors are more than {SPEEDS_MAX} (hint: `dfsbench curve --trace` \
             chooses some)",
            paces.len()
        )));
    }
    if args.closed {
        paces = vec![Pace::Closed];
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
                "--tree: `{name}` is no name of a directory (hint: it is made in the export)"
            )));
        }
        Some(name) => name.clone(),
        // A server has clients on many hosts, whose processes may have one number.
        None => format!("dfsbench-replay-{:016x}", calendar::token()),
    };
    Ok(Request { paces, rounds, window, directory, keeps_tree: args.tree.is_some() })
}

/// Reads how often a trace is replayed: `5`, or `10m`.
fn read_rounds(text: &str) -> Result<Rounds, Failure> {
    if let Ok(count) = text.parse::<u64>()
        && count > 0
    {
        return Ok(Rounds::Count(count));
    }
    match parse_time_ns(text) {
        Ok(time_ns) if time_ns > 0 && text.parse::<u64>().is_err() => Ok(Rounds::Time(time_ns)),
        _ => Err(Failure::Usage(format!(
            "--loop: `{text}` is neither a number of rounds nor a time (hint: such as 5 or 10m)"
        ))),
    }
}

/// Reads a part of a trace: `10s..40s`, `10s..` or `..40s`.
fn read_window(text: &str) -> Result<Window, Failure> {
    let bad = |why: &str| {
        Failure::Usage(format!("--window: `{text}` {why} (hint: such as 10s..40s or 5m..)"))
    };
    let Some((from, to)) = text.split_once("..") else { return Err(bad("has no `..`")) };
    let instant = |text: &str, otherwise: u64| {
        if text.is_empty() { Ok(otherwise) } else { parse_time_ns(text) }
    };
    let from_ns = instant(from, 0).map_err(|_| bad("does not begin with a time"))?;
    let to_ns = instant(to, u64::MAX).map_err(|_| bad("does not end with a time"))?;
    if from_ns >= to_ns {
        return Err(bad("is empty"));
    }
    Ok(Window { from_ns, to_ns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_a_number_or_a_time() {
        assert_eq!(read_rounds("5").unwrap(), Rounds::Count(5));
        assert_eq!(read_rounds("10m").unwrap(), Rounds::Time(600_000_000_000));
        for text in ["", "0", "0s", "x", "-1"] {
            let error = read_rounds(text).unwrap_err().to_string();
            assert!(error.contains("--loop") && error.contains("hint"), "{text}: {error}");
        }
        assert!(Rounds::Count(2).has_next(1, 0) && !Rounds::Count(2).has_next(2, 0));
        assert!(Rounds::Time(10).has_next(7, 9) && !Rounds::Time(10).has_next(1, 10));
    }

    #[test]
    fn a_window_has_two_ends_of_which_each_may_be_left_out() {
        let window = |text: &str| read_window(text).unwrap();
        let second = 1_000_000_000;
        assert_eq!(window("10s..40s"), Window { from_ns: 10 * second, to_ns: 40 * second });
        assert_eq!(window("1m.."), Window { from_ns: 60 * second, to_ns: u64::MAX });
        assert_eq!(window("..500ms"), Window { from_ns: 0, to_ns: second / 2 });
        assert_eq!(window(".."), Window::ALL);
        for text in ["", "10s", "40s..10s", "5s..5s", "x..2s", "1s..y"] {
            let error = read_window(text).unwrap_err().to_string();
            assert!(error.contains("--window") && error.contains("hint"), "{text}: {error}");
        }
    }
}

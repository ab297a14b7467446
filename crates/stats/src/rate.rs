//! A rate with its unit, as displayed in tables and sentences.
//!
//! Bytes are decimal (MB/s), ops are op/s, kop/s or Mop/s, with three digits and always a unit. A
//! rate of whole commands is not informative, so it is displayed as the time per command.

use std::fmt;

use model::Pass;
use model::units::{Nanos, three_digits};

/// Result of a pass per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rate {
    /// Bytes per second.
    Bytes(f64),
    /// Ops per second.
    Ops(f64),
    /// Entries of directories per second.
    Entries(f64),
    /// Commands or whole passes per second, displayed as the wall time of one.
    Commands(f64),
}

impl Rate {
    /// Adds the unit of a pass to a number per second.
    pub const fn for_pass(pass: Pass, per_s: f64) -> Self {
        match pass {
            _ if pass.is_timed_as_whole() => Self::Commands(per_s),
            _ if pass.is_byte_rate() => Self::Bytes(per_s),
            _ if pass.lists() => Self::Entries(per_s),
            _ => Self::Ops(per_s),
        }
    }

    /// Adds the unit to a rate of the ops in a pass, which may consist of different ops.
    pub const fn of_ops(pass: Pass, per_s: f64) -> Self {
        if pass.is_timed_as_whole() { Self::Ops(per_s) } else { Self::for_pass(pass, per_s) }
    }

    /// Formats both ends of an interval of rates, smaller number first. For commands, that is the
    /// time at the higher rate.
    pub fn interval(pass: Pass, low_per_s: f64, high_per_s: f64) -> String {
        let low = Self::for_pass(pass, low_per_s);
        let high = Self::for_pass(pass, high_per_s);
        if low.is_time() { format!("{high} to {low}") } else { format!("{low} to {high}") }
    }

    /// Returns true if the rate is displayed as the time of one command, so that less is faster.
    pub const fn is_time(self) -> bool {
        matches!(self, Self::Commands(_))
    }

    /// Returns the number per second, in bytes, ops or commands.
    pub const fn per_s(self) -> f64 {
        match self {
            Self::Bytes(per_s)
            | Self::Ops(per_s)
            | Self::Entries(per_s)
            | Self::Commands(per_s) => per_s,
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // At 0.9995, three digits round up to the next unit.
        let (value, unit) = match *self {
            Self::Bytes(b) if b > 0.0 && b < 0.9995e6 => (b / 1e3, "kB/s"),
            Self::Bytes(b) => (b / 1e6, "MB/s"),
            Self::Ops(o) if o >= 0.9995e6 => (o / 1e6, "Mop/s"),
            Self::Ops(o) if o >= 0.9995e3 => (o / 1e3, "kop/s"),
            Self::Ops(o) => (o, "op/s"),
            Self::Entries(e) if e >= 0.9995e6 => (e / 1e6, "Mentries/s"),
            Self::Entries(e) if e >= 0.9995e3 => (e / 1e3, "kentries/s"),
            Self::Entries(e) => (e, "entries/s"),
            Self::Commands(c) if c > 0.0 => return Nanos((1e9 / c) as u64).fmt(f),
            Self::Commands(_) => return f.write_str("–"),
        };
        write!(f, "{} {unit}", three_digits(value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_print_with_their_unit() {
        let shown = |rate: Rate| rate.to_string();
        assert_eq!(shown(Rate::Bytes(1_234_000_000.0)), "1234 MB/s");
        assert_eq!(shown(Rate::Bytes(412_345.0)), "412 kB/s");
        assert_eq!(shown(Rate::Bytes(999_999.0)), "1.00 MB/s");
        assert_eq!(shown(Rate::Bytes(0.0)), "0.00 MB/s");
        assert_eq!(shown(Rate::Ops(12_345.0)), "12.3 kop/s");
        assert_eq!(shown(Rate::Ops(9_100_000.0)), "9.10 Mop/s");
        assert_eq!(shown(Rate::Ops(999.9)), "1.00 kop/s");
        assert_eq!(shown(Rate::for_pass(Pass::ListStat, 83_000.0)), "83.0 kentries/s");
        assert_eq!(shown(Rate::for_pass(Pass::App, 0.08)), "12.5 s");
        assert_eq!(shown(Rate::for_pass(Pass::App, 0.0)), "–");
        assert_eq!(Rate::interval(Pass::App, 0.4, 0.5), "2.00 s to 2.50 s");
        assert_eq!(Rate::interval(Pass::Stat, 45.6, 50.0), "45.6 op/s to 50.0 op/s");
        assert_eq!(shown(Rate::for_pass(Pass::Stat, 45.6)), "45.6 op/s");
        assert_eq!(shown(Rate::for_pass(Pass::Read, 45.6e6)), "45.6 MB/s");
    }
}

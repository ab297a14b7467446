//! Levels of settings: from text, into a run, out of it again, and as a plan writes them.
//!
//! One level is one value of one factor; what a value means is its setting's to say.

use model::units::{parse_size, parse_time_ns};
use model::{Durability, NfsSettings, NfsVersion, Proto, RunSpec, Stable, Target, XprtSec};

use crate::error::Fault;
use crate::setting::{Kind, Setting, Value};
use crate::{limits, text};

impl Setting {
    /// Reads a level from text.
    pub(crate) fn read(self, text: &str) -> Result<Value, Fault> {
        let text = text.trim();
        let value = match self.kind() {
            Kind::TransferSize if text == "server" => return Ok(Value::Server),
            Kind::Size | Kind::TransferSize => Value::Number(parse_size(text)?),
            Kind::Count | Kind::Percent => Value::Number(read_integer(text)?),
            Kind::Time => Value::Number(read_ms(text)?),
            Kind::Flag => match text {
                "true" => Value::Flag(true),
                "false" => Value::Flag(false),
                _ => return Err(self.not_legal(text)),
            },
            Kind::Word => return self.word(text).ok_or_else(|| self.not_legal(text)),
        };
        self.within(value, text)
    }

    fn word(self, text: &str) -> Option<Value> {
        match self {
            Self::NfsVers => NfsVersion::from_name(text).map(Value::Version),
            Self::Proto => Proto::from_name(text).map(Value::Proto),
            Self::XprtSec => XprtSec::from_name(text).map(Value::XprtSec),
            Self::Stable => Stable::from_name(text).map(Value::Stable),
            Self::Durability => Durability::from_name(text).map(Value::Durability),
            _ => None,
        }
    }

    /// Lets a level pass that is within its limits; `shown` is how it was written.
    pub(crate) fn within(self, value: Value, shown: &str) -> Result<Value, Fault> {
        match (value, limits::range(self)) {
            (Value::Number(number), Some(range)) => {
                in_range(number, range, &limits::legal(self), shown).map(|()| value)
            }
            _ => Ok(value),
        }
    }

    fn not_legal(self, text: &str) -> Fault {
        let fault = Fault::new(format!("must be {}, not `{text}`", limits::legal(self)));
        match (self, text) {
            (Self::NfsVers, "4") => {
                fault.hint("no minor version is negotiated: write 4.0, 4.1 or 4.2")
            }
            _ => fault,
        }
    }

    /// Takes this setting's level from a run.
    ///
    /// Data files and small files share their fields: a run has only one of them.
    pub fn get(self, spec: &RunSpec) -> Value {
        let nfs = spec.nfs();
        match self {
            Self::Workers => Value::Number(spec.workers.into()),
            Self::Clients => Value::Number(spec.clients.into()),
            Self::ClientUids => Value::Number(nfs.client_uids.into()),
            Self::PerClient => Value::Flag(nfs.per_client),
            Self::Files | Self::SmallFiles => Value::Number(spec.files.into()),
            Self::FileSize | Self::SmallFileSize => Value::Number(spec.file_size_bytes),
            Self::IoSize => Value::Number(spec.io_size_bytes.into()),
            Self::QueueDepth => Value::Number(spec.queue_depth.into()),
            Self::NfsVers => Value::Version(nfs.version),
            Self::Proto => Value::Proto(nfs.proto),
            Self::XprtSec => Value::XprtSec(nfs.xprtsec),
            Self::Nconnect => Value::Number(nfs.nconnect.into()),
            Self::TransferSize => {
                spec.transfer_size_bytes.map_or(Value::Server, |n| Value::Number(n.into()))
            }
            Self::ReadAhead => Value::Number(nfs.read_ahead.into()),
            Self::WriteBehind => Value::Number(nfs.write_behind.into()),
            Self::Stable => Value::Stable(nfs.stable),
            Self::Timeo => Value::Number(nfs.timeo_ms),
            Self::Retrans => Value::Number(nfs.retrans.into()),
            Self::ReadPercent => Value::Number(spec.read_percent.into()),
            Self::Duration => Value::Number(spec.duration_ms),
            Self::Direct => Value::Flag(spec.direct),
            Self::Durability => Value::Durability(spec.durability),
            Self::Invalidate => Value::Flag(spec.invalidate),
            Self::Verify => Value::Flag(spec.verify),
            Self::Timeout => Value::Number(spec.timeout_ms),
        }
    }

    /// Puts a level of this setting into a run.
    ///
    /// # Panics
    /// Where the level is of another setting's kind, or one of NFS meets another target: a bug of
    /// this crate.
    pub(crate) fn set(self, spec: &mut RunSpec, value: Value) {
        match (self, value) {
            (Self::Workers, Value::Number(n)) => spec.workers = n as u32,
            (Self::Clients, Value::Number(n)) => spec.clients = n as u32,
            (Self::Files | Self::SmallFiles, Value::Number(n)) => spec.files = n as u32,
            (Self::FileSize | Self::SmallFileSize, Value::Number(n)) => spec.file_size_bytes = n,
            (Self::IoSize, Value::Number(n)) => spec.io_size_bytes = n as u32,
            (Self::QueueDepth, Value::Number(n)) => spec.queue_depth = n as u32,
            (Self::TransferSize, Value::Number(n)) => spec.transfer_size_bytes = Some(n as u32),
            (Self::TransferSize, Value::Server) => spec.transfer_size_bytes = None,
            (Self::ReadPercent, Value::Number(n)) => spec.read_percent = n as u32,
            (Self::Duration, Value::Number(n)) => spec.duration_ms = n,
            (Self::Direct, Value::Flag(yes)) => spec.direct = yes,
            (Self::Durability, Value::Durability(durability)) => spec.durability = durability,
            (Self::Invalidate, Value::Flag(yes)) => spec.invalidate = yes,
            (Self::Verify, Value::Flag(yes)) => spec.verify = yes,
            (Self::Timeout, Value::Number(n)) => spec.timeout_ms = n,
            (setting, value) => match &mut spec.target {
                Target::Nfs(nfs) => setting.set_nfs(&mut nfs.settings, value),
                other => unreachable!("{setting:?} {value:?} of {other}"),
            },
        }
    }

    /// Puts a level into the settings of NFS.
    ///
    /// # Panics
    /// As [`Setting::set`].
    pub(crate) fn set_nfs(self, nfs: &mut NfsSettings, value: Value) {
        match (self, value) {
            (Self::NfsVers, Value::Version(version)) => nfs.version = version,
            (Self::Proto, Value::Proto(proto)) => nfs.proto = proto,
            (Self::XprtSec, Value::XprtSec(xprtsec)) => nfs.xprtsec = xprtsec,
            (Self::ClientUids, Value::Number(n)) => nfs.client_uids = n as u32,
            (Self::PerClient, Value::Flag(yes)) => nfs.per_client = yes,
            (Self::Nconnect, Value::Number(n)) => nfs.nconnect = n as u32,
            (Self::ReadAhead, Value::Number(n)) => nfs.read_ahead = n as u32,
            (Self::WriteBehind, Value::Number(n)) => nfs.write_behind = n as u32,
            (Self::Stable, Value::Stable(stable)) => nfs.stable = stable,
            (Self::Timeo, Value::Number(n)) => nfs.timeo_ms = n,
            (Self::Retrans, Value::Number(n)) => nfs.retrans = n as u32,
            (setting, value) => unreachable!("{setting:?} can't be {value:?}"),
        }
    }

    /// Writes a level as a plan does.
    pub(crate) fn write(self, value: Value) -> String {
        match value {
            Value::Number(number) => match self.kind() {
                Kind::Size | Kind::TransferSize => text::quoted(&text::size(number)),
                Kind::Time => text::quoted(&text::time(number)),
                _ => number.to_string(),
            },
            Value::Flag(yes) => yes.to_string(),
            Value::Durability(durability) => text::quoted(durability.name()),
            Value::Version(version) => text::quoted(version.name()),
            Value::Proto(proto) => text::quoted(proto.name()),
            Value::XprtSec(xprtsec) => text::quoted(xprtsec.name()),
            Value::Stable(stable) => text::quoted(stable.name()),
            Value::Server => text::quoted("server"),
        }
    }
}

/// Refuses a number outside its range; `legal` says the range for people.
pub(crate) fn in_range(
    number: u64,
    range: limits::Range,
    legal: &str,
    shown: &str,
) -> Result<(), Fault> {
    if (range.min..=range.max).contains(&number) {
        return Ok(());
    }
    let fault = Fault::new(format!("must be {legal}, not `{shown}`"));
    Err(if number > range.max { fault.hint(range.reason) } else { fault })
}

/// Reads a whole number.
pub(crate) fn read_integer(text: &str) -> Result<u64, Fault> {
    text.parse().map_err(|_| {
        Fault::new(format!("`{text}` is not a whole number")).hint("write digits only, such as `4`")
    })
}

/// Reads a time in whole milliseconds.
fn read_ms(text: &str) -> Result<u64, Fault> {
    const NS_PER_MS: u64 = 1_000_000;
    let ns = parse_time_ns(text)?;
    if !ns.is_multiple_of(NS_PER_MS) {
        return Err(Fault::new(format!("`{text}` is not a whole number of milliseconds")));
    }
    Ok(ns / NS_PER_MS)
}

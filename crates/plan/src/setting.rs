//! The settings of a run: what each is called, what it holds, and where it counts.
//!
//! [`Setting`] is the one list that the reader of plans, the flags, the matrix and the writer
//! share; a new setting is a variant here plus a row in `keys`, `limits` and `defaults`. Its
//! order is the order of the matrix: the last one varies fastest.

use model::units::{parse_size, parse_time_ns};
use model::{BackendKind, Durability, RunSpec, Workload};

use crate::error::Fault;
use crate::{limits, text};

/// A setting that may be a factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Setting {
    /// Threads with a recorder each.
    Workers,
    /// Data files of stream and random, all workers together.
    Files,
    /// Bytes of each data file.
    FileSize,
    /// Files of metadata, all workers together.
    SmallFiles,
    /// Bytes written to each file of metadata when it is created.
    SmallFileSize,
    /// Bytes of one read or write.
    IoSize,
    /// Ops in flight per worker.
    QueueDepth,
    /// Largest payload of one READ or WRITE on the wire.
    TransferSize,
    /// Share of reads in a mix.
    ReadPercent,
    /// How long a mix runs.
    Duration,
    /// Bypass the page cache.
    Direct,
    /// When written data must be safe.
    Durability,
    /// Drop the files from the page cache before they are read.
    Invalidate,
    /// Compare what is read with what was written.
    Verify,
    /// An answer that takes longer is a failure.
    Timeout,
}

/// What a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Bytes.
    Size,
    /// Bytes, or what the server offers.
    TransferSize,
    /// A whole number.
    Count,
    /// A share, in whole percent.
    Percent,
    /// Milliseconds.
    Time,
    /// Yes or no.
    Flag,
    /// A [`Durability`].
    Durability,
}

/// One level of a setting, within its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Value {
    /// In bytes, milliseconds, percent or pieces, as [`Setting::kind`] says.
    Number(u64),
    /// Yes or no.
    Flag(bool),
    /// When written data must be safe.
    Durability(Durability),
    /// What the server offers.
    Server,
}

impl Setting {
    /// All of them, in the order of the matrix.
    pub const ALL: [Self; 15] = [
        Self::Workers,
        Self::Files,
        Self::FileSize,
        Self::SmallFiles,
        Self::SmallFileSize,
        Self::IoSize,
        Self::QueueDepth,
        Self::TransferSize,
        Self::ReadPercent,
        Self::Duration,
        Self::Direct,
        Self::Durability,
        Self::Invalidate,
        Self::Verify,
        Self::Timeout,
    ];

    /// The key in a plan.
    pub const fn key(self) -> &'static str {
        match self {
            Self::Workers => "workers",
            Self::Files => "files",
            Self::FileSize => "file_size",
            Self::SmallFiles => "small_files",
            Self::SmallFileSize => "small_file_size",
            Self::IoSize => "io_size",
            Self::QueueDepth => "queue_depth",
            Self::TransferSize => "transfer_size",
            Self::ReadPercent => "read_percent",
            Self::Duration => "duration",
            Self::Direct => "direct",
            Self::Durability => "durability",
            Self::Invalidate => "invalidate",
            Self::Verify => "verify",
            Self::Timeout => "timeout",
        }
    }

    /// The flag of the command line.
    pub const fn flag(self) -> &'static str {
        match self {
            Self::Workers => "--workers",
            Self::Files => "--files",
            Self::FileSize => "--file-size",
            Self::SmallFiles => "--small-files",
            Self::SmallFileSize => "--small-file-size",
            Self::IoSize => "--io-size",
            Self::QueueDepth => "--queue-depth",
            Self::TransferSize => "--transfer-size",
            Self::ReadPercent => "--read-percent",
            Self::Duration => "--duration",
            Self::Direct => "--direct",
            Self::Durability => "--durability",
            Self::Invalidate => "--invalidate",
            Self::Verify => "--verify",
            Self::Timeout => "--timeout",
        }
    }

    /// What it holds.
    pub const fn kind(self) -> Kind {
        match self {
            Self::Workers | Self::Files | Self::SmallFiles | Self::QueueDepth => Kind::Count,
            Self::FileSize | Self::SmallFileSize | Self::IoSize => Kind::Size,
            Self::TransferSize => Kind::TransferSize,
            Self::ReadPercent => Kind::Percent,
            Self::Duration | Self::Timeout => Kind::Time,
            Self::Direct | Self::Invalidate | Self::Verify => Kind::Flag,
            Self::Durability => Kind::Durability,
        }
    }

    /// Says whether any run of this workload depends on it.
    pub const fn concerns(self, workload: Workload) -> bool {
        let metadata = matches!(workload, Workload::Metadata);
        match self {
            Self::ReadPercent | Self::Duration => matches!(workload, Workload::Random),
            Self::SmallFiles | Self::SmallFileSize => metadata,
            Self::Files
            | Self::FileSize
            | Self::IoSize
            | Self::TransferSize
            | Self::Direct
            | Self::Durability
            | Self::Invalidate
            | Self::Verify => !metadata,
            Self::Workers | Self::QueueDepth | Self::Timeout => true,
        }
    }

    /// The setting that serves a workload for this one, which serves others: the number and the
    /// size of files go by two names each.
    pub(crate) const fn counterpart(self) -> Option<Self> {
        match self {
            Self::Files => Some(Self::SmallFiles),
            Self::FileSize => Some(Self::SmallFileSize),
            Self::SmallFiles => Some(Self::Files),
            Self::SmallFileSize => Some(Self::FileSize),
            _ => None,
        }
    }

    /// Says whether a run of this workload on this backend depends on it; what doesn't matter
    /// never multiplies runs.
    pub const fn matters(self, workload: Workload, backend: BackendKind) -> bool {
        let by_backend = match self {
            // A synchronous call is one op in flight.
            Self::QueueDepth => !matches!(backend, BackendKind::Posix),
            Self::TransferSize => matches!(backend, BackendKind::Nfs),
            Self::Direct | Self::Invalidate => {
                matches!(backend, BackendKind::Posix | BackendKind::Uring)
            }
            // The null backend moves no data.
            Self::Durability | Self::Verify => !matches!(backend, BackendKind::Null),
            _ => true,
        };
        by_backend && self.concerns(workload)
    }

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
            Kind::Durability => match text {
                "sync" => Value::Durability(Durability::Sync),
                "none" => Value::Durability(Durability::None),
                _ => return Err(self.not_legal(text)),
            },
        };
        self.within(value, text)
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
        Fault::new(format!("must be {}, not `{text}`", limits::legal(self)))
    }

    /// Takes this setting's level from a run.
    ///
    /// Data files and small files share their fields: a run has only one of them.
    pub fn get(self, spec: &RunSpec) -> Value {
        match self {
            Self::Workers => Value::Number(spec.workers.into()),
            Self::Files | Self::SmallFiles => Value::Number(spec.files.into()),
            Self::FileSize | Self::SmallFileSize => Value::Number(spec.file_size_bytes),
            Self::IoSize => Value::Number(spec.io_size_bytes.into()),
            Self::QueueDepth => Value::Number(spec.queue_depth.into()),
            Self::TransferSize => {
                spec.transfer_size_bytes.map_or(Value::Server, |n| Value::Number(n.into()))
            }
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
    /// Where the level is of another setting's kind: a bug of this crate.
    pub(crate) fn set(self, spec: &mut RunSpec, value: Value) {
        match (self, value) {
            (Self::Workers, Value::Number(n)) => spec.workers = n as u32,
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

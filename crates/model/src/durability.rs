//! The words and findings of a durability measurement: what was acknowledged, and what was found.
//!
//! An [`AckedOp`] is an op with the instant at which the caller was promised its durability, a
//! [`FoundFile`] what stood in its place after a [`CrashEvent`]. [`DurabilityRow`] counts, for one
//! event, one promise and one kind of work, what was kept and how the rest was lost;
//! [`DurabilityReport`] is all of them. The promises are those of [`Durability`].

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::spec::Durability;
use crate::words::words;

words! {
    /// The kinds of work whose durability is measured.
    WorkKind {
        /// Small files, each created and written once.
        SmallFile = "small-file",
        /// A large file that grows.
        LargeFile = "large-file",
        /// Blocks of a file that were safe, written again in place.
        Overwrite = "overwrite",
        /// Empty files that are created.
        Create = "create",
        /// Files that replace older ones by a rename.
        Rename = "rename",
    }
}

impl WorkKind {
    /// Says whether only a name is to be kept, and no data.
    pub const fn is_name_only(self) -> bool {
        matches!(self, Self::Create)
    }
}

words! {
    /// The events after which everything is read back.
    CrashEvent {
        /// The server's process is killed and started again.
        KillServer = "kill-server",
        /// The server's host loses power, and is started again.
        PowerCut = "power-cut",
        /// One of several servers that keep data is lost, and does not come back.
        LoseServer = "lose-server",
        /// The client's process is killed.
        KillClient = "kill-client",
        /// Nothing passes between client and server for a time.
        CutNetwork = "cut-network",
    }
}

words! {
    /// How much a promise survives, as measured.
    Tier {
        /// Acknowledged data was lost by the weakest event that was made.
        None = "none",
        /// All acknowledged data survived a kill of the server's process.
        ServerCrash = "survives server crash",
        /// All acknowledged data survived a loss of power of the server's host.
        PowerLoss = "survives power loss",
        /// All acknowledged data survived that one of several servers was lost for good.
        ServerLoss = "survives loss of a server",
        /// Nothing was lost, but that proves nothing: too few crashes had the last acknowledged
        /// write under the promise, or a stronger promise lost data in the same event.
        Undecided = "undecided",
        /// No event that would show it was made, could be verified, or put data at risk.
        Unknown = "not measured",
    }
}

impl Tier {
    /// All tiers, the one that survives most first; one that was not measured is below all others.
    pub const STRONGEST_FIRST: [Self; 6] = [
        Self::ServerLoss,
        Self::PowerLoss,
        Self::ServerCrash,
        Self::None,
        Self::Undecided,
        Self::Unknown,
    ];

    /// Returns true if the measurement doesn't show what survives.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Undecided | Self::Unknown)
    }

    /// Returns a number that is greater for tiers that survive more.
    pub fn strength(self) -> usize {
        let place = Self::STRONGEST_FIRST.iter().position(|tier| *tier == self);
        Self::STRONGEST_FIRST.len() - place.unwrap_or(Self::STRONGEST_FIRST.len())
    }
}

/// How the files of a target are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// By NFS, without the kernel's client.
    Nfs,
    /// By system calls of this host.
    FileSystem,
}

/// A file that a durability measurement writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TestFile {
    /// The promise under which it is written.
    pub promise: Durability,
    /// The kind of work.
    pub kind: WorkKind,
    /// Its number among those of the promise and the kind.
    pub number: u32,
}

impl TestFile {
    /// Returns the number that its blocks are stamped with; no two files have the same.
    pub const fn stamp_number(&self) -> u32 {
        (self.promise as u32) << 28 | (self.kind as u32) << 24 | self.number & 0x00ff_ffff
    }

    /// Returns its name.
    pub fn name(&self) -> String {
        format!("{}-{}-{:06}", self.promise, self.kind, self.number)
    }

    /// Returns the name under which a replacement of it is written, before it is renamed.
    pub fn replacement_name(&self) -> String {
        format!("{}.new", self.name())
    }
}

/// An op that was handed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestOp {
    /// The file that it changes.
    pub file: TestFile,
    /// Its first block.
    pub first_block: u32,
    /// The number of blocks; 0 where only a name is made.
    pub blocks: u32,
    /// The generation that its blocks have from then on.
    pub generation: u32,
    /// Bytes that it writes.
    pub bytes: u64,
}

impl TestOp {
    /// Returns the blocks that it writes.
    pub const fn range(&self) -> Range<u32> {
        self.first_block..self.first_block + self.blocks
    }
}

/// An op, and when its promise was fulfilled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedOp {
    /// The op itself.
    pub op: TestOp,
    /// When its promise was acknowledged, in nanoseconds of the monotonic clock; `None` for one
    /// that was in flight.
    pub acked_ns: Option<u64>,
}

/// The content of a block that was read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundBlock {
    /// A whole block of this generation.
    Generation(u32),
    /// Nothing but zeros.
    Zeros,
    /// Neither: a part of a block, or something else.
    Other,
}

/// A file that was read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    /// The file that it changes.
    pub file: TestFile,
    /// Its size in bytes; `None` where there is no such file.
    pub size_bytes: Option<u64>,
    /// Its blocks up to its size; the last one may be shorter.
    pub blocks: Vec<FoundBlock>,
    /// It could not be read, as long as it was tried, while the target answered.
    pub is_unreadable: bool,
}

impl FoundFile {
    /// A file that is not there.
    pub const fn missing(file: TestFile) -> Self {
        Self { file, size_bytes: None, blocks: Vec::new(), is_unreadable: false }
    }
}

/// The findings for one event, one promise and one kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityRow {
    /// The event that was made.
    pub event: CrashEvent,
    /// The promise that was requested.
    pub promise: Durability,
    /// The kind of work.
    pub kind: WorkKind,
    /// Whether a loss breaks what the promise says.
    pub is_promised: bool,
    /// Ops that were acknowledged.
    pub acked_ops: u64,
    /// Bytes of these ops.
    pub acked_bytes: u64,
    /// Acknowledged ops that were not there afterwards.
    pub lost_ops: u64,
    /// Their bytes that were not there.
    pub lost_bytes: u64,
    /// From the first acknowledgement that was not kept until the event, in nanoseconds.
    pub window_ns: u64,
    /// Lost ops whose file, or its new name, was missing.
    pub missing: u64,
    /// Lost ops whose file could not be read.
    #[serde(default)]
    pub unreadable: u64,
    /// Lost ops beyond the end of a file that had been longer.
    pub wrong_size: u64,
    /// Lost ops of which a part was there.
    pub torn: u64,
    /// Lost ops in whose place there were zeros.
    pub zeros: u64,
    /// Lost ops in whose place the data from before was back.
    pub old_data: u64,
    /// Ops that were kept although an earlier one of the same file was lost.
    pub reordered: u64,
    /// Ops in flight that left a torn block, which no promise forbids.
    pub torn_in_flight: u64,
}

impl DurabilityRow {
    /// Makes a row without findings.
    pub const fn new(event: CrashEvent, file: &TestFile) -> Self {
        Self {
            event,
            promise: file.promise,
            kind: file.kind,
            is_promised: false,
            acked_ops: 0,
            acked_bytes: 0,
            lost_ops: 0,
            lost_bytes: 0,
            window_ns: 0,
            missing: 0,
            unreadable: 0,
            wrong_size: 0,
            torn: 0,
            zeros: 0,
            old_data: 0,
            reordered: 0,
            torn_in_flight: 0,
        }
    }

    /// Adds the counts of another row of the same event and promise.
    pub fn add(&mut self, other: &Self) {
        self.is_promised |= other.is_promised;
        self.acked_ops += other.acked_ops;
        self.acked_bytes += other.acked_bytes;
        self.lost_ops += other.lost_ops;
        self.lost_bytes += other.lost_bytes;
        self.window_ns = self.window_ns.max(other.window_ns);
        self.missing += other.missing;
        self.unreadable += other.unreadable;
        self.wrong_size += other.wrong_size;
        self.torn += other.torn;
        self.zeros += other.zeros;
        self.old_data += other.old_data;
        self.reordered += other.reordered;
        self.torn_in_flight += other.torn_in_flight;
    }

    /// Says whether something was lost that the promise covers.
    pub const fn breaks_promise(&self) -> bool {
        self.is_promised && self.lost_ops > 0
    }
}

/// The crashes before which a promise had the last acknowledged write, with nothing in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWrites {
    /// The promise.
    pub promise: Durability,
    /// Number of these crashes.
    pub crashes: u32,
    /// How probable it is to miss a server that loses the last acknowledged write in every second
    /// crash, in permille. One that loses it in every crash is never missed.
    pub missed_permille: u32,
}

impl LastWrites {
    /// Counts so many crashes for a promise.
    pub const fn new(promise: Durability, crashes: u32) -> Self {
        let missed_permille = match 1_000_u32.checked_shr(crashes) {
            Some(permille) => permille,
            None => 0,
        };
        Self { promise, crashes, missed_permille }
    }
}

/// One event with its findings; a crash that was repeated is one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredEvent {
    /// The event that was made.
    pub event: CrashEvent,
    /// How often it was made.
    #[serde(default = "once")]
    pub crashes: u32,
    /// For each promise, how often its write was the last one.
    #[serde(default)]
    pub last_writes: Vec<LastWrites>,
    /// Number of crashes with the last write under a promise that it takes to rate it; 0 for
    /// events that are made once.
    #[serde(default = "once")]
    pub last_writes_wanted: u32,
    /// How it was made, in a few words.
    pub how: String,
    /// From the event until everything could be read back, in nanoseconds.
    pub back_ns: u64,
    /// Why nothing could be verified; the rows have no findings then.
    pub unverified: Option<String>,
    /// Why the event could not destroy any data; that all was kept shows nothing then.
    #[serde(default)]
    pub nothing_at_risk: Option<String>,
    /// Findings by promise and kind.
    pub rows: Vec<DurabilityRow>,
}

/// Events of releases that made each one once.
const fn once() -> u32 {
    1
}

impl MeasuredEvent {
    /// An event that was made once and has no findings yet.
    pub const fn new(event: CrashEvent, how: String) -> Self {
        Self {
            event,
            crashes: 1,
            last_writes: Vec::new(),
            last_writes_wanted: 0,
            how,
            back_ns: 0,
            unverified: None,
            nothing_at_risk: None,
            rows: Vec::new(),
        }
    }

    /// Adds the findings of another crash of the same kind, which could be verified.
    pub fn add(&mut self, other: &Self) {
        self.crashes += other.crashes;
        self.back_ns = self.back_ns.max(other.back_ns);
        for last in &other.last_writes {
            self.count_last_writes(last.promise, last.crashes);
        }
        for row in &other.rows {
            let same =
                |known: &&mut DurabilityRow| known.promise == row.promise && known.kind == row.kind;
            match self.rows.iter_mut().find(same) {
                Some(known) => known.add(row),
                None => self.rows.push(*row),
            }
        }
    }

    /// Counts crashes before which a promise had the last acknowledged write.
    pub fn count_last_writes(&mut self, promise: Durability, crashes: u32) {
        for known in &mut self.last_writes {
            if known.promise == promise {
                *known = LastWrites::new(promise, known.crashes + crashes);
                return;
            }
        }
        self.last_writes.push(LastWrites::new(promise, crashes));
    }

    /// Returns how often the last acknowledged write was one of a promise.
    pub fn last_writes_of(&self, promise: Durability) -> LastWrites {
        let found = self.last_writes.iter().find(|last| last.promise == promise);
        found.copied().unwrap_or_else(|| LastWrites::new(promise, 0))
    }

    /// Returns true if enough crashes had the last acknowledged write under a promise: a server
    /// that loses its last writes passes if they were never of this promise.
    pub fn has_enough_crashes(&self, promise: Durability) -> bool {
        self.last_writes_of(promise).crashes >= self.last_writes_wanted
    }

    /// Returns why the event could not destroy any data, unless data was lost all the same.
    pub fn harmless(&self) -> Option<&str> {
        let has_lost = self.rows.iter().any(|row| row.lost_ops > 0);
        if has_lost { None } else { self.nothing_at_risk.as_deref() }
    }

    /// Returns true if an op of a promise was lost.
    pub fn has_lost(&self, promise: Durability) -> bool {
        self.rows.iter().any(|row| row.promise == promise && row.lost_ops > 0)
    }
}

/// A promise with its measured tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromiseTier {
    /// The promise that was requested.
    pub promise: Durability,
    /// How much it survives.
    pub tier: Tier,
}

/// All events of a durability measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityReport {
    /// Version of this form.
    pub schema: u32,
    /// The target that was measured.
    pub target: String,
    /// How a promise is kept at the target, for each that was measured.
    pub promises: Vec<String>,
    /// The tier of each promise.
    pub tiers: Vec<PromiseTier>,
    /// The events in the order in which they were made.
    pub events: Vec<MeasuredEvent>,
}

/// A durability measurement that is kept with a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDurability {
    /// The contender that was measured, see [`crate::contender::contender_of`].
    pub contender: String,
    /// When it was measured, in milliseconds since 1970 UTC.
    pub measured_unix_ms: u64,
    /// The findings of the measurement.
    pub report: DurabilityReport,
}

impl StoredDurability {
    /// Returns the tier that a promise had.
    pub fn tier_of(&self, promise: Durability) -> Tier {
        for one in &self.report.tiers {
            if one.promise == promise {
                return one.tier;
            }
        }
        Tier::Unknown
    }
}

impl DurabilityReport {
    /// Says whether all events were verified, and nothing was lost that was promised.
    pub fn is_clean(&self) -> bool {
        for event in &self.events {
            if event.unverified.is_some() || event.rows.iter().any(DurabilityRow::breaks_promise) {
                return false;
            }
        }
        true
    }
}

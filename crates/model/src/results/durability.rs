//! Data types of a durability measurement: what was acknowledged and what was found.
//!
//! An [`AckedOp`] is an op and the time at which its durability was acknowledged. A [`FoundFile`]
//! is the file as found after a [`CrashEvent`]. A [`DurabilityRow`] counts, for one event, promise
//! and kind of work, what survived and how the rest was lost. A [`DurabilityReport`] contains all
//! of them. The promises are those of [`Durability`].

use std::ops::Range;

use serde::{Deserialize, Serialize};

use crate::runs::spec::Durability;
use crate::text::words::words;

words! {
    /// Kinds of work whose durability is measured.
    WorkKind {
        /// Small files, each created and written once.
        SmallFile = "small-file",
        /// A large file that grows.
        LargeFile = "large-file",
        /// Durable blocks of a file, overwritten in place.
        Overwrite = "overwrite",
        /// Empty files.
        Create = "create",
        /// Files that replace older ones by rename.
        Rename = "rename",
    }
}

impl WorkKind {
    /// Returns true if only names are created and no data is written.
    pub const fn is_name_only(self) -> bool {
        matches!(self, Self::Create)
    }
}

words! {
    /// Events after which everything is read back.
    CrashEvent {
        /// The server process is killed and restarted.
        KillServer = "kill-server",
        /// The server's host loses power and is restarted.
        PowerCut = "power-cut",
        /// One of several storage servers is lost for good.
        LoseServer = "lose-server",
        /// The client process is killed.
        KillClient = "kill-client",
        /// All traffic between client and server is dropped for a while.
        CutNetwork = "cut-network",
    }
}

words! {
    /// How much a promise survives, as measured.
    Tier {
        /// Acknowledged data was lost in the weakest event tested.
        None = "none",
        /// All acknowledged data survived a kill of the server process.
        ServerCrash = "survives server crash",
        /// All acknowledged data survived a power loss of the server's host.
        PowerLoss = "survives power loss",
        /// All acknowledged data survived the permanent loss of one of several servers.
        ServerLoss = "survives loss of a server",
        /// Nothing was lost, but that proves nothing: too few crashes had the last acknowledged
        /// write under the promise, or a stronger promise lost data in the same event.
        Undecided = "undecided",
        /// No event happened that would show it, could be verified, and put data at risk.
        Unknown = "not measured",
    }
}

impl Tier {
    /// All tiers, the strongest first. A tier that was not measured comes last.
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

/// How the files of a target are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Through NFS, without the kernel's client.
    Nfs,
    /// Through system calls on this host.
    FileSystem,
}

/// Maximum number of files of one promise and kind.
const FILES_MAX: u32 = 4_000_000;

/// A file written by a durability measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct TestFile {
    /// The promise under which it is written.
    pub promise: Durability,
    /// The kind of work.
    pub kind: WorkKind,
    /// Number within its promise and kind.
    pub number: u32,
}

impl TestFile {
    /// Returns the number stamped into its blocks, which is unique per file. It has 8 digits, like
    /// the numbers of all files that backends work on.
    pub const fn stamp_number(&self) -> u32 {
        let kinds = WorkKind::ALL.len() as u32;
        (self.promise as u32 * kinds + self.kind as u32) * FILES_MAX + self.number % FILES_MAX
    }

    pub fn name(&self) -> String {
        format!("{}-{}-{:06}", self.promise, self.kind, self.number)
    }

    /// Returns the name under which a replacement is written before the rename.
    pub fn replacement_name(&self) -> String {
        format!("{}.new", self.name())
    }
}

/// An op that was issued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestOp {
    /// The file that the op changes.
    pub file: TestFile,
    pub first_block: u32,
    /// The number of blocks; 0 if only a name is created.
    pub blocks: u32,
    /// The generation of the blocks after this op.
    pub generation: u32,
    /// Bytes written.
    pub bytes: u64,
}

impl TestOp {
    /// Returns the range of blocks that the op writes.
    pub const fn range(&self) -> Range<u32> {
        self.first_block..self.first_block + self.blocks
    }
}

/// An op and the time of its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AckedOp {
    pub op: TestOp,
    /// When the promise was acknowledged, in nanoseconds of the monotonic clock, or `None` if the
    /// op was in flight.
    pub acked_ns: Option<u64>,
}

/// Content of a block that was read back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FoundBlock {
    /// A complete block of this generation.
    Generation(u32),
    /// Only zeros.
    Zeros,
    /// Anything else, such as part of a block.
    Other,
}

/// A file that was read back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundFile {
    pub file: TestFile,
    /// Size in bytes, or `None` if the file doesn't exist.
    pub size_bytes: Option<u64>,
    /// Blocks up to the size; the last one may be shorter.
    pub blocks: Vec<FoundBlock>,
    /// The file could not be read despite retries, although the target responded.
    pub is_unreadable: bool,
}

impl FoundFile {
    /// Returns a file that doesn't exist.
    pub const fn missing(file: TestFile) -> Self {
        Self { file, size_bytes: None, blocks: Vec::new(), is_unreadable: false }
    }
}

/// Findings for one event, promise and kind of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityRow {
    pub event: CrashEvent,
    pub promise: Durability,
    pub kind: WorkKind,
    /// A loss violates the promise.
    pub is_promised: bool,
    /// Acknowledged ops.
    pub acked_ops: u64,
    /// Bytes written by these ops.
    pub acked_bytes: u64,
    /// Acknowledged ops that were missing afterwards.
    pub lost_ops: u64,
    /// Bytes of these ops that were missing.
    pub lost_bytes: u64,
    /// Age of the oldest lost acknowledgement at the time of the event, in nanoseconds.
    pub window_ns: u64,
    /// Lost ops whose file or new name was missing.
    pub missing: u64,
    /// Lost ops whose file could not be read.
    #[serde(default)]
    pub unreadable: u64,
    /// Lost ops beyond the end of a file that had been longer.
    pub wrong_size: u64,
    /// Lost ops that were partially there.
    pub torn: u64,
    /// Lost ops whose blocks contained zeros.
    pub zeros: u64,
    /// Lost ops whose blocks contained the previous data.
    pub old_data: u64,
    /// Ops that survived although an earlier one on the same file was lost.
    pub reordered: u64,
    /// Ops in flight that left a torn block, which no promise forbids.
    pub torn_in_flight: u64,
}

impl DurabilityRow {
    /// Creates a row without findings.
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

    /// Adds the counts of another row for the same event and promise.
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

    /// Returns true if something was lost that the promise covers.
    pub const fn breaks_promise(&self) -> bool {
        self.is_promised && self.lost_ops > 0
    }
}

/// Crashes right before which the last acknowledged write had this promise, with nothing in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastWrites {
    pub promise: Durability,
    /// Number of these crashes.
    pub crashes: u32,
    /// Probability in permille of missing a server that loses the last acknowledged write in every
    /// second crash. A server that loses it in every crash is never missed.
    pub missed_permille: u32,
}

impl LastWrites {
    pub const fn new(promise: Durability, crashes: u32) -> Self {
        let missed_permille = match 1_000_u32.checked_shr(crashes) {
            Some(permille) => permille,
            None => 0,
        };
        Self { promise, crashes, missed_permille }
    }
}

/// One event with its findings. Repeated crashes of the same kind are one event.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MeasuredEvent {
    pub event: CrashEvent,
    /// How often the event was triggered.
    #[serde(default = "once")]
    pub crashes: u32,
    /// For each promise, how often its write was the last one.
    #[serde(default)]
    pub last_writes: Vec<LastWrites>,
    /// Number of crashes with the last write under a promise that are required to rate it; 0 for
    /// events that happen only once.
    #[serde(default = "once")]
    pub last_writes_wanted: u32,
    /// How it was caused, in a few words.
    pub how: String,
    /// Time from the event until everything could be read back, in nanoseconds.
    pub back_ns: u64,
    /// Why nothing could be verified; the rows are then empty.
    pub unverified: Option<String>,
    /// Why the event could not destroy any data; that all was kept shows nothing then.
    #[serde(default)]
    pub nothing_at_risk: Option<String>,
    /// Findings by promise and kind.
    pub rows: Vec<DurabilityRow>,
}

/// Default for releases that triggered each event only once.
const fn once() -> u32 {
    1
}

impl MeasuredEvent {
    /// An event that happened once and has no findings yet.
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

    /// Adds crashes for which the last acknowledged write had this promise.
    pub fn count_last_writes(&mut self, promise: Durability, crashes: u32) {
        for known in &mut self.last_writes {
            if known.promise == promise {
                *known = LastWrites::new(promise, known.crashes + crashes);
                return;
            }
        }
        self.last_writes.push(LastWrites::new(promise, crashes));
    }

    /// Returns how often the last acknowledged write had this promise.
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

/// A promise and its measured tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PromiseTier {
    pub promise: Durability,
    pub tier: Tier,
}

/// All events of a durability measurement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DurabilityReport {
    /// Version of this format.
    pub schema: u32,
    /// The measured target.
    pub target: String,
    /// How the target keeps each measured promise.
    pub promises: Vec<String>,
    pub tiers: Vec<PromiseTier>,
    /// Events in the order in which they were triggered.
    pub events: Vec<MeasuredEvent>,
}

/// A durability measurement stored with a campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredDurability {
    /// The measured contender; see [`crate::judgments::contender::contender_of`].
    pub contender: String,
    /// When it was measured, in milliseconds since 1970 UTC.
    pub measured_unix_ms: u64,
    pub report: DurabilityReport,
}

impl StoredDurability {
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
    /// Returns true if all events were verified and nothing promised was lost.
    pub fn is_clean(&self) -> bool {
        self.events.iter().all(|event| {
            event.unverified.is_none() && !event.rows.iter().any(DurabilityRow::breaks_promise)
        })
    }
}

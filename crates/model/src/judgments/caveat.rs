//! Caveats attached to results, each with a stable code, and the verdict they add up to.
//!
//! Scripts may match the codes. Each code has a severity, a sentence and advice, all defined here.
//! The evidence is written by the code that raises the caveat: a sentence for people, and the
//! number, limit, unit and source for programs ([`Evidence`]). Nothing is dropped silently: tables
//! print the codes next to the result.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::text::units::three_digits;

/// How serious a caveat is.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The result is valid; the caveat explains how to read it.
    Note,
    /// The result may be misleading.
    Degraded,
    /// The result must not be used.
    Invalid,
}

impl Severity {
    /// Name in results, metrics and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Degraded => "degraded",
            Self::Invalid => "invalid",
        }
    }
}

/// Whether a result can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// There are no objections.
    Valid,
    /// It can be used, but has caveats.
    Degraded,
    /// It must not be used.
    Invalid,
}

impl Verdict {
    /// Returns the verdict's name in tables and exports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Valid => "valid",
            Self::Degraded => "degraded",
            Self::Invalid => "invalid",
        }
    }

    /// Returns the verdict for a set of caveats, which is as bad as the worst of them.
    pub fn from_caveats<'a>(caveats: impl IntoIterator<Item = &'a Caveat>) -> Self {
        match caveats.into_iter().map(|caveat| caveat.code.severity()).max() {
            Some(Severity::Invalid) => Self::Invalid,
            Some(Severity::Degraded) => Self::Degraded,
            Some(Severity::Note) | None => Self::Valid,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! codes {
    ($(
        $name:ident, $code:literal, $severity:ident, $sentence:literal,
        $advice:literal;
    )+) => {
        /// A reason why a result may be misleading.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum CaveatCode {
            $(#[doc = $sentence] $name,)+
        }

        impl CaveatCode {
            /// All codes, in the order of this file.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the stable code, as printed in tables and exports.
            pub const fn code(self) -> &'static str {
                match self { $(Self::$name => $code,)+ }
            }

            /// Finds a code by its stable name.
            pub fn from_code(code: &str) -> Option<Self> {
                match code {
                    $($code => Some(Self::$name),)+
                    _ => None,
                }
            }

            /// Returns how serious the caveat is.
            pub const fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)+ }
            }

            /// Explains the caveat in one sentence.
            pub const fn sentence(self) -> &'static str {
                match self { $(Self::$name => $sentence,)+ }
            }

            /// Returns the advice on how to avoid the caveat.
            pub const fn advice(self) -> &'static str {
                match self { $(Self::$name => $advice,)+ }
            }
        }
    };
}

codes! {
    Accounting, "accounting", Invalid,
        "The ops issued, the ops accounted for and the bytes found at the target don't match.",
        "Don't use the result; please report it as a bug, with the plan.";
    DataMismatch, "data-mismatch", Invalid,
        "The bytes read differ from the bytes written.",
        "Check the target: it lost or altered data.";
    Errors, "errors", Invalid,
        "Ops failed.",
        "See the errors of the pass, fix their cause and repeat.";
    Interrupted, "interrupted", Invalid,
        "The trial was stopped early.",
        "Let it finish.";
    Cached, "cached", Degraded,
        "Data was read from this host's memory instead of the target.",
        "For data use --direct true or files larger than memory; for names remount between passes; \
         for a loop device use losetup --direct-io=on.";
    Localio, "localio", Degraded,
        "The data bypassed RPC: the kernel accessed the server's files on this host directly.",
        "Write N to /sys/module/nfs/parameters/localio_enabled and mount again to measure NFS.";
    Delegated, "delegated", Degraded,
        "The client used delegations: the server never saw opens, lookups or writes of the pass.",
        "Write 0 to the server's /proc/sys/fs/leases-enable and mount again to measure the server; \
         or read the result as that of a client with delegations.";
    Unsynchronised, "unsynchronised", Degraded,
        "The workers were not all busy for the whole measured window.",
        "Use longer passes, or fewer workers than cores.";
    PartlyAlone, "partly-alone", Degraded,
        "Other loads did not run during the whole measured window of a load.",
        "Give all loads the same start and duration; one that ended early needs more or larger \
         files.";
    Straggler, "straggler", Degraded,
        "One host or rank was much slower than the others and held them up.",
        "Look at that host and its way to the target; leave it out to see what the others can do.";
    OptionNotEffective, "option-not-effective", Degraded,
        "A requested setting did not take effect.",
        "Request what the target supports, or change it.";
    PnfsFallback, "pnfs-fallback", Degraded,
        "Data went through the metadata server although pNFS was requested.",
        "Check which layouts the server offers, and whether this host reaches all data servers.";
    SlotsLimited, "slots-limited", Degraded,
        "The server granted a session fewer slots than the queue depth, limiting concurrency.",
        "Use a lower --queue-depth or a higher --nconnect, or let the server grant more slots.";
    ClockRate, "clock-rate", Degraded,
        "The measuring host's clock ran at a different rate than the controller's.",
        "Check its clock source and time service; repeat when both clocks agree.";
    BackendFallback, "backend-fallback", Degraded,
        "The requested backend is not available; another one was used.",
        "Allow io_uring (sysctl kernel.io_uring_disabled, seccomp), or ask for --backend posix.";
    ClientSaturated, "client-saturated", Degraded,
        "The workers used all available CPU time: the client limits the result.",
        "Use fewer or larger ops, or a faster client; add workers only if CPUs are idle.";
    ProcessorContention, "processor-contention", Degraded,
        "Workers were runnable but not running because other programs used the CPUs.",
        "Stop the other programs, which the evidence names, or move them to another host.";
    Traced, "traced", Degraded,
        "A tracer or debugger was attached to the measured program: it slows every call.",
        "Detach it (the evidence names it) and repeat.";
    ConcurrentCampaign, "concurrent-campaign", Degraded,
        "Another campaign used the same target at the same time.",
        "Run one campaign after the other, or give each a target of its own.";
    Stalled, "stalled", Degraded,
        "Workers with ops in flight completed none for a long time.",
        "Check what the target did then; --stall sets the limit.";
    NotSteady, "not-steady", Degraded,
        "The rate had not settled: it changed during the pass.",
        "Use a longer --warmup and --duration; the time series shows when it changed.";
    Burst, "burst", Degraded,
        "The rate fell to a lower level and stayed there: something was used up during the pass.",
        "Measure longer than the burst, or use it up before (--warmup); look for burst credits, an \
         SLC cache, or room for dirty pages.";
    Retransmits, "retransmits", Degraded,
        "Calls were resent because their replies did not arrive in time.",
        "Look for packet loss (netstat -su, ethtool -S); use TCP, or smaller transfers.";
    TcpRetransmits, "tcp-retransmits", Degraded,
        "TCP resent data: packets are lost on the network, and TCP slows down in response.",
        "Look for full queues and bad links (ss -ti, tc -s qdisc, ethtool -S); compare with iperf3.";
    Recovered, "recovered", Degraded,
        "The connection dropped or data was lost during the test; recovering took time.",
        "Look at the server's log; repeat when it is stable.";
    PathLost, "path-lost", Degraded,
        "An address or data server failed during the test, and its calls went elsewhere.",
        "Look at the network to that address; repeat when it is stable, or leave it out.";
    PathsUneven, "paths-uneven", Note,
        "An address or data server was much slower than another one, or carried nothing.",
        "Compare them one by one; leave out a slow one.";
    ServerBusy, "server-busy", Degraded,
        "The server deferred calls (try again later).",
        "Wait for the end of its grace period, or reduce the load.";
    ShortTransfers, "short-transfers", Degraded,
        "The server moved less data than requested, so blocks took extra calls.",
        "Use transfers that the server completes in one call (rsize, wsize), or fix the server.";
    BelowOffered, "below-offered", Degraded,
        "Fewer ops were completed than offered: response times are those of a growing queue.",
        "Offer less, or find the bottleneck; the highest load without this caveat is the limit.";
    MixShares, "mix-shares", Degraded,
        "The mix of ops differs from the requested one.",
        "Run the mix longer, or look for failing ops.";
    Compressible, "compressible", Degraded,
        "The data is compressible, and something between here and the disk may compress it.",
        "Use --data random without --compress and --dedup, or set them to match your own data.";
    TooShort, "too-short", Degraded,
        "The pass was too short to time.",
        "Use larger files, more files, or a longer duration.";
    StonewallMissed, "stonewall-missed", Degraded,
        "The phase wrote for less than the 5 minutes that IO500 requires.",
        "Give the phases 5 minutes (time_max), and a file_size and small_files that take longer.";
    TooFewTrials, "too-few-trials", Degraded,
        "There are too few trials to tell the spread.",
        "Use --trials 5 or more.";
    WideInterval, "wide-interval", Degraded,
        "The trials differ so much that the median is uncertain.",
        "Use more or longer trials, and a quiet machine.";
    MixedTrials, "mixed-trials", Degraded,
        "Some trials were served from a cache, others weren't: the row mixes two cases.",
        "Use --discard cached, or empty the caches before each trial (--invalidation).";
    Outlier, "outlier", Degraded,
        "Some trials lie far from the others.",
        "Look at the trials; repeat on a quiet machine.";
    Drift, "drift", Degraded,
        "The results rise or fall in the order of the trials.",
        "Find what changes from trial to trial: a cache that fills, a disk that ages, heat.";
    TrialsInteract, "trials-interact", Degraded,
        "The rate of a trial depends on what ran before it.",
        "Find what a trial leaves behind: inodes or blocks released late, a journal, a cache.";
    Skew, "skew", Note,
        "The hosts did not start at the same moment.",
        "Make passes much longer than the skew, or find out what delays the hosts.";
    NotQuiet, "not-quiet", Degraded,
        "Disks or networks of the hosts were busy before the trial began.",
        "Find out what uses them, or wait longer: quiet = \"5m\" in the plan.";
    NotDrained, "not-drained", Degraded,
        "The system was still uploading what it had been given when the time limit for that ended.",
        "Raise within_s of [drain] in its recipe, or write less: passes that follow share the system \
         with the uploads.";
    NotEvicted, "not-evicted", Degraded,
        "The system's own cache was not empty before a pass that has to read without it.",
        "Try [evict] of its recipe by hand, or use files larger than that cache.";
    Interference, "interference", Note,
        "Most trials were disturbed from outside, so none was excluded for it.",
        "Stop what the evidence names, or use a machine that is not shared; more trials of this \
         kind don't help.";
    FitsMemory, "fits-memory", Note,
        "The files fit in this host's memory, and no counter shows that storage delivered them.",
        "Use files larger than memory, or remount between passes.";
    SmallDataSet, "small-data-set", Note,
        "The data set of a training is smaller than five times the memory of its hosts.",
        "Use a larger model_scale: caches may keep what is read again in the next epoch.";
    Emulated, "emulated", Degraded,
        "A host's CPUs are emulated in software: speeds are not representative.",
        "Use it to test what works; measure on real or virtual CPUs.";
    ServerCached, "server-cached", Note,
        "The server answered reads from its memory, not from its disk.",
        "Use files larger than the server's memory, or --invalidation server-remount.";
    ServerThreadsChanged, "server-threads-changed", Note,
        "The number of the server's threads changed during the pass.",
        "Give the server a fixed number of threads (nfsd_threads), and leave it while measuring.";
    MayBeServerCached, "may-be-server-cached", Note,
        "Data may have been read from the server's memory, since it was just written there.",
        "Use files larger than the server's memory; declare its size with --server-memory-size.";
    Pnfs, "pnfs", Note,
        "Data did not pass the mount's server: pNFS layouts sent it to other servers or disks.",
        "Read the result as that of all of them, or export with no_pnfs to measure the server.";
    TlsOffload, "tls-offload", Note,
        "A network device encrypted for the mount, so the CPU time does not include it.",
        "Compare only with hosts that have such a device, or turn it off (ethtool -K).";
    SharedHost, "shared-host", Note,
        "Clients and server, or clients, shared the CPUs of one host.",
        "Read the result as that of the whole machine, not of a server or of many clients.";
    ResultsOnTarget, "results-on-target", Note,
        "The results file is on the file system that is measured.",
        "Keep the results file elsewhere; it is written between trials, never during a pass.";
    Clock, "clock", Note,
        "The wall clock was set or the host slept during the measurement.",
        "The rates are valid: they use another clock. Timestamps don't match other logs.";
    NotDurable, "not-durable", Note,
        "The client did not wait for the written data to be safe.",
        "Use --durability sync to include fsync or COMMIT.";
    AcknowledgedBeforeUpload, "acknowledged-before-upload", Note,
        "A synced file was not in the object store when the system acknowledged it.",
        "Read the rate as that of the system's cache: a loss of its server loses such data. Let it \
         upload before it answers, if it can.";
    RecipeNotTried, "recipe-not-tried", Note,
        "The system was set up by a recipe that its authors have never tried.",
        "Look at what it sets up (dfsbench systems up). If all is as the system's documentation \
         says, replace not_tried of the recipe by tried.";
}

impl fmt::Display for CaveatCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.code())
    }
}

impl CaveatCode {
    /// Returns true if the caveat shows that data was read from a cache of the client or the
    /// server.
    pub const fn is_cache_hit(self) -> bool {
        matches!(self, Self::Cached | Self::ServerCached)
    }

    /// Returns true if the caveat is raised when a number exceeds a limit. Its evidence then
    /// contains both as data.
    ///
    /// Other caveats describe a setting or an arrangement, such as a server on the same host, or
    /// can be raised when the number is unknown.
    pub const fn has_threshold(self) -> bool {
        !matches!(
            self,
            Self::Interrupted
                | Self::OptionNotEffective
                | Self::BackendFallback
                | Self::Traced
                | Self::ConcurrentCampaign
                | Self::Compressible
                | Self::Emulated
                | Self::MayBeServerCached
                | Self::SharedHost
                | Self::NotDurable
                | Self::RecipeNotTried
        )
    }

    /// Creates the caveat with its evidence: the numbers and their sources.
    pub fn because(self, evidence: impl Into<String>) -> Caveat {
        Caveat { code: self, evidence: evidence.into(), data: None }
    }
}

/// A caveat with its evidence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Caveat {
    /// The code of the caveat.
    #[schemars(with = "String")]
    pub code: CaveatCode,
    /// The numbers that show it, with their sources.
    pub evidence: String,
    /// The number that raised it, as data; null if the caveat has no limit.
    #[serde(default)]
    pub data: Option<Evidence>,
}

impl Caveat {
    /// Adds the number that raised the caveat.
    #[must_use]
    pub fn with_data(self, data: Evidence) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// The number that raised a caveat, and the limit that it exceeded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// The measured number.
    pub found: f64,
    /// The upper or lower limit that it violated, as described by the sentence.
    pub limit: f64,
    /// Unit of both: `%`, `ns`, `B`, or the things counted.
    pub unit: String,
    /// Source of the number, or the program that counted it.
    pub source: String,
}

// `Eq` is sound because the constructors never produce NaN.
impl Eq for Evidence {}

impl Evidence {
    /// Creates evidence in any unit. NaN (the ratio of nothing to nothing) becomes 0.
    pub fn new(found: f64, limit: f64, unit: &str, source: impl Into<String>) -> Self {
        let found = if found.is_nan() { 0.0 } else { found };
        let limit = if limit.is_nan() { 0.0 } else { limit };
        Self { found, limit, unit: unit.to_owned(), source: source.into() }
    }

    /// Creates evidence in percent from shares between 0 and 1.
    pub fn shares(found: f64, limit: f64, source: impl Into<String>) -> Self {
        Self::new(found * 100.0, limit * 100.0, "%", source)
    }

    /// Creates evidence from times in nanoseconds.
    pub fn nanos(found_ns: u64, limit_ns: u64, source: impl Into<String>) -> Self {
        Self::counts(found_ns, limit_ns, "ns", source)
    }

    /// Creates evidence from amounts of data in bytes.
    pub fn bytes(found_bytes: u64, limit_bytes: u64, source: impl Into<String>) -> Self {
        Self::counts(found_bytes, limit_bytes, "B", source)
    }

    /// Creates evidence from counts of the things that `unit` names.
    pub fn counts(found: u64, limit: u64, unit: &str, source: impl Into<String>) -> Self {
        Self::new(found as f64, limit as f64, unit, source)
    }
}

impl fmt::Display for Evidence {
    /// Formats the data on one line, such as `12.5 % (limit 10 %; /proc/stat)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { found, limit, unit, source } = self;
        let found = three_digits(*found);
        let limit = three_digits(*limit);
        write!(f, "{found} {unit} (limit {limit} {unit}; {source})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_worst_caveat_as_verdict() {
        let note = CaveatCode::SharedHost.because("");
        let degrading = CaveatCode::Cached.because("");
        let broken = CaveatCode::Accounting.because("");
        assert_eq!(Verdict::from_caveats([]), Verdict::Valid);
        assert_eq!(Verdict::from_caveats([&note]), Verdict::Valid);
        assert_eq!(Verdict::from_caveats([&note, &degrading]), Verdict::Degraded);
        assert_eq!(Verdict::from_caveats([&broken, &degrading]), Verdict::Invalid);
    }

    #[test]
    fn codes_are_unique_and_found_again() {
        for code in CaveatCode::ALL {
            assert_eq!(CaveatCode::from_code(code.code()), Some(*code));
        }
    }

    #[test]
    fn evidence_is_data() {
        let data = Evidence::shares(0.125, 0.1, "/proc/stat");
        assert_eq!(data.to_string(), "12.5 % (limit 10.0 %; /proc/stat)");
        let caveat = CaveatCode::ProcessorContention.because("they waited").with_data(data);
        let json = serde_json::to_value(&caveat).unwrap();
        assert_eq!(json["data"]["found"], 12.5);
        assert_eq!(serde_json::from_value::<Caveat>(json).unwrap(), caveat);
        // NaN must not make evidence differ from itself.
        let nothing = Evidence::shares(f64::NAN, 0.9, "none");
        assert_eq!((nothing.found, &nothing), (0.0, &nothing));
    }
}

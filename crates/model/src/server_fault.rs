//! The values of planned faults of the in-memory server, which its config and plans share.
//!
//! Plans write them as words, the server obeys them; here they are only data.

/// A probability in parts per million: 1,000,000 is certainty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartsPerMillion(pub u32);

/// How long replies are held back: a model of service times, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceTime {
    /// Always the same.
    Fixed {
        /// The time in nanoseconds.
        time_ns: u64,
    },
    /// Each time within the range is equally likely.
    Uniform {
        /// Shortest, in nanoseconds.
        min_ns: u64,
        /// Longest, in nanoseconds; where below `min_ns`, that counts.
        max_ns: u64,
    },
    /// Memoryless, as of a queue's server.
    Exponential {
        /// Mean, in nanoseconds.
        mean_ns: u64,
    },
}

/// The bytes that a bandwidth cap counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CappedBytes {
    /// Payload of READ and WRITE.
    #[default]
    Payload,
    /// Everything: calls and replies with their record marks.
    Wire,
}

/// The calls that give the server another write verifier; each includes what stands before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangingVerifier {
    /// Every COMMIT changes it.
    EveryCommit,
    /// Every WRITE, too.
    EveryWrite,
}

/// The entries that a directory without end lists after its last name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndlessListing {
    /// Its names again, under the cookies that they have already had.
    RepeatedCookies,
    /// Names that were never made, each under a cookie of its own.
    InventedNames,
}

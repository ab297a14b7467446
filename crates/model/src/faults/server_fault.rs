//! Parameters of the in-memory server's planned faults, shared by its configuration and plans.
//!
//! Plans write them as text and the server implements them; here they are only data.

/// A probability in parts per million; 1,000,000 is certain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PartsPerMillion(pub u32);

/// Model of service times: how long replies are delayed, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServiceTime {
    /// A constant time.
    Fixed {
        /// The time in nanoseconds.
        time_ns: u64,
    },
    /// Uniformly distributed.
    Uniform {
        /// Minimum, in nanoseconds.
        min_ns: u64,
        /// Maximum, in nanoseconds. If it is below `min_ns`, `min_ns` is used.
        max_ns: u64,
    },
    /// Exponentially distributed, like the server of a queue.
    Exponential {
        /// Mean, in nanoseconds.
        mean_ns: u64,
    },
}

/// Which bytes count toward a bandwidth limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum CappedBytes {
    /// Payload of READ and WRITE.
    #[default]
    Payload,
    /// Everything: calls and replies including record marks.
    Wire,
}

/// Which calls change the server's write verifier. Each level includes the previous one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangingVerifier {
    EveryCommit,
    /// Every WRITE, too.
    EveryWrite,
}

/// How the server misbehaves on asynchronous copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CopyFault {
    /// They are complete with the reply.
    Synchronous,
    /// Their ends are not reported.
    Unreported,
}

/// How an endless directory continues after its last name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EndlessListing {
    /// The same names again, under their previous cookies.
    RepeatedCookies,
    /// Made-up names, each under a new cookie.
    InventedNames,
}

//! Results of field studies, each with its source.
//!
//! A profile is a table of shares of calls, file sizes and request sizes. The only computations
//! here are averages of these tables.

use model::OpKind;

/// Share of files with a certain size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeShare {
    /// Size in KiB.
    pub kib: u32,
    /// Share in percent.
    pub percent: u32,
}

/// Share of requests in a range of sizes, in whole KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestSize {
    /// Minimum in KiB.
    pub least_kib: u32,
    /// Maximum in KiB.
    pub most_kib: u32,
    /// Share in percent.
    pub percent: u32,
}

/// Results of a study.
#[derive(Clone, Copy, Debug)]
pub struct Profile {
    /// Name in plans.
    pub name: &'static str,
    pub source: &'static str,
    /// Share of each kind in percent. `Lookup` includes missing names.
    pub shares: &'static [(OpKind, u32)],
    /// Shares count calls rather than requests with several calls.
    pub(crate) counts_calls: bool,
    /// File sizes.
    pub files: &'static [SizeShare],
    /// Sizes of READ requests.
    pub reads: &'static [RequestSize],
    /// Sizes of WRITE requests.
    pub writes: &'static [RequestSize],
    /// Zipf exponent of file popularity in hundredths; 0 for a uniform distribution.
    pub(crate) skew_hundredths: u32,
}

/// Share of lookups with missing names, in percent of all lookups.
///
/// **Source:** SPEC SFS 3.0, as published constants.
pub(crate) const MISSING_PERCENT: u32 = 35;

/// Number of symbolic links that are read.
///
/// **Source:** as above.
pub(crate) const LINKS_READ: u32 = 20;

const fn size(kib: u32, percent: u32) -> SizeShare {
    SizeShare { kib, percent }
}

const fn request(least_kib: u32, most_kib: u32, percent: u32) -> RequestSize {
    RequestSize { least_kib, most_kib, percent }
}

/// **Source:** SPEC SFS 3.0: file sizes, 26.7 KiB on average.
const SFS3_FILES: &[SizeShare] = &[
    size(1, 33),
    size(2, 21),
    size(4, 13),
    size(8, 10),
    size(16, 8),
    size(32, 5),
    size(64, 4),
    size(128, 3),
    size(256, 2),
    size(1024, 1),
];

/// **Source:** SPEC SFS 3.0: READ requests, 1.64 calls of 8 KiB each on average.
const SFS3_READS: &[RequestSize] = &[
    request(8, 8, 85),
    request(17, 23, 8),
    request(33, 39, 4),
    request(65, 71, 2),
    request(129, 135, 1),
];

/// **Source:** SPEC SFS 3.0: WRITE requests, 2 calls of 8 KiB each on average.
const SFS3_WRITES: &[RequestSize] = &[
    request(1, 7, 49),
    request(9, 15, 36),
    request(17, 23, 8),
    request(33, 39, 4),
    request(65, 71, 2),
    request(129, 135, 1),
];

const WHOLE_SMALL: &[RequestSize] = &[request(8, 8, 100)];

const fn sfs3(
    name: &'static str,
    source: &'static str,
    shares: &'static [(OpKind, u32)],
) -> Profile {
    Profile {
        name,
        source,
        shares,
        counts_calls: true,
        files: SFS3_FILES,
        reads: SFS3_READS,
        writes: SFS3_WRITES,
        skew_hundredths: 0,
    }
}

/// All profiles, oldest first.
pub const PROFILES: &[Profile] = &[
    sfs3(
        "laddis-like",
        "nhfsstone.c of nfs-utils before fd1b5271 (the mix reportedly kept in SFS 1.1)",
        &[
            (OpKind::Lookup, 34),
            (OpKind::Read, 22),
            (OpKind::Write, 15),
            (OpKind::Getattr, 13),
            (OpKind::Readlink, 8),
            (OpKind::Readdir, 3),
            (OpKind::Create, 2),
            (OpKind::Remove, 1),
            (OpKind::Fsstat, 1),
            (OpKind::Setattr, 1),
        ],
    ),
    sfs3(
        "sfs3-like-v2",
        "SPEC SFS 2.0 and 3.0, operation mix of NFS version 2",
        &[
            (OpKind::Lookup, 36),
            (OpKind::Read, 14),
            (OpKind::Write, 7),
            (OpKind::Getattr, 26),
            (OpKind::Readlink, 7),
            (OpKind::Readdir, 6),
            (OpKind::Create, 1),
            (OpKind::Remove, 1),
            (OpKind::Fsstat, 1),
            (OpKind::Setattr, 1),
        ],
    ),
    sfs3(
        "sfs3-like-v3",
        "SPEC SFS 2.0 and 3.0, operation mix of NFS version 3",
        &[
            (OpKind::Lookup, 27),
            (OpKind::Read, 18),
            (OpKind::Write, 9),
            (OpKind::Getattr, 11),
            (OpKind::Readlink, 7),
            (OpKind::Readdir, 2),
            (OpKind::Create, 1),
            (OpKind::Remove, 1),
            (OpKind::Fsstat, 1),
            (OpKind::Setattr, 1),
            (OpKind::ReaddirPlus, 9),
            (OpKind::Access, 7),
            (OpKind::Commit, 5),
            (OpKind::Fsinfo, 1),
        ],
    ),
    Profile {
        counts_calls: false,
        ..sfs3(
            "sfs2008-like-v3",
            "M. Eisler, NetApp, April 2008: operation mix of SPECsfs2008; sizes are those of 3.0",
            &[
                (OpKind::Lookup, 24),
                (OpKind::Read, 18),
                (OpKind::Write, 10),
                (OpKind::Getattr, 26),
                (OpKind::Readlink, 1),
                (OpKind::Readdir, 1),
                (OpKind::Create, 1),
                (OpKind::Remove, 1),
                (OpKind::Fsstat, 1),
                (OpKind::Setattr, 4),
                (OpKind::ReaddirPlus, 2),
                (OpKind::Access, 11),
            ],
        )
    },
    Profile {
        files: &[size(65_536, 100)],
        reads: WHOLE_SMALL,
        writes: WHOLE_SMALL,
        ..sfs3(
            "database-like",
            "Duke Fstress, sample workload \"database\": few files of 64 MiB",
            &[
                (OpKind::Read, 61),
                (OpKind::Write, 31),
                (OpKind::Getattr, 3),
                (OpKind::Commit, 4),
                (OpKind::Access, 1),
            ],
        )
    },
    Profile {
        skew_hundredths: 130,
        ..sfs3(
            "mail-like",
            "Duke Fstress, sample workload \"mail\": Zipf 1.3; all writes append there \
             (append_percent 100); sizes are those of SFS 3.0",
            &[
                (OpKind::Lookup, 27),
                (OpKind::Read, 14),
                (OpKind::Write, 24),
                (OpKind::Getattr, 3),
                (OpKind::Fsstat, 1),
                (OpKind::Setattr, 4),
                (OpKind::Access, 3),
                (OpKind::Commit, 24),
            ],
        )
    },
    Profile {
        counts_calls: false,
        ..sfs3(
            "genomics-like",
            "SPECstorage 2020, workload GENOMICS; sizes are those of SFS 3.0",
            &[
                (OpKind::Read, 72),
                (OpKind::Write, 9),
                (OpKind::Getattr, 12),
                (OpKind::Create, 1),
                (OpKind::Remove, 1),
                (OpKind::Setattr, 1),
                (OpKind::Access, 4),
            ],
        )
    },
    Profile {
        skew_hundredths: 60,
        reads: WHOLE_SMALL,
        ..sfs3(
            "webserver-like",
            "Duke Fstress, sample workload \"webserver\": Zipf 0.6; sizes are those of SFS 3.0",
            &[
                (OpKind::Lookup, 14),
                (OpKind::Read, 28),
                (OpKind::Getattr, 55),
                (OpKind::Readdir, 1),
                (OpKind::Fsstat, 1),
                (OpKind::Access, 1),
            ],
        )
    },
];

impl Profile {
    /// Finds a profile by name.
    pub fn find(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// Returns the profile that provides the sizes for user-defined mixes.
    pub(crate) const fn of_custom_mixes() -> &'static Self {
        const CUSTOM: Profile = Profile {
            counts_calls: true,
            ..sfs3("custom", "the plan; sizes are those of SPEC SFS 3.0", &[])
        };
        &CUSTOM
    }

    /// Returns the total size of one hundred files in KiB.
    pub(crate) fn kib_of_hundred(&self) -> u64 {
        let mut kib = 0;
        for share in self.files {
            kib += u64::from(share.kib) * u64::from(share.percent);
        }
        kib
    }

    /// Returns the average number of calls of at most `io_size` bytes for one hundred requests,
    /// times 840, which is divisible by every possible number of sizes in a range.
    pub(super) fn calls_of_hundred(requests: &[RequestSize], io_size: u32) -> u64 {
        let mut all = 0;
        for range in requests {
            // Each size in a range is equally likely. 840 is divisible by 1 to 8, so the average is
            // an integer and shares are the same on every machine.
            let count = u64::from(range.most_kib - range.least_kib) + 1;
            let calls: u64 = (range.least_kib..=range.most_kib)
                .map(|kib| (u64::from(kib) << 10).div_ceil(u64::from(io_size)))
                .sum();
            all += calls * u64::from(range.percent) * (840 / count);
        }
        all
    }
}

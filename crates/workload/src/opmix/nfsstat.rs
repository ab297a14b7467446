//! Derives the shares of a mix from the output of `nfsstat` or `mountstats`, or from kernel files.
//!
//! [`shares`] adds up every table of calls in a text, for clients and servers, all versions and all
//! mounts. Counters start when a host boots or mounts, so [`shares_between`] uses the difference
//! between two texts. Calls without an equivalent in a mix are ignored, and so are removals in
//! excess of creations, because a file system that only shrinks would soon be empty.
//!
//! **Source:** `nfsstat(8)`, `mountstats(8)`; `net/sunrpc/stats.c` and `fs/nfs/nfs3xdr.c` of Linux
//! (`proc2` and `proc3` in the order of RFC 1094 and RFC 1813, operations of a mount).

use model::OpKind;

use super::shares::{PAIRS, apportion_block};

/// Procedures of version 2 by number; obsolete ones have their historical names.
const V2: [&str; 18] = [
    "null", "getattr", "setattr", "root", "lookup", "readlink", "read", "wrcache", "write",
    "create", "remove", "rename", "link", "symlink", "mkdir", "rmdir", "readdir", "fsstat",
];

/// Procedures of version 3 by number.
const V3: [&str; 22] = [
    "null",
    "getattr",
    "setattr",
    "lookup",
    "access",
    "readlink",
    "read",
    "write",
    "create",
    "mkdir",
    "symlink",
    "mknod",
    "remove",
    "rmdir",
    "rename",
    "link",
    "readdir",
    "readdirplus",
    "fsstat",
    "fsinfo",
    "pathconf",
    "commit",
];

/// Why a text results in no mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsstatError {
    /// It contains no table of calls.
    NoCounts,
    /// None of its calls can be part of a mix.
    Idle,
    /// A counter in the second text is lower than in the first one.
    Backwards(OpKind),
}

impl std::fmt::Display for NfsstatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoCounts => f.write_str("it contains no counts of NFS calls"),
            Self::Idle => f.write_str("all its call counts are 0"),
            Self::Backwards(kind) => write!(
                f,
                "its count of {kind} is smaller than before: the host was rebooted, a file system \
                 was remounted, or the two files are swapped"
            ),
        }
    }
}

impl std::error::Error for NfsstatError {}

/// Returns shares in hundredths of a percent, adding up to 10,000, in the order of kinds.
///
/// # Errors
/// Returns [`NfsstatError`] if the text contains no counters.
pub fn shares(text: &str) -> Result<Vec<(OpKind, u32)>, NfsstatError> {
    shares_of(&counts_by_kind(text)?)
}

/// Returns the shares of the calls between two texts from the same host.
///
/// # Errors
/// Returns [`NfsstatError`] if one of them contains no counters, or a counter decreased.
pub fn shares_between(before: &str, after: &str) -> Result<Vec<(OpKind, u32)>, NfsstatError> {
    let before = counts_by_kind(before)?;
    let mut counts = counts_by_kind(after)?;
    for ((kind, count), (_, earlier)) in std::iter::zip(&mut counts, before) {
        *count = count.checked_sub(earlier).ok_or(NfsstatError::Backwards(*kind))?;
    }
    shares_of(&counts)
}

/// Counts the calls of each kind in a mix, in order.
fn counts_by_kind(text: &str) -> Result<Vec<(OpKind, u128)>, NfsstatError> {
    let counted = parse_counts(text);
    if counted.is_empty() {
        return Err(NfsstatError::NoCounts);
    }
    Ok(model::Pass::OpMix.kinds().iter().map(|kind| (*kind, sum_of(&counted, *kind))).collect())
}

fn shares_of(counts: &[(OpKind, u128)]) -> Result<Vec<(OpKind, u32)>, NfsstatError> {
    let mut weights = Vec::new();
    for (kind, count) in counts {
        let mut weight = *count;
        if let Some((makes, _)) = PAIRS.iter().find(|(_, takes)| takes == kind) {
            let made = counts.iter().find(|(other, _)| other == makes);
            weight = weight.min(made.map_or(0, |(_, count)| *count));
        }
        if weight > 0 {
            weights.push((*kind, weight));
        }
    }
    if weights.is_empty() {
        return Err(NfsstatError::Idle);
    }
    let mut shares = apportion_block(&weights);
    shares.retain(|(_, share)| *share > 0);
    Ok(shares)
}

/// Adds up the calls of a kind.
fn sum_of(counted: &[(String, u64)], kind: OpKind) -> u128 {
    counted
        .iter()
        .filter(|(name, _)| kind_of(name) == Some(kind))
        .map(|(_, count)| u128::from(*count))
        .sum()
}

/// Returns the kind for a call.
fn kind_of(name: &str) -> Option<OpKind> {
    let kind = match name {
        "statfs" => OpKind::Fsstat,
        _ => OpKind::from_name(name)?,
    };
    // Some of our kinds have names that are not calls.
    let is_call = !matches!(kind, OpKind::LookupMissing | OpKind::Unlink);
    if !is_call || !model::Pass::OpMix.kinds().contains(&kind) {
        return None;
    }
    Some(kind)
}

/// Parses all counters by name. `nfsstat` prints a line of names followed by a line of counts and
/// percentages. The kernel's files have a line of counts by procedure number, or a line for each
/// operation of a mount.
fn parse_counts(text: &str) -> Vec<(String, u64)> {
    let mut counts = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<&str> =
            words.iter().copied().filter(|word| !word.ends_with('%')).collect();
        match words.as_slice() {
            ["proc2", _, rest @ ..] => add_counts(&mut counts, &V2, rest),
            ["proc3", _, rest @ ..] => add_counts(&mut counts, &V3, rest),
            // An operation of a mount: operations, transmissions, timeouts, bytes.
            [name, rest @ ..] if name.ends_with(':') && is_row_of_mount(rest) => {
                add_counts(&mut counts, &[name.trim_end_matches(':')], &rest[..1]);
                names.clear();
            }
            // Output of mountstats(8): the name, followed by `12 ops (3%)`.
            [name] if name.ends_with(':') => names = vec![name.trim_end_matches(':')],
            [count, "ops", ..] if names.len() == 1 => {
                add_counts(&mut counts, &names, &[*count]);
                names.clear();
            }
            _ if !names.is_empty() && numbers.iter().all(|word| word.parse::<u64>().is_ok()) => {
                add_counts(&mut counts, &names, &numbers);
                names.clear();
            }
            // Other tables count packets and caches; none of their columns has these names.
            _ if words.iter().any(|word| kind_of(word).is_some()) => names.clone_from(&words),
            _ => names.clear(),
        }
    }
    counts
}

/// Returns true if the words after a name are the eight or nine numbers of a mount's operation.
fn is_row_of_mount(words: &[&str]) -> bool {
    words.len() >= 8 && words.iter().all(|word| word.parse::<u64>().is_ok())
}

fn add_counts(counts: &mut Vec<(String, u64)>, names: &[&str], values: &[&str]) {
    for (name, value) in names.iter().zip(values) {
        counts.push((name.to_ascii_lowercase(), value.parse().unwrap_or(0)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::opmix::check;
    use model::OpMix;

    fn share(shares: &[(OpKind, u32)], kind: OpKind) -> u32 {
        shares.iter().find(|(known, _)| *known == kind).map_or(0, |(_, share)| *share)
    }

    #[test]
    fn the_table_of_nfsstat_is_read() {
        let shares = shares(include_str!("fixtures/nfsstat_c.txt")).unwrap();
        let mix = OpMix { shares: shares.clone(), ..OpMix::default() };
        assert_eq!(check(&mix), Ok(()));
        // 1,000 calls of v3 and 1,000 of v4. 200 of these don't belong to a mix, and neither do 20
        // of the REMOVEs.
        for (kind, count) in [(OpKind::Getattr, 500), (OpKind::Read, 400), (OpKind::Access, 200)] {
            // Shares are integers; the remainder goes to the largest one.
            assert!(share(&shares, kind).abs_diff(count * 10_000 / 1_780) <= 2, "{kind}");
        }
        assert_eq!(share(&shares, OpKind::Create), share(&shares, OpKind::Remove));
        assert_eq!(share(&shares, OpKind::Symlink), 0);
    }

    #[test]
    fn the_kernels_own_file_is_read() {
        let text = "net 0 0 0 0\nrpc 10 0 10\nproc2 18 0 0 0 0 0 0 5 0 0 0 0 0 0 0 0 0 0 0\n\
            proc3 22 0 5 0 0 0 0 70 20 0 0 0 0 0 0 0 0 0 0 0 0 0 0\nproc4 2 1 2\n";
        let expected = [(OpKind::Getattr, 500), (OpKind::Read, 7_500), (OpKind::Write, 2_000)];
        assert_eq!(shares(text).unwrap(), expected);
    }

    const MOUNTED: &str = "device server:/export mounted on /mnt with fstype nfs4 statvers=1.1\n\
        \tage:\t100\n\tper-op statistics\n\
        \t        NULL: 1 1 0 44 24 0 0 0 0\n\
        \t        READ: 70 70 0 10 10 0 0 0 0\n\
        \t       WRITE: 30 31 0 10 10 0 0 0 0\n\
        \t      STATFS: 5 5 0 10 10 0 0 0 0\n\
        \tLAYOUTRETURN: 9 9 0 10 10 0 0 0 0\n";

    #[test]
    fn the_operations_of_mounts_are_read() {
        let found = shares(MOUNTED).unwrap();
        let all = 106;
        for (kind, count) in [(OpKind::Read, 70), (OpKind::Write, 30), (OpKind::Fsstat, 5)] {
            assert!(share(&found, kind).abs_diff(count * 10_000 / all) <= 2, "{kind}: {found:?}");
        }
        // The counts of two mounts are added.
        assert_eq!(shares(&format!("{MOUNTED}{MOUNTED}")).unwrap(), found);
        let printed = "Stats for server:/export mounted on /mnt:\n\nREAD:\n\t70 ops (70%) \n\t\
            avg bytes sent per op: 10\nWRITE:\n\t30 ops (30%) \n";
        assert_eq!(shares(printed).unwrap(), [(OpKind::Read, 7000), (OpKind::Write, 3000)]);
    }

    #[test]
    fn counts_calls_between_two_texts() {
        let table = |reads: u64, writes: u64| format!("read write\n{reads} 9% {writes} 3%\n");
        let found = shares_between(&table(1000, 500), &table(1300, 600)).unwrap();
        assert_eq!(found, [(OpKind::Read, 7500), (OpKind::Write, 2500)]);
        let back = shares_between(&table(1000, 500), &table(1300, 499)).unwrap_err();
        assert_eq!(back, NfsstatError::Backwards(OpKind::Write));
        insta::assert_snapshot!(back);
        assert_eq!(shares_between(&table(1, 1), &table(1, 1)), Err(NfsstatError::Idle));
        assert_eq!(shares_between("", &table(1, 1)), Err(NfsstatError::NoCounts));
        let more = MOUNTED.replace("READ: 70", "READ: 80");
        assert_eq!(shares_between(MOUNTED, &more).unwrap(), [(OpKind::Read, 10_000)]);
    }

    #[test]
    fn finds_no_mix_without_counts() {
        let missing = "Error: No Client Stats (/proc/net/rpc/nfs: No such file or directory).\n";
        for text in ["", missing, "read write\n", "\u{0}proc3", "calls retrans\n1 2\n"] {
            assert_eq!(shares(text), Err(NfsstatError::NoCounts), "{text}");
        }
        assert_eq!(shares("proc3 22 0 0 0"), Err(NfsstatError::Idle));
        assert_eq!(shares("read write\n0 0% 0 0%\n"), Err(NfsstatError::Idle));
        let huge = format!("read write\n{0} {0}\n", u64::MAX);
        assert_eq!(shares(&huge).unwrap().len(), 2);
    }
}

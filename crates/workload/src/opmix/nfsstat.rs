//! Shares of a mix from what a host counted: the output of `nfsstat`, or a file of the kernel's.
//!
//! [`shares`] adds up every table of calls that a text holds, of clients and servers and of all
//! versions. Calls that a mix has no kind for are left out, and so are removals beyond what is
//! made: a file system that only shrinks would be empty soon.
//!
//! **Source:** `nfsstat(8)`; `net/sunrpc/stats.c` and `fs/nfs/nfs3xdr.c` of Linux (`proc2` and
//! `proc3` in the order of RFC 1094 and RFC 1813).

use model::OpKind;

use super::shares::{PAIRS, apportion_block};

/// Procedures of version 2 by number; unused ones have their historical names.
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

/// The reason why a text gives no mix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NfsstatError {
    /// It holds no table of calls.
    NoCounts,
    /// None of its calls can be part of a mix.
    Idle,
}

impl std::fmt::Display for NfsstatError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::NoCounts => "it has no counts of NFS calls",
            Self::Idle => "all its counts of calls are 0",
        })
    }
}

impl std::error::Error for NfsstatError {}

/// Reads shares in hundredths of a percent, together 10,000, in the order of kinds.
///
/// # Errors
/// [`NfsstatError`], where the text holds no counts.
pub fn shares(text: &str) -> Result<Vec<(OpKind, u32)>, NfsstatError> {
    let counted = parse_counts(text);
    if counted.is_empty() {
        return Err(NfsstatError::NoCounts);
    }
    let mut weights = Vec::new();
    for kind in model::Pass::OpMix.kinds() {
        let mut weight = sum_of(&counted, *kind);
        if let Some((makes, _)) = PAIRS.iter().find(|(_, takes)| takes == kind) {
            weight = weight.min(sum_of(&counted, *makes));
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
fn sum_of(counted: &[(&str, u64)], kind: OpKind) -> u128 {
    let mut sum = 0;
    for (name, count) in counted {
        if kind_of(name) == Some(kind) {
            sum += u128::from(*count);
        }
    }
    sum
}

/// Returns the kind that stands for a call.
fn kind_of(name: &str) -> Option<OpKind> {
    let kind = match name {
        "statfs" => OpKind::Fsstat,
        _ => OpKind::from_name(name)?,
    };
    // Some kinds of ours have names that no call has.
    let is_call = !matches!(kind, OpKind::LookupMissing | OpKind::Unlink);
    if !is_call || !model::Pass::OpMix.kinds().contains(&kind) {
        return None;
    }
    Some(kind)
}

/// Reads every call that is counted, by its name. `nfsstat` prints a line of names, and below it
/// one of counts and percentages; the kernel's files have a line of counts by procedure number.
fn parse_counts(text: &str) -> Vec<(&str, u64)> {
    let mut counts = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<&str> =
            words.iter().copied().filter(|word| !word.ends_with('%')).collect();
        match words.as_slice() {
            ["proc2", _, rest @ ..] => counts.extend(name_counts(&V2, rest)),
            ["proc3", _, rest @ ..] => counts.extend(name_counts(&V3, rest)),
            _ if !names.is_empty() && numbers.iter().all(|word| word.parse::<u64>().is_ok()) => {
                counts.extend(name_counts(&names, &numbers));
                names.clear();
            }
            // Other tables count packets and caches; none has a column of these names.
            _ if words.iter().any(|word| kind_of(word).is_some()) => names.clone_from(&words),
            _ => names.clear(),
        }
    }
    counts
}

fn name_counts<'a>(names: &[&'a str], values: &[&str]) -> Vec<(&'a str, u64)> {
    let mut counts = Vec::with_capacity(names.len());
    for (name, value) in names.iter().zip(values) {
        counts.push((*name, value.parse().unwrap_or(0)));
    }
    counts
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
        // 1,000 calls of v3 and 1,000 of v4, of which 200 are none of a mix; 20 of the REMOVEs too.
        for (kind, count) in [(OpKind::Getattr, 500), (OpKind::Read, 400), (OpKind::Access, 200)] {
            // Shares are whole hundredths; what is left over goes to the largest.
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

    #[test]
    fn what_holds_no_counts_gives_no_mix() {
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

//! Converts the shares of a mix to requests.
//!
//! Shares count calls, as in SPEC's rules; a request may take several calls.

use model::{OpKind, OpMix};

use super::profile::{MISSING_PERCENT, Profile};

/// Number of requests in a block, in which each kind has its exact share.
pub(crate) const BLOCK: u32 = 10_000;

/// Why a mix cannot be executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MixError {
    /// The mix is unknown and has no shares.
    Unknown(String),
    /// Shares are hundredths of a percent, but add up to this instead of 10,000.
    Sum(u64),
    /// A mix cannot contain this kind.
    Kind(OpKind),
    /// The second kind removes more than the first one creates.
    Shrinks(OpKind, OpKind),
}

impl std::fmt::Display for MixError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unknown(name) => write!(f, "unknown mix `{name}`"),
            Self::Sum(sum) => {
                write!(f, "the shares add up to {}.{:02} % instead of 100 %", sum / 100, sum % 100)
            }
            Self::Kind(kind) => write!(f, "{kind} cannot be part of a mix"),
            Self::Shrinks(makes, takes) => {
                write!(
                    f,
                    "the share of {takes} is larger than that of {makes}, so files to {takes} \
                     would run out"
                )
            }
        }
    }
}

impl std::error::Error for MixError {}

/// Pairs of kinds of which the second removes what the first one creates.
pub(super) const PAIRS: [(OpKind, OpKind); 3] = [
    (OpKind::Create, OpKind::Remove),
    (OpKind::Mkdir, OpKind::Rmdir),
    (OpKind::Symlink, OpKind::Unlink),
];

/// Checks the mix of a plan.
///
/// # Errors
/// Returns [`MixError`]; the caller adds the name of the setting.
pub fn check(mix: &OpMix) -> Result<(), MixError> {
    if mix.shares.is_empty() {
        return match Profile::find(&mix.name) {
            Some(_) => Ok(()),
            None => Err(MixError::Unknown(mix.name.clone())),
        };
    }
    for (kind, _) in &mix.shares {
        if !model::Pass::OpMix.kinds().contains(kind) {
            return Err(MixError::Kind(*kind));
        }
    }
    let sum: u64 = mix.shares.iter().map(|(_, share)| u64::from(*share)).sum();
    if sum != u64::from(BLOCK) {
        return Err(MixError::Sum(sum));
    }
    for (makes, takes) in PAIRS {
        // A mix that removes more than it creates would run out of names.
        if share_of(mix, takes) > share_of(mix, makes) {
            return Err(MixError::Shrinks(makes, takes));
        }
    }
    Ok(())
}

/// Adds up the shares of a kind, which may be listed several times.
fn share_of(mix: &OpMix, kind: OpKind) -> u64 {
    let mut sum = 0;
    for (known, share) in &mix.shares {
        sum += if *known == kind { u64::from(*share) } else { 0 };
    }
    sum
}

/// Returns the shares of calls in a mix, in hundredths of a percent. Empty if its study counted
/// requests with several calls each.
pub fn call_shares(mix: &OpMix) -> Vec<(OpKind, u32)> {
    let counts_calls = !mix.shares.is_empty() || profile_of(mix).counts_calls;
    if counts_calls { shares_of(mix) } else { Vec::new() }
}

/// Returns the profile of a run, or the one that provides the sizes for user-defined mixes.
pub(super) fn profile_of(mix: &OpMix) -> &'static Profile {
    Profile::find(&mix.name).unwrap_or(Profile::of_custom_mixes())
}

/// Returns the number of requests of each kind in a block, and the average number of calls in a
/// block times 84,000.
pub(super) fn requests_of_block(mix: &OpMix, io_size: u32) -> (Vec<(OpKind, u32)>, u64) {
    let profile = profile_of(mix);
    // Weights are shares of requests. They are smaller than shares of calls by the calls per
    // request.
    let mut weights = Vec::new();
    for (kind, share) in shares_of(mix) {
        let per_call =
            if profile.counts_calls { calls_of_hundred(profile, kind, io_size) } else { 84_000 };
        weights.push((kind, u128::from(share) * (1 << 40) * 84_000 / u128::from(per_call)));
    }
    let counts = apportion_block(&weights);
    let all: u64 = counts
        .iter()
        .map(|(kind, count)| u64::from(*count) * calls_of_hundred(profile, *kind, io_size))
        .sum();
    (counts, all)
}

/// Returns the calls of one hundred requests of a kind, times 840.
fn calls_of_hundred(profile: &Profile, kind: OpKind, io_size: u32) -> u64 {
    match kind {
        OpKind::Read => Profile::calls_of_hundred(profile.reads, io_size),
        OpKind::Write => Profile::calls_of_hundred(profile.writes, io_size),
        _ => 84_000,
    }
}

/// Returns shares in hundredths of a percent, with lookups split into existing and missing names.
fn shares_of(mix: &OpMix) -> Vec<(OpKind, u32)> {
    if !mix.shares.is_empty() {
        return mix.shares.clone();
    }
    let mut shares = Vec::new();
    for &(kind, percent) in profile_of(mix).shares {
        if kind == OpKind::Lookup {
            shares.push((OpKind::LookupMissing, percent * MISSING_PERCENT));
            shares.push((kind, percent * (100 - MISSING_PERCENT)));
        } else {
            shares.push((kind, percent * 100));
        }
    }
    shares
}

/// Distributes [`BLOCK`] requests by weight: integer parts first, then the rest to the largest
/// remainders.
///
/// **Source:** Hamilton's method of apportionment.
pub(super) fn apportion_block(weights: &[(OpKind, u128)]) -> Vec<(OpKind, u32)> {
    let total = weights.iter().map(|(_, weight)| weight).sum::<u128>().max(1);
    let mut counts = Vec::with_capacity(weights.len());
    let mut dealt = 0;
    for (kind, weight) in weights {
        let whole = (weight * u128::from(BLOCK) / total) as u32;
        counts.push((*kind, whole));
        dealt += whole;
    }
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(weights[*at].1 * u128::from(BLOCK) % total));
    let left = BLOCK.saturating_sub(dealt) as usize;
    for &at in order.iter().take(left) {
        counts[at].1 += 1;
    }
    even_pairs(&mut counts, weights);
    counts
}

/// Makes the counts in a pair equal if their weights are equal, because the remainder may have gone
/// to only one of them.
fn even_pairs(counts: &mut [(OpKind, u32)], weights: &[(OpKind, u128)]) {
    for (makes, takes) in PAIRS {
        let at = |kind| weights.iter().position(|(known, _)| *known == kind);
        let Some((makes, takes)) = at(makes).zip(at(takes)) else { continue };
        if counts[takes].1 <= counts[makes].1 && weights[takes].1 < weights[makes].1 {
            continue;
        }
        let spare = counts[makes].1.abs_diff(counts[takes].1);
        let even = counts[makes].1.min(counts[takes].1);
        counts[makes].1 = even;
        counts[takes].1 = even;
        // The difference of a request or two goes to the largest share.
        let largest = (0..counts.len()).filter(|at| ![makes, takes].contains(at));
        if let Some(largest) = largest.max_by_key(|at| counts[*at].1) {
            counts[largest].1 += spare;
        } else {
            counts[makes].1 += spare;
        }
    }
}

//! Sizes of files: a distribution, and which file has which size.
//!
//! [`SizeDistribution`] is what a plan states, such as `lognormal 64KiB 2.0`; it is written back as
//! it was read. [`FileSizes`] assigns sizes to numbered files without a table: the n-th of N files
//! has the middle of one of N equal slices of the distribution, in a seeded random order. So each
//! host computes the size of any file, every seed results in the same sizes and the same total, and
//! small sets have the intended shape, too.

mod normal;

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::permute::Permutation;
use crate::random::draw;
use crate::text::units::{Size, UnitError, parse_size};

/// Maximum size of a file: 1 TiB.
pub const SIZE_MAX: u64 = 1 << 40;

/// All shares of a list together. One unit is a billionth, so a list can contain a single file of a
/// directory with very many.
pub const WHOLE: u32 = 1_000_000_000;

/// Maximum number of items in a list.
pub const ITEMS_MAX: usize = 100;

/// Above this number of files, their total is computed from as many slices.
const SUMMED_MAX: u64 = 1 << 20;

/// Seed constant that separates sizes from other draws with the same seed.
const SIZES: u64 = 0x0066_7369_7a65;

/// A distribution of file sizes.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum SizeDistribution {
    /// All files have the same size.
    Fixed(u64),
    /// Each size between these two is equally likely.
    Uniform { min_bytes: u64, max_bytes: u64 },
    /// A bell curve, cut off at 1 byte and at `max_bytes`.
    Normal { mean_bytes: u64, deviation_bytes: u64, max_bytes: u64 },
    /// The logarithm has a bell curve: most files are small, most bytes are in a few large ones.
    /// `sigma_thousandths` is the standard deviation of the natural logarithm. Cut off at
    /// `max_bytes`.
    Lognormal { median_bytes: u64, sigma_thousandths: u32, max_bytes: u64 },
    /// Shares of the files that have certain sizes; the shares add up to [`WHOLE`].
    List(Vec<SizeShare>),
}

/// An item of a list: a share of the files, and their size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SizeShare {
    pub min_bytes: u64,
    /// The largest size; the same as the smallest one, or sizes in between are equally likely.
    pub max_bytes: u64,
    /// Share of the files, in billionths.
    pub share: u32,
}

/// Why a distribution could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} (hint: {hint})")]
pub struct SizeDistributionError {
    /// What is wrong.
    pub what: String,
    /// How to write it.
    pub hint: String,
}

const UNIFORM_HINT: &str = "the smallest and the largest size, such as `uniform 4KiB 1MiB`";
const NORMAL_HINT: &str = "mean and standard deviation, such as `normal 1MiB 200KiB`";
const LOGNORMAL_HINT: &str =
    "the median and the standard deviation of the logarithm, such as `lognormal 64KiB 2.0`";
const LIST_HINT: &str = "sizes with their share of the files in percent, such as `list 4KiB:60 \
                         64KiB-1MiB:40`";
const HINT: &str = "a size such as `64KiB`, `uniform 4KiB 1MiB`, `normal 1MiB 200KiB`, `lognormal \
                    64KiB 2.0` or `list 4KiB:60 1MiB:40`";

fn error(what: impl Into<String>, hint: &str) -> SizeDistributionError {
    SizeDistributionError { what: what.into(), hint: hint.to_owned() }
}

impl SizeDistribution {
    /// Returns the sizes of a pool of transactions.
    ///
    /// **Source:** the defaults of `PostMark` 1.51, `show`.
    pub const fn of_pool() -> Self {
        Self::Uniform { min_bytes: 500, max_bytes: 10_000 }
    }

    /// Returns true if a text begins with the name of a distribution.
    pub fn is_named_in(text: &str) -> bool {
        let name = text.split_whitespace().next().unwrap_or_default();
        matches!(name, "fixed" | "uniform" | "normal" | "lognormal" | "list")
    }

    /// Returns the distribution with all sizes changed, each by the same factor.
    #[must_use]
    pub fn map_sizes(&self, change: impl Fn(u64) -> u64) -> Self {
        let limited = |max: u64| if max == SIZE_MAX { max } else { change(max).max(1) };
        match *self {
            Self::Fixed(size) => Self::Fixed(change(size)),
            Self::Uniform { min_bytes, max_bytes } => {
                Self::Uniform { min_bytes: change(min_bytes), max_bytes: change(max_bytes) }
            }
            Self::Normal { mean_bytes, deviation_bytes, max_bytes } => Self::Normal {
                mean_bytes: change(mean_bytes),
                deviation_bytes: change(deviation_bytes),
                max_bytes: limited(max_bytes),
            },
            Self::Lognormal { median_bytes, sigma_thousandths, max_bytes } => Self::Lognormal {
                median_bytes: change(median_bytes),
                sigma_thousandths,
                max_bytes: limited(max_bytes),
            },
            Self::List(ref items) => Self::List(
                items
                    .iter()
                    .map(|item| SizeShare {
                        min_bytes: change(item.min_bytes),
                        max_bytes: change(item.max_bytes),
                        share: item.share,
                    })
                    .collect(),
            ),
        }
    }

    /// Returns the size at the middle of slice `slice` of `slices` equal ones, the smallest first
    /// (in a list, the first item first).
    pub fn size_at(&self, slice: u64, slices: u64) -> u64 {
        let slices = slices.max(1);
        let slice = slice.min(slices - 1);
        // The middle of the slice, as a fraction.
        let (part, all) = (2 * u128::from(slice) + 1, 2 * u128::from(slices));
        match self {
            Self::Fixed(size) => *size,
            Self::Uniform { min_bytes, max_bytes } => between(*min_bytes, *max_bytes, part, all),
            Self::Normal { mean_bytes, deviation_bytes, max_bytes } => {
                let from_mean = *deviation_bytes as f64 * normal::quantile(slice, slices);
                rounded(*mean_bytes as f64 + from_mean, *max_bytes)
            }
            Self::Lognormal { median_bytes, sigma_thousandths, max_bytes } => {
                let sigma = f64::from(*sigma_thousandths) / 1000.0;
                let factor = normal::exp(sigma * normal::quantile(slice, slices));
                rounded(*median_bytes as f64 * factor, *max_bytes)
            }
            Self::List(items) => {
                let at = part * u128::from(WHOLE);
                let mut begin = 0;
                for item in items {
                    let length = u128::from(item.share) * all;
                    if at < begin + length {
                        return between(item.min_bytes, item.max_bytes, at - begin, length);
                    }
                    begin += length;
                }
                items.last().map_or(0, |item| item.max_bytes)
            }
        }
    }

    /// Returns an upper bound of the sizes of `count` files.
    pub fn largest(&self, count: u64) -> u64 {
        match self {
            Self::Uniform { max_bytes, .. } => *max_bytes,
            Self::List(items) => items.iter().map(|item| item.max_bytes).max().unwrap_or(0),
            _ => self.size_at(count.saturating_sub(1), count),
        }
    }

    /// Returns the total size of `count` files. It is exact up to about a million files; above, it
    /// is that of a million slices, multiplied.
    pub fn total(&self, count: u64) -> u64 {
        u64::try_from(self.wide_total(count)).unwrap_or(u64::MAX)
    }

    /// Returns the mean size of `count` files, rounded to the nearest byte.
    pub fn mean(&self, count: u64) -> u64 {
        let count = count.max(1);
        ((self.wide_total(count) + u128::from(count / 2)) / u128::from(count)) as u64
    }

    fn wide_total(&self, count: u64) -> u128 {
        if let Self::Fixed(size) = self {
            return u128::from(*size) * u128::from(count);
        }
        let slices = count.min(SUMMED_MAX);
        let sum: u128 = (0..slices).map(|slice| u128::from(self.size_at(slice, slices))).sum();
        sum * u128::from(count) / u128::from(slices.max(1))
    }
}

/// Returns the size at a fraction of the range from `min` to `max`, including both.
fn between(min: u64, max: u64, part: u128, all: u128) -> u64 {
    // The product has at most 41 + 86 bits.
    min + ((u128::from(max - min) + 1) * part / all) as u64
}

/// Rounds a size to whole bytes within its limits.
fn rounded(bytes: f64, max: u64) -> u64 {
    (bytes.round() as u64).clamp(1, max)
}

/// The sizes of numbered files.
#[derive(Clone, Debug)]
pub struct FileSizes {
    distribution: SizeDistribution,
    count: u64,
    order: Permutation,
}

impl FileSizes {
    /// Assigns the sizes of `count` files. The seed determines which file has which size, not which
    /// sizes there are.
    pub fn new(distribution: SizeDistribution, count: u64, seed: u64) -> Self {
        let count = count.max(1);
        Self { distribution, count, order: Permutation::new(draw(seed, SIZES), count) }
    }

    /// Returns the size of a file in bytes. Numbers beyond the count begin again with the first.
    #[inline]
    pub fn size(&self, file: u64) -> u64 {
        let slice = self.order.number_at(file % self.count);
        self.distribution.size_at(slice, self.count)
    }
}

impl fmt::Display for SizeDistribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let max = |max: u64| match max {
            SIZE_MAX => String::new(),
            max => format!(" max {}", written(max)),
        };
        match self {
            Self::Fixed(size) => f.write_str(&written(*size)),
            Self::Uniform { min_bytes, max_bytes } => {
                write!(f, "uniform {} {}", written(*min_bytes), written(*max_bytes))
            }
            Self::Normal { mean_bytes, deviation_bytes, max_bytes } => {
                let deviation = written(*deviation_bytes);
                write!(f, "normal {} {deviation}{}", written(*mean_bytes), max(*max_bytes))
            }
            Self::Lognormal { median_bytes, sigma_thousandths, max_bytes } => {
                let sigma = decimal((*sigma_thousandths).into(), 3, 1);
                write!(f, "lognormal {} {sigma}{}", written(*median_bytes), max(*max_bytes))
            }
            Self::List(items) => {
                f.write_str("list")?;
                for SizeShare { min_bytes, max_bytes, share } in items {
                    write!(f, " {}", written(*min_bytes))?;
                    if max_bytes > min_bytes {
                        write!(f, "-{}", written(*max_bytes))?;
                    }
                    write!(f, ":{}", decimal((*share).into(), SHARE_DECIMALS, 0))?;
                }
                Ok(())
            }
        }
    }
}

impl From<SizeDistribution> for String {
    fn from(distribution: SizeDistribution) -> Self {
        distribution.to_string()
    }
}

impl TryFrom<String> for SizeDistribution {
    type Error = SizeDistributionError;

    fn try_from(text: String) -> Result<Self, SizeDistributionError> {
        text.parse()
    }
}

impl FromStr for SizeDistribution {
    type Err = SizeDistributionError;

    fn from_str(text: &str) -> Result<Self, SizeDistributionError> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        match (name, words.as_slice()) {
            ("fixed", [size]) => Ok(Self::Fixed(parse_file_size(size)?)),
            ("fixed", _) => Err(error(format!("`{text}` needs one size"), HINT)),
            ("uniform", [min, max]) => {
                let (min_bytes, max_bytes) = (parse_file_size(min)?, parse_file_size(max)?);
                if min_bytes > max_bytes {
                    return Err(error(format!("`{text}` ends before it begins"), UNIFORM_HINT));
                }
                Ok(Self::Uniform { min_bytes, max_bytes })
            }
            ("uniform", _) => Err(error(format!("`{text}` needs two sizes"), UNIFORM_HINT)),
            ("normal", [mean, deviation, limit @ ..]) => Ok(Self::Normal {
                mean_bytes: parse_file_size(mean)?,
                deviation_bytes: parse_file_size(deviation)?,
                max_bytes: parse_limit(text, limit)?,
            }),
            ("normal", _) => Err(error(format!("`{text}` needs two sizes"), NORMAL_HINT)),
            ("lognormal", [median, sigma, limit @ ..]) => {
                let parsed = parse_decimal(sigma, 3).filter(|thousandths| *thousandths <= 10_000);
                let Some(sigma_thousandths) = parsed else {
                    let what = format!("`{sigma}` is not a number from 0 to 10");
                    return Err(error(what, LOGNORMAL_HINT));
                };
                Ok(Self::Lognormal {
                    median_bytes: parse_file_size(median)?,
                    sigma_thousandths,
                    max_bytes: parse_limit(text, limit)?,
                })
            }
            ("lognormal", _) => {
                Err(error(format!("`{text}` needs a size and a number"), LOGNORMAL_HINT))
            }
            ("list", items) => parse_list(text, items),
            (size, []) if !size.is_empty() => Ok(Self::Fixed(parse_file_size(size)?)),
            _ => Err(error(format!("`{text}` is not a distribution of sizes"), HINT)),
        }
    }
}

/// Parses the items of a list, whose shares must add up.
fn parse_list(text: &str, words: &[&str]) -> Result<SizeDistribution, SizeDistributionError> {
    if words.is_empty() || words.len() > ITEMS_MAX {
        let what = format!("a list of sizes has 1 to {ITEMS_MAX} items, not {}", words.len());
        return Err(error(what, LIST_HINT));
    }
    let items = words.iter().map(|word| parse_item(word)).collect::<Result<Vec<_>, _>>()?;
    let sum: u64 = items.iter().map(|item| u64::from(item.share)).sum();
    if sum == u64::from(WHOLE) {
        return Ok(SizeDistribution::List(items));
    }
    let sum = decimal(sum, SHARE_DECIMALS, 0);
    Err(error(format!("the shares in `{text}` add up to {sum} %, not to 100 %"), LIST_HINT))
}

/// Parses an item of a list: `4KiB:60` or `64KiB-1MiB:40`.
fn parse_item(text: &str) -> Result<SizeShare, SizeDistributionError> {
    let Some((sizes, share)) = text.rsplit_once(':') else {
        return Err(error(format!("`{text}` has no share"), LIST_HINT));
    };
    let share = share.strip_suffix('%').unwrap_or(share);
    let Some(share) = parse_decimal(share, SHARE_DECIMALS).filter(|share| *share <= WHOLE) else {
        let what = format!("`{share}` in `{text}` is not a share from 0 to 100 %");
        return Err(error(what, LIST_HINT));
    };
    let (min, max) = sizes.split_once('-').unwrap_or((sizes, sizes));
    let (min_bytes, max_bytes) = (parse_file_size(min)?, parse_file_size(max)?);
    if min_bytes > max_bytes {
        return Err(error(format!("`{sizes}` ends before it begins"), LIST_HINT));
    }
    Ok(SizeShare { min_bytes, max_bytes, share })
}

/// Parses the limit at the end of a distribution that has no natural one.
fn parse_limit(text: &str, words: &[&str]) -> Result<u64, SizeDistributionError> {
    match words {
        [] => Ok(SIZE_MAX),
        ["max", max] => match parse_file_size(max)? {
            0 => Err(error("a maximum of 0 bytes leaves no files", HINT)),
            max => Ok(max),
        },
        _ => {
            let what = format!("`{}` at the end of `{text}` is not a limit", words.join(" "));
            Err(error(what, "such as `max 1GiB`"))
        }
    }
}

fn parse_file_size(text: &str) -> Result<u64, SizeDistributionError> {
    match parse_size(text) {
        Ok(size) if size <= SIZE_MAX => Ok(size),
        Err(UnitError::Malformed { hint, .. }) => {
            Err(error(format!("`{text}` is not a size"), hint))
        }
        _ => Err(error(format!("`{text}` is too large for a file"), "at most 1 TiB")),
    }
}

/// Decimals of a share in percent.
const SHARE_DECIMALS: usize = 7;

/// Parses a decimal number, scaled by the number of decimals that it may have.
fn parse_decimal(text: &str, decimals: usize) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || part.len() > decimals || !is_number(whole) || !is_number(part) {
        return None;
    }
    format!("{whole}{part:0<decimals$}").parse().ok()
}

/// Writes a number that is scaled by `decimals`, with at least `least` of them.
fn decimal(scaled: u64, decimals: usize, least: usize) -> String {
    let digits = format!("{scaled:0width$}", width = decimals + 1);
    let (whole, part) = digits.split_at(digits.len() - decimals);
    let part = part.trim_end_matches('0');
    if part.is_empty() && least == 0 {
        whole.to_owned()
    } else {
        format!("{whole}.{part:0<least$}")
    }
}

/// Writes a size exactly, in one word.
fn written(bytes: u64) -> String {
    Size(bytes).exact().replace(' ', "")
}

#[cfg(test)]
mod tests;

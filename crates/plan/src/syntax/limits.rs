//! Limits of settings and of a plan, and their reasons.
//!
//! The limits of settings are in their rows (`model::setting`); all other limits are here, each
//! with its reason, which is also the hint that users see. A test checks the relations between
//! limits, so that products of settings fit their integer types.

use model::setting::{Kind, Range, Setting};
use model::units::Size;

use crate::syntax::text::{self, join_with_or};

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const TIB: u64 = 1 << 40;

/// Maximum duration of a soak in milliseconds: a day, like the `duration` of its mix.
pub(crate) const SOAK_MS_MAX: u64 = 24 * 3_600_000;
/// Number of warm-up trials.
pub(crate) const WARMUP_TRIALS: Range =
    Range { min: 0, max: 100, reason: "a few are enough to warm up a machine" };
/// Maximum half-width of the interval, in thousandths of the median.
pub(crate) const UNTIL_PERMILLE: Range =
    Range { min: 1, max: 500, reason: "an interval as wide as the result is useless" };
/// Minimum number of trials before `until` is evaluated; up to this number, the interval is their
/// range.
pub(crate) const UNTIL_TRIALS_MIN: u32 = 5;
/// Time budget of a campaign, in milliseconds.
pub(crate) const BUDGET_MS: Range =
    Range { min: 1_000, max: 7 * 24 * 3_600_000, reason: "each run gets five trials in any case" };
/// Maximum time to wait for idle hosts before a trial, in milliseconds.
pub(crate) const QUIET_MS: Range = Range {
    min: 0,
    max: 3_600_000,
    reason: "a host that is busy for an hour stays busy; 0s: don't wait",
};
/// Default of the same in a plan that compares systems.
pub(crate) const QUIET_MS_OF_CONTENDERS: u64 = 10_000;
/// Discarding the highest and the lowest must leave one.
pub(crate) const DISCARD_TRIALS_MIN: u32 = 3;
/// Trials of one run.
pub(crate) const TRIALS: Range =
    Range { min: 1, max: 1_000, reason: "a few trials show the spread; 5 to 30 are usual" };

/// Memory of the in-memory server, in bytes.
pub(crate) const SERVER_MEMORY: Range =
    Range { min: MIB, max: TIB, reason: "file data is held in memory, up to this bound" };

/// Threads of the in-memory server.
pub(crate) const SERVER_THREADS: Range = Range {
    min: 1,
    max: 64,
    reason: "each thread runs an event loop; more threads than cores don't help",
};

/// Maximum number of data servers of the in-memory server: each runs threads of its own.
pub(crate) const DATA_SERVERS_MAX: u32 = 64;
/// Maximum number of copies of the data in a cluster.
pub(crate) const MIRRORS_MAX: u32 = 16;
/// Size of a stripe unit, in bytes.
pub(crate) const STRIPE_UNIT: Range =
    Range { min: 4 * KIB, max: GIB, reason: "0 keeps each file on one data server" };

/// Maximum number of loads that run together: with pairs, more would take hours.
pub(crate) const LOADS_MAX: usize = 5;
/// Maximum number of characters in the name of a load, of which a table joins several.
pub(crate) const LOAD_NAME_MAX: usize = 24;
/// Maximum instant at which a load starts or ends, in milliseconds: a day, like `duration`.
pub(crate) const WINDOW_MS_MAX: u64 = 24 * 3_600_000;

/// Agents on one host.
pub(crate) const SLOTS_OF_HOST: Range =
    Range { min: 1, max: 4_096, reason: "each is a process, and hosts limit their number" };

/// Size of the backing file of a loop device; the minimum fits every file system.
///
/// **Source:** mkfs.xfs(8): 300 MiB since 5.19.
pub(crate) const LOOP_SIZE: Range =
    Range { min: 16 * MIB, max: TIB, reason: "the server's disk must hold it" };

/// Maximum size of a tmpfs, in bytes.
pub(crate) const TMPFS_SIZE: Range =
    Range { min: MIB, max: TIB, reason: "it is the server's memory" };

/// Runs of one plan: the list is still readable and the duration still bearable.
pub(crate) const RUNS_MAX: usize = 10_000;

/// Memory for all buffers of a run, in bytes; with more, the run would measure swapping.
pub(crate) const BUFFERS_MAX: u64 = 4 * GIB;

/// Alignment that `O_DIRECT` requires, in bytes: the smallest logical block of a disk.
///
/// **Source:** open(2), NOTES, O_DIRECT.
pub(crate) const DIRECT_ALIGNMENT: u64 = 512;

/// Memory of the in-memory server for each file in addition to its data, in bytes: 384 for the
/// inode, 128 for the entry and 9 for the name, rounded up to cover directories as well.
///
/// **Source:** `nfs-server`, `fs/inode.rs` and `fs/directory.rs`.
pub(crate) const SERVER_FILE_OVERHEAD: u64 = 640;

/// Block size of the in-memory server, in bytes; the last block of a file is a smaller power of
/// two, but at least [`SERVER_BLOCK_MIN`].
///
/// **Source:** `nfs-server`, `fs/block.rs`.
pub(crate) const SERVER_BLOCK: u64 = 256 * KIB;

/// Smallest block of the in-memory server, in bytes.
pub(crate) const SERVER_BLOCK_MIN: u64 = 512;

/// Directories of one tree.
pub(crate) const DIRECTORIES_MAX: u64 = 1_000_000;

/// Maximum length of a name, which must fit the first column of a table.
pub(crate) const NAME_LENGTH_MAX: usize = 64;

/// Maximum length of the text of a conclusion.
pub(crate) const SENTENCE_LENGTH_MAX: usize = 400;

/// Maximum length of a label, enough for a few words.
pub(crate) const LABEL_LENGTH_MAX: usize = 200;

/// Describes the legal values of a setting: `1 B to 64 MiB`, `true or false`.
pub(crate) fn legal(setting: Setting) -> String {
    let legal = match setting.kind() {
        Kind::Size if setting.takes_distribution() => {
            format!("{}, or a distribution", numbers(setting, &show_size))
        }
        Kind::Size => numbers(setting, &show_size),
        Kind::Count | Kind::Kib | Kind::Percent => numbers(setting, &|number| number.to_string()),
        Kind::Threads => {
            let numbers = numbers(setting, &|number| number.to_string());
            format!("{numbers}, or two numbers such as \"4..64\"")
        }
        Kind::Fraction => numbers(setting, &text::fraction),
        Kind::Time => numbers(setting, &text::time),
        Kind::FineTime => numbers(setting, &text::time_ns),
        Kind::MicroTime => numbers(setting, &|us| text::time_ns(us * 1_000)),
        Kind::BitRate => numbers(setting, &text::bit_rate),
        Kind::Frequency => numbers(setting, &text::frequency),
        Kind::Text => "a name".to_owned(),
        Kind::Words => match setting.separator() {
            ' ' => "arguments separated by spaces".to_owned(),
            '+' => "name=value, several joined with `+`".to_owned(),
            _ => "options joined with `,`".to_owned(),
        },
        Kind::Flag => "true or false".to_owned(),
        Kind::Mix => {
            join_with_or(&workload::opmix::PROFILES.iter().map(|mix| mix.name).collect::<Vec<_>>())
        }
        Kind::Passes => "names joined with `+`, or \"usual\"".to_owned(),
        Kind::Word => join_with_or(&words(setting).iter().map(String::as_str).collect::<Vec<_>>()),
    };
    match setting.open() {
        Some(word) => format!("{legal}, or \"{word}\""),
        None => legal,
    }
}

/// Describes the range of a setting; empty if its values have no limits.
fn numbers(setting: Setting, shown: &dyn Fn(u64) -> String) -> String {
    setting.range().map_or_else(String::new, |range| span(range, shown))
}

/// One legal word of a setting, as a plan writes it.
pub(crate) fn example(setting: Setting) -> String {
    words(setting).swap_remove(0)
}

/// The words of a setting as a plan writes them; versions look better without quotes.
fn words(setting: Setting) -> Vec<String> {
    let bare = setting == Setting::NfsVers;
    let words = setting.words().iter();
    words.map(|word| if bare { (*word).to_owned() } else { format!("\"{word}\"") }).collect()
}

/// Formats both ends of a range.
pub(crate) fn span(range: Range, shown: &dyn Fn(u64) -> String) -> String {
    format!("{} to {}", shown(range.min), shown(range.max))
}

/// Bytes that a worker writes at most in a phase of io500 by default: the largest file size.
pub(crate) const IO500_BYTES: u64 = 1 << 40;

/// Files that a worker creates at most in a phase of io500 by default.
///
/// **Source:** IO500, src/phase_mdtest_easy.c: n = 1000000.
pub(crate) const IO500_FILES: u64 = 1_000_000;

/// Files that all workers create at most in a phase of io500: the most that a run may have.
pub(crate) const IO500_FILES_ALL: u64 = 10_000_000;

/// Formats bytes for people.
pub(crate) fn show_size(bytes: u64) -> String {
    Size(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_products_into_integers() {
        let max = |setting: Setting| setting.range().unwrap().max;
        let fits_32_bits = |product: Option<u64>| product.is_some_and(|n| u32::try_from(n).is_ok());
        // The size of a file set fits 64 bits, even in whole blocks of the in-memory server.
        assert!(max(Setting::FileSize).checked_mul(max(Setting::Files)).is_some());
        assert!(max(Setting::FileSize).is_multiple_of(SERVER_BLOCK));
        // A small file is written with one op, whose size has 32 bits.
        assert!(fits_32_bits(Some(max(Setting::IoSize))));
        // The number of ops in flight is multiplied before it is compared with a limit.
        let in_flight = max(Setting::Clients).checked_mul(max(Setting::QueueDepth)).unwrap();
        assert!(in_flight.checked_mul(max(Setting::IoSize)).is_some());
        assert!(max(Setting::Workers) <= max(Setting::Clients));
        assert!(max(Setting::ClientUids) <= max(Setting::Clients));
        // The workers of all hosts can be counted, and so can one file for each of them.
        assert!(fits_32_bits(max(Setting::ClientHosts).checked_mul(max(Setting::Workers))));
        assert!(fits_32_bits(Some(max(Setting::Files))));
    }
}

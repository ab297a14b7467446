//! The one table of keys that a plan may hold.
//!
//! The reader refuses what isn't in it, and the reference of the manual is printed from it, so
//! that the two can't part. Limits and defaults are repeated here in words; tests compare them
//! with `limits` and `defaults`.

use Section::{Plan, Server, Settings, Target, Workload};

use crate::error::Fault;
use crate::setting::Setting;
use crate::text;

/// Where in a plan a key stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Before any table.
    Plan,
    /// In `[server]`.
    Server,
    /// In a `[[target]]`.
    Target,
    /// In `[factors]`, or in a `[[workload]]`, which wins.
    Settings,
    /// In a `[[workload]]`.
    Workload,
}

impl Section {
    /// The heading that such keys stand under.
    pub const fn title(self) -> &'static str {
        match self {
            Plan => "top level",
            Server => "[server]",
            Target => "[[target]]",
            Settings => "[factors]",
            Workload => "[[workload]]",
        }
    }

    /// Where that is, as a message says it.
    pub(crate) fn within(self) -> String {
        let preposition = if self == Plan { "at" } else { "in" };
        format!("{preposition} {}", self.title())
    }

    /// Says whether `doc` is of a key that may stand here.
    fn holds(self, doc: &KeyDoc) -> bool {
        doc.section == self || (self == Workload && doc.section == Settings)
    }
}

/// One key: all that a reference page says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyDoc {
    /// As it is written.
    pub key: &'static str,
    /// Where it stands.
    pub section: Section,
    /// What it holds: `size`, `integer`, `time`, `text`, `true or false`, `table` ...
    pub kind: &'static str,
    /// Unit of the number; empty where there is none.
    pub unit: &'static str,
    /// Legal values.
    pub legal: &'static str,
    /// What holds where it is left out.
    pub default: &'static str,
    /// What it does.
    pub meaning: &'static str,
}

const fn key(
    section: Section,
    key: &'static str,
    [kind, unit]: [&'static str; 2],
    legal: &'static str,
    default: &'static str,
    meaning: &'static str,
) -> KeyDoc {
    KeyDoc { key, section, kind, unit, legal, default, meaning }
}

/// Every key, in the order in which a plan is best written.
pub fn reference() -> &'static [KeyDoc] {
    KEYS
}

#[rustfmt::skip] // one key, one paragraph
static KEYS: &[KeyDoc] = &[
    key(Plan, "name", ["text", ""], "1 to 64 characters", "required",
        "What the campaign is called in results and tables."),
    key(Plan, "trials", ["integer", ""], "1 to 1000", "5",
        "How often each run is repeated."),
    key(Plan, "seed", ["integer", ""], "0 to 18446744073709551615", "drawn, and printed",
        "Where every random choice comes from: offsets, mixes, data, the order of trials."),
    key(Plan, "server", ["table", ""], "", "its defaults",
        "The in-memory server, used by targets with `embedded = true`."),
    key(Plan, "target", ["tables", ""], "at least one", "required",
        "What is measured."),
    key(Plan, "factors", ["table", ""], "", "none",
        "Settings of all workloads; a setting with several values multiplies the runs."),
    key(Plan, "workload", ["tables", ""], "at least one", "required",
        "What is done to the targets."),

    key(Server, "memory", ["size", "bytes"], "1 MiB to 1 TiB", "192MiB",
        "How much file data and bookkeeping the in-memory server holds at most."),
    key(Server, "threads", ["integer", ""], "1 to 64", "1",
        "Threads of the in-memory server."),

    key(Target, "name", ["text", ""], "letters, digits, `-`, `_`, `.`", "required",
        "What the target is called in tables and in `targets`."),
    key(Target, "url", ["text", ""],
        "nfs://host[:port]/path[?version=3&uid=..&gid=..&mountport=..]", "none",
        "An NFS server, spoken to without the kernel's client."),
    key(Target, "path", ["text", ""], "a directory", "none",
        "A directory of this host; a relative one starts where the program was called."),
    key(Target, "temporary", ["true", ""], "true", "none",
        "A directory of our own under the system's temporary folder."),
    key(Target, "embedded", ["true", ""], "true", "none",
        "The in-memory server of this very process, over NFS on loopback."),
    key(Target, "null", ["true", ""], "true", "none",
        "Nothing: measures what the tool itself can do."),
    key(Target, "backend", ["text or list", ""],
        "path, temporary: posix, uring; url, embedded: nfs; null: null",
        "path, temporary: posix; url, embedded: nfs; null: null",
        "How ops are executed; a list makes runs with each."),
    key(Target, "uid", ["integer", ""], "0 to 4294967295", "the caller's",
        "User id sent to the in-memory server; a `url` has its own."),
    key(Target, "gid", ["integer", ""], "0 to 4294967295", "the caller's",
        "Group id sent to the in-memory server; a `url` has its own."),

    key(Workload, "kind", ["text", ""], "stream, random or metadata", "required",
        "stream: sequential write, then read, of whole files. random: reads and writes at random \
         offsets, for a time. metadata: create, stat and remove many small files."),
    key(Workload, "targets", ["list of texts", ""], "names of targets", "all",
        "Only these targets."),
    key(Workload, "backends", ["list of texts", ""], "null, posix, uring or nfs", "all",
        "Only these of the targets' backends."),

    key(Settings, "workers", ["integer", "threads"], "1 to 1024", "1",
        "Threads that issue ops, each with a recorder of its own."),
    key(Settings, "files", ["integer", "files"], "1 to 10000000", "one per worker",
        "Data files, all workers together. Not for metadata, which has small_files."),
    key(Settings, "file_size", ["size", "bytes"], "1 B to 1 TiB", "64MiB",
        "Size of each data file, a multiple of io_size. Not for metadata, which has \
         small_file_size."),
    key(Settings, "small_files", ["integer", "files"], "1 to 10000000", "5000",
        "Files that are created, looked up and removed, all workers together. Only for metadata."),
    key(Settings, "small_file_size", ["size", "bytes"], "0 B to 1 MiB", "4KiB",
        "Bytes written to each of the small files when it is created, with one op; 0 creates it \
         empty. Only for metadata."),
    key(Settings, "io_size", ["size", "bytes"], "1 B to 64 MiB",
        "stream: 1MiB; random: 4KiB; at most file_size",
        "Bytes of one read or write. Not for metadata."),
    key(Settings, "queue_depth", ["integer", "ops"], "1 to 4096", "uring, nfs: 8; null: 1",
        "Ops in flight per worker. Not for posix, whose calls are synchronous."),
    key(Settings, "transfer_size", ["size or text", "bytes"],
        "1 KiB to 4 MiB, or \"server\"", "server",
        "Largest payload of one READ or WRITE on the wire (rsize, wsize). Only for nfs; not for \
         metadata."),
    key(Settings, "read_percent", ["integer", "percent"], "0 to 100", "70",
        "Share of reads in a mix. Only for random."),
    key(Settings, "duration", ["time", "ms"], "1ms to 24h", "1s",
        "How long a mix runs. Only for random."),
    key(Settings, "direct", ["true or false", ""], "true or false", "false",
        "Bypass the page cache with O_DIRECT; io_size must be a multiple of 512 bytes. Only for \
         posix and uring; not for metadata."),
    key(Settings, "durability", ["text", ""], "\"sync\" or \"none\"", "sync",
        "sync: each file that was written is synced (fsync, COMMIT) inside the timed window. \
         Not for metadata, nor for null."),
    key(Settings, "invalidate", ["true or false", ""], "true or false", "true",
        "Drop the files from this host's page cache before they are read. Only for posix and \
         uring; not for metadata."),
    key(Settings, "verify", ["true or false", ""], "true or false", "false",
        "Compare every byte read with what was written. Not for metadata, nor for null."),
    key(Settings, "timeout", ["time", "ms"], "1ms to 1h", "5s",
        "An answer that takes longer is a failure."),
];

/// What a setting does, as the reference says it.
pub(crate) fn meaning(setting: Setting) -> &'static str {
    KEYS.iter().find(|doc| doc.key == setting.key()).map_or("", |doc| doc.meaning)
}

/// What other tools call our keys.
///
/// **Source:** fio(1), the options of IOR, mdtest and iozone, nfs(5).
const ALIASES: &[(&str, &str)] = &[
    ("bs", "io_size"),
    ("blocksize", "io_size"),
    ("block_size", "io_size"),
    ("record_size", "io_size"),
    ("iodepth", "queue_depth"),
    ("numjobs", "workers"),
    ("jobs", "workers"),
    ("nrfiles", "files"),
    ("items", "small_files"),
    ("n", "small_files"),
    ("-n", "small_files"),
    ("threads", "workers"),
    ("clients", "workers"),
    ("rsize", "transfer_size"),
    ("wsize", "transfer_size"),
    ("rwmixread", "read_percent"),
    ("runtime", "duration"),
    ("time", "duration"),
    ("rw", "kind"),
    ("loops", "trials"),
    ("iterations", "trials"),
    ("repetitions", "trials"),
    ("directory", "path"),
    ("filename", "path"),
    ("ioengine", "backend"),
    ("fsync", "durability"),
];

/// Says whether `key` may stand in `section`; if not, what may.
pub(crate) fn check(section: Section, key: &str) -> Result<(), Fault> {
    let here: Vec<&str> = KEYS.iter().filter(|doc| section.holds(doc)).map(|doc| doc.key).collect();
    if here.contains(&key) {
        return Ok(());
    }
    let fault = Fault::new(format!("unknown key `{key}` {}", section.within()))
        .hint(hint_for(section, key, &here));
    Err(fault)
}

fn hint_for(section: Section, key: &str, here: &[&str]) -> String {
    let alias = ALIASES.iter().find(|(theirs, _)| *theirs == key).map(|(_, ours)| *ours);
    if let Some(ours) = alias.filter(|ours| here.contains(ours)) {
        return format!("it is called `{ours}` here");
    }
    if let Some(doc) = KEYS.iter().find(|doc| doc.key == key) {
        let other = match doc.section {
            Settings => "in [factors] or a [[workload]]".to_owned(),
            Plan => "at top level, before any table".to_owned(),
            other => other.within(),
        };
        return format!("it belongs {other}{}", or_nearest(section, key, here));
    }
    match nearest(key, here) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("known keys: {}", here.join(", ")),
    }
}

/// `[[workload]]` with `target` and the like: the key exists elsewhere, but one letter off here.
fn or_nearest(section: Section, key: &str, here: &[&str]) -> String {
    match nearest(key, here) {
        Some(near) => format!("; {} you may mean `{near}`", section.within()),
        None => String::new(),
    }
}

/// Finds the word that `given` was most likely meant to be: at most a third of it is wrong.
pub(crate) fn nearest<'a>(given: &str, known: &[&'a str]) -> Option<&'a str> {
    let given = given.to_lowercase().replace('-', "_");
    let distance =
        |word: &str| strsim::damerau_levenshtein(&given, &word.to_lowercase().replace('-', "_"));
    let best = known.iter().copied().min_by_key(|word| distance(word))?;
    let allowed = best.chars().count().max(given.chars().count()) / 3;
    (distance(best) <= allowed).then_some(best)
}

/// Refuses a word that isn't one of `known`, with the nearest or all of them.
pub(crate) fn unknown_word(what: &str, given: &str, known: &[&str]) -> Fault {
    let hint = match nearest(given, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None if known.is_empty() => "there is none".to_owned(),
        None => format!("write {}", text::either(known)),
    };
    Fault::new(format!("unknown {what} `{given}`")).hint(hint)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{self, legal, span};

    #[test]
    fn every_setting_has_its_row_with_its_true_limits() {
        for setting in Setting::ALL {
            let docs: Vec<&KeyDoc> = KEYS.iter().filter(|doc| doc.key == setting.key()).collect();
            assert_eq!(docs.len(), 1, "{setting:?}");
            assert_eq!(docs[0].section, Settings);
            assert_eq!(docs[0].legal, legal(setting), "{setting:?}");
        }
        let rows = KEYS.iter().filter(|doc| doc.section == Settings).count();
        assert_eq!(rows, Setting::ALL.len());
        let legal_of = |section, name: &str| {
            KEYS.iter().find(|doc| doc.section == section && doc.key == name).unwrap().legal
        };
        assert_eq!(legal_of(Plan, "trials"), span(limits::TRIALS, &|n| n.to_string()));
        assert_eq!(legal_of(Server, "memory"), span(limits::SERVER_MEMORY, &limits::show_size));
        assert_eq!(legal_of(Server, "threads"), span(limits::SERVER_THREADS, &|n| n.to_string()));
    }

    #[test]
    fn no_key_stands_twice_in_a_section() {
        for (index, doc) in KEYS.iter().enumerate() {
            let again = |other: &KeyDoc| (other.section, other.key) == (doc.section, doc.key);
            assert!(!KEYS[index + 1..].iter().any(again), "{}", doc.key);
            assert!(!doc.meaning.is_empty() && !doc.default.is_empty(), "{}", doc.key);
        }
        for (theirs, ours) in ALIASES {
            assert!(KEYS.iter().any(|doc| doc.key == *ours), "{theirs}");
        }
    }

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["io_size", "file_size", "files", "workers"];
        assert_eq!(nearest("io_szie", &known), Some("io_size"));
        assert_eq!(nearest("io-size", &known), Some("io_size"));
        assert_eq!(nearest("worker", &known), Some("workers"));
        assert_eq!(nearest("colour", &known), None);
        assert_eq!((nearest("x", &[]), nearest("x", &["y"])), (None, None));
    }
}

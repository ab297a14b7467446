//! The table of all keys of a plan.
//!
//! The parser refuses keys that are not in it, and the plan reference is generated from it, so the
//! two cannot diverge. The rows of settings come from `model::setting`.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::LazyLock;

use Section::{Plan, Settings};
use model::setting::{Kind, Setting, Value};
use model::{Pass, Target, Workload};

use crate::parse::level;
use crate::parse::reference::{KEYS, backend_key, plain_target};
use crate::parse::section::{KeyDoc, Section};
use crate::syntax::error::Fault;
use crate::syntax::limits::legal;
use crate::syntax::suggestion::nearest_word;

/// Every key, in the order recommended for writing a plan.
pub(crate) fn reference() -> &'static [KeyDoc] {
    static ALL: LazyLock<Vec<KeyDoc>> = LazyLock::new(|| {
        let mut keys = KEYS.to_vec();
        keys.extend(Target::PLAIN.iter().map(|target| plain_target(target.row())));
        keys.push(backend_key());
        keys.extend(Setting::ALL.map(KeyDoc::of_setting));
        keys
    });
    &ALL
}

impl KeyDoc {
    /// Describes a setting from its row.
    pub fn of_setting(setting: Setting) -> Self {
        let kind = match setting.kind() {
            Kind::Size => "size",
            Kind::Count | Kind::Kib | Kind::Percent => "integer",
            Kind::Threads => "integer or text",
            Kind::Fraction => "fraction",
            Kind::Time | Kind::FineTime | Kind::MicroTime => "time",
            Kind::BitRate => "rate",
            Kind::Frequency => "frequency",
            Kind::Flag => "true or false",
            Kind::Word | Kind::Mix | Kind::Passes | Kind::Text | Kind::Words => "text",
        };
        Self {
            key: setting.key(),
            section: Settings,
            kind,
            unit: setting.unit(),
            legal: Cow::Owned(legal(setting)),
            default: Cow::Owned(describe_default(setting)),
            meaning: describe_meaning(setting),
        }
    }
}

/// Describes the effect of a setting; for `passes`, also which passes each workload has.
fn describe_meaning(setting: Setting) -> Cow<'static, str> {
    if setting.kind() != Kind::Passes {
        return Cow::Borrowed(setting.meaning());
    }
    let mut choices: Vec<(String, &[Pass])> = Vec::new();
    for workload in Workload::ALL {
        let passes = workload.passes_allowed();
        match choices.iter_mut().find(|(_, known)| *known == passes) {
            _ if passes.is_empty() => {}
            Some((names, _)) => *names = format!("{names}, {workload}"),
            None => choices.push((workload.to_string(), passes)),
        }
    }
    let mut text = setting.meaning().to_owned();
    for (workloads, passes) in choices {
        let names: Vec<_> = passes.iter().map(|pass| pass.name()).collect();
        // Writing to a string can't fail.
        let _ = write!(text, " For {workloads}: {}.", names.join(", "));
    }
    Cow::Owned(text)
}

/// Describes a setting's default for people.
fn describe_default(setting: Setting) -> String {
    match (setting.default_rule(), setting.default_level()) {
        (Some(rule), _) => rule.to_owned(),
        (None, None | Some(Value::Words(_))) => "none".to_owned(),
        (None, Some(level)) => level::write(setting, &level).replace('"', ""),
    }
}

/// Names that other tools use for our keys.
///
/// **Source:** fio(1), the options of IOR, mdtest and iozone, nfs(5).
const ALIASES: &[(&str, &str)] = &[
    ("bs", "io_size"),
    ("blocksize", "io_size"),
    ("block_size", "io_size"),
    ("record_size", "io_size"),
    ("size", "file_size"),
    ("filesize", "file_size"),
    ("iodepth", "queue_depth"),
    ("qd", "queue_depth"),
    ("numjobs", "workers"),
    ("jobs", "workers"),
    ("nrfiles", "files"),
    ("items", "small_files"),
    ("n", "small_files"),
    ("-n", "small_files"),
    ("threads", "workers"),
    ("version", "nfsvers"),
    ("vers", "nfsvers"),
    ("nfs_version", "nfsvers"),
    ("protocol", "proto"),
    ("transport", "proto"),
    ("tls", "xprtsec"),
    ("readahead", "read_ahead"),
    ("rsize", "transfer_size"),
    ("wsize", "transfer_size"),
    ("rwmixread", "read_percent"),
    ("runtime", "duration"),
    ("ramp_time", "warmup"),
    ("odirect", "direct"),
    ("o_direct", "direct"),
    ("time", "duration"),
    ("rw", "kind"),
    ("loops", "trials"),
    ("iterations", "trials"),
    ("repetitions", "trials"),
    ("directory", "path"),
    ("filename", "path"),
    ("ioengine", "backend"),
    ("fsync", "durability"),
    ("fstype", "file_system"),
    ("filesystem", "file_system"),
    ("mkfs_options", "format_options"),
    ("hostname", "address"),
    ("sysctl", "server_sysctl"),
    ("read_ahead_kb", "bdi_read_ahead"),
];

/// Returns our key for a name from another tool.
pub fn key_elsewhere(name: &str) -> Option<&'static str> {
    let name = name.replace('-', "_");
    ALIASES.iter().find(|(theirs, _)| *theirs == name).map(|(_, ours)| *ours)
}

/// Maximum number of keys to list in a hint.
const LISTED_MAX: usize = 20;

/// Checks that `section` may contain `key`; the error lists the keys that it may contain.
pub(crate) fn check(section: Section, key: &str) -> Result<(), Fault> {
    let here: Vec<_> =
        reference().iter().filter(|doc| section.may_contain(doc)).map(|doc| doc.key).collect();
    if here.contains(&key) {
        return Ok(());
    }
    let fault = Fault::new(format!("unknown key `{key}` {}", section.within()))
        .hint(hint_for(section, key, &here));
    Err(fault)
}

fn hint_for(section: Section, key: &str, here: &[&str]) -> String {
    for (theirs, ours) in ALIASES {
        if *theirs == key && here.contains(ours) {
            return format!("it is called `{ours}` here");
        }
    }
    // Searched from the end: settings come last in the table and are the most likely meaning.
    if let Some(doc) = reference().iter().rev().find(|doc| doc.key == key) {
        let other = match doc.section {
            Settings => "in [factors] or a [[workload]]".to_owned(),
            Plan => "at top level, before any table".to_owned(),
            other => other.within(),
        };
        return format!("it belongs {other}{}", or_nearest(section, key, here));
    }
    match nearest_word(key, here) {
        Some(near) => format!("did you mean `{near}`?"),
        None if here.len() > LISTED_MAX => {
            "each flag of `dfsbench run --help` has its key here".to_owned()
        }
        None => format!("known keys: {}", here.join(", ")),
    }
}

/// Handles a key such as `target` in a `[[workload]]`: it exists in another section, but is also
/// one letter away from a key of this one.
fn or_nearest(section: Section, key: &str, here: &[&str]) -> String {
    match nearest_word(key, here) {
        Some(near) => format!("; {} you may mean `{near}`", section.within()),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::section::Section::Server;
    use crate::syntax::limits::{self, span};

    #[test]
    fn describes_limits_of_parser() {
        let legal_of = |section, name: &str| {
            let doc = reference().iter().find(|doc| doc.section == section && doc.key == name);
            doc.unwrap().legal.as_ref()
        };
        assert_eq!(legal_of(Plan, "trials"), span(limits::TRIALS, &|n| n.to_string()));
        assert_eq!(legal_of(Server, "memory"), span(limits::SERVER_MEMORY, &limits::show_size));
        assert_eq!(legal_of(Server, "threads"), span(limits::SERVER_THREADS, &|n| n.to_string()));
        assert_eq!(legal_of(Settings, "workers"), "1 to 1024");
        assert_eq!(legal_of(Settings, "mtu"), "576 to 65535, or \"unchanged\"");
    }

    #[test]
    fn describes_backends_from_table() {
        let doc_of = |section, key: &str| {
            let is_wanted = |doc: &&KeyDoc| doc.section == section && doc.key == key;
            reference().iter().find(is_wanted).unwrap()
        };
        let backends = doc_of(Section::Target, "backend");
        for target in Target::PLAIN {
            let row = target.row();
            let entry = format!("{}: {}", row.usual_name, row.backends[0]);
            assert!(backends.default.contains(&entry), "{entry}");
        }
        assert!(backends.legal.ends_with("server: posix, uring, nfs, tcp"));
        let passes = &doc_of(Settings, "passes").meaning;
        for workload in Workload::ALL {
            let is_named = passes.contains(&format!("{workload}:"))
                || passes.contains(&format!("{workload},"));
            assert_eq!(is_named, !workload.passes_allowed().is_empty(), "{workload}: {passes}");
        }
    }

    #[test]
    fn has_unique_keys_per_section() {
        for (index, doc) in reference().iter().enumerate() {
            let again = |other: &KeyDoc| (other.section, other.key) == (doc.section, doc.key);
            assert!(!reference()[index + 1..].iter().any(again), "{}", doc.key);
            assert!(!doc.meaning.is_empty() && !doc.default.is_empty(), "{}", doc.key);
        }
        for (theirs, ours) in ALIASES {
            assert!(reference().iter().any(|doc| doc.key == *ours), "{theirs}");
        }
    }

    #[test]
    fn the_nearest_word_is_near() {
        let known = ["io_size", "file_size", "files", "workers"];
        assert_eq!(nearest_word("io_szie", &known), Some("io_size"));
        assert_eq!(nearest_word("io-size", &known), Some("io_size"));
        assert_eq!(nearest_word("worker", &known), Some("workers"));
        assert_eq!(nearest_word("colour", &known), None);
        assert_eq!((nearest_word("x", &[]), nearest_word("x", &["y"])), (None, None));
    }
}

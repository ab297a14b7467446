//! Contenders are the systems that a plan compares, along with everything else that differs.
//!
//! [`contender_of`] returns the contender of a run, and [`differences`] lists what makes a
//! comparison unfair. It only needs the runs, so a plan can be refused before anything is measured.

use std::collections::{BTreeMap, BTreeSet};

use crate::runs::spec::RunSpec;
use crate::runs::workload::Workload;
use crate::setting::Setting;
use crate::systems::lab::LabSpec;
use crate::systems::system::Recipe;
use crate::targets::target::Target;
use crate::text::words::words;

words! {
    /// How to handle plans whose contenders differ in more than the system.
    Fairness {
        /// List the differences next to the results.
        Named = "named",
        /// Refuse such a plan.
        Strict = "strict",
    }
}

/// Shown for a setting that a contender doesn't have.
const NOT_APPLICABLE: &str = "–";

/// Settings that define the contender itself.
const OF_THE_SYSTEM: [&str; 2] = ["target", "system_settings"];

/// A difference between contenders besides the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContenderDifference {
    /// The setting, or a property of the access method.
    pub what: String,
    /// Values of each contender, in the order of the contenders; several if it is a factor.
    pub values: Vec<Vec<String>>,
}

impl ContenderDifference {
    /// Formats the values of each contender, in the order of the contenders.
    pub fn shown(&self) -> Vec<String> {
        self.values
            .iter()
            .map(|values| match values.as_slice() {
                [] => NOT_APPLICABLE.to_owned(),
                values => values.join(", "),
            })
            .collect()
    }

    /// Returns true if no contender has several values, so it is not a factor.
    pub fn is_single(&self) -> bool {
        self.values.iter().all(|values| values.len() <= 1)
    }
}

/// Returns the name of the contender that a run measures: its target, plus the settings of its
/// system.
pub fn contender_of(run: &RunSpec) -> String {
    if let Some(lab) = &run.lab
        && lab.system.is_some()
        && !lab.system_settings.is_empty()
    {
        return format!("{} {}", run.target_name, Recipe::show_settings(&lab.system_settings));
    }
    run.target_name.clone()
}

/// Returns the distinct contenders of some runs, in order.
pub fn contenders<'r>(runs: impl IntoIterator<Item = &'r RunSpec>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for run in runs {
        let name = contender_of(run);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// Returns true if the runs compare systems: at least two contenders, one of which dfsbench sets up
/// from a recipe or mounts.
pub fn compares_systems<'r>(runs: impl IntoIterator<Item = &'r RunSpec> + Clone) -> bool {
    let mut has_system = false;
    for run in runs.clone() {
        if let Some(lab) = &run.lab {
            has_system |= lab.system.is_some() || lab.site_mount.is_some();
        }
    }
    has_system && contenders(runs).len() > 1
}

/// Returns the differences between the contenders of some runs besides the system, in display
/// order.
pub fn differences<'r>(
    runs: impl IntoIterator<Item = &'r RunSpec> + Clone,
) -> Vec<ContenderDifference> {
    let names = contenders(runs.clone());
    let mut properties: Vec<String> = Vec::new();
    // Of each contender and property all values, in the order of their names or numbers.
    let mut values: BTreeMap<(String, usize), BTreeSet<String>> = BTreeMap::new();
    // Properties with a value other than the default.
    let mut set: BTreeSet<String> = BTreeSet::new();
    for run in runs {
        let name = contender_of(run);
        let Some(number) = names.iter().position(|known| *known == name) else { continue };
        // An empty value is shown like a missing one.
        for (property, value) in
            properties_of(run).into_iter().filter(|(_, value)| !value.is_empty())
        {
            if !properties.iter().any(|known| known == property) {
                properties.push(property.to_owned());
            }
            if !run.is_default(property, &value) || property == Setting::FileSystem.key() {
                set.insert(property.to_owned());
            }
            values.entry((property.to_owned(), number)).or_default().insert(value);
        }
    }
    let mut found = Vec::new();
    for what in properties {
        let mut of_each: Vec<Vec<String>> = Vec::with_capacity(names.len());
        for number in 0..names.len() {
            let values = values.remove(&(what.clone(), number)).unwrap_or_default();
            let mut values: Vec<String> = values.into_iter().collect();
            values.sort_by_key(|value| value.parse::<u64>().ok());
            of_each.push(values);
        }
        let differs = of_each.iter().any(|values| *values != of_each[0]);
        // Which contenders have a default follows from their access, which is listed.
        if differs && (set.contains(&what) || !is_same_where_given(&of_each)) {
            found.push(ContenderDifference { what, values: of_each });
        }
    }
    found
}

/// Returns true if all contenders that have a property have the same values.
fn is_same_where_given(of_each: &[Vec<String>]) -> bool {
    let mut given = of_each.iter().filter(|values| !values.is_empty());
    let first = given.next();
    given.all(|values| Some(values) == first)
}

/// Returns the properties of a contender: those of its access method, then its settings.
fn properties_of(run: &RunSpec) -> Vec<(&'static str, String)> {
    let mut properties = vec![
        ("access", access(run)),
        ("client cache", client_cache(run).to_owned()),
        ("created files", created_files(run).to_owned()),
        ("ops in flight", ops_in_flight(run)),
        ("copies", copies(run.lab.as_deref())),
        ("server hosts", server_hosts(run)),
    ];
    let mut left_out: Vec<&str> = OF_THE_SYSTEM.to_vec();
    for setting in Setting::ALL {
        // A setting without a value doesn't differ from a system that lacks the setting.
        if setting.applies(run) && setting.has_no_words(run) {
            left_out.push(setting.key());
        }
    }
    for (name, value) in run.settings() {
        if !left_out.contains(&name) {
            properties.push((name, value));
        }
    }
    properties
}

/// Returns how files are accessed.
fn access(run: &RunSpec) -> String {
    if run.target.nfs().is_some() {
        let is_again = run.lab.as_ref().is_some_and(|lab| lab.is_re_exported());
        let of = if is_again { ", re-exported by the kernel's server" } else { "" };
        return format!("NFS by dfsbench's own client{of}");
    }
    let Some(lab) = &run.lab else {
        return match &run.target {
            Target::Directory { .. } | Target::Directories { .. } => "a directory".to_owned(),
            other => other.row().usual_name.to_owned(),
        };
    };
    if lab.is_re_exported() {
        "NFS, re-exported by the kernel's server".to_owned()
    } else if !lab.is_served() {
        "the server's own file system".to_owned()
    } else if lab.mounts_nfs() {
        "NFS mounted by the kernel".to_owned()
    } else if let Some(mount) = &lab.site_mount {
        format!("{} mounted by the kernel", mount.kind)
    } else if lab.is_by_fuse() {
        "FUSE".to_owned()
    } else {
        "mounted by the kernel".to_owned()
    }
}

/// Returns what the client caches.
fn client_cache(run: &RunSpec) -> &'static str {
    if run.target.nfs().is_some() {
        return "none";
    }
    let has_program = run.lab.as_ref().is_some_and(|lab| lab.is_mounted() && lab.is_by_fuse());
    match (run.direct, has_program) {
        (true, false) => "none (O_DIRECT)",
        (true, true) => "the FUSE program's",
        (false, false) => "page cache",
        (false, true) => "page cache and the FUSE program's",
    }
}

/// Describes the promise for a small file once its creation counts as done; empty for runs that
/// create none by name.
///
/// **Source:** RFC 1813, 3.3.7 and 4.8: WRITE with FILE_SYNC is on stable storage before the reply,
/// and the kernel's client writes back and commits when a file is closed. close(2) of other file
/// systems promises nothing.
fn created_files(run: &RunSpec) -> &'static str {
    let creates = [Workload::Metadata, Workload::Transactions, Workload::Developer];
    if !creates.contains(&run.workload) {
        ""
    } else if run.target.nfs().is_some() {
        "stable on reply (FILE_SYNC)"
    } else if run.lab.as_ref().is_some_and(|lab| lab.mounts_nfs()) {
        "closed, so committed by the NFS client"
    } else {
        "closed, not synced"
    }
}

/// Returns the most ops that all workers together have in flight; empty for work of commands and
/// tools, which have their own ways.
fn ops_in_flight(run: &RunSpec) -> String {
    if run.workload.is_external() || run.workload == Workload::App {
        return String::new();
    }
    let depth = if Setting::QueueDepth.applies(run) { run.queue_depth } else { 1 };
    (u64::from(run.clients()) * u64::from(depth)).to_string()
}

/// Says how many copies of written data there are on different servers.
fn copies(lab: Option<&LabSpec>) -> String {
    if let Some(lab) = lab
        && let Some(system) = &lab.system
        && let Ok(copies) = system.recipe.copies(&lab.system_settings)
    {
        return copies;
    }
    "1".to_owned()
}

fn server_hosts(run: &RunSpec) -> String {
    match (&run.lab, run.target.nfs()) {
        (Some(lab), _) => {
            let names: Vec<&str> = lab.servers().iter().map(|host| host.name.as_str()).collect();
            names.join(" ")
        }
        (None, Some(nfs)) if nfs.embedded => "this process".to_owned(),
        (None, Some(nfs)) => nfs.host.clone(),
        (None, None) => "this host".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::spec::Durability;
    use crate::setting::Value;
    use crate::systems::lab::{Host, LabSpec, System};
    use crate::systems::system::{AccessWays, FuseAccess, NfsAccess};
    use crate::targets::nfs::NfsTarget;
    use crate::targets::target::BackendKind;
    use crate::testing::RunBuilder;

    /// Returns a run on a system from a recipe, through our own client or through its program.
    fn run(name: &str, by_fuse: bool, copies: &str) -> RunSpec {
        let mut access = AccessWays { nfs: Some(NfsAccess::default()), ..AccessWays::default() };
        if by_fuse {
            access = AccessWays { fuse: Some(FuseAccess::default()), ..AccessWays::default() };
        }
        let recipe =
            Recipe { name: name.into(), copies: copies.into(), access, ..Recipe::default() };
        let mut lab = LabSpec::new(Host::local("s"), Host::local("c"));
        lab.own_client = !by_fuse;
        lab.system = Some(Box::new(System { source: name.into(), recipe, ..System::default() }));
        let (target, backend) = if by_fuse {
            (Target::Directory { path: "/m".into() }, BackendKind::Posix)
        } else {
            (Target::Nfs(NfsTarget::new("s", "/e")), BackendKind::Nfs)
        };
        let mut run = RunBuilder::new(Workload::Stream)
            .target(target)
            .backend(backend)
            .lab(Some(Box::new(lab)))
            .build();
        run.target_name = name.into();
        run
    }

    fn found(runs: &[RunSpec]) -> Vec<(String, Vec<String>)> {
        let found = differences(runs);
        found.into_iter().map(|one| (one.what.clone(), one.shown())).collect()
    }

    #[test]
    fn finds_no_difference_in_equal_systems() {
        let runs = [run("a", false, ""), run("b", false, "")];
        assert_eq!(contenders(&runs), ["a", "b"]);
        assert!(compares_systems(&runs));
        assert_eq!(found(&runs), []);
        assert!(!compares_systems(&runs[..1]));
    }

    #[test]
    fn lists_differences_of_contenders() {
        let mut other = run("b", true, "2");
        other.durability = Durability::Sync;
        let found = found(&[run("a", false, ""), other]);
        assert!(found.iter().all(|(what, _)| what != "server hosts"));
        let kinds = ["access", "client cache", "copies", "durability", "backend"];
        let rows: Vec<String> = found
            .iter()
            .filter(|(what, _)| kinds.contains(&what.as_str()))
            .map(|(what, values)| format!("{what}: {}", values.join(" | ")))
            .collect();
        insta::assert_snapshot!(rows.join("\n"), @"
        access: NFS by dfsbench's own client | FUSE
        client cache: none | page cache and the FUSE program's
        copies: 1 | 2
        backend: nfs | posix
        durability: none | sync
        ");
    }

    #[test]
    fn states_promises_and_depths() {
        let with = |by_fuse: bool, workload: Workload| {
            let mut run = run(if by_fuse { "b" } else { "a" }, by_fuse, "");
            run.workload = workload;
            run.workers = 4;
            run.queue_depth = 8;
            run
        };
        let values = |workload: Workload, what: &str| {
            let found = found(&[with(false, workload), with(true, workload)]);
            found.into_iter().find(|(known, _)| known == what).map(|(_, values)| values.join(" | "))
        };
        assert_eq!(values(Workload::Stream, "ops in flight").unwrap(), "32 | 4");
        assert_eq!(values(Workload::Stream, "created files"), None);
        insta::assert_snapshot!(
            values(Workload::Metadata, "created files").unwrap(),
            @"stable on reply (FILE_SYNC) | closed, not synced"
        );
        // Several depths come in the order of their numbers.
        let mut other = with(false, Workload::Stream);
        other.queue_depth = 1;
        let both = [with(false, Workload::Stream), other, with(true, Workload::Stream)];
        let both = found(&both);
        let (_, shown) = both.iter().find(|(what, _)| what == "ops in flight").unwrap();
        assert_eq!(shown, &["4, 32", "4"]);
    }

    #[test]
    fn omits_defaults_of_one_access() {
        let with = |name: &str, by_fuse: bool, read_ahead: u64| {
            let mut run = run(name, by_fuse, "");
            assert!(by_fuse || Setting::ReadAhead.put(&mut run, Value::Number(read_ahead)));
            run
        };
        let lists = |runs: &[RunSpec]| found(runs).iter().any(|(what, _)| what == "read_ahead");
        // The FUSE program has none.
        assert!(!lists(&[with("a", false, 0), with("b", true, 0), with("c", false, 0)]));
        assert!(lists(&[with("a", false, 4), with("b", true, 0)]));
        assert!(lists(&[with("a", false, 0), with("b", true, 0), with("c", false, 4)]));
    }

    #[test]
    fn separates_settings_by_contender() {
        let with = |layout: &str, io_size: u32| {
            let mut run = run("a", false, "");
            run.io_size_bytes = io_size;
            let lab = run.lab.as_mut().unwrap();
            lab.system_settings = vec![("layout".into(), layout.into())];
            run
        };
        let runs = [with("one", 1), with("two", 1), with("one", 2), with("two", 2)];
        assert_eq!(contenders(&runs), ["a layout=one", "a layout=two"]);
        assert_eq!(found(&runs), []);
        // A factor level used for only one of them is a difference.
        let io_size = found(&runs[..3]);
        assert_eq!(io_size[0].0, "io_size");
    }
}

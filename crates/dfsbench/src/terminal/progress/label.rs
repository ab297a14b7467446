//! Names of runs for progress output: target, backend, workload and the levels of the factors.
//!
//! [`Labels`] determines which settings distinguish the runs of a plan; [`RunLabel`] is the name of
//! one run, such as `nfs stream write v4.1 128 KiB qd 4`.

use std::collections::HashMap;
use std::fmt;

use model::contender::contender_of;
use model::setting::Setting;
use model::{Pass, RunSpec};
use plan::Plan;

/// Settings that are already part of the first words of every name.
const IN_WORK: [&str; 3] = ["target", "backend", "workload"];

/// Settings that are derived from others unless a plan sets them.
const FOLLOWING: [&str; 1] = ["files"];

/// Settings that distinguish the runs of a plan, in the order in which they appear in names.
#[derive(Debug, Default)]
pub(super) struct Labels(Vec<&'static str>);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RunLabel {
    /// Target, backend and workload.
    work: String,
    /// Levels of the factors; empty if the work alone identifies the run.
    levels: String,
}

impl Labels {
    /// Finds the settings that differ between runs of the same work.
    ///
    /// A setting that is determined by the work or by another setting, such as the default queue
    /// depth or a number of files, adds nothing to a name.
    pub(super) fn from_plan(plan: &Plan) -> Self {
        let mut names = plan.varying();
        names.retain(|name| !IN_WORK.contains(name));
        let is_of_target = |name: &str| Setting::from_key(name).is_some_and(Setting::is_of_targets);
        // Settings of the connection to a server come first, as people would say it; settings that
        // may be derived from others come last.
        names.sort_by_key(|name| (!is_of_target(name), FOLLOWING.contains(name)));
        let mut runs = Vec::new();
        for run in &plan.runs {
            let mut levels: HashMap<_, _> = run.settings().into_iter().collect();
            levels.retain(|name, _| names.contains(name));
            runs.push(Levels { work: work_label(run), levels });
        }
        let mut told: Vec<&'static str> = Vec::new();
        for name in names {
            let mut keys = std::iter::once(None).chain(told.iter().copied().map(Some));
            if !keys.any(|key| is_decided(&runs, name, key)) {
                told.push(name);
            }
        }
        Self(told)
    }

    pub(super) fn label(&self, spec: &RunSpec) -> RunLabel {
        let settings: HashMap<_, _> = spec.settings().into_iter().collect();
        let mut levels = Vec::new();
        for name in &self.0 {
            if let Some(level) = settings.get(name).filter(|level| !level.is_empty()) {
                levels.push(short_level(name, level));
            }
        }
        RunLabel { work: work_label(spec), levels: levels.join(" ") }
    }
}

/// The work of a run, and the levels that differ between runs.
struct Levels {
    work: String,
    levels: HashMap<&'static str, String>,
}

/// Returns true if the work, together with the level of `key` if given, determines the level of
/// `name`.
fn is_decided(runs: &[Levels], name: &str, key: Option<&str>) -> bool {
    let mut known: HashMap<(&str, Option<&String>), &String> = HashMap::new();
    runs.iter().all(|Levels { work, levels }| {
        let Some(level) = levels.get(name) else { return true };
        let by = key.and_then(|key| levels.get(key));
        *known.entry((work, by)).or_insert(level) == level
    })
}

impl RunLabel {
    /// Target, backend and workload.
    pub(super) fn work(&self) -> &str {
        &self.work
    }

    /// Returns the name of a pass of the run. Workloads with a single kind of pass omit it.
    pub(super) fn with_pass(&self, pass: Pass) -> String {
        if pass.is_timed() || matches!(pass, Pass::App | Pass::Boot) {
            return self.to_string();
        }
        Self { work: format!("{} {pass}", self.work), levels: self.levels.clone() }.to_string()
    }
}

impl fmt::Display for RunLabel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.work)?;
        if self.levels.is_empty() { Ok(()) } else { write!(f, " {}", self.levels) }
    }
}

/// Names the work of a run: contender, backend if it differs, and workload.
pub(crate) fn work_label(spec: &RunSpec) -> String {
    let contender = contender_of(spec);
    let workload = spec.workload.name();
    if contender == spec.backend.name() {
        return format!("{contender} {workload}");
    }
    format!("{contender} {} {workload}", spec.backend.name())
}

/// Abbreviates a level the way engineers do; most need the name of their setting.
fn short_level(name: &str, level: &str) -> String {
    match name {
        "nfsvers" => format!("v{level}"),
        "queue_depth" => format!("qd {level}"),
        "io_size" | "proto" | "run" => level.to_owned(),
        _ => format!("{name} {level}"),
    }
}

#[cfg(test)]
mod tests {
    use model::testing::RunBuilder;
    use model::{BackendKind, Workload};
    use plan::{RawPlan, Surroundings};

    use super::*;

    fn resolve(toml: &str) -> Plan {
        let raw = RawPlan::parse(toml, "test").unwrap();
        let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 1, job: None };
        Plan::resolve(&raw, &around).unwrap()
    }

    #[test]
    fn names_levels_of_factors() {
        let plan = resolve(
            "name = \"p\"\n[[target]]\nname = \"nfs\"\nurl = \"nfs://127.0.0.1/export\"\n\
             [[workload]]\nkind = \"stream\"\nio_size = [\"128KiB\", \"1MiB\"]\n\
             nfsvers = [\"3\", \"4.1\"]\nqueue_depth = [1, 4]\nworkers = [1, 2]\n",
        );
        let labels = Labels::from_plan(&plan);
        let mut names: Vec<String> =
            plan.runs.iter().map(|run| labels.label(run).with_pass(Pass::Write)).collect();
        // The number of files is determined by the number of workers.
        let name = "nfs stream write v4.1 workers 2 128 KiB qd 4";
        assert!(names.iter().any(|known| known == name), "{names:?}");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 16);
    }

    #[test]
    fn leaves_out_what_the_work_decides() {
        let plan = resolve(
            "name = \"p\"\n[[target]]\nname = \"null\"\nnull = true\n\
             [[workload]]\nkind = \"stream\"\n[[workload]]\nkind = \"mixed\"\n",
        );
        assert!(plan.varying().contains(&"io_size"));
        let labels = Labels::from_plan(&plan);
        let names: Vec<String> =
            plan.runs.iter().map(|run| labels.label(run).to_string()).collect();
        assert_eq!(names, ["null stream", "null mixed"]);
        assert_eq!(labels.label(&plan.runs[1]).with_pass(Pass::Mix), "null mixed");
    }

    #[test]
    fn abbreviates_only_settings_that_exist() {
        for name in ["nfsvers", "queue_depth", "io_size", "proto"] {
            assert!(Setting::from_key(name).is_some(), "{name}");
        }
    }

    #[test]
    fn labels_systems_by_their_settings() {
        let mut spec = RunBuilder::new(Workload::Stream).backend(BackendKind::Null).build();
        assert_eq!(work_label(&spec), "null stream");
        "gluster".clone_into(&mut spec.target_name);
        assert_eq!(work_label(&spec), "gluster null stream");
        let host = |name: &str| model::Host::local(name);
        let mut lab = model::LabSpec::new(host("server"), host("client"));
        lab.system = Some(Box::default());
        lab.system_settings = vec![("layout".to_owned(), "replica".to_owned())];
        spec.lab = Some(Box::new(lab));
        assert_eq!(work_label(&spec), "gluster layout=replica null stream");
    }
}

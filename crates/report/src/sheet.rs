//! The view that all formats share: rows, the settings that tell them apart, the caveats.
//!
//! [`Sheet`] is the principal type. A setting becomes a column unless it is the same everywhere,
//! or target, workload or one column decide it; it is then stated once beside the table, with
//! what it depends on (`queue_depth 1 (dir), 8 (nfs)`).

use std::collections::{BTreeMap, HashMap, HashSet};

use model::units::Size;
use model::{Campaign, CaveatCode, Pass, Run};
use stats::{Extent, Judged, judge};

use crate::marks;

pub use crate::row::Row;

/// Shown where a setting does not apply.
pub const NOT_APPLICABLE: &str = "–";

/// A campaign, judged and arranged.
pub struct Sheet<'a> {
    /// The measured campaign.
    pub campaign: &'a Campaign,
    /// Names of the settings, beside target and workload, that tell rows apart.
    pub columns: Vec<&'static str>,
    /// All other settings with their values: `workers` and `2`, or `1 (dir), 8 (nfs)`.
    pub stated: Vec<(&'static str, String)>,
    /// One row for each run and pass.
    pub rows: Vec<Row<'a>>,
    /// Each caveat that some row has, worst first.
    pub caveats: Vec<Explained>,
}

/// A caveat with its worst case.
pub struct Explained {
    /// The code of the caveat.
    pub code: CaveatCode,
    /// How many rows have it.
    pub rows: usize,
    /// Name of the row with the worst case.
    pub place: String,
    /// The numbers of the worst case.
    pub evidence: String,
}

impl<'a> Sheet<'a> {
    /// Judges and arranges a campaign.
    pub fn of(campaign: &'a Campaign) -> Self {
        let settings = Settings::of(campaign);
        let columns = settings.columns();
        let stated = settings.stated(&columns);
        let mut rows = Vec::new();
        for (run, values) in campaign.runs.iter().zip(&settings.runs) {
            let shown = |name: &&str| {
                values.get(*name).cloned().unwrap_or_else(|| NOT_APPLICABLE.to_owned())
            };
            let values: Vec<String> = columns.iter().map(shown).collect();
            for judged in judge::run(run) {
                rows.push(Row { run, values: values.clone(), judged, mark: None });
            }
        }
        let marks = marks::of(&rows);
        for (row, mark) in rows.iter_mut().zip(marks) {
            row.mark = mark;
        }
        let mut sheet = Self { campaign, columns, stated, rows, caveats: Vec::new() };
        sheet.caveats = sheet.explained();
        sheet
    }

    /// The settings that tell a row apart: `io_size 64 KiB, workers 4`; empty where target and
    /// workload do.
    pub fn factors(&self, row: &Row<'_>) -> String {
        self.factors_without(row, &[])
    }

    /// The settings that tell a row apart, but for some.
    pub fn factors_without(&self, row: &Row<'_>, unsaid: &[&str]) -> String {
        let shown = self.columns.iter().zip(&row.values).filter(|(_, v)| *v != NOT_APPLICABLE);
        let said = shown.filter(|(name, _)| !unsaid.contains(name));
        said.map(|(name, value)| format!("{name} {value}")).collect::<Vec<_>>().join(", ")
    }

    /// The whole name of a row: `nfs stream write, workers 4`.
    pub fn name(&self, row: &Row<'_>) -> String {
        self.name_without(row, &[])
    }

    /// The name of a row, but for some settings.
    pub fn name_without(&self, row: &Row<'_>, unsaid: &[&str]) -> String {
        let factors = self.factors_without(row, unsaid);
        let comma = if factors.is_empty() { "" } else { ", " };
        format!("{} {}{comma}{factors}", row.run.spec.target_name, row.pass_name())
    }

    /// The kinds of pass that have rows, each with its rows, in order of appearance.
    pub fn groups(&self) -> Vec<(String, Pass, Vec<&Row<'a>>)> {
        let mut groups: Vec<(String, Pass, Vec<&Row<'a>>)> = Vec::new();
        for row in &self.rows {
            let name = row.pass_name();
            match groups.iter_mut().find(|(known, ..)| *known == name) {
                Some((.., rows)) => rows.push(row),
                None => groups.push((name, row.judged.pass, vec![row])),
            }
        }
        groups
    }

    fn explained(&self) -> Vec<Explained> {
        let mut found: BTreeMap<_, (u32, Explained)> = BTreeMap::new();
        for row in &self.rows {
            for caveat in &row.judged.caveats {
                let badness = caveat_rank(caveat.extent, &row.judged);
                let key = (std::cmp::Reverse(caveat.code.severity()), caveat.code);
                let rows = found.get(&key).map_or(0, |(_, known)| known.rows) + 1;
                let explained = || Explained {
                    code: caveat.code,
                    rows,
                    place: self.name(row),
                    evidence: caveat.evidence_line(),
                };
                match found.get_mut(&key) {
                    Some((worst, known)) if badness <= *worst => known.rows = rows,
                    _ => {
                        found.insert(key, (badness, explained()));
                    }
                }
            }
        }
        found.into_values().map(|(_, explained)| explained).collect()
    }
}

/// Orders the cases of one caveat: more trials are worse; among whole runs, the wider interval.
fn caveat_rank(extent: Extent, judged: &Judged) -> u32 {
    match extent {
        Extent::Trials { seen, .. } => seen,
        Extent::Run => {
            let share = judged.rate.as_ref().and_then(stats::Summary::half_width_share);
            (share.unwrap_or(0.0) * 1e6) as u32
        }
    }
}

/// The settings of all runs, by name.
struct Settings {
    names: Vec<&'static str>,
    runs: Vec<BTreeMap<&'static str, String>>,
    /// Those that some run has otherwise than a run where nobody asks for it.
    asked_for: HashSet<&'static str>,
}

/// Shows the transfer size that was granted beside the one that was asked for, where they differ.
fn show_granted(run: &Run, settings: &mut [(&'static str, String)]) {
    let Some(asked) = run.spec.transfer_size_bytes else { return };
    let asked = Size(asked.into()).to_string();
    let effective = |name: &str| {
        let facts = run.trials.iter().flat_map(|trial| &trial.facts);
        let mut named = facts.filter(|fact| fact.scope == "target" && fact.name == name);
        named.next().map_or_else(|| asked.clone(), |fact| fact.value.clone())
    };
    let granted = match [effective("rsize"), effective("wsize")] {
        [read, write] if read == asked && write == asked => return,
        [read, write] if read == write => read,
        [read, write] => format!("{read} read, {write} write"),
    };
    for (_, value) in settings.iter_mut().filter(|(name, _)| *name == "transfer_size") {
        *value = format!("{asked} (granted {granted})");
    }
}

/// Settings that lead every table.
const LEADING: [&str; 2] = ["target", "workload"];

/// Settings that follow the number of workers and hosts where nobody sets them.
const FOLLOWING: [&str; 1] = ["files"];

impl Settings {
    fn of(campaign: &Campaign) -> Self {
        let mut names = Vec::new();
        let mut runs = Vec::new();
        let mut asked_for = HashSet::new();
        for run in &campaign.runs {
            let mut settings = run.spec.settings();
            show_granted(run, &mut settings);
            for (name, value) in &settings {
                if !run.spec.is_unset(name, value) {
                    asked_for.insert(*name);
                }
                if !names.contains(name) && !LEADING.contains(name) {
                    names.push(*name);
                }
            }
            runs.push(settings.into_iter().collect());
        }
        Self { names, runs, asked_for }
    }

    /// Adds a column for each setting that nothing decides so far; what follows from others
    /// comes last, so that it is them that are shown.
    fn columns(&self) -> Vec<&'static str> {
        let mut columns = Vec::new();
        let (last, first): (Vec<&str>, Vec<&str>) =
            self.names.iter().partition(|name| FOLLOWING.contains(*name));
        for name in first.into_iter().chain(last) {
            if self.decided(name, &columns).is_none() {
                columns.push(name);
            }
        }
        let place = |name: &&'static str| self.names.iter().position(|known| known == name);
        columns.sort_by_key(place);
        columns
    }

    fn stated(&self, columns: &[&'static str]) -> Vec<(&'static str, String)> {
        let unstated = |name: &&str| !columns.contains(name) && self.asked_for.contains(name);
        let others = self.names.iter().filter(|name| unstated(name));
        others.map(|name| (*name, self.describe(name, columns))).collect()
    }

    /// A setting's values with what decides them, where that is simple enough to say: nothing,
    /// the target, the workload, both of them, or one column.
    fn decided(&self, name: &str, columns: &[&'static str]) -> Option<Vec<(String, String)>> {
        let single = |key: &&'static str| self.grouped(name, &[key]);
        self.grouped(name, &[])
            .or_else(|| LEADING.iter().find_map(single))
            .or_else(|| self.grouped(name, &LEADING))
            .or_else(|| columns.iter().find_map(single))
    }

    fn describe(&self, name: &'static str, columns: &[&'static str]) -> String {
        let mut by_value: Vec<(String, Vec<String>)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        for (key, value) in self.decided(name, columns).unwrap_or_default() {
            let place = *places.entry(value.clone()).or_insert(by_value.len());
            match by_value.get_mut(place) {
                Some((_, keys)) => keys.push(key),
                None => by_value.push((value, vec![key])),
            }
        }
        let shown = by_value.iter().map(|(value, keys)| match keys.join(", ") {
            none if none.is_empty() => value.clone(),
            keys => format!("{value} ({keys})"),
        });
        shown.collect::<Vec<_>>().join(", ")
    }

    /// The value of a setting for each combination of at most two keys; `None` when they don't
    /// decide it. Runs to which the setting does not apply are left out. Target and workload go by
    /// their values alone, other keys by name and value.
    fn grouped(&self, name: &str, keys: &[&'static str]) -> Option<Vec<(String, String)>> {
        debug_assert!(keys.len() <= 2, "{keys:?}");
        let mut order = Vec::new();
        let mut groups = HashMap::new();
        for run in &self.runs {
            let Some(value) = run.get(name) else { continue };
            let level = |number: usize| keys.get(number).and_then(|key| run.get(key));
            let group = (level(0), level(1));
            match groups.get(&group) {
                Some(known) if *known == value => {}
                Some(_) => return None,
                None => {
                    groups.insert(group, value);
                    order.push(group);
                }
            }
        }
        let part = |(key, level): (&&'static str, Option<&String>)| {
            let level = level?;
            Some(if LEADING.contains(key) { level.clone() } else { format!("{key} {level}") })
        };
        let named = |group: (Option<&String>, Option<&String>)| {
            let parts = keys.iter().zip([group.0, group.1]).filter_map(part);
            (parts.collect::<Vec<_>>().join(" "), groups[&group].clone())
        };
        Some(order.into_iter().map(named).collect())
    }
}

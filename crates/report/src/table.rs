//! The view that all formats share: rows, the settings that tell them apart, the caveats.
//!
//! [`Sheet`] is the principal type. A setting becomes a column unless it is the same everywhere,
//! or target, workload or one column decide it; it is then stated once beside the table, with
//! what it depends on (`queue_depth 1 (dir), 8 (nfs)`).

pub(crate) mod best_and_worst;
pub(crate) mod columns;
pub(crate) mod joined_campaigns;
pub(crate) mod pivot;
pub(crate) mod rate_metric;
pub(crate) mod row;
pub(crate) mod setting_number;
pub(crate) mod title;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use model::units::Size;
use model::{Campaign, CaveatCode, Conclusion, Pass, Run, Severity};
use stats::{Extent, Judged, judge};

use joined_campaigns::{JoinedCampaigns, Property, declared_conclusions};

pub(crate) use row::Row;

/// Shown where a setting does not apply.
pub(crate) const NOT_APPLICABLE: &str = "–";

/// A campaign, judged and arranged.
pub(crate) struct Sheet<'a> {
    /// The measured campaign.
    pub campaign: &'a Campaign,
    /// Names of the settings, beside target and workload, that tell rows apart.
    pub columns: Vec<&'a str>,
    /// All other settings with their values: `workers` and `2`, or `1 (dir), 8 (nfs)`.
    pub stated: Vec<(&'a str, String)>,
    /// The set of campaigns, where the runs are those of several, or properties were requested.
    pub joined: Option<&'a JoinedCampaigns>,
    /// One row for each run and pass.
    pub rows: Vec<Row<'a>>,
    /// Each caveat that some row has, worst first; twice where it is a mere note in other rows.
    pub caveats: Vec<CaveatSummary>,
}

/// A caveat with its worst case.
pub(crate) struct CaveatSummary {
    /// The code of the caveat.
    pub code: CaveatCode,
    /// How much it takes from the figures of these rows.
    pub severity: Severity,
    /// How many rows have it, as severe as that.
    pub rows: usize,
    /// Name of the row with the worst case.
    pub place: String,
    /// The numbers of the worst case.
    pub evidence: String,
    /// How to avoid it there.
    pub advice: String,
}

impl CaveatSummary {
    /// Whether it was seen, but does not mark the rows that have it.
    pub(crate) fn is_minor(&self) -> bool {
        self.severity < self.code.severity()
    }
}

impl<'a> Sheet<'a> {
    /// Judges and arranges a campaign.
    pub(crate) fn from_campaign(campaign: &'a Campaign) -> Self {
        Self::arrange(campaign, None)
    }

    /// Judges and arranges the runs of several campaigns together.
    pub(crate) fn from_joined(joined: &'a JoinedCampaigns) -> Self {
        // One campaign by itself is reported as ever.
        let is_plain = joined.members().len() == 1 && joined.properties().is_empty();
        Self::arrange(joined.campaign(), if is_plain { None } else { Some(joined) })
    }

    fn arrange(campaign: &'a Campaign, joined: Option<&'a JoinedCampaigns>) -> Self {
        let properties = joined.map_or(&[][..], JoinedCampaigns::properties);
        let settings = Settings::new(campaign, properties);
        let columns = settings.columns();
        let stated = settings.stated(&columns);
        let mut rows = Vec::new();
        for (number, run) in campaign.runs.iter().enumerate() {
            let values = settings.values(number, &columns);
            for judged in judge::run(run) {
                rows.push(Row { run, values: values.clone(), judged, mark: None });
            }
        }
        // A mark depends on all rows of a pass, so marks are set when the rows are complete.
        for (number, mark) in best_and_worst::mark_rows(&rows).into_iter().enumerate() {
            rows[number].mark = mark;
        }
        let mut sheet = Self { campaign, columns, stated, joined, rows, caveats: Vec::new() };
        sheet.caveats = sheet.explain_caveats();
        sheet
    }

    /// Returns the sentences that the plan, or those of the joined campaigns, declare.
    pub(crate) fn conclusions(&self) -> Vec<Conclusion> {
        match self.joined {
            Some(joined) => joined.conclusions().to_vec(),
            None => declared_conclusions(self.campaign),
        }
    }

    /// Lists what identifies a row among those of many campaigns, as names and values: its
    /// campaign, run, target, backend, workload and pass, and the settings that tell rows apart as
    /// `set_..`.
    ///
    /// Formats that are read by machines make their labels of it. A row of joined campaigns has the
    /// campaign that it was measured in.
    pub(crate) fn identify(&self, row: &Row<'_>) -> Vec<(String, String)> {
        let run = row.run.index as usize;
        let (mut id, mut name) = (self.campaign.id, &self.campaign.name);
        if let Some(member) = self.joined.and_then(|joined| joined.member_of(run)) {
            (id, name) = (member.id, &member.name);
        }
        let spec = &row.run.spec;
        let mut pairs = vec![
            ("campaign".to_owned(), id.to_string()),
            ("campaign_name".to_owned(), name.clone()),
            ("run".to_owned(), run.to_string()),
            ("target".to_owned(), spec.target_name.clone()),
            ("backend".to_owned(), spec.backend.name().to_owned()),
            ("workload".to_owned(), spec.workload.name().to_owned()),
            ("pass".to_owned(), row.judged.pass.name().to_owned()),
        ];
        for (name, value) in self.columns.iter().zip(&row.values) {
            if value != NOT_APPLICABLE {
                pairs.push((format!("set_{name}"), value.clone()));
            }
        }
        pairs
    }

    /// The lines that describe the campaign, or each of several.
    pub(crate) fn about(&self) -> Vec<String> {
        match self.joined {
            Some(joined) => joined.members().iter().map(|member| member.title.clone()).collect(),
            None => vec![title::describe(self.campaign)],
        }
    }

    /// The value of a factor in a row: the target, a setting, with a column or without, or a
    /// property; a dash where it does not apply.
    pub(crate) fn value<'r>(&'r self, row: &'r Row<'_>, name: &str) -> Cow<'r, str> {
        let spec = &row.run.spec;
        if name == LEADING[0] {
            return Cow::Borrowed(&spec.target_name);
        }
        if let Some(column) = self.columns.iter().position(|known| *known == name) {
            return Cow::Borrowed(&row.values[column]);
        }
        if let Some((_, value)) = spec.settings().into_iter().find(|(known, _)| *known == name) {
            return Cow::Owned(value);
        }
        let properties = self.joined.iter().flat_map(|joined| joined.all_properties());
        for property in properties.filter(|property| property.name == name) {
            if let Some(Some(value)) = property.values.get(row.run.index as usize) {
                return Cow::Borrowed(value);
            }
        }
        Cow::Borrowed(NOT_APPLICABLE)
    }

    /// The settings that tell a row apart: `io_size 64 KiB, workers 4`; empty where target and
    /// workload do.
    pub(crate) fn factors(&self, row: &Row<'_>) -> String {
        self.factors_without(row, &[])
    }

    /// The settings that tell a row apart, but for some.
    pub(crate) fn factors_without(&self, row: &Row<'_>, omitted: &[&str]) -> String {
        let mut parts = Vec::new();
        for (number, name) in self.columns.iter().enumerate() {
            let value = &row.values[number];
            if value != NOT_APPLICABLE && !omitted.contains(name) {
                parts.push(format!("{name} {value}"));
            }
        }
        parts.join(", ")
    }

    /// The whole name of a row: `nfs stream write, workers 4`.
    pub(crate) fn name(&self, row: &Row<'_>) -> String {
        self.name_without(row, &[])
    }

    /// The name of a row, but for some settings.
    pub(crate) fn name_without(&self, row: &Row<'_>, omitted: &[&str]) -> String {
        let factors = self.factors_without(row, omitted);
        let comma = if factors.is_empty() { "" } else { ", " };
        format!("{} {}{comma}{factors}", row.run.spec.target_name, row.pass_name())
    }

    /// Groups of comparable rows by [`Row::comparison_name`], in order of appearance.
    pub(crate) fn groups(&self) -> Vec<(String, Pass, Vec<&Row<'a>>)> {
        let mut groups: Vec<(String, Pass, Vec<&Row<'a>>)> = Vec::new();
        for row in &self.rows {
            let name = row.comparison_name();
            match groups.iter_mut().find(|(known, ..)| *known == name) {
                Some((.., rows)) => rows.push(row),
                None => groups.push((name, row.judged.pass, vec![row])),
            }
        }
        groups
    }

    /// Finds the worst case of each caveat: the first row of the highest rank.
    fn explain_caveats(&self) -> Vec<CaveatSummary> {
        // The order of the keys is that of the report: errors before warnings, then by code.
        let mut found: BTreeMap<_, (u32, CaveatSummary)> = BTreeMap::new();
        for row in &self.rows {
            for caveat in &row.judged.caveats {
                let rank = caveat_rank(caveat.extent, &row.judged);
                let mut explained = CaveatSummary {
                    code: caveat.code,
                    severity: caveat.severity,
                    rows: 1,
                    place: self.name(row),
                    evidence: caveat.evidence_line(),
                    advice: caveat.advice.clone(),
                };
                match found.entry((Reverse(caveat.severity), caveat.code)) {
                    Entry::Vacant(entry) => {
                        entry.insert((rank, explained));
                    }
                    Entry::Occupied(mut entry) => {
                        let (worst, known) = entry.get_mut();
                        known.rows += 1;
                        if rank > *worst {
                            explained.rows = known.rows;
                            (*worst, *known) = (rank, explained);
                        }
                    }
                }
            }
        }
        let mut worst_cases = Vec::with_capacity(found.len());
        for (_, explained) in found.into_values() {
            worst_cases.push(explained);
        }
        worst_cases
    }
}

/// Orders the cases of one caveat: more trials are worse; among whole runs, the wider interval.
fn caveat_rank(extent: Extent, judged: &Judged) -> u32 {
    match extent {
        Extent::Trials { seen, .. } => seen,
        Extent::Run | Extent::Arrangement => {
            let share = judged.rate.as_ref().and_then(stats::Summary::half_width_share);
            (share.unwrap_or(0.0) * 1e6) as u32
        }
    }
}

/// The settings of all runs, by name.
struct Settings<'a> {
    names: Vec<&'a str>,
    runs: Vec<BTreeMap<&'a str, String>>,
    /// Settings that some run has with another value than a run that leaves them unset.
    requested: HashSet<&'a str>,
}

/// Finds the effective value of a setting at the target, as the first trial that has it read it.
pub(crate) fn effective_value<'a>(run: &'a Run, name: &str) -> Option<&'a str> {
    for trial in &run.trials {
        for fact in &trial.facts {
            if fact.scope == "target" && fact.name == name {
                return Some(&fact.value);
            }
        }
    }
    None
}

/// Shows the transfer size that was granted beside the requested one, where they differ.
fn show_granted(run: &Run, settings: &mut [(&'static str, String)]) {
    let Some(requested) = run.spec.transfer_size_bytes else { return };
    let requested = Size(requested.into()).to_string();
    // A server grants the sizes of READ and WRITE separately (FSINFO: rtmax and wtmax).
    let read = effective_value(run, "rsize").unwrap_or(&requested);
    let write = effective_value(run, "wsize").unwrap_or(&requested);
    if read == requested && write == requested {
        return;
    }
    let mut granted = read.to_owned();
    if read != write {
        granted = format!("{read} read, {write} write");
    }
    for (name, value) in settings {
        if *name == "transfer_size" {
            *value = format!("{requested} (granted {granted})");
        }
    }
}

/// Settings that lead every table.
const LEADING: [&str; 2] = ["target", "workload"];

/// Settings that follow the number of workers and hosts where a plan leaves them unset.
const FOLLOWING: [&str; 1] = ["files"];

impl<'a> Settings<'a> {
    fn new(campaign: &Campaign, properties: &'a [Property]) -> Self {
        let mut names: Vec<&'a str> = Vec::new();
        let mut runs: Vec<BTreeMap<&'a str, String>> = Vec::new();
        let mut requested = HashSet::new();
        for run in &campaign.runs {
            let mut settings = run.spec.settings();
            show_granted(run, &mut settings);
            for (name, value) in &settings {
                if !run.spec.is_unset(name, value) {
                    requested.insert(*name);
                }
                if !names.contains(name) && !LEADING.contains(name) {
                    names.push(*name);
                }
            }
            runs.push(settings.into_iter().collect());
        }
        // Properties come last: where one follows from a setting, the setting has the column.
        for property in properties {
            names.push(&property.name);
            requested.insert(&property.name);
            for (run, value) in runs.iter_mut().zip(&property.values) {
                if let Some(value) = value {
                    run.insert(&property.name, value.clone());
                }
            }
        }
        Self { names, runs, requested }
    }

    /// The values of some settings in a run, as tables show them.
    fn values(&self, run: usize, names: &[&'a str]) -> Vec<String> {
        let mut values = Vec::with_capacity(names.len());
        for name in names {
            let value = self.runs[run].get(name);
            values.push(value.map_or(NOT_APPLICABLE, String::as_str).to_owned());
        }
        values
    }

    /// Adds a column for each setting that nothing decides so far.
    fn columns(&self) -> Vec<&'a str> {
        let mut columns = Vec::new();
        // Settings that follow from others are judged last: by then the columns that they depend
        // on exist, and they need none of their own.
        for follows in [false, true] {
            for name in &self.names {
                if FOLLOWING.contains(name) == follows && self.decided(name, &columns).is_none() {
                    columns.push(*name);
                }
            }
        }
        let mut ordered = self.names.clone();
        ordered.retain(|name| columns.contains(name));
        ordered
    }

    /// States the requested settings that have no column.
    fn stated(&self, columns: &[&'a str]) -> Vec<(&'a str, String)> {
        let mut stated = Vec::new();
        for name in &self.names {
            if !columns.contains(name) && self.requested.contains(name) {
                stated.push((*name, self.describe(name, columns)));
            }
        }
        stated
    }

    /// A setting's values with what decides them, where that is simple enough to say: nothing,
    /// the target, the workload, both of them, or one column.
    fn decided(&self, name: &str, columns: &[&'a str]) -> Option<Vec<(String, String)>> {
        let mut candidates: Vec<&[&'a str]> =
            vec![&LEADING[..0], &LEADING[..1], &LEADING[1..], &LEADING[..]];
        candidates.extend(columns.chunks(1));
        // The simplest statement wins; columns come last, since a reader has to look them up.
        candidates.into_iter().find_map(|keys| self.grouped(name, keys))
    }

    fn describe(&self, name: &'a str, columns: &[&'a str]) -> String {
        let mut by_value: Vec<(String, Vec<String>)> = Vec::new();
        let mut positions: HashMap<String, usize> = HashMap::new();
        for (key, value) in self.decided(name, columns).unwrap_or_default() {
            let position = *positions.entry(value.clone()).or_insert(by_value.len());
            match by_value.get_mut(position) {
                Some((_, keys)) => keys.push(key),
                None => by_value.push((value, vec![key])),
            }
        }
        let mut shown = Vec::with_capacity(by_value.len());
        for (value, keys) in by_value {
            let keys = keys.join(", ");
            shown.push(if keys.is_empty() { value } else { format!("{value} ({keys})") });
        }
        shown.join(", ")
    }

    /// The value of a setting for each combination of at most two keys; `None` when they don't
    /// decide it. Runs to which the setting does not apply are left out. Target and workload go by
    /// their values alone, other keys by name and value.
    fn grouped(&self, name: &str, keys: &[&'a str]) -> Option<Vec<(String, String)>> {
        debug_assert!(keys.len() <= 2, "{keys:?}");
        // An array of two levels, not a list: this is tried for each pair of settings and for
        // every run, and the matrix may have thousands of runs.
        let mut values: HashMap<[Option<&String>; 2], &String> = HashMap::new();
        let mut grouped = Vec::new();
        for run in &self.runs {
            let Some(value) = run.get(name) else { continue };
            let mut levels = [None; 2];
            for (number, key) in keys.iter().enumerate() {
                levels[number] = run.get(key);
            }
            match values.insert(levels, value) {
                Some(known) if known == value => {}
                Some(_) => return None,
                None => grouped.push((name_levels(keys, levels), value.clone())),
            }
        }
        Some(grouped)
    }
}

/// Names one combination of levels; a key that does not apply to the run is left out.
fn name_levels(keys: &[&str], levels: [Option<&String>; 2]) -> String {
    let mut parts = Vec::new();
    for (number, key) in keys.iter().enumerate() {
        match levels[number] {
            Some(level) if LEADING.contains(key) => parts.push(level.clone()),
            Some(level) => parts.push(format!("{key} {level}")),
            None => {}
        }
    }
    parts.join(" ")
}

//! View shared by all formats: rows, the settings that distinguish them, and caveats.
//!
//! [`Sheet`] is the main type. A setting becomes a column unless it is the same everywhere or
//! determined by target, workload or one other column. In that case it is stated once next to the
//! table, with what determines it (`queue_depth 1 (dir), 8 (nfs)`).

pub(crate) mod best_and_worst;
pub(crate) mod columns;
pub(crate) mod factor_levels;
pub(crate) mod joined_campaigns;
pub(crate) mod local_disk;
pub(crate) mod pivot;
pub(crate) mod rate_metric;
pub(crate) mod row;
pub(crate) mod scaling;
pub(crate) mod setting_number;
pub(crate) mod title;

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use model::units::Size;
use model::{Campaign, CaveatCode, Conclusion, NamedLoad, Pass, Requirement, Run, Severity};
use stats::{CaveatExtent, Judged, judge};

use factor_levels::DATA_SERVERS;
use joined_campaigns::{JoinedCampaigns, Property, declared_conclusions, declared_requirements};

pub(crate) use local_disk::is_on_local_disk;
pub(crate) use row::Row;

/// Displayed if a setting does not apply.
pub(crate) const NOT_APPLICABLE: &str = "–";

/// Judged and arranged campaign.
pub(crate) struct Sheet<'a> {
    pub campaign: &'a Campaign,
    /// Settings that distinguish rows, in addition to target and workload.
    pub columns: Vec<&'a str>,
    /// All other settings with their values: `workers` and `2`, or `1 (dir), 8 (nfs)`.
    pub stated: Vec<(&'a str, String)>,
    /// The set of campaigns, if there are several or if properties were requested.
    pub joined: Option<&'a JoinedCampaigns>,
    /// One row for each run and pass.
    pub rows: Vec<Row<'a>>,
    /// Limits that results must keep, declared in plans or given in addition.
    pub requirements: Vec<Requirement>,
    /// Caveats of all rows, worst first. A caveat is listed twice if it is only a note in some
    /// rows.
    pub caveats: Vec<CaveatSummary>,
}

/// Caveat with its worst case.
pub(crate) struct CaveatSummary {
    pub code: CaveatCode,
    /// Severity in these rows.
    pub severity: Severity,
    /// Number of rows that have it with this severity.
    pub rows: usize,
    /// Name of the row with the worst case.
    pub place: String,
    /// Numbers of the worst case.
    pub evidence: String,
    /// How to avoid the worst case.
    pub advice: String,
}

impl CaveatSummary {
    /// Returns true if the caveat is only a note in these rows and does not degrade them.
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
        // A single campaign without properties is reported like one that was not joined.
        let is_plain = joined.members().len() == 1 && joined.properties().is_empty();
        let mut sheet =
            Self::arrange(joined.campaign(), if is_plain { None } else { Some(joined) });
        sheet.requirements = joined.requirements().to_vec();
        sheet
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
                rows.push(Row {
                    run,
                    values: values.clone(),
                    judged,
                    mark: None,
                    times_local: None,
                });
            }
        }
        // Marks depend on all rows of a pass, so set them once the rows are complete.
        for (number, mark) in best_and_worst::mark_rows(&rows).into_iter().enumerate() {
            rows[number].mark = mark;
        }
        for (number, times) in local_disk::compare_rows(&rows).into_iter().enumerate() {
            rows[number].times_local = times;
        }
        let requirements = declared_requirements(campaign);
        let caveats = Vec::new();
        let mut sheet = Self { campaign, columns, stated, joined, rows, requirements, caveats };
        sheet.caveats = sheet.explain_caveats();
        sheet
    }

    /// Returns the conclusions declared in the plan or in the joined campaigns.
    pub(crate) fn conclusions(&self) -> Vec<Conclusion> {
        match self.joined {
            Some(joined) => joined.conclusions().to_vec(),
            None => declared_conclusions(self.campaign),
        }
    }

    /// Identifies a row among those of many campaigns by names and values: campaign, run, target,
    /// backend, workload and pass, and `set_..` for the settings that distinguish rows.
    ///
    /// Machine-readable formats use these as labels. A row of joined campaigns is identified by the
    /// campaign that measured it.
    pub(crate) fn identify(&self, row: &Row<'_>) -> Vec<(String, String)> {
        let run = row.run.index as usize;
        let mut id = self.campaign.id;
        let mut name = &self.campaign.name;
        if let Some(member) = self.joined.and_then(|joined| joined.member_of(run)) {
            id = member.id;
            name = &member.name;
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

    /// Lines that describe the campaign, or each of several.
    pub(crate) fn about(&self) -> Vec<String> {
        match self.joined {
            Some(joined) => joined.members().iter().map(|member| member.title.clone()).collect(),
            None => vec![title::describe(self.campaign)],
        }
    }

    /// Value of a factor in a row: the target, a setting with or without a column, or a property. A
    /// dash if it does not apply.
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

    /// Settings that distinguish a row: `io_size 64 KiB, workers 4`. Empty if target and workload
    /// are enough.
    pub(crate) fn factors(&self, row: &Row<'_>) -> String {
        self.factors_without(row, &[])
    }

    /// Settings that distinguish a row, without the omitted ones.
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

    /// Full name of a row: `nfs stream write, workers 4`.
    pub(crate) fn name(&self, row: &Row<'_>) -> String {
        self.name_without(row, &[])
    }

    /// Name of a row without the omitted settings.
    pub(crate) fn name_without(&self, row: &Row<'_>, omitted: &[&str]) -> String {
        let factors = self.factors_without(row, omitted);
        let comma = if factors.is_empty() { "" } else { ", " };
        format!("{} {}{comma}{factors}", row.run.spec.target_name, row.pass_name())
    }

    /// Groups comparable rows by [`Row::comparison_name`], in order of appearance.
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

    /// Finds the worst case of each caveat: the first row with the highest rank.
    fn explain_caveats(&self) -> Vec<CaveatSummary> {
        // The keys sort like the report: errors before warnings, then by code.
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
                            *worst = rank;
                            *known = explained;
                        }
                    }
                }
            }
        }
        found.into_values().map(|(_, explained)| explained).collect()
    }
}

/// Ranks the cases of one caveat: more trials are worse; for whole runs, a wider interval is worse.
fn caveat_rank(extent: CaveatExtent, judged: &Judged) -> u32 {
    match extent {
        CaveatExtent::Trials { seen, .. } => seen,
        CaveatExtent::Run | CaveatExtent::Arrangement => {
            let share = judged.rate.as_ref().and_then(stats::Summary::half_width_share);
            (share.unwrap_or(0.0) * 1e6) as u32
        }
    }
}

/// Settings of all runs, by name.
struct Settings<'a> {
    names: Vec<&'a str>,
    runs: Vec<BTreeMap<&'a str, String>>,
    /// Settings to which some run assigns a value other than the default.
    requested: HashSet<&'a str>,
}

/// Returns the effective value of a setting at the target, as read by the first trial that recorded
/// it.
pub(crate) fn effective_value<'a>(run: &'a Run, name: &str) -> Option<&'a str> {
    run.trials
        .iter()
        .flat_map(|trial| &trial.facts)
        .find(|fact| fact.scope == "target" && fact.name == name)
        .map(|fact| fact.value.as_str())
}

/// Adds the granted transfer size to the requested one if they differ.
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

/// Adds the number of data servers that layouts named, unless a setting determines it.
fn show_data_servers(run: &Run, settings: &mut Vec<(&'static str, String)>) {
    let passes = run.trials.iter().flat_map(|trial| &trial.passes);
    let works = passes.filter_map(|pass| pass.scope.pnfs.as_ref());
    let count = works.map(|work| work.data_servers.len()).max().unwrap_or(0);
    if count > 0 && !settings.iter().any(|(name, _)| *name == DATA_SERVERS) {
        settings.push((DATA_SERVERS, count.to_string()));
    }
}

/// Settings at the beginning of every table.
const LEADING: [&str; 2] = ["target", "workload"];

/// Settings whose default depends on the number of workers and hosts.
const FOLLOWING: [&str; 1] = ["files"];

impl<'a> Settings<'a> {
    fn new(campaign: &Campaign, properties: &'a [Property]) -> Self {
        let mut names: Vec<&'a str> = Vec::new();
        let mut runs: Vec<BTreeMap<&'a str, String>> = Vec::new();
        let mut requested = HashSet::new();
        for run in &campaign.runs {
            let mut settings = run.spec.settings();
            show_granted(run, &mut settings);
            show_data_servers(run, &mut settings);
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
        // Properties come last, so that if one follows from a setting, the setting gets the column.
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

    /// Values of some settings in a run, as displayed in tables.
    fn values(&self, run: usize, names: &[&'a str]) -> Vec<String> {
        let mut values = Vec::with_capacity(names.len());
        for name in names {
            let value = self.runs[run].get(name);
            values.push(value.map_or(NOT_APPLICABLE, String::as_str).to_owned());
        }
        values
    }

    /// Selects a column for each setting that is not yet determined by others.
    fn columns(&self) -> Vec<&'a str> {
        let mut columns = Vec::new();
        // Judge settings that follow from others last: by then, the columns they depend on exist,
        // so they need none of their own.
        for follows in [false, true] {
            for name in &self.names {
                // Clusters of different size are usually different targets.
                let is_shown = *name == NamedLoad::NAME
                    || *name == DATA_SERVERS && self.grouped(name, &[]).is_none();
                let is_own = is_shown || self.decided(name, &columns).is_none();
                if FOLLOWING.contains(name) == follows && is_own {
                    columns.push(*name);
                }
            }
        }
        let mut ordered = self.names.clone();
        ordered.retain(|name| columns.contains(name));
        ordered
    }

    /// Lists the requested settings without a column.
    fn stated(&self, columns: &[&'a str]) -> Vec<(&'a str, String)> {
        self.names
            .iter()
            .filter(|name| !columns.contains(*name) && self.requested.contains(*name))
            .map(|name| (*name, self.describe(name, columns)))
            .collect()
    }

    /// Values of a setting with what determines them, if that is simple enough to state: nothing,
    /// the target, the workload, both, or one column.
    fn decided(&self, name: &str, columns: &[&'a str]) -> Option<Vec<(String, String)>> {
        let mut candidates: Vec<&[&'a str]> =
            vec![&LEADING[..0], &LEADING[..1], &LEADING[1..], &LEADING[..]];
        candidates.extend(columns.chunks(1));
        // The simplest statement wins. Columns come last, since readers have to look them up.
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

    /// Value of a setting for each combination of at most two keys; `None` if they do not determine
    /// it. Runs to which the setting does not apply are left out. Target and workload are
    /// identified by value only, other keys by name and value.
    fn grouped(&self, name: &str, keys: &[&'a str]) -> Option<Vec<(String, String)>> {
        debug_assert!(keys.len() <= 2, "{keys:?}");
        // An array of two levels instead of a list, because this runs for each pair of settings and
        // each run, and a matrix may have thousands of runs.
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

/// Names a combination of levels, without keys that do not apply to the run.
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

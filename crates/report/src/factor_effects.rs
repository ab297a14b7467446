//! Ranks the factors of a campaign by their effect on the rates.
//!
//! [`FactorEffects::from_campaign`] analyzes each kind of pass over the settings that vary in it.
//! [`FactorEffects::render`] writes the effects as text with a picture, as Markdown or as JSON, and
//! the page draws a forest plot. Sentences name the effects that cannot be separated.

mod blocks;
mod confounding;
mod json;
mod table;

use std::fmt::Write as _;

use model::{Campaign, Pass};
use stats::effects::{FactorEffect, Interaction, LevelEffect};
use stats::{Effects, Observation, effects};

use crate::Format;
use crate::document::terminal::Screen;
use crate::document::{self, Form};
use crate::humanize;
use crate::table::joined_campaigns::JoinedCampaigns;
use crate::table::rate_metric::RateMetric;
use crate::table::{NOT_APPLICABLE, Row, Sheet};

/// Maximum number of levels, summed over all factors, because the work grows with the fourth power.
const LEVELS_MAX: usize = 64;

/// Factor effects in each kind of pass.
pub struct FactorEffects {
    /// Line that describes the campaign.
    pub title: String,
    /// Kinds of pass in order of appearance.
    pub passes: Vec<PassFactors>,
}

/// Factor effects in one kind of pass.
pub struct PassFactors {
    /// Workload and pass, such as `stream read`.
    pub name: String,
    /// Settings that vary, with their levels in order of appearance.
    pub factors: Vec<Factor>,
    /// Number of trials analyzed.
    pub trials: usize,
    /// Number of rows left out because their results must not be used.
    pub left_out: usize,
    /// True if the results are bytes per second although the rate of the pass is in ops.
    pub by_bytes: bool,
    /// True if the results are command times, so that higher is slower.
    pub are_times: bool,
    /// Number of campaigns behind the intervals of factors that vary only between campaigns; `None`
    /// if the intervals are based on trials.
    pub campaigns: Option<usize>,
    pub found: Result<Effects, NoEffects>,
}

/// Reason why a kind of pass has no effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEffects {
    /// All results are invalid or missing.
    NothingCounts,
    /// Settings vary, but all usable results have the same ones.
    OneCounts,
    /// No setting has two levels.
    NothingVaries,
    /// There are no more trials than effects.
    TooFewTrials,
    /// All trials have the same result.
    NothingDiffers,
    /// There are too many levels to analyze.
    TooManyLevels,
}

/// Setting that varies.
pub struct Factor {
    /// Name as in plans.
    pub name: String,
    /// Levels as displayed in tables. The first one is the baseline.
    pub levels: Vec<String>,
    /// Other factors that change together with it, if campaigns differ in several.
    pub together: Vec<String>,
    /// True if no single campaign has two of the levels.
    pub is_between: bool,
}

impl FactorEffects {
    /// Analyzes a campaign.
    pub fn from_campaign(campaign: &Campaign) -> Self {
        Self::from_sheet(&Sheet::from_campaign(campaign))
    }

    /// Analyzes the runs of several campaigns together.
    pub fn from_joined(joined: &JoinedCampaigns) -> Self {
        Self::from_sheet(&Sheet::from_joined(joined))
    }

    pub(crate) fn from_sheet(sheet: &Sheet<'_>) -> Self {
        let title = format!("{}: {}", sheet.campaign.name, sheet.about().join("; "));
        let passes: Vec<_> = sheet
            .groups()
            .into_iter()
            .map(|(name, pass, rows)| PassFactors::new(name, pass, sheet, &rows, None))
            .collect();
        Self { title, passes }
    }

    /// Returns true if any kind of pass has effects.
    pub fn has_effects(&self) -> bool {
        self.passes.iter().any(|pass| pass.found.is_ok())
    }

    /// Renders the effects for a terminal. The text ends with a newline.
    pub fn render_screen(&self, screen: Screen) -> String {
        document::text::render(&table::document(self, Form::Text), screen.columns())
    }

    /// Renders the effects in one of the formats in [`Format::FACTORS`]. The text ends with a
    /// newline.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json::render(self),
            _ => table::document(self, format.form()).render(format.form()),
        }
    }
}

impl PassFactors {
    /// Analyzes the rows of a kind of pass. The leading factor comes before all others, so that
    /// factors that change together with it are nested within it.
    pub(crate) fn new(
        name: String,
        pass: Pass,
        sheet: &Sheet<'_>,
        rows: &[&Row<'_>],
        leading: Option<&str>,
    ) -> Self {
        let mut counted = rows.to_vec();
        counted.retain(|row| row.counts());
        let left_out = rows.len() - counted.len();
        let mut factors = Vec::new();
        for name in leading.into_iter().chain(["target"]).chain(sheet.columns.iter().copied()) {
            if !factors.iter().any(|known: &Factor| known.name == name) {
                factors.push(Factor::new(name));
            }
        }
        let are_times = pass.is_timed_as_whole();
        let mut observations = Vec::new();
        let mut levels_of_rows = Vec::new();
        let metric = RateMetric::for_rows(pass, counted.iter().copied());
        for row in &counted {
            let mut levels = Vec::with_capacity(factors.len());
            for factor in &mut factors {
                // A setting that does not apply to a row makes no difference there; the setting it
                // depends on does, such as the data path. Only rows to which it applies are
                // compared by it; the others get its first level.
                let level = sheet.value(row, &factor.name);
                let applies = level != NOT_APPLICABLE;
                levels.push(if applies { factor.number_of(&level) } else { 0 });
            }
            for point in &row.judged.points {
                if point.used {
                    let per_s = metric.point(&row.judged, point.comparable_per_s);
                    let figure = if are_times { 1.0 / per_s } else { per_s };
                    observations.push(Observation { levels: levels.clone(), figure });
                }
            }
            levels_of_rows.push(levels);
        }
        confounding::mark(sheet, &counted, &mut factors, &levels_of_rows);
        drop_single(&mut factors, &mut observations);
        let mut found = match factors.len() {
            0 if counted.is_empty() => Err(NoEffects::NothingCounts),
            0 if left_out > 0 => Err(NoEffects::OneCounts),
            0 => Err(NoEffects::NothingVaries),
            _ => find_effects(&factors, &observations),
        };
        let mut campaigns = None;
        if let Ok(effects) = &mut found {
            campaigns = blocks::widen(sheet, &counted, metric, &factors, effects);
        }
        Self {
            name,
            factors,
            trials: observations.len(),
            left_out,
            by_bytes: metric.is_other(),
            are_times,
            campaigns,
            found,
        }
    }

    /// Returns the effect of one level of a setting relative to another, whichever is the baseline.
    pub(crate) fn effect_between(
        &self,
        name: &str,
        one: Option<&str>,
        other: Option<&str>,
    ) -> Option<LevelEffect> {
        let one = one?;
        let other = other?;
        match self.effect_of(name, one, other) {
            Some(effect) => Some(effect),
            None => self.effect_of(name, other, one),
        }
    }

    /// Returns the effect of a level relative to another, both as displayed in tables; `None` if
    /// they are not compared with each other, or if their ratio may be 1.
    fn effect_of(&self, name: &str, level: &str, against: &str) -> Option<LevelEffect> {
        let Ok(effects) = &self.found else { return None };
        let effect = effects.factors.iter().find(|it| self.factors[it.factor].name == name)?;
        let levels = &self.factors[effect.factor].levels;
        let number = levels.iter().position(|known| known == level)?;
        let found = effect.levels[number];
        if levels[found.against] == against && found.is_apart() { Some(found) } else { None }
    }

    /// Notes needed to read the ratios: nested factors, and factors that interact.
    pub(crate) fn notes(&self, effects: &Effects) -> Vec<String> {
        let mut notes = Vec::new();
        for effect in &effects.factors {
            if effect.within.is_empty() {
                continue;
            }
            let name = &self.factors[effect.factor].name;
            let outer = self.list_outer(effect);
            // If no two levels occur under the same level of the outer factor, no interval is
            // finite.
            if effect.levels.iter().all(|level| level.interval.1.is_infinite()) {
                notes.push(format!(
                    "{name} changes only together with {outer}, so their effects can't be \
                     separated."
                ));
                continue;
            }
            notes.push(format!(
                "{name} is nested in {outer}: its levels are compared at the same {outer}, and the \
                 ratio of {outer} is a mean over them."
            ));
        }
        notes.extend(
            effects.interactions.iter().map(|interaction| self.describe_interaction(interaction)),
        );
        notes.extend(confounding::notes(&self.factors, self.campaigns));
        notes
    }

    /// Names the factors that contain a nested one.
    fn list_outer(&self, effect: &FactorEffect) -> String {
        let names: Vec<_> =
            effect.within.iter().map(|outer| self.factors[*outer].name.clone()).collect();
        humanize::listed(&names)
    }

    /// Describes the interaction of two factors.
    fn describe_interaction(&self, interaction: &Interaction) -> String {
        let first = &self.factors[interaction.factors.0];
        let second = &self.factors[interaction.factors.1];
        let p = interaction.probability;
        let p = if p < 0.001 { "less than 0.001".to_owned() } else { format!("{p:.3}") };
        let mut text = format!(
            "{} and {} interact: together they explain {} more (p {p}), so each ratio above is a \
             mean over the levels of the other.",
            first.name,
            second.name,
            humanize::percent(interaction.share),
        );
        for (level, name) in second.levels.iter().enumerate() {
            let mut ratios = Vec::new();
            let mut reference = None;
            for within in &interaction.within {
                if within.level == level {
                    let under = &first.levels[within.under];
                    ratios.push(format!("{:.2} with {} {under}", within.ratio, first.name));
                    // All ratios of one level have the same baseline.
                    reference = Some(&second.levels[within.against]);
                }
            }
            if let Some(against) = reference {
                let ratios = humanize::listed(&ratios);
                // Writing to a string cannot fail.
                let _ = write!(text, " {} {name} against {against}: {ratios}.", second.name);
            }
        }
        text
    }
}

impl NoEffects {
    /// Reason as a clause.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NothingCounts => "no result is usable",
            Self::OneCounts => "only one setting has usable results",
            Self::NothingVaries => "no setting varies: a factor needs two levels",
            Self::TooFewTrials => "too few trials for this number of settings",
            Self::NothingDiffers => "all results are the same",
            Self::TooManyLevels => "its settings have too many levels to separate",
        }
    }

    /// Advice for this reason.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NothingCounts | Self::OneCounts => "`dfsbench report` shows why",
            Self::NothingVaries => "a list of levels makes a factor, such as --io-size 64KiB,1MiB",
            Self::TooFewTrials => "--trials 5 or more",
            Self::NothingDiffers => "use longer passes",
            Self::TooManyLevels => "select some of its levels with --where or a smaller plan",
        }
    }
}

impl Factor {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), levels: Vec::new(), together: Vec::new(), is_between: false }
    }

    /// Returns the number of a level, adding it if it is new.
    fn number_of(&mut self, level: &str) -> usize {
        if let Some(number) = self.levels.iter().position(|known| known == level) {
            return number;
        }
        self.levels.push(level.to_owned());
        self.levels.len() - 1
    }

    /// Formats a level, including its baseline unless that is the same for all levels.
    pub(crate) fn compared(&self, effect: &FactorEffect, number: usize) -> String {
        let level = &self.levels[number];
        let against = effect.levels[number].against;
        if effect.within.is_empty() || against == number {
            return level.clone();
        }
        format!("{level} against {}", self.levels[against])
    }
}

/// Computes the effects of at least one factor.
fn find_effects(factors: &[Factor], observations: &[Observation]) -> Result<Effects, NoEffects> {
    let counts: Vec<_> = factors.iter().map(|factor| factor.levels.len()).collect();
    let levels: usize = counts.iter().sum();
    if levels > LEVELS_MAX {
        return Err(NoEffects::TooManyLevels);
    }
    // The model has a mean and, for each factor, one effect fewer than it has levels, because the
    // first level is the baseline. It needs one observation for each of these, and one more to
    // estimate the error.
    let effects_made = levels - factors.len() + 1;
    match effects(&counts, observations) {
        Some(effects) => Ok(effects),
        None if observations.len() > effects_made => Err(NoEffects::NothingDiffers),
        None => Err(NoEffects::TooFewTrials),
    }
}

/// Removes factors with only one level in this pass.
fn drop_single(factors: &mut Vec<Factor>, observations: &mut [Observation]) {
    // Iterate backwards, so that removing a factor does not shift those still to be checked.
    for number in (0..factors.len()).rev() {
        if factors[number].levels.len() < 2 {
            factors.remove(number);
            for observation in &mut *observations {
                observation.levels.remove(number);
            }
        }
    }
}

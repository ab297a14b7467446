//! Ranks the factors of a campaign by their effect on the rates.
//!
//! [`FactorEffects::from_campaign`] takes each kind of pass apart over the settings that vary in
//! it; [`FactorEffects::render`] writes it as text with a picture, as Markdown or as JSON, and the
//! page draws it as a forest plot. A sentence names what can't be separated.

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

/// So many levels of all factors together are taken apart: the work grows with the fourth power.
const LEVELS_MAX: usize = 64;

/// The dominant factors of each kind of pass.
pub struct FactorEffects {
    /// A line that describes the campaign.
    pub title: String,
    /// Workload and pass, in order of appearance.
    pub passes: Vec<PassFactors>,
}

/// The factor effects in one kind of pass.
pub struct PassFactors {
    /// Workload and pass: `stream read`.
    pub name: String,
    /// The settings that vary, with their levels in order of appearance.
    pub factors: Vec<Factor>,
    /// Trials behind it.
    pub trials: usize,
    /// Rows whose figures don't count.
    pub left_out: usize,
    /// The figures are bytes per second, although those of the pass are ops.
    pub by_bytes: bool,
    /// The figures are times of commands, so that more is slower.
    pub are_times: bool,
    /// How many campaigns are behind the intervals of factors that differ between them alone;
    /// `None` where trials are.
    pub campaigns: Option<usize>,
    /// The effects, or the reason why there are none.
    pub found: Result<Effects, NoEffects>,
}

/// Why a kind of pass can't be taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoEffects {
    /// All its figures are invalid or missing.
    NothingCounts,
    /// Settings vary, but the figures that may be used have the same ones.
    OneCounts,
    /// No setting has two levels.
    NothingVaries,
    /// No more trials than effects.
    TooFewTrials,
    /// All trials have the same figure.
    NothingDiffers,
    /// More levels than are taken apart.
    TooManyLevels,
}

/// A setting that varies.
pub struct Factor {
    /// Its name, as in plans.
    pub name: String,
    /// Its levels, as tables show them; the first one is what others are compared with.
    pub levels: Vec<String>,
    /// Names of other factors that change together with it, where campaigns differ in several.
    pub together: Vec<String>,
    /// Whether no campaign has two of its levels.
    pub is_between: bool,
}

impl FactorEffects {
    /// Takes a campaign apart.
    pub fn from_campaign(campaign: &Campaign) -> Self {
        Self::from_sheet(&Sheet::from_campaign(campaign))
    }

    /// Takes the runs of several campaigns apart together.
    pub fn from_joined(joined: &JoinedCampaigns) -> Self {
        Self::from_sheet(&Sheet::from_joined(joined))
    }

    pub(crate) fn from_sheet(sheet: &Sheet<'_>) -> Self {
        let title = format!("{}: {}", sheet.campaign.name, sheet.about().join("; "));
        let mut passes = Vec::new();
        for (name, pass, rows) in sheet.groups() {
            passes.push(PassFactors::new(name, pass, sheet, &rows, None));
        }
        Self { title, passes }
    }

    /// Says whether any kind of pass could be taken apart.
    pub fn found_any(&self) -> bool {
        self.passes.iter().any(|pass| pass.found.is_ok())
    }

    /// Writes it for a terminal; the text ends with a newline.
    pub fn render_screen(&self, screen: Screen) -> String {
        document::text::render(&table::document(self, Form::Text), screen.columns())
    }

    /// Writes it in one of the forms of [`Format::FACTORS`]; the text ends with a newline.
    pub fn render(&self, format: Format) -> String {
        match format {
            Format::Json => json::render(self),
            _ => table::document(self, format.form()).render(format.form()),
        }
    }
}

impl PassFactors {
    /// Takes the rows of a kind of pass apart; a leading factor comes before all others, so that
    /// what changes together with it lies within it.
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
        let are_times = pass == Pass::App;
        let mut observations = Vec::new();
        let mut levels_of_rows = Vec::new();
        let metric = RateMetric::for_rows(pass, counted.iter().copied());
        for row in &counted {
            let mut levels = Vec::with_capacity(factors.len());
            for factor in &mut factors {
                // A setting that does not apply to a row makes no difference there: what does is
                // the setting that it depends on, such as the data path. Only rows to which it
                // applies are compared by it; the others are held to its first level.
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
        let (trials, by_bytes) = (observations.len(), metric.is_other());
        Self { name, factors, trials, left_out, by_bytes, are_times, campaigns, found }
    }

    /// Returns the effect of one level of a setting against another, whichever is the reference.
    pub(crate) fn effect_between(
        &self,
        name: &str,
        one: Option<&str>,
        other: Option<&str>,
    ) -> Option<LevelEffect> {
        let (one, other) = (one?, other?);
        match self.effect_of(name, one, other) {
            Some(effect) => Some(effect),
            None => self.effect_of(name, other, one),
        }
    }

    /// Returns the effect of a setting's level against another one, both as tables show them;
    /// `None` where these two are not what is compared, or their ratio may be 1.
    fn effect_of(&self, name: &str, level: &str, against: &str) -> Option<LevelEffect> {
        let Ok(effects) = &self.found else { return None };
        let effect = effects.factors.iter().find(|it| self.factors[it.factor].name == name)?;
        let levels = &self.factors[effect.factor].levels;
        let number = levels.iter().position(|known| known == level)?;
        let found = effect.levels[number];
        if levels[found.against] == against && found.is_apart() { Some(found) } else { None }
    }

    /// Returns the notes needed to read the ratios: nested factors, and factors that depend on
    /// each other.
    pub(crate) fn notes(&self, effects: &Effects) -> Vec<String> {
        let mut notes = Vec::new();
        for effect in &effects.factors {
            if effect.within.is_empty() {
                continue;
            }
            let (name, outer) = (&self.factors[effect.factor].name, self.list_outer(effect));
            // Without a pair of levels under one level of the outer factor, no interval is finite.
            if effect.levels.iter().all(|level| level.interval.1.is_infinite()) {
                notes.push(format!(
                    "{name} changes with {outer} alone: its effect can't be separated from that \
                     {outer} does."
                ));
                continue;
            }
            notes.push(format!(
                "{name} lies within {outer}: its levels are compared where {outer} is the same, \
                 and the ratio of {outer} is a mean over them."
            ));
        }
        for interaction in &effects.interactions {
            notes.push(self.describe_interaction(interaction));
        }
        notes.extend(confounding::notes(&self.factors, self.campaigns));
        notes
    }

    /// The factors that one lies within.
    fn list_outer(&self, effect: &FactorEffect) -> String {
        let mut names = Vec::new();
        for outer in &effect.within {
            names.push(self.factors[*outer].name.clone());
        }
        humanize::listed(&names)
    }

    /// Says in sentences that two factors depend on each other, and how.
    fn describe_interaction(&self, interaction: &Interaction) -> String {
        let first = &self.factors[interaction.factors.0];
        let second = &self.factors[interaction.factors.1];
        let p = interaction.probability;
        let p = if p < 0.001 { "less than 0.001".to_owned() } else { format!("{p:.3}") };
        let mut text = format!(
            "{} and {} depend on each other: together they explain {} more (p {p}), so a ratio \
             above is a mean over the levels of the other.",
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
                    // All ratios of one level have the same reference.
                    reference = Some(&second.levels[within.against]);
                }
            }
            if let Some(against) = reference {
                let ratios = humanize::listed(&ratios);
                // Writing to a string can't fail.
                let _ = write!(text, " {} {name} against {against}: {ratios}.", second.name);
            }
        }
        text
    }
}

impl NoEffects {
    /// Words the reason as a clause.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NothingCounts => "no result may be used",
            Self::OneCounts => "only one setting has results that may be used",
            Self::NothingVaries => "no setting varies: a factor needs two levels",
            Self::TooFewTrials => "too few trials for so many settings",
            Self::NothingDiffers => "all results are the same",
            Self::TooManyLevels => "its settings have more levels than can be separated",
        }
    }

    /// Returns the advice that goes with the reason.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NothingCounts | Self::OneCounts => "`dfsbench report` shows what is wrong",
            Self::NothingVaries => "a list of levels makes a factor, such as --io-size 64KiB,1MiB",
            Self::TooFewTrials => "--trials 5 or more",
            Self::NothingDiffers => "use longer passes",
            Self::TooManyLevels => "a selection of its levels, by --where or a smaller plan",
        }
    }
}

impl Factor {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), levels: Vec::new(), together: Vec::new(), is_between: false }
    }

    /// The number of a level, which is new where it was not seen before.
    fn number_of(&mut self, level: &str) -> usize {
        if let Some(number) = self.levels.iter().position(|known| known == level) {
            return number;
        }
        self.levels.push(level.to_owned());
        self.levels.len() - 1
    }

    /// A level, with the one that it is compared with where that is not the same for all.
    pub(crate) fn compared(&self, effect: &FactorEffect, number: usize) -> String {
        let (level, against) = (&self.levels[number], effect.levels[number].against);
        if effect.within.is_empty() || against == number {
            return level.clone();
        }
        format!("{level} against {}", self.levels[against])
    }
}

/// Takes the rates apart over their factors, of which there is at least one.
fn find_effects(factors: &[Factor], observations: &[Observation]) -> Result<Effects, NoEffects> {
    let mut counts = Vec::with_capacity(factors.len());
    for factor in factors {
        counts.push(factor.levels.len());
    }
    let levels: usize = counts.iter().sum();
    if levels > LEVELS_MAX {
        return Err(NoEffects::TooManyLevels);
    }
    // The model has a mean and, for each factor, one effect less than levels: the first one is
    // the reference. Each needs an observation, and one more leaves something for the error.
    let effects_made = levels - factors.len() + 1;
    match effects(&counts, observations) {
        Some(effects) => Ok(effects),
        None if observations.len() > effects_made => Err(NoEffects::NothingDiffers),
        None => Err(NoEffects::TooFewTrials),
    }
}

/// Leaves out the factors that have one level in this pass.
fn drop_single(factors: &mut Vec<Factor>, observations: &mut [Observation]) {
    // From the last one, so that the positions of those that are still to be judged don't change.
    for number in (0..factors.len()).rev() {
        if factors[number].levels.len() < 2 {
            factors.remove(number);
            for observation in &mut *observations {
                observation.levels.remove(number);
            }
        }
    }
}

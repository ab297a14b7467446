//! Ranks the factors of a campaign by their effect: the seed of the question is "Factors Governing
//! Throughputs".
//!
//! [`FactorEffects::of`] takes each kind of pass apart over the settings that vary in it;
//! [`FactorEffects::render`] writes it as text with a picture, as Markdown or as JSON, and the page
//! draws it as a forest plot. What can't be taken apart is said in a sentence.

mod json;
mod table;

use std::fmt::Write as _;

use model::{Campaign, Pass};
use stats::effects::{FactorEffect, Interaction, LevelEffect};
use stats::{Effects, Observation, effects};

use crate::Format;
use crate::rate_metric::RateMetric;
use crate::sheet::{NOT_APPLICABLE, Row, Sheet};
use crate::show;

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
    pub name: &'static str,
    /// Its levels, as tables show them; the first one is what others are compared with.
    pub levels: Vec<String>,
}

impl FactorEffects {
    /// Takes a campaign apart.
    pub fn of(campaign: &Campaign) -> Self {
        Self::of_sheet(&Sheet::of(campaign))
    }

    pub(crate) fn of_sheet(sheet: &Sheet<'_>) -> Self {
        let campaign = sheet.campaign;
        let passes = sheet.groups().into_iter();
        Self {
            title: format!("{}: {}", campaign.name, crate::notes::title(campaign)),
            passes: passes
                .map(|(name, pass, rows)| PassFactors::of(name, pass, sheet, &rows))
                .collect(),
        }
    }

    /// Says whether any kind of pass could be taken apart.
    pub fn found_any(&self) -> bool {
        self.passes.iter().any(|pass| pass.found.is_ok())
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
    fn of(name: String, pass: Pass, sheet: &Sheet<'_>, rows: &[&Row<'_>]) -> Self {
        let (counted, left_out): (Vec<&Row<'_>>, Vec<_>) =
            rows.iter().copied().partition(|row| row.counts());
        let levels_of = |row: &Row<'_>| {
            let target = std::iter::once(row.run.spec.target_name.clone());
            target.chain(row.values.iter().cloned()).collect::<Vec<_>>()
        };
        let names = std::iter::once("target").chain(sheet.columns.iter().copied());
        let mut factors: Vec<Factor> =
            names.map(|name| Factor { name, levels: Vec::new() }).collect();
        let mut observations = Vec::new();
        let metric = RateMetric::of(pass, counted.iter().copied());
        for row in &counted {
            let mut levels = Vec::with_capacity(factors.len());
            for (factor, level) in factors.iter_mut().zip(levels_of(row)) {
                // A setting that does not apply to a row makes no difference there: what does is
                // the setting that it depends on, such as the data path. Only rows to which it
                // applies are compared by it; the others are held to its first level.
                let applies = level != NOT_APPLICABLE;
                levels.push(if applies { factor.number(level) } else { 0 });
            }
            let used = row.judged.points.iter().filter(|point| point.used);
            observations.extend(used.map(|point| Observation {
                levels: levels.clone(),
                figure: metric.point(&row.judged, point.per_s),
            }));
        }
        drop_single(&mut factors, &mut observations);
        let levels: usize = factors.iter().map(|factor| factor.levels.len()).sum();
        let counts: Vec<usize> = factors.iter().map(|factor| factor.levels.len()).collect();
        let effects_asked = counts.iter().map(|count| count - 1).sum::<usize>() + 1;
        let found = match counts.len() {
            0 if counted.is_empty() => Err(NoEffects::NothingCounts),
            0 if !left_out.is_empty() => Err(NoEffects::OneCounts),
            0 => Err(NoEffects::NothingVaries),
            _ if levels > LEVELS_MAX => Err(NoEffects::TooManyLevels),
            _ => effects(&counts, &observations).ok_or(if observations.len() > effects_asked {
                NoEffects::NothingDiffers
            } else {
                NoEffects::TooFewTrials
            }),
        };
        Self {
            name,
            factors,
            trials: observations.len(),
            left_out: left_out.len(),
            by_bytes: metric.is_other(),
            found,
        }
    }
}

impl PassFactors {
    /// Returns the effect of a setting's level against another one, both as tables show them;
    /// `None` where these two are not what is compared, or their ratio may be 1.
    pub(crate) fn effect_of(&self, name: &str, level: &str, against: &str) -> Option<LevelEffect> {
        let effects = self.found.as_ref().ok()?;
        let effect = effects.factors.iter().find(|it| self.factors[it.factor].name == name)?;
        let levels = &self.factors[effect.factor].levels;
        let number = levels.iter().position(|known| known == level)?;
        let found = effect.levels[number];
        (levels[found.against] == against && found.is_apart()).then_some(found)
    }

    /// Returns the notes needed to read the ratios: nested factors, and factors that depend on
    /// each other.
    pub(crate) fn notes(&self, effects: &Effects) -> Vec<String> {
        let nested = effects.factors.iter().filter(|effect| !effect.within.is_empty());
        let nested = nested.map(|effect| {
            let (name, outer) = (self.factors[effect.factor].name, self.outer(effect));
            if effect.levels.iter().all(|level| level.interval.1.is_infinite()) {
                return format!(
                    "{name} changes with {outer} alone: what it does can't be told from what \
                     {outer} does."
                );
            }
            format!(
                "{name} lies within {outer}: its levels are compared where {outer} is the same, \
                 and the ratio of {outer} is a mean over them."
            )
        });
        nested.chain(effects.interactions.iter().map(|both| self.told(both))).collect()
    }

    /// The factors that one lies within.
    fn outer(&self, effect: &FactorEffect) -> String {
        let names = effect.within.iter().map(|outer| self.factors[*outer].name.to_owned());
        show::listed(&names.collect::<Vec<_>>())
    }

    /// Says in sentences that two factors depend on each other, and how.
    fn told(&self, interaction: &Interaction) -> String {
        let [first, second] =
            [interaction.factors.0, interaction.factors.1].map(|factor| &self.factors[factor]);
        let p = interaction.probability;
        let p = if p < 0.001 { "less than 0.001".to_owned() } else { format!("{p:.3}") };
        let mut told = format!(
            "{} and {} depend on each other: together they explain {} more (p {p}), so a ratio \
             above is a mean over the levels of the other.",
            first.name,
            second.name,
            show::percent(interaction.share),
        );
        for (level, name) in second.levels.iter().enumerate() {
            let under = interaction.within.iter().filter(|within| within.level == level);
            let against = under.clone().map(|within| within.against).next();
            let ratios: Vec<String> = under
                .map(|w| format!("{:.2} with {} {}", w.ratio, first.name, first.levels[w.under]))
                .collect();
            if let Some(against) = against {
                let against = &second.levels[against];
                let ratios = show::listed(&ratios);
                // Writing to a string can't fail.
                let _ = write!(told, " {} {name} against {against}: {ratios}.", second.name);
            }
        }
        told
    }
}

impl NoEffects {
    /// In a sentence's words.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::NothingCounts => "no figure may be used",
            Self::OneCounts => "only one setting has figures that may be used",
            Self::NothingVaries => "no setting varies: a factor needs two levels",
            Self::TooFewTrials => "too few trials for so many settings",
            Self::NothingDiffers => "all figures are the same",
            Self::TooManyLevels => "its settings have more levels than can be taken apart",
        }
    }

    /// Returns the advice that goes with the reason.
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NothingCounts | Self::OneCounts => "`dfsbench report` says what is wrong",
            Self::NothingVaries => "a list of levels makes a factor, such as --io-size 64KiB,1MiB",
            Self::TooFewTrials => "--trials 5 or more",
            Self::NothingDiffers => "longer passes tell more",
            Self::TooManyLevels => "a selection of its levels, by --where or a smaller plan",
        }
    }
}

impl Factor {
    /// The number of a level, which is new where it was not seen before.
    fn number(&mut self, level: String) -> usize {
        self.levels.iter().position(|known| *known == level).unwrap_or_else(|| {
            self.levels.push(level);
            self.levels.len() - 1
        })
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

/// Leaves out what has one level in this pass.
fn drop_single(factors: &mut Vec<Factor>, observations: &mut [Observation]) {
    let varies: Vec<bool> = factors.iter().map(|factor| factor.levels.len() > 1).collect();
    for observation in observations {
        let mut kept = varies.iter();
        observation.levels.retain(|_| *kept.next().expect("a level for each factor"));
    }
    let mut kept = varies.iter();
    factors.retain(|_| *kept.next().expect("as many as there are"));
}

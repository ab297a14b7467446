//! Compares systems: how they differ, what survives a crash, and how fast they are.
//!
//! [`render_contenders`] is the entry point, [`Contenders`] the prepared data. Each result is
//! compared with that of a baseline for the same work. No ratio may make a system look better than
//! one whose data survives more, or is not known to survive as much, so the tier is always shown
//! next to it.

mod access_paths;
mod along_factor;
mod cost;
mod durability;
mod json;
mod sections;
mod work;

use model::contender::{
    ContenderDifference, compares_systems, contender_of, contenders, differences,
};
use model::durability::{StoredDurability, Tier};
use model::{Campaign, Durability, RunSpec};

use crate::document::{Document, DocumentPart, Form, Section, text};
use crate::page;
use crate::table::Sheet;
use crate::{Format, Screen};
use access_paths::WayUse;
use along_factor::FactorSeries;
use work::{OmittedFactors, Work};

/// Name that matches none of a campaign's contenders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownContender {
    pub name: String,
    /// Names of the contenders.
    pub known: Vec<String>,
}

/// Contenders of a campaign, with everything known about each.
struct Contenders<'a> {
    contenders: Vec<Contender>,
    /// Index of the baseline.
    baseline: usize,
    differences: Vec<ContenderDifference>,
    works: Vec<Work<'a>>,
    /// Results by the number of clients.
    scaling: Vec<FactorSeries<'a>>,
    /// Results with warm and cold caches.
    coldness: Vec<FactorSeries<'a>>,
}

/// Contender with everything known about it.
struct Contender {
    /// Name in plans and tables.
    name: String,
    /// Durability levels that its runs request.
    promises: Vec<Durability>,
    /// Weakest tier measured for these levels.
    tier: Tier,
    /// Version reported by the system; empty if it reported none.
    version: String,
    /// Durability according to its documentation; empty if no recipe states it.
    documented: String,
    /// Why the authors of its recipe have never tried it; empty if they have.
    not_tried: String,
    /// Availability of each of [`AccessWay::ALL`].
    ways: Vec<WayUse>,
    /// Measured durability; `None` if it was not tested.
    found: Option<StoredDurability>,
    /// Distinct reasons for missing results.
    failures: Vec<String>,
}

impl Format {
    /// Formats of the comparison of contenders.
    pub const CONTENDERS: [Self; 4] = [Self::Table, Self::Markdown, Self::Json, Self::Html];
}

/// Comparison of a campaign's contenders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContenderComparison {
    /// Text that ends with a newline.
    pub text: String,
    /// True if a contender failed and therefore has no result for some work.
    pub has_failed: bool,
}

/// Renders the comparison of a campaign's contenders.
///
/// # Errors
///
/// If the baseline is not one of the contenders.
pub fn render_contenders(
    campaign: &Campaign,
    baseline: Option<&str>,
    format: Format,
    screen: Screen,
) -> Result<ContenderComparison, UnknownContender> {
    let sheet = Sheet::from_campaign(campaign);
    let contest = Contenders::from_sheet(&sheet, baseline)?;
    let has_failed = contest.contenders.iter().any(|contender| !contender.failures.is_empty());
    if format == Format::Json {
        return Ok(ContenderComparison { text: json::render(&contest), has_failed });
    }
    let mut document = Document {
        tool: "dfsbench contenders",
        title: format!("Contenders: {}", campaign.name),
        about: sheet.about(),
        parts: Vec::new(),
    };
    for mut section in sections::all(&contest) {
        section.is_answer = section.id == sections::ANSWER;
        document.push(section);
    }
    let text = match format {
        Format::Markdown => document.render(Form::Markdown),
        Format::Html => {
            document.parts.push(DocumentPart::Page(page::rates(&sheet, &maud::Markup::default())));
            document.render(Form::Html)
        }
        _ => text::render(&document, screen.columns()),
    };
    Ok(ContenderComparison { text, has_failed })
}

/// Sections about contenders in a report; empty if it compares no systems and no durability was
/// measured.
pub(crate) fn report_sections(sheet: &Sheet<'_>) -> Vec<Section> {
    let campaign = sheet.campaign;
    if !compares_systems(specs(campaign)) && campaign.durability.is_empty() {
        return Vec::new();
    }
    match Contenders::from_sheet(sheet, None) {
        // Without runs there are no contenders.
        Ok(contest) if !contest.contenders.is_empty() => sections::all(&contest),
        _ => Vec::new(),
    }
}

fn specs(campaign: &Campaign) -> impl Iterator<Item = &RunSpec> + Clone {
    campaign.runs.iter().map(|run| &run.spec)
}

impl<'a> Contenders<'a> {
    /// Arranges the rows of a sheet. The baseline defaults to the first contender.
    fn from_sheet(sheet: &'a Sheet<'a>, baseline: Option<&str>) -> Result<Self, UnknownContender> {
        let names = contenders(specs(sheet.campaign));
        let baseline = match baseline {
            None => 0,
            Some(name) => match names.iter().position(|known| known == name) {
                Some(number) => number,
                None => return Err(UnknownContender { name: name.to_owned(), known: names }),
            },
        };
        let differences = differences(specs(sheet.campaign));
        let omitted = OmittedFactors::from_campaign(sheet.campaign);
        let works = work::arrange(sheet, &names, &omitted);
        let scaling = along_factor::arrange_by_clients(sheet, &names, &omitted);
        let coldness = along_factor::by_coldness(sheet, &names, &omitted);
        let all: Vec<_> = names
            .into_iter()
            .enumerate()
            .map(|(number, name)| Contender::new(sheet.campaign, name, number, &works))
            .collect();
        Ok(Self { contenders: all, baseline, differences, works, scaling, coldness })
    }

    /// Sorts contenders by tier, the one whose data survives most first.
    fn sort_by_tier(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.contenders.len()).collect();
        order.sort_by_key(|number| std::cmp::Reverse(self.contenders[*number].tier.strength()));
        order
    }

    /// Compares the durability of a contender with that of the baseline; empty if both are known to
    /// survive the same events.
    fn promise_words(&self, number: usize) -> &'static str {
        let own = self.contenders[number].tier;
        let other = self.contenders[self.baseline].tier;
        if number == self.baseline {
            "baseline"
        } else if own.is_open() || other.is_open() {
            "promise not measured"
        } else if own.strength() < other.strength() {
            "weaker promise"
        } else if own.strength() > other.strength() {
            "stronger promise"
        } else {
            ""
        }
    }
}

impl Contender {
    fn new(campaign: &Campaign, name: String, number: usize, works: &[Work<'_>]) -> Self {
        let mut contender = Self {
            promises: Vec::new(),
            tier: Tier::Unknown,
            version: String::new(),
            documented: String::new(),
            not_tried: String::new(),
            ways: Vec::new(),
            found: durability::durability_of(campaign, &name),
            failures: Vec::new(),
            name,
        };
        for run in &campaign.runs {
            if contender_of(&run.spec) != contender.name {
                continue;
            }
            contender.ways = access_paths::ways_of(&run.spec);
            // Work to which the setting does not apply, such as metadata, requests no durability.
            let asks = run.spec.settings().iter().any(|(name, _)| *name == "durability");
            if asks && !contender.promises.contains(&run.spec.durability) {
                contender.promises.push(run.spec.durability);
            }
            if let Some(system) = run.spec.lab.as_ref().and_then(|lab| lab.system.as_ref()) {
                contender.documented.clone_from(&system.recipe.durability);
                contender.not_tried.clone_from(&system.recipe.not_tried);
            }
            for fact in run.trials.iter().flat_map(|trial| &trial.facts) {
                if fact.name == "system version" {
                    contender.version.clone_from(&fact.value);
                }
            }
        }
        contender.tier = contender.measured_tier();
        for work in works {
            if let Some(row) = work.rows[number]
                && row.judged.rate.is_none()
            {
                let why = row.missing();
                if !contender.failures.contains(&why) {
                    contender.failures.push(why);
                }
            }
        }
        contender
    }

    /// Returns the weakest tier of the durability levels that its runs request.
    fn measured_tier(&self) -> Tier {
        let Some(found) = &self.found else { return Tier::Unknown };
        let mut least: Option<Tier> = None;
        for promise in &self.promises {
            let tier = found.tier_of(*promise);
            if least.is_none_or(|known| tier.strength() < known.strength()) {
                least = Some(tier);
            }
        }
        least.unwrap_or(Tier::Unknown)
    }
}

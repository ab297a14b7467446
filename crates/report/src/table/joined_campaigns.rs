//! Several campaigns as one set of runs, with what differs between them as factors.
//!
//! [`JoinedCampaigns`] is the main type: a campaign with all runs, and a [`Property`] for each
//! host fact, label, tag or name that differs between the campaigns, so that swapped hardware is a
//! factor like any setting. Facts that change on their own, such as the load, are not properties,
//! and neither are numbers that differ by less than 2 %.

mod properties;

use std::collections::HashMap;

use model::{Campaign, CampaignState, Conclusion, Fact, Question, Requirement};
use serde::Deserialize;

use super::title;
use crate::humanize::listed;

pub(crate) use properties::{LEADING, are_nearly_equal, is_noise};

/// Campaign to join with others.
pub struct CampaignSource {
    pub campaign: Campaign,
    /// Tags that the user added to it.
    pub tags: Vec<String>,
    /// How the user refers to it: `3`, `old.db:3`.
    pub label: String,
}

/// Property that a run has because of its campaign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Property {
    /// Name, such as `fact.kernel`, `label.dram`, `tags` or `campaign`.
    pub name: String,
    /// Value in each run, in run order; `None` if unknown.
    pub values: Vec<Option<String>>,
}

/// Campaign that is part of a set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JoinedMember {
    /// Key in its results file.
    pub id: i64,
    /// Name of its plan.
    pub name: String,
    /// How the user refers to it.
    pub label: String,
    /// Line that describes it.
    pub title: String,
    /// Number of its runs, which follow those of the campaigns before it.
    pub runs: usize,
}

/// Runs of one or more campaigns.
pub struct JoinedCampaigns {
    campaign: Campaign,
    members: Vec<JoinedMember>,
    properties: Vec<Property>,
    hidden: Vec<Property>,
    conclusions: Vec<Conclusion>,
    requirements: Vec<Requirement>,
}

/// Requested property that cannot be a factor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownProperty {
    pub name: String,
    /// Value that it has in all runs, if any.
    pub only_value: Option<String>,
    /// Names of the available properties.
    pub known: Vec<String>,
}

impl JoinedCampaigns {
    /// Joins at least one campaign. If `by` is not empty, it names the properties to use as factors
    /// instead of those found automatically.
    ///
    /// # Errors
    ///
    /// If no property with a name in `by` differs.
    ///
    /// # Panics
    ///
    /// If there is no campaign.
    pub fn new(sources: Vec<CampaignSource>, by: &[String]) -> Result<Self, UnknownProperty> {
        assert!(!sources.is_empty(), "at least one campaign");
        let chosen = properties::choose(&sources, by)?;
        let mut members = Vec::new();
        let mut conclusions = Vec::new();
        let mut requirements = Vec::new();
        for source in &sources {
            let Campaign { id, name, runs, .. } = &source.campaign;
            members.push(JoinedMember {
                id: *id,
                name: name.clone(),
                label: source.label.clone(),
                title: title::describe(&source.campaign),
                runs: runs.len(),
            });
            add_new(&mut conclusions, declared_conclusions(&source.campaign));
            add_new(&mut requirements, declared_requirements(&source.campaign));
        }
        let campaign = join_campaigns(sources, &members);
        Ok(Self {
            campaign,
            members,
            properties: chosen.factors,
            hidden: chosen.others,
            conclusions,
            requirements,
        })
    }

    /// All runs as one campaign, numbered consecutively.
    pub const fn campaign(&self) -> &Campaign {
        &self.campaign
    }

    pub fn members(&self) -> &[JoinedMember] {
        &self.members
    }

    /// Campaign that a run belongs to.
    pub(crate) fn member_of(&self, run: usize) -> Option<&JoinedMember> {
        self.members.get(self.number_of_member(run)?)
    }

    /// Index of the campaign that a run belongs to.
    pub(crate) fn number_of_member(&self, run: usize) -> Option<usize> {
        let mut end = 0;
        for (number, member) in self.members.iter().enumerate() {
            end += member.runs;
            if run < end {
                return Some(number);
            }
        }
        None
    }

    /// Properties that are factors, those with few values first.
    pub(crate) fn properties(&self) -> &[Property] {
        &self.properties
    }

    /// Properties that differ but are not factors, because others were requested.
    pub(crate) fn hidden_properties(&self) -> &[Property] {
        &self.hidden
    }

    /// All properties that differ.
    pub(crate) fn all_properties(&self) -> impl Iterator<Item = &Property> {
        self.properties.iter().chain(&self.hidden)
    }

    /// Adds limits that results must keep.
    pub fn require(&mut self, requirements: impl IntoIterator<Item = Requirement>) {
        self.requirements.extend(requirements);
    }

    /// Limits declared in the campaigns' plans or added.
    pub(crate) fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Conclusions declared in the campaigns' plans.
    pub(crate) fn conclusions(&self) -> &[Conclusion] {
        &self.conclusions
    }
}

/// Numbers the runs of all campaigns consecutively, and keeps in the header what they have in
/// common.
fn join_campaigns(sources: Vec<CampaignSource>, members: &[JoinedMember]) -> Campaign {
    let facts = if members.len() > 1 { join_facts(&sources) } else { Vec::new() };
    let mut names: Vec<String> = Vec::new();
    let mut labels: Vec<String> = Vec::new();
    let mut joined: Option<Campaign> = None;
    let mut runs_before = 0;
    let mut trials_before = 0;
    for (source, member) in sources.into_iter().zip(members) {
        let mut campaign = source.campaign;
        if !names.contains(&campaign.name) {
            names.push(campaign.name.clone());
        }
        labels.push(member.label.clone());
        let mut trials = 0;
        for run in &mut campaign.runs {
            run.index += runs_before;
            for trial in &mut run.trials {
                trial.position += trials_before;
                trials += 1;
            }
        }
        runs_before += campaign.runs.len() as u32;
        trials_before += trials;
        match &mut joined {
            None => joined = Some(campaign),
            Some(joined) => append(joined, campaign),
        }
    }
    let mut joined = joined.expect("at least one campaign");
    if members.len() > 1 {
        joined.name = format!("{} (campaigns {})", names.join(" + "), listed(&labels));
        // Only a single campaign can answer its question; the results belong to all of them.
        joined.question = Question::Figures;
        joined.facts = facts;
    }
    joined
}

fn append(joined: &mut Campaign, campaign: Campaign) {
    joined.started_unix_ms = joined.started_unix_ms.min(campaign.started_unix_ms);
    if joined.tool_version != campaign.tool_version {
        joined.tool_version = format!("{}, {}", joined.tool_version, campaign.tool_version);
    }
    if joined.command != campaign.command {
        joined.command = format!("{}; {}", joined.command, campaign.command);
    }
    joined.plan_toml = format!("{}\n{}", joined.plan_toml, campaign.plan_toml);
    if campaign.state != CampaignState::Complete {
        joined.state = campaign.state;
    }
    // A result near the tool's ceiling measures the tool, so the lowest ceiling is the safe one.
    joined.ceiling = match (joined.ceiling, campaign.ceiling) {
        (Some(one), Some(other)) if other.ops_per_s < one.ops_per_s => Some(other),
        (Some(one), Some(_)) => Some(one),
        _ => None,
    };
    joined.runs.extend(campaign.runs);
}

/// Facts of this host in all campaigns. If they differ, each value is listed with its campaign.
fn join_facts(sources: &[CampaignSource]) -> Vec<Fact> {
    // First fact of each scope and name, and all values with their campaigns.
    let mut firsts: Vec<&Fact> = Vec::new();
    let mut values: Vec<Vec<(&str, &str)>> = Vec::new();
    let mut known: HashMap<(&str, &str), usize> = HashMap::new();
    for source in sources {
        for fact in &source.campaign.facts {
            let index = *known.entry((&fact.scope, &fact.name)).or_insert_with(|| {
                firsts.push(fact);
                values.push(Vec::new());
                firsts.len() - 1
            });
            values[index].push((&fact.value, &source.label));
        }
    }
    let mut joined = Vec::with_capacity(firsts.len());
    for (first, values) in std::iter::zip(firsts, values) {
        let mut one = first.clone();
        if values.iter().any(|(value, _)| *value != first.value) {
            let shown: Vec<_> = values
                .into_iter()
                .map(|(value, label)| format!("{value} (campaign {label})"))
                .collect();
            one.value = shown.join(" | ");
        }
        joined.push(one);
    }
    joined
}

/// Adds the items that a list doesn't contain yet.
fn add_new<T: PartialEq>(list: &mut Vec<T>, items: Vec<T>) {
    for item in items {
        if !list.contains(&item) {
            list.push(item);
        }
    }
}

/// Parts of a plan that only the report uses.
#[derive(Default, Deserialize)]
struct PlanText {
    #[serde(default)]
    conclusion: Vec<Conclusion>,
    #[serde(default)]
    require: Vec<Requirement>,
}

impl PlanText {
    /// Parses a campaign's plan if it contains one of these tables: plans with many runs are long.
    /// Results files may contain anything, so a plan that cannot be parsed declares nothing.
    fn parse(campaign: &Campaign, title: &str) -> Self {
        let text = &campaign.plan_toml;
        if text.contains(title) {
            toml::from_str(text).unwrap_or_default()
        } else {
            Self::default()
        }
    }
}

/// Reads the conclusions declared in a campaign's plan.
pub(crate) fn declared_conclusions(campaign: &Campaign) -> Vec<Conclusion> {
    PlanText::parse(campaign, "[[conclusion]]").conclusion
}

/// Reads the requirements declared in a campaign's plan.
pub(crate) fn declared_requirements(campaign: &Campaign) -> Vec<Requirement> {
    PlanText::parse(campaign, "[[require]]").require
}

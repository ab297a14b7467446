//! Checks each rule against a campaign.

use model::units::Nanos;
use model::{
    CampaignState, CaveatCode, OpError, PassResult, Question, Run, Severity, Target, TrialState,
    Verdict,
};
use stats::host_balance::straggling;
use stats::judge;

use super::{BundleContent, Finding, Rule, RuleResult, RuleSet, RuleSeverity};
use super::{state_facts, state_verdicts};
use crate::humanize::counted;
use crate::table::{Row, Sheet};

/// Facts about every host that takes part.
const HOST_FACTS: [&str; 3] = ["kernel", "processor", "memory"];

/// Checks all rules that are not off.
pub(super) fn check_all(content: &BundleContent<'_>, rules: &RuleSet) -> Vec<RuleResult> {
    let sheet = Sheet::from_campaign(content.campaign);
    let check = RuleCheck { content, rules, sheet: &sheet };
    let is_on = |rule: &&Rule| rules.severity(**rule) != RuleSeverity::Off;
    Rule::ALL.iter().filter(is_on).map(|rule| rules.result(*rule, check.findings(*rule))).collect()
}

struct RuleCheck<'a> {
    content: &'a BundleContent<'a>,
    rules: &'a RuleSet,
    sheet: &'a Sheet<'a>,
}

impl RuleCheck<'_> {
    fn findings(&self, rule: Rule) -> Vec<Finding> {
        match rule {
            // A damaged bundle doesn't get here.
            Rule::Intact => Vec::new(),
            Rule::Copies => self.content.differing_copies.iter().map(Finding::whole).collect(),
            Rule::Complete => self.check_complete(),
            Rule::PlanMatches => self.content.plan.differences.clone(),
            Rule::Recomputed => self.check_verdicts(),
            Rule::NoInvalidRow => self.check_invalid(),
            Rule::EnoughTrials => self.check_trials(),
            Rule::NoCaveat => self.check_caveats(),
            Rule::ClocksAgree => self.check_clocks(),
            Rule::CountsAgree => self.check_counts(),
            Rule::Durable => self.check_durable(),
            Rule::Released => self.check_version(),
            Rule::Disclosed => self.check_facts(),
            Rule::LongEnough => self.check_length(),
        }
    }

    /// Checks each row that has a result.
    fn of_rows(&self, check: impl Fn(&Row<'_>) -> Option<String>) -> Vec<Finding> {
        let rows = self.sheet.rows.iter().filter(|row| row.judged.impossible.is_none());
        rows.filter_map(|row| Some(Finding::new(self.sheet.name(row), check(row)?))).collect()
    }

    /// Checks each pass of a row that counts, and reports the first one of the row.
    fn of_passes(&self, check: impl Fn(&Row<'_>, &PassResult) -> Option<String>) -> Vec<Finding> {
        self.of_rows(|row| {
            let used = judge::used_results(row.run, row.judged.pass);
            used.into_iter().find_map(|pass| check(row, pass))
        })
    }

    fn check_complete(&self) -> Vec<Finding> {
        let campaign = self.content.campaign;
        let mut findings = Vec::new();
        if campaign.state != CampaignState::Complete {
            findings.push(Finding::whole(format!("the campaign is {}", campaign.state.name())));
        }
        let is_empty = campaign.runs.is_empty() && campaign.durability.is_empty();
        if is_empty {
            findings.push(Finding::whole("there are no results"));
        }
        let plan = &self.content.plan;
        if let Some(planned) = plan.runs
            && campaign.runs.len() < planned
        {
            let has = campaign.runs.len();
            findings.push(Finding::whole(format!(
                "{} of {planned} planned runs are missing",
                planned - has
            )));
        }
        for run in &campaign.runs {
            if let Some(value) = describe_gap(run, plan.trials) {
                findings.push(Finding::new(name_run(run), value));
            }
        }
        findings
    }

    fn check_verdicts(&self) -> Vec<Finding> {
        let content = self.content;
        let again = state_verdicts(content.campaign);
        let mut findings = Vec::new();
        if content.stated.len() != again.len() {
            findings.push(Finding::whole(format!(
                "{} stated, and there are {}",
                counted(content.stated.len(), "row"),
                again.len()
            )));
        }
        for (stated, again) in std::iter::zip(&content.stated, &again) {
            if let Some(mut value) = stated.difference(again) {
                if content.packed_by != content.verified_by {
                    value = format!(
                        "{value} (stated by dfsbench {}, computed by {})",
                        content.packed_by, content.verified_by
                    );
                }
                findings.push(Finding::new(&stated.row, value));
            }
        }
        findings.extend(self.of_passes(|row, pass| {
            // Passes of an invalid row don't count, whatever their caveats.
            if row.judged.verdict == Verdict::Invalid { None } else { find_hidden_caveat(pass) }
        }));
        findings
    }

    fn check_invalid(&self) -> Vec<Finding> {
        self.of_rows(|row| {
            if row.judged.verdict != Verdict::Invalid {
                return None;
            }
            let caveats = row.judged.caveats.iter();
            let codes: Vec<_> = caveats
                .filter(|caveat| caveat.severity == Severity::Invalid)
                .map(Row::code)
                .collect();
            if codes.is_empty() { Some(row.missing()) } else { Some(codes.join(", ")) }
        })
    }

    fn check_trials(&self) -> Vec<Finding> {
        let min = self.rules.limits.min_trials;
        // Load points and the segments of a soak are parts of one long measurement.
        if !matches!(self.content.campaign.question, Question::Figures | Question::Ladder(_)) {
            return Vec::new();
        }
        self.of_rows(|row| {
            let (used, made) = (row.judged.trials_used, row.judged.trials_made);
            (used < min).then(|| format!("{used} of {made} trials count"))
        })
    }

    fn check_caveats(&self) -> Vec<Finding> {
        let listed = &self.rules.limits.caveats;
        self.of_rows(|row| {
            // A caveat too small to change the result, or one about the arrangement, marks no row.
            let marks = row.marks();
            let found: Vec<String> = marks
                .iter()
                .filter(|caveat| listed.contains(&caveat.code))
                .map(|caveat| format!("{}: {}", Row::code(caveat), caveat.evidence_line()))
                .collect();
            (!found.is_empty()).then(|| found.join("; "))
        })
    }

    fn check_clocks(&self) -> Vec<Finding> {
        let max_percent = self.rules.limits.max_clock_error_percent;
        self.of_passes(|_, pass| {
            if pass.hosts.len() < 2 {
                return None;
            }
            let worst = pass.hosts.iter().max_by_key(|host| host.error_ns)?;
            let percent = worst.error_ns as f64 / pass.window_ns.max(1) as f64 * 100.0;
            (percent > max_percent).then(|| {
                format!(
                    "the clock of {} may be wrong by {}, {percent:.1} % of {}",
                    worst.host,
                    Nanos(worst.error_ns),
                    Nanos(pass.window_ns)
                )
            })
        })
    }

    fn check_counts(&self) -> Vec<Finding> {
        self.of_passes(|_, pass| {
            let wrong = pass.cross_checks.iter().find(|check| check.expected != check.found)?;
            let model::CrossCheck { expected, found, source } = wrong;
            Some(format!("recorded {expected}, found {found} ({source})"))
        })
    }

    fn check_durable(&self) -> Vec<Finding> {
        self.of_rows(|row| {
            let mut caveats = row.judged.caveats.iter();
            let found = caveats.find(|caveat| caveat.code == CaveatCode::NotDurable)?;
            Some(found.evidence_line())
        })
    }

    fn check_version(&self) -> Vec<Finding> {
        let version = &self.content.campaign.tool_version;
        let mut parts = version.split('.').map(|part| part.parse::<u32>().is_ok());
        let is_released = version.split('.').count() == 3 && parts.all(|is_number| is_number);
        if is_released {
            return Vec::new();
        }
        vec![Finding::whole(format!("dfsbench {version} is not a release"))]
    }

    fn check_facts(&self) -> Vec<Finding> {
        let campaign = self.content.campaign;
        let mut findings = Vec::new();
        let facts = state_facts(campaign);
        let is_missing = |scope: &str, name: &str| {
            !facts.iter().any(|fact| fact.scope == scope && fact.name == name)
        };
        // Facts of other hosts are recorded under their names.
        let clients = campaign.runs.iter().flat_map(|run| run.spec.client_hosts());
        let mut scopes: Vec<&str> = clients.map(|host| host.name.as_str()).collect();
        scopes.sort_unstable();
        scopes.dedup();
        if scopes.is_empty() {
            scopes.push("host");
        }
        for scope in scopes {
            let names = HOST_FACTS.into_iter();
            let missing: Vec<&str> = names.filter(|name| is_missing(scope, name)).collect();
            if !missing.is_empty() {
                let value = format!("{scope}: no fact about {}", missing.join(", "));
                findings.push(Finding::whole(value));
            }
        }
        for run in &campaign.runs {
            // The targets in this program have no settings of a system.
            if matches!(run.spec.target, Target::Null | Target::Memory) {
                continue;
            }
            // With several hosts, facts about the target have the name of the host as scope.
            let mut done = run.trials.iter().filter(|trial| trial.state == TrialState::Done);
            if let Some(trial) = done.find(|trial| trial.facts.is_empty()) {
                let value = format!("trial {} recorded nothing about the target", trial.index);
                findings.push(Finding::new(name_run(run), value));
            }
        }
        findings
    }

    fn check_length(&self) -> Vec<Finding> {
        let min_s = self.rules.limits.min_seconds;
        self.of_passes(|row, pass| {
            let is_short = (pass.window_ns as f64) < min_s * 1e9;
            // A command takes as long as it takes.
            (is_short && !row.judged.pass.is_timed_as_whole())
                .then(|| format!("lasted {}", Nanos(pass.window_ns)))
        })
    }
}

/// Describes a caveat that follows from what a pass recorded, but that it doesn't have.
fn find_hidden_caveat(pass: &PassResult) -> Option<String> {
    let mut expected = Vec::new();
    let failed = pass.errors();
    if failed > 0 {
        expected.push((CaveatCode::Errors, counted(failed as usize, "failed op")));
    }
    let errors = pass.kinds.iter().flat_map(|kind| &kind.errors);
    if errors.into_iter().any(|(error, count)| *error == OpError::MISMATCH && *count > 0) {
        expected.push((CaveatCode::DataMismatch, "wrong data".to_owned()));
    }
    if pass.cross_checks.iter().any(|check| check.expected != check.found) {
        expected.push((CaveatCode::Accounting, "counts that differ".to_owned()));
    }
    if pass.hosts.len() > 1
        && let Some(caveat) = straggling(pass.pass, &pass.hosts)
    {
        expected.push((caveat.code, caveat.evidence));
    }
    let has = |code: CaveatCode| pass.caveats.iter().any(|caveat| caveat.code == code);
    let (code, why) = expected.into_iter().find(|(code, _)| !has(*code))?;
    Some(format!("`{code}` is not stated, but recorded: {why}"))
}

/// Describes which trials of a run are missing without a stated reason.
fn describe_gap(run: &Run, planned: u32) -> Option<String> {
    let mut indices: Vec<u32> = run.trials.iter().map(|trial| trial.index).collect();
    indices.sort_unstable();
    if let Some((expected, _)) = (0..).zip(&indices).find(|(expected, index)| expected != *index) {
        return Some(format!("trial {expected} is missing, but later ones are there"));
    }
    let is_interrupted = |state: &TrialState| *state == TrialState::Interrupted;
    let interrupted = run.trials.iter().filter(|trial| is_interrupted(&trial.state)).count();
    if interrupted > 0 {
        return Some(format!("{} interrupted", counted(interrupted, "trial")));
    }
    let is_failed = |state: &TrialState| matches!(state, TrialState::Failed(_));
    let is_stated = run.trials.iter().any(|trial| is_failed(&trial.state))
        || judge::run(run).iter().any(|judged| judged.impossible.is_some());
    let made = run.trials.len() as u32;
    (made < planned && !is_stated).then(|| format!("{made} of {planned} trials are there"))
}

/// Names a run by its number and target.
pub fn name_run(run: &Run) -> String {
    format!("run {} ({} {})", run.index, run.spec.target_name, run.spec.workload.name())
}

//! Formats the judged conclusions as a section of the report, and as JSON.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Comparison, JudgedConclusion, Outcome, judge};
use crate::document::{Block, Cell, Column, Form, Role, Section, Table, TableRow};
use crate::humanize::{counted, percent};
use crate::table::Sheet;

/// Explanation below the section.
const READING: &str = "Each sentence comes from the plan, together with its comparison. It is \
    borne out or contradicted by the 95 % interval of the ratio of the two levels, other settings \
    equal; effects below 5 % are ignored.";

/// Builds the section with the plan's conclusions; `None` if it declares none.
pub(crate) fn section(sheet: &Sheet<'_>, form: Form) -> Option<Section> {
    let judgements = judge(sheet);
    if judgements.is_empty() {
        return None;
    }
    let blocks = match form {
        Form::Text => {
            let lines = judgements.iter().map(|judgement| {
                let shows = describe_result(judgement);
                let text = judgement.conclusion.text.trim_end_matches('.');
                format!("{}: \"{text}\": {shows}", judgement.standing.name())
            });
            vec![Block::List(lines.collect())]
        }
        Form::Markdown | Form::Html => vec![Block::Table(table(&judgements))],
    };
    let heading = "Conclusions".to_owned();
    Some(Section { id: "conclusions", heading, blocks, ..Section::default() })
}

fn table(judgements: &[JudgedConclusion]) -> Table {
    let columns = Column::all(&[
        ("sentence", Role::Prose),
        ("the data", Role::Words),
        ("what they show", Role::Prose),
    ]);
    let mut rows = Vec::new();
    for judgement in judgements {
        let cells = vec![
            Cell::text(&judgement.conclusion.text),
            Cell::text(judgement.standing.name()),
            Cell::text(describe_result(judgement)),
        ];
        rows.push(TableRow { cells, ..TableRow::default() });
    }
    Table { columns, rows, reading: vec![READING.to_owned()], ..Table::default() }
}

/// Describes what the data show, one clause for each kind of pass.
fn describe_result(judgement: &JudgedConclusion) -> String {
    if !judgement.why.is_empty() {
        return judgement.why.clone();
    }
    let clauses: Vec<_> = judgement.comparisons.iter().map(|one| clause(one, judgement)).collect();
    clauses.join("; ")
}

/// `stream read: transfer_size 32 KiB is 1.85x (1.79x to 1.91x) 8 KiB, 22 trials`.
fn clause(one: &Comparison, judgement: &JudgedConclusion) -> String {
    let mut parts = Vec::new();
    let factor = &judgement.conclusion.factor;
    if let Some(share) = one.share {
        parts.push(format!("{factor} explains {} of the variance", percent(share)));
    }
    if let (Some(ratio), Some((lo, hi))) = (one.ratio, one.interval) {
        let [from, to] = &one.levels;
        parts.push(format!("{factor} {to} is {ratio:.2}x ({lo:.2}x to {hi:.2}x) {from}"));
    }
    parts.extend(one.notes.iter().cloned());
    if one.ratio.is_some() || one.share.is_some() || one.outcome == Outcome::Answered {
        parts.push(counted(one.trials, "trial"));
    }
    // If the passes disagree, state the outcome of each.
    let is_mixed = judgement.comparisons.iter().any(|other| other.outcome != one.outcome);
    let stands = match one.outcome {
        _ if !is_mixed => "",
        Outcome::BorneOut => " bears it out",
        Outcome::Contradicted => " contradicts it",
        Outcome::Undecided => " doesn't tell",
        Outcome::Answered => "",
    };
    format!("{}{stands}: {}", one.pass, parts.join(", "))
}

/// One sentence of the plan and its outcome.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Conclusion")]
pub(crate) struct ConclusionPart {
    /// The sentence of the plan.
    text: String,
    /// The factor that it is about; empty if no comparison can confirm it.
    factor: String,
    #[schemars(extend("enum" = ["faster", "slower", "no difference", "matters most", "ranking"]))]
    expect: &'static str,
    #[schemars(extend("enum" =
        ["borne out", "partly borne out", "contradicted", "undecided", "answered"]))]
    outcome: &'static str,
    /// The data's answer in words.
    shows: String,
    comparisons: Vec<ComparisonPart>,
}

/// Two levels of the factor in one kind of pass.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ConclusionPass")]
struct ComparisonPart {
    pass: String,
    from: String,
    to: String,
    /// The rate under `to` divided by that under `from`; null if unknown.
    ratio: Option<f64>,
    ratio_interval_lo: Option<f64>,
    ratio_interval_hi: Option<f64>,
    /// Share of the variance that the factor explains, if the sentence is about that.
    share: Option<f64>,
    trials: usize,
    #[schemars(extend("enum" = ["borne out", "contradicted", "undecided", "answered"]))]
    outcome: &'static str,
    notes: Vec<String>,
}

impl ConclusionPart {
    pub(crate) fn all(sheet: &Sheet<'_>) -> Vec<Self> {
        let mut parts = Vec::new();
        for judgement in judge(sheet) {
            parts.push(Self {
                text: judgement.conclusion.text.clone(),
                factor: judgement.conclusion.factor.clone(),
                expect: judgement.conclusion.expect.name(),
                outcome: judgement.standing.name(),
                shows: describe_result(&judgement),
                comparisons: judgement.comparisons.into_iter().map(comparison_part).collect(),
            });
        }
        parts
    }
}

fn comparison_part(one: Comparison) -> ComparisonPart {
    let [from, to] = one.levels;
    ComparisonPart {
        pass: one.pass,
        from,
        to,
        ratio: one.ratio,
        ratio_interval_lo: one.interval.map(|(lo, _)| lo),
        ratio_interval_hi: one.interval.map(|(_, hi)| hi),
        share: one.share,
        trials: one.trials,
        outcome: match one.outcome {
            Outcome::BorneOut => "borne out",
            Outcome::Contradicted => "contradicted",
            Outcome::Undecided => "undecided",
            Outcome::Answered => "answered",
        },
        notes: one.notes,
    }
}

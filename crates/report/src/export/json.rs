//! Report as JSON: everything measured and everything computed from it.
//!
//! [`Export`] is the main type. The names and order of its fields are those of the output, so this
//! file is the reference of the format, and `docs/results.schema.json` is generated from it
//! ([`schema`]). Numbers are plain, with their unit in the name. `schema` is incremented when a
//! field changes its meaning or is removed. The seed is text because it may exceed the numbers that
//! JSON readers can represent exactly (2^53).

mod schema;
mod shares;
mod trials;

use std::collections::BTreeMap;

use model::{Campaign, Fact, Histogram, RunSpec};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use stats::{ClientShare, Fairness, Io500Score, Judged, Summary};

use self::schema::{AnyQuestion, AnySettings};
use self::shares::{DataServersPart, HostsPart, RanksPart, TrainingPart};
use self::trials::TrialPart;
use crate::campaign::cache_sizes::SweepPart;
use crate::campaign::conclusions::section::ConclusionPart;
use crate::campaign::notes::io500::{self, ScoredRun};
use crate::campaign::requirements::RequirementPart;
use crate::campaign::scaling::ScalingPart;
use crate::comparison::loads::LoadCostPart;
use crate::comparison::tools::ToolComparisonPart;
use crate::question::{self, QuestionAnswer};
use crate::table::columns::{COLUMNS, IDENTITY, Value};
use crate::table::joined_campaigns::JoinedCampaigns;
use crate::table::{Row, Sheet};

pub use self::schema::schema;

/// Version of the format.
const SCHEMA: u32 = 1;

/// Writes the document on one line, because histograms have thousands of numbers.
pub(crate) fn render(sheet: &Sheet<'_>) -> String {
    let json = serde_json::to_string(&Export::from_sheet(sheet));
    json.expect("only a path that is not text can't be written, and no plan can name one") + "\n"
}

/// A campaign: its judged results, and every trial behind them. Times are nanoseconds and sizes
/// bytes, unless a name says otherwise. Members may be added while `schema` stays 1; none changes
/// its meaning or is removed.
#[derive(Serialize, JsonSchema)]
#[schemars(title = "dfsbench report --format json")]
#[schemars(extend("$id" = "https://github.com/dfsbench/dfsbench/docs/results.schema.json"))]
struct Export<'a> {
    #[schemars(extend("const" = SCHEMA))]
    schema: u32,
    campaign: Header<'a>,
    /// The campaigns, if the report covers several; `campaign` then describes what they have in
    /// common.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    campaigns: Vec<MemberPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    found: Option<FoundPart>,
    /// The conclusions that the plan declares, judged.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    conclusions: Vec<ConclusionPart>,
    /// The limits that results must keep, checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    requirements: Vec<RequirementPart>,
    /// What loads cost each other, if the plan has several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    load_costs: Vec<LoadCostPart>,
    /// The passes that fio and dfsbench both did, with the reasons for differences.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_comparisons: Vec<ToolComparisonPart>,
    /// How rates depend on the file size, if runs differ in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    size_sweeps: Vec<SweepPart>,
    /// How rates grow with a number of machines, if runs differ in it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scaling: Vec<ScalingPart>,
    /// Scores of runs of io500, none of which is an IO500 result.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    io500: Vec<ScorePart>,
    figures: Vec<Figure<'a>>,
    runs: Vec<RunPart<'a>>,
}

/// The answer to the campaign's question, if it has one.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Found")]
struct FoundPart {
    #[schemars(with = "AnyQuestion")]
    #[serde(rename = "asked")]
    request: model::Question,
    /// The answer in sentences.
    sentences: Vec<String>,
    /// The numbers behind the answer, which depend on the question.
    figures: serde_json::Value,
}

/// Score of a run of io500.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Io500Score")]
struct ScorePart {
    /// Index of the run.
    run: u32,
    /// What the score is not.
    note: &'static str,
    /// Geometric mean of both figures below; null if no trial has a result of every phase.
    score: Option<SummaryPart>,
    /// Geometric mean of the bandwidths of four phases, in GiB/s.
    bandwidth_gib_per_s: Option<SummaryPart>,
    /// Geometric mean of the rates of eight phases, in thousands of ops per second.
    metadata_kops_per_s: Option<SummaryPart>,
    /// Phases that wrote for less time than IO500 requires.
    phases_without_stonewall: Vec<&'static str>,
    /// Phases that did not read from the target, or may not have.
    phases_from_caches: Vec<&'static str>,
}

impl ScorePart {
    fn all(sheet: &Sheet<'_>) -> Vec<Self> {
        let part = |run: &ScoredRun<'_, '_>| {
            let summary =
                |of: fn(Io500Score) -> Summary| run.score.map(of).map(SummaryPart::from_summary);
            Self {
                run: run.index(),
                note: io500::NOT_A_RESULT,
                score: summary(|it| it.score),
                bandwidth_gib_per_s: summary(|it| it.bandwidth_gib_per_s),
                metadata_kops_per_s: summary(|it| it.metadata_kops_per_s),
                phases_without_stonewall: run.early_phases(),
                phases_from_caches: run.cached_phases(),
            }
        };
        io500::scores(sheet).iter().map(part).collect()
    }
}

/// One of several campaigns.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Member")]
struct MemberPart<'a> {
    id: i64,
    name: &'a str,
    /// The first of its runs; the runs of all campaigns are numbered consecutively.
    first_run: usize,
    runs: usize,
    /// Properties that distinguish it: host facts, labels and tags; null if unknown.
    properties: BTreeMap<&'a str, Option<&'a str>>,
}

/// The campaign without its runs.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Campaign")]
struct Header<'a> {
    id: i64,
    name: &'a str,
    started_unix_ms: u64,
    tool_version: &'a str,
    command: &'a str,
    /// Decimal text: the number may exceed 2^53.
    #[schemars(regex(pattern = "^[0-9]+$"))]
    seed: String,
    state: model::CampaignState,
    ceiling: Option<model::Ceiling>,
    facts: &'a [Fact],
    plan_toml: &'a str,
}

/// One run and pass, judged over its trials.
#[derive(Serialize, JsonSchema)]
struct Figure<'a> {
    #[serde(flatten)]
    columns: Members,
    rate: Option<SummaryPart>,
    rate_ops_per_s: Option<SummaryPart>,
    rate_bytes_per_s: Option<SummaryPart>,
    rate_first_done: Option<SummaryPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate_common_window: Option<SummaryPart>,
    service_time: Times,
    response_time: Times,
    #[serde(skip_serializing_if = "Option::is_none")]
    estimated_response_time: Option<Times>,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_set: Option<model::WorkingSet>,
    #[serde(skip_serializing_if = "Option::is_none")]
    listing: Option<&'a model::ListingWork>,
    #[serde(skip_serializing_if = "Option::is_none")]
    frames: Option<model::FrameDelivery>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    worst_p95: &'a [model::WorkerTime],
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<model::ProgramUse>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    kinds: Vec<KindSharePart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    clients: Option<ClientsPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hosts: Option<HostsPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ranks: Option<RanksPart<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    training: Option<TrainingPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_servers: Option<DataServersPart>,
    caveats: Vec<CaveatPart>,
    failures: Vec<FailurePart<'a>>,
}

/// Columns that are direct members of a figure: those of CSV, except for the ones covered by other
/// members. Their part of the schema is generated from the list of columns.
struct Members(Vec<(&'static str, Value)>);

impl Members {
    fn from_row(row: &Row<'_>) -> Self {
        let mut members = Vec::new();
        for columns in [IDENTITY, COLUMNS] {
            members.extend(columns.iter().filter_map(|column| column.member(row)));
        }
        Self(members)
    }
}

impl Serialize for Members {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// One kind of op of a pass that has several.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "KindShare")]
struct KindSharePart {
    #[schemars(with = "String")]
    kind: model::OpKind,
    /// Share of all ops.
    percent: f64,
    ops_per_s: f64,
    bytes_per_s: f64,
}

impl KindSharePart {
    const fn from_share(share: &stats::KindShare) -> Self {
        Self {
            kind: share.kind,
            percent: share.percent,
            ops_per_s: share.ops_per_s,
            bytes_per_s: share.bytes_per_s,
        }
    }
}

/// A result over several trials, in the unit that its name contains.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Summary")]
struct SummaryPart {
    /// Number of trials behind it.
    n: usize,
    median: f64,
    /// Lower end of the 95 % confidence interval of the median; null for fewer than three trials.
    interval_lo: Option<f64>,
    interval_hi: Option<f64>,
    mean: f64,
    trimmed_mean: Option<f64>,
    standard_deviation: f64,
    min: f64,
    max: f64,
}

/// Op times in nanoseconds; null if there were no ops.
#[derive(Default, Serialize, JsonSchema)]
struct Times {
    count: u64,
    min_ns: Option<u64>,
    mean_ns: Option<u64>,
    p50_ns: Option<u64>,
    p90_ns: Option<u64>,
    p99_ns: Option<u64>,
    p999_ns: Option<u64>,
    max_ns: Option<u64>,
}

/// The results of emulated clients, if they were recorded separately.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Clients")]
struct ClientsPart {
    clients: usize,
    jain_fairness_index: f64,
    slowest: SharePart,
    fastest: SharePart,
}

/// The share of one emulated client.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "ClientShare")]
struct SharePart {
    client: u32,
    ops_per_s: f64,
    bytes_per_s: f64,
    failed: u64,
    service_time_p50_ns: u64,
    service_time_p99_ns: u64,
    service_time_max_ns: u64,
}

/// A caveat of a row.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RowCaveat")]
struct CaveatPart {
    code: &'static str,
    severity: model::Severity,
    /// Number of trials that have it; null if it applies to the whole run.
    trials_seen: Option<u32>,
    /// The numbers that raised it.
    evidence: String,
    /// The number that raised it, as data; null if the caveat has no limit.
    data: Option<model::Evidence>,
    sentence: &'static str,
    advice: String,
}

/// Why trials gave no result.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Failure")]
struct FailurePart<'a> {
    reason: &'a str,
    trials: u32,
}

/// One point of the matrix and its trials, in the order they ran.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Run")]
struct RunPart<'a> {
    index: u32,
    #[schemars(with = "AnySettings")]
    settings: &'a RunSpec,
    trials: Vec<TrialPart<'a>>,
}

impl<'a> Export<'a> {
    fn from_sheet(sheet: &'a Sheet<'a>) -> Self {
        let campaign = sheet.campaign;
        let mut runs = Vec::with_capacity(campaign.runs.len());
        for run in &campaign.runs {
            let trials = run.trials.iter().map(TrialPart::from_trial).collect();
            runs.push(RunPart { index: run.index, settings: &run.spec, trials });
        }
        Self {
            schema: SCHEMA,
            campaign: Header::from_campaign(campaign),
            campaigns: sheet.joined.map_or_else(Vec::new, MemberPart::all),
            conclusions: ConclusionPart::all(sheet),
            requirements: RequirementPart::all(sheet),
            load_costs: LoadCostPart::all(sheet),
            tool_comparisons: ToolComparisonPart::all(sheet),
            size_sweeps: SweepPart::all(sheet),
            found: question::answer(sheet).map(|found| FoundPart::new(found, &campaign.question)),
            scaling: ScalingPart::all(sheet),
            io500: ScorePart::all(sheet),
            figures: sheet.rows.iter().map(Figure::from_row).collect(),
            runs,
        }
    }
}

impl<'a> MemberPart<'a> {
    fn all(joined: &'a JoinedCampaigns) -> Vec<Self> {
        let mut parts = Vec::new();
        let mut first_run = 0;
        for member in joined.members() {
            let mut properties = BTreeMap::new();
            for property in joined.all_properties() {
                let value = property.values.get(first_run).and_then(Option::as_deref);
                properties.insert(property.name.as_str(), value);
            }
            let runs = member.runs;
            parts.push(Self {
                id: member.id,
                name: member.name.as_str(),
                first_run,
                runs,
                properties,
            });
            first_run += runs;
        }
        parts
    }
}

impl FoundPart {
    fn new(found: QuestionAnswer, request: &model::Question) -> Self {
        Self { request: request.clone(), sentences: found.sentences, figures: found.json }
    }
}

impl<'a> Header<'a> {
    fn from_campaign(campaign: &'a Campaign) -> Self {
        Self {
            id: campaign.id,
            name: &campaign.name,
            started_unix_ms: campaign.started_unix_ms,
            tool_version: &campaign.tool_version,
            command: &campaign.command,
            seed: campaign.seed.to_string(),
            state: campaign.state,
            ceiling: campaign.ceiling,
            facts: &campaign.facts,
            plan_toml: &campaign.plan_toml,
        }
    }
}

impl<'a> Figure<'a> {
    fn from_row(row: &'a Row<'a>) -> Self {
        let judged = &row.judged;
        Self {
            columns: Members::from_row(row),
            rate: judged.rate.map(SummaryPart::from_summary),
            rate_ops_per_s: judged.ops_per_s.map(SummaryPart::from_summary),
            rate_bytes_per_s: judged.bytes_per_s.map(SummaryPart::from_summary),
            rate_first_done: judged.first_done.map(SummaryPart::from_summary),
            rate_common_window: judged.common.map(SummaryPart::from_summary),
            service_time: Times::from_histogram(&judged.service_time),
            response_time: Times::from_histogram(&judged.response_time),
            estimated_response_time: judged
                .estimated_response_time
                .as_ref()
                .map(Times::from_histogram),
            working_set: judged.working_set,
            listing: judged.listing.as_ref(),
            frames: judged.frames,
            worst_p95: &judged.worst_p95,
            program: judged.program,
            kinds: judged.kinds.iter().map(KindSharePart::from_share).collect(),
            clients: judged.clients.as_ref().map(ClientsPart::from_fairness),
            hosts: judged.hosts.as_ref().map(HostsPart::from_hosts),
            ranks: judged.ranks.as_ref().map(RanksPart::from_ranks),
            training: judged.training.as_ref().map(TrainingPart::from_judged),
            data_servers: DataServersPart::from_row(row),
            caveats: CaveatPart::all(judged),
            failures: FailurePart::all(judged),
        }
    }
}

impl SummaryPart {
    fn from_summary(summary: Summary) -> Self {
        // With fewer than three trials there is no interval, so both ends are null.
        let mut interval_lo = None;
        let mut interval_hi = None;
        if let Some((lo, hi)) = summary.confidence_interval() {
            interval_lo = Some(lo);
            interval_hi = Some(hi);
        }
        Self {
            n: summary.n,
            median: summary.median,
            interval_lo,
            interval_hi,
            mean: summary.mean,
            trimmed_mean: summary.trimmed_mean,
            standard_deviation: summary.standard_deviation,
            min: summary.min,
            max: summary.max,
        }
    }
}

impl Times {
    fn from_histogram(histogram: &Histogram) -> Self {
        // An empty histogram returns 0 for everything, which would look like a time.
        if histogram.count() == 0 {
            return Self::default();
        }
        Self {
            count: histogram.count(),
            min_ns: Some(histogram.min()),
            mean_ns: Some(histogram.mean()),
            p50_ns: Some(histogram.quantile(0.5)),
            p90_ns: Some(histogram.quantile(0.9)),
            p99_ns: Some(histogram.quantile(0.99)),
            p999_ns: Some(histogram.quantile(0.999)),
            max_ns: Some(histogram.max()),
        }
    }
}

impl CaveatPart {
    fn all(judged: &Judged) -> Vec<Self> {
        let mut parts = Vec::with_capacity(judged.caveats.len());
        for caveat in &judged.caveats {
            parts.push(Self {
                code: caveat.code.code(),
                severity: caveat.severity,
                trials_seen: match caveat.extent {
                    stats::CaveatExtent::Trials { seen, .. } => Some(seen),
                    stats::CaveatExtent::Run | stats::CaveatExtent::Arrangement => None,
                },
                evidence: caveat.evidence.clone(),
                data: caveat.data.clone(),
                sentence: caveat.code.sentence(),
                advice: caveat.advice.clone(),
            });
        }
        parts
    }
}

impl<'a> FailurePart<'a> {
    fn all(judged: &'a Judged) -> Vec<Self> {
        judged
            .failures
            .iter()
            .map(|failure| Self { reason: &failure.reason, trials: failure.trials })
            .collect()
    }
}

impl ClientsPart {
    fn from_fairness(fairness: &Fairness) -> Self {
        Self {
            clients: fairness.clients,
            jain_fairness_index: fairness.index,
            slowest: SharePart::from_share(&fairness.slowest),
            fastest: SharePart::from_share(&fairness.fastest),
        }
    }
}

impl SharePart {
    const fn from_share(share: &ClientShare) -> Self {
        Self {
            client: share.client,
            ops_per_s: share.ops_per_s,
            bytes_per_s: share.bytes_per_s,
            failed: share.failed,
            service_time_p50_ns: share.p50_ns,
            service_time_p99_ns: share.p99_ns,
            service_time_max_ns: share.max_ns,
        }
    }
}

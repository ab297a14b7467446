//! `dfsbench compare --bisect`: a step of `git bisect run`.
//!
//! [`run`] makes a plan of the build and the good one, lets [`controller::search::alternation`]
//! make trials of both in turns, and asks [`BisectRequest::judge`] after planned numbers of them.
//! Exit codes are git's: 0 good, 1 bad, 125 to skip the commit; errors end with 128 or more
//! ([`crate::exit::use_git_codes`]), so that git stops instead of searching on with nonsense.

use std::path::Path;
use std::process::ExitCode;

use controller::search::alternation::{AlternationEnd, AlternationLimits, alternate_trials};
use model::units::parse_time_ns;
use model::{Campaign, Discard, Question, RunSpec, Target};
use plan::{Overrides, Plan, RawPlan, Surroundings};
use report::{BisectJudgment, BisectMetric, BisectRequest, Measure, Selection};
use results::Store;
use stats::bisect::{BisectRule, BisectVerdict};

use crate::args::{CompareArgs, RunArgs};
use crate::commands::campaign::{self, Session};
use crate::commands::compare::{load_campaign, parse_share};
use crate::exit::{End, Failure};
use crate::plans::{plan_source, surroundings};
use crate::server::embedded;
use crate::terminal::output;
use crate::terminal::progress::Progress;

/// Exit code for a commit that can't be judged. **Source:** git-bisect(1), "Bisect run".
const SKIP: u8 = 125;

/// Difference to search for, unless one is given.
const DIFFERENCE: f64 = 0.1;

/// Names of targets that are given by their address.
const NAMES: [&str; 2] = ["good", "now"];

/// Flags of `dfsbench run` that a bisect sets itself.
const OWN_FLAGS: [&str; 17] = [
    "--results",
    "--quiet",
    "--plan",
    "--trials",
    "--until",
    "--budget",
    "--discard",
    "--order",
    "--quick",
    "--thorough",
    "--dry-run",
    "--format",
    "--require",
    "--with",
    "--until-broken",
    "--launcher",
    "--warmup-trials",
];

/// Where the results of a build come from.
enum Side {
    /// A target of the plan.
    Named(String),
    /// Something to measure, given by its address.
    Address(String),
    Stored(Box<Campaign>),
}

/// How a step ended: the answer, and the reason in one line.
struct StepEnd {
    verdict: BisectVerdict,
    sentence: String,
    /// Command that shows the results in detail.
    details: String,
}

/// Judges a build.
///
/// # Errors
/// If the arguments are invalid, or the good build can't be measured.
pub(crate) fn run(args: &CompareArgs) -> Result<ExitCode, Failure> {
    let flags = read_flags(args)?;
    let after = args.after.as_deref().unwrap_or_default();
    let mut raw = read_plan(args)?;
    let sides = [&args.before, after].map(|text| find_side(text, args, raw.as_ref()));
    let [good, now] = sides;
    let (good, now) = (good?, now?);
    if args.before == after {
        return Err(Failure::Usage(format!(
            "--bisect: `{after}` is given twice, so nothing could differ (hint: name the good \
             build first, then the one to judge)"
        )));
    }
    let request = BisectRequest {
        difference: match &args.difference {
            Some(text) => parse_share("--difference", text, 1.0)?,
            None => DIFFERENCE,
        },
        metrics: read_metrics(&args.metric)?,
        is_paired: !matches!(good, Side::Stored(_)),
    };
    if request.difference <= 0.0 {
        return Err(Failure::Usage(
            "--difference: must be more than 0 % (hint: --difference 10%)".to_owned(),
        ));
    }
    let end = match (&good, &now) {
        (Side::Stored(good), Side::Stored(now)) => judge_stored(&request, good, now, args)?,
        (_, Side::Stored(_)) => {
            return Err(Failure::Usage(format!(
                "--bisect: `{after}` is a stored campaign, so `{}` must be one, too (hint: the \
                 good build comes first)",
                args.before
            )));
        }
        _ => {
            let sides = [&good, &now];
            let raw = complete_plan(raw.take(), sides, &flags)?;
            BisectMeasurement { args, flags: &flags, request: &request, sides }.make(&raw)?
        }
    };
    finish(args, &end)
}

/// Prints the answer and returns git's exit code for it.
fn finish(args: &CompareArgs, end: &StepEnd) -> Result<ExitCode, Failure> {
    let (word, code) = match end.verdict {
        BisectVerdict::Good => ("good", End::Ok.code()),
        BisectVerdict::Bad => ("bad", End::Lost.code()),
        BisectVerdict::Open => ("undecided", SKIP),
    };
    if !args.quiet {
        // Nobody may read it; git reads the exit code in any case.
        match output::text(&format!("{word}: {}\n", end.sentence)).map_err(Failure::from) {
            Ok(()) | Err(Failure::BrokenPipe) => {}
            Err(error) => return Err(error),
        }
        output::message(&format!("details: {}", end.details));
    }
    Ok(ExitCode::from(code))
}

/// Reads the flags of `dfsbench run`, and refuses those that a bisect sets itself.
fn read_flags(args: &CompareArgs) -> Result<RunArgs, Failure> {
    for word in &args.run {
        let name = word.split('=').next().unwrap_or_default();
        if OWN_FLAGS.contains(&name) {
            return Err(Failure::Usage(format!(
                "{name} after `--`: a bisect sets it itself (hint: omit it; `dfsbench compare \
                 --help` lists the options of a bisect)"
            )));
        }
    }
    let mut words = args.run.clone();
    words.push(format!("--results={}", args.results.display()));
    if args.quiet {
        words.push("--quiet".to_owned());
    }
    let flags = plan_source::parse_run(&words, &OWN_FLAGS)?;
    if flags.like.is_some() {
        let what = "--like after `--`: fio says nothing about a commit";
        let hint =
            "write its plan with `dfsbench run --like FILE --as-plan`, and give it to --plan";
        return Err(Failure::Usage(format!("{what} (hint: {hint})")));
    }
    match &flags.target {
        None => Ok(flags),
        Some(target) => Err(Failure::Usage(format!(
            "`{target}` after `--` is not a flag (hint: the two builds are named before `--`)"
        ))),
    }
}

fn read_metrics(texts: &[String]) -> Result<Vec<BisectMetric>, Failure> {
    if texts.is_empty() {
        return Ok(vec![BisectMetric { pass: String::new(), measure: Measure::Rate }]);
    }
    let parse = |text: &String| {
        BisectMetric::parse(text).map_err(|why| Failure::Usage(format!("--metric: {why}")))
    };
    texts.iter().map(parse).collect()
}

fn read_plan(args: &CompareArgs) -> Result<Option<RawPlan>, Failure> {
    let Some(path) = &args.plan else { return Ok(None) };
    let raw = plan_source::read_plan(path)?;
    plan_source::refuse_loads(&raw)?;
    Ok(Some(raw))
}

/// Finds out what a word names: a target of the plan, something to measure, or stored results.
fn find_side(text: &str, args: &CompareArgs, raw: Option<&RawPlan>) -> Result<Side, Failure> {
    if raw.is_some_and(|raw| raw.targets.iter().any(|target| target.name.value == text)) {
        return Ok(Side::Named(text.to_owned()));
    }
    let is_plain = text == "embedded" || Target::plain(text).is_some();
    if is_plain || text.contains("://") || Path::new(text).is_dir() {
        return Ok(Side::Address(text.to_owned()));
    }
    let file = text.rsplit_once(':').map_or(text, |(file, _)| file);
    if text != "last" && text.parse::<i64>().is_err() && !Path::new(file).is_file() {
        let known = raw.map_or(String::new(), |raw| {
            let names: Vec<&str> = raw.targets.iter().map(|it| it.name.value.as_str()).collect();
            format!("; the plan's targets are {}", names.join(", "))
        });
        return Err(Failure::Usage(format!(
            "--bisect: there is no directory or results file `{text}`{known} (hint: name a \
             directory, nfs://server/export, a target of --plan or a results file)"
        )));
    }
    Ok(Side::Stored(Box::new(load_campaign(text, &args.results)?.0)))
}

/// Gives the plan the targets of the sides that are measured, and applies the flags.
fn complete_plan(
    raw: Option<RawPlan>,
    sides: [&Side; 2],
    flags: &RunArgs,
) -> Result<RawPlan, Failure> {
    let mut targets = Vec::new();
    for (side, name) in sides.iter().zip(NAMES) {
        match side {
            Side::Named(own) => targets.push((own.clone(), None)),
            Side::Address(text) => {
                targets.push((name.to_owned(), Some(plan::parse_target(text)?)));
            }
            Side::Stored(_) => {}
        }
    }
    let mut raw = match (raw, targets.iter().find_map(|(_, what)| what.clone())) {
        (Some(raw), _) => raw,
        (None, Some(what)) => RawPlan::for_target(what),
        (None, None) => unreachable!("only a plan names targets"),
    };
    raw.choose_targets(targets);
    plan_source::apply(&mut raw, flags)?;
    // Trials can only be compared in pairs if one of each run comes before the next of any.
    raw.apply(&Overrides { order: Some("blocks".to_owned()), ..Overrides::default() })?;
    "bisect".clone_into(&mut raw.name);
    Ok(raw)
}

/// Judges a stored campaign; its trials are all there are.
fn judge_stored(
    request: &BisectRequest,
    good: &Campaign,
    now: &Campaign,
    args: &CompareArgs,
) -> Result<StepEnd, Failure> {
    let specs: Vec<&RunSpec> = now.runs.iter().map(|run| &run.spec).collect();
    let results = count_results(request, &specs)?;
    let rule = BisectRule::for_stored(results);
    let judgment = judge(request, &rule, [(good, &[]), (now, &[])])?;
    let details =
        format!("dfsbench compare {} {}", args.before, args.after.as_deref().unwrap_or_default());
    let BisectJudgment { verdict, sentence, .. } = judgment;
    Ok(StepEnd { verdict, sentence, details })
}

/// A campaign, and the settings of its runs on one side.
type SideRuns<'a> = (&'a Campaign, &'a [(String, String)]);

fn judge(
    request: &BisectRequest,
    rule: &BisectRule,
    sides: [SideRuns<'_>; 2],
) -> Result<BisectJudgment, Failure> {
    let [good, now] = sides.map(|(campaign, only)| Selection { campaign, only });
    request.judge(rule, good, now).map_err(Failure::Lab)
}

fn count_results(request: &BisectRequest, runs: &[&RunSpec]) -> Result<usize, Failure> {
    request.count_results(runs).map_err(|why| Failure::Usage(format!("--metric: {why}")))
}

/// The trials of a step.
struct BisectMeasurement<'a> {
    args: &'a CompareArgs,
    flags: &'a RunArgs,
    request: &'a BisectRequest,
    sides: [&'a Side; 2],
}

impl BisectMeasurement<'_> {
    /// Makes as many trials as it takes.
    fn make(&self, raw: &RawPlan) -> Result<StepEnd, Failure> {
        let mut plan = self.resolve(raw, &surroundings::for_campaign())?;
        campaign::warn_of_idle_settings(&plan);
        plan.check_destroy(&self.flags.making.allow_destroy)?;
        let now_name = self.name(1);
        let judged: Vec<&RunSpec> =
            plan.runs.iter().filter(|run| run.target_name == now_name).collect();
        let results = count_results(self.request, &judged)?;
        let max_trials = self.args.max_trials as usize;
        let rule = BisectRule::new(max_trials, results).map_err(|least| {
            Failure::Usage(format!(
                "--max-trials {max_trials}: a certain answer about {} takes at least {least} \
                 trials of each build (hint: --max-trials {least} or more)",
                report::counted(results, "result")
            ))
        })?;
        let time_ms = self.time_limit_ms()?;
        let first = rule.next_look(0).unwrap_or(max_trials) as u32;
        let mut session = Session::start(&self.flags.making, &self.flags.job)?;
        let server = embedded::start(&plan)?;
        if let Some(server) = &server {
            server.set_addresses(&mut plan);
        }
        let progress = Progress::open_ended(&plan, session.visibility());
        let mut observer = session.observe(progress, 0)?;
        let mut decide = |so_far: &Campaign| self.wanted_trials(&rule, so_far);
        let store_path = &session.making.results;
        let limits = AlternationLimits { first, time_ms };
        let made = session.with_runner(&plan, server.as_ref(), &mut observer, |runner| {
            let header = campaign::header(runner, &Question::Figures)?;
            let mut store = Store::open_or_create(store_path)?;
            alternate_trials(runner, &mut store, &header, limits, &mut decide)
        });
        // Drop the server last: agents use it until they have cleaned up.
        drop(server);
        let ended =
            made.and_then(|(campaign, end)| Ok((self.conclude(&rule, &campaign, end)?, campaign)));
        let mut answer = None;
        let shown = ended.map(|(step, campaign)| {
            let end = match step.verdict {
                BisectVerdict::Good => End::Ok,
                BisectVerdict::Bad => End::Lost,
                BisectVerdict::Open => End::Invalid,
            };
            answer = Some(step);
            (end, campaign)
        });
        observer.end(&shown);
        shown.map(|_| answer.expect("a judged campaign has an answer"))
    }

    /// Resolves the plan, with as many trials as may be needed if some don't count.
    fn resolve(&self, raw: &RawPlan, around: &Surroundings) -> Result<Plan, Failure> {
        let mut plan = Plan::resolve(raw, around)?;
        plan.trials = self.args.max_trials + self.args.max_trials / 2;
        plan.budget_ms = 0;
        // The rule is exact only for trials that are not selected by their results.
        let mut repetition = plan.repetition;
        repetition.discard = Discard::None;
        repetition.until_permille = 0;
        repetition.warmup_trials = 0;
        plan.repetition = repetition;
        for run in &mut plan.runs {
            run.repetition = repetition;
        }
        Ok(plan)
    }

    /// Returns the name of a side's target.
    fn name(&self, side: usize) -> &str {
        match self.sides[side] {
            Side::Named(name) => name,
            Side::Address(_) | Side::Stored(_) => NAMES[side],
        }
    }

    fn time_limit_ms(&self) -> Result<u64, Failure> {
        let Some(text) = &self.args.within else { return Ok(0) };
        match parse_time_ns(text) {
            Ok(ns) if ns >= 1_000_000 => Ok(ns / 1_000_000),
            Ok(_) => Err(Failure::Usage(format!("--within `{text}`: must be at least 1 ms"))),
            Err(error) => Err(Failure::Usage(format!("--within `{text}`: {error}"))),
        }
    }

    fn judge(&self, rule: &BisectRule, so_far: &Campaign) -> Result<BisectJudgment, Failure> {
        let only = [0, 1].map(|side| vec![("target".to_owned(), self.name(side).to_owned())]);
        let good: SideRuns<'_> = match self.sides[0] {
            Side::Stored(campaign) => (campaign, &[]),
            _ => (so_far, &only[0]),
        };
        judge(self.request, rule, [good, (so_far, &only[1])])
    }

    /// Returns how many trials of each build to make before the next question; `None` if there is
    /// an answer, or none to be expected.
    fn wanted_trials(&self, rule: &BisectRule, so_far: &Campaign) -> Result<Option<u32>, Failure> {
        let judgment = self.judge(rule, so_far)?;
        if judgment.verdict != BisectVerdict::Open || !judgment.is_worth_more {
            return Ok(None);
        }
        let made = so_far.runs.iter().map(|run| run.trials.len()).max().unwrap_or(0);
        let more = rule.next_look(judgment.trials).map(|look| look - judgment.trials);
        Ok(more.map(|more| (made + more) as u32))
    }

    /// Judges the finished campaign.
    fn conclude(
        &self,
        rule: &BisectRule,
        made: &Campaign,
        end: AlternationEnd,
    ) -> Result<StepEnd, Failure> {
        let details = match self.sides[0] {
            Side::Stored(_) => format!("dfsbench compare {} {}", self.args.before, made.id),
            _ => format!(
                "dfsbench compare {} --where target={} --where target={}",
                made.id,
                self.name(0),
                self.name(1)
            ),
        };
        let undecided = |sentence| {
            Ok(StepEnd { verdict: BisectVerdict::Open, sentence, details: details.clone() })
        };
        match end {
            AlternationEnd::Interrupted => {
                Err(Failure::Interrupted("interrupted before the build was judged".to_owned()))
            }
            AlternationEnd::GivenUp { target, why } if target == self.name(1) => {
                undecided(format!("{target}: {why}"))
            }
            AlternationEnd::GivenUp { target, why } => {
                Err(Failure::Lab(format!("the good build can't be measured: {target}: {why}")))
            }
            AlternationEnd::OutOfTime if made.runs.iter().any(|run| run.trials.is_empty()) => {
                undecided("the time limit was too short for any trial".to_owned())
            }
            AlternationEnd::Done | AlternationEnd::OutOfTime => {
                let judgment = self.judge(rule, made)?;
                let BisectJudgment { verdict, mut sentence, is_worth_more, .. } = judgment;
                if verdict == BisectVerdict::Open && is_worth_more {
                    sentence.push_str(
                        " (hint: raise --max-trials or --within, make trials longer, or free the \
                         machine of other work)",
                    );
                }
                Ok(StepEnd { verdict, sentence, details })
            }
        }
    }
}

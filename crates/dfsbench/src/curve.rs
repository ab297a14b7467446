//! `dfsbench curve`: response time over throughput, at evenly spaced load points.
//!
//! A curve is a plan like any other, with the load points as levels of `rate`: it is walked,
//! stored and gone on with as `dfsbench run` does it. Where the heaviest load is not named, a short
//! closed loop finds it first. The report shows what was found, from the results file.

mod bound;
mod maximum;
mod raw_plan;

use std::process::ExitCode;

use model::question::{CurveRequest, LoadMaximum, Question, ResponseBound};
use model::setting::Setting;
use model::units::parse_time_ns;
use model::{OpKind, Workload};
use plan::{Overrides, Plan, RawPlan, Surroundings};
use workload::opmix;

use crate::args::{CurveArgs, Launcher};
use crate::campaign::{self, Session};
use crate::exit::{End, Failure};
use crate::{dry_run, output, plan_source};

/// Draws the curve that the arguments ask for.
///
/// # Errors
/// As [`campaign::run`], and where a load can't be offered to what is to be measured.
pub fn run(args: &CurveArgs) -> Result<ExitCode, Failure> {
    let bound = bound_of(args)?;
    let launcher = args.run.job.launcher;
    if launcher.is_some_and(Launcher::brings_agents) && args.max_load.is_none() {
        return Err(Failure::Usage(
            "--launcher: agents of a job connect once, and the closed loop that finds the heaviest \
             load would use them (hint: name the heaviest load: --max-load)"
                .to_owned(),
        ));
    }
    let around = plan_source::surroundings_of_job(&args.run.job)?;
    let raw = raw_plan::plan(args, &around)?;
    let mut ask = Asking { args, raw: &raw, around };
    let light = ask.plan(&[1])?;
    campaign::warn_of_idle_settings(&light);
    light.check_destroy(&args.run.making.allow_destroy)?;
    if args.run.estimate.dry_run {
        return ask.describe(&light);
    }
    let session = Session::start(&args.run.making, &args.run.job)?;
    session.add_job_hosts(&mut ask.around);
    let maximum = match args.max_load {
        Some(per_s) => LoadMaximum { per_s, found: None },
        None => maximum::find(&session, light)?,
    };
    let loads_per_s = spread_loads(maximum.per_s, args.points);
    let plan = ask.plan(&loads_per_s)?;
    let mut request = CurveRequest { loads_per_s, maximum, bound, ..mix_of(&plan) };
    if let Some(bound) = bound {
        // A search chooses its loads itself, by what it found so far.
        request.loads_per_s.clear();
        return bound::search(session, &ask, &request, bound);
    }
    session.run_plan(plan, &Question::Curve(request))
}

/// The arguments that plans of a curve are made from.
struct Asking<'a> {
    args: &'a CurveArgs,
    raw: &'a RawPlan,
    around: Surroundings,
}

impl Asking<'_> {
    /// The plan with these offered loads, in ops per second.
    fn plan(&self, loads_per_s: &[u64]) -> Result<Plan, Failure> {
        let mut raw = self.raw.clone();
        let mut overrides = Overrides::default();
        let mut levels = Vec::new();
        let mut heaviest = 1;
        for load in loads_per_s {
            levels.push(load.to_string());
            heaviest = heaviest.max(*load);
        }
        overrides.settings.insert(Setting::Rate, levels);
        raw.apply(&overrides)?;
        raw_plan::fit_set(&mut raw, &self.around, heaviest)?;
        Ok(Plan::resolve(&raw, &self.around)?)
    }

    /// Describes the campaign without running it.
    fn describe(&self, light: &Plan) -> Result<ExitCode, Failure> {
        let points = self.args.points;
        let text = match self.args.max_load {
            Some(per_s) => {
                dry_run::describe(&self.plan(&spread_loads(per_s, points))?, &self.args.run)?
            }
            None => format!(
                "{points} load points, evenly spaced up to what a closed loop of {} finds first; \
                 --max-load names it\none load point:\n{}",
                maximum::shown(light),
                dry_run::describe(light, &self.args.run)?
            ),
        };
        output::text(&text)?;
        Ok(End::Ok.into())
    }
}

/// So many loads, evenly spaced up to the heaviest.
fn spread_loads(max_per_s: u64, points: u32) -> Vec<u64> {
    let mut loads = Vec::new();
    for point in 1..=points {
        let load = u128::from(max_per_s) * u128::from(point) / u128::from(points);
        loads.push((load as u64).max(1));
    }
    loads
}

/// The mix of a plan's first run, for the rule of a curve: all runs have the same, or they could
/// not be compared.
fn mix_of(plan: &Plan) -> CurveRequest {
    let Some(run) = plan.runs.first() else { return CurveRequest::default() };
    let (mix_name, mix) = if run.workload == Workload::OpMix {
        (run.op_mix.name.clone(), opmix::call_shares(&run.op_mix))
    } else {
        // Shares count in hundredths of a percent.
        let reads = run.read_percent * 100;
        (String::new(), vec![(OpKind::Read, reads), (OpKind::Write, 10_000 - reads)])
    };
    CurveRequest { mix_name, mix, ..CurveRequest::default() }
}

fn bound_of(args: &CurveArgs) -> Result<Option<ResponseBound>, Failure> {
    let Some(text) = &args.bound else { return Ok(None) };
    let most_ns = match parse_time_ns(text) {
        Ok(0) => Err("the bound must be longer than 0".to_owned()),
        Ok(most_ns) => Ok(most_ns),
        Err(error) => Err(error.to_string()),
    };
    let most_ns = most_ns
        .map_err(|why| Failure::Usage(format!("--bound `{text}`: {why} (hint: such as 20ms)")))?;
    let mut quantile_permille = None;
    if let Some(text) = &args.bound_quantile {
        quantile_permille = Some(parse_quantile(text)?);
    }
    Ok(Some(ResponseBound { most_ns, quantile_permille }))
}

/// Parses a percentile, from 1 to less than 100; the result is in tenths of a percent.
fn parse_quantile(text: &str) -> Result<u32, Failure> {
    match text.trim().parse::<f64>() {
        Ok(percent) if (1.0..100.0).contains(&percent) => Ok((percent * 10.0).round() as u32),
        _ => Err(Failure::Usage(format!(
            "--bound-quantile `{text}`: is no share of the ops in percent (hint: 1 to 99.9, such \
             as 99)"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_points_are_evenly_spaced_and_end_at_the_heaviest() {
        assert_eq!(spread_loads(5_000, 10), (1..=10).map(|n| n * 500).collect::<Vec<u64>>());
        let uneven = spread_loads(1_234, 10);
        assert_eq!((uneven[0], uneven[9], uneven.len()), (123, 1_234, 10));
        assert!(uneven.windows(2).all(|pair| (123..=124).contains(&(pair[1] - pair[0]))));
    }
}

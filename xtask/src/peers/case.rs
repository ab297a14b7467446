//! One comparison: our side and one or more rivals, measured in rounds.
//!
//! Main types: [`Case`] goes in, [`Row`]s come out. The order alternates with every round. If a
//! side fails, its rows say so; other comparisons still run.

use anyhow::{Context, Result};

/// The result of one measurement of one side.
#[derive(Clone, Copy, Debug)]
pub struct SideResult {
    /// Ops or bytes per second.
    pub rate: f64,
    /// CPU time per op or byte counted in the rate, in nanoseconds, if known.
    pub cpu_ns_each: Option<f64>,
}

/// Makes one measurement.
pub type Measure<'a> = Box<dyn FnMut() -> Result<SideResult> + 'a>;

/// A competitor, and our claim.
pub struct Rival<'a> {
    /// The peer and how it was run.
    pub name: String,
    /// Minimum ratio of rates, ours to theirs.
    pub rate_target: f64,
    /// Minimum ratio of CPU time per op or byte, theirs to ours, if claimed.
    pub cpu_target: Option<f64>,
    /// Measures the rival once.
    pub measure: Measure<'a>,
}

/// A comparison with one or several rivals.
pub struct Case<'a> {
    /// Name of the workload, such as "4 KiB random reads".
    pub name: String,
    /// Unit of the rates.
    pub unit: Unit,
    /// Measures our side once.
    pub ours: Measure<'a>,
    /// The rivals to compare with.
    pub rivals: Vec<Rival<'a>>,
}

/// The unit of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Ops per second.
    Ops,
    /// Bytes per second.
    Bytes,
    /// Nanoseconds of CPU time per op.
    CpuPerOp,
    /// Nanoseconds of CPU time per byte.
    CpuPerByte,
    /// Bytes of memory.
    Memory,
    /// The same, for small amounts.
    SmallMemory,
}

/// Median, minimum and maximum of some rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The middle value; for an even number, the mean of the two in the middle.
    pub median: f64,
    /// The smallest value.
    pub min: f64,
    /// The largest value.
    pub max: f64,
}

impl Spread {
    /// Returns the spread of a single value.
    pub const fn from_value(value: f64) -> Self {
        Self { median: value, min: value, max: value }
    }

    /// Summarizes values; `None` if there are none.
    pub fn from_values(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let min = *sorted.first()?;
        let max = *sorted.last()?;
        let half = sorted.len() / 2;
        let median = match sorted.len() % 2 {
            1 => sorted[half],
            _ => f64::midpoint(sorted[half - 1], sorted[half]),
        };
        Some(Self { median, min, max })
    }
}

/// One line of the table.
pub struct Row {
    /// The claim about the ratio.
    pub claim: String,
    /// The peer of the claim.
    pub peer: String,
    /// Unit of both results.
    pub unit: Unit,
    /// Minimum ratio claimed.
    pub target: f64,
    /// The outcome, or the reason why there is none.
    pub outcome: Result<Outcome, String>,
}

/// The results of one row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Outcome {
    /// Spread of our results.
    pub ours: Spread,
    /// Spread of the peer's results.
    pub peer: Spread,
    /// Spread of the ratios of the rounds; above 1 we are better.
    pub ratio: Spread,
}

impl Row {
    /// Returns true if the claim is met: the median ratio reaches the target.
    pub fn is_met(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|outcome| outcome.ratio.median >= self.target)
    }

    /// Returns true if, for a claim to be no worse, rounds are on both sides: it is missed by less
    /// than their spread.
    pub fn is_tie(&self) -> bool {
        self.outcome.as_ref().is_ok_and(|outcome| {
            !self.is_met() && self.target <= 1.0 && outcome.ratio.max >= self.target
        })
    }
}

/// Runs all rounds of a case.
pub fn run(mut case: Case<'_>, rounds: u32) -> Vec<Row> {
    let measured = CaseRounds(measure(&mut case, rounds));
    let cpu_unit = if case.unit == Unit::Bytes { Unit::CpuPerByte } else { Unit::CpuPerOp };
    let mut rows = Vec::new();
    for (index, rival) in case.rivals.iter().enumerate() {
        rows.push(Row {
            claim: case.name.clone(),
            peer: rival.name.clone(),
            unit: case.unit,
            target: rival.rate_target,
            outcome: measured.outcome(index, case.unit, |figure| Some(figure.rate)),
        });
        let Some(target) = rival.cpu_target else { continue };
        rows.push(Row {
            claim: format!("{}, CPU time", case.name),
            peer: rival.name.clone(),
            unit: cpu_unit,
            target,
            outcome: measured.outcome(index, cpu_unit, |figure| figure.cpu_ns_each),
        });
    }
    rows
}

/// One round: our result and each rival's.
struct Round {
    ours: SideResult,
    rivals: Vec<SideResult>,
}

fn measure(case: &mut Case<'_>, rounds: u32) -> Result<Vec<Round>> {
    let mut done = Vec::new();
    for round in 0..rounds {
        let we_begin = round % 2 == 0;
        let mut ours = None;
        if we_begin {
            ours = Some((case.ours)().context("dfsbench")?);
        }
        let mut rivals = Vec::new();
        for rival in &mut case.rivals {
            rivals.push((rival.measure)().with_context(|| rival.name.clone())?);
        }
        let ours = match ours {
            Some(figure) => figure,
            None => (case.ours)().context("dfsbench")?,
        };
        done.push(Round { ours, rivals });
    }
    Ok(done)
}

/// All rounds of a case, or the error that ended them.
struct CaseRounds(Result<Vec<Round>>);

impl CaseRounds {
    /// Compares our results with those of one rival.
    fn outcome(
        &self,
        rival: usize,
        unit: Unit,
        value: fn(&SideResult) -> Option<f64>,
    ) -> Result<Outcome, String> {
        match &self.0 {
            Ok(rounds) => compare(rounds, rival, unit, value),
            Err(error) => Err(format!("{error:#}")),
        }
    }
}

fn compare(
    rounds: &[Round],
    rival: usize,
    unit: Unit,
    value: fn(&SideResult) -> Option<f64>,
) -> Result<Outcome, String> {
    let less_is_better = !matches!(unit, Unit::Ops | Unit::Bytes);
    let mut ours = Vec::new();
    let mut peers = Vec::new();
    let mut ratios = Vec::new();
    for round in rounds {
        let (Some(our), Some(peer)) = (value(&round.ours), value(&round.rivals[rival])) else {
            return Err("one side doesn't report it".to_owned());
        };
        ours.push(our);
        peers.push(peer);
        ratios.push(if less_is_better { peer / our } else { our / peer });
    }
    match (Spread::from_values(&ours), Spread::from_values(&peers), Spread::from_values(&ratios)) {
        (Some(ours), Some(peer), Some(ratio)) => Ok(Outcome { ours, peer, ratio }),
        _ => Err("no round was run".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(rates: &'static [f64]) -> Measure<'static> {
        let mut rates = rates.iter();
        Box::new(move || {
            let rate = *rates.next().context("the script has ended")?;
            Ok(SideResult { rate, cpu_ns_each: Some(1e9 / rate) })
        })
    }

    fn case(ours: &'static [f64], peer: &'static [f64], target: f64) -> Case<'static> {
        let rival = Rival {
            name: "peer".to_owned(),
            rate_target: target,
            cpu_target: Some(target),
            measure: script(peer),
        };
        let name = "reads".to_owned();
        Case { name, unit: Unit::Ops, ours: script(ours), rivals: vec![rival] }
    }

    #[test]
    fn uses_median_of_round_ratios() {
        let rows = run(case(&[200.0, 30.0, 400.0], &[100.0, 10.0, 400.0], 2.0), 3);
        let outcome = rows[0].outcome.clone().unwrap();
        assert_eq!(outcome.ratio, Spread { median: 2.0, min: 1.0, max: 3.0 });
        assert_eq!(outcome.ours, Spread { median: 200.0, min: 30.0, max: 400.0 });
        assert!(rows[0].is_met());
        let cpu = rows[1].outcome.clone().unwrap();
        assert!((cpu.ratio.median - 2.0).abs() < 1e-9, "less CPU time is better");
    }

    #[test]
    fn fails_missed_targets() {
        assert!(!run(case(&[199.0], &[100.0], 2.0), 1)[0].is_met());
        let rows = run(case(&[200.0], &[], 2.0), 1);
        assert!(!rows[0].is_met() && !rows[1].is_met());
        assert!(rows[0].outcome.as_ref().unwrap_err().contains("the script has ended"));
    }

    #[test]
    fn ties_if_rounds_disagree() {
        let tie = |ours: &'static [f64], target| {
            run(case(ours, &[100.0, 100.0, 100.0], target), 3)[0].is_tie()
        };
        assert!(tie(&[98.0, 99.0, 101.0], 1.0));
        assert!(!tie(&[97.0, 98.0, 99.0], 1.0), "all rounds agree");
        assert!(!tie(&[99.0, 101.0, 102.0], 1.0), "it holds");
        assert!(!tie(&[198.0, 199.0, 201.0], 2.0), "a lead that is claimed has to be there");
    }

    #[test]
    fn averages_middle_pair_for_median() {
        let spread = Spread::from_values(&[4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!(spread, Spread { median: 2.5, min: 1.0, max: 4.0 });
        assert!(Spread::from_values(&[]).is_none());
    }
}

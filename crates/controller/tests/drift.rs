//! A machine that slows down while a campaign runs: whom the order blames for it.

use plan::{Plan, RawPlan, Surroundings};
use stats::{Outcome, compare, criteria};

/// Share of its speed that the machine loses from the first trial to the last.
const DRIFT: f64 = 0.3;

/// What a comparison says of two runs that differ in nothing but when they were made.
fn verdict(order: &str, seed: u64) -> Outcome {
    let text = format!(
        "name = \"t\"\nseed = {seed}\ntrials = 15\norder = \"{order}\"\n[[target]]\nname = \"n\"\n\
         null = true\n[[workload]]\nkind = \"mixed\"\nqueue_depth = [1, 2]\n"
    );
    let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 0, job: None };
    let plan = Plan::resolve(&RawPlan::parse(&text, "t").unwrap(), &around).unwrap();
    let steps = controller::steps(&plan);
    let speed = |at: usize| 1e9 * (1.0 - DRIFT * at as f64 / steps.len() as f64);
    let rates = |run| -> Vec<f64> {
        let made = steps.iter().enumerate().filter(|(_, step)| step.run == run);
        made.map(|(at, _)| speed(at)).collect()
    };
    let comparison = compare(&rates(0), &rates(1), criteria::EFFECT_MIN, seed);
    comparison.unwrap().outcome()
}

#[test]
fn a_drift_looks_like_an_effect_in_sequence_and_not_in_blocks() {
    for seed in 0..100 {
        assert_eq!(verdict("sequential", seed), Outcome::Lower, "seed {seed}");
        let in_blocks = verdict("blocks", seed);
        assert!(
            !matches!(in_blocks, Outcome::Lower | Outcome::Higher),
            "seed {seed}: {in_blocks:?}"
        );
    }
}

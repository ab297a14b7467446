//! Stores a campaign of many runs, as large as reports have to cope with:
//! `cargo run --release -p dfsbench-results --example stored -- FILE RUNS [TRIALS]`.
//!
//! The campaign is the one with which reports are tested, and it goes through [`Store`], as every
//! campaign does. A file in memory (`/dev/shm`) is written in a tenth of the time.

#[path = "../../report/tests/reports/campaigns.rs"]
mod campaigns;

use std::error::Error;
use std::path::PathBuf;

use model::{CampaignState, Workload};
use results::Store;

fn main() -> Result<(), Box<dyn Error>> {
    let mut words = std::env::args().skip(1);
    let path = PathBuf::from(words.next().ok_or("usage: stored FILE RUNS [TRIALS]")?);
    let runs = words.next().ok_or("RUNS is missing")?.parse()?;
    let trials = words.next().map_or(Ok(1), |trials| trials.parse())?;
    let campaign = campaigns::many(runs, Workload::Mixed, trials);
    let mut store = Store::open_or_create(&path)?;
    let id = store.begin_campaign(&campaign)?;
    for run in &campaign.runs {
        let run_id = store.add_run(id, run.index, &run.spec)?;
        for trial in &run.trials {
            store.add_trial(run_id, trial)?;
        }
    }
    store.finish(id, CampaignState::Complete)?;
    Ok(())
}

//! Checks of a checkpoint: its model, scale and ranks must go together, and its hosts must be able
//! to hold the ranks.

use model::checkpoint::{RANKS_PER_HOST_MAX, SCALE_ONE};
use model::setting::Setting;
use model::{Checkpoint, Host, RunSpec};

use super::WrittenSettings;
use crate::syntax::error::{Fault, PlanError};
use crate::syntax::text;

/// Refuses a checkpoint whose ranks are not whole, cannot be divided among its hosts, or are too
/// many for them. If the plan sets `workers`, that is the number of ranks on each host.
pub(super) fn check(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let checkpoint = &run.checkpoint;
    let scale = text::fraction(checkpoint.scale_millionths.into());
    if checkpoint.scale_millionths > SCALE_ONE {
        let what = format!("a scale of {scale} is larger than the model");
        let fault = Fault::new(what).hint("at most 1, the whole model");
        return Err(written.fault(run, &[Setting::ModelScale], fault));
    }
    if written.written(Setting::Workers).is_some() || checkpoint.is_subset() {
        return Ok(());
    }
    let Some(fault) = find_fault(run, checkpoint, &scale) else { return Ok(()) };
    let settings = [Setting::ModelScale, Setting::Model, Setting::ClientHosts];
    Err(written.fault(run, &settings, fault))
}

fn find_fault(run: &RunSpec, checkpoint: &Checkpoint, scale: &str) -> Option<Fault> {
    let model = checkpoint.model;
    let one = u64::from(SCALE_ONE);
    let (_, of_model) = model.bytes_and_ranks();
    let millionths = checkpoint.rank_millionths();
    if !millionths.is_multiple_of(one) {
        let ranks = text::fraction(millionths);
        let what = format!("{scale} of the {of_model} ranks of {model} would be {ranks} ranks");
        return Some(Fault::new(what).hint(
            "choose a model_scale such as 0.5, 0.25 or 0.125, or set workers, the ranks on each \
             host",
        ));
    }
    let ranks = millionths / one;
    let agents = u64::from(run.agents());
    let hosts = u64::from(Host::count_distinct(run.client_hosts()).max(1));
    let on_hosts = |count: u64| if count == 1 { "1 host".into() } else { format!("{count} hosts") };
    if ranks > hosts * RANKS_PER_HOST_MAX {
        let what = format!(
            "model {model} at model_scale {scale} has {ranks} ranks, more than the {} that {} can \
             hold at {RANKS_PER_HOST_MAX} each",
            hosts * RANKS_PER_HOST_MAX,
            on_hosts(hosts),
        );
        let most = text::fraction(hosts * RANKS_PER_HOST_MAX * one / of_model);
        let needed = on_hosts(ranks.div_ceil(RANKS_PER_HOST_MAX));
        let hint = format!("use {needed}, a model_scale of at most {most}, or set workers");
        return Some(Fault::new(what).hint(hint));
    }
    if !ranks.is_multiple_of(agents) {
        let clients = if agents == hosts { on_hosts(hosts) } else { format!("{agents} agents") };
        let what = format!(
            "the {ranks} ranks of model {model} at model_scale {scale} cannot be divided among \
             {clients}"
        );
        let hint = "use a number of client_hosts that divides them, or set workers, the ranks on \
                    each host";
        return Some(Fault::new(what).hint(hint));
    }
    None
}

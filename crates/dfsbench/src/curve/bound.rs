//! `dfsbench curve --bound`: the heaviest load under a response time, in few load points.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use controller::search::{LoadsUnderBound, find_loads_under_bound};
use model::question::{CurveRequest, Question, ResponseBound};
use model::{Campaign, CampaignState};
use results::Store;

use super::Asking;
use crate::campaign::{self, Means, Observers};
use crate::embedded::{self, Embedded};
use crate::exit::{End, Failure};
use crate::progress::Progress;

/// Searches for the heaviest load of each run, whatever its other settings are.
///
/// # Errors
/// As [`campaign::make`].
pub fn search(
    means: &Means<'_>,
    ask: &Asking<'_>,
    request: &CurveRequest,
    bound: ResponseBound,
    stop: &Arc<AtomicBool>,
) -> Result<ExitCode, Failure> {
    let mut heaviest = ask.plan(&[request.maximum.per_s])?;
    let server = embedded::start(&heaviest)?;
    if let Some(server) = &server {
        server.set_addresses(&mut heaviest);
    }
    let progress = Progress::open_ended(&heaviest, means.visibility());
    let mut observers = Observers::new(means, progress, 0)?;
    let local = server.as_ref().map(Embedded::as_local_server);
    let searched = campaign::with_agents(means, &heaviest, local, stop, &mut observers, |walk| {
        controller::preflight(walk)?;
        let header = campaign::header(walk, &Question::Curve(request.clone()))?;
        let mut store = Store::open_or_create(means.results)?;
        Ok(find_loads_under_bound(walk, &mut store, &header, request, &bound)?)
    });
    drop(server);
    let made = match searched {
        Ok(found) => report_search(means, found),
        Err(failure) => Err(failure),
    };
    observers.end(&made);
    Ok(made?.0.into())
}

/// Reports what was found.
fn report_search(means: &Means<'_>, found: LoadsUnderBound) -> Result<(End, Campaign), Failure> {
    let LoadsUnderBound { campaign, are_known } = found;
    let end = campaign::conclude(means, &campaign)?;
    if !are_known || campaign.state != CampaignState::Complete {
        return Ok((End::Invalid, campaign));
    }
    // Load points beyond the bound break a rule, and a search needs some of them.
    Ok((if end == End::Invalid { End::Ok } else { end }, campaign))
}

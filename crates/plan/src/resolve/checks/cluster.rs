//! The factors of a pNFS cluster: data servers, stripe unit and mirrors of the in-memory server.
//!
//! `[server]` has the levels of runs for which no factor is written.

use model::setting::{Setting, Value};
use model::{RunSpec, Target};

use super::WrittenSettings;
use crate::resolve::server::ServerPlan;
use crate::syntax::cluster::{ClusterPlan, DataServersPlan, LayoutsPlan};
use crate::syntax::error::{Fault, PlanError};
use crate::syntax::limits::{STRIPE_UNIT, show_size};

/// What to do about settings that contradict each other: see `remedy`.
type Remedy = (&'static [Setting], &'static str);

pub(super) const OF_FOREIGN_SERVER: Remedy = (
    &[Setting::DataServers, Setting::StripeUnit, Setting::Mirrors],
    "leave it out, or use a target with `embedded = true`; `dfsbench serve` has flags of the same \
     names",
);
pub(super) const FEWER_MIRRORS: Remedy =
    (&[Setting::Mirrors, Setting::DataServers], "each mirror has its own data servers");
pub(super) const ONE_CONNECTION: Remedy = (
    &[Setting::Pnfs, Setting::Nconnect, Setting::Clients],
    "pnfs off; or nconnect 1, client_uids 1 and as many clients as workers",
);

/// Stripe units are a multiple of this, in bytes.
const STRIPE_UNIT_MULTIPLE: u32 = 4096;

/// Returns the level of a factor of the cluster that `[server]` has; `None` for other settings, and
/// if the run uses another server or one without data servers.
pub(super) fn usual_level(setting: Setting, run: &RunSpec, server: &ServerPlan) -> Option<Value> {
    if !uses_memory_server(run) {
        return None;
    }
    let count = run.nfs().data_servers;
    let number = match setting {
        Setting::DataServers => server.cluster.as_ref()?.data_servers.count() as u32,
        Setting::StripeUnit => cluster_of(server, count?).stripe_unit_bytes,
        Setting::Mirrors => cluster_of(server, count?).mirrors,
        _ => return None,
    };
    Some(Value::Number(number.into()))
}

fn cluster_of(server: &ServerPlan, count: u32) -> ClusterPlan {
    server.cluster.clone().unwrap_or_else(|| ClusterPlan::with_own(count))
}

/// Refuses a cluster that the in-memory server can't be.
pub(super) fn check(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let nfs = run.nfs();
    let Some(count) = nfs.data_servers else {
        let set = [(Setting::StripeUnit, nfs.stripe_unit), (Setting::Mirrors, nfs.mirrors)];
        let Some((setting, _)) = set.iter().find(|(_, level)| level.is_some()) else {
            return Ok(());
        };
        let fault = Fault::new("has no effect without data servers");
        return Err(written.fault(run, &[*setting], fault.hint("set data_servers, too")));
    };
    if let Some(unit) = nfs.stripe_unit
        && !unit.is_multiple_of(STRIPE_UNIT_MULTIPLE)
    {
        let shown = show_size(unit.into());
        let fault = Fault::new(format!("must be 0, or a multiple of 4KiB, not {shown}"));
        return Err(written.fault(run, &[Setting::StripeUnit], fault.hint(STRIPE_UNIT.reason)));
    }
    let Some(cluster) = &written.server.cluster else { return Ok(()) };
    if let DataServersPlan::At(servers) = &cluster.data_servers
        && count as usize > servers.len()
    {
        let named = servers.len();
        let fault = Fault::new(format!("[server] names {named} data servers, not {count}"));
        let fault = fault.hint("a level uses the first ones; name more there");
        return Err(written.fault(run, &[Setting::DataServers], fault));
    }
    if cluster.layouts == LayoutsPlan::Files && nfs.mirrors > Some(1) {
        let fault = Fault::new("the files layout has no mirrors");
        let fault = fault.hint("use layouts flexfiles in [server]");
        return Err(written.fault(run, &[Setting::Mirrors], fault));
    }
    Ok(())
}

fn uses_memory_server(run: &RunSpec) -> bool {
    matches!(&run.target, Target::Nfs(nfs) if nfs.embedded)
}

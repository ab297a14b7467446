//! Plans with virtual machines as hosts: dfsbench sets them up, measures and restores them.
//!
//! The server has kernel 6.12, the clients 6.12 and 6.1. The machines are emulated, so nothing here
//! is judged by its speed.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print states")]

mod hung;
mod neighbors;
mod plans;
mod questions;

use anyhow::Result;
use checks::check::Fixture;
use checks::checks;
use checks::vm::stages::{FRESH_EXPORT, Machines, NEW, OLD, Stage};

use plans::Plans;

static MACHINES: Fixture<Machines<Plans<'static>>> =
    Fixture::new(|| Machines::copy("test-plans", 2));
static STAGE: Stage<Plans<'static>> = Stage { name: "plans", set_up: Plans::new };

checks! {
    #[ignore = "takes a minute: runs every night"]
    plan_of_data_paths: 900 s, run_plan(Plans::data_paths);
    plan_reports_caches_unless_remounted: 900 s, run_plan(Plans::cached);
    plan_fails_with_ineffective_mount_option: 900 s, run_plan(Plans::effective);
    plan_reports_kernel_without_localio: 600 s, run_plan(Plans::without_localio);
    plan_reports_undelegated_directories: 600 s, run_plan(Plans::without_directory_delegations);
    #[ignore = "takes a minute: runs every night"]
    plan_of_two_clients_together: 900 s, run_plan(Plans::scaling);
    #[ignore = "takes a minute: runs every night"]
    plan_varies_kernel_of_client: 900 s, run_plan(Plans::kernels);
    #[ignore = "takes two minutes: runs every night"]
    plan_of_ladder_has_every_layer: 900 s, run_plan(questions::ladder);
    #[ignore = "takes a minute: runs every night"]
    plan_of_soak_injects_faults: 900 s, run_plan(questions::soak);
    #[ignore = "takes two minutes: runs every night"]
    campaigns_on_two_hosts_name_each_other: 900 s, run_plan(neighbors::named);
    plan_of_hung_mount_is_ended: 600 s, run_plan(hung::signalled);
    #[ignore = "takes a minute: runs every night"]
    plan_of_killed_controller_restores_machines: 600 s, run_plan(Plans::killed);
}

fn run_plan(check: impl FnOnce(&Plans<'static>) -> Result<()>) -> Result<()> {
    MACHINES.get()?.run_in(&STAGE, |_, plans| check(plans))
}

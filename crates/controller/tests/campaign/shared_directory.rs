//! A campaign of several agents in one directory, independent of how they are started.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use controller::{Event, Hosts, LaunchedAgent};
use engine::{Clock as _, SystemClock};
use fleet::{ClockReading, HostPermissions};
use model::{Campaign, CaveatCode, Host, PassResult, Trial};
use plan::Plan;

use crate::campaign;

/// A plan on this directory with runs that are made by the given number of hosts.
pub fn plan(directory: &Path, hosts: u32, text: &str) -> Plan {
    let head = format!(
        "name = \"t\"\nseed = 3\norder = \"sequential\"\ntrials = 1\n[[target]]\nname = \"d\"\n\
         path = \"{}\"\n",
        directory.display()
    );
    let mut plan = campaign::plan(&format!("{head}{text}"));
    for run in &mut plan.runs {
        run.placement.hosts = (1..=hosts).map(|number| Host::local(format!("c{number}"))).collect();
    }
    plan
}

/// Runs a campaign with agents started one by one. Returns the stored results, and the duration of
/// each trial.
pub fn run(
    plan: &Plan,
    launch_one: &mut dyn FnMut(&Host) -> LaunchedAgent,
) -> (Campaign, Vec<Duration>) {
    let folder = tempfile::tempdir().unwrap();
    let clock = SystemClock::new();
    let mut launch =
        |hosts: &[&Host]| hosts.iter().map(|host| launch_one(host)).collect::<Vec<_>>();
    let read_clocks = || ClockReading { mono_ns: clock.now_ns(), wall_ns: clock.calendar_ns() };
    let mut times = Vec::new();
    let mut begun_ns = 0;
    let mut observe = |event: Event<'_>| match event {
        Event::TrialBegun { .. } => begun_ns = clock.now_ns(),
        Event::TrialEnded { .. } => {
            times.push(Duration::from_nanos(clock.now_ns() - begun_ns));
        }
        _ => {}
    };
    let opening =
        HostPermissions { campaign: controller::campaign_name(1), ..HostPermissions::default() };
    let hosts = Hosts::new(&mut launch, &read_clocks, opening);
    let never = AtomicBool::new(false);
    let campaign = campaign::run(plan, hosts, &never, &mut observe, folder.path()).unwrap();
    (campaign, times)
}

/// Asserts that the counts of a pass are right, and that those of its hosts add up to them.
pub fn assert_counted(pass: &PassResult, hosts: usize) {
    let bad = [CaveatCode::Accounting, CaveatCode::Errors, CaveatCode::Interrupted];
    let wrong = pass.caveats.iter().find(|caveat| bad.contains(&caveat.code));
    assert_eq!(wrong, None, "{}", pass.pass);
    for cross_check in &pass.cross_checks {
        assert_eq!(
            cross_check.expected, cross_check.found,
            "{}: {}",
            pass.pass, cross_check.source
        );
    }
    assert_eq!(pass.hosts.len(), hosts);
    let sum = |of: fn(&model::HostResult) -> u64| pass.hosts.iter().map(of).sum::<u64>();
    assert_eq!((sum(|h| h.ops), sum(|h| h.bytes)), (pass.ops(), pass.bytes()));
    assert_eq!(pass.service_time().count(), pass.ops());
    assert!(pass.first_done_ops <= pass.ops() && pass.common_window_ns <= pass.window_ns);
}

pub fn only(campaign: &Campaign, run: usize) -> &Trial {
    &campaign.runs[run].trials[0]
}

//! Several agents in this process, each in a thread and with a clock of its own, and a campaign
//! that they make together in one directory.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use agent::Agent;
use controller::{Hosts, Walk, leave, walk};
use engine::{Clock as _, SystemClock};
use fleet::in_process::{self, InProcess};
use fleet::{Bell, Gone, Order, Reading, Report, Transport};
use model::{Campaign, CaveatCode, Host, PassResult, Trial};
use plan::Plan;
use results::Store;

use crate::nobody::Nobody;
use crate::planned;

/// What becomes of an agent: its host, and the order with which it is gone.
pub type Death = Option<(&'static str, fn(&Order) -> bool)>;

/// A plan on this directory whose runs are made by so many hosts.
pub fn plan(directory: &Path, hosts: u32, text: &str) -> Plan {
    let head = format!(
        "name = \"t\"\nseed = 3\norder = \"sequential\"\ntrials = 1\n[[target]]\nname = \"d\"\n\
         path = \"{}\"\n",
        directory.display()
    );
    let mut plan = planned::plan(&format!("{head}{text}"));
    for run in &mut plan.runs {
        run.placement.hosts = (1..=hosts).map(|number| Host::here(format!("c{number}"))).collect();
    }
    plan
}

/// Makes a campaign; what is stored, and how long each trial took.
pub fn made(plan: &Plan, death: Death) -> (Campaign, Vec<Duration>) {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::open_or_create(&folder.path().join("r.db")).unwrap();
    let clock = SystemClock::new();
    let threads: RefCell<Vec<JoinHandle<Vec<String>>>> = RefCell::default();
    let mut launch = |host: &Host| -> Result<Box<dyn Transport>, Gone> {
        // Every agent's clock began at another instant.
        std::thread::park_timeout(Duration::from_millis(3));
        let (way, end) = in_process::pair();
        let agent = Agent {
            clock: Arc::new(SystemClock::new()),
            stop: Arc::default(),
            state_dir: std::env::temp_dir().join("dfsbench-no-state"),
            local_server: None,
        };
        threads.borrow_mut().push(std::thread::spawn(move || agent::serve(&agent, &end)));
        let dies = death.filter(|(name, _)| *name == host.name).map(|(_, dies)| dies);
        Ok(Box::new(Mortal { way: Some(way), host: host.name.clone(), dies }))
    };
    let read_clocks = || Reading { mono_ns: clock.now_ns(), wall_ns: clock.calendar_ns() };
    let mut times = Vec::new();
    let mut begun_ns = 0;
    let mut campaign = Walk {
        plan,
        agent: &mut Nobody,
        hosts: Hosts::new(&mut launch, &read_clocks, "t".into(), Vec::new()),
        stop: &AtomicBool::new(false),
        wait: &|bell| bell.wait(Duration::from_millis(100)),
        observe: &mut |event| match event {
            controller::Event::TrialBegun { .. } => begun_ns = clock.now_ns(),
            controller::Event::TrialEnded { .. } => {
                times.push(Duration::from_nanos(clock.now_ns() - begun_ns));
            }
            _ => {}
        },
        now_unix_ms: &|| 7,
        token: 1,
        keep: false,
        blow: None,
    };
    let (id, _) = walk(&mut campaign, &mut store, &planned::header(plan)).unwrap();
    leave(&mut campaign);
    drop(campaign);
    for thread in threads.take() {
        assert_eq!(thread.join().unwrap(), [""; 0]);
    }
    (store.load(id).unwrap(), times)
}

/// A way to an agent that is gone with some order.
struct Mortal {
    way: Option<InProcess>,
    host: String,
    dies: Option<fn(&Order) -> bool>,
}

impl Mortal {
    fn way(&mut self) -> Result<&mut InProcess, Gone> {
        let gone = Gone(format!("host {}: the agent is gone", self.host));
        self.way.as_mut().ok_or(gone)
    }
}

impl Transport for Mortal {
    fn send(&mut self, order: Order) -> Result<(), Gone> {
        let dies = self.dies.is_some_and(|dies| dies(&order));
        self.way()?.send(order)?;
        if dies {
            // Its controller is gone for the agent, too, so it cleans up by itself.
            self.way()?.cancel();
            self.way = None;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Report, Gone> {
        self.way()?.receive()
    }

    fn try_receive(&mut self) -> Result<Option<Report>, Gone> {
        self.way()?.try_receive()
    }

    fn ring(&mut self, bell: &Bell) {
        self.way().unwrap().ring(bell);
    }

    fn cancel(&mut self) {
        if let Ok(way) = self.way() {
            way.cancel();
        }
    }

    fn look(&mut self) -> Result<(), Gone> {
        self.way().map(drop)
    }
}

/// Nothing is wrong with what was counted in a pass, and its hosts add up to it.
pub fn assert_counted(pass: &PassResult, hosts: usize) {
    let bad = [CaveatCode::Accounting, CaveatCode::Errors, CaveatCode::Interrupted];
    let wrong = pass.caveats.iter().find(|caveat| bad.contains(&caveat.code));
    assert_eq!(wrong, None, "{}", pass.pass);
    for truth in &pass.truths {
        assert_eq!(truth.expected, truth.found, "{}: {}", pass.pass, truth.source);
    }
    assert_eq!(pass.hosts.len(), hosts);
    let sum = |of: fn(&model::HostResult) -> u64| pass.hosts.iter().map(of).sum::<u64>();
    assert_eq!((sum(|h| h.ops), sum(|h| h.bytes)), (pass.ops(), pass.bytes()));
    assert_eq!(pass.service_time().count(), pass.ops());
    assert!(pass.first_done_ops <= pass.ops() && pass.common_window_ns <= pass.window_ns);
}

/// The only trial of a run.
pub fn only(campaign: &Campaign, run: usize) -> &Trial {
    &campaign.runs[run].trials[0]
}

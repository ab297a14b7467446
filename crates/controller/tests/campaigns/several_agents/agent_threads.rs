//! Several agents in this process, each in a thread and with its own clock.

use std::cell::RefCell;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use engine::SystemClock;
use fleet::in_process::InProcess;
use fleet::{Order, PeerGone, Report, Transport, Wakeup};
use model::{Campaign, Host};
use plan::Plan;

use crate::{agent_thread, shared_directory};

/// How an agent dies: its host, and the order at which it is gone.
pub type AgentDeath = Option<(&'static str, fn(&Order) -> bool)>;

/// Runs a campaign. Returns the stored results, and the duration of each trial.
pub fn run(plan: &Plan, death: AgentDeath) -> (Campaign, Vec<Duration>) {
    let threads: RefCell<Vec<JoinHandle<Vec<String>>>> = RefCell::default();
    let ran = shared_directory::run(plan, &mut |host: &Host| {
        // Every agent's clock began at a different time.
        std::thread::park_timeout(Duration::from_millis(3));
        let clock = Arc::new(SystemClock::new());
        let (way, thread) = agent_thread::start(clock, Arc::default(), None);
        threads.borrow_mut().push(thread);
        let dies = death.filter(|(name, _)| *name == host.name).map(|(_, dies)| dies);
        Ok(Box::new(DyingTransport { way: Some(way), host: host.name.clone(), dies }))
    });
    for thread in threads.take() {
        assert_eq!(thread.join().unwrap(), [""; 0]);
    }
    ran
}

/// A transport to an agent that dies at some order.
struct DyingTransport {
    way: Option<InProcess>,
    host: String,
    dies: Option<fn(&Order) -> bool>,
}

impl DyingTransport {
    fn way(&mut self) -> Result<&mut InProcess, PeerGone> {
        let gone = PeerGone(format!("host {}: the agent is gone", self.host));
        self.way.as_mut().ok_or(gone)
    }
}

impl Transport for DyingTransport {
    fn send(&mut self, order: Order) -> Result<(), PeerGone> {
        let dies = self.dies.is_some_and(|dies| dies(&order));
        self.way()?.send(order)?;
        if dies {
            // The agent has lost its controller as well, so it cleans up by itself.
            self.way()?.cancel();
            self.way = None;
        }
        Ok(())
    }

    fn receive(&mut self) -> Result<Report, PeerGone> {
        self.way()?.receive()
    }

    fn try_receive(&mut self) -> Result<Option<Report>, PeerGone> {
        self.way()?.try_receive()
    }

    fn set_wakeup(&mut self, wakeup: &Wakeup) {
        self.way().unwrap().set_wakeup(wakeup);
    }

    fn cancel(&mut self) {
        if let Ok(way) = self.way() {
            way.cancel();
        }
    }

    fn check_alive(&mut self) -> Result<(), PeerGone> {
        self.way().map(drop)
    }
}

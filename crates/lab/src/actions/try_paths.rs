//! Tests whether full-size packets reach the other hosts. Changes nothing.

use std::path::PathBuf;
use std::thread;

use model::EffectiveSettings;
use model::action::TryPaths;

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::path_probe::{self, Outcome};
use crate::undo::Undo;

impl LabAction for TryPaths {
    no_facts!();

    fn accept(&self) -> Result<(), LabError> {
        // The peers' addresses are only used with sockets, never passed to a program.
        Ok(())
    }

    fn steps(&self, (): &()) -> Vec<Step> {
        self.peers
            .iter()
            .map(|peer| Step::TryPath { peer: peer.clone(), bytes: self.bytes })
            .collect()
    }

    fn undo(&self, (): &(), _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        Ok(Vec::new())
    }

    /// Reports which of the hosts that answer can be reached with full-size packets.
    fn check(&self, (): &()) -> Result<EffectiveSettings, LabError> {
        let mut outcomes = Vec::with_capacity(self.peers.len());
        // In parallel, since each silent host takes more than two seconds.
        thread::scope(|scope| {
            let mut probes = Vec::with_capacity(self.peers.len());
            for peer in &self.peers {
                probes.push(scope.spawn(|| path_probe::send_until_answered(peer, self.bytes)));
            }
            for probe in probes {
                outcomes.push(probe.join().expect("probes don't panic"));
            }
        });
        let mut findings = Findings::new("network");
        for (peer, outcome) in self.peers.iter().zip(outcomes) {
            let found = match outcome? {
                Outcome::Arrived => "pass",
                Outcome::Unanswered | Outcome::TooLarge => "unknown: no answer",
            };
            let name = format!("packets of {} bytes to {}", self.bytes, peer.name);
            let source = format!("UDP to {}, port {}", peer.address, path_probe::PORT);
            findings.fact(&name, found, source);
        }
        Ok(findings.finish())
    }
}

#[cfg(test)]
mod tests {
    use model::Peer;

    use super::*;

    #[test]
    fn packets_that_arrive_are_a_fact() {
        let peer = Peer { name: "server".into(), address: "127.0.0.1".into() };
        let found = TryPaths { peers: vec![peer], bytes: 9_000 }.check(&()).unwrap();
        assert_eq!(found.facts[0].name, "packets of 9000 bytes to server");
        assert_eq!(found.facts[0].value, "pass");
    }
}

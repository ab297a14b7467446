//! Stops the kernel's server, as a fault during a soak. **Source:** rpc.nfsd(8).

use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::NfsdStop;

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::host::nfsd::{State, file};
use crate::undo::Undo;

impl LabAction for NfsdStop {
    /// The server's state before it is stopped.
    type Facts = State;

    fn accept(&self) -> Result<(), LabError> {
        Ok(())
    }

    fn look(&self) -> Result<State, LabError> {
        Ok(State::now())
    }

    fn assume(&self) -> State {
        State::default()
    }

    fn steps(&self, _state: &State) -> Vec<Step> {
        vec![Step::run(["rpc.nfsd", "0"])]
    }

    /// Starts it again with its previous settings. Fails if it isn't running.
    fn undo(&self, state: &State, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        if state.threads == 0 {
            return Err(LabError::Refused("nfsd is not running".to_owned()));
        }
        Ok(vec![Undo::Nfsd { state: state.clone() }])
    }

    fn check(&self, _state: &State) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("server");
        let threads = State::now().threads.to_string();
        let source = file("threads").display().to_string();
        findings.compare("threads of nfsd", "0", &threads, &source);
        Ok(findings.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_stopping_stopped_server() {
        let error = NfsdStop {}.undo(&State::default(), &[]).unwrap_err().to_string();
        assert!(error.contains("nfsd is not running"), "{error}");
    }
}

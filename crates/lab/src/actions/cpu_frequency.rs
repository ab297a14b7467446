//! The maximum frequency of all CPUs. **Source:** the kernel's
//! Documentation/admin-guide/pm/cpufreq.rst (`scaling_max_freq`).

use std::fs;
use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::CpuFrequency;

use super::LabAction;
use super::cores::{FOLDER, online};
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::undo::Undo;

impl LabAction for CpuFrequency {
    /// Numbers of the online CPUs.
    type Facts = Vec<u32>;

    fn accept(&self) -> Result<(), LabError> {
        Ok(())
    }

    fn look(&self) -> Result<Vec<u32>, LabError> {
        Ok(online())
    }

    fn assume(&self) -> Vec<u32> {
        Vec::new()
    }

    fn steps(&self, online: &Vec<u32>) -> Vec<Step> {
        let khz = self.khz.to_string();
        if online.is_empty() {
            return vec![Step::write(format!("{FOLDER}/cpu*/cpufreq/scaling_max_freq"), khz)];
        }
        online.iter().map(|cpu| Step::write(limit_of(*cpu), khz.as_str())).collect()
    }

    /// Restores the old limits. Fails if the host doesn't support frequency limits.
    fn undo(&self, online: &Vec<u32>, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let mut undo = Vec::new();
        for cpu in online {
            let path = limit_of(*cpu);
            let Ok(text) = fs::read_to_string(&path) else {
                let path = path.display();
                return Err(LabError::Unable(format!(
                    "the CPU frequency cannot be limited on this host: {path} does not exist"
                )));
            };
            undo.push(Undo::Write { path, text: text.trim().to_owned() });
        }
        Ok(undo)
    }

    fn check(&self, _online: &Vec<u32>) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("host");
        for cpu in online() {
            let path = limit_of(cpu);
            let text =
                fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, error))?;
            let name = format!("maximum kHz of CPU {cpu}");
            findings.compare(&name, &self.khz.to_string(), &text, &path.display().to_string());
        }
        Ok(findings.finish())
    }
}

fn limit_of(cpu: u32) -> PathBuf {
    PathBuf::from(format!("{FOLDER}/cpu{cpu}/cpufreq/scaling_max_freq"))
}

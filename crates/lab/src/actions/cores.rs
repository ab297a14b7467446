//! The number of CPUs that are online. **Source:** the kernel's
//! Documentation/core-api/cpu_hotplug.rst (`online`).

use std::fs;
use std::path::PathBuf;

use model::EffectiveSettings;
use model::action::Cores;

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::undo::Undo;

pub(crate) const FOLDER: &str = "/sys/devices/system/cpu";
/// Upper bound for CPU numbers, no matter what the list contains.
const NUMBER_MAX: u32 = 1 << 16;

impl LabAction for Cores {
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
        if online.is_empty() {
            return vec![Step::write(format!("{FOLDER}/cpu{}.../online", self.online), "0")];
        }
        cpus_to_take_offline(self, online)
            .map(|cpu| Step::write(online_switch_path(cpu), "0"))
            .collect()
    }

    /// Takes the CPUs online again. Fails if the host has too few CPUs or they cannot be taken
    /// offline.
    fn undo(&self, online: &Vec<u32>, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let has = online.len();
        if self.online == 0 || has < self.online as usize {
            let what =
                format!("this host has {has} CPUs online, but {} were requested", self.online);
            return Err(LabError::Unable(what));
        }
        let mut undo = Vec::new();
        for cpu in cpus_to_take_offline(self, online) {
            let path = online_switch_path(cpu);
            if !path.exists() {
                let path = path.display();
                return Err(LabError::Unable(format!(
                    "CPU {cpu} cannot be taken offline: {path} does not exist"
                )));
            }
            undo.push(Undo::Write { path, text: "1".to_owned() });
        }
        Ok(undo)
    }

    fn check(&self, _online: &Vec<u32>) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("host");
        let found = online().len().to_string();
        let source = format!("{FOLDER}/online");
        findings.compare("CPUs online", &self.online.to_string(), &found, &source);
        Ok(findings.finish())
    }
}

/// Returns the CPUs to take offline, highest number first, because CPU 0 usually cannot be taken
/// offline.
fn cpus_to_take_offline(cores: &Cores, online: &[u32]) -> impl Iterator<Item = u32> {
    online.iter().skip(cores.online as usize).rev().copied()
}

fn online_switch_path(cpu: u32) -> PathBuf {
    PathBuf::from(format!("{FOLDER}/cpu{cpu}/online"))
}

/// Returns the numbers of the online CPUs.
pub(crate) fn online() -> Vec<u32> {
    parse_list(&fs::read_to_string(format!("{FOLDER}/online")).unwrap_or_default())
}

/// Parses a CPU list such as `0-2,5`. Invalid parts are skipped.
fn parse_list(text: &str) -> Vec<u32> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>())
            && last < NUMBER_MAX
        {
            numbers.extend(first..=last);
        }
    }
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(parse_list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list("x-,0-4000000000"), [0; 0]);
    }

    #[test]
    fn removes_last_processors_first() {
        let known = vec![0, 1, 2, 5];
        let steps = Cores { online: 2 }.steps(&known);
        let shown: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["5", "2"].map(|cpu| format!("echo 0 > /sys/devices/system/cpu/cpu{cpu}/online"))
        );
        assert!(Cores { online: 5 }.undo(&known, &[]).is_err());
        assert!(Cores { online: 0 }.undo(&known, &[]).is_err());
    }
}

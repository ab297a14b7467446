//! Processors: how fast they may run, and how many of them do.
//!
//! **Source:** the kernel's Documentation/admin-guide/pm/cpufreq.rst (`scaling_max_freq`) and
//! Documentation/core-api/cpu_hotplug.rst (`online`).

use std::fs;
use std::path::PathBuf;

use model::EffectiveSettings;

use super::Known;
use crate::error::LabError;
use crate::findings::Findings;
use crate::step::Step;
use crate::undo::Undo;

const FOLDER: &str = "/sys/devices/system/cpu";

/// Numbers of the processors that are online.
pub fn online() -> Vec<u32> {
    list(&fs::read_to_string(format!("{FOLDER}/online")).unwrap_or_default())
}

/// Limits every processor that is online.
pub fn frequency_steps(khz: u32, known: &Known) -> Vec<Step> {
    if known.online.is_empty() {
        return vec![Step::write(
            format!("{FOLDER}/cpu*/cpufreq/scaling_max_freq"),
            khz.to_string(),
        )];
    }
    known.online.iter().map(|cpu| Step::write(frequency(*cpu), khz.to_string())).collect()
}

/// Keeps the old limits.
///
/// # Errors
/// Where the host doesn't let frequencies be set.
pub fn frequency_undo(known: &Known) -> Result<Vec<Undo>, LabError> {
    let undo = |cpu: &u32| {
        let path = frequency(*cpu);
        let text = fs::read_to_string(&path).map_err(|_| {
            let path = path.display();
            LabError::Unable(format!("frequencies can't be limited here: there is no {path}"))
        })?;
        Ok(Undo::Write { path, text: text.trim().to_owned() })
    };
    known.online.iter().map(undo).collect()
}

/// Reads the limits back.
///
/// # Errors
/// Where they can't be read.
pub fn check_frequency(khz: u32) -> Result<EffectiveSettings, LabError> {
    let mut findings = Findings::new("host");
    for cpu in online() {
        let path = frequency(cpu);
        let text =
            fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, error))?;
        let name = format!("highest kHz of processor {cpu}");
        findings.compare(&name, &khz.to_string(), &text, &path.display().to_string());
    }
    Ok(findings.done())
}

/// Takes the last processors offline.
pub fn core_steps(online: u32, known: &Known) -> Vec<Step> {
    if known.online.is_empty() {
        return vec![Step::write(format!("{FOLDER}/cpu{online}.../online"), "0")];
    }
    leaving(online, known).map(|cpu| Step::write(switch(cpu), "0")).collect()
}

/// Takes them online again.
///
/// # Errors
/// Where the host has fewer, or can't take them offline.
pub fn core_undo(known: &Known, online: u32) -> Result<Vec<Undo>, LabError> {
    let has = known.online.len();
    if online == 0 || has < online as usize {
        return Err(LabError::Unable(format!("it has {has} processors, not {online}")));
    }
    let undo = |cpu: u32| {
        let path = switch(cpu);
        if !path.exists() {
            let path = path.display();
            return Err(LabError::Unable(format!(
                "processor {cpu} can't be taken offline: there is no {path}"
            )));
        }
        Ok(Undo::Write { path, text: "1".to_owned() })
    };
    leaving(online, known).map(undo).collect()
}

/// Reads back how many are left.
pub fn check_cores(requested: u32) -> EffectiveSettings {
    let mut findings = Findings::new("host");
    let found = online().len().to_string();
    findings.compare(
        "processors online",
        &requested.to_string(),
        &found,
        &format!("{FOLDER}/online"),
    );
    findings.done()
}

fn leaving(online: u32, known: &Known) -> impl Iterator<Item = u32> {
    known.online.iter().skip(online as usize).rev().copied()
}

fn frequency(cpu: u32) -> PathBuf {
    PathBuf::from(format!("{FOLDER}/cpu{cpu}/cpufreq/scaling_max_freq"))
}

fn switch(cpu: u32) -> PathBuf {
    PathBuf::from(format!("{FOLDER}/cpu{cpu}/online"))
}

/// Numbers of a list such as `0-2,5`.
fn list(text: &str) -> Vec<u32> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        (last < 1 << 16).then_some(first..=last)
    };
    text.trim().split(',').filter_map(range).flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_processors_are_read() {
        assert_eq!(list("0-2,5\n"), [0, 1, 2, 5]);
        assert_eq!(list("0\n"), [0]);
        assert_eq!(list("x-,0-4000000000"), [0; 0]);
    }

    #[test]
    fn the_last_processors_leave_and_the_first_stay() {
        let known = Known { online: vec![0, 1, 2, 5], ..Known::default() };
        let shown: Vec<String> = core_steps(2, &known).iter().map(ToString::to_string).collect();
        assert_eq!(
            shown,
            ["5", "2"].map(|cpu| format!("echo 0 > /sys/devices/system/cpu/cpu{cpu}/online"))
        );
        assert!(core_undo(&known, 5).is_err() && core_undo(&known, 0).is_err());
    }
}

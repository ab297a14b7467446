//! `cargo xtask real`: the tests of `checks/` against real peers, by group.
//!
//! Main function: [`run`]. Groups that don't disturb each other run at the same time, each in its
//! own process whose tests run sequentially.

use std::sync::Mutex;
use std::thread;

use anyhow::{Result, ensure};

use crate::steps::Count;
use crate::{fuzz, programs, setup, tools};

/// Groups that run sequentially.
type Track = &'static [&'static str];

/// The fuzz targets, which count by themselves and are not a test program.
const FUZZ: &str = "fuzz";

/// The tracks of a stage run at once, and the stages sequentially.
///
/// In the first stage nothing is judged by its speed: the groups that wait for virtual machines and
/// for timeouts leave the CPUs to servers and browsers, and to the fuzz targets, which yield to all
/// others. Tests that lose and recover hosts depend on timeouts of seconds, and are idle most of
/// the time: they are in tracks without virtual machines. All tracks take about equally long. The
/// second stage loses packets and looks for the slowest layer, and has the machine to itself.
const STAGES: [&[Track]; 2] = [
    &[
        &["vm"],
        &["vm_plans", "strace"],
        &["vm_lab", "disk"],
        &["hosts", "ganesha"],
        &["browser", "interop", "server"],
        &["lab", "agent_group", "cluster"],
        &[FUZZ],
    ],
    &[&["loss", "ladder"]],
];

/// The group for file systems whose packages no other group needs.
const SYSTEMS: &str = "systems";

/// Groups that take long, and need packages or machines that no other group needs, or software that
/// Debian doesn't package: each runs only if it is requested by name, as every night.
const ON_REQUEST: Track =
    &[SYSTEMS, "unpackaged", "kernel_clients", "localio", "vm_forky", "vm_v2"];

/// The tests to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Selection<'a> {
    /// Only groups whose name contains this.
    pub group: Option<&'a str>,
    /// Only tests whose name contains this.
    pub test: Option<&'a str>,
}

impl Selection<'_> {
    fn has_group(&self, name: &str) -> bool {
        self.group.is_none_or(|group| name.contains(group))
    }
}

/// Lists the names of all groups, in the order of the tracks.
fn list_groups() -> Vec<&'static str> {
    let mut names = Vec::new();
    for track in STAGES.concat() {
        names.extend(track);
    }
    names.extend(ON_REQUEST);
    names
}

/// Lists the groups that are test programs.
pub fn list_programs() -> Vec<&'static str> {
    let mut names = list_groups();
    names.retain(|name| *name != FUZZ);
    names
}

/// Runs the selected tests.
///
/// # Errors
/// If no group has such a name, a group has no program, or one can't be started.
pub fn run(selection: Selection<'_>) -> Result<Count> {
    let names = list_groups();
    ensure!(
        names.iter().any(|name| selection.has_group(name)),
        "there is no such group; groups are {}",
        names.join(", ")
    );
    let count = Mutex::new(Count::default());
    for stage in STAGES {
        thread::scope(|scope| -> Result<()> {
            let mut tracks = Vec::new();
            for track in stage {
                let count = &count;
                tracks.push(scope.spawn(move || run_track(track, selection, count)));
            }
            for track in tracks {
                track.join().expect("a track returns its errors")?;
            }
            Ok(())
        })?;
    }
    if selection.group.is_some() {
        if selection.has_group(SYSTEMS) {
            tools::install_systems()?;
            setup::install_systems()?;
        }
        run_track(ON_REQUEST, selection, &count)?;
    }
    Ok(count.into_inner().expect("no panic"))
}

fn run_track(track: Track, selection: Selection<'_>, count: &Mutex<Count>) -> Result<()> {
    for &group in track {
        if !selection.has_group(group) {
            continue;
        }
        let made = if group == FUZZ {
            fuzz::run_everything()?
        } else {
            // Tests that take minutes are ignored unless their group is named, as every night.
            programs::run_group(group, selection.test, selection.group.is_some())?
        };
        count.lock().expect("no panic").add(made);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::repo;

    #[test]
    fn assigns_every_program_to_track() {
        let manifest = fs::read_to_string(repo::root().join("checks/Cargo.toml")).unwrap();
        let manifest: toml::Table = manifest.parse().unwrap();
        let tests = manifest["test"].as_array().unwrap();
        let mut programs: Vec<&str> =
            tests.iter().map(|test| test["name"].as_str().unwrap()).collect();
        let mut groups = list_programs();
        programs.sort_unstable();
        groups.sort_unstable();
        assert_eq!(programs, groups);
    }

    #[test]
    fn rejects_unknown_group() {
        let selection = Selection { group: Some("nothing"), test: None };
        let error = run(selection).unwrap_err().to_string();
        assert!(error.starts_with("there is no such group; groups are vm, "), "{error}");
    }
}

//! Plans that are built in and run by their names; `dfsbench preset` lists and prints them.
//!
//! Their texts are those of `presets/`, so that what runs is what can be read and copied.

use std::path::Path;
use std::process::ExitCode;

use crate::exit::{End, Failure};
use crate::output;

/// Takes a plan of `presets/` in.
macro_rules! preset {
    ($name:literal) => {
        Preset { name: $name, text: include_str!(concat!("../../../presets/", $name, ".toml")) }
    };
}

/// The plan that runs when none is named.
pub const QUICK: Preset = preset!("quick");

const THROUGHPUT_FACTORS: Preset = preset!("throughput-factors");

const TRIMMED_OPTIONS: Preset = preset!("trimmed-options");

/// A plan that is built in.
#[derive(Clone, Copy, Debug)]
pub struct Preset {
    /// Its name on the command line.
    pub name: &'static str,
    /// The text of the plan.
    pub text: &'static str,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 13] = [
        QUICK,
        THROUGHPUT_FACTORS,
        TRIMMED_OPTIONS,
        preset!("app"),
        preset!("bonnie"),
        preset!("client-scaling"),
        preset!("copies"),
        preset!("data-paths"),
        preset!("iozone"),
        preset!("metadata"),
        preset!("op-mix"),
        preset!("raid-matrix"),
        preset!("transactions"),
    ];

    /// Finds a preset by its name, or by its path in this repository; a file or directory of that
    /// name here is meant first.
    pub fn named(text: &str) -> Option<Self> {
        if Path::new(text).exists() {
            return None;
        }
        let name = text.strip_prefix("presets/").unwrap_or(text);
        let name = name.strip_suffix(".toml").unwrap_or(name);
        Self::ALL.into_iter().find(|preset| preset.name == name)
    }

    /// Returns the first sentence of its comment, without its name.
    fn title(&self) -> String {
        let mut comment = String::new();
        for line in self.text.lines() {
            let Some(part) = line.strip_prefix("# ") else { break };
            comment.push_str(part);
            comment.push(' ');
        }
        let (_, about) = comment.split_once(": ").unwrap_or(("", &comment));
        // Some titles are questions; a colon or a semicolon ends what fits into a line, too.
        let end = about.find([';', '?']).or_else(|| about.find(". ")).unwrap_or(about.len());
        let end = if about[end..].starts_with('?') { end + 1 } else { end };
        about[..end].trim().trim_end_matches('.').to_owned()
    }
}

/// Lists the presets, or prints the plan of one.
///
/// # Errors
/// When stdout can't be written.
pub fn run(name: Option<&str>) -> Result<ExitCode, Failure> {
    for preset in Preset::ALL {
        if name == Some(preset.name) {
            output::data(preset.text.as_bytes())?;
        }
    }
    if name.is_none() {
        let mut rows = Vec::new();
        for preset in Preset::ALL {
            rows.push(vec![preset.name.to_owned(), preset.title()]);
        }
        output::data(output::aligned(&rows).as_bytes())?;
        output::message("`dfsbench run NAME` runs one, `dfsbench preset NAME` prints it to copy");
    }
    Ok(End::Ok.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::{Plan, RawPlan, Surroundings};

    #[test]
    fn every_preset_is_a_plan_without_idle_settings() {
        let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 1, job: None };
        for preset in Preset::ALL {
            let raw = RawPlan::parse(preset.text, preset.name).unwrap();
            let plan = Plan::resolve(&raw, &around).unwrap();
            assert_eq!(plan.name, preset.name);
            assert_eq!(plan.without_effect, [], "{}", preset.name);
            let impossible = plan.runs.iter().filter(|run| run.impossible().is_some()).count();
            // Of v2 what is larger than 8 KiB, of v4.1 what goes over UDP: two sizes of file each.
            // Of v2 every file of 4 GiB, of v4 and of the tunnel what goes over UDP.
            let expected = match preset.name {
                name if name == TRIMMED_OPTIONS.name => 2 * (2 + 2),
                "data-paths" => 2 * (2 + 2) + 5,
                _ => 0,
            };
            assert_eq!(impossible, expected, "{}", preset.name);
        }
    }

    #[test]
    fn every_preset_has_a_title_and_is_found_by_its_path() {
        for preset in Preset::ALL {
            let title = preset.title();
            assert!((20..=100).contains(&title.chars().count()), "{}: {title}", preset.name);
            assert!(!title.contains(preset.name) || title.contains(' '), "{title}");
            let path = format!("presets/{}.toml", preset.name);
            assert_eq!(Preset::named(&path).unwrap().name, preset.name);
        }
        assert!(Preset::named("presets/none.toml").is_none());
    }

    fn runs(name: &str) -> Plan {
        let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 1, job: None };
        let preset = Preset::ALL.into_iter().find(|preset| preset.name == name).unwrap();
        Plan::resolve(&RawPlan::parse(preset.text, name).unwrap(), &around).unwrap()
    }

    #[test]
    fn the_raid_matrix_is_whole() {
        let plan = runs("raid-matrix");
        // Reads x random x threads x blocks, on five disks.
        assert_eq!(plan.runs.len(), 3 * 2 * 2 * 9 * 5);
        assert!(plan.runs.iter().all(|run| run.direct && run.duration_ms == 30_000));
        assert_eq!(
            plan.varying(),
            ["target", "workers", "io_size", "read_percent", "random_percent"]
        );
        let hours = plan::estimate(&plan).duration_ms / 3_600_000;
        assert_eq!(hours, 5, "its first lines say so");
    }

    #[test]
    fn the_scaling_of_clients_has_all_its_tables() {
        let plan = runs("client-scaling");
        // Clients x sizes x versions x threads x packets.
        assert_eq!(plan.runs.len(), 4 * 3 * 2 * 2 * 2);
        let varying = ["mtu", "nfsd_threads", "client_hosts", "files", "file_size", "nfsvers"];
        assert_eq!(plan.varying(), varying);
        assert!(plan.runs.iter().all(|run| run.files == run.agents()));
        // Each file fits into v2.
        assert!(plan.runs.iter().all(|run| run.file_size_bytes < 1 << 31));
        let bytes = plan::estimate(&plan).bytes_written / u64::from(plan.trials);
        assert_eq!(bytes >> 20, 8 * 3_100 * 18, "its first lines say so");
    }

    #[test]
    fn the_sizes_of_bonnie_are_those_of_its_tables() {
        let sizes: Vec<_> = runs("bonnie").runs.iter().map(|run| run.set_bytes() >> 20).collect();
        assert_eq!(sizes, [10, 100, 250, 500, 1_000]);
    }

    #[test]
    fn the_table_of_throughputs_has_all_its_rows() {
        let around = Surroundings { temp_dir: "/tmp".into(), uid: 0, gid: 0, seed: 1, job: None };
        let raw = RawPlan::parse(THROUGHPUT_FACTORS.text, "t").unwrap();
        let plan = Plan::resolve(&raw, &around).unwrap();
        assert_eq!((plan.trials, plan.runs.len()), (11, 3 * 2 * 2));
        assert!(plan.runs.iter().all(|run| run.set_bytes() == 20 << 20));
        assert!(plan.runs.iter().all(|run| run.transfer_size_bytes == Some(run.io_size_bytes)));
        assert_eq!(plan.varying(), ["io_size", "nfsvers", "proto", "transfer_size", "read_ahead"]);
    }
}

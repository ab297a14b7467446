//! `cargo xtask peers`: dfsbench's performance claims, as ratios to established programs.
//!
//! Every comparison does the same work on both sides, on the same machine, alternating, so that a
//! busy minute affects both. Each row is printed as soon as its family has been measured, and
//! `target/peers.md` is rewritten with it: an interruption costs one family. A ratio is the median
//! of the ratios of the rounds; results are medians with their minimum and maximum.

use std::fs;
use std::io::{self, Write as _};

use anyhow::Result;
use tempfile::TempDir;

use crate::{proc, repo, setup};

mod case;
mod fio;
mod host;
mod hpc;
mod listings;
mod load;
mod local;
mod memory;
mod nfs;
mod ours;
mod postmark;
mod table;
mod tcp;
mod workloads;

use case::Row;

/// Options of `cargo xtask peers`.
#[derive(clap::Args)]
pub struct Options {
    /// How long each side measures in each round, in seconds.
    #[arg(long, default_value_t = 2)]
    seconds: u32,
    /// How often both sides measure.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Runs only the comparisons whose name contains this text: null, posix, uring, workloads-fio,
    /// workloads-iozone, workloads-bonnie++, workloads-find, workloads-mdtest, workloads-ior,
    /// workloads-checkpoint, workloads-postmark, memory, nfs-streams, nfs-whole,
    /// nfs-small, nfs-servers, nfs-crowd, nfs-datagrams, raw-tcp.
    #[arg(long)]
    only: Option<String>,
    /// Exits with 1 if a target is missed.
    #[arg(long)]
    strict: bool,
    /// Uses the release binary as it is, and builds nothing.
    #[arg(long)]
    built: bool,
}

/// The settings of all comparisons.
pub struct Setting {
    seconds: u32,
    rounds: u32,
    folder: TempDir,
}

/// One family of comparisons.
struct Family {
    name: &'static str,
    compare: fn(&Setting) -> Vec<Row>,
}

const FAMILIES: [Family; 19] = [
    Family { name: "null", compare: local::compare_null },
    Family { name: "posix", compare: local::compare_posix },
    Family { name: "uring", compare: local::compare_uring },
    Family { name: "workloads-fio", compare: |setting| workloads::compare_with("fio", setting) },
    Family {
        name: "workloads-iozone",
        compare: |setting| workloads::compare_with("iozone", setting),
    },
    Family {
        name: "workloads-bonnie++",
        compare: |setting| workloads::compare_with("bonnie++", setting),
    },
    Family { name: "workloads-find", compare: listings::compare_listings },
    Family { name: "workloads-mdtest", compare: hpc::compare_small_files },
    Family { name: "workloads-ior", compare: hpc::compare_phases },
    Family { name: "workloads-checkpoint", compare: hpc::compare_checkpoints },
    Family { name: "workloads-postmark", compare: postmark::compare_transactions },
    Family { name: "nfs-streams", compare: nfs::compare_streams },
    Family { name: "nfs-whole", compare: nfs::compare_whole_run },
    Family { name: "nfs-small", compare: nfs::compare_small_calls },
    Family { name: "nfs-servers", compare: nfs::compare_servers },
    Family { name: "nfs-crowd", compare: nfs::compare_crowd },
    Family { name: "nfs-datagrams", compare: nfs::compare_datagrams },
    Family { name: "raw-tcp", compare: tcp::compare_raw_tcp },
    Family { name: "memory", compare: memory::compare_memory },
];

/// Makes the comparisons; returns `false` if a target is missed and that matters.
///
/// # Errors
/// If the release binary can't be built or the table can't be written.
pub fn run(options: &Options) -> Result<bool> {
    setup::install_missing()?;
    if !options.built {
        for what in [
            ["--package", "dfsbench", "--bins"],
            ["--package", "dfsbench-nfs-client", "--example=load"],
        ] {
            let mut build = repo::cargo();
            build.args(["build", "--release", "--quiet"]).args(what);
            proc::run_command(&mut build)?;
        }
    }
    let folder = TempDir::with_prefix("dfsbench-peers-")?;
    let setting = Setting { seconds: options.seconds, rounds: options.rounds.max(1), folder };
    fs::create_dir_all(repo::target_folder())?;
    let mut page = table::head(&setting);
    print_now(&page)?;
    let mut all_hold = true;
    for family in FAMILIES {
        if options.only.as_ref().is_some_and(|only| !family.name.contains(only.as_str())) {
            continue;
        }
        eprintln!("peers: {} ...", family.name);
        for row in (family.compare)(&setting) {
            let line = table::line(&row);
            print_now(&line)?;
            page.push_str(&line);
            all_hold &= row.is_met();
        }
        fs::write(repo::target_folder().join("peers.md"), &page)?;
    }
    Ok(!options.strict || all_hold)
}

/// Prints text and flushes, even to a pipe.
fn print_now(text: &str) -> Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()?;
    Ok(())
}

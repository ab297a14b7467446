//! Runs for the tests of all crates.
//!
//! With [`RunBuilder`], a test lists only the settings that it depends on, and only this module
//! needs to know where a setting is within [`RunSpec`]. The program itself gets its runs from
//! plans.

use std::path::Path;

use crate::faults::soak::Soak;
use crate::runs::file_sizes::SizeDistribution;
use crate::runs::pass::Pass;
use crate::runs::sampling::Sampling;
use crate::runs::spec::{Durability, RunSpec};
use crate::runs::training::Training;
use crate::runs::work::{Command, DataSettings, Layout, Load, OpMix, Transactions, Tree};
use crate::runs::workload::Workload;
use crate::systems::lab::LabSpec;
use crate::targets::target::{BackendKind, Target};
use crate::{NfsSettings, NfsTarget};

/// Builds a run, one setting at a time.
#[derive(Clone, Debug)]
#[must_use]
pub struct RunBuilder {
    run: RunSpec,
}

impl From<RunSpec> for RunBuilder {
    fn from(run: RunSpec) -> Self {
        Self { run }
    }
}

impl RunBuilder {
    /// Starts with a run on the null backend with the simplest settings.
    pub fn new(workload: Workload) -> Self {
        Self { run: RunSpec::null(workload) }
    }

    pub fn build(self) -> RunSpec {
        self.run
    }

    /// Gives all files the same size.
    pub fn file_size_bytes(mut self, bytes: u64) -> Self {
        self.run.file_size_bytes = bytes;
        self.run.file_sizes = None;
        self
    }

    /// Gives the files sizes by a distribution, once their number is set.
    ///
    /// # Panics
    /// If the text is not a distribution.
    pub fn file_sizes(self, text: &str) -> Self {
        let sizes = text.parse::<SizeDistribution>();
        Self { run: self.run.with_sizes(sizes.unwrap_or_else(|error| panic!("{error}"))) }
    }

    /// Uses a directory on this host, through system calls.
    pub fn on_directory(self, path: &Path) -> Self {
        let target = Target::Directory { path: path.to_owned() };
        self.target_name("dir".to_owned()).target(target).backend(BackendKind::Posix)
    }
}

/// Returns the export of an in-memory server that listens on this port.
pub fn nfs_target(port: u16, settings: NfsSettings) -> NfsTarget {
    let port = Some(port);
    NfsTarget { port, mount_port: port, settings, ..NfsTarget::new("127.0.0.1", "/export") }
}

/// Generates a setter for each setting, with the same name.
macro_rules! setters {
    ($($name:ident: $kind:ty => $($field:ident).+, $doc:literal;)+) => {
        impl RunBuilder {
            $(
                #[doc = $doc]
                pub fn $name(mut self, value: $kind) -> Self {
                    self.run.$($field).+ = value;
                    self
                }
            )+
        }
    };
}

setters! {
    target_name: String => target_name, "Sets under which name the target stands in tables.";
    target: Target => target, "Sets what is measured.";
    backend: BackendKind => backend, "Sets how ops are executed.";
    workload: Workload => workload, "Sets what kind of work is done.";
    io_size_bytes: u32 => io_size_bytes, "Sets the bytes of one read or write.";
    files: u32 => files, "Sets how many files the set has.";
    workers: u32 => workers, "Sets the threads on each client host.";
    clients: u32 => clients, "Sets how many NFS clients are emulated.";
    queue_depth: u32 => queue_depth, "Sets the ops in flight per worker.";
    read_percent: u32 => read_percent, "Sets the share of reads in a mix.";
    duration_ms: u64 => duration_ms, "Sets how long a mix runs.";
    transfer_size_bytes: Option<u32> => transfer_size_bytes,
        "Sets the largest payload of one READ or WRITE on the wire.";
    direct: bool => direct, "Sets whether the page cache is bypassed.";
    invalidate: bool => invalidate, "Sets whether files are dropped from the page cache.";
    durability: Durability => durability, "Sets when written data must be safe.";
    verify: bool => verify, "Sets whether every byte read is compared.";
    timeout_ms: u64 => timeout_ms, "Sets after how long an answer is a failure.";
    passes: Vec<Pass> => passes, "Sets the passes of a trial.";
    layout: Layout => layout, "Sets how files are laid out and walked through.";
    load: Load => load, "Sets when ops are scheduled, and what bounds a pass.";
    tree: Tree => tree, "Sets the directories and names of a metadata run.";
    rate_per_s: u64 => load.rate_per_s, "Sets how many ops a second are offered.";
    data: DataSettings => data, "Sets what is written.";
    transactions: Transactions => transactions, "Sets the pool of a transactions run.";
    training: Training => training, "Sets accelerators, batches and samples.";
    op_mix: OpMix => op_mix, "Sets the shares of ops of an op mix.";
    command: Command => command, "Sets what is executed in an app run.";
    sampling: Sampling => sampling, "Sets how a pass is watched.";
    lab: Option<Box<LabSpec>> => lab, "Sets how hosts are set up.";
    soak: Option<Box<Soak>> => soak, "Sets what a soak asks for.";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_defaults_of_plain_run() {
        let plain = RunSpec::null(Workload::Mixed);
        assert_eq!(RunBuilder::new(Workload::Mixed).build(), plain);
        let run = RunBuilder::new(Workload::Mixed).files(7).rate_per_s(50).build();
        assert_eq!((run.files, run.load.rate_per_s), (7, 50));
        let again = RunBuilder::from(run).files(plain.files).load(Load::default()).build();
        assert_eq!(again, plain);
    }

    #[test]
    fn uses_system_calls_on_directory() {
        let run = RunBuilder::new(Workload::Stream).on_directory(Path::new("/mnt")).build();
        assert_eq!(run.target, Target::Directory { path: "/mnt".into() });
        assert_eq!((run.backend, run.target_name.as_str()), (BackendKind::Posix, "dir"));
    }
}

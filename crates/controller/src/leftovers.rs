//! Working directories that killed processes left behind, and the records by which they are found.
//!
//! Before anything is created on a target, a [`WorkRecord`] is written and synced next to the
//! results file. It contains the name of the campaign, its targets and the hosts that work there.
//! The process keeps it locked and removes it when it ends; kill -9 releases the lock but leaves
//! the file. So a record that no process has locked lists possible leftovers: `dfsbench clean` and
//! `resume` remove them, and the next run on the same target warns about them.

mod held_system;
mod index;
mod record_file;

use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::target::leftover::{self, Leftover};
use model::{RunSpec, Target};

use index::IndexEntry;
use record_file::{AbandonedRecord, RecordContent, RefusedRecord, WorkedTarget};

pub use held_system::{HeldRecord, HeldRecords, HeldSystem};

/// Whether this process failed to remove a working directory.
static IS_ANY_LEFT: AtomicBool = AtomicBool::new(false);

/// Records that a working directory could not be removed, so that the record is kept for `clean`.
pub fn record_left_directory() {
    IS_ANY_LEFT.store(true, Relaxed);
}

/// No record can be made in a folder.
#[derive(Debug, thiserror::Error)]
#[error("cannot write to the folder {}: {reason} (hint: {hint})", folder.display())]
pub struct UnwritableRecord {
    pub folder: PathBuf,
    /// The system's reason.
    pub reason: String,
    pub hint: &'static str,
}

/// The record of this process, removed when it is dropped.
#[derive(Debug)]
pub struct WorkRecord {
    path: PathBuf,
    targets: Vec<WorkedTarget>,
    campaign: String,
    /// Lets a later `clean` find the record.
    index: Option<IndexEntry>,
    /// Locked until it is closed.
    _file: File,
}

impl WorkRecord {
    /// Writes the targets that a campaign is about to work on, and which stored campaign it
    /// resumes; `None` if it leaves nothing behind.
    ///
    /// # Errors
    /// If no file can be created next to the results.
    pub fn begin(
        results: &Path,
        campaign: &str,
        runs: &[RunSpec],
        resumes: Option<i64>,
        now_unix_ms: u64,
    ) -> Result<Option<Self>, UnwritableRecord> {
        let targets = targets_of(runs);
        if targets.is_empty() {
            return Ok(None);
        }
        Self::write(results, content_of(campaign, targets, resumes, now_unix_ms)).map(Some)
    }

    /// Adds an entry to this user's folder of records, so that `dfsbench clean` finds the record
    /// without the name of the results file.
    #[must_use]
    pub fn with_index(mut self, results: &Path, records_dir: &Path) -> Self {
        self.index = IndexEntry::add(results, &self.campaign, records_dir);
        self
    }

    /// Records that a replay is about to create this directory on its target. The record is in this
    /// user's folder, since a replay has no results file.
    pub fn for_replay(
        target: Target,
        directory: &str,
        records_dir: &Path,
        now_unix_ms: u64,
    ) -> Result<Self, UnwritableRecord> {
        let worked = WorkedTarget::new(target, Vec::new(), Some(directory.to_owned()));
        let records = replay_records(records_dir);
        if let Some(folder) = records.parent() {
            let made = fs::create_dir_all(folder);
            made.map_err(|error| unwritable(folder, &error, REPLAY_HINT))?;
        }
        Self::write(&records, content_of(directory, vec![worked], None, now_unix_ms))
    }

    fn write(results: &Path, content: RecordContent) -> Result<Self, UnwritableRecord> {
        let path = record_file::path_of(results, &content.campaign);
        let hint = if content.targets.iter().any(|worked| worked.tree.is_some()) {
            REPLAY_HINT
        } else {
            "choose a results file in a writable directory with --results"
        };
        let file = record_file::write(&path, &content)
            .map_err(|error| unwritable(record_file::folder_of(&path), &error, hint))?;
        let RecordContent { targets, campaign, .. } = content;
        Ok(Self { path, targets, campaign, index: None, _file: file })
    }
}

fn content_of(
    campaign: &str,
    targets: Vec<WorkedTarget>,
    resumes: Option<i64>,
    begun_unix_ms: u64,
) -> RecordContent {
    RecordContent {
        campaign: campaign.to_owned(),
        pid: std::process::id(),
        begun_unix_ms,
        resumes,
        targets,
    }
}

/// Advice if the record of a replay can't be written.
const REPLAY_HINT: &str = "set XDG_STATE_HOME to a writable folder, or keep the tree with --tree";

fn unwritable(folder: &Path, error: &io::Error, hint: &'static str) -> UnwritableRecord {
    UnwritableRecord { folder: folder.to_owned(), reason: error.to_string(), hint }
}

/// Returns the name of a results file next to which the records of replays are stored.
fn replay_records(records_dir: &Path) -> PathBuf {
    records_dir.join("replay")
}

impl Drop for WorkRecord {
    fn drop(&mut self) {
        // Directories that could not be removed stay on record. Local ones are checked for; for
        // those on other hosts, we only know whether their removal failed.
        for worked in &self.targets {
            let is_left = match &worked.tree {
                _ if !worked.is_here() => IS_ANY_LEFT.load(Relaxed),
                Some(tree) => worked.target.paths().iter().any(|path| path.join(tree).exists()),
                None => holds_some(&worked.target, &self.campaign),
            };
            if is_left {
                return;
            }
        }
        let _ = fs::remove_file(&self.path);
        if let Some(index) = &self.index {
            index.remove();
        }
    }
}

/// Outcome of a search for leftovers of killed processes.
#[derive(Debug, Default)]
pub struct CleanupOutcome {
    /// Removed leftovers, one line each.
    pub removed: Vec<String>,
    /// Records with leftovers that could not be removed, and records that were refused.
    pub unfinished: Vec<UnfinishedRecord>,
    /// Records of other users, one line each.
    pub foreign: Vec<String>,
    /// Systems that no process keeps up any more, but whose hosts may still be changed.
    pub systems: Vec<HeldRecord>,
}

impl CleanupOutcome {
    fn add_refused(&mut self, RefusedRecord { path, why, is_foreign }: RefusedRecord) {
        if is_foreign {
            self.foreign.push(describe_refused(&path, &why));
        } else {
            let why = KeptBecause::Refused(why);
            self.unfinished.push(UnfinishedRecord { path, why });
        }
    }
}

/// A record of this user that is kept.
#[derive(Debug)]
pub struct UnfinishedRecord {
    path: PathBuf,
    why: KeptBecause,
}

/// Why a record is kept.
#[derive(Debug)]
enum KeptBecause {
    /// The record was not processed, for this reason.
    Refused(String),
    /// These leftovers remain.
    Left(Vec<String>),
}

impl UnfinishedRecord {
    /// Returns one line per leftover.
    pub fn lines(&self) -> Vec<String> {
        match &self.why {
            KeptBecause::Refused(why) => vec![describe_refused(&self.path, why)],
            KeptBecause::Left(left) => left.clone(),
        }
    }

    /// Removes the record, and returns a sentence about the leftovers that remain.
    ///
    /// # Errors
    /// If it can't be removed. The error is a complete sentence.
    pub fn forget(self) -> Result<String, String> {
        let shown = printable(&self.path.display().to_string());
        if let Err(error) = fs::remove_file(&self.path) {
            return Err(format!("cannot remove {shown}: {error}"));
        }
        Ok(match self.why {
            KeptBecause::Refused(why) => {
                format!("{shown} ({}): nothing it lists was removed", printable(&why))
            }
            KeptBecause::Left(left) => {
                format!("{shown}: not everything it lists was removed: {}", left.join("; "))
            }
        })
    }
}

fn describe_refused(path: &Path, why: &str) -> String {
    printable(&format!("ignoring the record {}: {why}", path.display()))
}

/// Removes the leftovers of killed processes with one of these results files, and of this user's
/// killed replays.
pub fn clean(results_files: &[PathBuf], records_dir: &Path) -> CleanupOutcome {
    let mut cleaned = CleanupOutcome::default();
    for results in results_files {
        clean_recorded(results, &mut cleaned);
    }
    clean_recorded(&replay_records(records_dir), &mut cleaned);
    let HeldRecords { records, refused } = HeldRecords::read(records_dir);
    cleaned.systems.extend(records.into_iter().filter(|record| !record.is_held()));
    for refused in refused {
        cleaned.add_refused(refused);
    }
    index::list(records_dir).iter().filter(|entry| entry.is_stale()).for_each(IndexEntry::remove);
    cleaned
}

/// Returns this results file and all others with records of this user's campaigns.
pub fn results_files(named: &Path, records_dir: &Path) -> Vec<PathBuf> {
    let mut files = vec![std::path::absolute(named).unwrap_or_else(|_| named.to_owned())];
    files.extend(index::list(records_dir).into_iter().map(|entry| entry.results));
    files.sort();
    files.dedup();
    files
}

/// Removes the leftovers listed in the records next to a file.
fn clean_recorded(results: &Path, cleaned: &mut CleanupOutcome) {
    let found = record_file::find(results);
    for refused in found.refused {
        cleaned.add_refused(refused);
    }
    for abandoned in found.abandoned {
        let mut left = Vec::new();
        for worked in &abandoned.content.targets {
            clean_target(worked, &abandoned, &mut cleaned.removed, &mut left);
        }
        // If anything is left, the record is kept for the next attempt.
        if left.is_empty() {
            let _ = fs::remove_file(&abandoned.path);
        } else {
            let why = KeptBecause::Left(left);
            cleaned.unfinished.push(UnfinishedRecord { path: abandoned.path, why });
        }
    }
}

/// Returns a warning for each target of these runs in which a killed process may have left files.
pub fn warnings(results: &Path, runs: &[RunSpec]) -> Vec<String> {
    let ours = targets_of(runs);
    let mut warnings = Vec::new();
    for abandoned in record_file::find(results).abandoned {
        for worked in &abandoned.content.targets {
            if !ours.contains(worked) {
                continue;
            }
            let shown = results.display();
            warnings.push(format!(
                "process {} was killed while it was using {}, and may have left files there (hint: \
                 `dfsbench clean --results {shown}` removes them)",
                abandoned.content.pid, worked.target
            ));
        }
    }
    warnings
}

/// Returns the targets of a campaign that started after this time, was killed and never stored.
pub fn killed_unstored(results: &Path, since_unix_ms: u64) -> Option<String> {
    let mut contents: Vec<RecordContent> =
        record_file::find(results).abandoned.into_iter().map(|record| record.content).collect();
    // A stored campaign starts after its record was written, a resumed one before that.
    contents.retain(|record| record.resumes.is_none() && record.begun_unix_ms > since_unix_ms);
    let last = contents.iter().max_by_key(|record| record.begun_unix_ms)?;
    let names: Vec<String> = last.targets.iter().map(|worked| worked.target.to_string()).collect();
    Some(printable(&names.join(", ")))
}

/// Cleans one target; adds a line for each thing removed or left.
fn clean_target(
    worked: &WorkedTarget,
    record: &AbandonedRecord,
    removed: &mut Vec<String>,
    left: &mut Vec<String>,
) {
    let campaign = &record.content.campaign;
    if worked.target.is_local() && !worked.hosts.is_empty() {
        left.push(printable(&format!(
            "{} on {} may still contain `.dfsbench-{campaign}-*` (hint: remove it there by hand, \
             then run `dfsbench clean --forget` to drop the record {})",
            worked.target,
            worked.hosts.join(", "),
            record.path.display()
        )));
        return;
    }
    let found = match &worked.tree {
        Some(tree) => leftover::remove_tree(&worked.target, tree),
        None => leftover::remove(&worked.target, campaign),
    };
    match found {
        Ok(found) => {
            for one in found {
                match one {
                    Leftover::Removed(place) => removed.push(printable(&place)),
                    Leftover::Kept(place, why) => left.push(printable(&format!("{place}: {why}"))),
                }
            }
        }
        Err(error) => left.push(printable(&error.to_string())),
    }
}

/// Replaces control characters, which a forged record could otherwise send to a terminal.
fn printable(text: &str) -> String {
    text.replace(char::is_control, "\u{fffd}")
}

/// Returns the targets that outlive this process, without duplicates. The setup of hosts has its
/// own undo logs.
fn targets_of(runs: &[RunSpec]) -> Vec<WorkedTarget> {
    let mut targets: Vec<WorkedTarget> = Vec::new();
    for run in runs {
        if run.lab.is_some() {
            continue;
        }
        let mut hosts = Vec::new();
        for host in &run.placement.hosts {
            hosts.extend(host.ssh.clone());
        }
        let worked = WorkedTarget::new(run.target.clone(), hosts, None);
        if run.target.outlives_process() && !targets.contains(&worked) {
            targets.push(worked);
        }
    }
    targets
}

/// Returns true if a local directory contains a working directory of a campaign.
fn holds_some(target: &Target, campaign: &str) -> bool {
    let begin = model::work::directory_name(campaign, "");
    for path in target.paths() {
        let Ok(entries) = fs::read_dir(path) else { continue };
        for entry in entries {
            if let Ok(entry) = entry
                && entry.file_name().as_bytes().starts_with(begin.as_bytes())
            {
                return true;
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use model::Workload;
    use model::testing::RunBuilder;

    use super::*;

    const CAMPAIGN: &str = "4711";
    const TREE: &str = "dfsbench-replay-0123456789abcdef";

    fn run_on(path: &Path) -> RunSpec {
        let target = Target::Directory { path: path.to_owned() };
        RunBuilder::new(Workload::Stream).target(target).build()
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    /// Writes the record of an ended process next to a results file.
    fn abandon(results: &Path, campaign: &str, targets: Vec<WorkedTarget>) -> PathBuf {
        let content = content_of(campaign, targets, None, 0);
        let path = record_file::path_of(results, campaign);
        drop(record_file::write(&path, &content).unwrap());
        path
    }

    fn worked(target: &Path, tree: Option<&str>) -> Vec<WorkedTarget> {
        let target = Target::Directory { path: target.to_owned() };
        vec![WorkedTarget { target, hosts: Vec::new(), tree: tree.map(str::to_owned) }]
    }

    /// Cleans once no process that another test has just forked has a record locked.
    fn clean_beside(results: &Path) -> CleanupOutcome {
        for _ in 0..500 {
            let found = record_file::find(results);
            if !found.abandoned.is_empty() || !found.refused.is_empty() {
                break;
            }
            std::thread::park_timeout(std::time::Duration::from_millis(10));
        }
        let mut cleaned = CleanupOutcome::default();
        clean_recorded(results, &mut cleaned);
        cleaned
    }

    #[test]
    fn keeps_record_while_something_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("r.db");
        let target = folder.path().join("target");
        fs::create_dir(&target).unwrap();
        let runs = [run_on(&target)];
        let record = WorkRecord::begin(&results, "ab", &runs, None, 0).unwrap().unwrap();
        assert_eq!((files(folder.path()), record_file::find(&results).abandoned.len()), (2, 0));
        drop(record);
        assert_eq!(files(folder.path()), 1);
        let record = WorkRecord::begin(&results, "ab", &runs, None, 0).unwrap();
        fs::create_dir(target.join(".dfsbench-ab-0")).unwrap();
        drop(record);
        let cleaned = clean_beside(&results);
        assert_eq!((cleaned.removed.len(), cleaned.unfinished.len()), (1, 0), "{cleaned:?}");
        assert_eq!((files(folder.path()), files(&target)), (1, 0));
        assert!(
            WorkRecord::begin(&results, "ab", &[RunSpec::null(Workload::Stream)], None, 0)
                .unwrap()
                .is_none()
        );
    }

    #[test]
    fn removes_marked_tree_of_killed_replay() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("replay");
        let target = folder.path().join("target");
        let other = "dfsbench-replay-0123456789abcde0";
        for tree in [TREE, other] {
            fs::create_dir_all(target.join(tree).join("tree/a/b")).unwrap();
            fs::create_dir(target.join(tree).join(format!("{tree}.campaign"))).unwrap();
        }
        abandon(&records, TREE, worked(&target, Some(TREE)));
        let cleaned = clean_beside(&records);
        assert_eq!((cleaned.removed.len(), cleaned.unfinished.len()), (1, 0), "{cleaned:?}");
        // The other one has no record.
        assert!(!target.join(TREE).exists() && target.join(other).exists());
        assert_eq!(files(folder.path()), 1);
    }

    #[test]
    fn refuses_records_that_name_foreign_directories() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("r.db");
        let target = folder.path().join("target");
        let precious = [folder.path().join("precious"), target.join("precious")];
        for directory in &precious {
            fs::create_dir_all(directory.join("dear")).unwrap();
        }
        std::os::unix::fs::symlink(&precious[0], target.join("link")).unwrap();
        let absolute = precious[0].display().to_string();
        let names = ["precious", "../precious", absolute.as_str(), ".", "..", "", "link", "link/x"];
        for name in names {
            for campaign in [name, TREE, CAMPAIGN] {
                // A file can't have the name of a path.
                let campaign = campaign.replace('/', "-");
                abandon(&results, &campaign, worked(&target, Some(name)));
                let cleaned = clean_beside(&results);
                assert_eq!(cleaned.removed, [""; 0], "{name} of {campaign}");
                let [record] = &cleaned.unfinished[..] else { panic!("{name}: {cleaned:?}") };
                assert!(record.lines()[0].contains("ignoring the record"), "{record:?}");
                fs::remove_file(&record.path).unwrap();
            }
        }
        // A name of ours is ignored without a mark, and with another campaign's mark.
        let tree = target.join(TREE);
        fs::create_dir_all(tree.join("dear")).unwrap();
        fs::create_dir(tree.join("dfsbench-replay-0000000000000000.campaign")).unwrap();
        abandon(&results, TREE, worked(&target, Some(TREE)));
        let cleaned = clean_beside(&results);
        assert!(cleaned.unfinished[0].lines()[0].contains("has no directory"), "{cleaned:?}");
        for directory in [&precious[0], &precious[1], &tree] {
            assert!(directory.join("dear").exists(), "{}", directory.display());
        }
    }

    #[test]
    fn rejects_records_of_other_campaigns() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("r.db");
        let target = folder.path().join("target");
        let work = target.join(format!(".dfsbench-{CAMPAIGN}-0"));
        fs::create_dir_all(&work).unwrap();
        let another = abandon(&results, CAMPAIGN, worked(&target, None));
        fs::rename(&another, record_file::path_of(&results, "815")).unwrap();
        abandon(&results, "x", worked(&target, None));
        abandon(&results, "ab", worked(Path::new("target"), None));
        fs::write(record_file::path_of(&results, "cd"), "{}").unwrap();
        let cleaned = clean_beside(&results);
        assert_eq!((cleaned.removed.len(), cleaned.unfinished.len()), (0, 4), "{cleaned:?}");
        assert!(work.exists());
        for record in cleaned.unfinished {
            assert!(record.forget().unwrap().contains("was removed"));
        }
        assert_eq!(files(folder.path()), 1);
    }

    #[test]
    fn ignores_records_others_may_write() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("r.db");
        let target = folder.path().join("target");
        let work = target.join(".dfsbench-ab-0");
        fs::create_dir_all(&work).unwrap();
        let path = abandon(&results, "ab", worked(&target, None));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        assert!(
            clean_beside(&results).unfinished[0].lines()[0].contains("other users can write to it")
        );
        assert!(work.exists());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = record_file::path_of(&results, "cd");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        // A pipe would block a reader.
        let pipe = record_file::path_of(&results, "ef");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let cleaned = clean_beside(&results);
        assert_eq!(cleaned.unfinished.len(), 2, "{cleaned:?}");
        assert!(!work.exists() && link.symlink_metadata().is_ok() && pipe.exists());
    }

    #[test]
    fn removes_empty_record_silently() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("r.db");
        fs::write(record_file::path_of(&results, "ab"), "").unwrap();
        let mut cleaned = CleanupOutcome::default();
        clean_recorded(&results, &mut cleaned);
        assert_eq!((cleaned.unfinished.len(), files(folder.path())), (0, 0), "{cleaned:?}");
    }

    #[test]
    fn recognizes_killed_unstored_campaign() {
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("r.db");
        let begun = |campaign: &str, begun_unix_ms, resumes| {
            let targets = worked(Path::new("/some/where"), None);
            let content = content_of(campaign, targets, resumes, begun_unix_ms);
            drop(record_file::write(&record_file::path_of(&results, campaign), &content).unwrap());
        };
        // Neither the record of the stored campaign itself nor that of a process that resumed it
        // counts.
        begun("a", 99, None);
        begun("b", 200, Some(1));
        assert_eq!(killed_unstored(&results, 100), None);
        begun("c", 101, None);
        assert_eq!(killed_unstored(&results, 100).as_deref(), Some("/some/where"));
    }
}

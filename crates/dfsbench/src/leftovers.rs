//! Working directories that killed processes left behind, and the records by which they are found.
//!
//! Before anything is made at a target, a [`Record`] is written and synced beside the results file:
//! the name of the campaign, its targets, and the hosts that work there. Its process keeps it
//! locked and removes it at its end; kill -9 drops the lock and leaves the file. A record that
//! no process holds therefore names what may still be there: `dfsbench clean` and `resume` remove
//! it, and the next run on the same target says so.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use engine::target::leftover::{self, Leftover};
use model::{RunSpec, Target};
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::{output, user_dirs};

/// How the names of records go on after that of the results file, and how they end.
const NAME: [&str; 2] = ["-work-", ".lock"];

/// A larger record is none of ours.
const BYTES_MAX: u64 = 16 << 20;

/// The contents of a record.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RecordContent {
    /// The part of the working directories' names that identifies the campaign.
    campaign: String,
    /// The process that made it.
    pid: u32,
    targets: Vec<Worked>,
}

/// A target that is worked on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Worked {
    target: Target,
    /// The hosts that see it, by the words that ssh finds them by; none where it is this one.
    hosts: Vec<String>,
    /// The directory that a replay made there, all of which is its own; `None` where
    /// directories have the name of the campaign.
    #[serde(default)]
    tree: Option<String>,
}

/// A working directory could not be removed by this process.
static IS_ANY_LEFT: AtomicBool = AtomicBool::new(false);

/// Notes that a working directory could not be removed, so that the record is kept for `clean`.
pub fn note_left() {
    IS_ANY_LEFT.store(true, Relaxed);
}

/// The record of this process, until it is dropped.
#[derive(Debug)]
pub struct Record {
    path: PathBuf,
    targets: Vec<Worked>,
    campaign: String,
    /// Locked; the lock ends when it is closed.
    _file: File,
}

impl Record {
    /// Writes what a campaign is about to work on; `None` where it leaves nothing behind.
    ///
    /// # Errors
    /// When no file can be made beside the results.
    pub fn begin(
        results: &Path,
        campaign: &str,
        runs: &[RunSpec],
    ) -> Result<Option<Self>, Failure> {
        let targets = targets_of(runs);
        if targets.is_empty() {
            return Ok(None);
        }
        Self::write(results, campaign, targets).map(Some)
    }

    /// Writes that a replay is about to make this directory at its target; the record is among
    /// those of this user, since a replay keeps no results.
    ///
    /// # Errors
    /// When no file can be made there.
    pub fn of_replay(target: Target, directory: &str) -> Result<Self, Failure> {
        let worked = Worked { target, hosts: Vec::new(), tree: Some(directory.to_owned()) };
        let records = replay_records();
        if let Some(folder) = records.parent() {
            let made = fs::create_dir_all(folder);
            made.map_err(|error| unwritable(folder, &error, REPLAY_HINT))?;
        }
        Self::write(&records, directory, vec![worked])
    }

    fn write(results: &Path, campaign: &str, targets: Vec<Worked>) -> Result<Self, Failure> {
        let path = place_of(results, campaign);
        let content =
            RecordContent { campaign: campaign.to_owned(), pid: std::process::id(), targets };
        let hint = if content.targets.iter().any(|worked| worked.tree.is_some()) {
            REPLAY_HINT
        } else {
            "keep results where files can be made: --results"
        };
        let file =
            write_record(&path, &content).map_err(|error| unwritable(&path, &error, hint))?;
        Ok(Self { path, targets: content.targets, campaign: content.campaign, _file: file })
    }
}

/// Advice where a replay can't keep its record.
const REPLAY_HINT: &str = "set XDG_STATE_HOME to a folder in which files can be made, or keep the \
                           tree: --tree";

fn unwritable(path: &Path, error: &io::Error, hint: &'static str) -> Failure {
    Failure::Output { what: path.display().to_string(), reason: error.to_string(), hint }
}

/// Returns where records of replays are kept, as beside a results file of that name.
fn replay_records() -> PathBuf {
    user_dirs::records_dir().join("replay")
}

impl Drop for Record {
    fn drop(&mut self) {
        // Directories that could not be removed are kept on record. Those of this host are looked
        // for; of others it is known whether their removal failed.
        for worked in &self.targets {
            let is_here = worked.hosts.is_empty() && worked.target.is_local();
            let is_left = match &worked.tree {
                _ if !is_here => IS_ANY_LEFT.load(Relaxed),
                Some(tree) => worked.target.paths().iter().any(|path| path.join(tree).exists()),
                None => holds_some(&worked.target, &self.campaign),
            };
            if is_left {
                return;
            }
        }
        let _ = fs::remove_file(&self.path);
    }
}

/// The outcome of a search for leftovers of killed processes.
#[derive(Debug, Default)]
pub struct Cleaned {
    /// The removed leftovers, a line each.
    pub removed: Vec<String>,
    /// The leftovers that were left alone or could not be reached, with the reason.
    pub left: Vec<String>,
}

/// Removes what killed processes left that kept their results in this file, and what killed
/// replays of this user left.
pub fn clean(results: &Path) -> Cleaned {
    let mut cleaned = Cleaned::default();
    for records in [results, &replay_records()] {
        clean_recorded(records, &mut cleaned);
    }
    cleaned
}

/// Removes what the records beside a file name.
fn clean_recorded(results: &Path, cleaned: &mut Cleaned) {
    for abandoned in find_abandoned(results) {
        let mut is_done = true;
        for worked in &abandoned.content.targets {
            is_done &= clean_target(worked, &abandoned.content.campaign, cleaned);
        }
        // The record is kept for the next time where something could not be inspected.
        if is_done {
            let _ = fs::remove_file(&abandoned.path);
        }
    }
}

/// Says of each target of these runs what a killed process may have left there.
pub fn warn(results: &Path, runs: &[RunSpec]) {
    let ours = targets_of(runs);
    for abandoned in find_abandoned(results) {
        for worked in &abandoned.content.targets {
            if !ours.contains(worked) {
                continue;
            }
            let shown = results.display();
            output::message(&format!(
                "warning: process {} was killed while it worked on {}, and may have left files \
                 there (hint: `dfsbench clean --results {shown}` removes them)",
                abandoned.content.pid, worked.target
            ));
        }
    }
}

/// Cleans one target; returns false where it must be tried again.
fn clean_target(worked: &Worked, campaign: &str, cleaned: &mut Cleaned) -> bool {
    if worked.target.is_local() && !worked.hosts.is_empty() {
        let hosts = worked.hosts.join(", ");
        cleaned.left.push(format!(
            "{} on {hosts}: `.dfsbench-{campaign}-*` may be left there (hint: remove it there by \
             hand, then the record `*-work-{campaign}.lock` beside the results)",
            worked.target
        ));
        return false;
    }
    let removed = match &worked.tree {
        Some(tree) => leftover::remove_tree(&worked.target, tree),
        None => leftover::remove(&worked.target, campaign),
    };
    match removed {
        Ok(found) => {
            for one in found {
                match one {
                    Leftover::Removed(place) => cleaned.removed.push(place),
                    Leftover::Kept(place, why) => cleaned.left.push(format!("{place}: {why}")),
                }
            }
            true
        }
        Err(error) => {
            cleaned.left.push(error.to_string());
            false
        }
    }
}

/// A record that no process holds, which is locked while it is handled.
struct Abandoned {
    path: PathBuf,
    content: RecordContent,
    _file: File,
}

/// Finds the records of processes that are gone.
fn find_abandoned(results: &Path) -> Vec<Abandoned> {
    let shared = place_of(results, "");
    let Some(name) = shared.file_name() else { return Vec::new() };
    let begin = name.as_bytes().strip_suffix(NAME[1].as_bytes()).unwrap_or_default();
    let Ok(entries) = fs::read_dir(folder_of(&shared)) else { return Vec::new() };
    let mut found = Vec::new();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_record =
            name.as_bytes().starts_with(begin) && name.as_bytes().ends_with(NAME[1].as_bytes());
        if is_record && let Some((content, file)) = read_record(&entry.path()) {
            found.push(Abandoned { path: entry.path(), content, _file: file });
        }
    }
    found
}

/// Reads a record that no process holds, and that the user of this process, or root, has made.
fn read_record(path: &Path) -> Option<(RecordContent, File)> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = options.open(path).ok()?;
    let found = file.metadata().ok()?;
    let me = rustix::process::geteuid().as_raw();
    // What it names will be removed: only this user and root may choose that.
    if !found.is_file() || !(found.uid() == me || found.uid() == 0) || found.mode() & 0o022 != 0 {
        return None;
    }
    file.try_lock().ok()?;
    let mut text = String::new();
    (&file).take(BYTES_MAX).read_to_string(&mut text).ok()?;
    Some((serde_json::from_str(&text).ok()?, file))
}

/// Writes a record and syncs it, with its folder: it must outlive what is made next.
fn write_record(path: &Path, content: &RecordContent) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = options.open(path)?;
    file.lock()?;
    file.write_all(serde_json::to_string(content)?.as_bytes())?;
    file.sync_all()?;
    File::open(folder_of(path))?.sync_all()?;
    Ok(file)
}

/// Returns the directory of a file; a bare name has an empty parent, which can't be opened.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the path of a campaign's record: beside the results file, whatever name that goes by.
fn place_of(results: &Path, campaign: &str) -> PathBuf {
    let results = fs::canonicalize(results).unwrap_or_else(|_| results.to_owned());
    let mut path = results.into_os_string();
    path.push(format!("{}{campaign}{}", NAME[0], NAME[1]));
    PathBuf::from(path)
}

/// Lists the targets that outlive this process, each once. What hosts are set up with is in their
/// own undo logs.
fn targets_of(runs: &[RunSpec]) -> Vec<Worked> {
    let mut targets: Vec<Worked> = Vec::new();
    for run in runs {
        if run.lab.is_some() {
            continue;
        }
        let mut hosts = Vec::new();
        for host in &run.placement.hosts {
            hosts.extend(host.ssh.clone());
        }
        let worked = Worked { target: run.target.clone(), hosts, tree: None };
        if run.target.outlives_process() && !targets.contains(&worked) {
            targets.push(worked);
        }
    }
    targets
}

/// Says whether a directory of this host holds a working directory of a campaign.
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

    use super::*;
    use model::testing::RunBuilder;

    fn run_on(path: &Path) -> RunSpec {
        let target = Target::Directory { path: path.to_owned() };
        RunBuilder::new(Workload::Stream).target(target).build()
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_record_goes_with_its_process_unless_something_is_left() {
        let folder = tempfile::tempdir().unwrap();
        let (results, target) = (folder.path().join("r.db"), folder.path().join("target"));
        fs::create_dir(&target).unwrap();
        let runs = [run_on(&target)];
        let record = Record::begin(&results, "ab", &runs).unwrap().unwrap();
        assert_eq!((files(folder.path()), find_abandoned(&results).len()), (2, 0));
        drop(record);
        assert_eq!(files(folder.path()), 1);
        let record = Record::begin(&results, "ab", &runs).unwrap();
        fs::create_dir(target.join(".dfsbench-ab-0")).unwrap();
        drop(record);
        let mut cleaned = Cleaned::default();
        clean_recorded(&results, &mut cleaned);
        assert_eq!((cleaned.removed.len(), cleaned.left.len()), (1, 0), "{cleaned:?}");
        assert_eq!((files(folder.path()), files(&target)), (1, 0));
        assert!(
            Record::begin(&results, "ab", &[RunSpec::null(Workload::Stream)]).unwrap().is_none()
        );
    }

    #[test]
    fn the_tree_of_a_killed_replay_in_a_directory_is_removed_with_all_that_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let (records, target) = (folder.path().join("replay"), folder.path().join("target"));
        for tree in ["dfsbench-replay-1", "dfsbench-replay-2"] {
            fs::create_dir_all(target.join(tree).join("a/b")).unwrap();
        }
        let content = RecordContent {
            campaign: "dfsbench-replay-1".into(),
            pid: 1,
            targets: vec![Worked {
                target: Target::Directory { path: target.clone() },
                hosts: Vec::new(),
                tree: Some("dfsbench-replay-1".into()),
            }],
        };
        drop(write_record(&place_of(&records, &content.campaign), &content).unwrap());
        let mut cleaned = Cleaned::default();
        clean_recorded(&records, &mut cleaned);
        assert_eq!((cleaned.removed.len(), cleaned.left.len()), (1, 0), "{cleaned:?}");
        // The other one has no record.
        assert!(!target.join("dfsbench-replay-1").exists());
        assert!(target.join("dfsbench-replay-2").exists());
        assert_eq!(files(folder.path()), 1);
    }

    #[test]
    fn what_others_may_write_is_no_record() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let results = folder.path().join("r.db");
        let target = folder.path().join("target");
        let work = target.join(".dfsbench-ab-0");
        fs::create_dir_all(&work).unwrap();
        let content = RecordContent {
            campaign: "ab".into(),
            pid: 1,
            targets: vec![Worked { target: run_on(&target).target, hosts: Vec::new(), tree: None }],
        };
        let path = place_of(&results, "ab");
        drop(write_record(&path, &content).unwrap());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
        clean_recorded(&results, &mut Cleaned::default());
        assert!(work.exists());
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        let link = place_of(&results, "cd");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        // A process that another test has just forked holds the record's lock until it executes its
        // program.
        for _ in 0..500 {
            if !find_abandoned(&results).is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        assert_eq!(find_abandoned(&results).len(), 1);
        clean_recorded(&results, &mut Cleaned::default());
        assert!(!work.exists() && link.symlink_metadata().is_ok());
    }
}

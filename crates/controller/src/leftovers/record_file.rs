//! Record files: how they are named, written, found and verified.
//!
//! A [`RecordContent`] is untrusted input: a folder of results may come from an archive, and
//! everything that a record lists is removed. So [`find`] only accepts records that this user or
//! root wrote and that list only things dfsbench creates. It returns the others with the reason,
//! and follows no symbolic links.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use model::Target;
use model::work::{is_hex, is_replay_directory};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Middle and end of a record's file name, after the name of the results file.
const MIDDLE: &str = "-work-";
const END: &str = ".lock";

/// Maximum size of a record, in bytes.
const BYTES_MAX: u64 = 16 << 20;

/// The contents of a record.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RecordContent {
    /// The part of the working directories' names that identifies the campaign, or the name of the
    /// directory that a replay made.
    pub campaign: String,
    /// The process that made it.
    pub pid: u32,
    /// Start of that process, in milliseconds since 1970 UTC.
    #[serde(default)]
    pub begun_unix_ms: u64,
    /// The stored campaign that the process resumed.
    #[serde(default)]
    pub resumes: Option<i64>,
    pub targets: Vec<WorkedTarget>,
}

/// A target on which the process works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WorkedTarget {
    pub target: Target,
    /// SSH destinations of the hosts that see it; empty for the local host.
    pub hosts: Vec<String>,
    /// The directory created by a replay; `None` if directories are named after the campaign.
    #[serde(default)]
    pub tree: Option<String>,
}

impl WorkedTarget {
    pub(super) fn new(mut target: Target, hosts: Vec<String>, tree: Option<String>) -> Self {
        // Made absolute, since `clean` may run in another folder. On other hosts, relative paths
        // have another base.
        if hosts.is_empty() {
            let paths = match &mut target {
                Target::Directory { path } => std::slice::from_mut(path),
                Target::Directories { paths } => paths,
                _ => &mut [],
            };
            for path in paths {
                *path = std::path::absolute(&*path).unwrap_or_else(|_| path.clone());
            }
        }
        Self { target, hosts, tree }
    }

    /// Returns true if the target is a file system of this host.
    pub(super) fn is_here(&self) -> bool {
        self.hosts.is_empty() && self.target.is_local()
    }
}

impl RecordContent {
    /// Checks that a record of this campaign lists only things that dfsbench creates.
    fn check(&self, campaign: &str) -> Result<(), String> {
        if self.campaign != campaign {
            return Err("it names a different campaign than its file name".to_owned());
        }
        for worked in &self.targets {
            match &worked.tree {
                Some(tree) if tree != campaign || !is_replay_directory(tree) => {
                    return Err(format!(
                        "it lists the directory `{tree}`, which is not one that a replay creates"
                    ));
                }
                None if !is_hex(campaign) => {
                    return Err(format!("`{campaign}` is not the name of a campaign"));
                }
                _ => {}
            }
            if worked.is_here()
                && let Some(path) = worked.target.paths().iter().find(|path| path.is_relative())
            {
                return Err(format!("it lists the relative path `{}`", path.display()));
            }
        }
        Ok(())
    }
}

/// Records found next to a results file.
#[derive(Debug, Default)]
pub(super) struct FoundRecords {
    /// Records whose processes are gone.
    pub abandoned: Vec<AbandonedRecord>,
    /// Files that were refused.
    pub refused: Vec<RefusedRecord>,
}

/// A record that no process has locked; we hold the lock while handling it.
#[derive(Debug)]
pub(super) struct AbandonedRecord {
    pub path: PathBuf,
    pub content: RecordContent,
    _file: File,
}

/// A refused file with the name of a record.
#[derive(Debug)]
pub(super) struct RefusedRecord {
    pub path: PathBuf,
    pub why: String,
    /// Whether it belongs to another user, who must deal with it.
    pub is_foreign: bool,
}

/// Finds the records next to a results file that no running process has locked.
pub(super) fn find(results: &Path) -> FoundRecords {
    let mut found = FoundRecords::default();
    let shared = path_of(results, "");
    let Some(name) = shared.file_name() else { return found };
    let begin = name.as_bytes().strip_suffix(END.as_bytes()).unwrap_or_default();
    let Ok(entries) = fs::read_dir(folder_of(&shared)) else { return found };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let campaign = name.as_bytes().strip_prefix(begin);
        let Some(campaign) = campaign.and_then(|rest| rest.strip_suffix(END.as_bytes())) else {
            continue;
        };
        let path = entry.path();
        match read(&path, &String::from_utf8_lossy(campaign)) {
            Ok(Some(record)) => found.abandoned.push(record),
            Ok(None) => {}
            Err(why) => {
                let is_foreign = is_foreign(&path);
                found.refused.push(RefusedRecord { path, why, is_foreign });
            }
        }
    }
    found
}

pub(super) fn is_foreign(path: &Path) -> bool {
    let me = rustix::process::geteuid().as_raw();
    fs::symlink_metadata(path).is_ok_and(|found| found.uid() != me && found.uid() != 0)
}

/// Reads and verifies a record; `None` if a process holds it or it is gone.
fn read(path: &Path, campaign: &str) -> Result<Option<AbandonedRecord>, String> {
    let Some(file) = open(path)? else { return Ok(None) };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error.to_string()),
    }
    let Some(content): Option<RecordContent> = parse(&file)? else {
        // The process was killed before it wrote the record, and so before it created anything.
        let _ = fs::remove_file(path);
        return Ok(None);
    };
    content.check(campaign)?;
    Ok(Some(AbandonedRecord { path: path.to_owned(), content, _file: file }))
}

/// Opens a record that only this user or root could have written; `None` if it is gone.
pub(super) fn open(path: &Path) -> Result<Option<File>, String> {
    // Non-blocking, because opening a pipe would block us.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let file = match options.open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::LOOP) => {
            return Err("it is a symlink".to_owned());
        }
        opened => opened.map_err(|error| error.to_string())?,
    };
    let metadata = file.metadata().map_err(|error| error.to_string())?;
    check_author(metadata.uid(), metadata.mode(), rustix::process::geteuid().as_raw())?;
    if !metadata.is_file() || metadata.nlink() > 1 {
        return Err("it is not a regular file, or has several hard links".to_owned());
    }
    Ok(Some(file))
}

/// Parses a record; `None` if it was not written yet.
pub(super) fn parse<T: DeserializeOwned>(file: &File) -> Result<Option<T>, String> {
    let mut text = String::new();
    file.take(BYTES_MAX).read_to_string(&mut text).map_err(|error| error.to_string())?;
    if text.is_empty() {
        return Ok(None);
    }
    let content = serde_json::from_str(&text);
    content.map(Some).map_err(|error| format!("it is not a record: {error}"))
}

/// Checks that only this user or root could have written the record.
fn check_author(owner: u32, mode: u32, me: u32) -> Result<(), String> {
    if owner != me && owner != 0 {
        return Err(format!("it belongs to user {owner}"));
    }
    if mode & 0o022 != 0 {
        return Err("other users can write to it".to_owned());
    }
    Ok(())
}

/// Writes a record and syncs it together with its folder, since it must outlive everything that is
/// created afterwards. The returned file holds the lock.
pub(super) fn write(path: &Path, content: &impl Serialize) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    let mut file = loop {
        let file = options.open(path)?;
        file.lock()?;
        // A concurrent cleanup may have removed the empty file before it was locked.
        if file.metadata()?.nlink() > 0 {
            break file;
        }
    };
    file.write_all(serde_json::to_string(content)?.as_bytes())?;
    file.sync_all()?;
    File::open(folder_of(path))?.sync_all()?;
    Ok(file)
}

/// Returns the directory of a file; a bare name has an empty parent, which can't be opened.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the path of a campaign's record, next to the results file.
pub(super) fn path_of(results: &Path, campaign: &str) -> PathBuf {
    let results = fs::canonicalize(results).unwrap_or_else(|_| results.to_owned());
    let mut path = results.into_os_string();
    path.push(format!("{MIDDLE}{campaign}{END}"));
    PathBuf::from(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_records_of_other_users() {
        for (owner, mode, me, is_trusted) in [
            (1000, 0o600, 1000, true),
            (0, 0o644, 1000, true),
            (0, 0o600, 0, true),
            (1000, 0o600, 0, false),
            (1001, 0o644, 1000, false),
            (1000, 0o620, 1000, false),
            (1000, 0o602, 1000, false),
        ] {
            let checked = check_author(owner, mode, me);
            assert_eq!(checked.is_ok(), is_trusted, "{owner} {mode:o} {me}: {checked:?}");
        }
    }
}

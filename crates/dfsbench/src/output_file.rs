//! Files that a user names for output: `-o`, `--tls-ca-out`, pictures, the page of a campaign.
//!
//! [`write()`] is the way in. A regular file is replaced by a new one that is renamed into its
//! place, so that no half of it is ever seen and a full disk leaves the old one; mode and owner
//! stay as they were. Links are followed, a file with several hard links is written in place, and
//! so is whatever is no regular file: a device, a FIFO, a terminal. A database is never replaced,
//! be it the results file, another one, or what SQLite keeps beside it. Root does not write
//! through what another user left in a folder that all may write to.

mod streamed;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::output::Printable;
use crate::{foreign_folder, output};

pub use streamed::StreamedFile;

/// How every SQLite database begins. **Source:** SQLite, "Database File Format", 1.3.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// The suffixes of files that SQLite and this program keep beside a database.
const BESIDE_DATABASE: [&str; 4] = ["-wal", "-shm", "-journal", ".lock"];

/// Links that are followed one after the other, as kernels have it.
const LINKS_MAX: usize = 40;

/// Bits of a mode: writable by all, and sticky.
const SHARED_FOLDER: u32 = 0o1002;

/// Writes the whole content of a file that a user named; `results` is the results file that is in
/// use, if any.
///
/// # Errors
/// [`Failure::Usage`] for what must not be written to, before anything is changed;
/// [`Failure::Output`] where it can't be written.
pub fn write(path: &Path, content: &[u8], results: Option<&Path>) -> Result<(), Failure> {
    if is_stdout(path) {
        return Ok(output::raw(content)?);
    }
    check(path, results)?;
    write_checked(path, content).map_err(|error| describe_failure(path, &error))
}

/// Writes text to a file that a user named, or prints it if none is named.
///
/// # Errors
/// As [`write()`]; the file is as it was then.
pub fn write_or_print(path: Option<&Path>, text: &Printable<'_>) -> Result<(), Failure> {
    match path {
        Some(path) => write(path, text.as_bytes(), None),
        None => Ok(output::print(text)?),
    }
}

/// Refuses what must not be written to, before time is spent on what would be written.
///
/// # Errors
/// As [`write()`].
pub fn check(path: &Path, results: Option<&Path>) -> Result<(), Failure> {
    match find_obstacle(path, results) {
        None => Ok(()),
        Some((what, hint)) => {
            let path = path.display();
            Err(Failure::Usage(format!("can't write to `{path}`: it is {what} (hint: {hint})")))
        }
    }
}

/// Does as [`check`] where a file is named, and refuses one of the files that the command reads, by
/// this or another name.
///
/// # Errors
/// As [`write()`].
pub fn check_with_inputs<'a>(
    path: Option<&Path>,
    inputs: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), Failure> {
    let Some(path) = path else { return Ok(()) };
    check(path, None)?;
    for input in inputs {
        if is_same_file(path, input) {
            let path = path.display();
            return Err(Failure::Usage(format!(
                "can't write to `{path}`: it is read by this command (hint: name another file)"
            )));
        }
    }
    Ok(())
}

/// Finds the reason why a path must not be written to, with advice.
fn find_obstacle(path: &Path, results: Option<&Path>) -> Option<(&'static str, &'static str)> {
    if path.as_os_str().is_empty() {
        return Some(("an empty name", "name a file, or leave the flag out for stdout"));
    }
    if is_left_by_others(path) {
        return Some((
            "a file or link of another user in a folder that all may write to",
            "root does not write through it; name a file in a folder of your own",
        ));
    }
    if let Some(results) = results
        && is_beside_database(path, results)
    {
        return Some(("the results file or belongs to it", "name another file"));
    }
    // A path that leads nowhere yet is a file to be created.
    let Ok(found) = fs::metadata(path) else { return None };
    if found.is_dir() {
        return Some(("a directory", "name a file in it"));
    }
    if found.file_type().is_block_device() {
        return Some(("a block device, and its contents would be lost", "name a file"));
    }
    if found.is_file() && is_database(path) {
        let hint = "name another file, or remove it first";
        return Some(("a database, such as a results file", hint));
    }
    None
}

/// Says what a file is, with its article, for a message.
pub fn kind_name(kind: rustix::fs::FileType) -> &'static str {
    use rustix::fs::FileType;
    match kind {
        FileType::RegularFile => "a regular file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a symbolic link",
        FileType::Fifo => "a FIFO",
        FileType::Socket => "a socket",
        FileType::CharacterDevice => "a character device",
        FileType::BlockDevice => "a block device",
        FileType::Unknown => "of an unknown kind",
    }
}

/// Says whether a path stands for this process's own stdout.
fn is_stdout(path: &Path) -> bool {
    matches!(path.to_str(), Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1"))
}

/// Says whether a path leads to an open file of this process: what is there is written to as it
/// stands, and never replaced.
fn is_open_file(path: &Path) -> bool {
    path.starts_with("/dev/fd") || path.starts_with("/proc") || path == Path::new("/dev/stderr")
}

/// Says for root whether another user may have put a file or link there that root would write
/// through.
///
/// **Source:** Linux, Documentation/admin-guide/sysctl/fs.rst: `protected_regular` and
/// `protected_symlinks`.
fn is_left_by_others(path: &Path) -> bool {
    if !rustix::process::geteuid().is_root() {
        return false;
    }
    let Ok(found) = fs::symlink_metadata(path) else { return false };
    let Ok(folder) = fs::metadata(folder_of(path)) else { return false };
    let is_shared = folder.mode() & SHARED_FOLDER == SHARED_FOLDER;
    let may_lead_elsewhere = found.is_symlink() || found.is_file() || found.file_type().is_fifo();
    is_shared && may_lead_elsewhere && found.uid() != 0
}

/// Says whether a path is a database by its own or another name, or one of the files beside it.
fn is_beside_database(path: &Path, database: &Path) -> bool {
    if is_same_file(path, database) {
        return true;
    }
    let Ok(database) = database.canonicalize() else { return false };
    // What does not exist yet may be made by SQLite at any moment: it goes by its name.
    let is_in_folder = match folder_of(path).canonicalize() {
        Ok(folder) => folder == folder_of(&database),
        Err(_) => false,
    };
    (is_in_folder && is_name_beside(name_of(path), &database)) || is_same_as_beside(path, &database)
}

/// Says whether a file of this name in the folder of a database belongs to it.
fn is_name_beside(name: &[u8], database: &Path) -> bool {
    let Some(rest) = name.strip_prefix(name_of(database)) else { return false };
    rest.starts_with(b"-") && BESIDE_DATABASE.iter().any(|end| rest.ends_with(end.as_bytes()))
}

/// Says whether a path is, perhaps through a link, one of the files that exist beside a database.
fn is_same_as_beside(path: &Path, database: &Path) -> bool {
    let Ok(entries) = fs::read_dir(folder_of(database)) else { return false };
    for entry in entries {
        let Ok(entry) = entry else { continue };
        let is_beside = is_name_beside(entry.file_name().as_bytes(), database);
        if is_beside && is_same_file(path, &entry.path()) {
            return true;
        }
    }
    false
}

fn name_of(path: &Path) -> &[u8] {
    path.file_name().unwrap_or_default().as_bytes()
}

/// Says whether two paths lead to one file that exists.
fn is_same_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => false,
    }
}

fn is_database(path: &Path) -> bool {
    let mut begin = [0_u8; DATABASE.len()];
    let Ok(mut file) = File::open(path) else { return false };
    file.read_exact(&mut begin).is_ok() && begin == DATABASE
}

fn write_checked(path: &Path, content: &[u8]) -> io::Result<()> {
    let Opened { mut file, moved } = open_checked(path)?;
    let written = file.write_all(content);
    match moved {
        Some(moved) => moved.finish(written),
        None => written,
    }
}

/// A file that is open to be written, and where it belongs once it is whole.
struct Opened {
    file: File,
    /// None where what is there is written in place.
    moved: Option<Moved>,
}

/// A new file beside the place that it is moved to.
#[derive(Debug)]
struct Moved {
    part: PathBuf,
    place: PathBuf,
}

impl Moved {
    /// Renames the file where it was written; removes it where writing or renaming failed.
    fn finish(&self, written: io::Result<()>) -> io::Result<()> {
        let moved = match written {
            Ok(()) => fs::rename(&self.part, &self.place),
            Err(error) => Err(error),
        };
        if moved.is_err() {
            self.discard();
        }
        moved
    }

    /// Removes the file.
    fn discard(&self) {
        // Should the removal fail, the name of the rest shows which file it was to become.
        let _ = fs::remove_file(&self.part);
    }
}

/// Opens what a path that was checked leads to, for new content from its beginning.
fn open_checked(path: &Path) -> io::Result<Opened> {
    let place = follow_links(path)?;
    let found = match fs::metadata(&place) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            foreign_folder::warn_beside(&place);
            let (part, file) = make_part(&place)?;
            return Ok(Opened { file, moved: Some(Moved { part, place }) });
        }
        Err(error) => return Err(error),
        Ok(found) => found,
    };
    if found.is_file() && found.nlink() == 1 && !is_open_file(path) {
        // Who may not write to the file may not replace it, whatever its folder allows.
        OpenOptions::new().write(true).open(&place)?;
        if let Some((part, file)) = make_part_like(&place, &found)? {
            return Ok(Opened { file, moved: Some(Moved { part, place }) });
        }
    }
    // Only a regular file is cut off first.
    let file = OpenOptions::new().write(true).truncate(found.is_file()).open(&place)?;
    Ok(Opened { file, moved: None })
}

/// Returns where a path leads in the end; the last part need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    if is_open_file(path) {
        return Ok(path.to_owned());
    }
    let mut place = path.to_owned();
    for _ in 0..LINKS_MAX {
        match fs::symlink_metadata(&place) {
            Ok(found) if found.is_symlink() => {
                let target = fs::read_link(&place)?;
                place = folder_of(&place).join(target);
            }
            _ => return Ok(place),
        }
    }
    Err(io::Error::new(ErrorKind::InvalidInput, "too many symbolic links"))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Makes an empty file beside a place, with the mode and the owner of the one there; `None` where
/// no other can be made beside it, or none of its owner.
fn make_part_like(place: &Path, found: &Metadata) -> io::Result<Option<(PathBuf, File)>> {
    let Ok((part, file)) = make_part(place) else { return Ok(None) };
    let made = file.metadata()?;
    let is_of_other = (made.uid(), made.gid()) != (found.uid(), found.gid());
    if is_of_other && fchown(&file, Some(found.uid()), Some(found.gid())).is_err() {
        fs::remove_file(&part)?;
        return Ok(None);
    }
    // After the owner, whose change takes away some bits of the mode.
    if let Err(error) = file.set_permissions(found.permissions()) {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    Ok(Some((part, file)))
}

/// Makes an empty file beside a place, with a name that no other file has.
fn make_part(place: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0_u32.. {
        let mut part = place.as_os_str().to_owned();
        part.push(format!(".{}-{number}.part", std::process::id()));
        let part = PathBuf::from(part);
        match OpenOptions::new().write(true).create_new(true).open(&part) {
            Ok(file) => {
                // Its lock shows that no kill left it; some file systems have no locks.
                let _ = file.lock();
                return Ok((part, file));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Removes what killed processes of this user left beside a file that they were about to write;
/// returns how many files there were.
pub fn remove_abandoned_parts(place: &Path) -> usize {
    let me = rustix::process::geteuid().as_raw();
    let Ok(entries) = fs::read_dir(folder_of(place)) else { return 0 };
    let mut removed = 0;
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !is_part_of(name.as_bytes(), name_of(place)) {
            continue;
        }
        let path = entry.path();
        let is_ours = fs::symlink_metadata(&path)
            .is_ok_and(|found| found.is_file() && found.uid() == me && found.len() > 0);
        if !is_ours {
            // It may be a pipe, whose opening never ends.
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() && fs::remove_file(&path).is_ok() {
            removed += 1;
        }
    }
    removed
}

/// Recognizes names such as `r.html.4711-0.part`.
fn is_part_of(name: &[u8], place: &[u8]) -> bool {
    let middle = name.strip_prefix(place).and_then(|rest| rest.strip_suffix(b".part"));
    let Some([b'.', numbers @ ..]) = middle else { return false };
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    match numbers.iter().position(|byte| *byte == b'-') {
        Some(dash) => is_number(&numbers[..dash]) && is_number(&numbers[dash + 1..]),
        None => false,
    }
}

fn describe_failure(path: &Path, error: &io::Error) -> Failure {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded => {
            "free space, or name a file elsewhere"
        }
        ErrorKind::PermissionDenied => "name a file that you may write to",
        _ => "name a file in a directory that exists and has free space",
    };
    Failure::Output { what: path.display().to_string(), reason: error.to_string(), hint }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use super::*;

    #[test]
    fn removes_parts_of_killed_processes() {
        let folder = folder();
        let at = |name: &str| folder.path().join(name);
        for name in
            ["r.html", "r.html.1-0.part", "r.html.part", "r.html.a-0.part", "s.html.1-0.part"]
        {
            fs::write(at(name), "page").unwrap();
        }
        // Another user's pipe would keep a reader waiting.
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let (pipe, kind) = (at("r.html.2-0.part"), rustix::fs::FileType::Fifo);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, mode, 0).unwrap();
        let (used, mut file) = make_part(&at("r.html")).unwrap();
        file.write_all(b"page").unwrap();
        assert_eq!(remove_abandoned_parts(&at("r.html")), 1);
        assert!(!at("r.html.1-0.part").exists() && used.exists());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 6);
        drop(file);
        assert_eq!(remove_abandoned_parts(&at("r.html")), 1);
    }

    fn folder() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).unwrap()
    }

    fn names(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn keeps_mode_and_links_of_file() {
        let folder = folder();
        let file = folder.path().join("report");
        write(&file, b"first", None).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let link = folder.path().join("link");
        symlink("report", &link).unwrap();
        write(&link, b"second", None).unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(
            (read(&file).as_str(), fs::metadata(&file).unwrap().mode() & 0o777),
            ("second", 0o600)
        );
        let other_name = folder.path().join("other");
        fs::hard_link(&file, &other_name).unwrap();
        write(&file, b"third", None).unwrap();
        assert_eq!(
            (read(&other_name).as_str(), fs::metadata(&file).unwrap().nlink()),
            ("third", 2)
        );
        assert_eq!(names(folder.path()), 3);
    }

    #[test]
    fn creates_target_of_dangling_link() {
        let folder = folder();
        let link = folder.path().join("link");
        symlink("made", &link).unwrap();
        write(&link, b"text", None).unwrap();
        assert_eq!(read(&folder.path().join("made")), "text");
        let circle = folder.path().join("circle");
        symlink("circle", &circle).unwrap();
        let error = write(&circle, b"text", None).unwrap_err().to_string();
        assert!(error.contains("circle: too many symbolic links"), "{error}");
        assert_eq!(names(folder.path()), 3);
    }

    #[test]
    fn writes_to_devices_and_pipes() {
        write(Path::new("/dev/null"), b"text", None).unwrap();
        let error = write(Path::new("/dev/full"), b"text", None).unwrap_err().to_string();
        assert!(error.contains("/dev/full") && error.contains("No space left"), "{error}");
        for device in ["/dev/null", "/dev/full"] {
            assert!(fs::metadata(device).unwrap().file_type().is_char_device(), "{device}");
        }
        let folder = folder();
        let pipe = folder.path().join("pipe");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || read(&pipe)
        });
        write(&pipe, b"through the pipe", None).unwrap();
        assert_eq!(reader.join().unwrap(), "through the pipe");
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo());
    }

    #[test]
    fn refuses_results_under_any_name() {
        let folder = folder();
        let results = folder.path().join("ok.db");
        fs::write(&results, [DATABASE, b"rest"].concat()).unwrap();
        let lock = folder.path().join("ok.db-campaign-3.lock");
        fs::write(&lock, "1").unwrap();
        let link = folder.path().join("page.html");
        symlink("ok.db-campaign-3.lock", &link).unwrap();
        let hard = folder.path().join("hard");
        fs::hard_link(&results, &hard).unwrap();
        let beside =
            ["ok.db-wal", "ok.db-shm", "ok.db-journal"].map(|name| folder.path().join(name));
        for path in [&results, &lock, &link, &hard].into_iter().chain(&beside) {
            let error = write(path, b"text", Some(&results)).unwrap_err();
            assert!(matches!(&error, Failure::Usage(_)), "{}: {error}", path.display());
        }
        // Another results file is as dear, also where none is in use.
        assert!(matches!(write(&hard, b"text", None), Err(Failure::Usage(_))));
        assert_eq!(fs::read(&results).unwrap(), [DATABASE, b"rest"].concat());
        assert_eq!(names(folder.path()), 4);
        write(&folder.path().join("ok.db-notes.md"), b"text", Some(&results)).unwrap();
    }

    #[test]
    fn a_block_device_is_refused() {
        let folder = folder();
        let node = folder.path().join("disk");
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let device = rustix::fs::makedev(7, 250);
        let kind = rustix::fs::FileType::BlockDevice;
        let made = rustix::fs::mknodat(rustix::fs::CWD, &node, kind, mode, device);
        // Only root makes such a node, and everybody else is refused by it.
        if made.is_ok() {
            let error = write(&node, b"text", None).unwrap_err().to_string();
            assert!(error.contains("a block device"), "{error}");
        }
    }

    #[test]
    fn leaves_nothing_after_failed_write() {
        let folder = folder();
        let error = write(folder.path(), b"text", None).unwrap_err().to_string();
        assert!(error.contains("a directory"), "{error}");
        let nowhere = folder.path().join("no/such");
        assert!(matches!(write(&nowhere, b"text", None), Err(Failure::Output { .. })));
        assert!(matches!(write(Path::new(""), b"text", None), Err(Failure::Usage(_))));
        assert_eq!(names(folder.path()), 0);
    }

    #[test]
    fn protects_root_in_shared_folder() {
        if !rustix::process::geteuid().is_root() {
            // Only root may give files away.
            assert!(!is_left_by_others(Path::new("/tmp")));
            return;
        }
        let folder = folder();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        let victim = folder.path().join("victim");
        fs::write(&victim, "dear").unwrap();
        let link = folder.path().join("link");
        symlink(&victim, &link).unwrap();
        std::os::unix::fs::lchown(&link, Some(65_534), Some(65_534)).unwrap();
        let error = write(&link, b"text", None).unwrap_err().to_string();
        assert!(error.contains("of another user") && read(&victim) == "dear", "{error}");
        std::os::unix::fs::chown(&victim, Some(65_534), Some(65_534)).unwrap();
        assert!(write(&victim, b"text", None).is_err());
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        write(&victim, b"text", None).unwrap();
        // Root keeps the owner that was.
        assert_eq!(
            (read(&victim).as_str(), fs::metadata(&victim).unwrap().uid()),
            ("text", 65_534)
        );
    }
}

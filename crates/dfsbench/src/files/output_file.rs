//! Output files named by the user: `-o`, `--tls-ca-out`, plots, the page of a campaign.
//!
//! [`write()`] is the entry point. A regular file is replaced by renaming a new one over it, so
//! that nobody sees a partial file and a full disk leaves the old one intact; mode and owner are
//! preserved. Symlinks are followed. Files with several hard links are written in place, and so is
//! everything that is not a regular file: devices, FIFOs, terminals. A database is never replaced,
//! whether it is the results file, another one, or a file that SQLite keeps next to it. Root
//! doesn't write through a file or link that another user left in a world-writable folder.

mod streamed;

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, fchown};
use std::path::{Path, PathBuf};

use crate::exit::Failure;
use crate::files::foreign_folder;
use crate::terminal::output::{self, Printable};

pub(crate) use streamed::StreamedFile;

/// First bytes of every SQLite database. **Source:** SQLite, "Database File Format", 1.3.
const DATABASE: &[u8] = b"SQLite format 3\0";

/// Suffixes of files that SQLite and this program keep next to a database.
const BESIDE_DATABASE: [&str; 4] = ["-wal", "-shm", "-journal", ".lock"];

/// Maximum number of symlinks to follow, the same as in the kernel.
const LINKS_MAX: usize = 40;

/// Mode bits for world-writable and sticky.
const SHARED_FOLDER: u32 = 0o1002;

/// Writes the whole content of a file named by the user. `results` is the results file that is in
/// use, if any.
///
/// # Errors
/// [`Failure::Usage`] if the file must not be written to, before anything is changed;
/// [`Failure::Output`] if writing fails.
pub(crate) fn write(path: &Path, content: &[u8], results: Option<&Path>) -> Result<(), Failure> {
    if is_stdout(path) {
        return Ok(output::raw(content)?);
    }
    check(path, results)?;
    write_checked(path, content).map_err(|error| describe_failure(path, &error))
}

/// Writes text to a file named by the user, or prints it if none is named.
///
/// # Errors
/// Same as [`write()`]; the file is left unchanged then.
pub(crate) fn write_or_print(path: Option<&Path>, text: &Printable<'_>) -> Result<(), Failure> {
    match path {
        Some(path) => write(path, text.as_bytes(), None),
        None => Ok(output::print(text)?),
    }
}

/// Refuses a file that must not be written to, before time is spent on its content.
pub(crate) fn check(path: &Path, results: Option<&Path>) -> Result<(), Failure> {
    match find_obstacle(path, results) {
        None => Ok(()),
        Some((what, hint)) => {
            let path = path.display();
            Err(Failure::Usage(format!("can't write to `{path}`: it is {what} (hint: {hint})")))
        }
    }
}

/// Like [`check`] if a file is named; also refuses a file that the command reads, even under a
/// different name.
pub(crate) fn check_with_inputs<'a>(
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

/// Returns the reason why a path must not be written to, with advice.
fn find_obstacle(path: &Path, results: Option<&Path>) -> Option<(&'static str, &'static str)> {
    if path.as_os_str().is_empty() {
        return Some(("an empty name", "name a file, or leave the flag out for stdout"));
    }
    if is_left_by_others(path) {
        return Some((
            "a file or link of another user in a world-writable folder",
            "root does not write to it; name a file in a folder of your own",
        ));
    }
    if let Some(results) = results
        && is_beside_database(path, results)
    {
        return Some(("the results file or belongs to it", "name another file"));
    }
    // A path that doesn't exist yet will be created.
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

/// Returns the name of a file type with its article, for a message.
pub(crate) fn kind_name(kind: rustix::fs::FileType) -> &'static str {
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

/// Returns true if a path refers to this process's own stdout.
pub(crate) fn is_stdout(path: &Path) -> bool {
    matches!(path.to_str(), Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1"))
}

/// Returns true if a path refers to an open file of this process, which is written to directly and
/// never replaced.
fn is_open_file(path: &Path) -> bool {
    path.starts_with("/dev/fd") || path.starts_with("/proc") || path == Path::new("/dev/stderr")
}

/// Returns true if this process is root and another user may have left a file or link there that
/// root would write through.
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

/// Returns true if a path is a database, even under a different name, or one of the files next to
/// it.
fn is_beside_database(path: &Path, database: &Path) -> bool {
    if is_same_file(path, database) {
        return true;
    }
    let Ok(database) = database.canonicalize() else { return false };
    // SQLite may create a file at any moment, so judge files that don't exist yet by their name.
    let is_in_folder =
        folder_of(path).canonicalize().is_ok_and(|folder| folder == folder_of(&database));
    (is_in_folder && is_name_beside(name_of(path), &database)) || is_same_as_beside(path, &database)
}

/// Returns true if a file with this name in the folder of a database belongs to the database.
fn is_name_beside(name: &[u8], database: &Path) -> bool {
    let Some(rest) = name.strip_prefix(name_of(database)) else { return false };
    rest.starts_with(b"-") && BESIDE_DATABASE.iter().any(|end| rest.ends_with(end.as_bytes()))
}

/// Returns true if a path is, possibly through a link, an existing file that belongs to a database.
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

/// Returns true if two paths refer to the same existing file.
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
    let OpenedFile { mut file, moved } = open_checked(path)?;
    let written = file.write_all(content);
    match moved {
        Some(moved) => moved.finish(written),
        None => written,
    }
}

/// A file that is open for writing, and where to move it once it is complete.
struct OpenedFile {
    file: File,
    /// `None` if the existing file is written in place.
    moved: Option<PendingMove>,
}

/// A new file and the place to move it to.
#[derive(Debug)]
struct PendingMove {
    part: PathBuf,
    place: PathBuf,
}

impl PendingMove {
    /// Renames the file if it was written, and removes it if writing or renaming failed.
    fn finish(&self, written: io::Result<()>) -> io::Result<()> {
        let moved = written.and_then(|()| fs::rename(&self.part, &self.place));
        if moved.is_err() {
            self.discard();
        }
        moved
    }

    fn discard(&self) {
        // If the removal fails, the name still shows which file it was meant to become.
        let _ = fs::remove_file(&self.part);
    }
}

/// Opens the target of a path that has been checked, to write it from the beginning.
fn open_checked(path: &Path) -> io::Result<OpenedFile> {
    let place = follow_links(path)?;
    let found = match fs::metadata(&place) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            foreign_folder::warn_beside(&place);
            let (part, file) = make_part(&place)?;
            return Ok(OpenedFile { file, moved: Some(PendingMove { part, place }) });
        }
        Err(error) => return Err(error),
        Ok(found) => found,
    };
    if found.is_file() && found.nlink() == 1 && !is_open_file(path) {
        // A user without write access must not replace the file, even if its folder allows that.
        OpenOptions::new().write(true).open(&place)?;
        if let Some((part, file)) = make_part_like(&place, &found)? {
            return Ok(OpenedFile { file, moved: Some(PendingMove { part, place }) });
        }
    }
    // Only truncate regular files.
    let file = OpenOptions::new().write(true).truncate(found.is_file()).open(&place)?;
    Ok(OpenedFile { file, moved: None })
}

/// Follows all symlinks of a path. Its last component need not exist.
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

/// Creates an empty file next to `place`, with the mode and owner of the existing one; `None` if no
/// file can be created there or its owner can't be changed.
fn make_part_like(place: &Path, found: &Metadata) -> io::Result<Option<(PathBuf, File)>> {
    let Ok((part, file)) = make_part(place) else { return Ok(None) };
    let made = file.metadata()?;
    let is_of_other = (made.uid(), made.gid()) != (found.uid(), found.gid());
    if is_of_other && fchown(&file, Some(found.uid()), Some(found.gid())).is_err() {
        fs::remove_file(&part)?;
        return Ok(None);
    }
    // Set the mode last: changing the owner clears some of its bits.
    if let Err(error) = file.set_permissions(found.permissions()) {
        let _ = fs::remove_file(&part);
        return Err(error);
    }
    Ok(Some((part, file)))
}

/// Creates an empty file with a unique name next to `place`.
fn make_part(place: &Path) -> io::Result<(PathBuf, File)> {
    for number in 0_u32.. {
        let mut part = place.as_os_str().to_owned();
        part.push(format!(".{}-{number}.part", std::process::id()));
        let part = PathBuf::from(part);
        match OpenOptions::new().write(true).create_new(true).open(&part) {
            Ok(file) => {
                // The lock shows that its process is alive. Some file systems don't support locks.
                let _ = file.lock();
                return Ok((part, file));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(ErrorKind::AlreadyExists.into())
}

/// Removes partial files that killed processes of this user left next to `place`, and returns their
/// number.
pub(crate) fn remove_abandoned_parts(place: &Path) -> usize {
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
            // It may be a FIFO, and opening that could block forever.
            continue;
        }
        let Ok(file) = File::open(&path) else { continue };
        if file.try_lock().is_ok() && fs::remove_file(&path).is_ok() {
            removed += 1;
        }
    }
    removed
}

/// Matches names such as `r.html.4711-0.part`.
fn is_part_of(name: &[u8], place: &[u8]) -> bool {
    let middle = name.strip_prefix(place).and_then(|rest| rest.strip_suffix(b".part"));
    let Some([b'.', numbers @ ..]) = middle else { return false };
    let is_number = |part: &[u8]| !part.is_empty() && part.iter().all(u8::is_ascii_digit);
    numbers
        .iter()
        .position(|byte| *byte == b'-')
        .is_some_and(|dash| is_number(&numbers[..dash]) && is_number(&numbers[dash + 1..]))
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
        // Another user's FIFO would block a reader.
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let pipe = at("r.html.2-0.part");
        let kind = rustix::fs::FileType::Fifo;
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
        // Other results files are just as valuable, even if none is in use.
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
        // Only root can create such a node; for everybody else there is nothing to check.
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
            // Only root can change the owner of files.
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
        // Root preserves the previous owner.
        assert_eq!(
            (read(&victim).as_str(), fs::metadata(&victim).unwrap().uid()),
            ("text", 65_534)
        );
    }
}

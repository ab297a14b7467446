//! System calls of strace as operations on files: processes, their directories and descriptors.
//!
//! [`read`] follows every process: forks copy its file descriptors, threads share them, execs close
//! some. Only files below the root are imported. With `-y`, the paths that strace prints next to
//! descriptors decide, since they have no symbolic links; without it, paths are those of the calls.

use std::collections::HashMap;
use std::io::BufRead;

use super::builder::{Builder, Caller, DIRECTORY, Place, REGULAR};
use super::strace_line::{
    Event, StraceCall, contains, parse_call, parse_fd, parse_line, parse_text,
};
use super::{ImportError, ImportSettings, ImportSummary, Lines};

/// Maximum number of processes, of open files, and of bytes of calls that are waited for.
const PROCESSES_MAX: usize = 100_000;
const OPEN_FILES_MAX: usize = 1_000_000;
const UNFINISHED_BYTES_MAX: usize = 64 << 20;

/// Lines after which a text without any readable one is refused.
const FOREIGN_LINES: u64 = 20;

/// Names of errors and their NFS status. **Source:** RFC 7530 section 13.1.
const ERRORS: [(&str, u32); 18] = [
    ("EPERM", 1),
    ("ENOENT", 2),
    ("EIO", 5),
    ("ENXIO", 6),
    ("EACCES", 13),
    ("EEXIST", 17),
    ("EXDEV", 18),
    ("ENOTDIR", 20),
    ("EISDIR", 21),
    ("EINVAL", 22),
    ("ELOOP", 22),
    ("EFBIG", 27),
    ("ENOSPC", 28),
    ("EROFS", 30),
    ("EMLINK", 31),
    ("ENAMETOOLONG", 63),
    ("ENOTEMPTY", 66),
    ("EDQUOT", 69),
];

/// Status of a call with an argument that the server doesn't support.
const NOT_SUPPORTED: u32 = 10_004;

/// An open file description, which descriptors of several processes may share.
#[derive(Debug, Clone, Copy)]
pub(super) struct OpenFile {
    pub file: u32,
    pub position: u64,
    pub appends: bool,
    /// Stability of its writes as in NFS: 0, 1 or 2.
    pub stability: u8,
    pub is_directory: bool,
    /// Client that opened it, which also closes it.
    pub client: u32,
    pub descriptors: u32,
    /// There is an OPEN in the trace.
    pub was_opened: bool,
}

/// A file descriptor.
#[derive(Debug, Clone, Copy)]
struct Descriptor {
    open: usize,
    closes_on_exec: bool,
}

/// Descriptors and directory of a process, or of threads that share them.
#[derive(Debug, Default)]
struct Process {
    descriptors: HashMap<i64, Descriptor>,
    directory: Option<Vec<u8>>,
    client: Option<u32>,
    threads: u32,
}

/// A call that has not ended yet.
#[derive(Debug)]
struct BegunCall {
    text: Vec<u8>,
    time_ns: u64,
    /// Position of its line, to find the last fork.
    line: u64,
}

/// The state of all processes.
pub(super) struct Processes<'a> {
    pub builder: &'a mut Builder,
    pub summary: &'a mut ImportSummary,
    root: Vec<u8>,
    directory: Option<Vec<u8>>,
    processes: Vec<Process>,
    threads: HashMap<u32, usize>,
    pub open_files: Vec<OpenFile>,
    begun: HashMap<u32, BegunCall>,
    begun_bytes: usize,
    mapped: std::collections::HashSet<u32>,
}

/// Reads the output of strace.
pub(super) fn read<R: BufRead>(
    lines: &mut Lines<R>,
    settings: &ImportSettings,
    builder: &mut Builder,
    summary: &mut ImportSummary,
) -> Result<(), ImportError> {
    let absolute =
        |path: &Option<String>| path.as_ref().map(|path| normalized(b"/", path.as_bytes()));
    let root = absolute(&settings.root).unwrap_or_default();
    summary.root = String::from_utf8_lossy(&root).into_owned();
    let directory = absolute(&settings.directory);
    let mut processes = Processes {
        builder,
        summary,
        root,
        directory,
        processes: Vec::new(),
        threads: HashMap::new(),
        open_files: Vec::new(),
        begun: HashMap::new(),
        begun_bytes: 0,
        mapped: std::collections::HashSet::new(),
    };
    let mut readable = 0_u64;
    let mut number = 0;
    while let Some(line) = lines.next()? {
        number += 1;
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        if processes.line(line, number) {
            readable += 1;
        } else {
            processes.summary.unreadable += 1;
            if processes.summary.first_unreadable == 0 {
                processes.summary.first_unreadable = number;
            }
            if readable == 0 && number >= FOREIGN_LINES {
                break;
            }
        }
        if processes.is_full() {
            let what = "more calls, processes or open files than a trace can have".to_owned();
            return Err(ImportError::Line { line: number, what });
        }
    }
    processes.summary.unfinished = processes.begun.len() as u64;
    processes.summary.mapped_files = processes.mapped.len() as u64;
    if readable == 0 {
        return Err(ImportError::Foreign(
            "is not the output of `strace -ttt` (hint: strace -f -ttt -T -y -o FILE PROGRAM)"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Makes a path absolute and removes `.` and `..`.
pub(super) fn normalized(directory: &[u8], path: &[u8]) -> Vec<u8> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let from: &[u8] = if path.starts_with(b"/") { b"" } else { directory };
    for part in from.split(|byte| *byte == b'/').chain(path.split(|byte| *byte == b'/')) {
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let mut whole = Vec::new();
    for part in parts {
        whole.push(b'/');
        whole.extend_from_slice(part);
    }
    whole
}

/// A path of a call: the root, a name below it, or somewhere else.
#[derive(Debug, Clone, Copy)]
pub(super) enum Target {
    Root,
    Place(Place),
    Outside,
}

impl Processes<'_> {
    fn is_full(&self) -> bool {
        self.builder.is_full()
            || self.processes.len() > PROCESSES_MAX
            || self.threads.len() > PROCESSES_MAX
            || self.open_files.len() > OPEN_FILES_MAX
            || self.begun_bytes > UNFINISHED_BYTES_MAX
    }

    /// Reads a line. Returns false if it can't be read.
    fn line(&mut self, line: &[u8], number: u64) -> bool {
        let Some(parsed) = parse_line(line) else { return false };
        let thread = parsed.pid;
        match parsed.event {
            Event::Signal => true,
            Event::Exited => {
                let process = self.process_of(thread);
                self.begun.remove(&thread);
                self.threads.remove(&thread);
                self.leave(process);
                true
            }
            Event::Unfinished(text) => {
                self.process_of(thread);
                self.begun_bytes += text.len();
                let begun =
                    BegunCall { text: text.to_vec(), time_ns: parsed.time_ns, line: number };
                self.begun.insert(thread, begun);
                true
            }
            Event::Resumed(rest) => {
                let Some(begun) = self.begun.remove(&thread) else { return true };
                self.begun_bytes -= begun.text.len().min(self.begun_bytes);
                let whole = [&begun.text, rest].concat();
                let Some(call) = parse_call(&whole) else { return false };
                let took_ns = call.took_ns.unwrap_or(parsed.time_ns.saturating_sub(begun.time_ns));
                self.call(thread, begun.time_ns, Some(took_ns), &call);
                true
            }
            Event::Call(text) => {
                let Some(call) = parse_call(text) else { return false };
                self.call(thread, parsed.time_ns, call.took_ns, &call);
                true
            }
        }
    }

    /// Returns the process of a thread. A new thread belongs to the last fork that has not returned
    /// yet.
    fn process_of(&mut self, thread: u32) -> usize {
        if let Some(process) = self.threads.get(&thread) {
            return *process;
        }
        let is_fork = |begun: &&BegunCall| {
            [&b"clone"[..], b"fork", b"vfork"].iter().any(|name| begun.text.starts_with(name))
        };
        let parent = self
            .begun
            .iter()
            .filter(|(_, begun)| is_fork(begun))
            .max_by_key(|(_, begun)| begun.line)
            .map(|(parent, begun)| (*parent, contains(&begun.text, b"CLONE_FILES")));
        let parent =
            parent.and_then(|(parent, shares)| Some((*self.threads.get(&parent)?, shares)));
        if let Some((parent, shares)) = parent {
            return self.fork(parent, thread, shares);
        }
        let directory = self.directory.clone();
        self.processes.push(Process { directory, threads: 1, ..Process::default() });
        self.threads.insert(thread, self.processes.len() - 1);
        self.processes.len() - 1
    }

    fn fork(&mut self, parent: usize, thread: u32, shares: bool) -> usize {
        if shares {
            self.processes[parent].threads += 1;
            self.threads.insert(thread, parent);
            return parent;
        }
        let descriptors = self.processes[parent].descriptors.clone();
        for descriptor in descriptors.values() {
            self.open_files[descriptor.open].descriptors += 1;
        }
        let directory = self.processes[parent].directory.clone();
        self.processes.push(Process { descriptors, directory, client: None, threads: 1 });
        self.threads.insert(thread, self.processes.len() - 1);
        self.processes.len() - 1
    }

    /// A thread has ended; the last one closes the files of its process.
    fn leave(&mut self, process: usize) {
        let process = &mut self.processes[process];
        process.threads = process.threads.saturating_sub(1);
        if process.threads == 0 {
            // The kernel's closes are no calls of the program, so they are not in the trace.
            for descriptor in std::mem::take(&mut process.descriptors).into_values() {
                let open = &mut self.open_files[descriptor.open];
                open.descriptors = open.descriptors.saturating_sub(1);
            }
        }
    }

    pub(super) fn client_of(&mut self, process: usize) -> u32 {
        if let Some(client) = self.processes[process].client {
            return client;
        }
        let client = self.builder.new_client();
        self.processes[process].client = Some(client);
        client
    }

    /// Resolves a path below a directory: of a descriptor, or the current one.
    pub(super) fn target(&mut self, process: usize, dir: Option<&[u8]>, path: &[u8]) -> Target {
        let directory = match dir.map(parse_fd) {
            Some(Some((_, Some(path)))) => Some(path),
            // A descriptor of a directory without its path is only resolved for the current one.
            Some(Some((Some(_), None))) if !path.starts_with(b"/") => return Target::Outside,
            _ => self.processes[process].directory.clone(),
        };
        if !path.starts_with(b"/") && directory.is_none() {
            return Target::Outside;
        }
        let whole = normalized(&directory.unwrap_or_default(), path);
        self.target_of(&whole)
    }

    /// Resolves an absolute path.
    pub(super) fn target_of(&mut self, whole: &[u8]) -> Target {
        let Some(below) = whole.strip_prefix(&self.root[..]) else { return Target::Outside };
        if !below.is_empty() && !below.starts_with(b"/") {
            return Target::Outside;
        }
        let parts: Vec<&[u8]> =
            below.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).collect();
        self.builder.place(&parts).map_or(Target::Root, Target::Place)
    }

    /// Returns the open file of a descriptor. One that was inherited is known by its path.
    pub(super) fn open_file(&mut self, process: usize, arg: Option<&&[u8]>) -> Option<usize> {
        let (Some(number), path) = parse_fd(arg?)? else { return None };
        if let Some(known) = self.processes[process].descriptors.get(&number) {
            return Some(known.open);
        }
        let path = path?;
        let file = match self.target_of(&path) {
            Target::Place(place) => self.builder.existing(place, REGULAR),
            Target::Root => Builder::ROOT,
            Target::Outside => return None,
        };
        self.summary.inherited += 1;
        let open = OpenFile {
            file,
            position: 0,
            appends: false,
            stability: 0,
            is_directory: self.builder.type_of(file) == DIRECTORY,
            client: 0,
            descriptors: 0,
            was_opened: false,
        };
        Some(self.add_descriptor(process, number, open, false))
    }

    pub(super) fn add_descriptor(
        &mut self,
        process: usize,
        number: i64,
        open: OpenFile,
        closes_on_exec: bool,
    ) -> usize {
        self.open_files.push(open);
        self.bind(process, number, self.open_files.len() - 1, closes_on_exec);
        self.open_files.len() - 1
    }

    fn bind(&mut self, process: usize, number: i64, open: usize, closes_on_exec: bool) {
        self.open_files[open].descriptors += 1;
        let descriptor = Descriptor { open, closes_on_exec };
        if let Some(old) = self.processes[process].descriptors.insert(number, descriptor) {
            let old = &mut self.open_files[old.open];
            old.descriptors = old.descriptors.saturating_sub(1);
        }
    }

    fn call(&mut self, thread: u32, start_ns: u64, took_ns: Option<u64>, call: &StraceCall<'_>) {
        let process = self.process_of(thread);
        let is_done = call.returned.is_some_and(|number| number >= 0);
        let status = match call.error {
            None => 0,
            Some("EOPNOTSUPP" | "ENOTSUP" | "ENOSYS" | "ENOTTY") => NOT_SUPPORTED,
            Some(error) => match ERRORS.iter().find(|(name, _)| *name == error) {
                Some((_, status)) => *status,
                // Interrupted calls are made again; bad descriptors have no file.
                None => return,
            },
        };
        if !is_done && status == 0 {
            return;
        }
        if self.manage(process, call) {
            return;
        }
        let ops = match call.name {
            "open" | "openat" | "creat" | "openat2" => self.open(process, status, call),
            "close" => self.close(process, call, is_done, start_ns, took_ns),
            _ => {
                let found = self.by_path(process, status, call);
                found.or_else(|| self.by_descriptor(process, status, call))
            }
        };
        let Some(ops) = ops else { return };
        let client = self.client_of(process);
        self.builder.call(Caller { client, start_ns, response_ns: took_ns.or(Some(0)) }, ops);
    }

    /// Follows calls that change processes or descriptors only. Returns true if this is one.
    fn manage(&mut self, process: usize, call: &StraceCall<'_>) -> bool {
        let returned = call.returned.unwrap_or(-1);
        let first = call.args.first().and_then(|arg| parse_fd(arg)).and_then(|(number, _)| number);
        let has = |word: &[u8]| call.args.iter().any(|arg| contains(arg, word));
        match call.name {
            "clone" | "clone3" | "fork" | "vfork" => {
                if let Ok(child @ 1..) = u32::try_from(returned)
                    && !self.threads.contains_key(&child)
                {
                    self.fork(process, child, has(b"CLONE_FILES"));
                }
            }
            "execve" | "execveat" if returned == 0 => {
                let closed: Vec<i64> = self.processes[process]
                    .descriptors
                    .iter()
                    .filter(|(_, descriptor)| descriptor.closes_on_exec)
                    .map(|(number, _)| *number)
                    .collect();
                for number in closed {
                    self.unbind(process, number);
                }
            }
            "dup" | "dup2" | "dup3" => self.duplicate(process, first, returned, has(b"O_CLOEXEC")),
            "fcntl" if has(b"F_DUPFD") => {
                self.duplicate(process, first, returned, has(b"F_DUPFD_CLOEXEC"));
            }
            "fcntl" if has(b"F_SETFD") => {
                if let Some(number) = first
                    && let Some(known) = self.processes[process].descriptors.get_mut(&number)
                {
                    known.closes_on_exec = has(b"FD_CLOEXEC");
                }
            }
            "execve" | "execveat" | "fcntl" => {}
            "chdir" if returned == 0 => {
                let current = self.processes[process].directory.clone();
                if let Some(path) = call.args.first().and_then(|arg| parse_text(arg)) {
                    self.processes[process].directory = match (path.starts_with(b"/"), current) {
                        (false, None) => None,
                        (_, current) => Some(normalized(&current.unwrap_or_default(), &path)),
                    };
                }
            }
            "fchdir" if returned == 0 => {
                let path =
                    call.args.first().and_then(|arg| parse_fd(arg)).and_then(|(_, path)| path);
                self.processes[process].directory = path;
            }
            "getcwd" => {
                if let Some(path) = call.args.first().and_then(|arg| parse_text(arg)) {
                    self.processes[process].directory = Some(path);
                }
            }
            "mmap" => {
                let is_anonymous = has(b"MAP_ANONYMOUS");
                if returned >= 0
                    && !is_anonymous
                    && let Some(open) = self.open_file(process, call.args.get(4))
                {
                    self.mapped.insert(self.open_files[open].file);
                }
            }
            // Their files are in memory that strace doesn't print.
            "io_uring_enter" | "io_submit" if returned > 0 => self.summary.skip(call.name),
            _ => return false,
        }
        true
    }

    fn duplicate(&mut self, process: usize, from: Option<i64>, to: i64, closes_on_exec: bool) {
        let known = from.and_then(|from| self.processes[process].descriptors.get(&from).copied());
        match known {
            _ if to < 0 || from == Some(to) => {}
            Some(known) => self.bind(process, to, known.open, closes_on_exec),
            None => {
                self.unbind(process, to);
            }
        }
    }

    /// Removes a descriptor; returns its open file if it was the last one.
    pub(super) fn unbind(&mut self, process: usize, number: i64) -> Option<OpenFile> {
        let descriptor = self.processes[process].descriptors.remove(&number)?;
        let open = &mut self.open_files[descriptor.open];
        open.descriptors = open.descriptors.saturating_sub(1);
        (open.descriptors == 0).then_some(*open)
    }
}

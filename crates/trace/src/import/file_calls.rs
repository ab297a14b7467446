//! System calls on files as operations: by path, by descriptor, and copies.
//!
//! Each function returns the operations of a call, or `None` if its file is elsewhere or it has no
//! counterpart. [`Processes`] knows the descriptors.

use nfs_proto::nfs4::OpCode;

use super::builder::{Builder, Caller, DIRECTORY, Place, REGULAR, SYMLINK, operation};
use super::strace::{OpenFile, Processes, Target, normalized};
use super::strace_line::{StraceCall, contains, number_after, parse_fd, parse_int, parse_text};
use crate::record::{Op, op_flag};

/// Calls on a descriptor that are counted if they have no counterpart. Others, such as fcntl and
/// fadvise, don't move data or change files.
const COUNTED: [&str; 14] = [
    "read",
    "write",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "ioctl",
    "fallocate",
    "fgetxattr",
    "fsetxattr",
    "sync_file_range",
    "splice",
    "fstatfs",
    "ftruncate",
];

impl Processes<'_> {
    pub(super) fn open(
        &mut self,
        process: usize,
        status: u32,
        call: &StraceCall<'_>,
    ) -> Option<Vec<Op>> {
        let (dir, path, flags) = match call.name {
            "openat" | "openat2" => {
                (Some(*call.args.first()?), *call.args.get(1)?, *call.args.get(2)?)
            }
            "creat" => (None, *call.args.first()?, &b"O_WRONLY|O_CREAT|O_TRUNC"[..]),
            _ => (None, *call.args.first()?, *call.args.get(1)?),
        };
        // The path of the result has no symbolic links.
        let target = match call.returned_path {
            Some(_) => {
                let annotated = [b"0<".as_slice(), call.returned_path?, b">"].concat();
                let (_, path) = parse_fd(&annotated)?;
                self.target_of(&normalized(b"/", &path?))
            }
            None => self.target(process, dir, &parse_text(path)?),
        };
        let has = |word: &[u8]| contains(flags, word);
        let is_directory = has(b"O_DIRECTORY") || has(b"O_PATH");
        let number = call.returned.unwrap_or(-1);
        let place = match target {
            Target::Place(place) => place,
            Target::Outside => {
                self.summary.outside += 1;
                if number >= 0 {
                    self.unbind(process, number);
                }
                return None;
            }
            Target::Root => {
                if number >= 0 {
                    self.keep_directory(process, number, Builder::ROOT, has(b"O_CLOEXEC"));
                }
                return Some(vec![operation(OpCode::Getattr, Builder::ROOT, status)]);
            }
        };
        let known_type = place.file.map_or(0, |file| self.builder.type_of(file));
        if is_directory || known_type == DIRECTORY {
            return Some(vec![self.look_up(place, status, DIRECTORY, None)]).inspect(|_| {
                if number >= 0 {
                    let file = self.builder.existing(place, DIRECTORY);
                    self.keep_directory(process, number, file, has(b"O_CLOEXEC"));
                }
            });
        }
        let access = if has(b"O_RDWR") {
            3
        } else if has(b"O_WRONLY") {
            2
        } else {
            1
        };
        let creates = has(b"O_CREAT");
        let is_new = creates && has(b"O_EXCL");
        let truncates = has(b"O_TRUNC");
        let mut op = Op {
            name: place.name,
            offset: access,
            how: if is_new { 2 } else { u8::from(creates) },
            flags: if creates { op_flag::CREATES } else { 0 },
            ..operation(OpCode::Open, place.dir, status)
        };
        if creates && truncates {
            op.flags |= op_flag::SETS_SIZE;
        }
        if status != 0 {
            return Some(vec![op]);
        }
        let file = if creates {
            self.builder.created(place, REGULAR, is_new)
        } else {
            self.builder.existing(place, REGULAR)
        };
        op.result = file;
        op.file_type = REGULAR;
        let mut ops = vec![op];
        if truncates {
            self.builder.resized(file, 0);
            if !creates {
                let flags = op_flag::SETS_SIZE;
                ops.push(Op { flags, ..operation(OpCode::Setattr, file, 0) });
            }
        }
        let stability = if has(b"O_SYNC") { 2 } else { u8::from(has(b"O_DSYNC")) };
        let client = self.client_of(process);
        let open = OpenFile {
            file,
            position: 0,
            appends: has(b"O_APPEND"),
            stability,
            is_directory: false,
            client,
            descriptors: 0,
            was_opened: true,
        };
        self.add_descriptor(process, number, open, has(b"O_CLOEXEC"));
        Some(ops)
    }

    fn keep_directory(&mut self, process: usize, number: i64, file: u32, closes_on_exec: bool) {
        let open = OpenFile {
            file,
            position: 0,
            appends: false,
            stability: 0,
            is_directory: true,
            client: 0,
            descriptors: 0,
            was_opened: false,
        };
        self.add_descriptor(process, number, open, closes_on_exec);
    }

    pub(super) fn close(
        &mut self,
        process: usize,
        call: &StraceCall<'_>,
        is_done: bool,
        start_ns: u64,
        took_ns: Option<u64>,
    ) -> Option<Vec<Op>> {
        let (Some(number), _) = parse_fd(call.args.first()?)? else { return None };
        let open = self.unbind(process, number).filter(|open| open.was_opened && is_done)?;
        // The client that opened it closes it, since opens belong to clients.
        let caller = Caller { client: open.client, start_ns, response_ns: took_ns.or(Some(0)) };
        self.builder.call(caller, vec![operation(OpCode::Close, open.file, 0)]);
        None
    }

    /// Makes a LOOKUP of a name.
    fn look_up(&mut self, place: Place, status: u32, file_type: u8, size: Option<u64>) -> Op {
        let mut op = Op { name: place.name, ..operation(OpCode::Lookup, place.dir, status) };
        if status != 0 {
            return op;
        }
        let file = self.builder.existing(place, file_type);
        self.builder.describe(file, file_type, size);
        op.result = file;
        op.file_type = file_type;
        op
    }

    /// Translates a call on paths. Returns `None` if it isn't one or its file is elsewhere.
    pub(super) fn by_path(
        &mut self,
        process: usize,
        status: u32,
        call: &StraceCall<'_>,
    ) -> Option<Vec<Op>> {
        let args = &call.args;
        let at = |index: usize| args.get(index).copied();
        // Positions of directory and path.
        let (dir, path) = match call.name {
            "stat" | "lstat" | "access" | "readlink" | "mkdir" | "rmdir" | "unlink"
            | "truncate" | "rename" | "link" | "chmod" | "chown" | "lchown" | "utime"
            | "utimes" => (None, at(0)?),
            "symlink" => (None, at(1)?),
            "newfstatat" | "fstatat64" | "statx" | "faccessat" | "faccessat2" | "readlinkat"
            | "mkdirat" | "unlinkat" | "renameat" | "renameat2" | "linkat" | "fchmodat"
            | "fchmodat2" | "fchownat" | "utimensat" | "futimesat" => (at(0), at(1)?),
            "symlinkat" => (at(1), at(2)?),
            _ => return None,
        };
        let text = parse_text(path)?;
        if text.is_empty() || path == b"NULL" {
            return None;
        }
        let target = self.target(process, dir, &text);
        let place = match target {
            Target::Place(place) => place,
            Target::Root => return Some(vec![operation(OpCode::Getattr, Builder::ROOT, status)]),
            Target::Outside => {
                self.summary.outside += 1;
                return None;
            }
        };
        let op = match call.name {
            "rename" | "renameat" | "renameat2" | "link" | "linkat" => {
                self.two_paths(process, place, status, call)?
            }
            _ => self.one_path(place, status, call)?,
        };
        Some(vec![op])
    }

    /// Translates a call that moves or links a file.
    fn two_paths(
        &mut self,
        process: usize,
        from: Place,
        status: u32,
        call: &StraceCall<'_>,
    ) -> Option<Op> {
        let at = |index: usize| call.args.get(index).copied();
        let (to_dir, to) = match call.name {
            "rename" | "link" => (None, at(1)?),
            _ => (at(2), at(3)?),
        };
        let Target::Place(to) = self.target(process, to_dir, &parse_text(to)?) else {
            self.summary.skip(call.name);
            return None;
        };
        let is_done = status == 0;
        if call.name.starts_with("rename") {
            if is_done {
                self.builder.renamed(from, to);
            }
            let op = operation(OpCode::Rename, from.dir, status);
            return Some(Op { name: from.name, other: to.dir, other_name: to.name, ..op });
        }
        let file = self.builder.existing(from, REGULAR);
        if is_done {
            self.builder.linked(file, to);
        }
        Some(Op { other: to.dir, name: to.name, ..operation(OpCode::Link, file, status) })
    }

    /// Translates a call on one path.
    fn one_path(&mut self, place: Place, status: u32, call: &StraceCall<'_>) -> Option<Op> {
        let is_done = status == 0;
        let name = |code| Op { name: place.name, ..operation(code, place.dir, status) };
        let all = call.args.join(&b' ');
        Some(match call.name {
            "mkdir" | "mkdirat" => {
                let mut op = name(OpCode::Create);
                if is_done {
                    op.result = self.builder.created(place, DIRECTORY, true);
                    op.file_type = DIRECTORY;
                }
                op
            }
            "symlink" | "symlinkat" => {
                let length =
                    parse_text(call.args.first()?).map_or(1, |text| text.len().max(1) as u64);
                let mut op = Op { length, ..name(OpCode::Create) };
                if is_done {
                    op.result = self.builder.created(place, SYMLINK, true);
                    op.file_type = SYMLINK;
                }
                op
            }
            "unlink" | "rmdir" | "unlinkat" => {
                let is_dir = call.name == "rmdir" || contains(&all, b"AT_REMOVEDIR");
                if is_done {
                    self.builder.removed(place, if is_dir { DIRECTORY } else { REGULAR });
                }
                name(OpCode::Remove)
            }
            "truncate" | "chmod" | "fchmodat" | "fchmodat2" | "chown" | "lchown" | "fchownat"
            | "utime" | "utimes" | "utimensat" | "futimesat"
                if is_done =>
            {
                let file = self.builder.existing(place, REGULAR);
                self.set_attributes(file, call)
            }
            "readlink" | "readlinkat" if is_done => {
                let file = self.builder.existing(place, SYMLINK);
                self.builder.describe(file, SYMLINK, None);
                let count = call.returned.unwrap_or(0).max(0) as u64;
                Op { count, ..operation(OpCode::Readlink, file, 0) }
            }
            _ => {
                let (file_type, size) = attributes(&all);
                // The target of a link would be elsewhere.
                self.look_up(place, status, file_type, size)
            }
        })
    }

    fn set_attributes(&mut self, file: u32, call: &StraceCall<'_>) -> Op {
        let op = operation(OpCode::Setattr, file, 0);
        let size = match call.name {
            "truncate" | "ftruncate" => call.args.get(1).and_then(|arg| parse_int(arg)),
            _ => None,
        };
        match size {
            Some(size @ 0..) => {
                self.builder.resized(file, size as u64);
                Op { length: size as u64, flags: op_flag::SETS_SIZE, ..op }
            }
            _ => op,
        }
    }

    /// Translates a call on a descriptor. Returns `None` if it isn't one or its file is elsewhere.
    pub(super) fn by_descriptor(
        &mut self,
        process: usize,
        status: u32,
        call: &StraceCall<'_>,
    ) -> Option<Vec<Op>> {
        let args = &call.args;
        if matches!(call.name, "copy_file_range" | "sendfile" | "sendfile64") {
            return self.copy(process, status, call);
        }
        let open = self.open_file(process, args.first())?;
        let OpenFile { file, is_directory, .. } = self.open_files[open];
        if status != 0 {
            // Why a call on an open file failed can't be repeated; a failed ioctl is a question.
            if COUNTED.contains(&call.name) && call.name != "ioctl" {
                self.summary.skip(call.name);
            }
            return None;
        }
        let returned = call.returned.unwrap_or(0).max(0) as u64;
        let unsigned = |index: usize| unsigned(call, index);
        if let Some(op) = self.transfer(open, returned, call) {
            return Some(vec![op]);
        }
        Some(vec![match call.name {
            "fsync" | "fdatasync" => operation(OpCode::Commit, file, 0),
            "lseek" | "_llseek" => {
                if !is_directory {
                    self.open_files[open].position = returned;
                }
                return None;
            }
            "getdents64" | "getdents" => {
                let offset = self.open_files[open].position;
                self.open_files[open].position += 1;
                let flags = if returned == 0 { op_flag::EOF } else { 0 };
                let count = args.get(1).and_then(|arg| number_after(arg, b"/* ")).unwrap_or(0);
                let length = unsigned(2)?;
                Op { offset, length, count, flags, ..operation(OpCode::Readdir, file, 0) }
            }
            "ftruncate" | "fchmod" | "fchown" | "futimens" | "utimensat" => {
                self.set_attributes(file, call)
            }
            "fstat" | "newfstatat" | "fstatat64" | "statx" => {
                let (file_type, size) = attributes(&args.join(&b' '));
                self.builder.describe(file, file_type, size);
                let file_type = self.builder.type_of(file);
                Op { file_type, ..operation(OpCode::Getattr, file, 0) }
            }
            "fallocate" => {
                let [offset, length] = [unsigned(2)?, unsigned(3)?];
                let code = match *args.get(1)? {
                    b"0" => OpCode::Allocate,
                    mode if contains(mode, b"PUNCH_HOLE") => OpCode::Deallocate,
                    _ => {
                        self.summary.skip(call.name);
                        return None;
                    }
                };
                if code == OpCode::Allocate {
                    let size = self.builder.size_of(file).max(offset.saturating_add(length));
                    self.builder.resized(file, size);
                }
                Op { offset, length, ..operation(code, file, 0) }
            }
            name => {
                let is_query =
                    name == "ioctl" && !args.get(1).is_some_and(|it| contains(it, b"CLONE"));
                if COUNTED.contains(&name) && !is_query {
                    self.summary.skip(name);
                }
                return None;
            }
        }])
    }

    /// Translates a call that reads or writes.
    fn transfer(&mut self, open: usize, returned: u64, call: &StraceCall<'_>) -> Option<Op> {
        let unsigned = |index: usize| unsigned(call, index);
        let OpenFile { file, .. } = self.open_files[open];
        Some(match call.name {
            "read" | "readv" => {
                let length = if call.name == "read" { unsigned(2)? } else { returned };
                let at = self.open_files[open].position;
                self.open_files[open].position = at.saturating_add(returned);
                self.builder.read(file, at, length.max(returned), returned)
            }
            "pread64" | "pread" => {
                self.builder.read(file, unsigned(3)?, unsigned(2)?.max(returned), returned)
            }
            "preadv" | "preadv2" => self.builder.read(file, unsigned(3)?, returned, returned),
            "write" | "writev" => {
                let OpenFile { appends, stability, position, .. } = self.open_files[open];
                let at = if appends { self.builder.size_of(file) } else { position };
                self.open_files[open].position = at.saturating_add(returned);
                self.builder.write_op(file, at, returned, stability)
            }
            "pwrite64" | "pwrite" | "pwritev" | "pwritev2" => {
                let OpenFile { stability, .. } = self.open_files[open];
                let all = call.args.join(&b' ');
                let by_flag = if contains(&all, b"RWF_SYNC") {
                    2
                } else {
                    u8::from(contains(&all, b"RWF_DSYNC"))
                };
                self.builder.write_op(file, unsigned(3)?, returned, stability.max(by_flag))
            }
            _ => return None,
        })
    }

    /// Translates a copy between two descriptors, of which only one may be below the root.
    fn copy(&mut self, process: usize, status: u32, call: &StraceCall<'_>) -> Option<Vec<Op>> {
        let args = &call.args;
        let is_range = call.name == "copy_file_range";
        let (from_arg, to_arg) =
            if is_range { (args.first(), args.get(2)) } else { (args.get(1), args.first()) };
        let from = self.open_file(process, from_arg);
        let to = self.open_file(process, to_arg);
        if from.is_none() && to.is_none() {
            return None;
        }
        if status != 0 {
            self.summary.skip(call.name);
            return None;
        }
        let count = call.returned.unwrap_or(0).max(0) as u64;
        // An offset is printed as `[5000]` or `[0] => [5000]`; NULL is that of the descriptor.
        let given = |arg: Option<&&[u8]>| {
            let arg = arg?.strip_prefix(b"[")?;
            let end = arg.iter().position(|byte| !byte.is_ascii_digit())?;
            parse_int(&arg[..end]).and_then(|it| u64::try_from(it).ok())
        };
        let from_given = given(if is_range { args.get(1) } else { args.get(2) });
        let to_given = if is_range { given(args.get(3)) } else { None };
        let mut place = |open: Option<usize>, given: Option<u64>| {
            let open = &mut self.open_files[open?];
            let at = given.unwrap_or(open.position);
            if given.is_none() {
                open.position = at.saturating_add(count);
            }
            Some((open.file, at))
        };
        let from = place(from, from_given);
        let to = place(to, to_given);
        if count == 0 {
            return None;
        }
        if let (true, Some((source, source_offset)), Some((file, offset))) = (is_range, from, to) {
            // Source and destination learn their sizes as if they were read and written.
            let _ = self.builder.read(source, source_offset, count, count);
            let write = self.builder.write_op(file, offset, count, 0);
            return Some(vec![Op {
                other: source,
                source_offset,
                how: 0,
                ..Op { kind: OpCode::Copy.number() as u8, ..write }
            }]);
        }
        let mut ops = Vec::new();
        if let Some((file, at)) = from {
            ops.push(self.builder.read(file, at, count, count));
        }
        if let Some((file, at)) = to {
            ops.push(self.builder.write_op(file, at, count, 0));
        }
        Some(ops)
    }
}

/// Returns an argument as a number that isn't negative.
fn unsigned(call: &StraceCall<'_>, index: usize) -> Option<u64> {
    parse_int(call.args.get(index)?).and_then(|number| u64::try_from(number).ok())
}

/// Type and size in printed attributes.
fn attributes(text: &[u8]) -> (u8, Option<u64>) {
    let file_type = if contains(text, b"S_IFREG") {
        REGULAR
    } else if contains(text, b"S_IFDIR") {
        DIRECTORY
    } else if contains(text, b"S_IFLNK") {
        SYMLINK
    } else {
        0
    };
    let size = number_after(text, b"st_size=").or_else(|| number_after(text, b"stx_size="));
    (file_type, size)
}

//! Files and calls of an imported trace.
//!
//! [`Builder`] numbers files by their paths, infers what existed at the start, and collects calls.
//! Everything that existed is written as an entry of a listing before the first call, which is how
//! a replay learns what to create.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use nfs_proto::nfs3::Procedure;
use nfs_proto::nfs4::OpCode;

use super::ImportSummary;
use crate::connections::{Connection, Names, Transport};
use crate::counters::Counters;
use crate::error::TraceError;
use crate::format::{BLOCK_CALLS, End, Entry, Header, NameText, TraceWriter};
use crate::record::{Call, Op, Version};
use crate::secret::{Domain, Secret};

/// Type of a regular file, a value of v3's `ftype3`.
pub(super) const REGULAR: u8 = 1;
/// Type of a directory.
pub(super) const DIRECTORY: u8 = 2;
/// Type of a symbolic link.
pub(super) const SYMLINK: u8 = 5;

/// Maximum number of calls; a replay can't take more.
pub(super) const CALLS_MAX: usize = 20_000_000;

/// Largest part of a request that is kept beyond the bytes that it returned.
const REQUEST_EXCESS_MAX: u64 = 1 << 20;

/// A file or directory.
#[derive(Debug, Default)]
struct Node {
    file_type: u8,
    /// Where it was at the start.
    initial: Option<(u32, u64)>,
    /// It was created in the trace, or may have been: then the place where it would have been.
    may_have_existed: Option<(u32, u64)>,
    initial_size: u64,
    size: u64,
    is_changed: bool,
}

/// A name in a directory and what it refers to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub dir: u32,
    pub name: u64,
    /// The file that the name refers to, if known.
    pub file: Option<u32>,
}

/// Who made a call, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Caller {
    /// Number of the client, from 0.
    pub client: u32,
    pub start_ns: u64,
    pub response_ns: Option<u64>,
}

/// The trace being built.
#[derive(Debug)]
pub(super) struct Builder {
    names: Names,
    secret: Secret,
    /// By number minus one; the first is the root.
    nodes: Vec<Node>,
    bound: HashMap<(u32, u64), u32>,
    texts: BTreeMap<u64, String>,
    calls: Vec<Call>,
    clients: u32,
    bytes: [u64; 2],
}

/// Returns an operation of v4 on a file, with its status.
pub(super) fn operation(code: OpCode, file: u32, status: u32) -> Op {
    Op { kind: code.number() as u8, status: Some(status), file, ..Op::default() }
}

impl Builder {
    pub(super) fn new(names: Names) -> Self {
        Self {
            names,
            secret: Secret::default(),
            nodes: vec![Node { file_type: DIRECTORY, ..Node::default() }],
            bound: HashMap::new(),
            texts: BTreeMap::new(),
            calls: Vec::new(),
            clients: 0,
            bytes: [0; 2],
        }
    }

    /// Number of the directory whose files are imported.
    pub(super) const ROOT: u32 = 1;

    pub(super) const fn is_full(&self) -> bool {
        self.calls.len() >= CALLS_MAX
    }

    pub(super) fn new_client(&mut self) -> u32 {
        self.clients += 1;
        self.clients - 1
    }

    fn node(&mut self, number: u32) -> &mut Node {
        &mut self.nodes[number as usize - 1]
    }

    fn add_node(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        self.nodes.len() as u32
    }

    fn hash_name(&mut self, name: &[u8]) -> u64 {
        let hash = self.secret.hash(Domain::Name, name);
        if self.names == Names::Kept {
            let text = || String::from_utf8_lossy(name).into_owned();
            self.texts.entry(hash).or_insert_with(text);
        }
        hash
    }

    /// Finds a path below the root. Directories on the way exist. Returns `None` for the root.
    pub(super) fn place(&mut self, components: &[&[u8]]) -> Option<Place> {
        let (last, parents) = components.split_last()?;
        let mut dir = Self::ROOT;
        for name in parents {
            let name = self.hash_name(name);
            dir = match self.bound.get(&(dir, name)) {
                Some(known) => *known,
                None => self.add_initial(dir, name, DIRECTORY),
            };
        }
        let name = self.hash_name(last);
        Some(Place { dir, name, file: self.bound.get(&(dir, name)).copied() })
    }

    fn add_initial(&mut self, dir: u32, name: u64, file_type: u8) -> u32 {
        let node = Node { file_type, initial: Some((dir, name)), ..Node::default() };
        let number = self.add_node(node);
        self.bound.insert((dir, name), number);
        number
    }

    /// Returns the file of a name that was found.
    pub(super) fn existing(&mut self, place: Place, file_type: u8) -> u32 {
        let number = match place.file {
            Some(file) => file,
            None => self.add_initial(place.dir, place.name, file_type),
        };
        if self.node(number).file_type == 0 {
            self.node(number).file_type = file_type;
        }
        number
    }

    /// Returns the file of a name that was opened and created if necessary. `is_new` if an existing
    /// one would have been an error.
    pub(super) fn created(&mut self, place: Place, file_type: u8, is_new: bool) -> u32 {
        if let (Some(file), false) = (place.file, is_new) {
            return file;
        }
        let may_have_existed = if is_new { None } else { Some((place.dir, place.name)) };
        let node = Node { file_type, may_have_existed, ..Node::default() };
        let number = self.add_node(node);
        self.bound.insert((place.dir, place.name), number);
        number
    }

    /// Removes a name; returns the file that it referred to.
    pub(super) fn removed(&mut self, place: Place, file_type: u8) {
        // What was removed existed.
        let _ = self.existing(place, file_type);
        self.bound.remove(&(place.dir, place.name));
    }

    pub(super) fn renamed(&mut self, from: Place, to: Place) {
        let file = self.existing(from, REGULAR);
        self.bound.remove(&(from.dir, from.name));
        self.bound.insert((to.dir, to.name), file);
    }

    pub(super) fn linked(&mut self, file: u32, to: Place) {
        self.bound.insert((to.dir, to.name), file);
    }

    pub(super) fn type_of(&mut self, file: u32) -> u8 {
        self.node(file).file_type
    }

    pub(super) fn size_of(&mut self, file: u32) -> u64 {
        self.node(file).size
    }

    /// Learns type and size from attributes.
    pub(super) fn describe(&mut self, file: u32, file_type: u8, size: Option<u64>) {
        let node = self.node(file);
        if file_type != 0 && (node.file_type == 0 || node.initial.is_some()) {
            node.file_type = file_type;
        }
        if let Some(size) = size {
            node.size = size;
            if !node.is_changed {
                node.initial_size = size;
                if size > 0 && node.initial.is_none() {
                    node.initial = node.may_have_existed;
                }
            }
        }
    }

    /// Sets a file's size, as a truncation does.
    pub(super) fn resized(&mut self, file: u32, size: u64) {
        let node = self.node(file);
        node.is_changed = true;
        node.size = size;
    }

    /// Makes the operation of a read that returned `count` of `length` bytes.
    pub(super) fn read(&mut self, file: u32, offset: u64, length: u64, count: u64) -> Op {
        self.bytes[0] += count;
        let end = offset.saturating_add(count);
        let node = self.node(file);
        if !node.is_changed || end > node.size {
            // Data that was read without having been written must have existed.
            if count > 0 && node.initial.is_none() {
                node.initial = node.may_have_existed;
            }
            if !node.is_changed {
                node.initial_size = node.initial_size.max(end);
            }
        }
        node.size = node.size.max(end);
        Op {
            offset,
            length: length.min(count.max(REQUEST_EXCESS_MAX)),
            count,
            flags: if count < length { crate::record::op_flag::EOF } else { 0 },
            ..operation(OpCode::Read, file, 0)
        }
    }

    /// Makes the operation of a write of `count` bytes. `stability` is that of NFS.
    pub(super) fn write_op(&mut self, file: u32, offset: u64, count: u64, stability: u8) -> Op {
        self.bytes[1] += count;
        let node = self.node(file);
        node.is_changed = true;
        node.size = node.size.max(offset.saturating_add(count));
        Op {
            offset,
            length: count,
            count,
            how: 1 + stability,
            committed: 1 + stability,
            ..operation(OpCode::Write, file, 0)
        }
    }

    pub(super) fn call(&mut self, caller: Caller, mut ops: Vec<Op>) {
        let Some(first) = ops.first_mut().filter(|_| !self.is_full()) else { return };
        // A READDIR of v4 would stand for a listing with attributes.
        let is_listing = u32::from(first.kind) == OpCode::Readdir.number();
        if is_listing {
            first.kind = Procedure::Readdir.number() as u8;
        }
        self.calls.push(Call {
            number: 0,
            start_ns: caller.start_ns,
            response_ns: caller.response_ns,
            connection: caller.client,
            version: if is_listing { Version::V3 } else { Version::V4_2 },
            flags: 0,
            retransmissions: 0,
            call_bytes: 0,
            reply_bytes: 0,
            ops,
        });
    }

    /// Writes the trace.
    pub(super) fn write<W: Write>(
        mut self,
        out: W,
        made_by: &str,
        summary: &mut ImportSummary,
    ) -> Result<(), TraceError> {
        self.calls.sort_by_key(|call| call.start_ns);
        let begin_ns = self.calls.first().map_or(0, |call| call.start_ns);
        let mut ops = 0;
        let mut end_ns = begin_ns;
        for (number, call) in self.calls.iter_mut().enumerate() {
            call.number = number as u64;
            ops += call.ops.len() as u64;
            end_ns = end_ns.max(call.start_ns.saturating_add(call.response_ns.unwrap_or(0)));
            call.start_ns -= begin_ns;
        }
        let calls = self.calls.len() as u64;
        summary.calls = calls;
        summary.files = self.nodes.len() as u64;
        summary.processes = self.clients.into();
        [summary.read_bytes, summary.written_bytes] = self.bytes;
        let header = Header {
            begin_ns,
            keeps_names: self.names == Names::Kept,
            made_by: made_by.to_owned(),
        };
        let mut writer = TraceWriter::new(out, &header)?;
        let connections: Vec<Connection> = (0..self.clients).map(connection).collect();
        writer.connections(&connections)?;
        let texts: Vec<NameText> = self
            .texts
            .iter()
            .map(|(hash, text)| NameText { hash: *hash, text: text.clone() })
            .collect();
        for part in texts.chunks(BLOCK_CALLS) {
            writer.names(part)?;
        }
        let mut entries = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            let Some((dir, name)) = node.initial else { continue };
            entries.push(Entry {
                call: 0,
                dir,
                name,
                file: at as u32 + 1,
                file_type: node.file_type,
                size: (node.file_type == REGULAR).then_some(node.initial_size),
            });
        }
        for part in entries.chunks(BLOCK_CALLS) {
            writer.block(std::iter::empty(), part)?;
        }
        for part in self.calls.chunks(BLOCK_CALLS) {
            writer.block(part.iter(), &[])?;
        }
        let counters = Counters {
            calls,
            ops,
            // A log without response times is complete all the same.
            replies: calls,
            connections: self.clients.into(),
            clients: self.clients.into(),
            files_mapped: summary.mapped_files,
            calls_not_imported: summary.skipped.values().sum(),
            ..Counters::default()
        };
        writer.finish(&End { duration_ns: end_ns - begin_ns, counters })?;
        Ok(())
    }
}

fn connection(number: u32) -> Connection {
    Connection {
        number,
        client: number + 1,
        server: 1,
        client_address: String::new(),
        server_address: String::new(),
        server_port: 0,
        transport: Transport::Tcp,
        ip: 4,
    }
}

//! Converts packets to a trace file.
//!
//! [`Capture`] contains the state of all connections and passes its results to a writer. It works
//! in one pass: packets in, blocks out. Connections are recognized by their content, not by port.
//!
//! Memory is limited by the number of connections, by what each may hold back, by the calls waiting
//! for a reply, and by the files that are told apart.

use std::collections::HashMap;
use std::io::Write;

use crate::assembly::Message;
use crate::connections::{Connection, Hosts, Names, Transport, address_text};
use crate::counters::Counters;
use crate::decode::Context;
use crate::error::TraceError;
use crate::files::ServerPlace;
use crate::format::{BLOCK_CALLS, End, Header, NameText, TraceWriter};
use crate::fragments::FragmentPool;
use crate::matching::{Matcher, MessageOrigin};
use crate::message_head::{find_message, is_call_head, is_message_head};
use crate::packet::{self, Content, Endpoint, TcpSegment, UdpDatagram};
use crate::pcap::Packet;
use crate::record::Call;
use crate::sparse::Sparse;
use crate::stream::Direction;

/// Maximum number of connections with state. Beyond that, the least recently used half is dropped.
const FLOWS_MAX: usize = 32 << 10;
/// Number of calls to hold back, so that they can be written in the order of their starts.
const HELD_CALLS: usize = 4 * BLOCK_CALLS;
/// Maximum number of operations in a block; a single compound may have a thousand.
const BLOCK_OPS: usize = 64 << 10;
/// The port of NFS. Connections with this port are inspected more closely: anywhere in a segment,
/// and also by replies. **Source:** RFC 1813 section 2.1.
const NFS_PORT: u16 = 2049;
/// Maximum number of bytes to search for a message in a segment of an unknown connection.
const SEARCH_BYTES: usize = 64 << 10;

/// Settings of a capture.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CaptureSettings {
    /// Whether names and addresses are kept in plain text.
    pub names: Names,
    /// Name and version of the program, for the header.
    pub made_by: String,
}

/// Both ends of a connection, ordered by address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct FlowKey {
    low: Endpoint,
    high: Endpoint,
    transport: Transport,
}

/// A connection that carries RPC.
#[derive(Debug)]
struct Flow {
    /// Segments from the lower and from the higher end.
    directions: [Direction; 2],
    /// The connection in the trace, once a call has shown which end is the client.
    known: Option<ConnectionRoles>,
    last_ns: u64,
}

/// What a call has revealed about a connection.
#[derive(Debug, Clone, Copy)]
struct ConnectionRoles {
    connection: u32,
    server: ServerPlace,
    /// Direction of the calls: 0 from the lower end, 1 from the higher one.
    client_side: usize,
}

/// Converts packets to a trace.
pub struct Capture<W> {
    out: Option<W>,
    writer: Option<TraceWriter<W>>,
    settings: CaptureSettings,
    flows: HashMap<FlowKey, Flow>,
    fragments: FragmentPool,
    matcher: Matcher,
    hosts: Hosts,
    new_connections: Vec<Connection>,
    counters: Counters,
    last_ns: u64,
}

/// Parts of a capture that are modified by a message.
struct Parts<'c> {
    matcher: &'c mut Matcher,
    hosts: &'c mut Hosts,
    new_connections: &'c mut Vec<Connection>,
}

impl<W: Write> Capture<W> {
    /// Starts a capture that writes to `out`. Nothing is written before the first block.
    pub fn new(out: W, settings: CaptureSettings) -> Self {
        let context = Context::new(settings.names);
        Self {
            out: Some(out),
            writer: None,
            settings,
            flows: HashMap::new(),
            fragments: FragmentPool::default(),
            matcher: Matcher::new(context),
            hosts: Hosts::default(),
            new_connections: Vec::new(),
            counters: Counters::default(),
            last_ns: 0,
        }
    }

    /// Returns the counts so far.
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Adds the completeness information of a packet source after its end.
    pub fn note_source(&mut self, packets_dropped: u64, is_cut: bool) {
        self.counters.packets_dropped += packets_dropped;
        self.counters.captures_cut += u64::from(is_cut);
    }

    /// Processes a packet.
    ///
    /// # Errors
    /// Returns [`TraceError::Write`] if the output fails.
    pub fn packet(&mut self, packet: &Packet<'_>) -> Result<(), TraceError> {
        self.matcher.begin_at(packet.time_ns);
        self.last_ns = self.last_ns.max(packet.time_ns);
        self.counters.packets += 1;
        self.counters.wire_bytes += u64::from(packet.wire_bytes);
        match packet::parse(packet.link, packet.bytes, packet.wire_bytes as usize) {
            Content::Tcp(segment) => self.segment(&segment, packet.time_ns),
            Content::Udp(datagram) => self.datagram(&datagram, packet.time_ns),
            Content::Fragment(part) => self.fragment(&part, packet.time_ns),
            Content::Other => {}
            Content::Unreadable => self.counters.packets_unreadable += 1,
        }
        if self.matcher.done.len() >= HELD_CALLS {
            self.write_held(HELD_CALLS / 2)?;
        }
        Ok(())
    }

    /// Ends the capture. Returns its counts and the length of the file in bytes.
    ///
    /// # Errors
    /// Returns [`TraceError::Write`] if the output fails.
    pub fn finish(mut self) -> Result<(Counters, u64), TraceError> {
        let mut flows: Vec<(FlowKey, Flow)> = self.flows.drain().collect();
        // Hash maps have no defined order, but the same capture must result in the same trace.
        flows.sort_unstable_by_key(|(_, flow)| flow.last_ns);
        for (key, mut flow) in flows {
            self.finish_flow(&key, &mut flow);
        }
        self.matcher.finish(&mut self.counters);
        self.fragments.finish();
        self.write_held(0)?;
        self.counters.fragments_incomplete = self.fragments.incomplete;
        self.counters.connections = self.hosts.connections().into();
        self.counters.clients = self.hosts.clients() as u64;
        self.counters.files_forgotten = self.matcher.context.files.forgotten;
        let duration_ns = self.last_ns.saturating_sub(self.matcher.begin_ns());
        let counters = self.counters;
        self.begin_file()?;
        let Some(writer) = self.writer else { return Ok((counters, 0)) };
        let bytes = writer.finish(&End { duration_ns, counters })?;
        Ok((counters, bytes))
    }

    fn fragment(&mut self, part: &packet::Fragment<'_>, time_ns: u64) {
        // Take the pool out temporarily, so that the assembled packet can be read from it.
        let mut fragments = std::mem::take(&mut self.fragments);
        if let Some(whole) = fragments.add(part, time_ns) {
            match packet::parse_payload(&part.key, whole.bytes, whole.wire_bytes) {
                Content::Tcp(segment) => self.segment(&segment, time_ns),
                Content::Udp(datagram) => self.message(&datagram, whole.first_ns, time_ns),
                _ => self.counters.packets_unreadable += 1,
            }
        }
        self.fragments = fragments;
    }

    fn datagram(&mut self, datagram: &UdpDatagram<'_>, time_ns: u64) {
        self.message(datagram, time_ns, time_ns);
    }

    /// Processes a datagram, which is a complete message.
    fn message(&mut self, datagram: &UdpDatagram<'_>, first_ns: u64, last_ns: u64) {
        if !is_message_head(datagram.bytes) {
            return;
        }
        let (key, side) = FlowKey::from_endpoints(datagram.from, datagram.to, Transport::Udp);
        if !self.flows.contains_key(&key) {
            let is_expected = datagram.from.port == NFS_PORT || is_call_head(datagram.bytes);
            if !is_expected {
                return;
            }
            self.add_flow(key);
        }
        let Self { flows, matcher, hosts, new_connections, counters, .. } = self;
        let Some(flow) = flows.get_mut(&key) else { return };
        flow.last_ns = last_ns;
        let body = Sparse::cut(datagram.bytes, datagram.wire_bytes);
        counters.bytes_cut += (body.len - body.bytes.len()) as u64;
        let mut parts = Parts { matcher, hosts, new_connections };
        let message = Message { body, first_ns, last_ns };
        parts.message(&key, side, &mut flow.known, &message, counters);
    }

    fn segment(&mut self, segment: &TcpSegment<'_>, time_ns: u64) {
        let (key, side) = FlowKey::from_endpoints(segment.from, segment.to, Transport::Tcp);
        if !self.flows.contains_key(&key) {
            if !begins_flow(segment) {
                return;
            }
            self.add_flow(key);
        }
        let Self { flows, matcher, hosts, new_connections, counters, .. } = self;
        let Some(flow) = flows.get_mut(&key) else { return };
        flow.last_ns = time_ns;
        let Flow { directions, known, .. } = flow;
        let mut parts = Parts { matcher, hosts, new_connections };
        if segment.flags.has_ack() {
            let other = &mut directions[1 - side];
            other.acknowledge(segment.acknowledged);
            if segment.wire_bytes > 0 {
                // What follows is usually a reply to what was acknowledged, so process the calls
                // after a gap before reading it.
                other.skip_acknowledged(counters, &mut |message, counters| {
                    parts.message(&key, 1 - side, known, &message, counters);
                });
            }
        }
        directions[side].push(segment, time_ns, counters, &mut |message, counters| {
            parts.message(&key, side, known, &message, counters);
        });
    }

    fn add_flow(&mut self, key: FlowKey) {
        if self.flows.len() >= FLOWS_MAX {
            let mut ages: Vec<_> = self.flows.values().map(|flow| flow.last_ns).collect();
            ages.sort_unstable();
            let middle = ages[ages.len() / 2];
            let old = self.flows.extract_if(|_, flow| flow.last_ns <= middle);
            let old: Vec<(FlowKey, Flow)> = old.collect();
            for (key, mut flow) in old {
                self.finish_flow(&key, &mut flow);
            }
        }
        let directions = [Direction::default(), Direction::default()];
        self.flows.insert(key, Flow { directions, known: None, last_ns: 0 });
    }

    fn finish_flow(&mut self, key: &FlowKey, flow: &mut Flow) {
        let Self { matcher, hosts, new_connections, counters, .. } = self;
        let mut parts = Parts { matcher, hosts, new_connections };
        let Flow { directions, known, .. } = flow;
        for (side, direction) in directions.iter_mut().enumerate() {
            direction.finish(counters, &mut |message, counters| {
                parts.message(key, side, known, &message, counters);
            });
        }
    }

    /// Writes the calls that started first, until no more than `keep` are held back.
    fn write_held(&mut self, keep: usize) -> Result<(), TraceError> {
        let mut done = std::mem::take(&mut self.matcher.done);
        done.sort_unstable_by_key(|call| call.number);
        let mut entries = std::mem::take(&mut self.matcher.context.entries);
        let mut written = 0;
        while done.len() - written > keep {
            let calls = &done[written..];
            let block = &calls[..block_len(calls, calls.len() - keep)];
            self.begin_file()?;
            let Some(writer) = self.writer.as_mut() else { break };
            if !self.new_connections.is_empty() {
                writer.connections(&self.new_connections)?;
                self.new_connections.clear();
            }
            let kept = std::mem::take(&mut self.matcher.context.kept);
            if !kept.is_empty() {
                let names: Vec<_> = kept
                    .into_iter()
                    .map(|name| NameText { hash: name.hash, text: name.text })
                    .collect();
                writer.names(&names)?;
            }
            // The entries so far are written with the first block, up to the maximum.
            let (now, later) = entries.split_at(entries.len().min(BLOCK_OPS));
            writer.block(block.iter(), now)?;
            written += block.len();
            entries = later.to_vec();
        }
        while written == done.len() && !entries.is_empty() {
            let later = entries.split_off(entries.len().min(BLOCK_OPS));
            let Some(writer) = self.writer.as_mut() else { break };
            writer.block([].iter(), &entries)?;
            entries = later;
        }
        for call in done.drain(..written) {
            self.matcher.recycle(call.ops);
        }
        self.matcher.done = done;
        self.matcher.context.entries = entries;
        Ok(())
    }

    fn begin_file(&mut self) -> Result<(), TraceError> {
        if let Some(out) = self.out.take() {
            let header = Header {
                begin_ns: self.matcher.begin_ns(),
                keeps_names: self.settings.names == Names::Kept,
                made_by: self.settings.made_by.clone(),
            };
            self.writer = Some(TraceWriter::new(out, &header)?);
        }
        Ok(())
    }
}

/// Returns how many of the first calls form a block.
fn block_len(calls: &[Call], calls_max: usize) -> usize {
    let mut ops = 0;
    for (number, call) in calls.iter().enumerate() {
        ops += call.ops.len();
        let is_full = number >= calls_max.min(BLOCK_CALLS) || ops > BLOCK_OPS;
        if number > 0 && is_full {
            return number;
        }
    }
    calls.len()
}

impl Parts<'_> {
    fn message(
        &mut self,
        key: &FlowKey,
        side: usize,
        known: &mut Option<ConnectionRoles>,
        message: &Message<'_>,
        counters: &mut Counters,
    ) {
        if known.is_none() && is_call_head(message.body.bytes) {
            *known = Some(self.connect(key, side));
        }
        let Some(ConnectionRoles { connection, server, client_side }) = *known else {
            // Before the first call, it is unknown which end is the client.
            counters.replies_without_call += 1;
            return;
        };
        let is_from_client = side == client_side;
        let place = MessageOrigin { connection, server, is_from_client, transport: key.transport };
        self.matcher.message(place, message, counters);
    }

    fn connect(&mut self, key: &FlowKey, side: usize) -> ConnectionRoles {
        let (client, server) = if side == 0 { (key.low, key.high) } else { (key.high, key.low) };
        let context = &self.matcher.context;
        let to_text = |address| address_text(context.names, &context.secret, address);
        let connection = self.hosts.connect(client, server, key.transport, to_text);
        let server = ServerPlace { host: connection.server, port: server.port };
        let known = ConnectionRoles { connection: connection.number, server, client_side: side };
        self.new_connections.push(connection);
        known
    }
}

impl FlowKey {
    /// Returns the key of a connection, and which of its ends is the sender: 0 or 1.
    fn from_endpoints(from: Endpoint, to: Endpoint, transport: Transport) -> (Self, usize) {
        if from <= to {
            (Self { low: from, high: to, transport }, 0)
        } else {
            (Self { low: to, high: from, transport }, 1)
        }
    }
}

/// Returns true if a segment shows that its connection carries NFS or MOUNT.
fn begins_flow(segment: &TcpSegment<'_>) -> bool {
    let bytes = segment.bytes;
    if segment.from.port == NFS_PORT || segment.to.port == NFS_PORT {
        return segment.flags.is_syn()
            || find_message(&bytes[..bytes.len().min(SEARCH_BYTES)]).is_some();
    }
    // Skip the record mark.
    bytes.get(4..).is_some_and(is_call_head)
}

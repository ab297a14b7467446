//! The plan of a replay: a step for each operation of a trace, created before the start.
//!
//! [`ReplayPlan::read`] processes a trace twice in memory: first to find the tree that it requires,
//! then to create the steps and their dependencies. A step takes about 400 bytes in total, and
//! [`OPS_MAX`] limits their number.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;
use std::ops::Range;

use model::random::mix;
use trace::{Call, Connection, Counters, Op, Section, TraceError, TraceReader};

use crate::action::{Action, Counterpart, counterpart_at};
use crate::division::Division;
use crate::order::Span;
use crate::planner::{Item, PlanSettings, Planner};
use crate::step::{Batch, Step};
use crate::tree::{DirectoryEntry, HardLink, NONE, TracedOperation, Tree};

/// Maximum number of operations in a window.
pub(crate) const OPS_MAX: usize = 20_000_000;

/// Statuses that reflect the state of the origin's server rather than the operation: JUKEBOX and
/// DELAY, GRACE, and all about client IDs, sessions and stateids. The client repeated such a call,
/// and the repetition is in the trace, too. **Source:** RFC 8881 section 15.1.
const STATE_STATUSES: [u32; 19] = [
    10_008, 10_011, 10_013, 10_018, 10_022, 10_023, 10_024, 10_025, 10_026, 10_033, 10_047, 10_052,
    10_053, 10_055, 10_063, 10_068, 10_076, 10_077, 10_078,
];

/// Why no plan can be created.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The window contains no calls.
    #[error(
        "has no calls between {from_s} s and {to_s} s (hint: it is {duration_s} s long; `dfsbench \
         describe` shows its calls over time)"
    )]
    Outside {
        /// Start of the window, in seconds.
        from_s: f64,
        /// End of the window, in seconds.
        to_s: f64,
        /// Length of the trace, in seconds.
        duration_s: f64,
    },
    /// Nothing can be replayed.
    #[error("has no operations that can be replayed, only {0}")]
    Nothing(String),
    /// There are too many operations.
    #[error(
        "has more than {OPS_MAX} operations (hint: replay a part of it, as in --window 0s..60s)"
    )]
    TooLong,
}

/// An object that must exist before the first step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitialObject {
    /// Number of the object.
    pub object: u32,
    /// Its place; `None` for a generated name at the top.
    pub place: Option<DirectoryEntry>,
    /// Type, a value of v3's `ftype3`.
    pub file_type: u8,
    /// Size in bytes.
    pub size: u64,
}

/// A replay of a trace, or of a part of it.
#[derive(Debug)]
pub struct ReplayPlan {
    /// The steps of the replay.
    pub batch: Batch,
    /// Text of each name.
    pub names: Vec<String>,
    pub objects: u32,
    /// Objects to create in advance, parents first.
    pub initial: Vec<InitialObject>,
    /// Additional hard links to them.
    pub links: Vec<HardLink>,
    /// Maximum number of opens and listings.
    pub slots: u32,
    /// Time from the first step to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Number of operations without a counterpart, by version and kind.
    pub without_counterpart: BTreeMap<String, u64>,
    /// Number of operations that the client does on its own.
    pub by_client: BTreeMap<String, u64>,
    /// Operations that the origin delayed or rejected because of its server's state.
    pub put_off: u64,
    /// Operations whose arguments were not captured.
    pub incomplete: u64,
    /// Counts of everything that the capture saw, and of everything that it missed.
    pub counters: Counters,
    /// Reads and writes larger than the target's maximum, which were split into several steps.
    pub split: u64,
    /// This host's part, if several share the plan.
    pub(crate) share: Share,
}

/// The part of a plan that belongs to one of several hosts; empty if one host has everything.
#[derive(Debug, Clone, Default)]
pub(crate) struct Share {
    /// The numbers that its clients have in the whole plan.
    client_numbers: Vec<u32>,
    /// For each step, whether steps of other hosts wait for it.
    awaited: Vec<bool>,
}

impl ReplayPlan {
    /// Keeps the clients of one host and leaves the others to their hosts.
    pub fn keep_share(&mut self, division: &Division, host: u32) {
        let client_numbers = division.clients_of(host);
        self.share = Share { awaited: division.awaited(&self.batch), client_numbers };
        self.batch.keep(&self.share.client_numbers);
    }

    /// Returns the number that a client has in the whole plan.
    pub(crate) fn number_of_client(&self, client: u32) -> u32 {
        self.share.client_numbers.get(client as usize).copied().unwrap_or(client)
    }

    /// Returns for each step whether another host waits for it; empty if one host has everything.
    pub fn awaited(&self) -> &[bool] {
        &self.share.awaited
    }

    /// Returns a number that is the same for hosts that have created the same plan.
    pub fn digest(&self) -> u64 {
        let mut digest = u64::from(self.objects);
        for step in &self.batch.steps {
            let Step { action, client, file, result, scheduled_ns, .. } = step;
            for part in [
                action.kind() as u64,
                u64::from(*client) << 32 | u64::from(*file),
                u64::from(*result),
                *scheduled_ns,
            ] {
                digest = mix(digest ^ part);
            }
        }
        digest
    }

    /// Creates a plan from a trace.
    ///
    /// # Errors
    /// [`PlanError`] if the trace cannot be read or used.
    pub fn read(source: impl Read, settings: &PlanSettings) -> Result<Self, PlanError> {
        let mut trace = TraceReader::new(source)?;
        let window = settings.window.range_in(trace.header().begin_ns);
        let mut reader = Loader::new(window);
        while let Some(section) = trace.next_section()? {
            reader.section(section)?;
        }
        reader.finish(settings)
    }
}

/// What has been read from a trace so far.
struct Loader {
    /// The part of the trace to replay, in nanoseconds since its start.
    window: Range<u64>,
    tree: Tree,
    /// The client of each connection.
    connections: HashMap<u32, u32>,
    items: Vec<Item>,
    is_in_window: bool,
    without_counterpart: BTreeMap<String, u64>,
    by_client: BTreeMap<String, u64>,
    put_off: u64,
    incomplete: u64,
    counters: Counters,
    duration_ns: u64,
}

impl Loader {
    fn new(window: Range<u64>) -> Self {
        Self {
            window,
            tree: Tree::default(),
            connections: HashMap::new(),
            items: Vec::new(),
            is_in_window: false,
            without_counterpart: BTreeMap::new(),
            by_client: BTreeMap::new(),
            put_off: 0,
            incomplete: 0,
            counters: Counters::default(),
            duration_ns: 0,
        }
    }

    fn section(&mut self, section: Section) -> Result<(), PlanError> {
        match section {
            Section::Connections(connections) => {
                for Connection { number, client, .. } in connections {
                    self.connections.insert(number, client);
                }
            }
            Section::Names(names) => {
                for name in names {
                    self.tree.note_text(name.hash, &name.text);
                }
            }
            Section::Block { calls, entries } => {
                for call in &calls {
                    self.call(call);
                }
                // A file that first appears in a listing wasn't used by an earlier call, so the
                // order of entries and calls within a block doesn't matter.
                for entry in &entries {
                    self.tree.list(entry, self.is_in_window);
                }
                if self.items.len() > OPS_MAX {
                    return Err(PlanError::TooLong);
                }
            }
            Section::End(end) => {
                self.duration_ns = end.duration_ns;
                self.counters = end.counters;
            }
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) {
        self.duration_ns = self.duration_ns.max(call.start_ns);
        let is_before = call.start_ns < self.window.start;
        if call.start_ns >= self.window.end {
            return;
        }
        let mut found = Vec::new();
        let mut has_failed = false;
        for (at, op) in call.ops.iter().enumerate() {
            // Operations after a failure were not executed.
            let was_reached = !has_failed;
            has_failed |= op.status.is_some_and(|status| status != 0);
            match counterpart_at(call, at) {
                Counterpart::Action(_) if op.status.is_some_and(is_of_state) => {
                    self.put_off += u64::from(!is_before);
                }
                // Each of them needs a file or directory.
                Counterpart::Action(action) if op.file == 0 && action != Action::Null => {
                    self.incomplete += u64::from(!is_before);
                }
                Counterpart::Action(action) if was_reached => {
                    found.push(self.fact(call, at, action));
                }
                Counterpart::Action(_) | Counterpart::Frame => {}
                Counterpart::Client => count(&mut self.by_client, call, op, is_before),
                Counterpart::None => count(&mut self.without_counterpart, call, op, is_before),
            }
        }
        if is_before {
            for fact in &found {
                self.tree.record_operation(fact);
            }
            return;
        }
        if !self.is_in_window {
            self.is_in_window = true;
            if self.window.start > 0 {
                self.tree.mark_start();
            }
        }
        let client = self.connections.get(&call.connection).copied().unwrap_or_default();
        let response_ns = call.response_ns.unwrap_or(0);
        let parts = found.len() as u64;
        for (part, fact) in found.into_iter().enumerate() {
            // Operations of a compound are executed in sequence, so each gets an equal part of the
            // time.
            let instant = |part: u64| call.start_ns.saturating_add(response_ns / parts * part);
            let part = part as u64;
            let span = Span { start_ns: instant(part), end_ns: instant(part + 1) };
            let origin_ns = if part == 0 { call.response_ns } else { None };
            let is_of_v4 = call.version.is_compound();
            self.items.push(Item {
                fact,
                client,
                span,
                origin_ns,
                victim: NONE,
                named: NONE,
                is_of_v4,
            });
        }
    }

    fn fact(&mut self, call: &Call, at: usize, action: Action) -> TracedOperation {
        let op = &call.ops[at];
        let tree = &mut self.tree;
        let mut fact = TracedOperation {
            action,
            file: tree.object(op.file),
            other: tree.object(op.other),
            result: tree.object(op.result),
            name: tree.name(op.name),
            other_name: tree.name(op.other_name),
            status: op.status,
            count: op.count,
            file_type: op.file_type,
            size: op.size,
            size_before: op.size_before,
        };
        if call.version.is_compound() && fact.size.is_none() {
            // The attributes are in a later GETATTR.
            let subject = if op.result == 0 { op.file } else { op.result };
            for later in &call.ops[at + 1..] {
                if later.file == subject && (later.size.is_some() || later.file_type != 0) {
                    fact.file_type = later.file_type;
                    fact.size = later.size;
                    break;
                }
            }
        }
        fact
    }

    fn finish(mut self, settings: &PlanSettings) -> Result<ReplayPlan, PlanError> {
        if !self.is_in_window {
            let Range { start: from_ns, end: to_ns } = self.window;
            let to_ns = if to_ns == u64::MAX { self.duration_ns } else { to_ns };
            return Err(PlanError::Outside {
                from_s: from_ns as f64 / 1e9,
                to_s: to_ns as f64 / 1e9,
                duration_s: self.duration_ns as f64 / 1e9,
            });
        }
        // Calls whose reply was very late come after others that started later.
        self.items.sort_by_key(|item| item.span.start_ns);
        for item in &mut self.items {
            let TracedOperation { action, file, other, name, other_name, .. } = item.fact;
            item.named = self.tree.find(file, name);
            item.victim = match action {
                Action::Rename => self.tree.find(other, other_name),
                _ => item.named,
            };
            self.tree.mark_used(&item.fact);
            self.tree.record_operation(&item.fact);
        }
        let objects = self.tree.initial_objects();
        let mut initial = Vec::new();
        for object in objects.iter().copied() {
            let found = self.tree.objects()[object as usize];
            let place = self.tree.initial_place(object);
            initial.push(InitialObject {
                object,
                place,
                file_type: found.file_type,
                size: found.size,
            });
        }
        let planner = Planner::new(settings, &self.tree, &objects);
        let made = planner.make(&self.items);
        let mut without_counterpart = self.without_counterpart;
        for (kind, ops) in made.not_in_version {
            let name = format!("{kind} (not in {})", settings.target.name());
            *without_counterpart.entry(name).or_insert(0) += ops;
        }
        if made.handle_opens > 0 {
            let name = format!("OPEN by handle (not in {})", settings.target.name());
            without_counterpart.insert(name, made.handle_opens);
        }
        if made.closes_only > 0 {
            let name = "CLOSE (not opened here)".to_owned();
            without_counterpart.insert(name, made.closes_only);
        }
        if made.batch.steps.is_empty() {
            let kinds: Vec<_> = without_counterpart
                .keys()
                .chain(self.by_client.keys())
                .map(String::as_str)
                .collect();
            let kinds = if kinds.is_empty() { "failures".to_owned() } else { kinds.join(", ") };
            return Err(PlanError::Nothing(kinds));
        }
        Ok(ReplayPlan {
            duration_ns: made.batch.steps.last().map_or(0, |step| step.scheduled_ns),
            batch: made.batch,
            objects: self.tree.objects().len() as u32,
            names: self.tree.texts,
            initial,
            links: self.tree.links,
            slots: made.slots,
            without_counterpart,
            by_client: self.by_client,
            put_off: self.put_off,
            incomplete: self.incomplete,
            counters: self.counters,
            split: made.split,
            share: Share::default(),
        })
    }
}

fn is_of_state(status: u32) -> bool {
    STATE_STATUSES.contains(&status)
}

fn count(counts: &mut BTreeMap<String, u64>, call: &Call, op: &Op, is_before: bool) {
    if !is_before {
        let name = format!("{} {}", call.version.name(), call.version.kind_name(op.kind));
        *counts.entry(name).or_insert(0) += 1;
    }
}

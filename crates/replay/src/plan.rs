//! A plan of a replay: a step for each operation of a trace, made before the start.
//!
//! [`ReplayPlan::read`] reads a trace twice over in memory: first to learn the tree that it takes
//! for granted, then to make the steps and what they wait for. A step takes some 300 bytes with all
//! that belongs to it, and [`OPS_MAX`] bounds how many there can be.

use std::collections::{BTreeMap, HashMap};
use std::io::Read;

use nfs_client::proto::client::{OperationKind, ProtocolVersion};
use trace::{Call, Connection, Op, Section, TraceError, TraceReader};

use crate::action::{Action, Counterpart, DIRECTORY, counterpart_at};
use crate::order::{Class, Graph, Order, Span, Thing};
use crate::tree::{Fact, HardLink, NONE, Place, Tree};

/// The most operations of a window.
pub const OPS_MAX: usize = 20_000_000;

/// Statuses that say something about the state of the origin's server and not about the operation:
/// JUKEBOX and DELAY, GRACE, and all of client ids, sessions and stateids. The client of the trace
/// made such a call again, which is in the trace, too. **Source:** RFC 8881 section 15.1.
const STATE_STATUSES: [u32; 19] = [
    10_008, 10_011, 10_013, 10_018, 10_022, 10_023, 10_024, 10_025, 10_026, 10_033, 10_047, 10_052,
    10_053, 10_055, 10_063, 10_068, 10_076, 10_077, 10_078,
];

/// A part of a trace, in nanoseconds from its beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Where it begins.
    pub from_ns: u64,
    /// Where it ends; calls that start there are no part of it.
    pub to_ns: u64,
}

impl Window {
    /// The whole of a trace.
    pub const ALL: Self = Self { from_ns: 0, to_ns: u64::MAX };
}

/// What a plan is made for.
#[derive(Debug, Clone, Copy)]
pub struct PlanSettings {
    /// The part of the trace.
    pub window: Window,
    /// Clients to emulate at most: those of the trace take turns.
    pub clients_max: Option<u32>,
    /// The version that the target speaks.
    pub version: ProtocolVersion,
    /// Largest READ of the target, in bytes.
    pub rsize: u32,
    /// Largest WRITE of the target, in bytes.
    pub wsize: u32,
}

/// Why no plan can be made.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The trace can't be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The window has no calls.
    #[error(
        "has no call from {from_s} s to {to_s} s (hint: it is {duration_s} s long; `dfsbench \
         describe` shows its calls over time)"
    )]
    Outside {
        /// Where the window begins, in seconds.
        from_s: f64,
        /// Where the window ends, in seconds.
        to_s: f64,
        /// Length of the trace, in seconds.
        duration_s: f64,
    },
    /// Nothing can be replayed.
    #[error("has no operation that can be replayed (hint: it has only {0})")]
    Nothing(String),
    /// There are too many operations.
    #[error("has more than {OPS_MAX} operations (hint: name a part of it, --window 0s..60s)")]
    TooLong,
}

/// A step of a replay.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// What it does.
    pub action: Action,
    /// Number of its client.
    pub client: u32,
    /// Number of the file or directory.
    pub file: u32,
    /// Number of another one: of the new name (RENAME, LINK), of the source (COPY).
    pub other: u32,
    /// Number of the file that the reply returns.
    pub result: u32,
    /// Number of the name.
    pub name: u32,
    /// Number of the new name.
    pub other_name: u32,
    /// Number of the open that it makes or works under, or of the listing that it goes on with.
    pub slot: u32,
    /// Calls of its client that were in flight when it started, itself included.
    pub depth: u32,
    /// The status at the origin; `NONE` where it is unknown.
    pub status: u32,
    /// When it started, in nanoseconds from the beginning of the window.
    pub scheduled_ns: u64,
    /// Response time at the origin, in nanoseconds; `u64::MAX` where it is unknown.
    pub origin_ns: u64,
}

impl Step {
    /// A step without file and name.
    pub const fn of(action: Action) -> Self {
        Self {
            action,
            client: 0,
            file: NONE,
            other: NONE,
            result: NONE,
            name: NONE,
            other_name: NONE,
            slot: NONE,
            depth: 1,
            status: 0,
            scheduled_ns: 0,
            origin_ns: u64::MAX,
        }
    }
}

/// Steps, and in which order they may be started.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    /// The steps in the order of their starts.
    pub steps: Vec<Step>,
    /// What they wait for.
    pub graph: Graph,
    /// Numbers of the steps of each client.
    pub clients: Vec<Vec<u32>>,
}

impl Batch {
    /// Makes a batch of steps whose accesses are in `order`.
    pub fn new(steps: Vec<Step>, order: Order, clients: usize) -> Self {
        let mut lists = vec![Vec::new(); clients];
        for (number, step) in steps.iter().enumerate() {
            lists[step.client as usize].push(number as u32);
        }
        let graph = order.finish(steps.len() as u32);
        Self { steps, graph, clients: lists }
    }

    /// Returns the largest payload that is written, in bytes.
    pub fn write_bytes_max(&self) -> u32 {
        let mut max = 0;
        for step in &self.steps {
            if let Action::Write { count, .. } = step.action {
                max = max.max(count);
            }
        }
        max
    }
}

/// An object that must be there before the first step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InitialObject {
    /// Number of the object.
    pub object: u32,
    /// Its place; `None` at the top, under a name of its own.
    pub place: Option<Place>,
    /// Type, a number of v3's `ftype3`.
    pub file_type: u8,
    /// Size in bytes.
    pub size: u64,
}

/// A replay of a trace, or of a part of it.
#[derive(Debug)]
pub struct ReplayPlan {
    /// What is replayed.
    pub batch: Batch,
    /// The text of each name.
    pub names: Vec<String>,
    /// How many objects there are.
    pub objects: u32,
    /// Objects to make before, parents first.
    pub initial: Vec<InitialObject>,
    /// Further names of them.
    pub links: Vec<HardLink>,
    /// How many opens and listings there are at most.
    pub slots: u32,
    /// From the first step to the last, in nanoseconds.
    pub duration_ns: u64,
    /// Operations by version and kind that have no counterpart, with their count.
    pub without_counterpart: BTreeMap<String, u64>,
    /// Operations that the client does by itself, with their count.
    pub by_client: BTreeMap<String, u64>,
    /// Operations that the origin put off or refused for the state of its server.
    pub put_off: u64,
    /// Operations whose arguments the capture did not see.
    pub incomplete: u64,
    /// Reads and writes that are larger than the target's, each made in several steps.
    pub split: u64,
}

/// An operation that is replayed, with its reply.
#[derive(Debug, Clone, Copy)]
struct Item {
    fact: Fact,
    client: u32,
    span: Span,
    origin_ns: Option<u64>,
    /// What a name stood for that is removed, or replaced by a rename.
    victim: u32,
    is_of_v4: bool,
}

impl ReplayPlan {
    /// Makes a plan of a trace.
    ///
    /// # Errors
    /// [`PlanError`] where the trace can't be read or used.
    pub fn read(source: impl Read, settings: &PlanSettings) -> Result<Self, PlanError> {
        let mut reader = Loader::new(settings.window);
        let mut trace = TraceReader::new(source)?;
        while let Some(section) = trace.next_section()? {
            reader.section(section)?;
        }
        reader.finish(settings)
    }
}

/// What was read of a trace.
struct Loader {
    window: Window,
    tree: Tree,
    /// The client of each connection.
    connections: HashMap<u32, u32>,
    items: Vec<Item>,
    is_in_window: bool,
    without_counterpart: BTreeMap<String, u64>,
    by_client: BTreeMap<String, u64>,
    put_off: u64,
    incomplete: u64,
    duration_ns: u64,
}

impl Loader {
    fn new(window: Window) -> Self {
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
                // A file that a listing names for the first time was not in a call before, so that
                // the order of entries and calls of a block does not matter.
                for entry in &entries {
                    self.tree.list(entry, self.is_in_window);
                }
                if self.items.len() > OPS_MAX {
                    return Err(PlanError::TooLong);
                }
            }
            Section::End(end) => self.duration_ns = end.duration_ns,
        }
        Ok(())
    }

    fn call(&mut self, call: &Call) {
        self.duration_ns = self.duration_ns.max(call.start_ns);
        let is_before = call.start_ns < self.window.from_ns;
        if call.start_ns >= self.window.to_ns {
            return;
        }
        let mut found = Vec::new();
        let mut has_failed = false;
        for (at, op) in call.ops.iter().enumerate() {
            // What stands behind a failure was not carried out.
            let was_reached = !has_failed;
            has_failed |= op.status.is_some_and(|status| status != 0);
            match counterpart_at(call, at) {
                Counterpart::Action(_) if op.status.is_some_and(is_of_state) => {
                    self.put_off += u64::from(!is_before);
                }
                // Each needs a file or directory.
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
                self.tree.learn(fact);
            }
            return;
        }
        if !self.is_in_window {
            self.is_in_window = true;
            if self.window.from_ns > 0 {
                self.tree.begin_here();
            }
        }
        let client = self.connections.get(&call.connection).copied().unwrap_or_default();
        let response_ns = call.response_ns.unwrap_or(0);
        let parts = found.len() as u64;
        for (part, fact) in found.into_iter().enumerate() {
            // Operations of one compound follow one another, so each gets its share of the time.
            let instant = |part: u64| call.start_ns.saturating_add(response_ns / parts * part);
            let part = part as u64;
            let span = Span { start_ns: instant(part), end_ns: instant(part + 1) };
            let origin_ns = if part == 0 { call.response_ns } else { None };
            let is_of_v4 = call.version.is_compound();
            self.items.push(Item { fact, client, span, origin_ns, victim: NONE, is_of_v4 });
        }
    }

    fn fact(&mut self, call: &Call, at: usize, action: Action) -> Fact {
        let op = &call.ops[at];
        let tree = &mut self.tree;
        let mut fact = Fact {
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
            // The attributes stand in a GETATTR behind it.
            let subject = if op.result == 0 { op.file } else { op.result };
            for later in &call.ops[at + 1..] {
                if later.file == subject && (later.size.is_some() || later.file_type != 0) {
                    (fact.file_type, fact.size) = (later.file_type, later.size);
                    break;
                }
            }
        }
        fact
    }

    fn finish(mut self, settings: &PlanSettings) -> Result<ReplayPlan, PlanError> {
        if !self.is_in_window {
            let to_ns = self.window.to_ns.min(self.duration_ns);
            let seconds = |ns: u64| ns as f64 / 1e9;
            return Err(PlanError::Outside {
                from_s: seconds(self.window.from_ns),
                to_s: seconds(if self.window.to_ns == u64::MAX {
                    to_ns
                } else {
                    self.window.to_ns
                }),
                duration_s: seconds(self.duration_ns),
            });
        }
        // Calls with a very late reply stand behind others that started after them.
        self.items.sort_by_key(|item| item.span.start_ns);
        for item in &mut self.items {
            let Fact { action, file, other, name, other_name, .. } = item.fact;
            item.victim = match action {
                Action::Rename => self.tree.find(other, other_name),
                _ => self.tree.find(file, name),
            };
            self.tree.mark_used(&item.fact);
            self.tree.learn(&item.fact);
        }
        let mut initial = Vec::new();
        for object in self.tree.initial_objects() {
            let found = self.tree.objects()[object as usize];
            let place = self.tree.initial_place(object);
            initial.push(InitialObject {
                object,
                place,
                file_type: found.file_type,
                size: found.size,
            });
        }
        let planner = Planner::new(settings, &self.tree, &initial);
        let made = planner.make(&self.items);
        let mut without_counterpart = self.without_counterpart;
        for (kind, ops) in made.not_in_version {
            let name = format!("{kind} (not in NFS v{})", settings.version.name());
            *without_counterpart.entry(name).or_insert(0) += ops;
        }
        if made.closes_only > 0 {
            let name = "CLOSE (opened before)".to_owned();
            without_counterpart.insert(name, made.closes_only);
        }
        if made.batch.steps.is_empty() {
            let mut kinds = Vec::new();
            for name in without_counterpart.keys().chain(self.by_client.keys()) {
                kinds.push(name.as_str());
            }
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
            split: made.split,
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

/// Makes steps of items.
struct Planner<'a> {
    settings: &'a PlanSettings,
    tree: &'a Tree,
    order: Order,
    steps: Vec<Step>,
    /// Objects whose handle is known when a step that uses them may start.
    has_producer: Vec<bool>,
    clients: HashMap<u32, u32>,
    /// When the calls of each client end that are in flight.
    in_flight: Vec<Vec<u64>>,
    /// Slots of the opens that a client has of an object, the latest last.
    opens: HashMap<Usage, Vec<u32>>,
    /// Slots that are not in use, of the same client and object.
    closed: HashMap<Usage, Vec<u32>>,
    listings: HashMap<Usage, u32>,
    slots: u32,
    split: u64,
    not_in_version: BTreeMap<OperationKind, u64>,
    /// CLOSEs of what was opened before the trace or the window.
    closes_only: u64,
}

/// An object as it is used by one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Usage {
    client: u32,
    object: u32,
}

struct Made {
    batch: Batch,
    slots: u32,
    split: u64,
    not_in_version: BTreeMap<OperationKind, u64>,
    closes_only: u64,
}

impl<'a> Planner<'a> {
    fn new(settings: &'a PlanSettings, tree: &'a Tree, initial: &[InitialObject]) -> Self {
        let mut has_producer = vec![false; tree.objects().len()];
        for made in initial {
            has_producer[made.object as usize] = true;
        }
        Self {
            settings,
            tree,
            order: Order::default(),
            steps: Vec::new(),
            has_producer,
            clients: HashMap::new(),
            in_flight: Vec::new(),
            opens: HashMap::new(),
            closed: HashMap::new(),
            listings: HashMap::new(),
            slots: 0,
            split: 0,
            not_in_version: BTreeMap::new(),
            closes_only: 0,
        }
    }

    fn make(mut self, items: &[Item]) -> Made {
        let begin_ns = items.first().map_or(0, |item| item.span.start_ns);
        for item in items {
            self.plan_item(item, begin_ns);
        }
        let batch = Batch::new(self.steps, self.order, self.in_flight.len());
        Made {
            batch,
            slots: self.slots,
            split: self.split,
            not_in_version: self.not_in_version,
            closes_only: self.closes_only,
        }
    }

    fn plan_item(&mut self, item: &Item, begin_ns: u64) {
        let fact = &item.fact;
        let client = self.client(item.client);
        let depth = self.depth_at(client, item.span);
        let mut step = Step {
            client,
            file: fact.file,
            other: fact.other,
            result: fact.result,
            name: fact.name,
            other_name: fact.other_name,
            depth,
            status: fact.status.unwrap_or(NONE),
            scheduled_ns: item.span.start_ns - begin_ns,
            origin_ns: item.origin_ns.unwrap_or(u64::MAX),
            ..Step::of(self.adapted(fact.action, item.victim))
        };
        step.slot = self.slot_of(&step, item.is_of_v4);
        if !exists_in(step.action.kind(), self.settings.version) {
            *self.not_in_version.entry(step.action.kind()).or_insert(0) += 1;
            return;
        }
        if step.action == Action::Close && step.slot == NONE {
            self.closes_only += 1;
            return;
        }
        let parts = self.parts_of(step.action);
        self.split += u64::from(parts.len() > 1);
        for action in parts {
            let number = self.steps.len() as u32;
            self.order_step(number, &Step { action, ..step }, item);
            self.steps.push(Step { action, ..step });
            // The time at the origin is that of the whole.
            step.origin_ns = u64::MAX;
        }
    }

    fn client(&mut self, number: u32) -> u32 {
        let next = self.clients.len() as u32;
        let mapped = self.settings.clients_max.map_or(next, |max| next % max.max(1));
        let client = *self.clients.entry(number).or_insert(mapped);
        if client as usize == self.in_flight.len() {
            self.in_flight.push(Vec::new());
        }
        client
    }

    fn depth_at(&mut self, client: u32, span: Span) -> u32 {
        let ends = &mut self.in_flight[client as usize];
        ends.retain(|end_ns| *end_ns > span.start_ns);
        ends.push(span.end_ns);
        ends.len() as u32
    }

    /// Returns an action as the version of the target has it.
    fn adapted(&self, action: Action, victim: u32) -> Action {
        match action {
            // REMOVE of v4 removes directories, too.
            Action::Remove if self.tree.type_of(victim) == DIRECTORY => Action::Rmdir,
            Action::ReaddirPlus { bytes, is_first }
                if self.settings.version == ProtocolVersion::V2 =>
            {
                Action::Readdir { bytes, is_first }
            }
            action => action,
        }
    }

    /// Cuts a transfer that is larger than those of the target.
    fn parts_of(&self, action: Action) -> Vec<Action> {
        let (offset, count, max) = match action {
            Action::Read { offset, count } => (offset, count, self.settings.rsize),
            Action::Write { offset, count, .. } => (offset, count, self.settings.wsize),
            _ => return vec![action],
        };
        let mut parts = Vec::new();
        let mut from = 0;
        while from < count || parts.is_empty() {
            let (offset, count) =
                (offset.saturating_add(u64::from(from)), (count - from).min(max.max(1)));
            parts.push(match action {
                Action::Write { stable, .. } => Action::Write { offset, count, stable },
                _ => Action::Read { offset, count },
            });
            from += count.max(1);
        }
        parts
    }

    /// Returns the open that a step makes or works under, or the listing that it goes on with.
    fn slot_of(&mut self, step: &Step, is_of_v4: bool) -> u32 {
        let usage = Usage { client: step.client, object: step.file };
        match step.action {
            Action::Open(_) | Action::Create { .. } if is_of_v4 && step.status == 0 => {
                let usage = Usage { object: step.result, ..usage };
                let reused = self.closed.get_mut(&usage).and_then(Vec::pop);
                let slot = reused.unwrap_or_else(|| self.new_slot());
                self.opens.entry(usage).or_default().push(slot);
                slot
            }
            Action::Close => {
                let slot = self.opens.get_mut(&usage).and_then(Vec::pop).unwrap_or(NONE);
                if slot != NONE {
                    self.closed.entry(usage).or_default().push(slot);
                }
                slot
            }
            Action::Readdir { .. } | Action::ReaddirPlus { .. } => {
                if let Some(slot) = self.listings.get(&usage) {
                    return *slot;
                }
                let slot = self.new_slot();
                self.listings.insert(usage, slot);
                slot
            }
            Action::Read { .. }
            | Action::Write { .. }
            | Action::SetSize(_)
            | Action::Allocate { .. }
            | Action::Deallocate { .. }
            | Action::Seek { .. }
            | Action::ReadPlus { .. }
            | Action::Copy { .. } => match self.opens.get(&usage) {
                Some(slots) => slots.last().copied().unwrap_or(NONE),
                None => NONE,
            },
            _ => NONE,
        }
    }

    fn new_slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots - 1
    }

    /// Says what a step needs.
    fn order_step(&mut self, number: u32, step: &Step, item: &Item) {
        let Step { action, file, other, result, name, other_name, slot, .. } = *step;
        let span = item.span;
        let order = &mut self.order;
        let mut need = |thing: Thing, class: Class| order.access(number, span, thing, class);
        let file_class = match action {
            Action::Write { .. }
            | Action::SetTime
            | Action::Allocate { .. }
            | Action::Deallocate { .. }
            | Action::Copy { .. }
            | Action::Setxattr { .. }
            | Action::Removexattr => Class::Change,
            Action::SetSize(_) => Class::Exclusive,
            _ => Class::Read,
        };
        if file != NONE {
            need(Thing::File(file), file_class);
        }
        if other != NONE && other != file {
            need(Thing::File(other), Class::Read);
        }
        let slot_class = match action {
            Action::Open(_)
            | Action::Create { .. }
            | Action::Close
            | Action::Readdir { .. }
            | Action::ReaddirPlus { .. } => Class::Exclusive,
            _ => Class::Read,
        };
        if slot != NONE {
            need(Thing::Slot(slot), slot_class);
        }
        let changes_name = action.makes_object()
            || matches!(action, Action::Remove | Action::Rmdir | Action::Rename | Action::Link);
        let name_class = if changes_name { Class::Exclusive } else { Class::Read };
        let name_dir = if action == Action::Link { other } else { file };
        if name != NONE && name_dir != NONE {
            need(Thing::Name(name_dir, name), name_class);
        }
        if other_name != NONE && other != NONE {
            need(Thing::Name(other, other_name), Class::Exclusive);
        }
        // A listing waits for the changes of its directory; these don't wait for one another.
        if changes_name && name_dir != NONE {
            need(Thing::Entries(name_dir), Class::Change);
            if action == Action::Rename && other != NONE && other != name_dir {
                need(Thing::Entries(other), Class::Change);
            }
        }
        if matches!(action, Action::Readdir { .. } | Action::ReaddirPlus { .. }) && file != NONE {
            need(Thing::Entries(file), Class::Read);
        }
        let is_victim_gone = matches!(action, Action::Remove | Action::Rmdir | Action::Rename);
        if is_victim_gone && item.victim != NONE && step.status == 0 && item.victim != other {
            need(Thing::File(item.victim), Class::Exclusive);
        }
        if result != NONE && result != file {
            // The first step that returns a handle is what all others wait for.
            let produced = &mut self.has_producer[result as usize];
            let class =
                if *produced && !action.makes_object() { Class::Read } else { Class::Exclusive };
            *produced = true;
            need(Thing::File(result), class);
        }
    }
}

/// Tells whether a version has an operation.
fn exists_in(kind: OperationKind, version: ProtocolVersion) -> bool {
    match kind {
        OperationKind::Close => version.is_stateful(),
        OperationKind::Allocate
        | OperationKind::Deallocate
        | OperationKind::Seek
        | OperationKind::ReadPlus
        | OperationKind::Copy
        | OperationKind::Getxattr
        | OperationKind::Setxattr
        | OperationKind::Listxattrs
        | OperationKind::Removexattr => version == ProtocolVersion::V4_2,
        OperationKind::Access
        | OperationKind::Mknod
        | OperationKind::ReaddirPlus
        | OperationKind::Fsinfo
        | OperationKind::Pathconf
        | OperationKind::Commit => version != ProtocolVersion::V2,
        _ => true,
    }
}

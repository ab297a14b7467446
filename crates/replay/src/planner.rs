//! Turns the operations of a trace into steps.
//!
//! [`Planner`] adapts each operation to the target's version, splits transfers that are too large,
//! finds the open to use, and passes what it needs to [`DependencyBuilder`], which determines the
//! dependencies. Operations must be added in the order in which they started.

use std::collections::{BTreeMap, HashMap};

use nfs_client::proto::client::{OperationKind, ProtocolVersion};

use crate::action::{Action, DIRECTORY};
use crate::order::{AccessKind, DependencyBuilder, Resource, Span};
use crate::step::{Batch, Step};
use crate::target_kind::TargetKind;
use crate::tree::{NONE, TracedOperation, Tree};
use crate::window::Window;

/// The bits of ACCESS supported by all versions. **Source:** RFC 1813 section 3.3.4; RFC 8276
/// section 8.5 has added three.
const ACCESS_BITS_OF_ALL: u32 = 0x3f;

/// The target and the part of a trace for which to create a plan.
#[derive(Debug, Clone, Copy)]
pub struct PlanSettings {
    /// The part of the trace.
    pub window: Window,
    /// Maximum number of clients to emulate. Those of the trace are assigned round-robin.
    pub clients_max: Option<u32>,
    /// The kind of target.
    pub target: TargetKind,
    /// Maximum size of the target's READ, in bytes.
    pub rsize: u32,
    /// Maximum size of the target's WRITE, in bytes.
    pub wsize: u32,
}

/// An operation to replay, with its reply.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Item {
    /// The operation with its reply.
    pub fact: TracedOperation,
    /// Number of its client in the trace.
    pub client: u32,
    /// When it was in flight.
    pub span: Span,
    /// Its response time, if the whole call is known.
    pub origin_ns: Option<u64>,
    /// The object whose name is removed, or replaced by a rename.
    pub victim: u32,
    /// The object that the operation's first name refers to.
    pub named: u32,
    /// Whether it opens files, as in v4.
    pub(crate) is_of_v4: bool,
}

/// Creates steps from items.
pub(crate) struct Planner<'a> {
    settings: &'a PlanSettings,
    tree: &'a Tree,
    order: DependencyBuilder,
    steps: Vec<Step>,
    /// Objects whose handle is known by the time a step that uses them may start.
    has_producer: Vec<bool>,
    clients: HashMap<u32, u32>,
    calls: Vec<ClientCalls>,
    /// Slots of the opens that a client has for an object, latest last.
    opens: HashMap<Usage, Vec<SettledSlot>>,
    /// Slots no longer in use, for the same client and object.
    closed: HashMap<Usage, Vec<SettledSlot>>,
    listings: HashMap<Usage, u32>,
    slots: u32,
    split: u64,
    not_in_version: BTreeMap<OperationKind, u64>,
    /// OPENs by handle, which the target's version doesn't support.
    handle_opens: u64,
    /// CLOSEs of files that the replay hasn't opened.
    closes_only: u64,
}

/// A client's calls at one point of the trace.
#[derive(Debug, Default)]
struct ClientCalls {
    /// When the calls in flight end.
    ends: Vec<u64>,
    /// When the last call before that ended.
    ended_ns: u64,
}

impl ClientCalls {
    /// Adds a call. Returns the number of calls in flight, including this one.
    fn start(&mut self, span: Span) -> u32 {
        self.ends.retain(|end_ns| {
            if *end_ns <= span.start_ns {
                self.ended_ns = self.ended_ns.max(*end_ns);
            }
            *end_ns > span.start_ns
        });
        self.ends.push(span.end_ns);
        self.ends.len() as u32
    }
}

/// A client's use of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Usage {
    client: u32,
    object: u32,
}

/// A slot whose OPEN or CLOSE got its reply at this time of the trace. Operations that started
/// earlier didn't know about it and don't wait for it.
#[derive(Debug, Clone, Copy)]
struct SettledSlot {
    slot: u32,
    at_ns: u64,
}

/// Returns the index of the latest slot that was settled at or before `by_ns`.
fn find_settled(slots: &[SettledSlot], by_ns: u64) -> Option<usize> {
    slots.iter().rposition(|settled| settled.at_ns <= by_ns)
}

/// The steps of a trace.
#[derive(Debug)]
pub(crate) struct PlannedSteps {
    /// The steps themselves.
    pub batch: Batch,
    /// Number of opens and listings.
    pub slots: u32,
    /// Number of transfers that were split into several steps.
    pub split: u64,
    /// Operations that the target's version doesn't support.
    pub(crate) not_in_version: BTreeMap<OperationKind, u64>,
    /// OPENs by handle, which the target's version doesn't support.
    pub(crate) handle_opens: u64,
    /// CLOSEs of files that the replay hasn't opened.
    pub(crate) closes_only: u64,
}

impl<'a> Planner<'a> {
    /// Creates a planner, given the objects that exist before the first step.
    pub(crate) fn new(settings: &'a PlanSettings, tree: &'a Tree, initial: &[u32]) -> Self {
        let mut has_producer = vec![false; tree.objects().len()];
        for object in initial {
            has_producer[*object as usize] = true;
        }
        Self {
            settings,
            tree,
            order: DependencyBuilder::default(),
            steps: Vec::new(),
            has_producer,
            clients: HashMap::new(),
            calls: Vec::new(),
            opens: HashMap::new(),
            closed: HashMap::new(),
            listings: HashMap::new(),
            slots: 0,
            split: 0,
            not_in_version: BTreeMap::new(),
            handle_opens: 0,
            closes_only: 0,
        }
    }

    /// Creates the steps for operations, which must be in the order in which they started.
    pub(crate) fn make(mut self, items: &[Item]) -> PlannedSteps {
        let begin_ns = items.first().map_or(0, |item| item.span.start_ns);
        for item in items {
            self.plan_item(item, begin_ns);
        }
        let batch = Batch::new(self.steps, self.order, self.calls.len());
        PlannedSteps {
            batch,
            slots: self.slots,
            split: self.split,
            not_in_version: self.not_in_version,
            handle_opens: self.handle_opens,
            closes_only: self.closes_only,
        }
    }

    fn plan_item(&mut self, item: &Item, begin_ns: u64) {
        let fact = &item.fact;
        let client = self.client(item.client);
        let calls = &mut self.calls[client as usize];
        let depth = calls.start(item.span);
        let think_ns = item.span.start_ns - calls.ended_ns.max(begin_ns);
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
            think_ns,
            origin_ns: item.origin_ns.unwrap_or(u64::MAX),
            ..Step::new(self.adapt_action(fact.action, item.victim))
        };
        if matches!(step.action, Action::OpenHandle(_)) && !self.settings.target.opens_handles() {
            self.handle_opens += 1;
            return;
        }
        step.slot = self.slot_of(&step, item);
        if !self.settings.target.has(step.action.kind()) {
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
            // The time at the origin applies to the whole transfer.
            step.origin_ns = u64::MAX;
            step.think_ns = 0;
        }
    }

    fn client(&mut self, number: u32) -> u32 {
        let next = self.clients.len() as u32;
        let mapped = self.settings.clients_max.map_or(next, |max| next % max.max(1));
        let client = *self.clients.entry(number).or_insert(mapped);
        if client as usize == self.calls.len() {
            self.calls.push(ClientCalls::default());
        }
        client
    }

    /// Adapts an action to the target's version.
    fn adapt_action(&self, action: Action, victim: u32) -> Action {
        match action {
            // In v4, REMOVE also removes directories.
            Action::Remove if self.tree.type_of(victim) == DIRECTORY => Action::Rmdir,
            Action::ReaddirPlus { bytes, is_first }
                if self.settings.target == TargetKind::Nfs(ProtocolVersion::V2) =>
            {
                Action::Readdir { bytes, is_first }
            }
            // Bits for extended attributes are invalid without support for them.
            Action::Access(bits) if !self.settings.target.has(OperationKind::Getxattr) => {
                Action::Access(bits & ACCESS_BITS_OF_ALL)
            }
            Action::ReadPlus { offset, count }
                if !self.settings.target.has(OperationKind::ReadPlus) =>
            {
                Action::Read { offset, count }
            }
            action => action,
        }
    }

    /// Splits a transfer that exceeds the target's maximum.
    fn parts_of(&self, action: Action) -> Vec<Action> {
        let (offset, count, max) = match action {
            Action::Read { offset, count } | Action::ReadPlus { offset, count } => {
                (offset, count, self.settings.rsize)
            }
            Action::Write { offset, count, .. } => (offset, count, self.settings.wsize),
            _ => return vec![action],
        };
        let mut parts = Vec::new();
        let mut from = 0;
        while from < count || parts.is_empty() {
            let offset = offset.saturating_add(u64::from(from));
            let count = (count - from).min(max.max(1));
            parts.push(match action {
                Action::Write { stable, .. } => Action::Write { offset, count, stable },
                Action::ReadPlus { .. } => Action::ReadPlus { offset, count },
                _ => Action::Read { offset, count },
            });
            from += count.max(1);
        }
        parts
    }

    /// Returns the slot of the open that a step creates or uses, or of the listing that it
    /// continues.
    fn slot_of(&mut self, step: &Step, item: &Item) -> u32 {
        let usage = Usage { client: step.client, object: step.file };
        let Span { start_ns, end_ns: at_ns } = item.span;
        match step.action {
            action if action.opens_file() && item.is_of_v4 && step.status == 0 => {
                let is_handle = matches!(action, Action::OpenHandle(_));
                let object = if is_handle { step.file } else { step.result };
                let usage = Usage { object, ..usage };
                let closed = self.closed.entry(usage).or_default();
                let slot = match find_settled(closed, start_ns) {
                    Some(at) => closed.remove(at).slot,
                    None => self.new_slot(),
                };
                self.opens.entry(usage).or_default().push(SettledSlot { slot, at_ns });
                slot
            }
            Action::Close => {
                let opens = self.opens.entry(usage).or_default();
                let Some(at) = find_settled(opens, start_ns) else { return NONE };
                let slot = opens.remove(at).slot;
                self.closed.entry(usage).or_default().push(SettledSlot { slot, at_ns });
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
            // COMMIT is the only operation on data without a stateid.
            action if action.uses_data() && !matches!(action, Action::Commit { .. }) => {
                let Some(opens) = self.opens.get(&usage) else { return NONE };
                find_settled(opens, start_ns).map_or(NONE, |at| opens[at].slot)
            }
            _ => NONE,
        }
    }

    fn new_slot(&mut self) -> u32 {
        self.slots += 1;
        self.slots - 1
    }

    /// Registers the dependencies of a step.
    fn order_step(&mut self, number: u32, step: &Step, item: &Item) {
        let Step { action, file, other, result, name, other_name, slot, .. } = *step;
        let span = item.span;
        let order = &mut self.order;
        let mut need =
            |thing: Resource, class: AccessKind| order.access(number, span, thing, class);
        let file_class = match action {
            Action::SetSize(_) => AccessKind::Exclusive,
            action if action.changes_file() => AccessKind::Change,
            _ => AccessKind::Read,
        };
        if file != NONE {
            need(Resource::File(file), file_class);
        }
        if other != NONE && other != file {
            need(Resource::File(other), AccessKind::Read);
        }
        let slot_class = match action {
            Action::Close | Action::Readdir { .. } | Action::ReaddirPlus { .. } => {
                AccessKind::Exclusive
            }
            _ if action.opens_file() => AccessKind::Exclusive,
            _ => AccessKind::Read,
        };
        if slot != NONE {
            need(Resource::Slot(slot), slot_class);
        }
        let changes_name = action.makes_object()
            || matches!(action, Action::Remove | Action::Rmdir | Action::Rename | Action::Link);
        let name_class = if changes_name { AccessKind::Exclusive } else { AccessKind::Read };
        let name_dir = if action == Action::Link { other } else { file };
        if name != NONE && name_dir != NONE {
            need(Resource::Name(name_dir, name), name_class);
        }
        if other_name != NONE && other != NONE {
            need(Resource::Name(other, other_name), AccessKind::Exclusive);
        }
        // A listing waits for changes of its directory, but these don't wait for each other.
        if changes_name && name_dir != NONE {
            need(Resource::Entries(name_dir), AccessKind::Change);
            if action == Action::Rename && other != NONE && other != name_dir {
                need(Resource::Entries(other), AccessKind::Change);
            }
        }
        if matches!(action, Action::Readdir { .. } | Action::ReaddirPlus { .. }) && file != NONE {
            need(Resource::Entries(file), AccessKind::Read);
        }
        let is_victim_gone = matches!(action, Action::Remove | Action::Rmdir | Action::Rename);
        if is_victim_gone && item.victim != NONE && step.status == 0 && item.victim != other {
            need(Resource::File(item.victim), AccessKind::Exclusive);
        }
        // In a local directory, files are found by name, so nothing may use the file during a
        // rename.
        let is_directory = self.settings.target == TargetKind::Directory;
        if is_directory && action == Action::Rename && item.named != NONE {
            need(Resource::File(item.named), AccessKind::Exclusive);
        }
        if result != NONE && result != file {
            // All other steps wait for the first one that returns a handle.
            let produced = &mut self.has_producer[result as usize];
            let class = if *produced && !action.makes_object() {
                AccessKind::Read
            } else {
                AccessKind::Exclusive
            };
            *produced = true;
            need(Resource::File(result), class);
        }
    }
}

//! From the operations of a trace to steps.
//!
//! [`Planner`] adapts each operation to the version of the target, cuts transfers that are too
//! large for it, finds the open that it works under, and says what it needs, so that [`Order`]
//! knows what it waits for. It takes operations in the order of their starts.

use std::collections::{BTreeMap, HashMap};

use nfs_client::proto::client::{OperationKind, ProtocolVersion};

use crate::action::{Action, DIRECTORY};
use crate::order::{Class, Order, Span, Thing};
use crate::step::{Batch, Step};
use crate::target_kind::TargetKind;
use crate::tree::{Fact, NONE, Tree};
use crate::window::Window;

/// The bits of ACCESS that every version has. **Source:** RFC 1813 section 3.3.4; RFC 8276 section
/// 8.5 has added three.
const ACCESS_BITS_OF_ALL: u32 = 0x3f;

/// The target and the part of a trace that a plan is made for.
#[derive(Debug, Clone, Copy)]
pub struct PlanSettings {
    /// The part of the trace.
    pub window: Window,
    /// Clients to emulate at most: those of the trace take turns.
    pub clients_max: Option<u32>,
    /// The kind of the target.
    pub target: TargetKind,
    /// Largest READ of the target, in bytes.
    pub rsize: u32,
    /// Largest WRITE of the target, in bytes.
    pub wsize: u32,
}

/// An operation that is replayed, with its reply.
#[derive(Debug, Clone, Copy)]
pub struct Item {
    /// The operation with its reply.
    pub fact: Fact,
    /// Number of its client in the trace.
    pub client: u32,
    /// When it was in flight.
    pub span: Span,
    /// Its response time, where the whole call is known.
    pub origin_ns: Option<u64>,
    /// The object of a name that is removed, or replaced by a rename.
    pub victim: u32,
    /// The object of the name that an operation begins with.
    pub named: u32,
    /// Whether it opens files as v4 does.
    pub is_of_v4: bool,
}

/// Makes steps of items.
pub struct Planner<'a> {
    settings: &'a PlanSettings,
    tree: &'a Tree,
    order: Order,
    steps: Vec<Step>,
    /// Objects whose handle is known when a step that uses them may start.
    has_producer: Vec<bool>,
    clients: HashMap<u32, u32>,
    /// The calls of each client.
    calls: Vec<ClientCalls>,
    /// Slots of the opens that a client has of an object, the latest last.
    opens: HashMap<Usage, Vec<Settled>>,
    /// Slots that are not in use, of the same client and object.
    closed: HashMap<Usage, Vec<Settled>>,
    listings: HashMap<Usage, u32>,
    slots: u32,
    split: u64,
    not_in_version: BTreeMap<OperationKind, u64>,
    /// OPENs of a handle, which the version of the target lacks.
    handle_opens: u64,
    /// CLOSEs of what the replay has not opened.
    closes_only: u64,
}

/// The calls of a client at an instant of the trace.
#[derive(Debug, Default)]
struct ClientCalls {
    /// When those end that are in flight.
    ends: Vec<u64>,
    /// When the last one ended before.
    ended_ns: u64,
}

impl ClientCalls {
    /// Adds a call, and returns how many are in flight with it.
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

/// An object as it is used by one client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Usage {
    client: u32,
    object: u32,
}

/// A slot whose OPEN or CLOSE had its reply at this instant of the trace. What started before did
/// not know of it, and does not wait for it.
#[derive(Debug, Clone, Copy)]
struct Settled {
    slot: u32,
    at_ns: u64,
}

/// Returns the place of the latest slot that was settled by an instant.
fn find_settled(slots: &[Settled], by_ns: u64) -> Option<usize> {
    slots.iter().rposition(|settled| settled.at_ns <= by_ns)
}

/// The steps of a trace.
#[derive(Debug)]
pub struct Made {
    /// The steps themselves.
    pub batch: Batch,
    /// Number of opens and listings.
    pub slots: u32,
    /// Transfers that are made in several steps.
    pub split: u64,
    /// Operations that the version of the target lacks.
    pub not_in_version: BTreeMap<OperationKind, u64>,
    /// OPENs of a handle, which the version of the target lacks.
    pub handle_opens: u64,
    /// CLOSEs of what the replay has not opened.
    pub closes_only: u64,
}

impl<'a> Planner<'a> {
    /// Begins with the objects that are there before the first step.
    pub fn new(settings: &'a PlanSettings, tree: &'a Tree, initial: &[u32]) -> Self {
        let mut has_producer = vec![false; tree.objects().len()];
        for object in initial {
            has_producer[*object as usize] = true;
        }
        Self {
            settings,
            tree,
            order: Order::default(),
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

    /// Makes the steps of operations in the order of their starts.
    pub fn make(mut self, items: &[Item]) -> Made {
        let begin_ns = items.first().map_or(0, |item| item.span.start_ns);
        for item in items {
            self.plan_item(item, begin_ns);
        }
        let batch = Batch::new(self.steps, self.order, self.calls.len());
        Made {
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
            ..Step::of(self.adapted(fact.action, item.victim))
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
            // The time at the origin is that of the whole.
            (step.origin_ns, step.think_ns) = (u64::MAX, 0);
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

    /// Returns an action as the version of the target has it.
    fn adapted(&self, action: Action, victim: u32) -> Action {
        match action {
            // REMOVE of v4 removes directories, too.
            Action::Remove if self.tree.type_of(victim) == DIRECTORY => Action::Rmdir,
            Action::ReaddirPlus { bytes, is_first }
                if self.settings.target == TargetKind::Nfs(ProtocolVersion::V2) =>
            {
                Action::Readdir { bytes, is_first }
            }
            // The bits of extended attributes are invalid where there are none.
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

    /// Cuts a transfer that is larger than those of the target.
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
            let (offset, count) =
                (offset.saturating_add(u64::from(from)), (count - from).min(max.max(1)));
            parts.push(match action {
                Action::Write { stable, .. } => Action::Write { offset, count, stable },
                Action::ReadPlus { .. } => Action::ReadPlus { offset, count },
                _ => Action::Read { offset, count },
            });
            from += count.max(1);
        }
        parts
    }

    /// Returns the open that a step makes or works under, or the listing that it goes on with.
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
                self.opens.entry(usage).or_default().push(Settled { slot, at_ns });
                slot
            }
            Action::Close => {
                let opens = self.opens.entry(usage).or_default();
                let Some(at) = find_settled(opens, start_ns) else { return NONE };
                let slot = opens.remove(at).slot;
                self.closed.entry(usage).or_default().push(Settled { slot, at_ns });
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
            | Action::Copy { .. } => {
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
            Action::Close | Action::Readdir { .. } | Action::ReaddirPlus { .. } => Class::Exclusive,
            _ if action.opens_file() => Class::Exclusive,
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
        // In a directory a file is found by its name, so that nothing may use it meanwhile.
        let is_directory = self.settings.target == TargetKind::Directory;
        if is_directory && action == Action::Rename && item.named != NONE {
            need(Thing::File(item.named), Class::Exclusive);
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

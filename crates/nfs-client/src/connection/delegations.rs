//! Read delegations: if wanted, kept and used instead of OPEN; otherwise returned at once.
//!
//! [`Delegations`] are those of a v4.1 client, keyed by the name that each file was opened by, for
//! all its connections together, as in a kernel; a [`DelegationUser`] is the part of one
//! connection: its opens in flight, and the delegations it has to return. Whichever connection gets
//! a recall returns the delegation. The table is locked only when opening by name, and only if
//! delegations are wanted.
//!
//! A server may delegate without a request (RFC 8881 section 18.16.3) and rely on it: such a
//! delegation is returned at once. **Source:** RFC 8881 sections 10.2, 10.4 and 20.2; Linux,
//! fs/nfs/delegation.c.

use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, VecDeque};
use std::hash::{Hash as _, Hasher as _};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nfs_proto::client::{
    Event, File, Kind, OpenAccess, Operation, OperationKind, Recall, Stateid, WantedDelegation,
};
use nfs_proto::nfs4::Op;

use super::{CALLS_MAX, Connection};
use crate::scratch::Scratch;

/// The tag of a call that returns a delegation.
pub(super) const RETURN: u32 = u32::MAX - 2;

/// Maximum number of delegations that a client keeps. **Source:** Linux, fs/nfs/delegation.c,
/// `NFS_DEFAULT_DELEGATION_WATERMARK`.
const HELD_MAX: usize = 5_000;

/// Number of recalls remembered: one may overtake the reply that grants its delegation.
const RECALLED_MAX: usize = 64;

/// Longest wait for the reply to a return before the deadline is checked again.
const WAIT: Duration = Duration::from_millis(50);

/// Counts of delegations so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DelegationCounts {
    /// Delegations that a server granted, requested or not.
    pub granted: u64,
    /// Delegations that it recalled.
    pub recalled: u64,
    /// Delegations that were returned to it.
    pub returned: u64,
}

/// The [`DelegationCounts`] of a mount, shared by all its clients.
#[derive(Debug, Default)]
pub(crate) struct DelegationCounters {
    granted: AtomicU64,
    recalled: AtomicU64,
    returned: AtomicU64,
}

impl DelegationCounters {
    pub(crate) fn read(&self) -> DelegationCounts {
        DelegationCounts {
            granted: self.granted.load(Relaxed),
            recalled: self.recalled.load(Relaxed),
            returned: self.returned.load(Relaxed),
        }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Delegations {
    wanted: WantedDelegation,
    table: Mutex<Table>,
    counters: Arc<DelegationCounters>,
}

#[derive(Debug, Default)]
struct Table {
    held: HashMap<u64, HeldDelegation>,
    /// The most recently recalled ones.
    recalled: VecDeque<Stateid>,
}

/// A delegation, with the connection that got it.
#[derive(Debug)]
struct HeldDelegation {
    /// Contains the delegation's stateid.
    file: File,
    connection: u64,
}

impl Delegations {
    pub(crate) fn new(wanted: WantedDelegation, counters: Arc<DelegationCounters>) -> Self {
        let mut table = Table::default();
        if wanted == WantedDelegation::Read {
            // Reserve room for all, so that nothing allocates during the measurement.
            table.held.reserve(HELD_MAX);
            table.recalled.reserve(RECALLED_MAX);
        }
        Self { wanted, table: Mutex::new(table), counters }
    }

    pub(crate) const fn wanted(&self) -> WantedDelegation {
        self.wanted
    }

    pub(crate) fn counters(&self) -> &Arc<DelegationCounters> {
        &self.counters
    }

    /// Forgets all delegations, after the server has forgotten the client.
    pub(super) fn clear(&self) {
        self.lock_table().held.clear();
    }

    fn lock_table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Finds a delegation by name.
    fn find(&self, key: u64) -> Option<File> {
        Some(self.lock_table().held.get(&key)?.file)
    }

    /// Removes a delegation by name, in order to return it.
    fn take(&self, key: u64) -> Option<File> {
        Some(self.lock_table().held.remove(&key)?.file)
    }

    /// Keeps a granted delegation; returns false if it must be returned.
    fn keep(&self, key: u64, file: File, connection: u64) -> bool {
        let mut table = self.lock_table();
        if let Some(index) = table.recalled.iter().position(|known| *known == file.stateid) {
            // Its recall overtook the reply that grants it, and it has already been returned.
            table.recalled.remove(index);
            return true;
        }
        if table.held.len() >= HELD_MAX || table.held.contains_key(&key) {
            return false;
        }
        table.held.insert(key, HeldDelegation { file, connection });
        true
    }

    /// Removes a recalled delegation.
    fn drop_recalled(&self, stateid: &Stateid) {
        self.counters.recalled.fetch_add(1, Relaxed);
        let mut table = self.lock_table();
        let before = table.held.len();
        table.held.retain(|_, held| held.file.stateid != *stateid);
        if table.held.len() == before {
            if table.recalled.len() == RECALLED_MAX {
                table.recalled.pop_front();
            }
            table.recalled.push_back(*stateid);
        }
    }

    /// Removes all delegations granted on a connection, or on all connections.
    fn take_all(&self, connection: Option<u64>, taken: &mut Vec<File>) {
        let mut table = self.lock_table();
        table.held.retain(|_, held| {
            let is_meant = connection.is_none_or(|number| number == held.connection);
            if is_meant {
                taken.push(held.file);
            }
            !is_meant
        });
    }
}

/// The part of one connection in its client's delegations.
#[derive(Debug)]
pub(crate) struct DelegationUser {
    shared: Arc<Delegations>,
    /// Number of the connection.
    number: u64,
    /// Opens in flight that may bring a delegation.
    opens: Vec<OpenCall>,
    /// Delegations to return, one at a time.
    to_return: Vec<File>,
    is_returning: bool,
}

#[derive(Debug, Clone, Copy)]
struct OpenCall {
    tag: u32,
    key: u64,
}

impl DelegationUser {
    pub(super) fn new(shared: Arc<Delegations>, number: u64) -> Self {
        let calls = if shared.wanted == WantedDelegation::Read { CALLS_MAX } else { 0 };
        let opens = Vec::with_capacity(calls);
        Self { shared, number, opens, to_return: Vec::new(), is_returning: false }
    }

    pub(super) fn wanted(&self) -> WantedDelegation {
        self.shared.wanted
    }

    /// Returns true if a call that returns a delegation is in flight.
    pub(super) const fn is_returning(&self) -> bool {
        self.is_returning
    }

    /// Returns true if delegations are left to return.
    pub(super) const fn has_returns(&self) -> bool {
        self.is_returning || !self.to_return.is_empty()
    }

    /// Handles an operation that is about to be started: if this client itself changes a name, its
    /// delegation is dropped, since no server recalls from the client that makes the change.
    pub(super) fn note_change(&mut self, operation: &Operation<'_>) {
        let (dir, name) = match *operation {
            Operation::Remove { dir, name } | Operation::Create { dir, name, .. } => (dir, name),
            Operation::Open { dir, name, access } if access != OpenAccess::Read => (dir, name),
            Operation::Rename { from_dir, from, to_dir, to } => {
                self.give_up(key_of(from_dir, from));
                (to_dir, to)
            }
            _ => return,
        };
        self.give_up(key_of(dir, name));
    }

    /// Returns the delegation of a name, if there is one.
    fn give_up(&mut self, key: u64) {
        if let Some(file) = self.shared.take(key) {
            self.to_return.push(file);
        }
    }

    /// Records an OPEN in flight that may bring a delegation.
    pub(super) fn note_open(&mut self, tag: u32, operation: &Operation<'_>) {
        if let Operation::Open { dir, name, access: OpenAccess::Read } = *operation {
            self.opens.push(OpenCall { tag, key: key_of(dir, name) });
        }
    }

    /// Handles the end of a call: keeps or returns the delegation that it brought.
    pub(super) fn note_event(&mut self, event: &Event<'_>) {
        if !matches!(event.kind, Kind::File(OperationKind::Open | OperationKind::Create)) {
            return;
        }
        let mut key = None;
        if let Some(index) = self.opens.iter().position(|call| call.tag == event.tag) {
            key = Some(self.opens.swap_remove(index).key);
        }
        let (Some(stateid), Some(file)) = (event.delegation, event.file) else { return };
        self.shared.counters.granted.fetch_add(1, Relaxed);
        let file = File { stateid: *stateid, owner: 0, ..*file };
        let is_kept = key.is_some_and(|key| self.shared.keep(key, file, self.number));
        if !is_kept {
            self.to_return.push(file);
        }
    }

    /// Handles the recall of a delegation.
    pub(super) fn note_recall(&mut self, recall: &Recall) {
        self.shared.drop_recalled(&recall.stateid);
        self.to_return.push(File { stateid: recall.stateid, ..File::from(recall.file) });
    }

    /// Handles the end of a call that returned a delegation. If the server no longer knew it, it is
    /// not counted.
    pub(super) fn note_returned(&mut self, event: &Event<'_>) {
        self.is_returning = false;
        if event.result.is_ok() {
            self.shared.counters.returned.fetch_add(1, Relaxed);
        }
    }
}

/// Returns the key of a file, derived from the name it is opened by.
fn key_of(dir: &File, name: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    dir.handle.hash(&mut hasher);
    name.hash(&mut hasher);
    hasher.finish()
}

impl Connection {
    /// Returns the file of this name if it is delegated to this connection's client: it can be read
    /// without OPEN, and needs no CLOSE.
    pub fn delegated(&self, dir: &File, name: &[u8]) -> Option<File> {
        let user = self.delegations.as_ref()?;
        if user.wanted() == WantedDelegation::Nothing {
            return None;
        }
        user.shared.find(key_of(dir, name))
    }

    /// Returns the delegation of this name, if there is one, after the server rejected a call that
    /// relied on it.
    pub fn give_up_delegation(&mut self, dir: &File, name: &[u8]) {
        if let Some(user) = &mut self.delegations {
            user.give_up(key_of(dir, name));
        }
    }

    /// Returns all delegations that this connection got, and those already due to be returned.
    /// Blocks until `until` at most; the caller must have no call in flight. The server forgets any
    /// that are left when the lease expires.
    pub fn return_delegations(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        until_ns: u64,
    ) {
        if let Some(user) = &mut self.delegations {
            user.shared.take_all(Some(user.number), &mut user.to_return);
        }
        self.finish_returns(scratch, clock, until_ns);
    }

    /// Makes this connection return the delegations of all connections of the client.
    pub(super) fn take_all_delegations(&mut self) {
        if let Some(user) = &mut self.delegations {
            user.shared.take_all(None, &mut user.to_return);
        }
    }

    /// Waits until nothing is left to return, or the deadline.
    pub(super) fn finish_returns(
        &mut self,
        scratch: &mut Scratch,
        clock: &dyn Fn() -> u64,
        until_ns: u64,
    ) {
        while self.has_returns() && !self.is_down() && clock() < until_ns {
            if self.wait(scratch, clock, WAIT, &mut |_| {}).is_err() {
                // The server forgets them when the lease expires.
                return;
            }
        }
    }

    pub(super) fn has_returns(&self) -> bool {
        matches!(&self.delegations, Some(user) if user.has_returns())
    }

    /// Starts to return a delegation, if one is waiting and a slot is free.
    pub(super) fn start_return(&mut self, now_ns: u64) {
        if self.is_down() || self.link.session.is_unbound() {
            return;
        }
        let Some(user) = &mut self.delegations else { return };
        if user.is_returning {
            return;
        }
        let Some(file) = user.to_return.last() else { return };
        let ops = [Op::Putfh { file: file.handle }, Op::Delegreturn { stateid: file.stateid }];
        if self.link.session.start_ops(now_ns, RETURN, &ops).is_ok() {
            user.to_return.pop();
            user.is_returning = true;
        }
    }

    /// Handles received recalls.
    pub(super) fn take_recalls(&mut self) {
        let Some(user) = &mut self.delegations else { return };
        while let Some(recall) = self.link.session.take_recall() {
            user.note_recall(&recall);
        }
    }
}

#[cfg(test)]
mod tests {
    use nfs_proto::nfs3::FileHandle;

    use super::*;

    fn file(number: u8) -> File {
        let handle = FileHandle::from_slice(&[number; 8]).unwrap();
        File { stateid: Stateid { seqid: 1, other: [number; 12] }, ..File::from(handle) }
    }

    fn delegations() -> Delegations {
        Delegations::new(WantedDelegation::Read, Arc::default())
    }

    #[test]
    fn survives_recall_before_grant() {
        let delegations = delegations();
        delegations.drop_recalled(&file(1).stateid);
        assert!(delegations.keep(7, file(1), 1), "the recall returns it");
        assert_eq!(delegations.find(7), None);
        // Another grant of the same file is a new delegation.
        assert!(delegations.keep(7, file(2), 1));
        assert_eq!(delegations.find(7), Some(file(2)));
        delegations.drop_recalled(&file(2).stateid);
        assert_eq!(delegations.find(7), None);
        assert_eq!(delegations.counters.read().recalled, 2);
    }

    #[test]
    fn returns_delegations_of_connection() {
        let delegations = delegations();
        for number in 1..=3 {
            assert!(delegations.keep(number.into(), file(number), u64::from(number % 2)));
        }
        assert!(!delegations.keep(1, file(9), 1), "one delegation per name");
        let mut taken = Vec::new();
        delegations.take_all(Some(0), &mut taken);
        assert_eq!(taken, [file(2)]);
        delegations.take_all(None, &mut taken);
        assert_eq!(taken.len(), 3);
        assert_eq!(delegations.find(1), None);
    }

    #[test]
    fn drops_delegation_before_own_change() {
        let shared = Arc::new(delegations());
        let mut user = DelegationUser::new(Arc::clone(&shared), 1);
        let dir = &file(100);
        for (number, name) in [(1, b"a"), (2, b"b"), (3, b"c"), (4, b"d")] {
            assert!(shared.keep(key_of(dir, name), file(number), 1));
        }
        user.note_change(&Operation::Lookup { dir, name: b"a" });
        user.note_change(&Operation::Open { dir, name: b"a", access: OpenAccess::Read });
        assert!(!user.has_returns());
        user.note_change(&Operation::Remove { dir, name: b"a" });
        let rename = Operation::Rename { from_dir: dir, from: b"b", to_dir: dir, to: b"c" };
        user.note_change(&rename);
        user.note_change(&Operation::Open { dir, name: b"d", access: OpenAccess::Both });
        assert_eq!(user.to_return, [file(1), file(2), file(3), file(4)]);
    }
}

//! The tree that a trace requires.
//!
//! [`Tree`] follows the operations of a trace in order and infers from each reply what must have
//! existed before the first one: a name that was found, a file that was removed, a size that was
//! reported before any change. The first evidence for a name counts. An object that is only ever
//! used by handle has no known name, and gets a generated one at the top of the tree.

use std::collections::HashMap;

use nfs_client::proto::Status;
use trace::Entry;

use crate::action::{Action, Creation, DIRECTORY, REGULAR, SYMLINK};

/// Number meaning no object, name or slot.
pub(crate) const NONE: u32 = u32::MAX;

/// An operation with its reply, from which a tree learns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TracedOperation {
    pub action: Action,
    pub file: u32,
    pub other: u32,
    pub result: u32,
    pub name: u32,
    pub other_name: u32,
    /// The NFS status; `None` if no result was captured.
    pub status: Option<u32>,
    /// Number of bytes transferred.
    pub count: u64,
    /// Attributes of `result`, or else of `file`.
    pub file_type: u8,
    pub size: Option<u64>,
    pub size_before: Option<u64>,
}

/// A name in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirectoryEntry {
    /// Number of the directory.
    pub dir: u32,
    /// Number of the name.
    pub name: u32,
}

/// A file or directory of the trace.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Object {
    /// Type, a value of v3's `ftype3`; 0 if unknown.
    pub file_type: u8,
    /// Size at the start, in bytes.
    pub size: u64,
    size_is_known: bool,
    size_now: u64,
    /// It was inferred from a name and has no number in the trace.
    is_stand_in: bool,
    /// Its data has been changed since the start.
    is_changed: bool,
    /// It was created after the start.
    pub is_made: bool,
    /// It no longer exists.
    is_removed: bool,
    /// Its name at the start.
    pub initial: Option<DirectoryEntry>,
    /// Its current name.
    now: Option<DirectoryEntry>,
    /// Steps use it.
    pub is_used: bool,
    /// It is listed, so all of its entries matter.
    is_listed: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryTarget {
    Absent,
    Object(u32),
    /// Created in the trace, with a reply that did not contain its handle.
    Unknown,
}

/// What is known about a tree.
#[derive(Debug, Default)]
pub(crate) struct Tree {
    objects: Vec<Object>,
    by_number: HashMap<u32, u32>,
    names: HashMap<DirectoryEntry, EntryTarget>,
    name_numbers: HashMap<u64, u32>,
    /// Text of each name.
    pub texts: Vec<String>,
    /// Additional hard links that existed at the start.
    pub links: Vec<HardLink>,
}

/// An additional name of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HardLink {
    /// Number of the file.
    pub object: u32,
    /// The additional name.
    pub place: DirectoryEntry,
}

impl Tree {
    /// Returns the number of the object with this number in the trace, where 0 means none.
    pub(crate) fn object(&mut self, number: u32) -> u32 {
        if number == 0 {
            return NONE;
        }
        let next = self.objects.len() as u32;
        let object = *self.by_number.entry(number).or_insert(next);
        if object == next {
            self.objects.push(Object::default());
        }
        object
    }

    /// Returns the number of a name, where a hash of 0 means none. The hash is used as its text
    /// until the real one is known.
    pub(crate) fn name(&mut self, hash: u64) -> u32 {
        if hash == 0 {
            return NONE;
        }
        let next = self.texts.len() as u32;
        let name = *self.name_numbers.entry(hash).or_insert(next);
        if name == next {
            self.texts.push(format!("{hash:014x}"));
        }
        name
    }

    /// Sets the text of a name that the trace contains. Invalid names are ignored.
    pub(crate) fn note_text(&mut self, hash: u64, text: &str) {
        let can_be_name = !text.is_empty() && !text.contains(['/', '\0', '\u{fffd}']);
        if can_be_name && hash != 0 {
            let name = self.name(hash);
            text.clone_into(&mut self.texts[name as usize]);
        }
    }

    /// Returns all objects.
    pub(crate) fn objects(&self) -> &[Object] {
        &self.objects
    }

    /// Returns the object that a name currently refers to.
    pub(crate) fn find(&self, dir: u32, name: u32) -> u32 {
        match self.names.get(&DirectoryEntry { dir, name }) {
            Some(EntryTarget::Object(object)) => *object,
            _ => NONE,
        }
    }

    /// Returns the type of an object, or 0 if unknown.
    pub(crate) fn type_of(&self, object: u32) -> u8 {
        self.objects.get(object as usize).map_or(0, |object| object.file_type)
    }

    /// Learns from an entry of a listing.
    pub(crate) fn list(&mut self, entry: &Entry, is_used: bool) {
        let dir = self.object(entry.dir);
        let object = self.object(entry.file);
        let name = self.name(entry.name);
        if dir == NONE || object == NONE || name == NONE {
            return;
        }
        self.describe(object, entry.file_type, entry.size);
        self.bind(DirectoryEntry { dir, name }, object);
        self.objects[object as usize].is_used |= is_used;
    }

    /// Makes the current state the state at the start.
    pub(crate) fn mark_start(&mut self) {
        for object in &mut self.objects {
            object.is_made = object.is_removed;
            object.initial = object.now;
            object.size = object.size_now;
            object.is_changed = false;
            object.is_used = false;
            object.is_listed = false;
        }
        self.names.retain(|_, bound| *bound != EntryTarget::Unknown);
        let objects = &self.objects;
        self.links.retain(|link| !objects[link.object as usize].is_made);
    }

    /// Marks the objects that an operation uses.
    pub(crate) fn mark_used(&mut self, fact: &TracedOperation) {
        let named = self.find(fact.file, fact.name);
        let replaced = self.find(fact.other, fact.other_name);
        for object in [fact.file, fact.other, fact.result, named, replaced] {
            if let Some(object) = self.objects.get_mut(object as usize) {
                object.is_used = true;
            }
        }
        if matches!(fact.action, Action::Readdir { .. } | Action::ReaddirPlus { .. })
            && let Some(object) = self.objects.get_mut(fact.file as usize)
        {
            object.is_listed = true;
        }
    }

    /// Learns from an operation.
    pub(crate) fn record_operation(&mut self, fact: &TracedOperation) {
        let TracedOperation { action, file, result, name, .. } = *fact;
        let Some(status) = fact.status else { return };
        if file == NONE {
            return;
        }
        if status == 0 {
            self.learn_attributes(fact);
        }
        let place = DirectoryEntry { dir: file, name };
        if name != NONE && !matches!(action, Action::Link) && action.takes_name() {
            self.describe(file, DIRECTORY, None);
            if status == Status::NoEnt.number() {
                self.names.entry(place).or_insert(EntryTarget::Absent);
            }
        }
        match (action, status == 0) {
            (Action::Lookup | Action::Open(_), true) if name != NONE && result != NONE => {
                self.learn_lookup(place, result);
            }
            (Action::Create { .. } | Action::Mkdir | Action::Symlink { .. } | Action::Mknod, _)
                if name != NONE =>
            {
                self.record_created(fact, place);
            }
            (Action::Remove, true) if name != NONE => self.remove(place, 0),
            (Action::Rmdir, true) if name != NONE => self.remove(place, DIRECTORY),
            (Action::Rmdir, false) if name != NONE && status == Status::NotEmpty.number() => {
                self.require(place, DIRECTORY);
            }
            (Action::Rename, true) if name != NONE && fact.other_name != NONE => {
                self.rename(place, DirectoryEntry { dir: fact.other, name: fact.other_name });
            }
            (Action::Link, true) if name != NONE && fact.other != NONE => {
                self.describe(fact.other, DIRECTORY, None);
                self.names
                    .insert(DirectoryEntry { dir: fact.other, name }, EntryTarget::Object(file));
            }
            (Action::Readdir { .. } | Action::ReaddirPlus { .. }, true) => {
                self.describe(file, DIRECTORY, None);
            }
            (Action::OpenHandle(_), true) => self.describe(file, REGULAR, None),
            (Action::Readlink, true) => self.describe(file, SYMLINK, Some(fact.count)),
            _ => {}
        }
    }

    /// Learns types and sizes. Until a file is changed, its size counts as that at the start.
    fn learn_attributes(&mut self, fact: &TracedOperation) {
        let subject = if fact.result == NONE { fact.file } else { fact.result };
        let Some(object) = self.objects.get_mut(subject as usize) else { return };
        let changes = matches!(
            fact.action,
            Action::Write { .. }
                | Action::SetSize(_)
                | Action::Allocate { .. }
                | Action::Copy { .. }
                | Action::Clone { .. }
                | Action::Create { size: Some(_), .. }
        );
        if fact.file_type != 0 {
            object.file_type = fact.file_type;
        }
        if !object.is_changed && !object.size_is_known {
            if let Some(size) = fact.size_before {
                object.size = size;
                object.size_is_known = true;
            } else if let Some(size) = fact.size
                && !changes
            {
                object.size = size;
                object.size_is_known = true;
            }
        }
        let end = match fact.action {
            Action::Write { offset, .. } => offset.saturating_add(fact.count),
            _ => 0,
        };
        object.size_now = fact.size.unwrap_or(object.size_now.max(end));
        match fact.action {
            Action::SetSize(size) | Action::Create { size: Some(size), .. } => {
                object.size_now = size;
            }
            Action::Read { offset, .. } | Action::ReadPlus { offset, .. } => {
                if object.file_type == 0 {
                    object.file_type = REGULAR;
                }
                // Data that was read without having been written must have existed.
                if !object.is_changed && !object.size_is_known && fact.count > 0 {
                    object.size = object.size.max(offset.saturating_add(fact.count));
                    object.size_now = object.size_now.max(object.size);
                }
            }
            Action::Write { .. } if object.file_type == 0 => object.file_type = REGULAR,
            _ => {}
        }
        object.is_changed |= changes;
    }

    fn describe(&mut self, object: u32, file_type: u8, size: Option<u64>) {
        let object = &mut self.objects[object as usize];
        if object.file_type == 0 {
            object.file_type = file_type;
        }
        if let Some(size) = size
            && !object.size_is_known
            && !object.is_changed
        {
            object.size = size;
            object.size_is_known = true;
            object.size_now = size;
        }
    }

    fn learn_lookup(&mut self, place: DirectoryEntry, result: u32) {
        let DirectoryEntry { dir, name } = place;
        // Names are hashed, so these two aren't recognizable. No server accepts them as names of
        // files.
        if result == dir {
            ".".clone_into(&mut self.texts[name as usize]);
        } else if self.objects[dir as usize].now.is_some_and(|up| up.dir == result) {
            "..".clone_into(&mut self.texts[name as usize]);
        } else {
            self.bind(place, result);
        }
    }

    /// Records that a name refers to an object.
    fn bind(&mut self, place: DirectoryEntry, object: u32) {
        let known = self.names.insert(place, EntryTarget::Object(object));
        let leads_back = self.is_within(place.dir, object);
        let found = &mut self.objects[object as usize];
        match known {
            Some(EntryTarget::Object(other)) if other == object => {}
            Some(EntryTarget::Object(other)) => {
                // It was inferred from another operation and had no number until now.
                let stands_in = self.objects[other as usize].is_stand_in;
                let initial = self.objects[other as usize].initial;
                if stands_in && self.objects[object as usize].initial.is_none() && !leads_back {
                    let found = &mut self.objects[object as usize];
                    found.initial = initial;
                    found.now = Some(place);
                    let gone = &mut self.objects[other as usize];
                    gone.initial = None;
                    gone.is_made = true;
                }
            }
            Some(EntryTarget::Unknown) => (found.is_made, found.now) = (true, Some(place)),
            Some(EntryTarget::Absent) => {}
            None if leads_back => {}
            None if found.now.is_some() || found.is_made => {
                if !found.is_made && found.file_type != DIRECTORY {
                    self.links.push(HardLink { object, place });
                }
            }
            None => (found.initial, found.now) = (Some(place), Some(place)),
        }
    }

    /// Returns true if an object is the directory itself or one of its ancestors.
    fn is_within(&self, dir: u32, object: u32) -> bool {
        let mut at = dir;
        // A chain cannot be longer than the number of objects. The limit guards against invalid
        // traces.
        for _ in 0..4096 {
            if at == object {
                return true;
            }
            match self.objects[at as usize].initial {
                Some(place) => at = place.dir,
                None => return false,
            }
        }
        true
    }

    fn record_created(&mut self, fact: &TracedOperation, place: DirectoryEntry) {
        let TracedOperation { action, result, .. } = *fact;
        let file_type = match action {
            Action::Mkdir => DIRECTORY,
            Action::Symlink { .. } => SYMLINK,
            _ => REGULAR,
        };
        if fact.status == Some(Status::Exist.number()) {
            self.require(place, file_type);
            return;
        }
        if fact.status != Some(0) {
            return;
        }
        let is_unchecked = matches!(action, Action::Create { how: Creation::Unchecked, .. });
        let existed = match self.names.get(&place) {
            Some(EntryTarget::Object(_)) => true,
            Some(_) => false,
            // Nothing is known about the name. If the file isn't empty or was used before, it
            // existed.
            None => {
                is_unchecked
                    && result != NONE
                    && (self.objects[result as usize].now.is_some()
                        || (matches!(action, Action::Create { size: None, .. })
                            && fact.size.is_some_and(|size| size > 0)))
            }
        };
        if existed && is_unchecked {
            if result != NONE {
                self.bind(place, result);
            }
            return;
        }
        if result == NONE {
            self.names.insert(place, EntryTarget::Unknown);
            return;
        }
        self.names.insert(place, EntryTarget::Object(result));
        let made = &mut self.objects[result as usize];
        made.is_made = true;
        made.initial = None;
        made.now = Some(place);
        made.file_type = file_type;
    }

    /// Infers that a name existed, if nothing is known about it yet.
    fn require(&mut self, place: DirectoryEntry, file_type: u8) -> u32 {
        match self.names.get(&place) {
            Some(EntryTarget::Object(object)) => return *object,
            Some(_) => return NONE,
            None => {}
        }
        let object = self.objects.len() as u32;
        let initial = Some(place);
        let now = Some(place);
        let file_type = if file_type == 0 { REGULAR } else { file_type };
        self.objects.push(Object {
            file_type,
            initial,
            now,
            is_used: true,
            is_stand_in: true,
            size_is_known: true,
            ..Object::default()
        });
        self.names.insert(place, EntryTarget::Object(object));
        object
    }

    fn remove(&mut self, place: DirectoryEntry, file_type: u8) {
        let object = self.require(place, file_type);
        if let Some(object) = self.objects.get_mut(object as usize)
            && object.now == Some(place)
        {
            object.is_removed = true;
            object.now = None;
        }
        self.names.insert(place, EntryTarget::Absent);
    }

    fn rename(&mut self, from: DirectoryEntry, to: DirectoryEntry) {
        if to.dir == NONE {
            return;
        }
        self.describe(to.dir, DIRECTORY, None);
        let object = self.require(from, 0);
        if let Some(EntryTarget::Object(victim)) = self.names.get(&to)
            && let Some(victim) = self.objects.get_mut(*victim as usize)
            && victim.now == Some(to)
        {
            victim.is_removed = true;
            victim.now = None;
        }
        self.names.insert(from, EntryTarget::Absent);
        if let Some(moved) = self.objects.get_mut(object as usize) {
            moved.now = Some(to);
            self.names.insert(to, EntryTarget::Object(object));
        } else {
            self.names.insert(to, EntryTarget::Unknown);
        }
    }

    /// Returns the objects to create, parents first: those that existed at the start and are used
    /// by steps or are entries of a listed directory.
    pub(crate) fn initial_objects(&self) -> Vec<u32> {
        let mut is_wanted = vec![false; self.objects.len()];
        for (number, object) in self.objects.iter().enumerate() {
            let parent = object.initial.map(|place| place.dir as usize);
            let is_entry = parent.is_some_and(|dir| self.objects[dir].is_listed);
            if object.is_made || !(object.is_used || is_entry) {
                continue;
            }
            let mut at = number;
            while !is_wanted[at] {
                is_wanted[at] = true;
                match self.initial_place(at as u32) {
                    Some(place) => at = place.dir as usize,
                    None => break,
                }
            }
        }
        for link in &self.links {
            is_wanted[link.place.dir as usize] |= is_wanted[link.object as usize];
        }
        let mut sorted = Vec::new();
        let mut is_sorted = vec![false; self.objects.len()];
        let mut path = Vec::new();
        for number in 0..self.objects.len() as u32 {
            let mut at = number;
            while is_wanted[at as usize] && !is_sorted[at as usize] {
                is_sorted[at as usize] = true;
                path.push(at);
                match self.initial_place(at) {
                    Some(place) => at = place.dir,
                    None => break,
                }
            }
            while let Some(object) = path.pop() {
                sorted.push(object);
            }
        }
        sorted
    }

    /// Returns where an object was at the start, or `None` if it gets a generated name at the top.
    /// Objects in a directory created by the trace cannot have existed there before.
    pub(crate) fn initial_place(&self, object: u32) -> Option<DirectoryEntry> {
        let place = self.objects[object as usize].initial?;
        if self.objects[place.dir as usize].is_made { None } else { Some(place) }
    }
}

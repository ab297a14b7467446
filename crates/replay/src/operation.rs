//! The operation of a step, using the handles known so far.
//!
//! [`Files`] contains the tables of a target: handles, opens, and positions of listings. They are
//! allocated before the start, and [`operation_of`] only borrows from them.

use model::random::draw;
use nfs_client::proto::client::{Cursor, Data, File, Operation, PayloadRange, SeekWhat};
use nfs_client::proto::nfs3::{CreateHow, FileHandle, MknodWhat, Sattr, SetTime, Verifier};
use nfs_client::proto::nfs4::XattrOption;

use crate::action::{Action, Creation};
use crate::plan::ReplayPlan;
use crate::step::Step;

/// Payloads start at different offsets of the pool, up to this one, so that files differ.
pub(crate) const POOL_SPARE_BYTES: usize = 64 << 10;
/// Seed of the data to write.
const POOL_SEED: u64 = 25;
/// The target of symbolic links.
pub(crate) const LINK_TARGET: [u8; 1024] = [b'x'; 1024];

/// Generates data to write, for payloads of up to `payload_bytes`.
pub(crate) fn write_pool(payload_bytes: usize) -> Vec<u8> {
    let bytes = payload_bytes + POOL_SPARE_BYTES;
    let mut pool = Vec::with_capacity(bytes + 8);
    // Random data can be neither compressed nor deduplicated.
    while pool.len() < bytes {
        pool.extend(draw(POOL_SEED, pool.len() as u64).to_le_bytes());
    }
    pool
}

/// An open or a listing of a client.
#[derive(Debug, Clone, Copy, Default)]
pub struct Slot {
    /// The open, if there is one.
    pub open: Option<File>,
    /// Position at which to continue a listing.
    pub cursor: Cursor,
}

/// The handle of an object of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnownHandle {
    /// Number of the object.
    pub object: u32,
    /// Its handle at the target.
    pub handle: FileHandle,
}

/// The known files of a target.
#[derive(Debug)]
pub struct Files {
    /// Handle of each object.
    pub objects: Vec<Option<File>>,
    /// Opens and listings.
    pub slots: Vec<Slot>,
    /// Size that each object must have before the first step, in bytes.
    pub(crate) wanted_bytes: Vec<u64>,
    /// Objects that already have that size.
    pub is_ready: Vec<bool>,
}

impl Files {
    /// Creates empty tables.
    pub fn new(objects: usize, slots: usize) -> Self {
        Self {
            objects: vec![None; objects],
            slots: vec![Slot::default(); slots],
            wanted_bytes: vec![0; objects],
            is_ready: vec![false; objects],
        }
    }

    /// Creates the tables of a plan whose tree was built by another host.
    pub fn with_handles(plan: &ReplayPlan, handles: &[KnownHandle]) -> Self {
        let mut files = Self::new(plan.objects as usize + 1, plan.slots as usize);
        for KnownHandle { object, handle } in handles {
            if let Some(place) = files.objects.get_mut(*object as usize) {
                *place = Some((*handle).into());
            }
        }
        files
    }

    pub fn handles(&self) -> Vec<KnownHandle> {
        self.objects
            .iter()
            .enumerate()
            .filter_map(|(object, file)| {
                file.map(|file| KnownHandle { object: object as u32, handle: file.handle })
            })
            .collect()
    }

    /// Saves the handle returned by a step, unless that of its object is known. Returns true if it
    /// was saved.
    pub(crate) fn note_handle(&mut self, step: &Step, file: File) -> bool {
        let Some(object) = self.objects.get_mut(step.result as usize) else { return false };
        let is_new = object.is_none() || step.action.makes_object();
        if is_new {
            *object = Some(file);
        }
        is_new
    }
}

/// The tables from which operations are built.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OperationInputs<'o> {
    /// Handles, opens and listings.
    pub files: &'o Files,
    /// Text of each name.
    pub names: &'o [String],
    /// Data for payloads and values.
    pub pool: &'o [u8],
}

impl<'o> OperationInputs<'o> {
    fn handle(&self, object: u32) -> Option<&'o File> {
        self.files.objects.get(object as usize)?.as_ref()
    }

    fn name(&self, name: u32) -> Option<&'o [u8]> {
        Some(self.names.get(name as usize)?.as_bytes())
    }
}

/// Returns the operation of a step, or `None` if it needs an unknown handle.
pub(crate) fn operation_of<'o>(
    step: &Step,
    number: u32,
    material: &OperationInputs<'o>,
) -> Option<Operation<'o>> {
    if step.action == Action::Null {
        return Some(Operation::Null);
    }
    let file = material.handle(step.file)?;
    let slot = material.files.slots.get(step.slot as usize);
    // Use this client's open for data, if there is one.
    let open = slot.and_then(|slot| slot.open.as_ref()).unwrap_or(file);
    Some(match step.action {
        Action::Getattr => Operation::Getattr { file },
        Action::SetSize(size) => {
            let attributes = Sattr { size: Some(size), ..Sattr::default() };
            Operation::Setattr { file: open, attributes }
        }
        Action::SetTime => {
            let attributes = Sattr { mtime: SetTime::Server, ..Sattr::default() };
            Operation::Setattr { file, attributes }
        }
        Action::Access(access) => Operation::Access { file, access },
        Action::Readlink => Operation::Readlink { file },
        Action::Read { offset, count } => Operation::Read { file: open, offset, count },
        Action::Write { offset, count, stable } => {
            let start = number as usize * 512 % POOL_SPARE_BYTES;
            let data = Data::Pool(PayloadRange { start, len: count });
            Operation::Write { file: open, offset, stable, data }
        }
        Action::Readdir { bytes, is_first } => {
            Operation::Readdir { dir: file, cursor: cursor_of(slot, is_first), bytes }
        }
        Action::ReaddirPlus { bytes, is_first } => {
            Operation::ReaddirPlus { dir: file, cursor: cursor_of(slot, is_first), bytes }
        }
        Action::Fsstat => Operation::Fsstat { root: file },
        Action::Fsinfo => Operation::Fsinfo { root: file },
        Action::Pathconf => Operation::Pathconf { file },
        Action::Commit { offset, count } => Operation::Commit { file, offset, count },
        Action::OpenHandle(access) => Operation::OpenHandle { file, access },
        Action::Close => Operation::Close { file: slot?.open.as_ref()? },
        Action::Allocate { offset, len } => Operation::Allocate { file: open, offset, len },
        Action::Deallocate { offset, len } => Operation::Deallocate { file: open, offset, len },
        Action::Seek { offset } => Operation::Seek { file: open, offset, what: SeekWhat::Data },
        Action::ReadPlus { offset, count } => Operation::ReadPlus { file: open, offset, count },
        Action::Copy { from_offset, to_offset, len } => {
            let from = material.handle(step.other)?;
            Operation::Copy { from, from_offset, to: open, to_offset, len, synchronous: true }
        }
        Action::Clone { from_offset, to_offset, len } => {
            let from = material.handle(step.other)?;
            Operation::Clone { from, from_offset, to: open, to_offset, len }
        }
        Action::Listxattrs { bytes } => Operation::Listxattrs { file, cookie: 0, bytes },
        _ => return named_operation(step, number, file, material),
    })
}

/// Returns an operation on a name in a directory, or on a named attribute.
fn named_operation<'o>(
    step: &Step,
    number: u32,
    dir: &'o File,
    material: &OperationInputs<'o>,
) -> Option<Operation<'o>> {
    let name = material.name(step.name)?;
    Some(match step.action {
        Action::Lookup => Operation::Lookup { dir, name },
        Action::Open(access) => Operation::Open { dir, name, access },
        Action::Create { how, size } => {
            let attributes = Sattr { size, ..Sattr::with_mode(0o644) };
            let how = match how {
                Creation::Unchecked => CreateHow::Unchecked(attributes),
                Creation::Guarded => CreateHow::Guarded(attributes),
                Creation::Exclusive => {
                    CreateHow::Exclusive(Verifier((u64::from(number) + 1).to_be_bytes()))
                }
            };
            Operation::Create { dir, name, how }
        }
        Action::Mkdir => Operation::Mkdir { dir, name, attributes: Sattr::with_mode(0o755) },
        Action::Symlink { target_bytes } => {
            let target = &LINK_TARGET[..(target_bytes as usize).min(LINK_TARGET.len())];
            Operation::Symlink { dir, name, attributes: Sattr::with_mode(0o777), target }
        }
        Action::Mknod => {
            Operation::Mknod { dir, name, what: MknodWhat::Fifo(Sattr::with_mode(0o644)) }
        }
        Action::Remove => Operation::Remove { dir, name },
        Action::Rmdir => Operation::Rmdir { dir, name },
        Action::Rename => Operation::Rename {
            from_dir: dir,
            from: name,
            to_dir: material.handle(step.other)?,
            to: material.name(step.other_name)?,
        },
        Action::Link => Operation::Link { file: dir, dir: material.handle(step.other)?, name },
        Action::Getxattr => Operation::Getxattr { file: dir, name },
        Action::Setxattr { value_bytes } => {
            let value = &material.pool[..(value_bytes as usize).min(material.pool.len())];
            Operation::Setxattr { file: dir, option: XattrOption::Either, name, value }
        }
        Action::Removexattr => Operation::Removexattr { file: dir, name },
        _ => return None,
    })
}

fn cursor_of(slot: Option<&Slot>, is_first: bool) -> Cursor {
    match slot {
        Some(slot) if !is_first => slot.cursor,
        _ => Cursor::default(),
    }
}

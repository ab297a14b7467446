//! Operations on names: LOOKUP, LOOKUPP, CREATE, LINK, REMOVE and RENAME.
//!
//! Names are bytes: only names that no directory can contain are refused.
//!
//! **Source:** RFC 7530 sections 16.4, 16.9, 16.13, 16.14, 16.26 and 16.27.

use nfs_proto::Status;
use nfs_proto::nfs4::{ChangeInfo, CreateKind, Fattr, OpOk};

use super::attributes::{set_at_creation, to_set};
use super::{Outcome, Run};
use crate::fs::{Caller, Change, DirectoryName, FileKind, FsError, InodeId, NewObject};
use crate::service::Service;

impl Service {
    pub(super) fn op_lookup(&mut self, name: &[u8], run: &mut Run<'_>) -> Outcome {
        let found = self.find_name4(run.current()?, name, &run.context.caller)?;
        run.set_current(found);
        run.succeed(&OpOk::Lookup)
    }

    pub(super) fn op_lookupp(&mut self, run: &mut Run<'_>) -> Outcome {
        let id = run.current()?;
        let found = self.shared.fs.lookup(id, b"..", &run.context.caller);
        let found = found.map_err(|error| self.parent_status(error, id, run.minor))?;
        if id == self.shared.fs.root() {
            return Err(Status::NoEnt.into());
        }
        run.set_current(found.id);
        run.succeed(&OpOk::Lookupp)
    }

    pub(super) fn op_link(&mut self, name: &[u8], run: &mut Run<'_>) -> Outcome {
        let file = run.saved()?;
        let directory = run.current()?;
        check_name(name)?;
        self.recall_for(file, run)?;
        let linked = self.shared.fs.link(file, directory, name, &run.context);
        let (_, change) = linked.map_err(|error| self.link_status(error, file))?;
        run.succeed(&OpOk::Link { change: change_info(&change) })
    }

    /// Removes any object by name: v4 has one operation for files and directories.
    pub(super) fn op_remove(&mut self, name: &[u8], run: &mut Run<'_>) -> Outcome {
        let directory = run.current()?;
        check_name(name)?;
        self.recall_for_name(directory, name, run)?;
        let removed = match self.shared.fs.remove(directory, name, &run.context) {
            Err(FsError::IsDirectory) => {
                self.shared.fs.remove_directory(directory, name, &run.context)
            }
            other => other,
        };
        let change = removed?;
        run.succeed(&OpOk::Remove { change: change_info(&change) })
    }

    pub(super) fn op_rename(&mut self, from: &[u8], to: &[u8], run: &mut Run<'_>) -> Outcome {
        let from_directory = run.saved()?;
        let to_directory = run.current()?;
        check_name(from)?;
        check_name(to)?;
        self.recall_for_name(from_directory, from, run)?;
        self.recall_for_name(to_directory, to, run)?;
        let from = DirectoryName::new(from_directory, from);
        let to = DirectoryName::new(to_directory, to);
        let renamed = self.shared.fs.rename(from, to, &run.context).map_err(rename_status)?;
        run.succeed(&OpOk::Rename {
            from: change_info(&renamed.from),
            to: change_info(&renamed.to),
        })
    }

    /// Finds a name in a directory.
    pub(super) fn find_name4(
        &self,
        directory: InodeId,
        name: &[u8],
        caller: &Caller,
    ) -> Result<InodeId, Status> {
        let checked = check_name(name);
        if checked.is_err() {
            let found = self.shared.fs.attributes(directory)?;
            if found.kind == FileKind::Directory {
                checked?;
            }
        }
        match self.shared.fs.lookup(directory, name, caller) {
            Ok(found) => Ok(found.id),
            Err(FsError::NotDirectory) => Err(self.not_a_directory(directory)),
            Err(error) => Err(error.into()),
        }
    }

    /// Returns the status if there is no parent. **Source:** RFC 8881 section 18.14.3.
    fn parent_status(&self, error: FsError, id: InodeId, minor: u32) -> Status {
        match error {
            FsError::NotDirectory if minor > 0 => self.not_a_directory(id),
            other => other.into(),
        }
    }

    /// Returns the status for a lookup in an object that is not a directory.
    fn not_a_directory(&self, id: InodeId) -> Status {
        match self.shared.fs.attributes(id) {
            Ok(found) if found.kind == FileKind::Symlink => Status::Symlink,
            _ => Status::NotDir,
        }
    }

    pub(super) fn op_create(
        &mut self,
        kind: CreateKind<'_>,
        name: &[u8],
        attributes: &Fattr<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let directory = run.current()?;
        let object = match kind {
            CreateKind::Directory => NewObject::Directory,
            CreateKind::Symlink(target) => NewObject::Symlink(target),
            CreateKind::Block(it) => NewObject::Node(FileKind::BlockDevice, (it.major, it.minor)),
            CreateKind::Character(it) => {
                NewObject::Node(FileKind::CharacterDevice, (it.major, it.minor))
            }
            CreateKind::Socket => NewObject::Node(FileKind::Socket, (0, 0)),
            CreateKind::Fifo => NewObject::Node(FileKind::Fifo, (0, 0)),
            CreateKind::Other(_) => return Err(Status::BadType.into()),
        };
        check_name(name)?;
        let (set, mask) = to_set(run.minor, attributes)?;
        if set.size.is_some() {
            return Err(Status::Inval.into());
        }
        let made = self.shared.fs.make(directory, name, object, &set, &run.context);
        let created = made?;
        run.set_current(created.id);
        run.succeed(&OpOk::Create {
            change: change_info(&created.directory),
            set: set_at_creation(mask, &run.context.caller),
        })
    }

    fn link_status(&self, error: FsError, file: InodeId) -> Status {
        match (error, self.shared.fs.attributes(file)) {
            (FsError::Invalid, Ok(found)) if found.kind == FileKind::Directory => Status::IsDir,
            _ => error.into(),
        }
    }
}

/// A target that can't be replaced counts as existing. **Source:** RFC 7530 section 16.27.5.
fn rename_status(error: FsError) -> Status {
    match error {
        FsError::IsDirectory => Status::Exist,
        other => other.into(),
    }
}

/// Refuses names that no directory can contain, or that have a special meaning.
///
/// # Errors
/// `Inval`, `NameTooLong`, `BadName` or `BadChar`.
pub(super) fn check_name(name: &[u8]) -> Result<(), Status> {
    match name {
        b"" => Err(Status::Inval),
        b"." | b".." => Err(Status::BadName),
        _ if name.len() > crate::fs::NAME_BYTES_MAX => Err(Status::NameTooLong),
        _ if name.iter().any(|byte| matches!(byte, b'/' | 0)) => Err(Status::BadChar),
        _ => Ok(()),
    }
}

/// Converts the change of a directory to v4's encoding.
pub(super) fn change_info(change: &Change) -> ChangeInfo {
    ChangeInfo { atomic: true, before: change.before.ctime.0, after: change.after.ctime.0 }
}

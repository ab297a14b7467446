//! The procedures of NFS v3 by number. **Source:** RFC 1813 section 3.3.
//!
//! [`Procedure::number`] indexes tables of counters.

use crate::procedures::procedures;

procedures! { "A procedure of NFS v3; its discriminant is the number on the wire.":
    /// Does nothing at all.
    Null = 0, "NULL";
    /// Gets the attributes of a file.
    Getattr = 1, "GETATTR";
    /// Sets attributes of a file.
    Setattr = 2, "SETATTR", ONCE_ONLY;
    /// Finds a name in a directory.
    Lookup = 3, "LOOKUP";
    /// Checks permissions of the caller.
    Access = 4, "ACCESS";
    /// Reads a symbolic link.
    Readlink = 5, "READLINK";
    /// Reads data of a file.
    Read = 6, "READ";
    /// Writes data to a file.
    Write = 7, "WRITE";
    /// Creates a file.
    Create = 8, "CREATE", ONCE_ONLY;
    /// Creates a directory.
    Mkdir = 9, "MKDIR", ONCE_ONLY;
    /// Creates a symbolic link.
    Symlink = 10, "SYMLINK", ONCE_ONLY;
    /// Creates a special file.
    Mknod = 11, "MKNOD", ONCE_ONLY;
    /// Removes a file.
    Remove = 12, "REMOVE", ONCE_ONLY;
    /// Removes a directory.
    Rmdir = 13, "RMDIR", ONCE_ONLY;
    /// Renames an entry.
    Rename = 14, "RENAME", ONCE_ONLY;
    /// Adds a name to a file.
    Link = 15, "LINK", ONCE_ONLY;
    /// Lists a directory.
    Readdir = 16, "READDIR";
    /// Lists a directory with attributes and handles.
    Readdirplus = 17, "READDIRPLUS";
    /// Gets the space of the file system.
    Fsstat = 18, "FSSTAT";
    /// Gets the file system's limits.
    Fsinfo = 19, "FSINFO";
    /// Gets POSIX limits.
    Pathconf = 20, "PATHCONF";
    /// Makes earlier writes durable.
    Commit = 21, "COMMIT";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_positions() {
        for (number, procedure) in Procedure::ALL.iter().enumerate() {
            assert_eq!(procedure.number() as usize, number);
            assert_eq!(Procedure::from_number(number as u32), Some(*procedure));
        }
        assert_eq!(Procedure::from_number(22), None);
        assert_eq!(Procedure::Commit.to_string(), "COMMIT");
    }

    #[test]
    fn caches_only_non_idempotent_replies() {
        let kept = Procedure::ALL.iter().filter(|it| it.is_once_only()).count();
        assert_eq!(kept, 9);
        assert!(Procedure::Remove.is_once_only() && !Procedure::Write.is_once_only());
    }
}

//! The procedures of NFS v2 by number. **Source:** RFC 1094 section 2.2.
//!
//! [`Procedure::number`] indexes tables of counters.

use crate::procedures::procedures;

procedures! { "A procedure of NFS v2; its discriminant is the number on the wire.":
    /// Does nothing at all.
    Null = 0, "NULL";
    /// Gets the attributes of a file.
    Getattr = 1, "GETATTR";
    /// Sets attributes of a file.
    Setattr = 2, "SETATTR", ONCE_ONLY;
    /// Obsolete; does nothing.
    Root = 3, "ROOT";
    /// Finds a name in a directory.
    Lookup = 4, "LOOKUP";
    /// Reads a symbolic link.
    Readlink = 5, "READLINK";
    /// Reads data of a file.
    Read = 6, "READ";
    /// Never defined; does nothing.
    Writecache = 7, "WRITECACHE";
    /// Writes data to a file.
    Write = 8, "WRITE";
    /// Creates a file.
    Create = 9, "CREATE", ONCE_ONLY;
    /// Removes a file.
    Remove = 10, "REMOVE", ONCE_ONLY;
    /// Renames an entry.
    Rename = 11, "RENAME", ONCE_ONLY;
    /// Adds a name to a file.
    Link = 12, "LINK", ONCE_ONLY;
    /// Creates a symbolic link.
    Symlink = 13, "SYMLINK", ONCE_ONLY;
    /// Creates a directory.
    Mkdir = 14, "MKDIR", ONCE_ONLY;
    /// Removes a directory.
    Rmdir = 15, "RMDIR", ONCE_ONLY;
    /// Lists a directory.
    Readdir = 16, "READDIR";
    /// Gets the space of the file system.
    Statfs = 17, "STATFS";
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
        assert_eq!(Procedure::from_number(18), None);
        assert_eq!(Procedure::Statfs.to_string(), "STATFS");
    }

    #[test]
    fn caches_only_non_idempotent_replies() {
        let kept = Procedure::ALL.iter().filter(|it| it.is_once_only()).count();
        assert_eq!(kept, 8);
        assert!(Procedure::Remove.is_once_only() && !Procedure::Write.is_once_only());
    }
}

//! The procedures of NFS v2 by number. **Source:** RFC 1094 section 2.2.
//!
//! [`Procedure`] is what a call asks for; it indexes tables of counters by [`Procedure::number`].

use crate::procedures::procedures;

procedures! { "A procedure of NFS v2; its discriminant is the number on the wire.":
    /// Does nothing.
    Null = 0, "NULL";
    /// Gets attributes.
    Getattr = 1, "GETATTR";
    /// Sets attributes.
    Setattr = 2, "SETATTR";
    /// Obsolete; does nothing.
    Root = 3, "ROOT";
    /// Finds a name in a directory.
    Lookup = 4, "LOOKUP";
    /// Reads a symbolic link.
    Readlink = 5, "READLINK";
    /// Reads data.
    Read = 6, "READ";
    /// Never defined; does nothing.
    Writecache = 7, "WRITECACHE";
    /// Writes data.
    Write = 8, "WRITE";
    /// Creates a file.
    Create = 9, "CREATE";
    /// Removes a file.
    Remove = 10, "REMOVE";
    /// Renames an entry.
    Rename = 11, "RENAME";
    /// Adds a name to a file.
    Link = 12, "LINK";
    /// Creates a symbolic link.
    Symlink = 13, "SYMLINK";
    /// Creates a directory.
    Mkdir = 14, "MKDIR";
    /// Removes a directory.
    Rmdir = 15, "RMDIR";
    /// Lists a directory.
    Readdir = 16, "READDIR";
    /// Gets the file system's fill state.
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
}

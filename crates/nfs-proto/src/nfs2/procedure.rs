//! The procedures of NFS v2 by number. **Source:** RFC 1094 section 2.2.
//!
//! [`Procedure`] is what a call asks for; it indexes tables of counters by [`Procedure::number`].

/// A procedure of NFS v2; its discriminant is the number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Procedure {
    /// Does nothing.
    Null = 0,
    /// Gets attributes.
    Getattr = 1,
    /// Sets attributes.
    Setattr = 2,
    /// Obsolete; does nothing.
    Root = 3,
    /// Finds a name in a directory.
    Lookup = 4,
    /// Reads a symbolic link.
    Readlink = 5,
    /// Reads data.
    Read = 6,
    /// Never defined; does nothing.
    Writecache = 7,
    /// Writes data.
    Write = 8,
    /// Creates a file.
    Create = 9,
    /// Removes a file.
    Remove = 10,
    /// Renames an entry.
    Rename = 11,
    /// Adds a name to a file.
    Link = 12,
    /// Creates a symbolic link.
    Symlink = 13,
    /// Creates a directory.
    Mkdir = 14,
    /// Removes a directory.
    Rmdir = 15,
    /// Lists a directory.
    Readdir = 16,
    /// Gets the file system's fill state.
    Statfs = 17,
}

impl Procedure {
    /// All procedures, in the order of their numbers.
    pub const ALL: [Self; 18] = [
        Self::Null,
        Self::Getattr,
        Self::Setattr,
        Self::Root,
        Self::Lookup,
        Self::Readlink,
        Self::Read,
        Self::Writecache,
        Self::Write,
        Self::Create,
        Self::Remove,
        Self::Rename,
        Self::Link,
        Self::Symlink,
        Self::Mkdir,
        Self::Rmdir,
        Self::Readdir,
        Self::Statfs,
    ];

    /// Returns the procedure of this number, if there is one.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns the number on the wire, 0 to 17.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns the name in capitals, as nfsstat prints it.
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 18] = [
            "NULL",
            "GETATTR",
            "SETATTR",
            "ROOT",
            "LOOKUP",
            "READLINK",
            "READ",
            "WRITECACHE",
            "WRITE",
            "CREATE",
            "REMOVE",
            "RENAME",
            "LINK",
            "SYMLINK",
            "MKDIR",
            "RMDIR",
            "READDIR",
            "STATFS",
        ];
        NAMES[self as usize]
    }
}

impl std::fmt::Display for Procedure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
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

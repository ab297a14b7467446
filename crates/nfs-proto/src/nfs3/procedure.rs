//! The procedures of NFS v3 by number. **Source:** RFC 1813 section 3.3.
//!
//! [`Procedure`] is what a call asks for; it indexes tables of counters by [`Procedure::number`].

/// A procedure of NFS v3; its discriminant is the number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Procedure {
    /// Does nothing.
    Null = 0,
    /// Gets attributes.
    Getattr = 1,
    /// Sets attributes.
    Setattr = 2,
    /// Finds a name in a directory.
    Lookup = 3,
    /// Checks permissions.
    Access = 4,
    /// Reads a symbolic link.
    Readlink = 5,
    /// Reads data.
    Read = 6,
    /// Writes data.
    Write = 7,
    /// Creates a file.
    Create = 8,
    /// Creates a directory.
    Mkdir = 9,
    /// Creates a symbolic link.
    Symlink = 10,
    /// Creates a special file.
    Mknod = 11,
    /// Removes a file.
    Remove = 12,
    /// Removes a directory.
    Rmdir = 13,
    /// Renames an entry.
    Rename = 14,
    /// Adds a name to a file.
    Link = 15,
    /// Lists a directory.
    Readdir = 16,
    /// Lists a directory with attributes and handles.
    Readdirplus = 17,
    /// Gets the file system's fill state.
    Fsstat = 18,
    /// Gets the file system's limits.
    Fsinfo = 19,
    /// Gets POSIX limits.
    Pathconf = 20,
    /// Makes earlier writes durable.
    Commit = 21,
}

impl Procedure {
    /// All procedures, in the order of their numbers.
    pub const ALL: [Self; 22] = [
        Self::Null,
        Self::Getattr,
        Self::Setattr,
        Self::Lookup,
        Self::Access,
        Self::Readlink,
        Self::Read,
        Self::Write,
        Self::Create,
        Self::Mkdir,
        Self::Symlink,
        Self::Mknod,
        Self::Remove,
        Self::Rmdir,
        Self::Rename,
        Self::Link,
        Self::Readdir,
        Self::Readdirplus,
        Self::Fsstat,
        Self::Fsinfo,
        Self::Pathconf,
        Self::Commit,
    ];

    /// Returns the procedure of this number, if there is one.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL.get(number as usize).copied()
    }

    /// Returns the number on the wire, 0 to 21.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns the name in capitals, as the RFC and nfsstat print it.
    pub const fn name(self) -> &'static str {
        const NAMES: [&str; 22] = [
            "NULL",
            "GETATTR",
            "SETATTR",
            "LOOKUP",
            "ACCESS",
            "READLINK",
            "READ",
            "WRITE",
            "CREATE",
            "MKDIR",
            "SYMLINK",
            "MKNOD",
            "REMOVE",
            "RMDIR",
            "RENAME",
            "LINK",
            "READDIR",
            "READDIRPLUS",
            "FSSTAT",
            "FSINFO",
            "PATHCONF",
            "COMMIT",
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
        assert_eq!(Procedure::from_number(22), None);
        assert_eq!(Procedure::Commit.to_string(), "COMMIT");
    }
}

//! The operations of NFS v4 by number. **Source:** RFC 7531, RFC 5662, RFC 7863, RFC 8276.
//!
//! A row of the table has the number, first and last minor version, name and traits of an
//! operation. The server bases its decisions about whole operations on it. [`OpCode`] includes all
//! operations that an RFC defines, even those that are not supported here: a server answers them
//! NFS4ERR_NOTSUPP with their own number, and all others OP_ILLEGAL.

/// Changes a file, a directory or the state of a client.
// Traits of an operation, as bits; the last column of the table combines them.
const CHANGES: u8 = 1;
/// Carries the sequence number of an owner in v4.0.
const OWNER_SEQID: u8 = 2;
/// May be the only operation of a compound outside a session.
const SESSIONLESS: u8 = 4;
/// Must not be executed twice if a call of v4.0 is sent again.
const ONCE_ONLY: u8 = 8;

macro_rules! opcodes {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $first:literal..=$last:literal,
        $name:literal $(, $($trait:ident)|+)?;)*) => {
        /// An operation of version 4.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum OpCode {
            $($(#[$doc])* $variant = $number,)*
        }

        impl OpCode {
            /// All of the operations.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the operation of this number.
            pub const fn from_number(number: u32) -> Option<Self> {
                match number {
                    $($number => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Returns the name in the RFC.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// Returns true if this minor version defines the operation; v4.1 defines some
            /// operations of v4.0 only to be answered NFS4ERR_NOTSUPP, see
            /// [`OpCode::is_obsolete_in`].
            pub const fn is_in_minor(self, minor: u32) -> bool {
                match self {
                    $(Self::$variant => matches!(minor, $first..),)*
                }
            }

            /// Returns true if sessions replaced the operation in this minor version. **Source:**
            /// RFC 8881 section 17, "mandatory to not implement".
            pub const fn is_obsolete_in(self, minor: u32) -> bool {
                match self {
                    $(Self::$variant => !matches!(minor, 0..=$last),)*
                }
            }

            /// Returns the traits in the table's last column.
            const fn traits(self) -> u8 {
                match self {
                    $(Self::$variant => 0 $($(| $trait)+)?,)*
                }
            }
        }
    };
}

opcodes! {
    /// Requests access rights.
    Access = 3, 0..=2, "ACCESS";
    /// Closes a file.
    Close = 4, 0..=2, "CLOSE", CHANGES | OWNER_SEQID | ONCE_ONLY;
    /// Makes written data durable.
    Commit = 5, 0..=2, "COMMIT";
    /// Creates an object that is not a regular file.
    Create = 6, 0..=2, "CREATE", CHANGES | ONCE_ONLY;
    /// Gives up delegations that wait for recovery.
    Delegpurge = 7, 0..=2, "DELEGPURGE";
    /// Returns a delegation.
    Delegreturn = 8, 0..=2, "DELEGRETURN";
    /// Gets the attributes of a file.
    Getattr = 9, 0..=2, "GETATTR";
    /// Gets the current handle.
    Getfh = 10, 0..=2, "GETFH";
    /// Adds a name to a file.
    Link = 11, 0..=2, "LINK", CHANGES | ONCE_ONLY;
    /// Locks a range.
    Lock = 12, 0..=2, "LOCK", CHANGES | OWNER_SEQID | ONCE_ONLY;
    /// Tests whether a lock would be granted.
    Lockt = 13, 0..=2, "LOCKT";
    /// Unlocks a range.
    Locku = 14, 0..=2, "LOCKU", CHANGES | OWNER_SEQID | ONCE_ONLY;
    /// Finds a name in a directory.
    Lookup = 15, 0..=2, "LOOKUP";
    /// Finds the parent directory.
    Lookupp = 16, 0..=2, "LOOKUPP";
    /// Continues if attributes differ.
    Nverify = 17, 0..=2, "NVERIFY";
    /// Opens a regular file.
    Open = 18, 0..=2, "OPEN", CHANGES | OWNER_SEQID | ONCE_ONLY;
    /// Finds the named attributes.
    Openattr = 19, 0..=2, "OPENATTR", CHANGES | ONCE_ONLY;
    /// Confirms an owner's first open.
    OpenConfirm = 20, 0..=0, "OPEN_CONFIRM", OWNER_SEQID | ONCE_ONLY;
    /// Gives up part of an open.
    OpenDowngrade = 21, 0..=2, "OPEN_DOWNGRADE", CHANGES | OWNER_SEQID | ONCE_ONLY;
    /// Sets the current handle.
    Putfh = 22, 0..=2, "PUTFH";
    /// Sets the current handle to the public one.
    Putpubfh = 23, 0..=2, "PUTPUBFH";
    /// Sets the current handle to the root.
    Putrootfh = 24, 0..=2, "PUTROOTFH";
    /// Reads from a file.
    Read = 25, 0..=2, "READ";
    /// Lists a directory.
    Readdir = 26, 0..=2, "READDIR";
    /// Reads a symbolic link.
    Readlink = 27, 0..=2, "READLINK";
    /// Removes a name.
    Remove = 28, 0..=2, "REMOVE", CHANGES | ONCE_ONLY;
    /// Renames an entry.
    Rename = 29, 0..=2, "RENAME", CHANGES | ONCE_ONLY;
    /// Renews a lease.
    Renew = 30, 0..=0, "RENEW";
    /// Makes the saved handle current.
    Restorefh = 31, 0..=2, "RESTOREFH";
    /// Saves the current handle.
    Savefh = 32, 0..=2, "SAVEFH";
    /// Requests security flavors.
    Secinfo = 33, 0..=2, "SECINFO";
    /// Sets attributes of a file.
    Setattr = 34, 0..=2, "SETATTR", CHANGES | ONCE_ONLY;
    /// Registers a client.
    Setclientid = 35, 0..=0, "SETCLIENTID", ONCE_ONLY;
    /// Confirms a client.
    SetclientidConfirm = 36, 0..=0, "SETCLIENTID_CONFIRM", ONCE_ONLY;
    /// Continues if attributes are the same.
    Verify = 37, 0..=2, "VERIFY";
    /// Writes to a file.
    Write = 38, 0..=2, "WRITE", CHANGES;
    /// Forgets a lock owner.
    ReleaseLockowner = 39, 0..=0, "RELEASE_LOCKOWNER";
    /// Changes the backchannel's security.
    BackchannelCtl = 40, 1..=2, "BACKCHANNEL_CTL";
    /// Binds a connection to a session.
    BindConnToSession = 41, 1..=2, "BIND_CONN_TO_SESSION", SESSIONLESS;
    /// Registers a client.
    ExchangeId = 42, 1..=2, "EXCHANGE_ID", SESSIONLESS;
    /// Creates a session.
    CreateSession = 43, 1..=2, "CREATE_SESSION", SESSIONLESS;
    /// Destroys a session.
    DestroySession = 44, 1..=2, "DESTROY_SESSION", SESSIONLESS;
    /// Frees a stateid without locks.
    FreeStateid = 45, 1..=2, "FREE_STATEID";
    /// Requests a directory delegation.
    GetDirDelegation = 46, 1..=2, "GET_DIR_DELEGATION", CHANGES;
    /// Gets the address of a pNFS device.
    Getdeviceinfo = 47, 1..=2, "GETDEVICEINFO";
    /// Lists pNFS devices.
    Getdevicelist = 48, 1..=2, "GETDEVICELIST";
    /// Commits a layout.
    Layoutcommit = 49, 1..=2, "LAYOUTCOMMIT", CHANGES;
    /// Gets a layout.
    Layoutget = 50, 1..=2, "LAYOUTGET", CHANGES;
    /// Returns a layout.
    Layoutreturn = 51, 1..=2, "LAYOUTRETURN", CHANGES;
    /// Requests the security flavors of the current object.
    SecinfoNoName = 52, 1..=2, "SECINFO_NO_NAME";
    /// Starts every compound of a session.
    Sequence = 53, 1..=2, "SEQUENCE";
    /// Sets a secret.
    SetSsv = 54, 1..=2, "SET_SSV";
    /// Tests whether stateids are valid.
    TestStateid = 55, 1..=2, "TEST_STATEID";
    /// Requests a delegation.
    WantDelegation = 56, 1..=2, "WANT_DELEGATION", CHANGES;
    /// Destroys a client id.
    DestroyClientid = 57, 1..=2, "DESTROY_CLIENTID", SESSIONLESS;
    /// Reports that nothing is left to reclaim.
    ReclaimComplete = 58, 1..=2, "RECLAIM_COMPLETE";
    /// Reserves space for a file.
    Allocate = 59, 2..=2, "ALLOCATE", CHANGES;
    /// Copies a range.
    Copy = 60, 2..=2, "COPY", CHANGES;
    /// Prepares a copy between servers.
    CopyNotify = 61, 2..=2, "COPY_NOTIFY";
    /// Punches a hole.
    Deallocate = 62, 2..=2, "DEALLOCATE", CHANGES;
    /// Announces how a range will be used.
    IoAdvise = 63, 2..=2, "IO_ADVISE";
    /// Reports a layout's error.
    Layouterror = 64, 2..=2, "LAYOUTERROR";
    /// Reports a layout's use.
    Layoutstats = 65, 2..=2, "LAYOUTSTATS";
    /// Cancels a copy.
    OffloadCancel = 66, 2..=2, "OFFLOAD_CANCEL";
    /// Queries the progress of a copy.
    OffloadStatus = 67, 2..=2, "OFFLOAD_STATUS";
    /// Reads data and holes.
    ReadPlus = 68, 2..=2, "READ_PLUS";
    /// Finds the next data or hole.
    Seek = 69, 2..=2, "SEEK";
    /// Writes a pattern.
    WriteSame = 70, 2..=2, "WRITE_SAME", CHANGES;
    /// Shares the blocks of a range.
    Clone = 71, 2..=2, "CLONE", CHANGES;
    /// Gets an extended attribute.
    Getxattr = 72, 2..=2, "GETXATTR";
    /// Sets an extended attribute.
    Setxattr = 73, 2..=2, "SETXATTR", CHANGES;
    /// Lists extended attributes.
    Listxattrs = 74, 2..=2, "LISTXATTRS";
    /// Removes an extended attribute.
    Removexattr = 75, 2..=2, "REMOVEXATTR", CHANGES;
    /// Used in replies for a number that is not an operation.
    Illegal = 10044, 0..=2, "ILLEGAL", SESSIONLESS;
}

impl OpCode {
    /// Returns the number on the wire.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns true if the operation changes something, so that a server must make sure that its
    /// result fits into the reply before executing it.
    pub const fn changes(self) -> bool {
        self.traits() & CHANGES != 0
    }

    /// Returns true if v4.0 numbers the calls of this operation by owner, so that a retransmission
    /// gets the first one's result. **Source:** RFC 7530 section 9.1.7.
    pub const fn has_owner_seqid(self) -> bool {
        self.traits() & OWNER_SEQID != 0
    }

    /// Returns true if a v4.0 server has to keep the reply to a call with this operation for a
    /// retransmission. WRITE is not among them: writing the same data at the same offset changes
    /// nothing.
    pub const fn is_once_only(self) -> bool {
        self.traits() & ONCE_ONLY != 0
    }

    /// Returns true if the operation may be the only one of a compound without SEQUENCE, from v4.1
    /// on. **Source:** RFC 8881 section 2.10.6.1.
    pub const fn is_sessionless(self) -> bool {
        self.traits() & SESSIONLESS != 0
    }

    /// Returns the operation of this number, if the minor version defines it.
    pub const fn in_minor(number: u32, minor: u32) -> Option<Self> {
        match Self::from_number(number) {
            Some(code) if code.is_in_minor(minor) => Some(code),
            _ => None,
        }
    }
}

impl std::fmt::Display for OpCode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_are_those_of_the_rfcs() {
        let count = |has: fn(OpCode) -> bool| OpCode::ALL.iter().filter(|code| has(**code)).count();
        assert_eq!(count(OpCode::changes), 24);
        assert_eq!(count(OpCode::has_owner_seqid), 6);
        assert_eq!(count(OpCode::is_sessionless), 6);
        assert_eq!(count(OpCode::is_once_only), 14);
        assert!(OpCode::Write.changes() && !OpCode::Read.changes());
        assert!(OpCode::OpenConfirm.has_owner_seqid() && !OpCode::Lockt.has_owner_seqid());
        assert!(OpCode::ExchangeId.is_sessionless() && !OpCode::ReclaimComplete.is_sessionless());
    }

    #[test]
    fn each_minor_version_has_its_operations() {
        let count = |minor| (0..100).filter_map(|n| OpCode::in_minor(n, minor)).count();
        assert_eq!([count(0), count(1), count(2)], [37, 56, 73]);
        let obsolete = |code: &&OpCode| code.is_obsolete_in(1);
        assert_eq!(OpCode::ALL.iter().filter(obsolete).count(), 5);
        assert_eq!(OpCode::in_minor(53, 0), None);
        for code in OpCode::ALL {
            assert_eq!(OpCode::from_number(code.number()), Some(*code));
        }
    }
}

//! The status at the start of replies of all NFS versions.
//!
//! The versions number their errors alike: numbers of v2 and v3 are kept or left unused by v4. So
//! [`Status`] is one type for all, and only its name has the prefix of the version in use. It keeps
//! unknown numbers, so that a reply of a newer or broken server is counted under its own number and
//! not lost. **Source:** RFC 1094 section 2.3.1, RFC 1813 section 2.6, RFC 5662, RFC 7863, RFC
//! 8276.

use crate::error::{DecodeError, RpcError};
use crate::version::ProtocolVersion;
use crate::wire::Wire;
use crate::xdr::{Reader, Writer};

macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// The outcome of an operation as reported by the server.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Status {
            $($(#[$doc])* $variant,)*
            /// A number that no RFC defines.
            Other(u32),
        }

        impl Status {
            /// All statuses that an RFC defines.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the status of this number.
            pub const fn from_number(number: u32) -> Self {
                match number {
                    $($number => Self::$variant,)*
                    other => Self::Other(other),
                }
            }

            /// Returns the number on the wire.
            pub const fn number(self) -> u32 {
                match self {
                    $(Self::$variant => $number,)*
                    Self::Other(number) => number,
                }
            }

            const fn name_in_v2(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("NFSERR_", $name),)*
                    Self::Other(_) => "NFSERR_(unknown)",
                }
            }

            const fn name_in_v3(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("NFS3ERR_", $name),)*
                    Self::Other(_) => "NFS3ERR_(unknown)",
                }
            }

            const fn name_in_v4(self) -> &'static str {
                match self {
                    $(Self::$variant => concat!("NFS4ERR_", $name),)*
                    Self::Other(_) => "NFS4ERR_(unknown)",
                }
            }
        }
    };
}

statuses! {
    /// The call succeeded.
    Ok = 0, "OK";
    /// Not the owner.
    Perm = 1, "PERM";
    /// No such file or directory.
    NoEnt = 2, "NOENT";
    /// A hard device error.
    Io = 5, "IO";
    /// No such device or address.
    NxIo = 6, "NXIO";
    /// Permission denied; v4 spells it ACCESS.
    Access = 13, "ACCES";
    /// The name exists.
    Exist = 17, "EXIST";
    /// A link across devices.
    XDev = 18, "XDEV";
    /// No such device; v2 and v3.
    NoDev = 19, "NODEV";
    /// Not a directory.
    NotDir = 20, "NOTDIR";
    /// Is a directory.
    IsDir = 21, "ISDIR";
    /// An argument is invalid.
    Inval = 22, "INVAL";
    /// The file would grow too large.
    FBig = 27, "FBIG";
    /// No space is left.
    NoSpc = 28, "NOSPC";
    /// The file system is read-only.
    RoFs = 30, "ROFS";
    /// Too many links.
    MLink = 31, "MLINK";
    /// The name is too long.
    NameTooLong = 63, "NAMETOOLONG";
    /// The directory is not empty.
    NotEmpty = 66, "NOTEMPTY";
    /// The quota is exceeded.
    DQuot = 69, "DQUOT";
    /// The handle no longer refers to anything.
    Stale = 70, "STALE";
    /// Too many levels of remote in the path; v3.
    Remote = 71, "REMOTE";
    /// The server's write cache was flushed to disk; v2.
    WFlush = 99, "WFLUSH";
    /// The handle fails the server's checks.
    BadHandle = 10001, "BADHANDLE";
    /// The ctime did not match the guard of SETATTR; v3.
    NotSync = 10002, "NOT_SYNC";
    /// The directory cookie is stale.
    BadCookie = 10003, "BAD_COOKIE";
    /// The server does not support the operation.
    NotSupp = 10004, "NOTSUPP";
    /// A buffer or request is too small.
    TooSmall = 10005, "TOOSMALL";
    /// An error that maps to nothing else.
    ServerFault = 10006, "SERVERFAULT";
    /// The server does not support this type of object.
    BadType = 10007, "BADTYPE";
    /// Try again later; v4 calls it DELAY.
    Jukebox = 10008, "JUKEBOX";
    /// NVERIFY found the attributes equal.
    Same = 10009, "SAME";
    /// The lock is held by another owner.
    Denied = 10010, "DENIED";
    /// The lease has expired.
    Expired = 10011, "EXPIRED";
    /// A lock forbids the operation.
    Locked = 10012, "LOCKED";
    /// The server is in its grace period.
    Grace = 10013, "GRACE";
    /// A volatile handle has expired.
    FhExpired = 10014, "FHEXPIRED";
    /// An open by another owner denies this one.
    ShareDenied = 10015, "SHARE_DENIED";
    /// The security flavor is not allowed here.
    WrongSec = 10016, "WRONGSEC";
    /// The client id belongs to another principal.
    ClidInUse = 10017, "CLID_INUSE";
    /// The server has run out of a resource.
    Resource = 10018, "RESOURCE";
    /// The file system is elsewhere.
    Moved = 10019, "MOVED";
    /// There is no current handle.
    NoFileHandle = 10020, "NOFILEHANDLE";
    /// The minor version is not supported.
    MinorVersMismatch = 10021, "MINOR_VERS_MISMATCH";
    /// The server does not know the client id (any more).
    StaleClientId = 10022, "STALE_CLIENTID";
    /// The stateid is from an earlier instance of the server.
    StaleStateid = 10023, "STALE_STATEID";
    /// The stateid is not the newest of its kind.
    OldStateid = 10024, "OLD_STATEID";
    /// The stateid is not known.
    BadStateid = 10025, "BAD_STATEID";
    /// The sequence number of an owner is wrong.
    BadSeqid = 10026, "BAD_SEQID";
    /// VERIFY found the attributes changed.
    NotSame = 10027, "NOT_SAME";
    /// The server can't split or join lock ranges.
    LockRange = 10028, "LOCK_RANGE";
    /// The object is a symbolic link.
    Symlink = 10029, "SYMLINK";
    /// There is no saved handle.
    RestoreFh = 10030, "RESTOREFH";
    /// A lease was moved with its file system.
    LeaseMoved = 10031, "LEASE_MOVED";
    /// An attribute is not supported.
    AttrNotSupp = 10032, "ATTRNOTSUPP";
    /// A reclaim arrived outside of the grace period.
    NoGrace = 10033, "NO_GRACE";
    /// A reclaim has nothing to reclaim.
    ReclaimBad = 10034, "RECLAIM_BAD";
    /// A reclaim conflicts with another.
    ReclaimConflict = 10035, "RECLAIM_CONFLICT";
    /// The arguments could not be decoded.
    BadXdr = 10036, "BADXDR";
    /// Locks are held.
    LocksHeld = 10037, "LOCKS_HELD";
    /// The open does not allow this access.
    OpenMode = 10038, "OPENMODE";
    /// The owner's name can't be translated.
    BadOwner = 10039, "BADOWNER";
    /// A name has a character that is not supported.
    BadChar = 10040, "BADCHAR";
    /// The name is not allowed.
    BadName = 10041, "BADNAME";
    /// The lock range is not supported.
    BadRange = 10042, "BAD_RANGE";
    /// A lock can't be up- or downgraded.
    LockNotSupp = 10043, "LOCK_NOTSUPP";
    /// The minor version has no such operation.
    OpIllegal = 10044, "OP_ILLEGAL";
    /// The lock would be a deadlock.
    Deadlock = 10045, "DEADLOCK";
    /// The file is open.
    FileOpen = 10046, "FILE_OPEN";
    /// An administrator has revoked the state.
    AdminRevoked = 10047, "ADMIN_REVOKED";
    /// The callback path does not work.
    CbPathDown = 10048, "CB_PATH_DOWN";
    /// The layout's mode forbids this access.
    BadIoMode = 10049, "BADIOMODE";
    /// The layout is not valid.
    BadLayout = 10050, "BADLAYOUT";
    /// The digest of SET_SSV is wrong.
    BadSessionDigest = 10051, "BAD_SESSION_DIGEST";
    /// The session is not known.
    BadSession = 10052, "BADSESSION";
    /// The session has no such slot.
    BadSlot = 10053, "BADSLOT";
    /// RECLAIM_COMPLETE was done already.
    CompleteAlready = 10054, "COMPLETE_ALREADY";
    /// The connection does not belong to the session.
    ConnNotBound = 10055, "CONN_NOT_BOUND_TO_SESSION";
    /// The delegation was requested already.
    DelegAlreadyWanted = 10056, "DELEG_ALREADY_WANTED";
    /// The backchannel has calls outstanding.
    BackChanBusy = 10057, "BACK_CHAN_BUSY";
    /// No layout at the moment.
    LayoutTryLater = 10058, "LAYOUTTRYLATER";
    /// No layout for this file.
    LayoutUnavailable = 10059, "LAYOUTUNAVAILABLE";
    /// The client holds no such layout.
    NoMatchingLayout = 10060, "NOMATCHING_LAYOUT";
    /// A recall is in progress.
    RecallConflict = 10061, "RECALLCONFLICT";
    /// The layout type is not known.
    UnknownLayoutType = 10062, "UNKNOWN_LAYOUTTYPE";
    /// The sequence number of a slot is wrong.
    SeqMisordered = 10063, "SEQ_MISORDERED";
    /// SEQUENCE is not the first operation.
    SequencePos = 10064, "SEQUENCE_POS";
    /// The request exceeds what the session negotiated.
    ReqTooBig = 10065, "REQ_TOO_BIG";
    /// The reply would exceed what the session negotiated.
    RepTooBig = 10066, "REP_TOO_BIG";
    /// The reply would not fit the reply cache.
    RepTooBigToCache = 10067, "REP_TOO_BIG_TO_CACHE";
    /// A retry of a request whose reply was not kept.
    RetryUncachedRep = 10068, "RETRY_UNCACHED_REP";
    /// The compound could not be retried safely.
    UnsafeCompound = 10069, "UNSAFE_COMPOUND";
    /// The compound has more operations than were negotiated.
    TooManyOps = 10070, "TOO_MANY_OPS";
    /// The operation needs a SEQUENCE before it.
    OpNotInSession = 10071, "OP_NOT_IN_SESSION";
    /// The hash algorithm is not supported.
    HashAlgUnsupp = 10072, "HASH_ALG_UNSUPP";
    /// The client id still has sessions or state.
    ClientIdBusy = 10074, "CLIENTID_BUSY";
    /// I/O to a hole of a layout.
    PnfsIoHole = 10075, "PNFS_IO_HOLE";
    /// A retry is not the request it should repeat.
    SeqFalseRetry = 10076, "SEQ_FALSE_RETRY";
    /// The highest slot is out of range.
    BadHighSlot = 10077, "BAD_HIGH_SLOT";
    /// The session was given up by the server.
    DeadSession = 10078, "DEADSESSION";
    /// The encryption algorithm is not supported.
    EncrAlgUnsupp = 10079, "ENCR_ALG_UNSUPP";
    /// I/O without a layout.
    PnfsNoLayout = 10080, "PNFS_NO_LAYOUT";
    /// The operation must be alone in its compound.
    NotOnlyOp = 10081, "NOT_ONLY_OP";
    /// The credential is not the one that is bound.
    WrongCred = 10082, "WRONG_CRED";
    /// The object is of the wrong type.
    WrongType = 10083, "WRONG_TYPE";
    /// No delegation of this directory.
    DirDelegUnavail = 10084, "DIRDELEG_UNAVAIL";
    /// The client refuses the delegation.
    RejectDeleg = 10085, "REJECT_DELEG";
    /// A layout return conflicts.
    ReturnConflict = 10086, "RETURNCONFLICT";
    /// The delegation was revoked.
    DelegRevoked = 10087, "DELEG_REVOKED";
    /// The other server does not support the copy.
    PartnerNotSupp = 10088, "PARTNER_NOTSUPP";
    /// The other server does not authorize the copy.
    PartnerNoAuth = 10089, "PARTNER_NO_AUTH";
    /// This arm of a union is not supported.
    UnionNotSupp = 10090, "UNION_NOTSUPP";
    /// The copy is not allowed.
    OffloadDenied = 10091, "OFFLOAD_DENIED";
    /// The label's format is wrong.
    WrongLfs = 10092, "WRONG_LFS";
    /// The label is not valid.
    BadLabel = 10093, "BADLABEL";
    /// The copy's requirements can't be met.
    OffloadNoReqs = 10094, "OFFLOAD_NO_REQS";
    /// No such extended attribute.
    NoXattr = 10095, "NOXATTR";
    /// The extended attribute is too large.
    XattrTooBig = 10096, "XATTR2BIG";
}

impl Status {
    /// NFS4ERR_DELAY, the v4 name of [`Status::Jukebox`].
    pub const DELAY: Self = Self::Jukebox;

    /// Returns the name in the RFC of `version`; all unknown numbers share one name.
    pub const fn name_in(self, version: ProtocolVersion) -> &'static str {
        match (version, self) {
            (ProtocolVersion::V2, Self::Ok) => "NFS_OK",
            (ProtocolVersion::V2, status) => status.name_in_v2(),
            (ProtocolVersion::V3, Self::Ok) => "NFS3_OK",
            (ProtocolVersion::V3, status) => status.name_in_v3(),
            (_, Self::Ok) => "NFS4_OK",
            // Two numbers were renamed between the versions and kept their meaning.
            (_, Self::Access) => "NFS4ERR_ACCESS",
            (_, Self::Jukebox) => "NFS4ERR_DELAY",
            (_, status) => status.name_in_v4(),
        }
    }

    /// Returns the name in v3, or in v4 if v3 has no such status.
    pub const fn name(self) -> &'static str {
        // Numbers up to 10008 were defined by v3 with the meaning that v4 kept. Above, the names
        // are those of v4 and its minor versions.
        let last = Self::Jukebox.number();
        let is_v3 = self.number() <= last || matches!(self, Self::Other(_));
        self.name_in(if is_v3 { ProtocolVersion::V3 } else { ProtocolVersion::V4_0 })
    }

    /// Returns a value that prints the name in `version` and the number.
    pub const fn in_version(self, version: ProtocolVersion) -> VersionedStatus {
        VersionedStatus { status: self, version }
    }
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

/// A status with the version it was received in, for messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionedStatus {
    /// Status of the answer.
    pub status: Status,
    /// The version whose names are used.
    pub version: ProtocolVersion,
}

impl std::fmt::Display for VersionedStatus {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.status.name_in(self.version), self.status.number())
    }
}

impl Status {
    /// Returns the status that a reply with this result starts with.
    pub fn of_result<T>(result: &Result<T, Self>) -> Self {
        match result {
            Ok(_) => Self::Ok,
            Err(status) => {
                debug_assert_ne!(*status, Self::Ok, "a failed reply needs a failure's status");
                *status
            }
        }
    }

    /// Decodes the results of success if this status is a success.
    ///
    /// # Errors
    /// [`DecodeError`] if they are malformed.
    #[inline]
    pub(crate) fn decode_ok<'a, T: Wire<'a>>(
        self,
        reader: &mut Reader<'a>,
    ) -> Result<Result<T, Self>, DecodeError> {
        if self == Self::Ok { T::decode(reader).map(Ok) } else { Ok(Err(self)) }
    }
}

impl Wire<'_> for Status {
    #[inline]
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        reader.u32().map(Self::from_number)
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.number());
    }
}

/// A status, followed by the results on success: the shape of all v2 replies.
impl<'a, T: Wire<'a>> Wire<'a> for Result<T, Status> {
    #[inline]
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Status::decode(reader)?.decode_ok(reader)
    }

    #[inline]
    fn encode(&self, writer: &mut Writer<'_>) {
        Status::of_result(self).encode(writer);
        if let Ok(ok) = self {
            ok.encode(writer);
        }
    }
}

/// How a call failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The server answered with an NFS error.
    #[error("the server answered {0}")]
    Status(VersionedStatus),
    /// The call failed at the RPC level.
    #[error(transparent)]
    Rpc(RpcError),
    /// The reply could not be decoded.
    #[error("the reply is malformed: {0}")]
    Malformed(DecodeError),
    /// The connection broke before the reply; it is unknown whether the call was executed.
    #[error("the connection was lost before the reply")]
    Lost,
}

impl From<DecodeError> for CallError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl CallError {
    /// Returns the status the server answered with, if it answered with one.
    pub const fn status(&self) -> Option<Status> {
        if let Self::Status(spoken) = self { Some(spoken.status) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_unknown_status_numbers() {
        for status in Status::ALL {
            assert_eq!(Status::from_number(status.number()), *status);
        }
        assert!(Status::ALL.is_sorted_by_key(|status| status.number()));
        assert_eq!(Status::from_number(70), Status::Stale);
        assert_eq!(Status::from_number(4711), Status::Other(4711));
        assert_eq!(Status::Other(4711).number(), 4711);
        assert_eq!(Status::Access.to_string(), "NFS3ERR_ACCES (13)");
    }

    #[test]
    fn prefixes_status_with_version() {
        let names = |status: Status| {
            [ProtocolVersion::V2, ProtocolVersion::V3, ProtocolVersion::V4_1]
                .map(|version| status.name_in(version))
        };
        assert_eq!(names(Status::Ok), ["NFS_OK", "NFS3_OK", "NFS4_OK"]);
        assert_eq!(names(Status::Access), ["NFSERR_ACCES", "NFS3ERR_ACCES", "NFS4ERR_ACCESS"]);
        assert_eq!(Status::DELAY.name_in(ProtocolVersion::V4_0), "NFS4ERR_DELAY");
        assert_eq!(Status::Jukebox.name(), "NFS3ERR_JUKEBOX");
        assert_eq!(Status::Grace.to_string(), "NFS4ERR_GRACE (10013)");
        assert_eq!(
            Status::WFlush.in_version(ProtocolVersion::V2).to_string(),
            "NFSERR_WFLUSH (99)"
        );
        let unknown = Status::Other(4711).in_version(ProtocolVersion::V4_2).to_string();
        assert_eq!(unknown, "NFS4ERR_(unknown) (4711)");
    }
}

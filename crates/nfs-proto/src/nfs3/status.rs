//! The status that every NFS v3 reply starts with. **Source:** RFC 1813 section 2.6.
//!
//! [`Status`] keeps numbers it does not know, so that a reply of a newer or broken server is
//! counted under its own number and not lost.

macro_rules! statuses {
    ($($(#[$doc:meta])* $variant:ident = $number:literal, $name:literal;)*) => {
        /// The outcome of an operation as the server states it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Status {
            $($(#[$doc])* $variant,)*
            /// A number the RFC does not define.
            Other(u32),
        }

        impl Status {
            /// All statuses the RFC defines.
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

            /// Returns the name in the RFC; one name stands for all unknown numbers.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                    Self::Other(_) => "NFS3ERR_(unknown)",
                }
            }
        }
    };
}

statuses! {
    /// Success.
    Ok = 0, "NFS3_OK";
    /// Not the owner.
    Perm = 1, "NFS3ERR_PERM";
    /// No such file or directory.
    NoEnt = 2, "NFS3ERR_NOENT";
    /// A hard error of the device.
    Io = 5, "NFS3ERR_IO";
    /// No such device or address.
    NxIo = 6, "NFS3ERR_NXIO";
    /// Permission denied.
    Access = 13, "NFS3ERR_ACCES";
    /// The name exists.
    Exist = 17, "NFS3ERR_EXIST";
    /// A link across devices.
    XDev = 18, "NFS3ERR_XDEV";
    /// No such device.
    NoDev = 19, "NFS3ERR_NODEV";
    /// Not a directory.
    NotDir = 20, "NFS3ERR_NOTDIR";
    /// Is a directory.
    IsDir = 21, "NFS3ERR_ISDIR";
    /// An argument is invalid.
    Inval = 22, "NFS3ERR_INVAL";
    /// The file would grow too large.
    FBig = 27, "NFS3ERR_FBIG";
    /// No space is left.
    NoSpc = 28, "NFS3ERR_NOSPC";
    /// The file system is read-only.
    RoFs = 30, "NFS3ERR_ROFS";
    /// Too many links.
    MLink = 31, "NFS3ERR_MLINK";
    /// The name is too long.
    NameTooLong = 63, "NFS3ERR_NAMETOOLONG";
    /// The directory is not empty.
    NotEmpty = 66, "NFS3ERR_NOTEMPTY";
    /// The quota is exceeded.
    DQuot = 69, "NFS3ERR_DQUOT";
    /// The handle refers to nothing any more.
    Stale = 70, "NFS3ERR_STALE";
    /// Too many levels of remote in the path.
    Remote = 71, "NFS3ERR_REMOTE";
    /// The handle fails the server's checks.
    BadHandle = 10001, "NFS3ERR_BADHANDLE";
    /// SETATTR found another change time than its guard.
    NotSync = 10002, "NFS3ERR_NOT_SYNC";
    /// The directory cookie is stale.
    BadCookie = 10003, "NFS3ERR_BAD_COOKIE";
    /// The server does not support the operation.
    NotSupp = 10004, "NFS3ERR_NOTSUPP";
    /// A buffer or request is too small.
    TooSmall = 10005, "NFS3ERR_TOOSMALL";
    /// An error that maps to nothing else.
    ServerFault = 10006, "NFS3ERR_SERVERFAULT";
    /// The server does not support this type of object.
    BadType = 10007, "NFS3ERR_BADTYPE";
    /// Try again later.
    Jukebox = 10008, "NFS3ERR_JUKEBOX";
}

impl std::fmt::Display for Status {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name(), self.number())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_unknown_ones_are_kept() {
        for status in Status::ALL {
            assert_eq!(Status::from_number(status.number()), *status);
        }
        assert_eq!(Status::from_number(70), Status::Stale);
        assert_eq!(Status::from_number(4711), Status::Other(4711));
        assert_eq!(Status::Other(4711).number(), 4711);
        assert_eq!(Status::Access.to_string(), "NFS3ERR_ACCES (13)");
    }
}

//! The results of every NFS v3 procedure.
//!
//! [`Reply`] is a view: link targets, READ payloads and entries are not copied. Each variant has
//! the attributes that come with both success and failure, and a `result`. The table is both
//! encoder and decoder. A READ whose payload is sent separately is encoded by
//! [`encode_read_header`]. **Source:** RFC 1813 sections 3.3.0 to 3.3.21.

use super::types::HANDLE_MAX;
use super::{
    Entries, EntriesPlus, Fattr, FileHandle, Fsinfo, Fsstat, Pathconf, Procedure, StableHow,
    Status, Verifier, WccData,
};
use crate::error::DecodeError;
use crate::limits::TRANSFER_BYTES_MAX;
use crate::wire::{Wire, wire_struct};
use crate::xdr::{Reader, Writer};

wire_struct! {
    /// The object found by LOOKUP.
    pub struct Object {
        /// Handle of the object.
        file: FileHandle where len <= HANDLE_MAX,
        /// Its attributes, if the server returned them.
        attributes: Option<Fattr>,
    }
}

wire_struct! {
    /// The object created by CREATE, MKDIR, SYMLINK or MKNOD.
    #[derive(Default)]
    pub struct Created {
        /// Its handle, if the server returned it.
        file: Option<FileHandle> where len <= HANDLE_MAX,
        /// Its attributes, if the server returned them.
        attributes: Option<Fattr>,
    }
}

/// The data returned by READ; the count on the wire is the length of `data`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOk<'a> {
    /// Whether the file ends here.
    pub eof: bool,
    /// Payload of the reply.
    pub data: &'a [u8],
}

impl<'a> Wire<'a> for ReadOk<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        // `count` and the length of the opaque are the same number; if they differ, neither can be
        // trusted.
        let count = reader.u32()?;
        let eof = reader.bool("eof")?;
        let data = reader.opaque(TRANSFER_BYTES_MAX)?;
        if count as usize != data.len() {
            return Err(DecodeError::BadValue { what: "count of a READ", value: count });
        }
        Ok(Self { eof, data })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        writer.u32(self.data.len() as u32);
        writer.bool(self.eof);
        writer.opaque(self.data);
    }
}

wire_struct! {
    /// The result of a WRITE.
    pub struct WriteOk {
        /// Number of bytes written.
        count: u32,
        /// How durable they are.
        committed: StableHow,
        /// Changes when the server may have lost uncommitted data.
        verifier: Verifier,
    }
}

wire_struct! {
    /// A page of READDIR.
    pub struct Listing<'a> {
        /// Shows whether cookies are still valid.
        verifier: Verifier,
        /// Entries of this page.
        entries: Entries<'a>,
        /// Whether the directory ends here.
        eof: bool,
    }
}

wire_struct! {
    /// A page of READDIRPLUS.
    pub struct ListingPlus<'a> {
        /// Shows whether cookies are still valid.
        verifier: Verifier,
        /// Entries of this page.
        entries: EntriesPlus<'a>,
        /// Whether the directory ends here.
        eof: bool,
    }
}

/// Makes the enum of replies from lines of `Procedure { attributes } -> result { attributes }`: the
/// status comes first, then the attributes that failures also have, then the results of success;
/// for LOOKUP and the creating procedures the directory's attributes come after those instead.
macro_rules! replies {
    ($($(#[$meta:meta])* $variant:ident $({ $($before:ident: $before_type:ty),+ })?
        -> $ok:ty $({ $after:ident: $after_type:ty })?;)*) => {
        /// A reply with its results. The error of a `result` is never [`Status::Ok`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[expect(missing_docs, reason = "the fields are named as the results are in the RFC")]
        pub enum Reply<'a> {
            /// The result of NULL, which is empty.
            Null,
            $($(#[$meta])* $variant {
                $($($before: $before_type,)+)?
                result: Result<$ok, Status>,
                $($after: $after_type,)?
            },)*
        }

        impl<'a> Reply<'a> {
            /// Returns the procedure of these results.
            pub const fn procedure(&self) -> Procedure {
                match self {
                    Self::Null => Procedure::Null,
                    $(Self::$variant { .. } => Procedure::$variant,)*
                }
            }

            /// Returns a reply that fails with `status` and carries no attributes.
            ///
            /// NULL can't fail; its reply is unchanged.
            pub fn failure(procedure: Procedure, status: Status) -> Self {
                match procedure {
                    Procedure::Null => Self::Null,
                    $(Procedure::$variant => Self::$variant {
                        $($($before: <$before_type>::default(),)+)?
                        result: Err(status),
                        $($after: <$after_type>::default(),)?
                    },)*
                }
            }

            fn decode_results(
                procedure: Procedure,
                reader: &mut Reader<'a>,
            ) -> Result<Self, DecodeError> {
                if procedure == Procedure::Null {
                    return Ok(Self::Null);
                }
                let status = Status::decode(reader)?;
                Ok(match procedure {
                    Procedure::Null => Self::Null,
                    // The fields are decoded in this order.
                    $(Procedure::$variant => Self::$variant {
                        $($($before: <$before_type as Wire<'_>>::decode(reader)?,)+)?
                        result: status.decode_ok(reader)?,
                        $($after: <$after_type as Wire<'_>>::decode(reader)?,)?
                    },)*
                })
            }

            /// Appends the results.
            pub fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    Self::Null => {}
                    $(Self::$variant { result, $($($before,)+)? $($after,)? } => {
                        Status::of_result(result).encode(writer);
                        $($($before.encode(writer);)+)?
                        if let Ok(ok) = result {
                            Wire::encode(ok, writer);
                        }
                        $($after.encode(writer);)?
                    })*
                }
            }
        }
    };
}

replies! {
    /// The file's attributes.
    Getattr -> Fattr;
    /// The change of the file.
    Setattr { wcc: WccData } -> ();
    /// The object that was found.
    Lookup -> Object { dir: Option<Fattr> };
    /// The granted bits of [`super::access`].
    Access { attributes: Option<Fattr> } -> u32;
    /// The target of the link.
    Readlink { attributes: Option<Fattr> } -> &'a [u8];
    /// The data that was read.
    Read { attributes: Option<Fattr> } -> ReadOk<'a>;
    /// The number of bytes written.
    Write { wcc: WccData } -> WriteOk;
    /// The new object.
    Create -> Created { dir: WccData };
    /// The new object.
    Mkdir -> Created { dir: WccData };
    /// The new object.
    Symlink -> Created { dir: WccData };
    /// The new object.
    Mknod -> Created { dir: WccData };
    /// The change of the directory.
    Remove { dir: WccData } -> ();
    /// The change of the parent directory.
    Rmdir { dir: WccData } -> ();
    /// The changes of both directories.
    Rename { from_dir: WccData, to_dir: WccData } -> ();
    /// The file's attributes and the change of the directory.
    Link { attributes: Option<Fattr>, dir: WccData } -> ();
    /// A page of entries.
    Readdir { dir: Option<Fattr> } -> Listing<'a>;
    /// A page of entries with attributes and handles.
    Readdirplus { dir: Option<Fattr> } -> ListingPlus<'a>;
    /// The space of the file system.
    Fsstat { attributes: Option<Fattr> } -> Fsstat;
    /// Limits of the file system.
    Fsinfo { attributes: Option<Fattr> } -> Fsinfo;
    /// The POSIX limits.
    Pathconf { attributes: Option<Fattr> } -> Pathconf;
    /// The verifier of the data that is now durable.
    Commit { wcc: WccData } -> Verifier;
}

impl<'a> Reply<'a> {
    /// Decodes the results of `procedure`, which must be all that is left.
    ///
    /// # Errors
    /// [`DecodeError`] if the results do not conform to the RFC.
    pub fn decode(procedure: Procedure, mut reader: Reader<'a>) -> Result<Self, DecodeError> {
        let reply = Self::decode_results(procedure, &mut reader)?;
        reader.finish()?;
        Ok(reply)
    }
}

/// Appends the results of a successful READ up to its payload; the caller sends the `len` payload
/// bytes and [`crate::xdr::pad_len`] zero bytes after them.
pub fn encode_read_header(
    writer: &mut Writer<'_>,
    attributes: Option<&Fattr>,
    eof: bool,
    len: u32,
) {
    writer.words([Status::Ok.number(), u32::from(attributes.is_some())]);
    if let Some(attributes) = attributes {
        attributes.encode(writer);
    }
    // `count`, then the flag, then the length of the opaque, which is the count again.
    writer.words([len, u32::from(eof), len]);
}

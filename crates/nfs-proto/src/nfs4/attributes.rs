//! The attributes of a file or file system, by number, and their encoded form.
//!
//! [`Fattr`] is the encoded form: which attributes, and their bytes. [`Attributes`] has them by
//! name. An attribute that is not understood is an error, since its end can't be determined; it
//! never occurs if only [`Attributes::UNDERSTOOD`] are requested. **Source:** RFC 7530 section 5,
//! RFC 8881 section 5, RFC 7862 section 12, RFC 8276.

use super::bitmap::Bitmap;
use super::types::{Fsid, SetTime, Time};
use crate::error::DecodeError;
use crate::lists::List;
use crate::nfs3::{Device, FileHandle, FileType};
use crate::status::Status;
use crate::wire::Wire;
use crate::xdr::{Reader, Writer};

/// Encoded attributes. **Source:** RFC 7530 section 2.2.7, fattr4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fattr<'a> {
    mask: Bitmap,
    values: &'a [u8],
}

impl<'a> Fattr<'a> {
    /// Returns which attributes are present.
    pub const fn mask(&self) -> Bitmap {
        self.mask
    }

    /// Decodes the attributes.
    ///
    /// # Errors
    /// [`DecodeError`] if one is malformed or not understood.
    pub fn decode_values(&self) -> Result<Attributes<'a>, DecodeError> {
        let mut attributes = Attributes::default();
        let mut reader = Reader::new(self.values);
        // The values follow each other in the order of their numbers, without lengths: after an
        // unknown number there is no way to find the next value. RFC 7530 section 2.2.7.
        for number in self.mask.iter() {
            attributes.decode_one(number, &mut reader)?;
        }
        reader.finish()?;
        Ok(attributes)
    }

    /// Visits the attributes, lowest number first. `take` decodes the value of a number it wants
    /// and returns true, otherwise false; that allows decoding a few without a complete
    /// [`Attributes`].
    ///
    /// # Errors
    /// [`DecodeError`] if one is malformed or not understood.
    pub fn visit(
        &self,
        mut take: impl FnMut(u32, &mut Reader<'a>) -> Result<bool, DecodeError>,
    ) -> Result<(), DecodeError> {
        let mut reader = Reader::new(self.values);
        for number in self.mask.iter() {
            if !take(number, &mut reader)? {
                Attributes::skip_one(number, &mut reader)?;
            }
        }
        reader.finish()
    }
}

impl<'a> Wire<'a> for Fattr<'a> {
    fn decode(reader: &mut Reader<'a>) -> Result<Self, DecodeError> {
        Ok(Self { mask: Bitmap::decode(reader)?, values: reader.opaque(u32::MAX)? })
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        self.mask.encode(writer);
        writer.opaque(self.values);
    }
}

macro_rules! attributes {
    ($($(#[$doc:meta])* $upper:ident = $number:literal, $field:ident: $type:ty;)*) => {
        /// The numbers of the attributes.
        pub mod attribute {
            $($(#[$doc])* pub const $upper: u32 = $number;)*
        }

        /// Attributes by name; `None` means not requested, not returned, or left unchanged.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Attributes<'a> {
            $($(#[$doc])* pub $field: Option<$type>,)*
        }

        impl<'a> Attributes<'a> {
            /// All attributes that can be decoded and encoded.
            pub const UNDERSTOOD: Bitmap = Bitmap::from_numbers(&[$($number),*]);

            /// Returns which attributes are present.
            pub fn mask(&self) -> Bitmap {
                let mut mask = Bitmap::EMPTY;
                $(if self.$field.is_some() {
                    mask = mask.with($number);
                })*
                mask
            }

            fn decode_one(
                &mut self,
                number: u32,
                reader: &mut Reader<'a>,
            ) -> Result<(), DecodeError> {
                match number {
                    $($number => self.$field = Some(<$type as Wire<'_>>::decode(reader)?),)*
                    value => {
                        let what = "the number of an attribute";
                        return Err(DecodeError::BadValue { what, value });
                    }
                }
                Ok(())
            }

            fn skip_one(number: u32, reader: &mut Reader<'a>) -> Result<(), DecodeError> {
                match number {
                    $($number => <$type as Wire<'_>>::decode(reader).map(drop),)*
                    value => {
                        let what = "the number of an attribute";
                        Err(DecodeError::BadValue { what, value })
                    }
                }
            }

            /// Returns true if the attribute is present, and appends its value.
            fn encode_one(&self, number: u32, writer: Option<&mut Writer<'_>>) -> bool {
                match number {
                    $($number => encode_value(self.$field.as_ref(), writer),)*
                    _ => false,
                }
            }
        }
    };
}

fn encode_value<'a, T: Wire<'a>>(value: Option<&T>, writer: Option<&mut Writer<'_>>) -> bool {
    if let (Some(value), Some(writer)) = (value, writer) {
        value.encode(writer);
    }
    value.is_some()
}

attributes! {
    /// Attributes that the server supports.
    SUPPORTED_ATTRS = 0, supported: Bitmap;
    /// The kind of object.
    TYPE = 1, file_type: FileType;
    /// How handles expire; 0 means never.
    FH_EXPIRE_TYPE = 2, handle_expiry: u32;
    /// Changes with every change of data or attributes.
    CHANGE = 3, change: u64;
    /// Size in bytes.
    SIZE = 4, size: u64;
    /// Hard links are supported.
    LINK_SUPPORT = 5, link_support: bool;
    /// Symbolic links are supported.
    SYMLINK_SUPPORT = 6, symlink_support: bool;
    /// The object has named attributes.
    NAMED_ATTR = 7, named_attributes: bool;
    /// Id of the file system.
    FSID = 8, fsid: Fsid;
    /// Different handles are different objects.
    UNIQUE_HANDLES = 9, unique_handles: bool;
    /// Length of a lease, in seconds.
    LEASE_TIME = 10, lease_seconds: u32;
    /// Why the attributes of a directory entry could not be read.
    RDATTR_ERROR = 11, read_error: Status;
    /// Supported types of entries in access control lists.
    ACLSUPPORT = 13, acl_support: u32;
    /// The file was archived.
    ARCHIVE = 14, archive: bool;
    /// Times can be set.
    CANSETTIME = 15, can_set_time: bool;
    /// Names that differ only in case are the same.
    CASE_INSENSITIVE = 16, case_insensitive: bool;
    /// The case of names is preserved.
    CASE_PRESERVING = 17, case_preserving: bool;
    /// Only a privileged user may change owners.
    CHOWN_RESTRICTED = 18, chown_restricted: bool;
    /// Handle of the file.
    FILEHANDLE = 19, file: FileHandle;
    /// Id of the file within its file system.
    FILEID = 20, fileid: u64;
    /// Free file slots the caller may use.
    FILES_AVAIL = 21, available_files: u64;
    /// Free file slots.
    FILES_FREE = 22, free_files: u64;
    /// Total number of files.
    FILES_TOTAL = 23, total_files: u64;
    /// The file is hidden.
    HIDDEN = 25, hidden: bool;
    /// All objects of the file system have the same file system attributes.
    HOMOGENEOUS = 26, homogeneous: bool;
    /// Largest file, in bytes.
    MAXFILESIZE = 27, file_bytes_max: u64;
    /// Maximum number of links to a file.
    MAXLINK = 28, links_max: u32;
    /// Longest name, in bytes.
    MAXNAME = 29, name_bytes_max: u32;
    /// Largest READ, in bytes.
    MAXREAD = 30, read_bytes_max: u64;
    /// Largest WRITE, in bytes.
    MAXWRITE = 31, write_bytes_max: u64;
    /// The MIME type of the content.
    MIMETYPE = 32, mime_type: &'a [u8];
    /// Permission bits of the file.
    MODE = 33, mode: u32;
    /// Longer names are refused, not truncated.
    NO_TRUNC = 34, no_truncation: bool;
    /// Number of links.
    NUMLINKS = 35, nlink: u32;
    /// Owner; see [`crate::nfs4::owner_number`].
    OWNER = 36, owner: &'a [u8];
    /// Group; see [`crate::nfs4::owner_number`].
    OWNER_GROUP = 37, owner_group: &'a [u8];
    /// Bytes that may still be allocated, hard limit.
    QUOTA_AVAIL_HARD = 38, quota_hard_bytes: u64;
    /// Bytes that may still be allocated, soft limit.
    QUOTA_AVAIL_SOFT = 39, quota_soft_bytes: u64;
    /// Bytes that count towards the quota.
    QUOTA_USED = 40, quota_used_bytes: u64;
    /// Device numbers, for devices.
    RAWDEV = 41, device: Device;
    /// Free bytes the caller may use.
    SPACE_AVAIL = 42, available_bytes: u64;
    /// Number of free bytes.
    SPACE_FREE = 43, free_bytes: u64;
    /// Total size of the file system in bytes.
    SPACE_TOTAL = 44, total_bytes: u64;
    /// Bytes of disk space in use by the object.
    SPACE_USED = 45, used: u64;
    /// The file belongs to the system.
    SYSTEM = 46, system: bool;
    /// Time of the last access.
    TIME_ACCESS = 47, atime: Time;
    /// Sets the last access time.
    TIME_ACCESS_SET = 48, set_atime: SetTime;
    /// Time of the last backup.
    TIME_BACKUP = 49, backup_time: Time;
    /// Time of the creation.
    TIME_CREATE = 50, create_time: Time;
    /// Granularity of the server's times.
    TIME_DELTA = 51, time_delta: Time;
    /// Last change of the attributes.
    TIME_METADATA = 52, ctime: Time;
    /// Last change of the data.
    TIME_MODIFY = 53, mtime: Time;
    /// Sets the modification time.
    TIME_MODIFY_SET = 54, set_mtime: SetTime;
    /// The id of the directory that a file system is mounted on, or the object's own id.
    MOUNTED_ON_FILEID = 55, mounted_on_fileid: u64;
    /// How long changes of a directory's attributes may go unnoticed.
    DIR_NOTIF_DELAY = 56, directory_notice_delay: Time;
    /// How long changes of its entries may go unnoticed.
    DIRENT_NOTIF_DELAY = 57, entry_notice_delay: Time;
    /// Types of pNFS layouts that the file system offers; see [`crate::nfs4::layout_type`].
    FS_LAYOUT_TYPES = 62, layout_types: List<'a, u32>;
    /// Preferred block size of layouts, in bytes.
    LAYOUT_BLKSIZE = 65, layout_block_bytes: u32;
    /// Preferred alignment of layouts, in bytes.
    LAYOUT_ALIGNMENT = 66, layout_alignment_bytes: u32;
    /// Attributes that an exclusive creation can set.
    SUPPATTR_EXCLCREAT = 75, supported_exclusive: Bitmap;
    /// The file system's guarantees about the characters of names.
    FS_CHARSET_CAP = 76, charset_capabilities: u32;
    /// Granularity of CLONE, in bytes.
    CLONE_BLKSIZE = 77, clone_block_bytes: u32;
    /// Bytes that would become free if the file were removed.
    SPACE_FREED = 78, freed_bytes: u64;
    /// How the change attribute changes.
    CHANGE_ATTR_TYPE = 79, change_type: u32;
    /// Extended attributes are supported.
    XATTR_SUPPORT = 82, xattr_support: bool;
}

impl Attributes<'_> {
    /// Appends the `requested` attributes that are present, as a fattr4.
    pub fn encode(&self, requested: Bitmap, writer: &mut Writer<'_>) {
        // The mask must match exactly the values that follow; missing attributes are only noticed
        // when encoding. Usually all are present, so that one pass is enough.
        let start = writer.position();
        let requested = requested.intersection(Self::UNDERSTOOD);
        if !self.encode_all(requested, writer) {
            writer.truncate_to(start);
            self.encode_all(self.present_among(requested), writer);
        }
    }

    /// Appends all of these attributes as a fattr4; returns whether all are present.
    fn encode_all(&self, mask: Bitmap, writer: &mut Writer<'_>) -> bool {
        mask.encode(writer);
        // The length of the values precedes them and is filled in at the end. It is always a
        // multiple of four, so the opaque needs no padding.
        let len_at = writer.position();
        writer.u32(0);
        let all = mask.iter().all(|number| self.encode_one(number, Some(&mut *writer)));
        let len = writer.position() - len_at - 4;
        writer.set_u32(len_at, len as u32);
        all
    }

    /// Writes the `requested` attributes that are present to `scratch`, which is cleared.
    pub fn to_fattr<'s>(&self, requested: Bitmap, scratch: &'s mut Vec<u8>) -> Fattr<'s> {
        scratch.clear();
        let mask = self.present_among(requested);
        self.encode_values(mask, &mut Writer::new(scratch));
        Fattr { mask, values: scratch }
    }

    fn present_among(&self, requested: Bitmap) -> Bitmap {
        let mut mask = Bitmap::EMPTY;
        for number in requested.iter().filter(|number| self.encode_one(*number, None)) {
            mask = mask.with(number);
        }
        mask
    }

    fn encode_values(&self, mask: Bitmap, writer: &mut Writer<'_>) {
        for number in mask.iter() {
            self.encode_one(number, Some(&mut *writer));
        }
    }
}

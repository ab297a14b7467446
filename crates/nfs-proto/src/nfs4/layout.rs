//! pNFS: which servers have the data of a file, and what is reported about them.
//!
//! A layout and the addresses of a device are opaque here, with the number of their type; the
//! bodies are in [`super::FilesLayout`] and [`super::FlexLayout`], and decoded with
//! [`decode_body`]. **Source:** RFC 8881 sections 3.3.13 to 3.3.21 and 12, RFC 7862 section 15.

use super::bitmap::Bitmap;
use super::opcode::OpCode;
use super::types::{Fsid, Stateid};
use crate::error::DecodeError;
use crate::nfs3::FileHandle;
use crate::status::Status;
use crate::wire::{Wire, wire_choice, wire_enum, wire_struct};
use crate::xdr::{Reader, Writer};

/// Types of layouts. **Source:** RFC 5662 layouttype4, RFC 8435, RFC 8154.
pub mod layout_type {
    /// Data servers with NFS v4.1; see [`crate::nfs4::FilesLayout`].
    pub const FILES: u32 = 1;
    /// Object storage devices.
    pub const OBJECTS: u32 = 2;
    /// Block devices.
    pub const BLOCKS: u32 = 3;
    /// Data servers with any version of NFS; see [`crate::nfs4::FlexLayout`].
    pub const FLEX_FILES: u32 = 4;
    /// SCSI devices.
    pub const SCSI: u32 = 5;
}

/// Bits of the types in CB_RECALL_ANY. **Source:** RFC 8881 section 20.6, RFC 8435 section 12.
pub mod recall_any {
    /// Read delegations.
    pub const READ_DELEGATION: u32 = 0;
    /// Write delegations.
    pub const WRITE_DELEGATION: u32 = 1;
    /// Delegations of directories.
    pub const DIRECTORY_DELEGATION: u32 = 2;
    /// Layouts of the type files.
    pub const FILES_LAYOUT: u32 = 3;
    /// Layouts of block devices.
    pub const BLOCKS_LAYOUT: u32 = 4;
    /// Layouts of flexible files for reading.
    pub const FLEX_READ_LAYOUT: u32 = 16;
    /// Layouts of flexible files for reading and writing.
    pub const FLEX_WRITE_LAYOUT: u32 = 17;
}

wire_enum! {
    /// What a layout may be used for. **Source:** RFC 5662, layoutiomode4.
    pub enum LayoutIoMode("layoutiomode4") {
        /// Only reading.
        Read = 1,
        /// Reading and writing.
        ReadWrite = 2,
        /// Either, when layouts are returned or recalled.
        Any = 3,
    }
}

/// Identifies a device of a metadata server. **Source:** RFC 5662, deviceid4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct DeviceId(pub [u8; 16]);

impl Wire<'_> for DeviceId {
    fn decode(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Wire::decode(reader).map(Self)
    }

    fn encode(&self, writer: &mut Writer<'_>) {
        self.0.encode(writer);
    }
}

wire_struct! {
    /// The layout of a range of a file. **Source:** RFC 5662, layout4.
    pub struct Layout<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes; all ones means to the end.
        length: u64,
        /// What it may be used for.
        iomode: LayoutIoMode,
        /// The type of `body`; see [`layout_type`].
        layout_type: u32,
        /// The layout itself.
        body: &'a [u8],
    }
}

/// Decodes the body of a layout, a device or an update, which must be all of `body`.
///
/// # Errors
/// [`DecodeError`] if it is malformed.
pub fn decode_body<'a, T: Wire<'a>>(body: &'a [u8]) -> Result<T, DecodeError> {
    let mut reader = Reader::new(body);
    let value = T::decode(&mut reader)?;
    reader.finish()?;
    Ok(value)
}

wire_struct! {
    /// What a type of layout adds to LAYOUTCOMMIT and LAYOUTSTATS. **Source:** RFC 5662,
    /// layoutupdate4.
    pub struct LayoutUpdate<'a> {
        /// The type of `body`; see [`layout_type`].
        layout_type: u32,
        /// Empty for LAYOUTCOMMIT of both types that this crate knows.
        body: &'a [u8],
    }
}

wire_choice! {
    /// The layouts to return. **Source:** RFC 5662, layoutreturn4.
    pub enum LayoutReturn<'a>("layoutreturn_type4") {
        /// A range of the current file.
        1 => File {
            /// Offset of the first byte.
            offset: u64,
            /// Length in bytes; all ones means to the end.
            length: u64,
            /// Stateid of the layout.
            stateid: Stateid,
            /// For flexible files a [`super::FlexLayoutReturn`], otherwise empty.
            body: &'a [u8],
        },
        /// Everything in the file system of the current file.
        2 => FileSystem,
        /// Everything.
        3 => All,
    }
}

wire_struct! {
    /// A range of a file to return. **Source:** RFC 5662, layoutrecall_file4.
    pub struct FileRecall {
        /// Handle of the file.
        file: FileHandle,
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes; all ones means to the end.
        length: u64,
        /// Stateid of the layout.
        stateid: Stateid,
    }
}

wire_choice! {
    /// The layouts that are recalled. **Source:** RFC 5662, layoutrecall4.
    pub enum LayoutRecall("layoutrecall_type4") {
        /// A range of a file.
        1 => File(file: FileRecall),
        /// Everything in a file system.
        2 => FileSystem(fsid: Fsid),
        /// Everything.
        3 => All,
    }
}

wire_struct! {
    /// Changes of devices of one kind, as values of the bits in a mask. **Source:** RFC 8881
    /// section 20.12.
    pub struct DeviceNotice<'a> {
        /// Changed (1) or deleted (2).
        mask: Bitmap,
        /// The changes.
        values: &'a [u8],
    }
}

impl<'a> DeviceNotice<'a> {
    /// The number of [`DeviceChange::Changed`] in masks.
    pub const CHANGED: u32 = 1;
    /// The number of [`DeviceChange::Deleted`] in masks.
    pub const DELETED: u32 = 2;

    /// Decodes the changes, at most one of each kind.
    ///
    /// # Errors
    /// [`DecodeError`] if they are malformed or of another kind.
    pub fn changes(&self) -> Result<[Option<DeviceChange>; 2], DecodeError> {
        let mut reader = Reader::new(self.values);
        let mut changes = [None; 2];
        for (kind, change) in self.mask.iter().zip(&mut changes) {
            let layout_type = reader.u32()?;
            let device = DeviceId::decode(&mut reader)?;
            *change = Some(match kind {
                Self::CHANGED => DeviceChange::Changed {
                    layout_type,
                    device,
                    immediate: reader.bool("ndc_immediate")?,
                },
                Self::DELETED => DeviceChange::Deleted { layout_type, device },
                value => {
                    return Err(DecodeError::BadValue { what: "notify_deviceid_type4", value });
                }
            });
        }
        reader.finish()?;
        Ok(changes)
    }

    /// Writes a change to `scratch`, which is cleared, and returns the notice of it.
    pub fn build(scratch: &'a mut Vec<u8>, change: &DeviceChange) -> Self {
        scratch.clear();
        let mut writer = Writer::new(scratch);
        let mask = match change {
            DeviceChange::Changed { layout_type, device, immediate } => {
                writer.u32(*layout_type);
                device.encode(&mut writer);
                writer.bool(*immediate);
                Self::CHANGED
            }
            DeviceChange::Deleted { layout_type, device } => {
                writer.u32(*layout_type);
                device.encode(&mut writer);
                Self::DELETED
            }
        };
        Self { mask: Bitmap::from_numbers(&[mask]), values: scratch }
    }
}

/// A change of a pNFS device. **Source:** RFC 8881 section 20.12.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceChange {
    /// It has other addresses now.
    Changed {
        /// Type of the layouts that use it.
        layout_type: u32,
        /// Id of the device.
        device: DeviceId,
        /// Whether the old addresses must not be used any more.
        immediate: bool,
    },
    /// It does not exist any more.
    Deleted {
        /// Type of the layouts that use it.
        layout_type: u32,
        /// Id of the device.
        device: DeviceId,
    },
}

wire_struct! {
    /// An error of a device. **Source:** RFC 7863, device_error4.
    pub struct DeviceError {
        /// Id of the device.
        device: DeviceId,
        /// What it answered, or NXIO if it could not be reached.
        status: Status,
        /// The operation that failed.
        operation: u32,
    }
}

impl DeviceError {
    /// Returns the error of an operation.
    pub const fn new(device: DeviceId, status: Status, operation: OpCode) -> Self {
        Self { device, status, operation: operation.number() }
    }
}

wire_struct! {
    /// Number and bytes of READs or WRITEs. **Source:** RFC 7863, io_info4.
    #[derive(Default)]
    pub struct IoInfo {
        /// Number of operations.
        count: u64,
        /// Number of bytes.
        bytes: u64,
    }
}

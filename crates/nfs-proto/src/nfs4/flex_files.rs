//! Flexible files: data servers that speak any version of NFS, with mirrors on the client's side.
//!
//! **Source:** RFC 8435.

use super::layout::{DeviceError, DeviceId, IoInfo};
use super::types::{NetAddress, Stateid, Time};
use crate::limits::{
    DATA_SERVERS_MAX, DEVICE_VERSIONS_MAX, LAYOUT_REPORTS_MAX, MIRRORS_MAX, STRIPES_MAX,
};
use crate::lists::List;
use crate::nfs3::FileHandle;
use crate::wire::wire_struct;

/// Bits of the flags of a layout. **Source:** RFC 8435 section 5.1, ff_flags4.
pub mod flex_flags {
    /// LAYOUTCOMMIT is not needed after writing.
    pub const NO_LAYOUTCOMMIT: u32 = 0x1;
    /// Nothing may be read or written through the metadata server.
    pub const NO_IO_THRU_MDS: u32 = 0x2;
    /// A layout for writing must not be used for reading.
    pub const NO_READ_IO: u32 = 0x4;
    /// Only one mirror is written; the server updates the others.
    pub const WRITE_ONE_MIRROR: u32 = 0x8;
}

wire_struct! {
    /// The layout of a file. **Source:** RFC 8435 section 5.1, ff_layout4.
    pub struct FlexLayout<'a> {
        /// Size of a stripe unit in bytes; 0 without stripes.
        stripe_unit: u64,
        /// The mirrors: each has all of the range.
        mirrors: List<'a, FlexMirror<'a>> where len <= MIRRORS_MAX,
        /// See [`flex_flags`].
        flags: u32,
        /// How often the server wants LAYOUTSTATS, in seconds; 0 means no preference.
        stats_collect_hint: u32,
    }
}

wire_struct! {
    /// A copy of the data. **Source:** RFC 8435 section 5.1, ff_mirror4.
    pub struct FlexMirror<'a> {
        /// The data servers over which this copy is striped.
        servers: List<'a, FlexDataServer<'a>> where len <= STRIPES_MAX,
    }
}

wire_struct! {
    /// A data server of a mirror. **Source:** RFC 8435 section 5.1, ff_data_server4.
    pub struct FlexDataServer<'a> {
        /// Id of the device, which is a [`FlexDevice`].
        device: DeviceId,
        /// A higher value is preferred among mirrors for reading.
        efficiency: u32,
        /// Stateid for I/O to a tightly coupled v4 server; ANONYMOUS otherwise.
        stateid: Stateid,
        /// The file's handle in each of the device's versions.
        files: List<'a, FileHandle> where len <= DEVICE_VERSIONS_MAX,
        /// User for loosely coupled servers; see [`super::owner_number`].
        user: &'a [u8],
        /// Group for loosely coupled servers; see [`super::owner_number`].
        group: &'a [u8],
    }
}

wire_struct! {
    /// The addresses of a device. **Source:** RFC 8435 section 4.1, ff_device_addr4.
    pub struct FlexDevice<'a> {
        /// The addresses of the data server.
        addresses: List<'a, NetAddress<'a>> where len <= DATA_SERVERS_MAX,
        /// The versions of NFS that it speaks.
        versions: List<'a, FlexDeviceVersion> where len <= DEVICE_VERSIONS_MAX,
    }
}

wire_struct! {
    /// A version of NFS that a device speaks. **Source:** RFC 8435 section 4.1,
    /// ff_device_versions4.
    pub struct FlexDeviceVersion {
        /// The version.
        version: u32,
        /// The minor version.
        minor: u32,
        /// Largest READ, in bytes.
        read_bytes_max: u32,
        /// Largest WRITE, in bytes.
        write_bytes_max: u32,
        /// Whether the metadata server and the data server share their state.
        tightly_coupled: bool,
    }
}

wire_struct! {
    /// What LAYOUTRETURN reports. **Source:** RFC 8435 section 9.3, ff_layoutreturn4.
    pub struct FlexLayoutReturn<'a> {
        /// Errors of data servers.
        errors: List<'a, FlexIoError<'a>> where len <= LAYOUT_REPORTS_MAX,
        /// How much was read and written.
        stats: List<'a, FlexIoStats<'a>> where len <= LAYOUT_REPORTS_MAX,
    }
}

wire_struct! {
    /// Errors in a range. **Source:** RFC 8435 section 9.1.1, ff_ioerr4.
    pub struct FlexIoError<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Stateid of the layout.
        stateid: Stateid,
        /// The errors.
        errors: List<'a, DeviceError> where len <= LAYOUT_REPORTS_MAX,
    }
}

wire_struct! {
    /// How much a device was used. **Source:** RFC 8435 section 9.2.3, ff_iostats4.
    pub struct FlexIoStats<'a> {
        /// Offset of the first byte.
        offset: u64,
        /// Length in bytes.
        length: u64,
        /// Stateid of the layout.
        stateid: Stateid,
        /// READs so far.
        read: IoInfo,
        /// WRITEs so far.
        write: IoInfo,
        /// Id of the device.
        device: DeviceId,
        /// Details.
        update: FlexLayoutUpdate<'a>,
    }
}

wire_struct! {
    /// How much a data server was used, in detail; the update of LAYOUTSTATS. **Source:** RFC 8435
    /// section 9.2.2, ff_layoutupdate4.
    pub struct FlexLayoutUpdate<'a> {
        /// Address in use.
        address: NetAddress<'a>,
        /// The file's handle at the data server.
        file: FileHandle,
        /// READs.
        read: FlexIoLatency,
        /// WRITEs.
        write: FlexIoLatency,
        /// Time over which these counts were collected.
        duration: Time,
        /// Whether the client's own cache served them.
        local: bool,
    }
}

wire_struct! {
    /// The times of READs, or of WRITEs and COMMITs, summed up since the layout was granted.
    /// **Source:** RFC 8435 section 9.2.1, ff_io_latency4.
    #[derive(Default)]
    pub struct FlexIoLatency {
        /// Number of calls sent.
        calls_requested: u64,
        /// Bytes requested by them.
        bytes_requested: u64,
        /// Number of calls answered.
        calls_completed: u64,
        /// Bytes of their answers.
        bytes_completed: u64,
        /// Bytes that were requested and not delivered.
        bytes_not_delivered: u64,
        /// Time during which at least one call was in flight.
        busy: Time,
        /// Sum of the response times of all calls.
        response: Time,
    }
}

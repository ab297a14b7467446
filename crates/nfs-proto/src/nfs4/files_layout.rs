//! The files layout: data servers that speak v4.1, and how a file is striped over them.
//!
//! **Source:** RFC 8881 chapter 13.

use super::layout::DeviceId;
use super::types::NetAddress;
use crate::limits::{DATA_SERVERS_MAX, STRIPES_MAX};
use crate::lists::List;
use crate::nfs3::FileHandle;
use crate::wire::wire_struct;

wire_struct! {
    /// The layout of a file. **Source:** RFC 8881 section 13.3, nfsv4_1_file_layout4.
    pub struct FilesLayout<'a> {
        /// Id of the device, which is a [`FilesDevice`].
        device: DeviceId,
        /// Stripe unit and flags; see [`FilesLayout::new_util`].
        util: u32,
        /// Index of the first stripe in the device's stripe indices.
        first_stripe_index: u32,
        /// Offset in the file at which the pattern starts.
        pattern_offset: u64,
        /// Handles of the file at the data servers: one for each of them, one for all, or none if
        /// it is that of the metadata server.
        files: List<'a, FileHandle> where len <= STRIPES_MAX,
    }
}

impl FilesLayout<'_> {
    /// Each data server has only its own stripes, one after the other.
    const DENSE: u32 = 1;
    /// COMMIT is sent to the metadata server.
    const COMMIT_THROUGH_MDS: u32 = 2;
    /// The bits below are flags: a stripe unit is a multiple of 64 bytes.
    const UNIT_MASK: u32 = 0xffff_ffc0;

    /// Returns the `util` of a stripe unit, a multiple of 64 bytes, and of the flags.
    pub const fn new_util(unit_bytes: u32, dense: bool, commit_through_mds: bool) -> u32 {
        let mut util = unit_bytes & Self::UNIT_MASK;
        if dense {
            util |= Self::DENSE;
        }
        if commit_through_mds {
            util |= Self::COMMIT_THROUGH_MDS;
        }
        util
    }

    /// Returns the size of a stripe unit, in bytes.
    pub const fn unit_bytes(&self) -> u32 {
        self.util & Self::UNIT_MASK
    }

    /// Returns true if each data server has only its own stripes, one after the other; otherwise
    /// all have them at the offsets of the file, with holes in between.
    pub const fn is_dense(&self) -> bool {
        self.util & Self::DENSE != 0
    }

    /// Returns true if COMMIT is sent to the metadata server instead of the data servers.
    pub const fn commits_through_mds(&self) -> bool {
        self.util & Self::COMMIT_THROUGH_MDS != 0
    }
}

wire_struct! {
    /// The addresses of a device. **Source:** RFC 8881 section 13.3, nfsv4_1_file_layout_ds_addr4.
    pub struct FilesDevice<'a> {
        /// For each stripe the index of its data server in `servers`.
        stripes: List<'a, u32> where len <= STRIPES_MAX,
        /// The addresses of each data server.
        servers: List<'a, List<'a, NetAddress<'a>>> where len <= DATA_SERVERS_MAX,
    }
}

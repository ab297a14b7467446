//! Calls and replies of NFS v3.
//!
//! The selector is the number of the procedure, with [`REPLY`] for the direction. Listings are read
//! to their end.

use nfs_proto::nfs3::{Call, Procedure, Reply};
use nfs_proto::xdr::Reader;

use super::REPLY;
use crate::memory::without_allocation;

/// Minimum size of an entry of a listing: a flag, an id, a name and a cookie.
const ENTRY_BYTES_MIN: usize = 4 + 8 + 4 + 8;

/// Checks one call or reply.
pub fn check_nfs3(data: &[u8]) {
    let Some((selector, bytes)) = data.split_first() else { return };
    let Some(procedure) = Procedure::from_number(u32::from(selector & !REPLY)) else { return };
    if selector & REPLY == 0 {
        return comes_back!(bytes, |reader| Call::decode(procedure, reader));
    }
    comes_back!(bytes, |reader| Reply::decode(procedure, reader));
    let entries = without_allocation(|| match Reply::decode(procedure, Reader::new(bytes)) {
        Ok(Reply::Readdir { result: Ok(page), .. }) => page.entries.iter().count(),
        Ok(Reply::Readdirplus { result: Ok(page), .. }) => page.entries.iter().count(),
        _ => 0,
    });
    assert!(entries <= bytes.len() / ENTRY_BYTES_MIN, "{entries} in {} bytes", bytes.len());
}

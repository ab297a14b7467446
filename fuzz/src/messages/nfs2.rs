//! Calls and replies of NFS v2.
//!
//! The selector is the number of the procedure, with [`REPLY`] for the direction. A READ reply has
//! a second decoder, for the part that arrives before the payload; both must agree.

use nfs_proto::nfs2::{Call, Procedure, Reply, decode_read_head};
use nfs_proto::xdr::Reader;

use super::REPLY;
use crate::memory::without_allocation;

/// Minimum size of an entry of a listing: a flag, an id, a name and a cookie.
const ENTRY_BYTES_MIN: usize = 16;

/// Checks one call or reply.
pub fn check_nfs2(data: &[u8]) {
    let Some((selector, bytes)) = data.split_first() else { return };
    let Some(procedure) = Procedure::from_number(u32::from(selector & !REPLY)) else { return };
    if selector & REPLY == 0 {
        return comes_back!(bytes, |reader| Call::decode(procedure, reader));
    }
    comes_back!(bytes, |reader| Reply::decode(procedure, reader));
    match Reply::decode(procedure, Reader::new(bytes)) {
        Ok(Reply::Readdir(Ok(page))) => {
            let entries = without_allocation(|| page.entries.iter().count());
            assert!(entries <= bytes.len() / ENTRY_BYTES_MIN, "{entries} in {}", bytes.len());
        }
        Ok(Reply::Read(result)) => {
            let head = without_allocation(|| decode_read_head(&mut Reader::new(bytes)));
            let head = head.expect("the head of a whole reply").map(|head| head.len as usize);
            assert_eq!(head, result.ok().map(|read| read.data.len()));
        }
        _ => {}
    }
}

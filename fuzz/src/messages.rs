//! Decoders: no input makes them panic or allocate, and accepted messages round-trip.
//!
//! The first byte of an input selects the message, the rest is the message. Each protocol's module
//! defines its kinds of messages and how they are decoded; this module checks them.

use nfs_proto::xdr::Writer;

/// Decodes without allocating. An accepted message must be accepted again after encoding, and be
/// equal.
macro_rules! comes_back {
    ($bytes:expr, $decode:expr) => {{
        let decode = $decode;
        let decoded = $crate::memory::without_allocation(|| decode(Reader::new($bytes)));
        if let Ok(message) = decoded {
            let again = $crate::messages::encoded(|writer| message.encode(writer));
            assert_eq!(decode(Reader::new(&again)), Ok(message));
        }
    }};
}

mod nfs2;
mod nfs3;
mod nfs4;
mod rpc;

pub use nfs2::check_nfs2;
pub use nfs3::check_nfs3;
pub use nfs4::{DecodedPart, check_nfs4};
pub use rpc::{RpcMessage, check_rpc};

/// Set in a selector that contains a procedure if the message is its reply.
pub const REPLY: u8 = 0x80;

fn encoded(encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut Writer::new(&mut bytes));
    assert_eq!(bytes.len() % 4, 0, "XDR is made of whole words");
    bytes
}

/// Drops trailing bytes that no XDR ends with; a view of undecoded bytes would contain them again.
fn whole_words(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() & !3]
}

//! Decoders: no bytes make them panic or allocate, and what they accept comes back.
//!
//! The first byte of an input selects the message, the rest is the message. What a kind of message
//! is called and how it is read stands in one module for each protocol; how it is checked, here.

use nfs_proto::xdr::Writer;

/// Decodes without allocating; what is accepted must be accepted again, and be the same, after it
/// was encoded.
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

/// Set in a selector that names a procedure, where the message is its reply.
pub const REPLY: u8 = 0x80;

fn encoded(encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode(&mut Writer::new(&mut bytes));
    assert_eq!(bytes.len() % 4, 0, "XDR is made of whole words");
    bytes
}

/// Leaves out what no XDR has at its end; a view of undecoded bytes would show it again.
fn whole_words(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len() & !3]
}

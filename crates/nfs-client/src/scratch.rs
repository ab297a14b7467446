//! Buffers shared by the connections of one thread.
//!
//! [`Scratch`] is what makes ten thousand connections cheap: none has a buffer of its own.

/// Bytes received at once if payloads are small, and the longest datagram.
const RECEIVE_BYTES: usize = 64 * 1024;
/// Maximum number of bytes discarded by one system call.
const DISCARD_BYTES: usize = 1024 * 1024;

/// Room to receive into; one per thread that drives connections.
///
/// It keeps nothing between two calls, so any number of connections can share it.
#[derive(Debug)]
pub struct Scratch {
    pub(crate) receive: Vec<u8>,
    /// Address range that the kernel does not write to; its pages are never touched.
    pub(crate) discard: Vec<u8>,
}

impl Scratch {
    /// Creates the buffers.
    pub fn new() -> Self {
        Self { receive: vec![0; RECEIVE_BYTES], discard: vec![0; DISCARD_BYTES] }
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new()
    }
}

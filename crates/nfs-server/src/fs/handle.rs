//! File handles: how clients refer to an inode.
//!
//! A handle contains the server's start, the inode's slot and the slot's generation, so a handle of
//! an earlier start or of a removed inode is recognized as stale. A check word tells those from
//! bytes that were never one of our handles. It is not secret: nothing here authenticates.

use super::types::FsError;

/// Length of every handle in bytes: fits into the 32 of NFS v2 and the 64 of v3.
pub const HANDLE_BYTES: usize = 24;

const MAGIC: [u8; 4] = *b"dfsb";

/// Identifies one inode for as long as the file system exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct InodeId {
    /// Slot in the inode table.
    pub(super) index: u32,
    /// Generation: counts the inodes that the slot has held.
    pub(super) generation: u32,
}

impl InodeId {
    pub(super) fn key(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(super) fn from_key(key: u64) -> Self {
        Self { index: key as u32, generation: (key >> 32) as u32 }
    }

    /// Number that no other inode of the file system ever has.
    pub fn number(self) -> u64 {
        self.key()
    }

    /// File id reported to clients; the root is 1.
    pub fn fileid(self) -> u64 {
        u64::from(self.index) + 1
    }
}

/// Encodes the handle of an inode.
pub fn encode(boot_id: u64, id: InodeId) -> [u8; HANDLE_BYTES] {
    let mut bytes = [0; HANDLE_BYTES];
    bytes[..4].copy_from_slice(&MAGIC);
    bytes[4..12].copy_from_slice(&boot_id.to_be_bytes());
    bytes[12..16].copy_from_slice(&id.index.to_be_bytes());
    bytes[16..20].copy_from_slice(&id.generation.to_be_bytes());
    let check = check_word(&bytes[..20]);
    bytes[20..].copy_from_slice(&check.to_be_bytes());
    bytes
}

/// Decodes a handle that a client sent.
///
/// # Errors
/// `BadHandle` if the bytes were never a handle, `Stale` if it is from another start.
pub fn decode(boot_id: u64, handle: &[u8]) -> Result<InodeId, FsError> {
    let bytes = <&[u8; HANDLE_BYTES]>::try_from(handle).map_err(|_| FsError::BadHandle)?;
    // The check word tells a damaged handle from a stale one: a client may recover from a stale
    // handle, but a damaged one is a bug in the client.
    if bytes[..4] != MAGIC || word(bytes, 20) != check_word(&bytes[..20]) {
        return Err(FsError::BadHandle);
    }
    if bytes[4..12] != boot_id.to_be_bytes() {
        return Err(FsError::Stale);
    }
    Ok(InodeId { index: word(bytes, 12), generation: word(bytes, 16) })
}

fn word(bytes: &[u8; HANDLE_BYTES], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Four-byte steps of FNV-1a. **Source:** RFC 9923 (offset basis and prime of 32 bits).
fn check_word(bytes: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for chunk in bytes.chunks_exact(4) {
        let word = u32::from_be_bytes([chunk[0], chunk[1], chunk[2], chunk[3]]);
        hash = (hash ^ word).wrapping_mul(0x0100_0193).rotate_left(5);
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: InodeId = InodeId { index: 7, generation: 3 };

    #[test]
    fn handles_come_back() {
        assert_eq!(decode(99, &encode(99, ID)), Ok(ID));
    }

    #[test]
    fn distinguishes_stale_from_bad_handle() {
        let handle = encode(99, ID);
        assert_eq!(decode(98, &handle), Err(FsError::Stale));
        assert_eq!(decode(99, &handle[..23]), Err(FsError::BadHandle));
        assert_eq!(decode(99, &[]), Err(FsError::BadHandle));
        for at in 0..HANDLE_BYTES {
            let mut damaged = handle;
            damaged[at] ^= 1;
            assert_eq!(decode(99, &damaged), Err(FsError::BadHandle), "byte {at}");
        }
    }
}

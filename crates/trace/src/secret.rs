//! Keyed hashes of data that must not appear in a trace.
//!
//! The key is drawn by the system for each capture and never leaves this process, so nobody can
//! find names or addresses by trying until a hash matches. Equal names have equal hashes within a
//! trace, but not across traces. This is the only random choice of dfsbench that cannot be repeated
//! with a seed.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};

/// Bits of a hash; its varint takes eight bytes.
const HASH_BITS: u32 = 56;

/// A key that exists only in memory.
#[derive(Debug, Clone, Default)]
pub(crate) struct Secret(RandomState);

/// The kind of data. The same bytes in two domains have unrelated hashes.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Domain {
    /// A name in a directory, or the path of an export.
    Name = 1,
    /// A file handle.
    Handle = 2,
    /// An address of a host.
    Address = 3,
    /// A file identified only by its directory and name.
    Path = 4,
}

impl Secret {
    /// Returns the hash of a name or address: 56 bits, never 0.
    pub(crate) fn hash(&self, domain: Domain, bytes: &[u8]) -> u64 {
        (self.hash64(domain, 0, bytes) >> (64 - HASH_BITS)).max(1)
    }

    /// Returns the 64-bit hash of a number and bytes.
    pub(crate) fn hash64(&self, domain: Domain, number: u64, bytes: &[u8]) -> u64 {
        let mut hasher = self.0.build_hasher();
        hasher.write_u64(domain as u64);
        hasher.write_u64(number);
        hasher.write(bytes);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_by_key_domain_and_bytes() {
        let secret = Secret::default();
        let hash = secret.hash(Domain::Name, b"a");
        assert_eq!(hash, secret.clone().hash(Domain::Name, b"a"));
        assert!(hash > 0 && hash < 1 << HASH_BITS);
        assert_ne!(hash, secret.hash(Domain::Name, b"b"));
        assert_ne!(hash, secret.hash(Domain::Address, b"a"));
        assert_ne!(hash, Secret::default().hash(Domain::Name, b"a"));
    }
}

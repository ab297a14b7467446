//! Numbers for file handles.
//!
//! [`FileNumbers`] numbers the handles of each server in the order in which they appear. A handle
//! is stored as a keyed hash of 64 bits; with 10 million files, the probability of any collision is
//! 1 in 370,000. Two generations limit the memory: when the young one is full it becomes the old
//! one, and handles that have not been used in the meantime are dropped. If a dropped file appears
//! again, it gets a new number.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::roots::Roots;
use crate::secret::{Domain, Secret};

/// Maximum number of files per generation; both together take about 200 MB.
const GENERATION_FILES: usize = 4 << 20;

/// Hasher that returns its input, because the keys are already keyed hashes.
#[derive(Debug, Default)]
pub(crate) struct PassThrough(u64);

impl Hasher for PassThrough {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type Numbers = HashMap<u64, u32, BuildHasherDefault<PassThrough>>;

/// The server of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ServerPlace {
    /// Number of the host.
    pub host: u32,
    /// Port of the connection.
    pub port: u16,
}

impl ServerPlace {
    fn hash(self, secret: &Secret, handle: &[u8]) -> u64 {
        let number = u64::from(self.host) << 16 | u64::from(self.port);
        secret.hash64(Domain::Handle, number, handle)
    }

    /// Hashes the root that PUTROOTFH or PUTPUBFH, given by its number, selects.
    fn root_hash(self, secret: &Secret, kind: u8) -> u64 {
        let number = u64::from(self.host) << 16 | u64::from(self.port);
        secret.hash64(Domain::Path, number, &[kind])
    }

    /// Hashes a handle regardless of the port.
    fn host_hash(self, secret: &Secret, handle: &[u8]) -> u64 {
        Self { port: 0, ..self }.hash(secret, handle)
    }
}

/// Numbers of files.
#[derive(Debug)]
pub(crate) struct FileNumbers {
    young: Numbers,
    old: Numbers,
    next: u32,
    generation_files: usize,
    /// Number of files dropped.
    pub forgotten: u64,
}

impl Default for FileNumbers {
    fn default() -> Self {
        Self::with_generations_of(GENERATION_FILES)
    }
}

/// A file number, and whether it is new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileNumber {
    /// Number of the file.
    pub number: u32,
    /// The file was unknown before.
    pub is_new: bool,
}

impl FileNumbers {
    /// Creates the table with the given size of a generation.
    pub(crate) fn with_generations_of(generation_files: usize) -> Self {
        Self {
            young: Numbers::default(),
            old: Numbers::default(),
            next: 1,
            generation_files,
            forgotten: 0,
        }
    }

    /// Returns the number of a handle on a server.
    pub(crate) fn of_handle(
        &mut self,
        secret: &Secret,
        roots: &mut Roots,
        server: ServerPlace,
        handle: &[u8],
    ) -> FileNumber {
        let numbered = self.number(server.hash(secret, handle), || {
            if roots.is_empty() { None } else { roots.take_first(server.host_hash(secret, handle)) }
        });
        if !roots.is_empty() && !numbered.is_new {
            roots.remove(server.host_hash(secret, handle), numbered.number);
        }
        numbered
    }

    /// Returns the number of a root returned by MOUNT.
    pub(crate) fn of_root(
        &mut self,
        secret: &Secret,
        roots: &mut Roots,
        server: ServerPlace,
        handle: &[u8],
    ) -> u32 {
        let numbered = self.number(server.hash(secret, handle), || None);
        if numbered.is_new {
            roots.add(server.host_hash(secret, handle), numbered.number);
        }
        numbered.number
    }

    /// Returns the number of a file of which only directory and name are known.
    pub(crate) fn of_name(&mut self, secret: &Secret, dir: u32, name: u64) -> u32 {
        self.number(name_hash(secret, dir, name), || None).number
    }

    /// Records the number of the file for a name, for clients that go there without requesting its
    /// handle.
    pub(crate) fn bind_name(&mut self, secret: &Secret, dir: u32, name: u64, number: u32) {
        self.insert(name_hash(secret, dir, name), number);
    }

    /// Removes the mapping of a name that was removed or renamed.
    pub(crate) fn forget_name(&mut self, secret: &Secret, dir: u32, name: u64) {
        let hash = name_hash(secret, dir, name);
        self.young.remove(&hash);
        self.old.remove(&hash);
    }

    /// Returns the number of the root of a v4 server whose handle is not in the reply.
    pub(crate) fn of_server_root(&mut self, secret: &Secret, server: ServerPlace, kind: u8) -> u32 {
        self.number(server.root_hash(secret, kind), || None).number
    }

    /// Returns the number of the root of a v4 server whose handle is in the reply.
    ///
    /// Some clients request the handle and others don't; the root is the same for both.
    pub(crate) fn of_server_root_handle(
        &mut self,
        secret: &Secret,
        roots: &mut Roots,
        server: ServerPlace,
        kind: u8,
        handle: &[u8],
    ) -> u32 {
        let root = server.root_hash(secret, kind);
        let handle_hash = server.hash(secret, handle);
        let number = match (self.find(root), self.find(handle_hash)) {
            (Some(number), None) => {
                self.insert(handle_hash, number);
                number
            }
            _ => self.of_handle(secret, roots, server, handle).number,
        };
        self.insert(root, number);
        number
    }

    fn find(&self, hash: u64) -> Option<u32> {
        self.young.get(&hash).or_else(|| self.old.get(&hash)).copied()
    }

    /// Returns the number of a hash. If it is not in the table, `known_otherwise` may return the
    /// number of the same file under another hash.
    fn number(&mut self, hash: u64, known_otherwise: impl FnOnce() -> Option<u32>) -> FileNumber {
        if let Some(number) = self.young.get(&hash) {
            return FileNumber { number: *number, is_new: false };
        }
        let known = self.old.remove(&hash).or_else(known_otherwise);
        let is_new = known.is_none();
        let number = known.unwrap_or(self.next);
        if is_new {
            self.next = self.next.checked_add(1).unwrap_or(1);
        }
        self.insert(hash, number);
        FileNumber { number, is_new }
    }

    fn insert(&mut self, hash: u64, number: u32) {
        self.old.remove(&hash);
        if self.young.len() >= self.generation_files && !self.young.contains_key(&hash) {
            self.forgotten += self.old.len() as u64;
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash, number);
    }
}

fn name_hash(secret: &Secret, dir: u32, name: u64) -> u64 {
    secret.hash64(Domain::Path, u64::from(dir), &name.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_handles_per_server() {
        let secret = Secret::default();
        let mut files = FileNumbers::default();
        let mut of_handle = |host, port, handle: &[u8]| {
            files.of_handle(&secret, &mut Roots::default(), ServerPlace { host, port }, handle)
        };
        assert_eq!(of_handle(0, 2049, b"a"), FileNumber { number: 1, is_new: true });
        assert_eq!(of_handle(0, 2049, b"a"), FileNumber { number: 1, is_new: false });
        assert_eq!(of_handle(0, 2049, b"b").number, 2);
        assert_eq!(of_handle(1, 2049, b"a").number, 3);
        let named = files.of_name(&secret, 1, 77);
        assert_eq!((named, files.of_name(&secret, 1, 77)), (4, 4));
        assert_eq!(files.of_name(&secret, 2, 77), 5);
    }

    #[test]
    fn identifies_root_without_handle() {
        let secret = Secret::default();
        let mut files = FileNumbers::default();
        let mut roots = Roots::default();
        let at = |port| ServerPlace { host: 1, port };
        let first = files.of_server_root(&secret, at(2049), 24);
        let other_server = files.of_server_root(&secret, at(2050), 24);
        assert_ne!(first, other_server);
        let mut with_handle =
            |port, kind| files.of_server_root_handle(&secret, &mut roots, at(port), kind, b"root");
        assert_eq!(with_handle(2049, 24), first);
        assert_eq!(with_handle(2050, 24), other_server);
        // A public root may have the same handle.
        assert_eq!(with_handle(2049, 23), first);
        assert_eq!(files.of_handle(&secret, &mut roots, at(2049), b"root").number, first);
        // The handle was known before.
        let known = files.of_handle(&secret, &mut roots, at(2051), b"root").number;
        let root = files.of_server_root_handle(&secret, &mut roots, at(2051), 24, b"root");
        assert_eq!((root, files.of_server_root(&secret, at(2051), 24)), (known, known));
    }

    #[test]
    fn resolves_names_until_removed() {
        let secret = Secret::default();
        let mut files = FileNumbers::default();
        let by_name = files.of_name(&secret, 1, 77);
        files.bind_name(&secret, 1, 77, 5);
        assert_eq!(files.of_name(&secret, 1, 77), 5);
        files.forget_name(&secret, 1, 77);
        assert!(![5, by_name].contains(&files.of_name(&secret, 1, 77)));
    }

    #[test]
    fn separates_servers_at_one_address() {
        let secret = Secret::default();
        let mut files = FileNumbers::default();
        let mut roots = Roots::default();
        let at = |port| ServerPlace { host: 1, port };
        // Two servers with equal handles, each mounted through its own port.
        let first = files.of_root(&secret, &mut roots, at(1001), b"root");
        let second = files.of_root(&secret, &mut roots, at(1002), b"root");
        assert_eq!(files.of_root(&secret, &mut roots, at(1002), b"root"), second);
        let mut of_handle = |port| files.of_handle(&secret, &mut roots, at(port), b"root");
        assert_eq!(of_handle(2049), FileNumber { number: first, is_new: false });
        assert_eq!(of_handle(2050), FileNumber { number: second, is_new: false });
        assert_eq!(of_handle(2049).number, first);
        // There is no mount left for a third one.
        assert!(of_handle(2051).is_new);
        // A server with MOUNT on its own port has a root of its own.
        let own = files.of_root(&secret, &mut roots, at(3000), b"other");
        assert_eq!(files.of_handle(&secret, &mut roots, at(3000), b"other").number, own);
        assert!(roots.is_empty());
        assert!(files.of_handle(&secret, &mut roots, at(3001), b"other").is_new);
    }

    #[test]
    fn bounds_memory_and_keeps_used_files() {
        let secret = Secret::default();
        let mut files = FileNumbers::with_generations_of(100);
        for number in 0..10_000_u32 {
            let mut of_handle = |handle: &[u8]| {
                let server = ServerPlace::default();
                files.of_handle(&secret, &mut Roots::default(), server, handle).number
            };
            of_handle(&number.to_be_bytes());
            assert_eq!(of_handle(b"hot"), 2, "after {number}");
            assert!(files.young.len() + files.old.len() <= 200);
        }
        assert!(files.forgotten > 9000);
    }
}

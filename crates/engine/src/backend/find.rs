//! What find looks for, and what a backend has listed.

/// Seconds within which a file must have been modified.
pub(crate) const FIND_AGE_MAX_S: i64 = 24 * 60 * 60;

/// The properties of the files that a find looks for: a text in their names, a size, and a
/// modification less than a day before the working directory's mark. Both times are the server's.
#[derive(Clone, Copy, Debug, Default)]
pub struct FindRule {
    /// Smallest and largest size in bytes.
    pub size_min_bytes: u64,
    pub size_max_bytes: u64,
    /// Time of the last modification, in seconds: files must be newer.
    pub after_s: i64,
}

impl FindRule {
    /// Returns true if size and modification time fit.
    pub(crate) const fn matches_attributes(&self, size_bytes: u64, modified_s: i64) -> bool {
        self.size_min_bytes <= size_bytes
            && size_bytes <= self.size_max_bytes
            && modified_s > self.after_s
    }
}

/// What a backend has listed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Listed {
    /// Directories that were listed completely.
    pub directories: u64,
    /// Their entries, without `.` and `..`.
    pub entries: u64,
    /// Files that find has found in them, and that it had to find.
    pub matches: u64,
    pub matches_expected: u64,
    /// Bytes of results that NFS calls returned.
    pub bytes: u64,
}

impl Listed {
    pub(crate) const fn note_directory(&mut self, entries: u32, matches: u64, expected: u64) {
        self.directories += 1;
        self.entries += entries as u64;
        self.matches += matches;
        self.matches_expected += expected;
    }

    /// Adds the counts of another backend.
    pub const fn add(&mut self, other: &Self) {
        self.directories += other.directories;
        self.entries += other.entries;
        self.matches += other.matches;
        self.matches_expected += other.matches_expected;
        self.bytes += other.bytes;
    }
}

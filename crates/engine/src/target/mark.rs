//! The mark by which a working directory is known as one of ours.
//!
//! Each working directory holds an empty directory named after itself ([`mark_of`]), made right
//! after it: a directory, since no count of files or of CREATE calls then knows of it.

/// How the name of a mark ends.
const MARK: &str = ".campaign";

/// Names the directory that marks a working directory of this name as ours.
pub(super) fn mark_of(work_name: &str) -> String {
    format!("{work_name}{MARK}")
}

/// Says whether a name is that of a mark, which belongs to no run and is not counted.
pub(super) fn is_mark(name: &[u8]) -> bool {
    name.starts_with(b".dfsbench-") && name.ends_with(MARK.as_bytes())
}

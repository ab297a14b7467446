//! Extended attributes of files, by name.
//!
//! setxattr(2) and getxattr(2) don't accept a directory descriptor, so the path goes through /proc:
//! `/proc/self/fd/7/f00000001`. This costs a lookup in procfs but no calls to a server; opening the
//! file would cost two.

use std::ffi::CStr;

use model::{Op, OpError};
use rustix::fs::{XattrFlags, getxattr, setxattr};
use rustix::path::DecInt;
use workload::names::Sort;
use workload::places::PathName;

use super::super::files::{Files, XATTR_NAME_OF_LINUX, XATTR_VALUE, retry};

const DESCRIPTORS: &[u8] = b"/proc/self/fd/";
/// Maximum number of digits of a descriptor, plus a slash.
const DESCRIPTOR_BYTES: usize = 11;

/// A path that goes through the descriptor of a working directory.
struct AbsolutePath {
    bytes: [u8; DESCRIPTORS.len() + DESCRIPTOR_BYTES + PathName::BYTES_MAX],
    len: usize,
}

impl AbsolutePath {
    fn from_file(set: &Files, number: u32) -> Self {
        let descriptor = DecInt::from_fd(set.root(number));
        let path = set.path(Sort::File, number);
        let mut absolute =
            Self { bytes: [0; DESCRIPTORS.len() + DESCRIPTOR_BYTES + PathName::BYTES_MAX], len: 0 };
        for part in [DESCRIPTORS, descriptor.as_bytes(), b"/", path.as_str().as_bytes()] {
            let end = absolute.len + part.len();
            absolute.bytes[absolute.len..end].copy_from_slice(part);
            absolute.len = end;
        }
        absolute
    }

    fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.bytes[..=self.len]).expect("one zero byte, at the end")
    }
}

/// Sets the attribute of a file.
pub(super) fn set_xattr(set: &Files, op: &Op) -> Result<(), OpError> {
    let path = AbsolutePath::from_file(set, op.file);
    retry(|| setxattr(path.as_c_str(), XATTR_NAME_OF_LINUX, &XATTR_VALUE, XattrFlags::empty()))
}

/// Reads the attribute of a file and checks its length.
pub(super) fn get_xattr(set: &Files, op: &Op) -> Result<(), OpError> {
    let path = AbsolutePath::from_file(set, op.file);
    let mut value = [0; XATTR_VALUE.len()];
    let len = retry(|| getxattr(path.as_c_str(), XATTR_NAME_OF_LINUX, &mut value))?;
    if len == XATTR_VALUE.len() { Ok(()) } else { Err(OpError::SHORT) }
}

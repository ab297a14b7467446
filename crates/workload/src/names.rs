//! Names of the files of a set, made without allocation.
//!
//! A name is a function of the file's number alone and is built on the stack, so that the measured
//! loop can name a file for each op.

use std::ffi::CStr;

const LEN: usize = 9;

/// The name of file number `n`: `f` and eight digits, such as `f00000017`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FileName([u8; LEN + 1]);

impl FileName {
    /// Names a file.
    ///
    /// # Panics
    /// When the number has more than eight digits; plans allow no such set.
    #[inline]
    pub const fn new(mut file: u32) -> Self {
        assert!(file < 100_000_000);
        let mut bytes = *b"f00000000\0";
        let mut at = LEN;
        while file > 0 {
            at -= 1;
            bytes[at] = b'0' + (file % 10) as u8;
            file /= 10;
        }
        Self(bytes)
    }

    /// The name as bytes, as NFS wants it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0[..LEN]
    }

    /// The name as a C string, as system calls want it.
    ///
    /// # Panics
    /// Never: the last byte, and no other, is zero.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).expect("names end with their only zero byte")
    }

    /// The name as text.
    ///
    /// # Panics
    /// Never: every byte is an ASCII letter or digit.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(self.as_bytes()).expect("names are ASCII")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_eight_digits() {
        assert_eq!(FileName::new(0).as_str(), "f00000000");
        assert_eq!(FileName::new(17).as_str(), "f00000017");
        assert_eq!(FileName::new(99_999_999).as_c_str(), c"f99999999");
    }
}

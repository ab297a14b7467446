//! Names of files, directories and links, made without allocation.
//!
//! A name is a function of a sort and a number alone and is built on the stack, so that the
//! measured loop can name what each op works on. Every sort has a letter of its own, so names of
//! different sorts never meet. The directory of a name is decided by [`crate::Places`].

use std::ffi::CStr;

const LEN: usize = 9;

/// The purpose of a name; each sort is numbered by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// A regular file.
    File,
    /// A file under its other name: where `Rename` leads to.
    OtherFile,
    /// A name more of some file: what `Link` makes; numbered by itself.
    SecondName,
    /// A directory that ops create, look at and remove.
    Directory,
    /// Such a directory under its other name.
    OtherDirectory,
    /// A symbolic link; it leads to the file with its number.
    Link,
    /// A name that never exists.
    Missing,
    /// A directory that was made beforehand, for others to stand in.
    Place,
}

impl Sort {
    /// Says by its letter whether one of our names is that of a directory.
    pub fn is_directory(name: &[u8]) -> bool {
        let Some(first) = name.first() else { return false };
        let sorts = [Self::Directory, Self::OtherDirectory, Self::Place];
        sorts.map(Self::letter).contains(first)
    }

    const fn letter(self) -> u8 {
        match self {
            Self::File => b'f',
            Self::OtherFile => b'g',
            Self::SecondName => b'h',
            Self::Directory => b'd',
            Self::OtherDirectory => b'e',
            Self::Link => b'l',
            Self::Missing => b'm',
            Self::Place => b't',
        }
    }
}

/// A name: a letter and eight digits, such as `f00000017`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name([u8; LEN + 1]);

impl Name {
    /// The length of every name, in bytes.
    pub const BYTES: usize = LEN;

    /// Names number `number` of its sort.
    ///
    /// # Panics
    /// When the number has more than eight digits; plans allow no such set.
    #[inline]
    pub const fn new(sort: Sort, mut number: u32) -> Self {
        assert!(number < 100_000_000);
        let mut bytes = *b"f00000000\0";
        bytes[0] = sort.letter();
        // Digits are put in from the last one forward, over the zeros of the pattern: formatting
        // would allocate, and a worker names a file for each op.
        let mut at = LEN;
        while number > 0 {
            at -= 1;
            bytes[at] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Self(bytes)
    }

    /// Names a file.
    ///
    /// # Panics
    /// As [`Self::new`].
    #[inline]
    pub const fn file(number: u32) -> Self {
        Self::new(Sort::File, number)
    }

    /// Reads the number in one of our names; `None` for any other.
    pub fn number_of(name: &[u8]) -> Option<u32> {
        let (letter, digits) = name.split_first()?;
        if !letter.is_ascii_lowercase() || digits.len() != LEN - 1 {
            return None;
        }
        let mut number = 0;
        for digit in digits {
            if !digit.is_ascii_digit() {
                return None;
            }
            number = number * 10 + u32::from(digit - b'0');
        }
        Some(number)
    }

    /// Returns the name as bytes, as NFS wants it.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0[..LEN]
    }

    /// Returns the name as a C string, as system calls want it.
    ///
    /// # Panics
    /// Never: the last byte, and no other, is zero.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).expect("names end with their only zero byte")
    }

    /// Returns the name as text.
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
    fn names_have_a_letter_and_eight_digits() {
        assert_eq!(Name::file(0).as_str(), "f00000000");
        assert_eq!(Name::file(17).as_str(), "f00000017");
        assert_eq!(Name::file(99_999_999).as_c_str(), c"f99999999");
        assert_eq!(Name::new(Sort::Link, 5).as_bytes(), b"l00000005");
    }

    #[test]
    fn a_name_tells_its_number() {
        for number in [0, 17, 99_999_999] {
            assert_eq!(Name::number_of(Name::file(number).as_bytes()), Some(number));
        }
        for other in [&b""[..], b"f", b"f0000001", b"f000000017", b"f0000001x", b"F00000017"] {
            assert_eq!(Name::number_of(other), None);
        }
    }

    #[test]
    fn sorts_never_share_a_name_and_tell_whether_it_is_a_directory() {
        let sorts = [
            Sort::File,
            Sort::OtherFile,
            Sort::SecondName,
            Sort::Directory,
            Sort::OtherDirectory,
            Sort::Link,
            Sort::Missing,
            Sort::Place,
        ];
        let mut names: Vec<_> =
            sorts.iter().map(|sort| Name::new(*sort, 3).as_str().to_owned()).collect();
        let directories = names.iter().filter(|name| Sort::is_directory(name.as_bytes()));
        assert_eq!(directories.cloned().collect::<String>(), "d00000003e00000003t00000003");
        names.sort();
        names.dedup();
        assert_eq!(names.len(), sorts.len());
    }
}

//! Names of files, directories and links, created without allocation.
//!
//! A name depends only on its sort and number, and is created on the stack, so that the measured
//! loop can name the object of each op. Every sort has a different letter, so names of different
//! sorts never collide. [`crate::Places`] determines the directory of a name.

use std::ffi::CStr;

const LEN: usize = 9;

/// The purpose of a name. Each sort has its own numbering.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sort {
    /// A regular file.
    File,
    /// The new name of a file after `Rename`.
    OtherFile,
    /// An additional name of a file, created by `Link`, with separate numbers.
    SecondName,
    /// The file that ranges of a file are copied to or cloned into.
    Twin,
    /// A directory that ops create, stat and remove.
    Directory,
    /// The new name of such a directory.
    OtherDirectory,
    /// A symbolic link to the file with the same number.
    Link,
    /// A name that never exists.
    Missing,
    /// A directory that is created beforehand to contain others.
    Place,
}

impl Sort {
    /// Returns true if one of our names belongs to a directory, judging by its letter.
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
            Self::Twin => b'i',
            Self::Directory => b'd',
            Self::OtherDirectory => b'e',
            Self::Link => b'l',
            Self::Missing => b'm',
            Self::Place => b't',
        }
    }
}

/// A name of a letter and eight digits, such as `f00000017`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Name([u8; LEN + 1]);

impl Name {
    /// Length of every name in bytes.
    pub const BYTES: usize = LEN;

    /// Returns the name with the given sort and number.
    ///
    /// # Panics
    /// If the number has more than eight digits, which plans don't allow.
    #[inline]
    pub const fn new(sort: Sort, mut number: u32) -> Self {
        assert!(number < 100_000_000);
        let mut bytes = *b"f00000000\0";
        bytes[0] = sort.letter();
        // Write the digits from the last one backwards over the zeros of the template. Formatting
        // would allocate, and a worker creates a name for each op.
        let mut at = LEN;
        while number > 0 {
            at -= 1;
            bytes[at] = b'0' + (number % 10) as u8;
            number /= 10;
        }
        Self(bytes)
    }

    /// Returns the name of a file.
    ///
    /// # Panics
    /// Same as for [`Self::new`].
    #[inline]
    pub const fn file(number: u32) -> Self {
        Self::new(Sort::File, number)
    }

    /// Returns the number in one of our names, or `None` for any other name.
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

    /// Returns the name as bytes, for NFS.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0[..LEN]
    }

    /// Returns the name as a C string, for system calls.
    ///
    /// # Panics
    /// Never: only the last byte is zero.
    pub fn as_c_str(&self) -> &CStr {
        CStr::from_bytes_with_nul(&self.0).expect("names contain no zero byte except the last one")
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
    fn formats_name_with_letter_and_digits() {
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
    fn separates_names_by_kind() {
        let sorts = [
            Sort::File,
            Sort::OtherFile,
            Sort::SecondName,
            Sort::Twin,
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

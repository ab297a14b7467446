//! XDR: big-endian words, padded opaques.
//!
//! [`Reader`] walks a slice and returns views of it; [`Writer`] appends to a vector that the caller
//! owns and reuses, so that a warm encoder does not allocate. A length is always compared with the
//! available bytes before anything is taken. Padding is skipped when decoding and zero when
//! encoding. The small functions are `#[inline]`: every other module is built from them.
//! **Source:** RFC 4506.

use crate::error::DecodeError;

/// Returns the number of zero bytes after an opaque of `len` bytes. **Source:** RFC 4506 section
/// 4.10.
pub const fn pad_len(len: usize) -> usize {
    // Two's complement: -len modulo 4 is the distance to the next multiple of four, and 0 for a
    // multiple, without a branch.
    len.wrapping_neg() & 3
}

/// Returns the size of a counted opaque of `len` bytes: count, content and padding.
pub const fn opaque_bytes(len: usize) -> usize {
    4 + len + pad_len(len)
}

/// Decodes XDR values from a slice.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Starts at the first byte of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Returns the unread bytes.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Returns the number of unread bytes.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Takes exactly `N` bytes, which should be a multiple of four.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer are left.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], DecodeError> {
        let Some((head, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(DecodeError::Truncated { needed: N, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(head)
    }

    /// Takes an unsigned 32-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer than four bytes are left.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array::<4>().map(|bytes| u32::from_be_bytes(*bytes))
    }

    /// Takes an unsigned 64-bit integer.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if fewer than eight bytes are left.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array::<8>().map(|bytes| u64::from_be_bytes(*bytes))
    }

    /// Takes a boolean; `what` is the field in the error.
    ///
    /// # Errors
    /// [`DecodeError`] if nothing is left or the word is neither 0 nor 1.
    #[inline]
    pub fn bool(&mut self, what: &'static str) -> Result<bool, DecodeError> {
        // RFC 4506 section 4.4 defines the two values. A word such as 2 indicates a decoder that
        // has lost its position, and is refused rather than taken for true.
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(DecodeError::BadValue { what, value }),
        }
    }

    /// Takes `len` bytes and skips their padding.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if the bytes or their padding are incomplete.
    #[inline]
    pub fn fixed(&mut self, len: usize) -> Result<&'a [u8], DecodeError> {
        // A length near the top of `usize` must not wrap around to a small one.
        let padded = len.saturating_add(pad_len(len));
        if padded > self.rest.len() {
            return Err(DecodeError::Truncated { needed: padded, left: self.rest.len() });
        }
        let (head, rest) = self.rest.split_at(padded);
        self.rest = rest;
        Ok(&head[..len])
    }

    /// Takes a counted opaque of at most `max` bytes and skips its padding.
    ///
    /// # Errors
    /// [`DecodeError`] if it is longer than `max` or incomplete.
    #[inline]
    pub fn opaque(&mut self, max: u32) -> Result<&'a [u8], DecodeError> {
        // Check the limit first, so that the error mentions it; the available bytes limit the rest.
        let len = self.u32()?;
        if len > max {
            return Err(DecodeError::TooLong { len, max });
        }
        self.fixed(len as usize)
    }

    /// Takes `N` unsigned 32-bit integers at once.
    ///
    /// # Errors
    /// [`DecodeError::Truncated`] if they are incomplete.
    #[inline]
    pub fn words<const N: usize>(&mut self) -> Result<[u32; N], DecodeError> {
        // One comparison with the length for all of them, and no branch in between: a block of
        // attributes is the longest part of most replies.
        let bytes = self.fixed(4 * N)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
            *word = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Ok(words)
    }

    /// Ends the message.
    ///
    /// # Errors
    /// [`DecodeError::Trailing`] if bytes are left.
    #[inline]
    pub fn finish(self) -> Result<(), DecodeError> {
        match self.rest.len() {
            0 => Ok(()),
            bytes => Err(DecodeError::Trailing { bytes }),
        }
    }
}

/// Appends XDR values to a vector.
#[derive(Debug)]
pub struct Writer<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> Writer<'b> {
    /// Appends after the current content of `out`.
    #[inline]
    pub fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Returns the length of the whole vector, in bytes.
    #[inline]
    pub fn position(&self) -> usize {
        self.out.len()
    }

    /// Appends bytes as they are.
    #[inline]
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Appends an unsigned 32-bit integer.
    #[inline]
    pub fn u32(&mut self, value: u32) {
        self.raw(&value.to_be_bytes());
    }

    /// Appends unsigned 32-bit integers at once.
    #[inline]
    pub fn words<const N: usize>(&mut self, words: [u32; N]) {
        // The words are converted on the stack and copied in one piece: appending them one by one
        // would check the capacity before each.
        self.raw(words.map(u32::to_be_bytes).as_flattened());
    }

    /// Replaces an unsigned 32-bit integer that was appended at `position`, such as a length that
    /// was not known yet.
    ///
    /// # Panics
    /// If there are not four bytes at that position.
    #[inline]
    pub fn set_u32(&mut self, position: usize, value: u32) {
        self.out[position..position + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Removes everything appended since [`Writer::position`] was `position`.
    pub fn truncate_to(&mut self, position: usize) {
        self.out.truncate(position);
    }

    /// Appends an unsigned 64-bit integer.
    #[inline]
    pub fn u64(&mut self, value: u64) {
        self.raw(&value.to_be_bytes());
    }

    /// Appends a boolean.
    #[inline]
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Appends bytes without a count, padded to a multiple of four.
    #[inline]
    pub fn fixed(&mut self, bytes: &[u8]) {
        self.raw(bytes);
        // Receivers must ignore padding, but some compare whole messages (a server that detects
        // repeated calls by checksum), so it is always zero.
        self.raw(&[0; 3][..pad_len(bytes.len())]);
    }

    /// Appends a counted opaque, padded to a multiple of four.
    ///
    /// # Panics
    /// If `bytes` has 4 GiB or more, which no message of this crate can contain.
    #[inline]
    pub fn opaque(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("an opaque below 4 GiB"));
        self.fixed(bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn padding_completes_a_word() {
        assert_eq!([0, 1, 2, 3, 4, 5].map(pad_len), [0, 3, 2, 1, 0, 3]);
    }

    #[test]
    fn values_come_back() {
        let mut out = Vec::new();
        let mut writer = Writer::new(&mut out);
        writer.u32(7);
        writer.u64(1 << 40);
        writer.bool(true);
        writer.opaque(b"abcde");
        assert_eq!(out.len(), 4 + 8 + 4 + 4 + 8);
        let mut reader = Reader::new(&out);
        assert_eq!(reader.u32(), Ok(7));
        assert_eq!(reader.u64(), Ok(1 << 40));
        assert_eq!(reader.bool("flag"), Ok(true));
        assert_eq!(reader.opaque(5), Ok(&b"abcde"[..]));
        assert_eq!(reader.finish(), Ok(()));
    }

    #[test]
    fn a_hostile_length_is_an_error() {
        let bytes = [0xff, 0xff, 0xff, 0xff, 1, 2, 3, 4];
        let error = Reader::new(&bytes).opaque(u32::MAX).unwrap_err();
        assert!(matches!(error, DecodeError::Truncated { left: 4, .. }), "{error}");
        let error = Reader::new(&bytes).opaque(64).unwrap_err();
        assert_eq!(error, DecodeError::TooLong { len: u32::MAX, max: 64 });
    }

    #[test]
    fn missing_padding_is_an_error() {
        let bytes = [0, 0, 0, 1, b'x'];
        let error = Reader::new(&bytes).opaque(8).unwrap_err();
        assert_eq!(error, DecodeError::Truncated { needed: 4, left: 1 });
    }

    #[test]
    fn a_boolean_is_zero_or_one() {
        let error = Reader::new(&[0, 0, 0, 2]).bool("eof").unwrap_err();
        assert_eq!(error, DecodeError::BadValue { what: "eof", value: 2 });
    }
}

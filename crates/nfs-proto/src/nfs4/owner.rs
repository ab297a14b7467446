//! Owners and groups, which v4 passes as strings. **Source:** RFC 7530 section 5.9.
//!
//! With AUTH_SYS both ends use plain numbers ("1000"); some servers still add a domain.

/// Returns the number of an owner such as `1000` or `1000@example.org`, or `None` for a name.
pub fn owner_number(owner: &[u8]) -> Option<u32> {
    let digits = owner.split(|byte| *byte == b'@').next()?;
    // "007" and "+7" are names, not numbers: a number has one spelling, or two names would be the
    // same user.
    let canonical = matches!(digits, [b'0'] | [b'1'..=b'9', ..]);
    if !canonical || digits.len() > 10 {
        return None;
    }
    digits.iter().try_fold(0_u32, |number, byte| {
        let digit = byte.is_ascii_digit().then(|| u32::from(byte - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

/// A numeric owner as a string, stored inline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NumericOwner {
    digits: [u8; 10],
    start: u8,
}

impl NumericOwner {
    /// Writes the number of a user or group.
    pub fn new(mut number: u32) -> Self {
        let mut owner = Self { digits: [b'0'; 10], start: 9 };
        for at in (0..10_u8).rev() {
            owner.digits[usize::from(at)] = b'0' + (number % 10) as u8;
            owner.start = at;
            number /= 10;
            if number == 0 {
                break;
            }
        }
        owner
    }

    /// Returns the digits.
    pub fn as_slice(&self) -> &[u8] {
        &self.digits[usize::from(self.start)..]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for number in [0, 7, 10, 1000, 65_534, 4_294_967_294, u32::MAX] {
            let owner = NumericOwner::new(number);
            assert_eq!(owner.as_slice(), number.to_string().as_bytes());
            assert_eq!(owner_number(owner.as_slice()), Some(number));
        }
        assert_eq!(owner_number(b"1000@example.org"), Some(1000));
    }

    #[test]
    fn names_are_no_numbers() {
        for name in ["", "root", "root@example.org", "@", "-1", "+1", "01", "1x", "4294967296"] {
            assert_eq!(owner_number(name.as_bytes()), None, "{name}");
        }
        assert_eq!(owner_number(&[b'9'; 64]), None);
    }
}

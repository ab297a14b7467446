//! The NFS versions supported by this crate. **Source:** RFC 1094, 1813, 7530, 8881, 7862.
//!
//! [`ProtocolVersion`] orders them by publication, so that "v4.1 or later" is a comparison.

/// A version of NFS, minor version included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ProtocolVersion {
    /// NFS version 2, RFC 1094.
    V2,
    /// NFS version 3, RFC 1813.
    V3,
    /// NFS version 4.0, RFC 7530.
    V4_0,
    /// NFS version 4.1, RFC 8881: sessions.
    V4_1,
    /// NFS version 4.2, RFC 7862.
    V4_2,
}

impl ProtocolVersion {
    /// All versions, oldest first.
    pub const ALL: [Self; 5] = [Self::V2, Self::V3, Self::V4_0, Self::V4_1, Self::V4_2];

    /// Returns the version number of the RPC program: 2, 3 or 4.
    pub const fn program_version(self) -> u32 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V4_0 | Self::V4_1 | Self::V4_2 => 4,
        }
    }

    /// Returns the minor version of a v4 compound, or `None` before v4.
    pub const fn minor(self) -> Option<u32> {
        match self {
            Self::V2 | Self::V3 => None,
            Self::V4_0 => Some(0),
            Self::V4_1 => Some(1),
            Self::V4_2 => Some(2),
        }
    }

    /// Returns the version with this minor number of v4.
    pub const fn from_minor(minor: u32) -> Option<Self> {
        match minor {
            0 => Some(Self::V4_0),
            1 => Some(Self::V4_1),
            2 => Some(Self::V4_2),
            _ => None,
        }
    }

    /// Returns true if the server keeps state for opens and clients: v4.
    pub fn is_stateful(self) -> bool {
        self >= Self::V4_0
    }

    /// Returns true if a WRITE may be unstable until a COMMIT; in v2 each is durable.
    pub fn has_commit(self) -> bool {
        self >= Self::V3
    }

    /// Returns true if every compound belongs to a session: v4.1 and later.
    pub fn has_sessions(self) -> bool {
        self >= Self::V4_1
    }

    /// Returns the version as users write it, such as `4.1`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V2 => "2",
            Self::V3 => "3",
            Self::V4_0 => "4.0",
            Self::V4_1 => "4.1",
            Self::V4_2 => "4.2",
        }
    }
}

impl std::fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

/// The text is not a version of NFS.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no version of NFS; there are 2, 3, 4.0, 4.1 and 4.2")]
pub struct UnknownVersion(pub String);

impl std::str::FromStr for ProtocolVersion {
    type Err = UnknownVersion;

    fn from_str(text: &str) -> Result<Self, UnknownVersion> {
        let found = Self::ALL.into_iter().find(|version| version.name() == text);
        found.ok_or_else(|| UnknownVersion(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_back() {
        for version in ProtocolVersion::ALL {
            assert_eq!(version.name().parse(), Ok(version));
        }
        let error = "4".parse::<ProtocolVersion>().unwrap_err();
        assert!(error.to_string().contains("4.0, 4.1"), "{error}");
    }

    #[test]
    fn has_minor_versions_only_in_v4() {
        for version in ProtocolVersion::ALL {
            let back = version.minor().and_then(ProtocolVersion::from_minor);
            assert_eq!(back, (version.program_version() == 4).then_some(version));
        }
        assert_eq!(ProtocolVersion::from_minor(3), None);
        assert!(ProtocolVersion::V4_2.has_sessions() && !ProtocolVersion::V4_0.has_sessions());
    }
}

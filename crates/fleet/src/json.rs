//! Run specs and actions embedded in messages as JSON.
//!
//! These types are designed for files that people read. They use tags and flattened fields, which a
//! format that isn't self-describing (such as postcard) cannot encode. They are small and sent once
//! per trial, so they travel in the same form as they are stored. A path that is not UTF-8 is an
//! error here, just as in a results file.

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

/// Serializes a value as a string of JSON.
pub(crate) fn serialize<T, S>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Serialize,
    S: Serializer,
{
    let text = serde_json::to_string(value).map_err(S::Error::custom)?;
    serializer.serialize_str(&text)
}

/// Deserializes a value written by [`serialize`].
pub(crate) fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    serde_json::from_str(&text).map_err(D::Error::custom)
}

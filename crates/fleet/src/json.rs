//! Specs and actions inside of messages, as JSON.
//!
//! Their shape is made for files that people read, with tags and flattened parts, which a format
//! that doesn't describe itself can't hold. They are small and travel once a trial, so they go as
//! they are stored. A path that is not UTF-8 is an error here, as it is in a results file.

use serde::de::{DeserializeOwned, Error as _};
use serde::ser::Error as _;
use serde::{Deserialize as _, Deserializer, Serialize, Serializer};

/// Writes a value as a string of JSON.
pub fn serialize<T, S>(value: &T, serializer: S) -> Result<S::Ok, S::Error>
where
    T: Serialize,
    S: Serializer,
{
    let text = serde_json::to_string(value).map_err(S::Error::custom)?;
    serializer.serialize_str(&text)
}

/// Reads what [`serialize`] wrote.
pub fn deserialize<'de, T, D>(deserializer: D) -> Result<T, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    let text = String::deserialize(deserializer)?;
    serde_json::from_str(&text).map_err(D::Error::custom)
}

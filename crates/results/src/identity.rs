//! Identifies a campaign across files: files are copied and merged, and the number within a file is
//! meaningless elsewhere.
//!
//! A campaign gets a random UUID when it starts.
//!
//! **Source:** RFC 9562, 5.4.

use std::fmt::Write as _;

use rusqlite::{Connection, params};

/// Assigns a random UUID to a campaign.
pub(crate) fn give_random(connection: &Connection, campaign_id: i64) -> rusqlite::Result<()> {
    let bytes: [u8; 16] = connection.query_row("SELECT randomblob(16)", [], |row| row.get(0))?;
    let sql = "INSERT INTO identities (campaign_id, uuid) VALUES (?1, ?2)";
    connection.execute(sql, params![campaign_id, format_uuid(bytes)])?;
    Ok(())
}

pub(crate) fn read_uuid(connection: &Connection, campaign_id: i64) -> rusqlite::Result<String> {
    let sql = "SELECT uuid FROM identities WHERE campaign_id = ?1";
    connection.query_row(sql, [campaign_id], |row| row.get(0))
}

/// Formats random bytes as a UUID; six bits are the version and variant.
fn format_uuid(mut bytes: [u8; 16]) -> String {
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let mut text = String::with_capacity(36);
    for (at, byte) in bytes.iter().enumerate() {
        if matches!(at, 4 | 6 | 8 | 10) {
            text.push('-');
        }
        // Writing to a String can't fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_uuid_version_and_variant() {
        assert_eq!(format_uuid([0xff; 16]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(format_uuid([0; 16]), "00000000-0000-4000-8000-000000000000");
    }
}

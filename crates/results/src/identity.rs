//! Identifies a campaign wherever it is stored: files are copied and merged, and the number within
//! a file says nothing elsewhere.
//!
//! A campaign is given a random UUID when it begins. Campaigns of releases that gave none have one
//! that follows from what never changes about them, so that copies of them are known as the same.
//!
//! **Source:** RFC 9562, 5.4 (random) and 5.8 (of one's own making).

use std::fmt::Write as _;

use model::Campaign;
use rusqlite::{Connection, OptionalExtension as _, params};
use sha2::{Digest as _, Sha256};

use crate::row::{header, rows};

/// Gives a campaign a random identity.
pub(crate) fn give_random(connection: &Connection, campaign_id: i64) -> rusqlite::Result<()> {
    let bytes: [u8; 16] = connection.query_row("SELECT randomblob(16)", [], |row| row.get(0))?;
    store_uuid(connection, campaign_id, &format_uuid(bytes, 4))
}

/// Gives every campaign that has no identity the one that follows from its header.
pub(crate) fn give_derived(connection: &Connection) -> rusqlite::Result<()> {
    let sql = "SELECT * FROM campaigns WHERE id NOT IN (SELECT campaign_id FROM identities)";
    for campaign in rows(connection, sql, [], header)? {
        store_uuid(connection, campaign.id, &derived_uuid(&campaign))?;
    }
    Ok(())
}

/// Returns the identity of a campaign whose header was read from the same file.
pub(crate) fn read_uuid(connection: &Connection, campaign: &Campaign) -> rusqlite::Result<String> {
    if !connection.table_exists(None, "identities")? {
        return Ok(derived_uuid(campaign));
    }
    let sql = "SELECT uuid FROM identities WHERE campaign_id = ?1";
    let kept = connection.query_row(sql, [campaign.id], |row| row.get(0)).optional()?;
    match kept {
        Some(uuid) => Ok(uuid),
        None => Ok(derived_uuid(campaign)),
    }
}

fn store_uuid(connection: &Connection, campaign_id: i64, uuid: &str) -> rusqlite::Result<()> {
    let sql = "INSERT INTO identities (campaign_id, uuid) VALUES (?1, ?2)";
    connection.execute(sql, params![campaign_id, uuid])?;
    Ok(())
}

/// The identity that follows from the header: what is set once, when a campaign begins.
pub(crate) fn derived_uuid(campaign: &Campaign) -> String {
    let mut hash = Sha256::new();
    for part in [&campaign.name, &campaign.tool_version, &campaign.command, &campaign.plan_toml] {
        // The length goes before each part: else "ab", "c" and "a", "bc" would be the same.
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.update(campaign.started_unix_ms.to_be_bytes());
    hash.update(campaign.seed.to_be_bytes());
    let hash = hash.finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hash[..16]);
    format_uuid(bytes, 8)
}

/// Writes a UUID of a version from bytes, of which six bits say what it is.
fn format_uuid(mut bytes: [u8; 16], version: u8) -> String {
    bytes[6] = (bytes[6] & 0x0f) | (version << 4);
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
    fn an_identity_says_its_version_and_variant() {
        assert_eq!(format_uuid([0xff; 16], 4), "ffffffff-ffff-4fff-bfff-ffffffffffff");
        assert_eq!(format_uuid([0; 16], 8), "00000000-0000-8000-8000-000000000000");
    }
}

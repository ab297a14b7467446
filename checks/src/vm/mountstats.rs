//! Reads the Linux client's statistics of a mount from `/proc/self/mountstats`.
//!
//! Main type: [`MountStats`], the few numbers that the checks need.
//!
//! **Source:** nfs_show_stats() in fs/nfs/super.c and nfs_iostats.h of Linux 6.1; the format calls
//! itself 1.1.

use std::collections::BTreeMap;

use anyhow::{Context, Result};

/// Statistics of one mount.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MountStats {
    /// Options in effect.
    pub options: Vec<String>,
    /// Number of transports; `nconnect` makes several.
    pub connections: usize,
    /// Bytes read from the server, by READ and similar operations.
    pub read_bytes: u64,
    /// Bytes written to the server by WRITE.
    pub written_bytes: u64,
    /// Calls of each operation, by its name in capitals.
    pub calls: BTreeMap<String, u64>,
}

impl MountStats {
    /// Finds the mount on `folder` in the text.
    ///
    /// # Errors
    /// If it isn't there, or lacks something that every NFS mount has.
    pub fn parse(text: &str, folder: &str) -> Result<Self> {
        let head = format!(" mounted on {folder} with fstype nfs");
        let (_, rest) = text
            .split_once(&head)
            .with_context(|| format!("no NFS is mounted on {folder}:\n{text}"))?;
        let mut stats = Self::default();
        // The first line is the rest of the one with the mount's name.
        for line in rest.lines().skip(1) {
            if line.starts_with("device ") {
                break;
            }
            let (key, value) = line.trim().split_once(':').unwrap_or_default();
            match key {
                "opts" => stats.options = value.trim().split(',').map(str::to_owned).collect(),
                "xprt" => stats.connections += 1,
                "bytes" => {
                    let counts: Vec<&str> = value.split_whitespace().collect();
                    let [_, _, _, _, read, written, ..] = counts[..] else {
                        anyhow::bail!("mountstats has a different format: {line:?}");
                    };
                    stats.read_bytes = read.parse()?;
                    stats.written_bytes = written.parse()?;
                }
                // The rest of the line is times and bytes. WRITE and READ have such lines, too.
                _ if is_operation(key) => {
                    let count = value.split_whitespace().next().unwrap_or_default();
                    stats.calls.insert(key.to_owned(), count.parse()?);
                }
                _ => {}
            }
        }
        Ok(stats)
    }

    /// Returns the `options` that aren't in effect.
    pub fn missing_options<'a>(&self, options: &[&'a str]) -> Vec<&'a str> {
        options
            .iter()
            .copied()
            .filter(|option| !self.options.contains(&(*option).to_owned()))
            .collect()
    }
}

/// Returns true if the key of a line is the name of an operation, as in `DELEGRETURN: 1 1 0 ...`.
fn is_operation(key: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    !key.is_empty() && key.bytes().all(is_part)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "device rootfs mounted on / with fstype rootfs\n\
        device s:/e mounted on /mnt/nfs with fstype nfs4 statvers=1.1\n\
        \topts:\trw,vers=4.2,rsize=1048576,hard\n\tage:\t0\n\
        \tbytes:\t5 6 0 0 7 8 1221 9 \n\txprt:\ttcp 0 0\n\txprt:\ttcp 0 0\n\
        device other mounted on /x with fstype nfs statvers=1.1\n\topts:\tro\n\
        \tbytes:\t1 1 1 1 1 1 1 1\n";

    #[test]
    fn one_mount_is_found_among_others() {
        let stats = MountStats::parse(TEXT, "/mnt/nfs").unwrap();
        assert_eq!((stats.read_bytes, stats.written_bytes, stats.connections), (7, 8, 2));
        assert_eq!(stats.missing_options(&["vers=4.2", "soft"]), ["soft"]);
        assert_eq!(MountStats::parse(TEXT, "/x").unwrap().options, ["ro"]);
        assert!(MountStats::parse(TEXT, "/").is_err());
    }
}

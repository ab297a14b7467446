//! Scripts on a client that mount, work and unmount, with mountstats between their steps.
//!
//! Main type: [`Mount`]. One ssh command does all of it, because each costs a connection. In the
//! script, `again` unmounts and mounts, `remount OPTIONS` does so with other options, and `snapshot
//! NAME` prints mountstats.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};

use super::lab::Lab;
use super::mountstats::MountStats;

/// Directory where clients mount.
const FOLDER: &str = "/mnt/nfs";
/// Size of the file that is written and read; not a multiple of the page size.
const FILE_BYTES: u64 = 1_500_001;
/// Time limit of a script, in seconds.
const SCRIPT_MAX_S: u32 = 150;

/// A mount to make.
pub struct Mount<'a> {
    /// The laboratory of the guest.
    pub lab: &'a Lab,
    /// The client that mounts.
    pub client: &'a str,
    /// Source of the mount: `server:/export`.
    pub source: &'a str,
    /// Options of the mount: `vers=4.2,nconnect=4`.
    pub options: &'a str,
}

/// The output of a script.
pub struct Output {
    /// Lines outside snapshots.
    pub lines: Vec<String>,
    snapshots: BTreeMap<String, MountStats>,
}

impl Output {
    /// Returns the snapshot with this name.
    pub fn at(&self, name: &str) -> Result<&MountStats> {
        self.snapshots.get(name).with_context(|| format!("no snapshot {name:?} was taken"))
    }

    fn read(text: &str) -> Result<Self> {
        let mut lines = Vec::new();
        let mut snapshots = BTreeMap::new();
        let mut rest = text.lines();
        while let Some(line) = rest.next() {
            if let Some(name) = line.strip_prefix("snapshot ") {
                let inside: Vec<&str> =
                    rest.by_ref().take_while(|line| *line != "snapshot ends").collect();
                snapshots.insert(name.to_owned(), MountStats::parse(&inside.join("\n"), FOLDER)?);
            } else {
                lines.push(line.to_owned());
            }
        }
        Ok(Self { lines, snapshots })
    }
}

impl Mount<'_> {
    /// Mounts, runs the script and unmounts, even after a failure.
    pub fn run(&self, script: &str) -> Result<Output> {
        let Self { lab, client, source, options } = self;
        let line = format!(
            "set -e; do_mount() {{ mount -t nfs -o $1 {source} {FOLDER}; }}; \
             remount() {{ umount {FOLDER}; do_mount $1; }}; again() {{ remount {options}; }}; \
             snapshot() {{ echo \"snapshot $1\"; cat /proc/self/mountstats; \
             echo 'snapshot ends'; }}; \
             do_mount {options}; trap 'umount {FOLDER}' EXIT; cd /; {script}"
        );
        Output::read(&lab.ssh_within(client, &line, SCRIPT_MAX_S)?)
    }

    /// Same as [`Mount::check_data`], and makes sure that the options are in effect.
    pub fn check_data_and_options(&self) -> Result<()> {
        let output = self.check_data()?;
        let wanted: Vec<&str> = self.options.split(',').collect();
        let missing = output.at("fresh")?.missing_options(&wanted);
        ensure!(missing.is_empty(), "not effective: {missing:?}");
        Ok(())
    }

    /// Writes a file and reads it back over the wire, and compares the kernel's counters.
    ///
    /// A new mount reads all bytes from the server, reading again none, and reading after the
    /// caches were dropped all of them again.
    pub fn check_data(&self) -> Result<Output> {
        let output = self.run(&format!(
            "head -c {FILE_BYTES} /dev/urandom >/tmp/want; \
             mkdir {FOLDER}/d; cp /tmp/want {FOLDER}/d/a; snapshot written; \
             again; cmp /tmp/want {FOLDER}/d/a; snapshot fresh; \
             cmp /tmp/want {FOLDER}/d/a; snapshot cached; \
             echo 3 >/proc/sys/vm/drop_caches; cmp /tmp/want {FOLDER}/d/a; snapshot dropped; \
             mv {FOLDER}/d/a {FOLDER}/d/b; ls {FOLDER}/d; rm -r {FOLDER}/d; \
             [ ! -e {FOLDER}/d ]"
        ))?;
        let written = output.at("written")?.written_bytes;
        ensure!(written == FILE_BYTES, "{written} bytes were written, not {FILE_BYTES}");
        for (name, times) in [("fresh", 1), ("cached", 1), ("dropped", 2)] {
            let bytes = output.at(name)?.read_bytes;
            let expected = times * FILE_BYTES;
            ensure!(bytes == expected, "{name}: {bytes} bytes were read, not {expected}");
        }
        ensure!(output.lines == ["b"], "after a rename, the directory contains {:?}", output.lines);
        Ok(output)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snapshots_are_separated_from_lines() {
        let text = "a\nsnapshot one\ndevice s:/e mounted on /mnt/nfs with fstype nfs \n\
            \topts:\trw\nsnapshot ends\nb\n";
        let output = Output::read(text).unwrap();
        assert_eq!(output.lines, ["a", "b"]);
        assert_eq!(output.at("one").unwrap().options, ["rw"]);
        assert!(output.at("two").is_err());
        assert!(Output::read("snapshot x\nsnapshot ends\n").is_err());
    }
}

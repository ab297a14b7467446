//! Checks whether results are written to the file system under test.
//!
//! Results are written and synced between trials, never during a pass, so a note is enough: they
//! use space, cache and journal of that file system. The target's path is not accessed here,
//! because its file system may hang; the agent has reported its mount point.

use std::path::Path;

use lab::mounts::{self, Mount};
use model::units::{Size, three_digits};
use model::{Caveat, CaveatCode, Evidence, PassResult, RunSpec, Trial};
use results::Store;

/// Adds the note to each pass of a trial on this host.
pub(crate) fn add_note(store: &Store, spec: &RunSpec, trial: &mut Trial) {
    if !spec.client_hosts().is_empty() || !spec.target.is_local() {
        return;
    }
    let is_point = |fact: &&model::Fact| fact.scope == "target" && fact.name == "mount point";
    let point = trial.facts.iter().find(is_point).map(|fact| Path::new(&fact.value));
    let measured = point.and_then(mounts::find_named);
    let (Some(measured), Some(of_results)) = (measured, Mount::find_containing(store.path()))
    else {
        return;
    };
    if !are_one_file_system(&measured, &of_results) {
        return;
    }
    for pass in &mut trial.passes {
        pass.caveats.extend(caveat(store.path(), &of_results, store.written_bytes(), pass));
    }
}

/// Compares the devices of two mounts. Subvolumes of btrfs have different device numbers but the
/// same source.
fn are_one_file_system(one: &Mount, other: &Mount) -> bool {
    let is_device = one.source.starts_with("/dev/");
    one.device == other.device
        || is_device && one.source == other.source && one.file_system == other.file_system
}

/// Raises the note for one pass if anything was written before its trial ended.
pub fn caveat(
    results: &Path,
    mount: &Mount,
    written_bytes: u64,
    pass: &PassResult,
) -> Option<Caveat> {
    if written_bytes == 0 {
        return None;
    }
    let mut evidence = format!(
        "{} and its journal are on the same {} as the target (device {}): {} were written to them \
         before this trial was stored",
        results.display(),
        mount.file_system,
        mount.device,
        Size(written_bytes),
    );
    if pass.bytes() > 0 {
        let percent = written_bytes as f64 / pass.bytes() as f64 * 100.0;
        evidence = format!(
            "{evidence}, {} % of the {} moved by the pass",
            three_digits(percent),
            Size(pass.bytes())
        );
    }
    let data = Evidence::bytes(written_bytes, 0, "wchar of /proc/thread-self/io");
    Some(CaveatCode::ResultsOnTarget.because(evidence).with_data(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(device: &str, source: &str) -> Mount {
        Mount { device: device.to_owned(), source: source.to_owned(), ..named_root() }
    }

    fn named_root() -> Mount {
        mounts::find_at(Path::new("/")).unwrap()
    }

    #[test]
    fn tells_file_systems_by_device() {
        let disk = mount("8:1", "/dev/sda1");
        assert!(are_one_file_system(&disk, &mount("8:1", "/dev/root")));
        // Two subvolumes of btrfs.
        assert!(are_one_file_system(&mount("0:40", "/dev/sdb"), &mount("0:41", "/dev/sdb")));
        assert!(!are_one_file_system(&disk, &mount("8:2", "/dev/sda2")));
        assert!(!are_one_file_system(&mount("0:40", "tmpfs"), &mount("0:41", "tmpfs")));
    }
}

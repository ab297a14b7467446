//! Machines as they were after booting: booted and saved once, and copied for each laboratory.
//!
//! Main function: [`copy_booted`]. Booting emulated machines takes most of a minute, and several
//! laboratories that boot at once compete for the CPUs; a copy takes seconds. The saved machines
//! are next to the images. They are booted again if anything they depend on has changed: an image,
//! the emulator or its flags.
//!
//! A second process waits for the first to finish, and copies only files that are no longer written
//! to.

use std::fmt::Write as _;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::image::{self, Image};
use super::lab::{Lab, NewLab, TemporaryLab};
use crate::proc;

/// Name of the file that describes what saved machines depend on.
const DESCRIPTION: &str = "description";

/// Makes a laboratory in a directory from the first `count` of these machines, as they were after
/// booting: [`Lab::rewind`] resumes them, any number of times.
///
/// # Errors
/// If they can't be booted, saved or copied, or some are already running in the directory.
pub fn copy_booted(folder: &Path, wanted: &NewLab, count: usize) -> Result<Lab> {
    let cache = image::cache_folder();
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let mut name = format!("booted-{}", wanted.server.name());
    for client in &wanted.clients {
        write!(name, "-{}", client.name())?;
    }
    let lock = File::create(cache.join(format!("{name}.lock")))?;
    lock.lock().context("cannot lock the saved machines")?;
    let saved = cache.join(name);
    let emulator = proc::capture_text(Command::new("qemu-system-x86_64").arg("--version"))?;
    let mut images = vec![image::find_or_make(wanted.server)?];
    for suite in &wanted.clients {
        images.push(image::find_or_make(*suite)?);
    }
    let lab = match find_saved(&saved, &emulator, &images) {
        Some(lab) => lab,
        None => boot_and_save(&saved, &emulator, wanted)?,
    };
    lab.copy_to(folder, count)
}

/// Returns the machines saved in a directory, if they are up to date.
fn find_saved(folder: &Path, emulator: &str, images: &[Image]) -> Option<Lab> {
    let lab = Lab::open(folder).ok()?;
    let description = fs::read_to_string(folder.join(DESCRIPTION)).ok()?;
    let is_current = description == describe(&lab, emulator).ok()?;
    (is_current && names_all(&description, images)).then_some(lab)
}

/// Returns true if machines have these images: an image of an older recipe may still exist.
fn names_all(description: &str, images: &[Image]) -> bool {
    images.iter().all(|image| description.contains(&format!("{}/", image.folder.display())))
}

fn boot_and_save(folder: &Path, emulator: &str, wanted: &NewLab) -> Result<Lab> {
    eprintln!("vm: booting {}", folder.display());
    // We hold the lock: anything running there was left by a process that is gone.
    Lab::shut_down(folder)?;
    if folder.exists() {
        fs::remove_dir_all(folder).with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    let lab = TemporaryLab::new(Lab::boot(folder, wanted)?);
    lab.save()?;
    fs::write(folder.join(DESCRIPTION), describe(&lab, emulator)?)?;
    Lab::open(folder)
}

/// Describes what machines depend on: the emulator, its flags, and their images.
///
/// The disks of a saved machine only contain the differences from its image, so they are worthless
/// if the image was rebuilt, even at the same path.
fn describe(lab: &Lab, emulator: &str) -> Result<String> {
    let mut text = format!("{emulator}\n");
    for (command, disk) in lab.describe_machines() {
        let facts = fs::metadata(&disk).with_context(|| format!("no {}", disk.display()))?;
        writeln!(text, "{command}\nimage {}.{:09}", facts.mtime(), facts.mtime_nsec())?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;
    use crate::vm::machine::{Machine, Plan, Suite};

    #[test]
    fn reboots_machines_of_older_recipe() {
        let image = |name: &str| Image { folder: Path::new("/cache").join(name) };
        let description = "qemu 9\nqemu -drive /cache/trixie-1/root.img\nimage 7.000000001\n";
        assert!(names_all(description, &[image("trixie-1")]));
        // The old image still exists, with its machines unchanged.
        assert!(!names_all(description, &[image("trixie-2")]));
        assert!(!names_all(description, &[image("trixie-1"), image("bookworm-1")]));
    }

    #[test]
    fn reboots_after_image_or_emulator_change() {
        let folder = tempfile::TempDir::new().unwrap();
        let image = folder.path().join("image");
        let saved = folder.path().join("saved");
        for folder in [&image, &saved] {
            fs::create_dir(folder).unwrap();
        }
        let disk = File::create(image.join("root.img")).unwrap();
        let machines = vec![Machine::server(Suite::Trixie, image)];
        Plan { machines, mtu: 1500, has_shared_disk: false }.save(&saved).unwrap();
        let is_found = |emulator: &str| find_saved(&saved, emulator, &[]).is_some();
        assert!(!is_found("8.2"), "nothing describes them");
        let description = describe(&Lab::open(&saved).unwrap(), "8.2").unwrap();
        fs::write(saved.join(DESCRIPTION), &description).unwrap();
        assert!(is_found("8.2") && !is_found("8.3"), "{description}");
        disk.set_modified(SystemTime::now() + Duration::from_secs(9)).unwrap();
        assert!(!is_found("8.2"), "{description}");
    }
}

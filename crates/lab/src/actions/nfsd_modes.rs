//! Sets how the kernel's server reads and writes files. Both apply to the whole host.
//!
//! The server looks at them for each request, so it isn't restarted; its start has loaded the
//! module. **Source:** as in [`crate::facts::nfsd_modes`].

use std::path::{Path, PathBuf};

use model::action::NfsdModes;
use model::options::check_path;
use model::{EffectiveSettings, NfsdIo};

use super::LabAction;
use super::accept::accept;
use crate::DEBUGFS;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::facts::kernel_release;
use crate::facts::nfsd_modes::{
    self, FOLDER, NO_SPLICE, READ, WRITE, has_debugfs, name, number, read_as_root,
};
use crate::mounts::Mount;
use crate::undo::Undo;

/// The modes before the change.
#[derive(Clone, Debug, Default)]
pub(crate) struct ModesFacts {
    has_debugfs: bool,
    /// Contents of the files; `None` if the kernel doesn't have them.
    read: Option<String>,
    write: Option<String>,
    no_splice: Option<String>,
}

impl LabAction for NfsdModes {
    type Facts = ModesFacts;

    fn accept(&self) -> Result<(), LabError> {
        accept("directory", check_path(&self.directory))
    }

    fn look(&self) -> Result<ModesFacts, LabError> {
        let read = |file| read_as_root(&path_of(file));
        Ok(ModesFacts {
            has_debugfs: has_debugfs(),
            read: read(READ),
            write: read(WRITE),
            no_splice: read(NO_SPLICE),
        })
    }

    fn assume(&self) -> ModesFacts {
        ModesFacts { no_splice: Some("0".to_owned()), ..ModesFacts::default() }
    }

    fn steps(&self, before: &ModesFacts) -> Vec<Step> {
        let mut steps = Vec::new();
        for Requested { key, file, mode, old } in requested(self, before) {
            if old != Some(number(mode)) {
                let not_supported = lacks_mode(key, mode, &kernel_release());
                steps.push(Step::WriteMode {
                    path: path_of(file),
                    text: number(mode).to_owned(),
                    not_supported,
                });
            }
        }
        // The kernel turns splice reads off for the other modes, but not on again.
        if self.read == Some(NfsdIo::Buffered)
            && before.no_splice.as_ref().is_some_and(|off| off != "0")
        {
            steps.push(Step::write(path_of(NO_SPLICE), "0"));
        }
        steps
    }

    /// Restores the old modes. Fails if the kernel has no such setting, or debugfs isn't mounted.
    fn undo(&self, before: &ModesFacts, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        // Hosts that are containers of one machine share the settings. Only the one that changes
        // them restores them, since the others would restore its values.
        let mut undo = Vec::new();
        let restore = |file, old: &str| Undo::Write { path: path_of(file), text: old.to_owned() };
        // Executed from last to first: writing a mode of reads changes splice reads.
        if let (Some(mode), Some(old)) = (self.read, &before.no_splice) {
            let new = if mode == NfsdIo::Buffered { "0" } else { "1" };
            if old != new {
                undo.push(restore(NO_SPLICE, old));
            }
        }
        for Requested { key, file, mode, old } in requested(self, before) {
            match old {
                None if before.has_debugfs => {
                    return Err(LabError::Unable(lacks_setting(key, file, &kernel_release())));
                }
                None => return Err(LabError::Unable(needs_debugfs(key))),
                Some(old) if old != number(mode) => undo.push(restore(file, old)),
                Some(_) => {}
            }
        }
        Ok(undo)
    }

    fn check(&self, before: &ModesFacts) -> Result<EffectiveSettings, LabError> {
        let mut findings = Findings::new("server");
        for Requested { key, file, mode, .. } in requested(self, before) {
            let path = path_of(file);
            let found = read_as_root(&path).map_or("unknown".to_owned(), |text| name(&text));
            findings.compare(key, mode.name(), &found, &path.display().to_string());
            if mode != NfsdIo::Buffered
                && let Some(mount) = Mount::find_containing(&self.directory)
                && mount.is_memory()
            {
                let found = format!("buffered: {} has no other mode", mount.file_system);
                findings.add_difference(key, mode.name(), found, "/proc/self/mountinfo");
            }
        }
        findings.extend(nfsd_modes::facts());
        Ok(findings.finish())
    }
}

/// A mode that a run requests.
struct Requested<'a> {
    /// Its key in plans.
    key: &'static str,
    file: &'static str,
    mode: NfsdIo,
    /// Contents of the file before the change; `None` if the kernel doesn't have it.
    old: Option<&'a str>,
}

fn requested<'a>(action: &NfsdModes, before: &'a ModesFacts) -> Vec<Requested<'a>> {
    let of = |key, file, mode: Option<NfsdIo>, old: &'a Option<String>| {
        mode.map(|mode| Requested { key, file, mode, old: old.as_deref() })
    };
    let read = of("nfsd_io_read", READ, action.read, &before.read);
    let write = of("nfsd_io_write", WRITE, action.write, &before.write);
    read.into_iter().chain(write).collect()
}

fn path_of(file: &str) -> PathBuf {
    Path::new(FOLDER).join(file)
}

fn needs_debugfs(key: &str) -> String {
    format!("{key} needs debugfs, which is not mounted (hint: `mount -t debugfs none {DEBUGFS}`)")
}

fn lacks_setting(key: &str, file: &str, kernel: &str) -> String {
    format!(
        "{key} is not supported by kernel {kernel}, which has no {FOLDER}/{file} (hint: it takes \
         Linux 6.18 or newer)"
    )
}

fn lacks_mode(key: &str, mode: NfsdIo, kernel: &str) -> String {
    let hint = match mode {
        NfsdIo::Direct => " (hint: it takes Linux 6.19 or newer)",
        NfsdIo::Buffered | NfsdIo::DontCache => "",
    };
    format!("{key} {mode} is not supported by kernel {kernel}{hint}")
}

#[cfg(test)]
mod tests {
    use NfsdIo::{Buffered, Direct, DontCache};

    use super::*;

    /// Returns a kernel's files, in the order read, write and splice reads.
    fn kernel(files: [&str; 3]) -> ModesFacts {
        let [read, write, no_splice] = files.map(|text| Some(text.to_owned()));
        ModesFacts { has_debugfs: true, read, write, no_splice }
    }

    fn action(read: Option<NfsdIo>, write: Option<NfsdIo>) -> NfsdModes {
        NfsdModes { read, write, directory: "/srv".into() }
    }

    fn shown(read: Option<NfsdIo>, write: Option<NfsdIo>, before: &ModesFacts) -> Vec<String> {
        action(read, write).steps(before).iter().map(ToString::to_string).collect()
    }

    fn undone(
        read: Option<NfsdIo>,
        write: Option<NfsdIo>,
        before: &ModesFacts,
    ) -> Result<Vec<(String, String)>, String> {
        let undo = action(read, write).undo(before, &[]).map_err(|error| error.to_string())?;
        // In the order in which they are executed.
        let writes = undo.into_iter().rev().map(|undo| match undo {
            Undo::Write { path, text } => {
                (path.file_name().unwrap().to_string_lossy().into_owned(), text)
            }
            other => panic!("{other:?}"),
        });
        Ok(writes.collect())
    }

    fn pair(file: &str, text: &str) -> (String, String) {
        (file.to_owned(), text.to_owned())
    }

    #[test]
    fn writes_and_restores_modes() {
        let usual = kernel(["0", "0", "0"]);
        let folder = "/sys/kernel/debug/nfsd";
        let both = shown(Some(Direct), Some(DontCache), &usual);
        let expected = ["echo 2 > FOLDER/io_cache_read", "echo 1 > FOLDER/io_cache_write"];
        assert_eq!(both, expected.map(|text| text.replace("FOLDER", folder)));
        // Splice reads come back last, because restoring the mode may turn them off.
        let expected = [pair(READ, "0"), pair(WRITE, "0"), pair(NO_SPLICE, "0")];
        assert_eq!(undone(Some(Direct), Some(DontCache), &usual).unwrap().len(), 3);
        for part in &expected {
            assert!(undone(Some(Direct), Some(DontCache), &usual).unwrap().contains(part));
        }
        assert_eq!(undone(Some(Direct), None, &usual).unwrap().last(), Some(&expected[2]));
        assert_eq!(undone(None, Some(Direct), &usual).unwrap(), [pair(WRITE, "0")]);
        assert_eq!(shown(Some(Buffered), Some(Buffered), &usual), Vec::<String>::new());
        assert_eq!(undone(Some(Buffered), Some(Buffered), &usual).unwrap(), []);
    }

    #[test]
    fn buffered_reads_splice_again() {
        let direct = kernel(["2", "0", "1"]);
        let steps = shown(Some(Buffered), None, &direct);
        assert_eq!(steps.len(), 2);
        assert!(steps[0].starts_with("echo 0 > ") && steps[0].ends_with(READ), "{steps:?}");
        assert!(steps[1].starts_with("echo 0 > ") && steps[1].ends_with(NO_SPLICE), "{steps:?}");
        let restored = undone(Some(Buffered), None, &direct).unwrap();
        assert_eq!(restored, [pair(READ, "2"), pair(NO_SPLICE, "1")]);
        // Left behind by somebody who tried the other modes.
        let left = kernel(["0", "0", "1"]);
        assert_eq!(shown(Some(Buffered), None, &left).len(), 1);
        assert_eq!(undone(Some(Buffered), None, &left).unwrap(), [pair(NO_SPLICE, "1")]);
    }

    #[test]
    fn explains_missing_modes() {
        let without = |has_debugfs| {
            let before = ModesFacts { has_debugfs, ..ModesFacts::default() };
            undone(None, Some(Direct), &before).unwrap_err()
        };
        assert_eq!(without(false), needs_debugfs("nfsd_io_write"));
        assert_eq!(without(true), lacks_setting("nfsd_io_write", WRITE, &kernel_release()));
        let texts = [
            needs_debugfs("nfsd_io_read"),
            lacks_setting("nfsd_io_read", READ, "6.12.48"),
            lacks_mode("nfsd_io_write", Direct, "6.18.2"),
            lacks_mode("nfsd_io_write", DontCache, "6.18.2"),
        ];
        insta::assert_snapshot!(texts.join("\n"));
    }
}

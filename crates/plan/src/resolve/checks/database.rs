//! Checks of databases and virtual machines: the last file is a log or a base image, so there must
//! be others.

use model::setting::Setting;
use model::{RunSpec, Workload};

use super::WrittenSettings;
use crate::syntax::error::{Fault, PlanError};
use crate::syntax::limits::{self, show_size};
use crate::syntax::text;

/// Refuses a database without data files, or with appends that its log cannot hold.
pub(super) fn check(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    debug_assert_eq!(run.workload, Workload::Database);
    if run.files < 2 {
        let what = "a database of 1 file has no data, because the last file is its log";
        let fault = Fault::new(what.to_owned()).hint("at least 2 files");
        return Err(written.fault(run, &[Setting::Files], fault));
    }
    let bytes = u64::from(run.database.commit_bytes);
    if bytes > run.file_size_bytes {
        let size = show_size(run.file_size_bytes);
        let what = format!("a commit_size of {} does not fit in a log of {size}", show_size(bytes));
        let hint = format!("the log is the last file, so at most the file_size, \"{}\"", {
            text::size(run.file_size_bytes)
        });
        let settings = [Setting::CommitSize, Setting::FileSize];
        return Err(written.fault(run, &settings, Fault::new(what).hint(hint)));
    }
    if run.direct && !bytes.is_multiple_of(limits::DIRECT_ALIGNMENT) {
        let what = format!("direct I/O can't append {} at a time", show_size(bytes));
        let hint = format!(
            "O_DIRECT needs a commit_size that is a multiple of {} bytes, such as \"{}\"",
            limits::DIRECT_ALIGNMENT,
            text::size(bytes.next_multiple_of(limits::DIRECT_ALIGNMENT))
        );
        let settings = [Setting::CommitSize, Setting::Direct];
        return Err(written.fault(run, &settings, Fault::new(what).hint(hint)));
    }
    Ok(())
}

/// Refuses virtual machines without an image of their own.
pub(super) fn check_images(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let needed = run.all_workers().saturating_add(1);
    if !run.vm_boot.base_image || run.files >= needed {
        return Ok(());
    }
    let what = format!(
        "{} files are too few for the overlays of {} virtual machines and their base image",
        run.files,
        run.all_workers()
    );
    let fault = Fault::new(what).hint(format!("at least {needed} files"));
    Err(written.fault(run, &[Setting::Files, Setting::Workers, Setting::BaseImage], fault))
}

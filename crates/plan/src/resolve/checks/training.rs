//! Checks of a training: its accelerators, readers, batches and samples must go together.

use model::RunSpec;
use model::setting::Setting;
use model::units::Size;
use workload::TrainingSteps;

use super::WrittenSettings;
use crate::syntax::error::{Fault, PlanError};

/// Maximum number of steps in a pass: the times of each step are kept in memory.
const STEPS_MAX: u64 = 10_000_000;

/// Refuses a training whose readers, samples or steps are not whole, or too many.
pub(super) fn check(run: &RunSpec, written: &WrittenSettings<'_>) -> Result<(), PlanError> {
    let checks = [check_readers, check_samples, check_steps];
    match checks.iter().find_map(|check| check(run)) {
        Some((settings, fault)) => Err(written.fault(run, settings, fault)),
        None => Ok(()),
    }
}

type Found = Option<(&'static [Setting], Fault)>;

/// Each worker is a reader of one accelerator.
fn check_readers(run: &RunSpec) -> Found {
    let training = &run.training;
    let needed = u64::from(training.accelerators) * u64::from(training.readers);
    if needed == u64::from(run.workers) {
        return None;
    }
    let what = format!(
        "accelerators ({}) times readers ({}) is {needed} workers, not {}",
        training.accelerators, training.readers, run.workers
    );
    let fault = Fault::new(what).hint("leave out workers, or set readers");
    Some((&[Setting::Workers, Setting::Readers, Setting::Accelerators], fault))
}

/// A file has a whole number of samples, and a sample that is a file is read by one op.
fn check_samples(run: &RunSpec) -> Found {
    const SETTINGS: &[Setting] = &[Setting::FileSize, Setting::SamplesPerFile];
    let per_file = u64::from(run.training.samples_per_file);
    let bytes = run.largest_file_bytes();
    if run.file_sizes.is_some() && !run.training.reads_whole_files() {
        let what = format!("files of {per_file} samples have the same size");
        return Some((SETTINGS, Fault::new(what).hint("one size, or samples_per_file = 1")));
    }
    if !bytes.is_multiple_of(per_file) {
        let what = format!(
            "a file of {} cannot have {per_file} samples of the same size",
            Size(bytes).exact()
        );
        let near = (bytes / per_file).max(1) * per_file;
        let fault =
            Fault::new(what).hint(format!("a multiple of {per_file} bytes, such as {near}"));
        return Some((SETTINGS, fault));
    }
    if run.training.reads_whole_files() && bytes > u32::MAX.into() {
        let what = format!("a sample of {} is too large to be read at once", Size(bytes).exact());
        let fault = Fault::new(what).hint("at most 4GiB, or several samples in each file");
        return Some((SETTINGS, fault));
    }
    None
}

/// Utilization needs two steps, since the first one isn't counted.
fn check_steps(run: &RunSpec) -> Found {
    const SETTINGS: &[Setting] = &[
        Setting::Files,
        Setting::Batch,
        Setting::Accelerators,
        Setting::Epochs,
        Setting::SamplesPerFile,
    ];
    let steps = TrainingSteps::new(&run.for_agents());
    let of_step = steps.batch * steps.accelerators;
    if steps.all >= 2 && steps.all <= STEPS_MAX {
        return None;
    }
    let what = if steps.per_epoch == 0 {
        let samples = steps.samples;
        format!("{samples} samples are too few for a step of {of_step} (batch times accelerators)")
    } else if steps.all < 2 {
        format!("{} samples are only one step, which isn't counted", steps.samples)
    } else {
        format!("{} steps are too many to keep the times of all", steps.all)
    };
    let hint = if steps.all < 2 {
        format!("at least {} samples, or smaller batches", 2 * of_step)
    } else {
        format!("at most {STEPS_MAX} steps: use fewer epochs, or larger batches")
    };
    Some((SETTINGS, Fault::new(what).hint(hint)))
}

//! Training of a model: accelerators that compute on batches of samples, and the readers that feed
//! them.
//!
//! Accelerators only exist as times: a step starts when its batch has been read and the step before
//! it has ended, and takes [`Training::compute_ns`]. The more of the time they compute, the better
//! the storage keeps up.

use serde::{Deserialize, Serialize};

use crate::runs::checkpoint::SCALE_ONE;
use crate::runs::file_sizes::{SIZE_MAX, SizeDistribution};
use crate::text::words::words;

/// Minimum number of steps in an epoch of a data set whose size follows from its model. The first
/// step isn't counted, and fewer than four show nothing.
const STEPS_MIN: u64 = 5;

/// Steps for each batch that was read ahead, so that these are at most a tenth of all.
const STEPS_PER_BATCH_AHEAD: u64 = 10;

words! {
    /// A model that is trained, which determines the shape of its data set.
    TrainedModel {
        /// Image segmentation.
        Unet3d = "unet3d",
        /// Image classification.
        Resnet50 = "resnet50",
        /// Cosmology parameter prediction.
        Cosmoflow = "cosmoflow",
        /// Object detection.
        Retinanet = "retinanet",
        /// Image generation.
        Flux = "flux",
        /// Recommendation.
        Dlrm = "dlrm",
    }
}

words! {
    /// What is shuffled, differently in each epoch.
    Shuffle {
        /// The samples of all files, as a reader with an index of them does.
        Samples = "samples",
        /// The files; the samples of each are read in sequence.
        Files = "files",
        /// Nothing: files and samples are read in the same sequence in each epoch.
        None = "none",
    }
}

/// The data set of a model, and how it is trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelShape {
    pub sample_bytes: u64,
    /// Standard deviation of the sizes of samples that are a file each.
    pub deviation_bytes: u64,
    pub samples_per_file: u32,
    pub files: u32,
    /// Samples that an accelerator processes in one step.
    pub batch: u32,
    /// Threads that read for one accelerator.
    pub readers: u32,
    /// Time of one step, in nanoseconds.
    pub compute_ns: u64,
    /// Share of the time that accelerators must compute, in percent.
    pub au_min_percent: u32,
    pub shuffle: Shuffle,
}

impl TrainedModel {
    /// Returns the shape of a model's data set, and the times of its accelerator: an H100 for
    /// resnet50 and cosmoflow, a B200 for the others.
    ///
    /// **Source:** MLPerf Storage, configurations of the workloads: v2.0 for resnet50 and
    /// cosmoflow, v3.0 for the others. `TFRecord` and Parquet files are read in sequence.
    pub const fn shape(self) -> ModelShape {
        let of_images = ModelShape {
            sample_bytes: 146_600_628,
            deviation_bytes: 68_341_808,
            samples_per_file: 1,
            files: 7_200,
            batch: 7,
            readers: 4,
            compute_ns: 162_000_000,
            au_min_percent: 90,
            shuffle: Shuffle::Samples,
        };
        match self {
            Self::Unet3d => of_images,
            Self::Resnet50 => ModelShape {
                sample_bytes: 114_660,
                deviation_bytes: 0,
                samples_per_file: 1_251,
                files: 1_024,
                batch: 400,
                readers: 8,
                compute_ns: 224_000_000,
                shuffle: Shuffle::Files,
                ..of_images
            },
            Self::Cosmoflow => ModelShape {
                sample_bytes: 2_828_486,
                deviation_bytes: 71_311,
                files: 524_288,
                batch: 1,
                compute_ns: 3_500_000,
                au_min_percent: 70,
                ..of_images
            },
            Self::Retinanet => ModelShape {
                sample_bytes: 322_957,
                deviation_bytes: 0,
                files: 1_170_301,
                batch: 24,
                readers: 8,
                compute_ns: 47_550_000,
                au_min_percent: 85,
                ..of_images
            },
            Self::Flux => ModelShape {
                sample_bytes: 2_164_832,
                deviation_bytes: 0,
                samples_per_file: 288,
                files: 4_296,
                batch: 48,
                readers: 8,
                compute_ns: 1_350_000_000,
                shuffle: Shuffle::Files,
                ..of_images
            },
            Self::Dlrm => ModelShape {
                sample_bytes: 761,
                deviation_bytes: 0,
                samples_per_file: 4_718_592,
                files: 1_024,
                batch: 16_384,
                compute_ns: 375_000,
                au_min_percent: 70,
                shuffle: Shuffle::Files,
                ..of_images
            },
        }
    }
}

/// What is trained, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Training {
    pub model: TrainedModel,
    /// Share of the model's files, in millionths.
    pub scale_millionths: u32,
    /// Accelerators of each client host.
    pub accelerators: u32,
    /// Threads that read for one accelerator.
    pub readers: u32,
    /// Samples that an accelerator processes in one step.
    pub batch: u32,
    /// Time of one step, in nanoseconds.
    pub compute_ns: u64,
    /// Batches that each reader may read ahead.
    pub prefetch: u32,
    /// How often all samples are read.
    pub epochs: u32,
    pub shuffle: Shuffle,
    /// Samples in each file, all of the same size; only files of one sample may differ in size.
    pub samples_per_file: u32,
    /// Share of the time that accelerators must compute, in percent.
    pub au_min_percent: u32,
}

impl Default for Training {
    fn default() -> Self {
        let model = TrainedModel::Resnet50;
        let shape = model.shape();
        Self {
            model,
            scale_millionths: SCALE_ONE / 100,
            accelerators: 1,
            readers: shape.readers,
            batch: shape.batch,
            compute_ns: shape.compute_ns,
            prefetch: 2,
            epochs: 1,
            shuffle: shape.shuffle,
            samples_per_file: shape.samples_per_file,
            au_min_percent: shape.au_min_percent,
        }
    }
}

impl Training {
    /// Returns the number of files of the scaled model, with enough samples for a few steps of the
    /// accelerators of `agents` client processes.
    pub fn scaled_files(&self, agents: u32) -> u64 {
        let files = u64::from(self.model.shape().files) * u64::from(self.scale_millionths);
        let step = u64::from(self.batch) * u64::from(self.accelerators) * u64::from(agents);
        let least = (step * STEPS_MIN).div_ceil(self.samples_per_file.max(1).into());
        files.div_ceil(SCALE_ONE.into()).max(least)
    }

    /// Returns the default sizes of files.
    pub fn usual_file_sizes(&self) -> SizeDistribution {
        let ModelShape { sample_bytes, deviation_bytes, .. } = self.model.shape();
        if deviation_bytes == 0 || !self.reads_whole_files() {
            return SizeDistribution::Fixed(sample_bytes * u64::from(self.samples_per_file));
        }
        let max_bytes = SIZE_MAX;
        SizeDistribution::Normal { mean_bytes: sample_bytes, deviation_bytes, max_bytes }
    }

    /// Returns the batches of an accelerator that its readers may hold before it takes the first.
    pub const fn batches_ahead(&self) -> u64 {
        self.readers as u64 * self.prefetch as u64
    }

    /// Returns the number of steps from which on the batches that were read before the first step
    /// hardly matter.
    pub const fn steps_needed(&self) -> u64 {
        self.batches_ahead() * STEPS_PER_BATCH_AHEAD
    }

    /// Returns true if each sample is a file, which is opened, read and closed. Files of several
    /// samples stay open.
    pub const fn reads_whole_files(&self) -> bool {
        self.samples_per_file <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scaled(model: TrainedModel, scale_millionths: u32) -> Training {
        let shape = model.shape();
        let ModelShape { batch, samples_per_file, .. } = shape;
        Training { model, scale_millionths, batch, samples_per_file, ..Training::default() }
    }

    #[test]
    fn scales_files_of_models() {
        let files = |model, scale| scaled(model, scale).scaled_files(1);
        assert_eq!(files(TrainedModel::Cosmoflow, SCALE_ONE), 524_288);
        assert_eq!(files(TrainedModel::Cosmoflow, 1_000), 525);
        // Five steps of 7 samples, and five of 400 samples of which a file has 1251.
        assert_eq!(files(TrainedModel::Unet3d, 1), 35);
        assert_eq!(files(TrainedModel::Resnet50, 1), 2);
        let many = Training { accelerators: 4, ..scaled(TrainedModel::Unet3d, 1) };
        assert_eq!(many.scaled_files(2), 280);
    }

    #[test]
    fn models_have_published_sizes() {
        let bytes = |model: TrainedModel| {
            let shape = model.shape();
            shape.sample_bytes * u64::from(shape.samples_per_file) * u64::from(shape.files)
        };
        let gigabytes: Vec<u64> =
            TrainedModel::ALL.iter().map(|model| bytes(*model) / 1_000_000_000).collect();
        assert_eq!(gigabytes, [1_055, 146, 1_482, 377, 2_678, 3_677]);
        // MLPerf Storage states mean and standard deviation of the images of unet3d.
        let sizes = scaled(TrainedModel::Unet3d, SCALE_ONE).usual_file_sizes();
        assert_eq!(sizes.to_string(), "normal 146600628B 68341808B");
        let of_one_size = scaled(TrainedModel::Retinanet, SCALE_ONE).usual_file_sizes();
        assert_eq!(of_one_size, SizeDistribution::Fixed(322_957));
    }
}

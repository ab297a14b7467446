//! Data sets of trainings that fit into the memory of their hosts.

use agent::caveats::{about_data_set, about_steps};
use lab::facts::memory::Memory;
use model::{CaveatCode, Pass, PassResult, RunSpec, Target, Training, TrainingWork, Workload};

use crate::driven_agent::stream;

/// 100 files of 1 MiB, which two readers of one accelerator on each host read.
fn spec(hosts: u32) -> RunSpec {
    RunSpec {
        workload: Workload::Training,
        workers: 2 * hosts,
        files: 100,
        file_size_bytes: 1 << 20,
        training: Training { accelerators: 1, readers: 2, ..Training::default() },
        ..stream(std::path::Path::new("/"))
    }
}

#[test]
fn needs_five_times_the_memory() {
    let code = |hosts, memory| {
        about_data_set(&spec(hosts), Pass::Train, Some(&Memory::from_host(memory)))
            .map(|caveat| caveat.code.code())
    };
    assert_eq!(code(1, 20 << 20), None);
    assert_eq!(code(1, (20 << 20) + 1), Some("small-data-set"));
    assert_eq!(code(2, 10 << 20), None);
    assert_eq!(code(2, 20 << 20), Some("small-data-set"));
}

#[test]
fn judges_only_what_hosts_can_cache() {
    let memory = Memory::from_host(1 << 40);
    assert_eq!(about_data_set(&spec(1), Pass::Read, Some(&memory)), None);
    let null = RunSpec { target: Target::Null, ..spec(1) };
    assert_eq!(about_data_set(&null, Pass::Train, Some(&memory)), None);
    assert_eq!(about_data_set(&spec(1), Pass::Train, None), None);
}

#[test]
fn needs_ten_steps_per_batch_ahead() {
    // Two readers may read two batches each.
    let code = |steps| {
        let mut result = PassResult::new(Pass::Train);
        result.scope.training = Some(TrainingWork { steps, ..TrainingWork::default() });
        about_steps(&spec(1), &result).map(|caveat| caveat.code)
    };
    assert_eq!((code(39), code(40)), (Some(CaveatCode::TooShort), None));
    assert_eq!(about_steps(&spec(1), &PassResult::new(Pass::Read)), None);
}

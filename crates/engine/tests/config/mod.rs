//! The configuration of targets in tests.

use std::sync::Arc;

use engine::{Stop, SystemClock, TargetConfig};
use model::Share;
use workload::Pattern;

/// Makes the configuration of a target whose files are in the directory `work_name`.
pub fn target_config(work_name: &str) -> TargetConfig {
    TargetConfig {
        seed: 1,
        work_name: work_name.to_owned(),
        pattern: Pattern::new(1, 1 << 20),
        clock: Arc::new(SystemClock::new()),
        keep: false,
        stop: Stop::default(),
        share: Share::ALL,
        joins: false,
    }
}

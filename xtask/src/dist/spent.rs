//! Elapsed time and CPU time of a step; the former depends on what else the machine does.
//!
//! Main type: [`Stopwatch`]. CPU time is that of this process and its ended children, whichever
//! step started them: concurrent steps are measured as one.

use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::time::{ClockId, clock_gettime};

use crate::proc;

/// The start of a step, on both clocks.
pub struct Stopwatch {
    begun: Instant,
    cpu_ns: u64,
}

impl Stopwatch {
    /// Starts both clocks at zero.
    ///
    /// # Errors
    /// If there is no `/proc`.
    pub fn start() -> Result<Self> {
        Ok(Self { begun: Instant::now(), cpu_ns: cpu_ns()? })
    }

    /// Returns both times as text.
    ///
    /// # Errors
    /// Same as [`Stopwatch::start`].
    pub fn read(&self) -> Result<String> {
        let cpu = Duration::from_nanos(cpu_ns()?.saturating_sub(self.cpu_ns));
        let (wall_s, cpu_s) = (self.begun.elapsed().as_secs_f64(), cpu.as_secs_f64());
        Ok(format!("{wall_s:.1} s ({cpu_s:.1} s of processors)"))
    }
}

fn cpu_ns() -> Result<u64> {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    Ok(own.tv_sec as u64 * 1_000_000_000 + own.tv_nsec as u64 + proc::children_cpu_ns()?)
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn time_of_a_child_counts_when_it_has_ended() {
        let before = cpu_ns().unwrap();
        // Count to a million in a shell: far more than a tick of the kernel's clock.
        let mut count = Command::new("sh");
        count.args(["-c", "i=0; while [ $i -lt 1000000 ]; do i=$((i+1)); done"]);
        proc::run_command(&mut count).unwrap();
        assert!(cpu_ns().unwrap() - before > 10_000_000);
    }
}

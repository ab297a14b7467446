//! Confines threads to some of the CPUs that this process may use.
//!
//! On two idle CPUs, a client and a server that take turns wake each other's CPU for every op, and
//! in a virtual machine that costs more than the op. On one CPU they only switch. **Source:**
//! sched_setaffinity(2).

use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

use crate::target::TargetError;

/// A set of CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cpus(CpuSet);

impl Cpus {
    /// Returns the last `count` CPUs that this process may use; the first ones tend to handle
    /// interrupts.
    ///
    /// # Errors
    /// If it may use fewer, or the kernel doesn't tell.
    pub fn last(count: u32) -> Result<Self, TargetError> {
        let allowed = allowed(None)?;
        let mut left = count;
        let mut last = CpuSet::new();
        for cpu in (0..CpuSet::MAX_CPU).rev() {
            if left > 0 && allowed.is_set(cpu) {
                last.set(cpu);
                left -= 1;
            }
        }
        if left > 0 {
            return Err(TargetError::TooFewCpus { requested: count, allowed: allowed.count() });
        }
        Ok(Self(last))
    }

    /// Returns true if the CPU with this number is in the set.
    pub fn contains(&self, cpu: usize) -> bool {
        cpu < CpuSet::MAX_CPU && self.0.is_set(cpu)
    }

    /// Confines the calling thread for the rest of its life.
    pub(crate) fn confine_this_thread(&self) -> Result<(), TargetError> {
        sched_setaffinity(None, &self.0).map_err(affinity_error)
    }

    /// Confines other threads of this process until the result is dropped.
    ///
    /// # Errors
    /// If the kernel refuses. No thread is confined then.
    pub fn confine(&self, thread_ids: &[u32]) -> Result<ConfinedThreads, TargetError> {
        let mut confined = ConfinedThreads(Vec::new());
        for pid in thread_ids.iter().filter_map(|id| Pid::from_raw(id.cast_signed())) {
            let before = allowed(Some(pid))?;
            sched_setaffinity(Some(pid), &self.0).map_err(affinity_error)?;
            confined.0.push((pid, before));
        }
        Ok(confined)
    }
}

/// Threads that are confined, each with the CPUs that it gets back on drop.
#[derive(Debug)]
pub struct ConfinedThreads(Vec<(Pid, CpuSet)>);

impl Drop for ConfinedThreads {
    fn drop(&mut self) {
        for (pid, before) in &self.0 {
            // A thread that has ended needs no CPUs.
            let _ = sched_setaffinity(Some(*pid), before);
        }
    }
}

fn allowed(thread: Option<Pid>) -> Result<CpuSet, TargetError> {
    sched_getaffinity(thread).map_err(affinity_error)
}

fn affinity_error(error: rustix::io::Errno) -> TargetError {
    TargetError::Affinity(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use rustix::thread::gettid;

    use super::*;

    fn numbers(set: CpuSet) -> Vec<usize> {
        (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect()
    }

    #[test]
    fn chooses_last_allowed_cpus() {
        let all = numbers(allowed(None).unwrap());
        assert_eq!(numbers(Cpus::last(1).unwrap().0), all[all.len() - 1..]);
        assert_eq!(numbers(Cpus::last(all.len() as u32).unwrap().0), all);
        let error = Cpus::last(all.len() as u32 + 1).unwrap_err();
        assert!(matches!(error, TargetError::TooFewCpus { .. }), "{error}");
    }

    #[test]
    fn confines_threads_until_dropped() {
        let (id, ids) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            id.send(gettid().as_raw_nonzero().get().cast_unsigned()).unwrap();
            let _ = ended.recv();
        });
        let id = ids.recv().unwrap();
        let pid = Pid::from_raw(id.cast_signed());
        let before = allowed(pid).unwrap();
        let one = Cpus::last(1).unwrap();
        let confined = one.confine(&[id]).unwrap();
        assert_eq!(allowed(pid).unwrap(), one.0);
        drop(confined);
        assert_eq!(allowed(pid).unwrap(), before);
        drop(end);
        thread.join().unwrap();
    }
}

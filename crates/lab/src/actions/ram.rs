//! Limits a host's memory by reserving the rest as huge pages, which the kernel gives only to
//! programs that ask for them, and not to caches.
//!
//! This requires no reboot, and it also limits the caches of the kernel's NFS server, which don't
//! belong to any cgroup. **Source:** the kernel's Documentation/admin-guide/mm/hugetlbpage.rst
//! (`nr_hugepages`) and Documentation/admin-guide/sysctl/vm.rst (`drop_caches`, `compact_memory`).

use std::fs;
use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use model::action::Ram;
use model::units::Size;

use super::LabAction;
use crate::actions::findings::Findings;
use crate::actions::step::Step;
use crate::error::LabError;
use crate::undo::Undo;

const PAGES: &str = "/proc/sys/vm/nr_hugepages";
const MEMINFO: &str = "/proc/meminfo";

/// A host's memory, before it is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    total_bytes: u64,
    /// Number of existing huge pages.
    pages: u64,
    page_bytes: u64,
}

impl Memory {
    /// Parses `/proc/meminfo`. Returns `None` if the kernel has no huge pages.
    fn parse(text: &str) -> Option<Self> {
        let memory = Self {
            total_bytes: read_kib(text, "MemTotal:")? << 10,
            pages: read_kib(text, "HugePages_Total:")?,
            page_bytes: read_kib(text, "Hugepagesize:")? << 10,
        };
        if memory.page_bytes > 0 { Some(memory) } else { None }
    }

    fn current() -> Result<Self, LabError> {
        let text = fs::read_to_string(MEMINFO)
            .map_err(|error| LabError::file("read", Path::new(MEMINFO), error))?;
        Self::parse(&text).ok_or_else(|| {
            LabError::Unable(
                "memory cannot be limited on this host: its kernel has no huge pages".to_owned(),
            )
        })
    }

    /// Returns the memory not reserved by huge pages, in bytes.
    fn unreserved_bytes(&self) -> u64 {
        self.total_bytes.saturating_sub(self.pages * self.page_bytes)
    }

    /// Returns the number of huge pages that leaves at most `left_bytes`.
    fn pages_for(&self, left_bytes: u64) -> u64 {
        self.total_bytes.saturating_sub(left_bytes).div_ceil(self.page_bytes)
    }
}

/// Reads a value of `/proc/meminfo`, which is in KiB or pages.
fn read_kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

impl LabAction for Ram {
    /// `None` in a dry run.
    type Facts = Option<Memory>;

    fn accept(&self) -> Result<(), LabError> {
        Ok(())
    }

    fn look(&self) -> Result<Option<Memory>, LabError> {
        Memory::current().map(Some)
    }

    fn assume(&self) -> Option<Memory> {
        None
    }

    /// Huge pages need contiguous memory, so drop caches and compact memory first.
    fn steps(&self, memory: &Option<Memory>) -> Vec<Step> {
        let Some(memory) = memory else {
            return vec![Step::write(PAGES, format!("PAGES_THAT_LEAVE_{}", self.left_bytes))];
        };
        vec![
            Step::write("/proc/sys/vm/drop_caches", "3"),
            Step::write("/proc/sys/vm/compact_memory", "1"),
            Step::write(PAGES, memory.pages_for(self.left_bytes).to_string()),
        ]
    }

    /// Restores the number of huge pages. Fails if the host has less memory than requested.
    fn undo(&self, memory: &Option<Memory>, _allowed: &[PathBuf]) -> Result<Vec<Undo>, LabError> {
        let Some(memory) = memory else { return Ok(Vec::new()) };
        let has = memory.unreserved_bytes();
        let wanted = self.left_bytes;
        if has < wanted {
            let has = Size(has);
            let wanted = Size(wanted);
            return Err(LabError::Unable(format!(
                "this host has {has} of memory, but {wanted} were requested"
            )));
        }
        Ok(vec![Undo::Write { path: PAGES.into(), text: memory.pages.to_string() }])
    }

    fn check(&self, before: &Option<Memory>) -> Result<EffectiveSettings, LabError> {
        let now = Memory::current()?;
        let wanted = before.unwrap_or(now).pages_for(self.left_bytes);
        let mut findings = Findings::new("host");
        // The kernel doesn't reclaim memory that is in use, and may have created fewer pages.
        findings.compare(
            "huge pages that reserve memory",
            &wanted.to_string(),
            &now.pages.to_string(),
            PAGES,
        );
        findings.fact("memory left", Size(now.unreserved_bytes()).to_string(), MEMINFO);
        Ok(findings.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn meminfo(total_kib: u64, pages: u64) -> String {
        format!(
            "MemTotal:       {total_kib} kB\nMemFree:  5 kB\nHugePages_Total:  {pages}\n\
             HugePages_Free:    0\nHugepagesize:       2048 kB\n"
        )
    }

    #[test]
    fn computes_huge_pages_to_reserve() {
        let memory = Memory::parse(&meminfo(512 << 10, 3)).unwrap();
        assert_eq!(memory, Memory { total_bytes: 512 * MIB, pages: 3, page_bytes: 2 * MIB });
        assert_eq!(memory.unreserved_bytes(), 506 * MIB);
        assert_eq!(memory.pages_for(256 * MIB), 128);
        // Never leaves more than requested.
        assert_eq!(memory.pages_for(256 * MIB - 1), 129);
        assert_eq!(Memory::parse("MemTotal:  1 kB\n"), None);
        assert_eq!(Memory::parse(&meminfo(1, 0).replace("2048", "0")), None);
        assert_eq!(Memory::parse(&meminfo(1, 0).replace("2048", "x")), None);
    }

    #[test]
    fn rejects_unavailable_memory() {
        let memory = Memory::parse(&meminfo(512 << 10, 3));
        let undo = Ram { left_bytes: 256 * MIB }.undo(&memory, &[]).unwrap();
        assert_eq!(undo, [Undo::Write { path: PAGES.into(), text: "3".to_owned() }]);
        let error = Ram { left_bytes: 1 << 30 }.undo(&memory, &[]).unwrap_err().to_string();
        assert!(error.contains("506 MiB") && error.contains("1 GiB"), "{error}");
        let steps = Ram { left_bytes: 256 * MIB }.steps(&memory);
        let shown: Vec<String> = steps.iter().map(ToString::to_string).collect();
        assert_eq!(shown.last().unwrap(), "echo 128 > /proc/sys/vm/nr_hugepages");
    }
}

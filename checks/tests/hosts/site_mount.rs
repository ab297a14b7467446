//! A file system set up by others, which a plan mounts with its key `mount`.

use std::fs;
use std::process::Command;

use anyhow::{Result, ensure};
use checks::hosts::Lab;
use checks::{ours, proc};

use crate::STREAM;

const PLAN: &str = r#"
name = "site"
HOSTS
[[target]]
name = "site"
server = "server"
client = "client"
mount = { type = "ext4", source = "SOURCE", options = ["noatime"] }
WORK
verify = true
"#;
/// A write and a read.
const ROWS: usize = 2;

/// A loop device backed by a file with an empty ext4.
struct LoopDevice(String);

impl LoopDevice {
    fn make(lab: &Lab) -> Result<Self> {
        let image = lab.folder.path().join("site-disk");
        fs::File::create(&image)?.set_len(64 << 20)?;
        proc::capture_text(Command::new("mkfs.ext4").arg("-q").arg(&image))?;
        let mut losetup = Command::new("losetup");
        let device = proc::capture_text(losetup.args(["--find", "--show"]).arg(&image))?;
        Ok(Self(device.trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        let _ = proc::capture_text(Command::new("losetup").args(["--detach", &self.0]));
    }
}

/// It is mounted, again before the read, and unmounted; the written data is read back from it.
pub fn measured(lab: &Lab) -> Result<()> {
    let device = LoopDevice::make(lab)?;
    let plan = lab.folder.path().join("site.toml");
    let text = PLAN
        .replace("HOSTS", &lab.named_hosts(&["server", "client"]))
        .replace("SOURCE", &device.0)
        .replace("WORK", STREAM.trim_end());
    fs::write(&plan, text)?;
    let mut command = lab.ours();
    command.arg("run").arg(&plan).args(["--quiet", "--trials", "1", "--format", "csv"]);
    ours::measure_rows(command.arg("--results").arg(lab.folder.path().join("site.db")), ROWS)?;
    for host in 0..2 {
        let mounts = lab.run_on(host, &["cat", "/proc/self/mounts"])?;
        ensure!(!mounts.contains(&device.0), "{mounts}");
    }
    Ok(())
}

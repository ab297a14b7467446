//! Watches the hosts of a run that don't do its work while those that do it work.
//!
//! The agent that works watches its own host. What the server did meanwhile tells what only both
//! sides together can: whether its disk or its memory served what was read.

use fleet::request;
use model::units::Size;
use model::{Caveat, CaveatCode, FileSystem, LabSpec, PassResult, Telemetry};

use crate::Walk;

/// Below this share of what it served, the server's memory had its hand in the figure.
pub const DISK_SHARE_MIN: f64 = 0.9;

/// Begins to watch the host that serves, where another one works.
///
/// # Errors
/// When the host is lost.
pub(crate) fn begin(walk: &mut Walk<'_>, lab: &LabSpec) -> Result<(), String> {
    let Some(host) = bystander(lab) else { return Ok(()) };
    walk.hosts.ask(host, request::watch())
}

/// Ends it, and adds to a pass what was seen and what that makes caveatful.
///
/// # Errors
/// When the host is lost.
pub(crate) fn end(
    walk: &mut Walk<'_>,
    lab: &LabSpec,
    result: &mut PassResult,
) -> Result<(), String> {
    for own in result.telemetry.iter_mut().filter(|own| own.host.is_empty()) {
        own.host.clone_from(&lab.worker().name);
    }
    let Some(host) = bystander(lab) else { return Ok(()) };
    let mut seen = walk.hosts.ask(host, request::unwatch())?;
    host.clone_into(&mut seen.host);
    result.caveats.extend(about_server(lab, &seen));
    result.telemetry.push(seen);
    Ok(())
}

fn bystander(lab: &LabSpec) -> Option<&str> {
    lab.leaves_server().then_some(lab.server.name.as_str())
}

/// Caveats about where the server had from what the kernel's server sent.
pub fn about_server(lab: &LabSpec, server: &Telemetry) -> Option<Caveat> {
    let served = server.risen("nfsd.read_bytes");
    let disks = server.metrics.iter().filter(|metric| is_of_whole_disk(&metric.name, server));
    let from_disk: u64 = disks.map(model::Metric::risen).sum();
    let on_disk = lab.storage.file_system != FileSystem::Tmpfs;
    let cached = on_disk && served > 0 && (from_disk as f64) < served as f64 * DISK_SHARE_MIN;
    cached.then(|| {
        CaveatCode::ServerCached.because(format!(
            "the disks of {} read {} (/proc/diskstats) while it served {} (/proc/net/rpc/nfsd)",
            lab.server.name,
            Size(from_disk),
            Size(served)
        ))
    })
}

/// Says whether a metric is what a disk read that is no part, and not made, of another one.
fn is_of_whole_disk(metric: &str, server: &Telemetry) -> bool {
    let device = |name: &str| {
        let name = name.strip_prefix("disk.")?.strip_suffix(".read_bytes")?;
        Some(name.to_owned())
    };
    let Some(name) = device(metric) else { return false };
    let made = ["loop", "dm-", "md", "ram", "zram"];
    let whole = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let whole = whole
        .strip_suffix('p')
        .filter(|disk| disk.ends_with(|c: char| c.is_ascii_digit()))
        .unwrap_or(whole);
    let is_part = name != whole
        && server.metrics.iter().any(|other| device(&other.name).as_deref() == Some(whole));
    !is_part && !made.iter().any(|start| name.starts_with(start))
}

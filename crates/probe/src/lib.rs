//! Finds out what an NFS server supports, and formats it as tables or JSON.
//!
//! [`probe_server`] is the entry point; `nfs_client::probe` sends the queries. A query without an
//! answer is part of the result; if none is answered, that is an error.

#![warn(unreachable_pub)]

pub mod json;
pub mod table;

use std::net::SocketAddr;
use std::time::Duration;

use model::NfsTarget;
use model::printable::to_printable_line;
use nfs_client::probe::{Probe, ProbeOptions};

/// Probes the server of a target, and keeps only the export that contains the target's path; `/`
/// keeps all exports. `also` are further addresses to compare with it. `timeout` is for each query.
///
/// # Errors
/// If nothing answers there, or the path is not exported.
pub fn probe_server(
    target: &NfsTarget,
    also: Vec<SocketAddr>,
    portmap_port: u16,
    timeout: Duration,
) -> Result<Probe, String> {
    let options = ProbeOptions {
        also,
        port: target.port,
        mount_port: target.mount_port,
        portmap_port,
        timeout,
        uid: target.identity.uid,
        gid: target.identity.gid,
        ..ProbeOptions::new(&target.host)
    };
    let mut probe = Probe::run(&options).map_err(|error| error.to_string())?;
    if !has_answer(&probe) {
        return Err(describe_silence(&probe, &options));
    }
    // All exports are requested, so that the error for a wrong path can list the right ones.
    keep_named(&mut probe, &target.path)?;
    Ok(probe)
}

/// Returns true if any query was answered.
fn has_answer(probe: &Probe) -> bool {
    let mut services = probe.nfs.iter().chain(&probe.mount);
    probe.portmap.is_ok() || probe.rpcbind.is_ok() || services.any(|service| service.null.is_ok())
}

/// Explains that nothing answers, and lists what was tried.
fn describe_silence(probe: &Probe, options: &ProbeOptions) -> String {
    let mut tried = Vec::new();
    if let Err(why) = &probe.portmap {
        tried.push(format!("portmapper on port {}: {why}", options.portmap_port));
    }
    for service in &probe.nfs {
        let (Some(address), Err(why)) = (service.address, &service.null) else { continue };
        let line = format!("NFS over {} on port {}: {why}", service.transport, address.port());
        // Several versions may fail for the same reason.
        if !tried.contains(&line) {
            tried.push(line);
        }
    }
    format!(
        "nothing answers at {} ({}) (hint: is the server running, and its port another one? \
         nfs://host:port)",
        probe.address,
        tried.join("; ")
    )
}

/// Removes all other exports if one was named.
fn keep_named(probe: &mut Probe, path: &str) -> Result<(), String> {
    let Ok(exports) = &mut probe.exports else { return Ok(()) };
    if path == "/" {
        return Ok(());
    }
    let mut paths = Vec::new();
    for export in exports.iter() {
        paths.push(export.path.clone());
    }
    exports.retain(|export| is_below(path, &export.path));
    probe.layouts.retain(|layouts| is_below(path, &layouts.path));
    if exports.is_empty() {
        let paths = paths.join(", ");
        let paths = to_printable_line(&paths);
        return Err(format!("`{path}` is not exported (hint: exports are {paths})"));
    }
    Ok(())
}

/// Formats an id, which may be any bytes: as text if it is printable, otherwise in hexadecimal.
pub(crate) fn id_text(id: &[u8]) -> String {
    match std::str::from_utf8(id) {
        Ok(text) if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic()) => {
            text.to_owned()
        }
        _ => id.iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}")),
    }
}

/// Returns true if a path is an export or below it; `/export2` is not below `/export`.
fn is_below(path: &str, export: &str) -> bool {
    match path.strip_prefix(export.trim_end_matches('/')) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

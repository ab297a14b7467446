//! `dfsbench probe`: shows what a server supports.
//!
//! The library sends the queries; this command parses the address and prints the results as tables
//! or JSON. A query without an answer is part of the result; if none is answered, that is an error.

mod json;
mod table;

use std::process::ExitCode;
use std::time::Duration;

use model::printable::to_printable_line;
use model::units::parse_time_ns;
use nfs_client::probe::{Probe, ProbeOptions};
use plan::{NfsAddress, TargetArg};
use report::Format;

use crate::args::ProbeArgs;
use crate::exit::{End, Failure};
use crate::output::Printable;
use crate::{output, target};

/// Probes a server and prints the results.
///
/// # Errors
/// If the address is invalid, nothing answers there, or the given path is not exported.
pub fn run(args: &ProbeArgs) -> Result<ExitCode, Failure> {
    let address = parse_address(&args.server)?;
    let timeout_ns = match parse_time_ns(&args.timeout) {
        Ok(time_ns) if time_ns > 0 => time_ns,
        _ => return Err(bad_timeout(&args.timeout)),
    };
    let target = target::resolve_address(&address);
    let options = ProbeOptions {
        port: address.port,
        mount_port: address.mount_port,
        portmap_port: args.portmapper,
        timeout: Duration::from_nanos(timeout_ns),
        uid: target.identity.uid,
        gid: target.identity.gid,
        ..ProbeOptions::new(&address.host)
    };
    let probe = run_probe(&options, &address.path)
        .map_err(|why| Failure::Lab(format!("{}: {why}", args.server)))?;
    let text = match args.format {
        Format::Json => json::render(&probe),
        _ => table::render(&probe),
    };
    output::print(&Printable::report(&text, args.format))?;
    if let Some(why) = &probe.stopped {
        return Err(Failure::Lab(format!(
            "{}: the server stopped answering during the probe ({why}); only its answers until \
             then are listed (hint: is it still running? probe it again)",
            args.server
        )));
    }
    Ok(End::Ok.into())
}

/// Probes a server and only keeps the export of this path.
fn run_probe(options: &ProbeOptions, path: &str) -> Result<Probe, String> {
    let mut probe = Probe::run(options).map_err(|error| error.to_string())?;
    if !has_answer(&probe) {
        return Err(describe_silence(&probe, options));
    }
    // All exports are requested, so that the error for a wrong path can list the right ones.
    keep_named(&mut probe, path)?;
    Ok(probe)
}

/// Parses `nfs://host[:port][/export]` or a bare host.
fn parse_address(text: &str) -> Result<NfsAddress, Failure> {
    let url = if text.contains("://") { text.to_owned() } else { format!("nfs://{text}") };
    let (_, rest) = url.split_once("://").unwrap_or_default();
    // A server can be probed without naming an export.
    let url = match rest.split_once('?') {
        Some((place, query)) if !place.contains('/') => format!("nfs://{place}/?{query}"),
        None if !rest.is_empty() && !rest.contains('/') => format!("{url}/"),
        _ => url,
    };
    match plan::parse_target(&url)? {
        TargetArg::Nfs(address) => Ok(address),
        _ => Err(Failure::Usage(format!("`{text}` is not an nfs:// address"))),
    }
}

fn bad_timeout(text: &str) -> Failure {
    Failure::Usage(format!("--timeout: `{text}` is not a time (hint: for example `2s` or `500ms`)"))
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
        "no answer from {} ({}) (hint: is the server running? if it uses another port: \
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
    if exports.is_empty() {
        let paths = paths.join(", ");
        let paths = to_printable_line(&paths);
        return Err(format!("`{path}` is not exported (hint: exports are {paths})"));
    }
    Ok(())
}

/// Returns true if a path is an export or below it; `/export2` is not below `/export`.
fn is_below(path: &str, export: &str) -> bool {
    match path.strip_prefix(export.trim_end_matches('/')) {
        Some(rest) => rest.is_empty() || rest.starts_with('/'),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_needs_no_export() {
        let read = |text: &str| {
            let address = parse_address(text).unwrap();
            (address.host, address.port, address.path)
        };
        let host = || "h".to_owned();
        assert_eq!(read("h"), (host(), None, "/".to_owned()));
        assert_eq!(read("nfs://h"), (host(), None, "/".to_owned()));
        assert_eq!(read("nfs://h:99?mountport=5"), (host(), Some(99), "/".to_owned()));
        assert_eq!(read("nfs://h:99/e/f"), (host(), Some(99), "/e/f".to_owned()));
        for text in ["", "nfs://", "http://h", "nfs://h:x"] {
            assert!(parse_address(text).is_err(), "{text}");
        }
    }
}

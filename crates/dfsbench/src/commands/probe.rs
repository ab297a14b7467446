//! `dfsbench probe`: shows what a server supports.
//!
//! The library sends the queries; this command parses the address and prints the results as tables
//! or JSON. A query without an answer is part of the result; if none is answered, that is an error.

use std::net::{IpAddr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use model::lab::NFS_PORT;
use model::units::parse_time_ns;
use plan::{NfsAddress, TargetArg};
use probe::{json, probe_server, table};
use report::Format;

use crate::args::ProbeArgs;
use crate::exit::{End, Failure};
use crate::plans::surroundings;
use crate::terminal::output::{self, Printable};

/// Probes a server and prints the results.
///
/// # Errors
/// If the address is invalid, nothing answers there, or the given path is not exported.
pub(crate) fn run(args: &ProbeArgs) -> Result<ExitCode, Failure> {
    let address = parse_address(&args.server)?;
    let timeout_ns = match parse_time_ns(&args.timeout) {
        Ok(time_ns) if time_ns > 0 => time_ns,
        _ => return Err(bad_timeout(&args.timeout)),
    };
    let timeout = Duration::from_nanos(timeout_ns);
    let also = parse_also(&args.also, address.port.unwrap_or(NFS_PORT))?;
    let target = surroundings::resolve_address(&address);
    let probe = probe_server(&target, also, args.portmapper, timeout)
        .map_err(|why| Failure::Lab(format!("{}: {why}", args.server)))?;
    let text = match args.format {
        Format::Json => json::render(&probe),
        _ => table::render(&probe),
    };
    output::print(&Printable::report(&text, args.format))?;
    if let Some(why) = &probe.stopped {
        return Err(Failure::Lab(format!(
            "{}: the server stopped answering during the probe ({why}); what is listed is from \
             before (hint: is it still running? probe it again)",
            args.server
        )));
    }
    Ok(End::Ok.into())
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

/// Parses further addresses; those without a port have that of the server.
fn parse_also(texts: &[String], port: u16) -> Result<Vec<SocketAddr>, Failure> {
    let parse = |text: &String| {
        let bare = text.parse::<IpAddr>().map(|address| SocketAddr::new(address, port));
        bare.or_else(|_| text.parse()).map_err(|_| {
            Failure::Usage(format!(
                "--also: `{text}` is not an address (hint: an IP address, such as 10.0.1.1 or \
                 10.0.1.1:2049)"
            ))
        })
    };
    texts.iter().map(parse).collect()
}

fn bad_timeout(text: &str) -> Failure {
    Failure::Usage(format!("--timeout: `{text}` is not a time (hint: such as `2s` or `500ms`)"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_addresses_have_port_of_server() {
        let texts = ["10.0.1.1", "[fe80::1]:99", "::1"].map(str::to_owned);
        let found = parse_also(&texts, 2050).unwrap();
        let text: Vec<_> = found.iter().map(SocketAddr::to_string).collect();
        assert_eq!(text, ["10.0.1.1:2050", "[fe80::1]:99", "[::1]:2050"]);
        assert!(parse_also(&["server2".to_owned()], 1).is_err());
    }

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

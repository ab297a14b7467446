//! Parses a target from text: a directory, `null`, an NFS address, `host:port`.
//!
//! The result is a [`TargetArg`], which leaves anything open that only the surroundings can fill
//! in. `address` parses NFS addresses.

use std::path::PathBuf;

use model::Target;

use crate::parse::address::{guess_address, parse_url};
use crate::syntax::address::User;
use crate::syntax::error::{Fault, PlanError, PlanPosition};
use crate::syntax::target::TargetArg;

/// Parses a target from the command line: `null`, `memory`, `embedded`, `nfs://...` or a directory.
///
/// A directory with one of those names is written as `./null`.
///
/// # Errors
/// If the text is an invalid address; the error explains the problem.
pub fn parse_target(text: &str) -> Result<TargetArg, PlanError> {
    let place = PlanPosition::Flag("TARGET");
    if let Some(plain) = Target::plain(text) {
        return Ok(TargetArg::Ready(plain));
    }
    Ok(match text {
        "embedded" => TargetArg::embedded(User::default()),
        _ if text.contains("://") => TargetArg::Nfs(place.accept(parse_url(text, place))?.value),
        _ => TargetArg::directory(place.accept(parse_directory(text))?.value),
    })
}

/// Parses the address of a dfsbench server that is used without RPC: `host:port`, or `embedded`.
pub(crate) fn parse_tcp(text: &str) -> Result<TargetArg, Fault> {
    if text == "embedded" {
        return Ok(TargetArg::tcp_embedded());
    }
    // The host ends at the last colon, since an IPv6 address in brackets contains colons itself.
    let (host, port) = text.rsplit_once(':').unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    match port.parse() {
        Ok(port) if port > 0 && !host.is_empty() && !host.contains('/') => {
            Ok(TargetArg::tcp(host.to_owned(), Some(port)))
        }
        _ => Err(Fault::new(format!("`{text}` is not an address"))
            .hint("write host:port, with the NFS port of a `dfsbench serve`, or embedded")),
    }
}

/// Parses a directory; refuses a text that looks like something else.
pub(crate) fn parse_directory(text: &str) -> Result<PathBuf, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::new("the path is empty").hint("write `.` for this directory"));
    }
    if text.contains("://") {
        return Err(Fault::new(format!("`{text}` is an address, not a directory"))
            .hint(format!("write `url = \"{text}\"`")));
    }
    if text.starts_with("nfs:") {
        let hint = format!("did you mean `{}`?", guess_address(text).unwrap_or_default());
        return Err(Fault::new(format!("`{text}` is an address, not a directory")).hint(hint));
    }
    if let Some((host, path)) = text.split_once(":/")
        && !host.contains('/')
    {
        // NFS addresses have no user names.
        let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
        return Err(Fault::new(format!("`{text}` is an address, not a directory"))
            .hint(format!("write `nfs://{host}/{path}`, or `./{text}` for a directory")));
    }
    if let Some((host, rest)) = text.split_once(':')
        && let Some((port, _)) = rest.split_once('/')
        && !host.contains('/')
        && port.parse::<u16>().is_ok()
    {
        return Err(Fault::new(format!("`{text}` is an address, not a directory"))
            .hint(format!("write `nfs://{text}`, or `./{text}` for a directory")));
    }
    if text == "~" || text.starts_with("~/") {
        return Err(Fault::new(format!("`{text}`: `~` is not expanded"))
            .hint("write the absolute path of your home directory"));
    }
    Ok(PathBuf::from(text))
}

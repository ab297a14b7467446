//! What is measured, as people write it: a directory, `null`, or an NFS address.
//!
//! [`TargetArg`] is a target before the surroundings are known: uid, gid and the temporary folder
//! may still be open. An address is `nfs://host[:port]/path[?version=3&uid=..&gid=..
//! &mountport=..]`. **Source:** RFC 2224 for the form of NFS URLs; the query follows libnfs.

use std::fmt::Write as _;
use std::path::PathBuf;

use model::{BackendKind, NfsTarget, Target};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::{Host, Url};

use crate::error::{Fault, Place, PlanError};
use crate::keys::unknown_word;
use crate::resolve::Surroundings;

/// Version of NFS that is spoken.
const NFS_VERSION: u32 = 3;

/// Where the in-memory server keeps its files.
const EMBEDDED_PATH: &str = "/export";

const URL_FORM: &str = "nfs://host[:port]/path";

/// What an address may ask for after its `?`.
const QUERY_KEYS: [&str; 4] = ["version", "uid", "gid", "mountport"];

/// Characters that stay as they are in the path of a URL.
///
/// **Source:** RFC 3986, section 3.3, `pchar` without what needs care, and `/`.
const PATH_SAFE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// What a target is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TargetArg {
    /// Nothing: the tool's own ceiling.
    Null,
    /// A directory of this host.
    Directory(PathBuf),
    /// A directory of our own under the temporary folder.
    Temporary,
    /// An NFS server.
    Nfs(NfsAddress),
    /// The in-memory server of this process.
    Embedded {
        /// User id to send; `None` is the caller's.
        uid: Option<u32>,
        /// Group id to send; `None` is the caller's.
        gid: Option<u32>,
    },
}

/// Where an export is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NfsAddress {
    /// Host name or address, an IPv6 one without brackets.
    pub host: String,
    /// Port of the NFS program; `None` asks the portmapper.
    pub port: Option<u16>,
    /// Port of the MOUNT program; `None` asks the portmapper.
    pub mount_port: Option<u16>,
    /// Absolute path on the server.
    pub path: String,
    /// User id to send; `None` is the caller's.
    pub uid: Option<u32>,
    /// Group id to send; `None` is the caller's.
    pub gid: Option<u32>,
}

impl TargetArg {
    /// The name it gets in tables where nobody names it.
    pub const fn usual_name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Directory(_) | Self::Temporary => "dir",
            Self::Nfs(_) | Self::Embedded { .. } => "nfs",
        }
    }

    /// The backends that can execute ops on it; the first is the default.
    pub const fn backends(&self) -> &'static [BackendKind] {
        match self {
            Self::Null => &[BackendKind::Null],
            Self::Directory(_) | Self::Temporary => &[BackendKind::Posix, BackendKind::Uring],
            Self::Nfs(_) | Self::Embedded { .. } => &[BackendKind::Nfs],
        }
    }

    /// Fills in what only the surroundings know.
    pub(crate) fn resolve(&self, around: &Surroundings) -> Target {
        let nfs = |address: &NfsAddress, embedded| {
            Target::Nfs(NfsTarget {
                host: address.host.clone(),
                port: address.port,
                mount_port: address.mount_port,
                path: address.path.clone(),
                version: NFS_VERSION,
                uid: address.uid.unwrap_or(around.uid),
                gid: address.gid.unwrap_or(around.gid),
                embedded,
            })
        };
        match self {
            Self::Null => Target::Null,
            Self::Directory(path) => Target::Directory { path: path.clone() },
            Self::Temporary => Target::Directory { path: around.temp_dir.clone() },
            Self::Nfs(address) => nfs(address, false),
            Self::Embedded { uid, gid } => nfs(&embedded_address(*uid, *gid), true),
        }
    }
}

/// The in-memory server's address, before it has a port.
fn embedded_address(uid: Option<u32>, gid: Option<u32>) -> NfsAddress {
    NfsAddress {
        host: "127.0.0.1".to_owned(),
        port: None,
        mount_port: None,
        path: EMBEDDED_PATH.to_owned(),
        uid,
        gid,
    }
}

/// Reads a target from the command line: `null`, `embedded`, `nfs://...` or a directory.
///
/// A directory with one of those names is written `./null`.
///
/// # Errors
/// When it is an address that can't be used; the error says what is wrong with it.
pub fn parse_target(text: &str) -> Result<TargetArg, PlanError> {
    let read = match text {
        "null" => Ok(TargetArg::Null),
        "embedded" => Ok(TargetArg::Embedded { uid: None, gid: None }),
        _ if text.contains("://") => parse_url(text).map(TargetArg::Nfs),
        _ => parse_directory(text).map(TargetArg::Directory),
    };
    read.map_err(|fault| fault.at(Place::Flag("TARGET")))
}

/// Reads a directory; refuses what looks like something else.
pub(crate) fn parse_directory(text: &str) -> Result<PathBuf, Fault> {
    if text.trim().is_empty() {
        return Err(Fault::new("the path is empty").hint("write `.` for this directory"));
    }
    if text.contains("://") {
        return Err(Fault::new(format!("`{text}` is an address, not a directory"))
            .hint(format!("write `url = \"{text}\"`")));
    }
    if let Some((host, path)) = text.split_once(":/").filter(|(host, _)| !host.contains('/')) {
        return Err(Fault::new(format!("`{text}` is an address, not a directory"))
            .hint(format!("write `nfs://{host}/{path}`, or `./{text}` for a directory")));
    }
    if text == "~" || text.starts_with("~/") {
        return Err(Fault::new(format!("`{text}`: `~` is not expanded"))
            .hint("write the whole path of your home directory"));
    }
    Ok(PathBuf::from(text))
}

/// Reads the address of an NFS server.
pub(crate) fn parse_url(text: &str) -> Result<NfsAddress, Fault> {
    let malformed = |what: &str| {
        Fault::new(format!("`{text}`: {what}")).hint(format!("the form is {URL_FORM}"))
    };
    let scheme = text.split("://").next().unwrap_or_default();
    if !text.contains("://") || scheme != "nfs" {
        return Err(malformed("the address does not begin with `nfs://`"));
    }
    let url = Url::parse(text).map_err(|error| malformed(&error.to_string()))?;
    let host = match url.host() {
        Some(Host::Domain(name)) if !name.is_empty() => decoded(name).map_err(|e| malformed(&e))?,
        Some(Host::Ipv4(address)) => address.to_string(),
        Some(Host::Ipv6(address)) => address.to_string(),
        _ => return Err(malformed("the host is missing")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(malformed("NFS has no user names here").hint("write ?uid=..&gid=.. at the end"));
    }
    if url.fragment().is_some() {
        return Err(malformed("`#` ends the path").hint("write %23 for a `#` in a name"));
    }
    if url.port() == Some(0) {
        return Err(malformed("port 0 can't be used"));
    }
    let path = decoded(url.path()).map_err(|what| malformed(&what))?;
    if path.is_empty() {
        return Err(malformed("the path to mount is missing"));
    }
    let mut address = NfsAddress {
        host,
        port: url.port(),
        mount_port: None,
        path: without_last_slash(&path),
        uid: None,
        gid: None,
    };
    read_query(&url, &mut address)?;
    Ok(address)
}

fn decoded(text: &str) -> Result<String, String> {
    let text = percent_decode_str(text)
        .decode_utf8()
        .map_err(|_| "the address is not UTF-8".to_owned())?;
    if text.contains('\0') {
        return Err("the address holds a NUL".to_owned());
    }
    Ok(text.into_owned())
}

fn without_last_slash(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

fn read_query(url: &Url, address: &mut NfsAddress) -> Result<(), Fault> {
    let mut seen: Vec<String> = Vec::new();
    for (key, value) in url.query_pairs() {
        let number = |max: u64| {
            value.parse::<u64>().ok().filter(|number| *number <= max).ok_or_else(|| {
                Fault::new(format!("`{key}={value}` is not a number from 0 to {max}"))
            })
        };
        match key.as_ref() {
            "version" => check_version(&value)?,
            "uid" => address.uid = Some(number(u32::MAX.into())? as u32),
            "gid" => address.gid = Some(number(u32::MAX.into())? as u32),
            "mountport" => match number(u16::MAX.into())? as u16 {
                0 => return Err(Fault::new("`mountport=0` can't be used")),
                port => address.mount_port = Some(port),
            },
            other => return Err(unknown_word("key in the address", other, &QUERY_KEYS)),
        }
        if seen.iter().any(|before| *before == key) {
            return Err(Fault::new(format!("`{key}` stands twice in the address")));
        }
        seen.push(key.into_owned());
    }
    Ok(())
}

fn check_version(value: &str) -> Result<(), Fault> {
    match value {
        "3" => Ok(()),
        "2" | "4" | "4.0" | "4.1" | "4.2" => {
            Err(Fault::new(format!("NFS v{value} is not supported yet")).hint("version=3"))
        }
        _ => Err(Fault::new(format!("`version={value}` is no version of NFS")).hint("version=3")),
    }
}

/// Writes an address with nothing left open; it reads back to the same target.
pub(crate) fn write_url(nfs: &NfsTarget) -> String {
    let host = if nfs.host.contains(':') {
        format!("[{}]", nfs.host)
    } else {
        utf8_percent_encode(&nfs.host, PATH_SAFE).to_string()
    };
    let port = nfs.port.map_or_else(String::new, |port| format!(":{port}"));
    let path = utf8_percent_encode(&nfs.path, PATH_SAFE);
    let mut url = format!("nfs://{host}{port}{path}?version={}", nfs.version);
    // Writing to a String can't fail.
    let _ = write!(url, "&uid={}&gid={}", nfs.uid, nfs.gid);
    if let Some(port) = nfs.mount_port {
        let _ = write!(url, "&mountport={port}");
    }
    url
}

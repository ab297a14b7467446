//! Addresses of NFS servers: `nfs://host[:port]/path[?version=3&proto=tcp&uid=..&gid=..]`.
//!
//! Further addresses of the same server follow the first one, separated by commas.
//! Parses them into an [`NfsAddress`] and writes them. The query may contain the settings that
//! affect how the client speaks to a server, under their names in a plan; the plan's own parsers
//! read them. **Source:** RFC 2224 for the form of NFS URLs; `version`, `uid`, `gid` and
//! `mountport` are libnfs's names.

use std::fmt::Write as _;

use model::nfs::GROUPS_MAX;
use model::setting::Setting;
use model::{Family, Identity, NfsTarget, Sec, TlsOptions};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::{Host, Url};

use crate::parse::keys::key_elsewhere;
use crate::parse::level;
use crate::syntax::address::NfsAddress;
use crate::syntax::error::{Fault, Located, PlanPosition};
use crate::syntax::suggestion::{known_word, unknown_word};

const URL_FORM: &str = "nfs://host[:port]/path";

/// Keys allowed in the query of an address, in addition to the settings of targets and
/// [`TLS_KEYS`].
const QUERY_KEYS: [&str; 7] = ["uid", "gid", "groups", "sec", "resvport", "mountport", "family"];

/// Keys for TLS certificates and names, both in an address and in a target.
pub(crate) const TLS_KEYS: [&str; 4] = ["tls_ca", "tls_cert", "tls_key", "tls_server_name"];

/// Characters that are not percent-encoded in the path of a URL.
///
/// **Source:** RFC 3986, section 3.3: `/`, and the characters of `pchar` that have no special
/// meaning.
const PATH_SAFE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Parses the address of an NFS server that was written at `place`.
pub(crate) fn parse_url(text: &str, place: PlanPosition) -> Result<NfsAddress, Fault> {
    // The `url` crate would take `nfs:host` and `file:///path`, too.
    let mut more_addresses = Vec::new();
    let url = if text.starts_with("nfs://") {
        let first = split_addresses(text, &mut more_addresses)?;
        Url::parse(&first).map_err(|error| malformed(text, &error.to_string()))?
    } else {
        let what = "the address does not begin with `nfs://`";
        return Err(malformed(text, what).hint(match guess_address(text) {
            Some(address) => format!("did you mean `{address}`?"),
            None => "mount any other file system, and name the directory".to_owned(),
        }));
    };
    let host = host_of(&url, text)?;
    if !url.username().is_empty() || url.password().is_some() {
        let fault = malformed(text, "an nfs:// address has no user name");
        return Err(fault.hint("write ?uid=..&gid=.. at the end"));
    }
    if url.fragment().is_some() {
        let fault = malformed(text, "`#` ends the path");
        return Err(fault.hint("write %23 for a `#` in a name"));
    }
    if url.port() == Some(0) {
        return Err(malformed(text, "port 0 can't be used"));
    }
    let path = percent_decoded(text, url.path())?;
    if path.is_empty() {
        return Err(malformed(text, "the path to mount is missing"));
    }
    let mut address = NfsAddress {
        host,
        port: url.port(),
        more_addresses,
        path: without_last_slash(&path),
        ..NfsAddress::default()
    };
    read_query(&url, &mut address, place)?;
    check_addresses(&address, text)?;
    Ok(address)
}

/// Splits off the further addresses of a URL, and returns the URL with only the first one.
fn split_addresses(text: &str, more: &mut Vec<String>) -> Result<String, Fault> {
    let rest = text.strip_prefix("nfs://").unwrap_or(text);
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    let mut addresses = authority.split(',');
    let first = addresses.next().unwrap_or_default();
    for address in addresses {
        let url = Url::parse(&format!("nfs://{address}/"));
        let url = url.map_err(|error| malformed(text, &format!("`{address}`: {error}")))?;
        if !url.username().is_empty() || url.password().is_some() || url.port() == Some(0) {
            return Err(malformed(text, &format!("`{address}` is not host or host:port")));
        }
        let host = bracketed(&host_of(&url, text)?);
        more.push(url.port().map_or_else(|| host.clone(), |port| format!("{host}:{port}")));
    }
    Ok(format!("nfs://{first}{path}"))
}

/// Refuses an address that is listed twice: it would be no further path to the server.
fn check_addresses(address: &NfsAddress, text: &str) -> Result<(), Fault> {
    let NfsAddress { host, port, more_addresses, .. } = address;
    let full = |address: &str| match (address.ends_with(']') || !address.contains(':'), port) {
        (true, Some(port)) => format!("{address}:{port}"),
        _ => address.to_owned(),
    };
    let mut seen = vec![full(&bracketed(host))];
    for address in more_addresses {
        let full = full(address);
        if seen.contains(&full) {
            let fault = Fault::new(format!("`{text}`: `{address}` is listed twice"));
            return Err(fault.hint("list each address once; nconnect adds connections to one"));
        }
        seen.push(full);
    }
    Ok(())
}

/// Returns the host of a URL, an IPv6 address without brackets.
fn host_of(url: &Url, text: &str) -> Result<String, Fault> {
    match url.host() {
        Some(Host::Domain(name)) if !name.is_empty() => percent_decoded(text, name),
        Some(Host::Ipv4(address)) => Ok(address.to_string()),
        Some(Host::Ipv6(address)) => Ok(address.to_string()),
        _ => Err(malformed(text, "the host is missing")),
    }
}

fn bracketed(host: &str) -> String {
    if host.contains(':') { format!("[{host}]") } else { host.to_owned() }
}

/// Guesses the address that a malformed one was meant to be; `None` if it belongs to another
/// protocol.
pub(crate) fn guess_address(text: &str) -> Option<String> {
    let place = match text.split_once("://") {
        Some((scheme, rest)) => {
            let is_near = scheme.to_ascii_lowercase().starts_with("nfs") || scheme == "http";
            is_near.then(|| rest.to_owned())?
        }
        // `nfs:/host/path`, and `host:/path` as mount(8) takes it.
        None => text.trim_start_matches("nfs:").trim_start_matches('/').replacen(":/", "/", 1),
    };
    Some(format!("nfs://{place}"))
}

fn malformed(text: &str, what: &str) -> Fault {
    Fault::new(format!("`{text}`: {what}")).hint(format!("the form is {URL_FORM}"))
}

/// Decodes a percent-encoded part of the address `text`.
fn percent_decoded(text: &str, part: &str) -> Result<String, Fault> {
    match percent_decode_str(part).decode_utf8() {
        // No system call can name a path with a NUL.
        Ok(decoded) if decoded.contains('\0') => {
            Err(malformed(text, "the address contains a NUL byte"))
        }
        Ok(decoded) => Ok(decoded.into_owned()),
        Err(_) => Err(malformed(text, "the address is not UTF-8")),
    }
}

fn without_last_slash(path: &str) -> String {
    match path.trim_end_matches('/') {
        "" => "/".to_owned(),
        trimmed => trimmed.to_owned(),
    }
}

fn read_query(url: &Url, address: &mut NfsAddress, place: PlanPosition) -> Result<(), Fault> {
    let mut seen: Vec<String> = Vec::new();
    for (key, value) in url.query_pairs() {
        // Both names refer to the same key, so that two contradicting values are found.
        let key = if key == Setting::NfsVers.key() { "version" } else { &key };
        if seen.iter().any(|before| before == key) {
            return Err(Fault::new(format!("`{key}` is in the address twice")));
        }
        seen.push(key.to_owned());
        read_pair(key, &value, address, place)?;
    }
    check_tls(&address.tls)
}

fn read_pair(
    key: &str,
    value: &str,
    address: &mut NfsAddress,
    place: PlanPosition,
) -> Result<(), Fault> {
    let written = format!("{key}={value}");
    for setting in Setting::OF_TARGETS {
        if key == query_key(setting) {
            let level = level::read(setting, value).map_err(|fault| Fault {
                message: format!("`{written}`: {}", fault.message),
                ..fault
            })?;
            address.settings.insert(setting, vec![Located { value: level, place }]);
            return Ok(());
        }
    }
    match key {
        "uid" => address.user.uid = Some(read_id(&written, value)?),
        "gid" => address.user.gid = Some(read_id(&written, value)?),
        "groups" => {
            for id in value.split(',') {
                address.user.groups.push(read_id(&written, id)?);
            }
        }
        "sec" => address.user.sec = Some(sec_named(value)?),
        "resvport" => match value.parse() {
            Ok(is_reserved) => address.user.resvport = is_reserved,
            Err(_) => return Err(Fault::new(format!("`{written}`: must be true or false"))),
        },
        "mountport" => match read_number(&written, value, u16::MAX.into())? as u16 {
            0 => return Err(Fault::new("`mountport=0` can't be used")),
            port => address.mount_port = Some(port),
        },
        "family" => {
            let family = Family::from_name(value);
            address.family = Some(known_word(family, "address family", value, Family::NAMES)?);
        }
        key if TLS_KEYS.contains(&key) => set_tls(&mut address.tls, key, value),
        "port" => {
            return Err(Fault::new(format!("`{written}`: the NFS port belongs after the host"))
                .hint("write nfs://host:port/path; mountport is the port of MOUNT"));
        }
        other => {
            let settings = Setting::OF_TARGETS.map(query_key);
            let known = [&settings[..], &QUERY_KEYS[..], &TLS_KEYS[..]].concat();
            let fault = unknown_word("key in the address", other, &known);
            let ours = key_elsewhere(other).and_then(Setting::from_key).map(query_key);
            return Err(match ours.filter(|ours| known.contains(ours)) {
                Some(ours) => fault.hint(format!("it is called `{ours}` here")),
                None => fault,
            });
        }
    }
    check_groups(&address.user.groups)
}

/// Returns the key of a setting in an address.
///
/// **Source:** libnfs calls the NFS version `version`; mount options and plans call it `nfsvers`.
fn query_key(setting: Setting) -> &'static str {
    match setting {
        Setting::NfsVers => "version",
        other => other.key(),
    }
}

/// Sets the option of one of [`TLS_KEYS`].
pub(crate) fn set_tls(tls: &mut TlsOptions, key: &str, value: &str) {
    match key {
        "tls_ca" => tls.ca = Some(value.into()),
        "tls_cert" => tls.cert = Some(value.into()),
        "tls_key" => tls.key = Some(value.into()),
        _ => tls.server_name = Some(value.to_owned()),
    }
}

/// Refuses a certificate without its key, and the reverse.
pub(crate) fn check_tls(tls: &TlsOptions) -> Result<(), Fault> {
    let (one, other) = match (&tls.cert, &tls.key) {
        (Some(_), None) => ("tls_cert", "tls_key"),
        (None, Some(_)) => ("tls_key", "tls_cert"),
        _ => return Ok(()),
    };
    Err(Fault::new(format!("`{one}` requires `{other}`"))
        .hint("a client certificate needs its private key, both as PEM files"))
}

fn read_number(written: &str, text: &str, max: u64) -> Result<u64, Fault> {
    match text.parse() {
        Ok(number) if number <= max => Ok(number),
        _ => Err(Fault::new(format!("`{written}` is not a number from 0 to {max}"))),
    }
}

/// Parses a user or group ID, which has 32 bits in AUTH_SYS.
fn read_id(written: &str, text: &str) -> Result<u32, Fault> {
    Ok(read_number(written, text, u32::MAX.into())? as u32)
}

/// Finds a security flavor by name.
pub(crate) fn sec_named(name: &str) -> Result<Sec, Fault> {
    if name.starts_with("krb5") {
        return Err(unknown_word("security flavor", name, Sec::NAMES).hint(
            "our client has no Kerberos, so write sys or none; mounts that a plan makes have it",
        ));
    }
    known_word(Sec::from_name(name), "security flavor", name, Sec::NAMES)
}

/// Refuses more groups than AUTH_SYS can carry.
pub(crate) fn check_groups(groups: &[u32]) -> Result<(), Fault> {
    if groups.len() <= GROUPS_MAX {
        return Ok(());
    }
    let what = format!("{} groups are more than AUTH_SYS can send", groups.len());
    Err(Fault::new(what).hint(format!("at most {GROUPS_MAX}, besides the gid")))
}

/// Writes the location of an export and its credentials; settings belong to the runs.
pub(crate) fn write_url(nfs: &NfsTarget) -> String {
    let host = if nfs.host.contains(':') {
        format!("[{}]", nfs.host)
    } else {
        utf8_percent_encode(&nfs.host, PATH_SAFE).to_string()
    };
    let mut url = format!("nfs://{host}");
    // Writing to a String can't fail.
    if let Some(port) = nfs.port {
        let _ = write!(url, ":{port}");
    }
    for address in &nfs.more_addresses {
        let _ = write!(url, ",{address}");
    }
    let path = utf8_percent_encode(&nfs.path, PATH_SAFE);
    let Identity { sec, uid, gid, groups, resvport } = &nfs.identity;
    let _ = write!(url, "{path}?uid={uid}&gid={gid}");
    if !groups.is_empty() {
        let groups: Vec<String> = groups.iter().map(u32::to_string).collect();
        let _ = write!(url, "&groups={}", groups.join(","));
    }
    if *sec != Sec::Sys {
        let _ = write!(url, "&sec={sec}");
    }
    if *resvport {
        url.push_str("&resvport=true");
    }
    if let Some(port) = nfs.mount_port {
        let _ = write!(url, "&mountport={port}");
    }
    if let Some(family) = nfs.family {
        let _ = write!(url, "&family={family}");
    }
    let TlsOptions { ca, cert, key, server_name } = &*nfs.tls;
    let [ca_key, cert_key, key_key, name_key] = TLS_KEYS;
    for (name, path) in [(ca_key, ca), (cert_key, cert), (key_key, key)] {
        if let Some(path) = path {
            write_pair(&mut url, name, &path.to_string_lossy());
        }
    }
    if let Some(name) = server_name {
        write_pair(&mut url, name_key, name);
    }
    url
}

fn write_pair(url: &mut String, key: &str, value: &str) {
    let _ = write!(url, "&{key}={}", utf8_percent_encode(value, PATH_SAFE));
}

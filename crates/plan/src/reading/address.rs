//! Addresses of NFS servers: `nfs://host[:port]/path[?version=3&proto=tcp&uid=..&gid=..]`.
//!
//! Reads them into a [`NfsAddress`] and writes them. The query may hold the settings that say how
//! a server is spoken to, under the names of the plan; they go through the plan's own readers.
//! **Source:** RFC 2224 for the form of NFS URLs; `version`, `uid`, `gid` and `mountport` are
//! libnfs's names.

use std::fmt::Write as _;
use std::path::PathBuf;

use model::nfs::GROUPS_MAX;
use model::setting::Setting;
use model::{Family, Identity, NfsTarget, Sec, TlsOptions};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use url::{Host, Url};

use crate::reading::level;
use crate::written::address::NfsAddress;
use crate::written::error::{Fault, Located, Place};
use crate::written::near::unknown_word;

const URL_FORM: &str = "nfs://host[:port]/path";

/// Keys that an address may have after its `?`, beside the settings of targets.
const QUERY_KEYS: [&str; 12] = [
    "version",
    "uid",
    "gid",
    "groups",
    "sec",
    "resvport",
    "mountport",
    "family",
    TLS_KEYS[0],
    TLS_KEYS[1],
    TLS_KEYS[2],
    TLS_KEYS[3],
];

/// Keys that say who is trusted and shown under TLS, in an address and with a target.
pub(crate) const TLS_KEYS: [&str; 4] = ["tls_ca", "tls_cert", "tls_key", "tls_server_name"];

/// Characters that stay as they are in the path of a URL.
///
/// **Source:** RFC 3986, section 3.3, `pchar` without what needs care, and `/`.
const PATH_SAFE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'/').remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// Reads the address of an NFS server that stands at `place`.
pub(crate) fn parse_url(text: &str, place: Place) -> Result<NfsAddress, Fault> {
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
        path: without_last_slash(&path),
        ..NfsAddress::default()
    };
    read_query(&url, &mut address, place)?;
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

fn read_query(url: &Url, address: &mut NfsAddress, place: Place) -> Result<(), Fault> {
    let mut seen: Vec<String> = Vec::new();
    for (key, value) in url.query_pairs() {
        // libnfs calls the version so; a mount option and a plan call it nfsvers.
        let key = if key == Setting::NfsVers.key() { "version" } else { &key };
        if seen.iter().any(|before| before == key) {
            return Err(Fault::new(format!("`{key}` stands twice in the address")));
        }
        seen.push(key.to_owned());
        read_pair(key, &value, address, place)?;
    }
    check_tls(&address.tls)
}

fn read_pair(key: &str, value: &str, address: &mut NfsAddress, place: Place) -> Result<(), Fault> {
    let written = format!("{key}={value}");
    let id = |text: &str| number(&written, text, u32::MAX.into()).map(|id| id as u32);
    let setting = Setting::OF_TARGETS.into_iter().find(|setting| match setting {
        Setting::NfsVers => key == "version",
        other => key == other.key(),
    });
    if let Some(setting) = setting {
        let level = level::read(setting, value).map_err(|fault| Fault {
            message: format!("`{written}`: {}", fault.message),
            ..fault
        })?;
        address.settings.insert(setting, vec![Located { value: level, place }]);
        return Ok(());
    }
    match key {
        "uid" => address.user.uid = Some(id(value)?),
        "gid" => address.user.gid = Some(id(value)?),
        "groups" => address.user.groups = value.split(',').map(id).collect::<Result<_, _>>()?,
        "sec" => address.user.sec = Some(sec_named(value)?),
        "resvport" => {
            let refused = || Fault::new(format!("`{written}`: must be true or false"));
            address.user.resvport = value.parse().map_err(|_| refused())?;
        }
        "mountport" => match number(&written, value, u16::MAX.into())? as u16 {
            0 => return Err(Fault::new("`mountport=0` can't be used")),
            port => address.mount_port = Some(port),
        },
        "family" => {
            let refused = || unknown_word("address family", value, Family::NAMES);
            address.family = Some(Family::from_name(value).ok_or_else(refused)?);
        }
        key if TLS_KEYS.contains(&key) => set_tls(&mut address.tls, key, value),
        other => {
            let settings = Setting::OF_TARGETS.into_iter().filter(|s| *s != Setting::NfsVers);
            let known: Vec<&str> =
                QUERY_KEYS.into_iter().chain(settings.map(Setting::key)).collect();
            return Err(unknown_word("key in the address", other, &known));
        }
    }
    check_groups(&address.user.groups)
}

/// Puts what one of [`TLS_KEYS`] says in its place.
pub(crate) fn set_tls(tls: &mut TlsOptions, key: &str, value: &str) {
    match key {
        "tls_ca" => tls.ca = Some(value.into()),
        "tls_cert" => tls.cert = Some(value.into()),
        "tls_key" => tls.key = Some(value.into()),
        _ => tls.server_name = Some(value.to_owned()),
    }
}

/// Refuses half of an identity.
pub(crate) fn check_tls(tls: &TlsOptions) -> Result<(), Fault> {
    let (one, other) = match (&tls.cert, &tls.key) {
        (Some(_), None) => ("tls_cert", "tls_key"),
        (None, Some(_)) => ("tls_key", "tls_cert"),
        _ => return Ok(()),
    };
    Err(Fault::new(format!("`{one}` stands without `{other}`"))
        .hint("a certificate is shown with its private key, both as PEM files"))
}

fn number(written: &str, text: &str, max: u64) -> Result<u64, Fault> {
    text.parse::<u64>()
        .ok()
        .filter(|number| *number <= max)
        .ok_or_else(|| Fault::new(format!("`{written}` is not a number from 0 to {max}")))
}

/// Finds a flavour of identity by its name.
pub(crate) fn sec_named(name: &str) -> Result<Sec, Fault> {
    Sec::from_name(name).ok_or_else(|| {
        let fault = unknown_word("security flavour", name, Sec::NAMES);
        if name.starts_with("krb5") {
            fault.hint("Kerberos is not spoken; write sys or none")
        } else {
            fault
        }
    })
}

/// Refuses more groups than can be sent.
pub(crate) fn check_groups(groups: &[u32]) -> Result<(), Fault> {
    if groups.len() <= GROUPS_MAX {
        return Ok(());
    }
    let what = format!("{} groups are more than AUTH_SYS can send", groups.len());
    Err(Fault::new(what).hint(format!("at most {GROUPS_MAX}, beside the gid")))
}

/// Writes where an export is and as whom it is used; settings are left to the runs.
pub(crate) fn write_url(nfs: &NfsTarget) -> String {
    let host = if nfs.host.contains(':') {
        format!("[{}]", nfs.host)
    } else {
        utf8_percent_encode(&nfs.host, PATH_SAFE).to_string()
    };
    let port = nfs.port.map_or_else(String::new, |port| format!(":{port}"));
    let path = utf8_percent_encode(&nfs.path, PATH_SAFE);
    let Identity { sec, uid, gid, groups, resvport } = &nfs.identity;
    let mut url = format!("nfs://{host}{port}{path}?uid={uid}&gid={gid}");
    // Writing to a String can't fail.
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
    let text = |path: &Option<PathBuf>| Some(path.as_ref()?.to_string_lossy().into_owned());
    let TlsOptions { ca, cert, key, server_name } = &*nfs.tls;
    let tls = [text(ca), text(cert), text(key), server_name.clone()];
    for (key, value) in TLS_KEYS.into_iter().zip(tls) {
        if let Some(value) = value {
            let _ = write!(url, "&{key}={}", utf8_percent_encode(&value, PATH_SAFE));
        }
    }
    url
}

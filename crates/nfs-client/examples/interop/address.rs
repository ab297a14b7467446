//! The settings of the checks, from the command line.
//!
//! The address is parsed by hand: an example can't use the plan parser, and its few parameters are
//! the same as in `dfsbench`.

use nfs_client::proto::client::ProtocolVersion;
use nfs_client::{MountOptions, Proto, Tls};

/// The settings of one run.
#[derive(Debug)]
pub struct Settings {
    /// The server, export and identity.
    pub options: MountOptions,
    /// The version to use.
    pub version: ProtocolVersion,
    /// Number of entries in the large directory.
    pub entries: usize,
    /// Size of the sparse file, in bytes.
    pub large_bytes: u64,
    /// Whether READ_PLUS may return nothing at all.
    pub empty_read_plus: bool,
    /// Run only the checks with names that contain this.
    pub only: Option<String>,
}

impl Settings {
    /// Parses the arguments.
    pub fn from_arguments(mut arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        let address = arguments.next().ok_or("an address is missing")?;
        let (options, version) = parse(&address)?;
        let mut settings = Self {
            options,
            version,
            entries: 10_000,
            large_bytes: (4 << 30) + 12_345,
            empty_read_plus: false,
            only: None,
        };
        while let Some(flag) = arguments.next() {
            if flag == "--empty-read-plus" {
                settings.empty_read_plus = true;
                continue;
            }
            let value = arguments.next().ok_or(format!("{flag} needs a value"))?;
            match flag.as_str() {
                "--entries" => settings.entries = number(&value)?,
                "--large" => settings.large_bytes = number(&value)?,
                "--only" => settings.only = Some(value),
                _ => return Err(format!("{flag} is unknown")),
            }
        }
        Ok(settings)
    }
}

fn parse(address: &str) -> Result<(MountOptions, ProtocolVersion), String> {
    let rest = address.strip_prefix("nfs://").ok_or("an address must start with nfs://")?;
    let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (host, export) = path.split_once('/').ok_or("the address has no export")?;
    let (host, port) = match host.rsplit_once(':') {
        Some((host, port)) => (host, Some(number(port)?)),
        None => (host, None),
    };
    let mut options = MountOptions::new(host, format!("/{export}"));
    options.port = port;
    let mut version = ProtocolVersion::V3;
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (key, value) = pair.split_once('=').ok_or(format!("`{pair}` has no value"))?;
        match key {
            "version" => version = value.parse().map_err(|error| format!("{error}"))?,
            "port" => options.port = Some(number(value)?),
            "mountport" => options.mount_port = Some(number(value)?),
            "proto" if value == "tcp" => {}
            "proto" if value == "udp" => options.proto = Proto::Udp,
            "tls_ca" => options.tls = Some(Tls::with_authorities(Some(value.into()))),
            _ => return Err(format!("`{pair}` is unknown")),
        }
    }
    options.version = version;
    Ok((options, version))
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number in range"))
}

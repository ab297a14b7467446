//! The hosts of a plan's text, and the targets that are set up on them.
//!
//! What is read here ends up in arguments of `ssh`, so that names and addresses are held to what
//! such names are made of.

use std::path::{Path, PathBuf};

use model::Host;
use model::options::{check_interface, check_path, check_ssh_destination};
use model::setting::Range;

use crate::reading::document::{Field, Table};
use crate::reading::placement::{self, known_host};
use crate::reading::section::Section;
use crate::reading::values::{bounded, bounded_size};
use crate::written::error::{Fault, Located, Place, PlanError};
use crate::written::hosts::{PlannedHost, UsedFrom};
use crate::written::lab::LabArg;
use crate::written::limits;
use crate::written::settings::Settings;
use crate::written::text::either;

/// The keys of a `[[target]]` that is set up on hosts.
pub(crate) const LAB_KEYS: [&str; 6] =
    ["client", "clients", "devices", "loop_size", "directory", "tmpfs_size"];

/// Names that hosts can't have, for facts use them for something else.
const TAKEN: [&str; 2] = ["host", "target"];

/// Reads every `[[host]]`.
pub(crate) fn read_hosts(root: &Table<'_>) -> Result<Vec<PlannedHost>, PlanError> {
    let mut hosts: Vec<PlannedHost> = Vec::new();
    let Some(field) = root.field("host") else { return Ok(hosts) };
    for table in field.tables(Section::Host)? {
        let (planned, place) = read_host(&table)?;
        let host = &planned.host;
        if hosts.iter().any(|other| other.host.name == host.name) {
            let what = format!("`{}` is the name of two hosts", host.name);
            return Err(Fault::new(what).hint("give each host its own name").of("name", place));
        }
        let way = |host: &Host| host.ssh.clone().map(|ssh| (ssh, host.ssh_config.clone()));
        let same = |other: &&PlannedHost| host.ssh.is_some() && way(&other.host) == way(host);
        if let (Some(other), Some(field)) = (hosts.iter().find(same), table.field("ssh")) {
            let what = format!("`{}` and `{}` are one host", other.host.name, host.name);
            let hint = "name it once; `slots` lets it play several clients";
            return Err(field.error(Fault::new(what).hint(hint)));
        }
        hosts.push(planned);
    }
    Ok(hosts)
}

fn read_host(table: &Table<'_>) -> Result<(PlannedHost, Place), PlanError> {
    let field = table.required("name", "such as `name = \"server\"`")?;
    let name = plain_name(&field, "host")?;
    if let Some(taken) = TAKEN.iter().find(|taken| **taken == name.value) {
        let fault = Fault::new(format!("`{taken}` can't name a host"));
        return Err(field.error(fault.hint("facts of targets and of this host are called so")));
    }
    let text = |key: &'static str, example: &str, plain: fn(&str) -> bool, hint: &str| {
        let Some(field) = table.field(key) else { return Ok(None) };
        let text = field.text(example)?.value;
        if text.is_empty() || text.starts_with('-') || !plain(text) {
            let fault = Fault::new(format!("`{text:.80}` can't be one")).hint(hint);
            return Err(field.error(fault));
        }
        Ok(Some(text.to_owned()))
    };
    let hint = "a name or an address, with a user and an `@` before it where one is needed";
    let ssh = text("ssh", "\"root@10.0.0.1\"", |text| check_ssh_destination(text).is_ok(), hint)?;
    let address = text("address", "\"10.0.0.1\"", is_address, "a name or an address")?;
    let file = |text: &str| !text.contains(char::is_control);
    let ssh_config = text("ssh_config", "\"ssh_config\"", file, "a file for `ssh -F`")?;
    let hint = "what `ip link` calls it, such as `eth0`";
    let interface = text("interface", "\"eth0\"", |text| check_interface(text).is_ok(), hint)?;
    if let Some(field) = table.field("ssh_config").filter(|_| ssh.is_none()) {
        let fault = Fault::new("is only for a host that ssh leads to").hint("write `ssh`, too");
        return Err(field.error(fault));
    }
    let ssh_config = ssh_config.map(PathBuf::from);
    let slots = match table.field("slots") {
        Some(field) => bounded(&field, limits::SLOTS_OF_HOST)?.value as u32,
        None => 1,
    };
    let host = Host { name: name.value, ssh, ssh_config, address, interface };
    Ok((PlannedHost { host, slots }, name.place))
}

/// Reads a name that can be typed in filters.
pub(crate) fn plain_name(field: &Field<'_>, of: &str) -> Result<Located<String>, PlanError> {
    let name = field.text("\"nfs\"")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let length = name.value.len();
    if !name.value.chars().all(plain) || !(1..=limits::NAME_LENGTH_MAX).contains(&length) {
        let what = format!("`{:.80}` can't name a {of}", name.value);
        let hint = format!(
            "1 to {} letters, digits, `-`, `_` or `.`, so that it can be typed in filters",
            limits::NAME_LENGTH_MAX
        );
        return Err(field.error(Fault::new(what).hint(hint)));
    }
    Ok(Located { value: name.value.to_owned(), place: name.place })
}

/// An address is what ssh finds a host by, without a user.
fn is_address(text: &str) -> bool {
    !text.contains('@') && check_ssh_destination(text).is_ok()
}

/// Reads a target that is set up on hosts, and from which of them it is used; `server` is the
/// field that names its server.
pub(crate) fn read_lab(
    table: &Table<'_>,
    server: &Field<'_>,
    hosts: &[PlannedHost],
) -> Result<(LabArg, UsedFrom), PlanError> {
    let loop_bytes = read_size(table, "loop_size", limits::LOOP_SIZE)?;
    let server = known_host(server, hosts)?.host;
    let (client, used_from) = read_clients(table, &server, hosts)?;
    let lab = LabArg {
        server,
        client,
        devices: table.field("devices").map(|field| read_devices(&field)).transpose()?,
        loop_bytes: loop_bytes.unwrap_or(0),
        directory: table.field("directory").map(|field| read_file(&field)).transpose()?,
        tmpfs_bytes: read_size(table, "tmpfs_size", limits::TMPFS_SIZE)?.unwrap_or(0),
        settings: Settings::default(),
    };
    if let Some(field) = table.field("loop_size").filter(|_| lab.devices.is_none()) {
        let fault = Fault::new("is only for `devices`").hint("name the files under `devices`");
        return Err(field.error(fault));
    }
    Ok((lab, used_from))
}

/// Reads the one client of a target, or several.
fn read_clients(
    table: &Table<'_>,
    server: &Host,
    hosts: &[PlannedHost],
) -> Result<(Option<Host>, UsedFrom), PlanError> {
    let (field, listed) = match (table.field("client"), table.field("clients")) {
        (None, None) => return Ok((None, UsedFrom::One)),
        (Some(_), Some(field)) => {
            let fault = Fault::new("stands beside `client`");
            return Err(field.error(fault.hint("write one of the two, `clients` for a list")));
        }
        (Some(field), None) => (field, vec![known_host(&field, hosts)?]),
        (None, Some(field)) => (field, placement::read_list(&field, hosts)?),
    };
    if listed.iter().any(|planned| planned.host.name == server.name) {
        let fault = Fault::new(format!("`{}` is the server, too", server.name));
        let hint = "leave it out: a server mounts its own export on data_path loopback";
        return Err(field.error(fault.hint(hint)));
    }
    let first = listed.first().map(|planned| planned.host.clone());
    let several = field.key() == "clients";
    Ok((first, if several { UsedFrom::slots_of(&listed) } else { UsedFrom::One }))
}

fn read_devices(field: &Field<'_>) -> Result<Located<Vec<PathBuf>>, PlanError> {
    let mut devices = Vec::new();
    for item in field.items()? {
        let device = read_file(&item)?.value;
        if devices.contains(&device) {
            let what = format!("`{}` stands in the list twice", device.display());
            return Err(item.error(Fault::new(what).hint("each device is used once")));
        }
        devices.push(device);
    }
    Ok(Located { value: devices, place: field.place() })
}

/// Reads a place of another host, which no directory of this one leads to.
fn read_file(field: &Field<'_>) -> Result<Located<PathBuf>, PlanError> {
    let path = field.text("\"/srv/data\"")?;
    check_path(Path::new(path.value)).map_err(|error| field.error(error.into()))?;
    Ok(Located { value: PathBuf::from(path.value), place: path.place })
}

fn read_size(table: &Table<'_>, key: &'static str, range: Range) -> Result<Option<u64>, PlanError> {
    let Some(field) = table.field(key) else { return Ok(None) };
    bounded_size(&field, range).map(|spot| Some(spot.value))
}

/// Refuses keys of hosts with a target that has none.
pub(crate) fn refuse_lab_keys(table: &Table<'_>) -> Result<(), PlanError> {
    match LAB_KEYS.iter().find_map(|key| table.field(key)) {
        Some(field) => {
            let fault = Fault::new("is only for a target with `server`");
            let hint = format!("{} belong to a target that we set up", either(&LAB_KEYS));
            Err(field.error(fault.hint(hint)))
        }
        None => Ok(()),
    }
}

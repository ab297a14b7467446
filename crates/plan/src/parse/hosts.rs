//! Parses the hosts of a plan, and the targets that are set up on them.
//!
//! These values become arguments of `ssh`, so names and addresses are limited to the characters
//! that such names consist of.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use model::Host;
use model::options::{check_interface, check_path, check_ssh_destination};
use model::setting::Range;

use crate::parse::document::{Field, Table};
use crate::parse::placement::{self, known_host};
use crate::parse::section::Section;
use crate::parse::systems;
use crate::parse::values::{bounded_size, bounded_u32};
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};
use crate::syntax::hosts::{PlannedHost, UsedFrom};
use crate::syntax::lab::LabArg;
use crate::syntax::limits;
use crate::syntax::text::join_with_or;

/// Keys of a `[[target]]` that is set up on hosts.
pub(crate) const LAB_KEYS: [&str; 12] = [
    "client",
    "clients",
    "devices",
    "loop_size",
    "directory",
    "tmpfs_size",
    "system",
    "access",
    "roles",
    "secrets",
    "settings",
    "mount",
];

/// Names that hosts can't have because facts use them for something else.
const TAKEN: [&str; 2] = ["host", "target"];

const LABEL_EXAMPLE: &str = "\"ECC DDR2\"";

/// Parses every `[[host]]`.
pub(crate) fn read_hosts(root: &Table<'_>) -> Result<Vec<PlannedHost>, PlanError> {
    let mut hosts: Vec<PlannedHost> = Vec::new();
    let Some(field) = root.field("host") else { return Ok(hosts) };
    if field.is_table() {
        return Ok(hosts);
    }
    for table in field.tables(Section::Host)? {
        let (planned, place) = read_host(&table)?;
        for other in &hosts {
            check_differ(&table, place, &other.host, &planned.host)?;
        }
        hosts.push(planned);
    }
    Ok(hosts)
}

/// Parses the labels of the local host: `[host.labels]` in a plan without a `[[host]]`.
pub(crate) fn read_own_labels(root: &Table<'_>) -> Result<BTreeMap<String, String>, PlanError> {
    let Some(field) = root.field("host") else { return Ok(BTreeMap::new()) };
    if !field.is_table() {
        return Ok(BTreeMap::new());
    }
    for entry in field.entries("for example `[host.labels]`")? {
        if entry.key() != "labels" {
            let fault = Fault::new("is only for a [[host]] with a name");
            return Err(
                entry.error(fault.hint("put [[host]] on its own line, with its keys below"))
            );
        }
    }
    read_labels(&field.table(Section::Host)?)
}

/// Parses the labels of a host.
fn read_labels(table: &Table<'_>) -> Result<BTreeMap<String, String>, PlanError> {
    let mut labels = BTreeMap::new();
    let Some(field) = table.field("labels") else { return Ok(labels) };
    for label in field.entries("for example `dram = \"ECC DDR2\"` below [host.labels]")? {
        check_name(&label, "label", label.key())?;
        let text = label.text(LABEL_EXAMPLE)?.value;
        let length = text.chars().count();
        if !(1..=limits::LABEL_LENGTH_MAX).contains(&length) || text.contains(char::is_control) {
            let what = format!("must be 1 to {} characters", limits::LABEL_LENGTH_MAX);
            let hint = format!("a few words, such as {LABEL_EXAMPLE}");
            return Err(label.error(Fault::new(what).hint(hint)));
        }
        labels.insert(label.key().to_owned(), text.to_owned());
    }
    Ok(labels)
}

/// Refuses a host that has the same name or SSH destination as an earlier one.
fn check_differ(
    table: &Table<'_>,
    place: PlanPosition,
    other: &Host,
    host: &Host,
) -> Result<(), PlanError> {
    if other.name == host.name {
        let what = format!("two hosts are called `{}`", host.name);
        return Err(Fault::new(what).hint("give each host its own name").of_key("name", place));
    }
    let is_same = (&other.ssh, &other.ssh_config) == (&host.ssh, &host.ssh_config);
    if is_same && let Some(field) = table.field("ssh") {
        let what = format!("`{}` and `{}` are the same host", other.name, host.name);
        let hint = "name it once; `slots` lets it play several clients";
        return Err(field.error(Fault::new(what).hint(hint)));
    }
    Ok(())
}

fn read_host(table: &Table<'_>) -> Result<(PlannedHost, PlanPosition), PlanError> {
    let field = table.required("name", "for example `name = \"server\"`")?;
    let name = plain_name(&field, "host")?;
    if let Some(taken) = TAKEN.iter().find(|taken| **taken == name.value) {
        let fault = Fault::new(format!("`{taken}` can't be the name of a host"));
        return Err(field.error(fault.hint("it is reserved for facts of targets and of this host")));
    }
    let ssh = table.read("ssh", |field| {
        let hint = "a name or an address, optionally with `user@` before it";
        read_argument(field, "\"root@10.0.0.1\"", is_destination, hint)
    })?;
    let address = table.read("address", |field| {
        read_argument(field, "\"10.0.0.1\"", is_address, "a name or an address")
    })?;
    let ssh_config = table.read("ssh_config", |field| {
        if table.field("ssh").is_none() {
            let fault = Fault::new("is only for a host with `ssh`");
            return Err(field.error(fault.hint("add `ssh`")));
        }
        Ok(PathBuf::from(read_argument(
            field,
            "\"ssh_config\"",
            is_printable,
            "a file for `ssh -F`",
        )?))
    })?;
    let interface = table.read("interface", |field| {
        let hint = "its name in `ip link`, such as `eth0`";
        read_argument(field, "\"eth0\"", |text| check_interface(text).is_ok(), hint)
    })?;
    let slots = match table.field("slots") {
        Some(field) => bounded_u32(&field, limits::SLOTS_OF_HOST)?.value,
        None => 1,
    };
    let more_addresses = table.read("more_addresses", read_addresses)?.unwrap_or_default();
    let labels = read_labels(table)?;
    let name_value = name.value;
    let host =
        Host { name: name_value, ssh, ssh_config, address, more_addresses, interface, labels };
    Ok((PlannedHost { host, slots }, name.place))
}

/// Parses one further address of a host, or a list of distinct ones.
fn read_addresses(field: &Field<'_>) -> Result<Vec<String>, PlanError> {
    let mut addresses = Vec::new();
    for item in field.items()? {
        let address = read_argument(&item, "\"10.0.1.1\"", is_address, "a name or an address")?;
        if addresses.contains(&address) {
            let fault = Fault::new(format!("`{address}` is listed twice"));
            return Err(item.error(fault.hint("list each address once")));
        }
        addresses.push(address);
    }
    Ok(addresses)
}

/// Parses a text that becomes an argument of another program: not empty, and not an option.
fn read_argument(
    field: &Field<'_>,
    example: &str,
    is_valid: fn(&str) -> bool,
    hint: &str,
) -> Result<String, PlanError> {
    let text = field.text(example)?.value;
    if text.is_empty() || text.starts_with('-') || !is_valid(text) {
        return Err(field.error(Fault::new(format!("`{text:.80}` is not valid")).hint(hint)));
    }
    Ok(text.to_owned())
}

fn is_printable(text: &str) -> bool {
    !text.contains(char::is_control)
}

fn is_destination(text: &str) -> bool {
    check_ssh_destination(text).is_ok()
}

/// Parses a name that can be typed in filters.
pub(crate) fn plain_name(field: &Field<'_>, of: &str) -> Result<Located<String>, PlanError> {
    let name = field.text("\"nfs\"")?;
    check_name(field, of, name.value)?;
    Ok(Located { value: name.value.to_owned(), place: name.place })
}

/// Refuses a name that can't be typed in filters.
fn check_name(field: &Field<'_>, of: &str, name: &str) -> Result<(), PlanError> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    if !is_plain || !(1..=limits::NAME_LENGTH_MAX).contains(&name.len()) {
        let what = format!("`{name:.80}` can't be the name of a {of}");
        let hint = format!(
            "1 to {} letters, digits, `-`, `_` or `.`, so that it can be typed in filters",
            limits::NAME_LENGTH_MAX
        );
        return Err(field.error(Fault::new(what).hint(hint)));
    }
    Ok(())
}

/// Returns true if a text is an address for ssh, without a user.
fn is_address(text: &str) -> bool {
    !text.contains('@') && is_destination(text)
}

/// Parses a target that is set up on hosts, and the hosts that use it; `server` is the field that
/// names its server.
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
        devices: table.read("devices", |field| read_files(field, "device"))?,
        loop_bytes,
        directories: read_directories(table)?,
        is_spread: false,
        tmpfs_bytes: read_size(table, "tmpfs_size", limits::TMPFS_SIZE)?,
        system: systems::read_system(table, hosts)?,
        site_mount: systems::read_site_mount(table)?,
        settings: systems::read_settings(table)?,
    };
    if lab.devices.is_none()
        && let Some(field) = table.field("loop_size")
    {
        let fault =
            Fault::new("is only for targets with `devices`").hint("name the files under `devices`");
        return Err(field.error(fault));
    }
    Ok((lab, used_from))
}

/// Parses the client or clients of a target.
fn read_clients(
    table: &Table<'_>,
    server: &Host,
    hosts: &[PlannedHost],
) -> Result<(Option<Host>, UsedFrom), PlanError> {
    let (field, listed) = match (table.field("client"), table.field("clients")) {
        (None, None) => return Ok((None, UsedFrom::One)),
        (Some(_), Some(field)) => {
            let fault = Fault::new("conflicts with `client`");
            return Err(field.error(fault.hint("keep one of them; `clients` takes a list")));
        }
        (Some(field), None) => (field, vec![known_host(&field, hosts)?]),
        (None, Some(field)) => (field, placement::read_list(&field, hosts)?),
    };
    if listed.iter().any(|planned| planned.host.name == server.name) {
        let fault = Fault::new(format!("`{}` is also the server", server.name));
        let hint = "leave it out: a server mounts its own export on data_path loopback";
        return Err(field.error(fault.hint(hint)));
    }
    // A list is never empty.
    let first = listed[0].host.clone();
    let several = field.key() == "clients";
    Ok((Some(first), if several { UsedFrom::slots_of(&listed) } else { UsedFrom::One }))
}

/// Parses one path on another host, or a list of distinct paths.
fn read_files(field: &Field<'_>, each: &str) -> Result<Located<Vec<PathBuf>>, PlanError> {
    let mut files = Vec::new();
    for item in field.items()? {
        let file = read_file(&item)?.value;
        if files.contains(&file) {
            let what = format!("`{}` is listed twice", file.display());
            return Err(item.error(Fault::new(what).hint(format!("each {each} is used once"))));
        }
        files.push(file);
    }
    Ok(field.located(files))
}

/// Parses the directories of the server, from either of the two keys.
fn read_directories(table: &Table<'_>) -> Result<Option<Located<Vec<PathBuf>>>, PlanError> {
    match (table.field("directory"), table.field("path")) {
        (None, None) => Ok(None),
        (Some(_), Some(field)) => {
            let fault = Fault::new("conflicts with `directory`");
            Err(field.error(fault.hint("keep one of them; both name directories of the server")))
        }
        (Some(field), None) | (None, Some(field)) => read_files(&field, "directory").map(Some),
    }
}

/// Parses a path on another host. It must be absolute, since that host has no working directory of
/// ours.
fn read_file(field: &Field<'_>) -> Result<Located<PathBuf>, PlanError> {
    field.parse("\"/srv/data\"", |text| {
        check_path(Path::new(text))?;
        Ok(PathBuf::from(text))
    })
}

/// Parses a size within its limits; 0 if it was not written.
fn read_size(table: &Table<'_>, key: &'static str, range: Range) -> Result<u64, PlanError> {
    match table.field(key) {
        Some(field) => Ok(bounded_size(&field, range)?.value),
        None => Ok(0),
    }
}

/// Refuses keys about hosts in a target that is not set up on any.
pub(crate) fn refuse_lab_keys(table: &Table<'_>) -> Result<(), PlanError> {
    match table.first_field(&LAB_KEYS) {
        Some(field) => {
            let fault = Fault::new("is only for a target with `server`");
            let hint =
                format!("{} are for a target that dfsbench sets up", join_with_or(&LAB_KEYS));
            Err(field.error(fault.hint(hint)))
        }
        None => Ok(()),
    }
}

//! Parses the targets of a plan.
//!
//! Each `[[target]]` has a unique name, exactly one key that identifies the kind of target, and
//! backends that can execute ops on it.

use std::collections::HashSet;

use model::setting::{Range, Setting};
use model::{BackendKind, Target};

use crate::parse::address::{self, TLS_KEYS, check_groups, check_tls, sec_named, set_tls};
use crate::parse::document::{Field, Table};
use crate::parse::hosts::{plain_name, read_lab, refuse_lab_keys};
use crate::parse::placement;
use crate::parse::section::Section;
use crate::parse::target_text;
use crate::parse::values::{backend, bounded_u32, settings_among};
use crate::syntax::address::User;
use crate::syntax::error::{Fault, Located, PlanError};
use crate::syntax::hosts::{PlannedHost, UsedFrom};
use crate::syntax::lab::LabArg;
use crate::syntax::raw::RawTarget;
use crate::syntax::suggestion::unknown_word;
use crate::syntax::target::TargetArg;
use crate::syntax::text::join_with_or;

/// Keys that identify the kind of a target, besides those of [`Target::PLAIN`].
const TARGET_KEYS: [&str; 6] = ["url", "path", "temporary", "embedded", "server", "tcp"];

/// Keys of the in-memory server: the credentials, and whether to use the server without faults.
const EMBEDDED_KEYS: [&str; 6] = ["uid", "gid", "groups", "sec", "resvport", "faultless"];

pub(crate) fn read_targets(
    root: &Table<'_>,
    hosts: &[PlannedHost],
) -> Result<Vec<RawTarget>, PlanError> {
    let hint = "add a [[target]] with name and url, path, embedded, null or server";
    let field = root.required("target", hint)?;
    let mut targets: Vec<RawTarget> = Vec::new();
    let mut names = HashSet::new();
    for table in field.tables(Section::Target)? {
        for target in split_target(&table, read_target(&table, hosts)?)? {
            if !names.insert(target.name.value.clone()) {
                let what = format!("two targets are called `{}`", target.name.value);
                let fault = Fault::new(what).hint("give each target its own name");
                return Err(fault.of_key("name", target.name.place));
            }
            targets.push(target);
        }
    }
    if targets.is_empty() {
        return Err(field.error(Fault::new("the list is empty").hint(hint)));
    }
    Ok(targets)
}

/// Splits a target with several directories or devices into one target with all of them, one for
/// each of them, or both.
fn split_target(table: &Table<'_>, target: RawTarget) -> Result<Vec<RawTarget>, PlanError> {
    const WORDS: [&str; 3] = ["together", "alone", "both"];
    let Some(field) = table.field("spread") else { return Ok(vec![target]) };
    let (parts, whole) = match &target.what {
        TargetArg::Ready(Target::Directories { paths }) => {
            let parts = paths.iter().cloned().map(TargetArg::directory).collect();
            (parts, target.what.clone())
        }
        TargetArg::Lab(lab) => (split_devices(lab), all_together(lab)),
        _ => (Vec::new(), target.what.clone()),
    };
    if parts.len() < 2 {
        let fault = Fault::new("is only for a list of paths").hint("write `path = [.., ..]`");
        return Err(field.error(fault));
    }
    let word = field.text("\"both\"")?.value;
    let mut spread = Vec::new();
    if word != "together" {
        for (index, what) in parts.into_iter().enumerate() {
            let mut alone = target.clone();
            alone.name.value = format!("{}.{}", target.name.value, index + 1);
            alone.what = what;
            spread.push(alone);
        }
    }
    if word != "alone" {
        spread.push(RawTarget { what: whole, ..target });
    }
    if WORDS.contains(&word) {
        Ok(spread)
    } else {
        Err(field.error(unknown_word("way to spread", word, &WORDS)))
    }
}

/// Creates a target of each device, or of each directory of a server.
fn split_devices(lab: &LabArg) -> Vec<TargetArg> {
    let mut parts = Vec::new();
    if let Some(devices) = &lab.devices {
        for device in &devices.value {
            let devices = Located { value: vec![device.clone()], place: devices.place };
            let alone = LabArg { devices: Some(devices), ..lab.clone() };
            parts.push(TargetArg::Lab(Box::new(alone)));
        }
    } else if let Some(directories) = &lab.directories {
        for directory in &directories.value {
            let place = directories.place;
            let directories = Some(Located { value: vec![directory.clone()], place });
            parts.push(TargetArg::Lab(Box::new(LabArg { directories, ..lab.clone() })));
        }
    }
    parts
}

/// Creates a target of all of them, with a separate file system on each device.
fn all_together(lab: &LabArg) -> TargetArg {
    let is_spread = lab.devices.is_some();
    TargetArg::Lab(Box::new(LabArg { is_spread, ..lab.clone() }))
}

/// Parses one directory, or a list of distinct ones.
fn read_path(field: &Field<'_>) -> Result<TargetArg, PlanError> {
    let mut paths = Vec::new();
    let mut seen = HashSet::new();
    for item in field.items()? {
        let path = item.parse("\"/mnt/test\"", target_text::parse_directory)?.value;
        if !seen.insert(path.clone()) {
            let what = format!("`{}` is listed twice", path.display());
            return Err(item.error(Fault::new(what).hint("each directory is used once")));
        }
        paths.push(path);
    }
    Ok(match paths.len() {
        1 => TargetArg::directory(paths.remove(0)),
        _ => TargetArg::Ready(Target::Directories { paths }),
    })
}

fn read_target(table: &Table<'_>, hosts: &[PlannedHost]) -> Result<RawTarget, PlanError> {
    let name = table.required("name", "for example `name = \"nfs\"`")?;
    let name = plain_name(&name, "target")?;
    let (mut what, used_from) = read_target_kind(table, hosts)?;
    read_how(table, &mut what)?;
    let mut target = RawTarget { name, used_from, ..RawTarget::with_defaults(what) };
    if let Some(field) = table.field("backend") {
        target.backends = read_backends(&field, &target.what)?;
    }
    Ok(target)
}

/// Parses the backends of a target, without duplicates.
fn read_backends(field: &Field<'_>, what: &TargetArg) -> Result<Vec<BackendKind>, PlanError> {
    let mut backends = Vec::new();
    for item in field.items()? {
        let backend = backend(&item)?.value;
        item.accept(fits(what, backend))?;
        if !backends.contains(&backend) {
            backends.push(backend);
        }
    }
    Ok(backends)
}

fn read_target_kind(
    table: &Table<'_>,
    hosts: &[PlannedHost],
) -> Result<(TargetArg, UsedFrom), PlanError> {
    let field = &target_kind_field(table)?;
    if field.key() != "server" {
        refuse_lab_keys(table)?;
    }
    let mut used_from = UsedFrom::One;
    let what = match field.key() {
        "server" => {
            let (lab, clients) = read_lab(table, field, hosts)?;
            used_from = clients;
            TargetArg::Lab(Box::new(lab))
        }
        "url" => {
            let place = field.place();
            let url = |text: &str| address::parse_url(text, place);
            TargetArg::Nfs(field.parse("\"nfs://host/export\"", url)?.value)
        }
        "path" => read_path(field)?,
        "tcp" => field.parse("\"host:2049\"", target_text::parse_tcp)?.value,
        _ if !field.is_true() => return Err(field.wrong_type("true or false", "true")),
        "temporary" => TargetArg::Temporary,
        "embedded" => match table.field("faultless") {
            Some(faultless) if faultless.is_true() => TargetArg::without_faults(read_user(table)?),
            _ => TargetArg::embedded(read_user(table)?),
        },
        key => TargetArg::Ready(Target::plain(key).expect("the key is one of these")),
    };
    if let Some(field) = table.field("hosts") {
        used_from = placement::read_hosts(&field, &what, hosts)?;
    }
    match table.first_field(&EMBEDDED_KEYS) {
        Some(owner) if !matches!(what, TargetArg::Embedded(_)) => {
            let hint =
                "write a url as `nfs://host/path?uid=..&gid=..`; a path uses the ids of the caller";
            Err(owner.error(Fault::new("is only for `embedded = true`").hint(hint)))
        }
        _ => Ok((what, used_from)),
    }
}

/// Finds the one field that identifies the kind of a target.
fn target_kind_field<'a>(table: &Table<'a>) -> Result<Field<'a>, PlanError> {
    let mut keys = TARGET_KEYS.to_vec();
    keys.extend(Target::PLAIN.iter().map(|target| target.row().usual_name));
    let mut written = Vec::new();
    for key in &keys {
        // A key that is `false` counts as omitted. In a target with a server, `path` has the
        // server's directories.
        let is_of_server = *key == "path" && table.field("server").is_some();
        if let Some(field) = table.field(key)
            && field.as_flag() != Some(false)
            && !is_of_server
        {
            written.push(field);
        }
    }
    let what = match written.as_slice() {
        [field] => return Ok(*field),
        [] => "[[target]] doesn't name a target",
        _ => "[[target]] names more than one target",
    };
    let choice = format!("one of {}", join_with_or(&keys));
    Err(Fault::new(what).hint(choice).at(table.place))
}

fn read_user(table: &Table<'_>) -> Result<User, PlanError> {
    let mut user = User {
        uid: table.read("uid", read_id)?,
        gid: table.read("gid", read_id)?,
        groups: table.read_each("groups", read_id)?.unwrap_or_default(),
        ..User::default()
    };
    if let Some(field) = table.field("groups") {
        field.accept(check_groups(&user.groups))?;
    }
    if let Some(field) = table.field("sec") {
        user.sec = Some(field.parse("\"sys\"", sec_named)?.value);
    }
    if let Some(field) = table.field("resvport") {
        user.resvport = field.flag()?.value;
    }
    Ok(user)
}

/// Parses a user or group ID.
fn read_id(field: &Field<'_>) -> Result<u32, PlanError> {
    let range = Range { min: 0, max: u32::MAX.into(), reason: "ids have 32 bits" };
    Ok(bounded_u32(field, range)?.value)
}

/// Parses how to speak to a server: settings for this target only.
fn read_how(table: &Table<'_>, what: &mut TargetArg) -> Result<(), PlanError> {
    let settings = settings_among(&Setting::OF_TARGETS, table)?;
    let Some(known) = what.settings_mut() else {
        refuse_nfs_keys(table, &Setting::OF_TARGETS.map(Setting::key))?;
        return refuse_nfs_keys(table, &TLS_KEYS);
    };
    for setting in Setting::OF_TARGETS {
        let Some(levels) = settings.get(setting) else { continue };
        if known.get(setting).is_some() {
            let fault = Fault::new("is also in the `url`").hint("set it in one place");
            return Err(fault.of_key(setting.key(), levels[0].place));
        }
        known.insert(setting, levels.to_vec());
    }
    let Some(address) = what.address_mut() else { return refuse_nfs_keys(table, &TLS_KEYS) };
    let mut last = None;
    for key in TLS_KEYS {
        let Some(field) = table.field(key) else { continue };
        set_tls(&mut address.tls, key, field.text("\"/etc/ssl/ca.pem\"")?.value);
        last = Some(field);
    }
    // The other half of the certificate and key may be in the `url`.
    match last {
        Some(field) => field.accept(check_tls(&address.tls))?.value,
        None => table.place.accept(check_tls(&address.tls))?.value,
    }
    Ok(())
}

/// Refuses NFS keys in a target that does not speak NFS.
fn refuse_nfs_keys(table: &Table<'_>, keys: &[&'static str]) -> Result<(), PlanError> {
    let Some(field) = table.first_field(keys) else { return Ok(()) };
    let fault = Fault::new("is only for an NFS server");
    Err(field.error(fault.hint("the options of a path are those of its mount")))
}

/// Refuses a backend that can't execute ops on the target.
pub(crate) fn fits(what: &TargetArg, backend: BackendKind) -> Result<(), Fault> {
    if what.backends().contains(&backend) {
        return Ok(());
    }
    let names: Vec<&str> = what.backends().iter().map(|backend| backend.name()).collect();
    Err(Fault::new(format!("`{}` can't be used on {}", backend.name(), what.row().noun))
        .hint(format!("write {}", join_with_or(&names))))
}

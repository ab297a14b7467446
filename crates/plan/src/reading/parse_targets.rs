//! The targets of a plan's text.
//!
//! Each `[[target]]` has a name of its own, exactly one key that says what it is, and backends
//! that can execute ops on it.

use model::BackendKind;
use model::setting::{Range, Setting};

use crate::reading::address::{self, TLS_KEYS, check_groups, check_tls, sec_named, set_tls};
use crate::reading::document::{Field, Table};
use crate::reading::parse_hosts::{plain_name, read_lab, refuse_lab_keys};
use crate::reading::placement;
use crate::reading::section::Section;
use crate::reading::target;
use crate::reading::values::{backend, bounded, settings_among};
use crate::written::address::User;
use crate::written::error::{Fault, Located, PlanError};
use crate::written::hosts::{PlannedHost, UsedFrom};
use crate::written::near::unknown_word;
use crate::written::raw::RawTarget;
use crate::written::target::TargetArg;
use crate::written::text::either;

/// The keys that say what a target is.
const TARGET_KEYS: [&str; 8] =
    ["url", "path", "temporary", "embedded", "null", "server", "memory", "tcp"];

/// The keys that say as whom the in-memory server is used.
const USER_KEYS: [&str; 5] = ["uid", "gid", "groups", "sec", "resvport"];

pub(crate) fn read_targets(
    root: &Table<'_>,
    hosts: &[PlannedHost],
) -> Result<Vec<RawTarget>, PlanError> {
    let hint = "say what is measured: [[target]] with name and url, path, embedded, null or server";
    let field = root.required("target", hint)?;
    let mut targets: Vec<RawTarget> = Vec::new();
    for table in field.tables(Section::Target)? {
        for target in spread(&table, read_target(&table, hosts)?)? {
            if targets.iter().any(|other| other.name.value == target.name.value) {
                let what = format!("`{}` is the name of two targets", target.name.value);
                let fault = Fault::new(what).hint("give each target its own name");
                return Err(fault.of("name", target.name.place));
            }
            targets.push(target);
        }
    }
    if targets.is_empty() {
        return Err(field.error(Fault::new("the list is empty").hint(hint)));
    }
    Ok(targets)
}

/// Makes of a target with several directories one with all of them, one with each, or both.
fn spread(table: &Table<'_>, target: RawTarget) -> Result<Vec<RawTarget>, PlanError> {
    const WORDS: [&str; 3] = ["together", "alone", "both"];
    let field = table.field("spread");
    let TargetArg::Directories(paths) = &target.what else {
        let fault = Fault::new("is only for a list of paths").hint("write `path = [.., ..]`");
        return field.map_or(Ok(vec![target]), |field| Err(field.error(fault)));
    };
    let word = match &field {
        Some(field) => field.text("\"both\"")?.value,
        None => WORDS[0],
    };
    let alone = |(number, path): (usize, &std::path::PathBuf)| RawTarget {
        name: Located {
            value: format!("{}.{}", target.name.value, number + 1),
            place: target.name.place,
        },
        what: TargetArg::Directory(path.clone()),
        used_from: target.used_from.clone(),
        backends: target.backends.clone(),
    };
    let each: Vec<RawTarget> = paths.iter().enumerate().map(alone).collect();
    match (word, field) {
        ("together", _) => Ok(vec![target]),
        ("alone", _) => Ok(each),
        ("both", _) => Ok(each.into_iter().chain([target]).collect()),
        (other, Some(field)) => Err(field.error(unknown_word("way to spread", other, &WORDS))),
        (other, None) => unreachable!("nobody wrote {other}"),
    }
}

/// Reads one directory, or a list of them, none of which stands twice.
fn read_path(field: &Field<'_>) -> Result<TargetArg, PlanError> {
    let one = |item: &Field<'_>| {
        let path = item.text("\"/mnt/test\"")?.value;
        target::parse_directory(path).map_err(|fault| item.error(fault))
    };
    let mut paths = Vec::new();
    for item in field.items()? {
        let path = one(&item)?;
        if paths.contains(&path) {
            let what = format!("`{}` stands in the list twice", path.display());
            return Err(item.error(Fault::new(what).hint("each directory is used once")));
        }
        paths.push(path);
    }
    Ok(match paths.len() {
        1 => TargetArg::Directory(paths.remove(0)),
        _ => TargetArg::Directories(paths),
    })
}

fn read_target(table: &Table<'_>, hosts: &[PlannedHost]) -> Result<RawTarget, PlanError> {
    let name = table.required("name", "such as `name = \"nfs\"`")?;
    let name = plain_name(&name, "target")?;
    let (mut what, used_from) = read_what(table, hosts)?;
    read_how(table, &mut what)?;
    let backends = match table.field("backend") {
        None => what.backends()[..1].to_vec(),
        Some(field) => read_backends(&field, &what)?,
    };
    Ok(RawTarget { name, what, used_from, backends })
}

/// Reads which backends a target is used with; one that is named twice is meant once.
fn read_backends(field: &Field<'_>, what: &TargetArg) -> Result<Vec<BackendKind>, PlanError> {
    let mut backends = Vec::new();
    for item in field.items()? {
        let backend = backend(&item)?.value;
        fits(what, backend).map_err(|fault| item.error(fault))?;
        if !backends.contains(&backend) {
            backends.push(backend);
        }
    }
    Ok(backends)
}

fn read_what(table: &Table<'_>, hosts: &[PlannedHost]) -> Result<(TargetArg, UsedFrom), PlanError> {
    let choice = format!("one of {}", either(&TARGET_KEYS));
    // A key that is `false` counts as left out.
    let meant = |field: &Field<'_>| field.as_flag() != Some(false);
    let written: Vec<Field<'_>> =
        TARGET_KEYS.iter().filter_map(|key| table.field(key)).filter(meant).collect();
    let [field] = written.as_slice() else {
        let what = if written.is_empty() {
            "does not say what it is"
        } else {
            "says more than once what it is"
        };
        return Err(Fault::new(format!("[[target]] {what}")).hint(choice).at(table.place));
    };
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
            let url = field.text("\"nfs://host/export\"")?.value;
            TargetArg::Nfs(
                address::parse_url(url, field.place()).map_err(|fault| field.error(fault))?,
            )
        }
        "path" => read_path(field)?,
        "tcp" => {
            let text = field.text("\"host:2049\"")?.value;
            target::parse_tcp(text).map_err(|fault| field.error(fault))?
        }
        key if field.as_flag() == Some(true) => match key {
            "temporary" => TargetArg::Temporary,
            "null" => TargetArg::Null,
            "memory" => TargetArg::Memory,
            _ if is_faultless(table) => TargetArg::faultless(read_user(table)?),
            _ => TargetArg::embedded(read_user(table)?),
        },
        _ => return Err(field.wrong_type("true or false", "true")),
    };
    if let Some(field) = table.field("hosts") {
        used_from = placement::read_hosts(&field, &what, hosts)?;
    }
    let mut of_embedded = USER_KEYS.iter().chain(&["faultless"]);
    match of_embedded.find_map(|key| table.field(key)) {
        Some(owner) if !matches!(what, TargetArg::Embedded(_)) => {
            let hint = "write a url as `nfs://host/path?uid=..&gid=..`; a path has the caller's";
            Err(owner.error(Fault::new("is only for `embedded = true`").hint(hint)))
        }
        _ => Ok((what, used_from)),
    }
}

fn is_faultless(table: &Table<'_>) -> bool {
    table.field("faultless").is_some_and(|field| field.as_flag() == Some(true))
}

fn read_user(table: &Table<'_>) -> Result<User, PlanError> {
    let mut user = User::default();
    if let Some(field) = table.field("uid") {
        user.uid = Some(id(&field)?);
    }
    if let Some(field) = table.field("gid") {
        user.gid = Some(id(&field)?);
    }
    if let Some(field) = table.field("groups") {
        user.groups = field.items()?.iter().map(id).collect::<Result<_, _>>()?;
        check_groups(&user.groups).map_err(|fault| field.error(fault))?;
    }
    if let Some(field) = table.field("sec") {
        let name = field.text("\"sys\"")?.value;
        user.sec = Some(sec_named(name).map_err(|fault| field.error(fault))?);
    }
    if let Some(field) = table.field("resvport") {
        let refused = || field.wrong_type("true or false", "true");
        user.resvport = field.as_flag().ok_or_else(refused)?;
    }
    Ok(user)
}

fn id(field: &Field<'_>) -> Result<u32, PlanError> {
    let range = Range { min: 0, max: u32::MAX.into(), reason: "ids have 32 bits" };
    Ok(bounded(field, range)?.value as u32)
}

/// Reads how a server is spoken to: settings that hold for this target alone.
fn read_how(table: &Table<'_>, what: &mut TargetArg) -> Result<(), PlanError> {
    let settings = settings_among(&Setting::OF_TARGETS, table)?;
    let tls = || TLS_KEYS.iter().filter_map(|key| table.field(key));
    let refused = |field: Option<Field<'_>>| {
        let fault = Fault::new("is only for an NFS server").hint("a path is mounted by others");
        field.map_or(Ok(()), |field| Err(field.error(fault)))
    };
    let Some(known) = what.settings_mut() else {
        let keys = Setting::OF_TARGETS.map(Setting::key);
        return refused(keys.iter().find_map(|key| table.field(key)).or_else(|| tls().next()));
    };
    for setting in Setting::OF_TARGETS {
        let Some(levels) = settings.get(setting) else { continue };
        if known.get(setting).is_some() {
            let fault = Fault::new("stands in the `url` too").hint("say it in one place");
            return Err(fault.of(setting.key(), levels[0].place));
        }
        known.insert(setting, levels.to_vec());
    }
    let Some(address) = what.address_mut() else { return refused(tls().next()) };
    let mut last = None;
    for field in tls() {
        let value = field.text("\"/etc/ssl/ca.pem\"")?.value;
        set_tls(&mut address.tls, field.key(), value);
        last = Some(field);
    }
    check_tls(&address.tls).map_err(|fault| match last {
        Some(field) => field.error(fault),
        None => fault.at(table.place),
    })
}

/// Lets a backend pass that can execute ops on the target.
pub(crate) fn fits(what: &TargetArg, backend: BackendKind) -> Result<(), Fault> {
    if what.backends().contains(&backend) {
        return Ok(());
    }
    let names: Vec<&str> = what.backends().iter().map(|backend| backend.name()).collect();
    let is = match what {
        TargetArg::Null => "the null target",
        TargetArg::Directory(_) | TargetArg::Directories(_) | TargetArg::Temporary => "a directory",
        TargetArg::Nfs(_) | TargetArg::Embedded(_) => "an NFS server",
        TargetArg::Lab(_) => "a directory of a server",
        TargetArg::Memory => "memory",
        TargetArg::Tcp(_) => "a TCP connection",
    };
    Err(Fault::new(format!("`{}` can't be used on {is}", backend.name()))
        .hint(format!("write {}", either(&names))))
}

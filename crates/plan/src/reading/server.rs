//! Reads the in-memory server of a plan: `[server]` and `[server.faults]`.
//!
//! Values are read by the same functions as the flags of `dfsbench run` and `dfsbench serve`.
//! What was left out is filled in by `meaning::server`.

use model::setting::Setting;
use model::{NfsSettings, NfsVersion};

use crate::reading::document::Field;
use crate::reading::level::{self, in_range};
use crate::reading::section::Section;
use crate::reading::values::{bounded, bounded_size};
use crate::written::error::{Fault, Located, Place, PlanError};
use crate::written::fault::{KINDS, PlannedFault};
use crate::written::limits;
use crate::written::raw::{RawFaults, RawServer};

/// Reads the section `[server]`.
pub(crate) fn read_server(field: &Field<'_>) -> Result<RawServer, PlanError> {
    let table = field.table(Section::Server)?;
    let threads = |field: Field<'_>| {
        let threads = bounded(&field, limits::SERVER_THREADS)?;
        Ok(Located { value: threads.value as u32, place: threads.place })
    };
    let faults = table.field("faults").map(|field| read_faults(&field)).transpose()?;
    Ok(RawServer {
        memory_bytes: table
            .field("memory")
            .map(|field| bounded_size(&field, limits::SERVER_MEMORY))
            .transpose()?,
        threads: table.field("threads").map(threads).transpose()?,
        discard: table.field("discard").map(|field| flag(&field)).transpose()?,
        versions: table.field("nfsvers").map(|field| read_versions(&field)).transpose()?,
        faults: faults.unwrap_or_default(),
    })
}

fn flag(field: &Field<'_>) -> Result<Located<bool>, PlanError> {
    let value = field.as_flag().ok_or_else(|| field.wrong_type("true or false", "true"))?;
    Ok(Located { value, place: field.place() })
}

/// Reads the memory of the in-memory server, as `flag` gives it, into bytes.
///
/// # Errors
/// When it is no size, or out of its limits.
pub fn parse_server_memory(text: &str, flag: &'static str) -> Result<u64, PlanError> {
    read_memory(text).map_err(|fault| fault.at(Place::Flag(flag)))
}

/// Reads the versions that the in-memory server offers, as `flag` gives them; all where it
/// doesn't.
///
/// # Errors
/// When one of them is none.
pub fn parse_versions(texts: &[String], flag: &'static str) -> Result<Vec<NfsVersion>, PlanError> {
    let read = |text: &String| read_version(text).map_err(|fault| fault.at(Place::Flag(flag)));
    let named = texts.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    let offered = |version: &NfsVersion| named.is_empty() || named.contains(version);
    Ok(NfsVersion::ALL.iter().copied().filter(offered).collect())
}

/// Reads the memory of the in-memory server.
pub(crate) fn read_memory(text: &str) -> Result<u64, Fault> {
    let bytes = model::units::parse_size(text)?;
    let legal = limits::span(limits::SERVER_MEMORY, &limits::show_size);
    in_range(bytes, limits::SERVER_MEMORY, &legal, text).map(|()| bytes)
}

fn read_versions(field: &Field<'_>) -> Result<Vec<NfsVersion>, PlanError> {
    let mut versions = Vec::new();
    for item in field.items()? {
        let text = match item.as_text() {
            Some(text) => text.to_owned(),
            None if item.is_numeric() => item.shown(),
            None => return Err(item.wrong_type("a version", "[3, 4.1]")),
        };
        let version = read_version(&text).map_err(|fault| item.error(fault))?;
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    Ok(versions)
}

/// Reads a version of NFS.
fn read_version(text: &str) -> Result<NfsVersion, Fault> {
    let mut nfs = NfsSettings::default();
    level::put_nfs(Setting::NfsVers, &mut nfs, level::read(Setting::NfsVers, text)?);
    Ok(nfs.version)
}

fn read_faults(field: &Field<'_>) -> Result<RawFaults, PlanError> {
    let table = field.table(Section::Faults)?;
    let mut faults = RawFaults::default();
    if let Some(field) = table.field("seed") {
        faults.seed = Some(field.number(&format!("0 to {}", u64::MAX), "1")?.value);
    }
    for kind in &KINDS {
        let Some(field) = table.field(kind.name) else { continue };
        for item in field.items()? {
            let value = match (item.as_text(), item.as_flag()) {
                (Some(text), _) if !kind.form.is_empty() => text.to_owned(),
                (_, Some(false)) if kind.form.is_empty() => continue,
                (_, Some(true)) if kind.form.is_empty() => String::new(),
                _ if kind.form == "N" && item.is_integer() => item.shown().replace('_', ""),
                _ if kind.form.is_empty() => return Err(item.wrong_type("true or false", "true")),
                _ => return Err(item.wrong_type("a string", &format!("\"{}\"", kind.form))),
            };
            let fault = PlannedFault::read(kind.name, &value).map_err(|f| item.error(f))?;
            faults.planned.push(fault);
            if PlannedFault::contradiction(&faults.planned).is_some() {
                let fault = Fault::new(format!("`{value}` contradicts an earlier one"));
                return Err(item.error(fault.hint("say each once")));
            }
        }
    }
    Ok(faults)
}

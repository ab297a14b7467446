//! Parses the in-memory server of a plan: `[server]` and `[server.faults]`.
//!
//! The flags of `dfsbench run` and `dfsbench serve` use the same parsers. Defaults are filled in by
//! `resolve::defaults`.

use model::setting::Setting;
use model::{NfsSettings, NfsVersion};

use crate::parse::cluster::read_cluster;
use crate::parse::document::Field;
use crate::parse::level;
use crate::parse::section::Section;
use crate::parse::values::{bounded_size, bounded_u32, size_in_range};
use crate::syntax::error::{Fault, Located, PlanError, PlanPosition};
use crate::syntax::fault::{KINDS, PlannedFault};
use crate::syntax::limits;
use crate::syntax::raw::{RawFaults, RawServer};

/// Parses the section `[server]`.
pub(crate) fn read_server(field: &Field<'_>) -> Result<RawServer, PlanError> {
    let table = field.table(Section::Server)?;
    Ok(RawServer {
        memory_bytes: table.read("memory", |field| bounded_size(field, limits::SERVER_MEMORY))?,
        threads: table.read("threads", |field| bounded_u32(field, limits::SERVER_THREADS))?,
        discard: table.read("discard", Field::flag)?,
        permissions: table.read("permissions", Field::flag)?,
        delegations: table.read("delegations", Field::flag)?,
        versions: table.read("nfsvers", read_versions)?,
        cluster: read_cluster(&table)?,
        faults: table.read("faults", read_faults)?.unwrap_or_default(),
    })
}

/// Parses the seed of random choices: any 64-bit number.
pub(crate) fn read_seed(field: &Field<'_>) -> Result<Located<u64>, PlanError> {
    field.number(&format!("0 to {}", u64::MAX), "1")
}

/// Parses the memory of the in-memory server, given by `flag`, into bytes.
///
/// # Errors
/// If it is not a size, or outside its limits.
pub fn parse_server_memory(text: &str, flag: &'static str) -> Result<u64, PlanError> {
    Ok(PlanPosition::Flag(flag).accept(read_memory(text))?.value)
}

/// Parses the NFS versions that the in-memory server offers, given by `flag`; without the flag, all
/// of them.
///
/// # Errors
/// If a text is not an NFS version.
pub fn parse_versions(texts: &[String], flag: &'static str) -> Result<Vec<NfsVersion>, PlanError> {
    let mut versions = Vec::new();
    for text in texts {
        versions.push(PlanPosition::Flag(flag).accept(read_version(text))?.value);
    }
    if versions.is_empty() {
        return Ok(NfsVersion::ALL.to_vec());
    }
    // Sorted by version rather than in the order of the flags, without duplicates.
    versions.sort_unstable();
    versions.dedup();
    Ok(versions)
}

pub(crate) fn read_memory(text: &str) -> Result<u64, Fault> {
    let legal = limits::span(limits::SERVER_MEMORY, &limits::show_size);
    size_in_range(text, limits::SERVER_MEMORY, &legal)
}

fn read_versions(field: &Field<'_>) -> Result<Vec<NfsVersion>, PlanError> {
    let mut versions = Vec::new();
    for item in field.items()? {
        let text = match item.as_text() {
            Some(text) => text.to_owned(),
            None if item.is_numeric() => item.shown(),
            None => return Err(item.wrong_type("a version", "[3, 4.1]")),
        };
        let version = item.accept(read_version(&text))?.value;
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    Ok(versions)
}

fn read_version(text: &str) -> Result<NfsVersion, Fault> {
    let mut nfs = NfsSettings::default();
    level::put_nfs(Setting::NfsVers, &mut nfs, level::read(Setting::NfsVers, text)?);
    Ok(nfs.version)
}

fn read_faults(field: &Field<'_>) -> Result<RawFaults, PlanError> {
    let table = field.table(Section::Faults)?;
    let mut faults = RawFaults::default();
    if let Some(field) = table.field("seed") {
        faults.seed = Some(read_seed(&field)?.value);
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
            let fault = item.accept(PlannedFault::read(kind.name, &value))?;
            faults.planned.push(fault.value);
            if PlannedFault::contradiction(&faults.planned).is_some() {
                let fault = Fault::new(format!("`{value}` conflicts with an earlier one"));
                return Err(item.error(fault.hint("set each once")));
            }
        }
    }
    Ok(faults)
}

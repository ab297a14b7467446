//! Formats a probe as tables for a terminal: services, exports and registrations.
//!
//! A query without an answer shows the reason instead; nothing is left out silently.

use std::fmt::Write as _;

use model::printable::to_printable_line;
use model::units::{Nanos, Size};
use nfs_client::probe::{
    Answer, Export, ExportLayouts, Flavor, Limits, Probe, Registration, ReservedPort, Service,
    layout_name,
};
use report::align_columns;

use crate::id_text;

/// Shown if a value is unknown.
const NOTHING: &str = "-";

pub fn render(probe: &Probe) -> String {
    let mut text = head_table(probe);
    text.push('\n');
    text.push_str(&service_table(probe));
    text.push('\n');
    text.push_str(&export_table(probe));
    if probe.nfs.iter().any(|service| service.version == 4 && service.null.is_ok()) {
        text.push('\n');
        text.push_str(&root_table(probe));
        text.push_str(&identity_table(probe));
        text.push_str(&trunking_table(probe));
        text.push_str(&layout_table(probe));
    }
    text.push('\n');
    text.push_str(&list_registered("portmapper (version 2)", &probe.portmap));
    text.push_str(&list_registered("rpcbind (version 3 or 4)", &probe.rpcbind));
    text
}

fn head_table(probe: &Probe) -> String {
    let mut also = String::new();
    for address in &probe.addresses {
        if *address != probe.address {
            also.push_str(if also.is_empty() { "; also " } else { ", " });
            also.push_str(&address.to_string());
        }
    }
    let mut versions = Vec::new();
    for version in probe.versions() {
        versions.push(version.name());
    }
    let versions = if versions.is_empty() { "none".to_owned() } else { versions.join(", ") };
    let tls = match &probe.tls {
        Ok(true) => "offered".to_owned(),
        Ok(false) => "not offered".to_owned(),
        Err(why) => why.to_string(),
    };
    let ports = match &probe.reserved_port {
        Ok(ReservedPort::Needed) => "reserved ports only (mount option resvport)".to_owned(),
        Ok(ReservedPort::NotNeeded) => "calls from any port (resvport is not needed)".to_owned(),
        Err(why) => format!("unknown: {why}"),
    };
    let xattrs = match &probe.xattrs {
        Ok(true) => "supported (v4.2)".to_owned(),
        Ok(false) => "not supported".to_owned(),
        Err(why) => format!("unknown: {why}"),
    };
    let mut text =
        format!("server:    {} ({}{also})\nversions:  NFS {versions}\n", probe.host, probe.address);
    text.push_str(&refused_versions(probe));
    let _ = writeln!(text, "TLS:       {tls}\nports:     {ports}\nxattr:     {xattrs}");
    if let Some(why) = &probe.stopped {
        let _ = writeln!(text, "STOPPED:   the server no longer answers: {why}");
    }
    text
}

/// Lists the versions that are not supported, with how each was tried and the outcome.
fn refused_versions(probe: &Probe) -> String {
    let spoken = probe.versions();
    let mut tried = Vec::new();
    for one in probe.tried_versions() {
        if !spoken.contains(&one.version) {
            tried.push(format!("{} ({}: {})", one.version.name(), one.call, one.outcome));
        }
    }
    match tried.as_slice() {
        [] => String::new(),
        tried => format!("tried:     NFS {}\n", tried.join(", ")),
    }
}

fn service_table(probe: &Probe) -> String {
    let mut rows =
        vec![owned_cells(["program", "version", "transport", "port", "NULL median", "min"])];
    // The number of samples is the same for all services that answer.
    let mut note = String::new();
    for (program, services) in [("nfs", &probe.nfs), ("mount", &probe.mount)] {
        for service in services {
            rows.push(service_row(program, service));
            if program == "nfs"
                && let Ok(null) = &service.null
            {
                let samples = null.samples;
                note = format!("NULL: round trip of {samples} calls, one after the other\n");
            }
        }
    }
    align_columns(&rows) + &note
}

fn service_row(program: &str, service: &Service) -> Vec<String> {
    let port = match service.address {
        Some(address) => address.port().to_string(),
        None => NOTHING.to_owned(),
    };
    let [median, least] = match &service.null {
        Ok(null) => [Nanos(null.median_ns).to_string(), Nanos(null.least_ns).to_string()],
        Err(why) => [why.to_string(), NOTHING.to_owned()],
    };
    let version = service.version.to_string();
    let transport = service.transport.name().to_owned();
    vec![program.to_owned(), version, transport, port, median, least]
}

fn export_table(probe: &Probe) -> String {
    let exports = match &probe.exports {
        Ok(exports) => exports,
        Err(why) => return format!("exports: {why}\n"),
    };
    let mut rows = vec![owned_cells([
        "export",
        "who may mount",
        "security",
        "version",
        "rtmax",
        "wtmax",
        "dtpref",
        "largest file",
    ])];
    for export in exports {
        rows.extend(export_rows(export));
    }
    let mut text = align_columns(&rows);
    if probe.exports_not_examined > 0 {
        let _ = writeln!(text, "{} further exports were not examined", probe.exports_not_examined);
    }
    match &probe.mounted {
        Ok(mounted) if mounted.is_empty() => {
            text.push_str("mounted by: no client, according to the server\n");
        }
        Ok(mounted) => {
            let all: Vec<_> = mounted
                .iter()
                .map(|mounted| format!("{} ({})", mounted.host, mounted.path))
                .collect();
            let all = all.join(", ");
            let _ = writeln!(text, "mounted by: {}", to_printable_line(&all));
        }
        Err(why) => {
            let _ = writeln!(text, "mounted by: {why}");
        }
    }
    text
}

/// Builds one row per version that reported limits. Path, groups and security are only shown in the
/// first row.
fn export_rows(export: &Export) -> Vec<Vec<String>> {
    let groups = match export.groups.as_slice() {
        [] => "everyone".to_owned(),
        groups => groups.join(" "),
    };
    let flavors = if export.flavors.is_ok() { &export.flavors } else { &export.flavors_v4 };
    let security = name_flavors(flavors);
    let mut leading = [export.path.clone(), groups, security];
    let mut rows = Vec::new();
    for (version, limits) in &export.limits {
        let mut row = leading.to_vec();
        row.push(version.name().to_owned());
        row.extend(limit_cells(limits));
        rows.push(row);
        leading = Default::default();
    }
    if rows.is_empty() {
        let mut row = leading.to_vec();
        row.resize(8, NOTHING.to_owned());
        rows.push(row);
    }
    rows
}

fn limit_cells(limits: &Answer<Limits>) -> [String; 4] {
    match limits {
        Ok(limits) => [
            Size(limits.read_bytes_max).to_string(),
            Size(limits.write_bytes_max).to_string(),
            match limits.directory_bytes_preferred {
                Some(bytes) => Size(bytes).to_string(),
                None => NOTHING.to_owned(),
            },
            Size(limits.file_bytes_max).to_string(),
        ],
        Err(why) => [why.to_string(), String::new(), String::new(), String::new()],
    }
}

/// Lists the names of security flavors, or a dash if they were not reported.
fn name_flavors(answer: &Answer<Vec<Flavor>>) -> String {
    let Ok(flavors) = answer else { return NOTHING.to_owned() };
    let names: Vec<_> = flavors.iter().map(ToString::to_string).collect();
    names.join(" ")
}

fn root_table(probe: &Probe) -> String {
    let root = &probe.root;
    let lease = match &root.lease_seconds {
        Ok(seconds) => format!("{seconds} s"),
        Err(why) => why.to_string(),
    };
    let names = match &root.names {
        Ok(names) => to_printable_line(&names.join(" ")).into_owned(),
        Err(why) => why.to_string(),
    };
    let security = name_flavors(&root.flavors);
    format!("v4 root: {names}; lease {lease}; security {security}\n")
}

fn identity_table(probe: &Probe) -> String {
    match &probe.identity {
        Ok(server) => format!(
            "identity: owner {}, instance {}, scope {}; {}{}\n",
            id_text(&server.major_id),
            server.minor_id,
            id_text(&server.scope),
            server.roles.join(", "),
            server.implementation.as_ref().map_or(String::new(), |name| format!("; {name}")),
        ),
        Err(why) => format!("identity: {why}\n"),
    }
}

/// Lists the other addresses, and how connections to them may be used with the first.
fn trunking_table(probe: &Probe) -> String {
    if probe.trunking.is_empty() {
        return String::new();
    }
    let heading = format!("with {}", probe.address);
    let mut rows = vec![vec!["address".to_owned(), heading]];
    for (address, found) in &probe.trunking {
        let how = match found {
            Ok(trunking) => trunking.name().to_owned(),
            Err(why) => why.to_string(),
        };
        rows.push(vec![address.to_string(), how]);
    }
    format!("\n{}", align_columns(&rows))
}

/// Lists the pNFS layouts of exports that have any, and the devices behind them.
fn layout_table(probe: &Probe) -> String {
    let is_empty =
        |layouts: &ExportLayouts| matches!(&layouts.types, Ok(types) if types.is_empty());
    if probe.layouts.iter().all(is_empty) {
        return if probe.identity.is_ok() {
            "pNFS: no layouts\n".to_owned()
        } else {
            String::new()
        };
    }
    let mut rows = vec![owned_cells(["export", "layouts", "device", "data servers", "version"])];
    for layouts in probe.layouts.iter().filter(|layouts| !is_empty(layouts)) {
        let types = match &layouts.types {
            Ok(types) => {
                let names: Vec<_> = types.iter().map(|number| layout_name(*number)).collect();
                names.join(", ")
            }
            Err(why) => why.to_string(),
        };
        let mut leading = [layouts.path.clone(), types];
        let mut push = |device: String, servers: String, versions: String| {
            let [path, types] = std::mem::take(&mut leading);
            rows.push(vec![path, types, device, servers, versions]);
        };
        match &layouts.devices {
            Ok(devices) => {
                for device in devices {
                    let addresses = match device.addresses.as_slice() {
                        [] => "disks".to_owned(),
                        addresses => addresses.join(" "),
                    };
                    push(device.id.clone(), addresses, device.versions.join(" "));
                }
            }
            Err(why) => push(why.to_string(), String::new(), String::new()),
        }
    }
    format!("\n{}", align_columns(&rows))
}

fn list_registered(who: &str, answer: &Answer<Vec<Registration>>) -> String {
    let registrations = match answer {
        Ok(registrations) => registrations,
        Err(why) => return format!("{who}: {why}\n"),
    };
    let mut rows = vec![owned_cells(["program", "name", "version", "transport", "port", "owner"])];
    for one in registrations {
        rows.push(vec![
            one.program.to_string(),
            one.name.unwrap_or(NOTHING).to_owned(),
            one.version.to_string(),
            one.netid.clone(),
            match one.port {
                Some(port) => port.to_string(),
                None => NOTHING.to_owned(),
            },
            if one.owner.is_empty() { NOTHING.to_owned() } else { one.owner.clone() },
        ]);
    }
    format!("registered with the {who}:\n{}", align_columns(&rows))
}

fn owned_cells<const N: usize>(texts: [&str; N]) -> Vec<String> {
    texts.map(str::to_owned).to_vec()
}

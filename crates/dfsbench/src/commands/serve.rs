//! `dfsbench serve`: runs only the in-memory server, for any NFS client.
//!
//! The first line of stdout is the address in the form that `dfsbench run` accepts, so that scripts
//! can read it; instructions for mounting go to stderr. It listens on loopback unless `--listen` is
//! given.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use model::NfsVersion;
use nfs_server::{
    Certificate, Network, Portmap, Server, ServerConfig, ServerCounters, ServerError, TlsConfig,
};
use plan::fault::{check_faults, parse_fault};
use plan::{ClusterKeys, PlanPosition, ServerPlan};

use crate::args::ServeArgs;
use crate::exit::{End, Failure};
use crate::files::output_file;
use crate::server::{embedded, server_config};
use crate::signals;
use crate::terminal::output;

/// Interval between checks of the stop flag.
const TICK: Duration = Duration::from_millis(50);

/// Serves until it is stopped.
///
/// # Errors
/// If the arguments contradict each other or the server can't be started.
pub(crate) fn run(args: &ServeArgs) -> Result<ExitCode, Failure> {
    let inputs = [&args.tls_cert, &args.tls_key].into_iter().flatten();
    output_file::check_with_inputs(args.tls_ca_out.as_deref(), inputs)?;
    let server_plan = plan_of(args)?;
    let config = server_config(args, &server_plan)?;
    let stop = signals::stop_flag()?;
    embedded::raise_descriptor_limit();
    let udp = config.udp;
    let server = Server::start(config).map_err(|error| explain_start_failure(&error))?;
    if let (Some(path), Some(pem)) = (&args.tls_ca_out, server.certificate_pem()) {
        output_file::write(path, pem.as_bytes(), None)?;
    }
    let place = ServerAddress {
        address: server.address().ip(),
        port: server.address().port(),
        versions: &server_plan.versions,
        udp,
        tls: args.tls,
    };
    output::text(&format!("{}\n", place.url(args.tls_ca_out.as_deref())))?;
    if let Some(address) = server.portmap_address() {
        output::message(&format!("portmapper and rpcbind: {address}"));
    }
    for (index, address) in server.data_server_addresses().iter().enumerate() {
        output::message(&format!("data server {}: {address}", index + 1));
    }
    output::message(&place.mounts());
    while !stop.load(Relaxed) {
        std::thread::sleep(TICK);
    }
    let counters = server.counters();
    let lines = [
        report_delegations(&counters),
        report_layouts(&counters, server.proxied_bytes()),
        report_usage(&counters),
        report_refusals(&counters),
    ];
    for line in lines.into_iter().flatten().chain(report_data_servers(&server)) {
        output::message(&line);
    }
    server.shutdown();
    Ok(End::Ok.into())
}

/// Describes the fate of delegations; `None` if no client got one.
fn report_delegations(counters: &ServerCounters) -> Option<String> {
    let granted = counters.delegations_granted;
    if granted == 0 {
        return None;
    }
    let recalled = counters.delegations_recalled;
    let returned = counters.delegations_returned;
    let revoked = counters.delegations_revoked;
    Some(format!(
        "delegations: {granted} granted, {recalled} recalled, {returned} returned, \
         {revoked} revoked"
    ))
}

/// Describes the fate of layouts; `None` if no client got one and none went without.
fn report_layouts(counters: &ServerCounters, proxied_bytes: (u64, u64)) -> Option<String> {
    let granted = counters.layouts_granted;
    if granted == 0 && proxied_bytes == (0, 0) {
        return None;
    }
    let ServerCounters { layouts_recalled, layouts_returned, layouts_revoked, .. } = counters;
    let (read, written) = proxied_bytes;
    Some(format!(
        "layouts: {granted} granted; files: {layouts_recalled} recalled, {layouts_returned} \
         returned, {layouts_revoked} revoked; through this server: {read} bytes read, {written} \
         written"
    ))
}

/// Describes what clients reported about their use of data servers; `None` if they did not.
fn report_usage(counters: &ServerCounters) -> Option<String> {
    let reports = counters.usage_reports;
    if reports == 0 {
        return None;
    }
    let (read, written) = (counters.reported_read_bytes, counters.reported_written_bytes);
    Some(format!(
        "clients reported their use of data servers {reports} times; when they returned layouts: \
         {read} bytes read, {written} written"
    ))
}

/// Describes how much each data server of ours was used.
fn report_data_servers(server: &Server) -> Vec<String> {
    let errors = server.data_server_errors();
    let describe = |(index, one): (usize, &Server)| {
        let counters = one.counters();
        let (read, written) = (counters.payload_read_bytes, counters.payload_written_bytes);
        let errors = errors.get(index).copied().unwrap_or(0);
        format!(
            "data server {}: {read} bytes read, {written} written, {errors} errors reported by \
             clients",
            index + 1
        )
    };
    server.data_servers().iter().enumerate().map(describe).collect()
}

/// Describes what was refused for lack of memory; `None` if nothing was.
fn report_refusals(counters: &ServerCounters) -> Option<String> {
    let connections = counters.connections_out_of_memory;
    let clients = counters.clients_out_of_memory;
    if connections == 0 && clients == 0 {
        return None;
    }
    Some(format!(
        "warning: out of memory: {connections} connections closed, {clients} calls of v4 clients \
         delayed or refused (hint: raise --memory)"
    ))
}

fn plan_of(args: &ServeArgs) -> Result<ServerPlan, Failure> {
    let faults = args.fault.iter().map(|text| parse_fault(text)).collect::<Result<Vec<_>, _>>()?;
    check_faults(&faults)?;
    let versions = plan::parse_versions(&args.nfsvers, "--nfsvers")?;
    let cluster = plan::parse_cluster(&cluster_keys(args))?;
    let has_layouts = |version: &NfsVersion| matches!(version, NfsVersion::V4_1 | NfsVersion::V4_2);
    if cluster.is_some() && !versions.iter().any(has_layouts) {
        return Err(Failure::Usage(format!(
            "--nfsvers: `{}` has no layouts, which data servers need (hint: add 4.1 or 4.2)",
            args.nfsvers.join(",")
        )));
    }
    Ok(ServerPlan {
        memory_bytes: plan::parse_server_memory(&args.memory, "--memory")?,
        threads: match args.threads {
            0 => std::thread::available_parallelism().map_or(1, |cores| cores.get() as u32),
            threads => threads as u32,
        },
        discard: args.discard,
        permissions: args.permissions == "on",
        delegations: args.delegations == "on",
        versions,
        cluster,
        faults,
        fault_seed: args.fault_seed,
    })
}

fn cluster_keys(args: &ServeArgs) -> ClusterKeys {
    let key = |text: &Option<String>, flag| Some((text.clone()?, PlanPosition::Flag(flag)));
    ClusterKeys {
        data_servers: key(&args.data_servers, "--data-servers"),
        layouts: key(&args.layouts, "--layouts"),
        stripe_unit: key(&args.stripe_unit, "--stripe-unit"),
        mirrors: key(&args.mirrors, "--mirrors"),
    }
}

fn server_config(args: &ServeArgs, server: &ServerPlan) -> Result<ServerConfig, Failure> {
    let Ok(listen) = args.listen.parse::<IpAddr>() else {
        let hint = "an address of this host, such as 127.0.0.1, 0.0.0.0 or ::";
        let what = format!("--listen: `{}` is not an address", args.listen);
        return Err(Failure::Usage(format!("{what} (hint: {hint})")));
    };
    let mut allowed = Vec::new();
    for text in &args.allow {
        match text.parse::<Network>() {
            Ok(network) => allowed.push(network),
            Err(error) => return Err(Failure::Usage(format!("--allow: {error}"))),
        }
    }
    let off_loopback = !listen.to_canonical().is_loopback();
    if off_loopback && allowed.is_empty() {
        return Err(Failure::Usage(format!(
            "--listen: {listen} is not on loopback, but no clients are allowed (hint: add --allow \
             with addresses or ranges such as 192.168.1.0/24)"
        )));
    }
    if !off_loopback && !allowed.is_empty() {
        return Err(Failure::Usage(format!(
            "--allow: no other host can reach {listen} (hint: --listen 0.0.0.0 accepts calls from \
             the network)"
        )));
    }
    Ok(ServerConfig {
        listen,
        allowed,
        port: args.port,
        udp: !args.no_udp,
        portmap: args.portmapper.map_or(Portmap::Off, Portmap::Port),
        tls: tls_config(args)?,
        is_data_server: args.data_server,
        ..server_config::config(server)?
    })
}

fn tls_config(args: &ServeArgs) -> Result<Option<TlsConfig>, Failure> {
    if !args.tls {
        let named = args.tls_cert.is_some() || args.tls_ca_out.is_some();
        let error = "--tls-cert and --tls-ca-out have no effect without --tls";
        return if named { Err(Failure::Usage(error.to_owned())) } else { Ok(None) };
    }
    let certificate = match (&args.tls_cert, &args.tls_key) {
        (Some(chain), Some(key)) => Certificate::Pem {
            chain: read_pem("--tls-cert", chain)?,
            key: read_pem("--tls-key", key)?,
        },
        _ => Certificate::SelfSigned,
    };
    let mut client_authorities = None;
    if let Some(path) = &args.tls_client_ca {
        client_authorities = Some(read_pem("--tls-client-ca", path)?);
    }
    Ok(Some(TlsConfig { certificate, client_authorities, ..TlsConfig::default() }))
}

fn read_pem(flag: &str, path: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) => {
            Err(Failure::Usage(format!("{flag}: can't read `{}`: {error}", path.display())))
        }
    }
}

/// Adds advice to the error for a port that can't be used.
fn explain_start_failure(error: &ServerError) -> Failure {
    let hint = match error {
        ServerError::Listen { source, .. } => match source.kind() {
            ErrorKind::PermissionDenied => {
                " (hint: ports below 1024 require root or CAP_NET_BIND_SERVICE)"
            }
            ErrorKind::AddrInUse => " (hint: choose another --port; 0 lets the system choose)",
            ErrorKind::AddrNotAvailable => " (hint: --listen needs an address of this host)",
            _ => "",
        },
        ServerError::DataServer { source, .. } if source.kind() == ErrorKind::Unsupported => {
            " (hint: start `dfsbench serve --data-server` there, or use --layouts flexfiles)"
        }
        _ => "",
    };
    Failure::Lab(format!("{error}{hint}"))
}

/// The address on which the server listens, and the protocols that it offers.
struct ServerAddress<'a> {
    address: IpAddr,
    port: u16,
    versions: &'a [NfsVersion],
    udp: bool,
    tls: bool,
}

impl ServerAddress<'_> {
    /// Returns the address in the form that `dfsbench run` accepts on this host.
    fn url(&self, tls_ca: Option<&Path>) -> String {
        let port = self.port;
        let usual = self.versions.iter().find(|version| **version == NfsVersion::V3);
        let version = usual.unwrap_or(&self.versions[0]);
        let address = match self.address {
            IpAddr::V4(address) if address.is_unspecified() => "127.0.0.1".to_owned(),
            IpAddr::V6(address) if address.is_unspecified() => "[::1]".to_owned(),
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        let mut url = format!("nfs://{address}:{port}/export?version={version}");
        if let Some(path) = tls_ca {
            // Writing to a `String` never fails.
            let _ = write!(url, "&xprtsec=tls&tls_ca={}", path.display());
        }
        let _ = write!(url, "&mountport={port}");
        url
    }

    /// Returns the commands to mount it, one per version, for Linux and macOS.
    fn mounts(&self) -> String {
        let mut text = String::from("mount it on Linux, as root, with one of:\n");
        for version in self.versions {
            let _ = writeln!(text, "  {}", self.linux(*version, "tcp"));
            if self.udp && version.major() < 4 {
                let _ = writeln!(text, "  {}", self.linux(*version, "udp"));
            }
        }
        text.push_str("on macOS:\n");
        // The macOS client supports no other versions.
        for version in [NfsVersion::V3, NfsVersion::V4_0] {
            if self.versions.contains(&version) {
                let _ = writeln!(text, "  {}", self.macos(version));
            }
        }
        text.push_str("stop it with Ctrl-C");
        text
    }

    fn linux(&self, version: NfsVersion, proto: &str) -> String {
        let port = self.port;
        let host = self.host();
        let mut options = format!("vers={version},proto={proto},port={port}");
        if version.major() < 4 {
            let _ = write!(options, ",mountport={port},mountproto={proto},nolock");
        }
        if self.tls && proto == "tcp" && version != NfsVersion::V2 {
            options.push_str(",xprtsec=tls");
        }
        format!("mount -t nfs -o {options} {host}:/export /mnt")
    }

    fn macos(&self, version: NfsVersion) -> String {
        let port = self.port;
        let host = self.host();
        let more =
            if version.major() < 4 { format!(",mountport={port},nolocks") } else { String::new() };
        format!("mount -t nfs -o vers={version},tcp,port={port}{more} {host}:/export /private/mnt")
    }

    /// Returns the host for a mount command: its host name if the server listens on all addresses.
    fn host(&self) -> String {
        match self.address {
            address if address.is_unspecified() => {
                rustix::system::uname().nodename().to_string_lossy().into_owned()
            }
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_delegations_if_any() {
        assert_eq!(report_delegations(&ServerCounters::default()), None);
        let counters = ServerCounters {
            delegations_granted: 9,
            delegations_recalled: 3,
            delegations_returned: 7,
            delegations_revoked: 1,
            ..ServerCounters::default()
        };
        let expected = "delegations: 9 granted, 3 recalled, 7 returned, 1 revoked";
        assert_eq!(report_delegations(&counters).as_deref(), Some(expected));
    }

    #[test]
    fn reports_refusals_for_lack_of_memory() {
        assert_eq!(report_refusals(&ServerCounters::default()), None);
        let counters = ServerCounters {
            connections_out_of_memory: 7,
            clients_out_of_memory: 2,
            ..ServerCounters::default()
        };
        insta::assert_snapshot!(report_refusals(&counters).unwrap());
    }

    #[test]
    fn commands_name_what_each_version_needs() {
        let place = ServerAddress {
            address: "::1".parse().unwrap(),
            port: 2049,
            versions: &[NfsVersion::V3, NfsVersion::V4_1],
            udp: true,
            tls: true,
        };
        assert_eq!(place.url(None), "nfs://[::1]:2049/export?version=3&mountport=2049");
        insta::assert_snapshot!(place.mounts());
    }
}

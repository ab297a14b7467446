//! Every client with every server, in every version and over every transport.
//!
//! A check is one run of one list: that of `nfs-client`'s example `interop`, with any server, or
//! that of libnfs. Between our client and our server the run is also captured, and dissected with
//! tshark. For those with the Linux kernel's client and server see `vm`.
#![allow(clippy::disallowed_methods, reason = "tests wait and read the environment")]

use anyhow::Result;
use checks::check::Fixture;
use checks::ganesha::Ganesha;
use checks::interop::{
    FEW_ENTRIES, Protocol, check_all, check_by_libnfs, check_captured, check_captured_tls,
    protocol, retry_until_begun,
};
use checks::ours::{Ours, Serve};
use checks::repo::Profile;
use checks::traces::{check_counts, check_interface, check_python, check_replay};
use checks::{checks, guard};
use guard::Ticket;
use tempfile::TempDir;

const OURS: Ours = Ours::new(Profile::Debug);

static OUR_SERVER: Fixture<Serve> = Fixture::new(|| OURS.serve("256MiB", &[]));
static GANESHA: Fixture<Ganesha> = Fixture::new(Ganesha::start);
static PROXY: Fixture<Proxy> = Fixture::new(Proxy::start);
static TLS_SERVER: Fixture<TlsServer> = Fixture::new(TlsServer::start);

/// Our server behind nfs-ganesha, which uses v4.0 for it. Not v3: there ganesha keeps a removed
/// file open, so its handle is not stale.
struct Proxy {
    ganesha: Ganesha,
    _server: Serve,
}

impl Proxy {
    fn start() -> Result<Self> {
        let server = OURS.serve("256MiB", &[])?;
        Ok(Self { ganesha: Ganesha::before(server.export.port)?, _server: server })
    }
}

/// Our server with TLS, with its own authority.
struct TlsServer {
    serve: Serve,
    authority: String,
    _folder: TempDir,
    _ticket: Ticket,
}

impl TlsServer {
    fn start() -> Result<Self> {
        let folder = TempDir::with_prefix("dfsbench-tls-")?;
        let ticket = guard::remove_folder(folder.path());
        let authority = folder.path().join("ca.pem").display().to_string();
        let serve = OURS.serve("256MiB", &["--tls", "--tls-ca-out", &authority])?;
        Ok(Self { serve, authority, _folder: folder, _ticket: ticket })
    }

    fn address(&self, version: &'static str) -> String {
        let address = protocol(version, "tcp").address(&self.serve.export);
        format!("{address}&tls_ca={}", self.authority)
    }
}

checks! {
    our_server_v2_over_udp: 120 s, with_our_server(protocol("2", "udp"));
    our_server_v2_over_tcp: 120 s, with_our_server(protocol("2", "tcp"));
    our_server_v3_over_udp: 120 s, with_our_server(protocol("3", "udp"));
    our_server_v3_over_tcp: 120 s, with_our_server(protocol("3", "tcp"));
    our_server_v4_0_over_tcp: 120 s, with_our_server(protocol("4.0", "tcp"));
    our_server_v4_1_over_tcp: 120 s, with_our_server(protocol("4.1", "tcp"));
    our_server_v4_2_over_tcp: 120 s, with_our_server(protocol("4.2", "tcp"));
    tshark_dissects_v2_over_udp: 180 s, dissected(protocol("2", "udp"));
    tshark_dissects_v2_over_tcp: 180 s, dissected(protocol("2", "tcp"));
    tshark_dissects_v3_over_udp: 180 s, dissected(protocol("3", "udp"));
    tshark_dissects_v3_over_tcp: 180 s, dissected(protocol("3", "tcp"));
    tshark_dissects_v4_0_over_tcp: 180 s, dissected(protocol("4.0", "tcp"));
    tshark_dissects_v4_1_over_tcp: 180 s, dissected(protocol("4.1", "tcp"));
    tshark_dissects_v4_2_over_tcp: 180 s, dissected(protocol("4.2", "tcp"));
    libnfs_with_our_server_v2: 180 s, check_by_libnfs("2", &OUR_SERVER.get()?.export);
    libnfs_with_our_server_v3: 180 s, check_by_libnfs("3", &OUR_SERVER.get()?.export);
    libnfs_with_our_server_v4: 180 s, check_by_libnfs("4", &OUR_SERVER.get()?.export);
    ganesha_v3_over_tcp: 120 s, with_ganesha(protocol("3", "tcp"));
    ganesha_v3_over_udp: 120 s, with_ganesha(protocol("3", "udp"));
    ganesha_v4_0_over_tcp: 120 s, with_ganesha(protocol("4.0", "tcp"));
    ganesha_v4_1_over_tcp: 120 s, with_ganesha(protocol("4.1", "tcp"));
    ganesha_v4_2_over_tcp: 120 s, with_ganesha(protocol("4.2", "tcp"));
    ganesha_proxies_our_server_v4_0: 120 s, by_proxy("4.0");
    ganesha_proxies_our_server_v4_1: 120 s, by_proxy("4.1");
    our_server_v3_under_tls: 120 s, under_tls("3");
    our_server_v4_1_under_tls: 120 s, under_tls("4.1");
    finds_only_tls_after_v3_probe: 180 s, only_tls("3");
    finds_only_tls_after_v4_1_probe: 180 s, only_tls("4.1");
    counts_trace_like_tshark_v3_udp: 60 s, counted(protocol("3", "udp"));
    counts_trace_like_tshark_v3_tcp: 60 s, counted(protocol("3", "tcp"));
    counts_trace_like_tshark_v4_0: 60 s, counted(protocol("4.0", "tcp"));
    counts_trace_like_tshark_v4_1: 60 s, counted(protocol("4.1", "tcp"));
    counts_trace_like_tshark_v4_2: 60 s, counted(protocol("4.2", "tcp"));
    reads_trace_with_documented_python: 60 s, read_by_python();
    captures_interface_like_dumpcap: 90 s, check_interface(OURS);
    replays_v3_trace_on_ganesha: 60 s, on_ganesha("3", "3");
    replays_v4_1_trace_on_ganesha_v4_2: 60 s, on_ganesha("4.1", "4.2");
}

fn with_our_server(protocol: Protocol) -> Result<()> {
    check_all(&protocol.address(&OUR_SERVER.get()?.export), &[]).map(drop)
}

fn dissected(protocol: Protocol) -> Result<()> {
    check_captured(protocol, &OUR_SERVER.get()?.export)
}

fn counted(protocol: Protocol) -> Result<()> {
    check_counts(OURS, protocol, &OUR_SERVER.get()?.export)
}

fn read_by_python() -> Result<()> {
    check_python(OURS, protocol("4.1", "tcp"), &OUR_SERVER.get()?.export)
}

fn on_ganesha(version: &'static str, target_version: &'static str) -> Result<()> {
    let target = protocol(target_version, "tcp").address(&GANESHA.get()?.export("/vfs"));
    check_replay(OURS, protocol(version, "tcp"), &OUR_SERVER.get()?.export, &target)
}

/// Its READ_PLUS (4.3, FSAL VFS) returns one segment without bytes.
fn with_ganesha(protocol: Protocol) -> Result<()> {
    let export = GANESHA.get()?.export("/vfs");
    check_all(&protocol.address(&export), &["--empty-read-plus"]).map(drop)
}

fn by_proxy(version: &'static str) -> Result<()> {
    let export = PROXY.get()?.ganesha.export("/proxy");
    let address = protocol(version, "tcp").address(&export);
    retry_until_begun(|| check_all(&address, &["--entries", FEW_ENTRIES]).map(drop))
}

fn under_tls(version: &'static str) -> Result<()> {
    check_all(&TLS_SERVER.get()?.address(version), &[]).map(drop)
}

fn only_tls(version: &'static str) -> Result<()> {
    let server = TLS_SERVER.get()?;
    check_captured_tls(&server.address(version), &server.serve.export)
}

//! Runs that are impossible because their settings contradict the protocols.
//!
//! A product of factors may contain such combinations. They appear in results with their reason,
//! like a server that refuses a setting, but no trials are run. [`RunSpec::impossible`] decides;
//! plan, controller and report all call it, so that they agree.

use std::fmt;

use crate::runs::spec::RunSpec;
use crate::runs::work::Fill;
use crate::runs::workload::Workload;
use crate::systems::lab::{DataPath, LabSpec, MountSec, ServerKind, TunnelForwards};
use crate::targets::nfs::{NfsSettings, NfsTarget, NfsVersion, Pnfs, Proto, Sec, XprtSec};
use crate::targets::target::BackendKind;

/// Maximum payload of one datagram, in bytes. The 64 KiB of an IPv4 packet must also hold the RPC
/// and NFS headers, with credentials and handles of any size.
///
/// **Source:** RFC 768 and 791: 65,535 bytes with the headers of IP and UDP.
pub(crate) const UDP_TRANSFER_BYTES_MAX: u32 = 60 << 10;

/// Why a run is impossible.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// NFS v4 requires a transport with congestion control.
    ///
    /// **Source:** RFC 7530, 3.1; RFC 8881, 2.9.1.
    VersionOverUdp(NfsVersion),
    /// TLS needs a stream transport.
    TlsOverUdp,
    /// RPC-over-TLS is only used with v3 and v4.
    TlsWithV2,
    /// A UDP client has a single socket without connections.
    ConnectionsOverUdp,
    /// Nor does it use several addresses.
    AddressesOverUdp,
    /// v2 has 32-bit offsets.
    FileTooLargeForV2,
    /// v2 transfers at most 8 KiB at a time.
    TransferTooLargeForV2,
    /// A transfer doesn't fit in a datagram.
    TransferTooLargeForUdp,
    /// A transfer is larger than what the server is set to accept.
    TransferTooLargeForServer,
    /// Each worker needs a client of its own.
    FewerClientsThanWorkers,
    /// Mapped memory is the page cache, which `O_DIRECT` bypasses.
    MappedDirectly,
    /// Zeros cannot be told apart from blocks that were never written.
    ZerosVerified,
    /// A stamped block isn't all zeros.
    ZerosStamped,
    /// Stamped blocks never repeat.
    RepeatsStamped,
    /// An external tool needs a directory and makes its own system calls.
    ProgramElsewhere,
    /// An external tool cannot coordinate with other hosts, and instances on each would not start
    /// together.
    ProgramOnManyHosts,
    /// User IDs have 32 bits.
    UidsBeyondTheLast,
    /// AUTH_NONE sends no user ID.
    UidsWithoutAuthSys,
    /// Nothing is exported if the storage is used on the server itself.
    DiskByNfs,
    /// ssh only forwards streams.
    DatagramsInTunnel,
    /// Not every server supports every version.
    ///
    /// **Source:** unfs3, README: "NFSv3 server"; nfs-ganesha, `Protocols` of
    /// ganesha-export-config(8): 3 and 4.
    VersionOfServer(ServerKind, NfsVersion),
    /// Only the kernel adapts the number of its threads.
    DynamicThreadsOfServer(ServerKind),
    /// A client on another host has no certificate to trust.
    TlsOfOwnServer,
    /// dfsbench's own client speaks RPC over TCP and UDP.
    RdmaOfOwnClient,
    /// dfsbench's own client sends a certificate whenever it has one.
    MtlsOfOwnClient,
    /// Neither ssh nor a tun device carries RDMA.
    RdmaInTunnel,
    /// Only the kernel's server has a listener for RDMA that dfsbench can add.
    RdmaOfServer,
    /// These servers only know AUTH_SYS as dfsbench starts them.
    FlavorOfServer(ServerKind, MountSec),
    /// Trunking needs sessions.
    ///
    /// **Source:** RFC 8881, 2.10.5.
    TrunkingOfVersion(NfsVersion),
    /// Extended attributes are part of v4.2.
    ///
    /// **Source:** RFC 8276.
    XattrsOfVersion(NfsVersion),
    /// Copies, clones and holes are part of v4.2.
    ///
    /// **Source:** RFC 7862.
    DataOpsOfVersion(NfsVersion),
    /// With pNFS a worker has one connection to each server.
    PnfsOfManyConnections,
    /// Only the in-memory server is started with data servers.
    DataServersOfForeignServer,
    /// Each mirror has data servers of its own.
    MoreMirrorsThanDataServers,
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::VersionOverUdp(version) => write!(f, "v{version} runs over TCP only"),
            Self::TlsOverUdp => f.write_str("TLS runs over TCP only"),
            Self::TlsWithV2 => f.write_str("TLS is for v3 and newer"),
            Self::ConnectionsOverUdp => f.write_str("nconnect is for TCP only"),
            Self::AddressesOverUdp => f.write_str("several addresses are for TCP only"),
            Self::FileTooLargeForV2 => f.write_str("file too large for v2"),
            Self::TransferTooLargeForV2 => f.write_str("v2 transfers at most 8 KiB at a time"),
            Self::TransferTooLargeForUdp => f.write_str("transfer too large for a UDP datagram"),
            Self::TransferTooLargeForServer => f.write_str("transfer larger than max_block_size"),
            Self::FewerClientsThanWorkers => f.write_str("fewer clients than workers"),
            Self::MappedDirectly => f.write_str("mapped memory can't bypass the page cache"),
            Self::ZerosVerified => f.write_str("zeros look like unwritten data"),
            Self::ZerosStamped => f.write_str("zeros have no room for a stamp"),
            Self::RepeatsStamped => f.write_str("stamped blocks are all different"),
            Self::ProgramElsewhere => {
                f.write_str("programs need a directory, because they use system calls")
            }
            Self::ProgramOnManyHosts => {
                f.write_str("an external tool runs on one client host only")
            }
            Self::UidsBeyondTheLast => f.write_str("client_uids goes beyond the largest uid"),
            Self::UidsWithoutAuthSys => {
                f.write_str("client_uids has no effect with sec none: no uid is sent")
            }
            Self::DiskByNfs => f.write_str("data_path disk uses system calls, not NFS"),
            Self::DatagramsInTunnel => f.write_str("a tunnel that forwards ports carries TCP only"),
            Self::VersionOfServer(kind, version) => write!(f, "{kind} does not support v{version}"),
            Self::DynamicThreadsOfServer(kind) => {
                write!(f, "{kind} has no dynamic number of threads")
            }
            Self::TlsOfOwnServer => f.write_str("server_kind dfsbench does not support TLS"),
            Self::RdmaOfOwnClient => {
                f.write_str("RDMA is for mounts, not for dfsbench's own client")
            }
            Self::MtlsOfOwnClient => {
                f.write_str("xprtsec mtls is for mounts, not for dfsbench's own client")
            }
            Self::RdmaInTunnel => f.write_str("a tunnel does not carry RDMA"),
            Self::RdmaOfServer => f.write_str("RDMA needs server_kind knfsd or running"),
            Self::FlavorOfServer(kind, sec) => {
                write!(f, "server_kind {kind} does not support sec {sec}")
            }
            Self::TrunkingOfVersion(version) => {
                write!(f, "v{version} has no sessions to connect to several addresses")
            }
            Self::XattrsOfVersion(version) => write!(f, "v{version} has no extended attributes"),
            Self::DataOpsOfVersion(version) => {
                write!(f, "v{version} has no operations on ranges of files, such as COPY")
            }
            Self::PnfsOfManyConnections => {
                f.write_str("pnfs is for one client and one connection per worker")
            }
            Self::DataServersOfForeignServer => f.write_str(
                "data_servers, stripe_unit and mirrors are for the in-memory server only",
            ),
            Self::MoreMirrorsThanDataServers => f.write_str("more mirrors than data servers"),
        }
    }
}

impl RunSpec {
    /// Returns why no trial of this run is possible, or `None` if it can be tried.
    pub fn impossible(&self) -> Option<Impossible> {
        if let Some(why) = of_work(self) {
            return Some(why);
        }
        if let Some(nfs) = self.target.nfs() {
            if self.clients > 0 && self.clients < self.all_workers() {
                return Some(Impossible::FewerClientsThanWorkers);
            }
            if nfs.settings.proto == Proto::Rdma {
                return Some(Impossible::RdmaOfOwnClient);
            }
            if nfs.settings.xprtsec == XprtSec::Mtls {
                return Some(Impossible::MtlsOfOwnClient);
            }
            if has_pnfs_of_many(self, &nfs.settings) {
                return Some(Impossible::PnfsOfManyConnections);
            }
            let of_server = of_users(nfs).or_else(|| of_addresses(nfs));
            if let Some(why) = of_server.or_else(|| of_cluster(nfs)) {
                return Some(why);
            }
        }
        let nfs = self.nfs();
        if let Some(lab) = &self.lab
            && let Some(why) = of_lab(lab, &nfs)
        {
            return Some(why);
        }
        if !self.speaks_nfs() {
            return None;
        }
        let needs_xattrs = self.passes.iter().any(|pass| pass.needs_xattrs());
        if needs_xattrs && nfs.version != NfsVersion::V4_2 {
            return Some(Impossible::XattrsOfVersion(nfs.version));
        }
        // A kernel's client falls back to other calls; ours makes exactly these.
        let needs_data_ops = self.passes().iter().any(|pass| pass.needs_data_ops());
        if needs_data_ops && self.target.nfs().is_some() && nfs.version != NfsVersion::V4_2 {
            return Some(Impossible::DataOpsOfVersion(nfs.version));
        }
        match of_transport(&nfs) {
            Some(why) => Some(why),
            None => of_sizes(self, &nfs),
        }
    }
}

fn of_work(run: &RunSpec) -> Option<Impossible> {
    let zeros = run.data.fill == Fill::Zeros;
    // fio has an engine for io_uring.
    let by_calls = run.backend == BackendKind::Posix
        || (run.backend == BackendKind::Uring && run.workload == Workload::Fio);
    if run.workload.is_external() && !by_calls {
        Some(Impossible::ProgramElsewhere)
    } else if run.workload.is_external() && run.agents() > 1 {
        Some(Impossible::ProgramOnManyHosts)
    } else if run.layout.mmap && run.direct {
        Some(Impossible::MappedDirectly)
    } else if zeros && run.verify {
        Some(Impossible::ZerosVerified)
    } else if zeros && run.data.stamp {
        Some(Impossible::ZerosStamped)
    } else if run.data.dedup_percent > 0 && run.data.stamp {
        Some(Impossible::RepeatsStamped)
    } else {
        None
    }
}

fn has_pnfs_of_many(run: &RunSpec, nfs: &NfsSettings) -> bool {
    let has_layouts = nfs.pnfs != Pnfs::Off && nfs.version >= NfsVersion::V4_1;
    has_layouts && (nfs.nconnect > 1 || run.clients > run.all_workers() || nfs.client_uids > 1)
}

fn of_cluster(nfs: &NfsTarget) -> Option<Impossible> {
    let NfsSettings { data_servers, stripe_unit, mirrors, .. } = nfs.settings;
    let is_set = data_servers.is_some() || stripe_unit.is_some() || mirrors.is_some();
    if is_set && !nfs.embedded {
        Some(Impossible::DataServersOfForeignServer)
    } else if mirrors > Some(1) && data_servers.is_some() && mirrors > data_servers {
        Some(Impossible::MoreMirrorsThanDataServers)
    } else {
        None
    }
}

fn of_users(nfs: &NfsTarget) -> Option<Impossible> {
    let further = nfs.settings.client_uids.saturating_sub(1);
    if further > 0 && nfs.identity.sec == Sec::None {
        return Some(Impossible::UidsWithoutAuthSys);
    }
    match nfs.identity.uid.checked_add(further) {
        Some(_) => None,
        None => Some(Impossible::UidsBeyondTheLast),
    }
}

/// v4.0 has neither sessions nor a way to tell whether two addresses are the same server; in v3,
/// its file handles are compared.
fn of_addresses(nfs: &NfsTarget) -> Option<Impossible> {
    let NfsSettings { version, proto, .. } = nfs.settings;
    if nfs.further_addresses().is_empty() {
        None
    } else if proto == Proto::Udp {
        Some(Impossible::AddressesOverUdp)
    } else if matches!(version, NfsVersion::V2 | NfsVersion::V4_0) {
        Some(Impossible::TrunkingOfVersion(version))
    } else {
        None
    }
}

fn of_lab(lab: &LabSpec, nfs: &NfsSettings) -> Option<Impossible> {
    if !lab.is_served() {
        return if lab.own_client { Some(Impossible::DiskByNfs) } else { None };
    }
    if lab.has_tunnel(TunnelForwards::Ports) && nfs.proto == Proto::Udp {
        return Some(Impossible::DatagramsInTunnel);
    }
    let kind = lab.serving.kind;
    if kind != ServerKind::Knfsd && lab.has_server_kind() && lab.serving.threads.min > 0 {
        return Some(Impossible::DynamicThreadsOfServer(kind));
    }
    if kind == ServerKind::Own && nfs.xprtsec != XprtSec::None {
        return Some(Impossible::TlsOfOwnServer);
    }
    let is_knfsd = lab.mounts_own_export()
        && (lab.is_re_exported() || matches!(kind, ServerKind::Knfsd | ServerKind::Running));
    if nfs.proto == Proto::Rdma && lab.is_mounted() {
        if lab.path == DataPath::Tunnel {
            return Some(Impossible::RdmaInTunnel);
        }
        if !is_knfsd {
            return Some(Impossible::RdmaOfServer);
        }
    }
    let is_trunked = lab.mounts_own_export() && nfs.max_connect.unwrap_or(1) > 1;
    if is_trunked && nfs.version < NfsVersion::V4_1 {
        return Some(Impossible::TrunkingOfVersion(nfs.version));
    }
    if lab.mounts_own_export() && lab.mounting.sec.is_kerberos() && !is_knfsd {
        return Some(Impossible::FlavorOfServer(kind, lab.mounting.sec));
    }
    let has_version = match kind {
        ServerKind::Unfs3 => nfs.version == NfsVersion::V3,
        ServerKind::Ganesha => nfs.version != NfsVersion::V2,
        ServerKind::Knfsd | ServerKind::Running | ServerKind::Own => true,
    };
    if has_version { None } else { Some(Impossible::VersionOfServer(kind, nfs.version)) }
}

fn of_transport(nfs: &NfsSettings) -> Option<Impossible> {
    let udp = nfs.proto == Proto::Udp;
    let tls = nfs.xprtsec != XprtSec::None;
    match nfs.version {
        version if udp && version.major() > 3 => Some(Impossible::VersionOverUdp(version)),
        _ if nfs.proto != Proto::Tcp && tls => Some(Impossible::TlsOverUdp),
        NfsVersion::V2 if tls => Some(Impossible::TlsWithV2),
        _ if udp && nfs.nconnect > 1 => Some(Impossible::ConnectionsOverUdp),
        _ => None,
    }
}

fn of_sizes(run: &RunSpec, nfs: &NfsSettings) -> Option<Impossible> {
    if run.largest_file_bytes() > nfs.version.file_bytes_max() {
        return Some(Impossible::FileTooLargeForV2);
    }
    // A size chosen by the server always fits, since it offers no more than version and transport
    // allow.
    let transfer = run.transfer_size_bytes?;
    if let Some(most) = nfs.version.transfer_bytes_max()
        && transfer > most
    {
        return Some(Impossible::TransferTooLargeForV2);
    }
    let max_block = run.lab.as_deref().and_then(|lab| lab.serving.max_block_bytes);
    if max_block.is_some_and(|max_block| transfer > max_block) {
        return Some(Impossible::TransferTooLargeForServer);
    }
    if nfs.proto == Proto::Udp && transfer > UDP_TRANSFER_BYTES_MAX {
        return Some(Impossible::TransferTooLargeForUdp);
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runs::pass::Pass;
    use crate::runs::spec::tests::run;
    use crate::systems::lab::Host;
    use crate::targets::target::Target;

    fn why(change: impl Fn(&mut RunSpec, &mut NfsSettings)) -> Option<Impossible> {
        let mut spec = run(Workload::Stream, 0);
        spec.backend = BackendKind::Nfs;
        let mut target = NfsTarget::new("h", "/e");
        change(&mut spec, &mut target.settings);
        spec.target = Target::Nfs(target);
        spec.impossible()
    }

    #[test]
    fn describes_each_reason() {
        let reasons = [
            Impossible::VersionOverUdp(NfsVersion::V4_0),
            Impossible::TlsOverUdp,
            Impossible::TlsWithV2,
            Impossible::ConnectionsOverUdp,
            Impossible::AddressesOverUdp,
            Impossible::FileTooLargeForV2,
            Impossible::TransferTooLargeForV2,
            Impossible::TransferTooLargeForUdp,
            Impossible::TransferTooLargeForServer,
            Impossible::FewerClientsThanWorkers,
            Impossible::MappedDirectly,
            Impossible::ZerosVerified,
            Impossible::ZerosStamped,
            Impossible::RepeatsStamped,
            Impossible::ProgramElsewhere,
            Impossible::ProgramOnManyHosts,
            Impossible::UidsBeyondTheLast,
            Impossible::UidsWithoutAuthSys,
            Impossible::DiskByNfs,
            Impossible::DatagramsInTunnel,
            Impossible::VersionOfServer(ServerKind::Unfs3, NfsVersion::V4_0),
            Impossible::DynamicThreadsOfServer(ServerKind::Ganesha),
            Impossible::TlsOfOwnServer,
            Impossible::RdmaOfOwnClient,
            Impossible::MtlsOfOwnClient,
            Impossible::RdmaInTunnel,
            Impossible::RdmaOfServer,
            Impossible::FlavorOfServer(ServerKind::Unfs3, MountSec::Krb5p),
            Impossible::TrunkingOfVersion(NfsVersion::V3),
            Impossible::XattrsOfVersion(NfsVersion::V4_1),
            Impossible::DataOpsOfVersion(NfsVersion::V3),
            Impossible::PnfsOfManyConnections,
        ];
        insta::assert_snapshot!(reasons.map(|reason| reason.to_string()).join("\n"), @"
        v4.0 runs over TCP only
        TLS runs over TCP only
        TLS is for v3 and newer
        nconnect is for TCP only
        several addresses are for TCP only
        file too large for v2
        v2 transfers at most 8 KiB at a time
        transfer too large for a UDP datagram
        transfer larger than max_block_size
        fewer clients than workers
        mapped memory can't bypass the page cache
        zeros look like unwritten data
        zeros have no room for a stamp
        stamped blocks are all different
        programs need a directory, because they use system calls
        an external tool runs on one client host only
        client_uids goes beyond the largest uid
        client_uids has no effect with sec none: no uid is sent
        data_path disk uses system calls, not NFS
        a tunnel that forwards ports carries TCP only
        unfs3 does not support v4.0
        ganesha has no dynamic number of threads
        server_kind dfsbench does not support TLS
        RDMA is for mounts, not for dfsbench's own client
        xprtsec mtls is for mounts, not for dfsbench's own client
        a tunnel does not carry RDMA
        RDMA needs server_kind knfsd or running
        server_kind unfs3 does not support sec krb5p
        v3 has no sessions to connect to several addresses
        v4.1 has no extended attributes
        v3 has no operations on ranges of files, such as COPY
        pnfs is for one client and one connection per worker
        ");
    }

    #[test]
    fn finds_contradictions_of_protocols() {
        assert_eq!(why(|_, _| ()), None);
        let udp = |version| why(move |_, nfs| (nfs.version, nfs.proto) = (version, Proto::Udp));
        assert_eq!((udp(NfsVersion::V2), udp(NfsVersion::V3)), (None, None));
        assert_eq!(udp(NfsVersion::V4_0), Some(Impossible::VersionOverUdp(NfsVersion::V4_0)));
        assert_eq!(udp(NfsVersion::V4_2), Some(Impossible::VersionOverUdp(NfsVersion::V4_2)));
        let tls = |version, proto| {
            why(move |_, nfs| {
                nfs.version = version;
                nfs.proto = proto;
                nfs.xprtsec = XprtSec::Tls;
            })
        };
        assert_eq!(tls(NfsVersion::V3, Proto::Tcp), None);
        assert_eq!(tls(NfsVersion::V3, Proto::Udp), Some(Impossible::TlsOverUdp));
        let rdma = why(|_, nfs| nfs.proto = Proto::Rdma);
        assert_eq!(rdma, Some(Impossible::RdmaOfOwnClient));
        let mtls = why(|_, nfs| nfs.xprtsec = XprtSec::Mtls);
        assert_eq!(mtls, Some(Impossible::MtlsOfOwnClient));
        assert_eq!(tls(NfsVersion::V2, Proto::Tcp), Some(Impossible::TlsWithV2));
        let xattrs = |version| {
            why(move |spec, nfs| (spec.passes, nfs.version) = (vec![Pass::SetXattr], version))
        };
        assert_eq!(xattrs(NfsVersion::V4_2), None);
        assert_eq!(xattrs(NfsVersion::V4_1), Some(Impossible::XattrsOfVersion(NfsVersion::V4_1)));
        let copies = |version| {
            why(move |spec, nfs| (spec.passes, nfs.version) = (vec![Pass::Copy], version))
        };
        assert_eq!(copies(NfsVersion::V4_2), None);
        assert_eq!(copies(NfsVersion::V4_0), Some(Impossible::DataOpsOfVersion(NfsVersion::V4_0)));
        let connections = why(|_, nfs| (nfs.proto, nfs.nconnect) = (Proto::Udp, 2));
        assert_eq!(connections, Some(Impossible::ConnectionsOverUdp));
    }

    #[test]
    fn limits_sizes_to_version_and_transport() {
        let v2 = |file: u64, transfer: u32| {
            why(move |spec, nfs| {
                nfs.version = NfsVersion::V2;
                spec.file_size_bytes = file;
                spec.transfer_size_bytes = Some(transfer);
            })
        };
        assert_eq!(v2((1 << 31) - 1, 8_192), None);
        assert_eq!(v2(1 << 31, 8_192), Some(Impossible::FileTooLargeForV2));
        assert_eq!(v2(1, 8_193), Some(Impossible::TransferTooLargeForV2));
        let udp = |transfer| {
            why(move |spec, nfs| {
                nfs.proto = Proto::Udp;
                spec.transfer_size_bytes = Some(transfer);
            })
        };
        assert_eq!(udp(32 << 10), None);
        assert_eq!(udp(64 << 10), Some(Impossible::TransferTooLargeForUdp));
    }

    #[test]
    fn finds_contradictions_on_every_target() {
        let data = |change: fn(&mut RunSpec)| why(move |spec, _| change(spec));
        assert_eq!(data(|s| s.data.fill = Fill::Zeros), None);
        let zeros = data(|s| (s.data.fill, s.verify) = (Fill::Zeros, true));
        assert_eq!(zeros, Some(Impossible::ZerosVerified));
        let stamped = data(|s| (s.data.fill, s.data.stamp) = (Fill::Zeros, true));
        assert_eq!(stamped, Some(Impossible::ZerosStamped));
        let alike = data(|s| (s.data.dedup_percent, s.data.stamp) = (1, true));
        assert_eq!(alike, Some(Impossible::RepeatsStamped));
        let mapped = data(|s| (s.layout.mmap, s.direct) = (true, true));
        assert_eq!(mapped, Some(Impossible::MappedDirectly));
        let tool = data(|s| s.workload = Workload::Fio);
        assert_eq!(tool, Some(Impossible::ProgramElsewhere));
        let mut local = RunSpec::null(Workload::App);
        local.backend = BackendKind::Posix;
        assert_eq!(local.impossible(), None);
    }

    #[test]
    fn finds_unsupported_host_settings() {
        let lab = |change: fn(&mut LabSpec)| {
            let mut spec = run(Workload::Stream, 0);
            spec.backend = BackendKind::Posix;
            spec.target = Target::Directory { path: "/m".into() };
            let mut lab = LabSpec::new(Host::local("s"), Host::local("c"));
            change(&mut lab);
            spec.lab = Some(Box::new(lab));
            spec.impossible()
        };
        assert_eq!(lab(|_| ()), None);
        let udp = lab(|l| (l.mounting.nfs.proto, l.path) = (Proto::Udp, DataPath::Tunnel));
        assert_eq!(udp, Some(Impossible::DatagramsInTunnel));
        let unfs3 = lab(|l| {
            l.serving.kind = ServerKind::Unfs3;
            l.mounting.nfs.version = NfsVersion::V4_0;
        });
        assert_eq!(unfs3, Some(Impossible::VersionOfServer(ServerKind::Unfs3, NfsVersion::V4_0)));
        let own_tls = |l: &mut LabSpec| {
            l.serving.kind = ServerKind::Own;
            l.mounting.nfs.xprtsec = XprtSec::Tls;
        };
        assert_eq!(lab(own_tls), Some(Impossible::TlsOfOwnServer));
        let kerberos = |kind| {
            let mut spec = LabSpec::new(Host::local("s"), Host::local("c"));
            (spec.serving.kind, spec.mounting.sec) = (kind, MountSec::Krb5);
            of_lab(&spec, &NfsSettings::default())
        };
        assert_eq!(kerberos(ServerKind::Knfsd), None);
        let trunked = |version| {
            let spec = LabSpec::new(Host::local("s"), Host::local("c"));
            let nfs = NfsSettings { version, max_connect: Some(2), ..NfsSettings::default() };
            of_lab(&spec, &nfs)
        };
        let of_v3 = Impossible::TrunkingOfVersion(NfsVersion::V3);
        assert_eq!([NfsVersion::V3, NfsVersion::V4_1].map(trunked), [Some(of_v3), None]);
        let own = |proto, version, max_connect| {
            let mut nfs = NfsTarget::new("a", "/e");
            nfs.more_addresses = vec!["b".to_owned()];
            nfs.settings = NfsSettings { version, proto, max_connect, ..NfsSettings::default() };
            of_addresses(&nfs)
        };
        let (v2, v4_0) = (NfsVersion::V2, NfsVersion::V4_0);
        assert_eq!(own(Proto::Udp, v2, None), Some(Impossible::AddressesOverUdp));
        for version in [v2, v4_0] {
            let why = Some(Impossible::TrunkingOfVersion(version));
            assert_eq!(own(Proto::Tcp, version, None), why);
            assert_eq!(own(Proto::Tcp, version, Some(1)), None);
        }
        assert_eq!([NfsVersion::V3, NfsVersion::V4_1].map(|v| own(Proto::Tcp, v, None)), [None; 2]);
        let rdma = |path, kind| {
            let mut spec = LabSpec::new(Host::local("s"), Host::local("c"));
            (spec.path, spec.serving.kind) = (path, kind);
            of_lab(&spec, &NfsSettings { proto: Proto::Rdma, ..NfsSettings::default() })
        };
        assert_eq!(rdma(DataPath::Network, ServerKind::Knfsd), None);
        let tunnel = rdma(DataPath::Tunnel, ServerKind::Knfsd);
        assert_eq!(tunnel, Some(Impossible::RdmaInTunnel));
        let unfs3 = rdma(DataPath::Network, ServerKind::Unfs3);
        assert_eq!(unfs3, Some(Impossible::RdmaOfServer));
        let unfs3 = Impossible::FlavorOfServer(ServerKind::Unfs3, MountSec::Krb5);
        assert_eq!(kerberos(ServerKind::Unfs3), Some(unfs3));
        let mounted = lab(|l| (l.mounting.nfs.proto, l.mounting.nfs.nconnect) = (Proto::Udp, 2));
        assert_eq!(mounted, Some(Impossible::ConnectionsOverUdp));
        // Mount settings don't matter if nothing is mounted.
        assert_eq!(lab(|l| (l.path, l.mounting.nfs.nconnect) = (DataPath::Disk, 2)), None);
        let own = lab(|l| (l.path, l.own_client) = (DataPath::Disk, true));
        assert_eq!(own, Some(Impossible::DiskByNfs));
    }

    #[test]
    fn each_worker_needs_a_client() {
        let clients = |n| why(move |spec, _| (spec.workers, spec.clients) = (4, n));
        assert_eq!(clients(3), Some(Impossible::FewerClientsThanWorkers));
        assert_eq!((clients(4), clients(0)), (None, None));
    }

    #[test]
    fn rotates_through_range_of_uids() {
        let of = |uid, sec, client_uids| {
            let mut target = NfsTarget::new("h", "/e");
            target.identity.uid = uid;
            target.identity.sec = sec;
            target.settings.client_uids = client_uids;
            of_users(&target)
        };
        assert_eq!(of(u32::MAX, Sec::Sys, 1), None);
        assert_eq!(of(u32::MAX - 9, Sec::Sys, 10), None);
        assert_eq!(of(u32::MAX - 9, Sec::Sys, 11), Some(Impossible::UidsBeyondTheLast));
        assert_eq!(of(0, Sec::None, 1), None);
        assert_eq!(of(0, Sec::None, 2), Some(Impossible::UidsWithoutAuthSys));
    }
}

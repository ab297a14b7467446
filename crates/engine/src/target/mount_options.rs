//! Mount options of our own client for a plan's target.

use std::time::Duration;

use model::{NfsSettings, NfsTarget, NfsVersion, Pnfs, XprtSec};
use nfs_client::proto::client::{ProtocolVersion, UdpWindow};
use nfs_client::{Family, Identity, MountOptions, PnfsRole, Proto, Sec, Tls, TlsOptions};

/// Returns the options that mount a target as specified by its plan.
pub fn mount_options(target: &NfsTarget) -> MountOptions {
    let NfsSettings { version, proto, xprtsec, nconnect, timeo_ms, retrans, .. } = target.settings;
    let who = &target.identity;
    let groups = who.groups.clone();
    MountOptions {
        port: target.port,
        more_addresses: target.further_addresses().to_vec(),
        family: target.family.map(family),
        mount_port: target.mount_port,
        version: protocol_version(version),
        proto: match proto {
            // RDMA is refused before any run (`Impossible`).
            model::Proto::Tcp | model::Proto::Rdma => Proto::Tcp,
            model::Proto::Udp => Proto::Udp,
        },
        sec: match who.sec {
            model::Sec::Sys => Sec::Sys,
            model::Sec::None => Sec::None,
        },
        identity: Identity { uid: who.uid, gid: who.gid, groups, ..Identity::default() },
        nconnect,
        timeo: Duration::from_millis(timeo_ms),
        retrans,
        udp_window: match target.settings.udp_window {
            model::UdpWindow::Adaptive => UdpWindow::Adaptive,
            model::UdpWindow::Off => UdpWindow::Off,
        },
        delegations: target.settings.delegations,
        async_copies: target.settings.async_copy,
        pnfs: match target.settings.pnfs {
            Pnfs::On | Pnfs::Files | Pnfs::FlexFiles if version >= NfsVersion::V4_1 => {
                PnfsRole::MetadataClient
            }
            _ => PnfsRole::None,
        },
        resvport: who.resvport,
        tls: match xprtsec {
            // `Impossible` refuses mtls.
            XprtSec::Tls | XprtSec::Mtls => Some(tls(&target.tls)),
            XprtSec::None => None,
        },
        ..MountOptions::new(&target.host, &target.path)
    }
}

fn family(family: model::Family) -> Family {
    match family {
        model::Family::Ipv4 => Family::V4,
        model::Family::Ipv6 => Family::V6,
    }
}

fn protocol_version(version: NfsVersion) -> ProtocolVersion {
    match version {
        NfsVersion::V2 => ProtocolVersion::V2,
        NfsVersion::V3 => ProtocolVersion::V3,
        NfsVersion::V4_0 => ProtocolVersion::V4_0,
        NfsVersion::V4_1 => ProtocolVersion::V4_1,
        NfsVersion::V4_2 => ProtocolVersion::V4_2,
    }
}

fn tls(options: &model::TlsOptions) -> Tls {
    let model::TlsOptions { ca, cert, key, server_name } = options.clone();
    Tls::new(TlsOptions { ca, cert, key, server_name })
}

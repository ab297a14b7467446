//! Converts a plan's settings for the in-memory server to the server's configuration.
//!
//! [`config`] is used by `dfsbench run` (the embedded server) and `dfsbench serve`, so that a fault
//! means the same in both. The names in planned faults are converted to numbers only here.

use std::net::ToSocketAddrs as _;

use model::NfsVersion;
use nfs_server::proto::mount3::MountStatus;
use nfs_server::proto::nfs3::StableHow;
use nfs_server::proto::nfs4::OpCode;
use nfs_server::proto::{ProtocolVersion, Status, nfs2, nfs3};
use nfs_server::{
    BandwidthCap, CallServiceTime, DataServerAddress, DataServerEvent, DataServerFault,
    DataServers, DelayFault, Delegations, ErrorFault, FaultPlan, FaultedCalls, LayoutEvent,
    LayoutKind, Permissions, PnfsConfig, ScheduledEvent, ServerConfig, ServerEvent, SlowFile,
    StoreMode, Versions,
};
use plan::fault::{Calls, ClaimedStability, DataServerFate, LayoutFate, PlannedFault};
use plan::{ClusterPlan, DataServerPlan, DataServersPlan, LayoutsPlan, ServerPlan};

use crate::exit::Failure;

/// Builds the configuration of a server, which listens on the default address: loopback.
///
/// # Errors
/// If a fault names a call that no version has, or an unknown error; if a data server has no
/// address.
pub(crate) fn config(server: &ServerPlan) -> Result<ServerConfig, Failure> {
    Ok(ServerConfig {
        memory_limit_bytes: server.memory_bytes,
        threads: server.threads as usize,
        store: if server.discard { StoreMode::Discard } else { StoreMode::Keep },
        permissions: if server.permissions { Permissions::Enforced } else { Permissions::Off },
        delegations: if server.delegations { Delegations::Read } else { Delegations::Off },
        versions: server_versions(&server.versions),
        // Some hosts default to bbr, which paces a loopback stream to a third of its speed.
        congestion_control: Some("cubic".to_owned()),
        pnfs: server.cluster.as_ref().map(pnfs_config).transpose()?,
        faults: fault_plan(server)?,
        ..ServerConfig::default()
    })
}

fn pnfs_config(cluster: &ClusterPlan) -> Result<PnfsConfig, Failure> {
    let servers = match &cluster.data_servers {
        DataServersPlan::Own(count) => DataServers::Own(*count as usize),
        DataServersPlan::At(servers) => {
            DataServers::At(servers.iter().map(find_data_server).collect::<Result<_, _>>()?)
        }
    };
    Ok(PnfsConfig {
        servers,
        layout: match cluster.layouts {
            LayoutsPlan::FlexFiles => LayoutKind::FlexFiles,
            LayoutsPlan::FlexFilesV4 => LayoutKind::FlexFilesV4,
            LayoutsPlan::FlexFilesTight => LayoutKind::FlexFilesTight,
            LayoutsPlan::Files => LayoutKind::Files,
        },
        stripe_unit: cluster.stripe_unit_bytes,
        mirrors: cluster.mirrors as usize,
    })
}

/// Looks up the address of a data server, which clients get, too.
fn find_data_server(server: &DataServerPlan) -> Result<DataServerAddress, Failure> {
    let DataServerPlan { host, port, export } = server;
    let found = (host.as_str(), *port).to_socket_addrs();
    let reason = match found.map(|mut addresses| addresses.next()) {
        Ok(Some(address)) => return Ok(DataServerAddress { address, export: export.clone() }),
        Ok(None) => "it has no address".to_owned(),
        Err(error) => error.to_string(),
    };
    let hint = "write a number, or HOST:PORT/EXPORT, such as 10.0.0.1:2049/export";
    Err(Failure::Lab(format!("data server `{host}`: {reason} (hint: {hint})")))
}

fn server_versions(offered: &[NfsVersion]) -> Versions {
    let has = |version| offered.contains(&version);
    Versions {
        v2: has(NfsVersion::V2),
        v3: has(NfsVersion::V3),
        v4_0: has(NfsVersion::V4_0),
        v4_1: has(NfsVersion::V4_1),
        v4_2: has(NfsVersion::V4_2),
    }
}

fn fault_plan(server: &ServerPlan) -> Result<FaultPlan, Failure> {
    check_cluster_faults(server)?;
    // Faults have a separate seed, so that they don't depend on the clients' work.
    let mut plan = FaultPlan { seed: server.fault_seed, ..FaultPlan::default() };
    for fault in &server.faults {
        if add_fault(&mut plan, *fault).is_none() {
            let text = fault.text();
            return Err(Failure::Usage(format!(
                "fault `{text}`: no version of NFS has such a call or error"
            )));
        }
    }
    Ok(plan)
}

/// Adds a fault to a plan; `None` if a name has no number.
fn add_fault(plan: &mut FaultPlan, fault: PlannedFault) -> Option<()> {
    match fault {
        PlannedFault::ServiceTime { time, calls: Calls::All } => plan.service_time = Some(time),
        PlannedFault::ServiceTime { time, calls } => {
            for calls in faulted_calls(calls)? {
                plan.service_times.push(CallServiceTime { calls, time });
            }
        }
        PlannedFault::Bandwidth { bytes_per_s, counts, burst_bytes } => {
            plan.bandwidth = Some(BandwidthCap { bytes_per_s, counts, burst_bytes });
        }
        PlannedFault::Drop(share) => plan.drop_reply = share,
        PlannedFault::Delay { share, time_ns } => {
            plan.delay_reply = DelayFault { share, delay_ns: time_ns };
        }
        PlannedFault::Duplicate(share) => plan.duplicate_reply = share,
        PlannedFault::ShortReads(share) => plan.short_read = share,
        PlannedFault::ShortWrites(share) => plan.short_write = share,
        PlannedFault::LoseWrites(share) => plan.lose_write = share,
        PlannedFault::WriteStability(ClaimedStability::Unstable) => {
            plan.write_stability = Some(StableHow::Unstable);
        }
        PlannedFault::WriteStability(ClaimedStability::FileSync) => {
            plan.write_stability = Some(StableHow::FileSync);
        }
        PlannedFault::Error { calls, error, share } => {
            let status = parse_status(error)?;
            for calls in faulted_calls(calls)? {
                plan.errors.push(ErrorFault { calls, status, share });
            }
        }
        PlannedFault::Stall { lasts_ns, at_ns } => {
            let event = ServerEvent::Stall { duration_ns: lasts_ns };
            plan.schedule.push(ScheduledEvent { after_ns: at_ns, event });
        }
        PlannedFault::Restart { at_ns } => {
            plan.schedule.push(ScheduledEvent { after_ns: at_ns, event: ServerEvent::Restart });
        }
        PlannedFault::DataServer { number, fate } => {
            plan.data_servers.push(data_server_fault(number, fate));
        }
        PlannedFault::Layouts { fate, at_ns } => {
            let event = ServerEvent::Layouts(match fate {
                LayoutFate::Recall => LayoutEvent::Recall,
                LayoutFate::Revoke => LayoutEvent::Revoke,
                LayoutFate::Fence => LayoutEvent::Fence,
            });
            plan.schedule.push(ScheduledEvent { after_ns: at_ns, event });
        }
        PlannedFault::LoseUnstable => plan.lose_unstable = true,
        PlannedFault::LoseCommitted => plan.lose_committed = true,
        PlannedFault::LoseLast(writes) => plan.lose_last_writes = writes,
        PlannedFault::Grace(lasts_ns) => plan.grace_ns = Some(lasts_ns),
        PlannedFault::HangFromClients(clients) => plan.hang_from_clients = Some(clients as usize),
        PlannedFault::HangAfter(calls) => plan.hang_after_calls = Some(calls),
        PlannedFault::CloseAfter(calls) => plan.close_after_calls = Some(calls),
        PlannedFault::IdleClose(after_ns) => plan.close_idle_after_ns = Some(after_ns),
        PlannedFault::RefuseMount => plan.refuse_mount = Some(MountStatus::Access),
        PlannedFault::ReservedPorts => plan.reserved_ports_only = true,
        PlannedFault::MinorIds => plan.minor_ids = true,
        PlannedFault::ReadSize(bytes) => plan.read_bytes_max = Some(bytes),
        PlannedFault::WriteSize(bytes) => plan.write_bytes_max = Some(bytes),
        PlannedFault::SlowFile { number, time_ns } => {
            plan.quirks.slow_file = Some(SlowFile { number, time_ns });
        }
        PlannedFault::EndlessReaddir(listing) => plan.quirks.endless_listing = Some(listing),
        PlannedFault::Trickle(bytes_per_s) => plan.trickle_bytes_per_s = Some(bytes_per_s),
        PlannedFault::ChangingVerifier(calls) => plan.changing_verifier = Some(calls),
        PlannedFault::Copies(fault) => plan.copies = Some(fault),
        PlannedFault::SessionSlots(slots) => plan.session_slots_max = Some(slots),
        PlannedFault::WrongXid(share) => plan.damage.wrong_xid = share,
        PlannedFault::CutReplies { share, close } => {
            plan.damage.cut = share;
            plan.damage.cut_closes = close;
        }
        PlannedFault::OversizedRecords(share) => plan.damage.oversized = share,
        PlannedFault::DirectoryLoops => plan.quirks.directory_loops = true,
        PlannedFault::SymlinkLoops => plan.quirks.symlink_loops = true,
        PlannedFault::ChangingHandles(calls) => plan.quirks.handle_calls = Some(calls),
    }
    Some(())
}

/// Converts a fault of a data server, which has a number from 1 on.
fn data_server_fault(number: u32, fate: DataServerFate) -> DataServerFault {
    let at = |after_ns, event| DataServerEvent::Scheduled(ScheduledEvent { after_ns, event });
    let event = match fate {
        DataServerFate::Slow { time_ns } => DataServerEvent::Slow { time_ns },
        DataServerFate::Hang { lasts_ns, at_ns } => {
            at(at_ns, ServerEvent::Stall { duration_ns: lasts_ns.unwrap_or(u64::MAX) })
        }
        DataServerFate::Die { at_ns } => at(at_ns, ServerEvent::Die),
    };
    DataServerFault { server: number as usize - 1, event }
}

/// Refuses faults of data servers and layouts that don't exist.
fn check_cluster_faults(server: &ServerPlan) -> Result<(), Failure> {
    let own = match &server.cluster {
        Some(ClusterPlan { data_servers: DataServersPlan::Own(count), .. }) => *count,
        _ => 0,
    };
    for fault in &server.faults {
        let problem = match fault {
            PlannedFault::DataServer { number, .. } if *number > own => {
                format!("there is no data server {number} in this process")
            }
            PlannedFault::Layouts { .. } if server.cluster.is_none() => {
                "there are no layouts without data servers".to_owned()
            }
            _ => continue,
        };
        let text = fault.text();
        return Err(Failure::Usage(format!(
            "fault `{text}`: {problem} (hint: set the number of data servers)"
        )));
    }
    Ok(())
}

/// Returns the numbers of a call in the requested versions; `None` if none has it.
fn faulted_calls(calls: Calls) -> Option<Vec<FaultedCalls>> {
    let Calls::Named { version, name } = calls else { return Some(vec![FaultedCalls::All]) };
    let mut found = Vec::new();
    // In v2 and v3 the number of a procedure is its index in the list; v4 has explicit numbers.
    if matches!(version, None | Some(2)) {
        found.extend(
            std::iter::zip(0.., &nfs2::Procedure::ALL)
                .filter(|(_, call)| call.name() == name)
                .map(|(number, _)| FaultedCalls::V2(number)),
        );
    }
    if matches!(version, None | Some(3)) {
        found.extend(
            std::iter::zip(0.., &nfs3::Procedure::ALL)
                .filter(|(_, call)| call.name() == name)
                .map(|(number, _)| FaultedCalls::V3(number)),
        );
    }
    if matches!(version, None | Some(4)) {
        for call in OpCode::ALL {
            if call.name() == name {
                found.push(FaultedCalls::V4(call.number()));
            }
        }
    }
    if found.is_empty() { None } else { Some(found) }
}

/// Parses the name of a status without its prefix, trying v3 before v4.
fn parse_status(error: &str) -> Option<Status> {
    for (version, prefix) in
        [(ProtocolVersion::V3, "NFS3ERR_"), (ProtocolVersion::V4_2, "NFS4ERR_")]
    {
        for status in Status::ALL {
            if status.name_in(version).strip_prefix(prefix) == Some(error) {
                return Some(*status);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use plan::fault::{CALLS, ERRORS, PartsPerMillion, ServiceTime, parse_fault};

    #[test]
    fn maps_every_fault_word() {
        for name in CALLS {
            assert!(faulted_calls(Calls::Named { version: None, name }).is_some(), "{name}");
        }
        for error in ERRORS {
            assert!(parse_status(error).is_some_and(|status| status != Status::Ok), "{error}");
        }
        assert_eq!(parse_status("DELAY"), parse_status("JUKEBOX"));
        assert_eq!(parse_status("ACCES").map(Status::number), Some(13));
        let read = |version| faulted_calls(Calls::Named { version, name: "READ" }).unwrap();
        assert_eq!(read(Some(2)), [FaultedCalls::V2(6)]);
        assert_eq!(read(None), [FaultedCalls::V2(6), FaultedCalls::V3(6), FaultedCalls::V4(25)]);
        assert_eq!(faulted_calls(Calls::Named { version: Some(2), name: "OPEN" }), None);
    }

    #[test]
    fn faults_arrive_as_they_were_meant() {
        let texts = [
            "service-time 1ms",
            "service-time exponential 2ms on v3.WRITE",
            "drop 0.1%",
            "error v4.OPEN GRACE 50%",
            "stall 5s at 10s",
            "restart at 2s",
            "hang-from-clients 40",
        ];
        let server = ServerPlan {
            memory_bytes: 1,
            threads: 1,
            discard: true,
            permissions: false,
            delegations: false,
            versions: vec![NfsVersion::V3, NfsVersion::V4_1],
            cluster: None,
            faults: texts.map(|text| parse_fault(text).unwrap()).to_vec(),
            fault_seed: 9,
        };
        let config = config(&server).unwrap();
        assert_eq!(config.store, StoreMode::Discard);
        assert_eq!(config.permissions, Permissions::Off);
        assert_eq!(config.delegations, Delegations::Off);
        assert_eq!(config.versions, Versions { v3: true, v4_1: true, ..Versions::NONE });
        let faults = config.faults;
        assert_eq!(faults.seed, 9);
        assert_eq!(faults.service_time, Some(ServiceTime::Fixed { time_ns: 1_000_000 }));
        let time = ServiceTime::Exponential { mean_ns: 2_000_000 };
        let calls = FaultedCalls::V3(7);
        assert_eq!(faults.service_times, [CallServiceTime { calls, time }]);
        assert_eq!(faults.drop_reply, PartsPerMillion(1_000));
        assert_eq!(faults.errors[0].calls, FaultedCalls::V4(18));
        assert_eq!(faults.errors[0].status, Status::Grace);
        assert_eq!(
            faults.schedule,
            [
                ScheduledEvent {
                    after_ns: 10_000_000_000,
                    event: ServerEvent::Stall { duration_ns: 5_000_000_000 }
                },
                ScheduledEvent { after_ns: 2_000_000_000, event: ServerEvent::Restart },
            ]
        );
        assert_eq!(faults.hang_from_clients, Some(40));
    }
}

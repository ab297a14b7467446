//! pNFS: gets the layouts of a pass's files, connects to their data servers, and reports their use.
//!
//! The data servers of a target are shared by its workers and passes; each worker has connections
//! of its own to those that its files use, opened before the measurement. A pass without layouts
//! runs through the metadata server, and says so.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::units::Size;
use model::{Caveat, CaveatCode, Evidence, Fact, OpKind, Opens, Pass, Pnfs as Layouts, RunSpec};
use nfs_client::pnfs::{DataServers, FileLayout, LayoutChoice};
use nfs_client::proto::client::File;
use nfs_client::proto::nfs4::LayoutIoMode;
use nfs_client::{Connection, ConnectionOptions, Mount, MountOptions, PnfsRole};

use super::super::{TargetConfig, TargetError, check_stop};
use super::layout_shape::LayoutShapes;
use super::mount_error;
use crate::backend::nfs::{DataUse, PnfsParts, PnfsTally, RecallBoard};

/// Kinds of op that the backend for pNFS executes.
const KINDS: &[OpKind] = &[
    OpKind::Read,
    OpKind::Write,
    OpKind::GetChars,
    OpKind::PutChars,
    OpKind::Update,
    OpKind::LogAppend,
    OpKind::Sync,
];

/// A data server is slow if its mean response time is this many times that of the fastest.
const SLOW_TIMES: f64 = 3.0;
/// Minimum number of calls for a mean response time.
const SLOW_CALLS_MIN: u64 = 100;

/// The pNFS state of a target.
#[derive(Debug, Default)]
pub(super) struct PnfsAccess {
    servers: Mutex<DataServers>,
    board: Arc<RecallBoard>,
    tally: Arc<PnfsTally>,
    /// Why a file of this pass has no layout.
    missing: Mutex<Option<String>>,
    /// The shapes of the layouts of this pass.
    shapes: Mutex<LayoutShapes>,
}

/// The layouts of a worker's files, and the connections that they need.
pub(super) struct WorkerLayouts {
    /// For each file its layout, which refers to the connections.
    layouts: Vec<Option<FileLayout>>,
    /// Connections to data servers, with the largest READ and WRITE of each.
    data: Vec<(Connection, u32, u32)>,
    /// Set if the layouts are not as the run requests.
    pub(super) caveat: Option<Caveat>,
}

/// Returns true if a mount's client requests layouts.
pub(super) fn wants_layouts(options: &MountOptions) -> bool {
    options.pnfs == PnfsRole::MetadataClient
}

/// Returns true if data of the pass could go to data servers.
pub(super) fn moves_data(pass: Pass) -> bool {
    pass.kinds().iter().any(|kind| kind.moves_data())
}

impl WorkerLayouts {
    /// Reserves room in every call for a copied payload of `bytes` bytes.
    pub(super) fn reserve_copies(&mut self, bytes: u32) {
        self.data.iter_mut().for_each(|(connection, ..)| connection.reserve_copies(bytes));
    }
}

impl PnfsAccess {
    fn lock(&self) -> MutexGuard<'_, DataServers> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gets the layouts of a worker's open files, and opens its connections to their data servers;
    /// or returns why there are none.
    pub(super) fn open(
        &self,
        mount: &mut Mount,
        files: &[File],
        (spec, pass): (&RunSpec, Pass),
        options: &ConnectionOptions,
        config: &TargetConfig,
        shown: &str,
    ) -> Result<Result<WorkerLayouts, String>, TargetError> {
        if !pass.kinds().iter().all(|kind| KINDS.contains(kind)) || pass.opens() == Opens::Nothing {
            let why = "the ops of this pass find files by name, or are none of READ and WRITE";
            return Ok(Err(why.to_owned()));
        }
        let iomode = if pass.writes() { LayoutIoMode::ReadWrite } else { LayoutIoMode::Read };
        let choice = match spec.nfs().pnfs {
            Layouts::Files => LayoutChoice::Files,
            Layouts::FlexFiles => LayoutChoice::FlexFiles,
            Layouts::On | Layouts::Off => LayoutChoice::Any,
        };
        let mut servers = self.lock();
        let mut layouts = Vec::with_capacity(files.len());
        let mut first_reason = None;
        for file in files {
            check_stop(config)?;
            match mount.get_layout(*file, iomode, choice, &mut servers) {
                Ok(layout) => layouts.push(Some(layout)),
                Err(why) => {
                    let is_for_all = why.is_for_all();
                    first_reason.get_or_insert_with(|| why.to_string());
                    layouts.push(None);
                    // Each attempt may take as long as a timeout.
                    if is_for_all {
                        break;
                    }
                }
            }
        }
        layouts.resize(files.len(), None);
        if let Some(reason) = first_reason {
            if layouts.iter().all(Option::is_none) {
                return Ok(Err(reason));
            }
            *self.missing.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
        }
        let mut shapes = LayoutShapes::default();
        shapes.add(layouts.iter().flatten());
        self.shapes.lock().unwrap_or_else(PoisonError::into_inner).add(layouts.iter().flatten());
        let caveat = shapes.check(&spec.nfs());
        let data = connect_to_used(&servers, &mut layouts, options, shown)?;
        Ok(Ok(WorkerLayouts { layouts, data, caveat }))
    }

    /// Returns what the backend needs.
    pub(super) fn parts(&self, metadata: Connection, found: WorkerLayouts) -> PnfsParts {
        let WorkerLayouts { layouts, data, .. } = found;
        let board = Arc::clone(&self.board);
        PnfsParts { metadata, data, layouts, board, tally: Arc::clone(&self.tally) }
    }

    /// Reports the use of each data server in a pass.
    pub(super) fn end_pass(&self, pass: Pass) -> Vec<Fact> {
        let shapes = self.shapes.lock().map(|mut shapes| std::mem::take(&mut *shapes));
        let (data, metadata) = self.tally.take();
        let all: u64 = data.iter().map(|(_, used)| used.bytes()).sum();
        if data.is_empty() {
            return Vec::new();
        }
        let fact = |name: &str, value| {
            Fact::new("target", format!("{pass}: {name}"), value, "counted by the client")
        };
        let mut facts = vec![fact("data servers", describe_servers(&data, all))];
        let shapes = shapes.ok().and_then(|shapes| shapes.describe());
        facts.extend(shapes.map(|shown| fact("layouts", shown)));
        let through = metadata.bytes();
        let share = percent(all, all + through);
        facts.push(fact("bytes past the metadata server", format!("{share} %, {}", Size(all))));
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner).take();
        facts.extend(missing.map(|why| fact("files without layout", why)));
        let slow = describe_slow(&data);
        if !slow.is_empty() {
            facts.push(fact("slow data servers", slow));
        }
        facts
    }

    /// Ends the clients at all data servers.
    pub(super) fn leave(&self) {
        self.lock().leave();
    }
}

/// Opens a connection to each data server that the layouts use, and makes them refer to these.
fn connect_to_used(
    servers: &DataServers,
    layouts: &mut [Option<FileLayout>],
    options: &ConnectionOptions,
    shown: &str,
) -> Result<Vec<(Connection, u32, u32)>, TargetError> {
    let all = servers.servers();
    // The metadata server has number 0.
    let mut numbers = vec![0_u32; all.len()];
    let mut connections = Vec::new();
    for layout in layouts.iter_mut().flatten() {
        for stripe in layout.mirrors.iter_mut().flat_map(|mirror| &mut mirror.stripes) {
            let number = &mut numbers[stripe.server as usize];
            if *number == 0 {
                let server = &all[stripe.server as usize];
                let connection = Connection::open_data(server, options)
                    .map_err(|error| mount_error(shown, &error))?;
                connections.push((connection, server.rsize(), server.wsize()));
                *number = connections.len() as u32;
            }
            stripe.server = *number;
        }
    }
    Ok(connections)
}

/// Returns a caveat about a pass without layouts.
pub(super) fn no_layouts(why: &str) -> Caveat {
    let evidence = format!("all data went through the metadata server: {why}");
    let data = Evidence::shares(1.0, 0.0, "counted by the client");
    CaveatCode::PnfsFallback.because(evidence).with_data(data)
}

/// Lists the data servers with their shares, the largest first, and their balance.
fn describe_servers(data: &[(SocketAddr, DataUse)], all: u64) -> String {
    let mut sorted: Vec<_> = data.iter().collect();
    sorted.sort_by_key(|(address, used)| (std::cmp::Reverse(used.bytes()), *address));
    let one = |(address, used): &&(SocketAddr, DataUse)| {
        let lost = if used.is_lost { ", lost" } else { "" };
        format!("{address} {} ({} %{lost})", Size(used.bytes()), percent(used.bytes(), all))
    };
    sorted.iter().map(one).collect::<Vec<_>>().join("; ")
}

/// Lists data servers whose mean response time is much longer than that of the fastest.
fn describe_slow(data: &[(SocketAddr, DataUse)]) -> String {
    let mean = |used: &DataUse| {
        (used.calls >= SLOW_CALLS_MIN).then(|| used.response_ns as f64 / used.calls as f64 / 1e6)
    };
    let Some(fastest) = data.iter().filter_map(|(_, used)| mean(used)).reduce(f64::min) else {
        return String::new();
    };
    let slow = data.iter().filter_map(|(address, used)| {
        let own = mean(used).filter(|own| *own > SLOW_TIMES * fastest)?;
        let times = own / fastest;
        Some(format!("{address} {own:.3} ms per call, {times:.1} times the fastest"))
    });
    slow.collect::<Vec<_>>().join("; ")
}

/// Returns a share in percent, with one decimal.
fn percent(part: u64, all: u64) -> String {
    format!("{:.1}", 100.0 * part as f64 / all.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(mib: u64, calls: u64, ms: u64) -> DataUse {
        let response_ns = calls * ms * 1_000_000;
        DataUse { read_bytes: mib << 20, calls, response_ns, ..DataUse::default() }
    }

    fn servers<const N: usize>(used: [DataUse; N]) -> Vec<(SocketAddr, DataUse)> {
        let address = |number: usize| SocketAddr::from(([10, 0, 0, number as u8], 2049));
        used.into_iter().enumerate().map(|(number, used)| (address(number), used)).collect()
    }

    #[test]
    fn lists_largest_share_first() {
        let lost = DataUse { is_lost: true, ..used(2, 9, 1) };
        let shown = describe_servers(&servers([lost, used(6, 9, 1)]), 8 << 20);
        assert_eq!(shown, "10.0.0.1:2049 6 MiB (75.0 %); 10.0.0.0:2049 2 MiB (25.0 %, lost)");
    }

    #[test]
    fn names_much_slower_servers() {
        let shown = describe_slow(&servers([used(1, 200, 2), used(1, 200, 7), used(1, 200, 5)]));
        assert_eq!(shown, "10.0.0.1:2049 7.000 ms per call, 3.5 times the fastest");
        let few = describe_slow(&servers([used(1, 200, 2), used(1, 99, 70)]));
        assert_eq!((few.as_str(), describe_slow(&[]).as_str()), ("", ""));
    }
}

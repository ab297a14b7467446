//! pNFS: gets the layouts of a pass's files, and connects to their data servers.
//!
//! The data servers of a target are shared by its workers and passes; each worker has connections
//! of its own to those that its files use, opened before the measurement. A pass without layouts
//! runs through the metadata server, and says so.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::{Caveat, CaveatCode, Evidence, Fact, OpKind, Opens, Pass, Pnfs as Layouts, RunSpec};
use nfs_client::pnfs::{DataServers, FileLayout, KnownDevices, LayoutChoice};
use nfs_client::proto::client::File;
use nfs_client::proto::nfs4::LayoutIoMode;
use nfs_client::{Connection, ConnectionOptions, Mount, MountOptions, PnfsRole};

use super::super::{TargetConfig, TargetError, check_stop};
use super::layout_shape::LayoutShapes;
use super::mount_error;
use crate::backend::nfs::{LayoutReports, PnfsParts, PnfsTally, RecallBoard};

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
    /// See [`PnfsParts::devices`].
    devices: (KnownDevices, Vec<u32>),
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
        let found = connect_to_used(&servers, layouts, options, shown)?;
        Ok(Ok(WorkerLayouts { caveat, ..found }))
    }

    /// Returns what the backend needs.
    pub(super) fn parts(&self, metadata: Connection, found: WorkerLayouts) -> PnfsParts {
        let WorkerLayouts { layouts, data, devices, .. } = found;
        let board = Arc::clone(&self.board);
        PnfsParts { metadata, data, layouts, devices, board, tally: Arc::clone(&self.tally) }
    }

    /// Returns facts about a pass: why files had no layout, and what was reported to the metadata
    /// server.
    pub(super) fn end_pass(&self, pass: Pass) -> Vec<Fact> {
        self.board.clear_layouts();
        let shapes = self.shapes.lock().map(|mut shapes| std::mem::take(&mut *shapes));
        let shapes = shapes.ok().and_then(|shapes| shapes.describe());
        let missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner).take();
        let reports = self.tally.take();
        let LayoutReports { recalled, regained, .. } = reports;
        let layouts = format!("{recalled} recalled, {regained} got again");
        let reports = describe_reports(&reports);
        let facts = [
            ("files without layout", missing),
            ("layouts", shapes),
            ("recalled layouts", (recalled + regained > 0).then_some(layouts)),
            ("reports to the metadata server", (!reports.is_empty()).then_some(reports)),
        ];
        let fact = |(name, value): (&str, Option<String>)| {
            Some(Fact::new("target", format!("{pass}: {name}"), value?, "counted by the client"))
        };
        facts.into_iter().filter_map(fact).collect()
    }

    /// Ends the clients at all data servers.
    pub(super) fn leave(&self) {
        self.lock().leave();
    }
}

/// Opens a connection to each data server that the layouts use, and makes them refer to these.
fn connect_to_used(
    servers: &DataServers,
    mut layouts: Vec<Option<FileLayout>>,
    options: &ConnectionOptions,
    shown: &str,
) -> Result<WorkerLayouts, TargetError> {
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
    let devices = (servers.devices().clone(), numbers);
    Ok(WorkerLayouts { layouts, data: connections, devices, caveat: None })
}

/// Returns a caveat about a pass without layouts.
pub(super) fn no_layouts(why: &str) -> Caveat {
    let evidence = format!("all data went through the metadata server: {why}");
    let data = Evidence::shares(1.0, 0.0, "counted by the client");
    CaveatCode::PnfsFallback.because(evidence).with_data(data)
}

fn describe_reports(reports: &LayoutReports) -> String {
    let LayoutReports { errors, returned_errors, stats, returned_stats, .. } = *reports;
    let counts = [
        (errors, "errors", "LAYOUTERROR"),
        (returned_errors, "errors", "LAYOUTRETURN"),
        (stats, "use", "LAYOUTSTATS"),
        (returned_stats, "use", "LAYOUTRETURN"),
    ];
    let shown = counts.iter().filter(|(count, ..)| *count > 0);
    shown
        .map(|(count, what, op)| format!("{what} with {op}: {count}"))
        .collect::<Vec<_>>()
        .join("; ")
}

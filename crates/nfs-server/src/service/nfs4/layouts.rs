//! pNFS on the wire: layouts, devices, and what clients report about them.
//!
//! A layout is of a whole file, and valid until the last CLOSE. Data files are addressed with the
//! offsets of their file (sparse striping), in both types of layouts.
//!
//! **Source:** RFC 8881 sections 12, 13, 18.40 and 18.42 to 18.44; RFC 8435; RFC 7862 sections 15.6
//! and 15.7.

use std::net::SocketAddr;
use std::sync::Arc;

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Bitmap, DeviceError, DeviceId, FilesDevice, FilesLayout, FlexDataServer, FlexDevice,
    FlexDeviceVersion, FlexLayoutReturn, FlexLayoutUpdate, Layout, LayoutIoMode, LayoutReturn,
    LayoutUpdate, List, NetAddress, NumericOwner, OpOk, OpResult, Stateid, Time, decode_body,
    layout_type,
};
use nfs_proto::rpcbind::{NetId, UniversalAddress};
use nfs_proto::wire::Wire;
use nfs_proto::xdr::Writer;

use super::answer::Failure;
use super::attributes::file_time;
use super::data::data_stateid;
use super::state::{LayoutRequest, ReturnedRange, Session, Tables};
use super::{Outcome, Run};
use crate::clock::monotonic_ns;
use crate::config::LayoutKind;
use crate::fault::LayoutEvent;
use crate::fs::{Context, FileTime, FsError, InodeId};
use crate::placement::{DataFile, Placement};
use crate::pnfs::Pnfs;
use crate::service::{Service, Shared};

/// Bytes of a LAYOUTGET result besides the body of its one layout.
const LAYOUT_RESULT_BYTES: usize = 4 + 16 + 4 + 8 + 8 + 4 + 4 + 4;
/// Bytes of a GETDEVICEINFO result besides the device.
const DEVICE_RESULT_BYTES: usize = 4 + 4 + 8;
/// Number of the device that all files layouts have.
const ALL_SERVERS: u32 = u32::MAX;

/// Stripe unit of files layouts that have only one data server; any would do.
const UNSTRIPED_UNIT_BYTES: u32 = 1 << 20;

/// LAYOUTGET without its stateid.
#[derive(Clone, Copy, Debug)]
pub(super) struct WantedLayout {
    pub(super) layout_type: u32,
    pub(super) iomode: LayoutIoMode,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) min_length: u64,
    pub(super) maxcount: u32,
}

/// LAYOUTCOMMIT without its stateid.
#[derive(Clone, Copy, Debug)]
pub(super) struct WrittenRange {
    pub(super) reclaim: bool,
    pub(super) last_offset: Option<u64>,
    pub(super) modified: Option<Time>,
}

impl Service {
    pub(super) fn op_layoutget(
        &mut self,
        stateid: Stateid,
        wanted: WantedLayout,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (pnfs, session) = self.require_pnfs(run)?;
        let WantedLayout { iomode, .. } = wanted;
        let file = run.current()?;
        self.check_regular(file)?;
        check_type(&pnfs, wanted.layout_type)?;
        if iomode == LayoutIoMode::Any {
            return Err(Status::BadIoMode.into());
        }
        let end = |length: u64| wanted.offset.checked_add(length);
        if wanted.length == 0
            || wanted.min_length > wanted.length
            || wanted.length != u64::MAX && end(wanted.length).is_none()
            || wanted.min_length != u64::MAX && end(wanted.min_length).is_none()
        {
            return Err(Status::Inval.into());
        }
        if self.tables().is_in_grace(run.now_ns) {
            return Err(Status::Grace.into());
        }
        let placement = match self.shared.fs.place(file, || pnfs.place()) {
            Ok(placement) => placement,
            Err(FsError::TryLater) => return layout_try_later(run),
            // Its data is here, since it was written when there was no data file left.
            Err(FsError::Exists) => return Err(Status::LayoutUnavailable.into()),
            Err(error) => return Err(error.into()),
        };
        let mirrors = usable_mirrors(&pnfs, &placement, iomode);
        if mirrors.is_empty() {
            return layout_try_later(run);
        }
        let body = encode_layout(&pnfs, &placement, &mirrors, iomode);
        if LAYOUT_RESULT_BYTES + body.len() > wanted.maxcount as usize {
            return Err(Status::TooSmall.into());
        }
        run.answer.check_room(LAYOUT_RESULT_BYTES + body.len())?;
        let stateid = run.resolve_stateid(stateid)?;
        let pin = self.shared.fs.pin(file)?;
        let layout_type = wanted.layout_type;
        let request = LayoutRequest { pin, handle: self.handle_of(file), layout_type, iomode };
        let stateid = self.tables().grant_layout(&session.client, &stateid, request, run.now_ns)?;
        run.stateid = Some(stateid);
        let layout = Layout { offset: 0, length: u64::MAX, iomode, layout_type, body: &body };
        let mut scratch = Vec::new();
        let layouts = List::build(&mut scratch, [layout]);
        run.succeed(&OpOk::Layoutget { return_on_close: true, stateid, layouts })
    }

    pub(super) fn op_layoutcommit(
        &mut self,
        stateid: Stateid,
        written: WrittenRange,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (_, session) = self.require_pnfs(run)?;
        let file = run.current()?;
        self.check_regular(file)?;
        if written.reclaim {
            // The layout is gone with the last start, but what was written under it is not.
            self.tables().may_reclaim(&session.client, run.now_ns)?;
        } else {
            let stateid = run.resolve_stateid(stateid)?;
            let client = &session.client;
            match self.tables().find_layouts(&stateid, client, file, run.now_ns) {
                Ok(state) if Tables::is_writable(&state) => {}
                Ok(_) => return Err(Status::BadLayout.into()),
                Err(Status::BadStateid) if Tables::is_of_client(&stateid, client) => {
                    // It was revoked, perhaps after our look at the size of the data files.
                    self.tables().note_lost_layout(self.shared.fs.pin(file)?, false);
                    return Err(Status::BadLayout.into());
                }
                Err(status) => return Err(status.into()),
            }
        }
        let before = self.shared.fs.attributes(file)?.size;
        let end = match written.last_offset {
            Some(offset) => offset.checked_add(1).ok_or(Status::Inval)?,
            None => 0,
        };
        let modified = written.modified.map(file_time).transpose()?;
        let change = self.shared.fs.note_written(file, end, modified, &run.context)?;
        let size = change.after.size;
        run.succeed(&OpOk::Layoutcommit { size: (size != before).then_some(size) })
    }

    pub(super) fn op_layoutreturn(
        &mut self,
        reclaim: bool,
        layout_type: u32,
        iomode: LayoutIoMode,
        layouts: LayoutReturn<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (pnfs, session) = self.require_pnfs(run)?;
        check_type(&pnfs, layout_type)?;
        let left = match layouts {
            LayoutReturn::File { offset, length, stateid, body } => {
                let file = run.current()?;
                self.note_returned_report(file, layout_type, body)?;
                if reclaim {
                    None
                } else {
                    let stateid = run.resolve_stateid(stateid)?;
                    let state =
                        self.tables().find_layouts(&stateid, &session.client, file, run.now_ns)?;
                    let returned = ReturnedRange { iomode, offset, length };
                    self.tables().return_layouts(&state, returned)?
                }
            }
            LayoutReturn::FileSystem => {
                run.current()?;
                self.tables().return_all_layouts(&session.client, iomode);
                None
            }
            LayoutReturn::All => {
                self.tables().return_all_layouts(&session.client, iomode);
                None
            }
        };
        run.stateid = left;
        run.succeed(&OpOk::Layoutreturn { stateid: left })
    }

    pub(super) fn op_layouterror(
        &mut self,
        errors: &List<'_, DeviceError>,
        run: &mut Run<'_>,
    ) -> Outcome {
        self.require_pnfs(run)?;
        let file = run.current()?;
        self.note_device_errors(file, errors);
        run.succeed(&OpOk::Layouterror)
    }

    pub(super) fn op_layoutstats(
        &mut self,
        update: LayoutUpdate<'_>,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (pnfs, _) = self.require_pnfs(run)?;
        check_type(&pnfs, update.layout_type)?;
        run.current()?;
        if update.layout_type == layout_type::FLEX_FILES {
            let _: FlexLayoutUpdate<'_> = decode_body(update.body).map_err(|_| Status::BadXdr)?;
        }
        self.counters.usage_reports.add(1);
        run.succeed(&OpOk::Layoutstats)
    }

    pub(super) fn op_getdeviceinfo(
        &mut self,
        device: DeviceId,
        layout_type: u32,
        maxcount: u32,
        run: &mut Run<'_>,
    ) -> Outcome {
        let (pnfs, _) = self.require_pnfs(run)?;
        check_type(&pnfs, layout_type)?;
        let number = number_of(device, pnfs.boot_id).ok_or(Status::NoEnt)?;
        let addresses: Vec<SocketAddr> =
            pnfs.addresses().map(|address| pnfs.address_for(address, run.local_ip)).collect();
        let mut body = Vec::new();
        match pnfs.layout {
            kind if kind.is_flexible() => {
                let address = addresses.get(number as usize).ok_or(Status::NoEnt)?;
                self.encode_flex_device(kind, *address, &mut body);
            }
            _ if number == ALL_SERVERS => {
                encode_files_device(&addresses, &mut body);
            }
            _ => {
                let address = addresses.get(number as usize).ok_or(Status::NoEnt)?;
                encode_files_device(&[*address], &mut body);
            }
        }
        // 0 asks for the notifications only.
        if maxcount == 0 {
            body.clear();
        } else if DEVICE_RESULT_BYTES + body.len() > maxcount as usize {
            let needed = (DEVICE_RESULT_BYTES + body.len()) as u32;
            run.answer.write_op_result(&OpResult::DeviceTooSmall(needed));
            return Err(Failure::Written(Status::TooSmall));
        }
        run.answer.check_room(DEVICE_RESULT_BYTES + body.len())?;
        run.succeed(&OpOk::Getdeviceinfo { layout_type, body: &body, notify: Bitmap::EMPTY })
    }

    /// Returns the data servers and the session of a call that needs both.
    ///
    /// # Errors
    /// `NotSupp`.
    fn require_pnfs<'s>(&self, run: &Run<'s>) -> Result<(Arc<Pnfs>, &'s Arc<Session>), Status> {
        let pnfs = self.shared.pnfs.as_ref().ok_or(Status::NotSupp)?;
        Ok((Arc::clone(pnfs), run.session.ok_or(Status::OpNotInSession)?))
    }

    fn note_returned_report(
        &self,
        file: InodeId,
        layout_type: u32,
        body: &[u8],
    ) -> Result<(), Status> {
        if layout_type != layout_type::FLEX_FILES || body.is_empty() {
            return Ok(());
        }
        let report: FlexLayoutReturn<'_> = decode_body(body).map_err(|_| Status::BadXdr)?;
        for failed in report.errors.iter() {
            self.note_device_errors(file, &failed.errors);
        }
        for used in report.stats.iter() {
            self.counters.usage_reports.add(1);
            self.counters.reported_read_bytes.add(used.read.bytes);
            self.counters.reported_written_bytes.add(used.write.bytes);
        }
        Ok(())
    }

    /// Counts what clients report about data servers. A mirror that missed a write is stale.
    fn note_device_errors(&self, file: InodeId, errors: &List<'_, DeviceError>) {
        let Some(pnfs) = &self.shared.pnfs else { return };
        let Ok(Some(placement)) = self.shared.fs.placement(file) else { return };
        for error in errors.iter() {
            let Some(number) = number_of(error.device, pnfs.boot_id) else { continue };
            pnfs.note_client_error(number as usize);
            if error.operation == nfs_proto::nfs4::OpCode::Read.number() {
                continue;
            }
            // Fenced clients report errors, too, but their writes are missing in all mirrors.
            let fenced = [Status::Access, Status::Perm, Status::PnfsNoLayout, Status::BadStateid];
            if fenced.contains(&error.status) {
                continue;
            }
            let has_server = |mirror: &usize| {
                placement.mirror(*mirror).iter().any(|file| file.server == number as usize)
            };
            if let Some(mirror) = (0..placement.mirrors).find(has_server) {
                placement.set_stale(mirror);
            }
        }
    }

    fn encode_flex_device(&self, kind: LayoutKind, address: SocketAddr, body: &mut Vec<u8>) {
        let text = UniversalAddress::new(address);
        let (mut addresses, mut versions) = (Vec::new(), Vec::new());
        let (version, minor) = if kind == LayoutKind::FlexFiles { (3, 0) } else { (4, 1) };
        let version = FlexDeviceVersion {
            version,
            minor,
            read_bytes_max: self.shared.granted.read_bytes_max,
            write_bytes_max: self.shared.granted.write_bytes_max,
            tightly_coupled: kind == LayoutKind::FlexFilesTight,
        };
        let device = FlexDevice {
            addresses: List::build(&mut addresses, [net_address(address, &text)]),
            versions: List::build(&mut versions, [version]),
        };
        device.encode(&mut Writer::new(body));
    }
}

impl Shared {
    /// Finds out how large files have become whose layouts were lost, and fences them.
    pub(crate) fn tend_lost_layouts(&self, now: FileTime) {
        let Some(pnfs) = &self.pnfs else { return };
        if !self.nfs4.has_lost_layouts() {
            return;
        }
        let mut waiting = Vec::new();
        for mut lost in self.nfs4.take_lost_layouts() {
            let id = lost.file.id();
            let Ok(Some(placement)) = self.fs.placement(id) else { continue };
            if std::mem::take(&mut lost.is_fenced) {
                pnfs.fence(&placement);
            }
            match pnfs.find_size(id.number(), &placement) {
                Ok(size) => {
                    let context = Context { now, ..Context::default() };
                    // It fails only if the file is gone.
                    let _ = self.fs.note_written(id, size, None, &context);
                }
                Err(FsError::TryLater) => waiting.push(lost),
                Err(_) => {}
            }
        }
        self.nfs4.put_back_lost_layouts(waiting);
    }

    /// Recalls, revokes or fences all layouts: a planned fault.
    pub(crate) fn take_back_layouts(&self, event: LayoutEvent) {
        let Some(pnfs) = &self.pnfs else { return };
        match event {
            LayoutEvent::Recall => self.nfs4.recall_all_layouts(monotonic_ns()),
            LayoutEvent::Revoke => {
                self.nfs4.revoke_all_layouts();
                self.tend_lost_layouts((self.clock)());
            }
            LayoutEvent::Fence => {
                for file in self.nfs4.files_with_layouts() {
                    if let Ok(Some(placement)) = self.fs.placement(file) {
                        pnfs.fence(&placement);
                    }
                }
            }
        }
    }
}

fn check_type(pnfs: &Pnfs, layout_type: u32) -> Result<(), Status> {
    if layout_type == pnfs.layout_type() { Ok(()) } else { Err(Status::UnknownLayoutType) }
}

fn layout_try_later(run: &mut Run<'_>) -> Outcome {
    run.answer.write_op_result(&OpResult::LayoutTryLater(false));
    Err(Failure::Written(Status::LayoutTryLater))
}

/// The mirrors for a layout. Those that miss writes are left out; if a data server is down, its
/// mirror is left out, too, and misses the writes under a layout for writing.
fn usable_mirrors(pnfs: &Pnfs, placement: &Placement, iomode: LayoutIoMode) -> Vec<usize> {
    let current: Vec<usize> = placement.current_mirrors().collect();
    let is_up = |mirror: &usize| pnfs.is_up(placement, *mirror);
    let (up, down): (Vec<_>, Vec<_>) = current.into_iter().partition(is_up);
    // With no mirror left, clients may as well find out for themselves.
    if up.is_empty() {
        return down;
    }
    if iomode == LayoutIoMode::ReadWrite {
        for mirror in down {
            placement.set_stale(mirror);
        }
    }
    up
}

fn encode_layout(
    pnfs: &Pnfs,
    placement: &Placement,
    mirrors: &[usize],
    iomode: LayoutIoMode,
) -> Vec<u8> {
    let mut body = Vec::new();
    match pnfs.layout {
        LayoutKind::Files => encode_files_layout(pnfs, placement, &mut body),
        _ => encode_flex_layout(pnfs, placement, mirrors, iomode, &mut body),
    }
    body
}

/// Encodes a `FlexLayout`. Its lists are nested, so they are written one level at a time.
fn encode_flex_layout(
    pnfs: &Pnfs,
    placement: &Placement,
    mirrors: &[usize],
    iomode: LayoutIoMode,
    body: &mut Vec<u8>,
) {
    let mut writer = Writer::new(body);
    let is_striped = placement.stripes() > 1;
    writer.u64(if is_striped { placement.stripe_unit } else { 0 });
    writer.u32(mirrors.len() as u32);
    let mut scratch = Vec::new();
    for (rank, mirror) in mirrors.iter().enumerate() {
        let files = placement.mirror(*mirror);
        writer.u32(files.len() as u32);
        for file in files {
            let (owner, group) = file.owner();
            let user = if iomode == LayoutIoMode::Read { file.reader() } else { owner };
            let (user_name, group_name) = (NumericOwner::new(user), NumericOwner::new(group));
            let server = FlexDataServer {
                device: device_of(file, pnfs.boot_id),
                // The first mirror differs between files, so preferring it balances the load.
                efficiency: (mirrors.len() - rank) as u32,
                stateid: if pnfs.layout == LayoutKind::FlexFilesTight {
                    data_stateid(group, iomode == LayoutIoMode::ReadWrite)
                } else {
                    Stateid::ANONYMOUS
                },
                files: List::build(&mut scratch, [file.handle]),
                user: user_name.as_slice(),
                group: group_name.as_slice(),
            };
            server.encode(&mut writer);
        }
    }
    writer.u32(0);
    writer.u32(0);
}

fn encode_files_layout(pnfs: &Pnfs, placement: &Placement, body: &mut Vec<u8>) {
    let files = placement.mirror(0);
    // A device is either all servers in order, or one. Handles are in the order of servers, too,
    // and the first stripe may be on any of them.
    let mut handles: Vec<_> = files.iter().map(|file| (file.server, file.handle)).collect();
    handles.sort_by_key(|(server, _)| *server);
    let (device, first_stripe_index, unit) = if let [file] = files {
        (device_of(file, pnfs.boot_id), 0, UNSTRIPED_UNIT_BYTES)
    } else {
        let first = files[0].server as u32;
        (device_id(pnfs.boot_id, ALL_SERVERS), first, placement.stripe_unit as u32)
    };
    let mut scratch = Vec::new();
    let layout = FilesLayout {
        device,
        util: FilesLayout::new_util(unit, false, false),
        first_stripe_index,
        pattern_offset: 0,
        files: List::build(&mut scratch, handles.into_iter().map(|(_, handle)| handle)),
    };
    layout.encode(&mut Writer::new(body));
}

fn encode_files_device(addresses: &[SocketAddr], body: &mut Vec<u8>) {
    let mut stripes = Vec::new();
    let stripes = List::build(&mut stripes, 0..addresses.len() as u32);
    let mut servers = Vec::new();
    for address in addresses {
        let text = UniversalAddress::new(*address);
        let mut scratch = Vec::new();
        let multipath = List::build(&mut scratch, [net_address(*address, &text)]);
        multipath.encode(&mut Writer::new(&mut servers));
    }
    let mut writer = Writer::new(body);
    stripes.encode(&mut writer);
    writer.u32(addresses.len() as u32);
    writer.raw(&servers);
    debug_assert!(decode_body::<FilesDevice<'_>>(body).is_ok());
}

fn net_address(address: SocketAddr, text: &UniversalAddress) -> NetAddress<'_> {
    let netid = NetId::from_address(false, address.ip()).name().as_bytes();
    NetAddress { netid, address: text.as_bytes() }
}

fn device_id(boot_id: u64, number: u32) -> DeviceId {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&boot_id.to_be_bytes());
    id[12..].copy_from_slice(&number.to_be_bytes());
    DeviceId(id)
}

fn device_of(file: &DataFile, boot_id: u64) -> DeviceId {
    device_id(boot_id, file.server as u32)
}

/// The number of a device; `None` if it is none of ours.
fn number_of(device: DeviceId, boot_id: u64) -> Option<u32> {
    let [.., a, b, c, d] = device.0;
    let number = u32::from_be_bytes([a, b, c, d]);
    (device == device_id(boot_id, number)).then_some(number)
}

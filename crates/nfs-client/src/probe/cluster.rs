//! Whether several addresses are one server, and which data servers an export has.
//!
//! Asked in v4.1 or v4.2: who the server is (EXCHANGE_ID), for further addresses whether they are
//! trunkable with the first, and for each export the types of layouts and the devices behind the
//! layout of one existing file. The file is opened for reading and closed; nothing is created.
//!
//! **Source:** RFC 8881 sections 2.10.5, 12, 13, 18.35, 18.40 and 18.43; RFC 8435.

use std::net::SocketAddr;

use nfs_proto::DecodeError;
use nfs_proto::nfs3::{FileHandle, FileType};
use nfs_proto::nfs4::{
    Bitmap, Claim, DeviceId, FilesDevice, FilesLayout, FlexDevice, FlexLayout, Layout,
    LayoutIoMode, LayoutReturn, NetAddress, Op, OpOk, OpenHow, StateOwner, Stateid, attribute,
    decode_body, layout_type, share,
};
use nfs_proto::rpcbind::UniversalAddress;

use super::data::{Answer, DataDevice, ExportLayouts, NoAnswer, Trunking};
use super::options::ProbeOptions;
use super::v4::Conversation;

/// Size requested for layouts and devices, in bytes.
const LAYOUT_BYTES: u32 = 32 * 1024;
/// Smallest useful layout, as requested by Linux: a page.
const LAYOUT_LENGTH_MIN: u64 = 4096;
/// Maximum number of devices to ask about, per layout.
const DEVICES_MAX: usize = 16;
/// Size requested for the listing in which a file is looked for, in bytes.
const LISTING_BYTES: u32 = 32 * 1024;

/// Compares the server at another address with that of a conversation.
pub(super) fn compare_server(
    first: &Conversation,
    address: SocketAddr,
    options: &ProbeOptions,
) -> Answer<Trunking> {
    let (client, ours) = first.identity()?;
    let (other_client, theirs) = first.introduce_at(address, options)?;
    let same =
        client == other_client && ours.scope == theirs.scope && ours.major_id == theirs.major_id;
    Ok(match (same, ours.minor_id == theirs.minor_id) {
        (true, true) => Trunking::Session,
        (true, false) => Trunking::ClientId,
        (false, _) => Trunking::Nothing,
    })
}

/// Asks for the layouts of an export and their devices.
pub(super) fn ask_layouts(conversation: &mut Conversation, path: &str) -> ExportLayouts {
    let names = super::exports::names_of(path);
    let types = conversation.layout_types_at(&names);
    let devices = match types.as_deref() {
        Ok([]) => Ok(Vec::new()),
        Ok([first, ..]) => ask_devices(conversation, &names, *first),
        Err(reason) => Err(reason.clone()),
    };
    ExportLayouts { path: path.to_owned(), types, devices }
}

/// A file that is open for reading.
struct OpenFile {
    file: FileHandle,
    stateid: Stateid,
}

/// Gets the layout of an existing file, and asks for its devices.
fn ask_devices(
    conversation: &mut Conversation,
    names: &[&[u8]],
    layout_type: u32,
) -> Answer<Vec<DataDevice>> {
    let open = open_first_file(conversation, names)?;
    let devices = devices_of_file(conversation, &open, layout_type);
    let close = [Op::Putfh { file: open.file }, Op::Close { seqid: 0, stateid: open.stateid }];
    // Whatever is left ends with the session.
    let _ = conversation.ask_for(&close, |ok| Ok(matches!(ok, OpOk::Close { .. }).then_some(())));
    devices
}

fn open_first_file(conversation: &mut Conversation, names: &[&[u8]]) -> Answer<OpenFile> {
    let mut ops = super::v4::walk_from_root(names);
    ops.push(Op::Readdir {
        cookie: 0,
        verifier: nfs_proto::nfs3::Verifier::default(),
        dircount: LISTING_BYTES,
        maxcount: LISTING_BYTES,
        request: Bitmap::from_numbers(&[attribute::TYPE]),
    });
    let found = conversation.ask_for(&ops, |ok| {
        let OpOk::Readdir { entries, .. } = ok else { return Ok(None) };
        for entry in &entries {
            if entry.attributes.decode_values()?.file_type == Some(FileType::Regular) {
                return Ok(Some(Some(entry.name.to_vec())));
            }
        }
        Ok(Some(None))
    })?;
    let Some(name) = found else {
        return Err(NoAnswer::NotRequested("no file at the top of the export to get a layout of"));
    };
    // A server opens nothing for a client that may still reclaim (RFC 8881 section 18.51.3).
    let complete = [Op::ReclaimComplete { one_fs: false }];
    let _ = conversation.ask_for(&complete, |_| Ok(Some(())));
    let client = conversation.identity()?.0;
    let mut ops = super::v4::walk_from_root(names);
    ops.push(Op::Open {
        seqid: 0,
        share_access: share::READ | share::WANT_NO_DELEGATION,
        share_deny: 0,
        owner: StateOwner { client, owner: b"probe" },
        how: OpenHow::NoCreate,
        claim: Claim::Name(&name),
    });
    ops.push(Op::Getfh);
    let mut opened = None;
    conversation.ask_for(&ops, |ok| {
        match ok {
            OpOk::Open { stateid, .. } => opened = Some(stateid),
            OpOk::Getfh { file } => {
                return Ok(opened.map(|stateid| OpenFile { file, stateid }));
            }
            _ => {}
        }
        Ok(None)
    })
}

fn devices_of_file(
    conversation: &mut Conversation,
    open: &OpenFile,
    layout_type: u32,
) -> Answer<Vec<DataDevice>> {
    let get = Op::Layoutget {
        signal_available: false,
        layout_type,
        iomode: LayoutIoMode::Read,
        offset: 0,
        length: u64::MAX,
        min_length: LAYOUT_LENGTH_MIN,
        stateid: open.stateid,
        maxcount: LAYOUT_BYTES,
    };
    let put = Op::Putfh { file: open.file };
    let (stateid, ids) = conversation.ask_for(&[put, get], |ok| {
        let OpOk::Layoutget { stateid, layouts, .. } = ok else { return Ok(None) };
        let mut ids = Vec::new();
        for layout in layouts.iter() {
            for id in devices_in(&layout)? {
                if !ids.contains(&id) && ids.len() < DEVICES_MAX {
                    ids.push(id);
                }
            }
        }
        Ok(Some((stateid, ids)))
    })?;
    let mut devices = Vec::new();
    for device in ids {
        let maxcount = LAYOUT_BYTES;
        let get = Op::Getdeviceinfo { device, layout_type, maxcount, notify: Bitmap::EMPTY };
        devices.push(conversation.ask_for(&[get], |ok| {
            let OpOk::Getdeviceinfo { layout_type, body, .. } = ok else { return Ok(None) };
            Ok(Some(describe_device(device, layout_type, body)?))
        })?);
    }
    let back = Op::Layoutreturn {
        reclaim: false,
        layout_type,
        iomode: LayoutIoMode::Any,
        layouts: LayoutReturn::File { offset: 0, length: u64::MAX, stateid, body: &[] },
    };
    let is_returned = |ok: OpOk<'_>| Ok(matches!(ok, OpOk::Layoutreturn { .. }).then_some(()));
    let _ = conversation.ask_for(&[put, back], is_returned);
    Ok(devices)
}

/// Lists the devices that a layout refers to.
fn devices_in(layout: &Layout<'_>) -> Result<Vec<DeviceId>, DecodeError> {
    Ok(match layout.layout_type {
        layout_type::FILES => vec![decode_body::<FilesLayout<'_>>(layout.body)?.device],
        layout_type::FLEX_FILES => {
            let decoded = decode_body::<FlexLayout<'_>>(layout.body)?;
            let mut ids = Vec::new();
            for mirror in decoded.mirrors.iter() {
                ids.extend(mirror.servers.iter().map(|server| server.device));
            }
            ids
        }
        // A list of extents, each of which begins with its device (RFC 5663 section 2.3).
        _ => match layout.body.get(4..20).and_then(|id| id.try_into().ok()) {
            Some(id) => vec![DeviceId(id)],
            None => Vec::new(),
        },
    })
}

fn describe_device(
    device: DeviceId,
    layout_type: u32,
    body: &[u8],
) -> Result<DataDevice, DecodeError> {
    let mut addresses = Vec::new();
    let mut versions = Vec::new();
    match layout_type {
        layout_type::FILES => {
            let decoded = decode_body::<FilesDevice<'_>>(body)?;
            for server in decoded.servers.iter() {
                addresses.extend(server.iter().map(|address| text_of(&address)));
            }
            versions.push("4.1".to_owned());
        }
        layout_type::FLEX_FILES => {
            let decoded = decode_body::<FlexDevice<'_>>(body)?;
            addresses.extend(decoded.addresses.iter().map(|address| text_of(&address)));
            for version in decoded.versions.iter() {
                versions.push(match version.version {
                    4 => format!("4.{}", version.minor),
                    other => other.to_string(),
                });
            }
        }
        _ => {}
    }
    let id = format!("{:032x}", u128::from_be_bytes(device.0));
    Ok(DataDevice { id, addresses, versions })
}

/// Formats an address; one that is not an IP address stays as it is.
fn text_of(address: &NetAddress<'_>) -> String {
    match UniversalAddress::parse(address.address) {
        Some(parsed) => parsed.to_string(),
        None => String::from_utf8_lossy(address.address).into_owned(),
    }
}

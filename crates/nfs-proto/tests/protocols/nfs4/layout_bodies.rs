//! The bodies and callbacks of pNFS have the bytes of the RFCs.

use nfs_proto::DecodeError;
use nfs_proto::nfs4::{
    CallbackCode, CallbackCompound, CallbackOk, CallbackOp, CallbackResult, DeviceChange,
    DeviceError, DeviceNotice, FileHandle, FileRecall, FilesDevice, FilesLayout, FlexDataServer,
    FlexDevice, FlexDeviceVersion, FlexIoError, FlexIoLatency, FlexIoStats, FlexLayout,
    FlexLayoutReturn, FlexLayoutUpdate, FlexMirror, Fsid, IoInfo, LayoutIoMode, LayoutRecall, List,
    NetAddress, OpCode, OpResult, Stateid, Time, Wire, decode_body, encode_callback, flex_flags,
    layout_type,
};
use nfs_proto::status::Status;
use nfs_proto::xdr::{Reader, Writer};

use super::layouts::{
    DEVICE, DEVICE_ID, FILE, FILES, LENGTH, OFFSET, TCP, VERSIONS, bodies, errors, failed, mirrors,
    servers, stats,
};
use super::ops::{RANGE, STATE, STATEID, view};
use crate::common::hex;

fn file() -> FileHandle {
    FileHandle::from_slice(b"fh01").unwrap()
}

fn tcp() -> NetAddress<'static> {
    NetAddress { netid: b"tcp", address: b"10.0.0.1.8.1" }
}

/// Checks that a body has these bytes, and that no prefix of them is a body.
fn check_body<'a, T: Wire<'a> + PartialEq + std::fmt::Debug>(value: &T, golden: &'a [u8]) {
    let mut out = Vec::new();
    value.encode(&mut Writer::new(&mut out));
    assert_eq!(out, golden, "{value:?}");
    assert_eq!(&decode_body::<T>(golden).unwrap(), value);
    for len in 0..golden.len() {
        assert!(decode_body::<T>(&golden[..len]).is_err(), "{value:?} cut to {len} bytes");
    }
}

#[test]
fn encodes_files_layout_like_rfc() {
    let util = FilesLayout::new_util(0x1_0000, true, true);
    let layout = FilesLayout {
        device: DEVICE_ID,
        util,
        first_stripe_index: 3,
        pattern_offset: OFFSET,
        files: view(FILES),
    };
    assert_eq!(util, 0x1_0003);
    assert!(layout.is_dense() && layout.commits_through_mds() && layout.unit_bytes() == 0x1_0000);
    check_body(&layout, &hex(&bodies()[0]));

    let device = FilesDevice {
        stripes: view("00000003 00000000 00000001 00000000"),
        servers: view(&servers()),
    };
    assert!(device.stripes.iter().eq([0, 1, 0]));
    let first = device.servers.iter().next().unwrap();
    assert!(first.iter().eq([tcp(), NetAddress { netid: b"name", address: b"other" }]));
    check_body(&device, &hex(&bodies()[1]));
}

#[test]
fn encodes_flexible_files_like_rfc() {
    let layout = FlexLayout {
        stripe_unit: OFFSET,
        mirrors: view(&mirrors()),
        flags: flex_flags::NO_IO_THRU_MDS | flex_flags::NO_LAYOUTCOMMIT,
        stats_collect_hint: 5,
    };
    let mirrors: Vec<FlexMirror<'_>> = layout.mirrors.iter().collect();
    assert_eq!(mirrors.iter().map(|mirror| mirror.servers.len()).collect::<Vec<_>>(), [1, 2]);
    let server = FlexDataServer {
        device: DEVICE_ID,
        efficiency: 10,
        stateid: STATE,
        files: view(&format!("00000001 {FILE}")),
        user: b"1000",
        group: b"0",
    };
    assert_eq!(mirrors[0].servers.iter().next(), Some(server));
    check_body(&layout, &hex(&bodies()[2]));

    let device =
        FlexDevice { addresses: view(&format!("00000001 {TCP}")), versions: view(VERSIONS) };
    let version = |version, minor, read, write, tightly_coupled| FlexDeviceVersion {
        version,
        minor,
        read_bytes_max: read,
        write_bytes_max: write,
        tightly_coupled,
    };
    let expected =
        [version(3, 0, 0x10_0000, 0x20_0000, false), version(4, 1, 0x30_0000, 0x40_0000, true)];
    assert!(device.versions.iter().eq(expected));
    check_body(&device, &hex(&bodies()[3]));
}

#[test]
fn encodes_reports_like_rfc() {
    let seconds = |seconds, nanos| Time { seconds, nanos };
    let latency = FlexIoLatency {
        calls_requested: 1,
        bytes_requested: 2,
        calls_completed: 3,
        bytes_completed: 4,
        bytes_not_delivered: 5,
        busy: seconds(6, 7),
        response: seconds(8, 9),
    };
    let update = FlexLayoutUpdate {
        address: tcp(),
        file: file(),
        read: latency,
        write: FlexIoLatency::default(),
        duration: seconds(1, 2),
        local: true,
    };
    check_body(&update, &hex(&bodies()[4]));

    let error = DeviceError::new(DEVICE_ID, Status::NxIo, OpCode::Write);
    let errors: List<'_, DeviceError> = view(&errors());
    assert!(errors.iter().eq([error]));
    let failed_range = FlexIoError { offset: OFFSET, length: LENGTH, stateid: STATE, errors };
    let used = FlexIoStats {
        offset: OFFSET,
        length: LENGTH,
        stateid: STATE,
        read: IoInfo { count: 5, bytes: 6 },
        write: IoInfo { count: 7, bytes: 8 },
        device: DEVICE_ID,
        update,
    };
    let report = FlexLayoutReturn { errors: view(&failed()), stats: view(&stats()) };
    assert!(report.errors.iter().eq([failed_range]));
    assert!(report.stats.iter().eq([used]));
    check_body(&report, &hex(&bodies()[5]));
}

#[test]
fn encodes_layout_callbacks_like_rfc() {
    let recall = |recall| CallbackOp::LayoutRecall {
        layout_type: layout_type::FLEX_FILES,
        iomode: LayoutIoMode::Any,
        changed: true,
        recall,
    };
    let file = FileRecall { file: file(), offset: OFFSET, length: LENGTH, stateid: STATE };
    let notices_bytes = format!(
        "00000002 00000001 00000002 00000018 00000001 {DEVICE} 00000001
         00000001 00000004 00000014 00000004 {DEVICE}"
    );
    let ops = [
        recall(LayoutRecall::File(file)),
        recall(LayoutRecall::FileSystem(Fsid { major: 1, minor: 2 })),
        recall(LayoutRecall::All),
        CallbackOp::NotifyDeviceid { notices: view(&notices_bytes) },
    ];
    let mut out = Vec::new();
    encode_callback(&mut Writer::new(&mut out), 1, 6, &ops);
    let golden = format!(
        "00000000 00000001 00000006 00000004
         00000005 00000004 00000003 00000001 00000001 {FILE} {RANGE} {STATEID}
         00000005 00000004 00000003 00000001 00000002 00000000 00000001 00000000 00000002
         00000005 00000004 00000003 00000001 00000003
         0000000e {notices_bytes}"
    );
    assert_eq!(out, hex(&golden));
    let call = CallbackCompound::decode(Reader::new(&out)).unwrap();
    assert!(call.ops().eq(ops.map(Ok)));

    for ok in [CallbackOk::LayoutRecall, CallbackOk::NotifyDeviceid] {
        let mut out = Vec::new();
        CallbackResult::Ok(ok).encode(&mut Writer::new(&mut out));
        assert_eq!(CallbackResult::decode(&mut Reader::new(&out)), Ok(CallbackResult::Ok(ok)));
    }
    let failed = CallbackResult::Failed(CallbackCode::LayoutRecall, Status::NoMatchingLayout);
    let mut out = Vec::new();
    failed.encode(&mut Writer::new(&mut out));
    assert_eq!(out, hex("00000005 0000274c"));
}

#[test]
fn device_notices_have_one_change() {
    let changes = [
        DeviceChange::Changed { layout_type: 1, device: DEVICE_ID, immediate: true },
        DeviceChange::Deleted { layout_type: 4, device: DEVICE_ID },
    ];
    for change in changes {
        let mut scratch = vec![9];
        let notice = DeviceNotice::build(&mut scratch, &change);
        assert_eq!(notice.changes(), Ok([Some(change), None]));
    }
    let unknown: DeviceNotice<'_> = view(&format!("00000001 00000008 00000014 00000001 {DEVICE}"));
    let error = DecodeError::BadValue { what: "notify_deviceid_type4", value: 3 };
    assert_eq!(unknown.changes(), Err(error));
    let long: DeviceNotice<'_> =
        view(&format!("00000001 00000004 00000018 00000001 {DEVICE} 00000001"));
    assert_eq!(long.changes(), Err(DecodeError::Trailing { bytes: 4 }));
}

#[test]
fn refuses_excessive_counts() {
    let count = |bytes: &str, at: usize, count: u32| {
        let mut bytes = hex(bytes);
        bytes[at..at + 4].copy_from_slice(&count.to_be_bytes());
        bytes
    };
    let zeros = "00000000 ".repeat(16);
    let flex = count(&zeros, 8, 17);
    let error = DecodeError::TooLong { len: 17, max: 16 };
    assert_eq!(decode_body::<FlexLayout<'_>>(&flex), Err(error));
    let device = count(&zeros, 0, 4097);
    let error = DecodeError::TooLong { len: 4097, max: 4096 };
    assert_eq!(decode_body::<FilesDevice<'_>>(&device), Err(error));
    let mut result = hex("00000032 00000000");
    result.extend(count(&zeros, 4 + Stateid::WIRE_BYTES, 65));
    let error = DecodeError::TooLong { len: 65, max: 64 };
    assert_eq!(OpResult::decode(&mut Reader::new(&result)), Err(error));
}

//! The operations, results and bodies of pNFS, next to their bytes as the RFCs define them.

use nfs_proto::nfs4::{
    Bitmap, DeviceId, DeviceNotice, IoInfo, Layout, LayoutIoMode, LayoutReturn, LayoutUpdate, List,
    Op, OpOk, Time, layout_type,
};

use super::ops::{LONGER, NAME, OTHER, OTHER_STATEID, RANGE, STATE, STATEID, view};

pub const OFFSET: u64 = 0x1_0000_0002;
pub const LENGTH: u64 = 0x3_0000_0004;
pub const DEVICE: &str = "64657669 63652d69 642d3136 62797465";
pub const DEVICE_ID: DeviceId = DeviceId(*b"device-id-16byte");
pub const FILE: &str = "00000004 66683031";
pub const TCP: &str = "00000003 74637000 0000000c 31302e30 2e302e31 2e382e31";
/// Counts and bytes: 5 READs of 6 bytes, 7 WRITEs of 8 bytes.
pub const COUNTS: &str = "00000000 00000005 00000000 00000006 00000000 00000007 00000000 00000008";
pub const LATENCY: &str = "00000000 00000001 00000000 00000002 00000000 00000003 00000000 00000004
    00000000 00000005 00000000 00000006 00000007 00000000 00000008 00000009";

/// Two handles.
pub const FILES: &str = "00000002 00000004 66683031 00000004 6e616d65";
/// Of the first data server two addresses, of the second one.
pub fn servers() -> String {
    format!("00000002 00000002 {TCP} {NAME} {LONGER} 00000001 {TCP}")
}

/// A mirror of one data server, and one of two.
pub fn mirrors() -> String {
    let server =
        format!("{DEVICE} 0000000a {STATEID} 00000001 {FILE} 00000004 31303030 00000001 30000000");
    format!("00000002 00000001 {server} 00000002 {server} {server}")
}

/// Versions 3 and 4.1.
pub const VERSIONS: &str = "00000002 00000003 00000000 00100000 00200000 00000000
    00000004 00000001 00300000 00400000 00000001";
/// A WRITE that failed with NXIO.
pub fn errors() -> String {
    format!("00000001 {DEVICE} 00000006 00000026")
}

/// READs took time, and there were no WRITEs.
pub fn update() -> String {
    let none = "00000000 ".repeat(16);
    format!("{TCP} {FILE} {LATENCY} {none} 00000000 00000001 00000002 00000001")
}

/// A range with errors.
pub fn failed() -> String {
    format!("00000001 {RANGE} {STATEID} {}", errors())
}

/// The use of a range.
pub fn stats() -> String {
    format!("00000001 {RANGE} {STATEID} {COUNTS} {DEVICE} {}", update())
}

/// The bodies of both types of layouts: layouts, devices and reports.
pub fn bodies() -> [String; 6] {
    [
        format!("{DEVICE} 00010003 00000003 00000001 00000002 {FILES}"),
        format!("00000003 00000000 00000001 00000000 {}", servers()),
        format!("00000001 00000002 {} 00000003 00000005", mirrors()),
        format!("00000001 {TCP} {VERSIONS}"),
        update(),
        format!("{} {}", failed(), stats()),
    ]
}

/// All operations of pNFS.
pub fn layout_ops() -> Vec<(Op<'static>, String)> {
    let offset = OFFSET;
    let length = LENGTH;
    let update = LayoutUpdate { layout_type: layout_type::FLEX_FILES, body: b"name" };
    let commit = |last_write_offset, modified| Op::Layoutcommit {
        offset,
        length,
        reclaim: true,
        stateid: STATE,
        last_write_offset,
        modified,
        update,
    };
    let give_back = |iomode, layouts| Op::Layoutreturn {
        reclaim: false,
        layout_type: layout_type::FLEX_FILES,
        iomode,
        layouts,
    };
    let layoutget = Op::Layoutget {
        signal_available: true,
        layout_type: layout_type::FILES,
        iomode: LayoutIoMode::ReadWrite,
        offset,
        length,
        min_length: 5,
        stateid: STATE,
        maxcount: 6,
    };
    let body = LayoutReturn::File { offset, length, stateid: STATE, body: b"other" };
    let stats = Op::Layoutstats {
        offset,
        length,
        stateid: STATE,
        read: IoInfo { count: 5, bytes: 6 },
        write: IoInfo { count: 7, bytes: 8 },
        device: DEVICE_ID,
        update,
    };
    let errors = errors();
    let notify = Bitmap::from_numbers(&[DeviceNotice::CHANGED, DeviceNotice::DELETED]);
    vec![
        (
            Op::Getdeviceinfo { device: DEVICE_ID, layout_type: 1, maxcount: 9, notify },
            format!("{DEVICE} 00000001 00000009 00000001 00000006"),
        ),
        (
            commit(Some(9), Some(Time { seconds: -2, nanos: 3 })),
            format!(
                "{RANGE} 00000001 {STATEID} 00000001 00000000 00000009
                 00000001 ffffffff fffffffe 00000003 00000004 {NAME}"
            ),
        ),
        (
            commit(None, None),
            format!("{RANGE} 00000001 {STATEID} 00000000 00000000 00000004 {NAME}"),
        ),
        (
            layoutget,
            format!("00000001 00000001 00000002 {RANGE} 00000000 00000005 {STATEID} 00000006"),
        ),
        (
            give_back(LayoutIoMode::Any, body),
            format!("00000000 00000004 00000003 00000001 {RANGE} {STATEID} {LONGER}"),
        ),
        (
            give_back(LayoutIoMode::Read, LayoutReturn::FileSystem),
            "00000000 00000004 00000001 00000002".into(),
        ),
        (
            give_back(LayoutIoMode::Any, LayoutReturn::All),
            "00000000 00000004 00000003 00000003".into(),
        ),
        (
            Op::Layouterror { offset, length, stateid: STATE, errors: view(&errors) },
            format!("{RANGE} {STATEID} {errors}"),
        ),
        (stats, format!("{RANGE} {STATEID} {COUNTS} {DEVICE} 00000004 {NAME}")),
    ]
}

/// The results of all operations of pNFS.
pub fn layout_results() -> Vec<(OpOk<'static>, String)> {
    let layout_bytes = format!("00000001 {RANGE} 00000002 00000001 {LONGER}");
    let layouts: List<'static, Layout<'static>> = view(&layout_bytes);
    let layout = Layout {
        offset: OFFSET,
        length: LENGTH,
        iomode: LayoutIoMode::ReadWrite,
        layout_type: layout_type::FILES,
        body: b"other",
    };
    assert!(layouts.iter().eq([layout]));
    let notify = Bitmap::from_numbers(&[DeviceNotice::DELETED]);
    vec![
        (
            OpOk::Getdeviceinfo { layout_type: layout_type::FLEX_FILES, body: b"other", notify },
            format!("00000004 {LONGER} 00000001 00000004"),
        ),
        (OpOk::Layoutcommit { size: Some(OFFSET) }, "00000001 00000001 00000002".into()),
        (OpOk::Layoutcommit { size: None }, "00000000".into()),
        (
            OpOk::Layoutget { return_on_close: true, stateid: OTHER, layouts },
            format!("00000001 {OTHER_STATEID} {layout_bytes}"),
        ),
        (OpOk::Layoutreturn { stateid: Some(OTHER) }, format!("00000001 {OTHER_STATEID}")),
        (OpOk::Layoutreturn { stateid: None }, "00000000".into()),
        (OpOk::Layouterror, String::new()),
        (OpOk::Layoutstats, String::new()),
    ]
}

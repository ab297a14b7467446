//! Calls from the server on the connection of its client.

use nfs_proto::limits;
use nfs_proto::nfs4::{FileRecall, LayoutIoMode, LayoutRecall};

use super::*;

/// Frames a call from the server.
pub fn callback(xid: u32, program: u32, procedure: u32, arguments: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mark = nfs_proto::record::begin(&mut out);
    let credential = Ok(Credential::None);
    CallHeader { xid, rpc_version: 2, program, version: 1, procedure, credential }
        .encode(&mut Writer::new(&mut out));
    out.extend(arguments);
    nfs_proto::record::end(&mut out, mark, 0);
    out
}

/// The first call of a session, with this operation.
fn in_session(session: SessionId, op: CallbackOp<'_>) -> Vec<u8> {
    let sequence = CallbackOp::Sequence {
        session,
        sequence: 1,
        slot: 0,
        highest_slot: 0,
        cache_this: false,
        referring: List::default(),
    };
    let mut out = Vec::new();
    encode_callback(&mut Writer::new(&mut out), 1, 0, &[sequence, op]);
    out
}

fn recall(session: SessionId) -> Vec<u8> {
    let recall = CallbackOp::Recall { stateid: OPENED, truncate: false, file: handle(b"file") };
    in_session(session, recall)
}

#[test]
fn answers_calls_on_backchannel() {
    let program = nfs4::CALLBACK_PROGRAM;
    let accepted = "00000001 00000000 00000000 00000000";
    let session_id = "30313233 34353637 38396162 63646566";
    let cases = [
        (callback(7, program, 0, &[]), format!("80000018 00000007 {accepted} 00000000")),
        (
            callback(7, program, 1, &recall(SESSION)),
            format!(
                "80000054 00000007 {accepted} 00000000  00000000 00000000 00000002
                 0000000b 00000000 {session_id} 00000001 00000000 00000000 00000000
                 00000004 00000000"
            ),
        ),
        (
            callback(7, program, 1, &recall(SessionId::default())),
            format!(
                "8000002c 00000007 {accepted} 00000000  00002744 00000000 00000001
                 0000000b 00002744"
            ),
        ),
        (callback(7, program + 1, 0, &[]), format!("80000018 00000007 {accepted} 00000001")),
        (callback(7, program, 1, &[9]), format!("80000018 00000007 {accepted} 00000004")),
    ];
    for (call, golden) in cases {
        let mut session = client(ProtocolVersion::V4_1, 4);
        session.start(0, 1, &Operation::Getattr { file: &file() }).unwrap();
        let first = session.outgoing().find_map(|chunk| match chunk {
            Chunk::Bytes(bytes) => Some(bytes.len()),
            Chunk::Pool(_) => None,
        });
        session.sent(1, 10);
        for byte in call.chunks(1) {
            assert_eq!(session.handle_input(2, byte), Ok(1));
        }
        // The answer follows the half-sent call.
        let rest = send(&mut session);
        assert_eq!(rest[first.unwrap() - 10..], hex(&golden));
        assert!(!session.wants_write() && !session.has_event());
        assert_eq!((session.counters().callbacks, session.counters().late_replies), (1, 0));
    }
}

/// A recall of a file's layout.
fn layout_recall() -> LayoutRecall {
    LayoutRecall::File(FileRecall {
        file: handle(b"file"),
        offset: 0,
        length: u64::MAX,
        stateid: OPENED,
    })
}

fn recall_layout(session: SessionId) -> Vec<u8> {
    let recall = CallbackOp::LayoutRecall {
        layout_type: nfs4::layout_type::FLEX_FILES,
        iomode: LayoutIoMode::Any,
        changed: false,
        recall: layout_recall(),
    };
    in_session(session, recall)
}

#[test]
fn accepts_recalls_of_held_layouts() {
    let call = callback(7, nfs4::CALLBACK_PROGRAM, 1, &recall_layout(SESSION));
    // The status of the whole callback follows a mark and six words of the RPC header.
    let status_of = |session: &mut Session| {
        session.handle_input(2, &call).unwrap();
        let answer = send(session);
        u32::from_be_bytes(answer[28..32].try_into().unwrap())
    };
    let mut session = client(ProtocolVersion::V4_1, 4);
    assert_eq!(status_of(&mut session), Status::NoMatchingLayout.number());
    assert_eq!(session.take_layout_recall(), None);
    session.hold_layouts();
    assert_eq!(status_of(&mut session), 0);
    assert_eq!(session.take_layout_recall(), Some(layout_recall()));
    assert_eq!(session.take_layout_recall(), None);
    // A caller that takes none is asked again later.
    for _ in 0..limits::RECALLS_MAX {
        assert_eq!(status_of(&mut session), 0);
    }
    assert_eq!(status_of(&mut session), Status::Jukebox.number());
}

#[test]
fn bounds_memory_for_unread_callbacks() {
    let mut session = client(ProtocolVersion::V4_1, 4);
    let call = callback(7, nfs4::CALLBACK_PROGRAM, 0, &[]);
    for _ in 0..10_000 {
        session.handle_input(2, &call).unwrap();
    }
    assert!(send(&mut session).len() < 20_000);
    // A callback larger than negotiated is skipped, and the stream continues after it.
    let large = callback(7, nfs4::CALLBACK_PROGRAM, 1, &vec![0; 100_000]);
    session.handle_input(3, &large).unwrap();
    assert!(!session.wants_write());
    session.handle_input(4, &call).unwrap();
    assert!(session.wants_write());
    session.reconnected(5);
    assert!(!session.wants_write(), "answers belong to their connection");
}

//! Handwritten traces.

use trace::{Call, Connection, End, Entry, Header, Op, TraceWriter, Transport, Version};

/// A successful operation.
pub fn op(kind: u8, file: u32) -> Op {
    Op { kind, file, status: Some(0), ..Op::default() }
}

pub fn call(number: u64, connection: u32, start_ns: u64, op: Op) -> Call {
    Call {
        number,
        start_ns,
        response_ns: Some(1_000_000),
        connection,
        version: Version::V3,
        flags: 0,
        retransmissions: 0,
        call_bytes: 100,
        reply_bytes: 100,
        ops: vec![op],
    }
}

pub fn trace_of(calls: &[Call], entries: &[Entry]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut writer = TraceWriter::new(&mut file, &Header::default()).unwrap();
    let mut connections = Vec::new();
    for number in 0..4 {
        connections.push(Connection {
            number,
            client: number + 1,
            server: 1,
            client_address: String::new(),
            server_address: String::new(),
            server_port: 2049,
            transport: Transport::Tcp,
            ip: 4,
        });
    }
    writer.connections(&connections).unwrap();
    writer.block(calls.iter(), entries).unwrap();
    let duration_ns = calls.last().map_or(0, |call| call.start_ns + 1_000_000);
    writer.finish(&End { duration_ns, ..End::default() }).unwrap();
    file
}

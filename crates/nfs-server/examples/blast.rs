//! Measures the server's own upper limit: starts it and drives it with a simple client.
//!
//! `cargo run --release -p dfsbench-nfs-server --example blast -- [MODE] [SECONDS]`
//!
//! Modes: read, discard, write, getattr, read4k, all.
//!
//! One server thread, one client thread, loopback with cubic. The client knows the length of each
//! reply beforehand and lets the kernel drop the bytes, so it spends almost all of its time in the
//! kernel. Compare READ with `iperf3 -c 127.0.0.1 -C cubic` in the same minute. Next to each rate,
//! it prints the share of time in which the server's thread was on a CPU.
#![allow(clippy::print_stdout, reason = "prints its results")]
#![allow(clippy::disallowed_methods, reason = "examples read the clock themselves")]

use std::io::{self, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use nfs_proto::nfs3::{self, Call, FileHandle, StableHow, encode_write_header};
use nfs_proto::record;
use nfs_proto::rpc::{CallHeader, Credential, RPC_VERSION};
use nfs_proto::xdr::Writer;
use nfs_server::fs::{Context, CreateMode, SetAttributes};
use nfs_server::{Server, ServerConfig, StoreMode};
use rustix::net::RecvFlags;
use rustix::net::sockopt::set_tcp_congestion;

const TRANSFER_BYTES: u32 = 1 << 20;
const FILE_BYTES: u64 = 64 << 20;
const READ_DEPTH: u64 = 8;
/// Mark, RPC header, status, attributes, count, eof, length. **Source:** RFC 5531, RFC 1813.
const READ_REPLY_BYTES: u64 = 4 + 24 + 4 + 88 + 12 + TRANSFER_BYTES as u64;
/// Mark, RPC header, status, attributes.
const GETATTR_REPLY_BYTES: usize = 4 + 24 + 4 + 84;
const READ4K_REPLY_BYTES: usize = 4 + 24 + 4 + 88 + 12 + 4096;
/// Mark, RPC header, status, wcc data, count, stability, verifier.
const WRITE_REPLY_BYTES: usize = 4 + 24 + 4 + 28 + 88 + 16;

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let mode = arguments.next().unwrap_or_else(|| "all".to_owned());
    let seconds = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(3);
    let time = Duration::from_secs(seconds);
    let wanted = |name: &str| mode == name || mode == "all";
    if wanted("read") {
        read("READ keep", StoreMode::Keep, time)?;
    }
    if wanted("discard") {
        read("READ discard", StoreMode::Discard, time)?;
    }
    if wanted("write") {
        write("WRITE keep, rewriting", StoreMode::Keep, time, false)?;
        write("WRITE keep, new data", StoreMode::Keep, time, true)?;
        write("WRITE discard", StoreMode::Discard, time, false)?;
    }
    if wanted("getattr") {
        for (connections, depth) in [(64, 16), (64, 1), (1, 16), (1, 1)] {
            small("GETATTR", GETATTR_REPLY_BYTES, (connections, depth), time)?;
        }
    }
    if wanted("read4k") {
        small("READ 4 KiB", READ4K_REPLY_BYTES, (64, 16), time)?;
        small("READ 4 KiB", READ4K_REPLY_BYTES, (1, 16), time)?;
    }
    Ok(())
}

fn start(store: StoreMode) -> (Server, FileHandle) {
    let congestion_control = Some("cubic".to_owned());
    let config = ServerConfig { store, congestion_control, ..ServerConfig::default() };
    let server = Server::start(config).expect("the server starts");
    let fs = server.file_system();
    let (directory, _) = fs.find_path("/export").expect("the export exists");
    let set = SetAttributes::default();
    let context = Context::default();
    let made = fs.create(directory, b"file", CreateMode::Guarded, &set, &context);
    let file = made.expect("the file can be created").id;
    for offset in (0..FILE_BYTES).step_by(TRANSFER_BYTES as usize) {
        fs.write(file, offset, &vec![offset as u8; TRANSFER_BYTES as usize], &context)
            .expect("there is space for the file");
    }
    let handle = FileHandle::from_slice(&fs.handle(file)).expect("handles fit in the buffer");
    (server, handle)
}

fn connect(server: &Server) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(server.address())?;
    stream.set_nodelay(true)?;
    set_tcp_congestion(&stream, "cubic").ok();
    Ok(stream)
}

/// Runs until the time is over and prints the rate; `round` returns the number of bytes or ops.
fn measure(
    what: &str,
    unit: (&str, f64),
    server: &Server,
    time: Duration,
    mut round: impl FnMut() -> io::Result<u64>,
) -> io::Result<()> {
    let cpu_before = cpu_ns(server);
    let start = Instant::now();
    let mut total = 0;
    while start.elapsed() < time {
        total += round()?;
    }
    let seconds = start.elapsed().as_secs_f64();
    let busy = (cpu_ns(server) - cpu_before) as f64 / 1e9 / seconds;
    let rate = total as f64 / seconds / unit.1;
    println!("{what}: {rate:.2} {}, server thread {:.0} % busy", unit.0, busy * 100.0);
    Ok(())
}

/// CPU time of the server's threads. **Source:** proc(5), `/proc/PID/task/TID/schedstat`.
fn cpu_ns(server: &Server) -> u64 {
    let of = |tid: &i32| {
        let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).ok()?;
        text.split(' ').next()?.parse::<u64>().ok()
    };
    server.thread_ids().iter().filter_map(of).sum()
}

fn encode_call(
    out: &mut Vec<u8>,
    xid: u32,
    procedure: u32,
    arguments: impl FnOnce(&mut Writer<'_>),
) {
    let header = CallHeader {
        xid,
        rpc_version: RPC_VERSION,
        program: nfs3::PROGRAM,
        version: nfs3::VERSION,
        procedure,
        credential: Ok(Credential::None),
    };
    let mut writer = Writer::new(out);
    header.encode(&mut writer);
    arguments(&mut writer);
}

/// Encodes a framed call.
fn encode(out: &mut Vec<u8>, xid: u32, call: &Call<'_>) {
    let mark = record::begin(out);
    encode_call(out, xid, call.procedure().number(), |writer| call.encode(writer));
    record::end(out, mark, 0);
}

/// Receives up to `length` bytes that the kernel drops.
fn skip(stream: &TcpStream, sink: &mut [u8]) -> io::Result<usize> {
    let (_, length) = rustix::net::recv(stream, sink, RecvFlags::TRUNC)?;
    if length == 0 { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(length) }
}

fn skip_exactly(stream: &TcpStream, sink: &mut [u8], mut length: usize) -> io::Result<()> {
    while length > 0 {
        let limit = length.min(sink.len());
        length -= skip(stream, &mut sink[..limit])?;
    }
    Ok(())
}

fn read(what: &str, store: StoreMode, time: Duration) -> io::Result<()> {
    let (server, file) = start(store);
    let mut stream = connect(&server)?;
    let mut sink = vec![0; 4 << 20];
    let mut call = Vec::new();
    let mut sent = 0_u64;
    let mut received = 0_u64;
    measure(what, ("GB/s", 1e9), &server, time, || {
        call.clear();
        let before = received;
        while sent < received / READ_REPLY_BYTES + READ_DEPTH {
            let offset = sent * u64::from(TRANSFER_BYTES) % FILE_BYTES;
            encode(
                &mut call,
                sent as u32,
                &Call::Read { file: &file, offset, count: TRANSFER_BYTES },
            );
            sent += 1;
        }
        stream.write_all(&call)?;
        received += skip(&stream, &mut sink)? as u64;
        Ok(received - before)
    })
}

fn write(what: &str, store: StoreMode, time: Duration, fresh: bool) -> io::Result<()> {
    let (server, file) = start(store);
    let fs = server.file_system();
    let (id, _) = fs.find_path("/export/file").expect("the file exists");
    let empty = SetAttributes { size: Some(0), ..SetAttributes::default() };
    let mut stream = connect(&server)?;
    let payload = vec![7; TRANSFER_BYTES as usize];
    let mut sink = vec![0; WRITE_REPLY_BYTES];
    let mut call = Vec::new();
    let mut sent = 0_u64;
    measure(what, ("GB/s", 1e9), &server, time, || {
        call.clear();
        let offset = sent * u64::from(TRANSFER_BYTES) % FILE_BYTES;
        if fresh && offset == 0 {
            fs.set_attributes(id, &empty, None, &Context::default())
                .expect("the file can be truncated");
        }
        let mark = record::begin(&mut call);
        encode_call(&mut call, sent as u32, 7, |writer| {
            encode_write_header(writer, &file, offset, StableHow::Unstable, TRANSFER_BYTES);
        });
        record::end(&mut call, mark, payload.len());
        stream.write_all(&call)?;
        stream.write_all(&payload)?;
        sent += 1;
        if sent > READ_DEPTH {
            skip_exactly(&stream, &mut sink, WRITE_REPLY_BYTES)?;
        }
        Ok(payload.len() as u64)
    })
}

/// Sends batches of small calls over many connections in turn.
fn small(
    what: &str,
    reply_bytes: usize,
    (connections, depth): (usize, usize),
    time: Duration,
) -> io::Result<()> {
    let (server, file) = start(StoreMode::Keep);
    let mut streams: Vec<_> =
        (0..connections).map(|_| connect(&server)).collect::<io::Result<_>>()?;
    let mut sink = vec![0; 1 << 20];
    let mut batch = Vec::new();
    for xid in 0..depth as u32 {
        match reply_bytes {
            GETATTR_REPLY_BYTES => encode(&mut batch, xid, &Call::Getattr { file: &file }),
            _ => encode(&mut batch, xid, &Call::Read { file: &file, offset: 8192, count: 4096 }),
        }
    }
    streams.iter_mut().try_for_each(|stream| stream.write_all(&batch))?;
    let what = format!("{what}, {connections} connections, depth {depth}");
    measure(&what, ("k/s", 1e3), &server, time, || {
        for stream in &mut streams {
            skip_exactly(stream, &mut sink, depth * reply_bytes)?;
            stream.write_all(&batch)?;
        }
        Ok((connections * depth) as u64)
    })
}

//! A tiny NFS server on a thread, built from the protocol crate, that can misbehave.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use nfs_client::MountOptions;
use nfs_proto::RpcError;
use nfs_proto::client::File;
use nfs_proto::mount3::{self, Export, Flavors, MountOk, MountStatus};
use nfs_proto::nfs3::{
    self, Call, FileHandle, Fsinfo, Object, ReadOk, Reply, StableHow, Status, Verifier, WccData,
    WriteOk,
};
use nfs_proto::portmap;
use nfs_proto::program::{self, OfferedPrograms};
use nfs_proto::record::{Mark, append_fragmented};
use nfs_proto::server::{self, Session};

/// How the server behaves.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Behaviour {
    /// Answers in fragments of at most the given number of bytes.
    Fragments(usize),
    /// Accepts and never answers.
    Silent,
    /// Answers everything except READ.
    SilentOnRead,
    /// Answers a READ only with the next call, sending both replies in one piece.
    SlowRead,
    /// Answers a READ with an endless series of empty fragments.
    EmptyFragments,
    /// Answers a READ with an endless series of empty records.
    EmptyRecords,
    /// Closes in the middle of its reply to a READ.
    CloseInRead,
    /// Refuses to mount.
    Refuse(MountStatus),
    /// Offers only NFS version 4.
    Version4,
    /// Sends text as soon as a request arrives.
    Text,
}

/// The root handle.
pub fn root() -> File {
    root_handle().into()
}

fn root_handle() -> FileHandle {
    FileHandle::from_slice(b"root").unwrap()
}

/// The handle of every name.
pub fn file() -> File {
    file_handle().into()
}

fn file_handle() -> FileHandle {
    FileHandle::from_slice(b"the file").unwrap()
}

/// The content of this file.
pub fn content(offset: u64, len: usize) -> Vec<u8> {
    (offset..offset + len as u64).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 16) as u8).collect()
}

/// Starts a portmapper that returns the same port for everything, or finds nothing; returns its own
/// port.
pub fn start_portmapper(to: Option<u16>) -> u16 {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut session =
                Session::new(OfferedPrograms { portmap: true, ..OfferedPrograms::NONE });
            let mut out = Vec::new();
            while let Ok(len @ 1..) = stream.read(session.free_space(1)) {
                session.mark_filled(len);
                while let Some(request) = session.next_request(&mut out).unwrap() {
                    let reply = portmap::Reply::Getport(to.map_or(0, u32::from));
                    server::encode_reply(&mut out, request.xid, &program::Reply::Portmap(reply));
                }
                stream.write_all(&out).unwrap();
                out.clear();
            }
        }
    });
    port
}

/// Starts a server and returns options that mount it.
pub fn start(behaviour: Behaviour) -> MountOptions {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            std::thread::spawn(move || serve(stream.unwrap(), behaviour));
        }
    });
    options(address)
}

/// Returns options that mount a server with all its services on one port.
pub fn options(address: SocketAddr) -> MountOptions {
    let mut options = MountOptions::new(address.ip().to_string(), "/export");
    options.port = Some(address.port());
    options.mount_port = Some(address.port());
    options.timeout = Duration::from_millis(300);
    options
}

fn serve(mut stream: TcpStream, behaviour: Behaviour) {
    let offered = OfferedPrograms { nfs3: true, mount3: true, ..OfferedPrograms::NONE };
    let mut session = Session::new(offered);
    let mut held = Vec::new();
    loop {
        match stream.read(session.free_space(1)) {
            Ok(0) | Err(_) => return,
            Ok(_) if behaviour == Behaviour::Silent => {}
            Ok(_) if behaviour == Behaviour::Text => {
                let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
                return;
            }
            Ok(len) => session.mark_filled(len),
        }
        let mut out = Vec::new();
        while let Some(request) = session.next_request(&mut out).unwrap() {
            let mut reply = Vec::new();
            if !respond(&mut reply, request.xid, &request.body.unwrap(), behaviour) {
                let endless = [Behaviour::EmptyFragments, Behaviour::EmptyRecords];
                while stream.write_all(&reply).is_ok() && endless.contains(&behaviour) {}
                return;
            }
            let fragment_max = match behaviour {
                Behaviour::Fragments(max) => max,
                _ => usize::MAX,
            };
            let is_read = matches!(request.body, Ok(program::Call::Nfs3(Call::Read { .. })));
            if behaviour == Behaviour::SlowRead && is_read {
                held = reply;
            } else if !reply.is_empty() {
                append_fragmented(&mut out, &reply[4..], fragment_max);
            }
        }
        if !out.is_empty() {
            out.append(&mut held);
        }
        if stream.write_all(&out).is_err() {
            return;
        }
    }
}

/// Encodes the reply; `false` sends it as is and closes the connection.
fn respond(out: &mut Vec<u8>, xid: u32, call: &program::Call<'_>, behaviour: Behaviour) -> bool {
    let call = match call {
        program::Call::Mount3(call) => {
            mount(out, xid, call, behaviour);
            return true;
        }
        program::Call::Nfs3(call) => call,
        _ => unreachable!("not offered"),
    };
    if behaviour == Behaviour::Version4 {
        server::encode_refusal(out, xid, RpcError::ProgramMismatch { low: 4, high: 4 });
        return true;
    }
    if matches!(call, Call::Read { .. }) {
        match behaviour {
            Behaviour::SilentOnRead => return true,
            Behaviour::EmptyFragments | Behaviour::EmptyRecords => {
                let last = behaviour == Behaviour::EmptyRecords;
                *out = Mark { len: 0, last }.to_bytes().repeat(1 << 18);
                return false;
            }
            Behaviour::CloseInRead => {
                server::encode_read_reply_header(out, xid, None, false, 100_000);
                out.extend(vec![0; 50_000]);
                return false;
            }
            _ => {}
        }
    }
    nfs(out, xid, call);
    true
}

fn mount(out: &mut Vec<u8>, xid: u32, call: &mount3::Call<'_>, behaviour: Behaviour) {
    let exports = [
        Export { dir: b"/export", groups: &[] },
        Export { dir: b"/exports/other", groups: &[b"10.0.0.0/8"] },
    ];
    let reply = match (call, behaviour) {
        (mount3::Call::Mnt(_), Behaviour::Refuse(status)) => mount3::Reply::Mnt(Err(status)),
        (mount3::Call::Mnt(b"/export"), _) => {
            let flavors = Flavors::from_slice(&[1]);
            mount3::Reply::Mnt(Ok(MountOk { root: root_handle(), flavors }))
        }
        (mount3::Call::Mnt(_), _) => mount3::Reply::Mnt(Err(MountStatus::NoEnt)),
        (mount3::Call::Export, _) => mount3::Reply::Export(&exports),
        (mount3::Call::Umnt(_), _) => mount3::Reply::Umnt,
        _ => mount3::Reply::Null,
    };
    server::encode_reply(out, xid, &program::Reply::Mount3(reply));
}

fn nfs(out: &mut Vec<u8>, xid: u32, call: &Call<'_>) {
    let data;
    let verifier = Verifier(*b"verifier");
    let reply = match *call {
        Call::Null => Reply::Null,
        Call::Fsinfo { .. } => {
            let fsinfo =
                Fsinfo { read_bytes_max: 1 << 20, write_bytes_max: 1 << 19, ..Fsinfo::default() };
            Reply::Fsinfo { attributes: None, result: Ok(fsinfo) }
        }
        Call::Lookup { name: b"missing", .. } => {
            Reply::failure(nfs3::Procedure::Lookup, Status::NoEnt)
        }
        Call::Lookup { .. } => Reply::Lookup {
            dir: None,
            result: Ok(Object { file: file_handle(), attributes: None }),
        },
        Call::Read { offset, count, .. } => {
            data = content(offset, count as usize);
            Reply::Read { attributes: None, result: Ok(ReadOk { eof: false, data: &data }) }
        }
        Call::Write { offset, data, .. } => {
            assert_eq!(data, content(offset, data.len()), "payload of a WRITE");
            let ok = WriteOk { count: data.len() as u32, committed: StableHow::Unstable, verifier };
            Reply::Write { wcc: WccData::default(), result: Ok(ok) }
        }
        Call::Commit { .. } => Reply::Commit { wcc: WccData::default(), result: Ok(verifier) },
        _ => Reply::failure(call.procedure(), Status::NotSupp),
    };
    server::encode_nfs3_reply(out, xid, &reply);
}

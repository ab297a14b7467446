//! Writes inputs that are real messages, for `cargo xtask fuzz --seeds` to minimize and keep.
//!
//! The only argument is the folder of corpora; each target's inputs go into its own folder there.
#![allow(clippy::disallowed_methods, reason = "a tool: it reads its argument")]

use std::path::Path;
use std::{env, fs, io};

use fuzz::messages::{DecodedPart, REPLY, RpcMessage};
use nfs_proto::nfs4::{CompoundBuilder, Op};
use nfs_proto::program::{Call, OfferedPrograms};
use nfs_proto::rpc::{
    AuthSys, CallHeader, Credential, Groups, ProcedureId, RPC_VERSION, ReplyHeader, RpcError,
};
use nfs_proto::xdr::{Reader, Writer};
use nfs_proto::{mount3, nfs2, nfs3, portmap};

#[path = "../../crates/nfs-proto/tests/protocols/nfs4/layouts.rs"]
mod layouts;
#[path = "../../crates/nfs-proto/tests/protocols/nfs4/ops.rs"]
mod ops;
#[path = "../../crates/nfs-proto/tests/protocols/nfs4/results.rs"]
mod results;
// The real messages that the tests of `nfs-proto` share; a new one there becomes a seed here.
#[path = "../../crates/nfs-proto/tests/protocols/common.rs"]
mod common;

fn main() -> io::Result<()> {
    let folder = env::args_os().nth(1).ok_or_else(|| io::Error::other("which folder?"))?;
    let folder = Path::new(&folder);
    write(folder, "rpc", &rpc_messages())?;
    write(folder, "nfs2", &nfs2_messages())?;
    write(folder, "nfs3", &nfs3_messages())?;
    write(folder, "nfs4", &nfs4_messages())?;
    write(folder, "packets", &packets())?;
    write(folder, "trace_file", &[trace_block()])?;
    write(folder, "imports", &imports())
}

/// A log of fio and the calls of some processes, each after the byte that selects its kind.
fn imports() -> Vec<Vec<u8>> {
    let log = "fio version 3 iolog\n1 /m/a add\n2 /m/a open\n3 /m/a read 0 512\n4 /m/a close\n";
    let calls = "1 5.000001 openat(AT_FDCWD</r>, \"a\", O_RDWR|O_CREAT, 0600) = 3</r/a>\n\
                 1 5.000002 clone(child_stack=NULL, flags=SIGCHLD <unfinished ...>\n\
                 2 5.000003 pwrite64(3, \"x\"..., 4096, 8192) = 4096 <0.000900>\n\
                 1 5.000004 <... clone resumed>) = 2\n\
                 2 5.000005 copy_file_range(3</r/a>, [0] => [9], 3</r/a>, NULL, 9, 0) = 9\n\
                 2 5.000006 renameat2(AT_FDCWD</r>, \"a\", AT_FDCWD</r>, \"b\", 0) = 0\n\
                 2 5.000007 +++ exited with 0 +++\n";
    vec![[b"\x01", log.as_bytes()].concat(), [b"\x00", calls.as_bytes()].concat()]
}

/// Wraps the v3 messages into packets like the target: a call and its reply in one input, over TCP
/// and over UDP.
fn packets() -> Vec<Vec<u8>> {
    const MADE: u8 = 1;
    const FROM_SERVER: u8 = 1;
    const UDP: u8 = 2;
    let mut names = Vec::new();
    let mut plus = Vec::new();
    let replies = common::replies(&mut names, &mut plus);
    let mut all = Vec::new();
    for (call, reply) in common::calls().iter().zip(&replies) {
        let id = ProcedureId::new(nfs3::PROGRAM, 3, call.procedure().number());
        let ProcedureId { program, version, procedure } = id;
        let credential = Ok(Credential::None);
        let rpc_version = RPC_VERSION;
        let head = CallHeader { xid: 7, rpc_version, program, version, procedure, credential };
        let call = message(&[], |writer| {
            head.encode(writer);
            call.encode(writer);
        });
        let reply = message(&[], |writer| {
            ReplyHeader { xid: 7, result: Ok(()) }.encode(writer);
            reply.encode(writer);
        });
        for transport in [0, UDP] {
            let mut input = vec![MADE];
            for (flags, body) in [(0, &call), (FROM_SERVER, &reply)] {
                let mark = (0x8000_0000 | body.len() as u32).to_be_bytes();
                let mark = if transport == UDP { &[][..] } else { &mark };
                for part in [mark, body].concat().chunks(255) {
                    input.extend([part.len() as u8, 0, flags | transport, 0]);
                    input.extend(part);
                }
            }
            all.push(input);
        }
    }
    all
}

/// Creates a block of a trace with one call of one operation, using only the required columns.
fn trace_block() -> Vec<u8> {
    const BLOCK: u8 = 1;
    let columns: [(u8, u8); 5] = [(0, 0), (1, 0), (4, 30), (9, 1), (10, 6)];
    let mut bytes = vec![BLOCK];
    bytes.extend([1, 1, 0, columns.len() as u32].into_iter().flat_map(u32::to_le_bytes));
    bytes.extend(columns.into_iter().flat_map(|(id, _)| [id, 0, 0, 0, 1, 0, 0, 0]));
    bytes.extend(columns.map(|(_, value)| value));
    bytes
}

fn write(folder: &Path, target: &str, inputs: &[Vec<u8>]) -> io::Result<()> {
    let folder = folder.join(target);
    fs::create_dir_all(&folder)?;
    for (number, input) in inputs.iter().enumerate() {
        fs::write(folder.join(format!("seed-{number:03}")), input)?;
    }
    Ok(())
}

fn message(selector: &[u8], encode: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut bytes = selector.to_vec();
    encode(&mut Writer::new(&mut bytes));
    bytes
}

fn rpc_messages() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for small in [RpcMessage::CallHeader, RpcMessage::Request] {
        for call in small_calls() {
            all.push(message(&[selector(small)], |writer| {
                header(&call).encode(writer);
                call.encode(writer);
            }));
        }
        let unknown = CallHeader { program: 1, ..header(&small_calls()[0]) };
        all.push(message(&[selector(small)], |writer| unknown.encode(writer)));
    }
    let arguments = selector(RpcMessage::Arguments);
    for (line, (program, version, _)) in OfferedPrograms::ALL.table().into_iter().enumerate() {
        for procedure in 0..=22 {
            let id = ProcedureId::new(program, version, procedure);
            all.extend(shapes(&[arguments, line as u8, procedure as u8], |reader| {
                Call::decode(OfferedPrograms::ALL, id, reader).is_ok()
            }));
        }
    }
    for result in refusals() {
        let reply = ReplyHeader { xid: 7, result };
        all.push(message(&[selector(RpcMessage::ReplyHeader)], |writer| reply.encode(writer)));
    }
    all.extend(lists());
    all
}

/// Messages of zeros and of ones, of each length that a decoder accepts: the first three of each.
fn shapes(selector: &[u8], accepts: impl Fn(Reader<'_>) -> bool) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for word in [[0; 4], [0, 0, 0, 1]] {
        let lengths = (0..100).map(|words| word.repeat(words));
        let accepted = lengths.filter(|bytes| accepts(Reader::new(bytes)));
        all.extend(accepted.take(3).map(|bytes| [selector, &bytes].concat()));
    }
    all
}

fn selector(small: RpcMessage) -> u8 {
    RpcMessage::ALL.iter().position(|one| *one == small).expect("one of them") as u8
}

fn header<'a>(call: &Call<'_>) -> CallHeader<'a> {
    let ProcedureId { program, version, procedure } = call.procedure_id();
    let groups = Groups::from_slice(&[4, 24, 27]);
    let user = AuthSys { stamp: 1, machine_name: b"client", uid: 1000, gid: 100, groups };
    let credential = Ok(Credential::Sys(user));
    CallHeader { xid: 7, rpc_version: RPC_VERSION, program, version, procedure, credential }
}

fn small_calls() -> [Call<'static>; 5] {
    let mapping = portmap::Mapping { program: 100_003, version: 3, protocol: 6, port: 2049 };
    [
        Call::Mount3(mount3::Call::Null),
        Call::Mount1(mount3::Call::Mnt(b"/export")),
        Call::Mount3(mount3::Call::Export),
        Call::Portmap(portmap::Call::Dump),
        Call::Portmap(portmap::Call::Getport(mapping)),
    ]
}

fn refusals() -> [Result<(), RpcError>; 8] {
    [
        Ok(()),
        Err(RpcError::ProgramUnavailable),
        Err(RpcError::ProgramMismatch { low: 3, high: 4 }),
        Err(RpcError::ProcedureUnavailable),
        Err(RpcError::GarbageArguments),
        Err(RpcError::SystemError),
        Err(RpcError::RpcMismatch { low: 2, high: 2 }),
        Err(RpcError::Authentication(5)),
    ]
}

/// Replies that are lists, as encoded by this crate.
fn lists() -> Vec<Vec<u8>> {
    let flavors = mount3::Flavors::from_slice(&[1, 0]);
    let mounted = mount3::Mounted { host: b"client", dir: b"/export" };
    let export = mount3::Export { dir: b"/export", groups: &[b"net", b"*"] };
    let mapping = portmap::Mapping { program: 100_003, version: 3, protocol: 6, port: 2049 };
    let root = common::file();
    let mount = |small, reply: mount3::Reply<'_>| message(&[selector(small)], |w| reply.encode(w));
    let portmap =
        |small, reply: portmap::Reply<'_>| message(&[selector(small)], |w| reply.encode(w));
    vec![
        mount(RpcMessage::Mnt3, mount3::Reply::Mnt(Ok(mount3::MountOk { root, flavors }))),
        mount(RpcMessage::Mnt3, mount3::Reply::Mnt(Err(mount3::MountStatus::from_number(13)))),
        mount(RpcMessage::Exports, mount3::Reply::Export(&[export, export])),
        mount(RpcMessage::Mounts, mount3::Reply::Dump(&[mounted, mounted])),
        portmap(RpcMessage::Mappings, portmap::Reply::Dump(&[mapping, mapping])),
        portmap(RpcMessage::Port, portmap::Reply::Getport(2049)),
    ]
}

fn nfs2_messages() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for procedure in nfs2::Procedure::ALL {
        let number = procedure.number() as u8;
        all.extend(shapes(&[number], |reader| nfs2::Call::decode(procedure, reader).is_ok()));
        let reply = [REPLY | number];
        all.extend(shapes(&reply, |reader| nfs2::Reply::decode(procedure, reader).is_ok()));
    }
    all
}

fn nfs3_messages() -> Vec<Vec<u8>> {
    let mut names = Vec::new();
    let mut plus = Vec::new();
    let number = |procedure: nfs3::Procedure| procedure.number() as u8;
    let calls = common::calls();
    let calls = calls.iter().map(|call| message(&[number(call.procedure())], |w| call.encode(w)));
    let mut all: Vec<Vec<u8>> = calls.collect();
    let replies = common::replies(&mut names, &mut plus);
    let replies = replies.into_iter().chain(common::failures());
    all.extend(
        replies.map(|reply| message(&[REPLY | number(reply.procedure())], |w| reply.encode(w))),
    );
    all
}

fn nfs4_messages() -> Vec<Vec<u8>> {
    let part = |part: DecodedPart| {
        DecodedPart::ALL.iter().position(|one| *one == part).expect("one") as u8
    };
    let ops = ops::ops();
    let results = results::results();
    let with = |selector: DecodedPart, bytes: &[u8]| [&[part(selector)], bytes].concat();
    let mut all: Vec<Vec<u8>> = Vec::new();
    all.extend(ops.iter().map(|(_, bytes)| with(DecodedPart::Op, bytes)));
    all.extend(results.iter().map(|(_, bytes)| with(DecodedPart::Result, bytes)));
    for (_, bytes) in &results {
        let head = [0_u32, 0, 1].map(u32::to_be_bytes).concat();
        all.push(with(DecodedPart::CompoundReply, &[&head, &bytes[..]].concat()));
    }
    for minor in 0..3 {
        let picked: Vec<&Op<'_>> = ops.iter().map(|(op, _)| op).collect();
        for few in picked.chunks(4) {
            let mut bytes = vec![part(DecodedPart::Compound)];
            let mut builder = CompoundBuilder::new(&mut bytes, b"tag", minor);
            for op in few {
                builder.push(op);
            }
            builder.finish();
            all.push(bytes);
        }
    }
    for part in [DecodedPart::Attributes, DecodedPart::Callback, DecodedPart::CallbackReply] {
        let attributes = [2_u32, 0x0010_011a, 0x0030_a23a, 0].map(u32::to_be_bytes).concat();
        all.push(with(part, &attributes));
    }
    let bodies = layouts::bodies();
    all.extend(bodies.iter().map(|text| with(DecodedPart::LayoutBody, &common::hex(text))));
    all
}

//! Any list of operations gets a well-formed answer, and the server keeps running.
//!
//! The lists are drawn from one seed, using small pools of handles, stateids, names and numbers, so
//! that they often make sense and often hit the limits of valid requests.

use nfs_proto::Status;
use nfs_proto::nfs4::{
    Bitmap, Claim, ClientId, CreateKind, Fattr, FileHandle, List, LockType, Locker, Op, OpenHow,
    StableHow, StateOwner, Stateid, Verifier, XattrOption,
};
use nfs_server::ServerConfig;

use super::fixtures::{Peer, Plain, Reply4, compound, mode, size};
use crate::client::start;

const ROUNDS: u32 = 1_500;
const NUMBERS: [u64; 8] = [0, 1, 2, 5, 4096, 300_000, u64::MAX - 1, u64::MAX];
const NAMES: [&[u8]; 8] = [b"export", b"a", b"b", b"d", b"", b"..", b"x/y", &[b'n'; 300]];

/// Larger than the maximum of an extended attribute.
static LARGE_VALUE: [u8; 65_537] = [b'v'; 65_537];

/// Numbers of one seed. **Source:** xorshift64, Marsaglia 2003, triple (13, 7, 17).
struct RandomNumbers(u64);

impl RandomNumbers {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 20) as usize % limit
    }

    fn pick<T: Copy>(&mut self, pool: &[T]) -> T {
        pool[self.below(pool.len())]
    }

    fn number(&mut self) -> u64 {
        self.pick(&NUMBERS)
    }

    fn short(&mut self) -> u32 {
        self.number() as u32
    }
}

/// The pools from which operations are drawn.
struct Pools<'a> {
    client: ClientId,
    files: Vec<FileHandle>,
    stateids: Vec<Stateid>,
    fattrs: [Fattr<'a>; 3],
}

impl<'a> Pools<'a> {
    fn op(&self, draw: &mut RandomNumbers) -> Op<'a> {
        let name = draw.pick(&NAMES);
        let stateid = draw.pick(&self.stateids);
        match draw.below(9) {
            0 => Op::Putfh { file: draw.pick(&self.files) },
            1 => self.directory_op(name, draw),
            2 | 3 => self.object_op(stateid, draw),
            4 | 5 => self.data_op(stateid, draw),
            6 => self.open_op(name, stateid, draw),
            7 => xattr_op(name, draw),
            _ => self.lock_op(stateid, draw),
        }
    }

    fn directory_op(&self, name: &'a [u8], draw: &mut RandomNumbers) -> Op<'a> {
        let attributes = draw.pick(&self.fattrs);
        let kind = draw.pick(&[CreateKind::Directory, CreateKind::Fifo, CreateKind::Other(1)]);
        draw.pick(&[
            Op::Lookup { name },
            Op::Create { kind, name, attributes },
            Op::Remove { name },
            Op::Rename { from: b"a", to: name },
            Op::Link { name },
            Op::Secinfo { name },
        ])
    }

    fn object_op(&self, stateid: Stateid, draw: &mut RandomNumbers) -> Op<'a> {
        let attributes = draw.pick(&self.fattrs);
        let request = Bitmap::from_numbers(&[draw.below(128) as u32, draw.below(60) as u32]);
        let cookie = draw.number();
        let maxcount = draw.short();
        draw.pick(&[
            Op::Putrootfh,
            Op::Savefh,
            Op::Restorefh,
            Op::Lookupp,
            Op::Readlink,
            Op::Getattr { request },
            Op::Verify { attributes },
            Op::Nverify { attributes },
            Op::Setattr { stateid, attributes },
            Op::Readdir { cookie, verifier: Verifier::default(), dircount: 0, maxcount, request },
            Op::SecinfoNoName { style: maxcount },
        ])
    }

    fn data_op(&self, stateid: Stateid, draw: &mut RandomNumbers) -> Op<'a> {
        let offset = draw.number();
        let length = draw.number();
        let count = draw.short();
        let source = draw.pick(&self.stateids);
        draw.pick(&[
            Op::Read { stateid, offset, count },
            Op::Write { stateid, offset, stable: StableHow::Unstable, data: &[7; 5000] },
            Op::Commit { offset, count },
            Op::Allocate { stateid, offset, length },
            Op::Deallocate { stateid, offset, length },
            Op::Seek { stateid, offset, what: count },
            Op::ReadPlus { stateid, offset, count },
            Op::Copy {
                source,
                destination: stateid,
                source_offset: offset,
                destination_offset: length,
                count: u64::from(count),
                consecutive: true,
                synchronous: true,
                servers: List::default(),
            },
        ])
    }

    fn open_op(&self, name: &'a [u8], stateid: Stateid, draw: &mut RandomNumbers) -> Op<'a> {
        let seqid = draw.short();
        let share_access = draw.below(5) as u32;
        let share_deny = draw.below(4) as u32;
        let owner = StateOwner { client: self.client, owner: draw.pick(&[b"o", b"p"]) };
        let attributes = draw.pick(&self.fattrs);
        let verifier = Verifier::default();
        let hows = [
            OpenHow::NoCreate,
            OpenHow::Unchecked(attributes),
            OpenHow::Guarded(attributes),
            OpenHow::Exclusive(verifier),
            OpenHow::ExclusiveWith(verifier, attributes),
        ];
        let how = draw.pick(&hows);
        let claims = [Claim::Name(name), Claim::Current, Claim::Previous(0)];
        let claim = draw.pick(&claims);
        draw.pick(&[
            Op::Open { seqid, share_access, share_deny, owner, how, claim },
            Op::OpenConfirm { stateid, seqid },
            Op::OpenDowngrade { stateid, seqid, share_access, share_deny },
            Op::Close { seqid, stateid },
        ])
    }

    fn lock_op(&self, stateid: Stateid, draw: &mut RandomNumbers) -> Op<'a> {
        let offset = draw.number();
        let length = draw.number();
        let seqid = draw.short();
        let owner = StateOwner { client: self.client, owner: draw.pick(&[b"l", b"m"]) };
        let new = Locker::New { open_seqid: seqid, open: stateid, lock_seqid: draw.short(), owner };
        let locker = draw.pick(&[new, Locker::Existing { lock: stateid, lock_seqid: seqid }]);
        let lock_type = draw.pick(&[LockType::Read, LockType::WriteBlocking]);
        draw.pick(&[
            Op::Lock { lock_type, reclaim: false, offset, length, locker },
            Op::Lockt { lock_type, offset, length, owner },
            Op::Locku { lock_type, seqid, stateid, offset, length },
            Op::ReleaseLockowner { owner },
            Op::FreeStateid { stateid },
        ])
    }
}

fn xattr_op<'a>(name: &'a [u8], draw: &mut RandomNumbers) -> Op<'a> {
    let cookie = draw.number();
    let maxcount = draw.short();
    let option = draw.pick(&[XattrOption::Either, XattrOption::Create, XattrOption::Replace]);
    let value = draw.pick(&[&b"value"[..], b"", &LARGE_VALUE[..65_536], &LARGE_VALUE]);
    draw.pick(&[
        Op::Getxattr { name },
        Op::Setxattr { option, name, value },
        Op::Listxattrs { cookie, maxcount },
        Op::Removexattr { name },
    ])
}

/// Sends random requests, and checks each answer.
fn ask(pools: &Pools<'_>, seed: u64, mut call: impl FnMut(&[Op<'_>]) -> Reply4) {
    let mut draw = RandomNumbers(seed);
    let mut successes = 0;
    for _ in 0..ROUNDS {
        let mut ops = vec![Op::Putfh { file: draw.pick(&pools.files) }];
        ops.extend((0..draw.below(6)).map(|_| pools.op(&mut draw)));
        let reply = call(&ops);
        let results = reply.results();
        assert!(results.len() <= ops.len() + 1, "{ops:?} {results:?}");
        let (_, before) = results.split_last().unwrap();
        assert!(before.iter().all(|result| result.status() == Status::Ok), "{results:?}");
        successes += u32::from(reply.status() == Status::Ok);
    }
    assert!(successes > ROUNDS / 10, "only {successes} of {ROUNDS} succeeded");
}

#[test]
fn any_list_of_operations_is_answered() {
    let server = start(ServerConfig { memory_limit_bytes: 8 << 20, ..ServerConfig::default() });
    let mut peer = Peer::new(&server, 2, b"modern");
    let mut plain = Plain::new(&server, b"plain", 1);
    let mut one = Vec::new();
    let mut two = Vec::new();
    let fattrs = [Fattr::default(), mode(0o640, &mut one), size(300_000, &mut two)];
    let (file, modern) = peer.open("a");
    let (_, old) = plain.open("a", b"o");
    let directory = peer.call(&[Op::Putrootfh, Op::Lookup { name: b"export" }, Op::Getfh]).file();
    let special = [Stateid::ANONYMOUS, Stateid::READ_BYPASS, Stateid::CURRENT, Stateid::INVALID];
    let stateids = [&special[..], &[modern, modern, old, old]].concat();
    let files = vec![file, directory, directory];
    let pools = Pools { client: plain.id, files, stateids, fattrs };
    for seed in [1, 2] {
        ask(&pools, seed, |ops| compound(&mut plain.client, 0, ops));
        for cache_this in [false, true] {
            ask(&pools, seed, |ops| {
                peer.sequence += 1;
                peer.again(ops, cache_this)
            });
        }
    }
    assert_eq!(peer.call(&[Op::Putrootfh]).status(), Status::Ok);
}

//! Checks of data, byte for byte.
//!
//! The content of a file depends only on the offset, so any part of it can be compared by itself,
//! and misplaced data is detected.

use std::time::Duration;

use nfs_client::Scratch;
use nfs_client::proto::client::{
    Data, File, Operation, Outcome, PayloadRange, ProtocolVersion, StartError,
};
use nfs_client::proto::nfs3::{Sattr, StableHow, Status};

use crate::CheckResult;
use crate::names::same;
use crate::tested_client::{TestedClient, clock};

/// Size of the pool for writes in flight, in bytes: deliberately not a multiple of anything.
pub const POOL_BYTES: usize = (2 << 20) + 12_347;
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns the content of any file between two offsets.
pub fn content(offset: u64, len: usize) -> Vec<u8> {
    let byte = |at: u64| {
        let word = (at >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (word ^ (word >> 29)).to_le_bytes()[(at & 7) as usize]
    };
    (offset..offset + len as u64).map(byte).collect()
}

/// Transfers of various odd sizes, several in flight.
pub fn sizes(client: &mut TestedClient) -> CheckResult {
    let (rsize, wsize) = client.transfer_bytes;
    for (number, len) in [1 << 20, 65_536, 100_001, 32_768, 8_192, 4_097].into_iter().enumerate() {
        let name = format!("sizes-{number}");
        let file = client.create(&name)?;
        transfer(client, &file, len.min(wsize), true)?;
        if client.version.has_commit() {
            client.done(&Operation::Commit { file: &file, offset: 0, count: 0 })?;
        }
        client.close(&file)?;
        let file = client.open(&name)?;
        same("size", &client.attributes(&file)?.size, &(POOL_BYTES as u64))?;
        transfer(client, &file, len.min(rsize), false)?;
        let end = client.read(&file, POOL_BYTES as u64 - 5, 100)?;
        same("the end of the file", &end, &content(POOL_BYTES as u64 - 5, 5))?;
        client.close(&file)?;
    }
    Ok(())
}

/// Moves the whole pool in transfers of `len` bytes and compares the data read.
fn transfer(client: &mut TestedClient, file: &File, len: u32, writing: bool) -> CheckResult {
    let want = content(0, POOL_BYTES);
    let range = |tag: u32| {
        let start = tag as usize * len as usize;
        PayloadRange { start, len: len.min((POOL_BYTES - start) as u32) }
    };
    let count = POOL_BYTES.div_ceil(len as usize) as u32;
    let mut started = 0;
    let mut ended = 0;
    let clock = clock();
    let connection = client.connection();
    let mut scratch = Scratch::new();
    let mut wrong = None;
    let mut moved_ns = 0;
    // After a mismatch, wait for the remaining answers but request no more.
    while ended < count && (wrong.is_none() || connection.in_flight() > 0) {
        while started < count && connection.free_slots() > 0 && wrong.is_none() {
            let payload = range(started);
            let offset = payload.start as u64;
            let stable = StableHow::Unstable;
            let data = Data::Pool(payload);
            let operation = if writing {
                Operation::Write { file, offset, stable, data }
            } else {
                Operation::Read { file, offset, count: payload.len }
            };
            let begun = connection.start(clock(), started, &operation);
            begun.map_err(|error| error.to_string())?;
            started += 1;
        }
        let moved = connection.wait(&mut scratch, &clock, PATIENCE, &mut |event| {
            let requested = range(event.tag);
            let right = match event.result {
                Ok(Outcome::Written { count, .. }) => count == requested.len,
                Ok(Outcome::Read { count, .. }) => {
                    count == requested.len
                        && event.payload == &want[requested.start..][..count as usize]
                }
                _ => false,
            };
            if !right {
                wrong = Some(format!("{}: {:?} at {requested:?}", event.kind, event.result));
            }
        });
        let moved = moved.map_err(|error| error.to_string())?;
        ended += moved as u32;
        if moved > 0 {
            moved_ns = clock();
        } else if Duration::from_nanos(clock() - moved_ns) > PATIENCE {
            return Err("no answer".to_owned());
        }
    }
    wrong.map_or(Ok(()), Err)
}

/// FILE_SYNC and DATA_SYNC must not be answered with less; COMMIT has the verifier of the WRITE.
pub fn durability(client: &mut TestedClient) -> CheckResult {
    let file = client.create("durable")?;
    for stable in [StableHow::FileSync, StableHow::DataSync, StableHow::Unstable] {
        let bytes = content(0, 5_000);
        let data = Data::Bytes(&bytes);
        let outcome = client.one(&Operation::Write { file: &file, offset: 0, stable, data })?;
        let Outcome::Written { count: 5_000, committed, verifier } = outcome else {
            return Err(format!("WRITE gave {outcome:?}"));
        };
        if (committed as u32) < stable as u32 {
            return Err(format!("requested {stable:?}, got {committed:?}"));
        }
        let commit = client.one(&Operation::Commit { file: &file, offset: 0, count: 0 })?;
        same("verifier of COMMIT", &commit, &Outcome::Committed { verifier })?;
    }
    client.close(&file)
}

/// Truncated data is gone, an extended range is zero.
pub fn truncation(client: &mut TestedClient) -> CheckResult {
    let file = client.create("cut")?;
    client.write(&file, 0, &content(0, 20_000), StableHow::FileSync)?;
    for size in [7_001, 15_003] {
        let attributes = Sattr { size: Some(size), ..Sattr::default() };
        client.done(&Operation::Setattr { file: &file, attributes })?;
        same("size", &client.attributes(&file)?.size, &size)?;
    }
    let mut want = content(0, 7_001);
    want.resize(15_003, 0);
    same("content", &(client.read(&file, 0, 30_000)? == want), &true)?;
    client.close(&file)
}

/// A few bytes at offsets that need more than 32 bits, with zeros in between; v2 has to refuse it.
pub fn sparse(client: &mut TestedClient) -> CheckResult {
    let file = client.create("sparse")?;
    if client.version == ProtocolVersion::V2 {
        return too_large(client, &file);
    }
    let end = client.large_bytes;
    let places = [0, (1 << 31) - 3, (1_u64 << 32) - 2_001, 1 << 32, end - 4_001];
    for offset in places.into_iter().filter(|offset| offset + 4_001 <= end) {
        client.write(&file, offset, &content(offset, 4_001), StableHow::Unstable)?;
    }
    client.done(&Operation::Commit { file: &file, offset: 0, count: 0 })?;
    same("size", &client.attributes(&file)?.size, &end)?;
    for offset in places.into_iter().filter(|offset| offset + 4_001 <= end) {
        let same_bytes = client.read(&file, offset, 4_001)? == content(offset, 4_001);
        same(&format!("content at {offset}"), &same_bytes, &true)?;
    }
    let hole = client.read(&file, 1 << 30, 100_000)?;
    same("zeros in the hole", &(hole == vec![0; 100_000]), &true)?;
    client.close(&file)
}

/// Version 2 can't express an offset beyond 2 GiB; the client reports that before it sends
/// anything.
fn too_large(client: &mut TestedClient, file: &File) -> CheckResult {
    let begun =
        client.connection().start(0, 0, &Operation::Read { file, offset: 1_u64 << 31, count: 100 });
    match begun {
        Err(StartError::FileTooLarge { .. }) => {}
        other => return Err(format!("READ beyond 2 GiB: {other:?}")),
    }
    let attributes = Sattr { size: Some(1 << 33), ..Sattr::default() };
    match client.connection().start(0, 0, &Operation::Setattr { file, attributes }) {
        Err(StartError::FileTooLarge { .. }) => client.close(file),
        Ok(()) => Err("v2 sent a SETATTR to 8 GiB".to_owned()),
        Err(error) => Err(format!("SETATTR to 8 GiB: {error}")),
    }
}

/// Returns true if a status means that the server lacks an operation.
pub fn is_unsupported(status: Option<Status>) -> bool {
    matches!(status, Some(Status::NotSupp))
}

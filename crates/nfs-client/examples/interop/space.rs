//! Checks of limits, and of v4.2's operations on space.
//!
//! A server may lack some of the operations of v4.2; then it must return the right error.

use nfs_client::proto::client::{Operation, Outcome, SeekWhat};
use nfs_client::proto::nfs3::StableHow;
use nfs_client::proto::nfs4::Segment;

use crate::data::{content, is_unsupported};
use crate::names::same;
use crate::tested_client::TestedClient;
use crate::{CheckResult, tested_client};

/// Limits must be consistent.
pub fn limits(client: &mut TestedClient) -> CheckResult {
    let root = client.dir;
    match client.one(&Operation::Fsstat { root: &root })? {
        Outcome::Fsstat(stat) if stat.total_bytes >= stat.free_bytes && stat.total_bytes > 0 => {}
        other => return Err(format!("FSSTAT gave {other:?}")),
    }
    if tested_client::is_not_v2(client) {
        match client.one(&Operation::Fsinfo { root: &root })? {
            Outcome::Fsinfo(info) if info.read_bytes_max >= 512 && info.write_bytes_max >= 512 => {}
            other => return Err(format!("FSINFO gave {other:?}")),
        }
        match client.one(&Operation::Pathconf { file: &root })? {
            Outcome::Pathconf(limits) if limits.name_bytes_max >= 14 => {}
            other => return Err(format!("PATHCONF gave {other:?}")),
        }
    }
    Ok(())
}

/// ALLOCATE keeps data, DEALLOCATE makes zeros, SEEK and READ_PLUS agree with the content.
pub fn holes(client: &mut TestedClient) -> CheckResult {
    let file = client.create("holes")?;
    let len = 256 * 1024;
    client.write(&file, 0, &content(0, len), StableHow::FileSync)?;
    client.done(&Operation::Allocate { file: &file, offset: 0, len: 2 * len as u64 })?;
    same("size after ALLOCATE", &client.attributes(&file)?.size, &(2 * len as u64))?;
    let offset = 65_536;
    let hole = 65_536;
    client.done(&Operation::Deallocate { file: &file, offset, len: hole })?;
    let mut want = content(0, len);
    want[65_536..131_072].fill(0);
    same("content", &(client.read(&file, 0, len)? == want), &true)?;
    for (what, from) in [(SeekWhat::Data, 0), (SeekWhat::Hole, 0), (SeekWhat::Data, offset)] {
        match client.try_one(&Operation::Seek { file: &file, offset: from, what })? {
            Ok(Outcome::Found { offset, eof }) => {
                if !eof && offset < from {
                    return Err(format!("SEEK from {from} went back to {offset}"));
                }
            }
            Err(error) if is_unsupported(error.status()) => {}
            other => return Err(format!("SEEK gave {other:?}")),
        }
    }
    let count = client.transfer_bytes.0.min(len as u32);
    let read_plus = Operation::ReadPlus { file: &file, offset: 0, count };
    let found = client.event(&read_plus, |event| match event.result {
        Ok(Outcome::Segments { .. }) => Ok(Some(put_together(event.segments()?, count as usize))),
        Err(error) if is_unsupported(error.status()) => Ok(None),
        other => other.map(|_| None),
    })?;
    if let Some(got) = found.map_err(|error| format!("READ_PLUS: {error}"))? {
        let right = got.iter().zip(&want).take_while(|(got, want)| got == want).count();
        if right < got.len() || (got.is_empty() && !client.empty_read_plus) {
            return Err(format!(
                "READ_PLUS returned {} bytes, of which {right} are correct",
                got.len()
            ));
        }
    }
    client.close(&file)
}

/// Assembles data and holes, up to `len` bytes from the start of the file.
fn put_together<'a>(pieces: impl Iterator<Item = Segment<'a>>, len: usize) -> Vec<u8> {
    let mut got = Vec::new();
    for piece in pieces {
        match piece {
            Segment::Data(_, bytes) => got.extend_from_slice(bytes),
            Segment::Hole(_, hole) => {
                got.resize(len.min(got.len().saturating_add(hole as usize)), 0);
            }
        }
    }
    got
}

/// A copy within the server has the bytes of its source.
pub fn copy(client: &mut TestedClient) -> CheckResult {
    let from = client.create("from")?;
    let to = client.create("to")?;
    let len = 300_001;
    client.write(&from, 0, &content(0, len), StableHow::FileSync)?;
    let copy = Operation::Copy {
        from: &from,
        from_offset: 0,
        to: &to,
        to_offset: 0,
        len: len as u64,
        synchronous: true,
    };
    match client.try_one(&copy)? {
        Ok(Outcome::Copied { count, .. }) => same("bytes copied", &count, &(len as u64))?,
        Err(error) if is_unsupported(error.status()) => return Ok(()),
        other => return Err(format!("COPY gave {other:?}")),
    }
    same("the copy", &(client.read(&to, 0, 2 * len)? == content(0, len)), &true)?;
    client.close(&from)?;
    client.close(&to)
}

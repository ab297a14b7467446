//! Disturbances of a server in a soak, and their undoing: nfsd stopped, way cut, disk filled.
//!
//! The cut befalls what leaves from the port of NFS and nothing else, so that the way by which the
//! host is told to end it stays open. **Source:** rpc.nfsd(8), tc-prio(8), tc-netem(8), tc-u32(8),
//! fallocate(1).

use std::fs::File;
use std::path::{Path, PathBuf};

use model::EffectiveSettings;
use rustix::fs::FallocateFlags;

use super::{Known, nfsd, shape};
use crate::commands::{Runner, SOON, is_root};
use crate::error::LabError;
use crate::findings::Findings;
use crate::step::Step;
use crate::trust;
use crate::undo::Undo;

/// Name of the file that fills a file system.
const FILLER: &str = ".dfsbench-filler";

/// Space that is left on a file system that is filled, in bytes.
const LEFT: u64 = 1 << 20;

/// A smaller piece of room than this isn't requested.
const PIECE_MIN: u64 = 64 << 10;

/// Stops the kernel's server.
pub fn stop_steps() -> Vec<Step> {
    vec![Step::run(["rpc.nfsd", "0"])]
}

/// Starts it as it was.
///
/// # Errors
/// Where none runs.
pub fn stop_undo(known: &Known) -> Result<Vec<Undo>, LabError> {
    let state = known.nfsd.state.clone();
    if state.threads == 0 {
        return Err(LabError::Refused("no nfsd runs that could be stopped".to_owned()));
    }
    Ok(vec![Undo::Nfsd { state }])
}

/// Reads back that it stands.
pub fn check_stop() -> EffectiveSettings {
    let mut findings = Findings::new("server");
    let threads = nfsd::State::now().threads.to_string();
    let source = Path::new(nfsd::FOLDER).join("threads").display().to_string();
    findings.compare("threads of nfsd", "0", &threads, &source);
    findings.done()
}

/// Loses all that leaves an interface from a port.
pub fn cut_steps(interface: &str, port: u16) -> Vec<Step> {
    let (class, port) = (format!("{}4", shape::HANDLE), port.to_string());
    let to_band = |protocol: &'static str, word: &'static str, number: &'static str| {
        let match_port = ["u32", "match", word, "sport", &port, "0xffff", "flowid", &class];
        let place = ["parent", shape::HANDLE, "protocol", protocol, "prio", number];
        let words = ["tc", "filter", "add", "dev", interface].into_iter().chain(place);
        Step::run(words.chain(match_port).map(str::to_owned))
    };
    let qdisc = |words: &[&str]| {
        let words =
            ["tc", "qdisc", "add", "dev", interface].into_iter().chain(words.iter().copied());
        Step::run(words.map(str::to_owned))
    };
    vec![
        // The usual three bands, and one more that nothing but the filters lead to.
        qdisc(&["root", "handle", shape::HANDLE, "prio", "bands", "4"]),
        qdisc(&["parent", &class, "handle", shape::INNER, "netem", "loss", "100%"]),
        to_band("ip", "ip", "1"),
        to_band("ipv6", "ip6", "2"),
    ]
}

/// Fills a file system, but for a last mebibyte.
pub fn fill_steps(point: &Path) -> Vec<Step> {
    vec![Step::Fill(filler(point))]
}

/// Takes all room of the file system that a file is on, but for a last mebibyte.
///
/// A file system keeps some of its room for itself (ext4: 16 MiB), and others write meanwhile: what
/// can't be had at once is requested in smaller pieces. Of what is refused a part may be taken.
///
/// # Errors
/// Where hardly anything can be had.
pub fn fill(runner: &mut Runner, file: &Path) -> Result<(), LabError> {
    let point = file.parent().unwrap_or(file);
    let path = file.display().to_string();
    // Clients may write there: what one of them has put in its place is not followed.
    let filler = if is_root() { Some(trust::create_new(file)?) } else { None };
    let room = free_bytes(point);
    let mut piece = room;
    loop {
        // Root's files are not always ours to read, but how long they are can be seen.
        let taken = file.metadata().map_or(0, |found| found.len());
        piece = piece.min(free_bytes(point).saturating_sub(LEFT)).max(1);
        let refused = match take_room(runner, filler.as_ref(), &path, [taken, piece]) {
            Ok(()) => None,
            Err(error) => {
                piece /= 16;
                Some(error)
            }
        };
        let free = free_bytes(point);
        let is_over = piece < PIECE_MIN || taken >= room || free <= LEFT + PIECE_MIN;
        match refused {
            Some(error) if is_over && free > room / 2 => return Err(error),
            _ if is_over => return Ok(()),
            _ => {}
        }
    }
}

/// Takes a piece of a file, from an offset on; by sudo where we aren't root.
fn take_room(
    runner: &Runner,
    filler: Option<&File>,
    path: &str,
    [offset, length]: [u64; 2],
) -> Result<(), LabError> {
    if let Some(filler) = filler {
        let taken = rustix::fs::fallocate(filler, FallocateFlags::empty(), offset, length);
        return taken.map_err(|errno| LabError::file("fill", Path::new(path), errno.into()));
    }
    let [offset, length] = [offset, length].map(|bytes| bytes.to_string());
    let argv = ["fallocate", "--offset", &offset, "--length", &length, "--", path];
    runner.run(&argv, SOON).map(drop)
}

/// Removes what fills it.
///
/// # Errors
/// Where something of that name is there already.
pub fn fill_undo(point: &Path) -> Result<Vec<Undo>, LabError> {
    let path = filler(point);
    if path.symlink_metadata().is_ok() {
        let path = path.display();
        return Err(LabError::Refused(format!("{path} is there already (hint: dfsbench clean)")));
    }
    Ok(vec![Undo::File { path }])
}

/// Reads back what is left.
pub fn check_fill(point: &Path) -> EffectiveSettings {
    let mut findings = Findings::new("server");
    let left = free_bytes(point).to_string();
    findings.fact("bytes free on the filled file system", left, "statvfs");
    findings.done()
}

/// Bytes that root may still use where something is mounted; 0 where that can't be told.
pub fn free_bytes(point: &Path) -> u64 {
    rustix::fs::statvfs(point).map_or(0, |stat| stat.f_bfree.saturating_mul(stat.f_frsize))
}

fn filler(point: &Path) -> PathBuf {
    point.join(FILLER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_befalls_what_leaves_from_the_port_alone() {
        let steps: Vec<String> = cut_steps("eth0", 2049).iter().map(ToString::to_string).collect();
        assert_eq!(
            steps,
            [
                "tc qdisc add dev eth0 root handle df5: prio bands 4",
                "tc qdisc add dev eth0 parent df5:4 handle df6: netem loss 100%",
                "tc filter add dev eth0 parent df5: protocol ip prio 1 u32 match ip sport 2049 \
                 0xffff flowid df5:4",
                "tc filter add dev eth0 parent df5: protocol ipv6 prio 2 u32 match ip6 sport 2049 \
                 0xffff flowid df5:4",
            ]
        );
    }

    #[test]
    fn a_disk_is_filled_but_for_a_mebibyte_and_the_filler_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let steps = fill_steps(folder.path());
        let said = steps[0].to_string();
        assert!(said.starts_with("fallocate --length (all but 1 MiB) -- /"), "{said}");
        let file = folder.path().join(FILLER);
        assert_eq!(fill_undo(folder.path()).unwrap(), [Undo::File { path: file.clone() }]);
        std::fs::write(&file, "x").unwrap();
        assert!(fill_undo(folder.path()).unwrap_err().to_string().contains("there already"));
        assert!(free_bytes(folder.path()) > 0);
    }

    #[test]
    fn who_does_not_run_can_t_be_stopped() {
        let error = stop_undo(&Known::default()).unwrap_err().to_string();
        assert!(error.contains("no nfsd runs"), "{error}");
    }
}

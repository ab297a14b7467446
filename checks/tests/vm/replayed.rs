//! Traffic of a kernel mount, captured on the wire and replayed: on the kernel's server, ganesha,
//! ours, and in a directory.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use checks::check::Fixture;
use checks::checks;
use checks::ganesha::Ganesha;
use checks::proc::{self, Background};
use checks::traces::{TransferredBytes, replay_faithfully};
use checks::vm::guest::Mount;
use checks::vm::lab::Lab;
use checks::vm::peer::{OURS, ours_inside};
use serde::Deserialize;
use tempfile::TempDir;

use super::{NEW, SERVERS, run_in};

/// The tap of [`NEW`], and the timeout for starting and ending a capture. The bridge itself only
/// sees packets for this machine.
const TAP: &str = "tap11";
const PATIENCE: Duration = Duration::from_secs(20);

/// The steps of a build: sources are unpacked, read, compiled to files that are renamed when
/// complete, linked, and removed.
const WORK: &str = "cd /mnt/nfs; mkdir src obj; \
    for n in $(seq 12); do head -c $((n * 700)) /dev/urandom >src/$n.c; done; cd /; again; \
    cd /mnt/nfs; for n in $(seq 12); do [ ! -e src/$n.h ]; gzip <src/$n.c >obj/$n.o.tmp; \
    mv obj/$n.o.tmp obj/$n.o; done; cat obj/*.o >all; dd if=/dev/zero of=disk bs=64k count=20 \
    conv=fsync 2>/dev/null; dd if=/dev/urandom of=disk bs=4k seek=7 count=5 conv=notrunc,fsync \
    2>/dev/null; truncate -s 100000 disk; ln all other; ln -s all link; readlink link; \
    touch -d 2020-01-01 all; ls -lR >/dev/null; cd /; again; cd /mnt/nfs; cat all disk >/dev/null; \
    rm -r src obj; rm all other link disk; cd /";

/// Reads and writes of several sizes at random offsets of three files, with fsync. Each is one
/// operation on the wire: it bypasses the cache and is smaller than the mount's maximum.
const FIO: &str = "fio --directory=/mnt/nfs --name=mix --thread --numjobs=3 --group_reporting \
    --rw=randrw --rwmixread=60 --bssplit=4k/60:16k/30:60k/10 --size=1m --direct=1 --fsync=8 \
    --randseed=7 --output-format=json";

static GANESHA: Fixture<Ganesha> = Fixture::new(Ganesha::start);

checks! {
    #[ignore = "takes a quarter of a minute: runs every night"]
    replays_traffic_of_kernel_v3: 300 s, replayed("3");
    replays_traffic_of_kernel_v4_2: 300 s, replayed("4.2");
    #[ignore = "takes a quarter of a minute: runs every night"]
    replays_fio_on_kernel_v3: 300 s, fio_replayed("3");
    replays_fio_on_kernel_v4_2: 300 s, fio_replayed("4.2");
}

fn replayed(version: &'static str) -> Result<()> {
    run_in(&SERVERS, |lab| {
        let folder = TempDir::with_prefix("dfsbench-replay-")?;
        let work = Work { lab, version, folder: folder.path() };
        work.capture(WORK)?;
        work.replay_everywhere().map(drop)
    })
}

/// Captures a run of fio, whose counts must match the trace, and replays it.
fn fio_replayed(version: &'static str) -> Result<()> {
    run_in(&SERVERS, |lab| {
        let folder = TempDir::with_prefix("dfsbench-replay-")?;
        let work = Work { lab, version, folder: folder.path() };
        work.run(&format!("{FIO} --create_only=1 >/dev/null"))?;
        let printed = work.capture(&format!("{FIO}; rm /mnt/nfs/mix.*"))?;
        let (_, json) = printed.split_once('{').context("fio printed no JSON")?;
        let fio: Fio = serde_json::from_str(&format!("{{{json}")).context(printed.clone())?;
        let [FioJob { read, write }] = &fio.jobs[..] else { bail!("no job in {printed}") };
        let mut describe = OURS.command();
        describe.arg("describe").arg(work.trace()).args(["--format", "json"]);
        let seen: DescribedTrace = serde_json::from_slice(&proc::capture_stdout(&mut describe)?)?;
        for (what, by_fio, in_trace) in
            [("read", read, &seen.reads), ("written", write, &seen.writes)]
        {
            ensure!(by_fio.total_ios > 50, "{what}: {by_fio:?}");
            let want = InTrace { ops: by_fio.total_ios, bytes: by_fio.io_bytes };
            ensure!(*in_trace == want, "{what}: fio counts {want:?}, the trace has {in_trace:?}");
        }
        let want = TransferredBytes { read: read.io_bytes, written: write.io_bytes };
        for moved in work.replay_everywhere()? {
            ensure!(moved == want, "a replay has moved {moved:?} instead of {want:?}");
        }
        Ok(())
    })
}

/// The part of fio's output that is compared.
#[derive(Deserialize)]
struct Fio {
    jobs: Vec<FioJob>,
}

#[derive(Deserialize)]
struct FioJob {
    read: ByFio,
    write: ByFio,
}

#[derive(Debug, Deserialize)]
struct ByFio {
    total_ios: u64,
    io_bytes: u64,
}

/// The part of a description that is compared with fio.
#[derive(Deserialize)]
struct DescribedTrace {
    reads: InTrace,
    writes: InTrace,
}

#[derive(Debug, PartialEq, Eq, Deserialize)]
struct InTrace {
    ops: u64,
    bytes: u64,
}

/// Work of a client on a mount with this version, and the directory of its trace.
struct Work<'a> {
    lab: &'static Lab,
    version: &'static str,
    folder: &'a Path,
}

impl Work<'_> {
    fn trace(&self) -> PathBuf {
        self.folder.join("kernel.dfst")
    }

    /// Mounts, runs a script and unmounts; returns the output.
    fn run(&self, script: &str) -> Result<String> {
        let options = format!("vers={},proto=tcp", self.version);
        let source = "server:/export";
        let output = Mount { lab: self.lab, client: NEW, source, options: &options }.run(script)?;
        Ok(output.lines.join("\n"))
    }

    /// Same as [`Work::run`], and makes a trace of it.
    fn capture(&self, script: &str) -> Result<String> {
        let mut command = ours_inside(self.lab);
        command.args(["capture", "--quiet", "--interface", TAP, "--output"]).arg(self.trace());
        let mut capture = Background::start(command.stderr(Stdio::null()))?;
        await_capture(self.lab)?;
        let printed = self.run(script)?;
        let code = capture.interrupt(PATIENCE)?;
        ensure!(code == Some(0), "the capture exited with {code:?}");
        Ok(printed)
    }

    /// Replays the trace on the kernel's server, ours, ganesha and in a directory; returns the
    /// bytes transferred by each.
    fn replay_everywhere(&self) -> Result<Vec<TransferredBytes>> {
        let Self { lab, version, .. } = *self;
        let mut moved = Vec::new();
        let query = format!("?version={version}");
        for target in ["nfs://10.77.0.1/export", "nfs://10.77.0.254/export"] {
            let replayed =
                replay_faithfully(ours_inside(lab), &self.trace(), &format!("{target}{query}"));
            moved.push(replayed.with_context(|| format!("on {target}"))?);
        }
        let export = GANESHA.get()?.export("/vfs");
        // Ganesha 4.3 has no extended attributes, which the kernel requests in v4.2.
        let spoken = if version == "4.2" { "4.1" } else { version };
        let port = export.port;
        let mount_port = export.mount_port;
        let address = format!("nfs://127.0.0.1:{port}/vfs?version={spoken}&mountport={mount_port}");
        let directory = self.folder.to_str().context("its path is not UTF-8")?;
        for (target, what) in [(&*address, "on ganesha"), (directory, "in a directory")] {
            let replayed = replay_faithfully(OURS.command(), &self.trace(), target);
            moved.push(replayed.context(what)?);
        }
        Ok(moved)
    }
}

/// Waits until a packet socket is open in the network of the laboratory.
fn await_capture(lab: &Lab) -> Result<()> {
    for _ in 0..100 {
        let sockets = proc::capture_text(lab.inside("cat").arg("/proc/net/packet"))?;
        if sockets.lines().count() > 1 {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    anyhow::bail!("nothing captures packets after 10 s")
}

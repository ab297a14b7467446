//! Traffic of a kernel's mount, captured on the way and replayed: on the kernel's server, ganesha,
//! ours, and in a directory.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::check::Fixture;
use checks::checks;
use checks::ganesha::Ganesha;
use checks::proc::{self, Background};
use checks::traces::replay_faithfully;
use checks::vm::guest::Mount;
use checks::vm::lab::Lab;
use checks::vm::peer::{OURS, ours_inside};
use tempfile::TempDir;

use super::{NEW, SERVERS, run_in};

/// The tap of [`NEW`], and how long a capture may take to begin and to end. The bridge itself only
/// sees what is meant for this machine.
const TAP: &str = "tap11";
const PATIENCE: Duration = Duration::from_secs(20);

/// The steps of a build: sources are unpacked, read, made into files that get their name when they
/// are whole, put together, and removed.
const WORK: &str = "cd /mnt/nfs; mkdir src obj; \
    for n in $(seq 12); do head -c $((n * 700)) /dev/urandom >src/$n.c; done; cd /; again; \
    cd /mnt/nfs; for n in $(seq 12); do [ ! -e src/$n.h ]; gzip <src/$n.c >obj/$n.o.tmp; \
    mv obj/$n.o.tmp obj/$n.o; done; cat obj/*.o >all; dd if=/dev/zero of=disk bs=64k count=20 \
    conv=fsync 2>/dev/null; dd if=/dev/urandom of=disk bs=4k seek=7 count=5 conv=notrunc,fsync \
    2>/dev/null; truncate -s 100000 disk; ln all other; ln -s all link; readlink link; \
    touch -d 2020-01-01 all; ls -lR >/dev/null; cd /; again; cd /mnt/nfs; cat all disk >/dev/null; \
    rm -r src obj; rm all other link disk; cd /";

static GANESHA: Fixture<Ganesha> = Fixture::new(Ganesha::start);

checks! {
    traffic_of_a_kernel_mount_v3_is_replayed: 300 s, replayed("3");
    traffic_of_a_kernel_mount_v4_2_is_replayed: 300 s, replayed("4.2");
}

fn replayed(version: &'static str) -> Result<()> {
    run_in(&SERVERS, |lab| {
        let folder = TempDir::with_prefix("dfsbench-replay-")?;
        let trace = folder.path().join("kernel.dfst");
        let mut command = ours_inside(lab);
        command.args(["capture", "--quiet", "--interface", TAP, "--output"]).arg(&trace);
        let mut capture = Background::start(command.stderr(Stdio::null()))?;
        await_capture(lab)?;
        let options = format!("vers={version},proto=tcp");
        Mount { lab, client: NEW, source: "server:/export", options: &options }.run(WORK)?;
        let code = capture.interrupt(PATIENCE)?;
        ensure!(code == Some(0), "the capture ended with {code:?}");
        let query = format!("?version={version}");
        for target in ["nfs://10.77.0.1/export", "nfs://10.77.0.254/export"] {
            replay_faithfully(ours_inside(lab), &trace, &format!("{target}{query}"))
                .with_context(|| format!("on {target}"))?;
        }
        let export = GANESHA.get()?.export("/vfs");
        // Ganesha 4.3 has no extended attributes, which the kernel asks for in v4.2.
        let spoken = if version == "4.2" { "4.1" } else { version };
        let (port, mount_port) = (export.port, export.mount_port);
        let address = format!("nfs://127.0.0.1:{port}/vfs?version={spoken}&mountport={mount_port}");
        replay_faithfully(OURS.command(), &trace, &address).context("on ganesha")?;
        let directory = folder.path().to_str().context("its path is no text")?;
        replay_faithfully(OURS.command(), &trace, directory).context("in a directory")
    })
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

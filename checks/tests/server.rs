//! Other clients with our server, and our client with a server that dies.
//!
//! libnfs is the independent client; the server dies by SIGKILL in the middle of a run, and
//! everything measured until then must be in the results.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use checks::check::Fixture;
use checks::{checks, noise};
use serde_json::Value;
use tempfile::TempDir;

use checks::libnfs::{self, Export};
use checks::ours::{Ours, Run, Serve, exit};
use checks::proc::{self, Background};
use checks::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);
/// Not a multiple of any transfer size.
const FILE_BYTES: usize = (5 << 20) + 12_345;
/// How long after its start the run loses its server, and the timeout until it reports that.
const UNTIL_DEATH: Duration = Duration::from_secs(3);
const UNTIL_REPORTED: Duration = Duration::from_secs(120);

static SERVER: Fixture<Serve> = Fixture::new(|| OURS.serve("64MiB", &[]));

checks! {
    libnfs_reads_and_lists_own_data: 60 s, by_libnfs(&SERVER.get()?.export, "noise");
    we_read_what_libnfs_wrote: 60 s, {
        let export = &SERVER.get()?.export;
        by_libnfs(export, "for-us")?;
        libnfs::compare_bytes("noise", &OURS.cat(export, "for-us")?, &noise::make_bytes(FILE_BYTES))
    };
    fails_trial_of_dead_server: 180 s, dies();
    measures_embedded_server_without_rights: 120 s, without_rights();
    names_programs_beside_server: 120 s, contends();
}

fn by_libnfs(export: &Export, name: &str) -> Result<()> {
    let content = noise::make_bytes(FILE_BYTES);
    let folder = TempDir::new()?;
    let local = folder.path().join("noise");
    fs::write(&local, &content)?;
    libnfs::copy_to(&local, export, name)?;
    libnfs::compare_bytes(name, &libnfs::read_file(export, name)?, &content)?;
    let names = libnfs::list_files(export)?;
    ensure!(names.iter().any(|listed| listed == name), "nfs-ls shows {names:?}");
    Ok(())
}

/// Runs the embedded campaign as a user who may not even choose a congestion control.
fn without_rights() -> Result<()> {
    let folder = TempDir::new()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777))?;
    let program = folder.path().join("dfsbench");
    fs::copy(OURS.command().get_program(), &program)?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(&program);
    command.args(["run", "embedded", "--trials", "1", "--file-size", "8MiB", "--quiet"]);
    let text = proc::capture_text(command.current_dir(folder.path()))?;
    ensure!(text.contains("stream read") && !text.contains("failed"), "it printed:\n{text}");
    Ok(())
}

/// Measures a server on this host while other programs use all CPUs: that is a caveat of the
/// result, but the server itself is not.
fn contends() -> Result<()> {
    let export = SERVER.get()?.export.for_us("");
    let folder = TempDir::new()?;
    let results = folder.path().join("results.db");
    let hogs = (0..thread::available_parallelism().map_or(2, usize::from) * 4)
        .map(|_| Background::start(Command::new("sh").args(["-c", "while :; do :; done"])))
        .collect::<Result<Vec<_>, _>>()?;
    let flags = ["--workload", "mixed", "--file-size", "8MiB", "--duration", "2s", "--trials", "1"];
    OURS.try_run(&Run { target: &export, results: &results, flags: &flags })?;
    drop(hogs);
    let evidence = OURS.evidence(&results, "processor-contention")?;
    let evidence = evidence.context("no processor-contention")?;
    for words in ["the server dfsbench ", "other processes ", "(/proc/stat)"] {
        ensure!(evidence.contains(words), "`{words}` is not in: {evidence}");
    }
    Ok(())
}

fn dies() -> Result<()> {
    let mut server = OURS.serve("64MiB", &[])?;
    let folder = TempDir::new()?;
    let results = folder.path().join("results.db");
    #[rustfmt::skip]
    let flags = [
        "--workload", "mixed", "--file-size", "8MiB", "--io-size", "4KiB",
        "--duration", "20s", "--trials", "1",
    ];
    let target = server.export.for_us("");
    let mut command = OURS.run_command(&Run { target: &target, results: &results, flags: &flags });
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut run = Background::start(&mut command)?;
    thread::sleep(UNTIL_DEATH);
    server.process.kill();
    let code = run.await_end(UNTIL_REPORTED)?;
    let expected = [Some(exit::LAB), Some(exit::INVALID)];
    ensure!(expected.contains(&code), "exit {code:?}, none of {expected:?}");
    let report: Value = serde_json::from_slice(&OURS.report(&results, "json")?)?;
    let trial = report.pointer("/runs/0/trials/0").context("the trial isn't in the results")?;
    let state = trial.get("state").and_then(Value::as_str);
    ensure!(state == Some("failed"), "the trial is {state:?} in the results, not failed");
    let reason = trial.get("reason").and_then(Value::as_str).unwrap_or_default();
    ensure!(!reason.is_empty(), "the results don't say why the trial failed");
    Ok(())
}

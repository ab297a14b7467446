//! `dfsbench ramp` on nfs-ganesha with few descriptors: it finds the load at which they are used
//! up, and reports how the server broke, as confirmed by an independent client.
//!
//! A connection takes a descriptor, and each emulated client has its own connection. nfs-ganesha
//! 4.3 answers no new client once it has none left; whether it recovers varies.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tempfile::TempDir;

use checks::ganesha::Ganesha;
use checks::libnfs::Export;
use checks::ours::Ours;
use checks::proc;
use checks::proc::Background;
use checks::repo::Profile;

const OURS: Ours = Ours::new(Profile::Debug);

/// Number of descriptors that the server may open: for its own files, and for connections.
const DESCRIPTORS: &str = "64";

/// The lightest load: well below that limit.
const FIRST: &str = "8";

/// How long an independent client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(3);

/// Finds the load at which nfs-ganesha runs out of descriptors.
pub fn few_descriptors() -> Result<()> {
    let folder = TempDir::with_prefix("dfsbench-ramp-")?;
    let server = Ganesha::serving(folder.path(), &|command| limited(&command))?;
    let export = server.export("/vfs");
    let results = TempDir::with_prefix("dfsbench-ramp-results-")?;
    let mut ramp = OURS.command();
    ramp.args(["ramp", &export.for_us(""), "--workload", "mixed", "--file-size", "256KiB"]);
    ramp.args(["--read-percent", "100", "--queue-depth", "1", "--duration", "200ms"]);
    ramp.args(["--timeout", "700ms", "--from", FIRST, "--max", "256", "--recovery", "1s"]);
    ramp.args(["--quiet", "--format", "json", "--results"]).arg(results.path().join("r.db"));
    let output = proc::capture_output(&mut ramp)?;
    let json: Value = serde_json::from_slice(&output.stdout)
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    let search = &json["found"]["figures"]["searches"][0];
    let context = || format!("{search}");
    let at = search["gave_in_at"].as_u64().with_context(context)?;
    let borne = search["borne"].as_u64().with_context(context)?;
    let limit: u64 = DESCRIPTORS.parse()?;
    // Its own files take some, too; the lightest load and its double were served.
    ensure!(16 <= borne && borne < at && at <= limit, "{search}");
    let way = search["way"].as_str().with_context(context)?;
    ensure!(["hangs", "errors"].contains(&way), "{search}");
    let kind = search["recovery"]["kind"].as_str().with_context(context)?;
    // Whether it then serves as much as before depends on what else this machine does.
    ensure!(["recovered", "impaired", "never"].contains(&kind), "{search}");
    let code = output.status.code();
    ensure!(code == Some(if kind == "never" { 4 } else { 0 }), "{code:?}: {search}");
    let answers = answers(&export)?;
    ensure!(answers == (kind != "never"), "libnfs is answered: {answers}; {search}");
    Ok(())
}

/// Returns a command for a program that may open few files.
fn limited(program: &Command) -> Command {
    proc::through_shell("ulimit -n \"$0\"", Path::new(DESCRIPTORS), program)
}

/// Returns true if an independent client is answered in time.
fn answers(export: &Export) -> Result<bool> {
    let mut list = Command::new("nfs-ls");
    list.arg(export.for_libnfs("")).stdout(Stdio::null()).stderr(Stdio::null());
    let mut client = Background::start(&mut list)?;
    Ok(client.await_end(PATIENCE).is_ok_and(|code| code == Some(0)))
}

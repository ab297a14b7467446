//! Recipes that go wrong on purpose, and a system that is kept up without being measured.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use checks::check::wait_until;
use checks::hosts::{LEAVING, Lab, OURS, PATIENCE, SERVER_AND_CLIENT};
use checks::ours::exit;
use checks::proc::{self, Background};
use serde_json::Value;

/// A recipe of our server, without the steps that start it.
const RECIPE: &str = r#"
name = "planted"
title = "our server with a mistake"
tried = "for the checks"
durability = "nothing"
storage = false
path = ["PROGRAMS"]
programs = ["dfsbench"]
folders = ["{dir}/mounted"]
STEPS
[[step]]
port = "20779"
within_s = 20
[caches]
cold = "caches"
proof = "none"
[access.nfs]
port = 20779
export = "/export"
"#;

/// It is found by the shell in the recipe's folder, serves for a while, and says why it ends.
const DIES: &str = r#"
[[step]]
start = ["sh", "-c", """dfsbench serve --listen 0.0.0.0 --port 20779 --memory 64MiB --allow $0 &
sleep 4; echo planted: no space left >&2; kill -9 $!; wait""", "{clients}"]
"#;

/// It mounts something in its folder, which then can't be removed.
const MOUNTS: &str = r#"
[[step]]
run = ["mount", "-t", "tmpfs", "none", "{dir}/mounted"]
[[step]]
start = [
    "dfsbench", "serve", "--listen", "0.0.0.0", "--port", "20779", "--memory", "64MiB",
    "--allow", "{*clients}",
]
"#;

const PLAN: &str = r#"
name = "recipes"
trials = 1
HOSTS
[[target]]
name = "planted"
server = "server"
client = "client"
system = "RECIPE"
backend = "nfs"
nfsvers = 4.1
WORK
"#;

const LONG: &str = r#"
[factors]
duration = "30s"
[[workload]]
kind = "mixed"
file_size = "1MiB"
"#;

const SHORT: &str = r#"
[[workload]]
kind = "stream"
file_size = "1MiB"
"#;

/// Writes the recipe with these steps, and returns its path.
fn write_recipe(lab: &Lab, steps: &str) -> Result<String> {
    let path = lab.folder.path().join("planted.toml");
    let program = Lab::program();
    let programs = program.parent().unwrap_or(Path::new("/")).display().to_string();
    fs::write(&path, RECIPE.replace("STEPS", steps).replace("PROGRAMS", &programs))?;
    Ok(path.display().to_string())
}

/// Measures the recipe with these steps. Returns exit code, stderr, and the report.
fn measure(lab: &Lab, steps: &str, work: &str) -> Result<(Option<i32>, String, Value)> {
    let at = |name: &str| lab.folder.path().join(name).display().to_string();
    let recipe = write_recipe(lab, steps)?;
    let plan = PLAN.replace("HOSTS", SERVER_AND_CLIENT).replace("CONFIG", &at("config"));
    let plan = plan.replace("RECIPE", &recipe).replace("WORK", work);
    fs::write(at("recipes.toml"), plan)?;
    let _ = fs::remove_file(at("recipes.db"));
    let mut run = lab.ours();
    run.args(["run", &at("recipes.toml"), "--quiet", "--results", &at("recipes.db")]);
    let output = proc::capture_output(&mut run)?;
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = OURS.report(&lab.folder.path().join("recipes.db"), "json");
    let report = report.with_context(|| errors.clone())?;
    Ok((output.status.code(), errors, serde_json::from_slice(&report)?))
}

/// A server that dies during a pass has its last words in the row.
pub fn died(lab: &Lab) -> Result<()> {
    let (code, errors, report) = measure(lab, DIES, LONG)?;
    let text = report["runs"][0]["trials"][0].to_string();
    ensure!(code == Some(exit::INVALID), "{code:?}: {errors}");
    ensure!(text.contains("server: `sh -c ") && text.contains("planted: no space left"), "{text}");
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// What was measured is kept, but a host that isn't restored is an error at the end.
pub fn not_restored(lab: &Lab) -> Result<()> {
    let (code, errors, report) = measure(lab, MOUNTS, SHORT)?;
    let unmounted = lab.run_on(0, &["umount", "/run/dfsbench/systems/planted/mounted"]);
    ensure!(code == Some(exit::LAB), "{code:?}: {errors}");
    ensure!(errors.contains("error: not all changes to hosts were undone"), "{errors}");
    ensure!(report["runs"][0]["trials"][0]["state"] == "done", "{report}");
    unmounted?;
    let mut clean = lab.ours();
    clean.args(["clean", &lab.folder.path().join("recipes.toml").display().to_string()]);
    proc::run_command(&mut clean)?;
    (0..2).try_for_each(|host| lab.await_nothing(host, LEAVING))
}

/// `down` fails until everything is restored, however `up` ended.
pub fn down_tries_again(lab: &Lab) -> Result<()> {
    let config = lab.folder.path().join("config").display().to_string();
    let recipe = write_recipe(lab, MOUNTS)?;
    let mut up = lab.ours();
    up.args(["systems", "up", &recipe, "--hosts", "h1=10.79.0.1", "--ssh-config", &config]);
    let mut up = Background::start(&mut up)?;
    let serves = || lab.run_on(0, &["ss", "-Hltn"]).is_ok_and(|text| text.contains(":20779 "));
    wait_until(PATIENCE, "the system", serves)?;
    let down = || proc::capture_output(lab.ours().args(["systems", "down", "planted"]));
    let failed = [down()?, down()?];
    let unmounted = lab.run_on(0, &["umount", "/run/dfsbench/systems/planted/mounted"]);
    ensure!(up.await_end(LEAVING)? == Some(exit::LAB), "the holder did not fail");
    for output in failed {
        ensure!(output.status.code() == Some(exit::LAB), "{output:?}");
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(errors.contains("systems/planted/mounted"), "{errors}");
    }
    unmounted?;
    let restored = down()?;
    ensure!(restored.status.success(), "{restored:?}");
    lab.await_nothing(0, LEAVING)?;
    ensure!(down()?.status.code() == Some(2), "there is nothing to remove");
    Ok(())
}

/// A system is kept up until `down`; if everything is killed, `clean` removes it.
pub fn kept_up(lab: &Lab) -> Result<()> {
    let config = lab.folder.path().join("config").display().to_string();
    let serves = || lab.run_on(0, &["ss", "-Hltn"]).is_ok_and(|text| text.contains(":20494 "));
    let start = || -> Result<Background> {
        let mut up = lab.ours();
        up.args(["systems", "up", "dfsbench", "--hosts", "h1=10.79.0.1", "--ssh-config", &config]);
        let up = Background::start(&mut up)?;
        wait_until(PATIENCE, "the system", serves)?;
        Ok(up)
    };
    let down = || {
        let mut down = lab.ours();
        proc::capture_output(down.args(["systems", "down", "dfsbench"]))
    };
    let mut up = start()?;
    // This host may look at it, too.
    let mut probe = lab.ours();
    proc::run_command(probe.args(["probe", "nfs://10.79.0.1:20494/export?version=4.1"]))?;
    let output = down()?;
    ensure!(output.status.success() && !serves(), "{output:?}");
    ensure!(up.await_end(LEAVING)? == Some(0), "the holder failed");
    lab.await_nothing(0, LEAVING)?;
    ensure!(down()?.status.code() == Some(2), "there is nothing to remove");
    let mut up = start()?;
    ensure!(lab.kill_agents(&[0])? > 0, "no agent");
    up.kill();
    ensure!(serves(), "nothing was left to restore");
    let mut clean = lab.ours();
    let text = proc::capture_text(clean.args(["clean", "--host", "h1", "--ssh-config", &config]))?;
    ensure!(text.contains("h1: restored: ") && !serves(), "{text}");
    lab.await_nothing(0, LEAVING)
}

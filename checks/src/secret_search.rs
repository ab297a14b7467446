//! Looks for the value of a secret in everything that others can see while a campaign runs, and in
//! everything that it leaves.
//!
//! Main functions: [`run_with_secret`], and [`check_own_server`] for a recipe of our own server.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::hosts::{Lab, OURS};
use crate::proc::{self, Background};

/// The planted value. Nothing else contains it.
pub const SECRET: &str = "pl4nted-s3cret-value";
/// Environment variable that contains it.
pub const VARIABLE: &str = "DFSBENCH_CHECK_SECRET";

/// Time between two looks at the command lines of all processes.
const TICK: Duration = Duration::from_millis(20);

/// Runs `dfsbench` with a plan in the lab's folder and the secret in its environment. Checks that
/// no process has the value in its command line meanwhile, and that no file or output contains it
/// afterwards.
pub fn run_with_secret(lab: &Lab, plan: &str) -> Result<Output> {
    let at = |name: &str| lab.folder.path().join(name);
    fs::write(at("secret.toml"), plan)?;
    for old in ["secret.db", "secret.html"] {
        let _ = fs::remove_file(at(old));
    }
    let arguments = ["run", &text(&at("secret.toml")), "--trials", "1"];
    let mut dry = lab.ours();
    let shown = proc::capture_text(dry.args(arguments).arg("--dry-run").env(VARIABLE, SECRET))?;
    ensure!(!shown.contains(SECRET), "{shown}");
    let mut command = lab.ours();
    command.args(arguments).args(["--results", &text(&at("secret.db"))]).env(VARIABLE, SECRET);
    let (out, errors) = (at("secret.out"), at("secret.err"));
    command.stdout(fs::File::create(&out)?).stderr(fs::File::create(&errors)?);
    let mut running = Background::start(&mut command)?;
    let mut looks = 0;
    while !running.has_ended() {
        if let Some(found) = find_in_command_lines()? {
            anyhow::bail!("a process was started with the secret: {found}");
        }
        looks += 1;
        thread::sleep(TICK);
    }
    ensure!(looks > 5, "the campaign was over after {looks} looks");
    let code = running.await_end(Duration::from_secs(1))?;
    for format in ["text", "json", "csv", "markdown", "html"] {
        let report = OURS.report(&at("secret.db"), format).unwrap_or_default();
        ensure!(!contains(&report), "the report as {format} contains the secret");
    }
    // Results, page, plan, output and messages are there, and the hosts' logs and caches.
    let mut found = find_in_folder(lab.folder.path())?;
    for host in lab.numbers() {
        let script = format!(
            "grep -rl {SECRET} /run /tmp /srv /var/lib $HOME/.local $HOME/.cache 2>/dev/null; true"
        );
        found.push_str(&lab.run_on(host, &["sh", "-c", &script])?);
    }
    ensure!(found.is_empty(), "the secret is in {found}");
    Ok(Output {
        status: std::os::unix::process::ExitStatusExt::from_raw(code.unwrap_or(255) << 8),
        stdout: fs::read(out)?,
        stderr: fs::read(errors)?,
    })
}

/// Measures our own server, whose recipe has a secret in a file and in the environment of its
/// commands; and one whose last step prints it and fails, if `fails`.
///
/// # Errors
/// If the secret is found anywhere, or the result isn't as expected.
pub fn check_own_server(lab: &Lab, fails: bool) -> Result<()> {
    let last = if fails { "echo \"no bucket for $KEY\" >&2; exit 7" } else { "true" };
    fs::write(lab.folder.path().join("secret-recipe.toml"), RECIPE.replace("LAST", last))?;
    let plan = PLAN.replace("HOSTS", &lab.named_hosts(&["server", "client"]));
    let plan = plan.replace("FOLDER", &text(lab.folder.path()));
    let output = run_with_secret(lab, &plan)?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    if fails {
        ensure!(stderr.contains("no bucket for ***"), "{stderr}");
        return Ok(());
    }
    ensure!(output.status.success(), "{stderr}");
    let report = OURS.report(&lab.folder.path().join("secret.db"), "json")?;
    let report = String::from_utf8_lossy(&report);
    ensure!(report.contains("key ***"), "the version has no secret: {stdout}{report}");
    Ok(())
}

const PLAN: &str = r#"
name = "secret"
HOSTS
[[target]]
name = "secret"
server = "server"
client = "client"
system = "FOLDER/secret-recipe.toml"
backend = "nfs"
nfsvers = 4.1
[[workload]]
kind = "stream"
file_size = "16MiB"
"#;

const RECIPE: &str = r#"
name = "secretive"
title = "dfsbench's own server, with a secret that it doesn't need"
tried = "this version"
durability = "none"
programs = ["dfsbench"]
ports = [20494]
storage = false
version = ["sh", "-c", "echo key $KEY"]

[secrets]
key = { env = "DFSBENCH_CHECK_SECRET" }

[environment]
KEY = "{key}"

[[file]]
path = "{dir}/key"
text = "{key}"

[[step]]
start = ["dfsbench", "serve", "--listen", "0.0.0.0", "--port", "20494", "--allow", "{*clients}"]

[[step]]
port = "20494"
within_s = 20

[[step]]
run = ["sh", "-ec", "[ \"$(cat {dir}/key)\" = \"$KEY\" ]; [ $(stat -c %a {dir}/key) = 600 ]"]

[[step]]
run = ["sh", "-c", """LAST"""]

[caches]
cold = "caches"
proof = "none"

[access.nfs]
port = 20494
export = "/export"
"#;

fn text(path: &Path) -> String {
    path.display().to_string()
}

fn contains(bytes: &[u8]) -> bool {
    bytes.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())
}

/// Returns the command line of a process that contains the secret.
fn find_in_command_lines() -> Result<Option<String>> {
    for entry in fs::read_dir("/proc")? {
        // A process may have ended.
        let line = fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        if contains(&line) {
            return Ok(Some(String::from_utf8_lossy(&line).replace('\0', " ")));
        }
    }
    Ok(None)
}

/// Lists the files of a folder that contain the secret.
fn find_in_folder(folder: &Path) -> Result<String> {
    let mut grep = Command::new("grep");
    grep.args(["-rl", SECRET]).arg(PathBuf::from(folder));
    let output = proc::capture_output(&mut grep).context("grep")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

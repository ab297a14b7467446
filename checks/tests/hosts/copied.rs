//! How the program gets to a host: compressed and once, not at all if it is installed; and the
//! errors of hosts that can't accept it or can't run it.
//!
//! Each cause is planted on the first host and removed again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use anyhow::{Context, Result, ensure};
use checks::hosts::{LEAVING, Lab, OURS};
use checks::ours::exit;
use checks::proc;
use serde_json::Value;

/// Only the start of a program is changed, which contains the names of loader and libraries.
const NAMES_WITHIN: usize = 1 << 17;

/// A run on the first host, with a program for it.
fn run(lab: &Lab, config: &str, program: &Path) -> Result<Output> {
    let at = |name: &str| lab.folder.path().join(name);
    fs::write(at("copied.toml"), PLAN.replace("CONFIG", &at(config).display().to_string()))?;
    let mut command = lab.near(&OURS.command().get_program().to_string_lossy());
    command
        .env("DFSBENCH_AGENT_BINARY", program)
        .env("NO_COLOR", "1")
        .arg("run")
        .arg(at("copied.toml"))
        .arg("--results");
    proc::capture_output(command.arg(at("copied.db")))
}

/// Runs a campaign that must work, and returns the fact about the copy and the output.
fn works(lab: &Lab, config: &str) -> Result<(Option<String>, String)> {
    let results = lab.folder.path().join("copied.db");
    if results.exists() {
        fs::remove_file(&results)?;
    }
    let output = run(lab, config, &Lab::program())?;
    ensure!(output.status.code() == Some(0), "{config}: {output:?}");
    let report: Value = serde_json::from_slice(&OURS.report(&results, "json")?)?;
    let trials = report["runs"][0]["trials"].as_array().context("no trials")?;
    let facts = trials.iter().flat_map(|trial| trial["facts"].as_array().into_iter().flatten());
    let mut copied = facts.filter(|fact| fact["name"] == "agent copied");
    let fact = copied.next().and_then(|fact| fact["value"].as_str()).map(str::to_owned);
    lab.await_nothing(0, LEAVING)?;
    Ok((fact, String::from_utf8_lossy(&output.stderr).into_owned()))
}

/// Runs a campaign that must fail before its first trial, with one error containing these words.
fn fails(lab: &Lab, program: &Path, words: &[&str]) -> Result<()> {
    let output = run(lab, "config", program)?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(exit::LAB), "{output:?}");
    ensure!(words.iter().all(|word| text.contains(word)), "{words:?}: {text}");
    ensure!(text.matches("error: ").count() == 1, "{text}");
    Ok(())
}

/// A host gets a fraction of the program's file, and nothing if it has the program.
pub fn once(lab: &Lab) -> Result<()> {
    let (fact, printed) = works(lab, "config")?;
    let fact = fact.context("no fact about the copy")?;
    ensure!(printed.contains("copied the agent to 1 host: "), "{printed}");
    println!("  {fact}");
    let (sent, there) = read_sizes(&fact).with_context(|| fact.clone())?;
    ensure!(sent < 0.5 * there, "{fact}");
    let file = Lab::program().metadata()?.len() as f64 / f64::from(1 << 20);
    // Symbols are left behind, and debug information if there is some.
    ensure!(there < 0.9 * file, "{fact}, of {file} MiB");
    // Without gzip the host gets the uncompressed program.
    lab.run_on(0, &["mount", "--bind", "/dev/null", "/usr/bin/gzip"])?;
    let plain = works(lab, "config");
    lab.run_on(0, &["umount", "/usr/bin/gzip"])?;
    let fact = plain?.0.context("no fact about the copy")?;
    ensure!(read_sizes(&fact).is_some_and(|(sent, there)| (sent - there).abs() < 0.2), "{fact}");
    let installed = Lab::program();
    let folder = installed.parent().context("the program has a folder")?.display().to_string();
    lab.run_on(0, &["mount", "--bind", &folder, "/usr/local/bin"])?;
    let there = works(lab, "config");
    lab.run_on(0, &["umount", "/usr/local/bin"])?;
    let (fact, printed) = there?;
    ensure!(fact.is_none() && !printed.contains("copied the agent"), "{fact:?}: {printed}");
    Ok(())
}

/// Each cause has its own message, and the hint works if it can be followed here.
pub fn refused(lab: &Lab) -> Result<()> {
    let program = Lab::program();
    let mount_tmp = |options: &str| lab.run_on(0, &["mount", "-o", options, "/tmp"]);
    mount_tmp("remount,noexec")?;
    let noexec = fails(
        lab,
        &program,
        &["host one: cannot run this dfsbench: /tmp is mounted noexec", "with XDG_CACHE_HOME"],
    );
    // The client's ssh sends the variable, and this sshd accepts it.
    let elsewhere =
        lab.run_on(0, &["mkdir", "/run/elsewhere"]).and_then(|_| works(lab, "elsewhere"));
    let left = lab.run_on(0, &["find", "/run/elsewhere", "-mindepth", "1"]);
    lab.run_on(0, &["rmdir", "/run/elsewhere"])?;
    mount_tmp("remount,exec,size=1m")?;
    let full = fails(
        lab,
        &program,
        &["MiB) in /tmp/dfsbench-0: ", "No space left on device (hint: free "],
    );
    mount_tmp("remount,size=400m")?;
    noexec?;
    ensure!(elsewhere?.0.is_some() && left?.is_empty(), "XDG_CACHE_HOME");
    full?;
    lab.run_on(0, &["install", "-d", "-o", "1", "/tmp/dfsbench-0"])?;
    let foreign = fails(
        lab,
        &program,
        &["/tmp/dfsbench-0 belongs to another user (hint: have that user or root remove it"],
    );
    lab.run_on(0, &["rmdir", "/tmp/dfsbench-0"])?;
    foreign?;
    let changed = change_names(&program, "GLIBC_2.3", "GLIBC_9.3", lab)?;
    fails(lab, &changed, &["version `GLIBC_9.3", "its C library is too old", "dfsbench-static"])?;
    let changed = change_names(&program, "/lib64/ld-linux", "/lib64/no-linux", lab)?;
    fails(lab, &changed, &["not found (hint: it has a different C library", "dfsbench-static"])?;
    lab.await_nothing(0, LEAVING)
}

/// Creates a copy of a program that needs something else.
fn change_names(program: &Path, name: &str, other: &str, lab: &Lab) -> Result<PathBuf> {
    let mut bytes = fs::read(program)?;
    let names = &mut bytes[..NAMES_WITHIN];
    let mut count = 0;
    for at in 0..names.len() - name.len() {
        if names[at..].starts_with(name.as_bytes()) {
            names[at..at + name.len()].copy_from_slice(other.as_bytes());
            count += 1;
        }
    }
    ensure!(count > 0, "the program needs no {name}");
    let path = lab.folder.path().join("changed");
    fs::write(&path, bytes)?;
    Ok(path)
}

/// Parses the sizes in `7.4 MiB sent in 1.2 s, 18 MiB there`, in MiB.
fn read_sizes(fact: &str) -> Option<(f64, f64)> {
    let (sent, rest) = fact.split_once(" MiB sent in ")?;
    let (_, there) = rest.split_once(" s, ")?;
    Some((sent.parse().ok()?, there.strip_suffix(" MiB there")?.parse().ok()?))
}

/// A trial on the disk of the first host.
const PLAN: &str = r#"
name = "copied"
trials = 1
[[host]]
name = "one"
ssh = "h1"
ssh_config = "CONFIG"
[[target]]
name = "a"
path = "/srv/data"
hosts = ["one"]
[[workload]]
kind = "stream"
file_size = "1MiB"
"#;

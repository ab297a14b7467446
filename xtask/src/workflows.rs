//! `cargo xtask workflows`: checks the GitHub workflows and the example of our action with
//! actionlint.
//!
//! We use the one on PATH, or else install one with Go below the target directory. Actionlint
//! compares the inputs of an action of this repository with its `action.yml`, so the example in
//! `docs/install.md`, with the action's path in this repository, is checked as a workflow, too. An
//! error of each kind is planted first. It needs the Go module proxy, so this is not part of `cargo
//! xtask test`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::steps::Steps;
use crate::{proc, repo};

const ACTIONLINT: &str = "github.com/rhysd/actionlint/cmd/actionlint@v1.7.12";

/// Directory of the workflows.
const FOLDER: &str = ".github/workflows";
/// The page with the example, and the action's name there.
const EXAMPLE_IN: &str = "docs/install.md";
const ACTION: &str = "dfsbench/dfsbench/.github/actions/dfsbench-compare@v";
/// The path of the action in this repository.
const OWN_ACTION: &str = "./.github/actions/dfsbench-compare";

/// Lines of a workflow or of the example, each with an error, and the message of actionlint.
const PLANTED: [[&str; 3]; 3] = [
    ["    needs: build\n", "    needs: biuld\n", "needs job \"biuld\""],
    ["          before: nfs://", "          befor: nfs://", "input \"befor\" is not defined"],
    ["${{ matrix.runner }}", "${{ matrix.runer }}", "property \"runer\" is not defined"],
];

/// Checks all workflows and the example, and counts.
pub fn run() -> bool {
    let mut steps = Steps::new();
    let mut program = PathBuf::new();
    let mut texts = Vec::new();
    steps.one("actionlint", || {
        program = find_actionlint()?;
        texts = read_workflows()?;
        Ok(())
    });
    for [line, mistake, message] in PLANTED {
        steps.one(&format!("the planted {}", mistake.trim()), || {
            let text = texts.iter().map(|(_, text)| text).find(|text| text.contains(line));
            let text = text.with_context(|| format!("no workflow has `{}`", line.trim()))?;
            let found = lint(&program, &text.replace(line, mistake))?;
            ensure!(found.contains(message), "it isn't found:\n{found}");
            Ok(())
        });
    }
    for (name, text) in &texts {
        steps.one(name, || {
            let found = lint(&program, text)?;
            ensure!(found.is_empty(), "{name}:\n{found}");
            Ok(())
        });
    }
    steps.finish()
}

fn find_actionlint() -> Result<PathBuf> {
    if proc::on_path("actionlint") {
        return Ok("actionlint".into());
    }
    let folder = repo::target_folder().join("tools/bin");
    let program = folder.join("actionlint");
    if !program.is_file() {
        let mut go = Command::new("go");
        go.args(["install", ACTIONLINT]).env("GOBIN", &folder);
        proc::run_command(&mut go)
            .context("put actionlint on PATH, or install Go (Debian: apt install golang)")?;
    }
    Ok(program)
}

/// Reads the workflows and the example, each with its path.
fn read_workflows() -> Result<Vec<(String, String)>> {
    let mut texts = Vec::new();
    for entry in fs::read_dir(repo::root().join(FOLDER))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        texts.push((format!("{FOLDER}/{name}"), fs::read_to_string(&path)?));
    }
    texts.sort();
    let page = fs::read_to_string(repo::root().join(EXAMPLE_IN))?;
    texts.push((format!("the example of {EXAMPLE_IN}"), example(&page)?));
    Ok(texts)
}

/// Creates a workflow from the example in a page, with our own action.
fn example(page: &str) -> Result<String> {
    for block in page.split("```yaml\n").skip(1) {
        let Some((text, _)) = block.split_once("```") else { continue };
        if let Some((before, after)) = text.split_once(ACTION) {
            let version = after.lines().next().unwrap_or_default();
            let own = format!("{before}{OWN_ACTION}{}", &after[version.len()..]);
            return Ok(format!("on: pull_request\n{own}"));
        }
    }
    anyhow::bail!("{EXAMPLE_IN} has no example with {ACTION}")
}

/// Returns actionlint's findings in a workflow; empty if there are none.
///
/// The workflow is put in a separate repository with our actions: actionlint looks for them only in
/// the repository of the file.
fn lint(program: &Path, text: &str) -> Result<String> {
    let scratch = tempfile::tempdir()?;
    let workflows = scratch.path().join(FOLDER);
    fs::create_dir_all(&workflows)?;
    fs::create_dir(scratch.path().join(".git"))?;
    let actions = repo::root().join(".github/actions");
    proc::run_command(
        Command::new("cp").arg("-r").arg(actions).arg(scratch.path().join(".github")),
    )?;
    let file = workflows.join("linted.yml");
    fs::write(&file, text)?;
    let mut command = Command::new(program);
    // The other two linters would be used if they happened to be installed.
    command.args(["-no-color", "-shellcheck=", "-pyflakes="]).arg(&file);
    let output = proc::capture_output(command.current_dir(scratch.path()))?;
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    let messages = String::from_utf8_lossy(&output.stderr);
    let is_judged = matches!(output.status.code(), Some(0 | 1)) && messages.is_empty();
    ensure!(is_judged, "actionlint ended with {}:\n{messages}", output.status);
    ensure!(output.status.success() == found.is_empty(), "actionlint printed:\n{found}");
    Ok(found)
}

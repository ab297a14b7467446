//! The `dfsbench` binary as its users see it: its command lines and its output.
//!
//! All flags used by the checks and the comparisons are spelled only here. Main types: [`Ours`],
//! one built binary, and [`Serve`], its NFS server on loopback.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::libnfs::Export;
use crate::proc::{self, Background};
use crate::repo::{self, Profile};

/// Timeout until the server prints its address.
const PATIENCE: Duration = Duration::from_secs(120);

/// Exit codes of dfsbench used by the checks (`crates/dfsbench/src/exit.rs`).
pub mod exit {
    /// The lab or the fleet failed: no server, no such export.
    pub const LAB: i32 = 3;
    /// Measured, but no result is fit to be quoted.
    pub const INVALID: i32 = 4;
}

/// One build of dfsbench.
#[derive(Clone, Copy)]
pub struct Ours {
    profile: Profile,
}

/// Options of one `dfsbench run`, beyond the target.
pub struct Run<'a> {
    /// The target: `null`, a directory or an address.
    pub target: &'a str,
    /// Path of the results file.
    pub results: &'a Path,
    /// Everything else, as on the command line.
    pub flags: &'a [&'a str],
}

/// Runs a campaign with a CSV report, and checks that exactly `count` rows have a result, each from
/// one trial, and no row is without.
///
/// # Errors
/// If the number differs, or the exit code shows that nothing was measured.
pub fn measure_rows(campaign: &mut Command, count: usize) -> Result<()> {
    let output = proc::capture_output(campaign)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    // Caveats because of a busy machine are not a failure.
    ensure!(matches!(output.status.code(), Some(0 | exit::INVALID)), "{errors}{text}");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().context("no head")?.split(',').collect();
    let used = head.iter().position(|name| *name == "trials_used").context("no trials")?;
    let mut measured = 0;
    for line in lines {
        // No text before that column contains a comma.
        ensure!(line.split(',').nth(used) == Some("1"), "{line}\n{errors}");
        measured += 1;
    }
    ensure!(measured == count, "{measured} figures: {text}{errors}");
    Ok(())
}

impl Ours {
    /// Takes the build of a profile.
    pub const fn new(profile: Profile) -> Self {
        Self { profile }
    }

    /// Returns a command without arguments, quiet and without colors.
    pub fn command(self) -> Command {
        let mut command = Command::new(repo::dfsbench_path(self.profile));
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    pub fn run_command(self, run: &Run<'_>) -> Command {
        let mut command = self.command();
        command.arg("run").arg(run.target).arg("--results").arg(run.results).args(run.flags);
        command
    }

    /// Makes a run, and fails if its exit code isn't 0.
    pub fn run(self, run: &Run<'_>) -> Result<()> {
        proc::capture_stdout(&mut self.run_command(run)).map(|_| ())
    }

    /// Makes a run and returns its output, whatever its exit code.
    pub fn try_run(self, run: &Run<'_>) -> Result<Output> {
        proc::capture_output(&mut self.run_command(run))
    }

    /// Prints the report of a results file in a format.
    pub fn report(self, results: &Path, format: &str) -> Result<Vec<u8>> {
        let mut command = self.command();
        command.arg("report").arg("--results").arg(results).args(["--format", format]);
        proc::capture_stdout(&mut command)
    }

    /// Returns the evidence of a caveat in a results file, from the first pass that has it.
    pub fn evidence(self, results: &Path, code: &str) -> Result<Option<String>> {
        find_evidence(&serde_json::from_slice(&self.report(results, "json")?)?, code)
    }

    /// Returns the bytes that a run with this seed writes to a file.
    ///
    /// # Errors
    /// If `dfsbench pattern` fails.
    pub fn make_pattern(self, seed: u64, file: u32, size_bytes: u64) -> Result<Vec<u8>> {
        let seed = seed.to_string();
        let file = file.to_string();
        let size = size_bytes.to_string();
        let mut command = self.command();
        command.args(["pattern", "--seed", &seed, "--file", &file, "--size", &size]);
        proc::capture_stdout(&mut command)
    }

    /// Reads a whole file with our client.
    ///
    /// # Errors
    /// If `dfsbench cat` fails.
    pub fn cat(self, export: &Export, file: &str) -> Result<Vec<u8>> {
        proc::capture_stdout(self.command().arg("cat").arg(export.for_us(file)))
    }

    /// Starts our NFS server with this much memory, such as `64MiB`.
    pub fn serve(self, memory: &str, flags: &[&str]) -> Result<Serve> {
        let mut command = self.command();
        command.args(["serve", "--memory", memory]).args(flags).stderr(Stdio::null());
        let (process, line) = Background::start_with_first_line(&mut command, PATIENCE)?;
        let export =
            parse_address(&line).with_context(|| format!("`dfsbench serve` printed {line:?}"))?;
        Ok(Serve { process, export })
    }
}

/// Returns the evidence of a caveat in a report as JSON, of the first pass that has it.
pub fn find_evidence(report: &Value, code: &str) -> Result<Option<String>> {
    let members = |value: &Value, name: &str| value[name].as_array().cloned();
    let runs = members(report, "runs").unwrap_or_default();
    let trials: Vec<_> = runs.iter().filter_map(|run| members(run, "trials")).collect();
    let passes: Vec<_> =
        trials.iter().flatten().filter_map(|trial| members(trial, "passes")).collect();
    ensure!(!passes.is_empty(), "no pass in the results: {report}");
    let caveats = passes.iter().flatten().filter_map(|pass| members(pass, "caveats")).flatten();
    let mut raised = caveats.filter(|caveat| caveat["code"] == code);
    Ok(raised.find_map(|caveat| caveat["evidence"].as_str().map(str::to_owned)))
}

/// Our NFS server; ends when the value is dropped.
pub struct Serve {
    /// The server's process.
    pub process: Background,
    /// The export that it serves.
    pub export: Export,
}

/// Parses the address `nfs://127.0.0.1:PORT/export[?mountport=PORT]`.
fn parse_address(line: &str) -> Result<Export> {
    let rest = line.trim().strip_prefix("nfs://127.0.0.1:").context("no address on loopback")?;
    let (address, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (port, path) = address.split_once('/').context("no path")?;
    ensure!(!path.is_empty(), "no export");
    let port = port.parse().context("no port")?;
    let mount_port = query.split('&').find_map(|pair| pair.strip_prefix("mountport="));
    let mount_port = mount_port.map_or(Ok(port), str::parse).context("no MOUNT port")?;
    Ok(Export { port, mount_port, path: format!("/{path}") })
}

/// Returns the number of a file of a set, given its name, such as 17 for `.dfsbench-x/f00000017`.
pub fn file_number(name: &str) -> Option<u32> {
    let name = name.rsplit('/').next()?;
    name.strip_prefix('f')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{file_number, parse_address};

    #[test]
    fn reads_first_line_of_server() {
        let export =
            parse_address("nfs://127.0.0.1:2051/export?version=3&mountport=2052\n").unwrap();
        assert_eq!((export.port, export.mount_port, export.path.as_str()), (2051, 2052, "/export"));
        assert_eq!(parse_address("nfs://127.0.0.1:7/e").unwrap().mount_port, 7);
        assert!(parse_address("nfs://10.0.0.1:7/e").is_err());
        assert!(parse_address("listening").is_err());
    }

    #[test]
    fn files_are_known_by_their_names() {
        assert_eq!(file_number(".dfsbench-a/f00000017"), Some(17));
        assert_eq!(file_number("notes"), None);
    }
}

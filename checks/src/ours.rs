//! The `dfsbench` binary as its users see it: its command lines and what they print.
//!
//! Every flag that the checks and the comparisons rely on is spelled here and nowhere else.
//! Principal types: [`Ours`], one built binary, and [`Serve`], its NFS server on loopback.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::libnfs::Export;
use crate::proc::{self, Background};
use crate::repo::{self, Profile};

/// How long the server may take to print its address.
const PATIENCE: Duration = Duration::from_secs(120);

/// Exit codes of dfsbench that the checks know (`crates/dfsbench/src/exit.rs`).
pub mod exit {
    /// The lab or the fleet failed: no server, no such export.
    pub const LAB: i32 = 3;
    /// Measured, but nothing that may be quoted.
    pub const INVALID: i32 = 4;
}

/// One build of dfsbench.
#[derive(Clone, Copy)]
pub struct Ours {
    profile: Profile,
}

/// Options of one `dfsbench run`, beyond the target.
pub struct Run<'a> {
    /// The target: `null`, a folder or an address.
    pub target: &'a str,
    /// Path of the results file.
    pub results: &'a Path,
    /// Everything else, as on the command line.
    pub flags: &'a [&'a str],
}

/// Makes a campaign whose report is CSV, and looks whether `count` rows have a figure, each of one
/// trial, and no row is without.
///
/// # Errors
/// Where another number has, or the program exits as one that did not measure.
pub fn measure_rows(campaign: &mut Command, count: usize) -> Result<()> {
    let output = proc::capture_output(campaign)?;
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    // Caveats of a busy machine make no failure.
    ensure!(matches!(output.status.code(), Some(0 | exit::INVALID)), "{errors}{text}");
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().context("no head")?.split(',').collect();
    let used = head.iter().position(|name| *name == "trials_used").context("no trials")?;
    let mut measured = 0;
    for line in lines {
        // No text before that column has a comma in it.
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

    /// Returns a command without arguments, quiet and without colours.
    pub fn command(self) -> Command {
        let mut command = Command::new(repo::dfsbench_path(self.profile));
        command.env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// Returns the command of a run.
    pub fn run_command(self, run: &Run<'_>) -> Command {
        let mut command = self.command();
        command.arg("run").arg(run.target).arg("--results").arg(run.results).args(run.flags);
        command
    }

    /// Makes a run, and fails where it exits with anything but 0.
    ///
    /// # Errors
    /// Where it exits with another code.
    pub fn run(self, run: &Run<'_>) -> Result<()> {
        proc::capture_stdout(&mut self.run_command(run)).map(|_| ())
    }

    /// Makes a run and returns its output, whatever its exit code.
    ///
    /// # Errors
    /// Where it can't be started.
    pub fn try_run(self, run: &Run<'_>) -> Result<Output> {
        proc::capture_output(&mut self.run_command(run))
    }

    /// Reports a results file in a format, on stdout.
    ///
    /// # Errors
    /// Where the report fails.
    pub fn report(self, results: &Path, format: &str) -> Result<Vec<u8>> {
        let mut command = self.command();
        command.arg("report").arg("--results").arg(results).args(["--format", format]);
        proc::capture_stdout(&mut command)
    }

    /// Returns the evidence of a caveat in a results file, of the first pass that has it.
    ///
    /// # Errors
    /// If the report fails, or has no passes.
    pub fn evidence(self, results: &Path, code: &str) -> Result<Option<String>> {
        find_evidence(&serde_json::from_slice(&self.report(results, "json")?)?, code)
    }

    /// Returns the bytes that a run with this seed writes into a file.
    ///
    /// # Errors
    /// Where `dfsbench pattern` fails.
    pub fn make_pattern(self, seed: u64, file: u32, size_bytes: u64) -> Result<Vec<u8>> {
        let (seed, file, size) = (seed.to_string(), file.to_string(), size_bytes.to_string());
        let mut command = self.command();
        command.args(["pattern", "--seed", &seed, "--file", &file, "--size", &size]);
        proc::capture_stdout(&mut command)
    }

    /// Reads a whole file with our client.
    ///
    /// # Errors
    /// Where `dfsbench cat` fails.
    pub fn cat(self, export: &Export, file: &str) -> Result<Vec<u8>> {
        proc::capture_stdout(self.command().arg("cat").arg(export.for_us(file)))
    }

    /// Starts our NFS server with room for this much, such as `64MiB`.
    ///
    /// # Errors
    /// Where it doesn't print its address.
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
///
/// # Errors
/// If it has no passes.
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

/// Our NFS server; ends with the value.
pub struct Serve {
    /// The server's process.
    pub process: Background,
    /// The export that it serves.
    pub export: Export,
}

/// Reads the address `nfs://127.0.0.1:PORT/export[?mountport=PORT]`.
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

/// Returns the number of a file of a set by its name, such as 17 for `.dfsbench-x/f00000017`.
pub fn file_number(name: &str) -> Option<u32> {
    let name = name.rsplit('/').next()?;
    name.strip_prefix('f')?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{file_number, parse_address};

    #[test]
    fn the_first_line_of_the_server_is_read() {
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

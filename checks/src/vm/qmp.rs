//! Commands to a running emulator, over its control socket.
//!
//! Main type: [`Monitor`]. One JSON object per line; events are dropped. Every wait is limited by
//! the socket's timeout.
//!
//! **Source:** QEMU Machine Protocol Specification, sections 2.2 to 2.4.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

/// Saving a machine's state writes all of its memory.
const PATIENCE: Duration = Duration::from_secs(120);

/// The control socket of one emulator.
pub struct Monitor {
    lines: BufReader<UnixStream>,
}

impl Monitor {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// If nothing listens there, or it isn't an emulator.
    pub fn connect(path: &Path) -> Result<Self> {
        let socket = UnixStream::connect(path)
            .with_context(|| format!("no emulator listens at {}", path.display()))?;
        socket.set_read_timeout(Some(PATIENCE))?;
        let mut monitor = Self { lines: BufReader::new(socket) };
        let greeting = monitor.read_line()?;
        ensure!(greeting.get("QMP").is_some(), "an emulator greets with {greeting}");
        monitor.execute("qmp_capabilities", &json!({}))?;
        Ok(monitor)
    }

    /// Executes a command and returns its result.
    pub fn execute(&mut self, name: &str, arguments: &Value) -> Result<Value> {
        let command = json!({ "execute": name, "arguments": arguments });
        self.lines.get_mut().write_all(format!("{command}\n").as_bytes())?;
        loop {
            let line = self.read_line()?;
            if let Some(error) = line.get("error") {
                bail!("the emulator refused {name}: {error}");
            }
            if let Some(value) = line.get("return") {
                return Ok(value.clone());
            }
        }
    }

    /// Executes a command of the human monitor, which prints something only if it fails.
    pub fn execute_silent(&mut self, command: &str) -> Result<()> {
        let arguments = json!({ "command-line": command });
        let text = self.execute("human-monitor-command", &arguments)?;
        let text = text.as_str().unwrap_or_default().trim();
        ensure!(text.is_empty(), "the emulator printed for `{command}`: {text}");
        Ok(())
    }

    fn read_line(&mut self) -> Result<Value> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line).context("the emulator does not answer")?;
        ensure!(read > 0, "the emulator hung up");
        serde_json::from_str(&line).with_context(|| format!("the emulator sent {line:?}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    const OK: &str = "{\"return\": {}}\n";

    /// Answers each line it gets with the next of `answers`.
    fn emulator(answers: [&'static str; 2]) -> Result<Monitor> {
        let folder = tempfile::TempDir::new()?;
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path)?;
        let emulator = thread::spawn(move || {
            let (socket, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(socket);
            lines.get_mut().write_all(b"{\"QMP\": {}}\n").unwrap();
            for answer in answers {
                let _ = lines.read_line(&mut String::new());
                let _ = lines.get_mut().write_all(answer.as_bytes());
            }
        });
        let mut monitor = Monitor::connect(&path)?;
        let outcome = monitor.execute_silent("savevm ready");
        drop(emulator);
        outcome.map(|()| monitor)
    }

    #[test]
    fn skips_events_and_reports_failures() {
        let event = "{\"event\": \"STOP\"}\n{\"return\": \"\"}\n";
        assert!(emulator([OK, event]).is_ok());
        let error = emulator([OK, "{\"return\": \"No space\"}\n"]);
        assert!(format!("{:#}", error.err().unwrap()).contains("No space"));
        let error = emulator(["{\"error\": {\"desc\": \"planted\"}}\n", OK]);
        assert!(format!("{:#}", error.err().unwrap()).contains("planted"));
    }
}

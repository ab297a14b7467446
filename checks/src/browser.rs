//! Drives a browser: opens pages, presses keys, and collects console messages.
//!
//! [`Browser`] is the main type, [`Tab`] a page in it. Chromium speaks its DevTools protocol over
//! two pipes, as JSON objects terminated by zero bytes: no port, and no crate.
//!
//! **Source:** <https://chromedevtools.github.io/devtools-protocol/> (domains Target, Page,
//! Runtime, Log, Input and Emulation); Chromium's `--remote-debugging-pipe` (file descriptors 3 and
//! 4).

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::guard::{self, Ticket};

/// Timeout for an answer, a page or a change.
const PATIENCE: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(50);

/// Passes the pipes on: the command's standard input and output become the program's descriptors 3
/// and 4.
const PIPES: &str = "exec \"$0\" \"$@\" 3<&0 4>&1 0</dev/null 1>/dev/null 2>/dev/null";

/// Headless Chromium; ends when the value is dropped.
pub struct Browser {
    child: Child,
    orders: ChildStdin,
    answers: Receiver<Value>,
    number: u64,
    events: Vec<Value>,
    _profile: TempDir,
    _ticket: Ticket,
}

/// Color scheme that a reader prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// Dark text on a light page.
    Light,
    /// Light text on a dark page.
    Dark,
}

/// A page in the browser.
pub struct Tab<'a> {
    browser: &'a mut Browser,
    session: String,
}

impl Browser {
    /// Starts the browser.
    pub fn start() -> Result<Self> {
        let profile = TempDir::with_prefix("dfsbench-chromium-")?;
        let mut command = Command::new("sh");
        command.args(["-c", PIPES, "chromium", "--headless", "--remote-debugging-pipe"]);
        // These checks run as root, and then Chromium refuses its sandbox.
        command.args(["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]);
        command.args(["--no-first-run", "--disable-background-networking"]);
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().context("Chromium can't be started")?;
        let orders = child.stdin.take().expect("it is a pipe");
        let output = child.stdout.take().expect("it is a pipe");
        let (sender, answers) = mpsc::channel();
        thread::spawn(move || {
            let parts = BufReader::new(output).split(0).map_while(Result::ok);
            for answer in parts.filter_map(|bytes| serde_json::from_slice(&bytes).ok()) {
                if sender.send(answer).is_err() {
                    break;
                }
            }
        });
        let ticket = guard::kill_process(child.id());
        Ok(Self {
            child,
            orders,
            answers,
            number: 0,
            events: Vec::new(),
            _profile: profile,
            _ticket: ticket,
        })
    }

    /// Opens an empty page.
    pub fn open_tab(&mut self) -> Result<Tab<'_>> {
        let target = self.call(None, "Target.createTarget", &json!({ "url": "about:blank" }))?;
        let params = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.call(None, "Target.attachToTarget", &params)?;
        let session = session["sessionId"].as_str().context("no session")?.to_owned();
        self.events.clear();
        for domain in ["Page", "Runtime", "Log"] {
            self.call(Some(&session), &format!("{domain}.enable"), &json!({}))?;
        }
        Ok(Tab { browser: self, session })
    }

    fn call(&mut self, session: Option<&str>, method: &str, params: &Value) -> Result<Value> {
        self.number += 1;
        let mut order = json!({ "id": self.number, "method": method, "params": params });
        if let Some(session) = session {
            order["sessionId"] = session.into();
        }
        self.orders.write_all(format!("{order}\0").as_bytes())?;
        let deadline = Instant::now() + PATIENCE;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let answer = self.answers.recv_timeout(left);
            let mut answer =
                answer.with_context(|| format!("{method}: Chromium does not answer"))?;
            if answer["id"] != self.number {
                self.events.push(answer);
                continue;
            }
            if let Some(error) = answer.get("error") {
                bail!("{method}: {error}");
            }
            return Ok(answer["result"].take());
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Tab<'_> {
    /// Opens an address and waits until it has loaded.
    pub fn open(&mut self, url: &str) -> Result<()> {
        let opened = self.call("Page.navigate", &json!({ "url": url }))?;
        ensure!(opened.get("errorText").is_none(), "{url}: {}", opened["errorText"]);
        self.wait_for("document.readyState === 'complete' && location.href !== 'about:blank'")
    }

    /// Evaluates an expression in the page, and awaits it if it is a promise.
    pub fn eval(&mut self, expression: &str) -> Result<Value> {
        let params =
            json!({ "expression": expression, "returnByValue": true, "awaitPromise": true });
        let mut result = self.call("Runtime.evaluate", &params)?;
        ensure!(result.get("exceptionDetails").is_none(), "{expression}: {result}");
        Ok(result["result"]["value"].take())
    }

    /// Waits until an expression is true.
    ///
    /// # Errors
    /// If it never is.
    pub fn wait_for(&mut self, expression: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        // While a page is being replaced by another, nothing can be evaluated.
        while !self.eval(expression).is_ok_and(|value| value == true) {
            ensure!(Instant::now() < deadline, "never: {expression}");
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Checks that an expression has a value.
    pub fn expect(&mut self, expression: &str, expected: &Value) -> Result<()> {
        let found = self.eval(expression)?;
        ensure!(found == *expected, "{expression} is {found} instead of {expected}");
        Ok(())
    }

    /// Presses keys, one after the other: `Tab`, `Enter`, `Space`, `ArrowDown`, `ArrowRight`.
    pub fn press_keys(&mut self, keys: &[&str]) -> Result<()> {
        for key in keys {
            let (code, text) = match *key {
                "Tab" => (9, ""),
                "Enter" => (13, "\r"),
                "Space" => (32, " "),
                "ArrowRight" => (39, ""),
                "ArrowDown" => (40, ""),
                other => bail!("no such key: {other}"),
            };
            let name = if *key == "Space" { " " } else { key };
            let pressed = json!({ "type": "keyDown", "key": name, "code": key, "text": text,
                "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", &pressed)?;
            let released = json!({ "type": "keyUp", "key": name, "code": key,
                "windowsVirtualKeyCode": code });
            self.call("Input.dispatchKeyEvent", &released)?;
        }
        Ok(())
    }

    /// Makes the page as wide as a phone or a screen, in pixels.
    pub fn resize(&mut self, width: u32) -> Result<()> {
        let params = json!({ "width": width, "height": 900, "deviceScaleFactor": 1,
            "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &params).map(|_| ())
    }

    /// Keeps pages opened from now on from running their own scripts.
    pub fn forbid_scripts(&mut self) -> Result<()> {
        self.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true })).map(|_| ())
    }

    /// Sets the color scheme that the page's reader prefers.
    pub fn set_colours(&mut self, colours: Colours) -> Result<()> {
        let value = if colours == Colours::Dark { "dark" } else { "light" };
        let features = json!([{ "name": "prefers-color-scheme", "value": value }]);
        self.call("Emulation.setEmulatedMedia", &json!({ "features": features })).map(|_| ())
    }

    /// Returns the console messages above the level of information.
    pub fn console_messages(&self) -> Vec<String> {
        let loud = |event: &&Value| match event["method"].as_str() {
            Some("Runtime.exceptionThrown") => true,
            Some("Runtime.consoleAPICalled") => {
                matches!(event["params"]["type"].as_str(), Some("error" | "warning" | "assert"))
            }
            Some("Log.entryAdded") => event["params"]["entry"]["level"] == "error",
            _ => false,
        };
        self.browser.events.iter().filter(loud).map(Value::to_string).collect()
    }

    /// Checks that the console has no messages above the level of information.
    ///
    /// # Errors
    /// Lists the messages.
    pub fn expect_silent_console(&self) -> Result<()> {
        let console = self.console_messages();
        ensure!(console.is_empty(), "the console says:\n{}", console.join("\n"));
        Ok(())
    }

    fn call(&mut self, method: &str, params: &Value) -> Result<Value> {
        self.browser.call(Some(&self.session), method, params)
    }
}

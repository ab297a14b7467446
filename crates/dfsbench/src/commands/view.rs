//! `dfsbench view`: shows the results file as pages in a browser, live while a campaign runs.
//!
//! It only listens on loopback, and only answers requests that contain the token and address it by
//! a name of this host, so other users and other sites learn nothing. It is read-only. One thread
//! accepts connections and one checks for changes. Each connection has its own thread, up to a
//! limit. Pages are rendered under a lock but sent without it, so that a slow client doesn't delay
//! others.

mod news;
mod pages;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use model::{CampaignLine, CampaignState};
use report::view_pages;
use results::{Store, StoreError};

use crate::args::ViewArgs;
use crate::exit::{End, Failure};
use crate::http::{self, Request, Response};
use crate::metrics::{self, Endpoint};
use crate::signals;
use crate::terminal::output;
use news::ChangeFeed;
use pages::Pages;

/// Maximum number of connections, and of those among them that wait for changes.
const CONNECTIONS_MAX: usize = 64;
const LISTENERS_MAX: usize = 24;
/// Intervals between checks of the file for changes, and of the stop flag.
const CHECK_FILE_EVERY: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(20);
/// Interval at which a waiting connection gets a comment line, to detect a closed one.
const STILL_THERE: Duration = Duration::from_secs(15);
/// Size of the token: 128 bits can't be guessed.
const TOKEN_BYTES: usize = 16;

/// State shared by all connections.
struct Shared {
    token: String,
    port: u16,
    pages: Pages,
    news: Arc<ChangeFeed>,
    policy: String,
    connections: AtomicUsize,
    listeners: AtomicUsize,
}

/// Serves the results file until it is stopped.
///
/// # Errors
/// If the file can't be read or the port can't be opened.
pub(crate) fn run(args: &ViewArgs) -> Result<ExitCode, Failure> {
    let store = Store::open_existing(&args.results)?;
    let (listener, port) = match listen_on_loopback(args.port) {
        Ok(both) => both,
        Err(error) => {
            return Err(Failure::Lab(format!(
                "can't listen on 127.0.0.1:{}: {error} (hint: --port 0 picks a free one)",
                args.port
            )));
        }
    };
    let stop = signals::stop_flag()?;
    let news = Arc::new(ChangeFeed::default());
    let lines = store.list()?;
    let running = find_running(&store, &lines);
    news.update(&lines, running);
    let shared = Arc::new(Shared {
        token: make_token()?,
        port,
        pages: Pages::new(store, Arc::clone(&news))?,
        news,
        policy: view_pages::policy(),
        connections: AtomicUsize::new(0),
        listeners: AtomicUsize::new(0),
    });
    let url = format!("http://127.0.0.1:{}/{}/", shared.port, shared.token);
    output::text(&format!("{url}\n"))?;
    output::message(
        "Serving this host only; Ctrl-C stops it. The token in the address grants access.",
    );
    if !args.no_open {
        open_browser(&url);
    }
    watch_file(args.results.clone(), Arc::clone(&shared.news));
    let _metrics = args.metrics.map(|address| serve_metrics(address, &shared)).transpose()?;
    while !stop.load(Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => serve_in_thread(stream, &shared),
            Err(_) => std::thread::sleep(TICK),
        }
    }
    shared.pages.close();
    Ok(End::Ok.into())
}

/// Serves the metrics of the latest campaign at a separate address, without a token.
fn serve_metrics(address: SocketAddr, shared: &Arc<Shared>) -> Result<Endpoint, Failure> {
    let shared = Arc::clone(shared);
    let source: Arc<metrics::Source> = Arc::new(move || shared.pages.answer_metrics());
    let endpoint = Endpoint::start(address, source)?;
    output::message(&format!("metrics: {}", endpoint.url()));
    Ok(endpoint)
}

/// Opens a non-blocking listener, and also returns its port.
fn listen_on_loopback(port: u16) -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Generates an unguessable token.
fn make_token() -> Result<String, Failure> {
    let bytes =
        read_random().map_err(|error| Failure::Lab(format!("can't read /dev/urandom: {error}")))?;
    let mut digits = String::with_capacity(2 * TOKEN_BYTES);
    for byte in bytes {
        // Writing to a `String` never fails.
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

fn read_random() -> io::Result<[u8; TOKEN_BYTES]> {
    let mut bytes = [0; TOKEN_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Opens a browser if there is a display. Otherwise the user has to open the printed address.
fn open_browser(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_screen || cfg!(target_os = "macos") {
        let mut command = Command::new(opener);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // Don't wait for the process: a browser started here may run as long as the user likes.
        let _ = command.spawn();
    }
}

/// Checks the file for changes periodically, in a separate thread.
fn watch_file(path: std::path::PathBuf, news: Arc<ChangeFeed>) {
    std::thread::spawn(move || {
        let mut open: Option<CheckedResults> = None;
        loop {
            std::thread::sleep(CHECK_FILE_EVERY);
            // If the file is locked for a moment or gone, the next check opens it again.
            open = check_file(&path, open.take(), &news).ok();
        }
    });
}

/// The results file as of the last check.
struct CheckedResults {
    store: Store,
    version: i64,
    lines: Vec<CampaignLine>,
}

/// Detects changes in the file and in the set of processes that run campaigns.
fn check_file(
    path: &Path,
    last: Option<CheckedResults>,
    news: &ChangeFeed,
) -> Result<CheckedResults, StoreError> {
    let (store, known) = match last {
        Some(CheckedResults { store, version, lines }) => (store, Some((version, lines))),
        None => (Store::open_existing(path)?, None),
    };
    // Get the version before the list, so that a change between the two is found by the next check.
    let version = store.data_version()?;
    let lines = match known {
        Some((same, lines)) if same == version => lines,
        _ => store.list()?,
    };
    let checked = CheckedResults { store, version, lines };
    news.update(&checked.lines, find_running(&checked.store, &checked.lines));
    Ok(checked)
}

/// Returns the campaigns that are currently being run by a process.
fn find_running(store: &Store, lines: &[CampaignLine]) -> Vec<i64> {
    lines
        .iter()
        .filter(|line| line.state == CampaignState::Running && store.is_made(line.id))
        .map(|line| line.id)
        .collect()
}

/// Serves a connection in a thread, if the limit allows another one.
fn serve_in_thread(mut stream: TcpStream, shared: &Arc<Shared>) {
    let slot = Slot::take(shared, |shared| &shared.connections, CONNECTIONS_MAX);
    let _ = stream.set_nonblocking(false);
    let Some(slot) = slot else {
        let _ = stream.set_write_timeout(Some(TICK));
        let full = error_answer("503 Service Unavailable", "", "Too many connections; try again.");
        let _ = http::write(&mut stream, &full, &shared.policy, http::Body::Sent);
        return;
    };
    let spawned = std::thread::Builder::new().name("view".into()).spawn(move || {
        answer_request(&mut stream, &slot.shared);
    });
    // If no thread can be started, the connection is closed, as if there were too many.
    drop(spawned);
}

/// One of a limited number of slots, released on drop.
struct Slot {
    shared: Arc<Shared>,
    count: fn(&Shared) -> &AtomicUsize,
}

impl Slot {
    fn take(shared: &Arc<Shared>, count: fn(&Shared) -> &AtomicUsize, max: usize) -> Option<Self> {
        let slot = Self { shared: Arc::clone(shared), count };
        (count(shared).fetch_add(1, Relaxed) < max).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        (self.count)(&self.shared).fetch_sub(1, Relaxed);
    }
}

fn answer_request(stream: &mut TcpStream, shared: &Arc<Shared>) {
    let request = match http::read(stream) {
        Ok(request) => request,
        Err(why) => {
            let refused = error_answer("400 Bad Request", "", why);
            let _ = http::write(stream, &refused, &shared.policy, http::Body::Sent);
            return;
        }
    };
    let answer = match path_below_token(&request, shared) {
        Ok("events") => return listen_to_news(stream, &request, shared),
        Ok(page) => shared.pages.answer(page, &request),
        Err(refused) => refused,
    };
    // If the client has disconnected, it needs no response.
    let body = if request.method == "HEAD" { http::Body::Omitted } else { http::Body::Sent };
    let _ = http::write(stream, &answer, &shared.policy, body);
}

/// Returns the path after the token. A client without the token learns nothing else.
fn path_below_token<'a>(request: &'a Request, shared: &Shared) -> Result<&'a str, Response> {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        let sentence = "Pages are read with GET; nothing can be changed here.";
        return Err(error_answer("405 Method Not Allowed", "Allow: GET, HEAD\r\n", sentence));
    }
    // An attacker may have given this address a name of their own ("DNS rebinding").
    let host = request.host.as_deref().unwrap_or_default();
    let is_ours = match host.rsplit_once(':') {
        Some((name, port)) => {
            ["127.0.0.1", "localhost"].contains(&name) && port == shared.port.to_string()
        }
        None => false,
    };
    if !is_ours {
        let sentence = "The Host field of the request does not name this host.";
        return Err(error_answer("400 Bad Request", "", sentence));
    }
    let path = request.path.strip_prefix('/').unwrap_or_default();
    match path.split_once('/') {
        Some((token, page)) if is_same(token, &shared.token) => Ok(page),
        _ => Err(not_found()),
    }
}

/// Compares in constant time, so that the duration doesn't reveal how much of a guess is right.
fn is_same(guess: &str, token: &str) -> bool {
    let mut differ = 0;
    for (guessed, byte) in std::iter::zip(guess.bytes(), token.bytes()) {
        differ |= guessed ^ byte;
    }
    guess.len() == token.len() && std::hint::black_box(differ) == 0
}

fn error_answer(status: &'static str, fields: &'static str, sentence: &str) -> Response {
    Response {
        status,
        content_type: http::HTML,
        fields,
        body: view_pages::error_page(status, sentence),
    }
}

fn not_found() -> Response {
    error_answer(
        "404 Not Found",
        "",
        "There is no such page: use the address that dfsbench printed.",
    )
}

/// Sends changes to a connection as long as it is open.
fn listen_to_news(stream: &mut TcpStream, request: &Request, shared: &Arc<Shared>) {
    let Some(_slot) = Slot::take(shared, |shared| &shared.listeners, LISTENERS_MAX) else {
        let full = error_answer(
            "503 Service Unavailable",
            "",
            "Too many pages are already waiting for changes.",
        );
        let _ = http::write(stream, &full, &shared.policy, http::Body::Sent);
        return;
    };
    let since = request.parameter("since").unwrap_or_default();
    let mut version = since.parse().unwrap_or(0);
    let mut sent = http::begin_events(stream, &shared.policy);
    while sent.is_ok() {
        sent = match shared.news.wait_since(version, STILL_THERE) {
            None => http::event(stream, ": still there\n\n"),
            Some((now, changed)) => {
                version = now;
                let ids: Vec<String> = changed.iter().map(i64::to_string).collect();
                http::event(stream, &format!("event: change\ndata: {}\n\n", ids.join(" ")))
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a campaign line for tests.
    pub(crate) fn line() -> CampaignLine {
        CampaignLine {
            id: 1,
            name: "n".into(),
            started_unix_ms: 0,
            state: CampaignState::Running,
            runs: 0,
            trials: 0,
            trials_failed: 0,
            uuid: String::new(),
            tags: Vec::new(),
        }
    }

    #[test]
    fn compares_whole_tokens() {
        let [one, other] = [make_token().unwrap(), make_token().unwrap()];
        assert_eq!(one.len(), 2 * TOKEN_BYTES);
        assert!(is_same(&one, &one) && !is_same(&one, &other));
        assert!(!is_same("", &one) && !is_same(&one[..31], &one) && !is_same(&one, &one[..31]));
    }
}

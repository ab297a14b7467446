//! `dfsbench view`: the results file as pages in a browser, live while a campaign runs.
//!
//! It listens on loopback alone, and answers only those who know the token in its address and call
//! it by a name of this host: other users and other sites learn nothing. It only reads. One thread
//! accepts, one looks for changes, and each connection has one of its own, of which there are only
//! so many; a page is made under a lock and sent without it, so that a slow client delays no other.

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
use crate::http::{self, Answer, Request};
use crate::metrics::{self, Endpoint};
use crate::{output, signals};
use news::News;
use pages::Pages;

/// Connections at a time, and those of them that wait for changes.
const CONNECTIONS_MAX: usize = 64;
const LISTENERS_MAX: usize = 24;
/// How often the file is checked for changes, and the flag that stops the command.
const CHECK_FILE_EVERY: Duration = Duration::from_millis(500);
const TICK: Duration = Duration::from_millis(20);
/// How often a connection that waits gets a comment line, which shows a closed one.
const STILL_THERE: Duration = Duration::from_secs(15);
/// Bytes of the token: 128 bits can't be guessed.
const TOKEN_BYTES: usize = 16;

/// The state that all connections share.
struct Shared {
    token: String,
    port: u16,
    pages: Pages,
    news: Arc<News>,
    policy: String,
    connections: AtomicUsize,
    listeners: AtomicUsize,
}

/// Serves the results file until it is stopped.
///
/// # Errors
/// When the file can't be read, or nothing can listen.
pub fn run(args: &ViewArgs) -> Result<ExitCode, Failure> {
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
    let news = Arc::new(News::default());
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
    let _metrics = match args.metrics {
        Some(address) => Some(serve_metrics(address, &shared)?),
        None => None,
    };
    while !stop.load(Relaxed) {
        match listener.accept() {
            Ok((stream, _)) => serve_in_thread(stream, &shared),
            Err(_) => std::thread::sleep(TICK),
        }
    }
    shared.pages.close();
    Ok(End::Ok.into())
}

/// Serves the metrics of the last campaign at an address of their own, without a token.
fn serve_metrics(address: SocketAddr, shared: &Arc<Shared>) -> Result<Endpoint, Failure> {
    let shared = Arc::clone(shared);
    let source: Arc<metrics::Source> = Arc::new(move || shared.pages.answer_metrics());
    let endpoint = Endpoint::start(address, source)?;
    output::message(&format!("metrics: {}", endpoint.url()));
    Ok(endpoint)
}

/// Listens without waiting for connections; returns the port, too.
fn listen_on_loopback(port: u16) -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

/// Makes an unguessable word.
fn make_token() -> Result<String, Failure> {
    let bytes = match read_random() {
        Ok(bytes) => bytes,
        Err(error) => return Err(Failure::Lab(format!("can't read /dev/urandom: {error}"))),
    };
    let mut digits = String::with_capacity(2 * TOKEN_BYTES);
    for byte in bytes {
        // Writing to a String never fails.
        let _ = write!(digits, "{byte:02x}");
    }
    Ok(digits)
}

fn read_random() -> io::Result<[u8; TOKEN_BYTES]> {
    let mut bytes = [0; TOKEN_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Opens a browser where there is a screen; without one the printed address has to do.
fn open_browser(url: &str) {
    let opener = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let has_screen =
        ["DISPLAY", "WAYLAND_DISPLAY"].iter().any(|name| std::env::var_os(name).is_some());
    if has_screen || cfg!(target_os = "macos") {
        let mut command = Command::new(opener);
        command.arg(url).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        // It is not waited for: a browser that starts here may run as long as the user likes.
        let _ = command.spawn();
    }
}

/// Checks the file for changes again and again, in a thread of its own.
fn watch_file(path: std::path::PathBuf, news: Arc<News>) {
    std::thread::spawn(move || {
        let mut open: Option<Checked> = None;
        loop {
            std::thread::sleep(CHECK_FILE_EVERY);
            // A file that is locked for a moment, or gone, is opened again by the next check.
            open = check_file(&path, open.take(), &news).ok();
        }
    });
}

/// The results file as its last check found it.
struct Checked {
    store: Store,
    version: i64,
    lines: Vec<CampaignLine>,
}

/// Notes changes of the file, and of the processes that make campaigns in it.
fn check_file(path: &Path, last: Option<Checked>, news: &News) -> Result<Checked, StoreError> {
    let (store, known) = match last {
        Some(Checked { store, version, lines }) => (store, Some((version, lines))),
        None => (Store::open_existing(path)?, None),
    };
    // The version before the list: a change between the two is found by the next check.
    let version = store.data_version()?;
    let lines = match known {
        Some((same, lines)) if same == version => lines,
        _ => store.list()?,
    };
    let checked = Checked { store, version, lines };
    news.update(&checked.lines, find_running(&checked.store, &checked.lines));
    Ok(checked)
}

/// Finds the campaigns that a process makes now.
fn find_running(store: &Store, lines: &[CampaignLine]) -> Vec<i64> {
    let mut running = Vec::new();
    for line in lines {
        if line.state == CampaignState::Running && store.is_made(line.id) {
            running.push(line.id);
        }
    }
    running
}

/// Gives a connection a thread, if there is one left.
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
    // Without a thread the connection closes, as it does where there are too many.
    drop(spawned);
}

/// One of a bounded number of slots, released when it is dropped.
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
    // A client that went away needs no answer.
    let body = if request.method == "HEAD" { http::Body::Omitted } else { http::Body::Sent };
    let _ = http::write(stream, &answer, &shared.policy, body);
}

/// Returns the path below the token; a client that lacks the token learns nothing else.
fn path_below_token<'a>(request: &'a Request, shared: &Shared) -> Result<&'a str, Answer> {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        let sentence = "Pages are read with GET; nothing can be changed here.";
        return Err(error_answer("405 Method Not Allowed", "Allow: GET, HEAD\r\n", sentence));
    }
    // A name that an attacker's server gave this address is not ours: "DNS rebinding".
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

/// Compares in a time that does not show how much of a guess was right.
fn is_same(guess: &str, token: &str) -> bool {
    let mut differ = 0;
    for (guessed, byte) in std::iter::zip(guess.bytes(), token.bytes()) {
        differ |= guessed ^ byte;
    }
    guess.len() == token.len() && std::hint::black_box(differ) == 0
}

fn error_answer(status: &'static str, fields: &'static str, sentence: &str) -> Answer {
    Answer {
        status,
        content_type: http::HTML,
        fields,
        body: view_pages::error_page(status, sentence),
    }
}

fn not_found() -> Answer {
    error_answer(
        "404 Not Found",
        "",
        "There is no such page: use the address that dfsbench printed.",
    )
}

/// Sends changes to a connection as long as it is open.
fn listen_to_news(stream: &mut TcpStream, request: &Request, shared: &Arc<Shared>) {
    let Some(_slot) = Slot::take(shared, |shared| &shared.listeners, LISTENERS_MAX) else {
        let full =
            error_answer("503 Service Unavailable", "", "Too many pages wait for changes already.");
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

    /// A campaign in a list, for tests.
    pub fn line() -> CampaignLine {
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

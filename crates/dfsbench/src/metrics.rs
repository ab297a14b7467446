//! `--metrics ADDRESS`: metrics for Prometheus over HTTP, at `/metrics`.
//!
//! [`Endpoint`] is the main type: one thread waits for connections, and a few connections get a
//! thread each. The caller's function renders the text from data it already has, so the measurement
//! never waits for a reader, however slow it is. The endpoint is read-only and needs no token,
//! because the user chooses the address.

use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::exit::Failure;
use crate::http::{self, Body, Request, Response};

/// Content type of the metrics.
///
/// **Source:** OpenMetrics 1.0, 4.3.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Content type of error messages.
const PLAIN: &str = "text/plain; charset=utf-8";

/// Content security policy: a browser must not load anything.
const POLICY: &str = "default-src 'none'";

/// Maximum number of simultaneous connections.
const CONNECTIONS_MAX: usize = 8;

/// Timeout of the connection that wakes the waiting thread so that it exits.
const WAKE_TIME_MAX: Duration = Duration::from_secs(1);

/// Renders the metrics.
pub(crate) type Source = dyn Fn() -> Response + Send + Sync;

/// Serves metrics at an address until it is dropped.
pub(crate) struct Endpoint {
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Wraps the text of metrics in a response.
pub(crate) fn answer(text: String) -> Response {
    Response { status: "200 OK", content_type: OPEN_METRICS, fields: "", body: text }
}

/// Parses the value of `--metrics`.
///
/// # Errors
/// If it is not an address with a port.
pub(crate) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let with_port: Result<SocketAddr, _> = text.parse();
    match with_port {
        Ok(address) => Ok(address),
        Err(_) => {
            Err("not an IP address with a port, such as 127.0.0.1:9464 or [::1]:9464; port 0 \
                       picks a free one"
                .to_owned())
        }
    }
}

impl Endpoint {
    /// Listens and starts answering requests.
    pub(crate) fn start(address: SocketAddr, source: Arc<Source>) -> Result<Self, Failure> {
        let listened =
            TcpListener::bind(address).and_then(|listener| Ok((listener.local_addr()?, listener)));
        let (address, listener) = match listened {
            Ok(both) => both,
            Err(error) => {
                return Err(Failure::Lab(format!(
                    "can't serve metrics on {address}: {error} (hint: choose a free port with \
                     --metrics; port 0 picks one)"
                )));
            }
        };
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::Builder::new().name("metrics".into()).spawn({
            let stop = Arc::clone(&stop);
            move || accept_all(&listener, &stop, &source)
        });
        match thread {
            Ok(thread) => Ok(Self { address, stop, thread: Some(thread) }),
            Err(error) => Err(Failure::Lab(format!("can't start a thread for metrics: {error}"))),
        }
    }

    /// Returns the URL for a browser or Prometheus.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        // The thread blocks in `accept` so that it uses no CPU; a connection wakes it. An
        // unspecified address is reachable through loopback.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            let loopback = if address.is_ipv4() { "127.0.0.1" } else { "::1" };
            address.set_ip(loopback.parse().expect("an address of loopback"));
        }
        if TcpStream::connect_timeout(&address, WAKE_TIME_MAX).is_ok()
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

fn accept_all(listener: &TcpListener, stop: &AtomicBool, source: &Arc<Source>) {
    let open = Arc::new(AtomicUsize::new(0));
    while !stop.load(Ordering::Acquire) {
        let Ok((stream, _)) = listener.accept() else {
            // We may be out of file descriptors for a moment. Retrying without a pause would use up
            // a CPU.
            std::thread::park_timeout(Duration::from_millis(100));
            continue;
        };
        if stop.load(Ordering::Acquire) || open.load(Ordering::Acquire) >= CONNECTIONS_MAX {
            continue;
        }
        let slot = Slot::take(&open);
        let source = Arc::clone(source);
        // If no thread can be started, the connection is closed, and the next scrape may succeed.
        let _ = std::thread::Builder::new().name("metrics".into()).spawn(move || {
            let _slot = slot;
            answer_request(stream, &source);
        });
    }
}

/// One of the connections that may be open.
struct Slot {
    open: Arc<AtomicUsize>,
}

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Self {
        open.fetch_add(1, Ordering::AcqRel);
        Self { open: Arc::clone(open) }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }
}

fn answer_request(mut stream: TcpStream, source: &Arc<Source>) {
    let is_loopback = stream.local_addr().is_ok_and(|address| address.ip().is_loopback());
    let (answer, body) = match http::read(&mut stream) {
        Err(why) => (message("400 Bad Request", "", why), Body::Sent),
        Ok(request) => {
            let body = if request.method == "HEAD" { Body::Omitted } else { Body::Sent };
            let answer = refuse(&request, is_loopback).unwrap_or_else(|| source());
            (answer, body)
        }
    };
    // If the client has disconnected, it needs no response.
    let _ = http::write(&mut stream, &answer, POLICY, body);
}

fn refuse(request: &Request, is_loopback: bool) -> Option<Response> {
    if !matches!(request.method.as_str(), "GET" | "HEAD") {
        let sentence = "Metrics are read with GET.";
        return Some(message("405 Method Not Allowed", "Allow: GET, HEAD\r\n", sentence));
    }
    // A page of another site can give our address a host name of its own and then read from it
    // ("DNS rebinding"). On loopback, the only such risk is a browser on this host.
    if is_loopback && !names_loopback(request.host.as_deref().unwrap_or_default()) {
        let sentence = "The Host field of the request does not name this host.";
        return Some(message("400 Bad Request", "", sentence));
    }
    if request.path != "/metrics" {
        return Some(message("404 Not Found", "", "Metrics are at /metrics."));
    }
    None
}

/// Returns true if a Host field names loopback: `localhost`, `127.0.0.1:9464`, `[::1]:9464`.
fn names_loopback(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let address: Result<IpAddr, _> = name.trim_matches(['[', ']']).parse();
    name == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn message(status: &'static str, fields: &'static str, sentence: &str) -> Response {
    Response { status, content_type: PLAIN, fields, body: format!("{sentence}\n") }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};

    use super::*;

    fn get(address: SocketAddr, head: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn serves_metrics_at_one_path() {
        let source: Arc<Source> = Arc::new(|| answer("planted 1\n# EOF\n".to_owned()));
        let endpoint = Endpoint::start(parse_address("127.0.0.1:0").unwrap(), source).unwrap();
        let address = endpoint.address;
        assert_eq!(endpoint.url(), format!("http://{address}/metrics"));
        // A client that sends nothing doesn't block others.
        let _slow = TcpStream::connect(address).unwrap();
        for (head, status, text) in [
            ("GET /metrics HTTP/1.1\r\nHost: localhost:1\r\n\r\n", "200 OK", "planted 1"),
            ("HEAD /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "200 OK", "openmetrics-text"),
            ("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "404 ", "at /metrics"),
            ("POST /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n", "405 ", "with GET"),
            ("GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", "400 ", "Host field"),
            ("\x16\x03\x01\r\n\r\n", "400 ", "not an HTTP"),
        ] {
            let answer = get(address, head);
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{head}: {answer}");
            assert!(answer.contains(text), "{head}: {answer}");
        }
        drop(endpoint);
        assert!(TcpStream::connect(address).is_err());
    }

    #[test]
    fn rejects_bad_or_taken_address() {
        for text in ["9464", "127.0.0.1", "localhost:9464", "127.0.0.1:70000", ""] {
            assert!(parse_address(text).unwrap_err().contains("127.0.0.1:9464"), "{text}");
        }
        assert!(
            names_loopback("[::1]:80") && names_loopback("127.9.9.9") && !names_loopback("a:80")
        );
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let source: Arc<Source> = Arc::new(|| answer(String::new()));
        let Err(error) = Endpoint::start(taken.local_addr().unwrap(), source) else {
            panic!("two listen on one port");
        };
        assert!(error.to_string().contains("can't serve metrics on 127.0.0.1:"), "{error}");
        assert!(error.to_string().contains("(hint: "), "{error}");
    }
}

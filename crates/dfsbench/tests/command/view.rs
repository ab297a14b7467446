//! `dfsbench view` over its socket: access control, and slow clients that don't block others.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use rusqlite::Connection;

use crate::cli::{Cli, ServedProcess};

/// Nothing here takes this long.
const PATIENCE: Duration = Duration::from_secs(60);
const HOSTILE: &str = "<script>alert(1)</script>";

/// A view of a file with a campaign that has markup as its name.
struct View {
    _served: ServedProcess,
    cli: Cli,
    port: u16,
    token: String,
}

impl View {
    fn start() -> Self {
        let cli = Cli::new();
        assert_eq!(cli.run(&["run", "null", "--duration", "100ms", "--trials", "1"]).code, 0);
        let db = Connection::open(cli.folder().join("dfsbench.db")).unwrap();
        db.execute("UPDATE campaigns SET name = ?1", [HOSTILE]).unwrap();
        let served = ServedProcess::launch(&cli, &["view", "--no-open"]);
        let mut parts = served.url.trim_start_matches("http://127.0.0.1:").split('/');
        let port = parts.next().unwrap().parse().unwrap();
        let token = parts.next().unwrap().to_owned();
        Self { _served: served, cli, port, token }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a head as it is; returns the whole answer.
    fn raw(&self, head: &str) -> String {
        let mut stream = self.connect();
        stream.write_all(head.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // If the connection is reset, the server has already sent everything.
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8(answer).unwrap()
    }

    /// Requests a page below the token.
    fn page(&self, page: &str) -> String {
        self.raw(&format!(
            "GET /{}/{page} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
            self.token, self.port
        ))
    }
}

#[test]
fn serves_pages_only_with_address() {
    let view = View::start();
    let list = view.page("");
    assert!(list.starts_with("HTTP/1.1 200 ") && list.contains("frame-ancestors 'none'"), "{list}");
    // Names are escaped, both in the list and on pages.
    for page in [&list, &view.page("campaign/1"), &view.page("compare?before=1&after=1")] {
        assert!(page.starts_with("HTTP/1.1 200 ") && !page.contains(HOSTILE), "{page}");
    }
    assert!(list.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
    let token = &view.token;
    let port = view.port;
    let other = format!("{}{}", &token[1..], &token[..1]);
    for (head, status, words) in [
        (format!("GET / HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"), 404, "no such page"),
        (format!("GET /{other}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"), 404, "no such page"),
        (format!("GET /{token}/ HTTP/1.1\r\nHost: evil.example:{port}\r\n\r\n"), 400, "Host"),
        (format!("GET /{token}/ HTTP/1.1\r\n\r\n"), 400, "Host"),
        (format!("POST /{token}/ HTTP/1.1\r\nHost: localhost:{port}\r\n\r\n"), 405, "Allow: GET"),
        ("nonsense\r\n\r\n".to_owned(), 400, "not an HTTP request"),
        (format!("GET /{} HTTP/1.1\r\n", "x".repeat(9_000)), 400, "longer than 8 KiB"),
    ] {
        let answer = view.raw(&head);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
        assert!(answer.contains(words) && !answer.contains(HOSTILE), "{head}: {answer}");
    }
    for (page, status) in
        [("campaign/9", 404), ("campaign/x", 404), ("no", 404), ("compare?before=1", 400)]
    {
        assert!(view.page(page).starts_with(&format!("HTTP/1.1 {status} ")), "{page}");
    }
}

#[test]
fn notifies_clients_despite_slow_one() {
    let view = View::start();
    let slow: Vec<TcpStream> = (0..40).map(|_| view.connect()).collect();
    for mut stream in &slow {
        stream.write_all(b"GET /").unwrap();
    }
    assert!(view.page("").starts_with("HTTP/1.1 200 "));
    let mut news = view.connect();
    let request = format!(
        "GET /{}/events?since=1 HTTP/1.1\r\nHost: 127.0.0.1:{}\r\n\r\n",
        view.token, view.port
    );
    news.write_all(request.as_bytes()).unwrap();
    assert_eq!(view.cli.run(&["run", "null", "--duration", "100ms", "--trials", "1"]).code, 0);
    let mut received = String::new();
    let mut part = [0; 256];
    while !received.contains("event: change\ndata: 2\n\n") {
        let count = news.read(&mut part).unwrap();
        assert!(count > 0, "{received}");
        received.push_str(std::str::from_utf8(&part[..count]).unwrap());
    }
    assert!(view.page("").contains("campaign/2"));
}

#[test]
fn reports_nothing_to_view() {
    let cli = Cli::new();
    cli.refused(&["view", "--no-open"], 2, &["dfsbench.db", "hint"]);
    std::fs::write(cli.folder().join("dfsbench.db"), "").unwrap();
    cli.refused(&["view", "--no-open"], 2, &["dfsbench.db"]);
}

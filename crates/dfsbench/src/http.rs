//! The part of HTTP/1.1 that pages and metrics need: reads a request, writes a response and closes
//! the connection.
//!
//! Requests may come from anyone on this host, so the head has a maximum size and a deadline, and
//! nothing is allocated based on its contents. `httparse` parses the head; bodies are never read.
//!
//! **Source:** RFC 9112 (messages), RFC 9110, 15 (status codes).

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Limits on the size and the number of fields of a request's head.
const HEAD_BYTES_MAX: usize = 8 << 10;
const FIELDS_MAX: usize = 48;
/// Time limit for receiving the head.
const HEAD_TIME_MAX: Duration = Duration::from_secs(5);
/// Time limit for sending the response.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(30);

pub(crate) const HTML: &str = "text/html; charset=utf-8";

#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    /// Such as `GET` or `HEAD`.
    pub method: String,
    /// Path without the query.
    pub path: String,
    /// Query after the question mark; empty if there is none.
    pub query: String,
    /// The `Host` field.
    pub host: Option<String>,
}

impl Request {
    /// Returns a query parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&str> {
        self.query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .find(|(known, _)| *known == name)
            .map(|(_, value)| value)
    }

    /// Returns a query parameter that is a campaign's ID.
    pub(crate) fn campaign(&self, name: &str) -> Option<i64> {
        self.parameter(name)?.parse().ok()
    }
}

/// The response to a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Response {
    /// Status code and reason, such as `200 OK`.
    pub status: &'static str,
    pub content_type: &'static str,
    /// Additional header lines, each including its line ending.
    pub fields: &'static str,
    pub body: String,
}

/// Reads a request.
///
/// # Errors
/// If the head is too long, too late or not HTTP; the error is a sentence for the client.
pub(crate) fn read(stream: &mut TcpStream) -> Result<Request, &'static str> {
    let deadline = Instant::now() + HEAD_TIME_MAX;
    let mut head = Vec::with_capacity(1 << 10);
    let mut part = [0; 1 << 10];
    loop {
        if let Some(request) = parse_head(&head)? {
            return Ok(request);
        }
        if head.len() >= HEAD_BYTES_MAX {
            return Err("The head of the request is longer than 8 KiB.");
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
            return Err("The head of the request did not arrive within 5 seconds.");
        }
        match stream.read(&mut part) {
            Ok(0) => return Err("The request ended within its header."),
            Ok(count) => head.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => return Err("The head of the request did not arrive within 5 seconds."),
        }
    }
}

/// Parses a head; `None` if it is incomplete.
fn parse_head(head: &[u8]) -> Result<Option<Request>, &'static str> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(_) => return Err("This is not an HTTP request."),
    }
    let target = request.path.unwrap_or_default();
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut hosts = request.headers.iter().filter(|f| f.name.eq_ignore_ascii_case("host"));
    let host = hosts.next().and_then(|field| std::str::from_utf8(field.value).ok());
    if hosts.next().is_some() {
        return Err("The request has two Host fields.");
    }
    Ok(Some(Request {
        method: request.method.unwrap_or_default().to_owned(),
        path: path.to_owned(),
        query: query.to_owned(),
        host: host.map(str::to_owned),
    }))
}

/// Whether a response includes its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Body {
    Sent,
    /// Only the head was requested.
    Omitted,
}

/// Writes a response.
///
/// # Errors
/// If the client has disconnected or reads too slowly.
pub(crate) fn write(
    stream: &mut TcpStream,
    answer: &Response,
    policy: &str,
    body: Body,
) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{}{}\r\n",
        answer.status,
        answer.content_type,
        answer.body.len(),
        common_headers(policy),
        answer.fields
    );
    let deadline = Instant::now() + ANSWER_TIME_MAX;
    write_by(stream, head.as_bytes(), deadline)?;
    if body == Body::Sent {
        write_by(stream, answer.body.as_bytes(), deadline)?;
    }
    // If unread bytes of the request were left, the kernel would reset the connection, and the
    // client would lose the response.
    let _ = stream.set_read_timeout(Some(Duration::from_millis(10)));
    let _ = stream.shutdown(std::net::Shutdown::Write);
    let _ = stream.read(&mut [0; 512]);
    Ok(())
}

/// Starts an event stream.
pub(crate) fn begin_events(stream: &mut TcpStream, policy: &str) -> io::Result<()> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{}\r\nretry: 2000\n\n",
        common_headers(policy)
    );
    write_by(stream, head.as_bytes(), Instant::now() + HEAD_TIME_MAX)
}

/// Writes an event, or a comment that keeps the connection alive.
///
/// # Errors
/// If the client has disconnected or doesn't read it.
pub(crate) fn event(stream: &mut TcpStream, text: &str) -> io::Result<()> {
    write_by(stream, text.as_bytes(), Instant::now() + HEAD_TIME_MAX)
}

/// Returns the headers of every response: no caching, no content sniffing, no referrer.
fn common_headers(policy: &str) -> String {
    format!(
        "Content-Security-Policy: {policy}\r\nCache-Control: no-store\r\nConnection: close\r\n\
         X-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n\
         Cross-Origin-Resource-Policy: same-origin\r\n"
    )
}

fn write_by(stream: &mut TcpStream, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(ErrorKind::TimedOut.into());
        }
        stream.set_write_timeout(Some(left))?;
        match stream.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(count) => bytes = &bytes[count..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_or_rejects_request_head() {
        let head = b"GET /a/compare?before=1&after=2 HTTP/1.1\r\nHOST: 127.0.0.1:80\r\n\r\n";
        let request = parse_head(head).unwrap().unwrap();
        assert_eq!((request.path.as_str(), request.parameter("after")), ("/a/compare", Some("2")));
        assert_eq!(request.host.as_deref(), Some("127.0.0.1:80"));
        for end in 0..head.len() {
            assert_eq!(parse_head(&head[..end]), Ok(None), "{end}");
        }
        assert!(parse_head(b"\x16\x03\x01\x02\x00").is_err());
        assert!(parse_head(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n").is_err());
        let many = "x: y\r\n".repeat(FIELDS_MAX + 1);
        assert!(parse_head(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes()).is_err());
    }
}

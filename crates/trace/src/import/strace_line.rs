//! Lines of strace: who, when, which call, its arguments and its result.
//!
//! **Source:** strace(1) of strace 6.1, and its output.

/// A line of the output.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StraceLine<'a> {
    /// Number of the thread; 0 if the output is of a single one.
    pub pid: u32,
    pub time_ns: u64,
    pub event: Event<'a>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Event<'a> {
    /// A whole call: `name(args) = result`.
    Call(&'a [u8]),
    /// The beginning of a call whose end comes later.
    Unfinished(&'a [u8]),
    /// The end of such a call.
    Resumed(&'a [u8]),
    /// The thread has ended.
    Exited,
    Signal,
}

/// A call with its result.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StraceCall<'a> {
    pub name: &'a str,
    pub args: Vec<&'a [u8]>,
    /// The number that was returned; `None` if there was none.
    pub returned: Option<i64>,
    /// Path of a returned file descriptor.
    pub returned_path: Option<&'a [u8]>,
    /// Name of the error.
    pub error: Option<&'a str>,
    /// Time that the call took.
    pub took_ns: Option<u64>,
}

/// Splits a line. Returns `None` if it isn't one of `strace -ttt`.
pub(super) fn parse_line(line: &[u8]) -> Option<StraceLine<'_>> {
    let mut rest = line.trim_ascii_start();
    let mut pid = 0;
    if let Some(after) = rest.strip_prefix(b"[pid ") {
        let end = after.iter().position(|byte| *byte == b']')?;
        pid = parse_number(after[..end].trim_ascii())?;
        rest = after[end + 1..].trim_ascii_start();
    } else if let Some((word, after)) = split_word(rest)
        && !word.contains(&b'.')
    {
        pid = parse_number(word)?;
        rest = after;
    }
    let (time, rest) = split_word(rest)?;
    let time_ns = parse_seconds(time)?;
    let event = if rest.starts_with(b"+++ ") {
        Event::Exited
    } else if rest.starts_with(b"--- ") {
        Event::Signal
    } else if let Some(after) = rest.strip_prefix(b"<... ") {
        let end = find(after, b" resumed>")?;
        Event::Resumed(&after[end + b" resumed>".len()..])
    } else if let Some(begun) = rest.strip_suffix(b"<unfinished ...>") {
        Event::Unfinished(begun)
    } else {
        Event::Call(rest)
    };
    Some(StraceLine { pid: u32::try_from(pid).ok()?, time_ns, event })
}

/// Parses a whole call.
pub(super) fn parse_call(text: &[u8]) -> Option<StraceCall<'_>> {
    let open = text.iter().position(|byte| *byte == b'(')?;
    let name = std::str::from_utf8(&text[..open]).ok()?;
    let is_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let (args, end) = split_args(&text[open + 1..])?;
    let rest = text[open + 1 + end..].trim_ascii_start();
    let rest = rest.strip_prefix(b"=")?.trim_ascii_start();
    let mut call =
        StraceCall { name, args, returned: None, returned_path: None, error: None, took_ns: None };
    // The time is last: `<0.000181>`.
    let mut result = rest;
    if let Some(inner) = rest.strip_suffix(b">")
        && let Some(at) = inner.iter().rposition(|byte| *byte == b'<')
        && let Some(took_ns) = parse_seconds(&inner[at + 1..])
    {
        call.took_ns = Some(took_ns);
        result = rest[..at].trim_ascii_end();
    }
    let end = result
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'-'))
        .unwrap_or(result.len());
    let (number, after) = result.split_at(end);
    call.returned = parse_int(number);
    if let Some(path) = annotation(after) {
        call.returned_path = Some(path);
    } else if call.returned == Some(-1) {
        let word = split_word(after.trim_ascii_start());
        let word = word.map_or(after.trim_ascii(), |(word, _)| word);
        call.error = std::str::from_utf8(word).ok();
    }
    Some(call)
}

/// Splits the arguments up to the closing parenthesis. Returns them and the position after it.
fn split_args(text: &[u8]) -> Option<(Vec<&[u8]>, usize)> {
    let mut args = Vec::new();
    let mut depth = 0_u32;
    let mut start = 0;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                at += 1;
                while *text.get(at)? != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
            }
            // A path, in which strace escapes `>`.
            b'<' if at > 0
                && (text[at - 1].is_ascii_digit() || text[..at].ends_with(b"AT_FDCWD")) =>
            {
                at += text[at..].iter().position(|byte| *byte == b'>')?;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' if depth == 0 => {
                let last = text[start..at].trim_ascii();
                if !(args.is_empty() && last.is_empty()) {
                    args.push(last);
                }
                return Some((args, at + 1));
            }
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                args.push(text[start..at].trim_ascii());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    None
}

/// Returns the path of a file descriptor: `</path>`; none if it is a socket or a pipe.
fn annotation(text: &[u8]) -> Option<&[u8]> {
    let inner = text.strip_prefix(b"<")?;
    let end = inner.iter().position(|byte| *byte == b'>')?;
    Some(&inner[..end]).filter(|path| path.starts_with(b"/"))
}

/// Parses a file descriptor: its number, `None` for the current directory, and its path.
pub(super) fn parse_fd(arg: &[u8]) -> Option<(Option<i64>, Option<Vec<u8>>)> {
    if let Some(rest) = arg.strip_prefix(b"AT_FDCWD") {
        return Some((None, annotation(rest).map(unescape)));
    }
    let end = arg.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(arg.len());
    let rest = &arg[end..];
    let is_descriptor = rest.is_empty() || rest.starts_with(b"<");
    let number = std::str::from_utf8(&arg[..end]).ok()?.parse().ok()?;
    is_descriptor.then(|| (Some(number), annotation(rest).map(unescape)))
}

/// Parses a text in quotes. Returns `None` if it isn't one, or was cut short.
pub(super) fn parse_text(arg: &[u8]) -> Option<Vec<u8>> {
    let inner = arg.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    Some(unescape(inner))
}

/// Parses a number in decimal, hexadecimal or octal.
pub(super) fn parse_int(arg: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(arg).ok()?;
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?.try_into().ok(),
        None => text.parse().ok(),
    }
}

/// Returns the number after a word: `st_size=5000`.
pub(super) fn number_after(arg: &[u8], word: &[u8]) -> Option<u64> {
    let rest = &arg[find(arg, word)? + word.len()..];
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    parse_number(&rest[..end])
}

/// Returns true if the text contains a word.
pub(super) fn contains(text: &[u8], word: &[u8]) -> bool {
    find(text, word).is_some()
}

/// Resolves the escapes of C, in which strace prints unusual bytes.
fn unescape(text: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut at = 0;
    while at < text.len() {
        if text[at] != b'\\' || at + 1 == text.len() {
            bytes.push(text[at]);
            at += 1;
            continue;
        }
        at += 1;
        let is_octal = |byte: &u8| (b'0'..=b'7').contains(byte);
        let octal = text[at..].iter().take(3).take_while(|byte| is_octal(byte)).count();
        if octal > 0 {
            let number = text[at..at + octal]
                .iter()
                .fold(0_u32, |sum, digit| sum * 8 + u32::from(digit - b'0'));
            bytes.push(number as u8);
            at += octal;
            continue;
        }
        bytes.push(match text[at] {
            b'n' => b'\n',
            b't' => b'\t',
            b'r' => b'\r',
            b'v' => 11,
            b'f' => 12,
            other => other,
        });
        at += 1;
    }
    bytes
}

fn find(text: &[u8], word: &[u8]) -> Option<usize> {
    text.windows(word.len()).position(|part| part == word)
}

/// Splits off a word and the spaces after it.
fn split_word(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = text.iter().position(|byte| *byte == b' ')?;
    Some((&text[..end], text[end..].trim_ascii_start()))
}

fn parse_number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// Parses seconds with up to nine decimal places, as nanoseconds.
fn parse_seconds(text: &[u8]) -> Option<u64> {
    let at = text.iter().position(|byte| *byte == b'.')?;
    let (whole, decimals) = (&text[..at], &text[at + 1..]);
    if decimals.is_empty() || decimals.len() > 9 || !decimals.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let scale = 10_u64.pow(9 - decimals.len() as u32);
    let fraction = parse_number(decimals)? * scale;
    parse_number(whole)?.checked_mul(1_000_000_000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_lines_with_and_without_pid() {
        for (line, pid, time_ns) in [
            (&b"13995 1795968069.462229 close(3) = 0"[..], 13995, 1_795_968_069_462_229_000),
            (b"[pid    77] 5.000001 close(3) = 0", 77, 5_000_001_000),
            (b"5.5 close(3) = 0", 0, 5_500_000_000),
        ] {
            let parsed = parse_line(line).unwrap();
            assert_eq!((parsed.pid, parsed.time_ns), (pid, time_ns));
            assert_eq!(parsed.event, Event::Call(b"close(3) = 0"));
        }
        let event = |line: &'static [u8]| parse_line(line).unwrap().event;
        assert_eq!(event(b"1 2.0 vfork( <unfinished ...>"), Event::Unfinished(b"vfork( "));
        assert_eq!(event(b"1 2.0 <... vfork resumed>) = 5"), Event::Resumed(b") = 5"));
        assert_eq!(event(b"1 2.0 +++ exited with 0 +++"), Event::Exited);
        assert_eq!(event(b"1 2.0 --- SIGCHLD {si_signo=SIGCHLD} ---"), Event::Signal);
        for line in [&b""[..], b"close(3) = 0", b"12:30:01 close(3) = 0", b"1 x close(3) = 0"] {
            assert_eq!(parse_line(line), None);
        }
    }

    #[test]
    fn parses_arguments_and_results() {
        let call = parse_call(
            b"openat(AT_FDCWD</a,b>, \"x\\\"),\\n\", O_RDONLY|O_CLOEXEC) = 3</a,b/x> <0.000044>",
        )
        .unwrap();
        assert_eq!((call.name, call.args.len()), ("openat", 3));
        assert_eq!(parse_fd(call.args[0]), Some((None, Some(b"/a,b".to_vec()))));
        assert_eq!(parse_text(call.args[1]), Some(b"x\"),\n".to_vec()));
        assert_eq!((call.returned, call.returned_path), (Some(3), Some(&b"/a,b/x"[..])));
        assert_eq!(call.took_ns, Some(44_000));

        let call = parse_call(
            b"newfstatat(3</x>, \"\", {st_mode=S_IFREG|0644, st_size=5000, ...}, AT_EMPTY_PATH) = 0",
        )
        .unwrap();
        assert_eq!(number_after(call.args[2], b"st_size="), Some(5000));
        let call = parse_call(b"unlink(\"f\") = -1 ENOENT (No such file or directory)").unwrap();
        assert_eq!((call.returned, call.error), (Some(-1), Some("ENOENT")));
        let call = parse_call(b"read(3, \"\\0\\1\"..., 832) = 832 <0.1>").unwrap();
        assert_eq!(call.args.len(), 3);
        assert_eq!(parse_text(call.args[1]), None);
        assert_eq!(parse_call(b"fork() = 7").unwrap().args.len(), 0);
        for text in [&b"read(3, \"x"[..], b"read", b"read(3) 5", b"(3) = 5", b"a b(3) = 1"] {
            assert_eq!(parse_call(text), None);
        }
    }
}

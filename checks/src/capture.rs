//! Captures the wire traffic of our programs, and dissects it with tshark.
//!
//! [`Capture`] listens on loopback while something runs. To know that it has started, and that it
//! has seen everything, we send datagrams and wait until they appear in its file. [`Frames`] are
//! the dissected frames: one that is malformed, unknown or not completely understood is an error
//! that contains its number.
//!
//! **Source:** tshark(1), dumpcap(1); Wireshark display filter reference, "rpc", "nfs", "_ws".

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use tempfile::TempDir;

use crate::proc::{self, Background};

const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(50);
/// Buffer in the kernel, in MiB, so that a busy machine drops nothing.
const BUFFER: &str = "128";
/// Length of the end of the file that is searched for our own datagram, in bytes.
const TAIL_BYTES: u64 = 64 * 1024;
/// Minimum severity that is an error: tshark's "error"; warnings are about the order of segments.
const SEVERITY_ERROR: u32 = 0x0080_0000;

/// Fields read from each frame, in the order of [`Frame::parse`].
const FIELDS: [&str; 14] = [
    "frame.number",
    "tcp.srcport",
    "udp.srcport",
    "rpc.msgtyp",
    "rpc.program",
    "nfs.procedure_v2",
    "nfs.procedure_v3",
    "nfs.procedure_v4",
    "nfs.minorversion",
    "_ws.malformed",
    "_ws.expert.severity",
    "_ws.expert.message",
    "frame.protocols",
    "tcp.analysis.lost_segment",
];

/// A running capture.
pub struct Capture {
    process: Background,
    folder: TempDir,
    file: PathBuf,
    marker: UdpSocket,
    port: u16,
}

impl Capture {
    /// Starts to capture the traffic of a loopback port; returns once it does.
    ///
    /// # Errors
    /// If dumpcap is missing or has no permission to capture.
    pub fn start(port: u16) -> Result<Self> {
        let folder = TempDir::with_prefix("dfsbench-capture-")?;
        let marker = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
        let own = marker.local_addr()?.port();
        let mut command = Command::new("dumpcap");
        let file = folder.path().join("wire");
        command.args(["-q", "-i", "lo", "-B", BUFFER, "-w"]).arg(&file);
        command.args(["-f", &format!("port {port} or udp port {own}")]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(File::create(folder.path().join("stderr"))?);
        let capture =
            Self { process: Background::start(&mut command)?, folder, file, marker, port };
        capture.await_marker("dfsbench-capture-begins")?;
        Ok(capture)
    }

    /// Ends the capture once it has seen everything so far, and dissects it.
    pub fn finish(mut self) -> Result<Frames> {
        self.end()?;
        Frames::parse(&self.dissect("rpc", &FIELDS)?)
    }

    /// Ends the capture once it has seen everything so far.
    pub fn end(&mut self) -> Result<()> {
        self.await_marker("dfsbench-capture-ends")?;
        // On Ctrl-C it writes its last packet completely; if killed, it may not.
        self.process.interrupt(PATIENCE)?;
        Ok(())
    }

    /// Prints fields of each frame, with the port decoded as this protocol.
    pub fn dissect(&self, as_what: &str, fields: &[&str]) -> Result<String> {
        let mut tshark = Command::new("tshark");
        tshark.arg("-r").arg(self.file()).args(["-T", "fields", "-E", "separator=/t"]);
        let transports = if as_what == "tls" { &["tcp"][..] } else { &["tcp", "udp"] };
        for transport in transports {
            tshark.args(["-d", &format!("{transport}.port=={},{as_what}", self.port)]);
        }
        tshark.args(["-Y", &format!("tcp.port=={0} or udp.port=={0}", self.port)]);
        for field in fields {
            tshark.args(["-e", field]);
        }
        proc::capture_text(&mut tshark)
    }

    /// Returns the path of the capture.
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Sends a datagram until it is in the file.
    fn await_marker(&self, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let own = self.marker.local_addr()?;
        // If the file can't be read yet, it is not in there.
        while !self.has_at_end(text.as_bytes()).unwrap_or(false) {
            if Instant::now() > deadline {
                let stderr = fs::read_to_string(self.folder.path().join("stderr"));
                bail!("dumpcap captures nothing: {}", stderr.unwrap_or_default());
            }
            self.marker.send_to(text.as_bytes(), own)?;
            thread::sleep(POLL);
        }
        Ok(())
    }

    /// Returns true if the end of the file contains a text.
    fn has_at_end(&self, text: &[u8]) -> std::io::Result<bool> {
        let mut file = File::open(self.file())?;
        let len = file.metadata()?.len();
        file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(bytes.windows(text.len()).any(|window| window == text))
    }
}

/// One dissected frame. A frame can contain many RPC messages.
#[derive(Debug, Default)]
struct Frame {
    number: u32,
    source_port: u16,
    /// 0 for each call, 1 for each reply.
    messages: Vec<u32>,
    programs: Vec<u32>,
    /// Number of messages understood as NFS version 2, 3 and 4.
    nfs: [usize; 3],
    minors: Vec<u32>,
    complaint: Option<String>,
    protocols: String,
    follows_a_gap: bool,
}

/// All frames of a capture.
pub struct Frames {
    frames: Vec<Frame>,
}

/// The calls and bytes that a capture must contain.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// Version of NFS: 2, 3 or 4.
    pub version: u32,
    /// Minor version of NFS v4.
    pub minor: Option<u32>,
    /// The port of the client's connection, and how many calls it reports to have sent there.
    pub calls: (u16, u64),
}

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const PORTMAP: u32 = 100_000;

impl Frame {
    fn parse(line: &str) -> Result<Self> {
        let mut fields = line.split('\t');
        let mut next = || fields.next().context("tshark prints unexpected fields");
        let number = next()?.parse().context("a frame without a number")?;
        let tcp = next()?;
        let udp = next()?;
        let messages = parse_numbers(next()?)?;
        let programs = parse_numbers(next()?)?;
        let mut nfs = [0; 3];
        for count in &mut nfs {
            *count = parse_numbers(next()?)?.len();
        }
        let minors = parse_numbers(next()?)?;
        let malformed = next()?;
        let severities = parse_numbers(next()?)?;
        let message = next()?;
        let mut is_bad = !malformed.is_empty();
        for severity in severities {
            // The severity is one hexadecimal digit; the other bits are the group of the message.
            is_bad |= severity & 0x00f0_0000 >= SEVERITY_ERROR;
        }
        let complaint = if is_bad { Some(format!("{malformed} {message}")) } else { None };
        let protocols = next()?.to_owned();
        let gap = next()?;
        Ok(Self {
            number,
            source_port: if tcp.is_empty() { udp } else { tcp }.parse().unwrap_or_default(),
            messages,
            programs,
            nfs,
            minors,
            complaint,
            protocols,
            follows_a_gap: !gap.is_empty(),
        })
    }

    fn check(&self, expected: &Expected) -> Result<()> {
        let Self { number, programs, messages, .. } = self;
        if let Some(complaint) = &self.complaint {
            bail!("frame {number} ({}): {complaint}", self.protocols);
        }
        // tshark calls bytes `data` if no dissector understood them.
        for name in self.protocols.split(':') {
            ensure!(name != "data", "frame {number} is not understood: {}", self.protocols);
        }
        ensure!(
            programs.len() == messages.len(),
            "frame {number} has {} messages, of which {} are understood",
            messages.len(),
            programs.len()
        );
        let mut of_nfs = 0;
        for program in programs {
            let is_known = [NFS, MOUNT, PORTMAP].contains(program);
            ensure!(is_known, "frame {number}: unknown program {program}");
            of_nfs += usize::from(*program == NFS);
        }
        let version = (expected.version - 2) as usize;
        ensure!(
            self.nfs[version] == of_nfs && self.nfs.iter().sum::<usize>() == of_nfs,
            "frame {number}: {of_nfs} messages of NFS, of v2, v3, v4: {:?}",
            self.nfs
        );
        let minor = expected.minor.unwrap_or_default();
        for seen in &self.minors {
            ensure!(*seen == minor, "frame {number}: minor version {seen} instead of {minor}");
        }
        Ok(())
    }
}

impl Frames {
    fn parse(text: &str) -> Result<Self> {
        let frames = text.lines().map(Frame::parse).collect::<Result<Vec<_>, _>>()?;
        Ok(Self { frames })
    }

    /// Returns true if the capture is complete; the kernel drops frames if dumpcap is too slow.
    pub fn are_all_there(&self) -> bool {
        !self.frames.iter().any(|frame| frame.follows_a_gap)
    }

    /// Checks every frame, and that the number of calls and replies is as reported by the client.
    ///
    /// # Errors
    /// The first problem found.
    pub fn check(&self, expected: &Expected) -> Result<()> {
        let (port, counted) = expected.calls;
        // The client's own calls, which it counted, and all calls and replies in the capture.
        let mut own = 0;
        let mut calls = 0;
        let mut replies = 0;
        for frame in &self.frames {
            frame.check(expected)?;
            for kind in &frame.messages {
                let is_call = *kind == 0;
                own += u64::from(is_call && frame.source_port == port);
                calls += u64::from(is_call);
                replies += u64::from(!is_call);
            }
        }
        ensure!(own > 0, "no call was captured");
        ensure!(own == counted, "{own} calls on the wire, {counted} by the counter");
        ensure!(replies == calls, "{calls} calls, {replies} replies");
        Ok(())
    }
}

/// Parses `1,2,3`, decimal or with `0x`; an empty text has no numbers.
///
/// # Errors
/// If a word is not a number.
pub fn parse_numbers(text: &str) -> Result<Vec<u32>> {
    let mut numbers = Vec::new();
    for word in text.split(',') {
        if word.is_empty() {
            continue;
        }
        let number = match word.strip_prefix("0x") {
            Some(digits) => u32::from_str_radix(digits, 16),
            None => word.parse(),
        };
        numbers.push(number.with_context(|| format!("tshark prints {text:?}"))?);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "1\t700\t\t0,0\t100003,100003\t\t7,7\t\t\t\t\t\teth:ip:tcp:rpc:nfs\t\n\
        2\t2049\t\t1,1\t100003,100003\t\t7,7\t\t\t\t2097152\tconnected\teth:ip:tcp:rpc:nfs\t\n";
    const EXPECTED: Expected = Expected { version: 3, minor: None, calls: (700, 2) };

    fn complaint(text: &str) -> String {
        let frames = Frames::parse(text).unwrap();
        frames.check(&EXPECTED).map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn a_capture_in_order_passes() {
        assert_eq!(complaint(GOOD), "");
    }

    #[test]
    fn detects_gap_in_capture() {
        assert!(Frames::parse(GOOD).unwrap().are_all_there());
        let gap = GOOD.replacen("rpc:nfs\t\n", "rpc:nfs\t1\n", 1);
        assert!(!Frames::parse(&gap).unwrap().are_all_there());
    }

    #[test]
    fn planted_faults_are_found() {
        let planted = [
            ("2097152\tconnected", "8388608\tMalformed Packet", "frame 2 (eth:ip:tcp:rpc:nfs)"),
            ("0,0\t100003,100003", "0,0\t100003", "2 messages, of which 1"),
            ("rpc:nfs\t\n2", "rpc:nfs:data\t\n2", "frame 1 is not understood"),
            ("7,7\t\t\t\t\t\t", "7\t\t\t\t\t\t", "2 messages of NFS"),
            ("0,0\t100003,100003\t\t7,7", "0\t100003\t\t7", "1 calls on the wire, 2 by"),
            ("1,1\t100003,100003\t\t7,7", "1\t100003\t\t7", "2 calls, 1 replies"),
        ];
        for (from, to, want) in planted {
            let text = GOOD.replacen(from, to, 1);
            assert_ne!(text, GOOD, "{from}");
            assert!(complaint(&text).contains(want), "{want}: {}", complaint(&text));
        }
    }
}

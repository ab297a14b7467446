//! The client under test, with one or several operations in flight.
//!
//! [`TestedClient`] has a mount and one connection, so that every operation of a check uses the
//! measured path and is counted there. Attributes and handles are taken directly from the replies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nfs_client::proto::CallError;
use nfs_client::proto::client::{
    Attributes, Cursor, Data, Event, File, OpenAccess, Operation, Outcome, ProtocolVersion,
};
use nfs_client::proto::nfs3::{CreateHow, Sattr, StableHow, Status};
use nfs_client::{Connection, ConnectionOptions, Mount, Scratch};

use crate::address::Settings;
use crate::{CheckResult, data};

/// Timeout of an operation.
const PATIENCE: Duration = Duration::from_secs(30);
const SLOTS: usize = 8;
/// Size requested for one page of a listing, in bytes.
const PAGE_BYTES: u32 = 32 * 1024;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The name.
    pub name: Vec<u8>,
    /// The id of the file.
    pub fileid: u64,
    /// Its attributes, if the listing has them.
    pub attributes: Option<Attributes>,
}

/// See the module.
pub struct TestedClient {
    mount: Mount,
    connection: Connection,
    scratch: Scratch,
    /// The directory of the current check.
    pub dir: File,
    /// The version in use.
    pub version: ProtocolVersion,
    /// Largest READ and WRITE, in bytes.
    pub transfer_bytes: (u32, u32),
    /// Number of entries in the large directory.
    pub entries: usize,
    /// Size of the sparse file, in bytes.
    pub large_bytes: u64,
    /// Whether READ_PLUS may return nothing at all.
    pub empty_read_plus: bool,
    /// Payload of the last READ.
    pub payload: Vec<u8>,
}

/// Returns true if the version has features that only v2 lacks.
pub fn is_not_v2(client: &TestedClient) -> bool {
    client.version > ProtocolVersion::V2
}

/// Returns true if the version is 4.2.
pub fn is_v42(client: &TestedClient) -> bool {
    client.version == ProtocolVersion::V4_2
}

impl TestedClient {
    /// Mounts and connects.
    pub fn connect(settings: &Settings) -> Result<Self, String> {
        let mount = Mount::connect(&settings.options).map_err(|error| error.to_string())?;
        let options = ConnectionOptions {
            slots: SLOTS,
            write_pool: Arc::from(data::content(0, data::POOL_BYTES)),
            keep_payload: Some(mount.rsize()),
            ..ConnectionOptions::default()
        };
        let connection = Connection::open(&mount, &options).map_err(|error| error.to_string())?;
        Ok(Self {
            dir: mount.root(),
            version: settings.version,
            transfer_bytes: (mount.rsize(), mount.wsize()),
            entries: settings.entries,
            empty_read_plus: settings.empty_read_plus,
            large_bytes: settings.large_bytes,
            payload: Vec::new(),
            mount,
            connection,
            scratch: Scratch::new(),
        })
    }

    /// Creates a directory, runs a check in it, and removes it with everything the check left.
    pub fn in_own_folder(&mut self, check: fn(&mut Self) -> CheckResult) -> CheckResult {
        let root = self.mount.root();
        let name = format!(".interop-{}", std::process::id());
        self.dir = self.mkdir(&root, &name)?;
        let outcome = check(self);
        for entry in self.list(&self.dir.clone(), false)? {
            let name = String::from_utf8_lossy(&entry.name).into_owned();
            self.remove(&self.dir.clone(), &name)?;
        }
        self.done(&Operation::Rmdir { dir: &root, name: name.as_bytes() })?;
        outcome
    }

    /// Unmounts, and returns the connection's wire counters.
    pub fn end(self) -> Result<String, String> {
        let counters = *self.connection.counters();
        let local =
            rustix::net::getsockname(&self.connection).map_err(|error| error.to_string())?;
        let local = SocketAddr::try_from(local).map_err(|error| error.to_string())?;
        drop(self.connection);
        self.mount.unmount().map_err(|error| error.to_string())?;
        // Everything that was sent counts, whether for the first time or again.
        let resent = counters.retransmissions + counters.replays;
        let calls = counters.calls_sent + counters.follow_ups + counters.delays + resent;
        let replies = counters.replies;
        let late = counters.late_replies;
        let malformed = counters.malformed_replies;
        Ok(format!(
            "{{\"port\": {}, \"calls\": {calls}, \"resent\": {resent}, \"replies\": {replies}, \
             \"late\": {late}, \"malformed\": {malformed}}}",
            local.port()
        ))
    }

    /// Makes one operation and passes on its event.
    pub fn event<T>(
        &mut self,
        operation: &Operation<'_>,
        mut take: impl FnMut(&Event<'_>) -> T,
    ) -> Result<T, String> {
        let clock = clock();
        self.connection.start(clock(), 0, operation).map_err(|error| error.to_string())?;
        let mut taken = None;
        while taken.is_none() {
            if Duration::from_nanos(clock()) > PATIENCE {
                return Err(format!("no answer to {}", operation.kind()));
            }
            let wait = self.connection.wait(&mut self.scratch, &clock, PATIENCE, &mut |event| {
                taken = Some(take(event));
            });
            wait.map_err(|error| error.to_string())?;
        }
        Ok(taken.expect("the loop ends with an answer"))
    }

    /// Makes one operation; the outer error is the connection's, the inner one the server's.
    pub fn try_one(
        &mut self,
        operation: &Operation<'_>,
    ) -> Result<Result<Outcome, CallError>, String> {
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let result = self.event(operation, |event| {
            payload.extend_from_slice(event.payload);
            event.result
        });
        self.payload = payload;
        result
    }

    /// Makes one operation that must succeed.
    pub fn one(&mut self, operation: &Operation<'_>) -> Result<Outcome, String> {
        let result = self.try_one(operation)?;
        result.map_err(|error| format!("{}: {error}", operation.kind()))
    }

    /// As [`TestedClient::one`], for an operation that finds or makes an object; a server may not
    /// name it.
    fn object(&mut self, operation: &Operation<'_>) -> Result<Option<File>, String> {
        self.event(operation, |event| match event.result {
            Ok(Outcome::Object { .. }) => Ok(event.file.copied()),
            other => Err(format!("{}: {other:?}", event.kind)),
        })?
    }

    /// Like [`TestedClient::one`], for an operation without a result.
    pub fn done(&mut self, operation: &Operation<'_>) -> CheckResult {
        self.one(operation).map(|_| ())
    }

    /// Makes one operation that must fail with this status.
    pub fn fails(&mut self, operation: &Operation<'_>, status: Status) -> CheckResult {
        match self.try_one(operation)? {
            Err(error) if error.status() == Some(status) => Ok(()),
            other => Err(format!("{}: {other:?}, not {status}", operation.kind())),
        }
    }

    /// Gets attributes.
    pub fn attributes(&mut self, file: &File) -> Result<Attributes, String> {
        match self.one(&Operation::Getattr { file })? {
            Outcome::Attributes(attributes) => Ok(attributes),
            other => Err(format!("GETATTR gave {other:?}")),
        }
    }

    /// Finds a name.
    pub fn lookup(&mut self, dir: &File, name: &str) -> Result<File, String> {
        let object = self.object(&Operation::Lookup { dir, name: name.as_bytes() })?;
        object.ok_or_else(|| "LOOKUP returned no handle".to_owned())
    }

    /// Creates a directory.
    pub fn mkdir(&mut self, dir: &File, name: &str) -> Result<File, String> {
        let attributes = Sattr::with_mode(0o755);
        let made = self.object(&Operation::Mkdir { dir, name: name.as_bytes(), attributes })?;
        self.made(made, dir, name)
    }

    /// Creates a file; in version 4 it is then open.
    pub fn create(&mut self, name: &str) -> Result<File, String> {
        let dir = self.dir;
        let how = CreateHow::Unchecked(Sattr { size: Some(0), ..Sattr::with_mode(0o644) });
        let made = self.object(&Operation::Create { dir: &dir, name: name.as_bytes(), how })?;
        self.made(made, &dir, name)
    }

    /// Returns the handle of a new object, using LOOKUP if the server didn't return it.
    fn made(&mut self, made: Option<File>, dir: &File, name: &str) -> Result<File, String> {
        made.map_or_else(|| self.lookup(dir, name), Ok)
    }

    /// Opens a file in the check's directory.
    pub fn open(&mut self, name: &str) -> Result<File, String> {
        let dir = self.dir;
        let object = self.object(&Operation::Open {
            dir: &dir,
            name: name.as_bytes(),
            access: OpenAccess::Both,
        })?;
        object.ok_or_else(|| "OPEN returned no handle".to_owned())
    }

    /// Closes a file, in versions with opens.
    pub fn close(&mut self, file: &File) -> CheckResult {
        if self.version.is_stateful() { self.done(&Operation::Close { file }) } else { Ok(()) }
    }

    /// Removes a file, or an empty directory.
    pub fn remove(&mut self, dir: &File, name: &str) -> CheckResult {
        let name = name.as_bytes();
        match self.try_one(&Operation::Remove { dir, name })? {
            Ok(_) => Ok(()),
            Err(_) => self.done(&Operation::Rmdir { dir, name }),
        }
    }

    /// Writes all bytes, one WRITE after the other.
    pub fn write(
        &mut self,
        file: &File,
        offset: u64,
        bytes: &[u8],
        stable: StableHow,
    ) -> CheckResult {
        let mut at = 0;
        while at < bytes.len() {
            let len = (bytes.len() - at).min(self.transfer_bytes.1 as usize);
            let data = Data::Bytes(&bytes[at..at + len]);
            let offset = offset + at as u64;
            match self.one(&Operation::Write { file, offset, stable, data })? {
                Outcome::Written { count, .. } if count > 0 => at += count as usize,
                other => return Err(format!("WRITE gave {other:?}")),
            }
        }
        Ok(())
    }

    /// Reads up to `len` bytes, fewer if the file ends before that.
    pub fn read(&mut self, file: &File, offset: u64, len: usize) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        while bytes.len() < len {
            let count = (len - bytes.len()).min(self.transfer_bytes.0 as usize) as u32;
            let offset = offset + bytes.len() as u64;
            match self.one(&Operation::Read { file, offset, count })? {
                Outcome::Read { count, eof } => {
                    bytes.extend_from_slice(&self.payload);
                    if eof || count == 0 {
                        break;
                    }
                }
                other => return Err(format!("READ gave {other:?}")),
            }
        }
        Ok(bytes)
    }

    /// Lists a directory to its end, without `.` and `..`.
    pub fn list(&mut self, dir: &File, plus: bool) -> Result<Vec<Name>, String> {
        let mut names = Vec::new();
        let mut cursor = Cursor::default();
        loop {
            let operation = if plus {
                Operation::ReaddirPlus { dir, cursor, bytes: PAGE_BYTES }
            } else {
                Operation::Readdir { dir, cursor, bytes: PAGE_BYTES }
            };
            let eof = self.event(&operation, |event| {
                event.result.map_err(|error| format!("{}: {error}", event.kind))?;
                let page = event.listing().map_err(|error| error.to_string())?;
                let before = cursor.cookie;
                for entry in &page {
                    cursor.cookie = entry.cookie;
                    if entry.name != b"." && entry.name != b".." {
                        names.push(Name {
                            name: entry.name.to_vec(),
                            fileid: entry.fileid,
                            attributes: entry.attributes,
                        });
                    }
                }
                cursor.verifier = page.verifier;
                if !page.eof && cursor.cookie == before {
                    return Err("got a page without entries that is not the last".to_owned());
                }
                Ok(page.eof)
            })??;
            if eof {
                return Ok(names);
            }
        }
    }

    /// Reads a symbolic link.
    pub fn target(&mut self, file: &File) -> Result<Vec<u8>, String> {
        self.event(&Operation::Readlink { file }, |event| {
            event.result.map_err(|error| format!("READLINK: {error}"))?;
            event.target().map(<[u8]>::to_vec).map_err(|error| error.to_string())
        })?
    }

    /// Returns the connection, for several operations in flight.
    pub fn connection(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

/// Nanoseconds since the first call.
#[expect(clippy::disallowed_methods, reason = "examples read the clock themselves")]
pub fn clock() -> impl Fn() -> u64 {
    let start = Instant::now();
    move || start.elapsed().as_nanos() as u64
}

//! Bundles: one campaign in one file that others can check.
//!
//! [`pack`] writes a bundle and [`unpack`] reads one. A bundle is a tar archive with exactly the
//! members of `MEMBERS`, in this order and in one encoding: owner, mode and time are fixed, so the
//! same members are always the same bytes, and a reader accepts nothing else. The manifest contains
//! the size and the SHA-256 of each member after it, and a member of its own contains the SHA-256
//! of the manifest. So every byte of the file is either checked by a hash or known in advance.
//!
//! Hashes show that nothing was changed since the bundle was packed, not who packed it.
//!
//! **Source:** IEEE Std 1003.1-2017, `pax`, "ustar Interchange Format".

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// Version of the format of bundles.
pub const BUNDLE_FORMAT: u32 = 1;

/// Size of a block of an archive.
const BLOCK: usize = 512;

/// Modification time of all members: the first that zip and FAT know, so no program warns about it.
const MODIFIED_UNIX_S: u64 = 315_532_800;

/// Size of the buffer for copying.
const BUFFER_BYTES: usize = 1 << 16;

/// Name of the manifest, the first member.
const MANIFEST: &str = "manifest.json";

/// A kind of member.
#[derive(Clone, Copy, Debug)]
struct MemberKind {
    name: &'static str,
    /// Maximum size; a file with a larger member is not read.
    bytes_max: u64,
}

/// All members, in their order.
const MEMBERS: [MemberKind; 6] = [
    MemberKind { name: MANIFEST, bytes_max: 1 << 20 },
    MemberKind { name: "manifest.sha256", bytes_max: 1 << 10 },
    MemberKind { name: "plan.toml", bytes_max: 16 << 20 },
    MemberKind { name: "facts.json", bytes_max: 64 << 20 },
    MemberKind { name: "verdicts.json", bytes_max: 256 << 20 },
    MemberKind { name: "results.db", bytes_max: 4 << 30 },
];

/// Number of members before those that the manifest lists.
const LISTED_FROM: usize = 2;

/// What a bundle contains, and how it was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the format.
    pub format: u32,
    /// Version of dfsbench that packed it.
    pub packed_by: String,
    /// Schema version of the results file.
    pub results_schema: i64,
    pub campaign: BundledCampaign,
    /// The other members, in their order.
    pub members: Vec<ManifestMember>,
}

/// Identifies the campaign of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BundledCampaign {
    pub uuid: String,
    pub name: String,
    /// Version of dfsbench that measured it.
    pub measured_by: String,
    /// When it started, in milliseconds since 1970 UTC.
    pub started_unix_ms: u64,
    /// Kernels of its hosts, in alphabetical order.
    pub kernels: Vec<String>,
}

/// Size and hash of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ManifestMember {
    pub name: String,
    pub bytes: u64,
    /// SHA-256 in lowercase hexadecimal digits.
    pub sha256: String,
}

/// The members of a bundle that are text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BundledTexts {
    /// The plan with all defaults, as executed.
    pub plan_toml: Vec<u8>,
    /// Settings of hosts and targets, as JSON.
    pub facts_json: Vec<u8>,
    /// Verdicts of all rows when the bundle was packed, as JSON.
    pub verdicts_json: Vec<u8>,
}

/// A bundle in which each member is what the manifest says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bundle {
    pub manifest: Manifest,
    pub texts: BundledTexts,
    /// SHA-256 of the whole file.
    pub sha256: String,
}

/// Why a bundle could not be packed.
#[derive(Debug, thiserror::Error)]
pub enum PackError {
    /// A member is larger than readers accept.
    #[error("`{name}` of the bundle would have {bytes} bytes, more than the limit of {bytes_max}")]
    TooLarge { name: &'static str, bytes: u64, bytes_max: u64 },
    /// The results could not be read.
    #[error("cannot read the results to pack: {0}")]
    Read(io::Error),
    /// The output could not be written.
    #[error("{0}")]
    Write(io::Error),
}

/// Why a file is no intact bundle.
#[derive(Debug, thiserror::Error)]
pub enum UnpackError {
    /// The file is something else.
    #[error("it is not a bundle (hint: `dfsbench bundle` makes one)")]
    NotABundle,
    /// A bundle of another version of the format.
    #[error(
        "it has format {0}, but this dfsbench reads {BUNDLE_FORMAT} (hint: use a newer dfsbench)"
    )]
    OtherFormat(u64),
    /// It was changed after it was packed, or cut off.
    #[error("it is damaged: {}", .0.join("; "))]
    Damaged(Vec<String>),
    /// The file could not be read.
    #[error("{0}")]
    Read(io::Error),
    /// The results could not be written to their temporary place.
    #[error("cannot unpack the results: {0}")]
    Write(io::Error),
}

/// Packs a campaign. `results` is a file that contains only this campaign. Returns the SHA-256 of
/// the whole bundle.
///
/// # Errors
/// If the results can't be read, the output can't be written, or a member exceeds its limit.
pub fn pack(
    out: &mut impl Write,
    packed_by: &str,
    campaign: BundledCampaign,
    texts: &BundledTexts,
    results: &Path,
) -> Result<String, PackError> {
    let mut members = Vec::new();
    let contents = [&texts.plan_toml, &texts.facts_json, &texts.verdicts_json];
    let listed = &MEMBERS[LISTED_FROM..];
    for (kind, content) in std::iter::zip(listed, contents) {
        members.push(describe_member(*kind, &mut content.as_slice())?);
    }
    let mut file = File::open(results).map_err(PackError::Read)?;
    members.push(describe_member(listed[contents.len()], &mut file)?);
    let manifest = Manifest {
        format: BUNDLE_FORMAT,
        packed_by: packed_by.to_owned(),
        results_schema: crate::SCHEMA_VERSION,
        campaign,
        members,
    };
    let manifest_json = to_json(&manifest);
    let sum = sum_line(manifest_json.as_bytes());
    let mut out = HashingWriter { out, hash: Sha256::new() };
    let front = [manifest_json.as_bytes(), sum.as_bytes()];
    let texts = front.into_iter().chain(contents.map(Vec::as_slice));
    for (kind, content) in std::iter::zip(MEMBERS, texts) {
        append(&mut out, kind, content.len() as u64, &mut &*content)?;
    }
    let mut file = File::open(results).map_err(PackError::Read)?;
    let bytes = manifest.members.last().map_or(0, |member| member.bytes);
    append(&mut out, MEMBERS[MEMBERS.len() - 1], bytes, &mut file)?;
    out.write_all(&[0; 2 * BLOCK]).map_err(PackError::Write)?;
    Ok(format!("{:x}", out.hash.finalize()))
}

/// Returns the size and the hash of a member.
fn describe_member(kind: MemberKind, content: &mut impl Read) -> Result<ManifestMember, PackError> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut bytes = 0_u64;
    loop {
        let read = content.read(&mut buffer).map_err(PackError::Read)?;
        if read == 0 {
            break;
        }
        hash.update(&buffer[..read]);
        bytes += read as u64;
    }
    let MemberKind { name, bytes_max } = kind;
    if bytes > bytes_max {
        return Err(PackError::TooLarge { name, bytes, bytes_max });
    }
    Ok(ManifestMember { name: name.to_owned(), bytes, sha256: format!("{:x}", hash.finalize()) })
}

/// Appends a member to an archive.
fn append(
    out: &mut impl Write,
    kind: MemberKind,
    bytes: u64,
    content: &mut impl Read,
) -> Result<(), PackError> {
    out.write_all(&header(kind.name, bytes)).map_err(PackError::Write)?;
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut left = bytes;
    while left > 0 {
        let want = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        content.read_exact(&mut buffer[..want]).map_err(PackError::Read)?;
        out.write_all(&buffer[..want]).map_err(PackError::Write)?;
        left -= want as u64;
    }
    out.write_all(&[0; BLOCK][..padding(bytes)]).map_err(PackError::Write)
}

/// Returns the only accepted header of a member.
fn header(name: &str, bytes: u64) -> [u8; BLOCK] {
    let mut header = tar::Header::new_ustar();
    header.set_path(name).expect("our names are short and relative");
    header.set_entry_type(tar::EntryType::Regular);
    header.set_mode(0o644);
    header.set_uid(0);
    header.set_gid(0);
    header.set_mtime(MODIFIED_UNIX_S);
    header.set_size(bytes);
    header.set_cksum();
    *header.as_bytes()
}

/// Returns the number of bytes between the end of a member and the next block.
const fn padding(bytes: u64) -> usize {
    (BLOCK - (bytes % BLOCK as u64) as usize) % BLOCK
}

fn to_json(manifest: &Manifest) -> String {
    serde_json::to_string_pretty(manifest).expect("text and numbers can be written") + "\n"
}

/// Returns the line of `sha256sum` for a manifest.
fn sum_line(manifest: &[u8]) -> String {
    format!("{:x}  {MANIFEST}\n", Sha256::digest(manifest))
}

/// Reads a bundle, and writes its results file to `results`. Memory and disk are used only up to
/// the limits of members, whatever the file claims.
///
/// # Errors
/// If the file is not a bundle, or differs in any byte from what [`pack`] writes.
pub fn unpack(source: impl Read, results: &mut impl Write) -> Result<Bundle, UnpackError> {
    let mut source = HashingReader { source, hash: Sha256::new() };
    let mut found = Vec::new();
    let mut texts = Vec::new();
    for (number, kind) in MEMBERS.into_iter().enumerate() {
        let bytes = read_header(&mut source, number, kind)?;
        let mut text = Vec::new();
        let copied = if number == MEMBERS.len() - 1 {
            copy(&mut source, bytes, results)
        } else {
            copy(&mut source, bytes, &mut text)
        };
        let sha256 = copied.map_err(|error| name_copied(error, kind.name))?;
        let mut rest = [0; BLOCK];
        let rest = &mut rest[..padding(bytes)];
        read_all(&mut source, rest, kind.name)?;
        if rest.iter().any(|byte| *byte != 0) {
            return Err(damage(format!("there is data behind the end of `{}`", kind.name)));
        }
        if number == 0 {
            check_format(&text)?;
        }
        texts.push(text);
        found.push(ManifestMember { name: kind.name.to_owned(), bytes, sha256 });
    }
    read_end(&mut source)?;
    let manifest: Manifest = serde_json::from_slice(&texts[0])
        .map_err(|error| damage(format!("`{MANIFEST}` cannot be read: {error}")))?;
    let mut problems = Vec::new();
    if texts[1] != sum_line(&texts[0]).into_bytes() {
        problems.push(format!("`{MANIFEST}` doesn't have the SHA-256 in `manifest.sha256`"));
    }
    problems.extend(compare_members(&manifest.members, &found[LISTED_FROM..]));
    if !problems.is_empty() {
        return Err(UnpackError::Damaged(problems));
    }
    let mut take = |number: usize| std::mem::take(&mut texts[number]);
    let texts = BundledTexts { plan_toml: take(2), facts_json: take(3), verdicts_json: take(4) };
    Ok(Bundle { manifest, texts, sha256: format!("{:x}", source.hash.finalize()) })
}

/// Reads the header of member `number` and returns the size of the member.
fn read_header(
    source: &mut impl Read,
    number: usize,
    kind: MemberKind,
) -> Result<u64, UnpackError> {
    let MemberKind { name, bytes_max } = kind;
    let mut block = [0; BLOCK];
    let read = read_some(source, &mut block).map_err(UnpackError::Read)?;
    let is_manifest = block.starts_with(MANIFEST.as_bytes()) && block[MANIFEST.len()] == 0;
    if number == 0 && !(read == BLOCK && is_manifest) {
        return Err(UnpackError::NotABundle);
    }
    if read < BLOCK {
        return Err(damage(format!("the file ends before `{name}`")));
    }
    let found = tar::Header::from_byte_slice(&block);
    let path = found.path_bytes();
    if path.iter().all(|byte| *byte == 0) {
        return Err(damage(format!("the member `{name}` is missing")));
    }
    if *path != *name.as_bytes() {
        let path = String::from_utf8_lossy(&path).escape_debug().to_string();
        return Err(damage(format!("there is a member `{path}` where `{name}` belongs")));
    }
    let Ok(bytes) = found.entry_size() else {
        return Err(damage(format!("the size of `{name}` cannot be read")));
    };
    if bytes > bytes_max {
        return Err(damage(format!(
            "`{name}` has {bytes} bytes, more than the limit of {bytes_max}"
        )));
    }
    if block != header(name, bytes) {
        return Err(damage(format!("the header of `{name}` is not one that dfsbench writes")));
    }
    Ok(bytes)
}

/// Reads the end of the archive: two empty blocks and nothing else.
fn read_end(source: &mut impl Read) -> Result<(), UnpackError> {
    let mut end = [0; 2 * BLOCK + 1];
    let read = read_some(source, &mut end).map_err(UnpackError::Read)?;
    let path = tar::Header::from_byte_slice(&end[..BLOCK]).path_bytes();
    if read >= BLOCK && path.iter().any(|byte| *byte != 0) {
        let path = String::from_utf8_lossy(&path).escape_debug().to_string();
        return Err(damage(format!("there is a member too many, `{path}`")));
    }
    if read < 2 * BLOCK {
        return Err(damage("the end of the file is missing".to_owned()));
    }
    if read > 2 * BLOCK || end.iter().any(|byte| *byte != 0) {
        return Err(damage("there is data behind the end".to_owned()));
    }
    Ok(())
}

/// Refuses a manifest of another version, whose other parts may have changed, too.
fn check_format(manifest: &[u8]) -> Result<(), UnpackError> {
    #[derive(Deserialize)]
    struct Versioned {
        format: u64,
    }
    match serde_json::from_slice::<Versioned>(manifest) {
        Ok(Versioned { format }) if format != u64::from(BUNDLE_FORMAT) => {
            Err(UnpackError::OtherFormat(format))
        }
        Ok(_) => Ok(()),
        Err(error) => Err(damage(format!("`{MANIFEST}` cannot be read: {error}"))),
    }
}

/// Describes the members that are not as the manifest says.
fn compare_members(listed: &[ManifestMember], found: &[ManifestMember]) -> Vec<String> {
    let names = |members: &[ManifestMember]| -> Vec<String> {
        members.iter().map(|member| member.name.clone()).collect()
    };
    if names(listed) != names(found) {
        return vec![format!("`{MANIFEST}` lists other members than there are")];
    }
    let mut problems = Vec::new();
    for (listed, found) in std::iter::zip(listed, found) {
        if listed.bytes != found.bytes {
            let (name, has, wants) = (&found.name, found.bytes, listed.bytes);
            problems.push(format!("`{name}` has {has} bytes instead of {wants}"));
        } else if listed.sha256 != found.sha256 {
            let (name, has, wants) = (&found.name, &found.sha256, &listed.sha256);
            problems.push(format!("`{name}` has SHA-256 {has} instead of {wants}"));
        }
    }
    problems
}

/// Copies a number of bytes and returns their hash.
fn copy(source: &mut impl Read, bytes: u64, out: &mut impl Write) -> Result<String, UnpackError> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut left = bytes;
    while left > 0 {
        let want = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let read = read_some(source, &mut buffer[..want]).map_err(UnpackError::Read)?;
        if read < want {
            return Err(damage("the file ends in it".to_owned()));
        }
        hash.update(&buffer[..want]);
        out.write_all(&buffer[..want]).map_err(UnpackError::Write)?;
        left -= want as u64;
    }
    Ok(format!("{:x}", hash.finalize()))
}

/// Adds the name of the member to the error of [`copy`].
fn name_copied(error: UnpackError, name: &str) -> UnpackError {
    match error {
        UnpackError::Damaged(_) => damage(format!("the file ends in `{name}`")),
        other => other,
    }
}

fn read_all(source: &mut impl Read, buffer: &mut [u8], name: &str) -> Result<(), UnpackError> {
    let wanted = buffer.len();
    match read_some(source, buffer).map_err(UnpackError::Read)? {
        read if read < wanted => Err(damage(format!("the file ends in `{name}`"))),
        _ => Ok(()),
    }
}

/// Fills a buffer as far as possible and returns the number of bytes read.
fn read_some(source: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match source.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn damage(what: String) -> UnpackError {
    UnpackError::Damaged(vec![what])
}

struct HashingWriter<'a, W> {
    out: &'a mut W,
    hash: Sha256,
}

impl<W: Write> Write for HashingWriter<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.out.write(bytes)?;
        self.hash.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct HashingReader<R> {
    source: R,
    hash: Sha256,
}

impl<R: Read> Read for HashingReader<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.source.read(buffer)?;
        self.hash.update(&buffer[..read]);
        Ok(read)
    }
}

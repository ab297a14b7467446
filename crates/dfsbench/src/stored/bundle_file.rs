//! Opens bundles: unpacks the results file to a private temporary folder and opens it read-only.

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::Path;

use results::Store;
use results::bundle::{Bundle, UnpackError, unpack};

use crate::exit::Failure;
use crate::files::{input_file, temporary};

/// Size of the read buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// First bytes of a bundle: the name of its first member.
const BEGIN: &[u8] = b"manifest.json\0";

/// Number of the only campaign in the results file of a bundle.
pub(crate) const CAMPAIGN: i64 = 1;

/// A bundle whose hashes are right and whose results file could be opened.
#[derive(Debug)]
pub(crate) struct OpenBundle {
    pub bundle: Bundle,
    pub store: Store,
    /// Contains the results file.
    _folder: temporary::Folder,
}

/// Opens a bundle. The inner error describes the damage of a file that is a bundle.
///
/// # Errors
/// If the file can't be read, is not a bundle, or was made by a newer version; or if the temporary
/// folder has no room.
pub(crate) fn open(path: &Path) -> Result<Result<OpenBundle, Vec<String>>, Failure> {
    let refuse = |why: &dyn std::fmt::Display| {
        Failure::Usage(format!("can't use bundle `{}`: {why}", path.display()))
    };
    let file = input_file::open_input(path).map_err(|why| refuse(&why))?;
    let folder = temporary::Folder::for_copies().map_err(|error| no_room(&error))?;
    let results = folder.path().join("results.db");
    let mut out = BufWriter::new(File::create(&results).map_err(|error| no_room(&error))?);
    let bundle = match unpack(BufReader::with_capacity(BUFFER_BYTES, file), &mut out) {
        Ok(bundle) => bundle,
        Err(UnpackError::Damaged(problems)) => return Ok(Err(problems)),
        Err(UnpackError::Write(error)) => return Err(no_room(&error)),
        Err(error) => return Err(refuse(&error)),
    };
    out.flush().map_err(|error| no_room(&error))?;
    // Errors of the results file must not mention a path that is another one each time.
    let describe = |error: results::StoreError| {
        vec![error.to_string().replace(&results.display().to_string(), "results.db")]
    };
    let store = match Store::open_existing(&results) {
        Ok(store) => store,
        Err(error @ results::StoreError::OtherVersion { .. }) => {
            return Err(refuse(&describe(error).join("")));
        }
        Err(error) => return Ok(Err(describe(error))),
    };
    let is_ours = match store.list() {
        Ok(lines) => matches!(&lines[..], [line] if line.id == CAMPAIGN),
        Err(error) => return Ok(Err(describe(error))),
    };
    if !is_ours {
        return Ok(Err(vec!["`results.db` doesn't contain exactly one campaign".to_owned()]));
    }
    Ok(Ok(OpenBundle { bundle, store, _folder: folder }))
}

/// Returns true if a file begins like a bundle.
pub(crate) fn is_bundle(path: &Path) -> bool {
    let mut begin = [0; BEGIN.len()];
    // Opening a FIFO would wait for its writer.
    fs::metadata(path).is_ok_and(|found| found.is_file())
        && File::open(path).is_ok_and(|mut file| file.read_exact(&mut begin).is_ok())
        && begin == BEGIN
}

fn no_room(error: &std::io::Error) -> Failure {
    Failure::Output {
        what: "the results of a bundle to the temporary directory".to_owned(),
        reason: error.to_string(),
        hint: "set TMPDIR to a directory with free space",
    }
}

//! Values of the secrets of a plan's systems, read where dfsbench is started.

use std::env::{self, VarError};
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use model::RunSpec;
use model::system::{SECRET_MAX, SECRET_MIN, SecretSource, Secrets};

use crate::exit::Failure;

/// Reads the secrets that the systems of these runs need.
///
/// # Errors
/// If one is missing or no possible value. The error names the secret and its source.
pub(crate) fn read(runs: &[RunSpec]) -> Result<Secrets, Failure> {
    let mut secrets = Secrets::default();
    let labs = runs.iter().filter_map(|run| run.lab.as_deref());
    for system in labs.filter_map(|lab| lab.system.as_deref()) {
        for (name, source) in &system.recipe.secrets {
            if secrets.contains(source) {
                continue;
            }
            let value = read_value(source).map_err(|why| {
                let what = format!("secret `{name}` of {}: {source} {why}", system.recipe.name);
                Failure::Usage(format!("{what} (hint: {})", hint(source)))
            })?;
            secrets.insert(source, value);
        }
    }
    Ok(secrets)
}

fn hint(source: &SecretSource) -> String {
    let other = "or name another source in the recipe or with `secrets` of the target";
    match source.env.as_str() {
        "" => format!("write it into that file, {other}"),
        name => format!("export {name}, {other}"),
    }
}

/// Reads a value, without the end of its last line. The error doesn't contain any of it.
fn read_value(source: &SecretSource) -> Result<String, String> {
    let text = if source.env.is_empty() {
        read_file(&expand(&source.file)).map_err(|error| format!("can't be read: {error}"))?
    } else {
        env::var(&source.env).map_err(|error| match error {
            VarError::NotPresent => "is not set".to_owned(),
            VarError::NotUnicode(_) => "is not UTF-8".to_owned(),
        })?
    };
    let value = text.trim_end_matches(['\n', '\r']);
    if value.contains('\0') || value.len() > SECRET_MAX {
        return Err(format!("is not a text of at most {SECRET_MAX} bytes"));
    }
    // Shorter ones can't be kept out of messages.
    if value.len() < SECRET_MIN {
        return Err(format!("has {} bytes; at least {SECRET_MIN} are needed", value.len()));
    }
    Ok(value.to_owned())
}

fn read_file(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(SECRET_MAX as u64 + 2).read_to_string(&mut text)?;
    Ok(text)
}

fn expand(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => path.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn file(path: &Path) -> SecretSource {
        SecretSource { env: String::new(), file: path.display().to_string() }
    }

    #[test]
    fn reads_values_without_line_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("key");
        fs::write(&path, "hunter22\n").unwrap();
        assert_eq!(read_value(&file(&path)).unwrap(), "hunter22");
        let cargo = SecretSource { env: "CARGO_MANIFEST_DIR".to_owned(), file: String::new() };
        assert_eq!(read_value(&cargo).unwrap(), env!("CARGO_MANIFEST_DIR"));
        for (text, why) in [("abc12", "has 5 bytes"), ("a\0bcdefg", "is not a text")] {
            fs::write(&path, text).unwrap();
            let refused = read_value(&file(&path)).unwrap_err();
            assert!(refused.starts_with(why) && !refused.contains("abc"), "{refused}");
        }
        let none = SecretSource { env: "DFSBENCH_NO_SUCH".to_owned(), file: String::new() };
        assert_eq!(read_value(&none).unwrap_err(), "is not set");
        assert!(read_value(&file(&folder.path().join("none"))).unwrap_err().contains("No such"));
    }
}

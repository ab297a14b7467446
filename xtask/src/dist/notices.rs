//! The licenses of everything linked, as one text.
//!
//! Each crate's own files are used, because their copyright lines have to be kept; identical texts
//! are printed once. A crate without a file gets the text of its license expression. A crate with
//! neither is an error: the text is complete, or there is none.
//!
//! **Source:** SPDX License List 3.27 for the texts of MIT and Apache-2.0.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::linked::{Crate, LinkedCode};
use super::read;

/// Prefixes of the names of files that have to be passed on, in capitals.
const NAMES: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

const INTRODUCTION: &str = "\
Third-party software in dfsbench
================================

The program is linked with what is listed here. dfsbench itself is licensed under Apache-2.0 or
MIT. The GNU C library is linked statically under LGPL-2.1-or-later: its sources are those of the
distribution that built the program, and `cargo xtask dist` links dfsbench with another one.

";

/// Renders the list and the texts.
pub fn render(linked: &LinkedCode, sources: &Path) -> Result<String> {
    let mut page = INTRODUCTION.to_owned();
    // The crates by license text; texts that differ only in whitespace are the same.
    let mut texts: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    let mut add = |name: &str, text: String| {
        let words: Vec<&str> = text.split_whitespace().collect();
        let key = words.join(" ");
        texts.entry(key).or_insert_with(|| (text, Vec::new())).1.push(name.to_owned());
    };
    for it in &linked.crates {
        let name = format!("{} {}", it.name, it.version);
        writeln!(page, "{name}: {}", it.license)?;
        for text in texts_of(it, sources)? {
            add(&name, text);
        }
    }
    for it in &linked.native {
        let name = format!("{} {}", it.name, it.version);
        writeln!(page, "{name}: {}", it.license)?;
        match it.license {
            "LGPL-2.1-or-later" => add(&name, read_text(sources, "packaging/LGPL-2.1.txt")?),
            "Apache-2.0 OR MIT" => add(&name, read_text(sources, "LICENSE-APACHE")?),
            // SQLite's authors put it into the public domain: there is nothing to pass on.
            "blessing" => {}
            other => bail!("{name}: no text is known for the license `{other}`"),
        }
    }
    for (text, names) in texts.values() {
        let line = "-".repeat(80);
        write!(page, "\n{line}\n{}\n{line}\n\n{}\n", names.join(", "), text.trim_end())?;
    }
    Ok(page)
}

/// Returns the texts of a crate's files, or those of its license expression.
fn texts_of(it: &Crate, sources: &Path) -> Result<Vec<String>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(&it.folder).with_context(|| it.folder.display().to_string())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().to_uppercase();
        if NAMES.iter().any(|known| name.starts_with(known)) && entry.path().is_file() {
            paths.push(entry.path());
        }
    }
    paths.sort();
    let texts = paths
        .into_iter()
        .map(|path| fs::read_to_string(&path).with_context(|| path.display().to_string()))
        .collect::<Result<Vec<_>, _>>()?;
    if !texts.is_empty() {
        return Ok(texts);
    }
    if it.license.contains("Apache-2.0") {
        return Ok(vec![read_text(sources, "LICENSE-APACHE")?]);
    }
    if it.license.contains("MIT") {
        let ours = read_text(sources, "LICENSE-MIT")?;
        // A title, our own copyright line, and the terms.
        let terms = ours.splitn(3, "\n\n").nth(2).context("LICENSE-MIT is too short")?;
        return Ok(vec![format!("Copyright (c) {}\n\n{terms}", it.authors.join(", "))]);
    }
    bail!("{} has no license file, and the text of `{}` is not known", it.key(), it.license)
}

fn read_text(sources: &Path, name: &str) -> Result<String> {
    String::from_utf8(read(sources, name)?).with_context(|| format!("{name} is not text"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::repo;

    fn planted(name: &str, license: &str, folder: &Path) -> Crate {
        Crate {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            license: license.to_owned(),
            authors: vec!["Ann Author".to_owned()],
            folder: folder.to_owned(),
            ..Crate::default()
        }
    }

    #[test]
    fn prints_shared_text_once() {
        let one = tempfile::tempdir().unwrap();
        let other = tempfile::tempdir().unwrap();
        fs::write(one.path().join("LICENSE"), "The terms\nof both").unwrap();
        fs::write(other.path().join("license.md"), "The terms of both\n").unwrap();
        fs::write(other.path().join("NOTICE"), "By Ann").unwrap();
        fs::write(other.path().join("lib.rs"), "no licence").unwrap();
        let crates = vec![planted("one", "ISC", one.path()), planted("other", "ISC", other.path())];
        let linked = LinkedCode { crates, ..LinkedCode::default() };
        let page = render(&linked, &repo::root()).unwrap();
        assert!(page.contains("one 1.0.0: ISC\nother 1.0.0: ISC\n"), "{page}");
        assert!(page.contains("\none 1.0.0, other 1.0.0\n"), "{page}");
        assert_eq!(page.matches("The terms").count(), 1);
        assert!(page.contains("By Ann") && !page.contains("no licence"));
    }

    #[test]
    fn requires_license_text_per_crate() {
        let empty = tempfile::tempdir().unwrap();
        let page = |license: &str| {
            let crates = vec![planted("bare", license, empty.path())];
            render(&LinkedCode { crates, ..LinkedCode::default() }, &repo::root())
        };
        assert!(page("MIT").unwrap().contains("Copyright (c) Ann Author\n\nPermission"));
        assert!(page("MIT OR Apache-2.0").unwrap().contains("Apache License"));
        let error = page("Zlib").unwrap_err().to_string();
        assert_eq!(error, "bare@1.0.0 has no license file, and the text of `Zlib` is not known");
    }
}

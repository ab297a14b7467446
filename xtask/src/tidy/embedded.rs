//! Rule: files embedded by a crate are in its directory.
//!
//! A crates.io package has only the files of its crate: a text included from elsewhere builds only
//! here. Tests are not built from packages and may read anything. A link within the crate is
//! followed when it is packaged.
//!
//! **Source:** The Cargo book, "Publishing on crates.io".

use super::Finding;
use super::files::SourceFile;

/// Macros that include a file.
const MACROS: [&str; 2] = ["include_str!(", "include_bytes!("];

pub fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(below) = file.path.strip_prefix("crates/") else { return findings };
    // Not counting the crate's own directory and the file name.
    let depth = below.split('/').count().saturating_sub(2);
    for (number, line) in file.source.lines.iter().enumerate() {
        if file.is_test || file.source.in_tests(number) {
            continue;
        }
        for name in MACROS {
            let is_code = file.source.code[number].contains(name);
            let Some((_, rest)) = line.split_once(name) else { continue };
            let path = rest.split('"').nth(1).unwrap_or_default();
            let ups = path.split('/').take_while(|part| *part == "..").count();
            if is_code && ups > depth {
                let place = format!("{}:{}", file.path, number + 1);
                let message = format!("embeds `{path}`, which its package does not contain");
                findings.push(Finding::new(place, message));
            }
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        check(&SourceFile::new(path, text)).len()
    }

    #[test]
    fn finds_file_outside_crate() {
        let text = "const A: &str = include_str!(\"../../../presets/a.toml\");\n";
        assert_eq!(count("crates/x/src/a.rs", text), 1);
        assert_eq!(count("crates/x/src/b/a.rs", text), 1);
        assert_eq!(count("crates/x/src/b/c/a.rs", text), 0);
        let parts = "include_bytes!(concat!(\"../../presets/\", $name, \".toml\"))\n";
        assert_eq!(count("crates/x/src/a.rs", parts), 1);
        assert_eq!(count("crates/x/src/a.rs", "include_str!(\"../presets/a.toml\")\n"), 0);
        // Tests, and unpublished code.
        assert_eq!(count("crates/x/tests/a.rs", text), 0);
        assert_eq!(count("xtask/src/a.rs", text), 0);
        let test = format!("#[cfg(test)]\nmod tests {{\n{text}}}\n");
        assert_eq!(count("crates/x/src/a.rs", &test), 0);
    }
}

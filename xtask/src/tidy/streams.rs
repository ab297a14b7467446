//! Rule: in the binary, few files write to the terminal.
//!
//! Text from servers, hosts and files is made printable in `output.rs`. A file that writes to
//! stdout or stderr directly could print such text unchanged, so the files that may are listed
//! here.

use super::Finding;
use super::files::SourceFile;

const BINARY: &str = "crates/dfsbench/src/";

/// Files that write bytes of a protocol or a file, escaped JSON, or text they have sanitized.
const OWNERS: [&str; 6] = [
    "commands/agent.rs",
    "terminal/output.rs",
    "files/output_file/streamed.rs",
    "terminal/progress.rs",
    "terminal/progress/screen.rs",
    "terminal/progress/stream.rs",
];

const STREAMS: [&str; 4] = ["io::stdout()", "io::stderr()", "anstream::", "ProgressBar"];

/// The only file that draws a progress bar.
const BAR: &str = "terminal/progress/bar.rs";

pub fn check(file: &SourceFile) -> Vec<Finding> {
    let mut findings = Vec::new();
    let Some(name) = file.path.strip_prefix(BINARY) else { return findings };
    for (number, code) in file.source.code.iter().enumerate() {
        for stream in STREAMS {
            let is_owner =
                if stream == "ProgressBar" { name == BAR } else { OWNERS.contains(&name) };
            if code.contains(stream) && !is_owner && !file.source.in_tests(number) {
                let place = format!("{}:{}", file.path, number + 1);
                let message = format!("`{stream}`: print by `output`, which makes text printable");
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
    fn finds_streams_outside_of_their_files() {
        let text = "fn a() {\n    let out = std::io::stdout().lock();\n}\n";
        assert_eq!(count("crates/dfsbench/src/commands/clean.rs", text), 1);
        assert_eq!(count("crates/dfsbench/src/terminal/output.rs", text), 0);
        assert_eq!(count("crates/fleet/src/stdio.rs", text), 0);
        let bar = "use indicatif::ProgressBar;\n";
        assert_eq!(count("crates/dfsbench/src/terminal/progress.rs", bar), 1);
        assert_eq!(count("crates/dfsbench/src/terminal/progress/bar.rs", bar), 0);
    }
}

//! The pages under `docs`: the commands that they show work, and their links lead somewhere.

use std::path::{Path, PathBuf};

use crate::cli::{Cli, ServedProcess};

/// The pages with commands that are run, one after the other.
const TUTORIALS: [&str; 2] = ["tutorial/laptop.md", "tutorial/server.md"];

/// The string that replaces a directory.
const DIRECTORIES: [&str; 3] = ["DIR", "/mnt/data", "/mnt/nfs"];

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").canonicalize().unwrap()
}

/// Returns the pages with their paths below `docs`.
fn pages() -> Vec<(String, String)> {
    let all = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        entries.filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
    };
    let folders = [docs(), docs().join("tutorial"), docs().join("design")];
    let paths = folders.iter().flat_map(|folder| all(folder));
    let read = |path: PathBuf| {
        let name = path.strip_prefix(docs()).unwrap().to_str().unwrap().to_owned();
        (name, std::fs::read_to_string(path).unwrap())
    };
    paths.map(read).collect()
}

/// Returns the commands in a page's code blocks that begin with `dfsbench`, split into words,
/// without comments and redirections.
fn commands(page: &str) -> Vec<Vec<String>> {
    let mut fenced = false;
    let code = page.lines().filter(|line| {
        fenced ^= line.trim_start().starts_with("```");
        fenced || line.starts_with("    ")
    });
    let lines = code.map(str::trim_start);
    let lines = lines.filter(|line| *line == "dfsbench" || line.starts_with("dfsbench "));
    let end =
        |line: &str| [" #", " > ", " | ", " && "].iter().filter_map(|end| line.find(end)).min();
    lines.map(|line| words(&line[..end(line).unwrap_or(line.len())])).collect()
}

/// Splits a line into words like a shell, respecting quotes.
pub fn words(line: &str) -> Vec<String> {
    let parts = line.split('\'').enumerate().flat_map(|(index, part)| match index % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    parts.skip(1).collect()
}

/// Replaces servers and directories named on a page by ones that exist on the test machine.
pub fn replaced(words: &[String], server: &str) -> Vec<String> {
    let replace = |word: &String| match word.as_str() {
        "nfs://server" => format!("nfs://127.0.0.1:{server}"),
        "nfs://server/export" => format!("nfs://127.0.0.1:{server}/export?mountport={server}"),
        "nfs://server/export?version=4.1" => format!("nfs://127.0.0.1:{server}/export?version=4.1"),
        word if DIRECTORIES.contains(&word) => "target".to_owned(),
        word => word.to_owned(),
    };
    words.iter().map(replace).collect()
}

#[test]
fn the_tutorials_can_be_followed() {
    for name in TUTORIALS {
        let page = std::fs::read_to_string(docs().join(name)).unwrap();
        let cli = Cli::new();
        std::fs::create_dir(cli.folder().join("data")).unwrap();
        let served = ServedProcess::start(&cli, &[]);
        for words in commands(&page) {
            let words = replaced(&words, &served.port().to_string());
            let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
            if words.first() == Some(&"serve") {
                // A server doesn't end by itself.
                words.push("--help");
            }
            if words.is_empty() {
                // The complete run takes a minute and is covered by another test.
                words.extend(["run", "null", "--workload", "stream", "--trials", "1"]);
            }
            let end = cli.run(&words);
            // On a busy machine, results may be invalid.
            let measured = words[0] == "run" && end.code == 4;
            assert!(end.code == 0 || measured, "{name}: {words:?}: {end:?}");
        }
    }
}

#[test]
fn parses_every_documented_command() {
    let readme = include_str!("../../../../README.md").to_owned();
    let pages = pages().into_iter().chain([("README.md".to_owned(), readme)]);
    let mut tried = 0;
    let cli = Cli::new();
    for (name, page) in pages.filter(|(name, _)| !TUTORIALS.contains(&name.as_str())) {
        for words in commands(&page) {
            let dry = words.first().is_some_and(|word| word == "run") && has_its_file(&words);
            let mut words = replaced(&words, "2049");
            words.extend(
                if dry { ["--dry-run", "--quiet"] } else { ["--help", "--help"] }
                    .map(str::to_owned),
            );
            words.dedup();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            let end = cli.run(&words);
            // Help is no answer for git.
            let code = if words.contains(&"--bisect") { 130 } else { 0 };
            assert_eq!(end.code, code, "{name}: {words:?}: {}", end.stderr);
            assert!(dry || end.stdout.contains("Usage:"), "{name}: {words:?}: {}", end.stderr);
            tried += 1;
        }
    }
    assert!(tried > 60, "{tried} commands");
}

/// Returns true if a command can be tried here: the reader's own plans, jobs and devices can't.
fn has_its_file(words: &[String]) -> bool {
    words.iter().all(|word| {
        ![".toml", ".fio"].iter().any(|end| word.contains(end)) && !word.starts_with("/dev/")
    })
}

#[test]
fn documents_only_existing_flags() {
    let page = std::fs::read_to_string(docs().join("coming-from.md")).unwrap();
    let help = Cli::new().run(&["run", "--help"]).stdout;
    let known: Vec<&str> = help.split_whitespace().filter(|word| word.starts_with("--")).collect();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once("` | "));
    let mut looked = 0;
    let ours = rows.map(|(_, ours)| ours);
    for word in ours.flat_map(|ours| ours.split(|c: char| c.is_whitespace() || c == '`')) {
        if word.starts_with("--") {
            assert!(known.contains(&word.trim_end_matches([',', ')'])), "{word}");
            looked += 1;
        }
    }
    assert!(looked > 40, "{looked} flags");
}

#[test]
fn links_all_pages_of_book() {
    let summary = std::fs::read_to_string(docs().join("SUMMARY.md")).unwrap();
    for (name, page) in pages() {
        let listed = name == "SUMMARY.md" || summary.contains(&format!("]({name})"));
        assert!(listed, "docs/SUMMARY.md does not list {name}");
        let folder = docs().join(&name).parent().unwrap().to_owned();
        for link in links(&page) {
            let file = link.split('#').next().unwrap();
            assert!(file.is_empty() || folder.join(file).exists(), "{name} links to {link}");
        }
    }
}

/// Returns the links of a page within the repository.
fn links(page: &str) -> Vec<&str> {
    let starts = page.match_indices("](").map(|(at, _)| &page[at + 2..]);
    let links = starts.filter_map(|rest| rest.split_once(')')).map(|(link, _)| link);
    links.filter(|link| !link.contains("://") && !link.contains(' ')).collect()
}

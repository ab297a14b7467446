//! Rule: a link in a page leads to a file of the repository, and to a heading in it.
//!
//! Links to other hosts are not followed: a check that needs the network fails by chance. Every
//! page of `docs/` is listed in `docs/SUMMARY.md`, from which the book is made. The files that the
//! recipes of `CONTRIBUTING.md` name exist.
//!
//! **Source:** CommonMark 0.31, "Inline links"; mdBook, "Links to headings".

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Finding;

/// Contents of the book.
const SUMMARY: &str = "docs/SUMMARY.md";

/// Pages outside of the book whose links are checked.
pub const FURTHER_PAGES: [&str; 6] = [
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "SECURITY.md",
    "integrations/ansible/README.md",
    "integrations/grafana/README.md",
    "python/README.md",
];

/// Finds broken links in one page, given its path from the root.
pub fn check(root: &Path, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, target) in links(text) {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
        if is_elsewhere || target.is_empty() {
            continue;
        }
        let place = format!("{path}:{number}");
        let Some(led_to) = resolve(path, file) else {
            findings.push(Finding::new(place, format!("`{target}` is outside")));
            continue;
        };
        let file = root.join(&led_to);
        if !file.exists() {
            findings.push(Finding::new(place, format!("`{target}` doesn't exist")));
        } else if !heading.is_empty() {
            // A file that is not text has no headings.
            let page = fs::read_to_string(&file).unwrap_or_default();
            let page = if led_to == Path::new(path) { text } else { &page };
            if !headings(page).iter().any(|name| name == heading) {
                findings.push(Finding::new(place, format!("`{target}`: no such heading")));
            }
        }
    }
    findings
}

/// Folders of the repository that a page may name files of.
const FOLDERS: [&str; 6] = ["checks", "crates", "docs", "fuzz", "systems", "xtask"];

/// Finds paths in code spans of a page that don't exist. One with capitals is a pattern.
pub fn check_paths(root: &Path, path: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for span in line.split('`').skip(1).step_by(2) {
            let folder = span.split_once('/').map_or("", |(folder, _)| folder);
            let is_other = |sign: char| sign.is_ascii_uppercase() || sign.is_whitespace();
            if FOLDERS.contains(&folder) && !span.contains(is_other) && !root.join(span).exists() {
                let place = format!("{path}:{}", number + 1);
                findings.push(Finding::new(place, format!("`{span}` doesn't exist")));
            }
        }
    }
    findings
}

/// Finds pages of the book that are missing in its table of contents.
pub fn check_contents(summary: &str, pages: &[String]) -> Vec<Finding> {
    let listed: BTreeSet<_> = links(summary).into_iter().map(|(_, target)| target).collect();
    let mut findings = Vec::new();
    for path in pages {
        let Some(name) = path.strip_prefix("docs/") else { continue };
        if path != SUMMARY && !listed.contains(name) {
            findings.push(Finding::new(path, format!("is not listed in {SUMMARY}")));
        }
    }
    findings
}

/// Lists the targets of links, `[text](target)`, outside code, each with its line number.
fn links(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut in_code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
            continue;
        }
        if in_code {
            continue;
        }
        let mut rest = line;
        while let Some(start) = rest.find("](") {
            let is_code = line[..line.len() - rest.len() + start].matches('`').count() % 2 == 1;
            rest = &rest[start + 2..];
            let Some(end) = rest.find(')') else { break };
            if !is_code {
                found.push((number + 1, &rest[..end]));
            }
            rest = &rest[end..];
        }
    }
    found
}

/// Returns the path, from the root, of the target of a link in a page; `None` above the root.
fn resolve(page: &str, target: &str) -> Option<PathBuf> {
    if target.is_empty() {
        return Some(PathBuf::from(page));
    }
    let mut path = Path::new(page).parent().unwrap_or(Path::new("")).to_owned();
    for part in Path::new(target).components() {
        match part {
            Component::ParentDir if !path.pop() => return None,
            Component::ParentDir | Component::CurDir => {}
            part => path.push(part),
        }
    }
    Some(path)
}

/// Lists the anchors of headings: words in lower case with `-` between them.
fn headings(text: &str) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        let title = line.trim_start_matches('#');
        if in_code || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let mut name = String::new();
        for sign in title.trim().chars() {
            match sign {
                ' ' => name.push('-'),
                '-' | '_' => name.push(sign),
                sign if sign.is_alphanumeric() => name.extend(sign.to_lowercase()),
                _ => {}
            }
        }
        // The second heading with the same name is `name-1`.
        let known = names.iter().filter(|known| **known == name).count();
        names.push(if known > 0 { format!("{name}-{known}") } else { name });
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<String> {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("docs/design")).unwrap();
        fs::write(root.path().join("docs/design/page.md"), text).unwrap();
        fs::write(
            root.path().join("docs/other.md"),
            "# Other: a page\n\n## `code` and two_words\n",
        )
        .unwrap();
        fs::write(root.path().join("LICENSE"), "").unwrap();
        let findings = check(root.path(), "docs/design/page.md", text);
        findings.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "# Here\n[a](../other.md) and [b](../other.md#other-a-page), [c](#here)\n\
                    ![d](../../LICENSE) [e](https://example.org/x) [f](../other.md#code-and-two_words)\n\
                    `[g](none.md)`\n```\n[h](none.md)\n```\n";
        assert_eq!(found(text), Vec::<String>::new());
    }

    #[test]
    fn finds_broken_link_with_line() {
        let text = "x\n[a](gone.md) [b](../other.md#gone) [c](#here)\n[d](../../../up.md)\n";
        let found = found(text);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found[0].contains("docs/design/page.md:2: `gone.md` doesn't exist"), "{found:?}");
        assert!(found[1].contains("`../other.md#gone`: no such heading"), "{found:?}");
        assert!(found[3].contains("page.md:3: `../../../up.md` is outside"), "{found:?}");
    }

    #[test]
    fn finds_missing_path() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("docs")).unwrap();
        let text =
            "`docs/` `docs/NAME.md` `cat docs/x`\n`mut` and `docs/gone.md`, `other/gone.md`\n";
        let found = check_paths(root.path(), "PAGE.md", text);
        assert_eq!(found, [Finding::new("PAGE.md:2", "`docs/gone.md` doesn't exist")]);
    }

    #[test]
    fn finds_unlisted_page() {
        let pages = ["docs/SUMMARY.md", "docs/a.md", "docs/b/c.md", "README.md"].map(str::to_owned);
        let found = check_contents("- [A](a.md)\n", &pages);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().contains("docs/b/c.md: is not listed"));
    }
}

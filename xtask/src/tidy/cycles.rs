//! Rule: the modules of a crate don't depend on each other cyclically.
//!
//! A module is a file. It uses another if its code outside `#[cfg(test)]` contains a path that
//! starts with `crate::` or `super::`, in a `use` or in place; the path counts for the deepest
//! module in it. A module and one that it contains may use each other, and a name that is
//! re-exported further up counts for the module that re-exports it. A cycle is a maximal group of
//! modules that can all reach each other.

use std::collections::{BTreeMap, BTreeSet};

use super::Finding;
use super::files::SourceFile;

/// The modules used by each module; names are paths from the root, which is the empty string.
type Uses = BTreeMap<String, BTreeSet<String>>;

/// Checks all files of one crate.
pub fn check(krate: &str, files: &[&SourceFile]) -> Vec<Finding> {
    let describe = |circle: Vec<String>| {
        let message = format!("these modules form a cycle: {}", circle.join(", "));
        Finding::new(krate, message)
    };
    find_cycles(&module_uses(files)).into_iter().map(describe).collect()
}

/// Returns which modules the modules of a crate use.
fn module_uses(files: &[&SourceFile]) -> Uses {
    let mut uses = Uses::new();
    for file in files {
        if let Some(module) = module_name(file) {
            uses.insert(module, BTreeSet::new());
        }
    }
    let modules: BTreeSet<String> = uses.keys().cloned().collect();
    for file in files {
        let Some(module) = module_name(file) else { continue };
        for path in relative_paths(file) {
            let target = deepest_module(&modules, absolute_path(&module, &path));
            if !contains(&target, &module) && !contains(&module, &target) {
                uses.entry(module.clone()).or_default().insert(target);
            }
        }
    }
    uses
}

/// Returns the module in a file below `src`, `None` for a file of tests or examples.
fn module_name(file: &SourceFile) -> Option<String> {
    if file.is_test {
        return None;
    }
    let (_, inside) = file.path.split_once("/src/")?;
    let path = inside.strip_suffix(".rs")?;
    let path = path.strip_suffix("/mod").unwrap_or(path);
    Some(if path == "lib" || path == "main" { String::new() } else { path.replace('/', "::") })
}

/// Returns true if a module is another one or contains it, at any depth.
fn contains(outer: &str, inner: &str) -> bool {
    outer.is_empty()
        || inner.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
}

/// Returns every path in a file that starts with `crate` or `super`, with groups expanded.
fn relative_paths(file: &SourceFile) -> Vec<Vec<String>> {
    let mut text = String::new();
    for (line, code) in file.source.code.iter().enumerate() {
        if !file.source.in_tests(line) {
            text.push_str(code);
        }
        text.push('\n');
    }
    let characters: Vec<char> = text.chars().collect();
    let mut reader = PathReader { text: &characters, at: 0, found: Vec::new() };
    reader.read_all();
    reader.found
}

/// Parses paths and groups of paths in code.
struct PathReader<'a> {
    text: &'a [char],
    at: usize,
    found: Vec<Vec<String>>,
}

impl PathReader<'_> {
    fn read_all(&mut self) {
        while self.at < self.text.len() {
            let within_path = self.at > 0 && self.text[self.at - 1] == ':';
            let word = self.read_word();
            if word.is_empty() {
                self.at += 1;
            } else if !within_path && (word == "crate" || word == "super") {
                self.read_rest(vec![word]);
            }
        }
    }

    /// Parses the rest of a path after its first segments: more segments, or a group in braces.
    fn read_rest(&mut self, mut path: Vec<String>) {
        while self.skip_separator() {
            self.skip_spaces();
            if self.text.get(self.at) == Some(&'{') {
                self.at += 1;
                return self.read_group(&path);
            }
            let word = self.read_word();
            if word.is_empty() {
                break;
            }
            path.push(word);
        }
        // A single `crate` is from the visibility `pub(crate)`.
        if path.len() > 1 {
            self.found.push(path);
        }
    }

    /// Parses the paths of a group up to its closing brace; each continues `prefix`.
    fn read_group(&mut self, prefix: &[String]) {
        while let Some(character) = self.text.get(self.at) {
            if *character == '}' {
                self.at += 1;
                return;
            }
            let word = self.read_word();
            if word.is_empty() {
                self.at += 1;
                continue;
            }
            if word == "as" {
                self.skip_spaces();
                self.read_word();
                continue;
            }
            let mut path = prefix.to_vec();
            path.push(word);
            self.read_rest(path);
        }
    }

    fn read_word(&mut self) -> String {
        let start = self.at;
        while self.text.get(self.at).is_some_and(|c| c.is_alphanumeric() || *c == '_') {
            self.at += 1;
        }
        self.text[start..self.at].iter().collect()
    }

    fn skip_spaces(&mut self) {
        while self.text.get(self.at).is_some_and(|c| c.is_whitespace()) {
            self.at += 1;
        }
    }

    /// Skips `::`, and returns whether it was there.
    fn skip_separator(&mut self) -> bool {
        let is_here = self.text[self.at..].starts_with(&[':', ':']);
        if is_here {
            self.at += 2;
        }
        is_here
    }
}

/// Resolves the leading `crate` or `super` of a path in a module.
fn absolute_path(module: &str, path: &[String]) -> Vec<String> {
    let mut absolute: Vec<String> = Vec::new();
    let mut rest = path;
    if path.first().is_some_and(|first| first == "super") {
        absolute.extend(module.split("::").filter(|part| !part.is_empty()).map(str::to_owned));
    } else {
        rest = &path[1..];
    }
    while let Some((first, behind)) = rest.split_first() {
        if first != "super" {
            break;
        }
        absolute.pop();
        rest = behind;
    }
    absolute.extend_from_slice(rest);
    absolute
}

/// Returns the deepest module along a path.
fn deepest_module(modules: &BTreeSet<String>, mut path: Vec<String>) -> String {
    loop {
        let name = path.join("::");
        if path.is_empty() || modules.contains(&name) {
            return name;
        }
        path.pop();
    }
}

/// Returns the groups of two or more modules that can all reach each other.
fn find_cycles(uses: &Uses) -> Vec<Vec<String>> {
    let reached: BTreeMap<_, _> =
        uses.keys().map(|module| (module.as_str(), reachable_from(uses, module))).collect();
    let mut found = Vec::new();
    let mut placed = BTreeSet::new();
    for (module, targets) in &reached {
        if placed.contains(module) || !targets.contains(module) {
            continue;
        }
        let mut circle = Vec::new();
        for target in targets {
            if reached.get(target).is_some_and(|back| back.contains(module)) {
                placed.insert(*target);
                circle.push((*target).to_owned());
            }
        }
        found.push(circle);
    }
    found
}

/// Returns every module that a module uses, directly or through others.
fn reachable_from<'a>(uses: &'a Uses, start: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left = vec![start];
    while let Some(module) = left.pop() {
        let Some(targets) = uses.get(module) else { continue };
        for target in targets {
            if reached.insert(target.as_str()) {
                left.push(target);
            }
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let sources: Vec<_> = files
            .iter()
            .map(|(path, text)| SourceFile::new(&format!("crates/shed/src/{path}"), text))
            .collect();
        let references: Vec<&SourceFile> = sources.iter().collect();
        check("shed", &references).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn names_modules_of_cycle() {
        let files = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\nuse crate::a::A;\n"),
            ("a.rs", "use crate::{\n    b::{B as Other, self},\n    X,\n};\n"),
            ("b/mod.rs", "mod d;\n"),
            ("b/d.rs", "fn x() { super::super::c::go() }\n"),
            ("b.rs", "use super::c::{self};\n"),
            ("c.rs", "pub(crate) fn go() { let _ = crate::a::b::D; }\n"),
        ];
        let want = "error: shed: these modules form a cycle: a, b, c";
        assert_eq!(found(&files), [want]);
    }

    #[test]
    fn allows_use_of_own_submodules() {
        let files = [
            ("lib.rs", "mod a;\nuse crate::a::B;\n"),
            ("a.rs", "mod b;\nuse crate::a::b::B;\n"),
            ("a/b.rs", "use super::A;\nuse crate::Root;\n"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn ignores_tests_and_comments() {
        let files = [
            ("a.rs", "use crate::b::B;\n"),
            (
                "b.rs",
                "// crate::a::A\nconst X: &str = \"crate::a::A\";\n#[cfg(test)]\nmod tests {\n    \
                 use crate::a::A;\n}\n",
            ),
            ("b/tests.rs", "use crate::a::A;\n"),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }

    #[test]
    fn two_circles_are_two() {
        let files = [
            ("a.rs", "use crate::b::B;\n"),
            ("b.rs", "use crate::a::A;\nuse crate::c::C;\n"),
            ("c.rs", "use crate::d::D;\n"),
            ("d.rs", "use super::c::C;\n"),
        ];
        assert_eq!(found(&files).len(), 2);
    }
}

//! Rule: no parameter is a tuple; parameters of type `bool` are reported.
//!
//! A tuple parameter hides two arguments behind one, so that neither has a name; a `bool` in a call
//! is meaningless without the signature. Tests are not restricted, and neither are signatures
//! required by a trait (`From<(A, B)>`).

use super::Finding;
use super::files::SourceFile;
use super::signature;

/// Checks all files of one crate.
pub fn check(krate: &str, files: &[&SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut bools = Vec::new();
    for file in files {
        for function in signature::functions(&file.source) {
            let place = format!("{}:{}", file.path, function.line + 1);
            if is_prescribed(file, function.line) {
                continue;
            }
            for parameter in &function.parameters {
                if parameter.is_tuple() {
                    let message = format!(
                        "`{}` takes the tuple `{}: {}`: pass its parts or a struct that names them",
                        function.name, parameter.pattern, parameter.type_name
                    );
                    findings.push(Finding::error(place.clone(), message));
                }
                if parameter.is_bool() {
                    bools.push(format!("`{}` ({place})", function.name));
                }
            }
        }
    }
    if !bools.is_empty() {
        let message = format!("{} bool parameters: {}", bools.len(), bools.join(", "));
        findings.push(Finding::warning(krate, message));
    }
    findings
}

/// Returns true if a function is in an `impl From<(..)>`, whose parameter can't be chosen.
fn is_prescribed(file: &SourceFile, line: usize) -> bool {
    let above = file.source.code[..line].iter().rev();
    for code in above {
        if code.starts_with("impl") {
            return code.contains(" From<(");
        }
        if code.starts_with('}') {
            return false;
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(krate: &str, text: &str) -> Vec<String> {
        let file = SourceFile::new(&format!("crates/{krate}/src/a.rs"), text);
        check(krate, &[&file]).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_tuple_parameter_is_an_error_with_its_line() {
        let found = found("shed", "struct A;\nfn cut((a, b): (u8, u8), c: u8) {}\n");
        assert_eq!(found.len(), 1, "{found:?}");
        let want = "error: crates/shed/src/a.rs:2: `cut` takes the tuple `(a, b): (u8, u8)`: ";
        assert!(found[0].starts_with(want), "{found:?}");
    }

    #[test]
    fn a_bool_parameter_is_reported() {
        let found = found("shed", "fn cut(deep: bool, wide: bool) {}\nfn dig(deep: &str) {}\n");
        let want = "warning: shed: 2 bool parameters: \
                    `cut` (crates/shed/src/a.rs:1), `cut` (crates/shed/src/a.rs:1)";
        assert_eq!(found, [want]);
    }

    #[test]
    fn tests_and_conversions_from_tuples_are_left_alone() {
        let text = "impl From<(u8, u8)> for A {\n    fn from(x: (u8, u8)) -> Self {}\n}\n\
                    #[cfg(test)]\nmod tests {\n    fn cut(x: (u8, u8), y: bool) {}\n}\n";
        assert_eq!(found("shed", text), Vec::<String>::new());
    }
}

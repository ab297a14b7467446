//! Rule: no dependency of the workspace is copyleft.
//!
//! Reads the SPDX expressions: `OR` (and the old `/`) lets us choose, `AND` binds both. A package
//! must have one.
//!
//! **Source:** SPDX specification 2.3, annex D, as far as crates.io uses it.

use super::Finding;
use super::metadata::Package;

/// Prefixes of the identifiers of licenses that affect linked code.
const COPYLEFT: [&str; 10] =
    ["GPL", "LGPL", "AGPL", "MPL", "EPL", "CDDL", "EUPL", "SSPL", "OSL", "CC-BY-SA"];

/// Checks each external package.
pub fn check(packages: &[Package]) -> Vec<Finding> {
    packages.iter().filter_map(check_license).collect()
}

fn check_license(package: &Package) -> Option<Finding> {
    let place = format!("{} {}", package.name, package.version);
    match &package.license {
        Some(expression) if permits(expression) => None,
        Some(expression) => {
            Some(Finding::new(place, format!("has the copyleft license `{expression}`")))
        }
        None => Some(Finding::new(place, "declares no license")),
    }
}

/// Returns true if the expression leaves us a choice without copyleft.
fn permits(expression: &str) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let tokens: Vec<&str> = spaced.split_whitespace().collect();
    let mut at = 0;
    parse_either(&tokens, &mut at)
}

fn parse_either(tokens: &[&str], at: &mut usize) -> bool {
    let mut permitted = parse_both(tokens, at);
    while tokens.get(*at) == Some(&"OR") {
        *at += 1;
        permitted |= parse_both(tokens, at);
    }
    permitted
}

fn parse_both(tokens: &[&str], at: &mut usize) -> bool {
    let mut permitted = parse_term(tokens, at);
    while tokens.get(*at) == Some(&"AND") {
        *at += 1;
        permitted &= parse_term(tokens, at);
    }
    permitted
}

fn parse_term(tokens: &[&str], at: &mut usize) -> bool {
    let Some(token) = tokens.get(*at) else { return false };
    *at += 1;
    if *token == "(" {
        let permitted = parse_either(tokens, at);
        *at += 1;
        return permitted;
    }
    // `WITH some-exception` only ever adds permissions.
    if tokens.get(*at) == Some(&"WITH") {
        *at += 2;
    }
    !COPYLEFT.iter().any(|name| token.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_any_permissive_choice() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "Apache-2.0 WITH LLVM-exception",
            "LGPL-2.1-or-later OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
        ] {
            assert!(permits(good), "{good}");
        }
        for bad in ["GPL-3.0-only", "MIT AND LGPL-2.1", "AGPL-3.0 OR GPL-2.0", "MPL-2.0", ""] {
            assert!(!permits(bad), "{bad}");
        }
    }

    #[test]
    fn a_planted_copyleft_package_is_found() {
        let packages = [
            Package::for_test("fine", Some("MIT")),
            Package::for_test("viral", Some("GPL-2.0")),
            Package::for_test("mute", None),
        ];
        let found: Vec<String> = check(&packages).iter().map(ToString::to_string).collect();
        let want = [
            "error: viral 1.0.0: has the copyleft license `GPL-2.0`",
            "error: mute 1.0.0: declares no license",
        ];
        assert_eq!(found, want);
    }
}

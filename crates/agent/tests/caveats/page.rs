//! The page on caveats says of each code what the code says, and which tests plant it.

use std::path::Path;

use model::{CaveatCode, Severity};

const PAGE: &str = include_str!("../../../../docs/caveats.md");

/// The cells of the line of a code.
fn line(code: CaveatCode) -> Vec<&'static str> {
    let start = format!("| `{code}` |");
    let line = PAGE.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("docs/caveats.md has no line for {code}"));
    line.trim_matches('|').split('|').map(str::trim).collect()
}

/// Says whether a cell names a test that there is, such as `agent/tests/cached.rs::name`.
fn is_test(cell: &str) -> bool {
    let Some((file, test)) = cell.trim_matches('`').split_once("::") else { return false };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = format!("fn {test}(");
    lines.windows(2).any(|two| two[0] == "#[test]" && two[1].starts_with(&begins))
}

#[test]
fn every_code_is_on_the_page_as_it_is() {
    for code in CaveatCode::ALL {
        let cells = line(*code);
        assert_eq!(cells.len(), 9, "{code}: {cells:?}");
        let level = match code.severity() {
            Severity::Note => "note",
            Severity::Degraded => "degraded",
            Severity::Invalid => "invalid",
        };
        assert_eq!((cells[1], cells[2], cells[4]), (level, code.sentence(), code.advice()));
        for (name, cell) in [("evidence", 3), ("cannot see", 5), ("planted causes", 6)] {
            assert!(!cells[cell].is_empty(), "{code}: `{name}` is empty");
        }
    }
}

#[test]
fn every_code_has_a_test_that_plants_it_and_one_that_is_silent() {
    for code in CaveatCode::ALL {
        let cells = line(*code);
        for (what, cell) in [("plants", cells[7]), ("is silent about", cells[8])] {
            assert!(is_test(cell), "{cell}, which {what} {code}, is no test");
        }
    }
    assert!(!is_test("`agent/tests/cached.rs::nothing`") && !is_test("none"));
}

#[test]
fn the_page_knows_no_other_codes() {
    let codes = PAGE.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for code in codes.filter(|code| !code.contains("://")) {
        assert!(CaveatCode::from_code(code).is_some(), "{code}");
    }
}

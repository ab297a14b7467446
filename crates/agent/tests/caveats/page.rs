//! Checks that the page on caveats matches the codes, and that the design page lists existing
//! tests.

use std::path::Path;

use model::{CaveatCode, Severity};

const PAGE: &str = include_str!("../../../../docs/caveats.md");
const TESTS: &str = include_str!("../../../../docs/design/caveats.md");

/// Returns the cells of a code's line, which must match the columns of the table.
fn line<const CELLS: usize>(page: &'static str, code: CaveatCode) -> [&'static str; CELLS] {
    let start = format!("| `{code}` |");
    let line = page.lines().find(|line| line.starts_with(&start));
    let line = line.unwrap_or_else(|| panic!("no line for {code}"));
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    cells.try_into().unwrap_or_else(|cells| panic!("{code}: {cells:?}"))
}

/// Returns true if a cell names an existing test, such as `agent/tests/cached.rs::name`.
fn is_test(cell: &str) -> bool {
    let Some((file, test)) = cell.trim_matches('`').split_once("::") else { return false };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(file);
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let begins = format!("fn {test}(");
    lines.windows(2).any(|two| two[0] == "#[test]" && two[1].starts_with(&begins))
}

#[test]
fn documents_every_code() {
    for code in CaveatCode::ALL {
        let [_, severity, sentence, evidence, advice, cannot_see] = line(PAGE, *code);
        let level = match code.severity() {
            Severity::Note => "note",
            Severity::Degraded => "degraded",
            Severity::Invalid => "invalid",
        };
        assert_eq!((severity, sentence, advice), (level, code.sentence(), code.advice()));
        for (name, cell) in [("evidence", evidence), ("cannot see", cannot_see)] {
            assert!(!cell.is_empty(), "{code}: `{name}` is empty");
        }
    }
}

#[test]
fn has_tests_for_each_code() {
    for code in CaveatCode::ALL {
        let [_, causes, plants, silent] = line(TESTS, *code);
        assert!(!causes.is_empty(), "{code}: `planted causes` is empty");
        for (what, cell) in [("plants", plants), ("is silent about", silent)] {
            assert!(is_test(cell), "{cell} ({what} {code}) is not a test");
        }
    }
    assert!(!is_test("`agent/tests/cached.rs::nothing`") && !is_test("none"));
}

#[test]
fn the_pages_know_no_other_codes() {
    let lines = PAGE.lines().chain(TESTS.lines());
    let codes = lines.filter_map(|line| line.strip_prefix("| `")?.split('`').next());
    for code in codes.filter(|code| !code.contains("://")) {
        assert!(CaveatCode::from_code(code).is_some(), "{code}");
    }
}

//! Cells of comma-separated values, as every writer of them puts them down.
//!
//! A text that a spreadsheet would take for a formula is led by an apostrophe; numbers never are.
//!
//! **Source:** RFC 4180 (quoting); OWASP, "CSV Injection" (formulas).

/// A cell with the quotes that it needs, and never a formula.
pub fn quoted(cell: &str) -> String {
    // Spreadsheets run a cell that begins so, whatever its quotes; a negative number begins so,
    // too, and must be a number to them.
    let formula = cell.starts_with(['=', '+', '-', '@', '\t', '\r']);
    if formula && !cell.parse::<f64>().is_ok_and(f64::is_finite) {
        return in_quotes(&format!("'{cell}"));
    }
    in_quotes(cell)
}

fn in_quotes(cell: &str) -> String {
    if cell.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", cell.replace('"', "\"\""))
    } else {
        cell.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_quoted_where_they_must_be() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }

    #[test]
    fn formulas_are_defused_and_numbers_are_not() {
        let shown = ["=1+1", "+a", "-x,y", "@SUM(A1)", "-inf", "\t=1"].map(quoted);
        assert_eq!(shown, ["'=1+1", "'+a", "\"'-x,y\"", "'@SUM(A1)", "'-inf", "'\t=1"]);
        assert_eq!(
            ["-1", "+2.5", "-1e-3", "a=b", ""].map(quoted),
            ["-1", "+2.5", "-1e-3", "a=b", ""]
        );
    }
}

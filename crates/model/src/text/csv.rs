//! Cells of comma-separated values, shared by all CSV writers.
//!
//! Text that a spreadsheet would interpret as a formula is prefixed with an apostrophe; numbers are
//! not.
//!
//! **Source:** RFC 4180 (quoting); OWASP, "CSV Injection" (formulas).

/// Returns a cell with the necessary quoting that is never a formula.
pub fn quoted(cell: &str) -> String {
    // Spreadsheets evaluate cells that begin with these characters, even if quoted. Negative
    // numbers begin with one, too, but must remain numbers.
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
    fn quotes_cells_if_needed() {
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("a,\"b\"\n"), "\"a,\"\"b\"\"\n\"");
    }

    #[test]
    fn defuses_formulas_but_not_numbers() {
        let shown = ["=1+1", "+a", "-x,y", "@SUM(A1)", "-inf", "\t=1"].map(quoted);
        assert_eq!(shown, ["'=1+1", "'+a", "\"'-x,y\"", "'@SUM(A1)", "'-inf", "'\t=1"]);
        assert_eq!(
            ["-1", "+2.5", "-1e-3", "a=b", ""].map(quoted),
            ["-1", "+2.5", "-1e-3", "a=b", ""]
        );
    }
}

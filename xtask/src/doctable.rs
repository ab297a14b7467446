//! Reads tables from Markdown pages, so that a page can be the source of a check.
//!
//! A table is identified by its column names. Cells are returned trimmed and without backticks; no
//! other Markdown is parsed.

/// One row of a table: its cells from left to right.
pub type Row = Vec<String>;

/// Returns the rows of the first table whose header row starts with `columns`; `None` without one.
pub fn find_table(page: &str, columns: &[&str]) -> Option<Vec<Row>> {
    let mut lines = page.lines();
    loop {
        let cells = split_row(lines.next()?);
        if cells.len() >= columns.len() && cells[..columns.len()] == *columns {
            break;
        }
    }
    let mut rows = Vec::new();
    // The line below the header is only a separator.
    for line in lines.skip(1) {
        if !line.trim_start().starts_with('|') {
            break;
        }
        rows.push(split_row(line));
    }
    Some(rows)
}

fn split_row(line: &str) -> Row {
    let line = line.trim();
    let Some(inner) = line.strip_prefix('|') else { return Row::new() };
    let inner = inner.strip_suffix('|').unwrap_or(inner);
    let mut row = Row::new();
    row.extend(inner.split('|').map(|cell| cell.replace('`', "").trim().to_owned()));
    row
}

#[cfg(test)]
mod tests {
    use super::find_table;

    #[test]
    fn finds_table_by_columns() {
        let page =
            "| a | b |\n|---|---|\n| 1 | 2 |\n\n| a | c |\n|---|---|\n| `x` | y |\n| z | |\ntext";
        let rows = find_table(page, &["a", "c"]).unwrap();
        assert_eq!(rows, vec![vec!["x".to_owned(), "y".into()], vec!["z".into(), String::new()]]);
        assert!(find_table(page, &["no", "such"]).is_none());
    }
}

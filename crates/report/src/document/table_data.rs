//! Rows of a long table as data for the page's script.
//!
//! Cells become single-line texts. A text that occurs often in a column is stored once and referred
//! to by number, which makes a page with many runs several times smaller.

use std::collections::HashMap;

use maud::{Markup, PreEscaped, html};
use serde_json::{Value, json};

use super::TableRow;

/// Renders the rows as an element with JSON content.
pub(super) fn data(rows: &[TableRow]) -> Markup {
    let rows: Vec<Vec<String>> = rows.iter().map(cell_texts).collect();
    let columns = rows.first().map_or(0, Vec::len);
    let words: Vec<_> = (0..columns)
        .map(|column| Words::new(rows.iter().map(|row| row[column].as_str())))
        .collect();
    let mut numbered = Vec::new();
    for row in &rows {
        let cells: Vec<_> =
            row.iter().zip(&words).map(|(text, words)| words.number(text)).collect();
        numbered.push(Value::Array(cells));
    }
    let kept: Vec<_> = words.iter().map(Words::list).collect();
    // Escape `<`, so that no text can close the element.
    let text = json!({ "words": kept, "rows": numbered }).to_string().replace('<', "\\u003c");
    html! { script type="application/json" { (PreEscaped(text)) } }
}

/// One text per column. The text of a reason is in the first of its columns.
fn cell_texts(row: &TableRow) -> Vec<String> {
    let mut texts = Vec::new();
    for cell in &row.cells {
        texts.push(cell.one_line());
        texts.resize(texts.len() + cell.span() - 1, String::new());
    }
    texts
}

/// Distinct texts of a column, numbered if that saves space.
struct Words<'a> {
    order: Vec<&'a str>,
    numbers: HashMap<&'a str, usize>,
}

impl<'a> Words<'a> {
    fn new(texts: impl Iterator<Item = &'a str>) -> Self {
        let mut words = Self { order: Vec::new(), numbers: HashMap::new() };
        let mut seen = 0;
        for text in texts {
            seen += 1;
            words.numbers.entry(text).or_insert_with(|| {
                words.order.push(text);
                words.order.len() - 1
            });
        }
        // Unless each text is used twice on average, the list and the numbers take more space than
        // the texts.
        if words.order.len() * 2 > seen { Self { numbers: HashMap::new(), ..words } } else { words }
    }

    fn list(&self) -> Value {
        if self.numbers.is_empty() { Value::Null } else { json!(self.order) }
    }

    fn number(&self, text: &str) -> Value {
        match self.numbers.get(text) {
            Some(number) => json!(number),
            None => json!(text),
        }
    }
}

//! Report as data: a title, and sections of paragraphs, lists, terms, tables and pictures.
//!
//! [`Document`] is the main type. Its texts are plain, without any markup. A [`Cell`] records
//! what it means, such as a verdict or caveat codes, so that formats can color or link it. `text`,
//! `markdown` and `html` each write a document in a single pass and escape all texts. No other code
//! in this crate writes tables or lists in these formats.

pub(crate) mod html;
pub(crate) mod markdown;
pub(crate) mod page_frame;
mod table_data;
pub(crate) mod terminal;
pub mod text;

use maud::Markup;
use model::{CaveatCode, Severity, Verdict};

use crate::chart::Picture;
use terminal::Screen;

/// Output formats of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Plain text for a terminal.
    Text,
    /// Markdown as GitHub renders it.
    Markdown,
    /// HTML page.
    Html,
}

/// Report, independent of its format.
#[derive(Debug)]
pub struct Document {
    /// Command that wrote the document, such as `dfsbench report`.
    pub tool: &'static str,
    pub title: String,
    /// Lines below the title.
    pub about: Vec<String>,
    pub parts: Vec<DocumentPart>,
}

/// Part of a document.
#[derive(Debug)]
pub enum DocumentPart {
    /// Blocks below a heading.
    Section(Section),
    /// Content of HTML pages only, such as pictures of a whole campaign or collapsed tables.
    Page(Markup),
}

/// Blocks below a heading.
#[derive(Debug, Default)]
pub struct Section {
    /// Anchor for links; unique within the document.
    pub id: &'static str,
    /// Heading. If it is empty, formats other than pages leave it out.
    pub heading: String,
    /// True for the answer to the campaign's question, which pages emphasize.
    pub is_answer: bool,
    pub blocks: Vec<Block>,
}

/// Paragraph or similar element of a section.
#[derive(Debug)]
pub enum Block {
    /// Sentences of one paragraph.
    Paragraph(String),
    /// Sentences that summarize everything else.
    Lead(Vec<String>),
    /// Items, each a sentence or line.
    List(Vec<String>),
    /// Names with their descriptions.
    Terms(TermKind, Vec<Term>),
    Table(Table),
    /// Pictures side by side, shown on pages only.
    Pictures(Vec<Picture>),
    /// Content of HTML pages only.
    Page(Markup),
}

/// Kind of names in a list of terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TermKind {
    /// Kinds of pass.
    Passes,
    /// Caveat codes.
    Caveats,
    /// Conditions of a measurement.
    Conditions,
}

/// Name with its description.
#[derive(Debug)]
pub struct Term {
    pub name: String,
    /// Caveat code and severity, if the term explains a code that tables link to.
    pub code: Option<(CaveatCode, Severity)>,
    /// Lines of the description; the first is next to the name.
    pub lines: Vec<String>,
}

impl Term {
    /// Creates a term with a description of one line.
    pub(crate) fn new(name: impl Into<String>, line: impl Into<String>) -> Self {
        Self { name: name.into(), code: None, lines: vec![line.into()] }
    }
}

#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Identifier by which the page's script sorts and filters the table; empty for small tables.
    pub id: String,
    pub caption: String,
    /// True if only pages show the caption, because the heading above the table says the same in
    /// other formats.
    pub has_page_caption: bool,
    pub columns: Vec<Column>,
    pub rows: Vec<TableRow>,
    /// True if terminals merge the rows of a group into one row of several lines.
    pub stacks_groups: bool,
    /// Explanations in plain sentences.
    pub reading: Vec<String>,
}

/// Column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Heading, including the unit if all rows share it.
    pub name: String,
    pub role: Role,
    /// Width at which terminals wrap cells; 0 never wraps.
    pub width_max: usize,
    /// Order in which columns are dropped from a table too wide for the terminal: 1 is dropped
    /// first, 0 never.
    pub leaves: u8,
}

/// Role of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Words, left-aligned.
    Words,
    /// Long texts, which get extra room on pages.
    Prose,
    /// Words by which rows can be filtered.
    Factor,
    /// Numbers by which rows can be filtered.
    FactorNumber,
    /// Numbers, right-aligned.
    Number,
    /// Main result of the row.
    Rate,
    /// Verdicts; terminals show them below the row.
    Verdict,
    /// Caveat codes; terminals show them below the row.
    Caveats,
}

impl Role {
    /// Returns true if cells are aligned like numbers.
    pub(crate) const fn is_number(self) -> bool {
        matches!(self, Self::FactorNumber | Self::Number | Self::Rate)
    }

    /// Returns true if rows can be filtered by the column.
    pub(crate) const fn is_factor(self) -> bool {
        matches!(self, Self::Factor | Self::FactorNumber | Self::Verdict)
    }
}

/// Row of a table.
#[derive(Clone, Debug, Default)]
pub struct TableRow {
    /// Line above the row, in formats without room for all columns.
    pub title: String,
    /// True if the row is another result of the same run as the row above it.
    pub continues: bool,
    /// One cell per column, except for columns spanned by a [`Cell::Reason`].
    pub cells: Vec<Cell>,
}

/// Cell of a table.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Lines of text, optionally marked as best or worst.
    Lines(Vec<Line>),
    /// Reason why there is no result, spanning the given number of columns.
    Reason(String, usize),
    /// Whether a result may be used.
    Verdict(Verdict),
    /// Caveats of a result.
    Caveats(Vec<CaveatLink>),
}

/// Line of a cell.
#[derive(Clone, Debug)]
pub struct Line {
    /// Marks the best or worst of its kind, if the intervals can tell.
    pub mark: Option<Extreme>,
    pub text: String,
}

/// Rank of a result within its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The highest, or one whose interval overlaps that of the highest.
    Best,
    /// The lowest, or one whose interval overlaps that of the lowest.
    Worst,
}

impl Extreme {
    /// Sign next to the result.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Best => "▲",
            Self::Worst => "▼",
        }
    }

    /// Meaning of the sign in words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Best => "best of its pass, or indistinguishable from it",
            Self::Worst => "worst of its pass, or indistinguishable from it",
        }
    }
}

/// Caveat next to a result.
#[derive(Clone, Debug)]
pub struct CaveatLink {
    pub code: CaveatCode,
    /// The code, and the number of trials that have it unless all do.
    pub text: String,
    /// Numbers behind the caveat; empty if they are shown elsewhere.
    pub evidence: String,
}

impl Cell {
    /// Creates a cell with one line.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Lines(vec![Line { mark: None, text: text.into() }])
    }

    /// Creates a cell with an optional second line.
    pub(crate) fn two_lines(first: String, second: Option<String>) -> Self {
        let mut lines = vec![Line { mark: None, text: first }];
        if let Some(text) = second {
            lines.push(Line { mark: None, text });
        }
        Self::Lines(lines)
    }

    /// Number of columns the cell takes.
    pub(crate) const fn span(&self) -> usize {
        match self {
            Self::Reason(_, span) => *span,
            _ => 1,
        }
    }

    /// Formats the cell on one line, without markup.
    pub(crate) fn one_line(&self) -> String {
        match self {
            Self::Lines(lines) => {
                let mut text = String::new();
                for (number, line) in lines.iter().enumerate() {
                    let signed = line.signed();
                    // A leading plus means that the line is added to the one above.
                    match number {
                        0 => text = signed,
                        _ if signed.starts_with('+') => text.extend([" ", &signed]),
                        _ => text.extend([" (", &signed, ")"]),
                    }
                }
                text
            }
            Self::Reason(why, _) => why.clone(),
            Self::Verdict(verdict) => verdict.name().to_owned(),
            Self::Caveats(links) => {
                let codes: Vec<_> = links.iter().map(|link| link.text.as_str()).collect();
                codes.join(", ")
            }
        }
    }
}

impl Line {
    /// The text, preceded by the sign of its mark.
    pub(crate) fn signed(&self) -> String {
        let sign = self.mark.map_or("", Extreme::sign);
        format!("{sign}{}", self.text)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::text(text)
    }
}

impl Column {
    /// Creates a column whose cells are never wrapped.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, width_max: 0, leaves: 0 }
    }

    /// Sets the order in which the column is dropped from a table that is too wide.
    #[must_use]
    pub const fn leaving(mut self, order: u8) -> Self {
        self.leaves = order;
        self
    }

    /// Creates columns from their names and roles.
    pub fn all(columns: &[(&str, Role)]) -> Vec<Self> {
        columns.iter().map(|(name, role)| Self::new(*name, *role)).collect()
    }

    /// Sets the order in which columns are dropped from a table that is too wide, first one first.
    pub fn leave_in_order(columns: &mut [Self], names: &[&str]) {
        for column in columns {
            if let Some(place) = names.iter().position(|name| *name == column.name) {
                column.leaves = place as u8 + 1;
            }
        }
    }
}

impl TableRow {
    /// Creates rows from their cells.
    pub fn all<C: Into<Cell>>(rows: impl Iterator<Item = Vec<C>>) -> Vec<Self> {
        let mut table_rows = Vec::new();
        for cells in rows {
            let cells = cells.into_iter().map(Into::into).collect();
            table_rows.push(Self { cells, ..Self::default() });
        }
        table_rows
    }
}

impl Document {
    pub fn push(&mut self, section: Section) {
        self.parts.push(DocumentPart::Section(section));
    }

    /// Adds a list below a heading, unless it is empty.
    pub fn push_list(&mut self, id: &'static str, heading: &str, items: Vec<String>) {
        if !items.is_empty() {
            let blocks = vec![Block::List(items)];
            self.push(Section { id, heading: heading.to_owned(), blocks, ..Section::default() });
        }
    }

    /// Removes columns until all tables fit on the screen, and notes below each table how many were
    /// removed.
    pub fn narrow(&mut self, screen: Screen) {
        for part in &mut self.parts {
            let DocumentPart::Section(section) = part else { continue };
            for block in &mut section.blocks {
                let Block::Table(table) = block else { continue };
                let removed = text::narrow(table, screen.columns());
                if removed > 0 {
                    let columns = if removed == 1 { "column is" } else { "columns are" };
                    table.reading.push(format!(
                        "{removed} more {columns} in wider terminals, in Markdown and on the page."
                    ));
                }
            }
        }
    }

    /// Renders the document as a page with the given footer.
    pub fn page(&self, footer: &str) -> String {
        html::page(self, footer)
    }

    /// Renders the document. The text ends with a newline.
    pub fn render(&self, form: Form) -> String {
        match form {
            Form::Text => text::render(self, text::WIDTH_MAX),
            Form::Markdown => markdown::render(self),
            Form::Html => html::render(self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Document with one block of each kind that all formats support, and a hostile name in each.
    fn hostile() -> Document {
        let name = "<b>|x_\u{1b}[2J";
        let figure = TableRow {
            cells: vec![
                Cell::text(name),
                Cell::Lines(vec![Line { mark: Some(Extreme::Best), text: "7 MB/s".to_owned() }]),
                Cell::Verdict(Verdict::Degraded),
                Cell::Caveats(vec![CaveatLink {
                    code: CaveatCode::Cached,
                    text: "cached (1 of 3)".to_owned(),
                    evidence: name.to_owned(),
                }]),
            ],
            ..TableRow::default()
        };
        let missing = TableRow {
            cells: vec![
                Cell::text("b"),
                Cell::Reason("no route".to_owned(), 1),
                Cell::Verdict(Verdict::Invalid),
                Cell::Caveats(Vec::new()),
            ],
            ..TableRow::default()
        };
        let table = Table {
            id: "t".to_owned(),
            columns: Column::all(&[
                ("target", Role::Factor),
                ("rate", Role::Rate),
                ("verdict", Role::Verdict),
                ("caveats", Role::Caveats),
            ]),
            rows: vec![figure, missing],
            reading: vec!["rate: a median.".to_owned()],
            ..Table::default()
        };
        let blocks = vec![
            Block::Paragraph(format!("paragraph {name}")),
            Block::List(vec![format!("item {name}")]),
            Block::Terms(TermKind::Conditions, vec![Term::new(format!("term {name}"), "text")]),
            Block::Table(table),
        ];
        let section = Section { id: "s", heading: "Heading".to_owned(), blocks, is_answer: false };
        Document {
            tool: "dfsbench test",
            title: name.to_owned(),
            about: vec!["about".to_owned()],
            parts: vec![DocumentPart::Section(section)],
        }
    }

    #[test]
    fn strips_control_characters_in_terminal() {
        let expected = "\
<b>|x_\u{fffd}[2J: about

Heading
  paragraph <b>|x_\u{fffd}[2J
  item <b>|x_\u{fffd}[2J
  term <b>|x_\u{fffd}[2J: text

target        rate
──────────  ──────
<b>|x_\u{fffd}[2J ▲7 MB/s
            ! cached (1 of 3)
b           no route
  rate: a median.
";
        assert_eq!(hostile().render(Form::Text), expected);
    }

    #[test]
    fn escapes_every_block_in_markdown() {
        let name = "\\<b\\>\\|x\\_ \\[2J";
        let expected = format!(
            "# dfsbench: {name}\n\nabout\n\n## Heading\n\nparagraph {name}\n\n- item {name}\n\n\
             - term {name}: text\n\n| target | rate | verdict | caveats |\n\
             | --- | ---: | --- | --- |\n| {name} | ▲7 MB/s | degraded | cached (1 of 3) |\n\
             | b | no route | invalid |  |\n\n- rate: a median.\n"
        );
        assert_eq!(hostile().render(Form::Markdown), expected);
    }

    #[test]
    fn escapes_every_block_on_page() {
        let page = hostile().render(Form::Html);
        assert!(!page.contains("<b>"), "{page}");
        for part in [
            "<h2 id=\"s\">Heading</h2>",
            "<p>paragraph &lt;b&gt;|x_",
            "<li>item &lt;b&gt;|x_",
            "<dt>term &lt;b&gt;|x_",
            "<th class=\"number\" scope=\"col\" data-kind=\"rate\">rate</th>",
            "▲</span> 7 MB/s</td>",
            "<td class=\"reason\" colspan=\"1\">no route</td>",
            "<a href=\"#caveat-cached\"",
            "<li>rate: a median.</li>",
        ] {
            assert!(page.contains(part), "{part} is not in {page}");
        }
    }

    #[test]
    fn stacks_grouped_rows() {
        let mut document = hostile();
        let row = |name: &str, rate: &str, continues| TableRow {
            continues,
            cells: vec![Cell::text(name), Cell::text(rate)],
            ..TableRow::default()
        };
        let table = Table {
            columns: Column::all(&[("run", Role::Words), ("rate", Role::Number)]),
            rows: vec![row("a", "1", false), row("a", "2", true), row("b", "3", false)],
            stacks_groups: true,
            ..Table::default()
        };
        let blocks = vec![Block::Table(table)];
        document.parts = vec![DocumentPart::Section(Section { blocks, ..Section::default() })];
        assert!(document.render(Form::Text).ends_with("a       1\n        2\nb       3\n"));
        assert!(document.render(Form::Markdown).ends_with("| a | 1 |\n|  | 2 |\n| b | 3 |\n"));
    }
}

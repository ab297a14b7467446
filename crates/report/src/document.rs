//! A report as data: a title, and sections of paragraphs, lists, terms, tables and pictures.
//!
//! [`Document`] is the principal type. Texts in it are plain, without markup of any form; a
//! [`Cell`] says what it means (a verdict, codes of caveats), so that each form may colour or link
//! it. `text`, `markdown` and `html` write a document in one walk each, and escape what they
//! write; nothing else in this crate writes these three forms of a table or a list.

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

/// Forms that a document is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Plain text for a terminal.
    Text,
    /// Markdown as GitHub renders it.
    Markdown,
    /// A page for a browser.
    Html,
}

/// A report, whatever form it takes.
#[derive(Debug)]
pub struct Document {
    /// The command that wrote it: `dfsbench report`.
    pub tool: &'static str,
    /// The title of the document.
    pub title: String,
    /// The lines below the title.
    pub about: Vec<String>,
    /// Its parts in order.
    pub parts: Vec<DocumentPart>,
}

/// A part of a document.
#[derive(Debug)]
pub enum DocumentPart {
    /// Blocks below a heading.
    Section(Section),
    /// Content for HTML pages only: pictures of a whole campaign, tables that are folded away.
    Page(Markup),
}

/// Blocks below a heading.
#[derive(Debug, Default)]
pub struct Section {
    /// Its name in links; unique in the document.
    pub id: &'static str,
    /// Its heading. Pages show each; other forms leave out an empty one.
    pub heading: String,
    /// Whether it has the answer to the campaign's question; pages emphasize it.
    pub is_answer: bool,
    /// The blocks of the section, in order.
    pub blocks: Vec<Block>,
}

/// A paragraph, or what takes the place of one.
#[derive(Debug)]
pub enum Block {
    /// Sentences in one paragraph.
    Paragraph(String),
    /// The sentences that sum up all others.
    Lead(Vec<String>),
    /// Items, each a sentence or a line.
    List(Vec<String>),
    /// Names, each with its description.
    Terms(Terms, Vec<Term>),
    /// Rows and columns.
    Table(Table),
    /// Pictures, beside each other; pages alone show them.
    Pictures(Vec<Picture>),
    /// Content for HTML pages only.
    Page(Markup),
}

/// The kind of names in a list of terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terms {
    /// Kinds of pass.
    Passes,
    /// Codes of caveats.
    Caveats,
    /// Conditions of a measurement.
    Conditions,
}

/// A name with its description.
#[derive(Debug)]
pub struct Term {
    /// The name of the term.
    pub name: String,
    /// The code that it explains, where it is one, and how severe it is: tables link to it.
    pub code: Option<(CaveatCode, Severity)>,
    /// The lines of the description; the first stands beside the name.
    pub lines: Vec<String>,
}

impl Term {
    /// A term of one line.
    pub(crate) fn new(name: impl Into<String>, line: impl Into<String>) -> Self {
        Self { name: name.into(), code: None, lines: vec![line.into()] }
    }
}

/// Rows and columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// The name under which a page's script sorts and filters it; empty for tables of a few rows.
    pub id: String,
    /// The caption of the table.
    pub caption: String,
    /// Whether pages alone show the caption: elsewhere the heading above it says as much.
    pub has_page_caption: bool,
    /// The columns of the table.
    pub columns: Vec<Column>,
    /// The rows of the table.
    pub rows: Vec<TableRow>,
    /// Whether terminals stack the rows of a group into one of several lines.
    pub stacks_groups: bool,
    /// How to read it; plain sentences.
    pub reading: Vec<String>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Stands above it, with its unit where that is the same in all rows.
    pub name: String,
    /// The role of its cells.
    pub role: Role,
    /// Terminals break longer cells into lines; 0 leaves them whole.
    pub width_max: usize,
    /// The order in which columns leave a table that is too wide for a terminal: 1 is the first;
    /// 0 stays.
    pub leaves: u8,
}

/// The role of the cells of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Words, aligned to the left.
    Words,
    /// Many words, which pages give room.
    Prose,
    /// Words by which rows may be chosen.
    Factor,
    /// Numbers by which rows may be chosen.
    FactorNumber,
    /// Numbers, aligned to the right.
    Number,
    /// The figure that the row is there for.
    Rate,
    /// Verdicts; terminals show them below the row.
    Verdict,
    /// Codes of caveats; terminals show them below the row.
    Caveats,
}

impl Role {
    /// Whether cells are aligned as numbers are.
    pub(crate) const fn is_number(self) -> bool {
        matches!(self, Self::FactorNumber | Self::Number | Self::Rate)
    }

    /// Whether rows may be chosen by what stands in the column.
    pub(crate) const fn is_factor(self) -> bool {
        matches!(self, Self::Factor | Self::FactorNumber | Self::Verdict)
    }
}

/// A row of a table.
#[derive(Clone, Debug, Default)]
pub struct TableRow {
    /// A line above it, in forms that have no room for all columns.
    pub title: String,
    /// Whether it belongs to the row above it: another figure of the same run.
    pub continues: bool,
    /// A cell for each column, but for those that a [`Cell::Reason`] spans.
    pub cells: Vec<Cell>,
}

/// A cell of a table.
#[derive(Clone, Debug)]
pub enum Cell {
    /// Lines of text, each with the mark of the best or the worst.
    Lines(Vec<Line>),
    /// Why there is no figure, in place of so many cells.
    Reason(String, usize),
    /// Whether a figure may be used.
    Verdict(Verdict),
    /// The caveats against a figure.
    Caveats(Vec<CaveatLink>),
}

/// A line of a cell.
#[derive(Clone, Debug)]
pub struct Line {
    /// Best or worst of its kind, where the intervals show which.
    pub mark: Option<Extreme>,
    /// The text of the link.
    pub text: String,
}

/// The rank of a figure among those of its pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extreme {
    /// The highest, or a figure whose interval overlaps that of the highest.
    Best,
    /// The lowest, or a figure whose interval overlaps that of the lowest.
    Worst,
}

impl Extreme {
    /// The sign that stands beside the figure.
    pub(crate) const fn sign(self) -> &'static str {
        match self {
            Self::Best => "▲",
            Self::Worst => "▼",
        }
    }

    /// The same in words.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Best => "best of its pass, or level with it",
            Self::Worst => "worst of its pass, or level with it",
        }
    }
}

/// A caveat beside a figure.
#[derive(Clone, Debug)]
pub struct CaveatLink {
    /// The code of the caveat.
    pub code: CaveatCode,
    /// The code, and how many trials have it where it is not all of them.
    pub text: String,
    /// The numbers behind it; empty where they stand elsewhere.
    pub evidence: String,
}

impl Cell {
    /// A cell of one line.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Lines(vec![Line { mark: None, text: text.into() }])
    }

    /// A cell of a line and another one below it, where there is something to say.
    pub(crate) fn two_lines(first: String, second: Option<String>) -> Self {
        let mut lines = vec![Line { mark: None, text: first }];
        if let Some(text) = second {
            lines.push(Line { mark: None, text });
        }
        Self::Lines(lines)
    }

    /// How many columns it takes.
    pub(crate) const fn span(&self) -> usize {
        match self {
            Self::Reason(_, span) => *span,
            _ => 1,
        }
    }

    /// The cell on one line, without markup.
    pub(crate) fn one_line(&self) -> String {
        match self {
            Self::Lines(lines) => {
                let mut text = String::new();
                for (number, line) in lines.iter().enumerate() {
                    let signed = line.signed();
                    // What is to be added to the line above begins with a plus.
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
                let mut codes = Vec::new();
                for link in links {
                    codes.push(link.text.as_str());
                }
                codes.join(", ")
            }
        }
    }
}

impl Line {
    /// The text with the sign of its mark before it.
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
    /// A column whose cells are never broken.
    pub fn new(name: impl Into<String>, role: Role) -> Self {
        Self { name: name.into(), role, width_max: 0, leaves: 0 }
    }

    /// The column, which leaves a table that is too wide as the n-th one.
    #[must_use]
    pub const fn leaving(mut self, order: u8) -> Self {
        self.leaves = order;
        self
    }

    /// Columns by their names and roles.
    pub fn all(columns: &[(&str, Role)]) -> Vec<Self> {
        columns.iter().map(|(name, role)| Self::new(*name, *role)).collect()
    }

    /// Names the columns that leave a table that is too wide, the first one in front.
    pub fn leave_in_order(columns: &mut [Self], names: &[&str]) {
        for column in columns {
            if let Some(place) = names.iter().position(|name| *name == column.name) {
                column.leaves = place as u8 + 1;
            }
        }
    }
}

impl TableRow {
    /// Rows by their cells.
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
    /// Adds a section.
    pub fn push(&mut self, section: Section) {
        self.parts.push(DocumentPart::Section(section));
    }

    /// Adds a list below a heading, where it has any item.
    pub fn push_list(&mut self, id: &'static str, heading: &str, items: Vec<String>) {
        if !items.is_empty() {
            let blocks = vec![Block::List(items)];
            self.push(Section { id, heading: heading.to_owned(), blocks, ..Section::default() });
        }
    }

    /// Removes columns until no table is wider than a screen, and says how many were removed.
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

    /// Writes a page with this text at its end.
    pub fn page(&self, footer: &str) -> String {
        html::page(self, footer)
    }

    /// Writes it; the text ends with a newline.
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

    /// A document with one block of each kind that all forms have, and a hostile name in each.
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
            Block::Terms(Terms::Conditions, vec![Term::new(format!("term {name}"), "text")]),
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

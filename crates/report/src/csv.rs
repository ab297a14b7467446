//! The report as CSV: one line per run and pass, the same columns for every campaign.
//!
//! First what tells rows apart, every setting among it, then the figures. A setting is empty where
//! the run does not depend on it, or where it is left to the server or the host. Numbers are plain,
//! with their unit in the column's name; what is not known is empty. Rates are per second over the
//! whole window. For a mix, `rate` is in ops; `bytes_per_s` stands beside it.
//!
//! **Source:** RFC 4180; lines end with a line feed, as every tool of this field reads.

use model::csv::quoted;
use model::setting::Setting;

use crate::columns::{COLUMNS, Column, IDENTITY, REPETITION};
use crate::sheet::{Row, Sheet};

/// Writes the header and one line per row.
pub fn render(sheet: &Sheet<'_>) -> String {
    let campaign = sheet.campaign;
    let mut header = vec!["campaign".to_owned(), "campaign_name".to_owned()];
    header.extend(for_programs(IDENTITY).map(|column| column.name.to_owned()));
    header.extend(Setting::ALL.into_iter().map(Setting::column));
    for columns in [REPETITION, COLUMNS] {
        header.extend(for_programs(columns).map(|column| column.name.to_owned()));
    }
    let mut out = header.join(",") + "\n";
    for row in &sheet.rows {
        let mut cells = vec![campaign.id.to_string(), campaign.name.clone()];
        cells.extend(for_programs(IDENTITY).map(|column| column.value(row).plain()));
        cells.extend(Setting::ALL.into_iter().map(|setting| setting_cell(setting, row)));
        for columns in [REPETITION, COLUMNS] {
            cells.extend(for_programs(columns).map(|column| column.value(row).plain()));
        }
        let quoted: Vec<String> = cells.iter().map(|cell| quoted(cell)).collect();
        out.extend([&quoted.join(","), "\n"]);
    }
    out
}

/// The columns that are not for people alone.
fn for_programs(columns: &'static [Column]) -> impl Iterator<Item = &'static Column> {
    columns.iter().filter(|column| !column.name.is_empty())
}

/// Writes a setting for programs; empty where the run does not depend on it.
fn setting_cell(setting: Setting, row: &Row<'_>) -> String {
    let spec = &row.run.spec;
    if setting.applies(spec) { setting.plain(spec) } else { String::new() }
}

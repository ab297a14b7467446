//! Report as CSV: one line per run and pass, with the same columns for every campaign.
//!
//! The columns that distinguish rows, including every setting, come first, then the results. A
//! setting is empty if the run does not depend on it, or if it is left to the server or host.
//! Numbers are plain, with the unit in the column name; unknown values are empty. Rates are per
//! second over the whole window. For a mix, `rate` is in ops, and `bytes_per_s` has its byte rate.
//!
//! **Source:** RFC 4180; lines end with a line feed, which all common tools accept.

use model::csv::quoted;
use model::setting::Setting;

use crate::table::columns::{COLUMNS, Column, IDENTITY, REPETITION};
use crate::table::joined_campaigns::JoinedCampaigns;
use crate::table::{Row, Sheet};

/// Renders the header and one line per row.
pub(crate) fn render(sheet: &Sheet<'_>) -> String {
    let campaign = sheet.campaign;
    let mut header = vec!["campaign".to_owned(), "campaign_name".to_owned()];
    push_names(&mut header, IDENTITY);
    // Every setting has a column, even if it is the same in all rows, so that programs reading
    // several campaigns find it in the same place.
    header.extend(Setting::ALL.iter().map(|setting| setting.column()));
    push_names(&mut header, REPETITION);
    push_names(&mut header, COLUMNS);
    // Properties, which differ between campaigns, come last. All other columns are the same for
    // every campaign.
    let properties = sheet.joined.map_or(&[][..], JoinedCampaigns::properties);
    header.extend(properties.iter().map(|property| quoted(&property.name)));
    let mut out = header.join(",") + "\n";
    for row in &sheet.rows {
        let run = row.run.index as usize;
        let mut id = campaign.id;
        let mut name = &campaign.name;
        if let Some(member) = sheet.joined.and_then(|joined| joined.member_of(run)) {
            id = member.id;
            name = &member.name;
        }
        let mut cells = vec![id.to_string(), quoted(name)];
        push_values(&mut cells, IDENTITY, row);
        cells.extend(Setting::ALL.into_iter().map(|setting| quoted(&setting_cell(setting, row))));
        push_values(&mut cells, REPETITION, row);
        push_values(&mut cells, COLUMNS, row);
        for property in properties {
            let value = property.values.get(run).and_then(Option::as_deref);
            cells.push(quoted(value.unwrap_or_default()));
        }
        out.extend([&cells.join(","), "\n"]);
    }
    out
}

/// Adds the column names, except for columns that only tables for people have.
fn push_names(header: &mut Vec<String>, columns: &[Column]) {
    for column in columns {
        if !column.name.is_empty() {
            header.push(column.name.to_owned());
        }
    }
}

/// Adds the values of the same columns.
fn push_values(cells: &mut Vec<String>, columns: &[Column], row: &Row<'_>) {
    for column in columns {
        if !column.name.is_empty() {
            cells.push(quoted(&column.value(row).plain()));
        }
    }
}

/// Value of a setting; empty if the run does not depend on it.
fn setting_cell(setting: Setting, row: &Row<'_>) -> String {
    let spec = &row.run.spec;
    if setting.applies(spec) { setting.plain(spec) } else { String::new() }
}

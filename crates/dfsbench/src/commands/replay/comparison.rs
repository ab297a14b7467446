//! Compares two replays side by side.

use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use model::units::Nanos;
use replay::{Outcome, PartSums, StoredReplay};
use report::Format;
use report::document::{Block, Column, Document, Role, Section, Table, TableRow};
use stats::{PartSum, ratio_of_sums};

use super::document::{
    IDS, LEAVING, identify, pace_of, pace_text, ratio, ratio_text, time, verdict_text,
};
use super::{pictures, render_text};
use crate::args::{CompareArgs, DescribeFormat};
use crate::exit::{End, Failure};
use crate::files::{input_file, output_file};
use crate::terminal::output::Printable;

/// Compares two stored replays, by kind of operation and over time.
///
/// # Errors
/// If one can't be read, they have no speed in common, or the format is not available for replays.
pub(crate) fn compare(before: &str, after: &str, args: &CompareArgs) -> Result<ExitCode, Failure> {
    refuse_rules(args)?;
    let inputs = [before, after].map(PathBuf::from);
    output_file::check_with_inputs(args.output.as_deref(), &inputs)?;
    let before = read_document(before)?;
    let after = read_document(after)?;
    let format = match args.format {
        Format::Table => DescribeFormat::Text,
        Format::Markdown => DescribeFormat::Markdown,
        Format::Html => DescribeFormat::Html,
        other => {
            return Err(Failure::Usage(format!(
                "--format: a comparison of replays can't be written as {} (hint: use table, \
                 markdown or html)",
                other.name()
            )));
        }
    };
    let Some(document) = compare_replays(&before, &after) else {
        return Err(Failure::Usage(format!(
            "the replays on {} and {} have no speed in common (hint: replay both with the same \
             --speed)",
            before.target, after.target
        )));
    };
    if !args.quiet {
        let text = render_text(document, format);
        output_file::write_or_print(args.output.as_deref(), &Printable::text(&text))?;
    }
    Ok(End::Ok.into())
}

/// Returns true if an argument of `dfsbench compare` names a stored replay.
pub(crate) fn is_document(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|end| end.eq_ignore_ascii_case("json"))
}

/// Reads a stored replay.
///
/// # Errors
/// If it is not a replay, or was written by a newer release.
fn read_document(name: &str) -> Result<StoredReplay, Failure> {
    let source = input_file::open_stream(Path::new(name), "replay")?;
    let stored: StoredReplay =
        serde_json::from_reader(BufReader::new(source)).map_err(|error| {
            Failure::Usage(format!(
                "`{name}` is not a replay: {error} (hint: `dfsbench replay ... --format json -o \
                 FILE.json` writes one)"
            ))
        })?;
    if stored.dfsbench_replay > StoredReplay::FORMAT {
        return Err(Failure::Usage(format!(
            "`{name}` has format {}; this release reads up to {} (hint: use a newer dfsbench)",
            stored.dfsbench_replay,
            StoredReplay::FORMAT
        )));
    }
    Ok(stored)
}

/// Refuses options that only apply to campaigns: a bound that is ignored would seem to be met.
fn refuse_rules(args: &CompareArgs) -> Result<(), Failure> {
    for (flag, is_given) in [
        ("--where", !args.only.is_empty()),
        ("--effect", args.effect.is_some()),
        ("--max-loss", args.max_loss.is_some()),
        ("--max-slowdown", !args.max_slowdown.is_empty()),
    ] {
        if is_given {
            return Err(Failure::Usage(format!(
                "{flag} does not apply to replays (hint: omit it; it is for campaigns)"
            )));
        }
    }
    Ok(())
}

/// Builds the document that compares two replays at each speed they have in common; `None` if there
/// is none.
pub(super) fn compare_replays(before: &StoredReplay, after: &StoredReplay) -> Option<Document> {
    let mut document = Document {
        tool: "dfsbench compare",
        title: format!("Two replays: {} and {}", before.target, after.target),
        about: vec![
            format!("A: {}, {}", identify(before), before.made_by),
            format!("B: {}, {}", identify(after), after.made_by),
        ],
        parts: Vec::new(),
    };
    let mut ids = IDS.into_iter();
    for first in &before.outcomes {
        let pace = pace_of(first);
        let Some(second) = after.outcomes.iter().find(|other| pace_of(other) == pace) else {
            continue;
        };
        let Some(id) = ids.next() else { break };
        let mut blocks = vec![
            Block::Paragraph(format!("A: {}.", verdict_text(first))),
            Block::Paragraph(format!("B: {}.", verdict_text(second))),
            Block::Pictures(pictures::draw_pair(first, second, id)),
            Block::Table(pair_table(first, second)),
        ];
        if let Some(table) = over_time_table(first, second) {
            blocks.push(Block::Table(table));
        }
        let heading = pace_text(pace);
        document.push(Section { id, heading, blocks, ..Section::default() });
    }
    if document.parts.is_empty() { None } else { Some(document) }
}

fn pair_table(first: &Outcome, second: &Outcome) -> Table {
    let mut columns = Column::all(&[
        ("operation", Role::Words),
        ("count A", Role::Number),
        ("count B", Role::Number),
        ("p50 A", Role::Number),
        ("p50 B", Role::Number),
        ("p99 A", Role::Number),
        ("p99 B", Role::Number),
        ("B/A p99", Role::Number),
        ("errors A", Role::Number),
        ("errors B", Role::Number),
        ("B/A of means, 95 %", Role::Rate),
    ]);
    Column::leave_in_order(&mut columns, &LEAVING);
    let mut rows = Vec::new();
    for kind in &first.kinds {
        let same = second.kinds.iter().find(|other| other.kind == kind.kind);
        let Some(other) = same else { continue };
        let one = &kind.response;
        let two = &other.response;
        rows.push(vec![
            kind.kind.clone(),
            kind.ops.to_string(),
            other.ops.to_string(),
            time(one, one.p50),
            time(two, two.p50),
            time(one, one.p99),
            time(two, two.p99),
            ratio(two.p99, one.p99),
            kind.unexpected_errors.to_string(),
            other.unexpected_errors.to_string(),
            ratio_text(ratio_of_sums(&beside_each_other(&kind.parts, &other.parts))),
        ]);
    }
    Table {
        caption: "Response times by kind".to_owned(),
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: vec![
            "A ratio above 1 means that B is slower; if its interval contains 1, the difference \
             may be chance."
                .to_owned(),
        ],
        ..Table::default()
    }
}

/// Compares tenths of the duration; `None` if a replay has no timeline.
fn over_time_table(first: &Outcome, second: &Outcome) -> Option<Table> {
    let duration_ns = first.planned_ns.max(second.planned_ns);
    if first.speed.is_none() || duration_ns == 0 {
        return None;
    }
    let tenth_ns = duration_ns / 10 + 1;
    let mut rows = Vec::new();
    for tenth in 0..10 {
        let from_ns = tenth * tenth_ns;
        let to_ns = (tenth + 1) * tenth_ns;
        let one = pictures::mean_response_ns(first, from_ns, to_ns);
        let two = pictures::mean_response_ns(second, from_ns, to_ns);
        let (Some(one), Some(two)) = (one, two) else { continue };
        rows.push(vec![
            Nanos(from_ns).to_string(),
            Nanos(one).to_string(),
            Nanos(two).to_string(),
            ratio(two, one),
        ]);
    }
    Some(Table {
        caption: "Mean response times over time".to_owned(),
        columns: Column::all(&[
            ("from", Role::Number),
            ("mean A", Role::Number),
            ("mean B", Role::Number),
            ("B/A", Role::Rate),
        ]),
        rows: TableRow::all(rows.into_iter()),
        ..Table::default()
    })
}

/// Pairs the mean response times of two replays, part by part.
fn beside_each_other(before: &[PartSums], after: &[PartSums]) -> Vec<PartSum> {
    let mut pairs = Vec::new();
    for (one, two) in std::iter::zip(before, after) {
        if one.ops > 0 && two.ops > 0 {
            // Scale both to the number of operations of the first one.
            let scale = one.ops as f64 / two.ops as f64;
            pairs.push(PartSum {
                here: two.response_ns as f64 * scale,
                there: one.response_ns as f64,
            });
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use report::document::Form;

    use super::super::document::tests::stored;
    use super::*;

    #[test]
    fn compares_replays_by_kind_and_time() {
        let document = compare_replays(&stored(3_000_000), &stored(6_000_000)).unwrap();
        let text = document.render(Form::Markdown);
        assert!(text.contains("2.00 (2.00 to 2.00)"), "{text}");
        assert!(text.contains("Mean response times over time"), "{text}");
        assert!(text.contains("| 900 ms | 3.00 ms | 6.00 ms | 2.00 |"), "{text}");
        let page = document.page("");
        assert!(page.contains("done, A") && page.contains("done, B"), "no time lines");
        let mut other = stored(3_000_000);
        other.outcomes.clear();
        assert!(compare_replays(&stored(3_000_000), &other).is_none());
    }
}

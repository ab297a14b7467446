//! Answers a layer-by-layer bottleneck analysis: the limiting layer, the next one, and the
//! confidence.
//!
//! Rows of the campaign are mapped to layers by target name; `stats::ladder` does the analysis.
//! Layer names and sentences are in `sentences`, the waterfall chart in `picture`.

mod picture;
mod sentences;

use model::question::ladder::{Ladder, Layer};
use model::units::three_digits;
use model::{Pass, ProcessorWait, Verdict};
use serde_json::{Value, json};
use stats::ladder::{LayerAnalysis, MeasuredLayer, analyze_layers};

use super::{QuestionAnswer, trial_result};
use crate::document::{Cell, Column, Role, Table, TableRow};
use crate::humanize;
use crate::table::{Row, Sheet};
use sentences::LayerNames;

/// Layers of one pass that have results.
struct PassLayers<'s, 'a> {
    pass: Pass,
    name: String,
    rows: Vec<(Layer, &'s Row<'a>)>,
    measured: Vec<MeasuredLayer>,
    analysis: Option<LayerAnalysis>,
}

/// Answers a ladder campaign.
pub(super) fn answer(sheet: &Sheet<'_>, request: &Ladder) -> QuestionAnswer {
    let words = LayerNames::new(sheet, request);
    let passes = analyze_passes(sheet, request);
    let mut found = QuestionAnswer { title: "Bottleneck", ..QuestionAnswer::default() };
    let mut json_passes = Vec::new();
    for ladder in &passes {
        found.sentences.push(words.answer(ladder));
        found.sentences.extend(sentences::describe_cluster(ladder));
        found.tables.push(layer_table(&words, ladder));
        found.pictures.extend(picture::waterfall(&words, ladder));
        json_passes.push(pass_json(&words, ladder));
    }
    found.sentences.extend(words.caveats(sheet, &passes));
    found.sentences.extend(words.open());
    found.json = json!({
        "layers": request.layers,
        "missing": request.missing,
        "passes": json_passes,
    });
    found
}

/// Analyzes the passes of the data path in question, those with bytes first.
fn analyze_passes<'s, 'a>(sheet: &'s Sheet<'a>, request: &Ladder) -> Vec<PassLayers<'s, 'a>> {
    let mut passes: Vec<PassLayers<'s, 'a>> = Vec::new();
    for (name, pass, group) in sheet.groups() {
        // Sort the layers in ladder order, whatever the order of their runs.
        let mut rows: Vec<(Layer, &'s Row<'a>)> = Vec::new();
        let mut measured: Vec<MeasuredLayer> = Vec::new();
        for placed in &request.layers {
            for row in &group {
                if row.run.spec.target_name == placed.target {
                    rows.push((placed.layer, row));
                    measured.extend(measure_row(placed.layer, row));
                }
            }
        }
        // If the last layer does not have the pass, there is no complete data path to explain.
        let (Some((top, _)), Some(wanted)) = (rows.last(), request.layers.last()) else { continue };
        if *top != wanted.layer {
            continue;
        }
        // Without a result for the last layer, there is nothing that the others could be parts of.
        let analysis = match measured.last() {
            Some(last) if last.layer == *top => analyze_layers(&measured),
            _ => None,
        };
        let name = if pass == Pass::OpMix { "empty call".to_owned() } else { name };
        passes.push(PassLayers { pass, name, rows, measured, analysis });
    }
    passes
}

/// Converts the trials of a row for the analysis; `None` if none is usable.
fn measure_row(layer: Layer, row: &Row<'_>) -> Option<MeasuredLayer> {
    let judged = &row.judged;
    if judged.verdict == Verdict::Invalid {
        return None;
    }
    // For empty calls, each worker makes one after the other.
    let at_once = if judged.pass.is_byte_rate() { 1.0 } else { f64::from(row.run.spec.workers) };
    let load = &row.run.spec.load;
    let is_paced = load.rate_per_s > 0 || load.think_time_ns > 0 || load.bytes_per_s > 0;
    let waits = match layer {
        Layer::Null | Layer::Memory if !is_paced => Waits::ForProcessor,
        _ => Waits::ForOthersToo,
    };
    let mut measured = MeasuredLayer { layer, times_ns: vec![], waits: vec![], held: vec![] };
    for point in &judged.points {
        if !point.used || point.per_s <= 0.0 {
            continue;
        }
        // Kernels without this counter report no waiting.
        let mut waiting = 0.0;
        let mut held = 0.0;
        if let Some(result) = trial_result(row, point.trial_index)
            && let Some(wait) = result.scope.processor_wait
        {
            waiting = waiting_share(waits, wait, result.client_cpu_ns);
            held = wait.throttled_share();
        }
        measured.times_ns.push(1e9 * at_once / point.per_s);
        measured.waits.push(waiting);
        measured.held.push(held);
    }
    if measured.times_ns.is_empty() { None } else { Some(measured) }
}

/// What idle work waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// Only a CPU, because it only computes.
    ForProcessor,
    /// Also a server, disk or scheduled time.
    ForOthersToo,
}

/// Share of its time that a pass was runnable but waiting for a CPU.
///
/// Pure computation waits for nothing else, so all of its time except CPU time is waiting. For
/// passes not longer than a few quota periods, the kernel reports too little, because it counts a
/// pause only when it is over.
fn waiting_share(waits: Waits, mut wait: ProcessorWait, cpu_ns: u64) -> f64 {
    if waits == Waits::ForProcessor {
        wait.waited_ns = wait.waited_ns.max(wait.of_ns.saturating_sub(cpu_ns));
    }
    wait.share()
}

fn share_of(ladder: &PassLayers<'_, '_>, wanted: Layer) -> Option<f64> {
    for (layer, share) in &ladder.analysis.as_ref()?.shares {
        if *layer == wanted {
            return *share;
        }
    }
    None
}

fn layer_table(words: &LayerNames<'_>, ladder: &PassLayers<'_, '_>) -> Table {
    let columns = [
        ("layer", Role::Words),
        ("rate", Role::Rate),
        ("±95 %", Role::Number),
        ("ops", Role::Number),
        ("p50", Role::Number),
        ("CPU", Role::Number),
        ("adds", Role::Number),
    ];
    let mut rows = Vec::new();
    for (layer, row) in &ladder.rows {
        let mut cells = layer_cells(words.layer(*layer), row, share_of(ladder, *layer));
        cells.resize(columns.len(), Cell::text(""));
        rows.push(cells);
    }
    let unit = if ladder.pass.is_byte_rate() { "byte" } else { "call" };
    let waited = match &ladder.analysis {
        Some(analysis) => format!(
            "The workers of the last layer were runnable but not running {} of the time. ",
            humanize::percent(analysis.waited)
        ),
        None => String::new(),
    };
    let mut columns = Column::all(&columns);
    Column::leave_in_order(&mut columns, &["ops", "p50", "CPU", "±95 %"]);
    Table {
        caption: ladder.name.clone(),
        columns,
        rows: TableRow::all(rows.into_iter()),
        reading: vec![format!(
            "adds: how much of the last layer's time per {unit} this layer accounts for on top of \
             its slowest part (0 %: overlapped by a slower layer; –: not on the data path). \
             {waited}CPU: of the client, and + of a server in this process."
        )],
        ..Table::default()
    }
}

/// Cells of one layer. If it has no result, only its name and the short reason.
fn layer_cells(name: String, row: &Row<'_>, share: Option<f64>) -> Vec<Cell> {
    const NONE: &str = "–";
    let judged = &row.judged;
    let Some(rate) = &judged.rate else {
        // The sentences above the table have the full reason.
        let missing = row.missing();
        return vec![Cell::text(name), Cell::text(missing.split(':').next().unwrap_or_default())];
    };
    let ops = match &judged.ops_per_s {
        Some(ops) => stats::Rate::Ops(ops.median).to_string(),
        None => NONE.to_owned(),
    };
    let mut server = None;
    if let Some(cpu) = judged.cpu
        && let Some(cpu) = cpu.server
    {
        server = Some(format!("+{}", three_digits(cpu)));
    }
    let [p50, ..] = humanize::times(&judged.service_time);
    vec![
        Cell::text(name),
        Cell::text(judged.shown(rate.median).to_string()),
        Cell::text(humanize::spread(rate)),
        Cell::text(ops),
        Cell::text(p50),
        Cell::two_lines(humanize::cpu(judged), server),
        Cell::text(share.map_or_else(|| NONE.to_owned(), humanize::percent)),
    ]
}

/// Returns everything about one pass as JSON.
fn pass_json(words: &LayerNames<'_>, ladder: &PassLayers<'_, '_>) -> Value {
    let mut layers = Vec::new();
    for (layer, row) in &ladder.rows {
        // A layer without a usable result has no times: null rather than an empty list.
        let mut times_ns = None;
        let mut waits = None;
        for measured in &ladder.measured {
            if measured.layer == *layer {
                times_ns = Some(&measured.times_ns);
                waits = Some(&measured.waits);
            }
        }
        let mut per_s = None;
        let mut interval_per_s = None;
        if let Some(rate) = &row.judged.rate {
            per_s = Some(rate.median);
            interval_per_s = Some(rate.interval);
        }
        layers.push(json!({
            "layer": layer,
            "target": row.run.spec.target_name,
            "per_s": per_s,
            "interval_per_s": interval_per_s,
            "ops_per_s": row.judged.ops_per_s.map(|ops| ops.median),
            "service_time_p50_ns": row.judged.service_time.quantile(0.5),
            "times_ns": times_ns,
            "processor_wait_shares": waits,
            "share": share_of(ladder, *layer),
        }));
    }
    let cluster = sentences::cluster_ratio(ladder).map(|ratio| {
        json!({ "data_servers": ratio.servers, "ratio": ratio.times, "interval": ratio.interval })
    });
    // Keep all keys, even if a pass cannot be analyzed.
    let Some(analysis) = &ladder.analysis else {
        return json!({
            "pass": ladder.pass, "layers": layers, "limit": null, "limit_is": null,
            "is_sure": false, "confidence": null, "gain": null, "gain_interval": null,
            "next": null, "processor_wait_share": null, "is_held_back": false, "votes": null,
            "one_data_server": cluster,
        });
    };
    let mut votes = Vec::new();
    for (limit, share) in &analysis.votes {
        votes.push(json!({ "limit": sentences::code(*limit), "share": share }));
    }
    json!({
        "pass": ladder.pass,
        "layers": layers,
        "limit": sentences::code(analysis.limit),
        "limit_is": words.limit(analysis.limit),
        "is_sure": analysis.is_sure(),
        "confidence": analysis.confidence,
        "gain": analysis.gain,
        "gain_interval": analysis.gain_interval,
        "next": analysis.next.map(sentences::code),
        "processor_wait_share": analysis.waited,
        "is_held_back": analysis.is_held,
        "votes": votes,
        "one_data_server": cluster,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shows_processor_wait_of_compute_layer() {
        let wait = ProcessorWait { waited_ns: 10, held_ns: 0, of_ns: 100 };
        let share = |waits, cpu_ns| (waiting_share(waits, wait, cpu_ns) * 100.0).round();
        let alone = Waits::ForProcessor;
        let others = Waits::ForOthersToo;
        assert_eq!((share(others, 20), share(alone, 20)), (10.0, 80.0));
        // Other threads of the program were running, too.
        assert_eq!((share(alone, 95), share(alone, 300)), (10.0, 10.0));
    }
}

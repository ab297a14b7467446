//! Answers a layer-by-layer bottleneck analysis: the limiting layer, the next one, the confidence.
//!
//! Rows of the campaign become layers by the names of their targets; `stats::ladder` does the rest.
//! Names of layers and sentences are in `words`, the waterfall is in `picture`.

mod picture;
mod words;

use model::question::ladder::{Ladder, Layer};
use model::units::three_digits;
use model::{Pass, PassResult, ProcessorWait, Verdict};
use serde_json::{Value, json};
use stats::ladder::{LayerAnalysis, Limit, Measured, analyze_layers};

use super::Found;
use crate::document::{Cell, Column, Role, Table, TableRow};
use crate::sheet::{Row, Sheet};
use crate::show;
use words::Words;

/// The layers of one pass that have figures.
struct PassLayers<'s, 'a> {
    pass: Pass,
    /// The name of the pass.
    name: String,
    rows: Vec<(Layer, &'s Row<'a>)>,
    measured: Vec<Measured>,
    analysis: Option<LayerAnalysis>,
}

/// The answer of a ladder.
pub fn found(sheet: &Sheet<'_>, asked: &Ladder) -> Found {
    let words = Words::of(sheet, asked);
    let passes = analyze_passes(sheet, asked);
    let mut sentences: Vec<String> = passes.iter().flat_map(|c| words.answer(c)).collect();
    sentences.extend(words.caveats(sheet, &passes));
    sentences.extend(words.open());
    Found {
        title: "What limits it",
        sentences,
        tables: passes.iter().map(|ladder| layer_table(&words, ladder)).collect(),
        pictures: passes.iter().filter_map(|ladder| picture::waterfall(&words, ladder)).collect(),
        json: json!({
            "layers": asked.layers,
            "missing": asked.missing,
            "passes": passes.iter().map(|ladder| pass_json(&words, ladder)).collect::<Vec<_>>(),
        }),
    }
}

/// The passes that the way in question has, those with bytes first, each with its layers.
fn analyze_passes<'s, 'a>(sheet: &'s Sheet<'a>, asked: &Ladder) -> Vec<PassLayers<'s, 'a>> {
    let mut passes: Vec<PassLayers<'s, 'a>> = Vec::new();
    for (name, pass, rows) in sheet.groups() {
        let layer_of = |row: &&'s Row<'a>| {
            let of_target = |placed: &&model::question::ladder::Placed| {
                placed.target == row.run.spec.target_name
            };
            asked.layers.iter().position(|placed| of_target(&placed))
        };
        let mut placed: Vec<(usize, &'s Row<'a>)> =
            rows.into_iter().filter_map(|row| Some((layer_of(&row)?, row))).collect();
        placed.sort_by_key(|(place, _)| *place);
        let is_whole = placed.last().is_some_and(|(place, _)| place + 1 == asked.layers.len());
        if !is_whole {
            continue;
        }
        let rows: Vec<_> =
            placed.into_iter().map(|(place, row)| (asked.layers[place].layer, row)).collect();
        let measured: Vec<Measured> =
            rows.iter().filter_map(|(layer, row)| measure_row(*layer, row)).collect();
        let has_top = rows.last().is_some_and(|(layer, _)| {
            measured.last().is_some_and(|measured| measured.layer == *layer)
        });
        let analysis = analyze_layers(&measured).filter(|_| has_top);
        let name = if pass == Pass::OpMix { "empty call".to_owned() } else { name };
        passes.push(PassLayers { pass, name, rows, measured, analysis });
    }
    passes
}

/// The trials of a row as the ladder wants them; `None` where none counts.
fn measure_row(layer: Layer, row: &Row<'_>) -> Option<Measured> {
    let judged = &row.judged;
    if judged.verdict == Verdict::Invalid {
        return None;
    }
    // Of an empty call, each worker makes one after the other.
    let at_once = if judged.pass.is_byte_rate() { 1.0 } else { f64::from(row.run.spec.workers) };
    let load = &row.run.spec.load;
    let is_paced = load.rate_per_s > 0 || load.think_time_ns > 0 || load.bytes_per_s > 0;
    let waits = match layer {
        Layer::Null | Layer::Memory if !is_paced => Waits::ForProcessor,
        _ => Waits::ForOthersToo,
    };
    let mut found = Measured { layer, times_ns: Vec::new(), waits: Vec::new(), held: Vec::new() };
    for point in judged.points.iter().filter(|point| point.used && point.per_s > 0.0) {
        let trial = row.run.trials.iter().find(|trial| trial.index == point.trial_index);
        let result = trial.and_then(|t| t.passes.iter().find(|p| p.pass == judged.pass));
        found.times_ns.push(1e9 * at_once / point.per_s);
        found.waits.push(result.map_or(0.0, |result| waiting_share_of_pass(waits, result)));
        let told = result.and_then(|result| result.scope.processor_wait);
        found.held.push(told.map_or(0.0, ProcessorWait::held_share));
    }
    (!found.times_ns.is_empty()).then_some(found)
}

/// The resource that idle work waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// For a processor: it only computes.
    ForProcessor,
    /// For a server, a disk or an instant, too.
    ForOthersToo,
}

fn waiting_share_of_pass(waits: Waits, result: &PassResult) -> f64 {
    let told = result.scope.processor_wait;
    told.map_or(0.0, |told| waiting_share(waits, told, result.client_cpu_ns))
}

/// The share of its time in which a pass was ready and waited for a processor.
///
/// Work that only computes waits for nothing else: for all but its processor time. Of a pass no
/// longer than a few periods of a quota the kernel tells too little, since it counts a pause when
/// that is over.
fn waiting_share(waits: Waits, mut told: ProcessorWait, cpu_ns: u64) -> f64 {
    if waits == Waits::ForProcessor {
        told.waited_ns = told.waited_ns.max(told.of_ns.saturating_sub(cpu_ns));
    }
    told.share()
}

fn share_of(ladder: &PassLayers<'_, '_>, wanted: Layer) -> Option<f64> {
    let shares = &ladder.analysis.as_ref()?.shares;
    shares.iter().find(|(layer, _)| *layer == wanted).and_then(|(_, share)| *share)
}

fn layer_table(words: &Words<'_>, ladder: &PassLayers<'_, '_>) -> Table {
    let columns = [
        ("layer", Role::Words),
        ("rate", Role::Number),
        ("±95 %", Role::Number),
        ("ops", Role::Number),
        ("p50", Role::Number),
        ("CPU", Role::Number),
        ("adds", Role::Number),
    ];
    let row = |(layer, row): &(Layer, &Row<'_>)| {
        let judged = &row.judged;
        let name = words.layer(*layer);
        let Some(rate) = &judged.rate else {
            // Why is told in the sentences above the table.
            let missing = row.missing();
            let short = missing.split(':').next().unwrap_or_default().to_owned();
            let mut cells = vec![Cell::text(name), Cell::text(short)];
            cells.resize(columns.len(), Cell::text(""));
            return cells;
        };
        let ops = judged.ops_per_s.map(|ops| stats::Rate::Ops(ops.median).to_string());
        let [p50, ..] = show::times(&judged.service_time);
        let share = share_of(ladder, *layer).map(show::percent);
        let server = judged.cpu.and_then(|cpu| cpu.server);
        let server = server.map(|server| format!("+{}", three_digits(server)));
        let or_none = |text: Option<String>| Cell::text(text.unwrap_or_else(|| "–".to_owned()));
        vec![
            Cell::text(name),
            Cell::text(judged.shown(rate.median).to_string()),
            Cell::text(show::spread(rate)),
            or_none(ops),
            Cell::text(p50),
            Cell::of_two(show::cpu(judged), server),
            or_none(share),
        ]
    };
    let unit = if ladder.pass.is_byte_rate() { "byte" } else { "call" };
    Table {
        caption: ladder.name.clone(),
        columns: Column::all(&columns),
        rows: TableRow::all(ladder.rows.iter().map(row)),
        reading: vec![format!(
            "adds: of the working time per {unit} of the last layer, what a layer takes beyond its \
             slowest part; 0 % is hidden behind something slower, – is no part of the way. {}CPU: \
             of the client, and + of a server in this process.",
            ladder.analysis.as_ref().map_or_else(String::new, |analysis| format!(
                "The workers of the last layer were ready and waited for a processor for {} of \
                 their time. ",
                show::percent(analysis.waited)
            ))
        )],
        ..Table::default()
    }
}

/// All of one pass for programs.
fn pass_json(words: &Words<'_>, ladder: &PassLayers<'_, '_>) -> Value {
    let layer = |(layer, row): &(Layer, &Row<'_>)| {
        let figures = ladder.measured.iter().find(|measured| measured.layer == *layer);
        json!({
            "layer": layer,
            "target": row.run.spec.target_name,
            "per_s": row.judged.rate.map(|rate| rate.median),
            "interval_per_s": row.judged.rate.map(|rate| rate.interval),
            "ops_per_s": row.judged.ops_per_s.map(|ops| ops.median),
            "service_time_p50_ns": row.judged.service_time.quantile(0.5),
            "times_ns": figures.map(|figures| &figures.times_ns),
            "processor_wait_shares": figures.map(|figures| &figures.waits),
            "share": share_of(ladder, *layer),
        })
    };
    let analysis = ladder.analysis.as_ref();
    json!({
        "pass": ladder.pass,
        "layers": ladder.rows.iter().map(layer).collect::<Vec<_>>(),
        "limit": analysis.map(|analysis| words::code(analysis.limit)),
        "limit_is": analysis.map(|analysis| words.limit(analysis.limit)),
        "is_sure": analysis.is_some_and(LayerAnalysis::is_sure),
        "confidence": analysis.map(|analysis| analysis.confidence),
        "gain": analysis.map(|analysis| analysis.gain),
        "gain_interval": analysis.map(|analysis| analysis.gain_interval),
        "next": analysis.and_then(|analysis| analysis.next).map(words::code),
        "processor_wait_share": analysis.map(|analysis| analysis.waited),
        "is_held_back": analysis.is_some_and(|analysis| analysis.is_held),
        "votes": analysis.map(|analysis| {
            let vote = |(limit, share): &(Limit, f64)| json!({
                "limit": words::code(*limit), "share": share
            });
            analysis.votes.iter().map(vote).collect::<Vec<_>>()
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_computes_waits_for_a_processor_whenever_it_has_none() {
        let told = ProcessorWait { waited_ns: 10, held_ns: 0, of_ns: 100 };
        let share = |waits, cpu_ns| (waiting_share(waits, told, cpu_ns) * 100.0).round();
        let (alone, others) = (Waits::ForProcessor, Waits::ForOthersToo);
        assert_eq!((share(others, 20), share(alone, 20)), (10.0, 80.0));
        // Other threads of the program have worked, too.
        assert_eq!((share(alone, 95), share(alone, 300)), (10.0, 10.0));
    }
}

//! The report as CSV: one line per run and pass, the same columns for every campaign.
//!
//! First what tells rows apart, every setting among it, then the figures. A setting is empty where
//! the run does not depend on it, or where it is left to the server or the host. Numbers are plain,
//! with their unit in the column's name; what is not known is empty. Rates are per second over the
//! whole window. For a mix, `rate` is in ops; `bytes_per_s` stands beside it.
//!
//! **Source:** RFC 4180; lines end with a line feed, as every tool of this field reads.

use model::Histogram;
use model::csv::quoted;
use model::setting::Setting;
use stats::Summary;

use crate::sheet::{Row, Sheet};

/// One column: its name, and how a row fills it.
type Column = (&'static str, fn(&Row<'_>) -> String);

/// What was measured.
const IDENTITY: &[Column] = &[
    ("run", |r| r.run.index.to_string()),
    ("target", |r| r.run.spec.target_name.clone()),
    ("target_place", |r| r.run.spec.target.to_string()),
    ("backend", |r| r.run.spec.backend.name().to_owned()),
    ("workload", |r| r.run.spec.workload.name().to_owned()),
    ("pass", |r| r.judged.pass.name().to_owned()),
];

/// How the run was repeated, and what it executed: settings that stand in no table of the matrix.
const REPETITION: &[Column] = &[
    ("discard", |r| r.run.spec.repetition.discard.to_string()),
    ("until", |r| r.run.spec.repetition.until()),
    ("warmup_trials", |r| r.run.spec.repetition.warmup_trials.to_string()),
    ("command", |r| r.run.spec.command.run.join(" ")),
];

/// What came of it.
const FIGURES: &[Column] = &[
    ("verdict", |r| r.judged.verdict.name().to_owned()),
    ("reason", |r| r.judged.reason().unwrap_or("").to_owned()),
    ("trials_made", |r| r.judged.trials_made.to_string()),
    ("trials_used", |r| r.judged.trials_used.to_string()),
    ("rate_unit", |r| {
        if r.judged.pass.is_byte_rate() { "bytes_per_s" } else { "ops_per_s" }.into()
    }),
    ("rate_bytes_per_s", |r| median(r.judged.bytes_per_s.as_ref())),
    ("rate_ops_per_s", |r| median(r.judged.ops_per_s.as_ref())),
    ("rate_mean", |r| of(r, |rate| rate.mean)),
    ("rate_trimmed_mean", |r| known(r.judged.rate.and_then(|s| s.trimmed_mean).map(fixed))),
    ("rate_standard_deviation", |r| of(r, |rate| rate.standard_deviation)),
    ("rate_min", |r| of(r, |rate| rate.min)),
    ("rate_max", |r| of(r, |rate| rate.max)),
    ("rate_interval_lo", |r| interval_end(r, |ends| ends.0)),
    ("rate_interval_hi", |r| interval_end(r, |ends| ends.1)),
    ("rate_first_done", |r| median(r.judged.first_done.as_ref())),
    ("common_window_share", |r| known(r.judged.common_window_share.map(|s| format!("{s:.4}")))),
    ("service_time_p50_ns", |r| quantile(&r.judged.service_time, 0.5)),
    ("service_time_p90_ns", |r| quantile(&r.judged.service_time, 0.9)),
    ("service_time_p99_ns", |r| quantile(&r.judged.service_time, 0.99)),
    ("service_time_p999_ns", |r| quantile(&r.judged.service_time, 0.999)),
    ("service_time_max_ns", |r| max(&r.judged.service_time)),
    ("response_time_p50_ns", |r| quantile(&r.judged.response_time, 0.5)),
    ("response_time_p90_ns", |r| quantile(&r.judged.response_time, 0.9)),
    ("response_time_p99_ns", |r| quantile(&r.judged.response_time, 0.99)),
    ("response_time_p999_ns", |r| quantile(&r.judged.response_time, 0.999)),
    ("response_time_max_ns", |r| max(&r.judged.response_time)),
    ("cpu_unit", |r| known(r.judged.cpu.map(|cpu| cpu.unit.name()))),
    ("cpu_client", |r| known(r.judged.cpu.map(|cpu| format!("{:.4}", cpu.client)))),
    ("cpu_client_percent", |r| known(r.judged.cpu_percent.map(|p| format!("{p:.2}")))),
    ("rate_offered_ops_per_s", |r| {
        let rate = r.run.spec.load.rate_per_s;
        known((rate > 0).then_some(rate))
    }),
    ("rate_due_ops_per_s", |r| known(r.judged.offered_per_s.map(fixed))),
    ("working_set_files", |r| known(r.judged.working_set.map(|set| set.files))),
    ("working_set_bytes", |r| known(r.judged.working_set.map(|set| set.bytes))),
    ("wall_ns", |r| known(wall_ns(r))),
    ("user_ns", |r| known(r.judged.program.map(|used| used.user_ns))),
    ("system_ns", |r| known(r.judged.program.map(|used| used.system_ns))),
    ("rss_max_bytes", |r| known(r.judged.program.map(|used| used.rss_max_bytes))),
    ("rate_common_window", |r| median(r.judged.common.as_ref())),
    ("cpu_server", |r| known(r.judged.cpu.and_then(|c| c.server).map(|s| format!("{s:.4}")))),
    ("hosts_measured", |r| known(r.judged.hosts.as_ref().map(|hosts| hosts.hosts.len()))),
    ("hosts_fairness_index", |r| {
        known(r.judged.hosts.as_ref().and_then(|hosts| hosts.index).map(|i| format!("{i:.4}")))
    }),
    ("hosts_start_skew_ns", |r| known(r.judged.hosts.as_ref().map(|hosts| hosts.skew_ns))),
    ("hosts_stragglers", |r| {
        let slow = r.judged.hosts.iter().flat_map(stats::HostsCompared::stragglers);
        slow.map(|host| host.host.as_str()).collect::<Vec<_>>().join(";")
    }),
    ("host_rates", |r| {
        let hosts = r.judged.hosts.iter().flat_map(|compared| &compared.hosts);
        let rates = hosts.map(|host| format!("{}={}", host.host, fixed(host.rate.per_s())));
        rates.collect::<Vec<_>>().join(";")
    }),
    ("caveats", |r| {
        let codes = r.judged.caveats.iter().map(|caveat| caveat.code.code());
        codes.collect::<Vec<_>>().join(";")
    }),
];

/// Writes the header and one line per row.
pub fn render(sheet: &Sheet<'_>) -> String {
    let campaign = sheet.campaign;
    let mut header = vec!["campaign".to_owned(), "campaign_name".to_owned()];
    header.extend(names_of(IDENTITY));
    header.extend(Setting::ALL.into_iter().map(Setting::column));
    header.extend(names_of(REPETITION).chain(names_of(FIGURES)));
    let mut out = header.join(",") + "\n";
    for row in &sheet.rows {
        let mut cells = vec![campaign.id.to_string(), quoted(&campaign.name)];
        cells.extend(IDENTITY.iter().map(|(_, fill)| quoted(&fill(row))));
        cells.extend(Setting::ALL.into_iter().map(|setting| quoted(&setting_cell(setting, row))));
        let further = REPETITION.iter().chain(FIGURES);
        cells.extend(further.map(|(_, fill)| quoted(&fill(row))));
        out.push_str(&cells.join(","));
        out.push('\n');
    }
    out
}

fn names_of(columns: &'static [Column]) -> impl Iterator<Item = String> {
    columns.iter().map(|(name, _)| (*name).to_owned())
}

/// Writes a setting for programs; empty where the run does not depend on it.
fn setting_cell(setting: Setting, row: &Row<'_>) -> String {
    let spec = &row.run.spec;
    if setting.applies(spec) { setting.plain(spec) } else { String::new() }
}

fn known<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// The wall time of a command.
fn wall_ns(row: &Row<'_>) -> Option<u64> {
    let rate = row.judged.rate.filter(|rate| row.is_program() && rate.median > 0.0)?;
    Some((1e9 / rate.median) as u64)
}

/// A thousandth of a byte or op per second is far below what was measured.
fn fixed(value: f64) -> String {
    format!("{value:.3}")
}

fn median(summary: Option<&Summary>) -> String {
    known(summary.map(|summary| fixed(summary.median)))
}

fn of(row: &Row<'_>, figure: fn(&Summary) -> f64) -> String {
    known(row.judged.rate.as_ref().map(|rate| fixed(figure(rate))))
}

/// One end of the 95 % confidence interval, which fewer than three trials don't have.
fn interval_end(row: &Row<'_>, end: fn((f64, f64)) -> f64) -> String {
    known(row.judged.rate.as_ref().and_then(Summary::confidence_interval).map(end).map(fixed))
}

fn quantile(histogram: &Histogram, q: f64) -> String {
    known((histogram.count() > 0).then(|| histogram.quantile(q)))
}

fn max(histogram: &Histogram) -> String {
    known((histogram.count() > 0).then(|| histogram.max()))
}

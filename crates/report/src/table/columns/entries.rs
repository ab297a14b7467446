//! The list of columns, in the order of CSV and of the tables.
//!
//! [`COLUMNS`] has the results of a run and pass, [`IDENTITY`] distinguishes rows, and
//! [`REPETITION`] describes how they were repeated. The functions below the lists fill cells that
//! take more than a line of code.

use model::units::{Nanos, Size, three_digits};
use model::{FrameDelivery, Histogram, ListingWork, OpKind};
use stats::{HostsCompared, RanksCompared, Summary, TrainingJudged};

use super::TableKind::{Frames, Programs, Ranks, Rates, Tools, Training};
use super::ValueType::{Count, Number, OneOf, Text};
use super::{Column, JsonMember, ShownCell, ShownColumn, TableKind, Value, ValueType};
use crate::campaign::answer::hit_share;
use crate::document::{CaveatLink, Cell, Line, Role};
use crate::humanize;
use crate::table::row::Row;

/// Column for programs that is a member of each figure in JSON.
const fn plain_column(name: &'static str, kind: ValueType, value: fn(&Row<'_>) -> Value) -> Column {
    Column { name, value, json: JsonMember::Known(kind), shown: None }
}

/// Column for programs that is a member of each figure in JSON, or `null`.
const fn nullable_column(
    name: &'static str,
    kind: ValueType,
    value: fn(&Row<'_>) -> Value,
) -> Column {
    Column { name, value, json: JsonMember::Nullable(kind), shown: None }
}

/// CSV column that is part of another member in JSON.
const fn nested_column(name: &'static str, value: fn(&Row<'_>) -> Value) -> Column {
    Column { name, value, json: JsonMember::Within, shown: None }
}

/// Column only for people.
const fn people_column(
    heading: &'static str,
    table: TableKind,
    cell: fn(&Row<'_>, &Summary) -> Cell,
) -> Column {
    nested_column("", |_| Value::Unknown).shown(heading, table, cell)
}

impl Column {
    /// Also shows the column to people.
    const fn shown(
        mut self,
        heading: &'static str,
        table: TableKind,
        cell: fn(&Row<'_>, &Summary) -> Cell,
    ) -> Self {
        self.shown = Some(ShownColumn {
            heading,
            role: Role::Number,
            table,
            reading: "",
            cell: ShownCell::Figure(cell),
        });
        self
    }

    /// Also shows the column to people, even if a row has no result.
    const fn always_shown(
        mut self,
        heading: &'static str,
        table: TableKind,
        cell: fn(&Row<'_>) -> Cell,
    ) -> Self {
        self.shown = Some(ShownColumn {
            heading,
            role: Role::Number,
            table,
            reading: "",
            cell: ShownCell::Always(cell),
        });
        self
    }

    /// Sets the explanation of the column.
    const fn read(mut self, reading: &'static str) -> Self {
        if let Some(shown) = &mut self.shown {
            shown.reading = reading;
        }
        self
    }

    /// Sets the role of the cells for people.
    const fn role(mut self, role: Role) -> Self {
        if let Some(shown) = &mut self.shown {
            shown.role = role;
        }
        self
    }

    /// Renames its member in JSON, which is left out if unknown.
    const fn member_where_known(mut self, name: &'static str) -> Self {
        if let JsonMember::Nullable(kind) = self.json {
            self.json = JsonMember::WhereKnown(name, kind);
        }
        self
    }
}

/// Columns that identify a row.
pub(crate) const IDENTITY: &[Column] = &[
    plain_column("run", Count, |r| Value::Count(r.run.index.into())),
    plain_column("target", Text, |r| Value::text(&r.run.spec.target_name)),
    nested_column("target_place", |r| Value::text(r.run.spec.target.to_string())),
    nested_column("backend", |r| Value::text(r.run.spec.backend.name())),
    plain_column("workload", Text, |r| Value::text(r.run.spec.workload.name())),
    plain_column("pass", Text, |r| Value::text(r.judged.pass.name())),
];

/// How the run was repeated and what it executed: settings that are in no table of the matrix.
pub(crate) const REPETITION: &[Column] = &[
    nested_column("discard", |r| Value::text(r.run.spec.repetition.discard.to_string())),
    nested_column("until", |r| Value::text(r.run.spec.repetition.until())),
    nested_column("warmup_trials", |r| Value::Count(r.run.spec.repetition.warmup_trials.into())),
    nested_column("command", |r| Value::text(r.run.spec.command.run.join(" "))),
];

/// Columns with results.
pub(crate) const COLUMNS: &[Column] = &[
    plain_column("verdict", OneOf(&["valid", "degraded", "invalid"]), |r| {
        Value::text(r.judged.verdict.name())
    }),
    nullable_column("reason", Text, |r| Value::known_text(r.judged.reason())),
    plain_column("trials_made", Count, |r| Value::Count(r.judged.trials_made.into())),
    plain_column("trials_used", Count, |r| Value::Count(r.judged.trials_used.into())),
    plain_column("rate_unit", OneOf(&["bytes_per_s", "ops_per_s"]), |r| {
        Value::text(if r.judged.pass.is_byte_rate() { "bytes_per_s" } else { "ops_per_s" })
    }),
    people_column("rate", Rates, rate_cell).role(Role::Rate).read(
        "rate: median of the trials over the whole window, until the last worker is done \
         (last_done); 1 MB/s is 10^6 bytes per second.",
    ),
    people_column("wall", Programs, rate_cell)
        .role(Role::Rate)
        .read("wall: from the start of the command to its end, median of the trials."),
    people_column("±95 %", Rates, |_, rate| Cell::text(humanize::spread(rate)))
        .read("±95 %: half the 95 % confidence interval of that median, as a share of it."),
    people_column("±95 %", Programs, |_, rate| Cell::text(humanize::spread(rate))).read(
        "±95 %: half the 95 % confidence interval of the median wall time, as a share of it.",
    ),
    nested_column("rate_bytes_per_s", |r| Value::median(r.judged.bytes_per_s.as_ref())),
    nested_column("rate_ops_per_s", |r| Value::median(r.judged.ops_per_s.as_ref())),
    nested_column("rate_mean", |r| value_of(&r.judged.rate, |rate| Value::rate(Some(rate.mean)))),
    nested_column("rate_trimmed_mean", |r| Value::rate(r.judged.rate.and_then(|s| s.trimmed_mean))),
    nested_column("rate_standard_deviation", |r| {
        value_of(&r.judged.rate, |rate| Value::rate(Some(rate.standard_deviation)))
    }),
    nested_column("rate_min", |r| value_of(&r.judged.rate, |rate| Value::rate(Some(rate.min)))),
    nested_column("rate_max", |r| value_of(&r.judged.rate, |rate| Value::rate(Some(rate.max)))),
    nested_column("rate_interval_lo", |r| interval_end(r, |ends| ends.0)),
    nested_column("rate_interval_hi", |r| interval_end(r, |ends| ends.1)),
    nested_column("rate_first_done", |r| Value::median(r.judged.first_done.as_ref())),
    nullable_column("common_window_share", Number, |r| Value::share(r.judged.common_window_share)),
    nested_column("service_time_p50_ns", |r| quantile_value(&r.judged.service_time, 0.5)),
    nested_column("service_time_p90_ns", |r| quantile_value(&r.judged.service_time, 0.9)),
    nested_column("service_time_p99_ns", |r| quantile_value(&r.judged.service_time, 0.99)),
    nested_column("service_time_p999_ns", |r| quantile_value(&r.judged.service_time, 0.999)),
    nested_column("service_time_max_ns", |r| maximum_value(&r.judged.service_time)),
    nested_column("response_time_p50_ns", |r| quantile_value(&r.judged.response_time, 0.5))
        .shown("p50", Rates, |r, _| time_cell(&quantile_value(&r.judged.response_time, 0.5)))
        .read("p50, p99, max: response time, scheduled start to completion, over all trials."),
    nested_column("response_time_p90_ns", |r| quantile_value(&r.judged.response_time, 0.9)),
    nested_column("response_time_p99_ns", |r| quantile_value(&r.judged.response_time, 0.99)).shown(
        "p99",
        Rates,
        |r, _| time_cell(&quantile_value(&r.judged.response_time, 0.99)),
    ),
    nested_column("response_time_p999_ns", |r| quantile_value(&r.judged.response_time, 0.999)),
    nested_column("response_time_max_ns", |r| maximum_value(&r.judged.response_time)).shown(
        "max",
        Rates,
        |r, _| time_cell(&maximum_value(&r.judged.response_time)),
    ),
    people_column("slowest", Programs, |r, _| time_cell(&maximum_value(&r.judged.response_time))),
    nullable_column("cpu_unit", Text, |r| {
        value_of(&r.judged.cpu, |cpu| Value::text(cpu.unit.name()))
    }),
    nullable_column("cpu_client", Number, |r| {
        value_of(&r.judged.cpu, |cpu| Value::share(Some(cpu.client)))
    })
    .shown("CPU", Rates, cpu_cell)
    .read("CPU: CPU time of the client per GiB moved or per op; + that of the server, if known."),
    nullable_column("cpu_client_percent", Number, |r| Value::number(r.judged.cpu_percent, 2)),
    nullable_column("rate_offered_ops_per_s", Count, |r| match r.run.spec.load.rate_per_s {
        // A closed loop offers no load.
        0 => Value::Unknown,
        rate => Value::Count(rate),
    })
    .member_where_known("offered_ops_per_s"),
    nullable_column("rate_due_ops_per_s", Number, |r| Value::rate(r.judged.offered_per_s))
        .member_where_known("due_ops_per_s"),
    nested_column("working_set_files", |r| {
        value_of(&r.judged.working_set, |set| Value::Count(set.files))
    }),
    nested_column("working_set_bytes", |r| {
        value_of(&r.judged.working_set, |set| Value::Count(set.bytes))
    }),
    nested_column("listed_directories", |r| {
        value_of(&r.judged.listing, |listing| Value::Count(listing.directories))
    }),
    nested_column("listing_calls", |r| {
        Value::count(r.judged.listing.as_ref().and_then(ListingWork::round_trips))
    }),
    nested_column("listing_reply_bytes", |r| {
        let known = r.judged.listing.as_ref().filter(|listing| !listing.calls.is_empty());
        Value::count(known.map(|listing| listing.reply_bytes))
    }),
    nested_column("wall_ns", |r| Value::count(wall_ns(r))),
    nested_column("user_ns", user_value)
        .shown("user", Programs, |r, _| time_cell(&user_value(r)))
        .read(
            "user, sys: its CPU time in user mode and in the kernel, including processes it waited \
             for; medians.",
        ),
    nested_column("system_ns", system_value)
        .shown("sys", Programs, |r, _| time_cell(&system_value(r))),
    nested_column("rss_max_bytes", memory_value)
        .shown("max RSS", Programs, |r, _| memory_cell(&memory_value(r)))
        .read("max RSS: largest resident memory of any of these processes, in any trial."),
    nested_column("rate_common_window", |r| Value::median(r.judged.common.as_ref())),
    nullable_column("cpu_server", Number, |r| {
        value_of(&r.judged.cpu, |cpu| Value::share(cpu.server))
    }),
    nested_column("hosts_measured", |r| {
        value_of(&r.judged.hosts, |hosts| Value::Count(hosts.hosts.len() as u64))
    }),
    nested_column("hosts_fairness_index", |r| {
        value_of(&r.judged.hosts, |hosts| Value::share(hosts.index))
    }),
    nested_column("hosts_start_skew_ns", |r| {
        value_of(&r.judged.hosts, |hosts| Value::Count(hosts.skew.read_ns))
    }),
    nested_column("hosts_stragglers", |r| value_of(&r.judged.hosts, list_stragglers)),
    nested_column("host_rates", |r| value_of(&r.judged.hosts, list_host_rates)),
    nested_column("hosts_start_skew_error_ns", |r| {
        value_of(&r.judged.hosts, |hosts| Value::Count(hosts.skew.error_ns))
    }),
    nullable_column("moved_bytes", Count, |r| {
        value_of(&r.judged.wire, |wire| Value::Count(wire.moved_bytes))
    })
    .member_where_known("moved_bytes"),
    nullable_column("wire_bytes", Count, |r| {
        value_of(&r.judged.wire, |wire| Value::Count(wire.wire_bytes))
    })
    .member_where_known("wire_bytes")
    .always_shown(WIRE, Rates, wire_cell)
    .read(
        "wire: bytes of all calls and replies, and below them the bytes of file data that the ops \
         moved or changed; medians.",
    ),
    nullable_column("drain_ns", Count, |r| Value::count(r.judged.drain_ns))
        .member_where_known("drain_ns"),
    nullable_column("commits_per_s", Number, |r| Value::median(r.judged.commits_per_s.as_ref()))
        .member_where_known("commits_per_s"),
    nested_column("ranks", |r| value_of(&r.judged.ranks, |it| Value::Count(it.count.into()))),
    nested_column("time_s", |r| value_of(&r.judged.ranks, |it| seconds_value(it.seconds.median)))
        .shown("time", Ranks, |r, _| ranks_cell(r, |it| show_seconds(it.seconds.median)))
        .role(Role::Rate)
        .read("time: from the start until the slowest rank is done, median of the trials."),
    nested_column("time_interval_lo_s", |r| time_interval(r, |ends| ends.0)),
    nested_column("time_interval_hi_s", |r| time_interval(r, |ends| ends.1)),
    people_column("±95 %", Ranks, |r, _| ranks_cell(r, |it| humanize::spread(&it.seconds)))
        .read("±95 %: half the 95 % confidence interval of that median, as a share of it."),
    nested_column("slowest_rank_ratio", |r| {
        value_of(&r.judged.ranks, |it| Value::share(Some(it.slowest_ratio)))
    })
    .shown("slowest rank", Ranks, |r, _| {
        let several = r.judged.ranks.as_ref().filter(|it| it.count > 1);
        let ratio = |it: &RanksCompared| format!("{} x median", three_digits(it.slowest_ratio));
        let ranks = several.map(|it| humanize::counted(it.count as usize, it.noun));
        Cell::two_lines(several.map_or_else(dash, ratio), ranks)
    })
    .read("slowest rank: its time compared with the median rank of the same trial."),
    nested_column("straggler_rank", |r| {
        let straggler = r.judged.ranks.as_ref().and_then(|it| it.straggler.as_ref());
        Value::count(straggler.map(|straggler| straggler.rank))
    }),
    nested_column("stall_s_per_hour", |r| {
        let stall = r.judged.ranks.as_ref().and_then(|it| it.stall_s_per_hour);
        Value::number(stall, 3)
    })
    .shown("stall/h", Ranks, |r, _| {
        let stall = r.judged.ranks.as_ref().and_then(|it| it.stall_s_per_hour);
        Cell::text(stall.map_or_else(dash, show_seconds))
    })
    .read("stall/h: how long saves at the interval save_every hold a job up in each hour."),
    people_column("rate", Ranks, rate_cell)
        .role(Role::Number)
        .read("rate: all bytes by the time of the slowest rank; 1 MB/s is 10^6 bytes per second."),
    people_column("CPU", Ranks, cpu_cell)
        .read("CPU: CPU time of the client per GiB moved; + that of the server, if known."),
    nested_column("frames", |r| value_of(&r.judged.frames, |it| Value::Count(it.frames))),
    nested_column("streams", |r| value_of(&r.judged.frames, |it| Value::Count(it.streams.into())))
        .shown("streams in time", Frames, |r, _| {
            frames_cell(r, |it| format!("{} of {}", it.good_streams(), it.streams))
        })
        .read(
            "streams in time: those without a late frame; like the next two, in the trial with the \
             most late frames.",
        ),
    nested_column("late_streams", |r| {
        value_of(&r.judged.frames, |it| Value::Count(it.late_streams.into()))
    }),
    nested_column("late_frames", |r| value_of(&r.judged.frames, |it| Value::Count(it.late_frames)))
        .shown("late frames", Frames, |r, _| {
            frames_cell(r, |it| format!("{} of {}", it.late_frames, it.frames))
        })
        .read("late frames: those not complete at their deadline, and those that failed."),
    nested_column("worst_lateness_ns", |r| {
        value_of(&r.judged.frames, |it| Value::Count(it.worst_lateness_ns))
    })
    .shown("worst", Frames, |r, _| {
        frames_cell(r, |it| match it.worst_lateness_ns {
            0 => dash(),
            worst_ns => format!("+{}", Nanos(worst_ns)),
        })
    })
    .read("worst: how long after its deadline the latest frame was complete."),
    nested_column("hit_share", |r| Value::share(hit_share(&r.judged))),
    nested_column("read_p95_worst_ns", |r| worst_p95(r, OpKind::ReadFile)),
    nested_column("write_p95_worst_ns", |r| worst_p95(r, OpKind::Create)),
    people_column("rate", Frames, rate_cell)
        .role(Role::Rate)
        .read("rate: bytes of the frames, median of the trials; 1 MB/s is 10^6 bytes per second."),
    people_column("p99", Frames, |r, _| time_cell(&quantile_value(&r.judged.response_time, 0.99)))
        .read("p99: time from asking for a frame until it is complete, over all trials."),
    people_column("CPU", Frames, cpu_cell)
        .read("CPU: CPU time of the client per GiB moved; + that of the server, if known."),
    people_column("time", Tools, |r, _| ranks_cell(r, |it| show_seconds(it.seconds.median)))
        .role(Role::Rate)
        .read("time: from the start of a pass until its last op is done, median of the trials."),
    people_column("±95 %", Tools, |r, _| ranks_cell(r, |it| humanize::spread(&it.seconds)))
        .read("±95 %: half the 95 % confidence interval of that median, as a share of it."),
    nullable_column("times_local_disk", Number, |r| {
        value_of(&r.times_local, |it| Value::number(Some(it.ratio), 4))
    })
    .member_where_known("times_local_disk")
    .shown("x local disk", Tools, |r, _| {
        let ends =
            |ends: (f64, f64)| format!("{} to {}", three_digits(ends.0), three_digits(ends.1));
        let interval = r.times_local.as_ref().and_then(|it| it.interval).map(ends);
        let ratio = r.times_local.as_ref().map(|it| three_digits(it.ratio));
        Cell::two_lines(ratio.unwrap_or_else(dash), interval)
    })
    .read(
        "x local disk: the time divided by that on a target on a disk of the client's host, with \
         its 95 % interval.",
    ),
    nullable_column("times_local_disk_lo", Number, |r| local_end(r, |ends| ends.0))
        .member_where_known("times_local_disk_lo"),
    nullable_column("times_local_disk_hi", Number, |r| local_end(r, |ends| ends.1))
        .member_where_known("times_local_disk_hi"),
    people_column("op p50", Tools, |r, _| op_time(r, 0.5)),
    people_column("op p99", Tools, |r, _| op_time(r, 0.99))
        .read("op p50, p99: median and 99th percentile of the response times of single ops."),
    people_column("CPU", Tools, cpu_cell)
        .read("CPU: CPU time of the client per op; + that of the server, if known."),
    nested_column("all_accelerators", |r| {
        value_of(&r.judged.training, |it| Value::Count(it.accelerators.into()))
    }),
    nested_column("utilization", |r| {
        value_of(&r.judged.training, |it| Value::share(Some(it.utilization.median)))
    })
    .shown("AU", Training, |r, _| {
        training_cell(r, |it| Cell::text(humanize::share(it.utilization.median)))
    })
    .role(Role::Rate)
    .read("AU: share of the time that accelerators compute, without the first step."),
    people_column("±95 %", Training, |r, _| {
        training_cell(r, |it| Cell::text(humanize::spread(&it.utilization)))
    })
    .read("±95 %: half the 95 % confidence interval of that median, as a share of it."),
    people_column("required", Training, |r, _| {
        training_cell(r, |it| {
            let judgment = if it.is_fed() { "met" } else { "missed" };
            Cell::two_lines(humanize::share(it.required), Some(judgment.to_owned()))
        })
    })
    .read("required: the AU at which storage is fast enough for the model (required_au)."),
    nested_column("samples_per_s", |r| {
        value_of(&r.judged.training, |it| Value::number(Some(it.samples_per_s.median), 3))
    })
    .shown("samples/s", Training, |r, _| {
        training_cell(r, |it| Cell::text(three_digits(it.samples_per_s.median)))
    })
    .read("samples/s: all samples by the whole time, including the first step."),
    nested_column("waited_s", |r| value_of(&r.judged.training, |it| seconds_value(it.waited_s)))
        .shown("waiting", Training, |r, _| {
            training_cell(r, |it| {
                let longest = format!("longest {}", show_seconds(it.longest_wait_s));
                Cell::two_lines(show_seconds(it.waited_s), Some(longest))
            })
        })
        .read(
            "waiting: time that each accelerator waited for batches, and the longest of all steps.",
        ),
    nested_column("first_batch_s", |r| {
        value_of(&r.judged.training, |it| seconds_value(it.first_batch_s))
    })
    .shown("1st batch", Training, |r, _| {
        training_cell(r, |it| Cell::text(show_seconds(it.first_batch_s)))
    })
    .read("1st batch: time from the start until every accelerator has its first batch."),
    people_column("rate", Training, |r, _| {
        Cell::text(
            r.judged
                .bytes_per_s
                .map_or_else(dash, |rate| stats::Rate::Bytes(rate.median).to_string()),
        )
    })
    .read("rate: bytes of the samples by the whole time; 1 MB/s is 10^6 bytes per second."),
    people_column("CPU", Training, cpu_cell)
        .read("CPU: CPU time of the client per op; + that of the server, if known."),
    trials_shown(Rates)
        .read("n: trials used for the figure, and how many were run if there were more."),
    trials_shown(Ranks)
        .read("n: trials used for the figure, and how many were run if there were more."),
    trials_shown(Frames)
        .read("n: trials used for the figure, and how many were run if there were more."),
    trials_shown(Tools)
        .read("n: trials used for the figure, and how many were run if there were more."),
    trials_shown(Training)
        .read("n: trials used for the figure, and how many were run if there were more."),
    trials_shown(Programs)
        .read("n: trials used for the figure, and how many were run if there were more."),
    verdict_shown(Rates),
    verdict_shown(Ranks),
    verdict_shown(Frames),
    verdict_shown(Tools),
    verdict_shown(Training),
    verdict_shown(Programs),
    nested_column("caveats", |r| {
        let codes: Vec<_> = r
            .judged
            .caveats
            .iter()
            .filter(|caveat| !caveat.is_minor())
            .map(|caveat| caveat.code.code())
            .collect();
        Value::text(codes.join(";"))
    })
    .always_shown("caveats", Rates, caveats_cell)
    .role(Role::Caveats),
    nested_column("caveat_data", |r| Value::text(caveat_data(r))),
    caveats_shown(Ranks),
    caveats_shown(Frames),
    caveats_shown(Tools),
    caveats_shown(Training),
    caveats_shown(Programs),
];

/// Heading of the column that is only shown if a row has a pass of operations on ranges.
pub(crate) const WIRE: &str = "wire";

/// Bytes on the wire, for how many bytes moved.
fn wire_cell(row: &Row<'_>) -> Cell {
    match &row.judged.wire {
        Some(wire) => {
            let moved = format!("for {}", Size(wire.moved_bytes));
            Cell::two_lines(Size(wire.wire_bytes).to_string(), Some(moved))
        }
        None => Cell::text("–"),
    }
}

/// Cell with the caveats that mark a row.
fn caveats_cell(row: &Row<'_>) -> Cell {
    let links: Vec<_> = row
        .marks()
        .into_iter()
        .map(|caveat| CaveatLink {
            code: caveat.code,
            text: Row::code(caveat),
            evidence: caveat.evidence_line(),
        })
        .collect();
    Cell::Caveats(links)
}

/// Number behind each caveat that has a limit: `cached=12.5/90 % (/proc/self/io)`.
fn caveat_data(row: &Row<'_>) -> String {
    let mut all = Vec::new();
    for caveat in &row.judged.caveats {
        if let Some(data) = &caveat.data {
            let found = three_digits(data.found);
            let limit = three_digits(data.limit);
            let code = caveat.code.code();
            all.push(format!("{code}={found}/{limit} {} ({})", data.unit, data.source));
        }
    }
    all.join("; ")
}

/// Number of trials, part of every table.
const fn trials_shown(table: TableKind) -> Column {
    nested_column("", |_| Value::Unknown)
        .always_shown("n", table, |row| Cell::text(humanize::trials(&row.judged)))
}

/// Verdict, part of every table.
const fn verdict_shown(table: TableKind) -> Column {
    nested_column("", |_| Value::Unknown)
        .always_shown("verdict", table, |row| Cell::Verdict(row.judged.verdict))
        .role(Role::Verdict)
}

/// Caveats, part of every table.
const fn caveats_shown(table: TableKind) -> Column {
    nested_column("", |_| Value::Unknown)
        .always_shown("caveats", table, caveats_cell)
        .role(Role::Caveats)
}

/// CPU time of the client and of the server.
fn cpu_cell(row: &Row<'_>, _: &Summary) -> Cell {
    Cell::two_lines(humanize::cpu(&row.judged), humanize::server_cpu(&row.judged))
}

/// Rate with its mark and, for mixes, the byte rate, which has the mark if rows are ranked by it.
fn rate_cell(row: &Row<'_>, rate: &Summary) -> Cell {
    let mut lines =
        vec![Line { mark: row.extreme_of_rate(), text: row.judged.shown(rate.median).to_string() }];
    if let Some(second) = humanize::second_rate(&row.judged) {
        lines.push(Line { mark: row.extreme_of_byte_rate(), text: second });
    }
    if let Some(drain_ns) = row.judged.drain_ns {
        lines.push(Line { mark: None, text: format!("+ {} drain", Nanos(drain_ns)) });
    }
    Cell::Lines(lines)
}

/// Cell with a figure about ranks; a dash if they are unknown.
fn ranks_cell(row: &Row<'_>, show: fn(&RanksCompared) -> String) -> Cell {
    Cell::text(row.judged.ranks.as_ref().map_or_else(dash, show))
}

/// Time of the slowest worker of a cache for a kind of op.
fn worst_p95(row: &Row<'_>, kind: OpKind) -> Value {
    let worst = row.judged.worst_p95.iter().find(|known| known.kind == kind);
    Value::count(worst.map(|worst| worst.time_ns))
}

/// Cell with a figure about frames; a dash if they are unknown.
fn frames_cell(row: &Row<'_>, show: fn(&FrameDelivery) -> String) -> Cell {
    Cell::text(row.judged.frames.as_ref().map_or_else(dash, show))
}

/// Cell with a figure about accelerators; a dash if they are unknown.
fn training_cell(row: &Row<'_>, show: fn(&TrainingJudged) -> Cell) -> Cell {
    row.judged.training.as_ref().map_or_else(|| Cell::text(dash()), show)
}

fn dash() -> String {
    "–".to_owned()
}

/// Formats seconds with a suitable unit.
fn show_seconds(seconds: f64) -> String {
    humanize::seconds(seconds)
}

/// Seconds with a precision of microseconds.
fn seconds_value(seconds: f64) -> Value {
    Value::number(Some(seconds), 6)
}

/// One end of the 95 % confidence interval of the slowest rank's time.
fn time_interval(row: &Row<'_>, end: fn((f64, f64)) -> f64) -> Value {
    let interval = row.judged.ranks.as_ref().and_then(|it| it.seconds.confidence_interval());
    interval.map_or(Value::Unknown, |ends| seconds_value(end(ends)))
}

/// One end of the 95 % confidence interval of the ratio to the local disk.
fn local_end(row: &Row<'_>, end: fn((f64, f64)) -> f64) -> Value {
    let interval = row.times_local.as_ref().and_then(|it| it.interval);
    interval.map_or(Value::Unknown, |ends| Value::number(Some(end(ends)), 4))
}

/// Quantile of the response times of single ops.
fn op_time(row: &Row<'_>, quantile: f64) -> Cell {
    time_cell(&quantile_value(&row.judged.response_time, quantile))
}

/// Formats a time in nanoseconds with a suitable unit.
fn time_cell(ns: &Value) -> Cell {
    match ns {
        Value::Count(ns) => Cell::text(Nanos(*ns).to_string()),
        _ => Cell::text("–"),
    }
}

/// Formats an amount of memory with a suitable unit.
fn memory_cell(bytes: &Value) -> Cell {
    match bytes {
        Value::Count(bytes) => Cell::text(Size(*bytes).to_string()),
        _ => Cell::text("–"),
    }
}

/// Wall time of a command.
fn wall_ns(row: &Row<'_>) -> Option<u64> {
    let rate = row.judged.rate?;
    // Commands are stored as a rate, which is the inverse of their time.
    if row.is_program() && rate.median > 0.0 { Some((1e9 / rate.median) as u64) } else { None }
}

/// Value of an optional part of a row's results.
#[expect(clippy::ref_option, reason = "the columns name a field, and have a line each")]
fn value_of<T>(part: &Option<T>, value: fn(&T) -> Value) -> Value {
    match part {
        Some(part) => value(part),
        None => Value::Unknown,
    }
}

fn user_value(row: &Row<'_>) -> Value {
    value_of(&row.judged.program, |program| Value::Count(program.user_ns))
}

fn system_value(row: &Row<'_>) -> Value {
    value_of(&row.judged.program, |program| Value::Count(program.system_ns))
}

fn memory_value(row: &Row<'_>) -> Value {
    value_of(&row.judged.program, |program| Value::Count(program.rss_max_bytes))
}

fn list_stragglers(hosts: &HostsCompared) -> Value {
    let names: Vec<_> = hosts.stragglers().into_iter().map(|host| host.host.as_str()).collect();
    Value::text(names.join(";"))
}

fn list_host_rates(hosts: &HostsCompared) -> Value {
    let rates: Vec<_> =
        hosts.hosts.iter().map(|host| format!("{}={:.3}", host.host, host.rate.per_s())).collect();
    Value::text(rates.join(";"))
}

/// One end of the 95 % confidence interval, which requires three trials.
fn interval_end(row: &Row<'_>, end: fn((f64, f64)) -> f64) -> Value {
    row.judged
        .rate
        .as_ref()
        .and_then(Summary::confidence_interval)
        .map_or(Value::Unknown, |interval| Value::rate(Some(end(interval))))
}

/// Quantile in nanoseconds; unknown if no op was recorded, which is not the same as 0.
fn quantile_value(histogram: &Histogram, q: f64) -> Value {
    if histogram.count() > 0 { Value::Count(histogram.quantile(q)) } else { Value::Unknown }
}

fn maximum_value(histogram: &Histogram) -> Value {
    if histogram.count() > 0 { Value::Count(histogram.max()) } else { Value::Unknown }
}

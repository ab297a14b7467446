//! The full screen of `--watch` as lines of text: what is being done, how fast, by whom, and what
//! is doubtful about it.
//!
//! [`lines`] is the way in. Pure: the state, a time and a size give the same lines every time.
//! Nothing that stands in a name or a message can steer the terminal.

use std::time::Duration;

use model::printable::is_steering;
use model::units::{Nanos, Wait};
use report::live::LiveRate;
use stats::Rate;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::seen::{Ended, Quantiles, Seen, sparkline};

/// Columns of the bar of the campaign, at most.
const BAR: usize = 30;
/// Hosts that are listed one by one.
const HOSTS_MAX: usize = 16;

/// How much fits onto a screen, in characters.
#[derive(Clone, Copy)]
pub struct ScreenSize {
    /// Number of columns of a line.
    pub columns: usize,
    /// Number of lines.
    pub rows: usize,
}

/// The lines of a screen with so many columns and rows.
pub fn lines(seen: &Seen, gone: Duration, size: ScreenSize) -> Vec<String> {
    let ScreenSize { columns, rows } = size;
    let mut lines = vec![campaign_line(seen, gone, columns), seen.doing(), String::new()];
    lines.extend(throughput_lines(seen, columns));
    lines.push(String::new());
    lines.extend(host_lines(seen));
    lines.push(String::new());
    lines.extend(caveat_lines(seen));
    if !seen.ended.is_empty() {
        lines.extend([String::new(), "ended last".to_owned()]);
        for ended in seen.ended.iter().rev() {
            lines.push(format!("  {ended}"));
        }
    }
    lines.truncate(rows.saturating_sub(1));
    lines.resize(rows.saturating_sub(1), String::new());
    lines.push("q or ctrl-C: stop and keep what was measured; twice: end at once".to_owned());
    for line in &mut lines {
        *line = fit_line(line, columns);
    }
    lines
}

/// How far the campaign is, and how long it may still take.
fn campaign_line(seen: &Seen, gone: Duration, columns: usize) -> String {
    let gone_text = whole_seconds(gone);
    let failed = match seen.failed {
        0 => String::new(),
        some => format!(", {some} failed"),
    };
    if seen.total == 0 {
        return format!("{}: trial {}{failed}, {gone_text} gone", seen.name, seen.position + 1);
    }
    // On a narrow terminal what stands behind the bar matters more.
    let width = BAR.min(columns / 3);
    let full = width * seen.position / seen.total;
    let bar = format!("{}{}", "━".repeat(full), "─".repeat(width - full));
    let left = match left(seen, gone) {
        Some(left) => format!("~{}", whole_seconds(left)),
        None => "?".to_owned(),
    };
    let at = (seen.position + 1).min(seen.total);
    format!(
        "{}  {bar}  trial {at} of {}{failed}, {gone_text} gone, {left} left",
        seen.name, seen.total
    )
}

fn whole_seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => Wait(seconds.saturating_mul(1_000_000_000)).to_string(),
    }
}

/// Time left, as if all trials took the mean of those made; `None` before the first has ended.
pub fn left(seen: &Seen, gone: Duration) -> Option<Duration> {
    let made = u32::try_from(seen.position).ok()?;
    if made == 0 || seen.total == 0 {
        return None;
    }
    let missing = u32::try_from(seen.total.saturating_sub(seen.position)).unwrap_or(u32::MAX);
    Some((gone / made).saturating_mul(missing).max(Duration::from_secs(1)))
}

fn throughput_lines(seen: &Seen, columns: usize) -> Vec<String> {
    let Some(pass) = seen.pass.filter(|_| !seen.rates.is_empty()) else {
        return vec!["throughput    nothing is being measured".to_owned()];
    };
    let mut highest = 0.0_f64;
    for rate in &seen.rates {
        highest = highest.max(*rate);
    }
    let other = match seen.now {
        Some(rate) => Rate::Ops(rate.ops_per_s).to_string(),
        None => String::new(),
    };
    let now = Rate::of_pass(pass, seen.rates.back().copied().unwrap_or_default()).to_string();
    let highest = Rate::of_pass(pass, highest);
    vec![
        format!("throughput    {now:>12}  {other:>12}  highest {highest}"),
        sparkline(seen.rates.iter().copied(), columns.min(120)),
    ]
}

fn host_lines(seen: &Seen) -> Vec<String> {
    let mut lines = vec![host_line(["host", "now", "p50", "p99", "max", "CPU", "retransmits"])];
    let Some(last) = &seen.last else {
        for host in seen.hosts.iter().take(HOSTS_MAX) {
            let now = current_rate(seen, &host.host);
            lines.push(host_line([&host.host, &now, "–", "–", "–", "–", "–"]));
        }
        lines.push("service times, CPU and retransmits are known when a pass has ended".to_owned());
        return lines;
    };
    for quantiles in last.hosts.iter().take(HOSTS_MAX) {
        let Quantiles { host, times_ns, busy_percent, retransmitted } = quantiles;
        let [p50, p99, max] = times_ns.map(|ns| Nanos(ns).to_string());
        let busy = match busy_percent {
            Some(busy) => format!("{busy:.0} %"),
            None => "–".to_owned(),
        };
        let again = match retransmitted {
            Some(count) => count.to_string(),
            None => "–".to_owned(),
        };
        lines.push(host_line([host, &current_rate(seen, host), &p50, &p99, &max, &busy, &again]));
    }
    lines.extend(lines_below(last));
    lines
}

/// Formats a row of the table of hosts.
fn host_line([name, now, p50, p99, max, busy, again]: [&str; 7]) -> String {
    let name = pad_name(name, 16);
    format!("{name} {now:>12} {p50:>10} {p99:>10} {max:>10} {busy:>6} {again:>12}")
}

/// Returns the lines below the table of hosts.
fn lines_below(last: &Ended) -> Vec<String> {
    let more = last.hosts.len().saturating_sub(HOSTS_MAX);
    let more = if more > 0 { format!("{more} more hosts; ") } else { String::new() };
    let mut lines = vec![format!("{more}service times, CPU and retransmits: of {}", last.what)];
    lines.extend(last.clients.clone());
    lines
}

/// The rate of a host just now, or of all.
fn current_rate(seen: &Seen, host: &str) -> String {
    let Some(pass) = seen.pass else { return "–".to_owned() };
    let known = seen.hosts.iter().find(|known| known.host == host);
    let rate = match known {
        Some(known) => known.now,
        None if host == "all" => seen.now,
        None => None,
    };
    let Some(LiveRate { ops_per_s, bytes_per_s }) = rate else { return "–".to_owned() };
    Rate::of_pass(pass, if pass.is_byte_rate() { bytes_per_s } else { ops_per_s }).to_string()
}

fn caveat_lines(seen: &Seen) -> Vec<String> {
    if seen.caveats.is_empty() {
        return vec!["no caveat so far".to_owned()];
    }
    let mut lines = vec!["caveats so far".to_owned()];
    for caveat in &seen.caveats {
        let more =
            if caveat.passes > 1 { format!(" [{} passes]", caveat.passes) } else { String::new() };
        lines.push(format!("  {}{more}", caveat.line()));
    }
    lines
}

/// A name in so many columns.
fn pad_name(name: &str, columns: usize) -> String {
    let mut name = fit_line(name, columns);
    let taken = name.width();
    name.push_str(&" ".repeat(columns.saturating_sub(taken)));
    name
}

/// The beginning of a line that fits, without what could steer the terminal.
pub fn fit_line(line: &str, columns: usize) -> String {
    let mut taken = 0;
    let mut fitting = String::new();
    for letter in line.chars() {
        let is_text = !letter.is_control() && !is_steering(letter);
        let letter = if is_text { letter } else { '\u{fffd}' };
        // East Asian letters take two columns, combining marks none.
        taken += letter.width().unwrap_or(0);
        if taken > columns {
            break;
        }
        fitting.push(letter);
    }
    fitting
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use controller::Event;
    use model::{CaveatCode, IntervalSample, Pass, PassResult};

    use super::super::seen::CaveatSeen;
    use super::*;

    const USUAL: ScreenSize = ScreenSize { columns: 100, rows: 24 };

    fn running() -> Seen {
        let mut seen = Seen::of("quick", 8);
        (seen.position, seen.label) = (2, "nfs stream".to_owned());
        let mut ended = PassResult::new(Pass::Write);
        ended.window_ns = 1_000_000_000;
        seen.hear(&Event::PassEnded(&ended));
        seen.hear(&Event::PassBegun(Pass::Read));
        for at in 1..=20 {
            let sample = IntervalSample { at_ns: at * 100_000_000, ops: at, bytes: at * 1_000_000 };
            seen.hear(&Event::Progress(sample));
        }
        seen.caveats.push(CaveatSeen {
            code: CaveatCode::Cached,
            passes: 3,
            place: "dir \u{1b}[2J".to_owned(),
            evidence: "50 %".to_owned(),
        });
        seen.ended = VecDeque::from(["dir stream: read 1 MB/s".to_owned()]);
        seen
    }

    #[test]
    fn a_frame_holds_what_there_is_to_know() {
        let shown = lines(&running(), Duration::from_secs(20), USUAL);
        let text = shown.join("\n");
        for part in [
            "trial 3 of 8, 20 s gone, ~60 s left",
            "nfs stream read",
            "200 MB/s      200 op/s  highest 200 MB/s",
            "▁▁▂▂▃▃▃▄▄▅▅▅▆▆▇▇▇███",
            "service times, CPU and retransmits: of nfs stream write",
            "! cached: 50 % (dir \u{fffd}[2J) [3 passes]",
            "dir stream: read 1 MB/s",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert_eq!(shown.len(), 24);
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn a_frame_fits_any_screen() {
        for (columns, rows) in [(20, 5), (1, 1), (40, 0), (300, 80)] {
            let shown = lines(&running(), Duration::from_secs(1), ScreenSize { columns, rows });
            assert!(shown.len() <= rows.max(1), "{rows}");
            assert!(shown.iter().all(|line| line.chars().count() <= columns));
        }
    }

    #[test]
    fn nothing_is_guessed_before_there_is_something() {
        let shown = lines(&Seen::of("quick", 8), Duration::from_secs(1), USUAL).join("\n");
        assert!(shown.contains("? left") && shown.contains("nothing is being measured"));
        assert!(shown.contains("no caveat so far"));
        let open = lines(&Seen::of("until", 0), Duration::from_secs(1), USUAL).join("\n");
        assert!(open.contains("until: trial 1, 1 s gone"), "{open}");
    }
}

//! The full screen of `--watch` as lines of text: the current work, its speed, the hosts that do
//! it, and all caveats.
//!
//! [`lines`] is the entry point. It is pure: the same state, time and size always give the same
//! lines. Control characters in names and messages are replaced.

use std::time::Duration;

use model::printable::is_steering;
use model::units::{Nanos, Wait};
use report::live::LiveRate;
use stats::Rate;
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::campaign_progress::{CampaignProgress, FinishedPass, Quantiles, sparkline};
use crate::terminal::wrap::wrap_line;

/// Minimum and maximum width of the campaign's progress bar.
const BAR_MIN: usize = 6;
const BAR_MAX: usize = 30;
/// Space around the bar.
const GAP: &str = "  ";
/// Width of host names, chosen so that the table fits into 80 columns.
const NAME: usize = 14;
/// Maximum number of hosts to list.
const HOSTS_MAX: usize = 16;

/// Size of a screen, in characters.
#[derive(Clone, Copy)]
pub(super) struct ScreenSize {
    pub columns: usize,
    pub rows: usize,
}

pub(super) fn lines(seen: &CampaignProgress, gone: Duration, size: ScreenSize) -> Vec<String> {
    let ScreenSize { columns, rows } = size;
    let mut lines = wrap_line(&campaign_line(seen, gone, columns), columns);
    lines.extend(wrap_line(&seen.describe_work(), columns));
    lines.push(String::new());
    lines.extend(throughput_lines(seen, columns));
    lines.push(String::new());
    lines.extend(host_lines(seen, columns));
    lines.push(String::new());
    // The last row is for the keys.
    let rows = rows.saturating_sub(1);
    lines.extend(caveat_lines(seen, columns, rows.saturating_sub(lines.len())));
    lines.extend(ended_lines(seen, columns, rows.saturating_sub(lines.len())));
    lines.truncate(rows);
    lines.resize(rows, String::new());
    lines.push("q or Ctrl-C: stop and keep the results so far; twice: quit at once".to_owned());
    for line in &mut lines {
        *line = fit_line(line, columns);
    }
    lines
}

/// Describes the campaign's progress and the time left.
fn campaign_line(seen: &CampaignProgress, gone: Duration, columns: usize) -> String {
    let number = seen.number();
    let mut text = match seen.most_trials() {
        None => format!("trial {number}"),
        Some(most) if seen.may_end_early => format!("trial {number} of at most {most}"),
        Some(most) => format!("trial {number} of {most}"),
    };
    if seen.failed > 0 {
        text = format!("{text}, {} failed", seen.failed);
    }
    text = format!("{text}, {} gone", whole_seconds(gone));
    let Some(most) = seen.most_trials() else { return format!("{}: {text}", seen.name) };
    text = format!("{text}, {}", time_left(seen, gone));
    // On a narrow terminal the text is more important than the bar.
    let room = columns.saturating_sub(seen.name.width() + text.width() + 2 * GAP.len());
    if room < BAR_MIN {
        return format!("{}: {text}", seen.name);
    }
    let width = BAR_MAX.min(room);
    let full = width * seen.made / most.max(1);
    let bar = format!("{}{}", "━".repeat(full), "─".repeat(width - full));
    format!("{}{GAP}{bar}{GAP}{text}", seen.name)
}

/// Estimates the time left, assuming that all trials take as long as the average so far.
pub(super) fn time_left(seen: &CampaignProgress, gone: Duration) -> String {
    match remaining_time(seen, gone) {
        Some(left) if seen.may_end_early => format!("≤{} left", whole_seconds(left)),
        Some(left) => format!("~{} left", whole_seconds(left)),
        None => "? left".to_owned(),
    }
}

fn whole_seconds(time: Duration) -> String {
    match time.as_secs() {
        seconds @ ..120 => format!("{seconds} s"),
        seconds => Wait(seconds.saturating_mul(1_000_000_000)).to_string(),
    }
}

/// Returns the time left; `None` before the first trial has finished.
fn remaining_time(seen: &CampaignProgress, gone: Duration) -> Option<Duration> {
    let made = u32::try_from(seen.made).ok().filter(|made| *made > 0)?;
    let ahead = u32::try_from(seen.most_trials()?.saturating_sub(seen.made)).unwrap_or(u32::MAX);
    Some((gone / made).saturating_mul(ahead).max(Duration::from_secs(1)))
}

fn throughput_lines(seen: &CampaignProgress, columns: usize) -> Vec<String> {
    let Some(pass) = seen.pass.filter(|_| !seen.rates.is_empty()) else {
        return vec!["throughput    nothing is being measured".to_owned()];
    };
    let mut highest = 0.0_f64;
    for rate in &seen.rates {
        highest = highest.max(*rate);
    }
    let other = seen.now.map_or_else(String::new, |rate| Rate::Ops(rate.ops_per_s).to_string());
    let now = Rate::of_ops(pass, seen.rates.back().copied().unwrap_or_default()).to_string();
    let highest = Rate::of_ops(pass, highest);
    vec![
        format!("throughput    {now:>12}  {other:>12}  highest {highest}"),
        sparkline(seen.rates.iter().copied(), columns),
    ]
}

fn host_lines(seen: &CampaignProgress, columns: usize) -> Vec<String> {
    let mut lines = vec![host_line(["host", "now", "p50", "p99", "max", "CPU", "retransmits"])];
    let Some(last) = &seen.last else {
        for host in seen.hosts.iter().take(HOSTS_MAX) {
            let now = current_rate(seen, &host.host);
            lines.push(host_line([&host.host, &now, "–", "–", "–", "–", "–"]));
        }
        let known_later = "service times, CPU and retransmits are known after the pass";
        lines.extend(wrap_line(known_later, columns));
        return lines;
    };
    for quantiles in last.hosts.iter().take(HOSTS_MAX) {
        let Quantiles { host, times_ns, busy_percent, retransmitted } = quantiles;
        let [p50, p99, max] = times_ns.map(|ns| Nanos(ns).to_string());
        let busy = busy_percent.map_or_else(|| "–".to_owned(), |busy| format!("{busy:.0} %"));
        let again = retransmitted.map_or_else(|| "–".to_owned(), |count| count.to_string());
        lines.push(host_line([host, &current_rate(seen, host), &p50, &p99, &max, &busy, &again]));
    }
    lines.extend(lines_below(last).into_iter().flat_map(|line| wrap_line(&line, columns)));
    lines
}

/// Formats a row of the table of hosts.
fn host_line([name, now, p50, p99, max, busy, again]: [&str; 7]) -> String {
    let name = pad_name(name, NAME);
    format!("{name} {now:>12} {p50:>10} {p99:>10} {max:>10} {busy:>6} {again:>12}")
}

/// Returns the lines below the table of hosts.
fn lines_below(last: &FinishedPass) -> Vec<String> {
    let more = last.hosts.len().saturating_sub(HOSTS_MAX);
    let more = if more > 0 { format!("{more} more hosts; ") } else { String::new() };
    let mut lines = vec![format!("{more}service times, CPU and retransmits: of {}", last.what)];
    lines.extend(last.clients.clone());
    lines
}

/// Formats the current rate of one host, or of all.
fn current_rate(seen: &CampaignProgress, host: &str) -> String {
    let Some(pass) = seen.pass else { return "–".to_owned() };
    let known = seen.hosts.iter().find(|known| known.host == host);
    let rate = match known {
        Some(known) => known.now,
        None if host == "all" => seen.now,
        None => None,
    };
    let Some(LiveRate { ops_per_s, bytes_per_s }) = rate else { return "–".to_owned() };
    Rate::of_ops(pass, if pass.is_byte_rate() { bytes_per_s } else { ops_per_s }).to_string()
}

/// Lists the caveats with their full text. If space runs out, only the codes are listed.
fn caveat_lines(seen: &CampaignProgress, columns: usize, room: usize) -> Vec<String> {
    if seen.caveats.is_empty() {
        return vec!["no caveats so far".to_owned()];
    }
    let mut listed = Vec::new();
    for caveat in &seen.caveats {
        let more =
            if caveat.passes > 1 { format!(" [{} passes]", caveat.passes) } else { String::new() };
        listed.push(wrap_line(&format!("  {}{more}", caveat.line()), columns));
    }
    let mut shown = listed.len();
    loop {
        let mut lines = vec!["caveats so far".to_owned()];
        lines.extend(listed[..shown].iter().flatten().cloned());
        if shown < listed.len() {
            let codes = seen.caveats[shown..].iter().map(|caveat| caveat.code.code());
            let codes = codes.collect::<Vec<_>>().join(", ");
            lines.extend(wrap_line(&format!("  also: {codes}"), columns));
        }
        if lines.len() <= room || shown == 0 {
            return lines;
        }
        shown -= 1;
    }
}

/// Lists the latest finished trials that fit, latest first.
fn ended_lines(seen: &CampaignProgress, columns: usize, room: usize) -> Vec<String> {
    let mut lines = vec![String::new(), "latest trials".to_owned()];
    for ended in seen.ended.iter().rev() {
        let listed = wrap_line(&format!("  {ended}"), columns);
        if lines.len() + listed.len() > room {
            break;
        }
        lines.extend(listed);
    }
    // Omit the heading if no trial fits below it.
    if lines.len() > 2 { lines } else { Vec::new() }
}

/// Pads or cuts a name to a width.
fn pad_name(name: &str, columns: usize) -> String {
    let mut name = fit_line(name, columns);
    let taken = name.width();
    name.push_str(&" ".repeat(columns.saturating_sub(taken)));
    name
}

/// Cuts a line to a width and replaces control characters.
pub(super) fn fit_line(line: &str, columns: usize) -> String {
    let mut taken = 0;
    let mut fitting = String::new();
    for letter in line.chars() {
        let is_text = !letter.is_control() && !is_steering(letter);
        let letter = if is_text { letter } else { '\u{fffd}' };
        // East Asian characters take two columns, combining marks none.
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
    use model::testing::RunBuilder;
    use model::{BackendKind, CaveatCode, IntervalSample, Pass, PassResult, Workload};

    use super::super::caveats::ReportedCaveat;
    use super::super::label::Labels;
    use super::*;

    const USUAL: ScreenSize = ScreenSize { columns: 100, rows: 24 };

    fn running() -> CampaignProgress {
        let mut seen = CampaignProgress::with_total("quick", 8);
        seen.position = 2;
        seen.made = 2;
        let spec = RunBuilder::new(Workload::Stream).backend(BackendKind::Nfs);
        let spec = spec.target_name("nfs".to_owned()).build();
        seen.label = Labels::default().label(&spec);
        let mut ended = PassResult::new(Pass::Write);
        ended.window_ns = 1_000_000_000;
        seen.handle_event(&Event::PassEnded(&ended));
        seen.handle_event(&Event::PassBegun(Pass::Read));
        for at in 1..=20 {
            let sample = IntervalSample { at_ns: at * 100_000_000, ops: at, bytes: at * 1_000_000 };
            seen.handle_event(&Event::Progress(sample));
        }
        seen.caveats.push(ReportedCaveat {
            code: CaveatCode::Cached,
            passes: 3,
            place: "dir \u{1b}[2J".to_owned(),
            evidence: "50 %".to_owned(),
        });
        seen.ended = VecDeque::from(["dir stream: read 1 MB/s".to_owned()]);
        seen
    }

    #[test]
    fn fills_frame_with_known_values() {
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
    fn shows_no_estimate_without_data() {
        let shown = lines(&CampaignProgress::with_total("quick", 8), Duration::from_secs(1), USUAL)
            .join("\n");
        assert!(shown.contains("? left") && shown.contains("nothing is being measured"));
        assert!(shown.contains("no caveats so far"));
        let open = lines(&CampaignProgress::with_total("until", 0), Duration::from_secs(1), USUAL)
            .join("\n");
        assert!(open.contains("until: trial 1, 1 s gone"), "{open}");
    }

    #[test]
    fn shows_the_whole_text_of_caveats() {
        let mut seen = running();
        let words = (0..60).map(|number| format!("word{number}")).collect::<Vec<_>>();
        seen.caveats[0].evidence = words.join(" ");
        let shown = lines(&seen, Duration::from_secs(1), ScreenSize { columns: 60, rows: 40 });
        let text = shown.join(" ");
        assert!(words.iter().all(|word| text.contains(&format!("{word} "))), "{shown:#?}");
        assert!(shown.iter().all(|line| line.width() <= 60), "{shown:#?}");
    }

    #[test]
    fn names_caveats_without_room() {
        let mut seen = running();
        for code in [CaveatCode::SharedHost, CaveatCode::TooShort, CaveatCode::Drift] {
            seen.caveats.push(ReportedCaveat {
                code,
                passes: 1,
                place: "dir".to_owned(),
                evidence: "words ".repeat(20),
            });
        }
        let shown = lines(&seen, Duration::from_secs(1), ScreenSize { columns: 60, rows: 18 });
        let text = shown.join("\n");
        assert!(text.contains("! cached: 50 %"), "{text}");
        assert!(text.contains("also: too-short, drift"), "{text}");
        assert!(!text.contains("latest trials"), "{text}");
    }

    #[test]
    fn fills_the_screen_with_ended_trials() {
        let mut seen = running();
        seen.ended = (0..100).map(|number| format!("trial {number}: read 1 MB/s")).collect();
        let shown = lines(&seen, Duration::from_secs(1), ScreenSize { columns: 80, rows: 50 });
        assert_eq!(shown.len(), 50);
        assert!(shown.iter().rev().skip(1).take(30).all(|line| line.contains("read 1 MB/s")));
        let listed = shown.iter().position(|line| line.contains("latest trials")).unwrap();
        assert!(shown[listed + 1].contains("trial 99:"), "{shown:#?}");
    }

    #[test]
    fn marks_estimate_as_upper_bound() {
        let mut seen = CampaignProgress::with_total("quick", 182);
        seen.position = 80;
        seen.made = 80;
        seen.may_end_early = true;
        let shown = lines(&seen, Duration::from_secs(80), ScreenSize { columns: 80, rows: 24 });
        insta::assert_snapshot!(shown[0]);
    }
}

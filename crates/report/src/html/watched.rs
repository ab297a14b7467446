//! What the hosts did during the passes: a line for each pass of a run and host.
//!
//! Averages over all trials that were watched, folded away; each second of each trial stands in
//! the results file, and `--format sar` prints it.

use maud::{Markup, html};
use model::Telemetry;

use crate::sheet::{Row, Sheet};
use crate::watched::Watched;

/// More lines than anybody reads; the results file has them all.
const LINES_MAX: usize = 500;

/// The section, where anything was watched.
pub fn section(sheet: &Sheet<'_>) -> Markup {
    let lines: Vec<_> = sheet.rows.iter().flat_map(lines).take(LINES_MAX).collect();
    let told = Watched::told(sheet.rows.iter().flat_map(watched));
    html! {
        @if !lines.is_empty() {
            section aria-labelledby="hosts" {
                h2 #hosts { "What the hosts did" }
                details {
                    summary { "Processors, disks and network, averages over all trials" }
                    div.scroll role="region" aria-label="What the hosts did" tabindex="0" {
                        table {
                            caption {
                                "Processor time in percent of all processors of the host; disks "
                                "and interfaces added up, loopback too."
                            }
                            thead {
                                tr {
                                    th scope="col" { "pass" }
                                    th scope="col" { "host" }
                                    @for head in Watched::heads(&told) {
                                        th.number scope="col" { (head) }
                                    }
                                }
                            }
                            tbody {
                                @for (row, host, watched) in &lines {
                                    tr {
                                        th scope="row" { (sheet.name(row)) }
                                        td { (host) }
                                        @for cell in watched.cells(&told) { td.number { (cell) } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

/// Everything that was watched of one row.
fn watched<'a>(row: &'a Row<'_>) -> impl Iterator<Item = &'a Telemetry> {
    let passes = row.run.trials.iter().flat_map(|trial| &trial.passes);
    passes.filter(|pass| pass.pass == row.judged.pass).flat_map(|pass| &pass.telemetry)
}

/// The hosts of one row, each with what it did.
fn lines<'a>(row: &'a Row<'a>) -> Vec<(&'a Row<'a>, &'a str, Watched)> {
    let mut hosts: Vec<(&Row<'_>, &str, Watched)> = Vec::new();
    for telemetry in watched(row).filter(|telemetry| !telemetry.times_ns.is_empty()) {
        let known = hosts.iter().position(|(_, host, _)| *host == telemetry.host);
        let index = known.unwrap_or_else(|| {
            hosts.push((row, &telemetry.host, Watched::default()));
            hosts.len() - 1
        });
        hosts[index].2.add(telemetry, 0, telemetry.times_ns.len() - 1);
    }
    hosts
}

//! The names of layers, and the sentences that say what a ladder found.
//!
//! Plain text for every form of the report; figures and verdicts come from `stats`, and nothing is
//! computed here.

use model::Target;
use model::question::ladder::{Ladder, Rung};
use model::units::{Size, three_digits};
use stats::ladder::{Climbed, Limit};

use super::Climb;
use crate::sheet::{Row, Sheet};
use crate::show;

/// How the rungs of one campaign are called.
pub(super) struct Words<'s> {
    asked: &'s Ladder,
    top: Option<Rung>,
    has_whole: bool,
    /// The transfer size of the way in question, where it was asked for.
    transfer: Option<String>,
    /// All that speaks TCP here does so on this host.
    is_loopback: bool,
}

/// The name of a limit for programs.
pub(super) const fn code(limit: Limit) -> &'static str {
    match limit {
        Limit::Rung(rung) => rung.name(),
        Limit::Processor => "client_processor",
    }
}

impl<'s> Words<'s> {
    pub(super) fn of(sheet: &Sheet<'_>, asked: &'s Ladder) -> Self {
        let has = |rung| asked.rungs.iter().any(|placed| placed.rung == rung);
        let top = asked.rungs.last();
        let is_top = |row: &&Row<'_>| top.is_some_and(|t| t.target == row.run.spec.target_name);
        let row = sheet.rows.iter().find(is_top);
        let transfer = row.and_then(|row| row.run.spec.transfer_size_bytes);
        let is_loopback = sheet.rows.iter().all(|row| match &row.run.spec.target {
            Target::Tcp(tcp) => tcp.embedded || model::NfsTarget::new(&tcp.host, "/").is_loopback(),
            _ => true,
        });
        Self {
            asked,
            top: top.map(|placed| placed.rung),
            has_whole: has(Rung::Whole),
            transfer: transfer.map(|bytes| Size(bytes.into()).to_string()),
            is_loopback,
        }
    }

    fn has(&self, rung: Rung) -> bool {
        self.asked.rungs.iter().any(|placed| placed.rung == rung)
    }

    /// Names a layer in a table.
    pub(super) fn rung(&self, rung: Rung) -> String {
        let name = match rung {
            Rung::Null => "this program alone",
            Rung::Memory => "copying in memory",
            Rung::Local => "a directory here (beside)",
            Rung::Disk if self.top == Some(Rung::Disk) => "the directory",
            Rung::Disk => "the server's disk, directly",
            Rung::Tcp => "TCP without RPC",
            Rung::Own => "our server, our client",
            Rung::Server => "the server, our client",
            Rung::Loopback => "mounted on the server",
            Rung::Network => "mounted by the client",
            Rung::Tunnel if !self.has(Rung::Network) => "through a tunnel, our client",
            Rung::Tunnel => "mounted through a tunnel",
            Rung::Whole => "same, server's transfer size",
        };
        match (&self.transfer, self.top == Some(rung)) {
            (Some(size), true) => format!("{name}, {size}"),
            _ => name.to_owned(),
        }
    }

    /// Names the limiting resource in a sentence.
    pub(super) fn limit(&self, limit: Limit) -> String {
        let rung = match limit {
            Limit::Processor => return "the client's processors".to_owned(),
            Limit::Rung(rung) => rung,
        };
        if self.has_whole && self.top == Some(rung) {
            return format!("the transfer size of {}", self.transfer.as_deref().unwrap_or("?"));
        }
        let rung = if rung == Rung::Whole { self.top.unwrap_or(rung) } else { rung };
        let name = match rung {
            Rung::Null => "this program itself",
            Rung::Memory => "memory",
            Rung::Local => "the directory here",
            Rung::Disk if self.top == Some(Rung::Disk) => "the directory's file system or disk",
            Rung::Disk => "the server's disk",
            Rung::Tcp if self.is_loopback => "TCP over loopback",
            Rung::Tcp => "the network",
            Rung::Own => "NFS in our client and our server",
            Rung::Server if self.asked.network_unknown => "the server or the network to it",
            Rung::Server | Rung::Whole => "the server",
            Rung::Loopback => "the kernel's client and server on one host",
            Rung::Network if self.has(Rung::Server) => "the kernel's client",
            Rung::Network => "the server, the network or the kernel's client",
            Rung::Tunnel => "the tunnel",
        };
        name.to_owned()
    }

    /// Describes the bottleneck of a pass in two sentences.
    pub(super) fn answer(&self, climb: &Climb<'_, '_>) -> Vec<String> {
        let name = &climb.name;
        let Some(climbed) = &climb.climbed else {
            let why = climb.rows.iter().rev().find_map(|(_, row)| row.judged.reason());
            let why = why.unwrap_or("fewer than two rungs have a figure that counts");
            return vec![format!("{name}: can't tell what limits: {why}.")];
        };
        if !climbed.is_sure() {
            return vec![format!("{name}: {}.", self.unsure(climbed))];
        }
        vec![format!("{name}: {}; {}.", self.sure(climbed), self.without(climb, climbed))]
    }

    fn sure(&self, climbed: &Climbed) -> String {
        let what = self.limit(climbed.limit);
        let Limit::Rung(limit) = climbed.limit else {
            let waited = show::percent(climbed.waited);
            let quota = if climbed.is_held { ", held back by a quota" } else { "" };
            return format!(
                "{what} limit: it was ready and waited for one {waited} of the time{quota}"
            );
        };
        let share = climbed.shares.iter().find(|(rung, _)| *rung == limit);
        let share = share.and_then(|(_, share)| *share).unwrap_or(0.0);
        format!("{what} limits, with {} of the time", show::percent(share))
    }

    fn without(&self, climb: &Climb<'_, '_>, climbed: &Climbed) -> String {
        let now = climb.rows.last().and_then(|(_, row)| row.judged.rate).map_or(0.0, |r| r.median);
        let rate = |factor: f64| stats::Rate::of_pass(climb.pass, now * factor).to_string();
        let (lo, hi) = climbed.gain_interval;
        let next = climbed.next.map_or_else(String::new, |next| {
            format!(", where {} would limit next", self.limit(next))
        });
        format!(
            "without it about {} in place of {} ({} times as much, {} to {}){next} \
             (confidence {})",
            rate(climbed.gain),
            rate(1.0),
            three_digits(climbed.gain),
            three_digits(lo),
            three_digits(hi),
            show::percent(climbed.confidence)
        )
    }

    fn unsure(&self, climbed: &Climbed) -> String {
        let vote = |(limit, share): &(Limit, f64)| {
            format!("{} ({} of the draws)", self.limit(*limit), show::percent(*share))
        };
        let votes: Vec<String> = climbed.votes.iter().take(3).map(vote).collect();
        if climbed.confidence <= 0.0 {
            return format!(
                "can't tell what limits from one trial of each rung, but it may be {} (hint: more \
                 --trials)",
                self.limit(climbed.limit)
            );
        }
        format!(
            "can't tell what limits: {} (hint: more --trials, or a quieter machine)",
            votes.join(", ")
        )
    }

    /// Rungs that contradict what they contain, and rungs without a figure.
    pub(super) fn doubts(&self, sheet: &Sheet<'_>, climbs: &[Climb<'_, '_>]) -> Vec<String> {
        let mut doubts = Vec::new();
        for climb in climbs {
            for (whole, part) in climb.climbed.iter().flat_map(|climbed| &climbed.crossed) {
                doubts.push(format!(
                    "{}: `{}` was slower than `{}`, which does all that it does: caches, or a \
                     machine that others use, and the shares between the two say nothing.",
                    climb.name,
                    self.rung(*part),
                    self.rung(*whole)
                ));
            }
            let lost = |rung: &Rung| climb.measured.iter().all(|measured| measured.rung != *rung);
            for (rung, row) in climb.rows.iter().filter(|(rung, _)| lost(rung)) {
                let why = match row.judged.reason() {
                    Some(reason) => reason.lines().next().unwrap_or_default().to_owned(),
                    None => row.codes(),
                };
                doubts.push(format!(
                    "{}: `{}` has no figure: {why}.",
                    climb.name,
                    self.rung(*rung)
                ));
            }
        }
        if climbs.is_empty() && !sheet.rows.is_empty() {
            doubts.push("can't tell what limits: the last rung was not measured.".to_owned());
        }
        doubts
    }

    /// The questions that stay open.
    pub(super) fn open(&self) -> Vec<String> {
        self.asked.missing.iter().map(|missing| format!("Open: {}.", missing.why)).collect()
    }
}

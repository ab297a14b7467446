//! Shows how the program is copied to hosts: a line now and then, and one at the end.
//!
//! [`Copies`] is the main type. It adds up all copies made at the same time. Nothing is printed if
//! no host needs a copy.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use fleet::ssh::{CopyEvent, CopyObserver};
use model::units::Size;

use crate::terminal::output::{self, lock_always};
use crate::terminal::progress::Visibility;

/// Interval between lines while the program is copied.
const SHOWN_EVERY: Duration = Duration::from_secs(2);

/// The copies to several hosts.
pub(crate) struct Copies {
    totals: Arc<Mutex<Totals>>,
    visibility: Visibility,
}

/// Totals over the hosts that get a copy at the same time.
#[derive(Default)]
struct Totals {
    begun: Option<Instant>,
    shown: Option<Instant>,
    /// Number of hosts that need a copy, followed by the number that already got it.
    hosts: usize,
    copied: usize,
    wire_bytes: u64,
    sent_bytes: u64,
}

impl Copies {
    pub(crate) fn new(visibility: Visibility) -> Self {
        Self { totals: Arc::default(), visibility }
    }

    /// Returns an observer for the steps of all copies.
    pub(crate) fn observer(&self) -> CopyObserver {
        let totals = Arc::clone(&self.totals);
        let visibility = self.visibility;
        Arc::new(move |event| {
            let line = lock_always(&totals).note(event, Instant::now());
            if let Some(line) = line
                && visibility == Visibility::Shown
            {
                output::message(&line);
            }
        })
    }

    /// Prints a summary of the copies made since the last call.
    pub(crate) fn finish(&self) {
        let totals = std::mem::take(&mut *lock_always(&self.totals));
        if let Some(line) = totals.summary(Instant::now())
            && self.visibility == Visibility::Shown
        {
            output::message(&line);
        }
    }
}

impl Totals {
    /// Adds a step, and returns a line if it is time to print one.
    fn note(&mut self, event: CopyEvent, now: Instant) -> Option<String> {
        match event {
            CopyEvent::Begun { wire_bytes } => {
                self.begun.get_or_insert(now);
                self.shown.get_or_insert(now);
                self.hosts += 1;
                self.wire_bytes += wire_bytes;
            }
            CopyEvent::Sent { bytes } => self.sent_bytes += bytes,
            CopyEvent::Ended { worked } => self.copied += usize::from(worked),
        }
        let is_time = self.shown.is_some_and(|shown| now - shown >= SHOWN_EVERY);
        if !is_time {
            return None;
        }
        self.shown = Some(now);
        Some(format!(
            "copying the agent to {}: {} of {}",
            count_hosts(self.hosts),
            Size(self.sent_bytes),
            Size(self.wire_bytes)
        ))
    }

    fn summary(&self, now: Instant) -> Option<String> {
        let begun = self.begun?;
        if self.copied == 0 {
            return None;
        }
        Some(format!(
            "copied the agent to {}: {} sent in {:.1} s",
            count_hosts(self.copied),
            Size(self.sent_bytes),
            (now - begun).as_secs_f64()
        ))
    }
}

fn count_hosts(count: usize) -> String {
    if count == 1 { "1 host".to_owned() } else { format!("{count} hosts") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_copies_and_reports_progress() {
        let start = Instant::now();
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut totals = Totals::default();
        assert_eq!(totals.summary(at(0)), None);
        for _ in 0..2 {
            assert_eq!(totals.note(CopyEvent::Begun { wire_bytes: 4 << 20 }, at(0)), None);
        }
        assert_eq!(totals.note(CopyEvent::Sent { bytes: 1 << 20 }, at(1)), None);
        let line = totals.note(CopyEvent::Sent { bytes: 2 << 20 }, at(2)).unwrap();
        insta::assert_snapshot!(line, @"copying the agent to 2 hosts: 3 MiB of 8 MiB");
        assert_eq!(totals.note(CopyEvent::Sent { bytes: 1 << 20 }, at(3)), None);
        assert_eq!(totals.note(CopyEvent::Ended { worked: false }, at(3)), None);
        assert_eq!(totals.summary(at(3)), None);
        totals.note(CopyEvent::Ended { worked: true }, at(3));
        let line = totals.summary(at(4)).unwrap();
        insta::assert_snapshot!(line, @"copied the agent to 1 host: 4 MiB sent in 4.0 s");
    }
}

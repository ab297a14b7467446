//! Finds the multiple of a load at which a target breaks.
//!
//! [`LimitSearch`] decides which speed to replay next. It doubles the speed until the target
//! breaks, then bisects between that and what it still sustained. If the client itself was late,
//! the search ends, because that says nothing about the target.

use crate::outcome::Outcome;

/// The search ends when the load that breaks the target is at most this multiple of one that
/// doesn't.
const CLOSE: f64 = 1.1;
/// Minimum speed to try.
const SLOWEST: f64 = 1.0 / 64.0;

/// How a target coped with a load.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// It kept up.
    Held,
    /// It fell behind, or operations failed that succeeded at lower loads.
    Broke,
    /// The client itself was late.
    ClientLimited,
}

/// Searches for the limit of a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitSearch {
    max: f64,
    /// The highest load that was sustained.
    pub held: Option<f64>,
    /// The lowest load that was not.
    pub broke: Option<f64>,
    /// The load at which the client itself was late.
    pub client_limit: Option<f64>,
}

impl LimitSearch {
    /// Starts a search up to `max` times the load of the trace.
    pub const fn new(max: f64) -> Self {
        Self { max, held: None, broke: None, client_limit: None }
    }

    /// Returns the next speed to try, or `None` if the search is over.
    pub fn next_speed(&self) -> Option<f64> {
        if self.client_limit.is_some() {
            return None;
        }
        let speed = match (self.held, self.broke) {
            (None, None) => self.max.min(1.0),
            (Some(held), None) if held < self.max => (held * 2.0).min(self.max),
            (None, Some(broke)) if broke > SLOWEST => broke / 2.0,
            (Some(held), Some(broke)) if broke > held * CLOSE => (held * broke).sqrt(),
            _ => return None,
        };
        Some(rounded(speed))
    }

    /// Records the result for a speed.
    pub fn note(&mut self, speed: f64, judgement: Judgement) {
        match judgement {
            Judgement::Held => self.held = Some(self.held.map_or(speed, |held| held.max(speed))),
            Judgement::Broke => {
                self.broke = Some(self.broke.map_or(speed, |broke| broke.min(speed)));
            }
            Judgement::ClientLimited => self.client_limit = Some(speed),
        }
    }
}

/// Rounds to three digits, so that speeds can be read and typed.
fn rounded(speed: f64) -> f64 {
    let digits = 2 - speed.log10().floor() as i32;
    let scale = 10_f64.powi(digits);
    (speed * scale).round() / scale
}

impl Outcome {
    /// Judges how the target coped with this load. `first` is the lowest load that was tried; its
    /// failures have other reasons.
    pub fn judge(&self, first: Option<&Self>) -> Judgement {
        match self.behind {
            Some(behind) if behind.is_own_fault => return Judgement::ClientLimited,
            Some(_) => return Judgement::Broke,
            None => {}
        }
        let usual = first.unwrap_or(self).failed_share();
        // A difference of a thousandth may be chance.
        if self.failed_share() > usual + 0.001 { Judgement::Broke } else { Judgement::Held }
    }

    fn failed_share(&self) -> f64 {
        self.unexpected_errors() as f64 / self.ops.max(1) as f64
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
mod tests {
    use super::*;

    /// Searches a target that breaks at `limit`.
    fn search(limit: f64, max: f64) -> (LimitSearch, Vec<f64>) {
        let mut search = LimitSearch::new(max);
        let mut tried = Vec::new();
        while let Some(speed) = search.next_speed() {
            tried.push(speed);
            let judgement = if speed >= limit { Judgement::Broke } else { Judgement::Held };
            search.note(speed, judgement);
        }
        (search, tried)
    }

    #[test]
    fn a_limit_is_found_within_a_tenth() {
        let (found, tried) = search(5.3, 1000.0);
        assert_eq!(tried[..4], [1.0, 2.0, 4.0, 8.0]);
        let (held, broke) = (found.held.unwrap(), found.broke.unwrap());
        assert!(held < 5.3 && broke >= 5.3 && broke <= held * 1.1, "{tried:?}");
        let (weak, _) = search(0.3, 1000.0);
        let (held, broke) = (weak.held.unwrap(), weak.broke.unwrap());
        assert!(held < 0.3 && broke >= 0.3 && broke <= held * 1.1, "{weak:?}");
    }

    #[test]
    fn a_search_ends_at_the_maximum_at_nothing_and_at_the_limit_of_the_client() {
        let (strong, tried) = search(f64::INFINITY, 10.0);
        assert_eq!((strong.held, strong.broke), (Some(10.0), None));
        assert_eq!(tried, [1.0, 2.0, 4.0, 8.0, 10.0]);
        let (dead, tried) = search(0.0, 10.0);
        assert!(dead.held.is_none() && tried.len() < 10, "{tried:?}");
        let mut late = LimitSearch::new(10.0);
        late.note(1.0, Judgement::Held);
        late.note(2.0, Judgement::ClientLimited);
        assert_eq!((late.next_speed(), late.held, late.client_limit), (None, Some(1.0), Some(2.0)));
    }
}

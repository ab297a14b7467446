//! Where a server gives in: a load is raised until it degrades, breaks, or the limit is reached.
//!
//! [`Search`] names the next load to try and hears what came of it; it measures nothing itself. The
//! load, such as a number of clients, is doubled as long as all goes well. What went wrong is then
//! narrowed down between the last load that was borne and the first that was not, by halves.
//!
//! - A load *breaks* the server where a trial with it fails: an answer did not come in time, or was
//!   an error. Then the last load that was borne is tried again: where that fails, too, the server
//!   did not recover, and nothing further can be told of it.
//! - A load *degrades* it where the rate of some pass is below [`DEGRADED_SHARE`] of the best that
//!   the same pass had under less load, twice in a row.
//! - Where the client was at its own limit, a rate says nothing of the server, and is left out.
//! - It is *saturated* from the smallest load on that has [`SATURATED_SHARE`] of the best rate,
//!   where twice that load was borne and measured. That ends no search: what is saturated may
//!   still break.

use std::collections::BTreeMap;

/// Below this share of the best rate under less load, the server is degraded: no noise of a few
/// trials reaches as far, and no user would miss it.
pub const DEGRADED_SHARE: f64 = 0.8;

/// From this share of the best rate on, more load gained nothing to speak of.
pub const SATURATED_SHARE: f64 = 0.9;

/// What came of one load.
#[derive(Clone, Debug, PartialEq)]
pub enum Came {
    /// The rate of each pass, in any unit, in an order that is always the same; `None` where it
    /// says nothing of the server.
    Rates(Vec<Option<f64>>),
    /// A trial failed.
    Broken,
}

/// How a server gave in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// A pass slowed down: see [`DEGRADED_SHARE`].
    Degraded {
        /// Which, by its place among the rates.
        pass: usize,
        /// The smaller load with the best rate.
        best_at: u32,
    },
    /// A trial failed.
    Broken {
        /// A smaller load was borne again afterwards.
        recovered: bool,
    },
}

/// What a search found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// The largest load that was borne below the one that was not.
    pub borne: Option<u32>,
    /// The smallest load under which the server gave in, and how.
    pub gave_in: Option<(u32, How)>,
    /// From which load on each pass gained nothing.
    pub saturated_from: Vec<Option<u32>>,
    /// The smallest load with a rate that says nothing of the server.
    pub unsure_from: Option<u32>,
}

/// What is tried next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// A larger load.
    Up(u32),
    /// The same once more, since it was slow.
    Again(u32),
    /// What was borne before, after something broke.
    Recovery(u32),
    /// Between what was borne and what was not.
    Between(u32),
    /// Nothing.
    Done,
}

/// A search for the load under which a server gives in.
#[derive(Clone, Debug)]
pub struct Search {
    max: u32,
    next: Next,
    borne: Option<u32>,
    gave_in: Option<(u32, How)>,
    /// Rates of the loads that did not break it, the last of each.
    rates: BTreeMap<u32, Vec<Option<f64>>>,
}

impl Search {
    /// From one load to another, both of which may be tried; the first is at least 1.
    pub fn new(first: u32, max: u32) -> Self {
        let first = first.max(1);
        let max = max.max(first);
        Self { max, next: Next::Up(first), borne: None, gave_in: None, rates: BTreeMap::new() }
    }

    /// The load to try next; `None` when all is known.
    pub const fn next(&self) -> Option<u32> {
        match self.next {
            Next::Up(load) | Next::Again(load) | Next::Recovery(load) | Next::Between(load) => {
                Some(load)
            }
            Next::Done => None,
        }
    }

    /// Hears what came of the load that was to be tried.
    pub fn hear(&mut self, came: Came) {
        let Some(load) = self.next() else { return };
        let slow = match came {
            Came::Broken => return self.broke(load),
            Came::Rates(rates) => {
                let slow = self.slow(load, &rates);
                self.rates.insert(load, rates);
                slow
            }
        };
        match (self.next, slow) {
            (Next::Recovery(_), _) => {
                if let Some((_, How::Broken { recovered })) = &mut self.gave_in {
                    *recovered = true;
                }
            }
            (Next::Up(_), Some(_)) => {
                self.next = Next::Again(load);
                return;
            }
            (_, Some(how)) => self.gave_in = Some((load, how)),
            (_, None) => self.borne = Some(load),
        }
        self.go_on();
    }

    /// What is known so far.
    pub fn found(&self) -> Found {
        let passes = self.rates.values().map(Vec::len).min().unwrap_or(0);
        let saturated_from = (0..passes).map(|pass| self.saturated_from(pass)).collect();
        let unsure = |(_, rates): &(_, &Vec<Option<f64>>)| rates.iter().any(Option::is_none);
        let unsure_from = self.rates.iter().find(unsure).map(|(load, _)| *load);
        Found { borne: self.borne, gave_in: self.gave_in, saturated_from, unsure_from }
    }

    /// The rate of a pass under a load that was tried.
    pub fn rate(&self, load: u32, pass: usize) -> Option<f64> {
        self.rates.get(&load)?.get(pass).copied().flatten()
    }

    fn broke(&mut self, load: u32) {
        if let Next::Recovery(_) = self.next {
            self.next = Next::Done;
            return;
        }
        self.gave_in = Some((load, How::Broken { recovered: false }));
        self.next = self.borne.map_or(Next::Done, Next::Recovery);
    }

    fn go_on(&mut self) {
        let borne = self.borne.unwrap_or(0);
        self.next = match self.gave_in {
            None if borne >= self.max => Next::Done,
            None => Next::Up(borne.saturating_mul(2).clamp(1, self.max)),
            Some((load, _)) if load - borne <= 1 || borne == 0 => Next::Done,
            Some((load, _)) => Next::Between(borne + (load - borne) / 2),
        };
    }

    /// How a load is degraded, if it is.
    fn slow(&self, load: u32, rates: &[Option<f64>]) -> Option<How> {
        rates.iter().enumerate().find_map(|(pass, rate)| {
            let smaller = self.rates.range(..load).filter(|(at, _)| Some(**at) <= self.borne);
            let best = smaller.filter_map(|(at, _)| Some((*at, self.rate(*at, pass)?)));
            let (best_at, best) = best.max_by(|one, other| one.1.total_cmp(&other.1))?;
            ((*rate)? < best * DEGRADED_SHARE).then_some(How::Degraded { pass, best_at })
        })
    }

    fn saturated_from(&self, pass: usize) -> Option<u32> {
        let borne = self.borne?;
        let tried = self.rates.range(..=borne);
        let rates = || tried.clone().filter_map(|(at, _)| Some((*at, self.rate(*at, pass)?)));
        let best = rates().map(|(_, rate)| rate).max_by(f64::total_cmp)?;
        let (from, _) = rates().find(|(_, rate)| *rate >= best * SATURATED_SHARE)?;
        rates().any(|(at, _)| at >= from.saturating_mul(2)).then_some(from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Searches a server that is played by a function; tells the loads that were tried, too.
    fn searched(max: u32, mut server: impl FnMut(u32) -> Came) -> (Found, Vec<u32>) {
        let mut search = Search::new(1, max);
        let mut tried = Vec::new();
        while let Some(load) = search.next() {
            tried.push(load);
            search.hear(server(load));
            assert!(tried.len() < 100, "{tried:?}");
        }
        (search.found(), tried)
    }

    fn rates(one: f64) -> Came {
        Came::Rates(vec![Some(one)])
    }

    #[test]
    fn the_load_that_breaks_a_server_is_found_to_the_last_one() {
        for limit in 2..200 {
            let (found, tried) = searched(1_000, |load| match load {
                load if load >= limit => Came::Broken,
                load => rates(f64::from(load)),
            });
            let broken = Some((limit, How::Broken { recovered: true }));
            assert_eq!((found.borne, found.gave_in), (Some(limit - 1), broken), "{tried:?}");
            assert!(tried.len() < 32, "{tried:?}");
        }
    }

    #[test]
    fn a_server_that_does_not_recover_is_left_alone() {
        let mut is_dead = false;
        let (found, tried) = searched(1_000, |load| {
            is_dead |= load >= 40;
            if is_dead { Came::Broken } else { rates(1.0) }
        });
        assert_eq!(tried, [1, 2, 4, 8, 16, 32, 64, 32]);
        assert_eq!(found.borne, Some(32));
        assert_eq!(found.gave_in, Some((64, How::Broken { recovered: false })));
        // One that bears nothing at all.
        let (found, tried) = searched(9, |_| Came::Broken);
        let at_once = Some((1, How::Broken { recovered: false }));
        assert_eq!((found.borne, found.gave_in, tried), (None, at_once, vec![1]));
    }

    #[test]
    fn what_loses_a_fifth_of_its_best_is_degraded() {
        // The reads of seed 000: aggregate KB/s of 1, 2, 5 and 10 clients, by steps between.
        let read = |load| [24_799.0, 19_542.0, 19_000.0, 15_000.0, 12_183.0][load as usize - 1];
        let (found, tried) =
            searched(5, |load| Came::Rates(vec![Some(20_000.0), Some(read(load))]));
        let how = How::Degraded { pass: 1, best_at: 1 };
        assert_eq!((found.borne, found.gave_in), (Some(1), Some((2, how))));
        assert_eq!(tried, [1, 2, 2]);
        let (found, _) = searched(64, |load| rates(if load < 23 { 100.0 } else { 79.0 }));
        assert!(matches!(found.gave_in, Some((23, How::Degraded { pass: 0, .. }))), "{found:?}");
    }

    #[test]
    fn one_slow_trial_is_no_degradation() {
        let mut calls = 0;
        let (found, tried) = searched(8, |_| {
            calls += 1;
            rates(if calls == 3 { 10.0 } else { 100.0 })
        });
        assert_eq!((found.borne, found.gave_in), (Some(8), None));
        assert_eq!(tried, [1, 2, 4, 4, 8]);
    }

    #[test]
    fn what_gains_nothing_is_saturated_and_goes_on_to_the_limit() {
        let (found, tried) = searched(50, |load| rates(f64::from(load.min(7))));
        assert_eq!((found.borne, found.gave_in), (Some(50), None));
        assert_eq!(found.saturated_from, [Some(8)]);
        assert_eq!(tried, [1, 2, 4, 8, 16, 32, 50]);
        // What still rises, or was never tried with twice as much, is not.
        assert_eq!(searched(50, |load| rates(f64::from(load))).0.saturated_from, [None]);
        assert_eq!(searched(1, |_| rates(5.0)).0.saturated_from, [None]);
    }

    #[test]
    fn a_client_at_its_own_limit_says_nothing_of_the_server() {
        let (found, _) = searched(64, |load| match load {
            40.. => Came::Broken,
            8.. => Came::Rates(vec![None]),
            _ => rates(f64::from(load)),
        });
        assert_eq!(found.gave_in, Some((40, How::Broken { recovered: true })));
        assert_eq!((found.borne, found.unsure_from), (Some(39), Some(8)));
        assert_eq!(found.saturated_from, [None]);
    }

    #[test]
    fn what_breaks_below_the_first_break_counts() {
        // Slow from 20 on, dead from 40 on: it gave in at 20.
        let (found, _) = searched(64, |load| match load {
            40.. => Came::Broken,
            20.. => rates(50.0),
            _ => rates(100.0),
        });
        assert_eq!(found.borne, Some(19));
        assert!(matches!(found.gave_in, Some((20, How::Degraded { pass: 0, .. }))), "{found:?}");
    }
}

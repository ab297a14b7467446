//! Popularity by Zipf's law: rank r is drawn with a probability proportional to 1 / r^s.
//!
//! Rejection-inversion: the area below the continuous curve is inverted, and the few points that
//! don't belong to any rank are rejected. It needs no table, so a set of any size costs the same.
//! This is the only part of the crate that uses floats.
//!
//! **Source:** Hörmann, Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", ACM TOMACS 6(3), 1996.

use model::random::draw;

/// Zipf's law for a number of ranks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zipf {
    exponent: f64,
    /// Minimum: the area below the curve from 1 to 1.5, minus the weight of rank 1.
    least: f64,
    /// Maximum: the area up to half a rank beyond the last one.
    most: f64,
    ranks: u64,
}

impl Zipf {
    /// Creates the law for `ranks` ranks, with the exponent in hundredths.
    pub(crate) fn new(exponent_hundredths: u32, ranks: u64) -> Self {
        let exponent = f64::from(exponent_hundredths) / 100.0;
        let ranks = ranks.max(1);
        Self {
            exponent,
            least: area(1.5, exponent) - 1.0,
            most: area(ranks as f64 + 0.5, exponent),
            ranks,
        }
    }

    /// Draws a rank from 0 on; 0 is the most popular.
    pub(crate) fn draw_rank(&self, seed: u64) -> u64 {
        let mut index = 0;
        loop {
            index += 1;
            // Inversion: draw uniformly from the area below x^-s, and take the rank nearest to the
            // resulting x. Each rank has the area of its unit interval, which is at least its
            // weight because the curve is convex. A draw in the surplus is rejected. 53 bits are as
            // many as a float has.
            let uniform = (draw(seed, index) >> 11) as f64 / (1_u64 << 53) as f64;
            let at = self.most + uniform * (self.least - self.most);
            let rank = inverse_area(at, self.exponent).round().clamp(1.0, self.ranks as f64);
            // The surplus is at the left end of the interval; to the right of it is exactly the
            // weight.
            if at >= area(rank + 0.5, self.exponent) - rank.powf(-self.exponent) {
                return rank as u64 - 1;
            }
        }
    }
}

/// Integral of x^-s from 1 on: (x^(1-s) - 1) / (1 - s), or ln x if s is 1.
fn area(x: f64, exponent: f64) -> f64 {
    // exp_m1 and ln_1p stay precise near s = 1, where the quotient is 0 / 0.
    let log = x.ln();
    let power = 1.0 - exponent;
    if power.abs() < 1e-9 { log } else { (power * log).exp_m1() / power }
}

/// The inverse of [`area`]: the x up to which the curve has this area.
fn inverse_area(area: f64, exponent: f64) -> f64 {
    let power = 1.0 - exponent;
    if power.abs() < 1e-9 {
        area.exp()
    } else {
        // Rounding may result in an area slightly beyond what the curve encloses.
        ((power * area).max(-1.0).ln_1p() / power).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks must be drawn as often as the law requires, for exponents below, at and above 1.
    #[test]
    fn ranks_follow_the_law() {
        for hundredths in [0, 60, 100, 120, 250] {
            let zipf = Zipf::new(hundredths, 50);
            let mut counts = [0_u32; 50];
            for seed in 0..200_000 {
                counts[zipf.draw_rank(draw(7, seed)) as usize] += 1;
            }
            let weight = |rank: usize| (rank as f64 + 1.0).powf(-f64::from(hundredths) / 100.0);
            let total: f64 = (0..50).map(weight).sum();
            let chi: f64 = (0..50)
                .map(|rank| {
                    let expected = 2e5 * weight(rank) / total;
                    (f64::from(counts[rank]) - expected).powi(2) / expected
                })
                .sum();
            // Chi-squared with 49 degrees of freedom: one in 1000 seeds exceeds 85.4.
            assert!(chi < 85.4, "{hundredths}: {chi}");
        }
    }

    #[test]
    fn draws_from_sets_of_any_size() {
        assert_eq!(Zipf::new(120, 1).draw_rank(3), 0);
        let zipf = Zipf::new(60, 1 << 40);
        let ranks: Vec<u64> = (0..1000).map(|seed| zipf.draw_rank(draw(1, seed))).collect();
        assert!(ranks.iter().all(|rank| *rank < 1 << 40));
        assert!(ranks.iter().any(|rank| *rank > 1 << 38));
    }
}

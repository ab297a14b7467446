//! Popularity by Zipf's law: rank r is drawn with a probability proportional to 1 / r^s.
//!
//! Rejection-inversion: the area below the continuous curve is inverted, and the few points that
//! belong to no rank are refused. It needs no table, so a set of any size costs the same. This is
//! the one place of the crate that computes with floats.
//!
//! **Source:** Hörmann, Derflinger, "Rejection-inversion to generate variates from monotone
//! discrete distributions", ACM TOMACS 6(3), 1996.

use model::random::draw;

/// Zipf's law on a number of ranks.
#[derive(Clone, Copy, Debug)]
pub struct Zipf {
    exponent: f64,
    /// Area below the curve from 1 to x, where x is 1.5 less the weight of rank 1: its least.
    least: f64,
    /// The same to half a rank beyond the last one.
    most: f64,
    ranks: u64,
}

impl Zipf {
    /// Zipf's law with the exponent given in hundredths, on `ranks` ranks.
    pub fn new(exponent_hundredths: u32, ranks: u64) -> Self {
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
    pub fn draw_rank(&self, seed: u64) -> u64 {
        let mut index = 0;
        loop {
            index += 1;
            // Inversion: a uniform draw of the area below x^-s, and the rank nearest to its x. Each
            // rank has the area of its unit interval, which is at least its weight since the curve
            // is convex; a draw that falls into the surplus is refused. 53 bits, as many as a float
            // holds.
            let uniform = (draw(seed, index) >> 11) as f64 / (1_u64 << 53) as f64;
            let at = self.most + uniform * (self.least - self.most);
            let rank = inverse_area(at, self.exponent).round().clamp(1.0, self.ranks as f64);
            // The surplus lies at the left end of the interval: right of it is just the weight.
            if at >= area(rank + 0.5, self.exponent) - rank.powf(-self.exponent) {
                return rank as u64 - 1;
            }
        }
    }
}

/// The integral of x^-s from 1 on: (x^(1-s) - 1) / (1 - s), and ln x where s is 1.
fn area(x: f64, exponent: f64) -> f64 {
    // exp_m1 and ln_1p keep their digits near s = 1, where the quotient is 0 / 0.
    let (log, power) = (x.ln(), 1.0 - exponent);
    if power.abs() < 1e-9 { log } else { (power * log).exp_m1() / power }
}

/// The inverse of [`area`]: the x up to which there is that much.
fn inverse_area(area: f64, exponent: f64) -> f64 {
    let power = 1.0 - exponent;
    if power.abs() < 1e-9 {
        area.exp()
    } else {
        // Rounding may lead an area just beyond what the curve encloses.
        ((power * area).max(-1.0).ln_1p() / power).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As many of each rank as the law says, for laws below, at and above the harmonic one.
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
            // Chi-squared with 49 degrees of freedom: 85.4 is exceeded once in 1000 seeds.
            assert!(chi < 85.4, "{hundredths}: {chi}");
        }
    }

    #[test]
    fn sets_of_any_size_are_drawn_from_whole() {
        assert_eq!(Zipf::new(120, 1).draw_rank(3), 0);
        let zipf = Zipf::new(60, 1 << 40);
        let ranks: Vec<u64> = (0..1000).map(|seed| zipf.draw_rank(draw(1, seed))).collect();
        assert!(ranks.iter().all(|rank| *rank < 1 << 40));
        assert!(ranks.iter().any(|rank| *rank > 1 << 38));
    }
}

//! The ratio of two sums that are known part by part, with its interval.
//!
//! Consecutive operations are not independent: a stall makes all of a second slow. So a run is
//! divided into parts of a certain length, and the interval is based on the spread between parts,
//! as in the method of batch means. It is computed on the logarithm of the ratio, so that its lower
//! end is positive.
//!
//! **Source:** Cochran, "Sampling Techniques", 3rd edition, 6.4 (variance of a ratio estimate);
//! Law, "Simulation Modeling and Analysis", 9.5.3 (batch means).

/// The sums of a part: what was measured and the reference.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PartSum {
    /// Sum of what was measured.
    pub here: f64,
    /// Sum of the same things elsewhere.
    pub there: f64,
}

/// A ratio with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SumRatio {
    /// The sum here divided by the sum there.
    pub ratio: f64,
    /// Both ends of the interval; `None` for fewer than `PARTS_MIN` parts.
    pub interval: Option<(f64, f64)>,
}

/// Minimum number of parts for estimating their spread.
pub(crate) const PARTS_MIN: usize = 5;

/// Quantile of the normal distribution for 2.5 % at each end.
const NORMAL: f64 = 1.959_964;

/// Returns the ratio of the sums. Empty parts don't count. Returns `None` if there is nothing to
/// divide by.
pub fn ratio_of_sums(parts: &[PartSum]) -> Option<SumRatio> {
    let mut here = 0.0;
    let mut there = 0.0;
    let mut count = 0_usize;
    for part in parts {
        here += part.here;
        there += part.there;
        count += usize::from(part.there > 0.0);
    }
    if here <= 0.0 || there <= 0.0 {
        return None;
    }
    let ratio = here / there;
    if count < PARTS_MIN {
        return Some(SumRatio { ratio, interval: None });
    }
    let mut squares = 0.0;
    for part in parts {
        if part.there > 0.0 {
            squares += (part.here - ratio * part.there).powi(2);
        }
    }
    let n = count as f64;
    // Relative error of the ratio.
    let error = (squares * n / (n - 1.0)).sqrt() / here;
    let half = student_t(n - 1.0) * error;
    Some(SumRatio { ratio, interval: Some((ratio * (-half).exp(), ratio * half.exp())) })
}

/// Returns Student's t for 2.5 % at each end. From four degrees of freedom on, it is off by at most
/// 0.3 %.
///
/// **Source:** Abramowitz and Stegun, "Handbook of Mathematical Functions", 26.7.5.
fn student_t(freedom: f64) -> f64 {
    let z = NORMAL;
    let first = (z.powi(3) + z) / 4.0;
    let second = (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / 96.0;
    let third = (3.0 * z.powi(7) + 19.0 * z.powi(5) + 17.0 * z.powi(3) - 15.0 * z) / 384.0;
    z + first / freedom + second / freedom.powi(2) + third / freedom.powi(3)
}

#[cfg(test)]
mod tests {
    use model::random::draw;

    use super::*;

    fn parts(here: &[f64]) -> Vec<PartSum> {
        here.iter().map(|value| PartSum { here: *value, there: 10.0 }).collect()
    }

    #[test]
    #[allow(clippy::float_cmp)] // exact figures are the point
    fn gives_exact_or_no_interval() {
        let same = ratio_of_sums(&parts(&[20.0; 6])).unwrap();
        assert_eq!(same, SumRatio { ratio: 2.0, interval: Some((2.0, 2.0)) });
        let few = ratio_of_sums(&parts(&[20.0, 21.0, 22.0, 23.0])).unwrap();
        assert_eq!(few, SumRatio { ratio: 2.15, interval: None });
        assert_eq!(ratio_of_sums(&[]), None);
        assert_eq!(ratio_of_sums(&[PartSum { here: 1.0, there: 0.0 }]), None);
    }

    #[test]
    fn uses_student_interval_for_spread() {
        // Student's t for four degrees of freedom is 2.776.
        let spread = ratio_of_sums(&parts(&[17.5, 18.75, 20.0, 21.25, 22.5])).unwrap();
        let (low, high) = spread.interval.unwrap();
        let error = 2.776 * (15.625_f64 / 4.0 * 5.0).sqrt() / 100.0;
        assert!((low - 2.0 * (-error).exp()).abs() < 0.01, "{low}");
        assert!((high - 2.0 * error.exp()).abs() < 0.01, "{high}");
    }

    #[test]
    fn covers_ratio_in_95_percent() {
        let mut held = 0;
        for case in 0..1000 {
            let mut parts = Vec::new();
            for part in 0..20 {
                // Parts of different lengths, whose values differ by a factor of up to 3.
                let length = 1.0 + (draw(case, 2 * part) % 100) as f64 / 50.0;
                let factor = 0.5 + (draw(case, 2 * part + 1) % 1000) as f64 / 1000.0;
                parts.push(PartSum { here: 3.0 * length * factor, there: length });
            }
            let (low, high) = ratio_of_sums(&parts).unwrap().interval.unwrap();
            held += u32::from((low..=high).contains(&2.998_5));
        }
        assert!((930..=970).contains(&held), "{held} of 1000");
    }
}

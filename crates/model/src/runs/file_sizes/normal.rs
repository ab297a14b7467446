//! Quantiles of the normal distribution, with the same bits on every host.
//!
//! Hosts compute the sizes of files on their own, so they must agree on every byte. Libraries of
//! mathematical functions differ in the last digit; additions, multiplications, divisions and
//! square roots don't.

use std::f64::consts::{LN_2, LOG2_E, SQRT_2};

/// Returns the quantile of the standard normal distribution at the middle of slice `slice` of
/// `slices` equal ones. The relative error is below 2e-9.
///
/// **Source:** P. J. Acklam, "An algorithm for computing the inverse normal cumulative distribution
/// function", 2000.
pub(super) fn quantile(slice: u64, slices: u64) -> f64 {
    // The curve is symmetric, so compute the lower half.
    let mirrored = slices - 1 - slice;
    if slice > mirrored {
        return -quantile(mirrored, slices);
    }
    let share = (slice as f64 + 0.5) / slices as f64;
    if share < 0.024_25 {
        let root = (-2.0 * ln(share)).sqrt();
        let above = polynomial(
            root,
            &[
                -7.784_894_002_430_293e-3,
                -3.223_964_580_411_365e-1,
                -2.400_758_277_161_838,
                -2.549_732_539_343_734,
                4.374_664_141_464_968,
                2.938_163_982_698_783,
            ],
        );
        let below = polynomial(
            root,
            &[
                7.784_695_709_041_462e-3,
                3.224_671_290_700_398e-1,
                2.445_134_137_142_996,
                3.754_408_661_907_416,
                1.0,
            ],
        );
        return above / below;
    }
    let from_middle = share - 0.5;
    let square = from_middle * from_middle;
    let above = polynomial(
        square,
        &[
            -3.969_683_028_665_376e1,
            2.209_460_984_245_205e2,
            -2.759_285_104_469_687e2,
            1.383_577_518_672_69e2,
            -3.066_479_806_614_716e1,
            2.506_628_277_459_239,
        ],
    );
    let below = polynomial(
        square,
        &[
            -5.447_609_879_822_406e1,
            1.615_858_368_580_409e2,
            -1.556_989_798_598_866e2,
            6.680_131_188_771_972e1,
            -1.328_068_155_288_572e1,
            1.0,
        ],
    );
    from_middle * above / below
}

/// Evaluates a polynomial whose coefficients begin with that of the highest power.
fn polynomial(x: f64, coefficients: &[f64]) -> f64 {
    coefficients.iter().fold(0.0, |sum, coefficient| sum * x + coefficient)
}

/// Number of terms that both series need for all digits of a float.
const TERMS: u32 = 16;

/// Returns e to the power of `x`, which is between -700 and 700.
pub(super) fn exp(x: f64) -> f64 {
    // A power of two, and a rest so small that its series converges quickly.
    let power = (x * LOG2_E).round();
    let rest = x - power * LN_2;
    let (mut sum, mut term) = (1.0, 1.0);
    for number in 1..=TERMS {
        term *= rest / f64::from(number);
        sum += term;
    }
    sum * f64::from_bits(((power as i64 + 1023) as u64) << 52)
}

/// Returns the natural logarithm of a positive number.
fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut power = (bits >> 52) as f64 - 1023.0;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > SQRT_2 {
        mantissa /= 2.0;
        power += 1.0;
    }
    // ln m = 2 artanh((m - 1) / (m + 1)), whose series has only odd powers.
    let quotient = (mantissa - 1.0) / (mantissa + 1.0);
    let (mut sum, mut odd_power) = (0.0, quotient);
    for number in 0..TERMS {
        sum += odd_power / f64::from(2 * number + 1);
        odd_power *= quotient * quotient;
    }
    2.0 * sum + power * LN_2
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_close(value: f64, expected: f64, error: f64) -> bool {
        (value - expected).abs() <= error * expected.abs()
    }

    #[test]
    fn quantiles_match_published_tables() {
        // The middle of the last of n slices is 1 - 1 / 2n.
        for (slices, expected) in [
            (1, 0.0),
            (20, 1.959_963_984_540_054),
            (50, 2.326_347_874_040_841),
            (500, 3.090_232_306_167_813),
            (500_000, 4.753_424_308_822_899),
            (500_000_000, 5.997_807_015_007_774),
        ] {
            let upper = quantile(slices - 1, slices);
            assert!(is_close(upper, expected, 2e-9), "{slices}: {upper}");
            assert_eq!(quantile(0, slices).abs().to_bits(), upper.abs().to_bits());
        }
        // Slice 2 of 10 ends at 0.3, and its middle is 0.25.
        assert!(is_close(quantile(2, 10), -0.674_489_750_196_082, 2e-9));
    }

    #[test]
    fn series_match_library_functions() {
        for step in -600..=600 {
            let x = f64::from(step) * 0.1001;
            assert!(is_close(exp(x), x.exp(), 1e-14), "{x}");
            assert!((ln(x.exp()) - x).abs() < 1e-13, "{x}");
        }
    }
}

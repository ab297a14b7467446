//! Draws service times: how long a reply is held back.
//!
//! Integers only, so that a seed gives the same nanoseconds on every machine.

use model::server_fault::ServiceTime;

use crate::clock::mix;

/// ln 2 as a fraction of 2^32.
const LN_2: u128 = 2_977_044_472;
const LOG_BITS: u32 = 24;

/// Draws a time in nanoseconds; `random` advances if the model is random.
pub(super) fn draw_time(time: ServiceTime, random: &mut u64) -> u64 {
    match time {
        ServiceTime::Fixed { time_ns } => time_ns,
        ServiceTime::Uniform { min_ns, max_ns } => {
            *random = mix(*random);
            let span = u128::from(max_ns.saturating_sub(min_ns)) + 1;
            min_ns + ((u128::from(*random) * span) >> 64) as u64
        }
        ServiceTime::Exponential { mean_ns } => {
            *random = mix(*random);
            exponential(*random, mean_ns)
        }
    }
}

/// The inverse of the exponential distribution: `-mean * ln(random / 2^64)`, rounded down.
/// **Source:** binary logarithm by repeated squaring, Knuth, TAOCP volume 1, section 1.2.2.
fn exponential(random: u64, mean_ns: u64) -> u64 {
    let random = random.max(1);
    let zeros = random.leading_zeros();
    let mut mantissa = random << zeros;
    let mut log = 0_u64;
    for _ in 0..LOG_BITS {
        let square = (u128::from(mantissa) * u128::from(mantissa)) >> 63;
        let carries = square >> 64 != 0;
        mantissa = if carries { square >> 1 } else { square } as u64;
        log = log << 1 | u64::from(carries);
    }
    let negative_log = (u64::from(zeros + 1) << LOG_BITS) - log;
    let product = u128::from(mean_ns) * u128::from(negative_log);
    u64::try_from((product * LN_2) >> (LOG_BITS + 32)).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(time: ServiceTime, count: usize) -> Vec<u64> {
        let mut random = 7;
        (0..count).map(|_| draw_time(time, &mut random)).collect()
    }

    #[test]
    fn fixed_times_ask_no_chance() {
        let mut random = 7;
        let time_ns = draw_time(ServiceTime::Fixed { time_ns: 5 }, &mut random);
        assert_eq!((time_ns, random), (5, 7));
    }

    #[test]
    fn uniform_times_fill_their_range() {
        let times = draws(ServiceTime::Uniform { min_ns: 100, max_ns: 199 }, 10_000);
        assert_eq!((times.iter().min(), times.iter().max()), (Some(&100), Some(&199)));
        let mean = times.iter().sum::<u64>() / 10_000;
        assert!((147..=152).contains(&mean), "{mean}");
        assert_eq!(draws(ServiceTime::Uniform { min_ns: 9, max_ns: 3 }, 1), [9]);
        let widest = ServiceTime::Uniform { min_ns: 0, max_ns: u64::MAX };
        assert_ne!(draws(widest, 1), [0]);
    }

    #[test]
    fn draws_exponential_service_times() {
        let mut times = draws(ServiceTime::Exponential { mean_ns: 1_000_000 }, 100_000);
        let mean = times.iter().sum::<u64>() / 100_000;
        assert!((990_000..1_010_000).contains(&mean), "{mean}");
        times.sort_unstable();
        // The median is ln 2 times the mean, and one in a thousand is above ln 1000 times the mean.
        assert!((683_000..703_000).contains(&times[50_000]), "{}", times[50_000]);
        assert!((6_600_000..7_250_000).contains(&times[99_900]), "{}", times[99_900]);
    }

    #[test]
    fn known_points_of_the_exponential() {
        assert_eq!(exponential(1 << 63, 1_000_000), 693_147);
        assert_eq!(exponential(1 << 62, 1_000_000), 1_386_294);
        assert_eq!(exponential(u64::MAX, 1_000_000), 0);
        assert_eq!(exponential(0, 1_000_000), 44_361_419);
        assert_eq!(exponential(0, u64::MAX), u64::MAX);
    }
}

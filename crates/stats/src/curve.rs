//! A load curve: response time over throughput, from the lightest load point to the heaviest.
//!
//! A [`LoadPoint`] of a [`Curve`] is *sustained* if nearly all offered ops were completed. Only
//! sustained points that satisfy the rules count for peak, overall response time and knee. The
//! rules follow those of established benchmarks, but the results are not results of those
//! benchmarks.
//!
//! **Source:** run and reporting rules of SPEC SFS 1.1 to SPECstorage 2020, as published.

mod bound;
mod compared;
mod knee;
mod point;
mod power;

pub use bound::{bound_search, steps_to_load};
pub use compared::{BoundedValue, CurvesCompared, PAIRS_MIN, RATIO_CONFIDENCE, TimePair};
pub use knee::Knee;
pub use point::{LoadPoint, PointStatus, RuleViolation};

/// Minimum share of the scheduled ops for a sustained load. The margin is twenty times the random
/// variation of 10,000 arrivals.
///
/// **Source:** SPECstorage 2020 run rules: achieved at least 95 % over all clients.
pub const SUSTAINED_SHARE_MIN: f64 = 0.95;

/// Maximum deviation of an op's share from the request, in percentage points.
///
/// **Source:** SPEC SFS 3.0: within 1.5 points.
pub const MIX_POINTS_MAX: f64 = 1.5;

/// Minimum number of ops for checking shares. A whole block of an op mix, in which requests have
/// exactly the requested shares, has about 13,000 calls, and READ requests of up to 17 calls change
/// the share of half as many by one point.
pub const MIX_OPS_MIN: u64 = 15_000;

/// Maximum share of failed calls, relative to the successful ones.
///
/// **Source:** SPEC SFS 3.0: less than 1 %.
pub const FAILED_SHARE_MAX: f64 = 0.01;

/// Minimum share of its part of the offered load that each client must complete.
///
/// **Source:** SPECstorage 2020 run rules: each process at least 75 % of its rate.
pub const CLIENT_SHARE_MIN: f64 = 0.75;

/// Maximum change of the same server's peak between curves, as a share.
///
/// **Source:** SPECstorage 2020 run rules, margins of a repeated measurement: peak below 1 %.
pub(crate) const PEAK_MARGIN: f64 = 0.01;

/// Load points ordered by requested load.
#[derive(Clone, Debug, PartialEq)]
pub struct Curve {
    points: Vec<LoadPoint>,
}

impl Curve {
    /// Creates a curve by sorting load points by their requested load.
    pub fn new(mut points: Vec<LoadPoint>) -> Self {
        points.sort_by_key(|point| point.requested_per_s);
        Self { points }
    }

    /// Returns all load points, lightest first.
    pub fn points(&self) -> &[LoadPoint] {
        &self.points
    }

    /// Returns the valid load point with the highest throughput.
    pub fn peak(&self) -> Option<&LoadPoint> {
        self.counting().max_by(|one, other| one.achieved_per_s.total_cmp(&other.achieved_per_s))
    }

    /// Returns the load points below the peak that are not valid, which invalidate the curve.
    pub fn holes(&self) -> Vec<&LoadPoint> {
        let peak = self.peak_request();
        self.points
            .iter()
            .filter(|point| {
                point.requested_per_s < peak && point.status() != PointStatus::Sustained
            })
            .collect()
    }

    /// Returns the lightest load above the peak that was not sustained.
    pub fn too_much(&self) -> Option<&LoadPoint> {
        let peak = self.peak_request();
        self.points
            .iter()
            .find(|point| point.requested_per_s > peak && point.status() == PointStatus::Short)
    }

    /// Returns the load requested at the peak, or 0 if nothing was sustained.
    fn peak_request(&self) -> u64 {
        self.peak().map_or(0, |peak| peak.requested_per_s)
    }

    /// Returns the overall response time in nanoseconds: the area under mean response time over
    /// throughput, from the first valid load point to the peak, divided by the peak. The range
    /// below the first load point is left out, since there is no measured origin. Returns `None`
    /// for fewer than two points.
    ///
    /// **Source:** SPECstorage 2020 reporting rules, 5.4; the area consists of trapezoids.
    pub fn overall_ns(&self) -> Option<f64> {
        let at = self.by_throughput();
        if at.len() < 2 {
            return None;
        }
        let (peak, _) = *at.last()?;
        let mut area = 0.0;
        for pair in at.windows(2) {
            area += (pair[1].0 - pair[0].0) * f64::midpoint(pair[0].1, pair[1].1);
        }
        Some(area / peak)
    }

    /// Finds the throughput from which on response times rise steeply.
    pub fn knee(&self) -> Knee {
        let peak = self.peak().map_or(0.0, |peak| peak.achieved_per_s);
        let short = self.too_much().map(|point| point.offered_per_s);
        knee::find(&self.by_throughput(), peak, short)
    }

    /// Returns the heaviest valid load point that satisfies a bound along with all lighter ones.
    pub fn heaviest_within(&self, keeps: impl Fn(&LoadPoint) -> bool) -> Option<&LoadPoint> {
        let mut heaviest = None;
        for point in &self.points {
            if point.status() != PointStatus::Sustained || !keeps(point) {
                break;
            }
            heaviest = Some(point);
        }
        heaviest
    }

    fn counting(&self) -> impl Iterator<Item = &LoadPoint> {
        self.points.iter().filter(|point| point.status() == PointStatus::Sustained)
    }

    /// Returns throughput and mean response time of all valid points, ordered by throughput.
    fn by_throughput(&self) -> Vec<(f64, f64)> {
        let mut at: Vec<_> =
            self.counting().map(|point| (point.achieved_per_s, point.mean_ns as f64)).collect();
        at.sort_by(|one, other| one.0.total_cmp(&other.0));
        at
    }
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact figures are the point
pub(crate) mod tests {
    use super::*;

    /// Returns a point that satisfies all rules.
    pub(crate) fn point(requested_per_s: u64, achieved_per_s: f64, mean_ns: u64) -> LoadPoint {
        LoadPoint {
            requested_per_s,
            offered_per_s: requested_per_s as f64,
            achieved_per_s,
            mean_ns,
            ..LoadPoint::missing(0, String::new())
        }
        .with_figure()
    }

    /// Returns a server with exponential service times of 1 ms: 1 / (1 - load / 1000) ms.
    fn queue(loads: impl IntoIterator<Item = u64>) -> Curve {
        let of = |load: u64| match load {
            1_000.. => point(load, 1_000.0, 900_000_000),
            load => point(load, load as f64, 1_000_000_000 / (1_000 - load)),
        };
        Curve::new(loads.into_iter().map(of).collect())
    }

    #[test]
    fn computes_overall_response_time() {
        // 100..300 at 1 ms, then up to 3 ms at 400: 200 x 1 + 100 x 2 = 400 over 400.
        let curve = Curve::new(vec![
            point(300, 300.0, 1_000_000),
            point(100, 100.0, 1_000_000),
            point(400, 400.0, 3_000_000),
            point(500, 410.0, 900_000_000),
        ]);
        assert_eq!(curve.overall_ns(), Some(1_000_000.0));
        assert_eq!(curve.peak().unwrap().requested_per_s, 400);
        assert_eq!(curve.too_much().unwrap().requested_per_s, 500);
        assert!(curve.holes().is_empty());
        assert_eq!(Curve::new(vec![point(1, 1.0, 5)]).overall_ns(), None);
    }

    #[test]
    fn excludes_unsustained_peak() {
        let curve = queue((1..=12).map(|n| n * 100));
        let peak = curve.peak().unwrap();
        // A load of 1000 is the server's capacity; its queue never empties.
        assert_eq!((peak.requested_per_s, peak.status()), (1_000, PointStatus::Sustained));
        assert_eq!(curve.too_much().unwrap().requested_per_s, 1_100);
        let broken = Curve::new(vec![point(100, 80.0, 1), point(200, 199.0, 1)]);
        assert_eq!(broken.holes().len(), 1);
        assert_eq!(Curve::new(vec![point(100, 80.0, 1)]).peak(), None);
    }

    #[test]
    fn finds_bound_predicted_by_queueing() {
        // 1 / (1 - load) <= 5 up to 80 %.
        let curve = queue((1..=12).map(|n| n * 100));
        let under = |most_ns| curve.heaviest_within(|point| point.mean_ns <= most_ns);
        assert_eq!(under(5_000_000).unwrap().requested_per_s, 800);
        assert_eq!(under(4_999_999).unwrap().requested_per_s, 700);
        assert_eq!(under(1_000_000), None);
    }
}

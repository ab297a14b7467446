//! Pictures of values over time, for pages.
//!
//! [`OverTime`] is the main type: lines of points over the duration of a replay or trace.
//! Times have a logarithmic axis, counts a linear one from 0.

use model::units::Nanos;

use super::{
    ChartText, Dot, DotKind, Picture, Plot, SERIES_MAX, Series, Tick, TimeAxis, describe_series,
    even_ticks,
};

/// Maximum number of points per line; more would hide each other on a phone.
const POINTS_MAX: usize = 40;

/// Scale of the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Times in nanoseconds.
    Times,
    /// Numbers from 0.
    Counts,
}

/// Picture of values over time.
#[derive(Debug)]
pub struct OverTime {
    /// Anchor for links; unique within the page.
    pub id: String,
    pub title: String,
    pub scale: Scale,
    /// Lines. Only as many are drawn as there are colors.
    pub lines: Vec<TimeLine>,
    /// Time to mark.
    pub event: Option<Event>,
    /// Explanations below the picture.
    pub notes: Vec<String>,
}

/// Named point in time.
#[derive(Debug)]
pub struct Event {
    /// Nanoseconds since the beginning.
    pub at_ns: u64,
    /// Label of the mark.
    pub name: String,
}

/// Line of a picture.
#[derive(Debug)]
pub struct TimeLine {
    /// Name in the legend.
    pub name: String,
    /// Points in order of time.
    pub points: Vec<TimePoint>,
}

/// Value at a point in time.
#[derive(Clone, Copy, Debug)]
pub struct TimePoint {
    /// Nanoseconds since the beginning.
    pub at_ns: u64,
    /// Nanoseconds or a count.
    pub value: u64,
}

impl OverTime {
    /// Draws the picture; `None` if there is nothing to draw.
    pub fn picture(mut self) -> Option<Picture> {
        let mut end_ns = 0;
        let mut least = u64::MAX;
        let mut most = 0;
        for line in &mut self.lines {
            thin_out(&mut line.points);
            for point in &line.points {
                end_ns = end_ns.max(point.at_ns);
                least = least.min(point.value);
                most = most.max(point.value);
            }
        }
        if end_ns == 0 || most == 0 {
            return None;
        }
        let (divisor_ns, unit) = match end_ns {
            short if short < 2_000_000_000 => (1e6, "ms"),
            middle if middle < 300_000_000_000 => (1e9, "s"),
            _ => (60e9, "min"),
        };
        let x_at = |at_ns: u64| at_ns as f64 / end_ns as f64 * 100.0;
        let values = Values::new(self.scale, least, most);
        let mut series = Vec::new();
        for line in self.lines.iter().take(SERIES_MAX) {
            let mut dots = Vec::new();
            for point in &line.points {
                dots.push(Dot {
                    x: x_at(point.at_ns),
                    y: values.at(point.value),
                    reach: None,
                    trials: Vec::new(),
                    standing: DotKind::Counts,
                    text: format!("{} at {}", values.text(point.value), Nanos(point.at_ns)),
                });
            }
            series.push(Series { name: line.name.clone(), dots, is_joined: true });
        }
        let about = ChartText {
            id: self.id,
            title: self.title.clone(),
            description: describe_series(&series),
            unit: "",
        };
        let plot = Plot {
            about,
            x_ticks: even_ticks(end_ns as f64 / divisor_ns),
            x_name: format!("time, {unit}"),
            y_ticks: values.ticks(),
            upright: self.event.map(|event| (x_at(event.at_ns.min(end_ns)), event.name)),
            series,
        };
        Some(plot.picture(self.title, self.notes))
    }
}

/// Vertical axis.
enum Values {
    Times(TimeAxis),
    Counts(f64),
}

impl Values {
    fn new(scale: Scale, least: u64, most: u64) -> Self {
        match scale {
            Scale::Times => Self::Times(TimeAxis::new(least, most)),
            Scale::Counts => Self::Counts(most as f64 * 1.02),
        }
    }

    fn at(&self, value: u64) -> f64 {
        match self {
            Self::Times(axis) => axis.at(value),
            Self::Counts(end) => value as f64 / end * 100.0,
        }
    }

    fn ticks(&self) -> Vec<Tick> {
        match self {
            Self::Times(axis) => axis.ticks(),
            Self::Counts(end) => even_ticks(*end),
        }
    }

    fn text(&self, value: u64) -> String {
        match self {
            Self::Times(_) => Nanos(value).to_string(),
            Self::Counts(_) => value.to_string(),
        }
    }
}

/// Keeps only the largest of every few points, so that no stall is lost.
fn thin_out(points: &mut Vec<TimePoint>) {
    let each = points.len().div_ceil(POINTS_MAX);
    if each <= 1 {
        return;
    }
    let kept: Vec<_> = points
        .chunks(each)
        .filter_map(|group| group.iter().copied().max_by_key(|point| point.value))
        .collect();
    *points = kept;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn picture(points: &[TimePoint], scale: Scale) -> Option<String> {
        let line = TimeLine { name: "here".to_owned(), points: points.to_vec() };
        let drawn = OverTime {
            id: "times".to_owned(),
            title: "Response time".to_owned(),
            scale,
            lines: vec![line],
            event: Some(Event { at_ns: 500, name: "behind".to_owned() }),
            notes: Vec::new(),
        };
        Some(drawn.picture()?.svg.into_string())
    }

    #[test]
    fn shows_stall_at_any_resolution() {
        let mut points = Vec::new();
        for number in 0..1000 {
            let value = if number == 333 { 7_000_000 } else { 1_000 };
            points.push(TimePoint { at_ns: number * 1_000_000, value });
        }
        let svg = picture(&points, Scale::Times).unwrap();
        assert_eq!(svg.matches("7.00 ms at 333 ms").count(), 2, "{svg}");
        assert!(svg.contains("behind") && svg.contains("here"));
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert!(picture(&[], Scale::Times).is_none());
        assert!(picture(&[TimePoint { at_ns: 5, value: 0 }], Scale::Counts).is_none());
    }
}

//! The headline of media: how many streams had all their frames in time.
//!
//! [`headlines`] returns a sentence for each of the first few results. The figures are those of the
//! trial with the most late frames, since one late frame is a visible fault.

use model::FrameDelivery;
use model::units::{Nanos, Size};

use super::lead::qualify_judged;
use crate::humanize::{counted, grouped};
use crate::table::{Row, Sheet};

/// Maximum number of results to describe; the table has the others.
const ROWS_MAX: usize = 4;

/// Describes the results whose ops are frames with deadlines.
pub(super) fn headlines(sheet: &Sheet<'_>) -> Vec<String> {
    let rows: Vec<&Row<'_>> =
        sheet.rows.iter().filter(|row| row.judged.frames.is_some() && row.counts()).collect();
    let is_alone = rows.len() == 1;
    let mut sentences = Vec::new();
    for row in rows.iter().take(ROWS_MAX) {
        let Some(frames) = &row.judged.frames else { continue };
        let name = if is_alone { String::new() } else { format!("{}: ", sheet.name(row)) };
        sentences.push(format!("{name}{}.", describe(row, frames)));
    }
    if let more @ 1.. = rows.len().saturating_sub(ROWS_MAX) {
        sentences.push(format!("The table has {more} more."));
    }
    sentences
}

/// `4 streams at 24 frames/s without a late frame (480 frames of 48 MiB, 4.83 GB/s)`.
fn describe(row: &Row<'_>, frames: &FrameDelivery) -> String {
    let spec = &row.run.spec;
    let rate = row.judged.rate.map(|rate| format!(", {}", row.judged.shown(rate.median)));
    let about = format!(
        "{} frames of {}{}",
        grouped(frames.frames),
        Size(spec.file_size_bytes),
        rate.unwrap_or_default()
    );
    let qualified = qualify_judged(&row.judged);
    let streams = counted(frames.streams as usize, "stream");
    let frame_rate = spec.media.frame_rate;
    if frames.late_frames == 0 {
        return format!(
            "{streams} at {frame_rate} frames/s without a late frame ({about}){qualified}"
        );
    }
    let worst = match frames.worst_lateness_ns {
        0 => String::new(),
        worst_ns => format!(", by up to {}", Nanos(worst_ns)),
    };
    format!(
        "{} of {streams} at {frame_rate} frames/s without a late frame: {} were late{worst} \
         ({about}){qualified}",
        frames.good_streams(),
        counted(frames.late_frames as usize, "frame"),
    )
}

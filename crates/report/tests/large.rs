//! Campaigns of many runs: every form of the report holds them.

mod campaigns;

use model::{BackendKind, Campaign, RunSpec, Workload};
use report::{Format, render};

/// A campaign with a factor that has a level of its own in every run, and three with a few.
fn campaign(runs: u32) -> Campaign {
    let specs = (0..runs).map(|index| {
        let spec = campaigns::spec("posix", BackendKind::Posix, Workload::Mixed);
        let spec = RunSpec {
            file_size_bytes: (u64::from(index) + 1) << 20,
            workers: 1 + index % 7,
            io_size_bytes: 4096 << (index % 5),
            ..spec
        };
        (spec, 5 + u64::from(index % 11), 3)
    });
    campaigns::made(specs.collect())
}

#[test]
fn every_form_holds_thousands_of_runs() {
    let campaign = campaign(1_500);
    for format in Format::ALL {
        let text = render(&campaign, format);
        let least = match format {
            Format::Bonnie | Format::Iozone | Format::Seed | Format::Sar => 0,
            _ => 1_500,
        };
        let rows = text.lines().filter(|line| line.contains("posix")).count();
        // JSON is one line, and a page may show a part of the rows in tables.
        let one_line = matches!(format, Format::Json | Format::Html);
        assert!(rows >= least || (one_line && text.len() > 100_000), "{}: {rows}", format.name());
    }
}

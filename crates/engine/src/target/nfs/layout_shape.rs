//! The shape of layouts: how many mirrors, stripes and data servers they have, and whether that is
//! what the run requests of the in-memory server.

use std::collections::BTreeSet;

use model::units::Size;
use model::{Caveat, CaveatCode, NfsSettings};
use nfs_client::pnfs::FileLayout;

/// How a file is divided among data servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Shape {
    mirrors: u32,
    /// Stripes of each mirror.
    stripes: u32,
    /// Size of a stripe unit in bytes; `None` without stripes.
    unit_bytes: Option<u64>,
}

/// The shapes of the layouts of a pass, and the data servers that these use.
#[derive(Clone, Debug, Default)]
pub(super) struct LayoutShapes {
    shapes: BTreeSet<Shape>,
    /// Their numbers among all data servers of the target.
    servers: BTreeSet<u32>,
}

impl LayoutShapes {
    /// Adds layouts that refer to data servers by their numbers.
    pub(super) fn add<'l>(&mut self, layouts: impl Iterator<Item = &'l FileLayout>) {
        for layout in layouts {
            let Some(first) = layout.mirrors.first() else { continue };
            self.shapes.insert(Shape {
                mirrors: layout.mirrors.len() as u32,
                stripes: first.stripes.len() as u32,
                unit_bytes: first.striping.unit_bytes(),
            });
            let stripes = layout.mirrors.iter().flat_map(|mirror| &mirror.stripes);
            self.servers.extend(stripes.map(|stripe| stripe.server));
        }
    }

    /// Describes them; `None` without layouts.
    pub(super) fn describe(&self) -> Option<String> {
        let count = |number: usize, noun: &str| {
            if number == 1 { format!("1 {noun}") } else { format!("{number} {noun}s") }
        };
        let shown = self.shapes.iter().map(|shape| {
            let mirrors = count(shape.mirrors as usize, "mirror");
            match shape.unit_bytes {
                Some(unit) => format!("{mirrors} of {} stripes of {}", shape.stripes, Size(unit)),
                None => format!("{mirrors} without stripes"),
            }
        });
        let shown: Vec<_> = shown.collect();
        let used = count(self.servers.len(), "data server");
        (!shown.is_empty()).then(|| format!("{} on {used}", shown.join(", ")))
    }

    /// Raises a caveat if the layouts are not as the run requests.
    pub(super) fn check(&self, wanted: &NfsSettings) -> Option<Caveat> {
        let differs = |shape: &Shape| {
            let mirrors = wanted.mirrors.unwrap_or(shape.mirrors);
            let unit_bytes = wanted.stripe_unit.map(u64::from);
            let stripes = match (wanted.data_servers, unit_bytes) {
                (_, Some(0)) => 1,
                (Some(servers), Some(_)) => servers / mirrors.max(1),
                _ => shape.stripes,
            };
            let has_unit =
                shape.stripes == 1 || unit_bytes.is_none_or(|unit| Some(unit) == shape.unit_bytes);
            shape.mirrors != mirrors || shape.stripes != stripes || !has_unit
        };
        if !self.shapes.iter().any(differs) {
            return None;
        }
        let mut requested = Vec::new();
        requested.extend(wanted.data_servers.map(|count| format!("data_servers {count}")));
        let unit = wanted.stripe_unit.map(|bytes| Size(bytes.into()));
        requested.extend(unit.map(|unit| format!("stripe_unit {unit}")));
        requested.extend(wanted.mirrors.map(|count| format!("mirrors {count}")));
        let found = self.describe().unwrap_or_default();
        let evidence = format!("requested {}, but the layouts have {found}", requested.join(", "));
        Some(CaveatCode::OptionNotEffective.because(evidence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shapes(mirrors: u32, stripes: u32, unit_bytes: u64, servers: u32) -> LayoutShapes {
        let unit_bytes = (stripes > 1).then_some(unit_bytes);
        let shape = Shape { mirrors, stripes, unit_bytes };
        LayoutShapes { shapes: [shape].into(), servers: (0..servers).collect() }
    }

    fn wanted(data_servers: u32, stripe_unit: u32, mirrors: u32) -> NfsSettings {
        NfsSettings {
            data_servers: Some(data_servers),
            stripe_unit: Some(stripe_unit),
            mirrors: Some(mirrors),
            ..NfsSettings::default()
        }
    }

    #[test]
    fn describes_mirrors_and_stripes() {
        let shown = shapes(2, 3, 64 << 10, 6).describe();
        assert_eq!(shown.as_deref(), Some("2 mirrors of 3 stripes of 64 KiB on 6 data servers"));
        let shown = shapes(1, 1, 0, 1).describe();
        assert_eq!(shown.as_deref(), Some("1 mirror without stripes on 1 data server"));
        assert_eq!(LayoutShapes::default().describe(), None);
    }

    #[test]
    fn reports_layouts_of_other_shape() {
        let unit = 64 << 10;
        let striped = shapes(2, 3, unit, 6);
        for asked in [wanted(6, unit as u32, 2), wanted(7, unit as u32, 2)] {
            assert_eq!(striped.check(&asked), None, "{asked:?}");
        }
        assert_eq!(striped.check(&NfsSettings::default()), None);
        let only_mirrors = NfsSettings { mirrors: Some(1), ..NfsSettings::default() };
        for asked in [wanted(6, 4096, 2), wanted(6, unit as u32, 1), wanted(6, 0, 2), only_mirrors]
        {
            let caveat = striped.check(&asked).expect("a caveat");
            assert_eq!(caveat.code, CaveatCode::OptionNotEffective);
        }
        // One data server for each mirror leaves nothing to stripe over.
        assert_eq!(shapes(2, 1, 0, 2).check(&wanted(2, 4096, 2)), None);
        assert_eq!(shapes(1, 1, 0, 1).check(&wanted(4, 0, 1)), None);
        let evidence = shapes(1, 1, 0, 1).check(&wanted(4, 4096, 2)).unwrap().evidence;
        assert!(evidence.starts_with("requested data_servers 4, stripe_unit 4 KiB, mirrors 2"));
        assert!(evidence.ends_with("have 1 mirror without stripes on 1 data server"));
    }
}

//! The table of floors of `docs/design/house.md`, parsed.
//!
//! Principal type: [`House`]. The page is the only place where the arrows are written; a row that
//! can't be understood is an error, so that a typing slip there can't open a door.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, bail, ensure};

use crate::doctable;

const COLUMNS: [&str; 4] = ["floor", "crate", "what it is", "may use"];

/// The crates that a crate may depend on.
#[derive(Debug, PartialEq, Eq)]
pub enum Uses {
    /// Every crate of the house.
    All,
    /// These and no others.
    Only(BTreeSet<String>),
}

/// One row of the table.
#[derive(Debug)]
pub struct Room {
    /// Height; arrows point to lower floors, or stay where the table names them.
    pub floor: u8,
    /// Whether it must hold no clock, socket, file, environment or thread.
    pub pure: bool,
    /// The crates that it may use.
    pub uses: Uses,
}

/// The whole table, by crate name.
#[derive(Debug)]
pub struct House {
    /// Rows by crate name.
    pub rooms: BTreeMap<String, Room>,
}

impl House {
    /// Reads the table of floors out of the page.
    ///
    /// # Errors
    /// Where there is no such table, or a row names an unknown crate or no floor.
    pub fn parse(page: &str) -> Result<Self> {
        let rows = doctable::find(page, &COLUMNS).context("house.md has no table of floors")?;
        let mut rooms = BTreeMap::new();
        for row in &rows {
            let [floor, krate, _what, uses] = row.as_slice() else {
                bail!("house.md: a row of the table of floors has {} cells, not 4", row.len());
            };
            let floor = floor.parse().with_context(|| format!("house.md: floor {floor:?}"))?;
            let pure = krate.contains("(pure)");
            let name = krate.split_whitespace().next().unwrap_or_default().to_owned();
            rooms.insert(name, Room { floor, pure, uses: Uses::parse(uses) });
        }
        let house = Self { rooms };
        house.check_names()?;
        Ok(house)
    }

    /// Tells whether a crate is marked pure.
    pub fn is_pure(&self, krate: &str) -> bool {
        self.rooms.get(krate).is_some_and(|room| room.pure)
    }

    fn check_names(&self) -> Result<()> {
        for (name, room) in &self.rooms {
            let Uses::Only(uses) = &room.uses else { continue };
            for used in uses {
                let known = self.rooms.contains_key(used);
                ensure!(
                    known,
                    "house.md: `{name}` may use `{used}`, which is no crate of the house"
                );
            }
        }
        Ok(())
    }
}

impl Uses {
    fn parse(cell: &str) -> Self {
        match cell {
            "all" => Self::All,
            "none" => Self::Only(BTreeSet::new()),
            names => Self::Only(names.split(',').map(|name| name.trim().to_owned()).collect()),
        }
    }

    /// Tells whether the arrow to `krate` is in the table.
    pub fn allow(&self, krate: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(krate),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::House;

    const HEAD: &str = "| floor | crate | what it is | may use |\n|---|---|---|---|\n";

    #[test]
    fn reads_floor_purity_and_uses() {
        let rows = "| 1 | `stats` (pure) | x | model |\n| 0 | `model` (pure) | x | none |\n\
                    | 2 | `lab` | x | model |\n";
        let house = House::parse(&format!("{HEAD}{rows}")).unwrap();
        assert_eq!(house.rooms["stats"].floor, 1);
        assert!(house.is_pure("stats") && !house.is_pure("lab"));
        assert!(house.rooms["stats"].uses.allow("model"));
        assert!(!house.rooms["model"].uses.allow("stats"));
    }

    #[test]
    fn a_row_that_names_a_stranger_is_refused() {
        let error = House::parse(&format!("{HEAD}| 1 | `stats` | x | modle |\n")).unwrap_err();
        assert!(error.to_string().contains("modle"), "{error}");
    }

    #[test]
    fn the_page_of_this_repository_parses() {
        let page = include_str!("../../../docs/design/house.md");
        let house = House::parse(page).unwrap();
        assert!(house.rooms.len() >= 15);
        assert!(house.is_pure("nfs-proto"));
    }
}

//! Ways to access a contender, and the one that was used.

use model::RunSpec;
use model::system::AccessWay;

/// Availability of a way of access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WayUse {
    /// Used by its runs.
    Taken,
    /// Available but not used.
    There,
    /// Not available.
    Lacking,
    /// Unknown, because the site set up the system.
    Unknown,
}

impl WayUse {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Taken => "used",
            Self::There => "available",
            Self::Lacking => "none",
            Self::Unknown => "–",
        }
    }
}

/// Heading of a way in tables.
pub(super) const fn heading(way: AccessWay) -> &'static str {
    match way {
        AccessWay::Nfs => "its NFS",
        AccessWay::Mount => "kernel's mount",
        AccessWay::Fuse => "FUSE",
        AccessWay::ReExport => "re-exported",
    }
}

/// Returns the availability of each of [`AccessWay::ALL`] for the target of a run.
pub(super) fn ways_of(run: &RunSpec) -> Vec<WayUse> {
    let lab = run.lab.as_deref();
    let system = lab.and_then(|lab| lab.system.as_deref());
    let mounts = lab.is_some_and(|lab| lab.site_mount.is_some());
    let taken = match (lab, system) {
        (Some(lab), Some(_)) if lab.is_re_exported() => Some(AccessWay::ReExport),
        (Some(lab), Some(_)) => lab.system_way(),
        (Some(lab), None) if mounts && !lab.mounts_nfs() => Some(AccessWay::Mount),
        (Some(lab), None) if lab.is_served() => Some(AccessWay::Nfs),
        (None, _) if run.target.nfs().is_some() => Some(AccessWay::Nfs),
        _ => None,
    };
    let known = system.map(|system| system.recipe.ways());
    AccessWay::ALL
        .iter()
        .map(|way| match &known {
            _ if taken == Some(*way) => WayUse::Taken,
            Some(known) if known.contains(way) => WayUse::There,
            Some(_) => WayUse::Lacking,
            None => WayUse::Unknown,
        })
        .collect()
}

//! Data servers of the in-memory server, which make it the metadata server of a pNFS cluster.

use std::fmt::Write as _;

use model::NfsSettings;

use crate::syntax::text::{list_of, quoted, size};

/// A pNFS cluster of the in-memory server and its data servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterPlan {
    /// The servers that keep the data.
    pub data_servers: DataServersPlan,
    /// The layouts that clients get.
    pub layouts: LayoutsPlan,
    /// Number of consecutive bytes on one data server; 0 keeps each file on one.
    pub stripe_unit_bytes: u32,
    /// Number of copies of the data.
    pub mirrors: u32,
}

/// The servers that keep the data of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DataServersPlan {
    /// This number of in-memory servers in the same process.
    Own(u32),
    /// Other servers.
    At(Vec<DataServerPlan>),
}

/// A data server in another process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataServerPlan {
    /// Host name or address, an IPv6 one without brackets.
    pub host: String,
    /// Port of NFS.
    pub port: u16,
    /// The export for data files.
    pub export: String,
}

/// The layouts that a cluster offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutsPlan {
    /// Flexible files, with data servers of NFSv3.
    FlexFiles,
    /// Flexible files, with loosely coupled data servers of NFSv4.1.
    FlexFilesV4,
    /// Flexible files, with tightly coupled data servers of NFSv4.1.
    FlexFilesTight,
    /// The files layout, with data servers of NFSv4.1.
    Files,
}

impl LayoutsPlan {
    /// All of them.
    pub(crate) const ALL: [Self; 4] =
        [Self::FlexFiles, Self::FlexFilesV4, Self::FlexFilesTight, Self::Files];

    /// Returns the word for it.
    pub fn name(self) -> &'static str {
        match self {
            Self::FlexFiles => "flexfiles",
            Self::FlexFilesV4 => "flexfiles-v4.1",
            Self::FlexFilesTight => "flexfiles-tight",
            Self::Files => "files",
        }
    }
}

impl DataServersPlan {
    /// Number of data servers.
    pub fn count(&self) -> usize {
        match self {
            Self::Own(count) => *count as usize,
            Self::At(servers) => servers.len(),
        }
    }
}

impl DataServerPlan {
    fn text(&self) -> String {
        let Self { host, port, export } = self;
        if host.contains(':') {
            format!("[{host}]:{port}{export}")
        } else {
            format!("{host}:{port}{export}")
        }
    }
}

impl ClusterPlan {
    /// Returns a cluster of data servers in the same process that keep flexible files unstriped.
    pub(crate) fn with_own(count: u32) -> Self {
        let data_servers = DataServersPlan::Own(count);
        Self { data_servers, layouts: LayoutsPlan::FlexFiles, stripe_unit_bytes: 0, mirrors: 1 }
    }

    /// Limits it to some of its data servers, or starts another number.
    fn resize(&mut self, count: u32) {
        match &mut self.data_servers {
            DataServersPlan::Own(own) => *own = count,
            DataServersPlan::At(servers) => servers.truncate(count as usize),
        }
    }

    /// Returns the cluster at the levels of a run, based on that of `[server]`; `None` without data
    /// servers.
    pub(crate) fn at_levels(base: Option<&Self>, nfs: &NfsSettings) -> Option<Self> {
        let Some(count) = nfs.data_servers else { return base.cloned() };
        if count == 0 {
            return None;
        }
        let mut cluster = base.cloned().unwrap_or_else(|| Self::with_own(count));
        cluster.resize(count);
        cluster.stripe_unit_bytes = nfs.stripe_unit.unwrap_or(cluster.stripe_unit_bytes);
        cluster.mirrors = nfs.mirrors.unwrap_or(cluster.mirrors);
        Some(cluster)
    }

    /// Writes the keys in the form of a plan.
    pub(crate) fn write(&self, out: &mut String) {
        let servers = match &self.data_servers {
            DataServersPlan::Own(count) => count.to_string(),
            DataServersPlan::At(servers) => {
                let texts: Vec<String> = servers.iter().map(DataServerPlan::text).collect();
                list_of(&texts)
            }
        };
        // Writing to a String can't fail.
        let _ = write!(
            out,
            "data_servers = {servers}\nlayouts = {}\nstripe_unit = {}\nmirrors = {}\n",
            quoted(self.layouts.name()),
            quoted(&size(u64::from(self.stripe_unit_bytes))),
            self.mirrors,
        );
    }
}

//! How caches are dropped before a pass reads.

use crate::text::words::words;

words! {
    /// What to do before a pass reads, so that data comes from the intended source. Each level
    /// includes the previous ones.
    Invalidation {
        None = "none",
        /// Drop the files from the page cache of the host that reads.
        Files = "files",
        /// Drop the whole page cache of that host and of the server.
        Caches = "caches",
        /// Remount on the client.
        Remount = "remount",
        /// Also remount the file system on the server.
        ServerRemount = "server-remount",
        /// Also restart the server.
        ServerRestart = "server-restart",
    }
}

//! How caches are emptied before a pass reads.

use crate::words::words;

words! {
    /// Steps before a pass reads, so that data comes from where it should; each includes
    /// those before it.
    Invalidation {
        /// No step at all.
        None = "none",
        /// The files are dropped from the page cache of the host that reads.
        Files = "files",
        /// Its whole page cache, and that of the server.
        Caches = "caches",
        /// The client mounts again.
        Remount = "remount",
        /// The server mounts its file system again, too.
        ServerRemount = "server-remount",
        /// The server is restarted, too.
        ServerRestart = "server-restart",
    }
}

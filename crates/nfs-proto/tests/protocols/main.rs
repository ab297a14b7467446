//! Messages of every protocol, and the sessions of clients and servers that exchange them.

mod client4;
mod common;
mod detached;
mod framing;
mod golden;
mod nfs2;
mod nfs4;
mod oracle;
mod pair;
mod properties;
mod recovery;
mod rpcbind;

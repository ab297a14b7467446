//! The passes of a trial: one sweep of one kind of work over the files each.
//!
//! What a pass opens, which kinds of op it may contain and what its figure is stands here, in one
//! place; engine, agent, statistics and reports ask and never list passes themselves.

use crate::op::OpKind;
use crate::words::words;

words! {
    /// One sweep of one kind of work over the files.
    Pass {
        /// Sequential write of every file, created or truncated.
        Write = "write",
        /// Sequential write over what is there.
        Rewrite = "rewrite",
        /// Sequential read of every file.
        Read = "read",
        /// The same again.
        Reread = "reread",
        /// Every block once, in random order.
        RandomRead = "random_read",
        /// Every block written once, in random order.
        RandomWrite = "random_write",
        /// Sequential read from the end to the start.
        BackwardRead = "backward_read",
        /// Every `stride`-th block, then the ones after those, until all are read.
        StrideRead = "stride_read",
        /// Sequential write, byte by byte through a buffer.
        CharWrite = "char_write",
        /// Sequential read, byte by byte through a buffer.
        CharRead = "char_read",
        /// Each block read, changed and written back: "rewrite" of bonnie.
        Update = "update",
        /// Reads at random places, of which one in ten is changed and written back.
        Seeks = "seeks",
        /// Reads and writes in the stated shares, random or sequential.
        Mix = "mix",
        /// Creation of every file.
        Create = "create",
        /// Attributes of every file, by name.
        Stat = "stat",
        /// Whole content of every file, by name.
        ReadFiles = "read_files",
        /// Another name for every file, and back.
        Rename = "rename",
        /// Removal of every file.
        Remove = "remove",
        /// Creation of every directory.
        Mkdir = "mkdir",
        /// Attributes of every directory, by name.
        StatDirs = "stat_dirs",
        /// Another name for every directory, and back.
        RenameDirs = "rename_dirs",
        /// Removal of every directory.
        Rmdir = "rmdir",
        /// An extended attribute of every file, set by name.
        SetXattr = "set_xattr",
        /// The same attribute of every file, read by name.
        GetXattr = "get_xattr",
        /// Transactions on a pool of files.
        Transactions = "transactions",
        /// All kinds of calls in the stated shares.
        OpMix = "op_mix",
        /// A command of the user's.
        App = "app",
    }
}

/// The kinds that an op mix may contain.
const OP_MIX: &[OpKind] = &[
    OpKind::Null,
    OpKind::Getattr,
    OpKind::Setattr,
    OpKind::Lookup,
    OpKind::LookupMissing,
    OpKind::Access,
    OpKind::Readlink,
    OpKind::Read,
    OpKind::Write,
    OpKind::Create,
    OpKind::Mkdir,
    OpKind::Symlink,
    OpKind::Remove,
    OpKind::Rmdir,
    OpKind::Unlink,
    OpKind::Rename,
    OpKind::Link,
    OpKind::Readdir,
    OpKind::ReaddirPlus,
    OpKind::Fsstat,
    OpKind::Fsinfo,
    OpKind::Pathconf,
    OpKind::Commit,
];

/// How the data files of a pass are opened before it starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opens {
    /// Not at all: the pass works by name, or has no files of ours.
    Nothing,
    /// Created, or cut to nothing, for writing.
    Truncated,
    /// Opened for reading.
    ToRead,
    /// For reading and writing, as they are.
    Both,
}

impl Pass {
    /// How data files are opened before the pass starts.
    pub const fn opens(self) -> Opens {
        match self {
            Self::Write | Self::CharWrite => Opens::Truncated,
            Self::Read
            | Self::Reread
            | Self::RandomRead
            | Self::BackwardRead
            | Self::StrideRead
            | Self::CharRead => Opens::ToRead,
            Self::Rewrite
            | Self::RandomWrite
            | Self::Update
            | Self::Seeks
            | Self::Mix
            | Self::OpMix => Opens::Both,
            Self::Create
            | Self::Stat
            | Self::ReadFiles
            | Self::Rename
            | Self::Remove
            | Self::Mkdir
            | Self::StatDirs
            | Self::RenameDirs
            | Self::Rmdir
            | Self::SetXattr
            | Self::GetXattr
            | Self::Transactions
            | Self::App => Opens::Nothing,
        }
    }

    /// The kinds of op that the pass may contain.
    pub const fn kinds(self) -> &'static [OpKind] {
        match self {
            Self::Write | Self::Rewrite | Self::RandomWrite => &[OpKind::Write, OpKind::Sync],
            Self::Read
            | Self::Reread
            | Self::RandomRead
            | Self::BackwardRead
            | Self::StrideRead => &[OpKind::Read],
            Self::CharWrite => &[OpKind::PutChars, OpKind::Sync],
            Self::CharRead => &[OpKind::GetChars],
            Self::Update => &[OpKind::Update, OpKind::Sync],
            Self::Seeks => &[OpKind::Read, OpKind::Update],
            Self::Mix => &[OpKind::Read, OpKind::Write, OpKind::Sync],
            Self::Create => &[OpKind::Create],
            Self::Stat => &[OpKind::Stat],
            Self::ReadFiles => &[OpKind::ReadFile],
            Self::Rename => &[OpKind::Rename],
            Self::Remove => &[OpKind::Remove],
            Self::Mkdir => &[OpKind::Mkdir],
            Self::StatDirs => &[OpKind::StatDir],
            Self::RenameDirs => &[OpKind::RenameDir],
            Self::Rmdir => &[OpKind::Rmdir],
            Self::SetXattr => &[OpKind::SetXattr],
            Self::GetXattr => &[OpKind::GetXattr],
            Self::Transactions => {
                &[OpKind::Create, OpKind::Remove, OpKind::ReadFile, OpKind::Append]
            }
            Self::OpMix => OP_MIX,
            Self::App => &[OpKind::Execute],
        }
    }

    /// Says whether the figure is a byte rate (else it is an op rate).
    pub const fn is_byte_rate(self) -> bool {
        matches!(
            self,
            Self::Write
                | Self::Rewrite
                | Self::Read
                | Self::Reread
                | Self::RandomRead
                | Self::RandomWrite
                | Self::BackwardRead
                | Self::StrideRead
                | Self::CharWrite
                | Self::CharRead
                | Self::Update
        )
    }

    /// Says whether the pass is about extended attributes, which not every target has.
    pub const fn needs_xattrs(self) -> bool {
        matches!(self, Self::SetXattr | Self::GetXattr)
    }

    /// Says whether the pass takes every block of every file once.
    pub const fn moves_blocks(self) -> bool {
        self.is_byte_rate()
    }

    /// Says whether the pass reads data of files that were there before it.
    pub const fn reads(self) -> bool {
        !matches!(self.opens(), Opens::Nothing | Opens::Truncated)
            && !matches!(self, Self::Rewrite | Self::RandomWrite)
            || matches!(self, Self::ReadFiles | Self::Transactions)
    }

    /// Says whether the pass changes the file system.
    pub const fn writes(self) -> bool {
        !matches!(
            self,
            Self::Read
                | Self::Reread
                | Self::RandomRead
                | Self::BackwardRead
                | Self::StrideRead
                | Self::CharRead
                | Self::Stat
                | Self::ReadFiles
                | Self::StatDirs
                | Self::GetXattr
        )
    }

    /// Says whether the pass writes every byte of the data files.
    pub const fn writes_every_block(self) -> bool {
        matches!(
            self,
            Self::Write | Self::Rewrite | Self::RandomWrite | Self::CharWrite | Self::Update
        )
    }

    /// Says whether time ends the pass; else it ends with its files.
    pub const fn is_timed(self) -> bool {
        matches!(self, Self::Mix | Self::OpMix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_keep_their_names() {
        for pass in Pass::ALL {
            assert_eq!(Pass::from_name(pass.name()), Some(*pass));
        }
        assert_eq!(Pass::from_name("silly"), None);
    }

    #[test]
    fn a_pass_reads_and_writes_what_its_ops_do() {
        for pass in Pass::ALL {
            let moves = |what: fn(OpKind) -> bool| pass.kinds().iter().any(|kind| what(*kind));
            assert_eq!(pass.reads(), moves(OpKind::reads_data), "{pass}");
            if moves(OpKind::writes_data) {
                assert!(pass.writes(), "{pass}");
            }
            if pass.opens() == Opens::ToRead {
                assert!(!pass.writes(), "{pass}");
            }
        }
    }
}

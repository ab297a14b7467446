//! The passes of a trial, each of which is one sweep of one kind of work over the files.
//!
//! This is the only place that defines what a pass opens, which kinds of op it may contain, and
//! what its main result is. Engine, agent, statistics and reports query it and never list passes
//! themselves.

use crate::runs::op::OpKind;
use crate::text::words::words;

words! {
    /// One sweep of one kind of work over the files.
    Pass {
        /// Sequential write of every file, which is created or truncated.
        Write = "write",
        /// Sequential write over existing data.
        Rewrite = "rewrite",
        /// Sequential read of every file.
        Read = "read",
        /// A second sequential read.
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
        /// Reads, changes and writes back each block: "rewrite" of bonnie.
        Update = "update",
        /// Reads at random offsets, of which one in ten is changed and written back.
        Seeks = "seeks",
        /// Reads and writes in the given proportions, random or sequential.
        Mix = "mix",
        /// Creation of every file.
        Create = "create",
        /// Attributes of every file, by name.
        Stat = "stat",
        /// Whole content of every file, by name.
        ReadFiles = "read_files",
        /// Renames every file and renames it back.
        Rename = "rename",
        /// Removal of every file.
        Remove = "remove",
        /// Creation of every directory.
        Mkdir = "mkdir",
        /// Attributes of every directory, by name.
        StatDirs = "stat_dirs",
        /// Renames every directory and renames it back.
        RenameDirs = "rename_dirs",
        /// Removal of every directory.
        Rmdir = "rmdir",
        /// An extended attribute of every file, set by name.
        SetXattr = "set_xattr",
        /// The same attribute of every file, read by name.
        GetXattr = "get_xattr",
        /// Every block of every file, copied to a second file by the system or the server.
        Copy = "copy",
        /// Every block of every file, shared with a second file.
        Clone = "clone",
        /// Space for every block of a second, empty file, reserved.
        Allocate = "allocate",
        /// Every second block of every file, turned into a hole.
        Punch = "punch",
        /// The ends of the data and holes of sparse files, found one after the other.
        Seek = "seek",
        /// Sequential read of sparse files, of which only the data needs to be transferred.
        ReadPlus = "read_plus",
        /// The names in every directory.
        List = "list",
        /// The names in every directory and the attributes of each, as `ls -l` shows them.
        ListStat = "list_stat",
        /// A search of the whole tree by name, size and time.
        Find = "find",
        /// Transactions on a pool of files.
        Transactions = "transactions",
        /// All kinds of calls in the given proportions.
        OpMix = "op_mix",
        /// A user-defined command.
        App = "app",
        /// Writes the shard of every rank, which is created or truncated.
        Save = "save",
        /// Reads every shard, by another rank than the one that wrote it.
        Restore = "restore",
        /// Reads every file of a model.
        Load = "load",
        /// Transactions of a database: reads and writes of pages, and appends to a log that commit
        /// them.
        Oltp = "oltp",
        /// What a virtual machine reads and writes until it has booted.
        Boot = "boot",
    }
}

/// The kinds of op in an op mix.
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
    /// Not opened: the pass works by name, or has no files of ours.
    Nothing,
    /// Created or truncated, for writing.
    Truncated,
    /// Opened for reading.
    ToRead,
    /// Opened for reading and writing, without truncation.
    Both,
    /// Opened for reading, and a twin of each is created or truncated for writing.
    Twins,
}

/// Basic properties of a pass, from which all others follow.
#[derive(Clone, Copy)]
struct PassRow {
    opens: Opens,
    kinds: &'static [OpKind],
    /// It processes every block of every file once.
    moves_blocks: bool,
}

/// Returns a pass that processes every block of every file once.
const fn over_blocks(opens: Opens, kinds: &'static [OpKind]) -> PassRow {
    PassRow { opens, kinds, moves_blocks: true }
}

/// Returns a pass over some blocks of open files.
const fn over_some(opens: Opens, kinds: &'static [OpKind]) -> PassRow {
    PassRow { opens, kinds, moves_blocks: false }
}

/// Returns a pass that works by name or has no files of ours.
const fn by_name(kinds: &'static [OpKind]) -> PassRow {
    PassRow { opens: Opens::Nothing, kinds, moves_blocks: false }
}

impl Pass {
    const fn row(self) -> PassRow {
        use OpKind as Op;
        match self {
            Self::Write | Self::Save => over_blocks(Opens::Truncated, &[Op::Write, Op::Sync]),
            Self::Rewrite | Self::RandomWrite => over_blocks(Opens::Both, &[Op::Write, Op::Sync]),
            Self::Read
            | Self::Reread
            | Self::RandomRead
            | Self::BackwardRead
            | Self::StrideRead
            | Self::Restore
            | Self::Load => over_blocks(Opens::ToRead, &[Op::Read]),
            Self::CharWrite => over_blocks(Opens::Truncated, &[Op::PutChars, Op::Sync]),
            Self::CharRead => over_blocks(Opens::ToRead, &[Op::GetChars]),
            Self::Update => over_blocks(Opens::Both, &[Op::Update, Op::Sync]),
            Self::Seeks => over_some(Opens::Both, &[Op::Read, Op::Update]),
            Self::Mix | Self::Boot => over_some(Opens::Both, &[Op::Read, Op::Write, Op::Sync]),
            Self::Oltp => over_some(Opens::Both, &[Op::Read, Op::Write, Op::LogAppend, Op::Sync]),
            Self::OpMix => over_some(Opens::Both, OP_MIX),
            Self::Create => by_name(&[Op::Create]),
            Self::Stat => by_name(&[Op::Stat]),
            Self::ReadFiles => by_name(&[Op::ReadFile]),
            Self::Rename => by_name(&[Op::Rename]),
            Self::Remove => by_name(&[Op::Remove]),
            Self::Mkdir => by_name(&[Op::Mkdir]),
            Self::StatDirs => by_name(&[Op::StatDir]),
            Self::RenameDirs => by_name(&[Op::RenameDir]),
            Self::Rmdir => by_name(&[Op::Rmdir]),
            Self::SetXattr => by_name(&[Op::SetXattr]),
            Self::GetXattr => by_name(&[Op::GetXattr]),
            Self::Copy => over_blocks(Opens::Twins, &[Op::Copy, Op::Sync]),
            Self::Clone => over_blocks(Opens::Twins, &[Op::Clone, Op::Sync]),
            Self::Allocate => over_blocks(Opens::Twins, &[Op::Allocate, Op::Sync]),
            Self::Punch => over_some(Opens::Both, &[Op::Punch, Op::Sync]),
            Self::Seek => over_some(Opens::ToRead, &[Op::Seek]),
            Self::ReadPlus => over_blocks(Opens::ToRead, &[Op::ReadPlus]),
            Self::List => by_name(&[Op::List]),
            Self::ListStat => by_name(&[Op::ListStat]),
            Self::Find => by_name(&[Op::Find]),
            Self::Transactions => by_name(&[Op::Create, Op::Remove, Op::ReadFile, Op::Append]),
            Self::App => by_name(&[Op::Execute]),
        }
    }

    /// Returns how data files are opened before the pass starts.
    pub const fn opens(self) -> Opens {
        self.row().opens
    }

    /// Returns the kinds of op that the pass may contain.
    pub const fn kinds(self) -> &'static [OpKind] {
        self.row().kinds
    }

    /// Returns true if the main result is a byte rate rather than an op rate.
    pub const fn is_byte_rate(self) -> bool {
        self.moves_blocks() || matches!(self, Self::Punch)
    }

    /// Returns true if the pass needs operations on ranges of files, which not every target
    /// supports.
    pub const fn needs_data_ops(self) -> bool {
        matches!(
            self,
            Self::Copy | Self::Clone | Self::Allocate | Self::Punch | Self::Seek | Self::ReadPlus
        )
    }

    /// Returns true if the pass needs space for twins of all files; clones share theirs.
    pub const fn fills_twins(self) -> bool {
        matches!(self, Self::Copy | Self::Allocate)
    }

    /// Returns true if the pass works on files whose every second block is a hole.
    pub const fn needs_holes(self) -> bool {
        matches!(self, Self::Seek | Self::ReadPlus)
    }

    /// Returns true if the pass needs extended attributes, which not every target supports.
    pub const fn needs_xattrs(self) -> bool {
        matches!(self, Self::SetXattr | Self::GetXattr)
    }

    /// Returns true if the pass lists whole directories and counts their entries.
    pub const fn lists(self) -> bool {
        self.kinds()[0].counts_entries()
    }

    /// Returns true if the pass processes every block of every file once.
    pub const fn moves_blocks(self) -> bool {
        self.row().moves_blocks
    }

    /// Returns true if the pass reads data of existing files.
    pub const fn reads(self) -> bool {
        let kinds = self.kinds();
        let mut at = 0;
        while at < kinds.len() {
            if kinds[at].reads_data() {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Returns true if the pass changes the file system.
    pub const fn writes(self) -> bool {
        let kinds = self.kinds();
        let mut at = 0;
        while at < kinds.len() {
            if kinds[at].changes() {
                return true;
            }
            at += 1;
        }
        false
    }

    /// Returns true if the pass writes every byte of the data files.
    pub const fn writes_every_block(self) -> bool {
        self.moves_blocks() && self.writes() && !self.needs_data_ops()
    }

    /// Returns true if the result that users look for is the time until the slowest rank is done.
    /// The time of each rank is then recorded, too.
    pub const fn is_timed_by_rank(self) -> bool {
        matches!(self, Self::Save | Self::Restore | Self::Load | Self::Boot)
    }

    /// Returns what a worker of a pass that is timed by rank is called.
    pub const fn rank_noun(self) -> &'static str {
        match self {
            Self::Boot => "VM",
            _ => "rank",
        }
    }

    /// Returns true if the pass ends after a given time rather than with its files.
    pub const fn is_timed(self) -> bool {
        matches!(self, Self::Mix | Self::OpMix | Self::Oltp)
    }

    /// Returns true if the pass draws reads and writes of blocks in a given proportion.
    pub const fn is_mix(self) -> bool {
        matches!(self, Self::Mix | Self::Oltp | Self::Boot)
    }

    /// Returns the only kind of op whose response times are those of the pass, or `None` if the
    /// times of all ops are. Users of a database wait for its commits.
    pub const fn timed_kind(self) -> Option<OpKind> {
        match self {
            Self::Oltp => Some(OpKind::LogAppend),
            _ => None,
        }
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
    fn recognizes_passes_that_change_files() {
        for looking in [Pass::Read, Pass::CharRead, Pass::ReadFiles, Pass::StatDirs] {
            assert!(!looking.writes(), "{looking}");
        }
        for changing in [Pass::Write, Pass::Seeks, Pass::Mix, Pass::OpMix, Pass::Rename, Pass::App]
        {
            assert!(changing.writes(), "{changing}");
        }
        for whole in [Pass::Rewrite, Pass::CharWrite, Pass::Update] {
            assert!(whole.writes_every_block(), "{whole}");
        }
        for partly in [Pass::Read, Pass::Seeks, Pass::Mix, Pass::Create] {
            assert!(!partly.writes_every_block(), "{partly}");
        }
    }

    #[test]
    fn opens_files_for_their_ops() {
        for pass in Pass::ALL {
            match pass.opens() {
                Opens::Nothing => assert!(!pass.moves_blocks(), "{pass}"),
                Opens::Truncated | Opens::Twins => {
                    assert!(pass.writes() && !pass.reads(), "{pass}");
                }
                Opens::ToRead => assert!(!pass.writes(), "{pass}"),
                Opens::Both => assert!(pass.writes(), "{pass}"),
            }
        }
    }
}

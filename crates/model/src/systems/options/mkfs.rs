//! Options of mkfs for each supported file system.
//!
//! The device is the only positional argument of mkfs and never comes from here. Refused are
//! options that name another device or file, that override the safety check of mkfs for existing
//! data, that create no file system, and those set by dfsbench itself.
//!
//! **Source:** mkfs.ext4(8) of e2fsprogs 1.47, mkfs.xfs(8) of xfsprogs 6.13, mkfs.btrfs(8) of
//! btrfs-progs 6.14.

use super::{Form, OptionError, Table, shorten};
use crate::systems::lab::FileSystem;

use Form::{Features, Flag, Number, OneOf, Suboptions, Word};

const FORCE: &str = "it disables mkfs's check for existing data on the device";
const OTHER_FILE: &str = "it names another file or device";
const OURS: &str = "dfsbench sets it itself";
const MAKES_NOTHING: &str = "it does not create a file system";
const POSITION: &str = "the file system must begin at the start of its device";

/// One mkfs option, which becomes one or two arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MkfsOption {
    /// The option, such as `-E` or `--csum`.
    pub flag: String,
    pub value: Option<String>,
}

const EXT4: Table = Table {
    of: "mkfs.ext4",
    rows: &[
        (Flag, "-c -D -j -K -v"),
        (Number, "-b -C -g -G -i -I -m -N -r"),
        (Word, "-L -T"),
        (OneOf(&["continue", "remount-ro"]), "-e"),
        (Suboptions(&EXT4_EXTENDED), "-E"),
        (Suboptions(&EXT4_JOURNAL), "-J"),
        (Features(&[("journal_dev", "it creates a journal instead of a file system")]), "-O"),
    ],
    refused: &[
        ("-F", FORCE),
        ("-q", OURS),
        ("-U", OURS),
        ("-d", OTHER_FILE),
        ("-l", OTHER_FILE),
        ("-M", OTHER_FILE),
        ("-z", OTHER_FILE),
        ("-n", MAKES_NOTHING),
        ("-S", "it overwrites existing superblocks"),
        ("-t", "`file_system` selects the file system"),
        ("-V", MAKES_NOTHING),
    ],
};

const EXT4_EXTENDED: Table = Table {
    of: "mkfs.ext4 -E",
    rows: &[
        (
            Flag,
            "discard nodiscard no_copy_xattrs lazy_itable_init lazy_journal_init \
             packed_meta_blocks test_fs",
        ),
        (
            Number,
            "stride stripe_width stripe-width resize lazy_itable_init lazy_journal_init \
             packed_meta_blocks num_backup_sb mmp_update_interval desc_size desc-size revision \
             assume_storage_prezeroed orphan_file_size",
        ),
        (Word, "quotatype encoding encoding_flags hash_seed root_owner root_perms"),
    ],
    refused: &[("offset", POSITION)],
};

const EXT4_JOURNAL: Table = Table {
    of: "mkfs.ext4 -J",
    rows: &[(Number, "size fast_commit_size location")],
    refused: &[("device", OTHER_FILE)],
};

const XFS: Table = Table {
    of: "mkfs.xfs",
    rows: &[
        (Flag, "-K"),
        (Word, "-L"),
        (Suboptions(&XFS_BLOCK), "-b"),
        (Suboptions(&XFS_DATA), "-d"),
        (Suboptions(&XFS_INODE), "-i"),
        (Suboptions(&XFS_LOG), "-l"),
        (Suboptions(&XFS_METADATA), "-m"),
        (Suboptions(&XFS_NAMING), "-n"),
        (Suboptions(&XFS_REALTIME), "-r"),
        (Suboptions(&XFS_SECTOR), "-s"),
    ],
    refused: &[
        ("-f", FORCE),
        ("-q", OURS),
        ("-c", OTHER_FILE),
        ("-p", OTHER_FILE),
        ("-N", MAKES_NOTHING),
        ("-V", MAKES_NOTHING),
    ],
};

const XFS_BLOCK: Table = Table { of: "mkfs.xfs -b", rows: &[(Number, "log size")], refused: &[] };

const XFS_DATA: Table = Table {
    of: "mkfs.xfs -d",
    rows: &[
        (Flag, "noalign"),
        (
            Number,
            "agcount agsize concurrency cowextsize daxinherit extszinherit noalign projinherit \
             rtinherit sectlog sectsize size su sunit sw swidth unwritten",
        ),
    ],
    refused: &[("name", OTHER_FILE), ("file", OTHER_FILE)],
};

const XFS_INODE: Table = Table {
    of: "mkfs.xfs -i",
    rows: &[(
        Number,
        "align attr exchange log maxpct nrext64 perblock projid32bit size sparse spinodes",
    )],
    refused: &[],
};

const XFS_LOG: Table = Table {
    of: "mkfs.xfs -l",
    rows: &[(
        Number,
        "agnum concurrency internal lazy-count sectlog sectsize size su sunit version",
    )],
    refused: &[("logdev", OTHER_FILE), ("name", OTHER_FILE), ("file", OTHER_FILE)],
};

const XFS_METADATA: Table = Table {
    of: "mkfs.xfs -m",
    rows: &[(Number, "autofsck bigtime crc finobt inobtcount metadir reflink rmapbt")],
    refused: &[("uuid", OURS)],
};

const XFS_NAMING: Table = Table {
    of: "mkfs.xfs -n",
    rows: &[(Number, "ftype log parent size"), (Word, "version")],
    refused: &[],
};

const XFS_REALTIME: Table = Table {
    of: "mkfs.xfs -r",
    rows: &[(Flag, "noalign"), (Number, "concurrency extsize rgcount rgsize size zoned")],
    refused: &[("rtdev", OTHER_FILE), ("name", OTHER_FILE), ("file", OTHER_FILE)],
};

const XFS_SECTOR: Table =
    Table { of: "mkfs.xfs -s", rows: &[(Number, "log sectsize size")], refused: &[] };

const PROFILES: &[&str] = &["single", "dup", "SINGLE", "DUP"];
const CHECKSUMS: &[&str] = &["crc32c", "xxhash", "xxhash64", "sha256", "blake2", "blake2b"];

const BTRFS: Table = Table {
    of: "mkfs.btrfs",
    rows: &[
        (Flag, "-K --nodiscard -M --mixed -v --verbose"),
        (Number, "-b --byte-count -l --leafsize -n --nodesize -s --sectorsize"),
        (Word, "-L --label"),
        // There is only one device, so only profiles for one device are allowed.
        (OneOf(PROFILES), "-d --data -m --metadata"),
        (OneOf(CHECKSUMS), "--csum --checksum"),
        (Features(&[]), "-O --features -R --runtime-features"),
    ],
    refused: &[
        ("-f", FORCE),
        ("--force", FORCE),
        ("-q", OURS),
        ("--quiet", OURS),
        ("-U", OURS),
        ("--uuid", OURS),
        ("--device-uuid", OURS),
        ("-r", OTHER_FILE),
        ("--rootdir", OTHER_FILE),
        ("--subvol", OTHER_FILE),
        ("--shrink", "it is for another file"),
        ("-V", MAKES_NOTHING),
        ("--version", MAKES_NOTHING),
        ("--help", MAKES_NOTHING),
    ],
};

/// Parses options for the mkfs of a file system, written as on a command line.
///
/// An argument that begins with `-` is an option, and the next one is its value if the option takes
/// one. Anything left over would be positional and is refused.
///
/// # Errors
/// If an option is not in the list for that mkfs, or its value has the wrong form.
pub fn parse_mkfs_options(
    file_system: FileSystem,
    words: &[String],
) -> Result<Vec<MkfsOption>, OptionError> {
    let table = match file_system {
        // One program creates all three.
        FileSystem::Ext4 | FileSystem::Ext3 | FileSystem::Ext2 => &EXT4,
        FileSystem::Xfs => &XFS,
        FileSystem::Btrfs => &BTRFS,
        FileSystem::Tmpfs | FileSystem::Existing => {
            return match words.first() {
                None => Ok(Vec::new()),
                Some(word) => Err(OptionError::new(
                    format!("`{}` is for mkfs, but {file_system} is not created", shorten(word)),
                    "leave it out, or ask for file_system ext4, xfs or btrfs",
                )),
            };
        }
    };
    if let Some(word) = words.iter().find(|word| word.contains(|c: char| c.is_control())) {
        let what = format!("`{}` contains a control character", shorten(word));
        return Err(OptionError::new(what, "options separated by spaces"));
    }
    // Words from a flag may contain spaces; empty ones are not arguments.
    let mut words = words.iter().flat_map(|word| word.split(' ')).filter(|word| !word.is_empty());
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let (flag, attached) = split_flag(table, word)?;
        // The next word only belongs to an option if one of its forms takes a value. Otherwise it
        // would be taken for the device, which a plan never passes this way.
        let takes_value = table.forms(flag).any(|form| !matches!(form, Flag));
        let value = match attached {
            None if takes_value => words.next(),
            attached => attached,
        };
        let mut forms = table.forms(flag).peekable();
        if forms.peek().is_none() {
            return Err(table.unknown_option(flag));
        }
        for form in forms {
            form.check(table.of, flag, value)?;
        }
        options.push(MkfsOption { flag: flag.to_owned(), value: value.map(str::to_owned) });
    }
    Ok(options)
}

/// Splits `--name=value` and `-Xvalue`; the value may be missing.
fn split_flag<'a>(table: &Table, word: &'a str) -> Result<(&'a str, Option<&'a str>), OptionError> {
    let positional = || {
        OptionError::new(
            format!("{}: `{}` is not part of an option", table.of, shorten(word)),
            "only options and their values are allowed; the device comes from `devices`",
        )
    };
    if let Some(name) = word.strip_prefix("--") {
        if name.is_empty() {
            return Err(positional());
        }
        return Ok(match word.split_once('=') {
            Some((flag, value)) => (flag, Some(value)),
            None => (word, None),
        });
    }
    if !word.starts_with('-') {
        return Err(positional());
    }
    // One letter, with its value attached, as in `-b4096`.
    let letter = word[1..].chars().next().ok_or_else(positional)?;
    let (flag, value) = word.split_at(1 + letter.len_utf8());
    Ok((flag, Some(value).filter(|value| !value.is_empty())))
}

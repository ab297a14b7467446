//! Options of mounts and exports.
//!
//! Options are refused if they name another file, device or host, if they do something other than
//! mounting (`remount`, `bind`, `move`), or if they leave a process behind or stop the host.
//!
//! **Source:** mount(8); ext4(5); xfs(5); btrfs(5); tmpfs(5); nfs(5); exports(5); of the kernel
//! Documentation/admin-guide/ext4.rst and xfs.rst.

use super::{Form, OptionError, Table, begins_with, is_word, shorten};
use crate::systems::lab::FileSystem;

use Form::{Flag, Number, OneOf, Word};

const OTHER_FILE: &str = "it names another file or device";
const OTHER_HOST: &str = "it names another host";
const NO_MOUNT: &str = "it does more than mounting";
const STOPS_HOST: &str = "it stops the host";

/// Options accepted by every file system.
const GENERIC: &str = "async atime auto defaults dev diratime dirsync exec iversion lazytime loud \
                       mand noatime noauto nodev nodiratime noexec noiversion nolazytime nomand \
                       norelatime nostrictatime nosuid nosymfollow relatime ro rw silent \
                       strictatime suid sync _netdev nofail";

/// Options that a plan must not pass to a mount.
const REFUSED: &[(&str, &str)] = &[
    ("remount", NO_MOUNT),
    ("bind", NO_MOUNT),
    ("rbind", NO_MOUNT),
    ("move", NO_MOUNT),
    ("loop", OTHER_FILE),
    ("offset", OTHER_FILE),
    ("journal_dev", OTHER_FILE),
    ("journal_path", OTHER_FILE),
    ("logdev", OTHER_FILE),
    ("rtdev", OTHER_FILE),
    ("device", OTHER_FILE),
    ("subvol", OTHER_FILE),
    ("helper", "it selects another program"),
    ("errors", "only continue and remount-ro don't stop the host"),
    ("fatal_errors", STOPS_HOST),
];

const ACCESS: &[&str] = &["always", "never", "inode"];

const EXT4: Table = Table {
    of: "mount of ext4",
    rows: &[
        (Flag, GENERIC),
        (
            Flag,
            "acl auto_da_alloc barrier block_validity bsddf bsdgroups dax delalloc dioread_lock \
             dioread_nolock discard grpid grpquota i_version init_itable inlinecrypt \
             journal_async_commit journal_checksum minixdf mb_optimize_scan nobarrier \
             no_prefetch_block_bitmaps noacl noauto_da_alloc noblock_validity nodelalloc nodiscard \
             nogrpid noinit_itable nojournal_checksum noload nombcache noquota norecovery \
             nouser_xattr prefetch_block_bitmaps prjquota quota sysvgroups user_xattr usrquota",
        ),
        (
            Number,
            "auto_da_alloc barrier commit init_itable inode_readahead_blks journal_ioprio \
             max_batch_time max_dir_size_kb mb_optimize_scan min_batch_time resgid resuid stripe",
        ),
        (OneOf(&["journal", "ordered", "writeback"]), "data"),
        (OneOf(&["ignore", "abort"]), "data_err"),
        (OneOf(&["continue", "remount-ro"]), "errors"),
        (OneOf(ACCESS), "dax"),
    ],
    refused: REFUSED,
};

const XFS: Table = Table {
    of: "mount of xfs",
    rows: &[
        (Flag, GENERIC),
        (
            Flag,
            "attr2 barrier bsdgroups dax discard filestreams gqnoenforce gquota grpid grpquota \
             ikeep inode32 inode64 largeio lifetime noalign noattr2 nobarrier nodiscard nogrpid \
             noikeep nolargeio nolifetime noquota norecovery nouuid pqnoenforce pquota prjquota \
             qnoenforce quota swalloc sysvgroups uqnoenforce uquota usrquota wsync",
        ),
        (Number, "allocsize logbsize logbufs max_atomic_write max_open_zones sunit swidth"),
        (OneOf(ACCESS), "dax"),
    ],
    refused: REFUSED,
};

const BTRFS: Table = Table {
    of: "mount of btrfs",
    rows: &[
        (Flag, GENERIC),
        (
            Flag,
            "acl autodefrag barrier clear_cache compress compress-force datacow datasum degraded \
             discard enospc_debug flushoncommit noacl noautodefrag nobarrier nodatacow nodatasum \
             nodiscard noenospc_debug noflushoncommit nologreplay nospace_cache nossd nossd_spread \
             notreelog skip_balance space_cache ssd ssd_spread treelog user_subvol_rm_allowed",
        ),
        (Number, "commit max_inline metadata_ratio subvolid thread_pool"),
        (Word, "compress compress-force"),
        (OneOf(&["sync", "async"]), "discard"),
        (OneOf(&["v1", "v2"]), "space_cache"),
    ],
    refused: REFUSED,
};

const TMPFS: Table = Table {
    of: "mount of tmpfs",
    rows: &[
        (Flag, GENERIC),
        (Flag, "inode32 inode64 noswap"),
        (Number, "gid mode nr_blocks nr_inodes size uid"),
        (OneOf(&["never", "always", "within_size", "advise"]), "huge"),
        (Word, "mpol"),
    ],
    refused: REFUSED,
};

const NFS: Table = Table {
    of: "nfs(5)",
    rows: &[
        (Flag, GENERIC),
        (
            Flag,
            "ac acl cto fg fsc hard intr lock migration noac noacl nocto nofsc nointr nolock \
             nomigration noposix nordirplus noresvport nosharecache nosharetransport nosoftreval \
             notrunkdiscovery posix rdirplus resvport sharecache sharetransport soft softerr \
             softreval tcp trunkdiscovery udp rdma",
        ),
        (
            Number,
            "acdirmax acdirmin acregmax acregmin actimeo max_connect minorversion mountport \
             mountvers namlen nconnect nfsvers port retrans retry rsize timeo vers wsize",
        ),
        (OneOf(&["tcp", "udp", "tcp6", "udp6", "rdma", "rdma6"]), "proto mountproto"),
        (OneOf(&["all", "none", "pos", "positive"]), "lookupcache"),
        (OneOf(&["all", "none", "flock", "posix"]), "local_lock"),
        (OneOf(&["none", "force"]), "rdirplus"),
        (OneOf(&["none", "tls", "mtls"]), "xprtsec"),
        (OneOf(&["lazy", "eager", "wait"]), "write"),
        // Flavors of one mount, separated by `:`, and the address of this client.
        (Word, "sec clientaddr fsc"),
        (OneOf(&["default", "ENETDOWN:ENETUNREACH", "none"]), "fatal_neterrors"),
    ],
    refused: &[
        ("remount", NO_MOUNT),
        ("bind", NO_MOUNT),
        ("rbind", NO_MOUNT),
        ("move", NO_MOUNT),
        ("bg", "it keeps trying to mount after the run has ended"),
        ("addr", OTHER_HOST),
        ("mountaddr", OTHER_HOST),
        ("mounthost", OTHER_HOST),
    ],
};

const EXPORT: Table = Table {
    of: "exports(5)",
    rows: &[
        (
            Flag,
            "acl all_squash async auth_nlm crossmnt hide insecure insecure_locks mountpoint mp \
             no_acl no_all_squash no_auth_nlm no_pnfs no_root_squash no_subtree_check no_wdelay \
             nocrossmnt nohide pnfs ro root_squash rw secure secure_locks security_label \
             subtree_check sync wdelay",
        ),
        (Number, "anongid anonuid"),
        // A number or a UUID.
        (Word, "fsid sec xprtsec"),
    ],
    refused: &[
        ("refer", OTHER_HOST),
        ("replicas", OTHER_HOST),
        ("mountpoint", OTHER_FILE),
        ("mp", OTHER_FILE),
    ],
};

/// Checks mount options of a local file system, each `name` or `name=value`.
///
/// # Errors
/// If an option is not in the list for that file system, or its value has the wrong form.
pub fn check_mount_options(file_system: FileSystem, options: &[String]) -> Result<(), OptionError> {
    let table = match file_system {
        // Current kernels mount all three with one module, which rejects unsupported options.
        FileSystem::Ext4 | FileSystem::Ext3 | FileSystem::Ext2 => &EXT4,
        FileSystem::Xfs => &XFS,
        FileSystem::Btrfs => &BTRFS,
        FileSystem::Tmpfs => &TMPFS,
        FileSystem::Existing => {
            return match options.first() {
                None => Ok(()),
                Some(option) => Err(OptionError::new(
                    format!(
                        "`{}` is for a mount, but {file_system} is not mounted",
                        shorten(option)
                    ),
                    "leave it out, or ask for another file_system",
                )),
            };
        }
    };
    options.iter().try_for_each(|option| table.check(option))
}

/// Checks NFS mount options, each `name` or `name=value`.
///
/// # Errors
/// If an option is not in the list from nfs(5), or its value has the wrong form.
pub fn check_nfs_options(options: &[String]) -> Result<(), OptionError> {
    options.iter().try_for_each(|option| NFS.check(option))
}

/// Checks export options, each `name` or `name=value`.
///
/// # Errors
/// If an option is not in the list from exports(5), or its value has the wrong form.
pub fn check_export_options(options: &[String]) -> Result<(), OptionError> {
    options.iter().try_for_each(|option| EXPORT.check(option))
}

/// Checks the type of a file system set up by a site, which must be a single word.
pub fn check_remote_type(kind: &str) -> Result<(), OptionError> {
    if is_word(kind) && kind.len() <= 32 {
        return Ok(());
    }
    let what = format!("`{}` is not a file system type", shorten(kind));
    Err(OptionError::new(what, "a type for `mount -t`, such as `ceph` or `lustre`"))
}

/// Checks the source of such a mount, which must be printable, without blanks, and not look like an
/// option.
pub fn check_remote_source(source: &str) -> Result<(), OptionError> {
    let is_plain = source.chars().all(|c| !c.is_whitespace() && !c.is_control());
    if is_plain && begins_with(source, "/[:.#%_") && source.len() <= 1_024 {
        return Ok(());
    }
    let what = format!("`{}` is not a source for a mount", shorten(source));
    Err(OptionError::new(what, "a source for `mount`, such as `10.0.0.1:/` or `10.0.0.1@tcp:/fs`"))
}

/// Checks options of such a mount. Their names depend on its type, but none may do something other
/// than mounting or select another program.
///
/// # Errors
/// Contains the first invalid or refused option.
pub fn check_remote_options(options: &[String]) -> Result<(), OptionError> {
    const ALLOWED: [&str; 3] = ["subvol", "device", "errors"];
    for option in options {
        let name = option.split('=').next().unwrap_or_default();
        let refused = REFUSED.iter().find(|(refused, _)| *refused == name);
        if let Some((_, why)) = refused
            && !ALLOWED.contains(&name)
        {
            let what = format!("`{}` is not allowed: {why}", shorten(option));
            return Err(OptionError::new(what, "leave it out"));
        }
        let is_plain = option.chars().all(|c| c != ',' && !c.is_whitespace() && !c.is_control());
        if !is_plain || !begins_with(option, "_") {
            let what = format!("`{}` is not a mount option", shorten(option));
            return Err(OptionError::new(
                what,
                "write each option separately, as `name` or `name=value`",
            ));
        }
    }
    Ok(())
}

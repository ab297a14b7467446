//! Tests with hostile text in every place where a plan may contain text.

use std::path::Path;

use proptest::prelude::*;

use super::*;
use crate::systems::lab::FileSystem;

const MADE: [FileSystem; 3] = [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs];
const MOUNTED: [FileSystem; 4] =
    [FileSystem::Ext4, FileSystem::Xfs, FileSystem::Btrfs, FileSystem::Tmpfs];

/// Values with a special meaning to a shell, getopt, a list of options or the kernel.
const HOSTILE: [&str; 16] = [
    "/dev/loop4",
    " /dev/loop4",
    "'x y'",
    "\"x\"",
    "a\nb",
    "\r",
    "-f",
    "--force",
    "--",
    "$(id)",
    "`id`",
    "x,remount",
    "..",
    "../../etc/passwd",
    "a=b=/c",
    "a\0b",
];

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn mkfs(file_system: FileSystem, text: &str) -> Result<Vec<MkfsOption>, OptionError> {
    parse_mkfs_options(file_system, &words(text))
}

#[test]
fn what_storage_engineers_write_is_understood() {
    let ext4 = "-b 4096 -C 65536 -E stride=16,stripe_width=64,nodiscard -I 512 -i 16384 \
                -J size=128 -m 0.5 -N 1000000 -O ^has_journal,64bit,metadata_csum -T largefile4 \
                -L data -G 16 -K";
    assert_eq!(mkfs(FileSystem::Ext4, ext4).unwrap().len(), 13);
    let xfs = "-b size=4096 -d agcount=32,su=64k,sw=4 -i size=512,maxpct=25 -l size=128m,su=32k \
               -m crc=1,reflink=0,rmapbt=1 -n size=8192,ftype=1 -s size=4096 -K";
    assert_eq!(mkfs(FileSystem::Xfs, xfs).unwrap().len(), 8);
    let btrfs = "-d single -m dup -n 16k -s 4k -O no-holes,^free-space-tree -M --csum xxhash \
                 --nodesize=16k --label=x";
    assert_eq!(mkfs(FileSystem::Btrfs, btrfs).unwrap().len(), 9);
    let attached = mkfs(FileSystem::Ext4, "-b4096").unwrap();
    assert_eq!(attached, mkfs(FileSystem::Ext4, "-b  4096").unwrap());
    let mounts = [
        (FileSystem::Ext4, "noatime,data=writeback,commit=30,barrier=0,nobarrier,dax=never"),
        (
            FileSystem::Xfs,
            "noatime,nodiratime,logbufs=8,logbsize=256k,allocsize=1m,inode64,discard",
        ),
        (FileSystem::Btrfs, "compress=zstd:3,ssd,nodatacow,space_cache=v2,discard=async,commit=60"),
        (FileSystem::Tmpfs, "size=64m,huge=within_size,mode=700,mpol=interleave,nr_inodes=1k"),
    ];
    for (file_system, options) in mounts {
        let options: Vec<String> = options.split(',').map(str::to_owned).collect();
        check_mount_options(file_system, &options).unwrap();
    }
    let nfs = "vers=4.2,proto=tcp,rsize=1048576,wsize=1048576,hard,nocto,noac,actimeo=60,timeo=600,\
               retrans=2,sec=krb5p:sys,lookupcache=none,nconnect=16,local_lock=all,noresvport,\
               nolock,mountproto=tcp,mountport=20048,port=2049,xprtsec=tls,write=eager";
    let nfs: Vec<String> = nfs.split(',').map(str::to_owned).collect();
    check_nfs_options(&nfs).unwrap();
    let exports = "rw,async,no_wdelay,no_root_squash,insecure,no_subtree_check,fsid=3573,\
                   anonuid=65534,sec=krb5:krb5i,crossmnt,pnfs";
    let exports: Vec<String> = exports.split(',').map(str::to_owned).collect();
    check_export_options(&exports).unwrap();
}

#[test]
fn rejects_forcing_mkfs_options() {
    let refused = [
        (FileSystem::Btrfs, "-f /dev/loop4"),
        (FileSystem::Btrfs, "/dev/loop4"),
        (FileSystem::Btrfs, "-d single /dev/loop4"),
        (FileSystem::Btrfs, "-K /dev/loop4"),
        (FileSystem::Btrfs, "--rootdir=/etc"),
        (FileSystem::Btrfs, "-- /dev/loop4"),
        (FileSystem::Btrfs, "-L /dev/loop4"),
        (FileSystem::Xfs, "-d file=1,name=/x"),
        (FileSystem::Xfs, "-d name=/dev/loop4"),
        (FileSystem::Xfs, "-l logdev=/dev/loop4"),
        (FileSystem::Xfs, "-r rtdev=/dev/loop4"),
        (FileSystem::Xfs, "-c options=/etc/x"),
        (FileSystem::Xfs, "-p /etc/x"),
        (FileSystem::Xfs, "-f"),
        (FileSystem::Xfs, "-m uuid=0"),
        (FileSystem::Ext4, "-J device=/dev/loop4"),
        (FileSystem::Ext4, "-J size=4,device=/dev/loop4"),
        (FileSystem::Ext4, "-O journal_dev"),
        (FileSystem::Ext4, "-z /etc/x"),
        (FileSystem::Ext4, "-d /etc"),
        (FileSystem::Ext4, "-FF"),
        (FileSystem::Ext4, "-S"),
        (FileSystem::Ext4, "-n"),
        (FileSystem::Ext4, "-E offset=4096"),
        (FileSystem::Ext4, "-b"),
        (FileSystem::Ext4, "-b -F"),
        (FileSystem::Ext4, "-"),
        (FileSystem::Ext4, "-ü"),
        (FileSystem::Tmpfs, "-b 4096"),
        (FileSystem::Existing, "-b 4096"),
    ];
    let errors = refused.map(|(file_system, text)| {
        let error = mkfs(file_system, text).unwrap_err();
        assert!(!error.what.is_empty() && !error.hint.is_empty(), "{text}");
        format!("{file_system} {text}\n  {error}")
    });
    insta::assert_snapshot!(errors.join("\n"));
}

#[test]
fn rejects_redirecting_mount_options() {
    let hostile = [
        "remount",
        "bind",
        "loop=/dev/loop4",
        "loop",
        "journal_path=/dev/loop4",
        "errors=panic",
        "logdev=/dev/loop4",
        "rtdev=/dev/loop4",
        "device=/dev/loop4",
        "helper=x",
        "fatal_errors=bug",
        "noatime,remount",
        "noatime remount",
        "",
        "=",
        "-o",
        "size=1m,bind",
    ];
    for file_system in MOUNTED {
        for option in hostile {
            let refused = check_mount_options(file_system, &[option.to_owned()]);
            assert!(refused.is_err(), "{file_system} {option}");
        }
    }
    for option in ["remount", "bg", "mounthost=h", "addr=1.2.3.4", "mountaddr=h", "fsc=/x", "a b"] {
        assert!(check_nfs_options(&[option.to_owned()]).is_err(), "{option}");
    }
    for option in ["refer=/a@h", "replicas=/a@h", "mountpoint=/a", "rw,ro", "rw)", "rw *(rw"] {
        assert!(check_export_options(&[option.to_owned()]).is_err(), "{option}");
    }
}

#[test]
fn rejects_dangerous_sysctls() {
    for name in [
        "kernel.core_pattern",
        "kernel.modprobe",
        "kernel.panic",
        "kernel.sysrq",
        "kernel/sysrq",
        "vm.panic_on_oom",
        "vm/panic_on_oom",
        "fs.suid_dumpable",
        "vm..x",
        "vm.",
        "vm./../x",
        "a.b",
        "../../etc/x",
        "/etc/passwd",
        "vm.x y",
        "-w",
        "net./.x",
    ] {
        assert!(check_sysctl(name, "1").is_err(), "{name}");
    }
    for value in ["", " ", "|/tmp/x", "/tmp/x", "1\n2", "$(id)", "`id`", "a;b", "'1'"] {
        assert!(check_sysctl("vm.dirty_ratio", value).is_err(), "{value:?}");
    }
    for (name, value) in [
        ("vm.dirty_ratio", "5"),
        ("net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ("net.ipv4.tcp_congestion_control", "bbr"),
        ("sunrpc.tcp_max_slot_table_entries", "128"),
        ("net.ipv4.conf.eth0/1.rp_filter", "0"),
        ("fs.nfs.nlm_udpport", "0"),
        ("kernel.sched_autogroup_enabled", "0"),
        ("vm.swappiness", "-1"),
    ] {
        check_sysctl(name, value).unwrap();
    }
}

#[test]
fn requires_whole_one_word_names() {
    for text in HOSTILE.into_iter().chain(["", " "]) {
        assert!(check_ssh_destination(text).is_err(), "{text:?}");
        assert!(check_interface(text).is_err(), "{text:?}");
        assert!(check_object_name(text).is_err(), "{text:?}");
        assert!(check_tunnel_cipher(text).is_err(), "{text:?}");
        assert!(check_crypt_cipher(text).is_err(), "{text:?}");
        assert!(check_congestion(text).is_err(), "{text:?}");
        assert!(check_clients(text).is_err(), "{text:?}");
    }
    for path in ["", "/", "x", "/a/", "/a//b", "/a/./b", "/a/../b", "/..", "/a\nb", "/a\0b"] {
        assert!(check_path(Path::new(path)).is_err(), "{path:?}");
    }
    check_path(Path::new("/var/a b,c")).unwrap();
    for path in ["/a\"b", "/a\"; } EXPORT { Path = \"/etc", "/a\\", "/a$(b)", "/a'b"] {
        assert!(check_quotable_path(Path::new(path)).is_err(), "{path:?}");
    }
    check_quotable_path(Path::new("/srv/my data")).unwrap();
    for host in ["root@10.0.0.1", "fd00::1", "fe80::1%eth0", "web-1.example.com", "a@b"] {
        check_ssh_destination(host).unwrap();
    }
    for host in ["-oProxyCommand=x", "a@-b", "@b", "a@b@c", "a b", "-F x h", "root@"] {
        assert!(check_ssh_destination(host).is_err(), "{host}");
    }
    check_clients("10.0.0.1 [fd00::1] web").unwrap();
    for clients in ["*", "10.0.0.1(rw)", "a  b", "a,b", "-a", "h:/x"] {
        assert!(check_clients(clients).is_err(), "{clients}");
    }
}

/// Generates text from characters with a special meaning and from pieces of options.
fn hostile_text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        prop::sample::select(HOSTILE.to_vec()).prop_map(str::to_owned),
        prop::sample::select(vec![
            "-b", "-E", "-d", "-O", "-L", "name", "size", "stride", "=", ","
        ])
        .prop_map(str::to_owned),
        "[ -~\t\n]{0,6}",
    ];
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn accepts_known_mkfs_options(
        texts in prop::collection::vec(hostile_text(), 0..3),
        which in 0_usize..3,
    ) {
        let Ok(options) = parse_mkfs_options(MADE[which], &texts) else { return Ok(()) };
        for option in options {
            prop_assert!(option.flag.starts_with('-') && option.flag.len() > 1);
            prop_assert!(!["-f", "-F", "--force", "--"].contains(&option.flag.as_str()));
            let value = option.value.unwrap_or_default();
            prop_assert!(!value.contains(['/', ' ', '\'', '"', '`', '$', '\n']), "{value:?}");
            prop_assert!(!value.starts_with('-') && !value.contains(".."), "{value:?}");
        }
    }

    #[test]
    fn accepts_single_harmless_mount_option(
        text in hostile_text(),
        which in 0_usize..4,
    ) {
        let texts = [text.clone()];
        let passed = check_mount_options(MOUNTED[which], &texts).is_ok()
            || check_nfs_options(&texts).is_ok()
            || check_export_options(&texts).is_ok();
        let is_plain = !text.contains(['/', ' ', ',', '\'', '"', '`', '$', '\n', '\0', '(']);
        prop_assert!(!passed || (is_plain && !text.starts_with('-') && !text.contains("..")));
    }

    #[test]
    fn rejects_special_characters_in_names(text in hostile_text()) {
        let passed = check_ssh_destination(&text).is_ok()
            || check_interface(&text).is_ok()
            || check_object_name(&text).is_ok()
            || check_crypt_cipher(&text).is_ok()
            || check_tunnel_cipher(&text).is_ok();
        let is_plain = !text.contains(['/', ' ', ',', '\'', '"', '`', '$', '\n', '\0', '=']);
        prop_assert!(!passed || (is_plain && !text.starts_with('-')));
        let value = check_sysctl("vm.dirty_ratio", &text).is_ok();
        prop_assert!(!value || !text.contains(['/', '|', '\'', '"', '`', '$', '\n', '\0', '=']));
        let name = check_sysctl(&text, "1").is_ok();
        prop_assert!(!name || !text.contains(".."));
    }
}

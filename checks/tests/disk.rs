//! Our client on file systems that refuse: one that fills up, one without `O_DIRECT`; and on file
//! systems that distort the measurement: one compresses data, one hides where reads come from, one
//! is a file in the page cache.
//!
//! Each check mounts its own file system in its own mount namespace, so nothing of the host is
//! touched and everything is gone with the process. Mounting needs root.
#![allow(clippy::disallowed_methods, clippy::print_stdout, reason = "tests wait and print figures")]

use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use checks::checks;
use tempfile::TempDir;

use checks::ours::Ours;
use checks::proc;
use checks::repo::{self, Profile};
use checks::test_programs;

const OURS: Ours = Ours::new(Profile::Debug);

/// Arguments: directory, type of file system, its options, program. It prints what is left in the
/// directory, then the exit code.
///
/// A filler takes the space away once the first file has grown a little. Loop devices bypass the
/// page cache of their file, except for `ext4-buffered`.
const SCRIPT: &str = r#"
set -u
# Arguments: folder, type, options, whether the loop device bypasses the page cache.
mount_image() {
    truncate -s 300M "$1.image"
    "mkfs.$2" -q "$1.image" 2> /dev/null
    loop=$(losetup --find --show --direct-io="$4" "$1.image")
    mount -t "$2" -o "$3" "$loop" "$1"
    # It goes with the mount.
    losetup --detach "$loop"
    rm "$1.image"
}
case "$2" in
btrfs*) mount_image "$1" btrfs "$3" on ;;
ext4) mount_image "$1" ext4 "$3" on ;;
ext4-buffered) mount_image "$1" ext4 "$3" off ;;
fuse2fs)
    truncate -s 300M "$1.image"
    mkfs.ext4 -q "$1.image"
    fuse2fs "$1.image" "$1"
    rm "$1.image"
    ;;
overlay)
    [ -z "$3" ] || mount -t "$3" none "$1"
    mkdir "$1/lower" "$1/upper" "$1/work"
    mount -t overlay -o "lowerdir=$1/lower,upperdir=$1/upper,workdir=$1/work" none "$1"
    ;;
*) mount -t "$2" -o "$3" none "$1" ;;
esac
mkdir "$1/target"
case "$2" in
btrfs-property) btrfs property set "$1/target" compression zstd ;;
btrfs-attribute) chattr +c "$1/target" ;;
esac
if [ "$2" = tmpfs ]; then
    (
        for _ in $(seq 5000); do
            [ -s "$(echo "$1"/target/.dfsbench-*/f00000000)" ] && break
            sleep 0.002
        done
        fallocate -l 700M "$1/filler"
    ) &
fi
cd "$1"
shift 3
"$@" 2>&1
echo "exit $?"
ls -A target | sed 's/^/left: /'
"#;

checks! {
    fills_disk_half_way: 180 s, full_half_way();
    fills_disk_at_every_step: 300 s, full_at_each_step();
    rejects_results_on_read_only_disk: 120 s, read_only();
    rejects_fault_event_without_rights: 60 s, without_rights();
    warns_root_of_foreign_folders: 60 s, foreign_folders();
    reports_missing_direct_io: 60 s, without_direct();
    reports_compressed_zeros: 180 s, compressing();
    reports_direct_io_through_page_cache: 180 s, direct_in_vain();
    reports_buffered_loop_device: 180 s, buffered_loop();
    reports_unknown_source_of_reads: 120 s, unknown_source();
    reports_daemon_page_cache: 120 s, daemon_cache();
}

fn full_half_way() -> Result<()> {
    let flags = ["--workload", "stream", "--file-size", "1000MiB", "--trials", "1", "--quiet"];
    let text = run_on("tmpfs", "size=1200M", &flags)?;
    for words in ["ENOSPC", "exit 4"] {
        ensure!(text.contains(words), "`{words}` is not in:\n{text}");
    }
    Ok(())
}

/// Arguments: directory, and the program to run there, on a small file system.
const SMALL: &str = "mount -t tmpfs -o size=16m none \"$1\"; shift; exec \"$@\"";

/// The steps are those of a test, which detects when agents reach them.
fn full_at_each_step() -> Result<()> {
    let folder = TempDir::new()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-euc", SMALL, "disk"]);
    let test = test_programs::find_test_program("dfsbench", "fleet")?;
    command.arg(folder.path()).arg(&test.executable).args(["full::", "--ignored"]);
    command.env("DFSBENCH_SMALL_DISK", folder.path()).current_dir(&test.package);
    let output = proc::capture_output(&mut command)?;
    let text = String::from_utf8_lossy(&output.stdout);
    ensure!(output.status.success() && text.contains("ok. 1 passed"), "{text}");
    Ok(())
}

/// Arguments: directory, program. Prints the output of each command, and its exit code.
const READ_ONLY: &str = r#"
mount -t tmpfs none "$1"
cd "$1"
mkdir target
"$2" run target --workload stream --file-size 8MiB --trials 1 --quiet --results r.db
mount -o remount,ro "$1"
for words in list show report "report --format csv" "note 1 later" "tag 1 +slow" "rm 1"; do
    "$2" $words --results r.db 2>&1 | cat
    echo "$words: exit ${PIPESTATUS[0]}"
done
"#;

fn read_only() -> Result<()> {
    let folder = TempDir::new()?;
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", READ_ONLY, "disk"]);
    command.arg(folder.path()).arg(OURS.command().get_program());
    let text = proc::capture_text(&mut command)?;
    for words in ["list", "show", "report", "report --format csv"] {
        ensure!(text.contains(&format!("\n{words}: exit 0\n")), "`{words}`:\n{text}");
    }
    for words in ["note 1 later", "tag 1 +slow", "rm 1"] {
        ensure!(text.contains(&format!("\n{words}: exit 2\n")), "`{words}`:\n{text}");
    }
    ensure!(text.matches("error: ").count() == 3, "not one error each:\n{text}");
    Ok(())
}

/// Arguments: directory, program. A soak by a user without the permissions for its fault events.
const WITHOUT_RIGHTS: &str = r#"
chown 65534:65534 "$1"
cp "$2" "$1/dfsbench"
cd "$1"
cat > plan.toml <<'PLAN'
name = "rights"
[[host]]
name = "one"
[[target]]
name = "t"
server = "one"
[factors]
data_path = "disk"
file_system = "tmpfs"
[[workload]]
kind = "mixed"
PLAN
setpriv --reuid 65534 --regid 65534 --clear-groups env HOME="$1" ./dfsbench soak plan.toml \
    --duration 4s --segment 4s --rate 20 --disturb 'disk-full on one at 1s for 1s' --quiet 2>&1
echo "exit $?"
"#;

fn without_rights() -> Result<()> {
    let folder = TempDir::new()?;
    let mut command = Command::new("bash");
    command.args(["-c", WITHOUT_RIGHTS, "disk"]).arg(folder.path());
    let text = proc::capture_text(command.arg(OURS.command().get_program()))?;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["The soak is INCONCLUSIVE: host one: ", "needs root, and `sudo -n`"] {
        ensure!(flat.contains(words), "`{words}` is not in:\n{text}");
    }
    ensure!(text.ends_with("exit 4\n"), "{text}");
    Ok(())
}

fn without_direct() -> Result<()> {
    let text = run_on("ramfs", "mode=755", &["--direct", "true", "--quiet"])?;
    for words in ["error: ", "does not support O_DIRECT", "hint: use --direct false", "exit 2"] {
        ensure!(text.contains(words), "`{words}` is not in:\n{text}");
    }
    ensure!(!text.contains("dfsbench.db"), "results of nothing were kept:\n{text}");
    Ok(())
}

/// Flags for one short trial, with the codes of its caveats at the end of a table.
const ONE_TRIAL: [&str; 5] =
    ["--workload=stream", "--file-size=32MiB", "--trials=1", "--quiet", "--format=table"];

fn compressing() -> Result<()> {
    for (kind, options, data, expected) in [
        ("btrfs", "compress=zstd", "zeros", true),
        ("btrfs", "compress=zstd", "random", false),
        ("btrfs", "compress=no", "zeros", false),
        ("btrfs-property", "rw", "zeros", true),
        ("btrfs-property", "rw", "random", false),
        ("btrfs-attribute", "rw", "zeros", true),
    ] {
        let data = format!("--data={data}");
        let text = run_on(kind, options, &[&ONE_TRIAL[..], &[&data]].concat())?;
        ensure!(text.contains("stream write"), "nothing was measured:\n{text}");
        let found = text.contains("compressible");
        ensure!(found == expected, "{data} on {kind}, {options}: raised is {found}:\n{text}");
        // Less is read from storage than delivered, but nothing is cached.
        ensure!(!text.contains("cached"), "{data} on {kind}, {options}:\n{text}");
    }
    Ok(())
}

/// `O_DIRECT` bypasses the page cache above the loop device, not the one below.
fn buffered_loop() -> Result<()> {
    for (kind, direct, expected) in [
        ("ext4-buffered", "--direct=true", true),
        ("ext4-buffered", "--direct=false", true),
        ("ext4", "--direct=true", false),
    ] {
        let flags = [&ONE_TRIAL[..4], &["--format=markdown", direct]].concat();
        let text = run_on(kind, "rw", &flags)?;
        ensure!(text.contains("stream read"), "nothing was measured:\n{text}");
        // A pass of 32 MiB is 65536 sectors and a few for metadata.
        let found = text.contains("cached: ") && text.contains(" delivered 65");
        ensure!(found == expected, "{kind}, {direct}: named is {found}:\n{text}");
        ensure!(text.contains("cached: ") == expected, "{kind}, {direct}:\n{text}");
    }
    Ok(())
}

/// With data journaling ext4 opens files with `O_DIRECT`, but uses the page cache.
fn direct_in_vain() -> Result<()> {
    for (options, is_expected) in [("data=journal", true), ("data=ordered", false)] {
        let text = run_on("ext4", options, &[&ONE_TRIAL[..], &["--direct=true"]].concat())?;
        ensure!(text.contains("stream write"), "nothing was measured:\n{text}");
        let found = text.contains("option-not-effective");
        ensure!(found == is_expected, "{options}: the caveat is there: {found}:\n{text}");
    }
    Ok(())
}

fn unknown_source() -> Result<()> {
    // An overlay on memory reads nothing from storage, with or without O_DIRECT.
    for (base, direct, is_noted) in [
        ("tmpfs", "--direct=false", true),
        ("tmpfs", "--direct=true", true),
        ("", "--direct=true", false),
    ] {
        let text = run_on("overlay", base, &[&ONE_TRIAL[..], &[direct]].concat())?;
        ensure!(text.contains("stream read"), "nothing was measured:\n{text}");
        let found = text.contains("fits-memory");
        ensure!(found == is_noted, "`{base}` {direct}: noted is {found}:\n{text}");
    }
    Ok(())
}

/// The program behind the mount has already read its image, and `O_DIRECT` ends at the mount.
fn daemon_cache() -> Result<()> {
    for direct in ["--direct=false", "--direct=true"] {
        let text = run_on("fuse2fs", "", &[&ONE_TRIAL[..], &[direct]].concat())?;
        ensure!(text.contains("stream read"), "nothing was measured:\n{text}");
        // On a host that reads a lot for other programs meanwhile, it is only a possibility.
        let is_reported = text.contains("cached") || text.contains("fits-memory");
        ensure!(is_reported, "{direct}:\n{text}");
    }
    Ok(())
}

/// Measures a new file system and returns all text output; nothing may be left on it.
fn run_on(kind: &str, options: &str, flags: &[&str]) -> Result<String> {
    // A temporary directory may be on an overlay, whose disk is unknown.
    let folder = TempDir::new_in(repo::target_folder())?;
    let path: &Path = folder.path();
    let ours = OURS.command();
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "bash", "-c", SCRIPT, "disk"]);
    command.arg(path).args([kind, options]).arg(ours.get_program()).args(["run", "target"]);
    let text = proc::capture_text(command.args(flags))?;
    ensure!(
        !text.lines().any(|line| line.starts_with("left: ")),
        "something is left behind:\n{text}"
    );
    Ok(text)
}

/// Arguments: directory, program. Prints the stderr of a run in directories of root, and of another
/// user.
const FOREIGN: &str = r#"
cd "$1"
mkdir target
for owner in root nobody; do
    chown "$owner" . target
    "$2" run target --workload metadata --small-files 10 --trials 1 --quiet --results r.db \
        2>&1 > /dev/null | sed "s/^/$owner: /"
done
"#;

fn foreign_folders() -> Result<()> {
    let folder = TempDir::new()?;
    let mut command = Command::new("sh");
    command.args(["-euc", FOREIGN, "disk"]).arg(folder.path());
    command.arg(OURS.command().get_program());
    let text = proc::capture_text(&mut command)?;
    let warnings = |owner: &str| {
        let of_owner = text.lines().filter(|line| line.starts_with(owner));
        of_owner.filter(|line| line.contains("belongs to user")).count()
    };
    let own = warnings("root: ");
    let theirs = warnings("nobody: ");
    ensure!((own, theirs) == (0, 2), "not 0 and 2 warnings:\n{text}");
    Ok(())
}

//! The shell scripts that install the program on a host, and their output.
//!
//! The only values inserted into them are hashes, a length, and a path without special characters.
//! They run in any POSIX shell. `gzip` and file modification times are optional.

use super::binary::Binary;

/// Script that prints where the program is, or our folder for it after checking that it belongs to
/// us. It is fed to `sh`.
///
/// If an installed copy exists, it is used and no folder is created, because nothing would remove
/// the folder if the campaign were killed.
///
/// Other versions of the program left behind by killed campaigns are removed if no process is
/// executing them and no launcher has looked for them recently. A launcher starts a program well
/// within that time ([`super::COPY_WITHIN`]), so a program that is about to be started is never
/// removed.
///
/// The script first prints an empty line and creates nothing if that fails: if the shell's start-up
/// files print without end, we give up and close the pipe before the script gets to run.
const LOOK: &str = r#"echo || exit 1
umask 077
if [ -n "$XDG_CACHE_HOME" ]; then dir=$XDG_CACHE_HOME/dfsbench; else dir=/tmp/dfsbench-$(id -u); fi
gzip=$(command -v gzip >/dev/null 2>&1 && echo gzip)
own=$(command -v dfsbench 2>/dev/null)
case $own in
  /*) start=$(head -c PREFIX_BYTES "$own" 2>/dev/null | sha256sum 2>/dev/null)
    [ "${start%% *}" = PREFIX_SHA ] || own= ;;
  *) own= ;;
esac
[ -e "$dir/dfsbench-HASH" ] && own=
report() {
  echo "dfsbench-host $(uname -s) $(uname -m) $1 $2 $gzip $own"
  echo "$dir"
  exit 0
}
if [ -n "$own" ]; then
  if [ -h "$dir" ] || [ ! -O "$dir" ]; then report; fi
else
  mkdir -p "$dir" || exit 1
fi
if [ -h "$dir" ] || [ ! -O "$dir" ]; then echo "$dir belongs to another user" >&2; exit 1; fi
chmod 700 "$dir" || exit 1
touch -c "$dir/dfsbench-HASH"
find "$dir" -maxdepth 1 -type f -mmin +15 2>/dev/null | while read -r old; do
  name=${old##*/}
  case $name in
    dfsbench-*[!0-9a-f]*) continue ;;
    dfsbench-*) [ ${#name} -eq 73 ] || continue ;;
    new-*[!0-9]*) continue ;;
    new-[0-9]*) ;;
    *) continue ;;
  esac
  for program in /proc/[0-9]*/exe; do [ "$program" -ef "$old" ] && continue 2; done
  rm -f "$old"
done
if [ -n "$own" ]; then rmdir "$dir" 2>/dev/null; report; fi
there=$(sha256sum < "$dir/dfsbench-HASH" 2>/dev/null)
report "${there%% *}" "$(stat -c %.9Y "$dir/dfsbench-HASH" 2>/dev/null)"
"#;

/// Command that reads the program from stdin and prints its modification time. The folder has been
/// checked, and the hash is hexadecimal.
const TAKE: &str = r#"sh -c 'umask 077; cd DIR && UNPACK > new-$$ && chmod 700 new-$$ &&
 there=$(sha256sum < new-$$) && if [ "${there%% *}" = HASH ]; then mv new-$$ dfsbench-HASH &&
 { stat -c %.9Y dfsbench-HASH; true; }; else echo "checksum mismatch after the copy" >&2; false; fi || { rm -f new-$$; exit 1; }'"#;

/// Command that tries to run the program. If it may not be executed and the file system is mounted
/// noexec, the last line on stderr mentions that.
const TRY: &str = r#"sh -c 'PROGRAM --version; code=$?; [ $code -eq 126 ] || exit $code;
 at=$(df -P PROGRAM | tail -n 1); at=${at##*% }; noexec=;
 while read -r source point kind options rest; do
 if [ "$point" = "$at" ]; then noexec=; case ,$options, in *,noexec,*) noexec=1 ;; esac; fi;
 done < /proc/self/mounts; [ -z "$noexec" ] || echo "$at is mounted noexec" >&2; exit 126'"#;

/// Command that removes what [`TAKE`] installed. If another campaign has looked for the program
/// since, it is left for that campaign to remove. A folder with other files is kept.
const REMOVE: &str = r#"sh -c '[ "$(stat -c %.9Y DIR/dfsbench-HASH 2>/dev/null)" = "SEEN" ] &&
 rm -f DIR/dfsbench-HASH; rmdir DIR 2>/dev/null; true'"#;

/// What we found on a host.
pub(super) struct HostProbe {
    pub directory: String,
    pub system: String,
    pub machine: String,
    /// Hash of the program that exists under the expected name.
    pub hash: String,
    /// When the program was last looked for, which is just now, by us.
    pub seen: String,
    /// The host has gzip.
    pub(crate) has_gzip: bool,
    /// Path of an installed copy of the program.
    pub installed: Option<String>,
}

impl HostProbe {
    /// Parses the last two lines of the output of [`probe_command`]. A login may print other lines
    /// before them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (head, directory) = text.trim_end().rsplit_once('\n')?;
        let mut words = head.lines().last()?.strip_prefix("dfsbench-host ")?.split(' ');
        let system = words.next()?;
        let machine = words.next()?;
        let hash = words.next()?;
        let seen = parse_time(words.next().unwrap_or_default());
        let has_gzip = words.next() == Some("gzip");
        let installed = words.next().unwrap_or_default();
        // Both become part of shell commands, so only paths without special characters are
        // accepted.
        if !is_plain_path(directory) {
            return None;
        }
        let installed = if is_plain_path(installed) { Some(installed.to_owned()) } else { None };
        Some(Self {
            directory: directory.to_owned(),
            system: system.to_owned(),
            machine: machine.to_owned(),
            hash: hash.to_owned(),
            seen: seen.to_owned(),
            has_gzip,
            installed,
        })
    }
}

fn is_plain_path(path: &str) -> bool {
    let is_plain = path.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
    path.starts_with('/') && is_plain
}

/// Returns the script that looks for a program, to be fed to `sh`.
pub(super) fn probe_command(binary: &Binary) -> String {
    LOOK.replace("PREFIX_BYTES", &binary.content.len_bytes.to_string())
        .replace("PREFIX_SHA", &binary.file_hash)
        .replace("HASH", &binary.hash)
}

/// Returns the command that reads a program from its input and decompresses it with `unpack`.
pub(super) fn receive_command(directory: &str, hash: &str, unpack: &str) -> String {
    one_line(TAKE).replace("DIR", directory).replace("UNPACK", unpack).replace("HASH", hash)
}

/// Returns the command that tries a program.
pub(super) fn try_program(program: &str) -> String {
    one_line(TRY).replace("PROGRAM", program)
}

/// Returns the command that removes a program last looked for at time `seen`.
pub(super) fn remove(directory: &str, hash: &str, seen: &str) -> String {
    one_line(REMOVE).replace("DIR", directory).replace("HASH", hash).replace("SEEN", seen)
}

fn one_line(words: &str) -> String {
    words.replace('\n', "")
}

/// Validates a time printed by a host's `stat`. Returns an empty string if it is anything else.
pub(super) fn parse_time(text: &str) -> &str {
    let text = text.trim();
    let is_time = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_time { text } else { "" }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::io::Write as _;
    use std::os::unix::fs::PermissionsExt as _;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Output, Stdio};
    use std::time::Duration;

    use flate2::write::GzEncoder;

    use super::*;
    use crate::ssh::content::hash_of;

    fn hash_of_bytes(bytes: &[u8]) -> String {
        hash_of(&mut &*bytes).unwrap()
    }

    /// Returns the script for a program with this hash; installed copies begin with `start`.
    fn script(hash: &str, start: &[u8]) -> String {
        LOOK.replace("PREFIX_BYTES", &start.len().to_string())
            .replace("PREFIX_SHA", &hash_of_bytes(start))
            .replace("HASH", hash)
    }

    /// A simulated host: a cache folder, and a program folder that comes first in PATH.
    struct Host {
        cache: tempfile::TempDir,
        programs: tempfile::TempDir,
    }

    impl Host {
        fn new() -> Self {
            Self { cache: tempfile::tempdir().unwrap(), programs: tempfile::tempdir().unwrap() }
        }

        fn folder(&self) -> PathBuf {
            self.cache.path().join("dfsbench")
        }

        fn install(&self, bytes: &[u8]) -> PathBuf {
            let path = self.programs.path().join("dfsbench");
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            path
        }

        fn run(&self, words: &str, input: &[u8]) -> Output {
            let path = std::env::var("PATH").unwrap();
            let path = format!("{}:{path}", self.programs.path().display());
            let mut sh = Command::new("sh");
            sh.arg("-c").arg(words).env("XDG_CACHE_HOME", self.cache.path()).env("PATH", path);
            sh.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = sh.spawn().unwrap();
            // A script that fails early closes its input.
            let _ = child.stdin.take().unwrap().write_all(input);
            child.wait_with_output().unwrap()
        }

        fn look(&self, script: &str) -> HostProbe {
            let output = self.run(script, b"");
            let text = String::from_utf8(output.stdout).unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            HostProbe::parse(&text).unwrap_or_else(|| panic!("{text}{stderr}"))
        }
    }

    #[test]
    fn reads_host_facts_after_shell_output() {
        let found = HostProbe::parse("welcome\ndfsbench-host Linux x86_64 ab12\n/tmp/dfsbench-0\n");
        let found = found.unwrap();
        assert_eq!((found.system.as_str(), found.machine.as_str()), ("Linux", "x86_64"));
        assert_eq!((found.hash.as_str(), found.directory.as_str()), ("ab12", "/tmp/dfsbench-0"));
        assert!(!found.has_gzip && found.installed.is_none());
        // No program is there yet.
        assert_eq!(HostProbe::parse("dfsbench-host Linux x86_64 \n/x\n").unwrap().hash, "");
        let all = "dfsbench-host Linux x86_64   gzip /usr/bin/dfsbench\n/x\n";
        let all = HostProbe::parse(all).unwrap();
        assert_eq!((all.hash.as_str(), all.seen.as_str(), all.has_gzip), ("", "", true));
        assert_eq!(all.installed.as_deref(), Some("/usr/bin/dfsbench"));
    }

    #[test]
    fn rejects_path_unsafe_for_shell() {
        for path in ["/tmp/a b", "relative", "/tmp/$(reboot)", "/tmp/'x"] {
            let text = format!("dfsbench-host Linux x86_64 \n{path}\n");
            assert!(HostProbe::parse(&text).is_none(), "{path}");
            let text = format!("dfsbench-host Linux x86_64   gzip {path}\n/x\n");
            let installed = HostProbe::parse(&text).unwrap().installed;
            assert!(installed.is_none_or(|installed| installed == "/tmp/a"), "{path}");
        }
    }

    #[test]
    fn makes_no_folder_without_reader() {
        let host = Host::new();
        let script = script(&"a".repeat(64), b"program");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut sh = Command::new("sh");
        sh.arg("-c").arg(&script).env("XDG_CACHE_HOME", host.cache.path()).stdout(writer);
        let status = sh.stdin(Stdio::null()).stderr(Stdio::null()).status().unwrap();
        assert!(!status.success() && !host.folder().exists(), "{status}");
        host.look(&script);
        assert!(host.folder().exists());
    }

    #[test]
    fn uses_installed_copy() {
        let host = Host::new();
        let hash = "a".repeat(64);
        let script = script(&hash, b"program");
        let other = host.install(b"another version");
        let found = host.look(&script);
        assert_eq!((found.installed.as_deref(), host.folder().exists()), (None, true), "{other:?}");
        fs::remove_dir(host.folder()).unwrap();
        // An installed copy has debug information after the loaded part.
        let installed = host.install(b"program and symbols");
        let found = host.look(&script);
        assert_eq!(found.installed.as_deref(), installed.to_str());
        assert!(!host.folder().exists());
        // A copy that a launcher installed comes first, since that launcher will remove it.
        fs::create_dir(host.folder()).unwrap();
        let put = host.folder().join(format!("dfsbench-{hash}"));
        fs::write(&put, b"put").unwrap();
        let found = host.look(&script);
        assert_eq!((found.installed.as_deref(), found.hash), (None, hash_of_bytes(b"put")));
        // Files left by killed campaigns are removed, and then the folder.
        make_old(&put);
        fs::rename(&put, host.folder().join(format!("dfsbench-{}", "b".repeat(64)))).unwrap();
        assert!(host.look(&script).installed.is_some());
        assert!(!host.folder().exists());
    }

    #[allow(clippy::disallowed_methods, reason = "backdates files")]
    fn make_old(path: &Path) {
        let an_hour_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(an_hour_ago).unwrap();
    }

    #[test]
    fn removes_unused_programs_of_killed_campaigns() {
        let host = Host::new();
        let folder = host.folder();
        fs::create_dir(&folder).unwrap();
        let mine = "a".repeat(64);
        let old = "b".repeat(64);
        let used = "c".repeat(64);
        let new = "d".repeat(64);
        let of = |hash: &str| folder.join(format!("dfsbench-{hash}"));
        let others = ["dfsbench-notes", "dfsbench-12", "new-notes", "results.db"];
        for path in [of(&mine), of(&old), of(&used), of(&new), folder.join("new-12")] {
            fs::copy("/bin/sleep", path).unwrap();
        }
        for name in others {
            fs::write(folder.join(name), "").unwrap();
        }
        for file in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            if file != of(&new) {
                make_old(&file);
            }
        }
        let before = fs::metadata(of(&mine)).unwrap().modified().unwrap();
        let mut agent = Command::new(of(&used)).arg("600").spawn().unwrap();
        let found = host.look(&script(&mine, b"program"));
        agent.kill().unwrap();
        agent.wait().unwrap();
        assert_eq!((found.hash.len(), found.directory.as_str()), (64, folder.to_str().unwrap()));
        let left: Vec<_> = fs::read_dir(&folder).unwrap().map(|it| it.unwrap().path()).collect();
        assert!(!left.contains(&of(&old)) && !left.contains(&folder.join("new-12")), "{left:?}");
        assert_eq!(left.len(), 3 + others.len(), "{left:?}");
        // The launcher that looks for it now takes over its removal.
        let touched = fs::metadata(of(&mine)).unwrap().modified().unwrap();
        assert!(touched > before + Duration::from_secs(60));
    }

    #[test]
    fn removes_program_unless_used_since() {
        let host = Host::new();
        let hash = "a".repeat(64);
        let look = || host.look(&script(&hash, b"program"));
        let empty = look();
        assert_eq!((empty.hash.as_str(), empty.seen.as_str()), ("", ""));
        assert_eq!((empty.has_gzip, empty.installed), (true, None));
        let program = host.folder().join(format!("dfsbench-{hash}"));
        fs::write(&program, "program").unwrap();
        let first = look().seen;
        let second = (0..1_000).map(|_| look().seen).find(|seen| *seen != first).unwrap();
        for seen in [first.as_str(), ""] {
            host.run(&remove(&empty.directory, &hash, seen), b"");
            assert!(program.exists(), "{seen}");
        }
        host.run(&remove(&empty.directory, &hash, &second), b"");
        assert!(!host.folder().exists());
    }

    #[test]
    fn accepts_only_program_that_was_sent() {
        let host = Host::new();
        let program = b"#!/bin/sh\necho works\n";
        let hash = hash_of_bytes(program);
        let mut packed = GzEncoder::new(Vec::new(), flate2::Compression::default());
        packed.write_all(program).unwrap();
        let packed = packed.finish().unwrap();
        let directory = host.look(&script(&hash, b"none")).directory;
        let path = host.folder().join(format!("dfsbench-{hash}"));
        let whole: [(&str, &[u8]); 2] = [("cat", program), ("gzip -dc", &packed)];
        for (unpack, input) in whole {
            let output = host.run(&receive_command(&directory, &hash, unpack), input);
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success() && !parse_time(&text).is_empty(), "{unpack}: {text}");
            let tried = host.run(&try_program(path.to_str().unwrap()), b"");
            assert_eq!(tried.stdout, b"works\n");
            fs::remove_file(&path).unwrap();
        }
        let broken: [(&str, &[u8]); 3] =
            [("cat", b"other"), ("gzip -dc", b"other"), ("gzip -dc", &packed[..packed.len() - 4])];
        for (unpack, input) in broken {
            let output = host.run(&receive_command(&directory, &hash, unpack), input);
            assert!(!output.status.success() && !output.stderr.is_empty(), "{unpack}");
            assert_eq!(fs::read_dir(host.folder()).unwrap().count(), 0, "{unpack}");
        }
    }
}

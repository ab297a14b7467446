//! The scripts that put the program on a host, and what they print.
//!
//! Only hashes, a length and a path without special characters are inserted into them. They run
//! in any POSIX shell; `gzip` and the times of files are optional.

use super::binary::Binary;

/// A script that prints where the program is, or our folder for it, after checking that it is ours.
///
/// An installed copy of the program is used in its place, and then no folder is made: nothing
/// would remove it where the campaign is killed.
///
/// Programs of other versions are removed that killed campaigns left there: those that no process
/// executes, and that no launcher has looked for of late. A launcher starts a program well within
/// that time ([`super::COPY_WITHIN`]), so none is removed that is about to be started.
///
/// It first prints a line, and makes nothing where that can't be written: a shell whose start-up
/// files print without end is given up before this script runs.
///
/// It is fed to `sh`.
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

/// A command that reads the program from stdin and prints its time. The folder was checked, and a
/// hash is hexadecimal.
const TAKE: &str = r#"sh -c 'umask 077; cd DIR && UNPACK > new-$$ && chmod 700 new-$$ &&
 there=$(sha256sum < new-$$) && if [ "${there%% *}" = HASH ]; then mv new-$$ dfsbench-HASH &&
 { stat -c %.9Y dfsbench-HASH; true; }; else echo "what arrived is not what was sent" >&2; false; fi || { rm -f new-$$; exit 1; }'"#;

/// A command that tries the program; where it may not be executed, its last line on stderr says
/// whether the file system forbids that.
const TRY: &str = r#"sh -c 'PROGRAM --version; code=$?; [ $code -eq 126 ] || exit $code;
 at=$(df -P PROGRAM | tail -n 1); at=${at##*% }; noexec=;
 while read -r source point kind options rest; do
 if [ "$point" = "$at" ]; then noexec=; case ,$options, in *,noexec,*) noexec=1 ;; esac; fi;
 done < /proc/self/mounts; [ -z "$noexec" ] || echo "$at is mounted noexec" >&2; exit 126'"#;

/// A command that removes what [`TAKE`] put there, unless another campaign has looked at it since,
/// which then removes it; a folder that others use is kept.
const REMOVE: &str = r#"sh -c '[ "$(stat -c %.9Y DIR/dfsbench-HASH 2>/dev/null)" = "SEEN" ] &&
 rm -f DIR/dfsbench-HASH; rmdir DIR 2>/dev/null; true'"#;

/// The state in which a host was found.
pub(super) struct Found {
    pub directory: String,
    pub system: String,
    pub machine: String,
    /// The hash of the program that is there under the name that was looked for.
    pub hash: String,
    /// The time of the last look at it: ours, just now.
    pub seen: String,
    /// The host can unpack what gzip compressed.
    pub has_gzip: bool,
    /// An installed copy of the program that was looked for.
    pub installed: Option<String>,
}

impl Found {
    /// Reads the last two lines of the output of [`look`]: a login may print others before them.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (head, directory) = text.trim_end().rsplit_once('\n')?;
        let mut words = head.lines().last()?.strip_prefix("dfsbench-host ")?.split(' ');
        let (system, machine, hash) = (words.next()?, words.next()?, words.next()?);
        let seen = parse_time(words.next().unwrap_or_default());
        let has_gzip = words.next() == Some("gzip");
        let installed = words.next().unwrap_or_default();
        // Both become parts of commands for a shell, so only plain ones are accepted.
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

/// Returns the script that looks for a program, for the input of `sh`.
pub(super) fn look(binary: &Binary) -> String {
    LOOK.replace("PREFIX_BYTES", &binary.content.len_bytes.to_string())
        .replace("PREFIX_SHA", &binary.file_hash)
        .replace("HASH", &binary.hash)
}

/// Returns the command that takes a program from its input, unpacked by `unpack`.
pub(super) fn take(directory: &str, hash: &str, unpack: &str) -> String {
    one_line(TAKE).replace("DIR", directory).replace("UNPACK", unpack).replace("HASH", hash)
}

/// Returns the command that tries a program.
pub(super) fn try_program(program: &str) -> String {
    one_line(TRY).replace("PROGRAM", program)
}

/// Returns the command that removes a program that was `seen` last at this time.
pub(super) fn remove(directory: &str, hash: &str, seen: &str) -> String {
    one_line(REMOVE).replace("DIR", directory).replace("HASH", hash).replace("SEEN", seen)
}

fn one_line(words: &str) -> String {
    words.replace('\n', "")
}

/// Reads the time that a host's `stat` printed; empty where it printed something else.
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

    /// The script for a program of this hash, and for installed ones that begin with these bytes.
    fn script(hash: &str, start: &[u8]) -> String {
        LOOK.replace("PREFIX_BYTES", &start.len().to_string())
            .replace("PREFIX_SHA", &hash_of_bytes(start))
            .replace("HASH", hash)
    }

    /// A host: a folder for caches, and one for programs that is first in the path.
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

        fn look(&self, script: &str) -> Found {
            let output = self.run(script, b"");
            let text = String::from_utf8(output.stdout).unwrap();
            let stderr = String::from_utf8(output.stderr).unwrap();
            Found::parse(&text).unwrap_or_else(|| panic!("{text}{stderr}"))
        }
    }

    #[test]
    fn what_a_host_says_of_itself_is_read_after_whatever_its_shell_prints() {
        let found = Found::parse("welcome\ndfsbench-host Linux x86_64 ab12\n/tmp/dfsbench-0\n");
        let found = found.unwrap();
        assert_eq!((found.system.as_str(), found.machine.as_str()), ("Linux", "x86_64"));
        assert_eq!((found.hash.as_str(), found.directory.as_str()), ("ab12", "/tmp/dfsbench-0"));
        assert!(!found.has_gzip && found.installed.is_none());
        // Nothing is there yet.
        assert_eq!(Found::parse("dfsbench-host Linux x86_64 \n/x\n").unwrap().hash, "");
        let all = "dfsbench-host Linux x86_64   gzip /usr/bin/dfsbench\n/x\n";
        let all = Found::parse(all).unwrap();
        assert_eq!((all.hash.as_str(), all.seen.as_str(), all.has_gzip), ("", "", true));
        assert_eq!(all.installed.as_deref(), Some("/usr/bin/dfsbench"));
    }

    #[test]
    fn a_path_that_a_shell_would_misread_is_refused() {
        for path in ["/tmp/a b", "relative", "/tmp/$(reboot)", "/tmp/'x"] {
            let text = format!("dfsbench-host Linux x86_64 \n{path}\n");
            assert!(Found::parse(&text).is_none(), "{path}");
            let text = format!("dfsbench-host Linux x86_64   gzip {path}\n/x\n");
            let installed = Found::parse(&text).unwrap().installed;
            assert!(installed.is_none_or(|installed| installed == "/tmp/a"), "{path}");
        }
    }

    #[test]
    fn no_folder_is_made_where_the_answer_goes_nowhere() {
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
    fn an_installed_copy_is_used_and_no_folder_is_made() {
        let host = Host::new();
        let hash = "a".repeat(64);
        let script = script(&hash, b"program");
        let other = host.install(b"another version");
        let found = host.look(&script);
        assert_eq!((found.installed.as_deref(), host.folder().exists()), (None, true), "{other:?}");
        fs::remove_dir(host.folder()).unwrap();
        // With debug information behind what is loaded.
        let installed = host.install(b"program and symbols");
        let found = host.look(&script);
        assert_eq!(found.installed.as_deref(), installed.to_str());
        assert!(!host.folder().exists());
        // One that was put there goes first: its launcher removes it.
        fs::create_dir(host.folder()).unwrap();
        let put = host.folder().join(format!("dfsbench-{hash}"));
        fs::write(&put, b"put").unwrap();
        let found = host.look(&script);
        assert_eq!((found.installed.as_deref(), found.hash), (None, hash_of_bytes(b"put")));
        // What killed campaigns left goes, and the folder with it.
        make_old(&put);
        fs::rename(&put, host.folder().join(format!("dfsbench-{}", "b".repeat(64)))).unwrap();
        assert!(host.look(&script).installed.is_some());
        assert!(!host.folder().exists());
    }

    #[allow(clippy::disallowed_methods, reason = "files are made to look old")]
    fn make_old(path: &Path) {
        let an_hour_ago = std::time::SystemTime::now() - Duration::from_secs(3_600);
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(an_hour_ago).unwrap();
    }

    #[test]
    fn programs_that_killed_campaigns_left_are_removed_unless_they_are_in_use() {
        let host = Host::new();
        let folder = host.folder();
        fs::create_dir(&folder).unwrap();
        let (mine, old, used, new) =
            ("a".repeat(64), "b".repeat(64), "c".repeat(64), "d".repeat(64));
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
        // Who looks for it next is not the one who would remove it.
        let touched = fs::metadata(of(&mine)).unwrap().modified().unwrap();
        assert!(touched > before + Duration::from_secs(60));
    }

    #[test]
    fn a_program_goes_unless_another_campaign_has_looked_at_it_since() {
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
    fn a_program_is_taken_compressed_or_not_and_only_if_it_is_what_was_sent() {
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
            let output = host.run(&take(&directory, &hash, unpack), input);
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success() && !parse_time(&text).is_empty(), "{unpack}: {text}");
            let tried = host.run(&try_program(path.to_str().unwrap()), b"");
            assert_eq!(tried.stdout, b"works\n");
            fs::remove_file(&path).unwrap();
        }
        let broken: [(&str, &[u8]); 3] =
            [("cat", b"other"), ("gzip -dc", b"other"), ("gzip -dc", &packed[..packed.len() - 4])];
        for (unpack, input) in broken {
            let output = host.run(&take(&directory, &hash, unpack), input);
            assert!(!output.status.success() && !output.stderr.is_empty(), "{unpack}");
            assert_eq!(fs::read_dir(host.folder()).unwrap().count(), 0, "{unpack}");
        }
    }
}

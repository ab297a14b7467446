//! Explains in one sentence why a host cannot be used and what to do about that particular cause.

use std::fmt::Display;

use model::Host;

use super::bounded::{ProcessExit, ProcessFailure};
use crate::PeerGone;

/// Exit code of ssh itself, as opposed to that of the command. **Source:** ssh(1), EXIT STATUS.
pub(super) const SSH_FAILED: i32 = 255;

/// Exit code of a shell that isn't allowed to execute a program. **Source:** sh(1), EXIT STATUS.
const NOT_EXECUTABLE: i32 = 126;

/// Exit code of a shell if the program, or the loader it needs, does not exist.
const NOT_FOUND: i32 = 127;

/// Advice on how to choose another folder for the program.
const ELSEWHERE: &str = "name another folder by XDG_CACHE_HOME in /etc/environment of that host, \
                         or by `SetEnv XDG_CACHE_HOME=FOLDER` in your ssh_config if its sshd \
                         accepts that";

/// Advice on how to build a program that needs no libraries.
const STATIC: &str = "`cargo xtask static` builds one that needs nothing; put it beside this one \
                      as `dfsbench-static`, or name it in DFSBENCH_AGENT_BINARY";

/// Creates an error that names the host.
pub(super) fn host_error(host: &Host, why: &dyn Display) -> PeerGone {
    PeerGone(format!("host {}: {why}", host.name))
}

/// Returns the address to pass to ssh.
pub(super) fn ssh_address(host: &Host) -> &str {
    host.ssh.as_deref().unwrap_or("localhost")
}

/// Explains why a short command on a host did not finish. ssh has its own connection timeout, so
/// silence usually means that the login shell got stuck before it reached the command.
pub(super) fn describe_unfinished(host: &Host, unfinished: &ProcessFailure) -> PeerGone {
    let ProcessFailure::TimedOut(why) = unfinished else { return host_error(host, unfinished) };
    let name = ssh_words(host);
    host_error(
        host,
        &format!(
            "{why} (hint: the start-up files of its login shell may wait for something, such as a \
             lock or a file system that hangs; `ssh {name} true` shows it)"
        ),
    )
}

/// Explains why a command on a host failed: ssh's own reason if ssh failed, otherwise `what` and
/// the command's last line. `program` is the size of the program that was to be stored there, in
/// bytes.
pub(super) fn describe_refusal(
    host: &Host,
    ended: &ProcessExit,
    what: &str,
    program: u64,
) -> PeerGone {
    let reason = ended.last_line.as_deref().unwrap_or("ssh gives no reason");
    if ended.code == Some(SSH_FAILED) {
        return describe_failure_of_ssh(host, ended, reason);
    }
    let mib = program.div_ceil(1 << 20);
    let is_full = ["No space left", "quota exceeded"].iter().any(|words| reason.contains(words));
    let is_closed =
        ["Read-only file", "Permission denied"].iter().any(|words| reason.contains(words));
    let hint = if is_full {
        format!(" (hint: free {mib} MiB there, or {ELSEWHERE})")
    } else if reason.contains("belongs to another user") {
        format!(" (hint: have that user or root remove it, or {ELSEWHERE})")
    } else if is_closed {
        format!(" (hint: {ELSEWHERE})")
    } else {
        String::new()
    };
    host_error(host, &format!("{what}{reason}{hint}"))
}

/// Explains why a program on a host doesn't run.
pub(super) fn describe_failed_try(host: &Host, ended: &ProcessExit) -> PeerGone {
    let why = ended.last_line.as_deref().unwrap_or("it ends at once");
    let hint = if why.ends_with("is mounted noexec") {
        format!("programs can't be executed from there: {ELSEWHERE}")
    } else if ended.code == Some(NOT_EXECUTABLE) && why.contains("Permission denied") {
        "a security policy of that host may forbid it, such as SELinux or fapolicyd: install this \
         dfsbench there, in a folder of its PATH, and that one is used"
            .to_owned()
    } else if why.contains("GLIBC_") {
        format!("its C library is older than the one of this program; {STATIC}")
    } else if ended.code == Some(NOT_FOUND) {
        format!("it has another C library than this program needs; {STATIC}")
    } else {
        STATIC.to_owned()
    };
    host_error(host, &format!("it can't run this dfsbench: {why} (hint: {hint})"))
}

/// Returns the ssh arguments with which a user can reach the host by hand.
fn ssh_words(host: &Host) -> String {
    match &host.ssh_config {
        Some(config) => format!("-F {} {}", config.display(), ssh_address(host)),
        None => ssh_address(host).to_owned(),
    }
}

fn describe_failure_of_ssh(host: &Host, ended: &ProcessExit, reason: &str) -> PeerGone {
    let name = ssh_words(host);
    let why = if ended.has_other_key {
        format!(
            "it has another host key than ssh knows: {reason} (hint: `ssh {name}` says which; make \
             sure that it is the host you mean)"
        )
    } else if reason.contains("Host key verification failed") {
        format!("ssh does not know it: {reason} (hint: log in by hand once: `ssh {name}`)")
    } else if reason.contains("Permission denied") || reason.contains("authentication failures") {
        format!(
            "it refuses the login: {reason} (hint: `ssh {name} true` must work without a prompt)"
        )
    } else {
        format!("it can't be reached: {reason}")
    };
    host_error(host, &why)
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Duration;

    use super::*;
    use crate::ssh::bounded;

    const WIDE: Duration = Duration::from_secs(60);

    fn ended(code: i32, line: &str) -> ProcessExit {
        let last_line = Some(line.to_owned());
        let has_other_key = line.contains("known otherwise");
        ProcessExit { code: Some(code), stdout: String::new(), last_line, has_other_key }
    }

    #[test]
    fn explains_each_refusal() {
        let host = Host { ssh: Some("root@h".into()), ..Host::local("web") };
        let known = [
            ("Host key verification failed.", "host web: ssh does not know it: Host key"),
            ("Host key, known otherwise.", "host web: it has another host key than ssh knows: H"),
            ("root@h: Permission denied (publickey).", "host web: it refuses the login: root@h"),
            ("ssh: connect to host h port 22: No route", "host web: it can't be reached: ssh: con"),
        ];
        for (words, start) in known {
            let message = describe_refusal(&host, &ended(SSH_FAILED, words), "", 0).to_string();
            assert!(message.starts_with(start), "{message}");
        }
    }

    /// A shell whose start-up file blocks, like `pyenv init` waiting for a lock left by a killed
    /// shell.
    #[test]
    fn suspects_waiting_startup_file() {
        let folder = tempfile::tempdir().unwrap();
        let start_up = folder.path().join("bashrc");
        std::fs::write(&start_up, "sleep 60\n").unwrap();
        let mut shell = Command::new("bash");
        shell.args(["-c", "echo answer"]).env("BASH_ENV", start_up);
        let slow = bounded::with_input(&mut shell, String::new(), Duration::from_secs(1));
        let host = Host { ssh: Some("root@h".into()), ..Host::local("web") };
        let gone = describe_unfinished(&host, &slow.err().expect("it does not wait")).0;
        let words = "host web: no answer from `bash` in 1 s (hint: the start-up files of its login \
                     shell may wait for something, such as a lock or a file system that hangs; \
                     `ssh root@h true` shows it)";
        assert_eq!(gone, words);
        // Other failures don't get this hint.
        let missing = bounded::with_input(&mut Command::new("/no/ssh"), String::new(), WIDE);
        let gone = describe_unfinished(&host, &missing.err().expect("there is one")).0;
        assert!(gone.starts_with("host web: can't start `/no/ssh`: "), "{gone}");
        assert!(!gone.contains("start-up"), "{gone}");
    }

    #[test]
    fn gives_hint_for_each_cause() {
        let host = Host::local("web");
        let known = [
            ("gzip: stdout: No space left on device", "(hint: free 18 MiB there, or name another"),
            ("/tmp/dfsbench-0 belongs to another user", "(hint: have that user or root remove it"),
            ("mkdir: /tmp/dfsbench-0: Permission denied", "(hint: name another folder by XDG_"),
            ("mkdir: /tmp/dfsbench-0: Read-only file system", "(hint: name another folder by XDG_"),
        ];
        for (line, hint) in known {
            let gone = describe_refusal(&host, &ended(1, line), "no folder: ", 18 << 20).0;
            assert!(gone.starts_with(&format!("host web: no folder: {line} {hint}")), "{gone}");
        }
        let gone = describe_refusal(&host, &ended(1, "what arrived is not what was sent"), "", 0);
        assert_eq!(gone.0, "host web: what arrived is not what was sent");
    }

    #[test]
    fn gives_hint_for_each_start_failure() {
        let host = Host::local("web");
        let known = [
            (126, "/tmp is mounted noexec", "executed from there: name another folder by XDG_CAC"),
            (126, "sh: 1: /x: Permission denied", "SELinux"),
            (1, "/x: libc.so.6: version `GLIBC_2.39' not found", "older than the one of this"),
            (127, "sh: 1: /x: not found", "another C library than this program needs; `cargo"),
            (132, "Illegal instruction", "(hint: `cargo xtask static` builds one"),
        ];
        for (code, line, hint) in known {
            let gone = describe_failed_try(&host, &ended(code, line)).0;
            let start = format!("host web: it can't run this dfsbench: {line} (hint: ");
            assert!(gone.starts_with(&start) && gone.contains(hint), "{gone}");
        }
    }
}

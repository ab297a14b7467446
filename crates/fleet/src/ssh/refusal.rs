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
const ELSEWHERE: &str = "choose another folder with XDG_CACHE_HOME in /etc/environment of that \
                         host, or with `SetEnv XDG_CACHE_HOME=FOLDER` in your ssh_config if its \
                         sshd accepts that";

/// Advice on how to build a program that needs no libraries.
const STATIC: &str = "`cargo xtask static` builds one that needs no libraries; put it next to this \
                      one as `dfsbench-static`, or set DFSBENCH_AGENT_BINARY to its path";

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
            "{why} (hint: a startup file of its login shell seems to wait for something, such as a \
             lock or a hung file system; try `ssh {name} true`)"
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
    let reason = ended.last_line.as_deref().unwrap_or("ssh gave no reason");
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
    let why = ended.last_line.as_deref().unwrap_or("it exited immediately");
    let hint = if why.ends_with("is mounted noexec") {
        format!("programs cannot be executed there: {ELSEWHERE}")
    } else if ended.code == Some(NOT_EXECUTABLE) && why.contains("Permission denied") {
        "a security policy such as SELinux or fapolicyd may forbid it: install this dfsbench on \
         that host, in a folder in PATH, and it will be used instead"
            .to_owned()
    } else if why.contains("GLIBC_") {
        format!("its C library is too old for this program; {STATIC}")
    } else if ended.code == Some(NOT_FOUND) {
        format!("it has a different C library than this program needs; {STATIC}")
    } else {
        STATIC.to_owned()
    };
    host_error(host, &format!("cannot run this dfsbench: {why} (hint: {hint})"))
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
            "its host key has changed: {reason} (hint: `ssh {name}` shows which key; make sure \
             that this is the right host)"
        )
    } else if reason.contains("Host key verification failed") {
        format!("unknown host key: {reason} (hint: log in once by hand with `ssh {name}`)")
    } else if reason.contains("Permission denied") || reason.contains("authentication failures") {
        format!("login refused: {reason} (hint: `ssh {name} true` must work without a prompt)")
    } else {
        format!("cannot be reached: {reason}")
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
            ("Host key verification failed.", "host web: unknown host key: Host key"),
            ("Host key, known otherwise.", "host web: its host key has changed: H"),
            ("root@h: Permission denied (publickey).", "host web: login refused: root@h"),
            ("ssh: connect to host h port 22: No route", "host web: cannot be reached: ssh: con"),
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
        // Other failures don't get this hint.
        let missing = bounded::with_input(&mut Command::new("/no/ssh"), String::new(), WIDE);
        let other = describe_unfinished(&host, &missing.err().expect("it does not exist")).0;
        insta::assert_snapshot!([gone, other].join("\n"));
    }

    #[test]
    fn gives_hint_for_each_cause() {
        let host = Host::local("web");
        let lines = [
            "gzip: stdout: No space left on device",
            "/tmp/dfsbench-0 belongs to another user",
            "mkdir: /tmp/dfsbench-0: Permission denied",
            "mkdir: /tmp/dfsbench-0: Read-only file system",
            "what arrived is not what was sent",
        ];
        let messages =
            lines.map(|line| describe_refusal(&host, &ended(1, line), "no folder: ", 18 << 20).0);
        insta::assert_snapshot!(messages.join("\n"));
    }

    #[test]
    fn gives_hint_for_each_start_failure() {
        let host = Host::local("web");
        let messages = [
            (126, "/tmp is mounted noexec"),
            (126, "sh: 1: /x: Permission denied"),
            (1, "/x: libc.so.6: version `GLIBC_2.39' not found"),
            (127, "sh: 1: /x: not found"),
            (132, "Illegal instruction"),
        ]
        .map(|(code, line)| describe_failed_try(&host, &ended(code, line)).0);
        insta::assert_snapshot!(messages.join("\n"));
    }
}

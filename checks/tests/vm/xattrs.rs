//! Extended attributes of our server, set and read by system calls on a v4.2 mount.
//!
//! The guests have no `setfattr`, so perl makes the calls: it prints one line per call with its
//! name and result; a negative result is the error number.
//!
//! **Source:** setxattr(2), getxattr(2), listxattr(2), removexattr(2); arch/x86/entry/syscalls.

use anyhow::{Result, ensure};
use checks::vm::guest::Mount;
use checks::vm::lab::Lab;

/// Errors of Linux. **Source:** errno(3).
const ACCESS: i64 = -13;
const EXISTS: i64 = -17;
const RANGE: i64 = -34;
const TOO_BIG: i64 = -7;
const NO_DATA: i64 = -61;
const NOT_SUPPORTED: i64 = -95;

/// Functions of the scripts: each makes one call on the file, and prints its result. A call writes
/// into its arguments, so they are passed by reference.
const CALLS: &str = r#"
    my $file = "/mnt/nfs/attributes";
    sub call {
        my $what = shift;
        my $result = syscall($_[0], @_[1 .. $#_]);
        print "$what ", ($result < 0 ? 0 - $! : $result), "\n";
    }
    sub set {
        my ($what, $name, $value, $how) = @_;
        call($what, 188, $file, $name, $value, length($value), $how);
    }
    sub get {
        my ($what, $name) = @_;
        my $value = "\0" x 70000;
        call($what, 191, $file, $name, $value, length($value));
        $value =~ s/\0+$//;
        print "value $value\n" if length($value) < 20;
    }
    sub list {
        my ($what, $bytes) = @_;
        my $names = "\0" x $bytes;
        call($what, 194, $file, $names, $bytes);
        print join(" ", sort(grep(/./, split(/\0/, $names)))), "\n";
    }
    sub remove {
        my ($what, $name) = @_;
        call($what, 197, $file, $name);
    }
"#;

const CHANGES: &str = r#"
    get("missing", "user.one");
    set("replaced-missing", "user.one", "x", 2);
    set("created", "user.one", "first", 1);
    set("created-again", "user.one", "x", 1);
    set("replaced", "user.one", "second", 2);
    get("replaced", "user.one");
    set("large", "user.large", "v" x 65536, 0);
    set("too-large", "user.large", "v" x 65537, 0);
    set("longest", "user." . "n" x 250, "v", 0);
    set("other-namespace", "trusted.one", "v", 0);
    list("short-list", 10);
    remove("removed", "user." . "n" x 250);
    remove("removed-again", "user.one.");
"#;

/// Results on a mount without the caches of the first one, and the permissions of another user.
const AGAIN: &str = r#"
    list("list", 4096);
    get("get", "user.one");
    get("get-large", "user.large");
    ($), $>) = ("1000 1000", 1000);
    get("other-user-gets", "user.one");
    set("other-user-sets", "user.one", "x", 0);
    ($>, $)) = (0, "0 0");
    remove("removed", "user.large");
    rename($file, "$file-renamed");
    $file = "$file-renamed";
    list("list", 4096);
    unlink($file);
"#;

/// Sets, reads, lists, replaces and removes attributes, before and after mounting again.
pub fn check(lab: &Lab, client: &str) -> Result<()> {
    let mount = Mount { lab, client, source: "host:/export", options: "vers=4.2,proto=tcp" };
    let perl = |script: &str| format!("perl -e '{CALLS}{script}'");
    let changes = perl(CHANGES);
    let again = perl(AGAIN);
    let output = mount
        .run(&format!("umask 022; echo data >/mnt/nfs/attributes; {changes}; again; {again}"))?;
    let expected = [
        line("missing", NO_DATA),
        "value ".into(),
        line("replaced-missing", NO_DATA),
        line("created", 0),
        line("created-again", EXISTS),
        line("replaced", 0),
        line("replaced", 6),
        "value second".into(),
        line("large", 0),
        line("too-large", TOO_BIG),
        line("longest", 0),
        line("other-namespace", NOT_SUPPORTED),
        line("short-list", RANGE),
        String::new(),
        line("removed", 0),
        line("removed-again", NO_DATA),
        line("list", 20),
        "user.large user.one".into(),
        line("get", 6),
        "value second".into(),
        line("get-large", 65_536),
        line("other-user-gets", 6),
        "value second".into(),
        line("other-user-sets", ACCESS),
        line("removed", 0),
        line("list", 9),
        "user.one".into(),
    ];
    let lines = &output.lines;
    ensure!(*lines == expected, "the calls gave {lines:#?}, wanted {expected:#?}");
    Ok(())
}

/// A line that a call prints.
fn line(what: &str, result: i64) -> String {
    format!("{what} {result}")
}

//! Names and options that are handed on to other programs.
//!
//! No shell ever reads them: they become single arguments. What is refused here is what isn't in
//! the lists of `model::options`, or what another setting says already.

use model::options;

use model::setting::Setting;

use crate::written::error::Fault;

/// Options of nfs(5) that are settings of their own, with those settings.
///
/// **Source:** nfs(5).
const OWN_SETTINGS: &[(&str, Setting)] = &[
    ("vers", Setting::NfsVers),
    ("nfsvers", Setting::NfsVers),
    ("minorversion", Setting::NfsVers),
    ("proto", Setting::Proto),
    ("tcp", Setting::Proto),
    ("udp", Setting::Proto),
    ("xprtsec", Setting::XprtSec),
    ("nconnect", Setting::Nconnect),
    ("rsize", Setting::TransferSize),
    ("wsize", Setting::TransferSize),
];

/// Reads a name that another program knows, such as that of a cipher.
pub(super) fn read_name(setting: Setting, text: &str) -> Result<String, Fault> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "@._-".contains(c);
    if text.is_empty() || text.starts_with('-') || !text.chars().all(plain) {
        return Err(Fault::new(format!("`{text}` is no name"))
            .hint("letters, digits, `@`, `.`, `_` and `-`, not at the beginning"));
    }
    let checked = match setting {
        Setting::TunnelCipher => options::check_tunnel_cipher(text),
        _ => options::check_congestion(text),
    };
    checked.map(|()| text.to_owned()).map_err(Fault::from)
}

/// Reads the words of one level; none of an empty text.
pub(super) fn read(setting: Setting, text: &str) -> Result<Vec<String>, Fault> {
    let words = text.split(setting.separator()).map(str::trim);
    // Any number of spaces stands between arguments.
    let words: Vec<&str> = match setting.separator() {
        ' ' => words.filter(|word| !word.is_empty()).collect(),
        _ if text.is_empty() => Vec::new(),
        _ => words.collect(),
    };
    words.iter().try_for_each(|word| check(setting, word, text))?;
    Ok(words.into_iter().map(str::to_owned).collect())
}

/// Checks one word as far as its setting alone decides; what depends on the file system is
/// checked with the run (`checks::lab`).
fn check(setting: Setting, word: &str, text: &str) -> Result<(), Fault> {
    if word.contains(char::is_control) {
        return Err(Fault::new(format!("`{}` holds a control character", word.escape_debug())));
    }
    match setting {
        Setting::ServerSysctl | Setting::ClientSysctl => check_sysctl(word),
        Setting::FormatOptions => Ok(()),
        _ if word.is_empty() => Err(Fault::new(format!("an option is missing in `{text}`"))
            .hint("options with `,` between them, such as `noatime,nodiratime`")),
        _ if word.starts_with('-') || word.contains(char::is_whitespace) => {
            Err(Fault::new(format!("`{word}` is no option"))
                .hint("the options alone, without the `-o` that a command line has"))
        }
        Setting::MountOptions => check_mount_option(word),
        Setting::ExportOptions => {
            options::check_export_options(&[word.to_owned()]).map_err(Fault::from)
        }
        _ => Ok(()),
    }
}

fn check_mount_option(word: &str) -> Result<(), Fault> {
    let name = word.split('=').next().unwrap_or_default();
    if let Some((_, setting)) = OWN_SETTINGS.iter().find(|(option, _)| *option == name) {
        return Err(Fault::new(format!("`{word}` is a setting of its own"))
            .hint(format!("write it as `{}`", setting.key())));
    }
    options::check_nfs_options(&[word.to_owned()]).map_err(Fault::from)
}

/// A name leads nowhere but below /proc/sys, to a setting that a plan may change, and a value is
/// there.
fn check_sysctl(word: &str) -> Result<(), Fault> {
    let none = || {
        Fault::new(format!("`{word}` sets no sysctl"))
            .hint("name=value, such as `vm.dirty_ratio=5`; several with `+` between them")
    };
    let (name, value) = word.split_once('=').ok_or_else(none)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let is_whole = name.split(['.', '/']).all(|part| !part.is_empty());
    if !is_whole || !name.chars().all(plain) || value.trim().is_empty() {
        return Err(none());
    }
    options::check_sysctl(name, value).map_err(Fault::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_where_their_setting_says() {
        let words = |setting, text| read(setting, text).unwrap();
        assert_eq!(words(Setting::FormatOptions, " -E  a=1,b -K"), ["-E", "a=1,b", "-K"]);
        assert_eq!(words(Setting::ExportOptions, "async, no_wdelay"), ["async", "no_wdelay"]);
        let sysctls = words(Setting::ServerSysctl, "net.ipv4.tcp_rmem=4096 1 2+vm.x=1");
        assert_eq!(sysctls, ["net.ipv4.tcp_rmem=4096 1 2", "vm.x=1"]);
        assert!(words(Setting::MountOptions, "").is_empty());
    }

    #[test]
    fn what_could_be_taken_for_something_else_is_refused() {
        let refused = |setting, text| read(setting, text).unwrap_err().message;
        assert_eq!(
            refused(Setting::MountOptions, "noac,,hard"),
            "an option is missing in `noac,,hard`"
        );
        assert_eq!(
            refused(Setting::MountOptions, "rsize=8192"),
            "`rsize=8192` is a setting of its own"
        );
        assert_eq!(refused(Setting::ExportOptions, "-o async"), "`-o async` is no option");
        assert_eq!(refused(Setting::FsMountOptions, "a\nb"), "`a\\nb` holds a control character");
        assert!(refused(Setting::ExportOptions, "rw,refer=/a@h").contains("another host"));
        assert!(refused(Setting::MountOptions, "noac,remount").contains("not allowed"));
        let program = "kernel.core_pattern=|/tmp/x";
        assert!(refused(Setting::ServerSysctl, program).contains("kernel.core_pattern"));
        for sysctl in ["vm.x", "vm.x=", "../../etc/x=1", "a..b=1", "=1", "a b=1", ""] {
            assert!(check_sysctl(sysctl).is_err(), "{sysctl}");
        }
        for name in ["", "-oX", "a b", "a;b"] {
            assert!(read_name(Setting::TunnelCipher, name).is_err(), "{name}");
            assert!(read_name(Setting::Congestion, name).is_err(), "{name}");
        }
        read_name(Setting::TunnelCipher, "aes128-gcm@openssh.com").unwrap();
        read_name(Setting::Congestion, "bbr").unwrap();
    }
}

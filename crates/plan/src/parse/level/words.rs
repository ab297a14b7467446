//! Names and options that become arguments of other programs.
//!
//! No shell is involved: each word is one argument. A word is refused if it is not in the lists of
//! `model::options`, or if it duplicates another setting.

use model::options;

use model::setting::Setting;

use crate::syntax::error::Fault;

/// Options of nfs(5) that have a setting of their own.
///
/// **Source:** nfs(5).
const OWN_SETTINGS: &[(&str, Setting)] = &[
    ("vers", Setting::NfsVers),
    ("nfsvers", Setting::NfsVers),
    ("minorversion", Setting::NfsVers),
    ("proto", Setting::Proto),
    ("tcp", Setting::Proto),
    ("udp", Setting::Proto),
    ("rdma", Setting::Proto),
    ("sec", Setting::Sec),
    ("xprtsec", Setting::XprtSec),
    ("nconnect", Setting::Nconnect),
    ("max_connect", Setting::MaxConnect),
    ("rsize", Setting::TransferSize),
    ("wsize", Setting::TransferSize),
];

/// Parses a name that is passed to another program, such as the name of a cipher.
pub(super) fn read_name(setting: Setting, text: &str) -> Result<String, Fault> {
    // A leading `-` would turn the name into an option of that program.
    let others = if setting == Setting::CryptCipher { "@._-:" } else { "@._-" };
    if text.is_empty() || text.starts_with('-') || !consists_of(text, others) {
        return Err(Fault::new(format!("`{text}` is not a name"))
            .hint("letters, digits, `@`, `.`, `_` and `-`, but no `-` at the beginning"));
    }
    match setting {
        Setting::TunnelCipher => options::check_tunnel_cipher(text)?,
        Setting::CryptCipher => options::check_crypt_cipher(text)?,
        _ => options::check_congestion(text)?,
    }
    Ok(text.to_owned())
}

/// Returns true if a text contains only ASCII letters, digits and these characters.
fn consists_of(text: &str, others: &str) -> bool {
    text.chars().all(|c| c.is_ascii_alphanumeric() || others.contains(c))
}

/// Parses the words of one level; an empty text has no words.
pub(super) fn read(setting: Setting, text: &str) -> Result<Vec<String>, Fault> {
    let separator = setting.separator();
    let mut words = Vec::new();
    for word in text.split(separator) {
        let word = word.trim();
        // Arguments may be separated by any number of spaces.
        if word.is_empty() && (separator == ' ' || text.is_empty()) {
            continue;
        }
        check(setting, word, text)?;
        words.push(word.to_owned());
    }
    Ok(words)
}

/// Checks one word as far as its setting determines; checks that depend on the file system are made
/// for the run (`checks::lab`).
fn check(setting: Setting, word: &str, text: &str) -> Result<(), Fault> {
    if word.contains(char::is_control) {
        return Err(Fault::new(format!("`{}` contains a control character", word.escape_debug())));
    }
    match setting {
        Setting::ServerSysctl | Setting::ClientSysctl => check_sysctl(word),
        Setting::FormatOptions => Ok(()),
        Setting::SystemSettings => match word.split_once('=') {
            Some((name, value)) if !name.is_empty() && !value.is_empty() => Ok(()),
            _ => Err(Fault::new(format!("`{word}` sets no value"))
                .hint("name=value, such as `layout=replica`; join several with `+`")),
        },
        _ if word.is_empty() => Err(Fault::new(format!("an option is missing in `{text}`"))
            .hint("join options with `,`, such as `noatime,nodiratime`")),
        _ if word.starts_with('-') || word.contains(char::is_whitespace) => {
            Err(Fault::new(format!("`{word}` is not an option"))
                .hint("write only the options, without `-o`"))
        }
        Setting::MountOptions => check_mount_option(word),
        Setting::ExportOptions => Ok(options::check_export_options(&[word.to_owned()])?),
        _ => Ok(()),
    }
}

fn check_mount_option(word: &str) -> Result<(), Fault> {
    refuse_own_setting(word, |_| true)?;
    Ok(options::check_nfs_options(&[word.to_owned()])?)
}

/// Checks an option of a site's NFS mount: it may not be one that a setting determines.
pub(crate) fn check_site_nfs_option(word: &str) -> Result<(), Fault> {
    // The other settings are for exports that a plan makes.
    refuse_own_setting(word, |setting| !matches!(setting, Setting::Sec | Setting::MaxConnect))
}

fn refuse_own_setting(word: &str, is_set: impl Fn(Setting) -> bool) -> Result<(), Fault> {
    let name = word.split('=').next().unwrap_or_default();
    match OWN_SETTINGS.iter().find(|(option, _)| *option == name) {
        Some((_, setting)) if is_set(*setting) => {
            Err(Fault::new(format!("`{word}` is a separate setting"))
                .hint(format!("write it as `{}`", setting.key())))
        }
        _ => Ok(()),
    }
}

/// Checks `name=value`: the name must be a sysctl that a plan may change, and the value must not be
/// empty.
fn check_sysctl(word: &str) -> Result<(), Fault> {
    let (name, value) = word.split_once('=').unwrap_or((word, ""));
    // An empty component, as in `..`, could escape from /proc/sys.
    let is_whole = name.split(['.', '/']).all(|part| !part.is_empty());
    if !is_whole || !consists_of(name, "._-/") || value.trim().is_empty() {
        return Err(Fault::new(format!("`{word}` does not set a sysctl"))
            .hint("name=value, such as `vm.dirty_ratio=5`; join several with `+`"));
    }
    Ok(options::check_sysctl(name, value)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_words_by_separator() {
        let words = |setting, text| read(setting, text).unwrap();
        assert_eq!(words(Setting::FormatOptions, " -E  a=1,b -K"), ["-E", "a=1,b", "-K"]);
        assert_eq!(words(Setting::ExportOptions, "async, no_wdelay"), ["async", "no_wdelay"]);
        let sysctls = words(Setting::ServerSysctl, "net.ipv4.tcp_rmem=4096 1 2+vm.x=1");
        assert_eq!(sysctls, ["net.ipv4.tcp_rmem=4096 1 2", "vm.x=1"]);
        assert!(words(Setting::MountOptions, "").is_empty());
    }

    #[test]
    fn rejects_ambiguous_words() {
        let messages = [
            (Setting::MountOptions, "noac,,hard"),
            (Setting::MountOptions, "rsize=8192"),
            (Setting::ExportOptions, "-o async"),
            (Setting::FsMountOptions, "a\nb"),
            (Setting::ExportOptions, "rw,refer=/a@h"),
            (Setting::MountOptions, "noac,remount"),
            (Setting::ServerSysctl, "kernel.core_pattern=|/tmp/x"),
        ]
        .map(|(setting, text)| read(setting, text).unwrap_err().message);
        insta::assert_snapshot!(messages.join("\n"));
        for sysctl in ["vm.x", "vm.x=", "../../etc/x=1", "a..b=1", "=1", "a b=1", ""] {
            assert!(check_sysctl(sysctl).is_err(), "{sysctl}");
        }
        for name in ["", "-oX", "a b", "a;b"] {
            assert!(read_name(Setting::TunnelCipher, name).is_err(), "{name}");
            assert!(read_name(Setting::CryptCipher, name).is_err(), "{name}");
            assert!(read_name(Setting::Congestion, name).is_err(), "{name}");
        }
        read_name(Setting::TunnelCipher, "aes128-gcm@openssh.com").unwrap();
        read_name(Setting::CryptCipher, "aes-cbc-essiv:sha256").unwrap();
        read_name(Setting::Congestion, "bbr").unwrap();
    }
}

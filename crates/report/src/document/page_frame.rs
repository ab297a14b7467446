//! Frame of every page: head, style, script and content security policy.
//!
//! [`Frame`] is the main type. A page loads nothing and runs only the scripts that this
//! program embedded. Its content security policy lists each of them by hash, so even markup that
//! slipped through escaping would not run.
//!
//! **Source:** W3C, "Content Security Policy Level 3", 2.3.1 (hash sources).

use maud::{DOCTYPE, Markup, PreEscaped, html};
use sha2::{Digest as _, Sha256};

const STYLE: &str = concat!(
    include_str!("../page/colours.css"),
    include_str!("../page/page.css"),
    include_str!("../page/pictures.css")
);
const SCRIPT: &str = concat!(include_str!("../page/explore.js"), include_str!("../page/page.js"));

/// Parts of a page that its frame needs.
pub(crate) struct Frame<'a> {
    /// Window title.
    pub title: &'a str,
    /// Additional script for a page served by `dfsbench view`.
    pub served: Option<&'static str>,
}

impl Frame<'_> {
    /// Renders a page around its body. The text ends with a newline.
    pub(crate) fn render_page(&self, body: &Markup) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="generator" content="dfsbench";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    meta name="color-scheme" content="light dark";
                    meta name="referrer" content="no-referrer";
                    meta http-equiv="Content-Security-Policy" content=(self.policy());
                    title { "dfsbench: " (self.title) }
                    style { (PreEscaped(STYLE)) }
                }
                body {
                    (body)
                    @for script in self.scripts() { script { (PreEscaped(script)) } }
                }
            }
        };
        page.into_string() + "\n"
    }

    /// Returns the content security policy: apply the page's style, run its scripts and, if it is
    /// served, ask the server for updates.
    pub(crate) fn policy(&self) -> String {
        // Hashes instead of `unsafe-inline`, so that a browser runs only these scripts, even if a
        // name in a results file contains another.
        let hashes: Vec<String> =
            self.scripts().map(|script| format!("'sha256-{}'", hash_script(script))).collect();
        let more =
            if self.served.is_some() { "; connect-src 'self'; form-action 'self'" } else { "" };
        format!(
            "default-src 'none'; style-src 'unsafe-inline'; script-src {}; base-uri 'none'{more}",
            hashes.join(" ")
        )
    }

    fn scripts(&self) -> impl Iterator<Item = &'static str> {
        std::iter::once(SCRIPT).chain(self.served)
    }
}

/// SHA-256 of a text in base64.
///
/// **Source:** RFC 4648, 4.
fn hash_script(text: &str) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::new();
    // Three bytes become four letters; a final group of one or two bytes is padded with `=`.
    for three in Sha256::digest(text.as_bytes()).chunks(3) {
        let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
        let bits = bits << (8 * (3 - three.len()));
        for place in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * place) & 63) as usize];
            out.push(if place <= three.len() { char::from(letter) } else { '=' });
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_hash_for_browsers() {
        // From `printf abc | openssl dgst -sha256 -binary | base64`.
        assert_eq!(hash_script("abc"), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
    }

    #[test]
    fn limits_page_permissions() {
        let still = Frame { title: "x", served: None };
        assert!(still.policy().starts_with("default-src 'none'; style-src 'unsafe-inline'; "));
        assert!(!still.policy().contains("connect-src"));
        let served = Frame { title: "x", served: Some("live()") };
        assert!(served.policy().contains("connect-src 'self'"));
        assert_eq!(served.policy().matches("'sha256-").count(), 2);
    }
}

//! Finds types of other crates of ours that an interface names without handing them on.
//!
//! Users of a crate would have to add a crate of the program that they needn't know, of just the
//! right version.

use std::collections::BTreeSet;

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{Item, UseTree, Visibility};

/// Names that other crates of ours have in an interface, such as `model::Proto`.
///
/// `crates` are the names of their libraries. A crate that is handed on as a whole
/// (`pub use nfs_proto as proto`) may be named.
pub fn find(items: &[Item], crates: &[String]) -> BTreeSet<String> {
    let (mut handed_on, mut named) = (BTreeSet::new(), BTreeSet::new());
    collect_uses(items, &mut handed_on, &mut named);
    collect_paths(items, &mut named);
    named.retain(|path| {
        let (krate, rest) = path.split_once("::").unwrap_or((path.as_str(), ""));
        let last = rest.rsplit("::").next().unwrap_or_default();
        let ending = format!("::{last}");
        if !crates.iter().any(|name| name == krate) || handed_on.contains(krate) {
            return false;
        }
        for path in &handed_on {
            if path.starts_with(krate) && path.ends_with(&ending) {
                return false;
            }
        }
        true
    });
    named
}

/// Collects the full paths of all `use` lines, of public ones apart.
fn collect_uses(items: &[Item], public: &mut BTreeSet<String>, others: &mut BTreeSet<String>) {
    for item in items {
        match item {
            Item::Use(item) => {
                let is_public = matches!(item.vis, Visibility::Public(_));
                let paths = if is_public { &mut *public } else { &mut *others };
                collect_leaves("", &item.tree, paths);
            }
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    collect_uses(items, public, others);
                }
            }
            _ => {}
        }
    }
}

fn collect_leaves(before: &str, tree: &UseTree, paths: &mut BTreeSet<String>) {
    match tree {
        UseTree::Path(path) => {
            collect_leaves(&format!("{before}{}::", path.ident), &path.tree, paths);
        }
        UseTree::Group(group) => {
            for tree in &group.items {
                collect_leaves(before, tree, paths);
            }
        }
        UseTree::Name(name) => drop(paths.insert(format!("{before}{}", name.ident))),
        UseTree::Rename(name) => drop(paths.insert(format!("{before}{}", name.ident))),
        UseTree::Glob(_) => drop(paths.insert(format!("{before}*"))),
    }
}

/// Collects paths that stand in the items themselves, such as `model::Family`.
fn collect_paths(items: &[Item], paths: &mut BTreeSet<String>) {
    for item in items {
        match item {
            Item::Use(_) => {}
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    collect_paths(items, paths);
                }
            }
            item => collect_token_paths(item.to_token_stream(), paths),
        }
    }
}

fn collect_token_paths(tokens: TokenStream, paths: &mut BTreeSet<String>) {
    let mut path = String::new();
    for token in tokens {
        match token {
            // A name that doesn't continue a path begins one.
            TokenTree::Ident(name) if path.ends_with("::") || path.is_empty() => {
                path.push_str(&name.to_string());
            }
            TokenTree::Punct(mark) if mark.as_char() == ':' && !path.is_empty() => path.push(':'),
            other => {
                end_path(&mut path, paths);
                match other {
                    TokenTree::Ident(name) => path.push_str(&name.to_string()),
                    TokenTree::Group(group) => collect_token_paths(group.stream(), paths),
                    _ => {}
                }
            }
        }
    }
    end_path(&mut path, paths);
}

/// Keeps a path of several names; `name: Type` has one colon, and is none.
fn end_path(path: &mut String, paths: &mut BTreeSet<String>) {
    let ended = std::mem::take(path);
    if ended.contains("::") {
        paths.insert(ended);
    }
}

//! Reads a crate's modules into one tree of items.
//!
//! Files are found as a compiler finds them; modules of tests are left out.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use syn::{Attribute, Item, Meta};

/// Reads a file and the files of the modules that it declares, without those of tests.
///
/// # Errors
/// Where a file is missing or isn't Rust; the message names it.
pub fn read(path: &Path) -> Result<Vec<Item>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let file =
        syn::parse_file(&text).with_context(|| format!("cannot parse {}", path.display()))?;
    let mut items = Vec::new();
    for item in file.items {
        if is_for_tests(attributes(&item)) {
            continue;
        }
        items.push(match item {
            Item::Mod(mut module) if module.content.is_none() => {
                let file = find_module(path, &module.ident.to_string())?;
                module.content = Some((syn::token::Brace::default(), read(&file)?));
                module.semi = None;
                Item::Mod(module)
            }
            other => other,
        });
    }
    Ok(items)
}

/// Returns the file of a module. **Source:** The Rust Reference, "Module Source Filenames".
fn find_module(declared_in: &Path, name: &str) -> Result<PathBuf> {
    let folder = declared_in.parent().unwrap_or(Path::new("."));
    let stem = declared_in.file_stem().unwrap_or_default();
    let folder = match stem.to_str() {
        Some("lib" | "mod") => folder.to_owned(),
        _ => folder.join(stem),
    };
    for file in [folder.join(format!("{name}.rs")), folder.join(name).join("mod.rs")] {
        if file.is_file() {
            return Ok(file);
        }
    }
    bail!("{} declares the module `{name}`, which has no file", declared_in.display())
}

/// Returns the attributes of an item of any kind.
pub fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        Meta::List(list) if list.path.is_ident("cfg") => {
            matches!(list.tokens.to_string().as_str(), "test" | "doctest")
        }
        _ => false,
    })
}

//! Leaves of a tree of items what others can use.
//!
//! Kept are `pub` items wherever they are, what private modules have of them, too: that a
//! re-export makes one public is not followed. Of other `use` lines those names are kept that the
//! kept items name, so that a type that is exchanged under its name is seen.

use std::collections::BTreeSet;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::ToTokens as _;
use syn::{
    Attribute, Block, Expr, Fields, ImplItem, Item, ItemImpl, TraitItem, UseTree, Visibility,
    parse_quote,
};

/// Attributes that users of an item notice.
const KEPT_ATTRIBUTES: [&str; 8] =
    ["cfg", "default", "deprecated", "derive", "from", "macro_export", "non_exhaustive", "repr"];

/// Leaves the public items of a tree.
pub fn keep_public(items: Vec<Item>) -> Vec<Item> {
    let mut types = BTreeSet::new();
    collect_types(&items, &mut types);
    keep(items, &types)
}

/// Collects the names of types and traits that are `pub` in any module.
fn collect_types(items: &[Item], names: &mut BTreeSet<String>) {
    for item in items {
        let (vis, name) = match item {
            Item::Enum(item) => (&item.vis, &item.ident),
            Item::Struct(item) => (&item.vis, &item.ident),
            Item::Type(item) => (&item.vis, &item.ident),
            Item::Macro(item) => {
                // Types that a macro of ours makes are named in its call.
                collect_names(item.mac.tokens.clone(), names);
                continue;
            }
            Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    collect_types(items, names);
                }
                continue;
            }
            _ => continue,
        };
        if is_public(vis) {
            names.insert(name.to_string());
        }
    }
}

fn collect_names(tokens: TokenStream, names: &mut BTreeSet<String>) {
    for token in tokens {
        match token {
            TokenTree::Ident(name) => drop(names.insert(name.to_string())),
            TokenTree::Group(group) => collect_names(group.stream(), names),
            _ => {}
        }
    }
}

fn keep(items: Vec<Item>, types: &BTreeSet<String>) -> Vec<Item> {
    let (mut kept, mut uses) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Use(item) if !is_public(&item.vis) => uses.push(item),
            item => kept.extend(reduce(item, types)),
        }
    }
    let mut names = BTreeSet::new();
    for item in &kept {
        // A module inside has its own `use` lines.
        if !matches!(item, Item::Mod(_)) {
            collect_names(item.to_token_stream(), &mut names);
        }
    }
    let mut named = Vec::new();
    for mut item in uses {
        if let Some(tree) = prune(item.tree, &names) {
            item.attrs = keep_attributes(item.attrs);
            item.tree = tree;
            named.push(Item::Use(item));
        }
    }
    named.extend(kept);
    named
}

/// Leaves of a `use` the names that are in a list; what has no name, `*`, is kept.
fn prune(tree: UseTree, names: &BTreeSet<String>) -> Option<UseTree> {
    match tree {
        UseTree::Path(mut path) => {
            path.tree = Box::new(prune(*path.tree, names)?);
            Some(UseTree::Path(path))
        }
        UseTree::Group(mut group) => {
            let all = std::mem::take(&mut group.items);
            for tree in all {
                group.items.extend(prune(tree, names));
            }
            if group.items.is_empty() { None } else { Some(UseTree::Group(group)) }
        }
        UseTree::Name(name) if !names.contains(&name.ident.to_string()) => None,
        UseTree::Rename(name) if !names.contains(&name.rename.to_string()) => None,
        other => Some(other),
    }
}

/// Returns the part of an item that others can use.
fn reduce(item: Item, types: &BTreeSet<String>) -> Option<Item> {
    let mut item = item;
    match &mut item {
        Item::Const(item) if is_public(&item.vis) => hide_value(&mut item.expr),
        Item::Static(item) if is_public(&item.vis) => hide_value(&mut item.expr),
        Item::Fn(item) if is_public(&item.vis) => *item.block = empty(),
        Item::Type(item) if is_public(&item.vis) => {}
        Item::Use(item) if is_public(&item.vis) => {}
        Item::Trait(item) if is_public(&item.vis) => {
            for inner in &mut item.items {
                reduce_of_trait(inner);
            }
        }
        Item::Struct(item) if is_public(&item.vis) => hide_private(&mut item.fields),
        Item::Enum(item) if is_public(&item.vis) => {
            for variant in &mut item.variants {
                variant.attrs = keep_attributes(std::mem::take(&mut variant.attrs));
                for field in &mut variant.fields {
                    field.attrs = keep_attributes(std::mem::take(&mut field.attrs));
                }
            }
        }
        Item::Impl(item) => {
            if !reduce_implementation(item, types) {
                return None;
            }
        }
        Item::Macro(item) => item.mac.tokens = without_docs(item.mac.tokens.clone()),
        Item::Mod(module) => {
            let (_, items) = module.content.as_mut()?;
            *items = keep(std::mem::take(items), types);
            if items.is_empty() {
                return None;
            }
        }
        _ => return None,
    }
    keep_attributes_of(&mut item);
    Some(item)
}

fn keep_attributes_of(item: &mut Item) {
    let attributes = match item {
        Item::Const(item) => &mut item.attrs,
        Item::Enum(item) => &mut item.attrs,
        Item::Fn(item) => &mut item.attrs,
        Item::Impl(item) => &mut item.attrs,
        Item::Macro(item) => &mut item.attrs,
        Item::Mod(item) => &mut item.attrs,
        Item::Static(item) => &mut item.attrs,
        Item::Struct(item) => &mut item.attrs,
        Item::Trait(item) => &mut item.attrs,
        Item::Type(item) => &mut item.attrs,
        Item::Use(item) => &mut item.attrs,
        _ => return,
    };
    *attributes = keep_attributes(std::mem::take(attributes));
}

/// Leaves of an `impl` what is public; `false` where nothing is.
fn reduce_implementation(item: &mut ItemImpl, types: &BTreeSet<String>) -> bool {
    let is_of_trait = item.trait_.is_some();
    // A trait may be implemented for a type of ours, or name one: `impl From<Ours> for Theirs`.
    let mut names = BTreeSet::new();
    collect_names(item.self_ty.to_token_stream(), &mut names);
    if let Some((_, path, _)) = &item.trait_ {
        collect_names(path.to_token_stream(), &mut names);
    }
    if names.is_disjoint(types) {
        return false;
    }
    let mut kept = Vec::new();
    for inner in std::mem::take(&mut item.items) {
        let inner = match inner {
            ImplItem::Fn(mut inner) if !is_of_trait && is_public(&inner.vis) => {
                inner.attrs = keep_attributes(inner.attrs);
                inner.block = empty();
                ImplItem::Fn(inner)
            }
            ImplItem::Const(mut inner) if is_of_trait || is_public(&inner.vis) => {
                inner.attrs = keep_attributes(inner.attrs);
                hide_value(&mut inner.expr);
                ImplItem::Const(inner)
            }
            ImplItem::Type(mut inner) => {
                inner.attrs = keep_attributes(inner.attrs);
                ImplItem::Type(inner)
            }
            ImplItem::Macro(inner) => ImplItem::Macro(inner),
            _ => continue,
        };
        kept.push(inner);
    }
    item.items = kept;
    is_of_trait || !item.items.is_empty()
}

fn reduce_of_trait(item: &mut TraitItem) {
    let attributes = match item {
        TraitItem::Fn(item) => {
            item.default = item.default.as_ref().map(|_| empty());
            &mut item.attrs
        }
        TraitItem::Const(item) => &mut item.attrs,
        TraitItem::Type(item) => &mut item.attrs,
        _ => return,
    };
    *attributes = keep_attributes(std::mem::take(attributes));
}

/// Leaves of private fields only that there are some: then no other crate can write the struct.
fn hide_private(fields: &mut Fields) {
    match fields {
        Fields::Named(named) => {
            let all = std::mem::take(&mut named.named);
            let mut has_private = false;
            for mut field in all {
                if is_public(&field.vis) {
                    field.attrs = keep_attributes(field.attrs);
                    named.named.push(field);
                } else {
                    has_private = true;
                }
            }
            if has_private {
                named.named.push(parse_quote!(private: _));
            }
        }
        Fields::Unnamed(unnamed) => {
            for field in &mut unnamed.unnamed {
                field.attrs = keep_attributes(std::mem::take(&mut field.attrs));
                if !is_public(&field.vis) {
                    field.ty = parse_quote!(_);
                }
            }
        }
        Fields::Unit => {}
    }
}

/// Leaves of a value only a number or a text.
fn hide_value(value: &mut Expr) {
    if !matches!(value, Expr::Lit(_)) {
        *value = parse_quote!(_);
    }
}

fn keep_attributes(attributes: Vec<Attribute>) -> Vec<Attribute> {
    let mut kept = attributes;
    kept.retain(|attribute| KEPT_ATTRIBUTES.iter().any(|name| attribute.path().is_ident(name)));
    kept
}

/// Returns the call of a macro without comments of documentation, `#[doc = "..."]`.
fn without_docs(tokens: TokenStream) -> TokenStream {
    let mut kept: Vec<TokenTree> = Vec::new();
    for token in tokens {
        let TokenTree::Group(group) = token else {
            kept.push(token);
            continue;
        };
        let is_doc = group.delimiter() == Delimiter::Bracket
            && group.stream().into_iter().next().is_some_and(|first| first.to_string() == "doc");
        if is_doc && matches!(kept.last(), Some(TokenTree::Punct(mark)) if mark.as_char() == '#') {
            kept.pop();
        } else {
            kept.push(Group::new(group.delimiter(), without_docs(group.stream())).into());
        }
    }
    kept.into_iter().collect()
}

fn is_public(vis: &Visibility) -> bool {
    matches!(vis, Visibility::Public(_))
}

fn empty() -> Block {
    parse_quote!({})
}

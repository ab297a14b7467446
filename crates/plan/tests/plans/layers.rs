//! The layers of this crate: `syntax`, then `parse`, then `resolve`.
//!
//! Checks the sources: a layer may only refer to itself and earlier layers, and the modules within
//! a layer must not form a cycle. Tests at the end of a file may use anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

const LAYERS: [&str; 3] = ["syntax", "parse", "resolve"];

/// For each module, as `layer::module`, the other modules that it refers to.
type Edges = BTreeMap<String, BTreeSet<String>>;

/// Returns the modules that a source refers to by their path from the crate root.
fn named_modules(source: &str) -> BTreeSet<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or_default();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code: Vec<&str> = lines.collect();
    let mut named = BTreeSet::new();
    for rest in code.join("\n").split("crate::").skip(1) {
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != ':');
        let path: Vec<&str> = rest[..end.unwrap_or(rest.len())].split("::").collect();
        if let [layer, module, ..] = path.as_slice()
            && LAYERS.contains(layer)
        {
            // A list in braces would hide modules from this test.
            assert!(!module.is_empty(), "name one module of `{layer}` in each `use`");
            named.insert(format!("{layer}::{module}"));
        }
    }
    named
}

/// Adds the modules that the files of a directory use; files in a subdirectory belong to that
/// module.
fn add_folder(folder: &Path, layer: &str, within: Option<&str>, edges: &mut Edges) {
    for entry in fs::read_dir(folder).expect("the sources are there") {
        let path = entry.expect("an entry").path();
        let stem = path.file_stem().expect("a name").to_str().expect("UTF-8").to_owned();
        let module = within.unwrap_or(&stem);
        if path.is_dir() {
            add_folder(&path, layer, Some(module), edges);
            continue;
        }
        let name = format!("{layer}::{module}");
        let source = fs::read_to_string(&path).expect("a source");
        let mut named = named_modules(&source);
        named.remove(&name);
        edges.entry(name).or_default().append(&mut named);
    }
}

fn read_edges() -> Edges {
    let mut edges = Edges::new();
    for layer in LAYERS {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(layer);
        add_folder(&folder, layer, None, &mut edges);
    }
    edges
}

/// Removes modules that refer to none of the remaining ones, repeatedly: only cycles remain.
fn keep_circles(mut edges: Edges) -> Edges {
    loop {
        let left: BTreeSet<String> = edges.keys().cloned().collect();
        edges.retain(|_, named| named.iter().any(|other| left.contains(other)));
        if edges.len() == left.len() {
            return edges;
        }
    }
}

#[test]
fn forbids_upward_dependencies() {
    let place = |name: &str| LAYERS.iter().position(|layer| name.starts_with(layer));
    for (module, named) in read_edges() {
        for other in named {
            assert!(place(&other) <= place(&module), "{module} uses {other}, of a later layer");
        }
    }
}

#[test]
fn no_modules_form_a_circle() {
    let edges = read_edges();
    assert!(edges.len() > 40, "{edges:?}");
    assert_eq!(keep_circles(edges.clone()), Edges::new());
    let mut circle = edges;
    circle.entry("syntax::text".to_owned()).or_default().insert("syntax::suggestion".to_owned());
    assert!(keep_circles(circle).contains_key("syntax::suggestion"));
}

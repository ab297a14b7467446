//! The shape of a directory tree as a document: a few lines, then one table per question.

use engine::tree_shape::{Quantiles, SizeClass, TreeShape};
use model::units::Size;
use report::counted;
use report::document::{Block, Document, Section};
use serde::Serialize;

use super::document::Rows;

/// A tree and a plan for files of the same sizes; the form of the JSON output.
#[derive(Serialize)]
pub(super) struct DescribedTree {
    #[serde(flatten)]
    pub shape: TreeShape,
    /// What `--as-plan` prints; `None` if there are no files.
    pub plan: Option<String>,
}

/// Builds the document for a tree.
pub(super) fn describe(described: &DescribedTree, name: &str) -> Document {
    let shape = &described.shape;
    let mut document = Document {
        tool: "dfsbench describe",
        title: name.to_owned(),
        about: summarize(shape),
        parts: Vec::new(),
    };
    for (id, heading, table) in [
        ("sizes", "Sizes", tabulate_sizes(shape)),
        ("levels", "Levels", tabulate_levels(shape)),
        ("quantiles", "Quantiles", tabulate_quantiles(shape)),
        ("failures", "Not read", tabulate_failures(shape)),
    ] {
        if !table.rows.is_empty() {
            let blocks = vec![Block::Table(table.into_table())];
            document.push(Section {
                id,
                heading: heading.to_owned(),
                blocks,
                ..Section::default()
            });
        }
    }
    document
}

fn summarize(shape: &TreeShape) -> Vec<String> {
    let directories = match shape.directories {
        1 => "1 directory".to_owned(),
        count => format!("{count} directories"),
    };
    let mut lines = vec![format!(
        "{} of {} in {} below it ({} allocated).",
        counted(shape.files as usize, "file"),
        Size(shape.bytes),
        directories,
        Size(shape.allocated_bytes),
    )];
    for (count, noun, note) in [
        (shape.symlinks, "symbolic link", "not followed"),
        (shape.others, "special file", "sockets, pipes and devices"),
        (shape.hard_linked_names, "name", "of files with several names, each counted"),
        (shape.mount_points, "mount point", "not entered"),
        (shape.failures, "failure", "not read; the first are listed below"),
    ] {
        if count > 0 {
            lines.push(format!("{} ({note}).", counted(count as usize, noun)));
        }
    }
    if shape.files > 0 {
        lines.push("A plan for files of these sizes in a similar tree: --as-plan.".to_owned());
    }
    lines
}

fn tabulate_sizes(shape: &TreeShape) -> Rows {
    let head = ["size", "files", "share of files", "bytes", "share of bytes"];
    let mut table = Rows::new("Files by size", &head);
    let share = |part: u64, all: u64| format!("{:.2} %", part as f64 * 100.0 / all.max(1) as f64);
    for class in &shape.sizes {
        let SizeClass { min_bytes, max_bytes, files, bytes } = *class;
        let range = if min_bytes == max_bytes {
            Size(min_bytes).to_string()
        } else {
            format!("{} to {}", Size(min_bytes), Size(max_bytes))
        };
        table.rows.push(vec![
            range,
            files.to_string(),
            share(files, shape.files),
            Size(bytes).to_string(),
            share(bytes, shape.bytes),
        ]);
    }
    table
}

fn tabulate_levels(shape: &TreeShape) -> Rows {
    let head = ["level", "files", "directories"];
    let mut table = Rows::new("Entries by level; those of the top directory are level 0", &head);
    for (level, counts) in shape.levels.iter().enumerate() {
        table.rows.push(vec![
            level.to_string(),
            counts.files.to_string(),
            counts.directories.to_string(),
        ]);
    }
    table
}

fn tabulate_quantiles(shape: &TreeShape) -> Rows {
    let head = ["of", "mean", "p10", "p50", "p90", "p99", "max"];
    let mut table = Rows::new("Quantiles", &head);
    let size = |bytes: u64| Size(bytes).to_string();
    let count = |number: u64| number.to_string();
    let mut push = |what: &str, mean: String, of: &Quantiles, shown: &dyn Fn(u64) -> String| {
        let quantiles = [of.p10, of.p50, of.p90, of.p99, of.max].map(shown);
        table.rows.push([what.to_owned(), mean].into_iter().chain(quantiles).collect());
    };
    if shape.files > 0 {
        let mean = size(shape.file_bytes.mean.round() as u64);
        push("file size", mean, &shape.file_bytes, &size);
    }
    for (what, of) in [
        ("entries per directory", &shape.entries_per_directory),
        ("subdirectories of directories with any", &shape.subdirectories),
    ] {
        push(what, format!("{:.1}", of.mean), of, &count);
    }
    table
}

fn tabulate_failures(shape: &TreeShape) -> Rows {
    let mut table = Rows::new("Entries that could not be read", &["entry"]);
    table.rows.extend(shape.failure_examples.iter().map(|example| vec![example.clone()]));
    table
}

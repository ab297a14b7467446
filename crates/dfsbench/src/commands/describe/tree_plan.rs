//! Writes a plan with files and directories like those of a tree: `dfsbench describe --as-plan`.

use std::fmt::Write as _;

use engine::tree_shape::TreeShape;
use model::SizeDistribution;
use model::setting::Setting;
use model::units::Size;

/// Maximum depth and number of subdirectories of a plan's tree, and of its directories.
const DEPTH_MAX: u32 = 16;
const BRANCHING_MAX: u64 = 10_000;
const DIRECTORIES_MAX: u64 = 1_000_000;

/// How much a level too many or too few counts, compared with a wrong number of directories: as
/// much as 10 % of them.
const LEVEL_WEIGHT: f64 = 0.1;

/// Writes the plan.
///
/// # Errors
/// If there are no files. The message is a full sentence.
pub(super) fn write(shape: &TreeShape, name: &str) -> Result<String, String> {
    if shape.files == 0 {
        return Err("it has no files".to_owned());
    }
    let small_max = Setting::SmallFileSize.range().map_or(u64::MAX, |range| range.max);
    let large_max = Setting::FileSize.range().map_or(u64::MAX, |range| range.max);
    let tree = Tree::like(shape);
    let mut text = describe_distance(shape, name, &tree);
    let _ = writeln!(text, "\nname = \"tree\"\n");
    let _ = writeln!(text, "[[target]]\nname = \"dir\"");
    let _ = writeln!(text, "temporary = true         # instead: path = \"/mnt/nfs\"");
    let (shares, files) = shape.shares(0..=small_max);
    if files > 0 {
        let _ = writeln!(text, "\n[[workload]]\nkind = \"metadata\"");
        let _ = writeln!(text, "passes = \"create+stat+read_files+remove\"");
        let _ = writeln!(text, "small_files = {}", limit(Setting::SmallFiles, files));
        let _ = writeln!(text, "small_file_size = \"{}\"", SizeDistribution::List(shares));
        let _ = writeln!(text, "depth = {}", tree.depth);
        if tree.depth > 0 {
            let _ = writeln!(text, "branching = {}", tree.branching);
        }
    }
    let (shares, files) = shape.shares(small_max + 1..=large_max);
    if files > 0 {
        let _ = writeln!(text, "\n[[workload]]\nkind = \"stream\"");
        let _ = writeln!(text, "files = {}", limit(Setting::Files, files));
        let _ = writeln!(text, "file_size = \"{}\"", SizeDistribution::List(shares));
    }
    Ok(text)
}

/// Limits a number to what a setting allows.
fn limit(setting: Setting, number: u64) -> u64 {
    setting.range().map_or(number, |range| number.clamp(range.min, range.max))
}

/// Describes in comments what the plan has and what the tree has.
fn describe_distance(shape: &TreeShape, name: &str, tree: &Tree) -> String {
    let mut text = String::new();
    // A name may contain a line break.
    let _ = writeln!(text, "# Files like those in {}.\n#", name.escape_debug());
    let _ = writeln!(text, "# {:<28}{:>16}{:>16}", "", "tree", "plan");
    let files_max = Setting::SmallFiles.range().map_or(u64::MAX, |range| range.max);
    let rows = [
        ("files", shape.files, shape.files.min(files_max)),
        ("directories", shape.directories, tree.directories),
        ("levels of directories", count_levels(shape), tree.depth.into()),
    ];
    for (what, has, planned) in rows {
        let _ = writeln!(text, "# {what:<28}{has:>16}{planned:>16}");
    }
    let large_max = Setting::FileSize.range().map_or(u64::MAX, |range| range.max);
    let huge: u64 =
        shape.sizes.iter().filter(|one| one.max_bytes > large_max).map(|one| one.files).sum();
    if huge > 0 {
        let _ = writeln!(text, "# {huge} files of more than {} are left out.", Size(large_max));
    }
    if shape.failures > 0 {
        let _ = writeln!(text, "# {} entries of the tree could not be read.", shape.failures);
    }
    text
}

/// Returns the number of levels that directories are on.
fn count_levels(shape: &TreeShape) -> u64 {
    shape.levels.iter().filter(|level| level.directories > 0).count() as u64
}

/// A tree in which all directories that aren't leaves have equally many subdirectories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tree {
    depth: u32,
    branching: u64,
    /// Directories below the top one.
    directories: u64,
}

impl Tree {
    const FLAT: Self = Self { depth: 0, branching: 1, directories: 0 };

    /// Returns the tree that is most like another one.
    fn like(shape: &TreeShape) -> Self {
        if shape.directories == 0 {
            return Self::FLAT;
        }
        let wanted = shape.directories.min(DIRECTORIES_MAX) as f64;
        // The level of most files, since they are what a pass accesses.
        let (mut files, mut levels) = (0, 0);
        for (level, counts) in shape.levels.iter().enumerate() {
            files += counts.files;
            levels += counts.files * level as u64;
        }
        let usual_level = levels as f64 / files.max(1) as f64;
        let distance = |tree: &Self| {
            let levels = (f64::from(tree.depth) - usual_level).abs();
            (tree.directories as f64 / wanted).ln().abs() + LEVEL_WEIGHT * levels
        };
        let trees = (1..=DEPTH_MAX).flat_map(|depth| {
            // The number of directories is close to that of the last level.
            let branching = wanted.powf(1.0 / f64::from(depth)) as u64;
            (branching.saturating_sub(2)..=branching + 2).filter_map(move |b| Self::new(depth, b))
        });
        trees.min_by(|one, other| distance(one).total_cmp(&distance(other))).unwrap_or(Self::FLAT)
    }

    /// Returns a tree, if a plan may have it.
    fn new(depth: u32, branching: u64) -> Option<Self> {
        if !(1..=BRANCHING_MAX).contains(&branching) {
            return None;
        }
        let mut directories: u64 = 0;
        for level in 1..=depth {
            directories = directories.saturating_add(branching.saturating_pow(level));
        }
        (directories < DIRECTORIES_MAX).then_some(Self { depth, branching, directories })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::tree_shape::{LevelCounts, SizeClass, describe_tree};
    use model::testing::RunBuilder;
    use model::{RunSpec, Workload};
    use plan::{Plan, RawPlan, TargetArg};
    use workload::FileSet;

    use crate::plans::surroundings;

    /// Returns a tree with as many directories on each level, and files on the last one.
    fn shape(directories: &[u64], files: u64) -> TreeShape {
        let mut levels: Vec<_> = directories
            .iter()
            .map(|directories| LevelCounts { files: 0, directories: *directories })
            .collect();
        levels.push(LevelCounts { files, directories: 0 });
        TreeShape { files, directories: directories.iter().sum(), levels, ..TreeShape::default() }
    }

    #[test]
    fn finds_regular_trees_again() {
        for (directories, depth, branching) in
            [(&[7][..], 1, 7), (&[10, 100], 2, 10), (&[2, 4, 8, 16, 32], 5, 2), (&[1, 1, 1], 3, 1)]
        {
            let tree = Tree::like(&shape(directories, 100));
            assert_eq!((tree.depth, tree.branching), (depth, branching), "{directories:?}");
        }
        assert_eq!(Tree::like(&shape(&[], 5)), Tree::FLAT);
    }

    #[test]
    fn keeps_irregular_trees_similar() {
        for directories in [&[1_u64, 50, 3, 900][..], &[3, 3, 200_000], &[20_000, 5_000_000]] {
            let shape = shape(directories, 1_000);
            let tree = Tree::like(&shape);
            let ratio = tree.directories as f64 / shape.directories.min(DIRECTORIES_MAX) as f64;
            assert!((0.5..=2.0).contains(&ratio), "{directories:?}: {tree:?}");
        }
    }

    /// Returns the plan's first run, on the null target.
    fn first_run(text: &str) -> RunSpec {
        let mut raw = RawPlan::parse(text, "tree.toml").unwrap();
        raw.replace_targets(TargetArg::NULL);
        Plan::resolve(&raw, &surroundings::for_campaign()).unwrap().runs.swap_remove(0)
    }

    /// Creates files with the sizes of a run and describes them.
    fn describe_files(run: &RunSpec) -> TreeShape {
        let top = tempfile::tempdir().unwrap();
        let files = FileSet::new(run);
        for file in 0..run.files {
            let created = std::fs::File::create(top.path().join(file.to_string())).unwrap();
            created.set_len(files.size(file).unwrap()).unwrap();
        }
        describe_tree(top.path()).unwrap()
    }

    #[test]
    fn described_files_have_planned_sizes() {
        for sizes in ["lognormal 20kB 2.0 max 1GiB", "list 0B:10 1B:20 1KiB-9KiB:70", "77B"] {
            let run = RunBuilder::new(Workload::Metadata).files(300).file_sizes(sizes).build();
            let shape = describe_files(&run);
            assert_eq!((shape.files, shape.bytes), (300, FileSet::new(&run).totals().1));
            let again = first_run(&write(&shape, "tree").unwrap());
            assert_eq!(again.files, 300);
            let described = describe_files(&again);
            // Each power of two has as many files, and nearly as many bytes.
            assert_eq!(described.sizes.len(), shape.sizes.len(), "{sizes}");
            for (one, other) in shape.sizes.iter().zip(&described.sizes) {
                assert!(one.files.abs_diff(other.files) <= 1, "{sizes}: {one:?} {other:?}");
                let [low, high] = [one.min_bytes, one.max_bytes];
                assert!(low <= other.min_bytes && other.max_bytes <= high, "{one:?} {other:?}");
            }
            let difference = shape.bytes.abs_diff(described.bytes);
            assert!(difference * 20 <= shape.bytes, "{sizes}: {difference} of {}", shape.bytes);
        }
    }

    #[test]
    fn plan_has_both_kinds_of_files() {
        let class = |bytes: u64, files: u64| SizeClass {
            min_bytes: bytes,
            max_bytes: bytes,
            files,
            bytes: bytes * files,
        };
        let mut shape = shape(&[4], 1_002);
        shape.sizes = vec![class(0, 250), class(3_000, 750), class(3 << 30, 2)];
        shape.failures = 1;
        let text = write(&shape, "/a\nb").unwrap();
        let mut raw = RawPlan::parse(&text, "tree.toml").unwrap();
        raw.replace_targets(TargetArg::NULL);
        let plan = Plan::resolve(&raw, &surroundings::for_campaign()).unwrap();
        let [small, large] = plan.runs.as_slice() else { panic!("{text}") };
        assert_eq!(small.distribution().to_string(), "list 0B:25 3kB:75");
        assert_eq!((small.files, small.tree.depth, small.tree.branching), (1_000, 1, 4));
        assert_eq!((large.files, large.set_bytes()), (2, 6 << 30));
        assert!(text.contains("1 entries of the tree could not be read"));
        assert!(write(&TreeShape::default(), "d").is_err());
    }
}

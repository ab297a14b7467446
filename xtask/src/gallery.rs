//! Pages of the book's gallery: campaigns run on the machine that builds the book.
//!
//! Each is a page written by `dfsbench report --format html`, a separate file below `gallery/`. All
//! of them take half a minute: the server is the one in this program.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::{proc, repo};

/// One campaign of the gallery.
struct Campaign {
    /// Name of its page, without the extension.
    name: &'static str,
    /// Text of the link to it.
    title: &'static str,
    /// Arguments of the command that runs it.
    words: &'static [&'static str],
}

const CAMPAIGNS: [Campaign; 4] = [
    Campaign {
        name: "quick",
        title: "A first campaign",
        words: &["run", "quick", "--scale", "10%", "--trials", "3"],
    },
    Campaign {
        name: "curve",
        title: "A load curve",
        words: &["curve", "--warmup", "100ms", "--duration", "500ms"],
    },
    Campaign {
        name: "ramp",
        title: "A ramp",
        words: &["ramp", "--workload", "mixed", "--file-size", "1MiB", "--duration", "200ms"],
    },
    Campaign { name: "soak", title: "A soak", words: &["soak", "--duration", "10s"] },
];

/// Runs the campaigns and writes their pages to the pages of the book, with links to them.
///
/// # Errors
/// If a campaign has no results, or its page can't be written.
pub fn write_pages(docs: &Path) -> Result<()> {
    let folder = docs.join("gallery");
    fs::create_dir_all(&folder)?;
    let mut links = String::from(
        "\n## Whole pages\n\nGenerated with this book, on the machine that built it:\n\n",
    );
    for campaign in CAMPAIGNS {
        let page = folder.join(format!("{}.html", campaign.name));
        write_page(&campaign, &page).with_context(|| format!("the page {}", campaign.name))?;
        let command = campaign.words.join(" ");
        writeln!(
            links,
            "- [{}](gallery/{}.html): `dfsbench {command}`",
            campaign.title, campaign.name
        )?;
    }
    let gallery = docs.join("gallery.md");
    let text = fs::read_to_string(&gallery)?;
    fs::write(&gallery, text + &links)?;
    Ok(())
}

fn write_page(campaign: &Campaign, page: &Path) -> Result<()> {
    let scratch = tempfile::tempdir()?;
    let mut measure = dfsbench(scratch.path());
    let output = proc::capture_output(measure.args(campaign.words).arg("--quiet"))?;
    // 4 means a result with a caveat: a busy machine has some.
    let code = output.status.code();
    let messages = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(code, Some(0 | 4)), "the campaign exited with {code:?}:\n{messages}");
    let mut report = dfsbench(scratch.path());
    proc::capture_stdout(report.args(["report", "--format", "html", "--output"]).arg(page))?;
    let text = fs::read_to_string(page)?;
    ensure!(text.contains("</html>") && text.contains("<svg"), "it has no pictures");
    Ok(())
}

fn dfsbench(folder: &Path) -> Command {
    let mut command = Command::new(repo::dfsbench_path(repo::Profile::Debug));
    command.current_dir(folder).env("XDG_CONFIG_HOME", folder).env_remove("DFSBENCH_RESULTS");
    command
}

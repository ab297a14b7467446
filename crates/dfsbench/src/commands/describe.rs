//! `dfsbench describe`: describes the load in a trace or the shape of a directory tree, or writes a
//! similar plan.
//!
//! The `trace` crate reads and describes the trace, and `engine` the tree; this command opens the
//! file and prints the result.

mod document;
mod op_plan;
mod tree;
mod tree_plan;

use std::io::{BufReader, Read};
use std::process::ExitCode;

use engine::tree_shape::describe_tree;
use report::document::Document;
use serde::Serialize;
use trace::{Describer, Description, TraceError, TraceReader};

use crate::args::{DescribeArgs, DescribeFormat};
use crate::commands::replay;
use crate::exit::{End, Failure};
use crate::files::{input_file, output_file};
use crate::terminal::output::Printable;

/// Size of the read buffer.
const BUFFER_BYTES: usize = 1 << 20;

/// Describes a trace.
///
/// # Errors
/// If it can't be read or is not a complete trace.
pub(crate) fn run(args: &DescribeArgs) -> Result<ExitCode, Failure> {
    let name = args.trace.display();
    if args.trace.is_dir() {
        return describe_directory(args);
    }
    output_file::check_with_inputs(args.output.as_deref(), [&args.trace])?;
    let source = input_file::open_stream(&args.trace, "trace")?;
    let description =
        describe(source).map_err(|error| Failure::Usage(format!("trace `{name}` {error}")))?;
    if args.as_plan {
        let text = op_plan::write(&description);
        let text = text
            .map_err(|why| Failure::Usage(format!("trace `{name}`: can't derive a plan: {why}")))?;
        return print_plan(&text, args);
    }
    let document = document::describe_trace(&description, &name.to_string());
    print(&description, document, args)
}

/// Describes the tree below a directory.
///
/// # Errors
/// If the directory can't be read, or has no files for a plan.
fn describe_directory(args: &DescribeArgs) -> Result<ExitCode, Failure> {
    let name = args.trace.display().to_string();
    output_file::check_with_inputs(args.output.as_deref(), [])?;
    let shape = describe_tree(&args.trace)
        .map_err(|error| Failure::Lab(format!("can't read directory `{name}`: {error}")))?;
    if args.as_plan {
        let text = tree_plan::write(&shape, &name);
        let text = text.map_err(|why| {
            Failure::Usage(format!("directory `{name}`: can't derive a plan: {why}"))
        })?;
        return print_plan(&text, args);
    }
    let described = tree::DescribedTree { plan: tree_plan::write(&shape, &name).ok(), shape };
    let document = tree::describe(&described, &name);
    print(&described, document, args)
}

/// Prints a plan, or writes it to the given file.
fn print_plan(text: &str, args: &DescribeArgs) -> Result<ExitCode, Failure> {
    output_file::write_or_print(args.output.as_deref(), &Printable::text(text))?;
    Ok(End::Ok.into())
}

/// Prints a description as an object of JSON or as a document.
fn print(
    described: &impl Serialize,
    document: Document,
    args: &DescribeArgs,
) -> Result<ExitCode, Failure> {
    let text = match args.format {
        DescribeFormat::Json => {
            let json = serde_json::to_string_pretty(described);
            json.map_err(|error| Failure::Lab(error.to_string()))? + "\n"
        }
        format => replay::render_text(document, format),
    };
    let text = match args.format {
        DescribeFormat::Json => Printable::json(&text),
        _ => Printable::text(&text),
    };
    output_file::write_or_print(args.output.as_deref(), &text)?;
    Ok(End::Ok.into())
}

fn describe(source: Box<dyn Read>) -> Result<Description, TraceError> {
    let mut reader = TraceReader::new(BufReader::with_capacity(BUFFER_BYTES, source))?;
    let mut describer = Describer::new(reader.header().clone());
    while let Some(section) = reader.next_section()? {
        describer.section(section);
    }
    Ok(describer.finish())
}

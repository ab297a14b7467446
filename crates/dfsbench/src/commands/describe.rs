//! `dfsbench describe`: describes the load in a trace, or writes a plan with a similar load.
//!
//! The `trace` crate reads and describes the trace; this command opens the file and prints the
//! result.

mod document;
mod op_plan;

use std::io::{BufReader, Read};
use std::process::ExitCode;

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
    output_file::check_with_inputs(args.output.as_deref(), [&args.trace])?;
    let source = input_file::open_stream(&args.trace, "trace")?;
    let description =
        describe(source).map_err(|error| Failure::Usage(format!("trace `{name}` {error}")))?;
    let text = if args.as_plan {
        op_plan::write(&description)
            .map_err(|why| Failure::Usage(format!("trace `{name}`: can't derive a plan: {why}")))?
    } else {
        match args.format {
            DescribeFormat::Json => {
                let json = serde_json::to_string_pretty(&description);
                json.map_err(|error| Failure::Lab(error.to_string()))? + "\n"
            }
            format => {
                let document = document::describe_trace(&description, &name.to_string());
                replay::render_text(document, format)
            }
        }
    };
    let text = match args.format {
        DescribeFormat::Json if !args.as_plan => Printable::json(&text),
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

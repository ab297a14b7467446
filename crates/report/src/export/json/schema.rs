//! Generates the JSON Schema of the report from the serialized types.
//!
//! [`schema`] is the entry point. Its text is stored as `docs/results.schema.json`, and a test
//! compares them. Descriptions are the doc comments of the types and their fields. Two members stay
//! open because each release adds to them: the settings of a run and the question of a campaign.
//!
//! **Source:** JSON Schema, draft 2020-12.

use std::borrow::Cow;

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde_json::{Map, Value};

use super::{Export, Members};
use crate::table::columns::{COLUMNS, IDENTITY};

/// Returns the JSON Schema of [`crate::Format::Json`]. The text ends with a newline.
pub fn schema() -> String {
    // Use the schema for serialization, in which a member is required unless the writer may omit
    // it. The one for deserialization would make every member with a default optional.
    let settings = SchemaSettings::draft2020_12()
        .for_serialize()
        .with_transform(RecursiveTransform(close_object));
    let schema = settings.into_generator().into_root_schema_for::<Export<'_>>();
    format!("{:#}\n", schema.to_value())
}

/// Rejects unnamed members, joins the lines of descriptions, and drops defaults and formats such as
/// `uint64` that the standard does not define.
fn close_object(schema: &mut Schema) {
    schema.remove("format");
    // Defaults only matter when reading partial objects, and these are always complete.
    schema.remove("default");
    // The lines of a doc comment form one paragraph.
    if let Some(Value::String(text)) = schema.get_mut("description") {
        *text = text.replace('\n', " ");
    }
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
}

/// Every setting of the run, including defaults. Each release adds settings, so there may be
/// members that are not listed here.
#[derive(JsonSchema)]
#[schemars(rename = "Settings", extend("additionalProperties" = true))]
#[expect(dead_code, reason = "the schema of `RunSpec`, of which it names the common part")]
pub(super) struct AnySettings {
    target_name: String,
    target: Map<String, Value>,
    backend: String,
    workload: String,
    io_size_bytes: u32,
    file_size_bytes: u64,
    files: u32,
    workers: u32,
    queue_depth: u32,
}

/// The question with its parameters, which depend on the kind of question.
#[derive(JsonSchema)]
#[schemars(rename = "Question", extend("additionalProperties" = true))]
#[expect(dead_code, reason = "the schema of `model::Question`, of which it names the common part")]
pub(super) struct AnyQuestion {
    question: String,
}

/// The columns are members of the enclosing object, so this is the only handwritten schema.
impl JsonSchema for Members {
    fn schema_name() -> Cow<'static, str> {
        "Columns".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let mut properties = Map::new();
        let mut required = Vec::new();
        for column in IDENTITY.iter().chain(COLUMNS) {
            let Some(member) = column.member_schema() else { continue };
            properties.insert(member.name.to_owned(), member.schema);
            if member.is_required {
                required.push(member.name);
            }
        }
        json_schema!({ "type": "object", "properties": properties, "required": required })
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn keeps_checked_schema_current() {
        let checked = include_str!("../../../../../docs/results.schema.json");
        assert!(
            checked == super::schema(),
            "docs/results.schema.json is out of date: \
             `cargo run -p dfsbench-report --example schema > docs/results.schema.json`"
        );
    }
}

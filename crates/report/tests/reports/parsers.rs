//! Parsers for machine-readable output: JSON validated by a schema, and OpenMetrics text.
//!
//! Both are strict and reject anything unknown, so that no test can pass by ignoring something.

#![allow(dead_code)] // each test binary uses its share

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

/// Returns the part of a value that does not fit a schema; `Ok` if all of it fits.
///
/// Supports the keywords of JSON Schema 2020-12 that our schema uses, and rejects others.
pub fn check(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    // `true` accepts any value.
    if *schema == Value::Bool(true) {
        return Ok(());
    }
    let wrong = |what: &str| Err(format!("{at}: {what}: {value:.80}"));
    for (word, rule) in schema.as_object().ok_or("a schema is an object")? {
        match word.as_str() {
            "$ref" => {
                let name = rule.as_str().and_then(|name| name.strip_prefix('#')).ok_or("$ref")?;
                check(root, root.pointer(name).ok_or("a $ref leads nowhere")?, value, at)?;
            }
            "anyOf" => {
                let any = rule.as_array().ok_or("anyOf")?.iter();
                let results: Vec<_> = any.map(|any| check(root, any, value, at)).collect();
                if results.iter().all(Result::is_err) {
                    return Err(results
                        .into_iter()
                        .filter_map(Result::err)
                        .collect::<Vec<_>>()
                        .join("; "));
                }
            }
            "oneOf" => {
                let all = rule.as_array().ok_or("oneOf")?.iter();
                if all.filter(|one| check(root, one, value, at).is_ok()).count() != 1 {
                    return wrong("is not exactly one of those that are known");
                }
            }
            "type" => {
                let one = [rule.clone()];
                let types = rule.as_array().map_or(&one[..], |types| types);
                if !types.iter().any(|name| is(name.as_str().unwrap_or(""), value)) {
                    return wrong(&format!("is no {rule}"));
                }
            }
            "const" if value != rule => return wrong("is not the constant"),
            "enum" if rule.as_array().is_none_or(|all| !all.contains(value)) => {
                return wrong("is not one of those that are known");
            }
            "minimum" if value.as_f64().is_some_and(|n| n < rule.as_f64().unwrap_or(0.0)) => {
                return wrong("is too small");
            }
            // Texts for people, and keywords evaluated together with others.
            "$schema" | "$id" | "$defs" | "title" | "description" | "required" | "const"
            | "enum" | "minimum" => {}
            "pattern" if *rule == "^[0-9]+$" => {
                let text = value.as_str().unwrap_or("");
                if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
                    return wrong("is not of digits");
                }
            }
            "minItems" | "maxItems" => {
                let length = value.as_array().map_or(0, Vec::len) as u64;
                let bound = rule.as_u64().ok_or("a number of items")?;
                if (word == "minItems" && length < bound) || (word == "maxItems" && length > bound)
                {
                    return wrong("has another number of items");
                }
            }
            "items" => {
                for (n, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(root, rule, item, &format!("{at}/{n}"))?;
                }
            }
            "properties" | "additionalProperties" => members(root, schema, value, at)?,
            word => return Err(format!("{at}: the schema says `{word}`, which is not known here")),
        }
    }
    Ok(())
}

fn members(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Some(object) = value.as_object() else { return Ok(()) };
    // An object that allows any members names none.
    let none = serde_json::Map::new();
    let known = schema["properties"].as_object().unwrap_or(&none);
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().ok_or("a name is text")?;
        if !object.contains_key(name) {
            return Err(format!("{at}: `{name}` is missing"));
        }
    }
    for (name, member) in object {
        match known.get(name) {
            Some(schema) => check(root, schema, member, &format!("{at}/{name}"))?,
            None if schema["additionalProperties"] == Value::Bool(false) => {
                return Err(format!("{at}: `{name}` is not in the schema"));
            }
            None => {}
        }
    }
    Ok(())
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => false,
    }
}

/// Metric family in OpenMetrics text.
#[derive(Debug, Default)]
pub struct Family {
    pub kind: String,
    pub unit: String,
    pub help: String,
    /// Name, labels and value of each sample.
    pub samples: Vec<(String, BTreeMap<String, String>, f64)>,
}

/// Parses OpenMetrics text as strictly as the specification: metadata before samples, contiguous
/// families, no duplicate samples, units as suffixes of names, and the end marker.
pub fn open_metrics(text: &str) -> Result<BTreeMap<String, Family>, String> {
    let body = text.strip_suffix("# EOF\n").ok_or("the text does not end with # EOF")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut current = String::new();
    let mut seen = BTreeSet::new();
    for line in body.split_terminator('\n') {
        if let Some(rule) = line.strip_prefix("# ") {
            let mut words = rule.splitn(3, ' ');
            let word = words.next().ok_or(line)?;
            let name = words.next().ok_or(line)?;
            let rest = words.next().ok_or(line)?;
            if word == "TYPE" {
                if families.insert(name.to_owned(), Family::default()).is_some() {
                    return Err(format!("{name} has two pieces"));
                }
                name.clone_into(&mut current);
            }
            if name != current {
                return Err(format!("{line}: is not of {current}"));
            }
            let family = families.get_mut(name).ok_or(line)?;
            if !family.samples.is_empty() {
                return Err(format!("{line}: stands behind samples"));
            }
            match word {
                "TYPE" if ["counter", "gauge", "summary"].contains(&rest) => {
                    rest.clone_into(&mut family.kind);
                }
                "UNIT" if name.ends_with(&format!("_{rest}")) => rest.clone_into(&mut family.unit),
                "HELP" => rest.clone_into(&mut family.help),
                _ => return Err(format!("{line}: is not known or not allowed")),
            }
            continue;
        }
        let (name, labels, value) = sample(line)?;
        let family = families.get_mut(&current).ok_or(line)?;
        let quantile = labels.get("quantile").map(|q| q.parse::<f64>());
        let fits = match (family.kind.as_str(), quantile) {
            ("gauge", None) => name == current,
            ("counter", None) => name == format!("{current}_total"),
            ("summary", Some(Ok(q))) => name == current && (0.0..=1.0).contains(&q),
            ("summary", None) => name == format!("{current}_count"),
            _ => false,
        };
        if !fits || !seen.insert((name.clone(), labels.clone())) {
            return Err(format!("{line}: does not fit {current}, or stands there twice"));
        }
        family.samples.push((name, labels, value));
    }
    Ok(families)
}

fn sample(line: &str) -> Result<(String, BTreeMap<String, String>, f64), String> {
    let wrong = || format!("not a sample: {line}");
    let word = |text: &str| {
        !text.is_empty()
            && !text.starts_with(|c: char| c.is_ascii_digit())
            && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    };
    let (name, rest) = line.split_once('{').ok_or_else(wrong)?;
    let mut labels = BTreeMap::new();
    let mut rest = rest;
    loop {
        let (label, after) = rest.split_once("=\"").ok_or_else(wrong)?;
        let mut value = String::new();
        let mut letters = after.char_indices();
        let end = loop {
            match letters.next().ok_or_else(wrong)? {
                (at, '"') => break at + 1,
                (_, '\\') => match letters.next().ok_or_else(wrong)?.1 {
                    'n' => value.push('\n'),
                    c @ ('\\' | '"') => value.push(c),
                    _ => return Err(wrong()),
                },
                (_, c) if c.is_control() => return Err(wrong()),
                (_, c) => value.push(c),
            }
        };
        if !word(label) || labels.insert(label.to_owned(), value).is_some() {
            return Err(wrong());
        }
        match after[end..].split_at_checked(1).ok_or_else(wrong)? {
            (",", more) => rest = more,
            ("}", value) => {
                let value = value.strip_prefix(' ').ok_or_else(wrong)?;
                let value = value.parse::<f64>().map_err(|_| wrong())?;
                return if word(name) {
                    Ok((name.to_owned(), labels, value))
                } else {
                    Err(wrong())
                };
            }
            _ => return Err(wrong()),
        }
    }
}

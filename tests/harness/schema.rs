//! JSON held to the schemas of `oomph help json`.

use serde_json::Value;

/// What is wrong with `value` by `schema`, each with its place, in the part of JSON Schema that the published schemas use.
pub fn problems(value: &Value, schema: &Value, place: &str, found: &mut Vec<String>) {
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{place}: no type {other}"),
    };
    let fits = match &schema["type"] {
        Value::Null => true,
        Value::String(name) => is(name),
        Value::Array(names) => names.iter().filter_map(Value::as_str).any(is),
        other => panic!("{place}: {other}"),
    };
    if !fits {
        found.push(format!("{place} is {value}, not {}", schema["type"]));
    }
    if let Some(wanted) = schema.get("const").filter(|wanted| *wanted != value) {
        found.push(format!("{place} is {value}, not {wanted}"));
    }
    if let Some(Value::Array(names)) = schema.get("enum")
        && !names.contains(value)
    {
        found.push(format!("{place} is {value}, none of {names:?}"));
    }
    if let Some(fields) = value.as_object() {
        let required = schema["required"].as_array().into_iter().flatten();
        for name in required.filter_map(Value::as_str) {
            if !fields.contains_key(name) {
                found.push(format!("{place} has no {name}"));
            }
        }
        let known = schema["properties"].as_object().into_iter().flatten();
        for (name, schema) in known {
            if let Some(field) = fields.get(name) {
                problems(field, schema, &format!("{place}.{name}"), found);
            }
        }
    }
    if let (Some(items), Some(schema)) = (value.as_array(), schema.get("items")) {
        for (at, item) in items.iter().enumerate() {
            problems(item, schema, &format!("{place}[{at}]"), found);
        }
    }
}

//! The configuration file as a JSON Schema, for editors. The sections derive their parts of it.

use schemars::Schema;
use schemars::generate::SchemaSettings;
use schemars::transform::{Transform, transform_subschemas};
use serde_json::{Map, Value};

use super::Config;

/// What the document says about itself.
const DESCRIPTION: &str = "The configuration file of Selfsame, for editors. `selfsame config check` decides what is \
                           accepted. This schema is looser: it refuses nothing that the check accepts.";

/// The JSON Schema of the configuration file, by draft 2020-12. Its keys are in the order of the
/// alphabet, so that the text is the same for each build of a version.
pub fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().with_transform(ForConfigurationFile).into_generator();
    let mut schema = generator.into_root_schema_for::<Config>();
    schema.insert("title".to_owned(), "Configuration of Selfsame".into());
    schema.insert("description".to_owned(), DESCRIPTION.into());
    with_sorted_keys(schema.to_value())
}

/// Adapts what serde's types give to what a TOML file can hold and an editor can show.
#[derive(Clone, Debug)]
struct ForConfigurationFile;

impl Transform for ForConfigurationFile {
    fn transform(&mut self, schema: &mut Schema) {
        transform_subschemas(self, schema);
        remove_null(schema);
        // Names of Rust's types, which are no formats of JSON Schema.
        if schema.get("format").and_then(Value::as_str).is_some_and(|format| format.starts_with("uint")) {
            schema.remove("format");
        }
        // The keys of a section say what their defaults are.
        if schema.get("default").is_some_and(|default| default.is_object() || default.is_null()) {
            schema.remove("default");
        }
        // The lines of a comment are no lines of the text.
        if let Some(Value::String(description)) = schema.get_mut("description") {
            *description =
                description.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
        }
    }
}

/// Takes the value null away, which TOML does not have: a key without a value is left out.
fn remove_null(schema: &mut Schema) {
    let is_null = |schema: &Value| schema.get("type").is_some_and(|kind| kind == "null");
    if let Some(Value::Array(choices)) = schema.get_mut("anyOf") {
        choices.retain(|choice| !is_null(choice));
        if let [Value::Object(only)] = choices.as_mut_slice() {
            let only = std::mem::take(only);
            schema.remove("anyOf");
            for (key, value) in only {
                if schema.get(&key).is_none() {
                    schema.insert(key, value);
                }
            }
        }
    }
    if let Some(Value::Array(kinds)) = schema.get_mut("type") {
        kinds.retain(|kind| kind != "null");
        if let [only] = kinds.as_mut_slice() {
            let only = only.take();
            schema.insert("type".to_owned(), only);
        }
    }
}

fn with_sorted_keys(value: Value) -> Value {
    match value {
        Value::Object(entries) => {
            let mut entries: Vec<_> = entries.into_iter().map(|(key, value)| (key, with_sorted_keys(value))).collect();
            entries.sort_by(|(first, _), (second, _)| first.cmp(second));
            Value::Object(Map::from_iter(entries))
        }
        Value::Array(values) => Value::Array(values.into_iter().map(with_sorted_keys).collect()),
        other => other,
    }
}

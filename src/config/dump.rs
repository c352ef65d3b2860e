//! The effective configuration as text: every setting with its value and where it came from,
//! secrets hidden.

use std::fmt::Write;

use serde::Serialize;
use toml::{Table, Value};

use super::load::{Loaded, Source};
use super::values::HIDDEN;

/// The effective configuration.
#[derive(Debug, Serialize)]
pub struct Dump {
    /// The settings; a key without a value is left out.
    pub settings: Table,
    /// Where the value of each key came from, by the key's path.
    pub origins: std::collections::BTreeMap<String, String>,
}

impl Loaded {
    /// The effective configuration, without secrets.
    ///
    /// # Errors
    /// A value cannot be written as TOML: a number over 63 bits, which no file can hold either.
    pub fn dump(&self) -> Result<Dump, toml::ser::Error> {
        let mut settings = Table::try_from(&self.config)?;
        if let (Some(Value::Table(operator)), Some(socket)) =
            (settings.get_mut("operator"), self.config.operator_socket())
        {
            operator.entry("socket").or_insert_with(|| socket.to_string_lossy().into_owned().into());
        }
        let mut dump = Dump { settings, origins: Default::default() };
        let settings = dump.settings.clone();
        self.add_origins(&mut dump, &Value::Table(settings), String::new());
        Ok(dump)
    }

    fn add_origins(&self, dump: &mut Dump, value: &Value, path: String) {
        match value {
            Value::Table(entries) => {
                for (key, value) in entries {
                    let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                    self.add_origins(dump, value, path);
                }
            }
            Value::Array(entries) if is_list_of_sections(entries) => {
                for (index, value) in entries.iter().enumerate() {
                    self.add_origins(dump, value, format!("{path}[{index}]"));
                }
            }
            _ => {
                let origin = self.origin(&path);
                dump.origins.insert(path, origin);
            }
        }
    }

    fn origin(&self, path: &str) -> String {
        match self.origins.of(path) {
            // `--dev` adds whole entries to the lists.
            Source::Default if self.config.dev && self.origins.lacks_entry_of(path) => "--dev".to_owned(),
            Source::Default => "default".to_owned(),
            Source::Development => "--dev".to_owned(),
            Source::CommandLine => "command line".to_owned(),
            Source::Variable(name) => format!("variable {name}"),
            Source::File { file, position: None } => file.display().to_string(),
            Source::File { file, position: Some(position) } => format!("{}, line {}", file.display(), position.line),
        }
    }
}

impl Dump {
    /// The settings as TOML, each with its origin in a comment.
    pub fn to_toml(&self) -> String {
        let mut text = format!(
            "# The effective configuration, as `selfsame config dump` prints it. To load it, write the values\n\
             # {HIDDEN:?} and remove the keys that the daemon should choose.\n"
        );
        self.write_table(&mut text, &self.settings, "", "");
        text
    }

    /// Writes the entries of a table: first the plain ones, then those that are sections. `path`
    /// names the table as errors do, `heading` as TOML does.
    fn write_table(&self, text: &mut String, table: &Table, path: &str, heading: &str) {
        let join = |prefix: &str, key: &str| if prefix.is_empty() { key.to_owned() } else { format!("{prefix}.{key}") };
        let is_section = |value: &Value| match value {
            Value::Table(_) => true,
            Value::Array(entries) => is_list_of_sections(entries),
            _ => false,
        };
        for (key, value) in table.iter().filter(|(_, value)| !is_section(value)) {
            let origin = self.origins.get(&join(path, key)).map(String::as_str).unwrap_or_default();
            // Writing to a text cannot fail.
            let _ = writeln!(text, "{key} = {value} # {origin}");
        }
        for (key, value) in table {
            let (path, heading) = (join(path, key), join(heading, key));
            match value {
                Value::Table(section) => {
                    let _ = writeln!(text, "\n[{heading}]");
                    self.write_table(text, section, &path, &heading);
                }
                Value::Array(entries) if is_list_of_sections(entries) => {
                    for (index, entry) in entries.iter().enumerate() {
                        let Value::Table(entry) = entry else { continue };
                        let _ = writeln!(text, "\n[[{heading}]]");
                        self.write_table(text, entry, &format!("{path}[{index}]"), &heading);
                    }
                }
                _ => {}
            }
        }
    }
}

fn is_list_of_sections(entries: &[Value]) -> bool {
    !entries.is_empty() && entries.iter().all(Value::is_table)
}

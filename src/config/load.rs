//! From file and variables to a checked [`Config`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::error::{ConfigError, SettingError, Source};
use super::tree::Node;
use super::whole::Config;
use super::{check, dev};

/// The prefix of every variable that is a setting; the key's path follows in upper case, joined by
/// [`SEPARATOR`].
const PREFIX: &str = "SELFSAME_";
const SEPARATOR: &str = "__";

/// Whether a variable is one that Kubernetes sets in every container when there is a Service named
/// `selfsame`, such as `SELFSAME_PORT=tcp://10.0.0.1:8080`.
fn is_of_kubernetes(name: &str) -> bool {
    let rest = name.strip_prefix(PREFIX).unwrap_or_default();
    rest == "PORT" || rest == "SERVICE_HOST" || rest.starts_with("PORT_") || rest.starts_with("SERVICE_PORT")
}

/// The variables of this process that are settings. Text that is not Unicode becomes U+FFFD, which
/// loading refuses.
pub fn settings_of_this_process() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .map(|(name, text)| (name.to_string_lossy().into_owned(), text.to_string_lossy().into_owned()))
        .filter(|(name, _)| name.starts_with(PREFIX))
}

impl Config {
    /// Reads and checks the configuration. The data folder of the command line replaces that of the
    /// variables, variables replace the file, and the file replaces the defaults. `environment` may
    /// hold any variables; those that begin with `SELFSAME_` must be settings, except those that
    /// Kubernetes sets for a Service of this name.
    ///
    /// # Errors
    /// All errors at once, each with its key, its source and what would be right. Rules that
    /// compare entries of a list are checked only when every value can be read.
    pub fn load(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        dev: bool,
        data_dir: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let mut tree = match file {
            Some(file) => Node::document(read(file)?, &Source::File(file.to_owned())),
            None => Node::document(toml::Table::new(), &Source::Default),
        };
        let mut errors = add_variables(&mut tree, environment);
        if dev {
            tree.fill_from(dev::settings());
        }
        let (mut config, shape_errors) = shape(tree.clone());
        errors.extend(shape_errors);
        config.dev = dev;
        let readable = errors.is_empty();
        if dev {
            dev::add_entries(&mut config);
        }
        let from_command_line = data_dir.is_some();
        if let Some(data_dir) = data_dir {
            config.data_dir = data_dir;
        }

        let mut broken_rules = check::check_settings(&config);
        if readable {
            broken_rules.extend(check::check_lists(&config));
        }
        errors.extend(broken_rules.into_iter().map(|(key, message)| {
            let source = match key.as_str() {
                "data_dir" if from_command_line => Source::CommandLine,
                _ => tree.source(&key).clone(),
            };
            SettingError { key, message, source }
        }));
        if errors.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(errors)) }
    }

    /// Checks the rules between lists once more, for a configuration that was put together from
    /// two.
    ///
    /// # Errors
    /// The broken rules, without their sources.
    pub fn check_again(&self) -> Result<(), ConfigError> {
        let broken_rules = check::check_lists(self);
        let error = |(key, message)| SettingError { key, message, source: Source::Default };
        let errors: Vec<_> = broken_rules.into_iter().map(error).collect();
        if errors.is_empty() { Ok(()) } else { Err(ConfigError::Invalid(errors)) }
    }
}

fn read(file: &Path) -> Result<toml::Table, ConfigError> {
    let text =
        std::fs::read_to_string(file).map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        ConfigError::Syntax {
            file: file.to_owned(),
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            message: error.message().to_owned(),
        }
    })
}

/// Sets the values of the variables, which replace those of the file. Returns what is wrong with
/// them.
fn add_variables(tree: &mut Node, environment: impl Iterator<Item = (String, String)>) -> Vec<SettingError> {
    // In the order of their names: a variable for a key below a plain setting comes after the
    // variable of that setting, and is then refused.
    let variables: BTreeMap<String, String> =
        environment.filter(|(name, _)| name.starts_with(PREFIX) && !is_of_kubernetes(name)).collect();
    let mut errors = Vec::new();
    for (name, text) in variables {
        let path = name[PREFIX.len()..].to_lowercase();
        let keys: Vec<&str> = path.split(SEPARATOR).collect();
        let source = Source::Variable(name.clone());
        let wrong = if name.chars().any(char::is_lowercase) {
            Some("is written in upper case in a variable's name")
        } else if name.contains(char::REPLACEMENT_CHARACTER) || text.contains(char::REPLACEMENT_CHARACTER) {
            Some("has to be Unicode text")
        } else {
            None
        };
        errors.extend(match wrong {
            Some(message) => Some(SettingError { key: keys.join("."), message: message.to_owned(), source }),
            None => tree.set_variable(&keys, &source, text).err(),
        });
    }
    errors
}

/// Gives the settings their types. A value that does not fit is recorded as an error and removed,
/// and the rest is tried again, so that one load finds all errors.
fn shape(mut tree: Node) -> (Config, Vec<SettingError>) {
    let mut errors = Vec::new();
    loop {
        match Config::deserialize(tree.clone()) {
            Ok(config) => return (config, errors),
            Err(error) => {
                let key = error.path();
                let source = tree.source(&key).clone();
                let removed = tree.remove(&key);
                // A section that misses a key which this loop has removed is not a further error.
                let inside = format!("{key}.");
                if !errors.iter().any(|error| error.key.starts_with(&inside)) {
                    errors.push(SettingError { key, message: error.message, source });
                }
                if !removed {
                    return (Config::default(), errors);
                }
            }
        }
    }
}

//! From file and variables to a checked [`Config`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::de::DeTable;

use super::error::{ConfigError, Lines, SettingError, Source};
use super::tree::{Node, NumberOutOfRange, PREFIX, SEPARATOR};
use super::whole::Config;
use super::{check, dev};

/// Whether a variable is one that Kubernetes sets in every container when there is a Service named
/// `selfsame` or `selfsame-…`, such as `SELFSAME_PORT=tcp://10.0.0.1:8080`. No key ends like them,
/// and their names have no [`SEPARATOR`]: `SELFSAME_LISTEN__PORT` is a wrong key.
fn is_of_kubernetes(name: &str, text: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX).filter(|rest| !rest.contains(SEPARATOR)) else { return false };
    let is_word = |text: &str| {
        let is_plain = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
        !text.is_empty() && !text.starts_with('_') && !text.ends_with('_') && text.bytes().all(is_plain)
    };
    // What follows the name of the Service.
    let is_of_a_service = |end: &str| {
        let of_a_port = |port: &str| {
            let mut words = port.split('_');
            let number = words.next().unwrap_or_default();
            let is_number = (1..=5).contains(&number.len()) && number.bytes().all(|byte| byte.is_ascii_digit());
            let is_protocol = words.next().is_some_and(|protocol| ["TCP", "UDP", "SCTP"].contains(&protocol));
            let has_end = words.next().is_none_or(|part| ["ADDR", "PORT", "PROTO"].contains(&part));
            is_number && is_protocol && has_end && words.next().is_none()
        };
        match end {
            "SERVICE_HOST" | "SERVICE_PORT" => true,
            // A person who means a setting writes a number.
            "PORT" => ["tcp://", "udp://", "sctp://"].iter().any(|scheme| text.starts_with(scheme)),
            _ => {
                end.strip_prefix("SERVICE_PORT_").is_some_and(is_word)
                    || end.strip_prefix("PORT_").is_some_and(of_a_port)
            }
        }
    };
    is_of_a_service(rest)
        || rest.match_indices('_').any(|(index, _)| is_word(&rest[..index]) && is_of_a_service(&rest[index + 1..]))
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
        let Loaded { config, errors, .. } = Self::load_with_errors(file, environment, dev, data_dir)?;
        if errors.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(errors)) }
    }

    /// The same, which also returns a configuration with errors, in which each wrong setting has
    /// its default.
    pub fn load_with_errors(
        file: Option<&Path>,
        environment: impl Iterator<Item = (String, String)>,
        dev: bool,
        data_dir: Option<PathBuf>,
    ) -> Result<Loaded, ConfigError> {
        let mut tree = match file {
            Some(file) => read(file)?,
            None => Node::document(toml::Table::new(), &Source::Default),
        };
        let mut errors = add_variables(&mut tree, environment);
        if dev {
            tree.fill_from(dev::settings());
        }
        if let Some(data_dir) = data_dir {
            tree.set("data_dir", &Source::CommandLine, &data_dir.to_string_lossy());
        }
        let (mut config, shape_errors) = shape(tree.clone());
        errors.extend(shape_errors);
        config.dev = dev;
        let readable = errors.is_empty();
        if dev {
            dev::add_entries(&mut config);
        }
        let mut broken_rules = check::check_settings(&config);
        if readable {
            broken_rules.extend(check::check_lists(&config));
        }
        errors.extend(broken_rules.into_iter().map(|(key, message)| {
            let source = tree.source(&key).clone();
            SettingError { key, message, source }
        }));
        Ok(Loaded { config, errors, origins: Origins(tree) })
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

/// A configuration that was read, with what is wrong with it.
pub struct Loaded {
    /// The settings.
    pub config: Config,
    /// What is wrong; empty for a good configuration.
    pub errors: Vec<SettingError>,
    /// Where each setting came from.
    pub origins: Origins,
}

/// Where the settings of a configuration came from.
pub struct Origins(Node);

impl Origins {
    /// The source of the value at a key's path; [`Source::Default`] when no value was given.
    pub(super) fn of(&self, path: &str) -> &Source {
        self.0.origin(path).unwrap_or(&Source::Default)
    }

    /// Whether the entry of a list that a path lies in was not given.
    pub(super) fn lacks_entry_of(&self, path: &str) -> bool {
        path.find(']').is_some_and(|end| self.0.origin(&path[..=end]).is_none())
    }
}

fn read(file: &Path) -> Result<Node, ConfigError> {
    let text =
        std::fs::read_to_string(file).map_err(|error| ConfigError::Unreadable { file: file.to_owned(), error })?;
    let lines = Lines::new(&text);
    let syntax = |byte, message: &str| ConfigError::Syntax {
        file: file.to_owned(),
        position: lines.position(byte),
        message: message.to_owned(),
    };
    let document =
        DeTable::parse(&text).map_err(|error| syntax(error.span().map_or(0, |span| span.start), error.message()))?;
    Node::of_file(document, &lines, file)
        .map_err(|NumberOutOfRange { byte }| syntax(byte, "the number is out of range"))
}

/// Sets the values of the variables, which replace those of the file. Returns what is wrong with
/// them.
fn add_variables(tree: &mut Node, environment: impl Iterator<Item = (String, String)>) -> Vec<SettingError> {
    // In the order of their names: a variable for a key below a plain setting comes after the
    // variable of that setting, and is then refused.
    let variables: BTreeMap<String, String> =
        environment.filter(|(name, text)| name.starts_with(PREFIX) && !is_of_kubernetes(name, text)).collect();
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
                let source = if error.is_unknown_key() { tree.key_source(&key) } else { tree.source(&key) }.clone();
                let message = error.message_about(&source);
                let removed = tree.remove(&key);
                // A section that misses a key which this loop has removed is not a further error.
                let inside = format!("{key}.");
                if !errors.iter().any(|error| error.key.starts_with(&inside)) {
                    errors.push(SettingError { key, message, source });
                }
                if !removed {
                    return (Config::default(), errors);
                }
            }
        }
    }
}

//! From file and variables to a checked [`Config`].

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::tree::Node;
use super::{Config, ConfigError, Origin, Problem, check, dev};

/// What every variable of ours begins with; the key's path follows in upper case, joined by [`SEPARATOR`].
const PREFIX: &str = "SELFSAME_";
const SEPARATOR: &str = "__";

/// The variables of this process that are settings. Text that is not Unicode becomes U+FFFD, which loading refuses.
pub fn settings_of_this_process() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .map(|(name, text)| (name.to_string_lossy().into_owned(), text.to_string_lossy().into_owned()))
        .filter(|(name, _)| name.starts_with(PREFIX))
}

pub(super) fn load(
    file: Option<&Path>,
    environment: impl Iterator<Item = (String, String)>,
    dev: bool,
    data_dir: Option<PathBuf>,
) -> Result<Config, ConfigError> {
    let mut tree = match file {
        Some(file) => Node::document(read(file)?, &Origin::File(file.to_owned())),
        None => Node::document(toml::Table::new(), &Origin::Default),
    };
    let mut problems = add_variables(&mut tree, environment);
    if dev {
        tree.fill_from(dev::settings());
    }
    let (mut config, misshapen) = shape(tree.clone());
    problems.extend(misshapen);
    config.dev = dev;
    let readable = problems.is_empty();
    if dev {
        dev::add_entries(&mut config);
    }
    let from_command_line = data_dir.is_some();
    if let Some(data_dir) = data_dir {
        config.data_dir = data_dir;
    }

    let mut findings = check::settings(&config);
    if readable {
        findings.extend(check::lists(&config));
    }
    problems.extend(findings.into_iter().map(|(key, message)| {
        let origin = match key.as_str() {
            "data_dir" if from_command_line => Origin::CommandLine,
            _ => tree.origin(&key).clone(),
        };
        Problem { key, message, origin }
    }));
    if problems.is_empty() { Ok(config) } else { Err(ConfigError::Invalid(problems)) }
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

/// Puts the variables in front of what the file says.
fn add_variables(tree: &mut Node, environment: impl Iterator<Item = (String, String)>) -> Vec<Problem> {
    // In order of their names, so that one that wrongly goes on behind a setting comes after that setting and is noticed.
    let variables: BTreeMap<String, String> = environment.filter(|(name, _)| name.starts_with(PREFIX)).collect();
    let mut problems = Vec::new();
    for (name, text) in variables {
        let path = name[PREFIX.len()..].to_lowercase();
        let keys: Vec<&str> = path.split(SEPARATOR).collect();
        let origin = Origin::Variable(name.clone());
        let refusal = if name.chars().any(char::is_lowercase) {
            Some("is written in upper case in a variable's name")
        } else if name.contains(char::REPLACEMENT_CHARACTER) || text.contains(char::REPLACEMENT_CHARACTER) {
            Some("has to be Unicode text")
        } else {
            None
        };
        problems.extend(match refusal {
            Some(message) => Some(Problem { key: keys.join("."), message: message.to_owned(), origin }),
            None => tree.set_variable(&keys, &origin, text).err(),
        });
    }
    problems
}

/// Gives the settings their types. What does not fit is noted and taken out, then the rest is tried again, so that all problems
/// are found at once.
fn shape(mut tree: Node) -> (Config, Vec<Problem>) {
    let mut problems = Vec::new();
    loop {
        match Config::deserialize(tree.clone()) {
            Ok(config) => return (config, problems),
            Err(refusal) => {
                let key = refusal.path();
                let origin = tree.origin(&key).clone();
                let removed = tree.remove(&key);
                // A section that misses a key which was just taken out of it is no further problem.
                let inside = format!("{key}.");
                if !problems.iter().any(|problem| problem.key.starts_with(&inside)) {
                    problems.push(Problem { key, message: refusal.message, origin });
                }
                if !removed {
                    return (Config::default(), problems);
                }
            }
        }
    }
}

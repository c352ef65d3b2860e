//! Tables of accepted and refused configurations.

mod chains;
mod dev;
mod documentation;
mod dump;
mod groups;
mod lists;
mod networks;
mod reload;
mod safety;
mod schema;
mod settings;
mod sources;

use super::{Config, ConfigError};

const CERTAIN_KEY: &str = r#"{ x = "5299619240641551281634865583518297030282874472190772894086521144482721001553", y = "16950150798460657717958625567821834550301663161624707787222815936182638968203" }"#;

/// Loads a file with this text, and variables. A text that loads without variables must fit the
/// schema for editors.
fn load_with(text: &str, variables: &[(&str, &str)], dev: bool) -> Result<Config, ConfigError> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("selfsame.toml");
    std::fs::write(&file, text).unwrap();
    let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let is_alone = variables.len() == 0;
    let loaded = Config::load(Some(&file), variables, dev, None);
    if is_alone && loaded.is_ok() {
        assert_eq!(schema::violations(text), [""; 0], "{text}");
    }
    loaded
}

fn load(text: &str) -> Result<Config, ConfigError> {
    load_with(text, &[], false)
}

fn defaults() -> Config {
    Config::load(None, std::iter::empty(), false, None).unwrap()
}

/// Checks that the configuration has exactly these problems: each entry lists parts of one line of
/// the message, in the order of the lines.
#[track_caller]
fn check_problems(result: Result<Config, ConfigError>, parts: &[&[&str]]) {
    let message = result.expect_err("the configuration is refused").to_string();
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines.len(), parts.len(), "{message}");
    for (line, parts) in lines.iter().zip(parts) {
        for part in *parts {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
    }
}

//! From file and variables to a checked [`Config`]: why a configuration cannot be loaded, the steps
//! of loading it, and what `--dev` adds.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write};
use std::io;
use std::path::{Path, PathBuf};

use selfsame_interfaces::interface::{Interface, PublicUrls};
use selfsame_protocol::verification::identity::RequestedEnvironment;
use serde::Deserialize;
use toml::de::DeTable;

use super::directory::App;
use super::sections::ProofKind;
use super::tree::{Node, NumberOutOfRange, PREFIX, SEPARATOR};
use super::values::{SecretHash, StagingKey};
use super::{Config, check};

// Why a configuration cannot be loaded.

/// The source of a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The defaults.
    Default,
    /// What `--dev` adds.
    Development,
    /// The configuration file.
    File {
        /// Path of the file.
        file: PathBuf,
        /// Where in the file; `None` for a setting that is not in it.
        position: Option<Position>,
    },
    /// An environment variable, by its name.
    Variable(String),
    /// The command line.
    CommandLine,
}

/// A place in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
}

/// The lines of a text, to find the place of a byte without reading the text again.
pub(super) struct Lines<'a> {
    text: &'a str,
    /// The byte at which each line begins.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let after_newlines = text.match_indices('\n').map(|(newline, _)| newline + 1);
        Self { text, starts: std::iter::once(0).chain(after_newlines).collect() }
    }

    /// The place of a byte.
    pub(super) fn position(&self, byte: usize) -> Position {
        let line = self.starts.partition_point(|start| *start <= byte);
        let start = self.starts.get(line.saturating_sub(1)).copied().unwrap_or_default();
        let before = self.text.get(start..byte).unwrap_or_default();
        Position { line, column: before.chars().count() + 1 }
    }
}

impl Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}

/// One setting that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The key's path, such as `registry.max_authenticators` or `apps[0].id`.
    pub key: String,
    /// What is wrong and what would be right; completes "`key`: …".
    pub message: String,
    /// Where the setting came from.
    pub source: Source,
}

impl Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.message)?;
        match &self.source {
            Source::Default => Ok(()),
            Source::Development => write!(f, " (--dev)"),
            Source::File { file, position: Some(position) } => write!(f, " (in {}, {position})", file.display()),
            Source::File { file, position: None } => write!(f, " (in {})", file.display()),
            Source::Variable(name) => write!(f, " (variable {name})"),
            Source::CommandLine => write!(f, " (command line)"),
        }
    }
}

/// Why a configuration cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {error}", file.display())]
    Unreadable {
        /// Path of the configuration file.
        file: PathBuf,
        /// The operating system's error; of the kind `InvalidData` when the file is not UTF-8.
        error: io::Error,
    },
    /// The file is not TOML. The error does not show the line, because it may hold a secret.
    #[error("{}: {position}: {message}", file.display())]
    Syntax {
        /// Path of the configuration file.
        file: PathBuf,
        /// Where the error is.
        position: Position,
        /// The TOML parser's message, without text of the file.
        message: String,
    },
    /// Settings are wrong. The message has a line for each.
    #[error("{}", .0.iter().map(SettingError::to_string).collect::<Vec<_>>().join("\n"))]
    Invalid(Vec<SettingError>),
    /// A setting has a value that cannot be written as TOML, so that it cannot be compared: a
    /// number over 63 bits, which no file can hold either.
    #[error("the configuration cannot be written as TOML, to compare it: {0}")]
    Unwritable(toml::ser::Error),
}

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
            tree.fill_from(settings());
        }
        if let Some(data_dir) = data_dir {
            tree.set("data_dir", &Source::CommandLine, &data_dir.to_string_lossy());
        }
        let (mut config, shape_errors) = shape(tree.clone());
        errors.extend(shape_errors);
        config.dev = dev;
        let readable = errors.is_empty();
        if dev {
            add_entries(&mut config);
        }
        let mut broken_rules = check::check_settings(&config);
        if readable {
            broken_rules.extend(check::lists::check_lists(&config));
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
        let broken_rules = check::lists::check_lists(self);
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

// What `--dev` adds to the configuration, and the table that it prints.
//
// Everything here is public: the secret of the example applications, the simulator's key, and the
// key of issuer 1 and of the relying party, which is the generator of BabyJubJub and so has the
// private key 1. The keys count in staging only, and the daemon listens on loopback only.

/// The secret of the example applications.
pub const DEV_SECRET: &str = "sk_dev_only";
const DEV_SALT: [u8; 16] = [0; 16];

/// The defaults of `--dev`, in the form of a configuration file.
const SETTINGS: &str = r#"
[registry]
chain_id = 31337
verifying_contract = "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9"
[verifier.keys.staging]
current = "simulator"
"#;

/// Entries that are added to the lists. An entry of the configuration with the same id stays as it
/// is.
const ENTRIES: &str = r#"
[[apps]]
id = "app_staging_5e1f5a3e000000000000000000000001"
name = "Example application"
accept_legacy = true
redirect_uris = ["http://localhost:3000/callback", "http://127.0.0.1:3000/callback"]
response_types = ["code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"]
post_logout_redirect_uris = ["http://localhost:3000/", "http://127.0.0.1:3000/"]
[[apps]]
id = "app_5e1f5a3e000000000000000000000002"
name = "Example application (production)"
redirect_uris = ["http://localhost:3000/callback", "http://127.0.0.1:3000/callback"]
response_types = ["code", "id_token", "id_token token", "code id_token", "code token", "code id_token token"]
post_logout_redirect_uris = ["http://localhost:3000/", "http://127.0.0.1:3000/"]
[[relying_parties]]
app_id = "app_staging_5e1f5a3e000000000000000000000001"
[relying_parties.oprf_public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
[[issuers]]
id = 1
environments = ["staging"]
[issuers.public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
[[issuers]]
id = 11
environments = ["staging"]
[issuers.public_key]
x = "5299619240641551281634865583518297030282874472190772894086521144482721001553"
y = "16950150798460657717958625567821834550301663161624707787222815936182638968203"
[[integrity]]
issuer = "attestation.simulator"
environments = ["staging", "sandbox"]
simulator = true
"#;

/// The defaults of `--dev`; configured settings replace them.
pub(super) fn settings() -> Node {
    document(SETTINGS)
}

/// Adds the example applications with their secret, their relying party, the issuers 1 and 11, and
/// the simulator's attestation issuer.
pub(super) fn add_entries(config: &mut Config) {
    let secret = Some(SecretHash::of(DEV_SALT, DEV_SECRET));
    // Both constants are valid, which a test checks, so the defaults are never used.
    let added = Config::deserialize(document(ENTRIES)).unwrap_or_default();
    for app in added.apps {
        if config.apps.iter().all(|other| other.id != app.id) {
            config.apps.push(App { client_secret_hash: secret.clone(), ..app });
        }
    }
    for party in added.relying_parties {
        if config.relying_parties.iter().all(|other| other.app_id != party.app_id) {
            config.relying_parties.push(party);
        }
    }
    for issuer in added.issuers {
        if config.issuers.iter().all(|other| other.id != issuer.id) {
            config.issuers.push(issuer);
        }
    }
    for mut entry in added.integrity {
        let is_taken = |environment: &RequestedEnvironment| {
            config.integrity.iter().any(|other| other.environments.contains(environment))
        };
        entry.environments.retain(|environment| !is_taken(environment));
        // Without a key of the simulator there is no seed.
        let staging = &config.verifier.keys.staging;
        let has_seed = [&staging.legacy, &staging.current].contains(&&StagingKey::Simulator);
        if !entry.environments.is_empty() && has_seed {
            config.integrity.push(entry);
        }
    }
}

fn document(text: &str) -> Node {
    Node::document(text.parse().unwrap_or_default(), &Source::Development)
}

impl Config {
    /// The table that `--dev` prints: the URL of each interface that is served, then what the
    /// configuration has for trying them out.
    pub fn dev_summary(&self, urls: &PublicUrls, serves: impl Fn(Interface) -> bool) -> String {
        let mut text = String::from("Development mode: every key and secret below is public.\n");
        let mut row = |name: &str, value: &str| _ = writeln!(text, "  {name:<18}{value}");
        for (interface, url) in urls.iter().filter(|(interface, _)| serves(*interface)) {
            row(interface.name(), url);
        }
        for app in &self.apps {
            let environments: Vec<_> = app.environments().iter().map(|environment| environment.name()).collect();
            row("application", &format!("{} ({})", app.id, environments.join(", ")));
            match app.secret_hashes().next() {
                Some(hash) if *hash == SecretHash::of(hash.salt(), DEV_SECRET) => row("  secret", DEV_SECRET),
                Some(_) => row("  secret", "as configured"),
                None => row("  secret", "none"),
            }
            for uri in &app.redirect_uris {
                row("  redirect URI", uri.as_str());
            }
            row("  relying party", &self.relying_party_id(&app.id).to_string());
        }
        for issuer in &self.issuers {
            let environments: Vec<_> = issuer.environments().iter().map(|environment| environment.name()).collect();
            row("issuer", &format!("{} ({})", issuer.id, environments.join(", ")));
        }
        for kind in ProofKind::ALL {
            if *self.verifier.keys.staging.of(kind) == StagingKey::Simulator {
                row("simulator key", &format!("{} proofs (staging)", kind.name()));
            }
        }
        text
    }
}

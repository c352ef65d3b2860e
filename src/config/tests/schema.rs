//! The JSON Schema of the configuration file: it accepts what loads, knows the keys that the page
//! has, and refuses what an editor should mark.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use jsonschema::Validator;
use serde_json::Value;

use super::{load, load_with};
use crate::config::{Config, schema};

/// What is wrong with a configuration file by the schema.
pub(super) fn violations(text: &str) -> Vec<String> {
    let validator = Validator::new(&schema()).expect("the schema is one");
    let file = json(text.parse().expect("TOML"));
    validator.iter_errors(&file).map(|error| format!("{}: {error}", error.instance_path())).collect()
}

/// A TOML document as editors see it: a time is a text.
fn json(table: toml::Table) -> Value {
    fn json_value(value: toml::Value) -> Value {
        match value {
            toml::Value::Table(table) => json(table),
            toml::Value::Array(values) => values.into_iter().map(json_value).collect(),
            toml::Value::Datetime(time) => time.to_string().into(),
            plain => serde_json::to_value(plain).expect("JSON"),
        }
    }
    table.into_iter().map(|(key, value)| (key, json_value(value))).collect()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|found| found == extension)).collect()
}

/// The committed document shows each change of it, and serves editors that have no program.
#[test]
fn the_committed_schema_is_the_one_that_the_program_prints() {
    let file = root().join("config/selfsame.schema.json");
    let printed = serde_json::to_string_pretty(&schema()).unwrap() + "\n";
    let committed = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        committed == printed,
        "run `selfsame config schema > config/selfsame.schema.json` and look at the difference; it prints:\n{printed}"
    );
    assert_eq!(schema()["$schema"], "https://json-schema.org/draft/2020-12/schema");
    jsonschema::meta::validate(&schema()).expect("it is a schema of that draft");
}

#[test]
fn the_samples_and_the_examples_of_the_pages_fit_the_schema() {
    let samples = files(&root().join("config"), "toml");
    assert_eq!(samples.len(), 2, "{samples:?}");
    for sample in samples {
        let text = std::fs::read_to_string(&sample).unwrap();
        assert_eq!(violations(&text), [""; 0], "{}", sample.display());
        // Also with the settings that the sample has in comments.
        let settings = |line: &'_ str| match line.strip_prefix("# ") {
            Some(rest) if is_setting(rest) => rest.to_owned(),
            _ => line.to_owned(),
        };
        let lines: Vec<String> = text.lines().filter(|line| !line.contains('…')).map(settings).collect();
        assert_eq!(violations(&lines.join("\n")), [""; 0], "{}", sample.display());
    }
    let mut examples = 0;
    for page in ["docs", "docs/operations"].into_iter().flat_map(|folder| files(&root().join(folder), "md")) {
        let text = std::fs::read_to_string(&page).unwrap();
        for block in text.split("```toml\n").skip(1) {
            let example = block.split("```").next().unwrap();
            // What stands for a value of the operator's, and a part of an entry, are no settings.
            if !example.contains('…') && !example.starts_with("[[chains.contracts]]") {
                examples += 1;
                assert_eq!(violations(example), [""; 0], "{}:\n{example}", page.display());
            }
        }
    }
    assert!(examples >= 4, "only {examples} examples were found");
}

/// Whether a line of a comment is a heading, or a key with its value.
fn is_setting(line: &str) -> bool {
    let key = line.split(" = ").next().unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
    line.starts_with('[') || key.len() < line.len() && key.bytes().all(is_plain)
}

/// Each key that the schema has, with its path as `section.key`, and whether an unknown key is
/// refused where it stands.
fn keys(schema: &Value, path: &str, document: &Value, found: &mut Vec<(String, Value)>) {
    let reference = schema.get("$ref").and_then(Value::as_str);
    if let Some(reference) = reference {
        let part = document.pointer(reference.trim_start_matches('#')).unwrap_or_else(|| panic!("{reference}"));
        keys(part, path, document, found);
    }
    if let Some(items) = schema.get("items") {
        keys(items, &format!("{path}[0]"), document, found);
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    assert_eq!(schema["additionalProperties"], false, "{path}");
    for (key, value) in properties {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        found.push((path.clone(), value.clone()));
        keys(value, &path, document, found);
    }
}

/// The keys of the program are those of the page, as a test of the page checks.
#[test]
fn the_schema_has_the_keys_of_the_program_and_describes_each() {
    let document = schema();
    let mut found = Vec::new();
    keys(&document, "", &document, &mut found);
    let paths: BTreeSet<String> = found.iter().map(|(path, _)| path.clone()).collect();
    assert_eq!(paths, super::documentation::every_key());
    for (path, value) in &found {
        let description = value["description"].as_str().unwrap_or_else(|| panic!("{path} has no description"));
        // Words of the program's sources.
        for word in ["None", "Some(", "::", "[`", "See "] {
            assert!(!description.contains(word), "{path}: {description}");
        }
    }
    let definitions = document["$defs"].as_object().unwrap();
    assert!(definitions.values().all(|definition| definition["description"].is_string()), "{definitions:?}");
    assert!(!document.to_string().contains("\"null\""), "TOML has no null");
}

#[test]
fn an_editor_marks_wrong_keys_and_values() {
    for (text, place) in [
        ("dtaa_dir = 'x'", ""),
        ("dev = true", ""),
        ("listen.gatway = '127.0.0.1:1'", "/listen"),
        ("urls.operator_url = 'http://a'", "/urls"),
        ("limits.queue_lengths = 5", "/limits"),
        ("verifier.keys.sandbox.legacy = 'builtin'", "/verifier/keys"),
        ("apps = [{ idd = 'app_a', id = 'app_a' }]", "/apps/0"),
        ("chains = [{ name = 'c', contracts = [{ name = 'a', kindd = 'registry' }] }]", "/chains/0/contracts/0"),
        ("data_dir = 5", "/data_dir"),
        ("registry.chain_id = '480'", "/registry/chain_id"),
        ("registry.chain_id = -1", "/registry/chain_id"),
        ("insecure_http = 'true'", "/insecure_http"),
        ("limits = 5", "/limits"),
        ("limits.per_source = [5, '1m']", "/limits/per_source"),
        ("limits.trusted_proxies = '10.0.0.0/8'", "/limits/trusted_proxies"),
        ("registry.commitment_check = 'on'", "/registry/commitment_check"),
        ("log.format = 'xml'", "/log/format"),
        ("sign_in.introspection_inactive_status = 400", "/sign_in/introspection_inactive_status"),
        ("sign_in.signing_algorithm = 'none'", "/sign_in/signing_algorithm"),
        ("batcher.max_wait = 'soon'", "/batcher/max_wait"),
        ("batcher.max_wait = '5'", "/batcher/max_wait"),
        ("batcher.max_wait = 5", "/batcher/max_wait"),
        ("listen.gateway = 'localhost:80'", "/listen/gateway"),
        ("urls.id_url = 'https://id.example/'", "/urls/id_url"),
        ("cors.allowed_origins = ['*']", "/cors/allowed_origins/0"),
        ("verifier.keys.production.legacy = 'simulator'", "/verifier/keys/production/legacy"),
        ("[tls]\ncertificate = 'a'", "/tls"),
        ("apps = [{ id = 'app_a', client_secret_hash = 'the secret itself' }]", "/apps/0/client_secret_hash"),
        ("apps = [{ id = 'app_a', response_types = ['token code code id'] }]", "/apps/0/response_types/0"),
        ("trusted_roots = [{ root = '0x1', kind = 'legacy', time = 'today' }]", "/trusted_roots/0/time"),
    ] {
        let found = violations(text);
        let is_found = found.iter().any(|violation| violation.starts_with(&format!("{place}: ")));
        assert!(is_found, "{text}: {found:?}");
        assert!(load(text).is_err(), "{text} loads");
    }
}

/// Formats of which the other tests have only the common form. That these load is what matters:
/// what loads is compared with the schema.
#[test]
fn unusual_forms_of_values_load() {
    let hash = format!("sha256:{}:{}", "aB".repeat(16), "0F".repeat(32));
    for text in [
        "batcher.max_wait = '0'",
        "batcher.max_wait = ' 1.5 s '",
        "batcher.max_wait = '1s5ms 7µs'",
        "listen.gateway = '[::1]:00080'",
        "listen.gateway = '[::ffff:127.0.0.1]:80'",
        "registry.verifying_contract = '00000000000000000000000000000000000000fF'",
        "limits.trusted_proxies = ['::ffff:10.0.0.0/104', '10.0.0.1', 'fd00::/8']",
        "operator.socket = 'off'",
        "traces.collector = 'http://[::1]:4318/'",
        "data_dir = 2026-01-31T12:00:00Z",
        "trusted_roots = [{ root = '0X1F', kind = 'current', time = 2026-01-31 12:00:00.5z }]",
        "chains = [{ name = 'c', preset = 'sepolia', rpc = ['HTTPS://user:key@node.example?key=1'] }]",
        &format!("apps = [{{ id = 'app_a', client_secret_hashes = ['{hash}'], response_types = ['token code'] }}]"),
    ] {
        load(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

/// What `selfsame config dump` prints fits the schema, although a start refuses its hidden secrets.
#[test]
fn a_dump_fits_the_schema() {
    let secrets = format!(
        "registry = {{ create_account = 'token', create_account_token_hash = '{hash}' }}\n\
         verifier.simulator_seed = 'a seed'\n[[apps]]\nid = 'app_a'\n\
         client_secret_hash = '{hash}'\n[[chains]]\nname = 'c'\npreset = 'ethereum'\nrpc = ['https://node.example/key']\n",
        hash = format_args!("sha256:{}:{}", "0".repeat(32), "0".repeat(64)),
    );
    for (text, dev) in [(secrets, false), (super::dump::everything(), false), (String::new(), true)] {
        let dump = super::dump::loaded(&text, &[], dev).dump().unwrap();
        assert_eq!(violations(&dump.to_toml()), [""; 0], "{}", dump.to_toml());
    }
    let production =
        Config::load_with_errors(Some(&root().join("config/production.toml")), std::iter::empty(), false, None);
    assert_eq!(violations(&production.unwrap().dump().unwrap().to_toml()), [""; 0]);
}

/// A table must be written as a table: the values of its keys in a list would depend on the order
/// of the keys in the program.
#[test]
fn a_list_is_no_table() {
    for text in ["limits.per_source = [5, '1m']", "tls = ['a', 'b']", "apps = [['app_a']]"] {
        let message = load_with(text, &[], false).unwrap_err().to_string();
        assert!(message.contains("sequence is not a table of keys"), "{text}: {message}");
    }
}

//! Single settings: defaults, accepted values, and errors that name the key.

use std::path::PathBuf;
use std::time::Duration;

use selfsame_interfaces::interface::Interface;

use super::{CERTAIN_KEY, check_problems, defaults, load, load_with};
use crate::config::check::check_features;
use crate::config::{Config, Environment, ProductionKey, RateLimit, StagingKey, TimeSpan};

#[test]
fn the_defaults_apply_without_any_configuration() {
    let config = defaults();
    assert_eq!(config, Config::default());
    assert_eq!(config.data_dir, PathBuf::from("selfsame-data"));
    assert_eq!(config.registry.chain_id, 480);
    assert_eq!(config.registry.verifying_contract, None);
    let urls = config.public_urls(&config.listen);
    assert_eq!(urls[Interface::SignIn], "http://127.0.0.1:8080");
    assert_eq!(urls[Interface::Indexer], "http://127.0.0.1:8083");
}

#[test]
fn every_kind_of_value_is_read_from_a_file() {
    let config = load(&format!(
        r#"
        data_dir = "/srv"
        listen = {{ gateway = "[::1]:1", indexer = "[::1]:1" }}
        urls.gateway_url = "https://example.org/gateway"
        registry = {{ verifying_contract = "0x00000000000000000000000000000000000000FF", recovery_agent_update_cooldown = "0s" }}
        batcher.min_wait = "700us"
        batcher.max_wait = "1500us"
        limits.per_source = {{ requests = 60, window = "1m" }}
        verifier.keys.staging = {{ legacy = "keys/mine.json", current = "simulator" }}
        [[apps]]
        id = "app_staging_a"
        [[apps]]
        id = "app_b"
        environments = ["staging", "production"]
        public = true
        redirect_uris = ["https://b.example/callback?x=1", "http://[::1]:3000/", "http://localhost/"]
        [[actions]]
        app_id = "app_b"
        action = "vote"
        max_verifications = 2
        [[issuers]]
        id = 11
        public_key = {CERTAIN_KEY}
        [[issuers]]
        id = 128
        public_key = {CERTAIN_KEY}
        [[relying_parties]]
        app_id = "app_b"
        rp_id = "rp_0387DF34f862cd4e"
        oprf_public_key = {CERTAIN_KEY}
        [[trusted_roots]]
        root = "0x12"
        time = 2026-01-31T12:00:00Z
        kind = "legacy"
        identifiers = ["orb"]
        [[trusted_roots]]
        root = "18"
        time = "2026-01-31T12:00:00Z"
        environment = "staging"
        kind = "legacy"
        identifiers = ["device", "face"]
        "#
    ))
    .unwrap();
    assert_eq!(config.public_urls(&config.listen)[Interface::Indexer], "http://[::1]:1");
    assert_eq!(config.public_urls(&config.listen)[Interface::Gateway], "https://example.org/gateway");
    assert_eq!(config.registry.recovery_agent_update_cooldown, TimeSpan(Duration::ZERO));
    assert_eq!(*config.batcher.min_wait, Duration::from_micros(700));
    assert_eq!(*config.batcher.max_wait, Duration::from_micros(1500));
    assert_eq!(config.limits.per_source, Some(RateLimit { requests: 60, window: TimeSpan::from_secs(60) }));
    assert_eq!(config.verifier.keys.staging.legacy, StagingKey::Real(ProductionKey::File("keys/mine.json".into())));
    assert_eq!(config.apps[0].environments(), [Environment::Staging]);
    assert_eq!(config.apps[0].name(), "app_staging_a");
    assert_eq!(config.issuers[0].identifiers(), ["selfie", "face"]);
    assert_eq!(config.issuers[1].environments(), [Environment::Staging]);
    assert_eq!(config.relying_party_id("app_b").to_string(), "rp_0387df34f862cd4e");
    assert_eq!(config.trusted_roots[0].time, config.trusted_roots[1].time);
    assert_eq!(config.trusted_roots[0].root, config.trusted_roots[1].root);
}

#[test]
fn relying_party_ids_are_derived_from_applications() {
    for (app, id) in [
        ("app_969d38c8ba9adf22a4ac3b2d4400575a", "rp_6765160973bf7042"),
        ("app_staging_169e21f6afc84b304749830067809632", "rp_ef0e09d685261981"),
    ] {
        assert_eq!(defaults().relying_party_id(app).to_string(), id);
    }
}

#[test]
fn errors_in_a_file_name_the_key_and_the_accepted_values() {
    let cases: &[(&str, &[&str])] = &[
        ("data_dir = ''", &["data_dir: ", "path of a folder"]),
        ("data_dir = 5", &["data_dir: ", "integer `5` is not a text in quotes", "selfsame.toml, line 1, column 12)"]),
        (
            "dtaa_dir = 'x'",
            &["dtaa_dir: is not a known key (did you mean data_dir?)", "data_dir, listen", "line 1, column 1)"],
        ),
        ("dev = true", &["dev: is not a known key"]),
        (
            "[listen]\ngatway = 1",
            &["listen.gatway: ", "(did you mean gateway?)", "gateway, indexer", "line 2, column 1)"],
        ),
        ("zzz = 1", &["zzz: is not a known key; the keys here are data_dir"]),
        ("listen = 5", &["listen: ", "a table of keys"]),
        ("listen.gateway = 'localhost:80'", &["listen.gateway: \"localhost:80\" is not an IP address and port"]),
        ("listen.gateway = 8082", &["listen.gateway: "]),
        ("urls.id_url = 'https://id.example/'", &["urls.id_url: ", "write \"https://id.example\""]),
        ("urls.id_url = 'id.example'", &["urls.id_url: ", "does not begin with https://"]),
        ("urls.id_url = 'ftp://id.example'", &["urls.id_url: ", "does not begin with https://"]),
        ("urls.id_url = 'https://id.example?'", &["urls.id_url: ", "has a query"]),
        ("urls.id_url = 'https://id.example#a'", &["urls.id_url: ", "has a fragment"]),
        ("urls.id_url = 'https://id@id:1'", &["urls.id_url: ", "has a user"]),
        ("urls.id_url = 'https://id.example:99999'", &["urls.id_url: ", "has no proper host and port"]),
        ("urls.id_url = 'https://id.example:'", &["urls.id_url: ", "has no proper host and port"]),
        ("urls.id_url = 'https://'", &["urls.id_url: "]),
        ("urls.id_url = 'https://i d'", &["urls.id_url: ", "printable ASCII"]),
        ("[tls]\ncertificate = 'a'", &["tls: the key private_key is missing"]),
        ("registry.chain_id = 0", &["registry.chain_id: ", "1 or more"]),
        ("registry.chain_id = -1", &["registry.chain_id: ", "a whole number of 0 or more"]),
        ("registry.chain_id = '480'", &["registry.chain_id: string \"480\" is not a whole number"]),
        (
            "registry.verifying_contract = '0x0000000000000000000000000000000000000000'",
            &["registry.verifying_contract: is the zero address", "leave the key out"],
        ),
        ("registry.verifying_contract = '0xff'", &["registry.verifying_contract: \"0xff\"", "40 hex digits"]),
        ("registry.max_authenticators = 0", &["registry.max_authenticators: 0", "1 to 7"]),
        ("registry.max_authenticators = 8", &["registry.max_authenticators: 8", "1 to 7"]),
        ("registry.max_authenticators = 7.0", &["registry.max_authenticators: ", "a whole number"]),
        ("registry.max_authenticators = 5000000000", &["registry.max_authenticators: ", "0 to 4294967295"]),
        ("registry.root_validity_window = '1500ms'", &["registry.root_validity_window: ", "whole number of seconds"]),
        ("registry.root_validity_window = 3600", &["registry.root_validity_window: "]),
        ("registry.root_validity_window = '3600'", &["registry.root_validity_window: ", "such as 5ms, 10s"]),
        (
            "registry.recovery_agent_update_cooldown = '9999d'",
            &["registry.recovery_agent_update_cooldown: ", "0s to 10years"],
        ),
        ("registry.commitment_check = 'on'", &["registry.commitment_check: \"on\"", "\"off\", \"enforce\""]),
        ("registry.commitment_check = true", &["registry.commitment_check: ", "\"off\", \"enforce\""]),
        ("registry.request_retention = '0s'", &["registry.request_retention: ", "give 1s"]),
        ("batcher.max_operations = 10001", &["batcher.max_operations: 10001", "1 to 10000"]),
        ("batcher.max_wait = '11s'", &["batcher.max_wait: 11s", "0s to 10s"]),
        ("batcher.min_wait = '6ms'", &["batcher.min_wait: 6ms", "0s to 5ms"]),
        ("batcher = { min_wait = '11s', max_wait = '10s' }", &["batcher.min_wait: 11s", "0s to 10s"]),
        ("limits.max_connections = 0", &["limits.max_connections: 0", "1 to "]),
        ("limits.request_timeout = '0s'", &["limits.request_timeout: 0s", "1ms to 1h"]),
        ("storage.cache_mib = 7", &["storage.cache_mib: 7 is out of range", "8 to 1048576"]),
        ("storage.write_buffer_kib = 63", &["storage.write_buffer_kib: 63 is out of range", "64 to 1048576"]),
        ("storage.log_mib = 0", &["storage.log_mib: 0 is out of range", "1 to 4096"]),
        ("storage.background_jobs = 1", &["storage.background_jobs: 1 is out of range", "2 to 256"]),
        ("storage.open_files = 63", &["storage.open_files: 63 is out of range", "64 to 10000000"]),
        ("storage.cache = 64", &["storage.cache: is not a known key", "cache_mib"]),
        ("bridge.memory_mib = 31", &["bridge.memory_mib: 31 is out of range", "32 to 1048576"]),
        ("bridge.lifetime = '2d'", &["bridge.lifetime: 2days", "1s to 1day"]),
        ("urls.bridge_url = 'https://id.example/bridge'", &["urls.bridge_url: ", "has a path, which clients drop"]),
        ("limits.per_source = { requests = 5 }", &["limits.per_source: the key window is missing"]),
        ("limits.per_source = { requests = 5, window = 1 }", &["limits.per_source.window: "]),
        ("limits.per_source = { requests = 0, window = '1m' }", &["limits.per_source.requests: 0", "1 to 100000"]),
        (
            "limits.verifications_per_application = { requests = 15, window = '1m' }",
            &["limits.verifications_per_application.requests: 15", "16 to 100000"],
        ),
        (
            "limits.verifications_per_source = { requests = 60, window = '1m' }\n\
             limits.verifications_per_application = { requests = 3599, window = '1h' }",
            &["limits.verifications_per_application: allows fewer proofs than limits.verifications_per_source"],
        ),
        (
            "limits.per_leaf_index = { requests = 1, window = '2d' }",
            &["limits.per_leaf_index.window: 2days", "1s to 1day"],
        ),
        ("limits.trusted_proxies = '10.0.0.0/8'", &["limits.trusted_proxies: ", "is not a list"]),
        (
            "limits.trusted_proxies = ['::1', '10.0.0.1/8']",
            &["limits.trusted_proxies[1]: ", "the network is 10.0.0.0/8"],
        ),
        ("cors.allowed_origins = ['*']", &["cors.allowed_origins[0]: ", "name every origin"]),
        (
            "cors.allowed_origins = ['https://a.example/']",
            &["cors.allowed_origins[0]: ", "write \"https://a.example\""],
        ),
        ("cors.allowed_origins = ['https://A.example:443']", &["cors.allowed_origins[0]: ", "\"https://a.example\""]),
        ("sign_in.introspection_inactive_status = 400", &["sign_in.introspection_inactive_status: 400", "401 nor 200"]),
        ("sign_in.key_rotation = '1m'", &["sign_in.key_rotation: 1m", "1h"]),
        ("sign_in.signing_algorithm = 'HS256'", &["sign_in.signing_algorithm: \"HS256\"", "\"RS256\", \"ES256\""]),
        ("sign_in.signing_algorithm = 'none'", &["sign_in.signing_algorithm: \"none\"", "\"RS256\", \"ES256\""]),
        (
            "sign_in.wallet_link = 'wallet://open'",
            &["sign_in.wallet_link: ", "does not contain {request}", "wallet://open?request={request}"],
        ),
        ("sign_in.wallet_link = 'javascript:{request}'", &["sign_in.wallet_link: ", "opens no authenticator"]),
        ("[[apps]]\nid = 'app_a'\nwallet_link = '{request}'", &["apps[0].wallet_link: ", "begin with a scheme"]),
        ("sign_in.page.service_name = ''", &["sign_in.page.service_name: ", "1 to 100 characters"]),
        ("sign_in.page.contact = 'help@a.example'", &["sign_in.page.contact: ", "mailto: and an address"]),
        ("sign_in.page.privacy_url = 'http://a.example'", &["sign_in.page.privacy_url: ", "is not an https URL"]),
        ("sign_in.page.terms_url = 'javascript:1'", &["sign_in.page.terms_url: ", "does not begin with https://"]),
        ("sign_in.page.accent_colour = 'red'", &["sign_in.page.accent_colour: \"red\"", "six hex digits"]),
        ("sign_in.page.logo = 'a.png'", &["sign_in.page.logo: is not a known key", "logo_file"]),
        ("sign_in.page.authenticator = {}", &["sign_in.page.authenticator: the key name is missing"]),
        (
            "sign_in.page.authenticator.name = ''",
            &["sign_in.page.authenticator.name: \"\" is not the name of an app", "1 to 64 printable characters"],
        ),
        (
            "sign_in.page.authenticator = { name = 'A', get_url = 'http://a.example/get' }",
            &["sign_in.page.authenticator.get_url: \"http://a.example/get\" is http; write https"],
        ),
        (
            "sign_in.page.authenticator = { name = 'A', help_url = 'mailto:help@a.example' }",
            &["sign_in.page.authenticator.help_url: ", "does not begin with https://"],
        ),
        (
            "sign_in.page.authenticator = { name = 'A', url = 'https://a.example' }",
            &["sign_in.page.authenticator.url: is not a known key", "name, logo_file, get_url, help_url"],
        ),
        (
            "sign_in.connector_base = 'https://a.example/verify?t=wld'",
            &["sign_in.connector_base: ", "has a query", "write \"https://a.example/verify\""],
        ),
        ("sign_in.connector_base = 'http://a.example'", &["sign_in.connector_base: ", "is http; write https"]),
        (
            "sign_in.current_alone_since = '2027-04-01T00:00:00Z'",
            &["sign_in.current_alone_since: ", "not before legacy_ends_at"],
        ),
        ("sign_in.current_alone_since = '1970-01-01T00:00:00Z'", &["sign_in.current_alone_since: ", "before 1970"]),
        (
            "sign_in.passkey_domain = 'https://a.example'",
            &["sign_in.passkey_domain: ", "is not a domain in lower case"],
        ),
        ("sign_in.passkey_domain = 'A.example'", &["sign_in.passkey_domain: \"A.example\"", "like \"example.org\""]),
        (
            "sign_in.passkey_domain = 'a.example'",
            &["sign_in.passkey_domain: ", "127.0.0.1, is an address", "set urls.id_url to an https URL"],
        ),
        (
            "urls.id_url = 'https://id.a.example'\nsign_in.passkey_domain = 'b.example'",
            &["sign_in.passkey_domain: \"b.example\" is neither", "give \"id.a.example\" or a domain above that"],
        ),
        ("verifier.workers = 0", &["verifier.workers: 0", "1 to 1024"]),
        (
            "verifier.keys.production.current = 'simulator'",
            &["verifier.keys.production.current: ", "verifier.keys.staging"],
        ),
        (
            "verifier.keys.production.legacy = 'simulator'",
            &["verifier.keys.production.legacy: ", "verifier.keys.staging"],
        ),
        (
            "verifier.keys.staging.legacy = 'other'",
            &["verifier.keys.staging.legacy: \"other\"", "\"builtin\", \"simulator\""],
        ),
        ("verifier.keys.sandbox.legacy = 'builtin'", &["verifier.keys.sandbox: ", "production, staging"]),
        ("events.repeat_window = '31d'", &["events.repeat_window: ", "give 0s to 30d"]),
        ("events.retention = '1m'", &["events.retention: 1m", "give 1h to "]),
        ("events.stream = true", &["events.stream: is not a known key", "streams"]),
    ];
    for (text, parts) in cases {
        check_problems(load(text), &[parts]);
    }
}

#[test]
fn a_webhook_has_a_name_an_address_and_events_of_its_own() {
    let webhook = |settings: &str| {
        let given = |key: &str| settings.lines().any(|line| line.starts_with(&format!("{key} =")));
        let usual = [
            ("id", "'one'"),
            ("url", "'https://hooks.example/'"),
            ("secret_file", "'secret'"),
            ("events", "['verification.succeeded']"),
        ];
        let usual = usual.iter().filter(|(key, _)| !given(key)).map(|(key, value)| format!("{key} = {value}\n"));
        format!("[[webhooks]]\n{}{settings}\n", usual.collect::<String>())
    };
    assert!(load(&webhook("")).is_ok());
    assert!(load(&webhook("url = 'http://127.0.0.1:9000/hook?x=1'")).is_ok());
    assert!(load(&webhook("url = 'http://hooks.example/'\nallow_plain_http = true")).is_ok());
    let of_app = "app_id = 'app_a'\nevents = ['root.added', 'verification.succeeded']";
    assert!(load(&format!("[[apps]]\nid = 'app_a'\n{}", webhook(of_app))).is_ok());
    let many = (0..101).map(|number| webhook(&format!("id = 'w{number}'"))).collect::<String>();
    #[rustfmt::skip]
    let cases: [(String, &[&str]); 11] = [
        (webhook("id = 'One'"), &["webhooks[0].id: \"One\"", "1 to 64 of a to z"]),
        (webhook("id = ''"), &["webhooks[0].id: \"\"", "1 to 64"]),
        (webhook("") + &webhook(""), &["webhooks[1].id: \"one\"", "webhooks[0]"]),
        (webhook("url = 'http://hooks.example/'"), &["webhooks[0].url: http://hooks.example/", "allow_plain_http"]),
        (webhook("url = 'hooks.example'"), &["webhooks[0].url: ", "https://"]),
        (webhook("events = []"), &["webhooks[0].events: ", "is empty"]),
        (webhook("events = ['root.added', 'root.added']"), &["webhooks[0].events: has \"root.added\" twice"]),
        (webhook("events = ['root']"), &["webhooks[0].events[0]: ", "root.added"]),
        (webhook("app_id = 'app_x'"), &["webhooks[0].app_id: ", "app_x"]),
        (format!("[[apps]]\nid = 'app_a'\n{}", webhook("app_id = 'app_a'\nevents = ['request.failed']")),
         &["webhooks[0].events: \"request.failed\" is about no application"]),
        (many, &["webhooks: has 101 entries", "at most 100"]),
    ];
    for (text, parts) in cases {
        check_problems(load(&text), &[parts]);
    }
}

#[test]
fn an_attestation_issuer_has_one_source_of_keys_and_environments_of_its_own() {
    let entry = |settings: &str| {
        let given = |key: &str| settings.lines().any(|line| line.starts_with(&format!("{key} =")));
        let usual =
            [("issuer", "'attestation.example'"), ("environments", "['staging']"), ("jwks_file", "'jwks.json'")];
        let has_source = given("jwks") || given("simulator");
        let is_left_out = |key: &str| given(key) || (key == "jwks_file" && has_source);
        let usual = usual.iter().filter(|(key, _)| !is_left_out(key));
        let usual = usual.map(|(key, value)| format!("{key} = {value}\n")).collect::<String>();
        format!("[[integrity]]\n{usual}{settings}\n")
    };
    let simulator = "verifier.keys.staging.current = 'simulator'\n";
    let app = "[[apps]]\nid = 'app_a'\nenvironments = ['staging', 'production']\n";
    let action = "[[actions]]\napp_id = 'app_a'\naction = 'vote'\nenvironment = 'staging'\n";
    for good in [
        entry(""),
        entry("") + &entry("environments = ['production', 'sandbox']"),
        entry("jwks = 'https://attestation.example/.well-known/jwks.json'\nauthorities = 'ca.pem'"),
        entry("jwks = 'http://127.0.0.1:9000/jwks.json'"),
        entry("refresh = '1m'\nclock_tolerance = '0s'"),
        format!("{simulator}{}", entry("simulator = true\nenvironments = ['staging', 'sandbox']")),
        format!("{app}{action}require_integrity = true\nmin_sybil_score = 3\nmax_sybil_score = 3\n{}", entry("")),
        format!("{app}require_integrity = true\n{}", entry("environments = ['staging', 'production']")),
    ] {
        load(&good).unwrap_or_else(|error| panic!("{good}: {error}"));
    }
    #[rustfmt::skip]
    let cases: [(String, &[&str]); 17] = [
        (entry("issuer = ''"), &["integrity[0].issuer: is empty or too long"]),
        (entry("environments = []"), &["integrity[0].environments: is empty"]),
        (entry("environments = ['test']"), &["integrity[0].environments[0]: ", "sandbox"]),
        (entry("") + &entry("environments = ['sandbox', 'staging']"), &["integrity[1].environments: has staging, as integrity[0] does"]),
        (entry("jwks = 'https://a.example/'\njwks_file = 'jwks.json'"), &["integrity[0].jwks: needs exactly one of"]),
        (entry("simulator = false"), &["integrity[0].jwks: needs exactly one of"]),
        (entry("jwks = 'http://attestation.example/'"), &["integrity[0].jwks: ", "plain HTTP to another machine"]),
        (entry("jwks = 'attestation.example'"), &["integrity[0].jwks: ", "https://"]),
        (entry("authorities = 'ca.pem'"), &["integrity[0].authorities: is for jwks alone"]),
        (entry("refresh = '59s'"), &["integrity[0].refresh: 59s is out of range; give 1m to 1day"]),
        (entry("clock_tolerance = '301s'"), &["integrity[0].clock_tolerance: 5m 1s is out of range; give 0s to 5m"]),
        (format!("{simulator}{}", entry("simulator = true\nenvironments = ['production']")), &["integrity[0].simulator: is not for production"]),
        (entry("simulator = true"), &["integrity[0].simulator: needs the simulator's seed"]),
        (format!("{app}require_integrity = true\n{}", entry("")), &["apps[0].require_integrity: needs the keys of an attestation issuer for production"]),
        (format!("{app}{action}require_integrity = true"), &["actions[0].require_integrity: needs the keys of an attestation issuer for staging"]),
        (format!("{app}{action}min_sybil_score = 4\nmax_sybil_score = 3"), &["actions[0].max_sybil_score: 3 is below min_sybil_score, 4"]),
        (format!("{app}{action}max_sybil_score = 9007199254740992"), &["actions[0].max_sybil_score: 9007199254740992 is out of range"]),
    ];
    for (text, parts) in cases {
        check_problems(load(&text), &[parts]);
    }
}

#[test]
fn all_problems_are_reported_at_once() {
    let text = "
        nonsense = 1
        [batcher]
        max_wait = 'soon'
        max_operations = 0
        [[apps]]
        id = 5
        environments = 5
        [[apps]]
        idd = 'app_x'
    ";
    let variables = [("SELFSAME_LISTEN__GATEWAY", "here"), ("SELFSAME_LIMITS__IN_FLIGHT", "0")];
    let message = load_with(text, &variables, false).unwrap_err().to_string();
    let keys: std::collections::BTreeSet<&str> = message.lines().filter_map(|line| line.split(": ").next()).collect();
    let expected = [
        "apps[0].environments",
        "apps[1].idd",
        "batcher.max_operations",
        "batcher.max_wait",
        "limits.in_flight",
        "listen.gateway",
        "nonsense",
    ];
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), expected, "{message}");
    assert_eq!(message.lines().count(), expected.len(), "{message}");
}

/// The places in a file, where a person looks for what is wrong.
#[test]
fn problems_in_a_file_name_line_and_column() {
    let text = "data_dir = 'x'
[limits]
  per_source = { requests = 0, window = '1m' }
queue_length = 'many'
[[apps]]
id = 'app_a'
# The table of an entry is its heading.
[[apps]]
id = 'app_b'
redirect_uris = ['https://b.example/', 'http://b.example/']
[[issuers]]
id = 5
public_keyy = 1
[cors]
allowed_origins = [
    'https://é.example', 'https://a.example/',
]
";
    let message = load(text).unwrap_err().to_string();
    let place = |key: &str| {
        let line = message
            .lines()
            .find(|line| line.starts_with(&format!("{key}: ")))
            .unwrap_or_else(|| panic!("{key}: {message}"));
        line.split_once("selfsame.toml, ").unwrap_or_else(|| panic!("{line}")).1.trim_end_matches(')').to_owned()
    };
    assert_eq!(place("limits.queue_length"), "line 4, column 16");
    assert_eq!(place("limits.per_source.requests"), "line 3, column 29");
    assert_eq!(place("apps[1].redirect_uris[1]"), "line 10, column 40");
    assert_eq!(place("issuers[0].public_keyy"), "line 13, column 1");
    assert_eq!(place("cors.allowed_origins[0]"), "line 16, column 5");
    assert_eq!(place("cors.allowed_origins[1]"), "line 16, column 26");
    assert_eq!(message.lines().count(), 6, "{message}");
    // What is missing is missing in its section.
    let missing = "
[[apps]]
id = 'app_a'
[[apps]]
id = 'app_b'
redirect_uris = ['https://b.example/']
";
    check_problems(load(missing), &[&["apps[1].client_secret_hash: is missing", "selfsame.toml, line 4, column 1)"]]);
    check_problems(
        load("registry.create_account = 'token'"),
        &[&["registry.create_account_token_hash: is missing", "line 1, column 1)"]],
    );
    check_problems(
        load("x = 99999999999999999999"),
        &[&["selfsame.toml: line 1, column 5: the number is out of range"]],
    );
}

#[test]
fn settings_whose_feature_is_missing_are_refused_with_its_name() {
    for (text, keys) in [
        ("", &[][..]),
        ("traces = { one_in = 1 }", &[]),
        ("traces.collector = 'http://127.0.0.1:4318'", &["traces.collector"]),
        ("wallet.moved_from = 'https://old.example'", &["wallet.moved_from"]),
        ("traces = { collector = 'http://127.0.0.1:4318', one_in = 100 }", &["traces.collector", "traces.one_in"]),
    ] {
        let config = toml::from_str(text).unwrap();
        assert_eq!(check_features(&config, true, true), [], "{text}");
        let refused = check_features(&config, false, false);
        assert_eq!(refused.iter().map(|(key, _)| key.as_str()).collect::<Vec<_>>(), keys, "{text}");
        for (key, message) in refused {
            let feature = if key.starts_with("wallet.") { "web-wallet" } else { "otlp" };
            assert!(message.contains(&format!("without the feature {feature};")), "{key}: {message}");
        }
    }
}

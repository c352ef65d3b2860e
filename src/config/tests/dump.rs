//! The effective configuration as text.

use std::path::{Path, PathBuf};

use super::{CERTAIN_KEY, check_problems, load, load_with};
use crate::config::{Config, HIDDEN, Loaded, SecretHash};

pub(super) fn loaded(text: &str, variables: &[(&str, &str)], dev: bool) -> Loaded {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("selfsame.toml");
    std::fs::write(&file, text).unwrap();
    let variables = variables.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
    let loaded = Config::load_with_errors(Some(&file), variables, dev, Some(PathBuf::from("/srv"))).unwrap();
    assert_eq!(loaded.errors, []);
    loaded
}

/// Every setting that is no secret and needs none, each with another value than its default.
pub(super) fn everything() -> String {
    format!(
        r##"
        insecure_http = true
        listen = {{ sign_in = "10.0.0.1:1", verify = "[::1]:2", gateway = "127.0.0.1:3", indexer = "127.0.0.1:3", operator = "127.0.0.1:0", wallet = "127.0.0.1:4" }}
        urls = {{ id_url = "https://id.example", portal_url = "https://p.example/a", gateway_url = "http://g.example", indexer_url = "https://i.example", wallet_url = "https://w.example" }}
        tls = {{ certificate = "chain.pem", private_key = "key.pem" }}
        log = {{ format = "json", access = "address" }}
        traces = {{ collector = "https://collector.example/otlp", one_in = 100 }}
        backup = {{ every = "6h", keep = 3, folder = "/mnt/backups" }}
        operator = {{ hosts = ["a.example"], allow_public = true, socket = "/run/socket", ready_needs_chains = true, ready_everywhere = true, drain_delay = "5s" }}
        cors.allowed_origins = ["https://wallet.example", "http://localhost:3000"]
        wallet.moved_from = "https://old.example"
        [registry]
        chain_id = 1
        verifying_contract = "0x00000000000000000000000000000000000000FF"
        max_authenticators = 3
        root_validity_window = "90s"
        recovery_agent_update_cooldown = "0s"
        commitment_check = "enforce"
        request_retention = "1h 1s"
        [batcher]
        max_operations = 9
        min_wait = "700us"
        max_wait = "1500us"
        [limits]
        request_timeout = "1s"
        per_source = {{ requests = 60, window = "1m" }}
        per_leaf_index = {{ requests = 61, window = "1d" }}
        verifications_per_source = {{ requests = 62, window = "1h" }}
        verifications_per_application = {{ requests = 620, window = "1h" }}
        sign_ins_per_source = {{ requests = 63, window = "2s" }}
        bridge_per_source = {{ requests = 64, window = "3s" }}
        groups_per_source = {{ requests = 64, window = "3s" }}
        trusted_proxies = ["10.0.0.0/8", "::1"]
        forwarded_header = "forwarded"
        [sign_in]
        transaction_lifetime = "1m"
        signing_algorithm = "ES256"
        key_encryption_key_file = "key"
        introspection_inactive_status = 200
        name = "A \"name\"\n"
        wallet_link = "wallet://open?request={{request}}"
        connector_base = "https://wallet.example/verify"
        passkey_domain = "id.example"
        page = {{ service_name = "Example", contact = "mailto:help@a.example", privacy_url = "https://a.example/privacy", terms_url = "https://a.example/terms", logo_file = "logo.svg", accent_colour = "#14507D", authenticator = {{ name = "World App", logo_file = "app.png", get_url = "https://wallet.example/get", help_url = "https://wallet.example/help" }} }}
        [verifier]
        workers = 3
        keys = {{ production = {{ legacy = "a.json", current = "b.json" }}, staging = {{ legacy = "c.json", current = "simulator" }} }}
        [[apps]]
        id = "app_a"
        name = "A"
        public = true
        redirect_uris = ["https://a.example/"]
        post_logout_redirect_uris = ["https://a.example/bye"]
        environments = ["staging", "production"]
        proof = "current"
        accept_legacy = true
        accepted_identifiers = ["orb"]
        require_integrity = true
        counts_sources_separately = true
        response_types = ["code", "code id_token"]
        require_pkce = true
        cross_device = "deny"
        cross_device_deny_despite_relays = true
        wallet_link = "https://wallet.example/open#{{request}}"
        logo_file = "a.png"
        home_url = "https://a.example/"
        initiate_login_uri = "https://a.example/login"
        fallback_url = "https://a.example/other-ways"
        status = "inactive"
        [[apps]]
        id = "app_b"
        [[actions]]
        app_id = "app_a"
        action = "vote"
        environment = "staging"
        description = "d"
        max_verifications = 2
        accept_legacy = false
        accepted_identifiers = ["orb"]
        require_integrity = true
        min_sybil_score = 1
        max_sybil_score = 20
        counts_kinds_separately = true
        counts_new_seeds = true
        counts_sources_separately = true
        [[actions]]
        app_id = "app_b"
        action = "board"
        accepted_identifiers = ["members"]
        max_verifications = 1
        roll = "2026-12-01"
        [[groups]]
        id = "members"
        name = "Members"
        legacy_identifier = "device"
        link_days = 7
        rolls = [{{ name = "2026-12-01", at = 2026-12-01T12:00:00Z }}]
        [[issuers]]
        id = 5
        identifiers = ["x"]
        public_key = {CERTAIN_KEY}
        environments = ["staging"]
        [[integrity]]
        issuer = "attestation.example"
        environments = ["production", "staging"]
        jwks = "https://attestation.example/jwks.json"
        authorities = "ca.pem"
        refresh = "10m"
        clock_tolerance = "5s"
        [[integrity]]
        issuer = "attestation.sandbox.example"
        environments = ["sandbox"]
        jwks_file = "jwks.json"
        [[relying_parties]]
        app_id = "app_a"
        rp_id = "rp_0387df34f862cd4e"
        oprf_public_key = {CERTAIN_KEY}
        status = "inactive"
        [[trusted_roots]]
        root = "18"
        time = 2026-01-31T12:00:00Z
        environment = "staging"
        kind = "legacy"
        identifiers = ["orb", "face"]
        [[chains]]
        name = "eth"
        preset = "ethereum"
        chain_id = 2
        rpc_file = "nodes"
        agree = 2
        request_timeout = "3s"
        insecure_http = true
        authorities = "ca.pem"
        [[chains.contracts]]
        name = "own"
        kind = "bridge"
        address = "0x00000000000000000000000000000000000000Fe"
        environment = "staging"
        identifiers = ["orb"]
        enabled = true
        block = "safe"
        interval = "7s"
        stale_after = "2h"
        fresh_for = "1h"
        reach = "3d"
        start_block = 5
        blocks_per_request = 6
        on_upgrade = "stop"
        implementations = ["0x00000000000000000000000000000000000000Aa"]
        [[chains.contracts]]
        name = "verifier"
        kind = "verifier"
        address = "0x00000000000000000000000000000000000000Fd"
        environment = "staging"
        proof_verifiers = ["0x00000000000000000000000000000000000000bB"]
        "##
    )
}

/// Only then does the dump show what the daemon runs with.
#[test]
fn a_dump_without_secrets_is_the_same_configuration() {
    for text in [String::new(), everything(), include_str!("../../../config/production.toml").to_owned()] {
        let loaded = loaded(&text, &[], false);
        let dump = loaded.dump().unwrap().to_toml();
        let mut again = load(&dump).unwrap_or_else(|error| panic!("{error}\n{dump}"));
        // The socket's default has a path in the dump.
        if text.is_empty() || !text.contains("socket") {
            assert_eq!(again.operator_socket().as_deref(), Some(Path::new("/srv/operator.socket")));
            again.operator.socket = loaded.config.operator.socket.clone();
        }
        assert_eq!(again, loaded.config, "{dump}");
    }
}

#[test]
fn a_dump_names_the_origin_of_each_value() {
    let text = "limits.in_flight = 1\n[registry]\nchain_id = 5\n[[apps]]\nid = 'app_a'\n[[apps]]\nid = 'app_b'\n";
    let variables = [
        ("SELFSAME_LISTEN__GATEWAY", "127.0.0.1:9000"),
        ("SELFSAME_LIMITS__IN_FLIGHT", "7"),
        ("SELFSAME_ISSUERS", "[{ id = 1, identifiers = ['x'], environments = ['staging'] }]"),
        ("SELFSAME_CHAINS", "[{ name = 'a', preset = 'world-chain-staging', rpc = ['https://node.example/key'] }]"),
    ];
    let dump = loaded(text, &variables, true).dump().unwrap();
    let text = dump.to_toml();
    for (path, line, origin) in [
        ("data_dir", "data_dir = \"/srv\"", "command line"),
        ("listen.gateway", "gateway = \"127.0.0.1:9000\"", "variable SELFSAME_LISTEN__GATEWAY"),
        ("listen.indexer", "indexer = \"127.0.0.1:8083\"", "default"),
        ("limits.in_flight", "in_flight = 7", "variable SELFSAME_LIMITS__IN_FLIGHT"),
        ("limits.idle_timeout", "idle_timeout = \"1m 15s\"", "default"),
        ("registry.chain_id", "chain_id = 5", "selfsame.toml, line 3"),
        ("verifier.keys.staging.current", "current = \"simulator\"", "--dev"),
        ("apps[1].id", "id = \"app_b\"", "selfsame.toml, line 7"),
        ("apps[1].require_pkce", "require_pkce = false", "default"),
        ("apps[2].require_pkce", "require_pkce = false", "--dev"),
        ("issuers[0].identifiers", "identifiers = [\"x\"]", "variable SELFSAME_ISSUERS"),
        ("operator.socket", "socket = \"/srv/operator.socket\"", "default"),
    ] {
        assert!(dump.origins[path].ends_with(origin), "{path}: {}", dump.origins[path]);
        let is_shown = |shown: &str| shown.starts_with(&format!("{line} # ")) && shown.ends_with(origin);
        assert!(text.lines().any(is_shown), "{line} # {origin}: {text}");
    }
}

#[test]
fn a_dump_hides_secrets_and_cannot_be_loaded_with_the_mark() {
    let hash = SecretHash::of([7; 16], "secret").to_text();
    let text = format!(
        "registry.create_account_token_hash = '{hash}'\nverifier.simulator_seed = 'seed-of-the-simulator'\n\
         [[apps]]\nid = 'app_a'\nclient_secret_hash = '{hash}'\n\
         [[apps]]\nid = 'app_b'\nclient_secret_hashes = ['{hash}']\n\
         [[chains]]\nname = 'eth'\npreset = 'ethereum'\nrpc = ['https://user:password@node.example/v2/key-of-the-node']\n"
    );
    let dump = loaded(&text, &[], false).dump().unwrap();
    for shown in [dump.to_toml(), serde_json::to_string(&dump).unwrap(), format!("{dump:?}")] {
        for secret in [&hash[7..20], &hash[50..60], "seed-of", "key-of", "password", "user:"] {
            assert!(!shown.contains(secret), "{secret}: {shown}");
        }
    }
    let dump = dump.to_toml();
    assert!(dump.contains(&format!("rpc = [\"{HIDDEN} node.example\"]")), "{dump}");
    let refused: [&[&str]; 5] = [
        &["apps[0].client_secret_hash: stands for a value that `selfsame config dump` does not show"],
        &["apps[1].client_secret_hashes[0]: stands for a value"],
        &["chains[0].rpc[0]: stands for a value"],
        &["registry.create_account_token_hash: stands for a value"],
        &["verifier.simulator_seed: stands for a value"],
    ];
    check_problems(load(&dump), &refused);
    let variable = [("SELFSAME_VERIFIER__SIMULATOR_SEED", HIDDEN)];
    check_problems(load_with("", &variable, false), &[&["verifier.simulator_seed: stands for a value"]]);
    // A setting beside a secret that it needs is shown.
    let text = format!("registry = {{ create_account = 'token', create_account_token_hash = '{hash}' }}");
    let dump = loaded(&text, &[], false).dump().unwrap().to_toml();
    assert!(dump.contains("create_account = \"token\""), "{dump}");
}

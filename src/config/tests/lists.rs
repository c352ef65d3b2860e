//! Entries of the lists (applications, actions, issuers and so on), alone and together.

use super::{CERTAIN_KEY, check_problems, defaults, load};
use crate::config::SecretHash;

#[test]
fn errors_in_lists_name_the_position_of_the_entry() {
    let apps = "[[apps]]\nid = 'app_a'\n[[apps]]\nid = 'app_staging_b'\n";
    let key = format!("public_key = {CERTAIN_KEY}\n");
    let with = |more: &str| format!("{apps}{more}").replace("KEY", &key);
    let cases: &[(&str, &[&str])] = &[
        ("apps = 5\n#", &["apps: ", "a list"]),
        ("[[apps]]\nname = 'x'", &["apps[2]: the key id is missing"]),
        ("[[apps]]\nid = 'app_a'", &["apps[2].id: app_a is the id of apps[0] already"]),
        ("[[apps]]\nid = 'x'", &["apps[2].id: \"x\"", "app_ and"]),
        ("[[apps]]\nid = 'app_/'", &["apps[2].id: \"app_/\""]),
        ("[[apps]]\nid = 'app_c'\nsecret = 'x'", &["apps[2].secret: is not a known key"]),
        (
            "[[apps]]\nid = 'app_c'\nenvironments = ['production', 'prod']",
            &["apps[2].environments[1]: \"prod\"", "\"staging\""],
        ),
        ("[[apps]]\nid = 'app_c'\nenvironments = []", &["apps[2].environments: is empty"]),
        ("[[apps]]\nid = 'app_c'\nproof = 'v3'", &["apps[2].proof: \"v3\"", "\"legacy\", \"current\""]),
        ("[[apps]]\nid = 'app_c'\nsubject = 'raw'", &["apps[2].subject: \"raw\"", "\"derived\", \"nullifier\""]),
        (
            "[[apps]]\nid = 'app_c'\nproof = 'current'\nsubject = 'derived'",
            &["apps[2].subject: \"derived\" is for accounts", "of proof = \"current\"", "proof = \"account\""],
        ),
        ("[[apps]]\nid = 'app_c'\nredirect_uris = ['https://a']", &["apps[2].client_secret_hash: is missing"]),
        (
            "[[apps]]\nid = 'app_c'\npublic = true\nredirect_uris = ['http://a/']",
            &["apps[2].redirect_uris[0]: ", "localhost"],
        ),
        (
            "[[apps]]\nid = 'app_c'\npublic = true\nredirect_uris = ['https://a/*']",
            &["apps[2].redirect_uris[0]: ", "has a *", "write each redirect URI in full"],
        ),
        (
            "[[apps]]\nid = 'app_c'\npublic = true\nredirect_uris = ['https://a/#b']",
            &["apps[2].redirect_uris[0]: ", "fragment"],
        ),
        (
            "[[apps]]\nid = 'app_c'\nresponse_types = ['code', 'token']",
            &["apps[2].response_types: \"token\" is not a response type", "code id_token"],
        ),
        ("[[apps]]\nid = 'app_c'\nresponse_types = []", &["apps[2].response_types: is empty"]),
        (
            "[[apps]]\nid = 'app_c'\nresponse_types = ['code token', 'token code']",
            &["apps[2].response_types: \"token code\" is in the list twice"],
        ),
        (
            "[[apps]]\nid = 'app_c'\npost_logout_redirect_uris = ['http://a/']",
            &["apps[2].post_logout_redirect_uris[0]: ", "localhost"],
        ),
        (
            "[[apps]]\nid = 'app_c'\nhome_url = 'http://a.example/'",
            &["apps[2].home_url: \"http://a.example/\" is http", "http only to localhost"],
        ),
        (
            "[[apps]]\nid = 'app_c'\nfallback_url = 'https://a.example/#other'",
            &["apps[2].fallback_url: \"https://a.example/#other\" has a fragment"],
        ),
        (
            "[[apps]]\nid = 'app_c'\ninitiate_login_uri = 'https://a.example/login?x=1&iss=y'",
            &["apps[2].initiate_login_uri: ", "has the parameter iss, which the service adds itself", "without"],
        ),
        ("[[apps]]\nid = 'app_c'\ninitiate_login_uri = '/login'", &["apps[2].initiate_login_uri: ", "https://"]),
        ("[[apps]]\nid = 'app_c'\ncross_device = 'ask'", &["apps[2].cross_device: \"ask\"", "\"allow\", \"deny\""]),
        (
            "[[apps]]\nid = 'app_c'\npublic = true\nredirect_uris = ['https://a/']\ncross_device = 'deny'",
            &["apps[2].cross_device: \"deny\" does not keep a relay out", "cross_device_deny_despite_relays = true"],
        ),
        ("[[apps]]\nid = 'app_c'\nstatus = 'off'", &["apps[2].status: \"off\"", "\"active\", \"inactive\""]),
        (
            "[[apps]]\nid = 'app_c'\naccepted_identifiers = ['iris']",
            &["apps[2].accepted_identifiers: \"iris\" is not a credential"],
        ),
        ("[[apps]]\nid = 'app_c'\npublic = 'yes'", &["apps[2].public: ", "true or false"]),
        ("[[actions]]\napp_id = 'app_c'\naction = 'x'", &["actions[0].app_id: \"app_c\"", "[[apps]]"]),
        ("[[actions]]\napp_id = 'app_a'\naction = ''", &["actions[0].action: is empty"]),
        (
            "[[actions]]\napp_id = 'app_staging_b'\naction = 'x'",
            &["actions[0].environment: ", "not accept production, only staging"],
        ),
        (
            "actions = [{ app_id = 'app_a', action = 'x' }, { app_id = 'app_a', action = 'x' }]\n",
            &["actions[1].action: \"x\"", "actions[0]"],
        ),
        ("[[issuers]]\nid = 1", &["issuers[0].public_key: is missing", "issuers of production"]),
        ("[[issuers]]\nid = 5\nKEY", &["issuers[0].identifiers: issuer 5"]),
        (
            "[[issuers]]\nid = 1\nKEY[[issuers]]\nid = 1\nenvironments = ['staging']\nKEY",
            &["issuers[1].id: 1 is the id of issuers[0]"],
        ),
        ("[[issuers]]\nid = 1\npublic_key = { x = '0', y = '1' }", &["issuers[0].public_key: is the identity"]),
        ("[[issuers]]\nid = 1\npublic_key = { x = '1', y = '1' }", &["issuers[0].public_key: is not a point"]),
        (
            "[[issuers]]\nid = 1\npublic_key = { x = '0', y = '0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000000' }",
            &["issuers[0].public_key: ", "outside its prime-order subgroup"],
        ),
        (
            "[[issuers]]\nid = 1\npublic_key = { x = '0', y = '0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001' }",
            &["issuers[0].public_key.y: "],
        ),
        (
            "[[issuers]]\nid = 1\npublic_key = { x = '1_0', y = '1' }",
            &["issuers[0].public_key.x: \"1_0\"", "decimal digits"],
        ),
        ("[[relying_parties]]\napp_id = 'app_c'", &["relying_parties[0].app_id: \"app_c\""]),
        (
            "[[relying_parties]]\napp_id = 'app_a'\nrp_id = 'rp_1'",
            &["relying_parties[0].rp_id: \"rp_1\"", "16 hex digits"],
        ),
        (
            "[[relying_parties]]\napp_id = 'app_a'\n[[relying_parties]]\napp_id = 'app_a'",
            &["relying_parties[1].app_id: ", "relying_parties[0]"],
        ),
        (
            "[[relying_parties]]\napp_id = 'app_a'\nrp_id = 'rp_0000000000000001'\n[[relying_parties]]\napp_id = 'app_staging_b'\nrp_id = 'rp_0000000000000001'",
            &["relying_parties[1].rp_id: rp_0000000000000001 is the id of app_a"],
        ),
        ("[[trusted_roots]]\nroot = '1'\nkind = 'legacy'", &["trusted_roots[0]: the key time is missing"]),
        (
            "[[trusted_roots]]\nroot = '1'\nkind = 'legacy'\ntime = 2026-01-31T12:00:00Z",
            &["trusted_roots[0].identifiers: is missing", "[\"orb\"]"],
        ),
        (
            "[[trusted_roots]]\nroot = '1'\nkind = 'current'\ntime = 2026-01-31T12:00:00Z\nidentifiers = ['orb']",
            &["trusted_roots[0].identifiers: is for legacy roots only"],
        ),
        (
            "[[actions]]\napp_id = 'app_a'\naction = 'sign-in'",
            &["actions[0].action: \"sign-in\" is the action of sign-ins"],
        ),
        (
            "[[actions]]\napp_id = 'app_a'\naction = 'vote'\naccepted_identifiers = ['iris']",
            &["actions[0].accepted_identifiers: \"iris\"", "device, document, face, orb, secure_document, selfie"],
        ),
        (
            "[[actions]]\napp_id = 'app_a'\naction = 'vote'\naccepted_identifiers = []",
            &["actions[0].accepted_identifiers: is empty"],
        ),
        (
            "[[trusted_roots]]\nroot = '1'\nkind = 'legacy'\ntime = 'now'",
            &["trusted_roots[0].time: \"now\"", "2026-01-31T12:00:00Z"],
        ),
        (
            "[[trusted_roots]]\nroot = '0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001'\nkind = 'legacy'\ntime = 2026-01-31T12:00:00Z",
            &["trusted_roots[0].root: ", "modulus"],
        ),
    ];
    for (text, parts) in cases {
        let text = if text.starts_with("apps") {
            (*text).to_owned()
        } else if text.starts_with("actions =") {
            format!("{text}{apps}")
        } else {
            with(text)
        };
        check_problems(load(&text), &[parts]);
    }
    let derived = defaults().relying_party_id("app_staging_b");
    let text = with(&format!("[[relying_parties]]\napp_id = 'app_a'\nrp_id = '{derived}'"));
    check_problems(load(&text), &[&["relying_parties[0].rp_id: ", "is the id of app_staging_b already"]]);
}

#[test]
fn an_application_has_at_most_two_secrets_in_one_form() {
    let hash = SecretHash::of([1; 16], "sk_a").to_text();
    let app = |settings: &str| load(&format!("[[apps]]\nid = 'app_a'\n{settings}"));
    let both = app(&format!("client_secret_hashes = ['{hash}', '{hash}']")).unwrap();
    assert_eq!(both.apps[0].secret_hashes().count(), 2);
    let beside = app(&format!("client_secret_hash = '{hash}'\nclient_secret_hashes = ['{hash}']"));
    check_problems(beside, &[&["apps[0].client_secret_hashes: stands beside client_secret_hash"]]);
    let three = app(&format!("client_secret_hashes = ['{hash}', '{hash}', '{hash}']"));
    check_problems(three, &[&["apps[0].client_secret_hashes: has 3 hashes", "at most 2"]]);
    let public = app(&format!("public = true\nclient_secret_hashes = ['{hash}']"));
    check_problems(public, &[&["apps[0].public: a public client has no secret"]]);
    let broken = app("client_secret_hashes = ['sk_a']");
    check_problems(broken, &[&["apps[0].client_secret_hashes[0]: is not sha256:<salt"]]);
}

#[test]
fn a_limited_action_takes_one_kind_of_proof_unless_the_configuration_says_otherwise() {
    let config = |app: &str, action: &str, key: bool| {
        let key = if key { format!("oprf_public_key = {CERTAIN_KEY}") } else { String::new() };
        load(&format!(
            "[[apps]]\nid = 'app_a'\n{app}\n[[relying_parties]]\napp_id = 'app_a'\n{key}\n\
             [[actions]]\napp_id = 'app_a'\naction = 'vote'\n{action}\n"
        ))
    };
    let accepts_legacy = |app: &str, key| {
        let config = config(app, "", key).expect("a good configuration");
        config.accepts_legacy(&config.apps[0])
    };
    for (app, key, expected) in [
        ("", false, true),
        ("", true, false),
        ("accept_legacy = true", true, true),
        ("accept_legacy = false", false, false),
    ] {
        assert_eq!(accepts_legacy(app, key), expected, "{app:?} {key}");
    }
    let both = "accept_legacy = true";
    let expected: &[&str] = &["actions[0].max_verifications: 1 limits", "counts_kinds_separately = true"];
    check_problems(config(both, "max_verifications = 1", true), &[expected]);
    // A legacy proof shows no time of issue.
    let expected: &[&str] = &["actions[0].genesis_issued_at_min: is for current proofs", "accept_legacy = false"];
    check_problems(config(both, "genesis_issued_at_min = 7", true), &[expected]);
    assert!(config(both, "genesis_issued_at_min = 7\naccept_legacy = false", true).is_ok());
    for (app, action, key) in [
        (both, "max_verifications = 0", true),
        (both, "max_verifications = 1", false),
        (both, "max_verifications = 1\naccept_legacy = false", true),
        (both, "max_verifications = 1\ncounts_kinds_separately = true", true),
        ("", "max_verifications = 1", true),
    ] {
        assert!(config(app, action, key).is_ok(), "{app:?} {action:?} {key}");
    }
}

/// The signal is compared with a nonce whose signature was checked.
#[test]
fn a_signal_is_compared_with_a_signed_nonce_only() {
    let config = |settings: &str| {
        load(&format!(
            "[[apps]]\nid = 'app_a'\n[[relying_parties]]\napp_id = 'app_a'\n\
             signing_key = '0x0000000000000000000000000000000000000001'\n{settings}\n"
        ))
    };
    let expected: &[&str] = &["relying_parties[0].require_signal_nonce: needs require_signed_requests = true"];
    check_problems(config("require_signal_nonce = true"), &[expected]);
    assert!(config("require_signal_nonce = true\nrequire_signed_requests = true").is_ok());
}

/// `deny` holds where wallets answer the service's own signed request alone: those of groups and of
/// the simulator.
#[test]
fn other_devices_are_denied_only_where_that_keeps_a_relay_out() {
    let app = |id: &str, more: &str| {
        format!("[[apps]]\nid = '{id}'\npublic = true\nredirect_uris = ['https://a/']\ncross_device = 'deny'\n{more}")
    };
    let simulator = "verifier.keys.staging.current = 'simulator'\n";
    let group =
        "[[groups]]\nid = 'members'\nname = 'Members'\nenvironment = 'production'\nlegacy_identifier = 'device'\n";
    let of = |id: &str, accepted: &str| format!("{}\n{group}", app(id, &format!("accepted_identifiers = {accepted}")));
    for (text, is_refused) in [
        (of("app_a", "['members']"), false),
        (of("app_a", "['device']"), false),
        (of("app_a", "['members', 'orb']\ncounts_sources_separately = true"), true),
        (of("app_a", "['orb']"), true),
        (app("app_staging_a", ""), true),
        (app("app_a", "proof = 'current'"), true),
        (app("app_staging_a", "proof = 'current'"), true),
        (format!("{simulator}{}", app("app_staging_a", "")), true),
        (format!("{simulator}{}", app("app_a", "proof = 'current'")), true),
        (format!("{simulator}{}", app("app_staging_a", "proof = 'current'")), false),
        (app("app_a", "cross_device_deny_despite_relays = true"), false),
        ("[[apps]]\nid = 'app_a'\ncross_device = 'deny'".to_owned(), false),
    ] {
        match is_refused {
            true => check_problems(load(&text), &[&["apps[0].cross_device: \"deny\" does not keep a relay out"]]),
            false => drop(load(&text).expect("it is accepted")),
        }
    }
}

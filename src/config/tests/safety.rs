//! Unsafe starts, and secrets that must not be shown.

use std::path::Path;

use selfsame_interfaces::http::LONGEST_SOCKET_PATH;

use super::{check_problems, load, load_with};
use crate::config::SecretHash;

#[test]
fn an_unsafe_start_must_be_asked_for() {
    let everywhere = "listen.gateway = '0.0.0.0:8082'";
    let cases: [(&str, &[&str]); 13] = [
        (everywhere, &["urls.gateway_url: is missing", "every address of this machine"]),
        ("listen.gateway = '[::]:8082'", &["urls.gateway_url: is missing"]),
        ("listen.gateway = '10.0.0.7:8082'", &["listen.gateway: is plain HTTP", "insecure_http = true"]),
        ("urls.id_url = 'http://id.example.org'", &["urls.id_url: is plain HTTP", "https URL of the proxy"]),
        (
            "listen.operator = '0.0.0.0:8084'",
            &["listen.operator: 0.0.0.0:8084 is not loopback", "operator.allow_public"],
        ),
        ("listen.operator = '10.0.0.7:8084'", &["listen.operator: ", "other machines"]),
        ("listen.operator = '127.0.0.1:8082'", &["listen.operator: 127.0.0.1:8082 is also the address of gateway"]),
        (
            "listen.gateway = '0.0.0.0:8082'\nurls.gateway_url = 'http://localhost:8082'",
            &["urls.gateway_url: is plain HTTP"],
        ),
        (
            "listen.operator = '10.0.0.7:8084'\noperator.allow_public = true",
            &["listen.operator: 10.0.0.7:8084 is plain HTTP", "insecure_http = true"],
        ),
        (
            "urls.id_url = 'https://id.example.org'\nsign_in.wallet_link = 'bridge'",
            &["urls.bridge_url: is missing", "sign-in is for other machines", "set the URL at which authenticators"],
        ),
        (
            "urls.id_url = 'https://id.example.org'\n[[apps]]\nid = 'app_a'\nwallet_link = 'bridge'",
            &["urls.bridge_url: is missing"],
        ),
        (
            "urls = { id_url = 'https://id.example.org', bridge_url = 'http://127.0.0.1:8085' }\n\
             sign_in.wallet_link = 'bridge'",
            &["urls.bridge_url: \"http://127.0.0.1:8085\" is this machine"],
        ),
        ("operator.host = 'x'", &["operator.host: is not a known key", "hosts, allow_public"]),
    ];
    for (text, parts) in cases {
        check_problems(load(text), &[parts]);
    }
    for text in [
        "listen.gateway = '0.0.0.0:8082'\nurls.gateway_url = 'https://gateway.example.org'",
        "listen.gateway = '10.0.0.7:8082'\ninsecure_http = true",
        "listen.gateway = '10.0.0.7:8082'\n[tls]\ncertificate = 'a'\nprivate_key = 'b'",
        "urls.id_url = 'http://id.example.org'\ninsecure_http = true",
        "urls.id_url = 'http://localhost:8080'",
        "sign_in.wallet_link = 'bridge'",
        "urls.id_url = 'http://localhost:8080'\nsign_in.wallet_link = 'bridge'",
        "urls.id_url = 'https://id.example.org'",
        "urls = { id_url = 'https://id.example.org', bridge_url = 'https://bridge.example.org' }\n\
         sign_in.wallet_link = 'bridge'",
        "urls.id_url = 'http://[::1]:8080'",
        "listen.operator = '0.0.0.0:8084'\noperator.allow_public = true\ninsecure_http = true",
        "listen.operator = '0.0.0.0:8084'\noperator.allow_public = true\n[tls]\ncertificate = 'a'\nprivate_key = 'b'",
        "listen.operator = '127.0.0.1:8082'\noperator.allow_public = true",
        "listen.operator = '[::1]:8084'",
    ] {
        assert!(load(text).is_ok(), "{text}: {:?}", load(text));
    }
}

/// A wallet keeps a member's secrets for its origin.
#[test]
fn the_wallet_interface_of_groups_has_an_origin_of_its_own_that_members_can_reach() {
    const GROUP: &str = "\n[[groups]]\nid = 'members'\nname = 'Members'\n";
    let own = "needs an origin of its own";
    let cases: [(&str, &[&str]); 5] = [
        ("urls.wallet_url = 'https://wallet.example.org/app'", &["urls.wallet_url: ", "has a path"]),
        ("listen.wallet = '127.0.0.1:8085'", &["urls.wallet_url: ", own, "bridge has the same"]),
        (
            "urls = { id_url = 'https://id.example.org', wallet_url = 'https://ID.example.org:443' }",
            &["urls.wallet_url: ", own, "sign_in has the same"],
        ),
        ("urls.id_url = 'https://id.example.org'", &["urls.wallet_url: is this machine"]),
        (
            "urls = { id_url = 'https://id.example.org', wallet_url = 'http://localhost:8086' }",
            &["urls.wallet_url: is this machine"],
        ),
    ];
    for (text, parts) in cases {
        check_problems(load(&format!("{text}{GROUP}")), &[parts]);
    }
    for text in [
        "",
        "urls.id_url = 'http://localhost:8080'",
        "urls = { id_url = 'https://id.example.org', wallet_url = 'https://wallet.example.org' }",
    ] {
        let text = format!("{text}{GROUP}");
        assert!(load(&text).is_ok(), "{text}: {:?}", load(&text));
    }
    // It is not needed without groups.
    assert!(load("listen.wallet = '127.0.0.1:8085'").is_ok());
    assert!(load("urls.id_url = 'https://id.example.org'").is_ok());
}

#[test]
fn the_operators_socket_has_a_path_that_the_operating_system_can_bind() {
    let config = load("data_dir = '/srv/selfsame'").unwrap();
    assert_eq!(config.operator_socket().as_deref(), Some(Path::new("/srv/selfsame/operator.socket")));
    let config = load("operator.socket = '/run/selfsame/socket'").unwrap();
    assert_eq!(config.operator_socket().as_deref(), Some(Path::new("/run/selfsame/socket")));
    assert_eq!(load("operator.socket = 'off'").unwrap().operator_socket(), None);
    let long = "a".repeat(LONGEST_SOCKET_PATH + 1);
    let most = format!("at most {LONGEST_SOCKET_PATH} (sun_path)");
    let cases: [(String, &[&str]); 5] = [
        (format!("operator.socket = '{long}'"), &["operator.socket: aaa", &most, "or \"off\""]),
        (format!("data_dir = '{long}'"), &["operator.socket: aaa", "/operator.socket has ", &most]),
        ("operator.socket = ''".to_owned(), &["operator.socket: is empty", "\"off\""]),
        ("operator.socket = \"a\\u0000b\"".to_owned(), &["operator.socket: ", "cannot be the path of a socket"]),
        ("operator.socket = false".to_owned(), &["operator.socket: "]),
    ];
    for (text, parts) in cases {
        check_problems(load(&text), &[parts]);
    }
    assert!(load(&format!("data_dir = '{long}'\noperator.socket = 'off'")).is_ok());
}

#[test]
fn secrets_do_not_appear_in_errors_or_debug_output() {
    let hash = SecretHash::of([7; 16], "secret");
    let text = hash.to_text();
    assert_eq!(text.parse(), Ok(hash.clone()));
    assert_ne!(SecretHash::of([8; 16], "secret").digest(), hash.digest());
    // Computed with another program: (head -c16 /dev/zero | tr '\0' '\1'; printf secret) |
    // sha256sum
    assert_eq!(
        SecretHash::of([1; 16], "secret").to_text(),
        "sha256:01010101010101010101010101010101:a65192f8d645bc4d19765b8ea61bfbb896dc999cb88a4be419518c5493f92c9d"
    );
    let digits = text.split(':').next_back().unwrap();
    let config = load(&format!("[[apps]]\nid = 'app_a'\nclient_secret_hash = '{text}'")).unwrap();
    assert_eq!(config.apps[0].client_secret_hash, Some(hash));
    assert!(!format!("{config:?}").contains(&digits[..8]));
    for wrong in ["sk_plain", &text[..text.len() - 2], &text.replace("sha256", "md5"), &format!("{text}00")] {
        let error = load(&format!("[[apps]]\nid = 'app_a'\nclient_secret_hash = '{wrong}'")).unwrap_err().to_string();
        assert!(error.contains("apps[0].client_secret_hash: is not sha256:<salt") && !error.contains(wrong), "{error}");
    }
    let broken = format!("[{{ client_secret_hash = '{text}' ");
    let error = load_with("", &[("SELFSAME_APPS", &broken)], false).unwrap_err().to_string();
    assert!(!error.contains(&digits[..8]), "{error}");
}

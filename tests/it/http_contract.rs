//! The HTTP behaviour of every route of gateway and indexer: methods, sizes, content types, request
//! ids, unknown paths.

use std::net::SocketAddr;

use reqwest::Method;
use selfsame_interfaces::interface::Interface;

use crate::registry_client::{RawHttpConnection, RegistryAnswer, RegistryClient};

/// The routes that take a body, by interface.
pub const GATEWAY_POSTS: [&str; 10] = [
    "/create-account",
    "/update-authenticator",
    "/insert-authenticator",
    "/remove-authenticator",
    "/recover-account",
    "/initiate-recovery-agent-update",
    "/update-recovery-agent",
    "/cancel-recovery-agent-update",
    "/execute-recovery-agent-update",
    "/revert-recovery-agent-update",
];
/// The operations that the rules of version v1 do not have: always 501, their bodies are not read.
pub const MISSING_OPERATIONS: [&str; 2] = ["/update-recovery-agent", "/revert-recovery-agent-update"];
pub const GATEWAY_GETS: [&str; 8] = [
    "/status/gw_00000000-0000-4000-8000-000000000000",
    "/receipt/gw_00000000-0000-4000-8000-000000000000",
    "/block/1",
    "/head",
    "/is-valid-root",
    "/config",
    "/health",
    "/openapi.json",
];
pub const INDEXER_POSTS: [&str; 7] = [
    "/inclusion-proof",
    "/packed-account",
    "/signature-nonce",
    "/authenticator-pubkeys",
    "/authenticators",
    "/recovery-agent",
    "/pending-recovery-agent",
];
pub const INDEXER_GETS: [&str; 3] = ["/root", "/health", "/openapi.json"];

/// The URLs of all routes: those that take POST, then those that take GET.
fn routes(client: &RegistryClient) -> (Vec<String>, Vec<String>) {
    let compat = |path: &&str| client.daemon.indexer(&format!("/compat{path}"));
    let plain = |path: &&str| client.daemon.indexer(path);
    let gateway = |path: &&str| client.daemon.gateway(path);
    let posts = GATEWAY_POSTS.iter().map(gateway);
    let posts = posts.chain(INDEXER_POSTS.iter().map(plain)).chain(INDEXER_POSTS.iter().map(compat));
    let gets = GATEWAY_GETS.iter().map(gateway);
    let gets = gets.chain(INDEXER_GETS.iter().map(plain)).chain(INDEXER_GETS.iter().map(compat));
    (posts.collect(), gets.collect())
}

#[tokio::test]
async fn every_path_takes_only_its_methods() {
    let client = RegistryClient::start().await;
    let (posts, gets) = routes(&client);
    for (urls, allow, wrong) in [
        (posts, "POST", [Method::GET, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS]),
        (gets, "GET, HEAD", [Method::POST, Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS]),
    ] {
        for url in urls {
            for method in &wrong {
                let answer = client.send(client.http.request(method.clone(), &url).body("{}")).await;
                let message = format!("the method is {method}, this path takes {allow}");
                assert_eq!(answer.expect_error(405, "bad_request"), message, "{url}");
                assert_eq!(answer.header("allow"), Some(allow), "{url}");
            }
        }
    }
}

#[tokio::test]
async fn head_is_get_without_its_body() {
    let client = RegistryClient::start().await;
    let (posts, gets) = routes(&client);
    for url in gets {
        let got = client.http.get(&url).send().await.expect("an answer");
        let (status, length) = (got.status(), got.content_length());
        let head = client.http.head(&url).send().await.expect("an answer");
        assert_eq!(head.status(), status, "{url}");
        assert_eq!(head.headers()["content-length"].to_str().ok(), length.map(|n| n.to_string()).as_deref());
        assert_eq!(head.headers()["content-type"], "application/json");
        assert!(head.headers().contains_key("x-request-id"), "{url}");
        assert_eq!(head.bytes().await.expect("a body").len(), 0);
    }
    for url in posts {
        let head = client.http.head(&url).send().await.expect("an answer");
        assert_eq!((head.status().as_u16(), head.headers()["allow"].to_str().ok()), (405, Some("POST")), "{url}");
    }
}

/// Wallets that log what is about to end see it in every answer of such an endpoint.
#[tokio::test]
async fn endpoints_that_version_v2_does_not_have_are_deprecated() {
    let client = RegistryClient::start().await;
    let deprecated = [
        "/initiate-recovery-agent-update",
        "/cancel-recovery-agent-update",
        "/execute-recovery-agent-update",
        "/pending-recovery-agent",
        "/compat/pending-recovery-agent",
    ];
    let (posts, gets) = routes(&client);
    for url in posts.iter().chain(&gets) {
        let method = if posts.contains(url) { Method::POST } else { Method::GET };
        let request = client.http.request(method, url).header("Content-Type", "application/json");
        let answer = client.send(request.body(r#"{"leaf_index":"0x1"}"#)).await;
        let is_deprecated = deprecated.iter().any(|path| url.ends_with(path));
        let expected = |value| is_deprecated.then_some(value);
        assert_eq!(answer.header("deprecation"), expected("@1785110400"), "{url}");
        assert_eq!(answer.header("sunset"), expected("Tue, 27 Jul 2027 00:00:00 GMT"), "{url}");
    }
}

#[tokio::test]
async fn unknown_paths_are_not_found() {
    let client = RegistryClient::start().await;
    let long = format!("/{}", "x".repeat(5000));
    for path in [
        "/",
        "/x",
        "/health/",
        "/create-account/x",
        "/compat",
        "/compat/",
        "/compat/x",
        "/compat/create-account",
        "/%00",
        "/status",
        "/status/",
        "/status/a/b",
        "//",
        long.as_str(),
    ] {
        for url in [client.daemon.gateway(path), client.daemon.indexer(path)] {
            for method in [Method::GET, Method::POST, Method::DELETE] {
                let answer = client.send(client.http.request(method, &url)).await;
                let message = answer.expect_error(404, "not_found");
                assert!(message.starts_with("nothing is served at /") && message.len() < 300, "{answer:?}");
            }
        }
    }
}

#[tokio::test]
async fn bodies_have_a_maximum_size_and_a_content_type() {
    let client = RegistryClient::start().await;
    let (posts, _) = routes(&client);
    let limit = 64 * 1024;
    for url in posts.iter().filter(|url| !MISSING_OPERATIONS.iter().any(|path| url.ends_with(path))) {
        // A body of exactly the limit is read: the error is about its fields.
        let longest = format!("{{\"padding\":\"{}\"}}", "x".repeat(limit - 14));
        assert_eq!(longest.len(), limit);
        let answer = client.post(url.clone(), longest.clone()).await;
        assert!(answer.expect_error(400, "bad_request").starts_with("missing field"), "{url}: {answer:?}");
        let answer = client.post(url.clone(), longest + " ").await;
        assert_eq!(answer.expect_error(413, "bad_request"), "the body is longer than 65536 bytes", "{url}");
        assert_eq!(answer.header("connection"), Some("close"));

        for wrong in ["text/plain", "application/x-www-form-urlencoded", "json", ""] {
            let answer = client.send(client.http.post(url).header("content-type", wrong).body("{}")).await;
            let message = answer.expect_error(415, "bad_request");
            assert!(message.ends_with("it must be application/json"), "{wrong}: {answer:?}");
        }
        client.send(client.http.post(url).body("{}")).await.expect_error(415, "bad_request");
        for good in ["application/json", "Application/JSON; charset=UTF-8", "application/json; charset=latin1"] {
            let answer = client.send(client.http.post(url).header("content-type", good).body("{}")).await;
            assert!(answer.expect_error(400, "bad_request").starts_with("missing field"), "{good}: {answer:?}");
        }
        let compressed =
            client.http.post(url).header("content-type", "application/json").header("content-encoding", "gzip");
        client.send(compressed.body("{}")).await.expect_error(415, "bad_request");
    }
    // The limit also holds without an announced length.
    let mut connection = RawHttpConnection::open(client.daemon.addresses[Interface::Gateway]).await;
    let head = "POST /create-account HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunk = format!("8000\r\n{}\r\n", " ".repeat(0x8000));
    connection.send(format!("{head}{chunk}{chunk}{chunk}0\r\n\r\n")).await;
    connection.answer().await.expect_error(413, "bad_request");
    client.assert_works().await;
}

#[tokio::test]
async fn every_answer_has_a_request_id_of_its_own_or_the_clients() {
    let client = RegistryClient::start().await;
    let (posts, gets) = routes(&client);
    let mut seen = std::collections::HashSet::new();
    for url in posts.iter().chain(&gets) {
        for method in [Method::GET, Method::POST, Method::PUT] {
            let ask = async |id: &str| -> RegistryAnswer {
                client.send(client.http.request(method.clone(), url).header("x-request-id", id)).await
            };
            assert_eq!(ask("mine.1").await.header("x-request-id"), Some("mine.1"));
            let replaced = ask("not good").await;
            let id = replaced.header("x-request-id").expect("an id").to_owned();
            assert!(id != "not good" && seen.insert(id), "{replaced:?}");
        }
    }
}

/// Sends one malformed request on a connection of its own; returns the status. The connection may
/// be closed without an answer.
async fn status_of(address: SocketAddr, bytes: &[u8]) -> Option<u16> {
    let mut connection = RawHttpConnection::open(address).await;
    // The server may close the connection before it has read everything.
    let _ = connection.try_send(bytes).await;
    let (status, ..) = connection.reply().await?;
    Some(status)
}

#[tokio::test]
async fn malformed_http_is_refused() {
    let client = RegistryClient::start().await;
    let before = client.standing().await;
    let many_headers: String = (0..200).map(|number| format!("x-{number}: y\r\n")).collect();
    let long_header = format!("x: {}\r\n", "y".repeat(100_000));
    let post = |headers: &str, body: &str| {
        format!("POST /create-account HTTP/1.1\r\nhost: h\r\ncontent-type: application/json\r\n{headers}\r\n{body}")
    };
    let table: Vec<(Vec<u8>, &[u16])> = vec![
        (b"\r\n\r\n\r\n".to_vec(), &[]),
        (b"nonsense\r\n\r\n".to_vec(), &[400]),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), &[400]),
        (b"GET / HTTP/9.9\r\nhost: h\r\n\r\n".to_vec(), &[400]),
        (b"GET /\0 HTTP/1.1\r\nhost: h\r\n\r\n".to_vec(), &[400]),
        (b"GET /config HTTP/1.1\r\n\r\n".to_vec(), &[400]),
        (b"GET /config HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n".to_vec(), &[400]),
        (b"GET /config HTTP/1.1\r\nhost: h\r\nbad header\r\n\r\n".to_vec(), &[400]),
        (format!("GET /config HTTP/1.1\r\nhost: h\r\n{many_headers}\r\n").into(), &[431]),
        (format!("GET /config HTTP/1.1\r\nhost: h\r\n{long_header}\r\n").into(), &[431]),
        (format!("GET /{} HTTP/1.1\r\nhost: h\r\n\r\n", "x".repeat(100_000)).into(), &[414, 431]),
        (b"GET /status/%FF HTTP/1.1\r\nhost: h\r\n\r\n".to_vec(), &[400]),
        (post("content-length: -1\r\n", "").into(), &[400]),
        (post("content-length: 1\r\ncontent-length: 2\r\n", "{}").into(), &[400]),
        (post("content-length: 2\r\ntransfer-encoding: chunked\r\n", "{}").into(), &[400]),
        (post("transfer-encoding: gzip\r\n", "{}").into(), &[400]),
        (post("transfer-encoding: chunked\r\n", "zz\r\n{}\r\n0\r\n\r\n").into(), &[400]),
        (post("transfer-encoding: chunked\r\n", "2\r\n{}").into(), &[400]),
        (post("content-length: 99\r\n", "{\"recovery_address\":").into(), &[400]),
        (post("content-length: 18446744073709551616\r\n", "").into(), &[400]),
        (post("content-length: 18446744073709551615\r\n", "").into(), &[413, 431]),
        (post("", "").into(), &[400]),
    ];
    for address in [client.daemon.addresses[Interface::Gateway], client.daemon.addresses[Interface::Indexer]] {
        for (bytes, statuses) in &table {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]);
            let status = status_of(address, bytes).await;
            let expected =
                statuses.is_empty() || status.is_none_or(|status| statuses.contains(&status) || status == 404);
            assert!(expected, "{shown:?}: {status:?}");
        }
    }
    assert_eq!(client.standing().await, before);
    client.assert_works().await;
}

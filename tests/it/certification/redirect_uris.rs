//! Redirect URIs: the provider redirects to the registered ones, byte for byte, and to no other
//! spelling of them.

use std::collections::BTreeSet;

use reqwest::Response;
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION, REFRESH, SET_COOKIE};
use selfsame::config::Config;

use crate::sign_in_client::{
    APP, CALLBACK, Form, OTHER_APP, SignInAnswer, SignInTestClient, accept_current_proofs, add_other_app, parameters,
};

const REGISTERED: [&str; 6] = [
    "https://app.example/callback",
    "https://app.example/tenants?tenant=one",
    "https://app.example:8443/a%2Fb",
    "http://127.0.0.1:3000/callback",
    "http://localhost:3000/callback",
    "http://[::1]:3000/callback",
];

async fn provider() -> SignInTestClient {
    SignInTestClient::start_with_keys(registered).await
}

fn registered(config: &mut Config) {
    accept_current_proofs(config);
    add_other_app(config);
    config.apps[0].redirect_uris = REGISTERED.map(|uri| uri.parse().expect("a redirect URI")).to_vec();
}

/// Other spellings of a URI, and URIs that look similar.
fn spellings(uri: &str) -> Vec<String> {
    let (scheme, rest) = uri.split_once("://").expect("a scheme");
    let (authority, path) = rest.split_once('/').expect("a path");
    // The last colon of an IPv6 address without a port is inside brackets; every URI here has a
    // port.
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let default = if scheme == "https" { "443" } else { "80" };
    let (path, query) = path.split_once('?').map_or((path, String::new()), |(path, query)| (path, format!("?{query}")));
    let at = |authority: &str| format!("{scheme}://{authority}/{path}{query}");
    let to = |path: &str| format!("{scheme}://{authority}{path}{query}");
    let upper = |text: &str| text.to_uppercase();
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let other_scheme = if scheme == "https" { "http" } else { "https" };

    let mut found = vec![
        // Case.
        uri.to_uppercase(),
        uri.replacen(scheme, &upper(scheme), 1),
        at(&upper(authority)),
        to(&format!("/{}", upper(path))),
        // Slashes.
        to(&format!("/{path}/")),
        to(&format!("//{path}")),
        to(&format!("/{path}//")),
        to(""),
        to("/"),
        format!("{scheme}:/{rest}"),
        format!("{scheme}:{rest}"),
        format!("{scheme}:///{rest}"),
        format!("{scheme}:////{rest}"),
        format!("//{rest}"),
        rest.to_owned(),
        format!("/{path}{query}"),
        format!("{path}{query}"),
        // Ports.
        at(&format!("{host}:{default}")),
        at(&format!("{host}:3001")),
        at(&format!("{host}:0{port}")),
        at(&format!("{host}:")),
        at(host),
        at(&format!("{authority}:{default}")),
        at(&format!("{host}:65536")),
        // User information.
        at(&format!("@{authority}")),
        at(&format!("user@{authority}")),
        at(&format!("user:password@{authority}")),
        at(&format!("{authority}@evil.example")),
        at(&format!("{host}%40evil.example")),
        at(&format!("evil.example%40{authority}")),
        at(&format!("evil.example\\@{authority}")),
        at(&format!("evil.example#@{authority}")),
        at(&format!("evil.example?@{authority}")),
        at(&format!("evil.example/@{authority}")),
        // Percent-encoding.
        uri.replacen(scheme, &encoded(scheme), 1),
        uri.replacen("://", "%3A%2F%2F", 1),
        at(&encoded(authority)),
        to(&format!("/{}", encoded(path))),
        to(&format!("/%{:02X}{}", path.as_bytes()[0], &path[1..])),
        to(&format!("/%25{:02x}{}", path.as_bytes()[0], &path[1..])),
        to(&format!("%2F{path}")),
        to(&format!("/{path}%2F")),
        to(&format!("/{path}%00")),
        to(&format!("/{path}%0d%0aX:%20y")),
        to(&format!("/{path}%20")),
        encoded(uri),
        // Fragments.
        format!("{uri}#"),
        format!("{uri}#fragment"),
        format!("{uri}%23"),
        format!("{uri}#/../evil"),
        format!("{scheme}://evil.example/#{uri}"),
        // Backslashes.
        uri.replace('/', "\\"),
        uri.replacen("://", ":\\\\", 1),
        uri.replacen("://", ":/\\", 1),
        to(&format!("\\{path}")),
        to(&format!("/{path}\\")),
        to(&format!("/{path}/..\\evil")),
        at(&format!("{authority}\\.evil.example")),
        at(&format!("{authority}\\@evil.example")),
        // Queries.
        format!("{uri}?"),
        format!("{uri}?x=1"),
        format!("{uri}&"),
        format!("{uri}&x=1"),
        format!("{uri}?tenant=two"),
        format!("{uri};x=1"),
        to(&format!("/{path}?tenant=two&next=")),
        // Dot segments.
        to(&format!("/./{path}")),
        to(&format!("/x/../{path}")),
        to(&format!("/../{path}")),
        to(&format!("/%2e%2e/{path}")),
        to(&format!("/{path}/.")),
        to(&format!("/{path}/..")),
        to(&format!("/{path}/../evil")),
        to(&format!("/{path}/%2e%2e/evil")),
        to(&format!("/{path}/..;/evil")),
        // Longer and shorter.
        format!("{uri}x"),
        format!("{uri}/evil"),
        format!("{uri}.evil.example"),
        format!("{uri}@evil.example"),
        format!("{uri},https://evil.example"),
        format!("{uri} https://evil.example"),
        format!("x{uri}"),
        format!("view-source:{uri}"),
        format!("{scheme}://evil.example/?{uri}"),
        format!("{scheme}://evil.example/{uri}"),
        uri[..uri.len() - 1].to_owned(),
        to(&format!("/{}", &path[..path.len() - 1])),
        // Hosts.
        at(&format!("{host}.evil.example:{port}")),
        at(&format!("{host}.:{port}")),
        at(&format!("evil-{authority}")),
        at(&format!("www.{authority}")),
        at(&format!("evil.example:{port}")),
        at(&format!("evil.example%2F.{authority}")),
        at(&format!("*.{authority}")),
        at(""),
        // Invisible characters.
        format!(" {uri}"),
        format!("{uri} "),
        format!("\t{uri}"),
        format!("{uri}\t"),
        format!("{uri}\n"),
        format!("{uri}\r\n"),
        format!("\u{0}{uri}"),
        format!("{uri}\u{0}"),
        format!("{uri}\u{0}.evil.example"),
        format!("\u{a0}{uri}"),
        format!("\u{feff}{uri}"),
        format!("{uri}\u{200b}"),
        format!("{}\t{}", &uri[..3], &uri[3..]),
        format!("{}\n{}", &uri[..12], &uri[12..]),
        // Letters that look alike, or are alike after normalization.
        uri.replacen('a', "\u{430}", 1),
        uri.replacen('a', "\u{ff41}", 1),
        uri.replacen('c', "\u{ff43}", 1),
        uri.replacen('/', "\u{2215}", 3),
        uri.replacen('.', "\u{3002}", 1),
        // Schemes.
        uri.replacen(scheme, other_scheme, 1),
        uri.replacen(scheme, "ftp", 1),
        uri.replacen(scheme, "app", 1),
        format!("javascript://{rest}"),
        format!("javascript:alert(1)//{uri}"),
        format!("data:text/html,{uri}"),
        format!("\"{uri}\""),
        format!("<{uri}>"),
        format!("[\"{uri}\"]"),
    ];
    found.extend(
        ["127.1", "127.0.0.01", "127.000.000.001", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.2", "0.0.0.0"]
            .map(|host| format!("http://{host}:3000/callback")),
    );
    found.extend(
        ["[0:0:0:0:0:0:0:1]", "[::0001]", "[::ffff:127.0.0.1]", "[::1%25eth0]", "[::]", "::1"]
            .map(|host| format!("http://{host}:3000/callback")),
    );
    found
}

/// Asserts that there is no redirect: the answer is an error page that repeats no part of the URI.
async fn assert_no_redirect(answer: Response, uri: &str, code: &str) {
    assert_eq!(answer.status(), 400, "{uri:?}");
    for header in [LOCATION, REFRESH, SET_COOKIE] {
        assert_eq!(answer.headers().get(&header), None, "{header} for {uri:?}");
    }
    assert!(answer.headers()[CONTENT_TYPE].to_str().expect("text").starts_with("text/html"), "{uri:?}");
    let page = answer.text().await.expect("text");
    assert!(page.contains(code), "{uri:?}: {page}");
    for part in ["evil", "example", "<form", "http-equiv", "<script"] {
        assert!(!page.contains(part), "{uri:?}: {page}");
    }
}

/// Sends a request with a wrong URI in every form of a request. The rest of the request may be
/// wrong too.
async fn assert_not_followed(client: &SignInTestClient, uri: &str) {
    for others in [
        vec![],
        vec![("prompt", "none")],
        vec![("response_type", "unknown"), ("response_mode", "form_post")],
        vec![("response_type", "id_token"), ("response_mode", "form_post"), ("prompt", "none")],
    ] {
        let changes = [&[("redirect_uri", uri)][..], &others].concat();
        let url = client.authorization_url(&changes);
        assert_no_redirect(client.get(&url, "text/html").await, uri, "invalid_redirect_uri").await;
        let answer = SignInAnswer::of(client.get(&url, "application/json").await).await;
        answer.expect_error(400, "invalid_redirect_uri", "invalid_request");
        let post = client.http.post(client.daemon.sign_in("/authorize")).header(ACCEPT, "text/html");
        let posted = post.form(&parameters(&changes)).send().await.expect("an answer");
        assert_no_redirect(posted, uri, "invalid_redirect_uri").await;
    }
}

#[tokio::test]
async fn other_spellings_of_a_redirect_uri_get_no_redirect() {
    let client = provider().await;
    let spellings: BTreeSet<String> = REGISTERED.iter().flat_map(|uri| spellings(uri)).collect();
    let others = spellings.iter().filter(|uri| !REGISTERED.contains(&uri.as_str()) && !uri.is_empty());
    let mut count = 0;
    for uri in others {
        assert_not_followed(&client, uri).await;
        count += 1;
    }
    assert!(count > 500, "{count}");
}

#[tokio::test]
async fn redirect_uris_that_are_not_utf8_get_no_redirect() {
    let client = provider().await;
    for encoded in [
        "http://localhost:3000/callback%ff",
        "http://localhost:3000/callback%00",
        "http://localhost:3000/callback%c0%af",
        "http://localhost:3000/callback%",
        "http://localhost:3000/callback%zz",
        "http://localhost:3000/callback+",
        "http://localhost:3000/callback;redirect_uri=http://evil.example",
        "http://localhost:3000/callback%26redirect_uri=http://evil.example",
        "http://localhost:3000%2fcallback%0a",
    ] {
        let query = format!("client_id={APP}&response_type=code&scope=openid&prompt=none&redirect_uri={encoded}");
        let url = client.daemon.sign_in(&format!("/authorize?{query}"));
        assert_no_redirect(client.get(&url, "text/html").await, encoded, "invalid_redirect_uri").await;
        let post = client.http.post(client.daemon.sign_in("/authorize")).header(ACCEPT, "text/html");
        let posted = post.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(query).send().await;
        assert_no_redirect(posted.expect("an answer"), encoded, "invalid_redirect_uri").await;
    }
}

#[tokio::test]
async fn two_redirect_uris_get_no_redirect() {
    let client = provider().await;
    let evil = "https://evil.example/callback";
    for (first, second) in [(CALLBACK, evil), (evil, CALLBACK), (CALLBACK, CALLBACK), (evil, evil)] {
        let changes = [("redirect_uri", first), ("redirect_uri", second), ("prompt", "none")];
        assert_no_redirect(
            client.get(&client.authorization_url(&changes), "text/html").await,
            first,
            "invalid_request",
        )
        .await;
        let post = client.http.post(client.daemon.sign_in("/authorize")).header(ACCEPT, "text/html");
        let posted = post.form(&parameters(&changes)).send().await.expect("an answer");
        assert_no_redirect(posted, first, "invalid_request").await;
    }
    // Two client ids are refused in the same way.
    let changes = [("client_id", APP), ("client_id", OTHER_APP)];
    assert_no_redirect(client.get(&client.authorization_url(&changes), "text/html").await, APP, "invalid_request")
        .await;
}

#[tokio::test]
async fn parameters_with_similar_names_are_ignored() {
    let client = provider().await;
    for name in ["Redirect_uri", "redirect_uri[]", "redirect_uri\0", " redirect_uri", "redirect-uri", "redirectUri"] {
        let changes = [(name, "https://evil.example/callback"), ("prompt", "none")];
        let answer = client.get(&client.authorization_url(&changes), "text/html").await;
        assert!(
            answer.headers()[LOCATION].to_str().expect("text").starts_with("http://localhost:3000/callback?error=")
        );
    }
    // The query of a posted request is ignored.
    let url = client.daemon.sign_in("/authorize?redirect_uri=https://evil.example/callback&state=evil");
    let post = client.http.post(url).header(ACCEPT, "text/html").form(&parameters(&[("prompt", "none")]));
    let answer = post.send().await.expect("an answer");
    let location = answer.headers()[LOCATION].to_str().expect("text");
    assert!(location.starts_with("http://localhost:3000/callback?error=") && !location.contains("evil"), "{location}");
}

#[tokio::test]
async fn applications_do_not_share_redirect_uris() {
    let client = provider().await;
    assert_not_followed(&client, "https://neighbour.example/callback").await;
    let changes = [("client_id", OTHER_APP), ("redirect_uri", REGISTERED[0])];
    assert_no_redirect(
        client.get(&client.authorization_url(&changes), "text/html").await,
        "a URI of the other application",
        "invalid_redirect_uri",
    )
    .await;
}

#[tokio::test]
async fn registered_redirect_uris_are_used_and_keep_their_query() {
    let client = SignInTestClient::start_with_keys(registered).await;
    for uri in REGISTERED {
        let answer =
            client.get(&client.authorization_url(&[("redirect_uri", uri), ("prompt", "none")]), "text/html").await;
        let location = answer.headers()[LOCATION].to_str().expect("text");
        let separator = if uri.contains('?') { '&' } else { '?' };
        assert!(location.starts_with(&format!("{uri}{separator}error=login_required")), "{location}");
        let location = client.sign_in("alice", &[("redirect_uri", uri), ("response_type", "code id_token")]).await;
        assert!(location.starts_with(&format!("{uri}#code=")), "{location}");
        let code = client.code("alice", &[("redirect_uri", uri)]).await;
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", uri)];
        assert_eq!(client.post("/token", &form).await.status, 200, "{uri}");
    }
    client.stop().await;
}

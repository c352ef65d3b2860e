//! The web wallet: how its files are served and to whom, its origin, which is for life, the links
//! of sign-in that lead to it, what its page may call at other interfaces, and the comparison of a
//! page with the program.

use std::path::Path;

use reqwest::header::{
    ACCEPT, ACCEPT_ENCODING, ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_ORIGIN, CACHE_CONTROL,
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, COOKIE, ETAG, HeaderMap, HeaderName,
    IF_NONE_MATCH, ORIGIN, VARY,
};
use reqwest::{Method, Response};
use selfsame::config::{Config, Environment, SignInProof};
use selfsame_interfaces::interface::Interface;
use selfsame_interfaces::web_wallet::digests;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::process::Child;
use tokio::task::JoinHandle;

use crate::harness::{Folder, TestDaemon, development_config, folder, in_time, program, run_for_status, until_true};
use crate::sign_in_client::{APP, SignInTestClient, browser};
use crate::wallet_interface::two_groups;

/// The addresses of the page.
const PAGES: [&str; 7] = ["/", "/join", "/replace", "/sign-in", "/prove", "/restore", "/about"];

/// A daemon, and a browser that keeps the bytes as they come.
struct PageClient {
    daemon: TestDaemon,
    http: reqwest::Client,
    _folder: Folder,
}

impl PageClient {
    async fn start(change: impl FnOnce(&mut Config)) -> Self {
        let folder = folder();
        let daemon = TestDaemon::start_with(folder.path(), change).await;
        Self { daemon, http: browser(), _folder: folder }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.daemon.addresses[Interface::Wallet])
    }

    async fn send(&self, method: Method, path: &str, headers: &[(HeaderName, &str)]) -> Response {
        let request = self.http.request(method, self.url(path));
        let request = headers.iter().fold(request, |request, (name, value)| request.header(name, *value));
        request.send().await.expect("an answer")
    }

    async fn get(&self, path: &str) -> Response {
        self.send(Method::GET, path, &[]).await
    }
}

/// A production daemon's settings with groups.
fn production(config: &mut Config) {
    two_groups(config);
    config.dev = false;
}

fn header(headers: &HeaderMap, name: HeaderName) -> &str {
    headers.get(name).map_or("", |value| value.to_str().expect("text"))
}

#[tokio::test]
async fn every_address_of_the_page_and_every_file_has_the_policies_of_the_page() {
    let client = PageClient::start(production).await;
    let of = |interface: Interface| format!("http://{}", client.daemon.addresses[interface]);
    let called = [Interface::SignIn, Interface::Bridge, Interface::Verification].map(of).join(" ");
    let policy = format!(
        "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; style-src 'self'; \
         img-src 'self' blob: data:; manifest-src 'self'; connect-src 'self' {called}; form-action 'none'; \
         base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types selfsame-wallet"
    );
    let files: Vec<_> = digests().map(|(path, _)| path).collect();
    assert!(files.len() > 10, "{files:?}");
    let page = client.get("/index.html").await.bytes().await.expect("the page");
    for path in PAGES.iter().chain(&files).chain(&["/wallet.json"]) {
        let answer = client.get(path).await;
        assert_eq!(answer.status(), 200, "{path}");
        let headers = answer.headers().clone();
        for (name, value) in [
            ("content-security-policy", policy.as_str()),
            ("referrer-policy", "no-referrer"),
            ("x-content-type-options", "nosniff"),
            ("cross-origin-opener-policy", "same-origin"),
            ("permissions-policy", "camera=(self)"),
            ("cache-control", "no-cache"),
        ] {
            assert_eq!(header(&headers, name.parse().expect("a name")), value, "{path}: {name}");
        }
        assert!(!headers.contains_key(ACCESS_CONTROL_ALLOW_ORIGIN) && !headers.contains_key("set-cookie"), "{path}");
        let bytes = answer.bytes().await.expect("a body");
        if PAGES.contains(path) {
            assert_eq!(bytes, page, "{path}");
        }
        if let Some((_, digest)) = digests().find(|(file, _)| file == path) {
            assert_eq!(<[u8; 32]>::from(Sha256::digest(&bytes)), digest, "{path}");
        }
    }
    let types = [
        ("/", "text/html; charset=utf-8"),
        ("/app.js", "text/javascript; charset=utf-8"),
        ("/style.css", "text/css; charset=utf-8"),
        ("/prover.wasm", "application/wasm"),
        ("/key.bin", "application/octet-stream"),
        ("/manifest.webmanifest", "application/manifest+json"),
        ("/icon.svg", "image/svg+xml"),
        ("/icon-192.png", "image/png"),
        ("/wallet.json", "application/json"),
    ];
    for (path, content_type) in types {
        assert_eq!(header(client.get(path).await.headers(), CONTENT_TYPE), content_type, "{path}");
    }
    client.daemon.stop().await;
}

#[tokio::test]
async fn a_browser_gets_the_compressed_form_of_a_file_and_keeps_it_while_it_is_the_same() {
    let client = PageClient::start(production).await;
    let get = async |path: &str, headers: &[(HeaderName, &str)]| {
        let answer = client.send(Method::GET, path, headers).await;
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        (status, headers, answer.bytes().await.expect("a body"))
    };
    let (_, plain, plain_bytes) = get("/prover.wasm", &[(ACCEPT_ENCODING, "gzip, br;q=0")]).await;
    assert_eq!((header(&plain, CONTENT_ENCODING), header(&plain, VARY)), ("", "Accept-Encoding"));
    let (_, small, small_bytes) = get("/prover.wasm", &[(ACCEPT_ENCODING, "gzip, deflate, br, zstd")]).await;
    assert_eq!((header(&small, CONTENT_ENCODING), header(&small, VARY)), ("br", "Accept-Encoding"));
    assert!(small_bytes.len() < plain_bytes.len() / 2, "{} {}", small_bytes.len(), plain_bytes.len());
    assert_ne!(header(&small, ETAG), header(&plain, ETAG), "each form has its tag");

    let tag = header(&small, ETAG).to_owned();
    for known in [tag.clone(), format!("W/{tag}"), format!("\"other\", {tag}"), "*".to_owned()] {
        let (status, headers, bytes) =
            get("/prover.wasm", &[(ACCEPT_ENCODING, "br"), (IF_NONE_MATCH, known.as_str())]).await;
        assert_eq!((status, bytes.len(), header(&headers, ETAG)), (304, 0, tag.as_str()), "{known}");
        assert!(!header(&headers, CONTENT_SECURITY_POLICY).is_empty(), "a browser replaces what it kept");
    }
    // The tag of the other form names another answer.
    let (status, _, _) = get("/prover.wasm", &[(IF_NONE_MATCH, tag.as_str())]).await;
    assert_eq!(status, 200);

    let key = client.send(Method::GET, "/key.bin", &[(ACCEPT_ENCODING, "br")]).await;
    assert_eq!((header(key.headers(), CONTENT_ENCODING), header(key.headers(), VARY)), ("", ""));
    let length = key.bytes().await.expect("the key").len().to_string();
    let head = client.send(Method::HEAD, "/key.bin", &[]).await;
    assert_eq!((head.status().as_u16(), header(head.headers(), CONTENT_LENGTH)), (200, length.as_str()));
    assert!(head.bytes().await.expect("no body").is_empty());
    assert_eq!(client.send(Method::POST, "/join", &[]).await.status(), 405);
    client.daemon.stop().await;
}

#[tokio::test]
async fn the_page_says_which_service_it_belongs_to() {
    let client = PageClient::start(|config| {
        production(config);
        config.urls[Interface::SignIn] = Some("https://id.example/a".to_owned());
        config.urls[Interface::Bridge] = Some("https://bridge.example".to_owned());
        config.urls[Interface::Verification] = Some("https://id.example/verify".to_owned());
        config.urls[Interface::Wallet] = Some("https://wallet.example".to_owned());
        config.sign_in.page.service_name = Some("The cooperative".parse().expect("a name"));
    })
    .await;
    let answer = client.get("/wallet.json").await;
    let policy = header(answer.headers(), CONTENT_SECURITY_POLICY).to_owned();
    assert!(policy.contains("connect-src 'self' https://id.example https://bridge.example; form-action"), "{policy}");
    assert_eq!(header(answer.headers(), HeaderName::from_static("strict-transport-security")), "max-age=31536000");
    let body: Value = answer.json().await.expect("JSON");
    assert_eq!(
        body,
        json!({
            "issuer": "https://id.example/a", "bridge": "https://bridge.example", "verify": "https://id.example/verify",
            "operator": "The cooperative", "simulator": null,
        })
    );
    client.daemon.stop().await;
}

#[tokio::test]
async fn for_development_the_page_has_the_simulators_person_without_a_group() {
    let client = PageClient::start(|_| {}).await;
    let operator: Value =
        client.http.get(client.daemon.operator("/simulator")).send().await.expect("sent").json().await.expect("JSON");
    let root: Value =
        client.http.get(client.daemon.indexer("/root")).send().await.expect("sent").json().await.expect("JSON");
    let answer = client.get("/wallet.json").await;
    assert_eq!(header(answer.headers(), CACHE_CONTROL), "no-store", "issuers' keys and the root change");
    let service: Value = answer.json().await.expect("JSON");
    let mut simulator = service["simulator"].clone();
    assert_eq!(simulator["root"], root["root"]);
    assert!(simulator["root"].as_str().is_some_and(|root| root.len() == 66), "{simulator}");
    simulator.as_object_mut().expect("an object").remove("root");
    assert_eq!(simulator, operator);
    assert_eq!((service["operator"].clone(), client.get("/").await.status().as_u16()), (Value::Null, 200));
    client.daemon.stop().await;
}

#[tokio::test]
async fn without_groups_and_at_an_address_of_others_there_is_no_page() {
    let without_groups = PageClient::start(|config| config.dev = false).await;
    let shared = PageClient::start(|config| {
        production(config);
        config.listen[Interface::Wallet] = config.listen[Interface::Indexer];
    })
    .await;
    for client in [&without_groups, &shared] {
        for path in PAGES.iter().chain(&["/app.js", "/wallet.json", "/key.bin"]) {
            assert_eq!(client.get(path).await.status(), 404, "{path}");
        }
        assert_eq!(client.get("/groups").await.status(), 200);
    }
    without_groups.daemon.stop().await;
    shared.daemon.stop().await;
}

#[tokio::test]
async fn the_page_may_read_who_asks_for_a_proof_and_nothing_more_of_verification() {
    let client = PageClient::start(|_| {}).await;
    let origin = client.url("");
    let ask = async |method: Method, url: String, body: &'static str| {
        let request = client.http.request(method, url).header(ORIGIN, &origin).header(CONTENT_TYPE, "application/json");
        request.body(body).send().await.expect("an answer")
    };
    let context = client.daemon.verify(&format!("/api/v4/proof-context/{APP}"));
    let preflight = ask(Method::OPTIONS, context.clone(), "").await;
    assert_eq!(preflight.status(), 204);
    assert_eq!(header(preflight.headers(), ACCESS_CONTROL_ALLOW_ORIGIN), "*");
    assert!(header(preflight.headers(), ACCESS_CONTROL_ALLOW_HEADERS).contains("Content-Type"));
    let answer = ask(Method::POST, context.clone(), r#"{"action": "vote"}"#).await;
    assert_eq!((answer.status().as_u16(), header(answer.headers(), ACCESS_CONTROL_ALLOW_ORIGIN)), (200, "*"));
    let refused = ask(Method::POST, context, "{").await;
    assert_eq!((refused.status().as_u16(), header(refused.headers(), ACCESS_CONTROL_ALLOW_ORIGIN)), (400, "*"));
    for (method, path) in [(Method::POST, "/api/v4/verify/"), (Method::GET, "/api/v4/app-status/")] {
        let answer = ask(method, client.daemon.verify(&format!("{path}{APP}")), "{}").await;
        assert!(!answer.headers().contains_key(ACCESS_CONTROL_ALLOW_ORIGIN), "{path}");
    }
    client.daemon.stop().await;
}

/// What the page calls at the issuer and at the bridge, answered to every origin and without
/// cookies.
#[tokio::test]
async fn the_page_may_call_the_issuer_and_the_bridge() {
    let client = PageClient::start(|_| {}).await;
    let bridge = format!("http://{}", client.daemon.addresses[Interface::Bridge]);
    let transaction = "0".repeat(32);
    for url in [
        client.daemon.sign_in("/jwks"),
        client.daemon.sign_in("/s/aaaaaaaaaaaaaaaa"),
        client.daemon.sign_in(&format!("/authorize/{transaction}/request")),
        client.daemon.sign_in(&format!("/authorize/{transaction}/proof")),
        format!("{bridge}/request/00000000000000000000000000000000"),
        format!("{bridge}/response/00000000000000000000000000000000"),
    ] {
        let preflight = client.http.request(Method::OPTIONS, &url).header(ORIGIN, client.url(""));
        let preflight = preflight.header("Access-Control-Request-Method", "POST").send().await.expect("an answer");
        let headers = preflight.headers();
        assert_eq!((preflight.status().as_u16(), header(headers, ACCESS_CONTROL_ALLOW_ORIGIN)), (204, "*"), "{url}");
        assert!(!headers.contains_key("access-control-allow-credentials"), "{url}");
    }
    client.daemon.stop().await;
}

// Links of sign-in.

/// An application that accepts a group alone, one with a link of its own, and one that accepts no
/// group.
fn three_applications(config: &mut Config) {
    two_groups(config);
    let mut member = config.apps[0].clone();
    member.proof = SignInProof::Legacy;
    member.accepted_identifiers = Some(vec!["members".to_owned()]);
    assert_eq!(member.sign_in_environment(), Environment::Staging);
    let mut linked = member.clone();
    linked.id = "app_staging_linked".to_owned();
    linked.wallet_link = Some("other://open?request={request}".parse().expect("a link"));
    let mut public = member.clone();
    public.id = "app_staging_public".to_owned();
    public.accepted_identifiers = None;
    config.apps = vec![member, linked, public];
}

/// The page of a sign-in and its short page, in the browser that began it.
async fn pages_of(client: &SignInTestClient, app: &str) -> (String, String) {
    let begun = client.authorize(&[("client_id", app)], "").await;
    let location = header(begun.headers(), reqwest::header::LOCATION).to_owned();
    let cookie = header(begun.headers(), reqwest::header::SET_COOKIE).split(';').next().expect("a pair").to_owned();
    let show = async |url: String| {
        let request = client.http.get(url).header(ACCEPT, "text/html").header(COOKIE, &cookie);
        request.send().await.expect("an answer").text().await.expect("text")
    };
    let page = show(client.daemon.sign_in(&location)).await;
    let short = page.split("href=\"").find(|rest| rest.starts_with(&format!("{}/s/", client.issuer())));
    let short = short.and_then(|rest| rest.split('"').next()).expect("the short address").to_owned();
    (page, show(short).await)
}

#[tokio::test]
async fn sign_ins_of_members_open_the_web_wallet_unless_the_configuration_has_another_link() {
    let client = SignInTestClient::start_with_keys(three_applications).await;
    let wallet = format!("http://{}", client.daemon.addresses[Interface::Wallet]);
    let issuer = client.issuer().replace(':', "%3A").replace('/', "%2F");
    let link = format!("href=\"{wallet}/sign-in?request={issuer}%2Fauthorize%2F");
    let (page, short) = pages_of(&client, APP).await;
    assert!(short.contains(&link) && short.contains("%2Frequest#here\""), "{short}");
    assert!(
        page.contains(&format!("href=\"{wallet}/join\"")) && page.contains("I don’t have an authenticator"),
        "{page}"
    );
    let (page, short) = pages_of(&client, "app_staging_linked").await;
    assert!(short.contains("href=\"other://open?request=") && !short.contains(&wallet), "{short}");
    assert!(!page.contains(&wallet), "{page}");
    let (page, short) = pages_of(&client, "app_staging_public").await;
    assert!(!short.contains(&wallet) && !page.contains(&wallet), "{short}");
    client.stop().await;

    let client = SignInTestClient::start_with_keys(|config| {
        three_applications(config);
        config.sign_in.wallet_link = Some("service://open?request={request}".parse().expect("a link"));
    })
    .await;
    let (page, short) = pages_of(&client, APP).await;
    assert!(short.contains("href=\"service://open?request=") && !page.contains("/join"), "{short}");
    client.stop().await;

    let client = SignInTestClient::start_with_keys(|config| {
        three_applications(config);
        let app = json!({"name": "Selfsame", "get_url": "https://example.org/get"});
        config.sign_in.page.authenticator = Some(serde_json::from_value(app).expect("an app"));
    })
    .await;
    let (page, _) = pages_of(&client, APP).await;
    assert!(page.contains("https://example.org/get") && !page.contains("/join"), "{page}");
    client.stop().await;
}

#[tokio::test]
async fn a_reload_gives_an_application_that_accepts_a_group_the_link() {
    let client = SignInTestClient::start_with_keys(|config| {
        three_applications(config);
        config.apps.retain(|app| app.id == APP);
        config.apps[0].accepted_identifiers = None;
    })
    .await;
    let wallet = format!("http://{}", client.daemon.addresses[Interface::Wallet]);
    assert!(!pages_of(&client, APP).await.1.contains(&wallet));
    let mut config = development_config(Path::new("unused"), three_applications);
    config.apps.retain(|app| app.id == APP);
    let links = selfsame::setup::wallet_links::read(&config).expect("links");
    let appearance = selfsame::setup::sign_in::appearance(&config).expect("an appearance");
    client.daemon.reloading.check(&config).expect("accepted");
    client.daemon.reloading.apply(&config).expect("applied");
    client.daemon.reloading.replace_logos_and_links(&appearance, &links);
    assert!(pages_of(&client, APP).await.1.contains(&wallet));
    client.stop().await;
}

// The origin.

fn at(url: &'static str) -> impl FnOnce(&mut Config) {
    move |config| {
        production(config);
        config.urls[Interface::Wallet] = Some(url.to_owned());
    }
}

#[tokio::test]
async fn the_origin_of_the_page_is_for_life_unless_the_configuration_says_that_it_moved() {
    let folder = folder();
    let data = folder.path();
    let (first, second) = ("https://wallet.example", "https://members.example");
    TestDaemon::start_with(data, at(first)).await.stop().await;
    // The same origin, written otherwise.
    TestDaemon::start_with(data, at("https://Wallet.example:443")).await.stop().await;
    for url in [second, "http://wallet.example", "https://wallet.example:8443"] {
        let refused = TestDaemon::start_error(data, at(url)).await;
        for part in
            ["urls.wallet_url: ", "is at https://wallet.example, ", url, "wallet.moved_from = \"https://wallet.ex"]
        {
            assert!(refused.contains(part), "{refused}");
        }
    }
    let moved = |from: &'static str| {
        move |config: &mut Config| {
            at(second)(config);
            config.wallet.moved_from = Some(from.parse().expect("an origin"));
        }
    };
    let refused = TestDaemon::start_error(data, moved("https://other.example")).await;
    assert!(refused.contains("is at https://wallet.example, "), "{refused}");
    // For development, and without groups, nothing is compared and nothing is written.
    TestDaemon::start_with(data, |config| config.urls[Interface::Wallet] = Some(second.to_owned())).await.stop().await;
    TestDaemon::start_with(data, moved(first)).await.stop().await;
    TestDaemon::start_with(data, at(second)).await.stop().await;
    let refused = TestDaemon::start_error(data, at(first)).await;
    assert!(refused.contains("is at https://members.example, "), "{refused}");

    let data = data.to_str().expect("text");
    let (status, text) = run_for_status(&["registry", "fsck", "--data", data], &[]);
    assert!(status.success(), "{text}");
    // A backup of the store has the origin, and so has what is restored from it.
    let elsewhere = crate::harness::folder();
    let (backup, restored) = (elsewhere.path().join("backup"), elsewhere.path().join("restored"));
    let (backup, restored) = (backup.to_str().expect("text"), restored.to_str().expect("text"));
    let daemon = TestDaemon::start_with(folder.path(), at(second)).await;
    let operator = daemon.operator("");
    let arguments = ["backup", backup, "--operator", &operator, "--data", data];
    let arguments: Vec<String> = arguments.map(str::to_owned).into();
    let made = tokio::task::spawn_blocking(move || {
        run_for_status(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), &[])
    });
    let (status, text) = made.await.expect("no panic");
    assert!(status.success(), "{text}");
    daemon.stop().await;
    let (status, text) = run_for_status(&["restore", backup, "--data", restored, "--clients-have-seen", "0"], &[]);
    assert!(status.success(), "{text}");
    let refused = TestDaemon::start_error(Path::new(restored), at(first)).await;
    assert!(refused.contains("is at https://members.example, "), "{refused}");
}

/// A production daemon in a process of its own, whose log is the file `log` in the folder; it ends
/// when it is dropped.
fn production_process(folder: &Path, wallet_url: &str, log: &Path) -> Child {
    let file = folder.join("selfsame.toml");
    let listen = Interface::ALL.map(|interface| {
        let (key, number) = (interface.listen_key(), 1 + interface as u8);
        format!("listen.{key} = '127.0.0.{number}:0'\n")
    });
    let data = folder.join("data");
    let text = format!(
        "data_dir = '{}'\nurls.wallet_url = '{wallet_url}'\ngroups = [{{ id = 'members', name = 'Members' }}]\n{}",
        data.display(),
        listen.concat()
    );
    std::fs::write(&file, text).expect("written");
    let log = std::fs::File::create(log).expect("a file");
    let mut command = tokio::process::Command::from(program());
    command.args(["serve", "--config"]).arg(file).stderr(log).kill_on_drop(true).spawn().expect("it starts")
}

#[tokio::test]
async fn the_first_start_logs_that_passkeys_belong_to_the_origin_and_another_origin_is_exit_status_78() {
    let folder = folder();
    let log = folder.path().join("log");
    let said = || {
        let text = std::fs::read_to_string(&log).expect("a log");
        text.matches("members' passkeys belong to this origin from now on").count()
    };
    for count in [1, 0] {
        let mut daemon = production_process(folder.path(), "https://wallet.example", &log);
        let socket = folder.path().join("data/operator.socket");
        until_true("the daemon serves", async || tokio::net::UnixStream::connect(&socket).await.is_ok()).await;
        let stopped = std::process::Command::new("kill").arg(daemon.id().expect("it runs").to_string()).status();
        assert!(stopped.expect("kill runs").success());
        assert!(in_time("the end of the daemon", daemon.wait()).await.expect("it ends").success());
        assert_eq!(said(), count);
    }
    let mut daemon = production_process(folder.path(), "https://members.example", &log);
    let status = in_time("the refusal", daemon.wait()).await.expect("it ends");
    let text = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(status.code(), Some(78), "{text}");
    assert!(text.contains("urls.wallet_url: ") && text.contains("set wallet.moved_from = "), "{text}");
}

// The comparison of a page with the program.

/// A host of the page's files that changes some answers of a daemon: `change` gets the path, the
/// head and the body.
fn altering(
    listener: TcpListener,
    upstream: String,
    change: impl Fn(&str, &mut String, &mut Vec<u8>) + Send + 'static,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        let http = browser();
        loop {
            let (mut stream, _) = listener.accept().await.expect("a connection");
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(stream.read_u8().await.expect("a request"));
            }
            let head = String::from_utf8(head).expect("a head");
            let path = head.split(' ').nth(1).expect("a path").to_owned();
            let answer = http.get(format!("{upstream}{path}")).send().await.expect("an answer");
            let policy = header(answer.headers(), CONTENT_SECURITY_POLICY).to_owned();
            let mut lines = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-security-policy: {policy}\r\n");
            let mut body = answer.bytes().await.expect("a body").to_vec();
            change(&path, &mut lines, &mut body);
            let head = format!("{lines}content-length: {}\r\n\r\n", body.len());
            stream.write_all(&[head.as_bytes(), &body].concat()).await.expect("written");
        }
    })
}

async fn check(url: &str, json: bool) -> (Option<i32>, String) {
    let url = url.to_owned();
    let checking = tokio::task::spawn_blocking(move || {
        let arguments = ["wallet-page", "check", &url, "--json"];
        run_for_status(&arguments[..if json { 4 } else { 3 }], &[])
    });
    let (status, text) = checking.await.expect("no panic");
    (status.code(), text)
}

#[tokio::test]
async fn a_page_is_compared_with_the_program_file_by_file() {
    let client = PageClient::start(production).await;
    let own = client.url("");
    let (status, text) = check(&own, false).await;
    assert_eq!(status, Some(0), "{text}");
    assert_eq!(text.matches("equal      /").count(), digests().count(), "{text}");
    assert!(text.contains("equal      Content-Security-Policy\n"), "{text}");
    let (status, text) = check(&format!("{own}/"), true).await;
    let checked: Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
    assert_eq!((status, &checked["is_equal"], &checked["policy"]["outcome"]), (Some(0), &json!(true), &json!("equal")));
    assert_eq!(checked["service"]["issuer"], client.daemon.sign_in(""));

    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let other = format!("http://{}", listener.local_addr().expect("an address"));
    let host = altering(listener, own.clone(), |path, head, body| match path {
        "/app.js" => body.extend(b"// more"),
        "/scan.js" => *head = head.replace("200 OK", "404 Not Found"),
        "/worker.js" => *head = head.replace("form-action 'none'; ", ""),
        _ => {}
    });
    let (status, text) = check(&other, false).await;
    assert_eq!(status, Some(1), "{text}");
    assert!(text.contains("different  /app.js  SHA-256 ") && text.contains("missing    /scan.js\n"), "{text}");
    assert!(text.contains("different  Content-Security-Policy of /worker.js: default-src"), "{text}");
    assert!(
        text.contains("equal      /\n") && text.contains("does not serve the web wallet of this program"),
        "{text}"
    );
    host.abort();

    let refused = [
        (client.daemon.sign_in(""), Some(1), "missing    /app.js"),
        (client.daemon.sign_in(""), Some(1), "missing    Content-Security-Policy\n"),
        ("http://127.0.0.1:1".to_owned(), Some(1), "no answer from http://127.0.0.1:1/wallet.json: "),
        ("http://wallet.example".to_owned(), Some(1), "write https"),
        (format!("{own}/join"), Some(1), "has a path"),
        ("wallet.example".to_owned(), Some(1), "give the address of a web wallet"),
    ];
    for (url, expected, part) in refused {
        let (status, text) = check(&url, false).await;
        assert!(status == expected && text.contains(part), "{url}: {status:?} {text}");
    }
    client.daemon.stop().await;
}

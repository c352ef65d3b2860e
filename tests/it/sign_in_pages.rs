//! The pages that end users see at sign-in: whose they are, their languages, the links that open an
//! authenticator, the button Cancel, and what a browser sees where nothing is.

use std::collections::BTreeSet;

use qrcode::QrCode;
use qrcode::render::svg;
use reqwest::header::{
    ACCEPT, ACCEPT_LANGUAGE, ALLOW, CACHE_CONTROL, CONTENT_LANGUAGE, CONTENT_SECURITY_POLICY, CONTENT_TYPE, LOCATION,
    ORIGIN, SET_COOKIE, VARY,
};
use reqwest::{Method, Response};
use selfsame::config::{AuthenticatorApp, Config};
use selfsame_protocol::sign_in::Language;
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use crate::certification::browser::posted_form;
use crate::harness::{TestDaemon, folder};
use crate::sign_in_client::{
    APP, CALLBACK, Form, SignInAnswer, SignInTestClient, accept_current_proofs, current_proof, fragment_or_query,
    parameters,
};

/// What browsers send.
const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

/// A sign-in whose page a browser shows.
struct BegunSignIn {
    base: String,
    cookie: String,
}

async fn begin(client: &SignInTestClient, changes: &[(&str, &str)]) -> BegunSignIn {
    let (cookie, base) = client.transaction_of_page(&client.browse(changes, "").await);
    BegunSignIn { base, cookie }
}

impl BegunSignIn {
    /// What the button of the page sends, with other headers.
    async fn cancel(&self, client: &SignInTestClient, headers: &[(&str, &str)]) -> Response {
        let mut request = client.http.post(format!("{}/cancel", self.base)).header(ACCEPT, BROWSER).form(&[]);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.send().await.expect("an answer")
    }

    async fn cancel_on_page(&self, client: &SignInTestClient) -> Response {
        let origin = client.issuer();
        let headers = [("Cookie", &*self.cookie), ("Origin", &*origin), ("Sec-Fetch-Site", "same-origin")];
        self.cancel(client, &headers).await
    }

    async fn refuse(&self, client: &SignInTestClient) -> SignInAnswer {
        let body = json!({"error": "access_denied"});
        client.send(client.http.post(format!("{}/proof", self.base)).json(&body)).await
    }

    async fn complete(&self, client: &SignInTestClient) -> Response {
        let request = client.http.get(format!("{}/complete", self.base)).header(ACCEPT, BROWSER);
        request.header("Cookie", &self.cookie).send().await.expect("an answer")
    }

    async fn progress(&self, client: &SignInTestClient) -> Value {
        let request = client.http.get(format!("{}/progress?wait=0", self.base)).header("Cookie", &self.cookie);
        client.send(request).await.body["state"].clone()
    }
}

/// Follows an answer to the page of the sign-in that began, in the same languages.
async fn show(client: &SignInTestClient, answer: Response, languages: Option<&str>) -> Response {
    if !header(&answer, LOCATION).starts_with("/authorize/") {
        return answer;
    }
    let cookie = header(&answer, SET_COOKIE).split(';').next().expect("a pair");
    let request = client.http.get(client.daemon.sign_in(header(&answer, LOCATION))).header("Cookie", cookie);
    let request = request.header(ACCEPT, BROWSER).header(ACCEPT_LANGUAGE, languages.unwrap_or_default());
    request.send().await.expect("an answer")
}

/// A page, as text.
async fn page(response: Response, status: u16) -> String {
    assert_eq!((response.status().as_u16(), header(&response, CONTENT_TYPE)), (status, "text/html; charset=utf-8"));
    assert!(header(&response, CONTENT_SECURITY_POLICY).starts_with("default-src 'none'"));
    response.text().await.expect("text")
}

fn header(response: &Response, name: impl reqwest::header::AsHeaderName) -> &str {
    response.headers().get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
}

#[tokio::test]
async fn a_cancelled_sign_in_goes_to_the_application() {
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        config.apps[0].redirect_uris.push("https://app.example/callback?kept=1".parse().expect("a redirect URI"));
    })
    .await;
    for (changes, start) in [
        (vec![], "http://localhost:3000/callback?error="),
        (vec![("redirect_uri", "https://app.example/callback?kept=1")], "https://app.example/callback?kept=1&error="),
        (vec![("response_type", "code id_token")], "http://localhost:3000/callback#error="),
        (vec![("response_mode", "fragment")], "http://localhost:3000/callback#error="),
        (vec![("response_mode", "form_post")], ""),
    ] {
        let begun = begin(&client, &changes).await;
        let opened = SignInSession::open(&format!("{}/request", begun.base)).await.expect("the sign-in starts");
        let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, "alice").await;

        let cancelled = begun.cancel_on_page(&client).await;
        assert_eq!(header(&cancelled, CACHE_CONTROL), "no-store");
        assert_eq!(header(&cancelled, SET_COOKIE), "", "no session, and the transaction can be cancelled again");
        let response = if start.is_empty() {
            let (action, fields) = posted_form(&page(cancelled, 200).await);
            assert_eq!(action, CALLBACK);
            fields
        } else {
            assert_eq!(cancelled.status(), 303);
            let location = header(&cancelled, LOCATION);
            assert!(location.starts_with(start), "{location}");
            fragment_or_query(location)
        };
        assert_eq!(response["error"], "access_denied");
        assert_eq!((&*response["state"], &*response["iss"]), ("the state", &*client.issuer()));
        assert!(response.keys().all(|name| !["code", "id_token"].contains(&name.as_str())), "{response:?}");

        // Nothing comes after it.
        assert_eq!(begun.progress(&client).await, "over");
        let late = client.send(client.http.post(format!("{}/proof", begun.base)).json(&proof)).await;
        let detail = late.expect_error(400, "invalid_request", "invalid_request");
        assert_eq!(detail, "this sign-in has been answered; begin another one");
        begun.refuse(&client).await.expect_error(400, "invalid_request", "invalid_request");
        // The application gets the same again.
        for again in [begun.complete(&client).await, begun.cancel_on_page(&client).await] {
            let again = if start.is_empty() {
                posted_form(&page(again, 200).await).1
            } else {
                fragment_or_query(header(&again, LOCATION))
            };
            assert_eq!(again, response);
        }
    }
    client.stop().await;
}

#[tokio::test]
async fn only_the_page_of_a_sign_in_cancels_it() {
    let client = SignInTestClient::start().await;
    let begun = begin(&client, &[]).await;
    let other = begin(&client, &[]).await;
    let (cookie, origin, wrong) = (&*begun.cookie, &*client.issuer(), format!("{}x", begun.cookie));
    for (headers, status, text) in [
        // A form of another site comes without the cookie.
        (vec![], 404, "began in another browser"),
        (vec![("Origin", origin), ("Sec-Fetch-Site", "same-origin")], 404, "began in another browser"),
        (vec![("Cookie", &*other.cookie)], 404, "began in another browser"),
        (vec![("Cookie", &*wrong)], 404, "began in another browser"),
        // One of a neighbouring host comes with it.
        (vec![("Cookie", cookie), ("Sec-Fetch-Site", "same-site"), ("Origin", origin)], 400, "Another site"),
        (vec![("Cookie", cookie), ("Sec-Fetch-Site", "cross-site")], 400, "Another site"),
        (vec![("Cookie", cookie), ("Origin", "http://localhost:3000")], 400, "Another site"),
        (vec![("Cookie", cookie), ("Origin", "null")], 400, "Another site"),
    ] {
        let refused = begun.cancel(&client, &headers).await;
        assert_eq!(refused.headers().get(LOCATION), None, "{headers:?}");
        let text_of_page = page(refused, status).await;
        assert!(text_of_page.contains(text), "{headers:?}: {text_of_page}");
    }
    for method in [Method::GET, Method::PUT] {
        let request = client.http.request(method, format!("{}/cancel", begun.base)).header("Cookie", cookie);
        let refused = client.send(request).await;
        refused.expect_error(405, "method_not_allowed", "invalid_request");
        assert_eq!(refused.header(ALLOW), "POST");
    }
    assert_eq!(begun.progress(&client).await, "waiting");
    // A program has the secret of its own sign-in.
    let json_form = client.http.get(client.authorization_url(&[])).header(ACCEPT, "application/json");
    let started = client.send(json_form).await;
    let url = client.daemon.sign_in(&format!("/authorize/{}/cancel", started.text("transaction")));
    let wrong = client.send(client.http.post(&url).bearer_auth("wrong")).await;
    wrong.expect_error(404, "not_found", "invalid_request");
    let done = client.http.post(&url).bearer_auth(started.text("secret")).send().await.expect("an answer");
    assert_eq!(fragment_or_query(header(&done, LOCATION))["error"], "access_denied");
    // The page's own button still works.
    assert_eq!(begun.cancel_on_page(&client).await.status(), 303);
    client.stop().await;
}

#[tokio::test]
async fn a_sign_in_that_was_answered_is_not_cancelled() {
    let client = SignInTestClient::start().await;
    let begun = begin(&client, &[]).await;
    begun.refuse(&client).await;
    let late = page(begun.cancel_on_page(&client).await, 400).await;
    assert!(late.contains("nothing to cancel"), "{late}");
    assert_eq!(begun.progress(&client).await, "answered");
    assert_eq!(begun.complete(&client).await.status(), 303);
    let done = begun.cancel_on_page(&client).await;
    assert_eq!(fragment_or_query(header(&done, LOCATION))["error"], "access_denied", "what it was completed with");
    client.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_cancellation_and_an_answer_that_race_one_counts() {
    let client = SignInTestClient::start().await;
    let mut winners = BTreeSet::new();
    for round in 0..60 {
        let begun = begin(&client, &[]).await;
        let answers = async {
            let delay = if round % 2 == 0 { 0 } else { round % 7 };
            for _ in 0..delay {
                tokio::task::yield_now().await;
            }
            begun.refuse(&client).await
        };
        let cancels = || begun.cancel_on_page(&client);
        let (one, answered, other) = tokio::join!(cancels(), answers, cancels());
        let cancelled = [&one, &other].into_iter().filter(|answer| answer.status() == 303).count();
        let counted = usize::from(answered.status == 200);
        // Both cancellations get the same response, or none.
        assert_eq!(cancelled, 2 * (1 - counted), "round {round}: {answered:?}, {one:?}, {other:?}");
        let completed = begun.complete(&client).await;
        let response = fragment_or_query(header(&completed, LOCATION));
        let why = if counted == 1 { "the person refused" } else { "the person cancelled the sign-in" };
        assert_eq!(response["error_description"], why, "round {round}");
        winners.insert(counted);
    }
    assert!(!winners.is_empty());
    client.stop().await;
}

#[tokio::test]
async fn a_browser_gets_a_page_where_nothing_is_under_way() {
    let client = SignInTestClient::start().await;
    let begun = begin(&client, &[]).await;
    client.daemon.clock.advance(std::time::Duration::from_secs(3901));
    let unknown = client.daemon.sign_in(&format!("/authorize/{}", "0".repeat(32)));
    for base in [&begun.base, &unknown, &client.daemon.sign_in("/authorize/nonsense")] {
        let url = format!("{base}/request");
        let text = page(client.get(&url, BROWSER).await, 404).await;
        assert!(text.contains("This code is no longer valid") && text.contains("begin again"), "{text}");
        let head = client.http.head(&url).header(ACCEPT, BROWSER).send().await.expect("an answer");
        assert_eq!((head.status().as_u16(), header(&head, CONTENT_TYPE)), (404, "text/html; charset=utf-8"));
        for accept in ["application/json", "*/*", "application/json, text/html"] {
            let refused = SignInAnswer::of(client.get(&url, accept).await).await;
            refused.expect_error(404, "not_found", "invalid_request");
        }
    }
    let root = client.daemon.sign_in("/");
    let text = page(client.get(&root, BROWSER).await, 200).await;
    assert!(text.contains("href=\"/session\""), "{text}");
    for accept in ["application/json", "*/*"] {
        SignInAnswer::of(client.get(&root, accept).await).await.expect_error(404, "not_found", "invalid_request");
    }
    for (accept, status) in [(BROWSER, 200), ("*/*", 404)] {
        let head = client.http.head(&root).header(ACCEPT, accept).send().await.expect("an answer");
        assert_eq!(head.status(), status);
        assert!(!header(&head, "content-length").is_empty());
    }
    let posted = client.send(client.http.post(&root).header(ACCEPT, BROWSER)).await;
    assert_eq!((posted.status, posted.header(ALLOW)), (405, "GET, HEAD"), "a page: {posted:?}");
    client.stop().await;
}

/// At an address of both interfaces `/` is the operator's page, as it was.
#[tokio::test]
async fn the_operators_page_stays_at_the_root_of_a_shared_address() {
    let folder = folder();
    let daemon = TestDaemon::start_with(folder.path(), |config| {
        use selfsame_interfaces::interface::Interface;
        config.listen[Interface::SignIn] = "127.0.0.1:0".parse().expect("an address");
        config.listen[Interface::Operator] = config.listen[Interface::SignIn];
    })
    .await;
    let answer = crate::sign_in_client::browser().get(daemon.sign_in("/")).header(ACCEPT, BROWSER);
    let text = answer.send().await.expect("an answer").text().await.expect("text");
    assert!(text.contains("<title>Selfsame</title>"), "{text}");
    daemon.stop().await;
}

#[tokio::test]
async fn pages_are_in_the_language_of_the_person() {
    let client = SignInTestClient::start().await;
    let url = |changes: &[(&str, &str)]| client.authorization_url(changes);
    let bad = [("redirect_uri", "https://elsewhere.example/")];
    for (url, accepted, expected, text) in [
        (url(&[]), None, "en", "Sign in to "),
        (url(&[]), Some("de-AT,de;q=0.9,en;q=0.1"), "de", "Anmelden bei "),
        (url(&[]), Some("nl;q=1, ja;q=0.5, en;q=0.4"), "ja", "サインイン"),
        (url(&[("ui_locales", "pt-BR es")]), Some("de"), "pt", "Entrar em "),
        (url(&[("ui_locales", "nl")]), Some("es"), "es", "Iniciar sesión en "),
        (url(&bad), Some("fr"), "fr", "Cette connexion ne peut pas commencer"),
        (url(&[bad[0], ("ui_locales", "de")]), Some("fr"), "de", "Diese Anmeldung kann nicht beginnen"),
        (client.daemon.sign_in("/logout?ui_locales=es"), Some("fr"), "es", "La sesión está cerrada"),
        (client.daemon.sign_in("/session"), Some("ja"), "ja", "サインイン先"),
        (client.daemon.sign_in("/"), Some("de;q=0.2,es;q=0.8"), "es", "Inicio de sesión para personas"),
        (client.daemon.sign_in("/authorize/x/request"), Some("pt"), "pt", "Este código não vale mais"),
        (
            client.daemon.sign_in("/authorize/x/complete?ui_locales=ja"),
            Some("pt"),
            "ja",
            "このコードは無効になりました",
        ),
    ] {
        let mut request = client.http.get(&url).header(ACCEPT, BROWSER);
        if let Some(accepted) = accepted {
            request = request.header(ACCEPT_LANGUAGE, accepted);
        }
        let answer = show(&client, request.send().await.expect("an answer"), accepted).await;
        assert_eq!((header(&answer, CONTENT_LANGUAGE), header(&answer, VARY)), (expected, "Accept-Language"), "{url}");
        let page = answer.text().await.expect("text");
        assert!(
            page.contains(&format!("<html lang=\"{expected}\" dir=\"ltr\">")) && page.contains(text),
            "{url}: {page}"
        );
    }
    // A form has its parameters in the body, and a list may be in several lines.
    let posted = client.http.post(client.daemon.sign_in("/authorize")).header(ACCEPT, BROWSER);
    let posted = posted.form(&parameters(&[("ui_locales", "fr")])).send().await.expect("an answer");
    let posted = show(&client, posted, None).await;
    assert_eq!(header(&posted, CONTENT_LANGUAGE), "fr");
    let text = posted.text().await.expect("text");
    for path in ["/complete?ui_locales=fr\"", "/cancel?ui_locales=fr\""] {
        assert!(text.contains(path), "{path}: {text}");
    }
    let lines = client.http.get(url(&[])).header(ACCEPT, BROWSER).header(ACCEPT_LANGUAGE, "nl");
    let lines = lines.header(ACCEPT_LANGUAGE, "de").send().await.expect("an answer");
    assert_eq!(header(&show(&client, lines, Some("nl, de")).await, CONTENT_LANGUAGE), "de");
    // What the application gets is English; the detail on a page says that it is.
    let sent = client.http.get(url(&[("scope", "email"), ("ui_locales", "de")])).header(ACCEPT, BROWSER);
    let sent = fragment_or_query(header(&sent.send().await.expect("an answer"), LOCATION));
    assert_eq!(sent["error_description"], "scope must include openid");
    let shown = client.get(&url(&[bad[0], ("ui_locales", "de")]), BROWSER).await.text().await.expect("text");
    assert!(shown.contains("<dd lang=\"en\">redirect_uri is not one of those registered"), "{shown}");
    let discovery = client.get(&client.daemon.sign_in("/.well-known/openid-configuration"), "*/*").await;
    assert_eq!(SignInAnswer::of(discovery).await.body["ui_locales_supported"], json!(Language::SUPPORTED));
    client.stop().await;
}

/// In one line the page says what it does not receive, also where a scope gives a stand-in.
#[tokio::test]
async fn the_page_says_what_the_application_receives() {
    let client = SignInTestClient::start().await;
    for (scope, has_stand_ins) in [("openid", false), ("openid email", true), ("openid profile", true)] {
        let text = client.browse(&[("scope", scope)], "").await.text().await.expect("text");
        assert!(text.contains("does not receive your name, your email address"), "{scope}: {text}");
        assert_eq!(text.contains("stand-ins that are not yours"), has_stand_ins, "{scope}: {text}");
    }
    client.stop().await;
}

/// The QR code of a text as it is in a page.
fn qr_code(text: &str) -> String {
    let code = QrCode::new(text).expect("short enough");
    let image = code.render::<svg::Color<'_>>().min_dimensions(220, 220).quiet_zone(true).build();
    image[image.find("<svg").expect("an element")..].to_owned()
}

#[tokio::test]
async fn button_and_code_have_the_link_to_the_authenticator() {
    let settings: [fn(&mut Config); 3] = [
        |_| {},
        |config| config.sign_in.wallet_link = Some("wallet://open?a=1&request={request}".parse().expect("a link")),
        |config| {
            config.sign_in.wallet_link = Some("wallet://open?request={request}".parse().expect("a link"));
            config.apps[0].wallet_link = Some("https://wallet.example/#{request}".parse().expect("a link"));
        },
    ];
    for (number, change) in settings.into_iter().enumerate() {
        let client = SignInTestClient::start_with_keys(|config| {
            accept_current_proofs(config);
            change(config);
        })
        .await;
        let shown = client.browse(&[], "").await;
        let (cookie, base) = client.transaction_of_page(&shown);
        let text = shown.text().await.expect("text");
        let short = text.split("href=\"").find(|rest| rest.contains("/s/") && rest.starts_with("http"));
        let short = short.and_then(|rest| rest.split('"').next()).expect("the short address").to_owned();
        assert_eq!(text.matches(&qr_code(&short)).count(), 1, "{short}: {text}");
        // The way back leads to the same page.
        assert!(!text.contains("target="), "{text}");
        let request = format!("{base}/request");
        let encoded = request.replace(':', "%3A").replace('/', "%2F");
        for (cookie, fragment) in [(&*cookie, "#here"), ("", "#there")] {
            let asked = client.http.get(&short).header(ACCEPT, BROWSER).header("Cookie", cookie);
            let text = page(asked.send().await.expect("an answer"), 200).await;
            let expected = match number {
                // Without a link of a wallet the address is there to copy.
                0 => format!(">{request}{fragment}<"),
                1 => format!("href=\"wallet://open?a=1&amp;request={encoded}{fragment}\""),
                _ => format!("href=\"https://wallet.example/#{encoded}{fragment}\""),
            };
            assert!(text.contains(&expected), "{expected}: {text}");
        }
        client.stop().await;
    }
}

const SVG: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\"><script>alert(1)</script></svg>";
const PNG: &[u8] = b"\x89PNG\r\n\x1a\nand more";

#[tokio::test]
async fn pages_name_who_runs_them() {
    let files = folder();
    let (svg, png) = (files.path().join("logo.svg"), files.path().join("logo.png"));
    std::fs::write(&svg, SVG).expect("written");
    std::fs::write(&png, PNG).expect("written");
    let client = SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        let page = &mut config.sign_in.page;
        page.service_name = Some("Example <Identity>".parse().expect("a name"));
        page.contact = Some("mailto:help@example.org".parse().expect("an address"));
        page.privacy_url = Some("https://example.org/privacy?a=1&b=2".parse().expect("a URL"));
        page.terms_url = Some("https://example.org/terms".parse().expect("a URL"));
        page.accent_colour = Some("#ffd600".parse().expect("a colour"));
        page.logo_file = Some(svg.clone());
        page.authenticator = Some(AuthenticatorApp {
            name: "World App".parse().expect("a name"),
            logo_file: Some(png.clone()),
            get_url: None,
            help_url: None,
        });
        config.apps[0].logo_file = Some(png.clone());
    })
    .await;
    let host = client.issuer().replace("http://", "");
    let begun = begin(&client, &[]).await;
    let short = client.get(&format!("{}/request", begun.base), BROWSER).await;
    let short = client.daemon.sign_in(header(&short, LOCATION));
    for path in [client.authorization_url(&[]), short, client.daemon.sign_in("/session")] {
        let text = client.show_page(client.get(&path, BROWSER).await).await.text().await.expect("text");
        for part in [
            "<strong>Example &lt;Identity&gt;</strong>",
            &format!("<span class=\"host\">{host}</span>"),
            "Run by Example &lt;Identity&gt;",
            "href=\"https://example.org/privacy?a=1&amp;b=2\"",
            "href=\"https://example.org/terms\"",
            "href=\"mailto:help@example.org\"",
            "src=\"/sign-in-logo\"",
        ] {
            assert!(text.contains(part), "{path}: {part}: {text}");
        }
        let logo_of_app = format!("src=\"/sign-in-logo/{APP}\"");
        assert_eq!(text.contains(&logo_of_app), !path.contains("/session"), "{path}: {text}");
    }
    let file = async |path: &str| client.get(&client.daemon.sign_in(path), "*/*").await;
    for (path, content_type, content) in [
        ("/sign-in-logo", "image/svg+xml", SVG.as_bytes()),
        ("/sign-in-authenticator-logo", "image/png", PNG),
        (&format!("/sign-in-logo/{APP}"), "image/png", PNG),
    ] {
        let logo = file(path).await;
        assert_eq!((logo.status().as_u16(), header(&logo, CONTENT_TYPE)), (200, content_type));
        let policy = "default-src 'none'; style-src 'unsafe-inline'; sandbox";
        assert_eq!(header(&logo, CONTENT_SECURITY_POLICY), policy, "a script in a logo never runs");
        assert_eq!(header(&logo, "x-content-type-options"), "nosniff");
        assert_eq!(logo.bytes().await.expect("a body"), content);
    }
    for path in ["/sign-in-logo/app_none", "/sign-in-logo/%00", "/sign-in-logo/a/b"] {
        SignInAnswer::of(file(path).await).await.expect_error(404, "not_found", "invalid_request");
    }
    let style = file("/sign-in.css").await.text().await.expect("text");
    assert!(style.contains("--accent: #ffd600; --on-accent: #000000;"), "{style}");
    client.stop().await;

    let client = SignInTestClient::start().await;
    let text = client.browse(&[], "").await.text().await.expect("text");
    assert!(!text.contains("<footer") && !text.contains("<img") && !text.contains("<strong"), "{text}");
    for path in ["/sign-in-logo", "/sign-in-authenticator-logo"] {
        let missing = client.get(&client.daemon.sign_in(path), "*/*").await;
        SignInAnswer::of(missing).await.expect_error(404, "not_found", "invalid_request");
    }
    let foreign = client.http.get(client.authorization_url(&[])).header(ACCEPT, BROWSER).header(ORIGIN, "null");
    assert_eq!(foreign.send().await.expect("an answer").status(), 303);
    client.stop().await;
}

#[tokio::test]
async fn a_logo_that_cannot_be_used_stops_the_start() {
    let folder = folder();
    let error = TestDaemon::start_error(folder.path(), |config| {
        config.sign_in.page.logo_file = Some("/nowhere/logo.svg".into());
    })
    .await;
    assert!(error.contains("sign_in.page.logo_file: /nowhere/logo.svg: No such file"), "{error}");
}

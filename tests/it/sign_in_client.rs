//! A client of sign-in: a daemon, a relying party, and its users' browsers and wallets.

use std::collections::BTreeMap;
use std::path::Path;

use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use reqwest::header::{ACCEPT, CONTENT_TYPE, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, Url};
use selfsame::config::{Config, SecretHash, SignInProof};
use selfsame_protocol::verification::Environment;
use selfsame_wallet::client::{Client, ClientError};
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use selfsame_wallet::sign_in::{AskedProof, Place, SignInSession};
use serde_json::{Value, json};

use crate::harness::{Folder, TestDaemon, copy_folder, exclusive, folder, until};
use crate::test_accounts::person_of;

pub const APP: &str = "app_staging_5e1f5a3e000000000000000000000001";
/// The same application in production.
pub const PRODUCTION_APP: &str = "app_5e1f5a3e000000000000000000000002";
/// The secret of both applications.
pub const SECRET: &str = "sk_dev_only";
/// Another application that takes the same proofs as [`APP`]. It exists only when [`add_other_app`]
/// adds it.
pub const OTHER_APP: &str = "app_staging_5e1f5a3e000000000000000000000003";
pub const OTHER_APP_SECRET: &str = "sk_of_the_other_app";
pub const CALLBACK: &str = "http://localhost:3000/callback";
pub const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
pub const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

/// A relying party with its users' browsers and wallets, and the daemon that it uses.
pub struct SignInTestClient {
    pub daemon: TestDaemon,
    pub http: reqwest::Client,
    pub folder: Folder,
}

/// The parameters of an authorization request.
pub fn parameters<'a>(changes: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let usual = [
        ("client_id", APP),
        ("redirect_uri", CALLBACK),
        ("response_type", "code"),
        ("scope", "openid email profile"),
        ("state", "the state"),
        ("nonce", "the nonce"),
    ];
    let kept = usual.into_iter().filter(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
    kept.chain(changes.iter().copied()).collect()
}

/// Makes the applications take the simulator's proofs, which are cheap to make.
pub fn accept_current_proofs(config: &mut Config) {
    config.apps.iter_mut().for_each(|app| app.proof = SignInProof::Current);
}

/// Adds [`OTHER_APP`], with a secret and a redirect URI of its own besides the usual ones.
pub fn add_other_app(config: &mut Config) {
    let mut app = config.apps[0].clone();
    app.id = OTHER_APP.to_owned();
    app.client_secret_hash = Some(SecretHash::of([7; 16], OTHER_APP_SECRET));
    app.redirect_uris.push("https://neighbour.example/callback".parse().expect("a redirect URI"));
    config.apps.push(app);
    let mut application = config.relying_parties[0].clone();
    application.app_id = OTHER_APP.to_owned();
    config.relying_parties.push(application);
}

/// A daemon with two applications.
pub async fn two_applications() -> SignInTestClient {
    SignInTestClient::start_with_keys(|config| {
        accept_current_proofs(config);
        add_other_app(config);
    })
    .await
}

/// The name and value of a cookie that the daemon set.
pub fn pair(cookie: Option<String>) -> String {
    cookie.expect("a cookie").split(';').next().expect("a pair").to_owned()
}

impl SignInTestClient {
    /// Starts a daemon whose applications take the simulator's proofs.
    pub async fn start() -> Self {
        Self::start_with_keys(accept_current_proofs).await
    }

    /// Starts a daemon on a store that already has signing keys: making them is most of the work of
    /// a short test.
    pub async fn start_with_keys(change: impl FnOnce(&mut Config)) -> Self {
        let folder = folder();
        copy_store_with_keys(folder.path()).await;
        Self::start_in(folder, change).await
    }

    /// Starts a daemon on the store in `folder`; it makes signing keys when there are none.
    pub async fn start_in(folder: Folder, change: impl FnOnce(&mut Config)) -> Self {
        let daemon = TestDaemon::start_with(folder.path(), change).await;
        Self { daemon, http: browser(), folder }
    }

    /// Stops the daemon, then removes its store.
    pub async fn stop(self) {
        let Self { daemon, http, folder } = self;
        drop(http);
        daemon.stop().await;
        drop(folder);
    }

    pub fn issuer(&self) -> String {
        self.daemon.sign_in("")
    }

    /// The daemon's clock in Unix seconds.
    pub fn now(&self) -> u64 {
        use selfsame_actors::Clock;
        self.daemon.clock.unix_seconds().0
    }

    pub fn authorization_url(&self, changes: &[(&str, &str)]) -> String {
        let url = Url::parse_with_params(&self.daemon.sign_in("/authorize"), parameters(changes)).expect("a URL");
        url.into()
    }

    pub async fn get(&self, url: &str, accept: &str) -> Response {
        self.http.get(url).header(ACCEPT, accept).send().await.expect("an answer")
    }

    /// Lets `person` answer a sign-in of the JSON form; returns where the browser is sent, or what
    /// it posts.
    pub async fn sign_in(&self, person: &str, changes: &[(&str, &str)]) -> String {
        let session = SignInSession::open(&self.authorization_url(changes)).await.expect("the sign-in starts");
        self.answer(&session, person).await.expect("accepted");
        session.complete().await.expect("completed").expect("a target")
    }

    pub async fn answer(&self, session: &SignInSession, person: &str) -> Result<(), ClientError> {
        let body = self.proof(session, person).await;
        session.answer_from(session.request(), &body, Place::Unsaid).await.map(drop)
    }

    /// The proof of `person` that a sign-in asks for, also a legacy one.
    pub async fn proof(&self, session: &SignInSession, person: &str) -> Value {
        if !session.request().is_legacy() {
            return current_proof(&self.daemon.operator(""), &self.daemon.client(), session, person).await;
        }
        let operator = Operator::new(&self.daemon.operator("")).expect("an address");
        let request = prove::legacy(&person_of(person), &wanted(session), &mut random()).expect("a proof");
        let trust = || {
            let folder = self.folder.path();
            operator.trust_simulated_root(request.root, Environment::Staging, prove::LEGACY_IDENTIFIER, folder)
        };
        // A test may let one write fail, and this one is not its subject.
        if trust().await.is_err() {
            trust().await.expect("trusted");
        }
        request.body
    }

    /// Signs `person` in; returns the code.
    pub async fn code(&self, person: &str, changes: &[(&str, &str)]) -> String {
        fragment_or_query(&self.sign_in(person, changes).await)["code"].clone()
    }

    pub async fn post(&self, path: &str, form: &[(&str, &str)]) -> SignInAnswer {
        self.post_as(APP, SECRET, path, form).await
    }

    /// The same as another client.
    pub async fn post_as(&self, client_id: &str, secret: &str, path: &str, form: &[(&str, &str)]) -> SignInAnswer {
        self.send(self.http.post(self.daemon.sign_in(path)).basic_auth(client_id, Some(secret)).form(form)).await
    }

    pub async fn send(&self, request: RequestBuilder) -> SignInAnswer {
        SignInAnswer::of(request.send().await.expect("an answer")).await
    }

    pub async fn exchange(&self, code: &str) -> SignInAnswer {
        let form = [("grant_type", "authorization_code"), ("code", code), ("redirect_uri", CALLBACK)];
        self.post("/token", &form).await
    }

    /// Changes the signing key through the operator interface.
    pub async fn rotate_keys(&self, body: &str, token: &str) -> SignInAnswer {
        let request = self.http.post(self.daemon.operator("/keys/rotate")).bearer_auth(token);
        self.send(request.header(CONTENT_TYPE, "application/json").body(body.to_owned())).await
    }

    /// The operator's token, which changing requests carry.
    pub fn operator_token(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("operator.token")).expect("the token");
        text.trim().to_owned()
    }

    /// The published keys.
    pub async fn published_keys(&self) -> Value {
        SignInAnswer::of(self.get(&self.daemon.sign_in("/jwks"), "*/*").await).await.body
    }

    /// The claims of an ID token, its signature verified with the published keys.
    pub async fn claims(&self, token: &str) -> Value {
        self.claims_for(APP, token).await
    }

    /// The same for another client.
    pub async fn claims_for(&self, client_id: &str, token: &str) -> Value {
        verified(token, &self.published_keys().await, &self.issuer(), client_id)
    }

    /// Signs `person` in through the page, as a browser with this session does; returns where the
    /// browser is sent, and the session cookie it got.
    pub async fn sign_in_by_page(
        &self,
        person: &str,
        changes: &[(&str, &str)],
        session: &str,
    ) -> (String, Option<String>) {
        let page = self.browse(changes, session).await;
        let done = self.answer_page(page, person, session).await;
        let location = done.headers()[LOCATION].to_str().expect("text").to_owned();
        let given = done.headers().get(SET_COOKIE).map(|cookie| cookie.to_str().expect("text").to_owned());
        (location, given)
    }

    /// Lets `person` answer the page of a sign-in; returns the answer to the browser's next
    /// request.
    pub async fn answer_page(&self, page: Response, person: &str, session: &str) -> Response {
        let (cookie, base) = self.transaction_of_page(&page);
        let opened = SignInSession::open(&format!("{base}/request")).await.expect("the sign-in starts");
        self.answer(&opened, person).await.expect("accepted");
        let cookies = format!("{cookie}; {session}");
        self.http.get(format!("{base}/complete")).header("Cookie", cookies).send().await.expect("an answer")
    }

    /// The cookie of a page's transaction, and the transaction's URL.
    pub fn transaction_of_page(&self, page: &Response) -> (String, String) {
        assert_eq!(page.status(), 200, "the page is shown");
        let cookie = page.headers()[SET_COOKIE].to_str().expect("text").split(';').next().expect("a pair");
        let (name, _) = cookie.split_once('=').expect("a pair");
        let id = name.rsplit('_').next().expect("the id of the transaction");
        (cookie.to_owned(), self.daemon.sign_in(&format!("/authorize/{id}")))
    }

    /// The answer to the browser that an application sends here.
    pub async fn authorize(&self, changes: &[(&str, &str)], cookies: &str) -> Response {
        let request = self.http.get(self.authorization_url(changes)).header(ACCEPT, "text/html");
        request.header("Cookie", cookies).send().await.expect("an answer")
    }

    /// The same, at the page of the sign-in that begins.
    pub async fn browse(&self, changes: &[(&str, &str)], session: &str) -> Response {
        self.show_page(self.authorize(changes, session).await).await
    }

    /// Follows an answer to the page of the sign-in that began, which then has the cookie that the
    /// answer sets; any other answer stays as it is.
    pub async fn show_page(&self, answer: Response) -> Response {
        let location = answer.headers().get(LOCATION).map(|location| location.to_str().expect("text").to_owned());
        let Some(path) = location.filter(|location| location.starts_with("/authorize/")) else { return answer };
        let given = answer.headers()[SET_COOKIE].clone();
        let cookie = pair(Some(given.to_str().expect("text").to_owned()));
        let request = self.http.get(self.daemon.sign_in(&path)).header(ACCEPT, "text/html").header("Cookie", cookie);
        let mut page = request.send().await.expect("an answer");
        page.headers_mut().insert(SET_COOKIE, given);
        page
    }

    /// The response that a browser with a session gets without a page.
    pub async fn browse_silently(&self, changes: &[(&str, &str)], session: &str) -> BTreeMap<String, String> {
        let answer = self.browse(changes, session).await;
        assert_eq!(answer.status(), 303, "{changes:?}");
        fragment_or_query(answer.headers()[LOCATION].to_str().expect("text"))
    }
}

/// An HTTP client that follows no redirects.
pub fn browser() -> reqwest::Client {
    reqwest::Client::builder().no_proxy().redirect(Policy::none()).build().expect("a client")
}

/// What a sign-in asks a wallet for.
pub fn wanted(session: &SignInSession) -> ProofParameters<'_> {
    let asked = session.request();
    ProofParameters {
        app_id: &asked.app_id,
        action: &asked.action,
        signal: &asked.signal,
        environment: asked.environment,
        nonce: Some(asked.nonce),
    }
}

/// The proof of `person`'s wallet for a sign-in that asks for a current proof of any kind. The
/// wallet has no guard.
pub async fn current_proof(operator: &str, registry: &Client, session: &SignInSession, person: &str) -> Value {
    let operator = Operator::new(operator).expect("an address");
    let root = registry.root().await.expect("an answer").root;
    let simulation = operator.simulation().await.expect("an answer");
    let simulated = SimulatedParty::of(simulation, &session.request().app_id, root).expect("a known application");
    proof_of(session, person, &simulated)
}

/// The same with the simulator's values for the application.
pub fn proof_of(session: &SignInSession, person: &str, simulated: &SimulatedParty) -> Value {
    let simulated = &simulated.clone().issued_since(session.request().genesis_issued_at_min);
    let (person, wanted, random) = (person_of(person), wanted(session), &mut random());
    let proof = match AskedProof::of(session.request()).expect("a known proof") {
        AskedProof::Session(id) => prove::session_of_id(&person, id, &wanted, simulated, random),
        AskedProof::BoundUniqueness => prove::bound_uniqueness(&person, &wanted, simulated, random),
        AskedProof::Legacy | AskedProof::Uniqueness => prove::uniqueness(&person, &wanted, simulated, random),
    };
    proof.expect("a proof")
}

/// The claims of an ID token for `client_id`. The signature must verify with the key of `keys` that
/// the header names, by the algorithm of that key.
#[track_caller]
pub fn verified(token: &str, keys: &Value, issuer: &str, client_id: &str) -> Value {
    let header = jsonwebtoken::decode_header(token).expect("a header");
    let published = keys["keys"].as_array().expect("keys");
    let key = published.iter().find(|key| key["kid"] == json!(header.kid)).expect("the key is published");
    let text = |name: &str| key[name].as_str().expect("text");
    let (algorithm, key) = match text("alg") {
        "RS256" => (Algorithm::RS256, DecodingKey::from_rsa_components(text("n"), text("e"))),
        "ES256" => (Algorithm::ES256, DecodingKey::from_ec_components(text("x"), text("y"))),
        other => panic!("{other}"),
    };
    let key = key.expect("a key");
    let mut validation = Validation::new(algorithm);
    // The daemon's clock is not the machine's.
    validation.validate_exp = false;
    validation.set_audience(&[client_id]);
    validation.set_issuer(&[issuer]);
    jsonwebtoken::decode::<Value>(token, &key, &validation).expect("a good token").claims
}

/// The claims of an ID token, unverified.
pub fn unverified_claims(id_token: &str) -> Value {
    use base64::Engine;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD;

    let claims = URL_SAFE_NO_PAD.decode(id_token.split('.').nth(1).expect("claims")).expect("base64url");
    serde_json::from_slice(&claims).expect("JSON")
}

/// Waits until a daemon has signing keys. It makes those of a new store at its start or for the
/// first request, and on a busy machine that takes longer than a request may.
pub async fn wait_for_signing_keys(sign_in: &str) {
    until("signing keys", async || {
        let answer = SignInAnswer::of(browser().get(format!("{sign_in}/jwks")).send().await.expect("an answer")).await;
        match answer.status {
            200 => Ok(()),
            503 => Err(answer),
            _ => panic!("{answer:?}"),
        }
    })
    .await;
}

/// Copies a data folder with signing keys to `target`. It is made once for all tests of a build,
/// each of which may be a process.
async fn copy_store_with_keys(target: &Path) {
    let _alone = exclusive("store-with-keys");
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("store-with-keys");
    let maker = kept.join("maker");
    let program = std::env::current_exe().and_then(std::fs::metadata).expect("this program's file");
    let this = format!("{} bytes of {:?}", program.len(), program.modified().expect("a time"));
    if std::fs::read_to_string(&maker).ok().as_ref() != Some(&this) {
        if kept.exists() {
            std::fs::remove_dir_all(&kept).expect("removed");
        }
        let client = SignInTestClient::start_in(folder(), accept_current_proofs).await;
        wait_for_signing_keys(&client.issuer()).await;
        let SignInTestClient { daemon, folder, .. } = client;
        daemon.stop().await;
        copy_folder(folder.path(), &kept.join("data"));
        std::fs::write(&maker, this).expect("written");
    }
    copy_folder(&kept.join("data"), target);
}

/// Requests with a form.
pub trait Form {
    fn form(self, pairs: &[(&str, &str)]) -> Self;
}

impl Form for RequestBuilder {
    fn form(self, pairs: &[(&str, &str)]) -> Self {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        self.header(CONTENT_TYPE, "application/x-www-form-urlencoded").body(body)
    }
}

pub fn random() -> impl FnMut(&mut [u8; 32]) + Send {
    use selfsame_actors::{Random, SystemRandom};
    |bytes: &mut [u8; 32]| SystemRandom.fill(bytes)
}

#[derive(Debug)]
pub struct SignInAnswer {
    pub status: u16,
    pub headers: reqwest::header::HeaderMap,
    pub body: Value,
}

impl SignInAnswer {
    pub async fn of(response: Response) -> Self {
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        let text = response.text().await.expect("text");
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Self { status, headers, body }
    }

    pub fn header(&self, name: impl reqwest::header::AsHeaderName) -> &str {
        self.headers.get(name).map(|value| value.to_str().expect("text")).unwrap_or_default()
    }

    /// A text field of the body.
    #[track_caller]
    pub fn text(&self, name: &str) -> &str {
        self.body[name].as_str().unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// Asserts the five fields of an error.
    #[track_caller]
    pub fn expect_error(&self, status: u16, code: &str, error: &str) -> &str {
        let fields = ["code", "error"].map(|name| self.body[name].as_str().unwrap_or_default());
        assert_eq!((self.status, fields), (status, [code, error]), "{self:?}");
        assert_eq!(self.body["detail"], self.body["error_description"]);
        assert!(self.body.as_object().is_some_and(|body| body.contains_key("attribute")), "{self:?}");
        self.text("detail")
    }
}

/// The parameters behind `?` or `#`.
pub fn fragment_or_query(location: &str) -> BTreeMap<String, String> {
    let url = Url::parse(location).unwrap_or_else(|error| panic!("{error}: {location}"));
    let text = url.fragment().or(url.query()).unwrap_or_default();
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

//! A browser, its user, and the application that it visits.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqwest::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, LOCATION, SET_COOKIE};
use reqwest::{Response, Url};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::sign_in_client::{APP, CALLBACK, Form, SECRET, SignInAnswer, SignInTestClient, fragment_or_query};

/// The response type of a request, and whether its response is posted.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub response_type: &'static str,
    pub is_posted: bool,
}

impl Flow {
    /// The response is sent in the default mode of the response type.
    pub const fn by_redirect(response_type: &'static str) -> Self {
        Self { response_type, is_posted: false }
    }

    /// The response is sent as a form that the browser posts.
    pub const fn by_form(response_type: &'static str) -> Self {
        Self { response_type, is_posted: true }
    }

    /// Whether `code`, `id_token` or `token` is among the response types.
    pub fn has(self, part: &str) -> bool {
        self.response_type.split(' ').any(|word| word == part)
    }

    /// Whether the application gets an access token, from `/authorize` or for its code.
    pub fn gives_access(self) -> bool {
        self.has("token") || self.has("code")
    }

    /// How the response is delivered.
    pub fn delivery(self) -> DeliveryMode {
        match (self.is_posted, self.response_type) {
            (true, _) => DeliveryMode::Form,
            (false, "code") => DeliveryMode::Query,
            (false, _) => DeliveryMode::Fragment,
        }
    }
}

/// How a response is delivered to the redirect URI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveryMode {
    Query,
    Fragment,
    Form,
}

/// An authorization request.
#[derive(Clone, Debug)]
pub struct FlowRequest(Vec<(String, String)>);

impl FlowRequest {
    /// The value of a parameter, if the request has it.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(given, _)| given == name).map(|(_, value)| value.as_str())
    }

    /// All parameters.
    pub fn pairs(&self) -> Vec<(&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
    }
}

/// A browser with its session, visiting an application that uses one flow.
pub struct FlowBrowser<'p> {
    pub client: &'p SignInTestClient,
    pub flow: Flow,
    /// The session cookie.
    session: String,
    /// Whether the application sends its secret in the form.
    posts_its_secret: bool,
    /// The application's PKCE verifier.
    verifier: Option<&'static str>,
    asked: Cell<u32>,
}

/// What the application has after a sign-in.
#[derive(Debug)]
pub struct SignedIn {
    pub response: BTreeMap<String, String>,
    /// The answer of the token endpoint.
    pub tokens: Option<SignInAnswer>,
    /// The last ID token.
    pub id_token: String,
    /// Its claims.
    pub claims: Value,
    /// The answer of user-info, if there is an access token.
    pub userinfo: Option<Value>,
    pub access_tokens: Vec<String>,
}

impl<'p> FlowBrowser<'p> {
    pub fn new(client: &'p SignInTestClient, flow: Flow) -> Self {
        let (session, asked) = (String::new(), Cell::new(0));
        Self { client, flow, session, posts_its_secret: false, verifier: None, asked }
    }

    /// Makes the application send its secret in the form.
    pub fn posting_its_secret(self) -> Self {
        Self { posts_its_secret: true, ..self }
    }

    /// Makes the application send a PKCE verifier.
    pub fn verifying(self, verifier: &'static str) -> Self {
        Self { verifier: Some(verifier), ..self }
    }

    /// A request of the application, with a state and a nonce of its own. A change to the empty
    /// text removes the parameter.
    pub fn build_request(&self, changes: &[(&str, &str)]) -> FlowRequest {
        self.asked.set(self.asked.get() + 1);
        let (state, nonce) = (format!("state {}", self.asked.get()), format!("nonce {}", self.asked.get()));
        let mut usual = vec![
            ("client_id", APP),
            ("redirect_uri", CALLBACK),
            ("response_type", self.flow.response_type),
            ("scope", "openid"),
            ("state", &state),
            ("nonce", &nonce),
        ];
        if self.flow.is_posted {
            usual.push(("response_mode", "form_post"));
        }
        usual.retain(|(name, _)| changes.iter().all(|(changed, _)| changed != name));
        usual.extend(changes.iter().filter(|(_, value)| !value.is_empty()));
        FlowRequest(usual.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    /// Sends the browser to the provider.
    pub async fn authorize(&self, asked: &FlowRequest) -> Response {
        let url = Url::parse_with_params(&self.client.daemon.sign_in("/authorize"), asked.pairs()).expect("a URL");
        let request = self.client.http.get(url).header(ACCEPT, "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8");
        self.client.show_page(request.header("Cookie", &self.session).send().await.expect("an answer")).await
    }

    /// The same by a form that the browser posts.
    pub async fn authorize_by_post(&self, asked: &FlowRequest) -> Response {
        let request = self.client.http.post(self.client.daemon.sign_in("/authorize")).header(ACCEPT, "text/html");
        let request = request.header("Cookie", &self.session).form(&asked.pairs());
        self.client.show_page(request.send().await.expect("an answer")).await
    }

    /// Signs `person` in with a proof; the application checks the whole response.
    pub async fn sign_in(&mut self, person: &str, changes: &[(&str, &str)]) -> SignedIn {
        let asked = self.build_request(changes);
        let page = self.authorize(&asked).await;
        self.answer_page(page, person, &asked).await
    }

    /// `person` answers the page.
    pub async fn answer_page(&mut self, page: Response, person: &str, asked: &FlowRequest) -> SignedIn {
        let done = self.client.answer_page(page, person, &self.session).await;
        let session = done.headers()[SET_COOKIE].to_str().expect("text").split(';').next().expect("a pair").to_owned();
        self.session = session;
        let response = self.read_response(done, self.flow.delivery(), asked).await;
        self.check_response(response, asked).await
    }

    /// Makes a request that is answered without asking the person.
    pub async fn sign_in_silently(&self, changes: &[(&str, &str)]) -> SignedIn {
        let asked = self.build_request(changes);
        let response = self.read_response(self.authorize(&asked).await, self.flow.delivery(), &asked).await;
        self.check_response(response, &asked).await
    }

    /// Makes a request that is answered with an error at the redirect URI; returns the description.
    pub async fn expect_error(&self, changes: &[(&str, &str)], error: &str) -> String {
        self.expect_error_by(self.flow.delivery(), changes, error).await
    }

    /// The same where the error is delivered in another way than a success.
    pub async fn expect_error_by(&self, delivery: DeliveryMode, changes: &[(&str, &str)], error: &str) -> String {
        let asked = self.build_request(changes);
        let response = self.read_response(self.authorize(&asked).await, delivery, &asked).await;
        check_error(&response, error)
    }

    /// Reads what is delivered to the redirect URI, with the request's state and the issuer.
    pub async fn read_response(
        &self,
        answer: Response,
        delivery: DeliveryMode,
        asked: &FlowRequest,
    ) -> BTreeMap<String, String> {
        let redirect_uri = asked.get("redirect_uri").expect("a redirect URI");
        assert_eq!(answer.headers()[CACHE_CONTROL], "no-store", "{asked:?}");
        let response = match delivery {
            DeliveryMode::Form => {
                assert_eq!(answer.status(), 200, "{asked:?}");
                assert!(answer.headers()[CONTENT_TYPE].to_str().expect("text").starts_with("text/html"));
                assert_eq!(answer.headers().get(LOCATION), None);
                let (action, fields) = posted_form(&answer.text().await.expect("text"));
                assert_eq!(action, redirect_uri);
                fields
            }
            DeliveryMode::Query | DeliveryMode::Fragment => {
                assert_eq!(answer.status(), 303, "{asked:?}");
                let location = answer.headers()[LOCATION].to_str().expect("text");
                let sign = if delivery == DeliveryMode::Query { '?' } else { '#' };
                let rest = location.strip_prefix(redirect_uri).unwrap_or_else(|| panic!("{location}"));
                assert!(rest.starts_with(sign) && !rest[1..].contains(['?', '#']), "{location}");
                fragment_or_query(location)
            }
        };
        assert_eq!(response.get("state").map(String::as_str), asked.get("state"), "{response:?}");
        assert_eq!(response["iss"], self.client.issuer());
        response
    }

    /// Checks a response as an application does, and more.
    pub async fn check_response(&self, response: BTreeMap<String, String>, asked: &FlowRequest) -> SignedIn {
        let flow = self.flow;
        let mut names = BTreeSet::from(["iss"]);
        names.extend(asked.get("state").map(|_| "state"));
        names.extend(["code", "id_token"].into_iter().filter(|part| flow.has(part)));
        if flow.has("token") {
            names.extend(["access_token", "token_type", "expires_in", "scope"]);
            assert_eq!((&*response["token_type"], &*response["expires_in"]), ("Bearer", "3600"));
        }
        assert_eq!(response.keys().map(String::as_str).collect::<BTreeSet<_>>(), names, "{flow:?}");

        let mut id_tokens: Vec<(String, Value)> = Vec::new();
        let mut access_tokens: Vec<String> = response.get("access_token").cloned().into_iter().collect();
        if let Some(id_token) = response.get("id_token") {
            let claims = self.check_id_token(id_token, asked).await;
            let token_hash = response.get("access_token").map(|token| half_hash(token));
            let code_hash = response.get("code").map(|code| half_hash(code));
            assert_eq!((&claims["at_hash"], &claims["c_hash"]), (&json!(token_hash), &json!(code_hash)), "{flow:?}");
            id_tokens.push((id_token.clone(), claims));
        }
        let mut tokens = None;
        if let Some(code) = response.get("code") {
            let answer = self.exchange(code, asked).await;
            let fields: BTreeSet<&str> = answer.body.as_object().expect("fields").keys().map(String::as_str).collect();
            let expected = BTreeSet::from(["access_token", "token_type", "expires_in", "scope", "id_token"]);
            assert_eq!((answer.status, fields), (200, expected), "{answer:?}");
            assert_eq!(answer.header(CONTENT_TYPE), "application/json");
            assert_eq!(answer.header(CACHE_CONTROL), "no-store");
            assert_eq!((answer.text("token_type"), &answer.body["expires_in"]), ("Bearer", &json!(3600)));
            let (id_token, access_token) = (answer.text("id_token").to_owned(), answer.text("access_token").to_owned());
            let claims = self.check_id_token(&id_token, asked).await;
            assert_eq!(claims["at_hash"], half_hash(&access_token));
            assert_ne!(
                response.get("access_token"),
                Some(&access_token),
                "/authorize and /token give different tokens"
            );
            id_tokens.push((id_token, claims));
            access_tokens.push(access_token);
            tokens = Some(answer);
        }
        for (_, claims) in &id_tokens {
            for name in ["iss", "sub", "auth_time"] {
                assert_eq!(claims[name], id_tokens[0].1[name], "both ID tokens have the same claims");
            }
        }
        let (id_token, claims) = id_tokens.pop().expect("an ID token");
        let mut userinfo = None;
        for token in &access_tokens {
            let answer = self
                .client
                .send(self.client.http.get(self.client.daemon.sign_in("/userinfo")).bearer_auth(token))
                .await;
            assert_eq!((answer.status, &answer.body["sub"]), (200, &claims["sub"]), "{answer:?}");
            assert_eq!(answer.header(CONTENT_TYPE), "application/json");
            userinfo = Some(answer.body);
        }
        SignedIn { response, tokens, id_token, claims, userinfo, access_tokens }
    }

    /// Exchanges a code as the application does.
    pub async fn exchange(&self, code: &str, asked: &FlowRequest) -> SignInAnswer {
        let redirect_uri = asked.get("redirect_uri").expect("a redirect URI");
        let mut form = vec![("grant_type", "authorization_code"), ("code", code), ("redirect_uri", redirect_uri)];
        form.extend(self.verifier.map(|verifier| ("code_verifier", verifier)));
        let request = self.client.http.post(self.client.daemon.sign_in("/token"));
        let request = match self.posts_its_secret {
            true => {
                form.extend([("client_id", APP), ("client_secret", SECRET)]);
                request.form(&form)
            }
            false => request.basic_auth(APP, Some(SECRET)).form(&form),
        };
        self.client.send(request).await
    }

    /// The claims of an ID token for a request (OpenID Connect Core, sections 2 and 3.1.3.7).
    async fn check_id_token(&self, id_token: &str, asked: &FlowRequest) -> Value {
        let header = jsonwebtoken::decode_header(id_token).expect("a header");
        assert_eq!(header.alg, jsonwebtoken::Algorithm::RS256);
        assert!(header.kid.is_some_and(|kid| !kid.is_empty()), "the header names the key");
        let claims = self.client.claims(id_token).await;
        let now = self.client.now();
        assert_eq!((&claims["iss"], &claims["aud"]), (&json!(self.client.issuer()), &json!(APP)));
        let subject = claims["sub"].as_str().expect("a subject");
        assert!((1..=255).contains(&subject.len()) && subject.is_ascii(), "{subject}");
        assert_eq!((&claims["iat"], &claims["exp"]), (&json!(now), &json!(now + 3600)));
        assert_eq!(claims["nonce"], json!(asked.get("nonce")), "{claims}");
        assert!(claims["auth_time"].as_u64().is_some_and(|time| time <= now), "{claims}");
        claims
    }
}

/// Asserts an error response of `/authorize` without other parameters; returns the description.
#[track_caller]
pub fn check_error(response: &BTreeMap<String, String>, error: &str) -> String {
    assert_eq!(response.get("error").map(String::as_str), Some(error), "{response:?}");
    let allowed = ["error", "error_description", "state", "iss"];
    assert!(response.keys().all(|name| allowed.contains(&name.as_str())), "{response:?}");
    let description = response["error_description"].clone();
    assert!(has_allowed_characters(&description), "{description}");
    description
}

/// Whether a text has only the characters that RFC 6749, section 5.2, allows in
/// `error_description`.
pub fn has_allowed_characters(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|letter| matches!(letter, ' ' | '!' | '#'..='[' | ']'..='~'))
}

/// The left half of a text's SHA-256 hash, as in `at_hash` and `c_hash`.
fn half_hash(text: &str) -> String {
    URL_SAFE_NO_PAD.encode(&Sha256::digest(text)[..16])
}

/// The action and the hidden fields of the only form of a page.
pub fn posted_form(page: &str) -> (String, BTreeMap<String, String>) {
    let form = page.split("<form ").nth(1).expect("a form").split("</form>").next().expect("its end");
    assert!(form.starts_with("method=\"post\"") && page.matches("<form").count() == 1, "{page}");
    let attribute = |tag: &str, name: &str| {
        let value = tag.split(&format!("{name}=\"")).nth(1).expect("the attribute").split('"').next().expect("its end");
        value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&amp;", "&")
    };
    let tags: Vec<&str> = form.split("<input ").collect();
    let fields = tags[1..].iter().map(|tag| {
        assert!(tag.starts_with("type=\"hidden\""), "{tag}");
        (attribute(tag, "name"), attribute(tag, "value"))
    });
    (attribute(tags[0], "action"), fields.collect())
}

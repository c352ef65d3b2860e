//! Browsers with their cookies that sign in to applications with accounts, for the tests of
//! accounts and of what leads to them.

use std::collections::BTreeMap;

use reqwest::Response;
use reqwest::header::{ACCEPT, LOCATION, SET_COOKIE};
use reqwest::redirect::Policy;
use selfsame::config::{Config, SecretHash, SignInProof};
use selfsame_interfaces::interface::Interface;
use selfsame_wallet::sign_in::{AskedProof, SignInSession};
use serde_json::{Value, json};

use crate::certification::browser::posted_form;
use crate::sign_in_client::{
    APP, CALLBACK, Form, SECRET, SignInAnswer, SignInTestClient, add_other_app, current_proof, fragment_or_query,
    unverified_claims,
};

/// Makes the applications ask for proofs of accounts.
pub fn ask_for_accounts(config: &mut Config) {
    config.limits.sign_ins_per_source = None;
    config.apps.iter_mut().for_each(|app| app.proof = SignInProof::Account);
    add_other_app(config);
}

/// The settings of an application that asks for proofs of accounts, for a process.
pub fn application_settings() -> String {
    let secret = SecretHash::of([7; 16], SECRET).to_text();
    format!(
        "[[apps]]\nid = \"{APP}\"\nclient_secret_hash = \"{secret}\"\nredirect_uris = [\"{CALLBACK}\"]\n\
         proof = \"account\"\n"
    )
}

pub async fn start() -> SignInTestClient {
    SignInTestClient::start_with_keys(ask_for_accounts).await
}

/// A daemon whose cookies no other site can plant.
pub async fn start_behind_https() -> SignInTestClient {
    SignInTestClient::start_with_keys(|config| {
        ask_for_accounts(config);
        config.urls[Interface::SignIn] = Some("https://id.example".to_owned());
    })
    .await
}

/// A browser with its cookies.
#[derive(Clone, Default)]
pub struct Browser {
    pub cookies: BTreeMap<String, String>,
    /// How many sign-ins it has begun.
    begun: u32,
    /// Where it is, and what it says about itself; `None` for a browser like all others.
    http: Option<reqwest::Client>,
}

/// The forms of a page.
pub fn forms_of(page: &str) -> Vec<PostedForm> {
    page.split("<form").skip(1).map(|form| posted_form(&format!("<form{form}"))).collect()
}

/// Where a form is sent, and its fields.
pub type PostedForm = (String, BTreeMap<String, String>);

/// A sign-in that a browser has begun: the URL of its transaction.
pub struct Begun {
    pub base: String,
}

impl Browser {
    /// A browser at an address of its own, with a name of its own.
    pub fn at(address: [u8; 4], number: u8) -> Self {
        let name = format!("Mozilla/5.0 (X11; Linux x86_64; rv:{number}.0) Gecko/20100101 Firefox/{number}.0");
        let http = reqwest::Client::builder().no_proxy().redirect(Policy::none()).user_agent(name);
        let http = http.local_address(Some(address.into())).build().expect("a client");
        Self { http: Some(http), ..Self::default() }
    }

    /// The client of a browser that has one of its own.
    pub fn client(&self) -> Option<&reqwest::Client> {
        self.http.as_ref()
    }

    fn http<'a>(&'a self, client: &'a SignInTestClient) -> &'a reqwest::Client {
        self.http.as_ref().unwrap_or(&client.http)
    }

    pub fn cookies(&self) -> String {
        self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ")
    }

    pub fn keep(&mut self, answer: &Response) {
        for cookie in answer.headers().get_all(SET_COOKIE) {
            let pair = cookie.to_str().expect("text").split(';').next().expect("a pair");
            let (name, value) = pair.split_once('=').expect("a pair");
            match value {
                "" => self.cookies.remove(name),
                value => self.cookies.insert(name.to_owned(), value.to_owned()),
            };
        }
    }

    pub async fn get(&mut self, client: &SignInTestClient, url: &str) -> Response {
        self.get_with(&self.http(client).clone(), url).await
    }

    pub async fn post(&mut self, client: &SignInTestClient, url: &str, form: &[(&str, &str)]) -> Response {
        self.post_with(&self.http(client).clone(), url, form).await
    }

    pub async fn get_with(&mut self, http: &reqwest::Client, url: &str) -> Response {
        let request = http.get(url).header(ACCEPT, "text/html").header("Cookie", self.cookies());
        let answer = request.send().await.expect("an answer");
        self.keep(&answer);
        answer
    }

    pub async fn post_with(&mut self, http: &reqwest::Client, url: &str, form: &[(&str, &str)]) -> Response {
        let request = http.post(url).header(ACCEPT, "text/html").header("Cookie", self.cookies());
        let answer = request.form(form).send().await.expect("an answer");
        self.keep(&answer);
        answer
    }

    /// Begins a sign-in that asks the person in any case. Each has a state of its own, as those of
    /// an application have: with the same one a browser goes on with the sign-in under way.
    pub async fn begin(&mut self, client: &SignInTestClient, changes: &[(&str, &str)]) -> Begun {
        self.begun += 1;
        let state = format!("state {}", self.begun);
        let changes = [&[("prompt", "login"), ("state", &*state)], changes].concat();
        let mut changed: Vec<(&str, &str)> = Vec::new();
        for (name, value) in changes {
            changed.retain(|(known, _)| *known != name);
            changed.push((name, value));
        }
        let answer = self.get(client, &client.authorization_url(&changed)).await;
        Begun::at(client, &answer)
    }

    /// Signs `person` in, whose answer comes from another device. `remember` answers the question
    /// whether the browser remembers the account. Returns the subject.
    pub async fn sign_in(&mut self, client: &SignInTestClient, person: &str, remember: &str) -> String {
        let begun = self.begin(client, &[]).await;
        begun.answer(client, person).await;
        self.complete(client, &begun, &format!("?remember={remember}")).await
    }

    /// Completes a sign-in. Returns the subject.
    pub async fn complete(&mut self, client: &SignInTestClient, begun: &Begun, query: &str) -> String {
        let answer = self.get(client, &format!("{}/complete{query}", begun.base)).await;
        let parameters = fragment_or_query(location(&answer));
        let code = parameters.get("code").unwrap_or_else(|| panic!("{parameters:?}"));
        let tokens = client.exchange(code).await;
        unverified_claims(tokens.text("id_token"))["sub"].as_str().expect("a subject").to_owned()
    }

    /// The forms of the page at `/session`.
    pub async fn session_forms(&mut self, client: &SignInTestClient) -> Vec<PostedForm> {
        let page = self.get(client, &client.daemon.sign_in("/session")).await.text().await.expect("text");
        forms_of(&page)
    }

    /// The fields of the form there with this action that is about the account at an application.
    pub async fn account_form(
        &mut self,
        client: &SignInTestClient,
        action: &str,
        app: &str,
    ) -> BTreeMap<String, String> {
        let forms = self.session_forms(client).await;
        let is_wanted =
            |(to, fields): &&PostedForm| to == action && fields.get("application").is_some_and(|of| of == app);
        forms.iter().find(is_wanted).unwrap_or_else(|| panic!("{action}: {forms:?}")).1.clone()
    }

    /// Sends that form.
    pub async fn post_account_form(&mut self, client: &SignInTestClient, action: &str, app: &str) -> Response {
        let fields = self.account_form(client, action, app).await;
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        self.post(client, &client.daemon.sign_in(action), &fields).await
    }

    pub fn remembers(&self) -> bool {
        self.cookies.keys().any(|name| name.ends_with("selfsame_accounts"))
    }
}

impl Begun {
    pub fn at(client: &SignInTestClient, answer: &Response) -> Self {
        let path = location(answer);
        let path = path.strip_prefix(&client.issuer()).unwrap_or(path);
        assert!(path.starts_with("/authorize/"), "{path}");
        Self { base: client.daemon.sign_in(path) }
    }

    pub async fn open(&self) -> SignInSession {
        SignInSession::open(&format!("{}/request", self.base)).await.expect("the sign-in is open")
    }

    /// Lets `person` answer what is asked for, from another device.
    pub async fn answer(&self, client: &SignInTestClient, person: &str) {
        let opened = self.open().await;
        let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, person).await;
        self.post(client, &proof).await.expect_success();
    }

    /// The address of the proof request.
    pub fn request_url(&self) -> String {
        format!("{}/request", self.base)
    }

    pub async fn post(&self, client: &SignInTestClient, proof: &Value) -> SignInAnswer {
        client.send(client.http.post(format!("{}/proof", self.base)).json(proof)).await
    }
}

impl SignInAnswer {
    #[track_caller]
    pub fn expect_success(&self) {
        assert_eq!((self.status, &self.body["success"]), (200, &json!(true)), "{self:?}");
    }
}

impl SignInTestClient {
    pub async fn get_with(&self, url: &str, cookies: &str) -> Response {
        let request = self.http.get(url).header(ACCEPT, "text/html").header("Cookie", cookies);
        request.send().await.expect("an answer")
    }
}

pub fn location(answer: &Response) -> &str {
    assert_eq!(answer.status(), 303, "{:?}", answer.headers());
    answer.headers()[LOCATION].to_str().expect("text")
}

/// What a sign-in asks for.
#[derive(Debug, PartialEq, Eq)]
pub enum Asks {
    First,
    Return(String),
}

pub async fn asks(begun: &Begun) -> Asks {
    let opened = begun.open().await;
    let asked = opened.request();
    let seen = (asked.action.as_str(), AskedProof::of(asked).expect("a known proof"));
    match seen {
        ("sign-in", AskedProof::BoundUniqueness) => Asks::First,
        ("", AskedProof::Session(id)) => Asks::Return(id.to_owned()),
        other => panic!("{other:?}"),
    }
}

pub fn return_session(asked: Asks) -> String {
    match asked {
        Asks::Return(id) => id,
        Asks::First => panic!("it asks for a new session"),
    }
}

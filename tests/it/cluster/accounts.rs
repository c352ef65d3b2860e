//! People who sign in to an account at one replica, and go on at another one at once: nothing that
//! one replica has given is unknown at the next one, because an authenticator gives no second
//! proof of uniqueness.

use std::time::Duration;

use reqwest::header::LOCATION;
use reqwest::{Response, Url};
use selfsame_wallet::prove::SimulatedParty;
use selfsame_wallet::sign_in::{AskedProof, SignInSession};
use serde_json::json;

use super::proxy::Line;
use super::reading::simulated_party;
use super::replicas::TestCluster;
use crate::account_client::{Browser, application_settings, forms_of};
use crate::harness::{folder, until_true};
use crate::sign_in_client::{
    APP, CALLBACK, Form, SECRET, SignInAnswer, browser, fragment_or_query, parameters, proof_of, unverified_claims,
};
use crate::sign_in_passkeys::{MAKE_PASSKEY, handle_on};
use crate::sign_in_pointers::{code_on, link_on};

/// A person at a browser, whose authenticator has given its first proof or not.
struct Person<'a> {
    cluster: &'a TestCluster,
    party: &'a SimulatedParty,
    http: reqwest::Client,
    browser: Browser,
    begun: u32,
}

impl<'a> Person<'a> {
    fn new(cluster: &'a TestCluster, party: &'a SimulatedParty) -> Self {
        Self { cluster, party, http: browser(), browser: Browser::default(), begun: 0 }
    }

    fn at(&self, replica: usize, path: &str) -> String {
        format!("http://{}{path}", self.cluster.replicas[replica % 3].address("sign_in"))
    }

    /// Begins a sign-in; returns its path.
    async fn begin(&mut self, replica: usize) -> String {
        self.begun += 1;
        let state = format!("state {}", self.begun);
        let asked = parameters(&[("prompt", "login"), ("state", &state)]);
        let url = Url::parse_with_params(&self.at(replica, "/authorize"), asked).expect("a URL");
        path_of(&self.browser.get_with(&self.http, url.as_str()).await)
    }

    /// What an authenticator gets that reads the request at a replica.
    async fn open(&self, replica: usize, path: &str) -> SignInSession {
        SignInSession::open(&self.at(replica, &format!("{path}/request"))).await.expect("the sign-in is open")
    }

    /// Whether the sign-in asks for an account.
    async fn asks_for_account(&self, replica: usize, path: &str) -> bool {
        is_return(&self.open(replica, path).await)
    }

    /// Goes on with a sign-in at three replicas; returns the subject, and whether it was a return.
    async fn go_on(&mut self, [read, answered, completed]: [usize; 3], path: &str) -> (String, bool) {
        let opened = self.open(read, path).await;
        let proof = proof_of(&opened, "a person", self.party);
        let post = self.http.post(self.at(answered, &format!("{path}/proof"))).json(&proof);
        let answer = SignInAnswer::of(post.send().await.expect("an answer")).await;
        assert_eq!((answer.status, &answer.body["success"]), (200, &json!(true)), "{answer:?}");
        let complete = self.at(completed, &format!("{path}/complete?remember=yes"));
        let answer = self.browser.get_with(&self.http, &complete).await;
        assert_eq!(answer.status(), 303);
        let location = answer.headers()[LOCATION].to_str().expect("text");
        let code = fragment_or_query(location)["code"].clone();
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        let exchange = self.http.post(self.at(completed + 1, "/token")).basic_auth(APP, Some(SECRET)).form(&form);
        let tokens = SignInAnswer::of(exchange.send().await.expect("an answer")).await;
        let subject = unverified_claims(tokens.text("id_token"))["sub"].as_str().expect("a subject").to_owned();
        (subject, is_return(&opened))
    }

    /// Sends a form of `/session`, which one replica shows, to another one; returns the page.
    async fn send_form(&mut self, shown: usize, sent: usize, action: &str) -> String {
        let url = self.at(shown, "/session");
        let page = self.browser.get_with(&self.http, &url).await.text().await.expect("text");
        let is_wanted = |to: &str| to.ends_with(action);
        let forms = forms_of(&page);
        let form = forms.iter().find(|(to, fields)| is_wanted(to) && fields.contains_key("application"));
        let (_, fields) = form.unwrap_or_else(|| panic!("{action}: {page}"));
        let fields: Vec<_> = fields.iter().map(|(name, value)| (&**name, &**value)).collect();
        let url = self.at(sent, action);
        let answer = self.browser.post_with(&self.http, &url, &fields).await;
        assert_eq!(answer.status(), 200);
        answer.text().await.expect("text")
    }

    /// Types a code, or uses a passkey, on the page of a sign-in.
    async fn use_on_page(&mut self, replica: usize, path: &str, [kind, value]: [&str; 2]) -> Response {
        let (way, field) = if kind == "code" { ("code", "code") } else { ("passkey", "handle") };
        let url = self.at(replica, &format!("{path}/{way}"));
        self.browser.post_with(&self.http, &url, &[(field, value)]).await
    }
}

/// Settings of an issuer at a domain, so that it has passkeys.
fn settings() -> String {
    format!("[urls]\nid_url = \"https://id.example\"\n{}", application_settings())
}

fn is_return(opened: &SignInSession) -> bool {
    matches!(AskedProof::of(opened.request()), Ok(AskedProof::Session(_)))
}

/// Where a browser goes on.
fn path_of(answer: &Response) -> String {
    assert_eq!(answer.status(), 303, "{:?}", answer.headers());
    let location = answer.headers()[LOCATION].to_str().expect("text");
    location[location.find("/authorize/").unwrap_or_else(|| panic!("{location}"))..].to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn what_leads_to_an_account_works_at_the_next_replica_at_once_on_etcd() {
    let folder = folder();
    let settings = settings();
    let mut cluster = TestCluster::prepare(folder.path(), 1, &settings, "").await;
    cluster.start_all().await;
    let party = simulated_party(&cluster, 0).await;
    let mut laptop = Person::new(&cluster, &party);
    let path = laptop.begin(0).await;
    let (alice, is_return) = laptop.go_on([1, 2, 0], &path).await;
    assert!(!is_return, "the first visit");
    let (mut last_code, mut handle) = (String::new(), String::new());
    for turn in 0..6 {
        // The cookie that one replica gave, at the next one.
        let path = laptop.begin(turn + 1).await;
        assert_eq!(laptop.go_on([turn + 2, turn, turn + 1], &path).await, (alice.clone(), true), "turn {turn}");
        // A code, typed at another replica than the one that made it.
        let code = code_on(&laptop.send_form(turn, turn + 1, "/session/code").await);
        let mut library = Person::new(&cluster, &party);
        let path = library.begin(turn + 2).await;
        assert!(!library.asks_for_account(turn, &path).await);
        let answer = library.use_on_page(turn, &path, ["code", &code]).await;
        assert_eq!(library.go_on([turn + 1, turn + 2, turn], &path_of(&answer)).await, (alice.clone(), true));
        last_code = code;
        // A passkey, used at a third replica, in a browser that came by yet another way.
        let made = handle_on(&laptop.send_form(turn + 1, turn + 2, MAKE_PASSKEY).await);
        assert!(handle.is_empty() || handle == made, "turn {turn}: every replica makes the same one");
        handle = made;
        let mut hotel = Person::new(&cluster, &party);
        let path = hotel.begin(turn + 1).await;
        let answer = hotel.use_on_page(turn, &path, ["passkey", &handle]).await;
        assert_eq!(hotel.go_on([turn + 2, turn + 1, turn], &path_of(&answer)).await, (alice.clone(), true));
        // A link, opened at a third one.
        let link = link_on(&laptop.send_form(turn + 2, turn, "/session/link").await);
        let mut phone = Person::new(&cluster, &party);
        let opened = phone.at(turn + 1, &link);
        assert_eq!(phone.browser.post_with(&phone.http, &opened, &[]).await.status(), 200, "turn {turn}");
        let path = phone.begin(turn + 2).await;
        assert!(phone.asks_for_account(turn, &path).await, "turn {turn}");
        let used = phone.at(turn + 2, &link);
        assert_eq!(Browser::default().post_with(&phone.http, &used, &[]).await.status(), 410, "it is good once");
    }
    let cookies = laptop.browser.clone();

    // The leader is gone, and the others have all of it, also of a sign-in that it has begun.
    let leader = cluster.wait_for_leader().await;
    let mut hotel = Person::new(&cluster, &party);
    let begun_at_leader = hotel.begin(leader).await;
    let browser = hotel.browser;
    cluster.replicas[leader].kill();
    cluster.wait_for_leader().await;
    let (one, other) = (leader + 1, leader + 2);
    cluster.wait_until_ready(one % 3).await;
    cluster.wait_until_ready(other % 3).await;
    let mut laptop = Person { browser: cookies, begun: 100, ..Person::new(&cluster, &party) };
    let path = laptop.begin(one).await;
    assert!(laptop.asks_for_account(other, &path).await);
    let mut library = Person::new(&cluster, &party);
    let path = library.begin(other).await;
    let answer = library.use_on_page(one, &path, ["code", &last_code]).await;
    assert!(library.asks_for_account(other, &path_of(&answer)).await);
    let mut hotel = Person { browser, ..Person::new(&cluster, &party) };
    let answer = hotel.use_on_page(one, &begun_at_leader, ["passkey", &handle]).await;
    assert_eq!(hotel.go_on([other, other, one], &path_of(&answer)).await, (alice, true));

    // What one replica made worthless is so at the others, soon.
    laptop.send_form(one, other, "/session/forget-others").await;
    until_true("the end of the code", async || {
        let path = library.begin(other).await;
        library.use_on_page(one, &path, ["code", &last_code]).await.status() == 400
            && library.use_on_page(one, &path, ["passkey", &handle]).await.status() == 400
    })
    .await;
    cluster.start_replica(leader);
    cluster.wait_until_ready(leader).await;
    cluster.stop_and_check();
}

/// A late replica still has the account as it was before all others were made to forget it. A
/// person must not learn in a year that the passkey from there never led to it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "needs etcd; run make test-cluster"]
async fn what_a_late_replica_makes_leads_to_the_account_as_it_is_now_on_etcd() {
    let folder = folder();
    let mut cluster = TestCluster::prepare(folder.path(), 1, &settings(), "").await;
    cluster.start_all().await;
    let leader = cluster.wait_for_leader().await;
    let late = (leader + 1) % 3;
    let party = simulated_party(&cluster, leader).await;
    let mut laptop = Person::new(&cluster, &party);
    let path = laptop.begin(leader).await;
    laptop.go_on([leader; 3], &path).await;
    let before = handle_on(&laptop.send_form(leader, leader, MAKE_PASSKEY).await);
    cluster.wait_until_equal().await;
    for turn in 0..4 {
        cluster.replicas[late].set_line_to_etcd(Line::Slow(Duration::from_millis(300)));
        laptop.send_form(leader, leader, "/session/forget-others").await;
        // The page of the leader, as a browser shows it that goes on at the other replica.
        let mut library = Person::new(&cluster, &party);
        let path = library.begin(leader).await;
        match turn % 2 {
            0 => {
                let handle = handle_on(&laptop.send_form(leader, late, MAKE_PASSKEY).await);
                assert_ne!(handle, before);
                let used = library.use_on_page(leader, &path, ["passkey", &handle]).await;
                assert_eq!(used.status(), 303, "turn {turn}");
                let old = library.use_on_page(leader, &path_of(&used), ["passkey", &before]).await;
                assert_eq!(old.status(), 400, "turn {turn}");
            }
            _ => {
                let link = link_on(&laptop.send_form(leader, late, "/session/link").await);
                let opened = library.at(leader, &link);
                assert_eq!(library.browser.post_with(&library.http, &opened, &[]).await.status(), 200, "turn {turn}");
            }
        }
        cluster.replicas[late].set_line_to_etcd(Line::Open);
        cluster.wait_until_equal().await;
    }
    cluster.stop_and_check();
}

//! The short page in another browser than the one in which the sign-in began: the authenticator is
//! asked there for the account that *that* browser remembers, and the browser can remember the
//! account that was proved through it.

use reqwest::header::{HeaderName, ORIGIN};
use selfsame_wallet::sign_in::{AskedProof, Onward, Place, SignInSession};
use serde_json::{Value, json};

use crate::account_client::{Asks, Begun, Browser, asks, location, return_session, start, start_behind_https};
use crate::sign_in_accounts::Proofs;
use crate::sign_in_client::{SignInTestClient, current_proof, fragment_or_query, unverified_claims};

/// The short page of a sign-in, in one browser.
pub struct ShortPage {
    text: String,
}

impl ShortPage {
    pub async fn open(browser: &mut Browser, client: &SignInTestClient, begun: &Begun) -> Self {
        let answer = browser.get(client, &short_url(client, begun).await).await;
        assert_eq!(answer.status(), 200);
        Self { text: answer.text().await.expect("text") }
    }

    /// The address for an authenticator, as the daemon of the tests is reached.
    fn address(&self, client: &SignInTestClient) -> String {
        let address =
            self.text.split_once("id=\"address\"").and_then(|(_, rest)| rest.split_once('>')).expect("an address");
        let address = address.1.split('<').next().expect("an end");
        at_daemon(client, address)
    }

    pub async fn request(&self, client: &SignInTestClient) -> SignInSession {
        SignInSession::open(&self.address(client)).await.expect("the sign-in is open")
    }

    async fn asks(&self, client: &SignInTestClient) -> Asks {
        match AskedProof::of(self.request(client).await.request()).expect("a known proof") {
            AskedProof::BoundUniqueness => Asks::First,
            AskedProof::Session(id) => Asks::Return(id.to_owned()),
            other => panic!("{other:?}"),
        }
    }

    /// Lets `person` answer with an authenticator that this page opened. Returns the digits.
    async fn answer(&self, client: &SignInTestClient, person: &str) -> String {
        let opened = self.request(client).await;
        assert_eq!(opened.place(), Place::There);
        let proof = current_proof(&client.daemon.operator(""), &client.daemon.client(), &opened, person).await;
        let mut request = opened.request().clone();
        request.answer_url = at_daemon(client, &request.answer_url);
        match opened.answer_from(&request, &proof, Place::There).await.expect("accepted") {
            Onward::Type(digits) => digits,
            other => panic!("{other:?}"),
        }
    }

    fn offers_to_remember(&self) -> bool {
        self.text.contains("/remember\"")
    }
}

/// An address of the issuer, as the daemon of the tests is reached.
fn at_daemon(client: &SignInTestClient, address: &str) -> String {
    client.daemon.sign_in(&address[address.find("/authorize/").expect("an address of a sign-in")..])
}

/// The short address of a sign-in.
async fn short_url(client: &SignInTestClient, begun: &Begun) -> String {
    let page = client.get(&begun.request_url(), "text/html").await;
    client.daemon.sign_in(location(&page))
}

/// Lets a browser remember the account that was proved through it.
pub async fn remember(browser: &mut Browser, client: &SignInTestClient, begun: &Begun) {
    let short = short_url(client, begun).await;
    let answer = browser.post(client, &format!("{short}/remember"), &[]).await;
    assert!(short.ends_with(location(&answer)), "{:?}", answer.headers());
}

#[tokio::test]
async fn a_phone_that_remembers_the_person_signs_in_every_screen() {
    let client = start_behind_https().await;
    let mut phone = Browser::default();
    let alice = phone.sign_in(&client, "alice", "yes").await;
    let session = return_session(asks(&phone.begin(&client, &[]).await).await);

    let mut screen = Browser::default();
    let begun = screen.begin(&client, &[]).await;
    let page = ShortPage::open(&mut phone, &client, &begun).await;
    assert_eq!(asks(&begun).await, Asks::First, "the screen itself knows nobody");
    assert_eq!(return_session(page.asks(&client).await), session);
    let digits = page.answer(&client, "alice").await;
    let query = format!("?digits={digits}&remember=no");
    assert_eq!(screen.complete(&client, &begun, &query).await, alice);
    assert!(!screen.remembers());
    let page = ShortPage::open(&mut phone, &client, &begun).await;
    assert!(!page.offers_to_remember() && page.text.contains("remembers your account"), "{}", page.text);
    client.stop().await;
}

#[tokio::test]
async fn a_browser_remembers_the_account_that_was_proved_through_it() {
    let client = start_behind_https().await;
    let (mut screen, mut phone, mut tablet, mut reader) =
        (Browser::default(), Browser::default(), Browser::default(), Browser::default());
    let begun = screen.begin(&client, &[]).await;
    // Each opening gets challenges of its own, and the answer is to one of the phone's.
    let on_tablet = ShortPage::open(&mut tablet, &client, &begun).await;
    assert_eq!(on_tablet.asks(&client).await, Asks::First);
    let page = ShortPage::open(&mut phone, &client, &begun).await;
    assert!(!page.offers_to_remember());
    let digits = page.answer(&client, "alice").await;

    for (browser, is_phone) in [(&mut tablet, false), (&mut reader, false), (&mut phone, true)] {
        let page = ShortPage::open(browser, &client, &begun).await;
        assert_eq!(page.offers_to_remember(), is_phone, "{}", page.text);
        remember(browser, &client, &begun).await;
        assert_eq!(browser.remembers(), is_phone);
        assert!(!ShortPage::open(browser, &client, &begun).await.offers_to_remember());
    }
    let alice = screen.complete(&client, &begun, &format!("?digits={digits}&remember=no")).await;

    let mut other_screen = Browser::default();
    let begun = other_screen.begin(&client, &[]).await;
    let page = ShortPage::open(&mut phone, &client, &begun).await;
    assert!(matches!(page.asks(&client).await, Asks::Return(_)));
    let digits = page.answer(&client, "alice").await;
    assert_eq!(other_screen.complete(&client, &begun, &format!("?digits={digits}&remember=no")).await, alice);
    client.stop().await;
}

#[tokio::test]
async fn no_other_site_lets_a_browser_remember() {
    let client = start().await;
    let (mut screen, mut phone) = (Browser::default(), Browser::default());
    let begun = screen.begin(&client, &[]).await;
    ShortPage::open(&mut phone, &client, &begun).await.answer(&client, "alice").await;
    let url = format!("{}/remember", short_url(&client, &begun).await);
    for (name, value) in [(HeaderName::from_static("sec-fetch-site"), "cross-site"), (ORIGIN, "https://other.example")]
    {
        let posted = client.http.post(&url).header(name, value).header("Cookie", phone.cookies());
        let refused = client.send(posted).await;
        assert!(refused.expect_error(400, "invalid_request", "invalid_request").contains("another site"));
    }
    let unknown = client.daemon.sign_in("/s/aaaaaaaaaaaaaaaa/remember");
    assert_eq!(client.send(client.http.post(unknown)).await.status, 404);
    remember(&mut phone, &client, &begun).await;
    assert!(phone.remembers());
    client.stop().await;
}

/// Which account is asked for where, by what the two browsers remember.
#[tokio::test]
async fn each_browser_asks_for_an_account_that_it_remembers() {
    let client = start_behind_https().await;
    let sessions = async |browser: &mut Browser| return_session(asks(&browser.begin(&client, &[]).await).await);
    let (mut alices, mut bobs, mut both) = (Browser::default(), Browser::default(), Browser::default());
    let alice = alices.sign_in(&client, "alice", "yes").await;
    let bob = bobs.sign_in(&client, "bob", "yes").await;
    // The browser of both used bob's account last. Each First replaces the account's session.
    for person in ["alice", "bob"] {
        let begun = both.begin(&client, &[("prompt", "select_account")]).await;
        begun.answer(&client, person).await;
        both.complete(&client, &begun, "?remember=yes").await;
    }
    let (of_alice, of_bob) = (sessions(&mut alices).await, sessions(&mut bobs).await);

    for (screen, phone, expected) in [
        (&bobs, &alices, &of_alice),
        (&alices, &both, &of_alice),
        (&bobs, &both, &of_bob),
        (&Browser::default(), &both, &of_bob),
        (&bobs, &Browser::default(), &of_bob),
    ] {
        let (mut screen, mut phone) = (screen.clone(), phone.clone());
        let begun = screen.begin(&client, &[]).await;
        let page = ShortPage::open(&mut phone, &client, &begun).await;
        assert_eq!(return_session(page.asks(&client).await), *expected);
    }

    // Whose account the application expects is asked for everywhere.
    let mut screen = bobs.clone();
    let begun = screen.begin(&client, &[]).await;
    begun.answer(&client, "bob").await;
    let answer = screen.get(&client, &format!("{}/complete", begun.base)).await;
    let code = fragment_or_query(location(&answer))["code"].clone();
    let tokens = client.exchange(&code).await;
    let hint = tokens.text("id_token").to_owned();
    assert_eq!(unverified_claims(&hint)["sub"], json!(bob));
    let begun = Browser::default().begin(&client, &[("id_token_hint", &hint)]).await;
    let page = ShortPage::open(&mut alices.clone(), &client, &begun).await;
    assert_eq!(return_session(page.asks(&client).await), of_bob);

    // So is who was chosen at the screen.
    let chosen = Browser::default().begin(&client, &[("prompt", "select_account")]).await;
    assert_eq!(ShortPage::open(&mut alices.clone(), &client, &chosen).await.asks(&client).await, Asks::First);
    // A phone that remembers an account which its authenticator has not gets a way on.
    let mut screen = Browser::default();
    let begun = screen.begin(&client, &[]).await;
    let page = ShortPage::open(&mut alices.clone(), &client, &begun).await;
    assert_eq!(return_session(page.asks(&client).await), of_alice);
    begun.post(&client, &json!({"error_code": "generic_error"})).await.expect_success();
    let failed = screen.get(&client, &format!("{}/complete", begun.base)).await.text().await.expect("text");
    assert!(failed.contains("/another-person"), "{failed}");
    let answer = screen.post(&client, &format!("{}/another-person", begun.base), &[]).await;
    let another = Begun::at(&client, &answer);
    assert_eq!(ShortPage::open(&mut alices.clone(), &client, &another).await.asks(&client).await, Asks::First);

    // A screen that remembers bob signs alice in, by her phone.
    let begun = bobs.begin(&client, &[]).await;
    let page = ShortPage::open(&mut alices, &client, &begun).await;
    let digits = page.answer(&client, "alice").await;
    assert_eq!(bobs.complete(&client, &begun, &format!("?digits={digits}&remember=no")).await, alice);
    client.stop().await;
}

#[tokio::test]
async fn only_the_accounts_that_are_asked_for_somewhere_answer() {
    let client = start().await;
    let (mut alices, mut bobs) = (Browser::default(), Browser::default());
    alices.sign_in(&client, "alice", "yes").await;
    bobs.sign_in(&client, "bob", "yes").await;
    let bobs_session = return_session(asks(&bobs.begin(&client, &[]).await).await);

    let begun = Browser::default().begin(&client, &[]).await;
    let page = ShortPage::open(&mut alices, &client, &begun).await;
    let opened = page.request(&client).await;
    let of_bob = Proofs { client: &client, person: "bob" }.session(&opened, &bobs_session).await;
    let refused = begun.post(&client, &of_bob).await;
    let detail = refused.expect_error(400, "invalid_request", "invalid_request");
    assert!(detail.contains("in another session than the one that was asked for"), "{detail}");
    // A relay that turns the Return of the phone into another First gets what any First gets: the
    // person's own account, found by the nullifier.
    let first = Proofs { client: &client, person: "alice" }.bound(&opened).await;
    begun.post(&client, &first).await.expect_success();

    let begun = bobs.begin(&client, &[]).await;
    let page = ShortPage::open(&mut alices, &client, &begun).await;
    let opened = page.request(&client).await;
    let first = Proofs { client: &client, person: "alice" }.bound(&opened).await;
    begun.post(&client, &first).await.expect_error(400, "invalid_request", "invalid_request");

    let malformed = client.get(&format!("{}?opening=A", begun.request_url()), "application/json").await;
    assert_eq!(malformed.status(), 400);
    let malformed: Value = malformed.json().await.expect("JSON");
    assert_eq!((&malformed["code"], &malformed["attribute"]), (&json!("invalid_request"), &json!("opening")));
    client.stop().await;
}

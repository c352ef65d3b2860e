//! Sign-ins with accounts in which the daemon fails or is killed at each write between the
//! beginning and the token, one after the other: the person goes on with what the browser and the
//! authenticator have, is the same person as ever, and nothing is half written.
//!
//! The authenticator has spent its first proof when it made it, so nothing may ask for another one.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;

use reqwest::header::{ACCEPT, LOCATION};
use reqwest::{Response, Url};
use selfsame_actors::faults::{Fault, FaultPoint, Plan};
use selfsame_protocol::B256;
use selfsame_protocol::encoding::decode;
use selfsame_protocol::sign_in::accounts::SignInAccount;
use selfsame_storage::{RecordKey, RecordKind, Store, StoredRecord};
use selfsame_wallet::client::Client;
use selfsame_wallet::operator::Operator;
use selfsame_wallet::prove::SimulatedParty;
use selfsame_wallet::sign_in::{AskedProof, SignInSession};
use serde_json::Value;
use tokio::task::block_in_place;

use crate::account_client::{Begun, Browser, application_settings, location, start};
use crate::harness::{DaemonProcess, copy_folder, folder};
use crate::sign_in_client::{
    APP, CALLBACK, Form, SECRET, SignInAnswer, SignInTestClient, browser, fragment_or_query, parameters, proof_of,
    unverified_claims, wait_for_signing_keys,
};
use crate::sign_in_legacy::{self, Asked};

/// A service of sign-in that may be gone.
struct Site {
    http: reqwest::Client,
    sign_in: String,
    party: SimulatedParty,
}

/// How many requests [`Site::of`] makes.
const REQUESTS_BEFORE: u64 = 2;

impl Site {
    async fn of(sign_in: &str, operator: &str, registry: Client) -> Self {
        let root = registry.root().await.expect("an answer").root;
        let simulation = Operator::new(operator).expect("an address").simulation().await.expect("an answer");
        let party = SimulatedParty::of(simulation, APP, root).expect("a known application");
        Self { http: browser(), sign_in: sign_in.to_owned(), party }
    }

    async fn of_process(process: &DaemonProcess) -> Self {
        Self::of(&process.sign_in, &process.operator, process.client()).await
    }

    async fn in_this_process(client: &SignInTestClient) -> Self {
        let daemon = &client.daemon;
        Self::of(&daemon.sign_in(""), &daemon.operator(""), daemon.client()).await
    }
}

/// The signal with which a daemon ends at a fault point.
const SIGABRT: i32 = 6;

/// No answer came, or the answer was that there is none now: whether it was done is unknown.
#[derive(Debug)]
struct Gone;

/// The steps of a sign-in, each a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Begin,
    Open,
    Answer,
    Complete,
    Exchange,
}

const STEPS: [Step; 5] = [Step::Begin, Step::Open, Step::Answer, Step::Complete, Step::Exchange];

/// A person at a browser, who wants to sign in.
#[derive(Clone)]
struct Visit {
    person: String,
    browser: Browser,
    /// Whether the authenticator has made its first proof. It gives no other one.
    has_given: bool,
    /// How many sign-ins the person began.
    begun: u32,
    step: Step,
    path: String,
    proof: Value,
    code: String,
}

impl Visit {
    fn new(person: &str, browser: Browser, has_given: bool) -> Self {
        let person = person.to_owned();
        let (step, path, code) = (Step::Begin, String::new(), String::new());
        Self { person, browser, has_given, begun: 0, step, path, proof: Value::Null, code }
    }

    /// Goes on until the person is signed in; returns the subject.
    async fn sign_in(&mut self, site: &Site) -> Result<String, Gone> {
        loop {
            if let Some(subject) = self.go_on(site).await? {
                return Ok(subject);
            }
        }
    }

    /// Closes the tab: the cookies stay.
    fn close_tab(&mut self) {
        *self = Self { begun: self.begun, ..Self::new(&self.person, self.browser.clone(), self.has_given) };
    }

    async fn get(&mut self, site: &Site, url: &str) -> Result<Response, Gone> {
        let request = site.http.get(url).header(ACCEPT, "text/html").header("Cookie", self.browser.cookies());
        let answer = given(request.send().await)?;
        self.browser.keep(&answer);
        Ok(answer)
    }

    /// Makes the next step.
    async fn go_on(&mut self, site: &Site) -> Result<Option<String>, Gone> {
        match self.step {
            Step::Begin => {
                let state = format!("state {}", self.begun);
                let asked = parameters(&[("prompt", "login"), ("state", &state)]);
                let url = Url::parse_with_params(&format!("{}/authorize", site.sign_in), asked).expect("a URL");
                let answer = self.get(site, url.as_str()).await?;
                let location = answer.headers()[LOCATION].to_str().expect("text");
                // Otherwise the application hears that it is not possible now.
                let path = location.find("/authorize/").map(|start| location[start..].to_owned());
                self.path = path.ok_or_else(|| {
                    assert_eq!(fragment_or_query(location)["error"], "temporarily_unavailable", "{location}");
                    Gone
                })?;
                self.begun += 1;
                self.step = Step::Open;
            }
            Step::Open => {
                let opened = SignInSession::open(&format!("{}{}/request", site.sign_in, self.path)).await;
                let opened = opened.map_err(|_| Gone)?;
                if AskedProof::of(opened.request()) == Ok(AskedProof::BoundUniqueness) {
                    assert!(!self.has_given, "{} is asked for a second first proof", self.person);
                    self.has_given = true;
                }
                self.proof = proof_of(&opened, &self.person, &site.party);
                self.step = Step::Answer;
            }
            Step::Answer => {
                let request = site.http.post(format!("{}{}/proof", site.sign_in, self.path)).json(&self.proof);
                let answer = SignInAnswer::of(given(request.send().await)?).await;
                // An answer that was lost was taken all the same.
                let was_taken = answer.body["detail"].as_str().is_some_and(|text| text.contains("has been answered"));
                assert!(answer.status == 200 || was_taken, "{answer:?}");
                self.step = Step::Complete;
            }
            Step::Complete => {
                let url = format!("{}{}/complete?remember=yes", site.sign_in, self.path);
                let answer = self.get(site, &url).await?;
                assert_eq!(answer.status(), 303, "{answer:?}");
                let location = answer.headers()[LOCATION].to_str().expect("text");
                self.code = fragment_or_query(location)["code"].clone();
                self.step = Step::Exchange;
            }
            Step::Exchange => {
                let form = [("grant_type", "authorization_code"), ("code", &*self.code), ("redirect_uri", CALLBACK)];
                let request = site.http.post(format!("{}/token", site.sign_in)).basic_auth(APP, Some(SECRET));
                let answer = SignInAnswer::of(given(request.form(&form).send().await)?).await;
                if answer.status != 200 {
                    // The code was used, and the application did not get its tokens: it asks again.
                    assert_eq!(answer.body["error"], "invalid_grant", "{answer:?}");
                    self.close_tab();
                    return Ok(None);
                }
                let claims = unverified_claims(answer.text("id_token"));
                return Ok(Some(claims["sub"].as_str().expect("a subject").to_owned()));
            }
        }
        Ok(None)
    }
}

fn given(answer: reqwest::Result<Response>) -> Result<Response, Gone> {
    answer.ok().filter(|answer| !answer.status().is_server_error()).ok_or(Gone)
}

/// Asserts that the person is found by the browser, and by another installation in another browser.
async fn expect_found(site: &Site, visit: &Visit, subject: &str) {
    let mut again = visit.clone();
    again.close_tab();
    again.has_given = true;
    assert_eq!(again.sign_in(site).await.expect("signed in"), subject, "{}: in the same browser", visit.person);
    let mut reinstalled = Visit::new(&visit.person, Browser::default(), false);
    assert_eq!(reinstalled.sign_in(site).await.expect("signed in"), subject, "{}: by the nullifier", visit.person);
    assert!(reinstalled.has_given);
}

/// The accounts of a stopped daemon: each has to have its nullifier and its session, and no other
/// one may be there.
fn whole_accounts(data: &Path) -> BTreeSet<B256> {
    let store = Store::open_existing(&selfsame::daemon::store_folder(data), 1 << 20).expect("the store opens");
    let (mut accounts, mut nullifiers, mut sessions) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let visit = |family: &str, key: &[u8], value: &[u8]| {
        if family != "records" {
            return;
        }
        let (key, record): (RecordKey, StoredRecord) = (decode(key).expect("a key"), decode(value).expect("a record"));
        let subject = || decode::<B256>(&record.value).expect("a subject");
        let is_new = match key.kind {
            RecordKind::Account => accounts.insert(decode::<SignInAccount>(&record.value).expect("an account").subject),
            RecordKind::AccountByNullifier => nullifiers.insert(subject()),
            RecordKind::AccountBySession => sessions.insert(subject()),
            _ => true,
        };
        assert!(is_new, "two records of one account: {key:?}");
    };
    store.visit_records(visit).expect("records");
    assert_eq!((&accounts, &accounts), (&nullifiers, &sessions), "half an account");
    accounts
}

/// Where a daemon is killed: before a write, and when all writes of a request are durable and its
/// answer was not sent. How many visits of the point are of no step of a sign-in.
const KILLS: [(&str, bool, u64); 2] = [("selfsame-0/records.write", false, 0), ("http.answer", true, REQUESTS_BEFORE)];

/// Kills a daemon at each of these places in turn in a sign-in of `visit`, from a copy of the store
/// in `base`, until one comes through.
async fn kill_at_each_write(base: &Path, settings: &str, visit: &Visit, accounts_before: usize) {
    for (point, is_after, first) in KILLS {
        let mut killed_in = BTreeSet::new();
        for place in first.. {
            let folder = folder();
            let (data, config) = (folder.path().join("data"), folder.path().join("selfsame.toml"));
            copy_folder(base, &data);
            std::fs::write(&config, settings).expect("written");
            let arguments = ["--config", config.to_str().expect("text")];
            let start = |data: &Path, variables: &[(&str, &str)]| {
                block_in_place(|| DaemonProcess::start(data, &arguments, variables))
            };
            let process = start(&data, &[("FAILPOINTS", &format!("{point}={place}*off->1*return(crash)->off"))]);
            let mut visit = visit.clone();
            let outcome = visit.sign_in(&Site::of_process(&process).await).await;
            if outcome.is_ok() {
                block_in_place(|| process.kill());
                break;
            }
            let status = block_in_place(|| process.wait());
            assert_eq!(status.signal(), Some(SIGABRT), "{point} {place}: {status}");
            let step = visit.step;
            killed_in.insert(step);
            let is_made = step > Step::Answer || (step == Step::Answer && is_after);
            assert_eq!(whole_accounts(&data).len(), 1.min(accounts_before + usize::from(is_made)), "{point}: {step:?}");

            // The page is still open.
            let closed = folder.path().join("closed");
            copy_folder(&data, &closed);
            let process = start(&data, &[]);
            let site = Site::of_process(&process).await;
            let mut open = visit.clone();
            let subject = open.sign_in(&site).await.expect("signed in");
            expect_found(&site, &open, &subject).await;
            block_in_place(|| process.kill());
            assert_eq!(whole_accounts(&data).len(), 1, "{point}: {step:?}");
            // Its tab was closed. An authenticator whose proof was not written has to send it
            // again, into the page that is open.
            if !visit.has_given || is_made {
                let process = start(&closed, &[]);
                visit.close_tab();
                let again = visit.sign_in(&Site::of_process(&process).await).await.expect("signed in");
                assert_eq!(again, subject, "{point}: {step:?}");
                block_in_place(|| process.kill());
            }
        }
        assert_eq!(killed_in, BTreeSet::from(STEPS), "{point}: each step writes");
    }
}

/// A data folder with signing keys and no account, and the settings of its application.
async fn base_folder(folder: &Path) -> String {
    let (settings, config) = (application_settings(), folder.join("selfsame.toml"));
    std::fs::write(&config, &settings).expect("written");
    let arguments = ["--config", config.to_str().expect("text")];
    let process = block_in_place(|| DaemonProcess::start(&folder.join("data"), &arguments, &[]));
    wait_for_signing_keys(&process.sign_in).await;
    assert!(block_in_place(|| process.terminate()).success());
    settings
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_write_of_a_first_visit_leaves_one_whole_account_or_none() {
    let folder = folder();
    let settings = base_folder(folder.path()).await;
    let visit = Visit::new("alice", Browser::default(), false);
    kill_at_each_write(&folder.path().join("data"), &settings, &visit, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_at_any_write_of_a_return_loses_no_account() {
    let folder = folder();
    let settings = base_folder(folder.path()).await;
    let (data, config) = (folder.path().join("data"), folder.path().join("selfsame.toml"));
    let arguments = ["--config", config.to_str().expect("text")];
    let process = block_in_place(|| DaemonProcess::start(&data, &arguments, &[]));
    let mut visit = Visit::new("alice", Browser::default(), false);
    visit.sign_in(&Site::of_process(&process).await).await.expect("signed in");
    visit.close_tab();
    assert!(block_in_place(|| process.terminate()).success());
    kill_at_each_write(&data, &settings, &visit, 1).await;
}

/// The write fails, or is made and reported as failed; the daemon lives, and the person tries
/// again.
#[tokio::test]
async fn a_failure_at_any_write_of_a_sign_in_is_made_good_by_the_next_try() {
    let client = start().await;
    let site = Site::in_this_process(&client).await;
    for point in [FaultPoint::RecordsWrite, FaultPoint::GroupCommitBefore, FaultPoint::GroupCommitAfter] {
        let mut failed_in = BTreeSet::new();
        for number in 0.. {
            let person = format!("{} {number}", point.name());
            let mut visit = Visit::new(&person, Browser::default(), false);
            let plan = Plan::for_instance(&client.daemon.instance).strike_times(point, Fault::Error, number, 1).run();
            let mut outcome = visit.sign_in(&site).await;
            if outcome.is_err() {
                failed_in.insert(visit.step);
                outcome = visit.sign_in(&site).await;
            }
            let subject = outcome.unwrap_or_else(|_| panic!("{point:?} {number}: it fails on in {:?}", visit.step));
            let is_over = plan.strikes(point) == 0;
            drop(plan);
            expect_found(&site, &visit, &subject).await;
            if is_over {
                break;
            }
        }
        assert_eq!(failed_in, BTreeSet::from(STEPS), "{point:?}");
    }
    let SignInTestClient { daemon, folder, http } = client;
    drop((http, site));
    daemon.stop().await;
    assert!(!whole_accounts(folder.path()).is_empty());
}

/// One try to sign `person` in with a legacy proof and to attach a current one; `None` where a step
/// fails. What is attached already is signed in with.
async fn try_to_attach(client: &SignInTestClient, browser: &mut Browser, person: &str) -> Option<String> {
    let url = client.authorization_url(&[("prompt", "login"), ("state", person)]);
    // An application is told of a beginning that fails.
    let is_page = |answer: &Response| answer.status() == 303 && location(answer).contains("/authorize/");
    let at = |answer: Response| is_page(&answer).then(|| Begun::at(client, &answer));
    let begun = at(browser.get(client, &url).await)?;
    let opened = SignInSession::open(&begun.request_url()).await.ok()?;
    let is_legacy = opened.request().is_legacy();
    // A sign-in that was answered before goes on with that.
    drop(client.answer(&opened, person).await);
    let last = match is_legacy {
        true => {
            let form = [("next", "attached")];
            let next = at(browser.post(client, &format!("{}/go-on", begun.base), &form).await)?;
            drop(client.answer(&SignInSession::open(&next.request_url()).await.ok()?, person).await);
            next
        }
        false => begun,
    };
    let answer = browser.get(client, &format!("{}/complete{}", last.base, sign_in_legacy::YES)).await;
    let code = (answer.status() == 303).then(|| fragment_or_query(location(&answer)))?.remove("code")?;
    let tokens = client.exchange(&code).await;
    let token = tokens.body["id_token"].as_str()?;
    Some(unverified_claims(token)["sub"].as_str().expect("a subject").to_owned())
}

/// The same while current proofs are attached to an account of legacy ones.
async fn attach_while_each_write_fails(point: FaultPoint) {
    let client = sign_in_legacy::start().await;
    for number in 0.. {
        let (person, mut browser) = (format!("{} {number}", point.name()), Browser::default());
        let subject = sign_in_legacy::sign_in(&client, &mut browser, &person, sign_in_legacy::YES).await;
        sign_in_legacy::wait(&client, sign_in_legacy::DAY);
        let plan = Plan::for_instance(&client.daemon.instance).strike_times(point, Fault::Error, number, 1).run();
        let mut signed_in = None;
        for _ in 0..3 {
            signed_in = try_to_attach(&client, &mut browser, &person).await;
            if signed_in.is_some() {
                break;
            }
        }
        assert_eq!(signed_in.as_ref(), Some(&subject), "{person}");
        let is_over = plan.strikes(point) == 0;
        drop(plan);
        // The browser asks for the session, and the nullifier finds the account elsewhere.
        let begun = browser.begin(&client, &[]).await;
        assert_eq!(sign_in_legacy::asked(&begun).await, Asked::Return, "{person}");
        let mut other = Browser::default();
        let begun = other.begin(&client, &[]).await;
        begun.give_up(&client, "world_id_3_not_available").await;
        let answer = other.get(&client, &format!("{}/complete", begun.base)).await;
        let next = Begun::at(&client, &answer);
        next.prove(&client, &person).await;
        let found = sign_in_legacy::completed(&client, &mut other, &next, sign_in_legacy::NO).await;
        assert_eq!(found, subject, "{person}");
        if is_over {
            break;
        }
    }
    client.stop().await;
}

#[tokio::test]
async fn a_failure_before_a_write_that_attaches_proofs_leaves_them_whole_or_not_there() {
    attach_while_each_write_fails(FaultPoint::GroupCommitBefore).await;
}

#[tokio::test]
async fn a_failure_after_a_write_that_attaches_proofs_leaves_them_whole_or_not_there() {
    attach_while_each_write_fails(FaultPoint::GroupCommitAfter).await;
}

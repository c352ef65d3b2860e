//! Years of sign-ins in simulated time, by people whose authenticators guard their nullifiers: they
//! give a proof of uniqueness for ten minutes, and then not again for a year.
//!
//! `TEST_DAILY_SIGN_INS` sets in how many of the three browsers a person signs in each day.

use std::collections::BTreeSet;
use std::time::Duration;

use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::time::UnixSeconds;
use selfsame_protocol::verification::identity::hash_text;
use selfsame_wallet::guard::{GIVEN_AGAIN, Guard, REFUSED_UNTIL};
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use selfsame_wallet::sign_in::{AskedProof, Place, SignInSession};
use serde_json::json;

use crate::account_client::{Asks, Begun, Browser, asks, location, return_session, start_behind_https};
use crate::harness::{Folder, folder, until, variable};
use crate::sign_in_accounts::Proofs;
use crate::sign_in_client::{APP, SignInTestClient, fragment_or_query, random, wanted};
use crate::sign_in_openings::ShortPage;
use crate::sign_in_pointers::{make_code, type_code};
use crate::test_accounts::person_of;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// What an authenticator gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gave {
    First,
    Return,
    /// It has given its proof of uniqueness before.
    Replayed,
}

/// An installation of an authenticator, as people have it.
struct Installation {
    person: &'static str,
    guard: Guard,
    party: SimulatedParty,
    _memory: Folder,
}

impl Installation {
    async fn new(client: &SignInTestClient, person: &'static str) -> Self {
        let memory = folder();
        let guard = Guard::open(&memory.path().join("wallet")).expect("a memory");
        let begun = Browser::default().begin(client, &[]).await;
        let party = Proofs { client, person }.party(&begun.open().await).await;
        Self { person, guard, party, _memory: memory }
    }

    fn nullifier(&self) -> Nullifier {
        prove::nullifier(&person_of(self.person), self.party.rp_id, hash_text("sign-in"))
    }

    /// Answers what is asked for. Returns what it gave, and the digits that it shows.
    async fn answer(&mut self, client: &SignInTestClient, opened: &SignInSession, place: Place) -> (Gave, String) {
        let (person, asked, now) = (person_of(self.person), wanted(opened), UnixSeconds(client.now()));
        let (gave, body) = match AskedProof::of(opened.request()).expect("a known proof") {
            AskedProof::Session(id) => {
                let proof = prove::session_of_id(&person, id, &asked, &self.party, &mut random());
                (Gave::Return, proof.expect("the session of this person"))
            }
            AskedProof::BoundUniqueness => {
                let asked = ProofParameters { action: "sign-in", ..asked };
                if self.guard.check(self.nullifier(), now).is_err() {
                    (Gave::Replayed, json!({"error_code": "nullifier_replayed"}))
                } else {
                    self.guard.record(&[self.nullifier()], now).expect("remembered");
                    let proof = prove::bound_uniqueness(&person, &asked, &self.party, &mut random());
                    (Gave::First, proof.expect("a proof"))
                }
            }
            other => panic!("{other:?}"),
        };
        let base = opened.request().answer_url.trim_end_matches("/proof");
        let base = client.daemon.sign_in(&base[base.find("/authorize/").expect("an address of a sign-in")..]);
        let mut body = body;
        if gave != Gave::Replayed && place == Place::There {
            body["digits"] = json!(true);
        }
        let answer = Begun { base }.post(client, &body).await;
        answer.expect_success();
        (gave, answer.body["digits"].as_str().unwrap_or_default().to_owned())
    }

    /// Answers a sign-in that waits on a screen.
    async fn answer_screen(&mut self, client: &SignInTestClient, begun: &Begun) -> Gave {
        self.answer(client, &begun.open().await, Place::Unsaid).await.0
    }
}

/// The ways to a page that says why there is no proof.
async fn page_without_proof(client: &SignInTestClient, browser: &mut Browser, begun: &Begun) -> String {
    let page = browser.get(client, &format!("{}/complete", begun.base)).await;
    assert_eq!(page.status(), 200);
    page.text().await.expect("text")
}

async fn audited(client: &SignInTestClient, event: &str, outcome: &str) -> u64 {
    let metrics = client.get(&client.daemon.operator("/metrics"), "*/*").await.text().await.expect("text");
    let sample = format!("selfsame_audit_events_total{{event=\"{event}\",outcome=\"{outcome}\"}} ");
    let found = metrics.lines().find_map(|line| line.strip_prefix(&sample));
    found.map_or(0, |count| count.parse().expect("a number"))
}

#[tokio::test]
async fn a_person_signs_in_daily_for_a_year_with_a_guarded_authenticator() {
    let client = start_behind_https().await;
    let mut wallet = Installation::new(&client, "alice").await;
    let began = client.now();
    let mut browsers = [(); 3].map(|()| Browser::default());
    let (mut subjects, mut firsts, mut code) = (BTreeSet::new(), 0, String::new());
    let daily: usize = variable("TEST_DAILY_SIGN_INS").unwrap_or(1);
    // The first visits of all three are within ten minutes.
    for day in 0..=365_usize {
        let today = if day == 0 { 3 } else { daily };
        for number in 0..today {
            let browser = &mut browsers[(day + number) % 3];
            let begun = browser.begin(&client, &[]).await;
            match wallet.answer_screen(&client, &begun).await {
                Gave::First => firsts += 1,
                Gave::Return => {}
                Gave::Replayed => panic!("a dead end on day {day}"),
            }
            subjects.insert(browser.complete(&client, &begun, "?remember=yes").await);
        }
        assert_eq!((subjects.len(), firsts), (1, 3), "day {day}");
        if day == 100 {
            code = make_code(&client, &mut browsers[day % 3], APP).await;
        }
        // Cookies cleared, and the same authenticator: the code leads back.
        if day == 200 {
            browsers[0] = Browser::default();
            let begun = browsers[0].begin(&client, &[]).await;
            assert_eq!(wallet.answer_screen(&client, &begun).await, Gave::Replayed);
            let page = page_without_proof(&client, &mut browsers[0], &begun).await;
            assert!(page.contains("/code\">I have a sign-in code<"), "{page}");
            let answer = type_code(&client, &mut browsers[0], &begun, &code).await;
            let found = Begun::at(&client, &answer);
            assert_eq!(wallet.answer_screen(&client, &found).await, Gave::Return);
            subjects.insert(browsers[0].complete(&client, &found, "?remember=yes").await);
            assert_eq!(subjects.len(), 1);
        }
        client.daemon.clock.advance(DAY);
    }

    // With nothing at all: a page that names it and what helps, and a refusal that is counted.
    let refused = audited(&client, "sign_in_answered", "refused_by_wallet").await;
    assert_eq!(refused, 1, "that of the day without cookies");
    // The guard counts from its first proof: a year later, inclusive, it refuses for the last time.
    client.daemon.clock.set(Duration::from_secs(began + REFUSED_UNTIL));
    let mut nothing = Browser::default();
    let begun = nothing.begin(&client, &[]).await;
    assert_eq!(wallet.answer_screen(&client, &begun).await, Gave::Replayed);
    let page = page_without_proof(&client, &mut nothing, &begun).await;
    for helps in ["with the camera of a phone", "another device", "sign-in code", "/new-code", "(nullifier_replayed)"] {
        assert!(page.contains(helps), "{helps}: {page}");
    }
    let onward = nothing.get(&client, &format!("{}/complete?onward=1", begun.base)).await;
    let told = fragment_or_query(location(&onward));
    assert_eq!(told["error"], "interaction_required", "{told:?}");
    until("the count", async || match audited(&client, "sign_in_answered", "refused_by_wallet").await {
        2 => Ok(()),
        other => Err(other),
    })
    .await;

    // A second after the year it gives the proof, which finds the account, and everybody goes on.
    client.daemon.clock.advance(Duration::from_secs(1));
    let begun = nothing.begin(&client, &[]).await;
    assert_eq!(wallet.answer_screen(&client, &begun).await, Gave::First);
    subjects.insert(nothing.complete(&client, &begun, "?remember=yes").await);
    for browser in &mut browsers {
        let begun = browser.begin(&client, &[]).await;
        assert_eq!(wallet.answer_screen(&client, &begun).await, Gave::Return);
        subjects.insert(browser.complete(&client, &begun, "").await);
    }
    // Ten minutes later it refuses again, and another installation of the person does not.
    client.daemon.clock.advance(Duration::from_secs(GIVEN_AGAIN + 1));
    let begun = Browser::default().begin(&client, &[]).await;
    assert_eq!(wallet.answer_screen(&client, &begun).await, Gave::Replayed);
    let mut reinstalled = Installation::new(&client, "alice").await;
    let mut fresh = Browser::default();
    let begun = fresh.begin(&client, &[]).await;
    assert_eq!(reinstalled.answer_screen(&client, &begun).await, Gave::First);
    subjects.insert(fresh.complete(&client, &begun, "?remember=no").await);
    assert_eq!(subjects.len(), 1);
    client.stop().await;
}

/// The browser of the computer remembers both, and asks for the one who was there last.
#[tokio::test]
async fn two_people_at_one_computer_keep_apart_for_a_year() {
    let client = start_behind_https().await;
    let mut computer = Browser::default();
    let mut people = Vec::new();
    for person in ["alice", "bob"] {
        let mut wallet = Installation::new(&client, person).await;
        // Each has a phone, whose browser remembers the account of its owner.
        let mut phone = Browser::default();
        let begun = phone.begin(&client, &[]).await;
        assert_eq!(wallet.answer_screen(&client, &begun).await, Gave::First);
        let subject = phone.complete(&client, &begun, "?remember=yes").await;
        people.push((wallet, phone, subject));
    }
    assert_ne!(people[0].2, people[1].2);
    let mut last = None;
    for week in 0..53 {
        // In turn, and sometimes the same one twice.
        let number = [0, 1, 1, 0, 1][week % 5];
        let (wallet, phone, subject) = &mut people[number];
        let begun = computer.begin(&client, &[]).await;
        let asked_for_last = match (asks(&begun).await, last) {
            (Asks::First, None) => false,
            (Asks::Return(_), Some(last)) => last == number,
            other => panic!("week {week}: {other:?}"),
        };
        let query = if asked_for_last {
            assert_eq!(wallet.answer_screen(&client, &begun).await, Gave::Return);
            String::new()
        } else {
            // The phone's camera: the phone asks for the account of its owner.
            let page = ShortPage::open(phone, &client, &begun).await;
            let (gave, digits) = wallet.answer(&client, &page.request(&client).await, Place::There).await;
            assert_eq!(gave, Gave::Return, "week {week}");
            format!("?digits={digits}&remember=yes")
        };
        assert_eq!(computer.complete(&client, &begun, &query).await, *subject, "week {week}");
        last = Some(number);
        client.daemon.clock.advance(7 * DAY);
    }

    // The other one's proof is none for the account that is asked for, whoever presses what.
    let last = last.expect("somebody");
    let begun = computer.begin(&client, &[]).await;
    let opened = begun.open().await;
    let asked = return_session(asks(&begun).await);
    let other = &people[1 - last].0;
    let other = Proofs { client: &client, person: other.person };
    assert_eq!(begun.post(&client, &other.bound(&opened).await).await.status, 400);
    let refused = prove::session_of_id(
        &person_of(other.person),
        &asked,
        &wanted(&opened),
        &other.party(&opened).await,
        &mut random(),
    );
    assert!(refused.is_err(), "a wallet proves no session of another person");
    // "Another person" asks anybody, whose proof decides.
    let answer = computer.post(&client, &format!("{}/another-person", begun.base), &[]).await;
    let anybody = Begun::at(&client, &answer);
    assert_eq!(asks(&anybody).await, Asks::First);
    client.stop().await;
}

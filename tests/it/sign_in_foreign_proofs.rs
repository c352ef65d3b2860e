//! Answers to sign-ins that are no proof for them: those of other people, sessions, applications
//! and sign-ins, and good ones of which something was changed. None signs anybody in, each is
//! refused with a reason, and the person who was asked signs in afterwards.
//!
//! `TEST_FOREIGN_PROOFS` sets how many are sent, with the last of the [`seeds`].

use std::collections::{BTreeMap, BTreeSet};

use futures_util::{StreamExt, stream};
use serde_json::{Value, json};

use crate::account_client::{Asks, Begun, Browser, asks, return_session, start_behind_https};
use crate::harness::{seeds, variable};
use crate::sign_in_accounts::Proofs;
use crate::sign_in_client::{OTHER_APP, SignInTestClient};
use crate::sign_in_openings::ShortPage;
use crate::torture::choices::CrashChoices;

/// How many answers are sent without the variable.
const USUAL_TRIES: usize = 2500;

/// How many are on their way at a time: one source has a quarter of the permits of proofs.
const AT_A_TIME: usize = 4;

/// A sign-in that waits for its person.
struct Target {
    what: &'static str,
    browser: Browser,
    begun: Begun,
    person: &'static str,
    /// Answers that hold for it. They are sent only after something of them was changed.
    good: Vec<Value>,
    /// Answers that hold, and not for it.
    foreign: Vec<Value>,
    /// A challenge of it that no answer here is bound to.
    other_nonce: Value,
}

/// What strangers can know.
struct Known {
    /// Sessions of accounts, and former ones, at both applications.
    sessions: Vec<String>,
    /// Nullifiers of proofs.
    nullifiers: Vec<Value>,
}

/// A change after which an answer no longer holds, whatever it was.
type Spoil = fn(&mut Value, &mut CrashChoices, &Known);

/// The id with another commitment.
fn with_commitment(id: &str, commitment: &str) -> String {
    format!("session_{commitment:0>64}{}", &id["session_".len() + 64..])
}

fn commitment(id: &str) -> String {
    id["session_".len()..][..64].to_ascii_lowercase()
}

/// Any well-formed id, where an answer has none.
const SOME_ID: &str = "session_00000000000000000000000000000000000000000000000000000000000000070100000000000000000000000000000000000000000000000000000000000000";

fn id_of(answer: &Value) -> String {
    answer["session_id"].as_str().unwrap_or(SOME_ID).to_owned()
}

/// Digits in upper or lower case, by chance: the same number.
fn re_cased(id: &str, choices: &mut CrashChoices) -> String {
    let digits = id["session_".len()..].chars().map(|digit| match choices.one_in(2) {
        true => digit.to_ascii_uppercase(),
        false => digit.to_ascii_lowercase(),
    });
    format!("session_{}", digits.collect::<String>())
}

fn field(answer: &mut Value, name: &str) -> Value {
    answer.as_object_mut().expect("an object").remove(name).unwrap_or_default()
}

/// Each makes the statement another one than that of the proof.
const SPOILS: &[(&str, Spoil)] = &[
    ("a session of somebody", |answer, choices, known| {
        let own = commitment(&id_of(answer));
        let others: Vec<_> = known.sessions.iter().filter(|id| commitment(id) != own).collect();
        answer["session_id"] = json!(choices.one_of(&others).expect("others"));
    }),
    ("a session of somebody in another case", |answer, choices, known| {
        let own = commitment(&id_of(answer));
        let others: Vec<_> = known.sessions.iter().filter(|id| commitment(id) != own).collect();
        let id = choices.one_of(&others).expect("others").to_string();
        answer["session_id"] = json!(re_cased(&id, choices));
    }),
    ("the commitment 0", |answer, _, _| answer["session_id"] = json!(with_commitment(&id_of(answer), "0"))),
    ("a drawn commitment", |answer, choices, _| {
        let drawn = format!("0{}", &hex(choices.bytes())[1..]);
        answer["session_id"] = json!(with_commitment(&id_of(answer), &drawn));
    }),
    ("the commitment of the next number", |answer, _, _| {
        let id = id_of(answer);
        let last = u8::from_str_radix(&id[71..72], 16).expect("a digit");
        answer["session_id"] = json!(format!("{}{:x}{}", &id[..71], (last + 1) % 16, &id[72..]));
    }),
    ("no session", |answer, choices, _| match choices.one_in(2) {
        true => drop(field(answer, "session_id")),
        false => answer["session_id"] = Value::Null,
    }),
    ("no session and no type", |answer, _, _| {
        field(answer, "session_id");
        field(answer, "proof_type");
    }),
    ("another word for the session", |answer, choices, _| {
        let words = ["create", "", "session_", "null", "session_create", "\u{0}", "séssion_"];
        answer["session_id"] = json!(choices.one_of(&words));
    }),
    ("a session of another form", |answer, choices, _| {
        let id = id_of(answer);
        let forms = [
            json!(id.to_uppercase()),
            json!(format!(" {id}")),
            json!(&id[..id.len() - 1]),
            json!(format!("{id}0")),
            json!(id.replace("session_", "session_0x")),
            json!(id.replace("session_", "session-")),
            json!([id]),
            json!({"id": id}),
            json!(7),
            json!(true),
            json!(with_commitment(&id, &"f".repeat(64))),
        ];
        answer["session_id"] = choices.one_of(&forms).expect("a form").clone();
    }),
    ("the session `create` and its type", |answer, choices, _| {
        answer["session_id"] = json!("create");
        answer["proof_type"] = json!(choices.one_of(&["create_session", "uniqueness", "session"]));
    }),
    ("a word of the proof", |answer, choices, _| {
        let proof = answer["responses"][0]["proof"].as_array_mut().expect("words");
        let index = choices.below(proof.len());
        proof[index] = json!(format!("0x{}", hex(choices.bytes())));
    }),
    ("the nullifier of somebody", |answer, choices, known| {
        let nullifier = choices.one_of(&known.nullifiers).expect("nullifiers").clone();
        match &mut answer["responses"][0]["session_nullifier"] {
            Value::Array(numbers) => numbers[0] = nullifier,
            _ => {
                let own = &mut answer["responses"][0]["nullifier"];
                *own = if *own == nullifier { json!("0x7") } else { nullifier };
            }
        }
    }),
    ("the other kind of nullifier", |answer, choices, _| {
        let item = &mut answer["responses"][0];
        let (unique, session) = (field(item, "nullifier"), field(item, "session_nullifier"));
        match unique.is_null() {
            true => item["nullifier"] = session[0].clone(),
            false => item["session_nullifier"] = json!([unique, format!("0x02{}", &hex(choices.bytes())[2..])]),
        }
    }),
    ("the other kind of proof", |answer, choices, _| {
        let item = &mut answer["responses"][0];
        let (unique, session) = (field(item, "nullifier"), field(item, "session_nullifier"));
        match unique.is_null() {
            true => {
                item["nullifier"] = session[0].clone();
                answer["action"] = json!("sign-in");
                answer["proof_type"] = json!("uniqueness");
            }
            false => {
                item["session_nullifier"] = json!([unique, format!("0x02{}", &hex(choices.bytes())[2..])]);
                field(answer, "action");
                answer["proof_type"] = json!("session");
            }
        }
    }),
    ("another issuer", |answer, _, _| answer["responses"][0]["issuer_schema_id"] = json!(999)),
    ("another credential", |answer, choices, _| {
        answer["responses"][0]["identifier"] = json!(choices.one_of(&["", "orb", "x", "PROOF_OF_HUMAN"]));
    }),
    ("another expiry", |answer, choices, _| {
        answer["responses"][0]["expires_at_min"] = json!(4_102_444_801_u64 + choices.below(1000) as u64);
    }),
    ("another version", |answer, choices, _| {
        answer["protocol_version"] =
            choices.one_of(&[json!("3.0"), json!("5.0"), json!(4), Value::Null]).expect("a version").clone();
    }),
    ("two proofs or none", |answer, choices, _| {
        let item = answer["responses"][0].clone();
        answer["responses"] = if choices.one_in(2) { json!([item, item]) } else { json!([]) };
    }),
];

/// What changes nothing about a foreign answer.
const DISGUISES: &[(&str, Spoil)] = &[
    ("as it is", |_, _, _| {}),
    ("its session in another case", |answer, choices, _| {
        if answer["session_id"].is_string() {
            answer["session_id"] = json!(re_cased(&id_of(answer), choices));
        }
    }),
    ("without its nonce", |answer, _, _| drop(field(answer, "nonce"))),
    ("with a drawn nonce", |answer, choices, _| answer["nonce"] = json!(format!("0x0{}", &hex(choices.bytes())[1..]))),
    ("with the action of sign-ins", |answer, _, _| answer["action"] = json!("sign-in")),
    ("without a type", |answer, _, _| drop(field(answer, "proof_type"))),
];

fn hex(bytes: [u8; 32]) -> String {
    alloy_primitives::hex::encode(bytes)
}

impl Target {
    /// The next answer that must not sign in, and what it is.
    fn answer(&self, choices: &mut CrashChoices, known: &Known) -> (String, Value) {
        let is_good = choices.one_in(2) || self.foreign.is_empty();
        let pool = if is_good { &self.good } else { &self.foreign };
        let mut answer = choices.one_of(pool).expect("answers").clone();
        let (spoil, change): &(&str, Spoil) = match is_good {
            // A challenge that the proof is not bound to.
            true if choices.one_in(12) => {
                answer["nonce"] = self.other_nonce.clone();
                return (format!("{}: good for another challenge", self.what), answer);
            }
            true => choices.one_of(SPOILS).expect("changes"),
            false if choices.one_in(3) => choices.one_of(SPOILS).expect("changes"),
            false => choices.one_of(DISGUISES).expect("changes"),
        };
        change(&mut answer, choices, known);
        if choices.one_in(8) {
            answer["digits"] = json!(true);
        }
        let kind = if is_good { "good but for" } else { "foreign," };
        (format!("{}: {kind} {spoil}", self.what), answer)
    }
}

/// Sends the answers that follow from a seed; returns how often each reason was given.
async fn send(
    client: &SignInTestClient,
    targets: &[Target],
    known: &Known,
    seed: u64,
    tries: usize,
) -> BTreeMap<String, usize> {
    let mut choices = CrashChoices::of(seed, "foreign proofs");
    let sent = (0..tries).map(|number| {
        let target = &targets[number % targets.len()];
        let (what, answer) = target.answer(&mut choices, known);
        async move { (number, what, answer.clone(), target.begun.post(client, &answer).await) }
    });
    let mut reasons = BTreeMap::new();
    let mut answers = stream::iter(sent).buffer_unordered(AT_A_TIME);
    while let Some((number, what, sent, answer)) = answers.next().await {
        let shown = || format!("seed {seed}, try {number}, {what}: {sent}: {answer:?}");
        assert_eq!(answer.status, 400, "{}", shown());
        assert!(answer.body["detail"].as_str().is_some_and(|detail| !detail.is_empty()), "{}", shown());
        assert!(answer.body["code"].is_string() && answer.body["success"] != json!(true), "{}", shown());
        let detail: String = answer.text("detail").chars().take(60).collect();
        *reasons.entry(detail).or_default() += 1;
    }
    reasons
}

/// Signs `person` in at the other application, in a browser that remembers the account. Returns the
/// proof.
async fn sign_in_elsewhere(client: &SignInTestClient, browser: &mut Browser, person: &str) -> (Value, String) {
    let begun = browser.begin(client, &[("client_id", OTHER_APP)]).await;
    let proof = Proofs { client, person }.bound(&begun.open().await).await;
    begun.post(client, &proof).await.expect_success();
    browser.get(client, &format!("{}/complete?remember=yes", begun.base)).await;
    let again = browser.begin(client, &[("client_id", OTHER_APP)]).await;
    let opened = again.open().await;
    let id = return_session(asks(&again).await);
    (Proofs { client, person }.session(&opened, &id).await, id)
}

#[tokio::test]
async fn no_foreign_old_or_changed_proof_signs_in() {
    let client = start_behind_https().await;
    let of = |person| Proofs { client: &client, person };
    let (mut alices, mut bobs) = (Browser::default(), Browser::default());
    let (mut sessions, mut old) = (Vec::new(), Vec::new());
    // Alice's session is replaced twice, and each proof of it was sent once.
    let mut subjects = BTreeSet::new();
    for _ in 0..3 {
        let begun = Browser::default().begin(&client, &[]).await;
        let proof = of("alice").bound(&begun.open().await).await;
        begun.post(&client, &proof).await.expect_success();
        sessions.push(id_of(&proof));
        old.push(proof);
    }
    subjects.insert(alices.sign_in(&client, "alice", "yes").await);
    let before = alices.begin(&client, &[]).await;
    let opened = before.open().await;
    let of_alice = return_session(asks(&before).await);
    let returned = of("alice").session(&opened, &of_alice).await;
    before.post(&client, &returned).await.expect_success();
    subjects.insert(alices.complete(&client, &before, "").await);
    old.push(returned);
    let bob = bobs.sign_in(&client, "bob", "yes").await;
    let of_bob = return_session(asks(&bobs.begin(&client, &[]).await).await);
    let (at_other, session_at_other) = sign_in_elsewhere(&client, &mut Browser::default(), "alice").await;
    sessions.extend([of_alice.clone(), of_bob.clone(), session_at_other.clone()]);
    old.push(at_other);

    let mut targets = Vec::new();
    // A return, a first visit, and one that a phone asks a return of.
    let waiting = async |what, mut browser: Browser, phone: Option<&mut Browser>, person: &'static str| {
        let begun = browser.begin(&client, &[]).await;
        let opened = match phone {
            None => begun.open().await,
            Some(phone) => ShortPage::open(phone, &client, &begun).await.request(&client).await,
        };
        let other_nonce = json!(format!("{:#x}", begun.open().await.request().nonce));
        (opened, Target { what, browser, begun, person, good: Vec::new(), foreign: old.clone(), other_nonce })
    };
    let mut alices_phone = alices.clone();
    let (opened, mut target) = waiting("a return", alices.clone(), None, "alice").await;
    target.good.push(of("alice").session(&opened, &of_alice).await);
    for replaced in &sessions[..3] {
        target.foreign.push(of("alice").session(&opened, replaced).await);
    }
    for stranger in ["alice", "bob", "carol"] {
        target.foreign.push(of(stranger).bound(&opened).await);
        target.foreign.push(of(stranger).unbound(&opened).await);
    }
    target.foreign.push(of("bob").session(&opened, &of_bob).await);
    targets.push(target);
    let (opened, mut target) = waiting("a first visit", Browser::default(), None, "dave").await;
    for anybody in ["dave", "alice", "bob"] {
        target.good.push(of(anybody).bound(&opened).await);
    }
    target.foreign.push(of("bob").session(&opened, &of_bob).await);
    target.foreign.push(of("alice").session(&opened, &of_alice).await);
    targets.push(target);
    let (opened, mut target) =
        waiting("a first visit that a phone returns from", Browser::default(), Some(&mut alices_phone), "alice").await;
    target.good.extend([of("alice").session(&opened, &of_alice).await, of("carol").bound(&opened).await]);
    target.foreign.push(of("bob").session(&opened, &of_bob).await);
    target.foreign.push(of("alice").session(&opened, &sessions[0]).await);
    targets.push(target);

    let nullifiers = old.iter().map(|proof| {
        let item = &proof["responses"][0];
        if item["nullifier"].is_string() { item["nullifier"].clone() } else { item["session_nullifier"][0].clone() }
    });
    let known = Known { sessions, nullifiers: nullifiers.collect() };
    let drawn = seeds("accounts", "no_foreign_old_or_changed_proof_signs_in");
    for (index, seed) in drawn.iter().enumerate() {
        let is_last = index + 1 == drawn.len();
        let tries = variable("TEST_FOREIGN_PROOFS").filter(|_| is_last).unwrap_or(USUAL_TRIES);
        let reasons = send(&client, &targets, &known, *seed, tries).await;
        eprintln!("the reasons: {reasons:#?}");
        assert!(reasons.len() > 12, "the answers are not random enough: {reasons:#?}");
    }

    // Nobody is signed in, and those who were asked sign in.
    for Target { what, browser, begun, person, .. } in &mut targets {
        let early = browser.get(&client, &format!("{}/complete?remember=no", begun.base)).await;
        assert_eq!(early.status(), 400, "{what}");
        begun.answer(&client, person).await;
        let subject = browser.complete(&client, begun, "?remember=no").await;
        assert_ne!(subject, bob, "{what}");
        assert_eq!(subjects.contains(&subject), *person == "alice", "{what}");
    }
    let asked = return_session(asks(&bobs.begin(&client, &[]).await).await);
    assert_eq!(asked, of_bob, "the account has the session of before");
    client.stop().await;
}

/// The commitment decides which session it is, whatever the case of the digits.
#[tokio::test]
async fn a_session_in_another_case_is_the_same_session() {
    let client = start_behind_https().await;
    let of = |person| Proofs { client: &client, person };
    let mut browser = Browser::default();
    let begun = browser.begin(&client, &[]).await;
    let mut first = of("alice").bound(&begun.open().await).await;
    let id = id_of(&first);
    let upper = format!("session_{}", id["session_".len()..].to_uppercase());
    first["session_id"] = json!(upper);
    begun.post(&client, &first).await.expect_success();
    let alice = browser.complete(&client, &begun, "?remember=yes").await;
    let begun = browser.begin(&client, &[]).await;
    assert_eq!(return_session(asks(&begun).await), id, "the account asks for it as wallets write it");
    let mut returned = of("alice").session(&begun.open().await, &id).await;
    returned["session_id"] = json!(upper);
    begun.post(&client, &returned).await.expect_success();
    assert_eq!(browser.complete(&client, &begun, "").await, alice);

    // It does not become the session of a second account either.
    let begun = Browser::default().begin(&client, &[]).await;
    let opened = begun.open().await;
    for case in [&id, &upper] {
        let mut stolen = of("mallory").bound(&opened).await;
        stolen["session_id"] = json!(case);
        assert_eq!(begun.post(&client, &stolen).await.status, 400);
    }
    client.stop().await;
}

/// What holds for the commitment 0 is bound to no session.
#[tokio::test]
async fn a_first_proof_under_the_session_zero_makes_no_account() {
    let client = start_behind_https().await;
    let of = |person| Proofs { client: &client, person };
    let (mut browser, mut alices) = (Browser::default(), Browser::default());
    alices.sign_in(&client, "alice", "yes").await;
    let (visit, back) = (browser.begin(&client, &[]).await, alices.begin(&client, &[]).await);
    for (begun, proof_type) in [(&visit, "uniqueness"), (&visit, "session"), (&back, "uniqueness"), (&back, "session")]
    {
        let mut unbound = of("alice").unbound(&begun.open().await).await;
        unbound["session_id"] = json!(with_commitment(SOME_ID, "0"));
        unbound["proof_type"] = json!(proof_type);
        let answer = begun.post(&client, &unbound).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.text("detail").len() > 20, "{answer:?}");
    }
    assert_eq!(asks(&visit).await, Asks::First);
    visit.answer(&client, "dave").await;
    browser.complete(&client, &visit, "?remember=no").await;
    back.answer(&client, "alice").await;
    alices.complete(&client, &back, "").await;
    client.stop().await;
}

//! A reader of the data folder and of every backup, or of the log with the audit trail, who knows
//! the program, tries to join the accounts that a person has at three applications. People sign in
//! for days, from browsers and networks of their own, with cookies, sign-in codes and links; each
//! way of the reader has to do no better than a guess.
//!
//! The reader gets what is told of accounts: that they were made on a day, and proved in an hour
//! (docs/accounts.md). What is shared by the hour is not tried.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::File;
use std::path::Path;
use std::time::Duration;

use alloy_primitives::hex;
use selfsame::config::{Config, SecretHash};
use selfsame_protocol::B256;
use selfsame_protocol::encoding::{decode, encode};
use selfsame_protocol::sign_in::accounts::{POINTERS_KEPT, SignInAccount};
use selfsame_protocol::sign_in::transaction::Transaction;
use selfsame_protocol::time::UnixSeconds;
use selfsame_storage::{RecordKey, RecordKind, Store, StoredRecord};
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};
use tokio::task::block_in_place;

use crate::account_client::{Asks, Begun, Browser, ask_for_accounts, asks, location};
use crate::harness::{DaemonProcess, START, folder, operator_token, seeds, until};
use crate::logs::lines;
use crate::sign_in_client::{
    APP, CALLBACK, Form, OTHER_APP, OTHER_APP_SECRET, SECRET, SignInAnswer, SignInTestClient, browser, current_proof,
    fragment_or_query, parameters, unverified_claims, wait_for_signing_keys,
};
use crate::sign_in_pointers::{make_code, make_link, type_code};
use crate::torture::choices::CrashChoices;

const PEOPLE: usize = 20;
const THIRD_APP: &str = "app_staging_5e1f5a3e000000000000000000000004";
const APPS: [(&str, &str); 3] = [(APP, SECRET), (OTHER_APP, OTHER_APP_SECRET), (THIRD_APP, "sk_of_the_third_app")];

/// The key of the relying parties, which `--dev` has.
const OPRF_KEY: &str = "x = \"5299619240641551281634865583518297030282874472190772894086521144482721001553\"\n\
                        y = \"16950150798460657717958625567821834550301663161624707787222815936182638968203\"";

/// Of [`PEOPLE`] people each account has one of each other application, so a guess is right once in
/// twenty: 6 of 120. Two accounts with something in common are guessed from each other, so this is
/// 15 pairs where 3 are to be expected: once in ten million times by chance.
const MOST_HITS: usize = 30;

fn three_applications(config: &mut Config) {
    ask_for_accounts(config);
    let (mut app, mut party) = (config.apps[0].clone(), config.relying_parties[0].clone());
    app.id = THIRD_APP.to_owned();
    app.client_secret_hash = Some(SecretHash::of([8; 16], APPS[2].1));
    party.app_id = THIRD_APP.to_owned();
    config.apps.push(app);
    config.relying_parties.push(party);
    config.urls[selfsame_interfaces::interface::Interface::SignIn] = Some("https://id.example".to_owned());
}

/// A person with a laptop, in a network that is the person's own.
struct Person {
    name: String,
    laptop: Browser,
}

impl Person {
    fn new(number: u8) -> Self {
        Self { name: format!("person {number}"), laptop: Browser::at([127, 0, number + 10, 7], number) }
    }

    /// Signs in at an application with this browser; returns the subject.
    async fn sign_in(name: &str, browser: &mut Browser, client: &SignInTestClient, app: usize) -> B256 {
        let begun = browser.begin(client, &[("client_id", APPS[app].0)]).await;
        Self::answer(name, browser, client, app, &begun).await
    }

    async fn answer(name: &str, browser: &mut Browser, client: &SignInTestClient, app: usize, begun: &Begun) -> B256 {
        begun.answer(client, name).await;
        let answer = browser.get(client, &format!("{}/complete?remember=yes", begun.base)).await;
        let code = fragment_or_query(location(&answer))["code"].clone();
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        let tokens = client.post_as(APPS[app].0, APPS[app].1, "/token", &form).await;
        unverified_claims(tokens.text("id_token"))["sub"].as_str().expect("text").parse().expect("a subject")
    }
}

/// A record as the reader has it.
struct Read {
    /// The kind of a record of sign-in.
    kind: Option<RecordKind>,
    expires_at: u64,
    key: Vec<u8>,
    value: Vec<u8>,
}

impl Read {
    fn bytes(&self) -> Vec<u8> {
        [&self.key[..], &self.value].concat()
    }

    /// The bytes with what long texts of hexadecimal digits spell, from the first digit and from
    /// the second, in their place: eight digits are four bytes, which are equal by chance somewhere
    /// in one store of twenty.
    fn spelled(&self) -> Vec<u8> {
        let is_digit = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let spell = |run: &[u8]| match run {
            [first, rest @ ..] if run.len() > 16 && is_digit(first) => [run, rest]
                .iter()
                .flat_map(|digits| hex::decode(&digits[..digits.len() / 2 * 2]).expect("digits"))
                .collect(),
            _ => run.to_vec(),
        };
        self.bytes().chunk_by(|one, next| is_digit(one) == is_digit(next)).flat_map(spell).collect()
    }
}

/// An account without its day and its hour, which the reader is told.
fn undated(account: &[u8]) -> Vec<u8> {
    let account = decode::<SignInAccount>(account).expect("an account");
    assert_eq!((account.created_on.0 % (24 * 3600), account.human_at.0 % 3600), (0, 0), "a day, and an hour");
    encode(&SignInAccount { created_on: UnixSeconds(0), human_at: UnixSeconds(0), ..account })
}

/// What the reader has of one moment.
struct Snapshot {
    records: Vec<Read>,
    /// The records that name each account: its own, and others that have its subject.
    naming: BTreeMap<B256, BTreeSet<usize>>,
}

/// The first bytes of something, as a number.
fn begin(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes"))
}

impl Snapshot {
    /// All records of a store that have not expired: those are deleted within seconds.
    fn read(store: &Path, now: u64, truth: &Truth) -> Self {
        let store = Store::open_existing(store, 1 << 20).expect("the store opens");
        let mut records = Vec::new();
        let visit = |family: &str, key: &[u8], value: &[u8]| match family {
            "records" => {
                let (of, record): (RecordKey, StoredRecord) =
                    (decode(key).expect("a key"), decode(value).expect("a record"));
                let (kind, expires_at) = (Some(of.kind), record.expires_at.0);
                let value = if of.kind == RecordKind::Account { undated(&record.value) } else { record.value };
                records.push(Read { kind, expires_at, key: of.id.to_vec(), value });
            }
            // They have the keys of the records again.
            "record_expiries" => {}
            _ => records.push(Read { kind: None, expires_at: u64::MAX, key: key.to_vec(), value: value.to_vec() }),
        };
        store.visit_records(visit).expect("records");
        records.retain(|read| read.expires_at > now);
        Self::of(records, truth)
    }

    fn of(records: Vec<Read>, truth: &Truth) -> Self {
        let names: HashMap<u64, (Vec<u8>, B256)> = truth
            .keys()
            .flat_map(|subject| [subject.to_vec(), format!("{subject:x}").into_bytes()].map(|name| (name, *subject)))
            .map(|(name, subject)| (begin(&name), (name, subject)))
            .collect();
        let mut naming: BTreeMap<B256, BTreeSet<usize>> =
            truth.keys().map(|subject| (*subject, BTreeSet::new())).collect();
        for (number, read) in records.iter().enumerate() {
            let bytes = read.bytes();
            for (place, part) in bytes.windows(8).enumerate() {
                if let Some((_, subject)) = names.get(&begin(part)).filter(|(name, _)| bytes[place..].starts_with(name))
                {
                    naming.entry(*subject).or_default().insert(number);
                }
            }
        }
        Self { records, naming }
    }

    fn naming(&self, subject: &B256) -> impl Iterator<Item = &Read> {
        self.naming[subject].iter().map(|number| &self.records[*number])
    }

    /// The accounts of all applications, with the numbers of their records.
    fn accounts(&self) -> impl Iterator<Item = (usize, B256)> {
        let accounts = self.records.iter().enumerate().filter(|(_, read)| read.kind == Some(RecordKind::Account));
        accounts.map(|(number, read)| (number, decode::<SignInAccount>(&read.value).expect("an account").subject))
    }

    /// How many records there are of each kind.
    fn kinds(&self) -> BTreeMap<RecordKind, usize> {
        let mut kinds = BTreeMap::new();
        for kind in self.records.iter().filter_map(|read| read.kind) {
            *kinds.entry(kind).or_default() += 1;
        }
        kinds
    }
}

/// What a way of the reader finds with each account. Accounts with rare things in common are taken
/// for one person's.
type Found = BTreeMap<B256, BTreeSet<Vec<u8>>>;

/// Whose each account is, and at which application.
type Truth = BTreeMap<B256, (usize, usize)>;

/// How many guesses are right.
fn hits(found: &Found, truth: &Truth, choices: &mut CrashChoices) -> usize {
    let mut having: HashMap<&[u8], Vec<B256>> = HashMap::new();
    for (subject, things) in found {
        things.iter().for_each(|thing| having.entry(thing).or_default().push(*subject));
    }
    let mut likeness: HashMap<(B256, B256), f64> = HashMap::new();
    for accounts in having.values().filter(|accounts| accounts.len() <= 6) {
        for (one, other) in accounts.iter().flat_map(|one| accounts.iter().map(move |other| (*one, *other))) {
            *likeness.entry((one, other)).or_default() += 1.0 / accounts.len() as f64;
        }
    }
    let mut hits = 0;
    for (account, (person, app)) in truth {
        for other_app in (0..APPS.len()).filter(|other| other != app) {
            let of = |candidate: B256| likeness.get(&(*account, candidate)).copied().unwrap_or_default();
            let candidates = || truth.iter().filter(|(_, (_, at))| *at == other_app).map(|(candidate, _)| *candidate);
            let best = candidates().map(of).fold(0.0, f64::max);
            let best: Vec<_> = candidates().filter(|candidate| of(*candidate) >= best).collect();
            let guess = choices.one_of(&best).expect("candidates");
            hits += usize::from(truth[guess].0 == *person);
        }
    }
    hits
}

/// The most records that a string may be in, of which the reader makes something.
const RARE: usize = 12;

/// Strings of eight bytes that records have in common with each account, directly or through a
/// third record. Both halves have to be rare, so that it is no piece of what all records have.
fn common_bytes(snapshot: &Snapshot) -> Found {
    let mut halves: HashMap<[u8; 4], (usize, usize)> = HashMap::new();
    for (number, read) in snapshot.records.iter().enumerate() {
        for part in read.spelled().windows(4) {
            let (count, last) = halves.entry(part.try_into().expect("four bytes")).or_insert((0, usize::MAX));
            *count += usize::from(*last != number);
            *last = number;
        }
    }
    let is_rare = |half: &[u8]| halves[half].0 <= RARE;
    let mut holders: HashMap<u64, Vec<usize>> = HashMap::new();
    for (number, read) in snapshot.records.iter().enumerate() {
        for part in read.spelled().windows(8).filter(|part| is_rare(&part[..4]) && is_rare(&part[4..])) {
            let holders = holders.entry(begin(part)).or_default();
            if holders.last() != Some(&number) {
                holders.push(number);
            }
        }
    }
    holders.retain(|_, holders| holders.len() > 1);
    let mut shared: HashMap<usize, Vec<u64>> = HashMap::new();
    for (part, of) in &holders {
        of.iter().for_each(|number| shared.entry(*number).or_default().push(*part));
    }
    let parts = |number: &usize| shared.get(number).into_iter().flatten();
    let found = snapshot.accounts().map(|(number, subject)| {
        let mut reached = BTreeSet::from([number]);
        for _ in 0..2 {
            let further: Vec<usize> = reached.iter().flat_map(parts).flat_map(|part| holders[part].clone()).collect();
            reached.extend(further);
        }
        (subject, reached.iter().flat_map(parts).map(|part| part.to_be_bytes().to_vec()).collect())
    });
    found.collect()
}

/// The times to the second in records that name an account: numbers that can be times and are
/// neither a day nor an hour.
fn times(snapshot: &Snapshot, subject: &B256) -> BTreeSet<u64> {
    let plausible = START.as_secs()..START.as_secs() + 3 * 365 * 24 * 3600;
    let numbers = snapshot.naming(subject).flat_map(|read| {
        let inside: Vec<u64> = read.value.windows(8).map(begin).collect();
        inside.into_iter().chain([read.expires_at])
    });
    numbers.filter(|number| plausible.contains(number) && number % 3600 != 0).collect()
}

/// The records without names, by the times at which their expiry says that they were written: those
/// of one browser are written again when it signs in to another application.
fn browsers_by_time(snapshots: &[Snapshot], accounts: &Truth) -> Found {
    let mut found = Found::new();
    for snapshot in snapshots {
        let mut written_at: HashMap<u64, Vec<&B256>> = HashMap::new();
        for subject in accounts.keys() {
            times(snapshot, subject).into_iter().for_each(|time| written_at.entry(time).or_default().push(subject));
        }
        let of_browsers =
            [RecordKind::Pointers, RecordKind::BrowserSession, RecordKind::SignInCode, RecordKind::AccountLink];
        for read in snapshot.records.iter().filter(|read| read.kind.is_some_and(|kind| of_browsers.contains(&kind))) {
            // For how long records are kept, whatever their kind.
            for kept in [0, 60, 300, 3600, 3900, 24 * 3600, 25 * 3600, 400 * 24 * 3600, 401 * 24 * 3600] {
                let subjects = written_at.get(&read.expires_at.saturating_sub(kept)).into_iter().flatten();
                for subject in subjects {
                    found.entry(**subject).or_default().insert(read.key.clone());
                }
            }
        }
    }
    found
}

/// The times to the second themselves.
fn equal_times(snapshot: &Snapshot, accounts: &Truth) -> Found {
    let texts = |subject: &B256| times(snapshot, subject).iter().map(|time| time.to_be_bytes().to_vec()).collect();
    accounts.keys().map(|subject| (*subject, texts(subject))).collect()
}

/// The place of each record of a kind among those of its application, in the order of the keys.
fn order(snapshot: &Snapshot, accounts: &Truth, kind: RecordKind) -> Found {
    let mut places = [0_u64; APPS.len()];
    let mut found = Found::new();
    for read in snapshot.records.iter().filter(|read| read.kind == Some(kind)) {
        let subject = match kind {
            RecordKind::Account => decode::<SignInAccount>(&read.value).expect("an account").subject,
            _ => decode::<B256>(&read.value).expect("a subject"),
        };
        let (_, app) = accounts[&subject];
        found.entry(subject).or_default().insert(places[app].to_be_bytes().to_vec());
        places[app] += 1;
    }
    found
}

/// Networks and browsers in which sign-ins to an account began.
fn beginnings(snapshot: &Snapshot, accounts: &Truth) -> Found {
    let of = |subject: &B256| {
        let transactions = snapshot.naming(subject).filter(|read| read.kind == Some(RecordKind::Transaction));
        let began = transactions.map(|read| decode::<Transaction>(&read.value).expect("a transaction").initiator);
        let texts = began.flat_map(|began| [began.network, began.user_agent]).filter(|text| !text.is_empty());
        texts.map(String::into_bytes).collect()
    };
    accounts.keys().map(|subject| (*subject, of(subject))).collect()
}

/// How long the records are that name an account.
fn lengths(snapshot: &Snapshot, accounts: &Truth) -> Found {
    let of = |subject: &B256| {
        let lengths: Vec<usize> = snapshot.naming(subject).map(|read| read.value.len()).collect();
        BTreeSet::from([format!("{lengths:?}").into_bytes()])
    };
    accounts.keys().map(|subject| (*subject, of(subject))).collect()
}

async fn back_up(client: &SignInTestClient, into: &Path) {
    let token = operator_token(client.folder.path());
    let post = client.http.post(client.daemon.operator("/backups")).bearer_auth(&token);
    let begun = post.json(&json!({"folder": into})).send().await.expect("an answer");
    assert!(begun.status().is_success(), "{begun:?}");
    until("a backup", async || {
        let get = client.http.get(client.daemon.operator("/status")).bearer_auth(&token).send().await;
        let status: Value = get.expect("an answer").json().await.expect("JSON");
        if into.join("manifest.json").exists() { Ok(()) } else { Err(status["backups"].clone()) }
    })
    .await;
}

/// People sign in for days, and backups are made. Returns whose each account is.
async fn live(client: &SignInTestClient, choices: &mut CrashChoices, backups: &Path) -> (Truth, Vec<u64>) {
    let mut people: Vec<Person> = (0..PEOPLE as u8).map(Person::new).collect();
    let mut visits: Vec<(usize, usize)> =
        (0..PEOPLE * APPS.len() * 2).map(|number| (number % PEOPLE, number / PEOPLE % APPS.len())).collect();
    choices.shuffle(&mut visits);
    let (mut truth, mut made) = (Truth::new(), Vec::new());
    for (turn, (number, app)) in visits.into_iter().enumerate() {
        // Some go on to the next application at once.
        let pause = if choices.one_in(3) { 40 + choices.below(60) } else { 900 + choices.below(7200) };
        client.daemon.clock.advance(Duration::from_secs(pause as u64));
        let Person { name, laptop } = &mut people[number];
        let subject = Person::sign_in(name, laptop, client, app).await;
        assert_eq!(*truth.entry(subject).or_insert((number, app)), (number, app));
        // Another browser gets there by a code or a link, and remembers.
        let mut phone = Browser::at([127, 0, number as u8 + 10, 8], number as u8 + 100);
        match choices.below(5) {
            0 => {
                let code = make_code(client, laptop, APPS[app].0).await;
                let begun = phone.begin(client, &[("client_id", APPS[app].0)]).await;
                let answer = type_code(client, &mut phone, &begun, &code).await;
                let found = Begun::at(client, &answer);
                assert_eq!(Person::answer(name, &mut phone, client, app, &found).await, subject);
            }
            1 => {
                let link = make_link(client, laptop, APPS[app].0).await;
                assert_eq!(phone.post(client, &link, &[]).await.status(), 200);
                let asked = asks(&phone.begin(client, &[("client_id", APPS[app].0)]).await).await;
                assert!(matches!(asked, Asks::Return(_)));
            }
            _ => {}
        }
        if turn % 24 == 23 {
            back_up(client, &backups.join(made.len().to_string())).await;
            made.push(client.now());
        }
    }
    assert_eq!(truth.len(), PEOPLE * APPS.len(), "each person has an account at each application");
    (truth, made)
}

#[tokio::test]
async fn a_reader_of_the_store_and_of_all_backups_joins_no_two_accounts_of_a_person() {
    let client = SignInTestClient::start_with_keys(three_applications).await;
    let seed = *seeds("accounts", "a_reader_of_the_store").last().expect("a seed");
    let mut choices = CrashChoices::of(seed, "a reader of the store");
    let backups = folder();
    let (truth, made) = live(&client, &mut choices, backups.path()).await;
    client.daemon.clock.advance(Duration::from_secs(2 * 24 * 3600));
    let now = client.now();
    let SignInTestClient { daemon, folder, http } = client;
    drop(http);
    daemon.stop().await;

    let at_the_end = || Snapshot::read(&selfsame::daemon::store_folder(folder.path()), now, &truth);
    let backup = |(number, made_at): (usize, &u64)| {
        Snapshot::read(&backups.path().join(format!("{number}/store")), *made_at, &truth)
    };
    let all = || made.iter().enumerate().map(backup).chain([at_the_end()]).collect::<Vec<_>>();
    let snapshots = all();
    for snapshot in &snapshots {
        eprintln!("{:?}", snapshot.kinds());
        for read in &snapshot.records {
            if read.kind == Some(RecordKind::Pointers) {
                assert_eq!(read.expires_at % (24 * 3600), 0, "what a browser remembers expires with a day");
            }
            if read.kind == Some(RecordKind::Transaction) {
                let Transaction { response, initiator, opened, .. } = decode(&read.value).expect("a transaction");
                let says = !initiator.network.is_empty() || !initiator.user_agent.is_empty() || opened.is_some();
                assert!(response.is_none() || !says, "a completed sign-in says where it began: {initiator:?}");
            }
        }
    }
    let mut results = Vec::new();
    let mut expect_chance = |way: String, found: &Found| {
        let hits = hits(found, &truth, &mut choices);
        results.push((hits, way));
    };
    for (number, snapshot) in snapshots.iter().enumerate() {
        expect_chance(format!("strings in common, {number}"), &common_bytes(snapshot));
        expect_chance(format!("where sign-ins began, {number}"), &beginnings(snapshot, &truth));
        expect_chance(format!("equal times, {number}"), &equal_times(snapshot, &truth));
        expect_chance(format!("equal lengths, {number}"), &lengths(snapshot, &truth));
        for kind in [RecordKind::Account, RecordKind::AccountByNullifier, RecordKind::AccountBySession] {
            expect_chance(format!("the order of {kind:?}, {number}"), &order(snapshot, &truth, kind));
        }
    }
    expect_chance("browsers by the second in all snapshots".to_owned(), &browsers_by_time(&snapshots, &truth));
    eprintln!("right by each way: {results:#?}");
    for (hits, way) in results {
        assert!(hits <= MOST_HITS, "seed {seed}, {way}: {hits} of {} are right", truth.len() * 2);
    }

    // The ways work: what is in clear is found, and a browser that is seen by the second.
    let mut in_clear = at_the_end().records;
    for person in 0..PEOPLE {
        let own = truth.iter().filter(|(_, (whose, _))| *whose == person).flat_map(|(subject, _)| subject.to_vec());
        in_clear.push(Read { kind: None, expires_at: u64::MAX, key: vec![person as u8], value: own.collect() });
    }
    let in_clear = Snapshot::of(in_clear, &truth);
    assert_eq!(hits(&common_bytes(&in_clear), &truth, &mut choices), truth.len() * 2);
    let mut by_the_second = all();
    for snapshot in &mut by_the_second {
        for (subject, (person, _)) in &truth {
            if let Some(time) = times(snapshot, subject).first() {
                let (kind, expires_at) = (Some(RecordKind::Pointers), time + POINTERS_KEPT);
                snapshot.records.push(Read { kind, expires_at, key: vec![*person as u8; 32], value: Vec::new() });
            }
        }
    }
    let seen = hits(&browsers_by_time(&by_the_second, &truth), &truth, &mut choices);
    assert!(seen > MOST_HITS, "{seen}");
}

// The log and the audit trail in it.

/// A daemon of its own, whose log is kept, with the three applications.
fn start_with_log(folder: &Path) -> DaemonProcess {
    let mut settings = String::new();
    for (number, (app, secret)) in APPS.into_iter().enumerate() {
        let hash = SecretHash::of([number as u8; 16], secret).to_text();
        settings += &format!(
            "[[apps]]\nid = \"{app}\"\nclient_secret_hash = \"{hash}\"\nredirect_uris = [\"{CALLBACK}\"]\nproof = \"account\"\n\n\
             [[relying_parties]]\napp_id = \"{app}\"\n[relying_parties.oprf_public_key]\n{OPRF_KEY}\n"
        );
    }
    let config = folder.join("selfsame.toml");
    std::fs::write(&config, settings).expect("written");
    let log = File::create(folder.join("log")).expect("a file");
    let arguments = ["--config", config.to_str().expect("text")];
    block_in_place(|| DaemonProcess::start_with_log(&folder.join("data"), &arguments, &[], log.into()))
}

/// Texts and numbers of a line of the log.
fn leaves(value: &Value, found: &mut BTreeSet<Vec<u8>>) {
    match value {
        Value::Object(fields) => fields.values().for_each(|value| leaves(value, found)),
        Value::Array(items) => items.iter().for_each(|value| leaves(value, found)),
        Value::String(text) => found.extend([text.clone().into_bytes()]),
        other => found.extend([other.to_string().into_bytes()]),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_of_the_log_and_the_audit_trail_joins_no_two_sign_ins_of_a_person() {
    let folder = folder();
    let process = start_with_log(folder.path());
    wait_for_signing_keys(&process.sign_in).await;
    let seed = *seeds("accounts", "a_reader_of_the_log").last().expect("a seed");
    let mut choices = CrashChoices::of(seed, "a reader of the log");
    let mut visits: Vec<(usize, usize)> =
        (0..PEOPLE * APPS.len()).map(|number| (number % PEOPLE, number / PEOPLE)).collect();
    choices.shuffle(&mut visits);
    let mut browsers: Vec<Browser> =
        (0..PEOPLE as u8).map(|number| Browser::at([127, 0, 0, 1], number + 100)).collect();
    let (mut truth, mut transactions, mut secrets) = (Truth::new(), BTreeMap::new(), Vec::new());
    let at = |path: &str| format!("{}{path}", process.sign_in);
    let http = browser();
    for (number, app) in visits {
        let browser = &mut browsers[number];
        let own = browser.client().expect("a client of its own").clone();
        let (state, (app_id, secret)) = (format!("state {number} {app}"), APPS[app]);
        let asked = parameters(&[("client_id", app_id), ("state", &state)]);
        let url = reqwest::Url::parse_with_params(&at("/authorize"), asked).expect("a URL");
        let path = location(&browser.get_with(&own, url.as_str()).await).to_owned();
        let path = &path[path.find("/authorize/").expect("a sign-in")..];
        let opened = SignInSession::open(&at(&format!("{path}/request"))).await.expect("the sign-in is open");
        let proof = current_proof(&process.operator, &process.client(), &opened, &format!("person {number}")).await;
        let answer = http.post(at(&format!("{path}/proof"))).json(&proof).send().await.expect("an answer");
        assert_eq!(answer.status(), 200);
        let answer = browser.get_with(&own, &at(&format!("{path}/complete?remember=yes"))).await;
        let code = fragment_or_query(location(&answer))["code"].clone();
        let form = [("grant_type", "authorization_code"), ("code", &*code), ("redirect_uri", CALLBACK)];
        let exchange = http.post(at("/token")).basic_auth(app_id, Some(secret)).form(&form);
        let tokens = SignInAnswer::of(exchange.send().await.expect("an answer")).await;
        let subject = unverified_claims(tokens.text("id_token"))["sub"].as_str().expect("text").to_owned();
        secrets.extend([code, subject[2..].to_owned(), tokens.text("access_token").to_owned(), state]);
        secrets.push(proof["session_id"].as_str().expect("an id").to_owned());
        secrets.push(proof["responses"][0]["nullifier"].as_str().expect("a nullifier")[2..].to_owned());
        let subject = subject.parse::<B256>().expect("a subject");
        truth.insert(subject, (number, app));
        transactions.insert(path.trim_start_matches("/authorize/").to_owned(), subject);
    }
    assert_eq!(truth.len(), PEOPLE * APPS.len());
    for browser in &browsers {
        secrets.extend(browser.cookies.values().cloned());
    }
    assert!(block_in_place(|| process.terminate()).success());
    let lines = lines(&folder.path().join("log"));
    let mut found = Found::new();
    let mut named = 0;
    for line in &lines {
        let text = line.to_string();
        assert!(!text.contains("Mozilla"), "what a browser says about itself: {text}");
        assert!(!secrets.iter().any(|secret| text.contains(secret)), "{text}");
        for (_, subject) in transactions.iter().filter(|(id, _)| text.contains(*id)) {
            named += 1;
            leaves(line, found.entry(*subject).or_default());
        }
    }
    assert!(named >= 2 * truth.len(), "the trail names the sign-ins: {named}");
    let right = hits(&found, &truth, &mut choices);
    assert!(right <= MOST_HITS, "seed {seed}: {right} of {} are right", truth.len() * 2);
    // The way works: what names the person is found.
    for (subject, (person, _)) in &truth {
        found.entry(*subject).or_default().insert(format!("person {person}").into_bytes());
    }
    assert_eq!(hits(&found, &truth, &mut choices), truth.len() * 2);
}

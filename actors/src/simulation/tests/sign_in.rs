//! Histories of sign-in: authorization requests are begun, opened and answered by people who race,
//! completed by browsers that race, and their codes are redeemed by clients that race; tokens are
//! looked up and revoked, sessions of browsers looked at and ended. Meanwhile commits are refused
//! or their outcome is unknown, actors and the process die, and time passes until codes, tokens,
//! sessions and transactions expire.
//!
//! Each transaction is answered once and completed once, each code gives one token, and a token or
//! a session lives until it is revoked or expires, and no longer.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use selfsame_protocol::ids::Nullifier;
use selfsame_protocol::sign_in::accounts::SubjectKind;
use selfsame_protocol::sign_in::authorize::{AuthorizationRequest, Client};
use selfsame_protocol::sign_in::claims::Scopes;
use selfsame_protocol::sign_in::openings::MOST_CHALLENGES;
use selfsame_protocol::sign_in::proof_request::{AnswerMode, CrossDevice, RequestForms, SignInProof, SignInRequest};
use selfsame_protocol::sign_in::response::{Delivery, ResponseMode, ResponseType, Target};
use selfsame_protocol::{B256, U256};
use selfsame_storage::{
    Decision, EmbeddedRecords, GroupCommit, RecordKey, RecordKind, RecordWrite, Records, Store, StoredRecord,
};

use super::people::{self, APP, HERE, nullifier};
use super::{CLIENTS, DOMAIN, check_repeats, checks, play_and_count};
use crate::clock::Clock;
use crate::simulation::{FaultRates, Run, Simulation};
use crate::{
    BrowserCookie, BrowserCookies, CompletionSecrets, NewTransaction, Settings, SignInClient, SignInError,
    SignInHandle, SignInSettings, TOKEN_LIFETIME,
};

const REDIRECT_URI: &str = "https://app.example/callback";

/// How long a code is valid by default.
const CODE_LIFETIME: Duration = Duration::from_secs(60);

/// How long a browser's session lasts by default.
const SESSION_LIFETIME: Duration = Duration::from_secs(24 * 3600);

/// What expires is counted in whole seconds.
const SECOND: Duration = Duration::from_secs(1);

/// The longest run, in simulated time. The session registry deletes what has expired every 10 s.
const MAX_RUN: Duration = Duration::from_secs(40);

/// The longest pause of a client between two steps.
const MAX_PAUSE: Duration = Duration::from_millis(500);

/// The longest jumps of time of histories: as long as a code is valid, longer than any token lives,
/// and longer than any session.
const JUMPS: [Duration; 3] = [CODE_LIFETIME, Duration::from_secs(2 * 3600), Duration::from_secs(25 * 3600)];

/// The stored signing keys, which each history begins with: making them takes much longer than a
/// history.
static SIGNING_KEYS: LazyLock<StoredRecord> = LazyLock::new(|| {
    let mut simulation = Simulation::from_seed(0);
    let store = simulation.new_store(DOMAIN).expect("the store opens");
    simulation.run(FaultRates::NONE, async |run| {
        let service = run.service(settings(), &store).start().await.expect("the service starts");
        service.sign_in().signing_keys().await.expect("the keys are made");
        service.records().get(&KEYS).expect("the read succeeds").expect("the keys are stored")
    })
});

const KEYS: RecordKey = RecordKey { kind: RecordKind::SigningKeys, id: B256::ZERO };

fn settings() -> Settings {
    let client = Client {
        id: APP.to_owned(),
        redirect_uris: vec![REDIRECT_URI.to_owned()],
        post_logout_redirect_uris: Vec::new(),
        response_types: vec![ResponseType::CODE],
        is_public: false,
        require_pkce: false,
    };
    let client = SignInClient {
        client,
        name: "Simulated".to_owned(),
        secrets: Vec::new(),
        environment: HERE.0,
        proof: SignInProof::Legacy,
        has_legacy_history: false,
        legacy: Default::default(),
        first_credential: None,
        only_group: None,
        subject: SubjectKind::Nullifier,
        allows_cross_device: true,
    };
    Settings {
        verification: people::settings(0),
        sign_in: SignInSettings { clients: vec![client], ..SignInSettings::default() },
        ..Settings::for_instance("sign-in")
    }
}

fn authorization_request() -> AuthorizationRequest {
    AuthorizationRequest {
        client_id: APP.to_owned(),
        target: Target { redirect_uri: REDIRECT_URI.to_owned(), mode: ResponseMode::Query, state: None },
        response_type: ResponseType::CODE,
        scopes: Scopes::default(),
        nonce: None,
        code_challenge: None,
        is_silent: false,
        selects_account: false,
        is_fresh: true,
        max_age: None,
        id_token_hint: None,
    }
}

/// What is known of a sign-in.
struct KnownSignIn {
    begun: NewTransaction,
    /// The request as it was shown first.
    opened: Option<SignInRequest>,
    /// The signed form by its nonce.
    signed: HashMap<U256, String>,
    /// The answer that was accepted: `None` in it for a refusal.
    answer: Option<Option<Nullifier>>,
    /// Those that were given, accepted or not.
    given: Vec<Option<Nullifier>>,
    is_completed: bool,
    code: Option<KnownCode>,
    session: Option<KnownSession>,
}

/// A browser's session, which the completion began.
struct KnownSession {
    secret: String,
    /// It began between these times.
    began: (Duration, Duration),
    /// Its end was attempted; one was answered with success.
    may_have_ended: bool,
    has_ended: bool,
}

struct KnownCode {
    code: String,
    issued_at: Duration,
    /// How many times it was handed in.
    attempts: u64,
    token: Option<KnownToken>,
}

struct KnownToken {
    token: String,
    /// It was issued between these times.
    issued: (Duration, Duration),
    /// A revocation was attempted; one was answered with success.
    may_be_revoked: bool,
    is_revoked: bool,
}

/// All sign-ins of a history.
#[derive(Clone, Default)]
struct Known(Arc<Mutex<Vec<KnownSignIn>>>);

impl Known {
    fn all(&self) -> MutexGuard<'_, Vec<KnownSignIn>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works on a code, which exists.
    fn with_code<T>(&self, number: usize, work: impl FnOnce(&mut KnownCode) -> T) -> T {
        work(self.all()[number].code.as_mut().expect("the code is known"))
    }

    fn code(&self, number: usize) -> Option<String> {
        self.all()[number].code.as_ref().map(|code| code.code.clone())
    }
}

/// One client of the service with its handle.
#[derive(Clone)]
struct Caller {
    sign_in: SignInHandle,
    run: Run,
    known: Known,
}

impl Caller {
    fn now(&self) -> Duration {
        self.run.clock().now()
    }

    async fn pause(&self) {
        self.run.random().pause(MAX_PAUSE).await;
    }

    fn note_error(&self, what: &str, number: usize, error: &SignInError) {
        self.run.note(format!("{number}: {what}: {error}"));
    }

    /// Signs in from the begin of a transaction to the revocation of its token, each step several
    /// times at the same time; stops wherever a step does not succeed.
    async fn sign_in(&self) {
        let Ok(begun) = self.sign_in.begin(authorization_request(), None, Default::default(), None, None).await else {
            return;
        };
        let number = {
            let mut all = self.known.all();
            all.push(KnownSignIn {
                begun,
                opened: None,
                signed: HashMap::new(),
                answer: None,
                given: Vec::new(),
                is_completed: false,
                code: None,
                session: None,
            });
            all.len() - 1
        };
        self.run.note(format!("{number} is begun"));
        self.race(|caller, _| async move { caller.open(number).await }).await;
        self.race(|caller, racer| async move { caller.answer(number, racer).await }).await;
        self.race(|caller, _| async move { caller.complete(number).await }).await;
        self.race(|caller, _| async move { caller.redeem(number).await }).await;
        for _ in 0..self.run.random().below(4) {
            self.pause().await;
            match self.run.random().below(6) {
                0 | 1 => self.revoke(number).await,
                2 => self.end_session(number).await,
                _ => {}
            }
            self.look_up(number);
        }
    }

    /// Takes a step one to three times at the same time.
    async fn race<Step: Future<Output = ()> + Send + 'static>(&self, step: impl Fn(Self, usize) -> Step) {
        self.pause().await;
        let racers = [1, 1, 2, 3][self.run.random().below(4) as usize];
        let racers: Vec<_> = (0..racers).map(|racer| self.run.spawn(step(self.clone(), racer))).collect();
        for racer in racers {
            racer.await.expect("no panic");
        }
    }

    /// An authenticator opens the request. What is recorded first is shown to all that open it,
    /// with another challenge each time, and with the same signature for the same one.
    async fn open(&self, number: usize) {
        let id = self.known.all()[number].begun.id;
        let Ok(asked) = self.sign_in.proof_request(id, None) else { return };
        let at = self.now();
        let request = SignInRequest {
            app_id: asked.app_id,
            app_name: asked.app_name,
            action: asked.action.to_owned(),
            signal: asked.signal,
            nonce: asked.nonce,
            protocol_versions: vec![asked.proof.kind().protocol_version().to_owned()],
            environment: asked.environment,
            scopes: asked.scopes.text(),
            expires_at: asked.expires_at,
            // Another one each time, to see which of them was recorded.
            answer_url: format!("https://issuer.example/answer/{}", at.as_micros()),
            redirect_host: "app.example".to_owned(),
            initiator: asked.initiator,
            cross_device: CrossDevice::Allow,
            proof_type: None,
            session_id: None,
            genesis_issued_at_min: None,
            identifier: None,
        };
        match self.sign_in.open_request(id, None, request).await {
            Ok(forms) => {
                self.run.note(format!("{number} is opened: {}", forms.plain.answer_url));
                let RequestForms { plain, signed, .. } = forms;
                let known = &mut self.known.all()[number];
                let first = known.opened.get_or_insert_with(|| plain.clone());
                let other_nonce = SignInRequest { nonce: first.nonce, ..plain.clone() };
                assert_eq!(*first, other_nonce, "{number} is shown in two forms");
                let of_nonce = known.signed.entry(plain.nonce).or_insert_with(|| signed.clone());
                assert_eq!(*of_nonce, signed, "{number} is signed twice");
                assert!(known.signed.len() <= usize::from(MOST_CHALLENGES), "{number} has too many challenges");
            }
            Err(error) => self.note_error("it is not opened", number, &error),
        }
    }

    /// A person gives a proof, or refuses.
    async fn answer(&self, number: usize, person: usize) {
        self.pause().await;
        let id = self.known.all()[number].begun.id;
        let began_at = self.now();
        let given = if self.run.random().once_in(8) { None } else { Some(nullifier(person)) };
        self.known.all()[number].given.push(given);
        let answered = match given {
            None => self.sign_in.refuse(id).await,
            Some(_) => {
                let proof = people::request(&[person], "");
                self.sign_in.answer(id, &proof, AnswerMode::CrossDevice, None).await.map(drop)
            }
        };
        if let Err(error) = answered {
            assert!(!matches!(error, SignInError::Proof(_)), "{number}: {error}");
            return self.note_error("the answer is not taken", number, &error);
        }
        self.run.note(format!("{number} is answered by {given:?}"));
        let known = &mut self.known.all()[number];
        assert_eq!(known.answer, None, "{number} has two answers");
        assert!(began_at < known.begun.expires_at.since_epoch(), "{number} had expired");
        known.answer = Some(given);
    }

    /// The program or the browser that began the sign-in completes it.
    async fn complete(&self, number: usize) {
        let begun = self.known.all()[number].begun.clone();
        let session = if self.run.random().once_in(2) { BrowserCookie::Unwanted } else { BrowserCookie::Missing };
        let cookies = BrowserCookies { session, ..BrowserCookies::NONE };
        let began_at = self.now();
        let completed = self.sign_in.complete(begun.id, &begun.secret, CompletionSecrets::default(), &cookies).await;
        let (delivery, session) = match completed {
            Ok(completed) => (completed.delivery, completed.new_session),
            Err(error) => return self.note_error("it is not completed", number, &error),
        };
        let Delivery::Redirect { location } = delivery else { panic!("{number}: not a redirect") };
        let code = location.split(['?', '&']).find_map(|field| field.strip_prefix("code="));
        self.run.note(format!("{number} is completed, with a code: {}", code.is_some()));
        let issued_at = self.now();
        let known = &mut self.known.all()[number];
        if known.is_completed {
            // The same secret gets the same response.
            assert_eq!(known.code.as_ref().map(|known| &*known.code), code, "{number} has another code");
            // Only a session that has not ended is given again.
            let secret = known.session.as_ref().map(|known| &known.secret);
            assert!(session.is_none() || secret == session.as_ref(), "{number} has another session");
            return;
        }
        known.is_completed = true;
        assert!(!known.given.is_empty(), "{number} was never answered");
        if let Some(answer) = known.answer {
            assert_eq!(answer.is_some(), code.is_some(), "{number}: {location}");
        }
        known.code = code.map(|code| KnownCode { code: code.to_owned(), issued_at, attempts: 0, token: None });
        let began = (began_at, issued_at);
        known.session = session.map(|secret| KnownSession { secret, began, may_have_ended: false, has_ended: false });
    }

    /// The application redeems its code.
    async fn redeem(&self, number: usize) {
        self.pause().await;
        let Some(code) = self.known.code(number) else { return };
        let began_at = self.now();
        self.known.with_code(number, |code| {
            code.attempts += 1;
            // This may be the second use.
            code.token.iter_mut().for_each(|token| token.may_be_revoked = true);
        });
        let redeemed = self.sign_in.exchange(APP, &code, Some(REDIRECT_URI), None).await;
        let ended_at = self.now();
        match redeemed {
            Ok(tokens) => self.known.with_code(number, |code| {
                self.run.note(format!("{number} has a token"));
                assert!(code.token.is_none(), "the code of {number} gives two tokens");
                assert!(began_at < code.issued_at + CODE_LIFETIME + SECOND, "the code of {number} had expired");
                let may_be_revoked = code.attempts > 1;
                let (token, issued) = (tokens.access_token, (began_at, ended_at));
                code.token = Some(KnownToken { token, issued, may_be_revoked, is_revoked: false });
            }),
            Err(SignInError::CodeReused(_)) => self.known.with_code(number, |code| {
                self.run.note(format!("{number} is redeemed again"));
                assert!(code.attempts > 1, "the code of {number} was never used before");
                code.token.iter_mut().for_each(|token| token.is_revoked = true);
            }),
            Err(error) => self.note_error("the code is not redeemed", number, &error),
        }
    }

    async fn revoke(&self, number: usize) {
        let attempt = |token: &mut KnownToken| {
            token.may_be_revoked = true;
            token.token.clone()
        };
        let token = self.known.all()[number].code.as_mut().and_then(|code| code.token.as_mut()).map(attempt);
        let Some(token) = token else { return };
        match self.sign_in.revoke_token(APP, &token).await {
            Ok(()) => self.known.with_code(number, |code| {
                self.run.note(format!("the token of {number} is revoked"));
                code.token.iter_mut().for_each(|token| token.is_revoked = true);
            }),
            Err(error) => self.note_error("the token is not revoked", number, &error),
        }
    }

    async fn end_session(&self, number: usize) {
        let attempt = |session: &mut KnownSession| {
            session.may_have_ended = true;
            session.secret.clone()
        };
        let Some(secret) = self.known.all()[number].session.as_mut().map(attempt) else { return };
        match self.sign_in.end_session(&secret).await {
            Ok(()) => {
                self.run.note(format!("the session of {number} is ended"));
                self.known.all()[number].session.iter_mut().for_each(|session| session.has_ended = true);
            }
            Err(error) => self.note_error("the session is not ended", number, &error),
        }
    }

    /// Looks at a session, and checks whether it may be as it is.
    fn look_at_session(&self, number: usize) {
        let all = self.known.all();
        let Some(session) = &all[number].session else { return };
        let Ok(sign_ins) = self.sign_in.session_sign_ins(&session.secret) else { return };
        self.run.note(format!("the session of {number} has {} sign-ins", sign_ins.len()));
        let now = self.now();
        if sign_ins.is_empty() {
            let may_have_expired = now + SECOND >= session.began.0 + SESSION_LIFETIME;
            assert!(session.may_have_ended || may_have_expired, "the session of {number} is lost");
        } else {
            assert!(!session.has_ended, "the session of {number} was ended and lives");
            assert!(now < session.began.1 + SESSION_LIFETIME + SECOND, "the session of {number} has expired and lives");
        }
    }

    /// Looks a token and a session up, and checks whether they may be as they are.
    fn look_up(&self, number: usize) {
        self.look_at_session(number);
        let all = self.known.all();
        let known = &all[number];
        let Some(token) = known.code.as_ref().and_then(|code| code.token.as_ref()) else { return };
        let Ok(live) = self.sign_in.live_token(&token.token) else { return };
        self.run.note(format!("the token of {number} lives: {}", live.is_some()));
        let (now, lifetime) = (self.now(), Duration::from_secs(TOKEN_LIFETIME));
        match live {
            Some(live) => {
                assert!(!token.is_revoked, "the token of {number} was revoked and lives");
                assert!(now < token.issued.1 + lifetime + SECOND, "the token of {number} has expired and lives");
                let person = Nullifier(live.token.person.subject.into());
                assert!(known.given.contains(&Some(person)), "{number} is the sign-in of another person");
                if let Some(answer) = known.answer {
                    assert_eq!(answer, Some(person), "{number} is the sign-in of another person");
                }
            }
            None => {
                let may_have_expired = now + SECOND >= token.issued.0 + lifetime;
                assert!(token.may_be_revoked || may_have_expired, "the token of {number} is lost");
            }
        }
    }

    fn look_all_up(&self) {
        let count = self.known.all().len();
        (0..count).for_each(|number| self.look_up(number));
    }
}

/// Puts the signing keys into a store that no service uses.
fn store_keys(store: &Store) {
    let (group_commit, committing) = GroupCommit::start(store.clone()).expect("the thread starts");
    let records = EmbeddedRecords::new(store.clone(), group_commit);
    let write = RecordWrite { key: KEYS, before: None, after: Some(SIGNING_KEYS.clone()) };
    let written = |decision| assert!(matches!(decision, Ok(Decision::Written)), "the keys are written");
    records.compare_and_write(vec![write], Box::new(written));
    drop(records);
    committing.join().expect("no panic");
}

/// Plays a history, and returns how many tokens were issued. The service gets the clock that `skew`
/// makes of that of the history.
pub(super) fn play(simulation: &mut Simulation, rates: FaultRates, skew: impl Fn(&Run) -> Arc<dyn Clock>) -> u64 {
    let store = simulation.new_store(DOMAIN).expect("the store opens");
    store_keys(&store);
    let known = Known::default();
    let start = async |run: &Run| {
        let service = run.service(settings(), &store).clock(skew(run)).start().await.expect("the service starts");
        Caller { sign_in: service.sign_in(), run: run.clone(), known: known.clone() }
    };
    let longest_jump = *simulation.random().pick(&JUMPS);
    let rates = FaultRates { jumps: 2, longest_jump, pause: MAX_RUN / 4, ..rates };
    for _ in 0..=simulation.random().below(2) {
        simulation.run(rates, async |run| {
            let caller = start(run).await;
            caller.look_all_up();
            for _ in 0..CLIENTS {
                let caller = caller.clone();
                run.spawn(async move {
                    for _ in 0..=caller.run.random().below(3) {
                        caller.sign_in().await;
                    }
                });
            }
            let ends_early = run.random().once_in(2);
            run.random().pause(if ends_early { MAX_RUN / 10 } else { MAX_RUN }).await;
        });
    }
    simulation.run(FaultRates::NONE, async |run| {
        let caller = start(run).await;
        caller.look_all_up();
        for jump in JUMPS {
            run.clock().jump(jump);
            caller.look_all_up();
        }
        // The session registry deletes everything that has expired.
        tokio::time::sleep(Duration::from_secs(25)).await;
        caller.look_all_up();
    });
    checks::check_store(&store);
    let all = known.all();
    all.iter().filter(|known| known.code.as_ref().is_some_and(|code| code.token.is_some())).count() as u64
}

fn play_right(simulation: &mut Simulation) -> u64 {
    play(simulation, FaultRates::default(), |run| Arc::new(run.clock().clone()))
}

#[test]
fn codes_are_redeemed_once_and_tokens_live_until_they_are_revoked_or_expire() {
    play_and_count("sign_in", "TEST_SIGN_IN_HISTORIES", 1, play_right);
}

#[test]
fn a_seed_repeats_its_history_of_sign_in() {
    check_repeats(1..11, play_right);
}

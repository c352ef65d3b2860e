//! Clients of sign-in: people sign in, and relying parties use what they are given rightly and wrongly.
//!
//! A sign-in is taken from stage to stage. Before something is asked, the stage says that it is under way; where the answer does
//! not come, nobody knows on which side of it the daemon is, and both are right when it is asked again.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Url;
use reqwest::header::ACCEPT;
use selfsame_wallet::client::ClientError;
use selfsame_wallet::prove::{self, Asked, SimulatedParty};
use selfsame_wallet::sign_in::SignInSession;
use serde_json::{Value, json};

use super::chance::Chance;
use super::desk::{Desk, Gone, Reply, lock, several};
use crate::people::key;
use crate::sign_in_desk::{
    APP, CALLBACK, CHALLENGE, Form, SECRET, TWIN, VERIFIER, fragment_or_query, parameters, verified,
};

/// A redirect URI of the application that is not the one it asked with.
pub const OTHER_CALLBACK: &str = "http://127.0.0.1:3000/callback";

/// For how long sign-ins under way, and what they gave, are relied on: a little less than they are good for.
const UNDER_WAY: Duration = Duration::from_secs(8 * 60);
const GIVEN: Duration = Duration::from_secs(50 * 60);

/// How many that were checked before are checked again after a restart.
const SAMPLE: usize = 10;

/// All sign-ins, and who people are to the application.
#[derive(Default)]
pub struct Notes {
    sign_ins: Mutex<Vec<SignIn>>,
    subjects: Mutex<BTreeMap<String, String>>,
}

/// One sign-in and all that comes of it.
struct SignIn {
    person: String,
    stage: Stage,
    /// Until there is a code.
    session: Option<SignInSession>,
    /// What the wallet answers.
    proof: Value,
    has_challenge: bool,
    code: String,
    /// What the code was exchanged for.
    token: Option<Token>,
    /// What came with the code; a second use of the code does not concern it.
    front_token: Option<Token>,
    began: Instant,
    is_checked: bool,
}

/// How far a sign-in is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Begun,
    /// A proof is under way.
    Answering,
    Answered,
    /// Asked where to go on.
    Completing,
    /// There is a code, and it is unused.
    Unused,
    /// The code was shown, with everything right.
    Exchanging,
    /// The code was shown with another redirect URI.
    Spoiling,
    /// The code was exchanged, and the token is live.
    Exchanged,
    /// The code was shown a second time.
    Revoking,
    /// The code is used; what it was exchanged for, if anything, is dead.
    Spent,
    /// The code was given out, but never arrived.
    Lost,
}

impl Stage {
    /// Whether something was asked and not answered.
    fn is_open(self) -> bool {
        matches!(self, Self::Answering | Self::Completing | Self::Exchanging | Self::Spoiling | Self::Revoking)
    }
}

/// An access token, and the ID token that came with it.
struct Token {
    access_token: String,
    id_token: String,
}

/// Signs people in until the daemon is gone.
pub async fn sign_people_in(desk: Arc<Desk>, name: String) -> Result<(), Gone> {
    let mut chance = desk.chance(&name);
    let party = desk.simulated_party().await?;
    loop {
        let mut sign_in = match taken(&desk, &mut chance) {
            Some(sign_in) => sign_in,
            None => match begin(&desk, &mut chance).await? {
                Some(sign_in) => sign_in,
                None => continue,
            },
        };
        let outcome = go_on(&desk, &mut sign_in, &party, &mut chance).await;
        lock(&desk.sign_in.sign_ins).push(sign_in);
        outcome?;
    }
}

/// A sign-in that can go on, often; nobody else has it until it is put back.
fn taken(desk: &Desk, chance: &mut Chance) -> Option<SignIn> {
    let mut sign_ins = lock(&desk.sign_in.sign_ins);
    let is_going_on = |sign_in: &SignIn| !matches!(sign_in.stage, Stage::Spent | Stage::Lost);
    let going_on: Vec<usize> = (0..sign_ins.len()).filter(|index| is_going_on(&sign_ins[*index])).collect();
    // Some are always left waiting, to see what a restart makes of them.
    if going_on.len() < 4 || chance.one_in(3) {
        return None;
    }
    chance.one_of(&going_on).map(|index| sign_ins.swap_remove(*index))
}

/// Begins a sign-in.
async fn begin(desk: &Desk, chance: &mut Chance) -> Result<Option<SignIn>, Gone> {
    let has_challenge = chance.one_in(3);
    let mut asked = vec![];
    if has_challenge {
        asked.extend([("code_challenge", CHALLENGE), ("code_challenge_method", "S256")]);
    }
    if chance.one_in(4) {
        asked.push(("response_type", "code id_token token"));
    }
    let authorize = format!("{}/authorize", desk.addresses.sign_in());
    let url = Url::parse_with_params(&authorize, parameters(&asked)).expect("a URL");
    let session = desk.unless_put_off(SignInSession::open(url.as_str()).await)?;
    desk.told();
    Ok(session.map(|session| SignIn {
        person: format!("member {}", chance.below(8)),
        stage: Stage::Begun,
        session: Some(session),
        proof: Value::Null,
        has_challenge,
        code: String::new(),
        token: None,
        front_token: None,
        began: Instant::now(),
        is_checked: false,
    }))
}

/// Takes a sign-in a few stages further.
async fn go_on(desk: &Desk, sign_in: &mut SignIn, party: &SimulatedParty, chance: &mut Chance) -> Result<(), Gone> {
    sign_in.is_checked = false;
    for _ in 0..=chance.below(6) {
        match sign_in.stage {
            Stage::Unused if chance.one_in(5) => sign_in.spoil(desk).await?,
            Stage::Exchanged if !chance.one_in(4) => return sign_in.expect_live(desk).await,
            Stage::Spent | Stage::Lost => return Ok(()),
            _ => sign_in.step(desk, party, chance).await?,
        }
    }
    Ok(())
}

impl SignIn {
    /// The next stage. Where the daemon puts us off, the same once more.
    async fn step(&mut self, desk: &Desk, party: &SimulatedParty, chance: &mut Chance) -> Result<(), Gone> {
        match self.stage {
            Stage::Begun | Stage::Answering => self.answer(desk, party, chance).await,
            Stage::Answered | Stage::Completing => self.complete(desk).await,
            Stage::Unused | Stage::Exchanging => self.exchange(desk).await,
            Stage::Spoiling => self.spoil(desk).await,
            Stage::Exchanged | Stage::Revoking | Stage::Spent => self.use_again(desk).await,
            Stage::Lost => Ok(()),
        }
    }

    /// The wallet answers.
    async fn answer(&mut self, desk: &Desk, party: &SimulatedParty, chance: &mut Chance) -> Result<(), Gone> {
        let was_sent = self.stage == Stage::Answering;
        if self.proof.is_null() {
            self.proof = proof(self.session(), &self.person, party, chance);
        }
        self.stage = Stage::Answering;
        match self.session().answer(&self.proof).await {
            // The answer that got lost.
            Err(error) if was_sent && error.to_string().contains("has been answered") => self.stage = Stage::Answered,
            answer => match desk.unless_put_off(answer)? {
                Some(()) => self.stage = Stage::Answered,
                None => return Ok(()),
            },
        }
        desk.told();
        Ok(())
    }

    /// The browser goes on.
    async fn complete(&mut self, desk: &Desk) -> Result<(), Gone> {
        let was_sent = self.stage == Stage::Completing;
        self.stage = Stage::Completing;
        match self.session().complete().await {
            Err(error) if was_sent && error.code() == Some("not_found") => self.stage = Stage::Lost,
            // Put off at first; what the second try gave is not shown.
            Err(ClientError::Service { status: 303, .. }) => self.stage = Stage::Lost,
            answer => {
                let Some(location) = desk.unless_put_off(answer)?.flatten() else { return Ok(()) };
                self.take_code(desk, &location);
                desk.tally.codes.fetch_add(1, Ordering::Relaxed);
                self.stage = Stage::Unused;
            }
        }
        self.session = None;
        desk.told();
        Ok(())
    }

    fn take_code(&mut self, desk: &Desk, location: &str) {
        let response = fragment_or_query(location);
        self.code = response.get("code").unwrap_or_else(|| panic!("no code in {location}")).clone();
        if let (Some(access_token), Some(id_token)) = (response.get("access_token"), response.get("id_token")) {
            desk.tally.tokens.fetch_add(1, Ordering::Relaxed);
            self.front_token = Some(Token { access_token: access_token.clone(), id_token: id_token.clone() });
        }
    }

    /// The relying party shows the code.
    async fn exchange(&mut self, desk: &Desk) -> Result<(), Gone> {
        let was_sent = self.stage == Stage::Exchanging;
        self.stage = Stage::Exchanging;
        let Some(reply) = self.show_code(desk, APP, CALLBACK).await? else { return Ok(()) };
        match reply.status {
            200 => {
                let text = |name: &str| reply.body[name].as_str().expect("a token").to_owned();
                self.token = Some(Token { access_token: text("access_token"), id_token: text("id_token") });
                desk.tally.tokens.fetch_add(1, Ordering::Relaxed);
                self.stage = Stage::Exchanged;
            }
            // The exchange whose answer got lost, or another's: this was its second use.
            _ if was_sent => self.expect_spent(&reply),
            _ => panic!("an unused code of {}: {reply:?}", self.person),
        }
        desk.told();
        Ok(())
    }

    /// The relying party shows the code with another redirect URI, which uses it up.
    async fn spoil(&mut self, desk: &Desk) -> Result<(), Gone> {
        self.stage = Stage::Spoiling;
        if let Some(reply) = self.show_code(desk, APP, OTHER_CALLBACK).await? {
            self.expect_spent(&reply);
            desk.told();
        }
        Ok(())
    }

    /// Somebody shows the code once more, which ends what it was exchanged for.
    async fn use_again(&mut self, desk: &Desk) -> Result<(), Gone> {
        self.stage = Stage::Revoking;
        let Some(reply) = self.show_code(desk, APP, CALLBACK).await? else { return Ok(()) };
        self.expect_spent(&reply);
        desk.told();
        if let Some(token) = &self.token {
            let reply = introspected(desk, token).await?;
            assert_eq!((reply.status, &reply.body["active"]), (401, &json!(false)), "{}: {reply:?}", self.person);
        }
        Ok(())
    }

    #[track_caller]
    fn expect_spent(&mut self, reply: &Reply) {
        assert_eq!((reply.status, &reply.body["error"]), (400, &json!("invalid_grant")), "{}: {reply:?}", self.person);
        self.stage = Stage::Spent;
    }

    async fn show_code(&self, desk: &Desk, client: &str, redirect_uri: &str) -> Result<Option<Reply>, Gone> {
        let mut form = vec![("grant_type", "authorization_code"), ("code", &self.code), ("redirect_uri", redirect_uri)];
        if self.has_challenge {
            form.push(("code_verifier", VERIFIER));
        }
        let url = format!("{}/token", desk.addresses.sign_in());
        desk.send(desk.http.post(url).basic_auth(client, Some(SECRET)).form(&form)).await
    }

    /// The tokens that are to be live are.
    async fn expect_live(&self, desk: &Desk) -> Result<(), Gone> {
        let exchanged = self.token.as_ref().filter(|_| self.stage == Stage::Exchanged);
        for token in exchanged.into_iter().chain(&self.front_token) {
            token.expect_live(desk, &self.person).await?;
        }
        Ok(())
    }

    fn session(&self) -> &SignInSession {
        self.session.as_ref().expect("the sign-in is under way")
    }

    /// Whether it may have expired.
    fn is_old(&self) -> bool {
        self.began.elapsed() > if self.session.is_some() { UNDER_WAY } else { GIVEN }
    }

    /// What is certain of it holds. What is open is asked for again.
    async fn check(&mut self, desk: &Desk, party: &SimulatedParty, chance: &mut Chance) -> Result<(), Gone> {
        while self.stage.is_open() {
            self.step(desk, party, chance).await?;
        }
        match self.stage {
            Stage::Begun => self.expect_answered(desk, false).await?,
            Stage::Answered => self.expect_answered(desk, true).await?,
            Stage::Unused => self.expect_no_use_to_others(desk).await?,
            Stage::Spent => self.use_again(desk).await?,
            _ => {}
        }
        self.expect_live(desk).await?;
        self.is_checked = true;
        Ok(())
    }

    async fn expect_answered(&self, desk: &Desk, is_answered: bool) -> Result<(), Gone> {
        let url = self.session().asked().answer_url.replace("/proof", "/request");
        let reply = desk.read(desk.http.get(url).header(ACCEPT, "application/json")).await?;
        assert_eq!((reply.status, &reply.body["answered"]), (200, &json!(is_answered)), "{}: {reply:?}", self.person);
        Ok(())
    }

    /// Another client's try neither succeeds nor uses the code up.
    async fn expect_no_use_to_others(&self, desk: &Desk) -> Result<(), Gone> {
        if let Some(reply) = self.show_code(desk, TWIN, CALLBACK).await? {
            assert_eq!((reply.status, &reply.body["error"]), (400, &json!("invalid_grant")), "{reply:?}");
        }
        Ok(())
    }

    /// Takes it to its end: what is left of it works, once.
    async fn finish(&mut self, desk: &Desk, party: &SimulatedParty, chance: &mut Chance) -> Result<(), Gone> {
        while !matches!(self.stage, Stage::Spent | Stage::Lost) {
            self.step(desk, party, chance).await?;
            if self.stage == Stage::Exchanged {
                self.expect_live(desk).await?;
            }
        }
        self.check(desk, party, chance).await
    }
}

impl Token {
    /// Live, with the person's one subject wherever it is named.
    async fn expect_live(&self, desk: &Desk, person: &str) -> Result<(), Gone> {
        let keys = desk.read(desk.http.get(format!("{}/jwks", desk.addresses.sign_in()))).await?.body;
        let claims = verified(&self.id_token, &keys, &desk.addresses.sign_in(), APP);
        let subject = claims["sub"].as_str().expect("a subject").to_owned();
        let known = lock(&desk.sign_in.subjects).entry(person.to_owned()).or_insert(subject.clone()).clone();
        assert_eq!(subject, known, "{person} is somebody else now");
        let reply = introspected(desk, self).await?;
        let said = (reply.status, &reply.body["active"], &reply.body["sub"]);
        assert_eq!(said, (200, &json!(true), &json!(subject)), "a token of {person}: {reply:?}");
        let request = desk.http.get(format!("{}/userinfo", desk.addresses.sign_in())).bearer_auth(&self.access_token);
        let reply = desk.read(request).await?;
        assert_eq!((reply.status, &reply.body["sub"]), (200, &json!(subject)), "a token of {person}: {reply:?}");
        desk.told();
        Ok(())
    }
}

async fn introspected(desk: &Desk, token: &Token) -> Result<Reply, Gone> {
    let url = format!("{}/introspect", desk.addresses.sign_in());
    desk.read(desk.http.post(url).basic_auth(APP, Some(SECRET)).form(&[("token", &token.access_token)])).await
}

/// What a person's wallet answers.
fn proof(session: &SignInSession, person: &str, party: &SimulatedParty, chance: &mut Chance) -> Value {
    let request = session.asked();
    let asked = Asked {
        app_id: &request.app_id,
        action: &request.action,
        signal: &request.signal,
        environment: request.environment,
        nonce: Some(request.nonce),
    };
    let mut random = |bytes: &mut [u8; 32]| *bytes = chance.bytes();
    prove::uniqueness(&key(person), &asked, party, &mut random).expect("a proof")
}

/// After a restart: every sign-in is where it was.
pub async fn check(desk: &Desk, chance: &mut Chance, is_everything: bool) -> Result<(), Gone> {
    let party = desk.simulated_party().await?;
    let mut sign_ins = std::mem::take(&mut *lock(&desk.sign_in.sign_ins));
    sign_ins.retain(|sign_in| !sign_in.is_old());
    chance.shuffle(&mut sign_ins);
    // Those that were not checked yet come first.
    sign_ins.sort_by_key(|sign_in| sign_in.is_checked);
    let unchecked = sign_ins.iter().filter(|sign_in| !sign_in.is_checked).count();
    let count = if is_everything { sign_ins.len() } else { unchecked + SAMPLE };
    let work = sign_ins.iter_mut().take(count).map(|sign_in| {
        let mut chance = Chance::of(desk.seed, &format!("{:?}", chance.bytes()));
        let party = &party;
        async move {
            sign_in.check(desk, party, &mut chance).await?;
            if is_everything { sign_in.finish(desk, party, &mut chance).await } else { Ok(()) }
        }
    });
    let work: Vec<_> = work.collect();
    let outcome = several(work).await;
    lock(&desk.sign_in.sign_ins).append(&mut sign_ins);
    outcome
}

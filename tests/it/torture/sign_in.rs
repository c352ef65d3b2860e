//! Clients of sign-in: people sign in, and relying parties use codes and tokens correctly and
//! incorrectly.
//!
//! A sign-in goes from stage to stage. Before a request, the stage says that it is in progress.
//! When the answer does not come, the daemon may have executed the request or not; both are
//! accepted when the request is sent again.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::Url;
use reqwest::header::ACCEPT;
use selfsame_wallet::client::ClientError;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use selfsame_wallet::sign_in::{Place, SignInSession};
use serde_json::{Value, json};

use super::choices::CrashChoices;
use super::context::{CrashTestContext, DaemonGone, ServiceAnswer, lock, may_be_stale, several};
use crate::sign_in_client::{
    APP, CALLBACK, CHALLENGE, Form, PRODUCTION_APP, SECRET, VERIFIER, fragment_or_query, parameters, verified,
};
use crate::test_accounts::person_of;

/// A redirect URI of the application other than the one in the authorization request.
pub const OTHER_CALLBACK: &str = "http://127.0.0.1:3000/callback";

/// How long sign-ins in progress, and issued codes and tokens, are expected to work: a little less
/// than their lifetime.
const UNDER_WAY: Duration = Duration::from_secs(8 * 60);
const GIVEN: Duration = Duration::from_secs(50 * 60);

/// How many sign-ins of earlier checks are checked again after a restart.
const SAMPLE: usize = 10;

/// All sign-ins, and the subject of each person.
#[derive(Default)]
pub struct SignInNotes {
    sign_ins: Mutex<Vec<TrackedSignIn>>,
    subjects: Mutex<BTreeMap<String, String>>,
}

/// One sign-in and what was issued for it.
struct TrackedSignIn {
    person: String,
    stage: SignInStage,
    /// The session, until there is a code.
    session: Option<SignInSession>,
    /// The proof of the wallet.
    proof: Value,
    has_challenge: bool,
    /// When the request to complete was sent first.
    completed_at: Option<Instant>,
    code: String,
    /// The tokens for which the code was exchanged.
    token: Option<IssuedTokens>,
    /// The tokens that came with the code; a second use of the code does not revoke them.
    front_token: Option<IssuedTokens>,
    began: Instant,
    is_checked: bool,
}

/// How long a code lives at least: 60 seconds, of a clock of whole seconds.
const CODE_LIFETIME: Duration = Duration::from_secs(59);

/// The stage of a sign-in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SignInStage {
    Begun,
    /// A proof is being sent.
    Answering,
    Answered,
    /// The request to complete is being sent.
    Completing,
    /// There is a code, and it is unused.
    Unused,
    /// The code is being exchanged, with everything right.
    Exchanging,
    /// The code is being sent with another redirect URI.
    Spoiling,
    /// The code was exchanged, and the token is live.
    Exchanged,
    /// The code is being used a second time.
    Revoking,
    /// The code is used; if it was exchanged, the token is revoked.
    Spent,
    /// The code was issued, but the answer did not arrive.
    Lost,
}

impl SignInStage {
    /// Whether a request was sent and not answered.
    fn is_open(self) -> bool {
        matches!(self, Self::Answering | Self::Completing | Self::Exchanging | Self::Spoiling | Self::Revoking)
    }
}

/// An access token, and the ID token that came with it.
struct IssuedTokens {
    access_token: String,
    id_token: String,
}

/// Signs people in until the daemon is gone.
pub async fn sign_people_in(context: Arc<CrashTestContext>, name: String) -> Result<(), DaemonGone> {
    let mut choices = context.choices(&name);
    let party = context.simulated_party().await?;
    loop {
        let mut sign_in = match take_sign_in(&context, &mut choices) {
            Some(sign_in) => sign_in,
            None => match begin(&context, &mut choices).await? {
                Some(sign_in) => sign_in,
                None => continue,
            },
        };
        let outcome = go_on(&context, &mut sign_in, &party, &mut choices).await;
        lock(&context.sign_in.sign_ins).push(sign_in);
        outcome?;
    }
}

/// Removes a sign-in that can continue, for one client at a time, or `None`.
fn take_sign_in(context: &CrashTestContext, choices: &mut CrashChoices) -> Option<TrackedSignIn> {
    let mut sign_ins = lock(&context.sign_in.sign_ins);
    let is_going_on = |sign_in: &TrackedSignIn| !matches!(sign_in.stage, SignInStage::Spent | SignInStage::Lost);
    let going_on: Vec<usize> = (0..sign_ins.len()).filter(|index| is_going_on(&sign_ins[*index])).collect();
    // Some are always left waiting, so that a restart finds them.
    if going_on.len() < 4 || choices.one_in(3) {
        return None;
    }
    choices.one_of(&going_on).map(|index| sign_ins.swap_remove(*index))
}

/// Begins a sign-in.
async fn begin(context: &CrashTestContext, choices: &mut CrashChoices) -> Result<Option<TrackedSignIn>, DaemonGone> {
    let has_challenge = choices.one_in(3);
    let mut asked = vec![];
    if has_challenge {
        asked.extend([("code_challenge", CHALLENGE), ("code_challenge_method", "S256")]);
    }
    if choices.one_in(4) {
        asked.push(("response_type", "code id_token token"));
    }
    let authorize = format!("{}/authorize", context.addresses.sign_in());
    let url = Url::parse_with_params(&authorize, parameters(&asked)).expect("a URL");
    let session = context.unless_put_off(SignInSession::open(url.as_str()).await)?;
    context.count_answer();
    Ok(session.map(|session| TrackedSignIn {
        person: format!("member {}", choices.below(8)),
        stage: SignInStage::Begun,
        session: Some(session),
        proof: Value::Null,
        has_challenge,
        completed_at: None,
        code: String::new(),
        token: None,
        front_token: None,
        began: Instant::now(),
        is_checked: false,
    }))
}

/// Takes a sign-in a few stages further.
async fn go_on(
    context: &CrashTestContext,
    sign_in: &mut TrackedSignIn,
    party: &SimulatedParty,
    choices: &mut CrashChoices,
) -> Result<(), DaemonGone> {
    sign_in.is_checked = false;
    for _ in 0..=choices.below(6) {
        match sign_in.stage {
            SignInStage::Unused if choices.one_in(5) => sign_in.spoil(context).await?,
            SignInStage::Exchanged if !choices.one_in(4) => return sign_in.expect_live(context).await,
            SignInStage::Spent | SignInStage::Lost => return Ok(()),
            _ => sign_in.step(context, party, choices).await?,
        }
    }
    Ok(())
}

impl TrackedSignIn {
    /// Makes the next stage. When the daemon refuses for now, the same again.
    async fn step(
        &mut self,
        context: &CrashTestContext,
        party: &SimulatedParty,
        choices: &mut CrashChoices,
    ) -> Result<(), DaemonGone> {
        match self.stage {
            SignInStage::Begun | SignInStage::Answering => self.answer(context, party, choices).await,
            SignInStage::Answered | SignInStage::Completing => self.complete(context).await,
            SignInStage::Unused | SignInStage::Exchanging => self.exchange(context).await,
            SignInStage::Spoiling => self.spoil(context).await,
            SignInStage::Exchanged | SignInStage::Revoking | SignInStage::Spent => self.use_again(context).await,
            SignInStage::Lost => Ok(()),
        }
    }

    /// The wallet answers.
    async fn answer(
        &mut self,
        context: &CrashTestContext,
        party: &SimulatedParty,
        choices: &mut CrashChoices,
    ) -> Result<(), DaemonGone> {
        let was_sent = self.stage == SignInStage::Answering;
        if self.proof.is_null() {
            self.proof = proof(self.session(), &self.person, party, choices);
        }
        self.stage = SignInStage::Answering;
        let session = self.session();
        match session.answer_from(session.request(), &self.proof, Place::Unsaid).await.map(drop) {
            // The earlier answer arrived, but not the daemon's reply.
            Err(error) if was_sent && error.to_string().contains("has been answered") => {
                self.stage = SignInStage::Answered
            }
            answer => match context.unless_put_off(answer)? {
                Some(()) => self.stage = SignInStage::Answered,
                None => return Ok(()),
            },
        }
        context.count_answer();
        Ok(())
    }

    /// The browser continues.
    async fn complete(&mut self, context: &CrashTestContext) -> Result<(), DaemonGone> {
        let first_sent = *self.completed_at.get_or_insert_with(Instant::now);
        self.stage = SignInStage::Completing;
        match self.session().complete().await {
            // The response of an earlier try is given again for as long as its code is good.
            Err(error) if first_sent.elapsed() > CODE_LIFETIME && error.code() == Some("not_found") => {
                self.stage = SignInStage::Lost
            }
            // The first try was refused for now; the outcome of the second one is not shown.
            Err(ClientError::Service { status: 303, .. }) => self.stage = SignInStage::Lost,
            answer => {
                let Some(location) = context.unless_put_off(answer)?.flatten() else { return Ok(()) };
                self.take_code(context, &location);
                context.counts.codes.fetch_add(1, Ordering::Relaxed);
                self.stage = SignInStage::Unused;
            }
        }
        self.session = None;
        context.count_answer();
        Ok(())
    }

    fn take_code(&mut self, context: &CrashTestContext, location: &str) {
        let response = fragment_or_query(location);
        self.code = response.get("code").unwrap_or_else(|| panic!("no code in {location}")).clone();
        if let (Some(access_token), Some(id_token)) = (response.get("access_token"), response.get("id_token")) {
            context.counts.tokens.fetch_add(1, Ordering::Relaxed);
            self.front_token = Some(IssuedTokens { access_token: access_token.clone(), id_token: id_token.clone() });
        }
    }

    /// The relying party exchanges the code.
    async fn exchange(&mut self, context: &CrashTestContext) -> Result<(), DaemonGone> {
        let was_sent = self.stage == SignInStage::Exchanging;
        self.stage = SignInStage::Exchanging;
        let Some(reply) = self.show_code(context, APP, CALLBACK).await? else { return Ok(()) };
        match reply.status {
            200 => {
                let text = |name: &str| reply.body[name].as_str().expect("a token").to_owned();
                self.token = Some(IssuedTokens { access_token: text("access_token"), id_token: text("id_token") });
                context.counts.tokens.fetch_add(1, Ordering::Relaxed);
                self.stage = SignInStage::Exchanged;
            }
            // Another exchange used the code, or the reply to an earlier one was lost: this was the
            // second use.
            _ if was_sent => self.expect_spent(&reply),
            _ => panic!("an unused code of {}: {reply:?}", self.person),
        }
        context.count_answer();
        Ok(())
    }

    /// The relying party sends the code with another redirect URI, which uses it.
    async fn spoil(&mut self, context: &CrashTestContext) -> Result<(), DaemonGone> {
        self.stage = SignInStage::Spoiling;
        if let Some(reply) = self.show_code(context, APP, OTHER_CALLBACK).await? {
            self.expect_spent(&reply);
            context.count_answer();
        }
        Ok(())
    }

    /// A client uses the code again, which revokes its token.
    async fn use_again(&mut self, context: &CrashTestContext) -> Result<(), DaemonGone> {
        self.stage = SignInStage::Revoking;
        let Some(reply) = self.show_code(context, APP, CALLBACK).await? else { return Ok(()) };
        self.expect_spent(&reply);
        context.count_answer();
        if let Some(token) = &self.token {
            let since = Instant::now();
            let mut reply = introspected(context, token).await?;
            while reply.status == 200 && may_be_stale(since) {
                reply = introspected(context, token).await?;
            }
            assert_eq!((reply.status, &reply.body["active"]), (401, &json!(false)), "{}: {reply:?}", self.person);
        }
        Ok(())
    }

    #[track_caller]
    fn expect_spent(&mut self, reply: &ServiceAnswer) {
        assert_eq!((reply.status, &reply.body["error"]), (400, &json!("invalid_grant")), "{}: {reply:?}", self.person);
        self.stage = SignInStage::Spent;
    }

    async fn show_code(
        &self,
        context: &CrashTestContext,
        client: &str,
        redirect_uri: &str,
    ) -> Result<Option<ServiceAnswer>, DaemonGone> {
        let mut form = vec![("grant_type", "authorization_code"), ("code", &self.code), ("redirect_uri", redirect_uri)];
        if self.has_challenge {
            form.push(("code_verifier", VERIFIER));
        }
        let url = format!("{}/token", context.addresses.sign_in());
        context.send(context.http.post(url).basic_auth(client, Some(SECRET)).form(&form)).await
    }

    /// Asserts that the tokens that must be valid are.
    async fn expect_live(&self, context: &CrashTestContext) -> Result<(), DaemonGone> {
        let exchanged = self.token.as_ref().filter(|_| self.stage == SignInStage::Exchanged);
        for token in exchanged.into_iter().chain(&self.front_token) {
            token.expect_live(context, &self.person).await?;
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

    /// Asserts everything that is certain, and sends again what was not answered.
    async fn check(
        &mut self,
        context: &CrashTestContext,
        party: &SimulatedParty,
        choices: &mut CrashChoices,
    ) -> Result<(), DaemonGone> {
        while self.stage.is_open() {
            self.step(context, party, choices).await?;
        }
        match self.stage {
            SignInStage::Begun => self.expect_answered(context, false).await?,
            SignInStage::Answered => self.expect_answered(context, true).await?,
            SignInStage::Unused => self.expect_no_use_to_others(context).await?,
            SignInStage::Spent => self.use_again(context).await?,
            _ => {}
        }
        self.expect_live(context).await?;
        self.is_checked = true;
        Ok(())
    }

    async fn expect_answered(&self, context: &CrashTestContext, is_answered: bool) -> Result<(), DaemonGone> {
        let url = self.session().request().answer_url.replace("/proof", "/request");
        let since = Instant::now();
        let read = || context.read(context.http.get(&url).header(ACCEPT, "application/json"));
        let mut reply = read().await?;
        while reply.body["answered"] != is_answered && may_be_stale(since) {
            reply = read().await?;
        }
        assert_eq!((reply.status, &reply.body["answered"]), (200, &json!(is_answered)), "{}: {reply:?}", self.person);
        Ok(())
    }

    /// Asserts that another client's try fails and does not use the code.
    async fn expect_no_use_to_others(&self, context: &CrashTestContext) -> Result<(), DaemonGone> {
        if let Some(reply) = self.show_code(context, PRODUCTION_APP, CALLBACK).await? {
            assert_eq!((reply.status, &reply.body["error"]), (400, &json!("invalid_grant")), "{reply:?}");
        }
        Ok(())
    }

    /// Takes the sign-in to its end: what is left of it works, once.
    async fn finish(
        &mut self,
        context: &CrashTestContext,
        party: &SimulatedParty,
        choices: &mut CrashChoices,
    ) -> Result<(), DaemonGone> {
        while !matches!(self.stage, SignInStage::Spent | SignInStage::Lost) {
            self.step(context, party, choices).await?;
            if self.stage == SignInStage::Exchanged {
                self.expect_live(context).await?;
            }
        }
        self.check(context, party, choices).await
    }
}

impl IssuedTokens {
    /// Asserts that the token is valid and names the person's one subject everywhere.
    async fn expect_live(&self, context: &CrashTestContext, person: &str) -> Result<(), DaemonGone> {
        let keys = context.read(context.http.get(format!("{}/jwks", context.addresses.sign_in()))).await?.body;
        let claims = verified(&self.id_token, &keys, &context.addresses.sign_in(), APP);
        let subject = claims["sub"].as_str().expect("a subject").to_owned();
        let known = lock(&context.sign_in.subjects).entry(person.to_owned()).or_insert(subject.clone()).clone();
        assert_eq!(subject, known, "{person} has another subject now");
        let reply = introspected(context, self).await?;
        let said = (reply.status, &reply.body["active"], &reply.body["sub"]);
        assert_eq!(said, (200, &json!(true), &json!(subject)), "a token of {person}: {reply:?}");
        let request =
            context.http.get(format!("{}/userinfo", context.addresses.sign_in())).bearer_auth(&self.access_token);
        let reply = context.read(request).await?;
        assert_eq!((reply.status, &reply.body["sub"]), (200, &json!(subject)), "a token of {person}: {reply:?}");
        context.count_answer();
        Ok(())
    }
}

async fn introspected(context: &CrashTestContext, token: &IssuedTokens) -> Result<ServiceAnswer, DaemonGone> {
    let url = format!("{}/introspect", context.addresses.sign_in());
    context.read(context.http.post(url).basic_auth(APP, Some(SECRET)).form(&[("token", &token.access_token)])).await
}

/// The proof of a person's wallet.
fn proof(session: &SignInSession, person: &str, party: &SimulatedParty, choices: &mut CrashChoices) -> Value {
    let request = session.request();
    let asked = ProofParameters {
        app_id: &request.app_id,
        action: &request.action,
        signal: &request.signal,
        environment: request.environment,
        nonce: Some(request.nonce),
    };
    let mut random = |bytes: &mut [u8; 32]| *bytes = choices.bytes();
    prove::uniqueness(&person_of(person), &asked, party, &mut random).expect("a proof")
}

/// Asserts after a restart that every sign-in is in its stage.
pub async fn check(
    context: &CrashTestContext,
    choices: &mut CrashChoices,
    is_everything: bool,
) -> Result<(), DaemonGone> {
    let party = context.simulated_party().await?;
    let mut sign_ins = std::mem::take(&mut *lock(&context.sign_in.sign_ins));
    sign_ins.retain(|sign_in| !sign_in.is_old());
    choices.shuffle(&mut sign_ins);
    // Sign-ins that were not checked yet come first.
    sign_ins.sort_by_key(|sign_in| sign_in.is_checked);
    let unchecked = sign_ins.iter().filter(|sign_in| !sign_in.is_checked).count();
    let count = if is_everything { sign_ins.len() } else { unchecked + SAMPLE };
    let work = sign_ins.iter_mut().take(count).map(|sign_in| {
        let mut choices = CrashChoices::of(context.seed, &format!("{:?}", choices.bytes()));
        let party = &party;
        async move {
            sign_in.check(context, party, &mut choices).await?;
            if is_everything { sign_in.finish(context, party, &mut choices).await } else { Ok(()) }
        }
    });
    let work: Vec<_> = work.collect();
    let outcome = several(work).await;
    lock(&context.sign_in.sign_ins).append(&mut sign_ins);
    outcome
}

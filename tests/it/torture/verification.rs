//! Clients of verification: they send the simulator's proofs, some in signed requests, and a
//! nullifier is new only once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::{U256, number};
use selfsame_wallet::operator::OperatorError;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};

use super::choices::CrashChoices;
use super::context::{CrashTestContext, DaemonGone, ServiceAnswer, lock, several};
use super::signed_nonces::{self, UsedNonces};
use crate::harness::operator_token;
use crate::sign_in_client::APP;
use crate::test_accounts::person_of;

/// The action for which a person may be verified [`LIMIT`] times.
pub const LIMITED: &str = "twice";
pub const LIMIT: usize = 2;

const FIRST: &str = "Proof verified successfully";
const AGAIN: &str = "Proof verified successfully (nullifier reuse)";

/// How many nullifiers of earlier checks are checked again after a restart.
const SAMPLE: usize = 5;

/// The proofs that were sent, and the roots that the operator trusts.
#[derive(Default)]
pub struct VerificationNotes {
    shown: Mutex<BTreeMap<PersonAction, NullifierHistory>>,
    trusted: Mutex<BTreeSet<Root>>,
    /// The nonces of signed requests that have succeeded.
    pub nonces: UsedNonces,
}

/// A person and an action, which together determine a nullifier.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PersonAction {
    person: String,
    action: String,
}

/// The outcome of a nullifier's proofs.
#[derive(Debug, Default)]
struct NullifierHistory {
    sent: usize,
    verified: usize,
    /// How many proofs were refused because the limit was reached.
    refused: usize,
    /// How often the nullifier was called new.
    firsts: usize,
    created_at: Option<String>,
    is_checked: bool,
}

impl NullifierHistory {
    /// The number of proofs that were sent and may be verified: not answered, or not yet.
    fn unsettled(&self) -> usize {
        self.sent - self.verified - self.refused
    }

    /// Records an answer. `before` is how many were verified when the proof was sent.
    fn record(&mut self, nullifier: &PersonAction, before: usize, reply: &ServiceAnswer) {
        let is_limited = nullifier.action == LIMITED;
        let is_over = is_limited && before >= LIMIT;
        match (reply.status, reply.body["code"].as_str()) {
            (200, _) if !is_over => self.was_verified(nullifier, before, reply),
            (400, Some("max_verifications_reached")) if is_limited => {
                assert!(self.verified + self.unsettled() > LIMIT, "{nullifier:?} is refused too early: {self:?}");
                self.refused += 1;
            }
            _ => panic!("{nullifier:?} {self:?}: {reply:?}"),
        }
    }

    fn was_verified(&mut self, nullifier: &PersonAction, before: usize, reply: &ServiceAnswer) {
        let created_at = reply.body["created_at"].as_str().expect("a time").to_owned();
        let is_first = reply.body["message"] == FIRST;
        assert!(is_first || reply.body["message"] == AGAIN, "{reply:?}");
        assert!(!is_first || before == 0, "{nullifier:?} was seen before: {self:?} {reply:?}");
        self.verified += 1;
        self.firsts += usize::from(is_first);
        assert!(self.created_at.as_ref().is_none_or(|known| *known == created_at), "{nullifier:?} {self:?}: {reply:?}");
        self.created_at = Some(created_at);
        let fewest_firsts = usize::from(self.unsettled() == 0);
        assert!((fewest_firsts..=1).contains(&self.firsts), "{nullifier:?} was new {} times: {self:?}", self.firsts);
        assert!(nullifier.action != LIMITED || self.verified <= LIMIT, "{nullifier:?} {self:?}");
    }
}

impl VerificationNotes {
    /// The number of nullifiers that were recorded.
    pub fn recorded(&self) -> usize {
        lock(&self.shown).values().filter(|shown| shown.verified > 0).count()
    }
}

/// Sends proofs of a few people for a few actions until the daemon is gone.
pub async fn verify_people(context: Arc<CrashTestContext>, name: String, life: usize) -> Result<(), DaemonGone> {
    let mut choices = context.choices(&name);
    let newest = context.simulated_party().await?;
    loop {
        let person = format!("voter {life}.{}", choices.below(4));
        let action = [LIMITED.to_owned(), format!("vote {life}"), format!("other vote {life}")];
        let nullifier = match choices.one_in(5).then(|| earlier(&context, &mut choices)).flatten() {
            Some(earlier) => earlier,
            None => PersonAction { person, action: action[choices.below(3)].clone() },
        };
        let party = with_served_root(&context, &newest, &mut choices);
        verify(&context, &nullifier, &party, &mut choices).await?;
        if choices.one_in(10)
            && let Some(nonce) = context.verification.nonces.any(&mut choices)
        {
            signed_nonces::send_again(&context, nonce, &party, &mut choices).await?;
        }
        if choices.one_in(10) {
            trust_root(&context, &mut choices).await?;
        }
    }
}

/// A nullifier that was sent before, perhaps in an earlier life of the daemon.
fn earlier(context: &CrashTestContext, choices: &mut CrashChoices) -> Option<PersonAction> {
    let shown = lock(&context.verification.shown);
    let all: Vec<&PersonAction> = shown.keys().collect();
    choices.one_of(&all).map(|nullifier| (*nullifier).clone())
}

/// The newest root, or a root of an inclusion proof: both are valid, because the window is as long
/// as the run.
fn with_served_root(context: &CrashTestContext, newest: &SimulatedParty, choices: &mut CrashChoices) -> SimulatedParty {
    let roots = lock(&context.registry.roots);
    let served = match roots.is_empty() || choices.one_in(2) {
        true => None,
        false => roots.iter().nth(choices.below(roots.len())),
    };
    SimulatedParty { root: served.map_or(newest.root, |root| *root), ..newest.clone() }
}

async fn verify(
    context: &CrashTestContext,
    nullifier: &PersonAction,
    party: &SimulatedParty,
    choices: &mut CrashChoices,
) -> Result<(), DaemonGone> {
    // A third of the requests is signed, each with a nonce of its own.
    let bytes: [u8; 32] = choices.bytes();
    let nonce = choices.one_in(3).then(|| u64::from_be_bytes(bytes[..8].try_into().expect("eight bytes")));
    let asked = ProofParameters {
        app_id: APP,
        action: &nullifier.action,
        signal: "",
        environment: Environment::Staging,
        nonce: nonce.map(U256::from),
    };
    let mut random = |bytes: &mut [u8; 32]| *bytes = choices.bytes();
    let mut body = prove::uniqueness(&person_of(&nullifier.person), &asked, party, &mut random).expect("a proof");
    if let Some(nonce) = nonce {
        body["rp_signature"] = signed_nonces::signed(nonce, &nullifier.action);
    }
    let before = {
        let mut all = lock(&context.verification.shown);
        let shown = all.entry(nullifier.clone()).or_default();
        shown.sent += 1;
        shown.is_checked = false;
        shown.verified
    };
    let url = format!("{}/api/v4/verify/{APP}", context.addresses.verification());
    if let Some(reply) = context.send(context.http.post(url).json(&body)).await? {
        lock(&context.verification.shown).entry(nullifier.clone()).or_default().record(nullifier, before, &reply);
        if let Some(nonce) = nonce.filter(|_| reply.status == 200) {
            context.verification.nonces.add(nonce);
        }
        context.count_answer();
    }
    Ok(())
}

/// Makes the operator trust another root.
async fn trust_root(context: &CrashTestContext, choices: &mut CrashChoices) -> Result<(), DaemonGone> {
    // Half as many bits, so that it is an element of the field.
    let root = Root::from_number(U256::from_be_bytes(choices.bytes()) >> 128);
    match context
        .operator
        .trust_simulated_root(root, Environment::Staging, prove::LEGACY_IDENTIFIER, &context.data)
        .await
    {
        Ok(()) => {
            lock(&context.verification.trusted).insert(root);
            context.count_answer();
        }
        Err(OperatorError::Client(error)) => drop(context.unless_put_off::<()>(Err(error))?),
        Err(error) => panic!("{error}"),
    }
    Ok(())
}

/// Asserts after a restart that recorded nullifiers are known and trusted roots are trusted.
pub async fn check(
    context: &CrashTestContext,
    choices: &mut CrashChoices,
    is_everything: bool,
) -> Result<(), DaemonGone> {
    let party = context.simulated_party().await?;
    let asked = asked_again(context, choices, is_everything);
    several(asked.into_iter().map(|nullifier| {
        let mut choices = CrashChoices::of(context.seed, &format!("{:?} {nullifier:?}", choices.bytes()));
        let party = &party;
        async move {
            verify(context, &nullifier, party, &mut choices).await?;
            if let Some(shown) = lock(&context.verification.shown).get_mut(&nullifier) {
                shown.is_checked = true;
            }
            Ok(())
        }
    }))
    .await?;
    signed_nonces::check(context, &party, choices, is_everything).await?;
    expect_trusted(context).await
}

/// All nullifiers that were sent since their last check, and some others; or all.
fn asked_again(context: &CrashTestContext, choices: &mut CrashChoices, is_everything: bool) -> Vec<PersonAction> {
    let all = lock(&context.verification.shown);
    let (mut asked, mut others): (Vec<_>, Vec<_>) = all.iter().partition(|(_, shown)| !shown.is_checked);
    choices.shuffle(&mut others);
    others.truncate(if is_everything { usize::MAX } else { SAMPLE });
    asked.append(&mut others);
    asked.into_iter().map(|(nullifier, _)| nullifier.clone()).collect()
}

async fn expect_trusted(context: &CrashTestContext) -> Result<(), DaemonGone> {
    let request = context.http.get(format!("{}/roots", context.addresses.operator()));
    let listed = context.read(request.bearer_auth(operator_token(&context.data))).await?.body;
    let listed: BTreeSet<&str> =
        listed.as_array().expect("a list").iter().filter_map(|trusted| trusted["root"].as_str()).collect();
    for root in lock(&context.verification.trusted).iter() {
        assert!(listed.contains(&*number::canonical(*root)), "{root:#x} is not trusted any more");
    }
    Ok(())
}

//! Clients of verification: people prove that they are, with the simulator's proofs, and a nullifier is new only once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use selfsame_protocol::tree::Root;
use selfsame_protocol::verification::Environment;
use selfsame_protocol::{U256, number};
use selfsame_wallet::operator::OperatorError;
use selfsame_wallet::prove::{self, Asked, SimulatedParty};

use super::chance::Chance;
use super::desk::{Desk, Gone, Reply, lock, several};
use crate::people::key;
use crate::sign_in_desk::APP;

/// The action that a person may be verified for [`LIMIT`] times.
pub const LIMITED: &str = "twice";
pub const LIMIT: usize = 2;

const FIRST: &str = "Proof verified successfully";
const AGAIN: &str = "Proof verified successfully (nullifier reuse)";

/// How many that were checked before are checked again after a restart.
const SAMPLE: usize = 5;

/// Which proofs were shown, and which roots the operator trusts.
#[derive(Default)]
pub struct Notes {
    shown: Mutex<BTreeMap<Nullifier, Shown>>,
    trusted: Mutex<BTreeSet<Root>>,
}

/// Who proved for what: there is one nullifier for both together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Nullifier {
    person: String,
    action: String,
}

/// What became of a nullifier's proofs.
#[derive(Debug, Default)]
struct Shown {
    sent: usize,
    verified: usize,
    /// Refused because the limit was reached.
    refused: usize,
    /// How often it was said to be new.
    firsts: usize,
    created_at: Option<String>,
    is_checked: bool,
}

impl Shown {
    /// Proofs that were sent and perhaps verified: not answered, or not yet.
    fn perhaps(&self) -> usize {
        self.sent - self.verified - self.refused
    }

    /// Takes down an answer. `before` is how many were verified when the proof was sent.
    fn told(&mut self, nullifier: &Nullifier, before: usize, reply: &Reply) {
        let is_limited = nullifier.action == LIMITED;
        let is_over = is_limited && before >= LIMIT;
        match (reply.status, reply.body["code"].as_str()) {
            (200, _) if !is_over => self.was_verified(nullifier, before, reply),
            (400, Some("max_verifications_reached")) if is_limited => {
                assert!(self.verified + self.perhaps() > LIMIT, "{nullifier:?} is refused too early: {self:?}");
                self.refused += 1;
            }
            _ => panic!("{nullifier:?} {self:?}: {reply:?}"),
        }
    }

    fn was_verified(&mut self, nullifier: &Nullifier, before: usize, reply: &Reply) {
        let created_at = reply.body["created_at"].as_str().expect("a time").to_owned();
        let is_first = reply.body["message"] == FIRST;
        assert!(is_first || reply.body["message"] == AGAIN, "{reply:?}");
        assert!(!is_first || before == 0, "{nullifier:?} was seen before: {self:?} {reply:?}");
        self.verified += 1;
        self.firsts += usize::from(is_first);
        assert!(self.created_at.as_ref().is_none_or(|known| *known == created_at), "{nullifier:?} {self:?}: {reply:?}");
        self.created_at = Some(created_at);
        let fewest_firsts = usize::from(self.perhaps() == 0);
        assert!((fewest_firsts..=1).contains(&self.firsts), "{nullifier:?} was new {} times: {self:?}", self.firsts);
        assert!(nullifier.action != LIMITED || self.verified <= LIMIT, "{nullifier:?} {self:?}");
    }
}

impl Notes {
    /// How many nullifiers were recorded.
    pub fn recorded(&self) -> usize {
        lock(&self.shown).values().filter(|shown| shown.verified > 0).count()
    }
}

/// Verifies proofs of a few people for a few actions until the daemon is gone.
pub async fn verify_people(desk: Arc<Desk>, name: String, life: usize) -> Result<(), Gone> {
    let mut chance = desk.chance(&name);
    let newest = desk.simulated_party().await?;
    loop {
        let person = format!("voter {life}.{}", chance.below(4));
        let action = [LIMITED.to_owned(), format!("vote {life}"), format!("other vote {life}")];
        let nullifier = match chance.one_in(5).then(|| earlier(&desk, &mut chance)).flatten() {
            Some(earlier) => earlier,
            None => Nullifier { person, action: action[chance.below(3)].clone() },
        };
        let party = with_served_root(&desk, &newest, &mut chance);
        verify(&desk, &nullifier, &party, &mut chance).await?;
        if chance.one_in(10) {
            trust_root(&desk, &mut chance).await?;
        }
    }
}

/// A nullifier that was shown before, perhaps to the daemon's earlier life.
fn earlier(desk: &Desk, chance: &mut Chance) -> Option<Nullifier> {
    let shown = lock(&desk.verification.shown);
    let all: Vec<&Nullifier> = shown.keys().collect();
    chance.one_of(&all).map(|nullifier| (*nullifier).clone())
}

/// The newest root, or one that was served in an inclusion proof: as valid, as long as the window is.
fn with_served_root(desk: &Desk, newest: &SimulatedParty, chance: &mut Chance) -> SimulatedParty {
    let roots = lock(&desk.registry.roots);
    let served = match roots.is_empty() || chance.one_in(2) {
        true => None,
        false => roots.iter().nth(chance.below(roots.len())),
    };
    SimulatedParty { root: served.map_or(newest.root, |root| *root), ..newest.clone() }
}

async fn verify(desk: &Desk, nullifier: &Nullifier, party: &SimulatedParty, chance: &mut Chance) -> Result<(), Gone> {
    let asked =
        Asked { app_id: APP, action: &nullifier.action, signal: "", environment: Environment::Staging, nonce: None };
    let mut random = |bytes: &mut [u8; 32]| *bytes = chance.bytes();
    let body = prove::uniqueness(&key(&nullifier.person), &asked, party, &mut random).expect("a proof");
    let before = {
        let mut all = lock(&desk.verification.shown);
        let shown = all.entry(nullifier.clone()).or_default();
        shown.sent += 1;
        shown.is_checked = false;
        shown.verified
    };
    let url = format!("{}/api/v4/verify/{APP}", desk.addresses.verification());
    if let Some(reply) = desk.send(desk.http.post(url).json(&body)).await? {
        lock(&desk.verification.shown).entry(nullifier.clone()).or_default().told(nullifier, before, &reply);
        desk.told();
    }
    Ok(())
}

/// The operator trusts another root.
async fn trust_root(desk: &Desk, chance: &mut Chance) -> Result<(), Gone> {
    // Half as long, so that it is an element of the field.
    let root = Root::from_number(U256::from_be_bytes(chance.bytes()) >> 128);
    match desk.operator.trust_legacy_root(root, Environment::Staging, &desk.data).await {
        Ok(()) => {
            lock(&desk.verification.trusted).insert(root);
            desk.told();
        }
        Err(OperatorError::Client(error)) => drop(desk.unless_put_off::<()>(Err(error))?),
        Err(error) => panic!("{error}"),
    }
    Ok(())
}

/// After a restart: what was recorded is seen again, and what was trusted is.
pub async fn check(desk: &Desk, chance: &mut Chance, is_everything: bool) -> Result<(), Gone> {
    let party = desk.simulated_party().await?;
    let asked = asked_again(desk, chance, is_everything);
    several(asked.into_iter().map(|nullifier| {
        let mut chance = Chance::of(desk.seed, &format!("{:?} {nullifier:?}", chance.bytes()));
        let party = &party;
        async move {
            verify(desk, &nullifier, party, &mut chance).await?;
            if let Some(shown) = lock(&desk.verification.shown).get_mut(&nullifier) {
                shown.is_checked = true;
            }
            Ok(())
        }
    }))
    .await?;
    expect_trusted(desk).await
}

/// All nullifiers that were shown since they were checked, and some others; or all.
fn asked_again(desk: &Desk, chance: &mut Chance, is_everything: bool) -> Vec<Nullifier> {
    let all = lock(&desk.verification.shown);
    let (mut asked, mut others): (Vec<_>, Vec<_>) = all.iter().partition(|(_, shown)| !shown.is_checked);
    chance.shuffle(&mut others);
    others.truncate(if is_everything { usize::MAX } else { SAMPLE });
    asked.append(&mut others);
    asked.into_iter().map(|(nullifier, _)| nullifier.clone()).collect()
}

async fn expect_trusted(desk: &Desk) -> Result<(), Gone> {
    let listed = desk.read(desk.http.get(format!("{}/roots", desk.addresses.operator()))).await?.body;
    let listed: BTreeSet<&str> =
        listed.as_array().expect("a list").iter().filter_map(|trusted| trusted["root"].as_str()).collect();
    for root in lock(&desk.verification.trusted).iter() {
        assert!(listed.contains(&*number::canonical(*root)), "{root:#x} is not trusted any more");
    }
    Ok(())
}

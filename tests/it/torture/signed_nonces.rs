//! Nonces of signed requests: one that a request has succeeded with is never accepted again.

use std::collections::BTreeMap;
use std::sync::Mutex;

use selfsame_actors::{Clock, SystemClock};
use selfsame_protocol::U256;
use selfsame_protocol::verification::Environment;
use selfsame_wallet::prove::{self, ProofParameters, SimulatedParty};
use serde_json::Value;

use super::choices::CrashChoices;
use super::context::{CrashTestContext, DaemonGone, lock, several};
use crate::sign_in_client::APP;
use crate::signed_requests::signature;
use crate::test_accounts::person_of;

/// How many nonces of earlier checks are sent again after a restart.
const SAMPLE: usize = 5;

/// The nonces that requests have succeeded with, and whether each was sent again since the last
/// start.
#[derive(Default)]
pub struct UsedNonces(Mutex<BTreeMap<u64, bool>>);

impl UsedNonces {
    /// Notes that a request with the nonce has succeeded.
    pub fn add(&self, nonce: u64) {
        lock(&self.0).insert(nonce, false);
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        lock(&self.0).len()
    }

    /// One of them, if there is one.
    pub fn any(&self, choices: &mut CrashChoices) -> Option<u64> {
        let all: Vec<u64> = lock(&self.0).keys().copied().collect();
        choices.one_of(&all).copied()
    }

    /// All that were not sent again since their use, and some others; or all.
    fn to_send_again(&self, choices: &mut CrashChoices, is_everything: bool) -> Vec<u64> {
        let (mut again, mut others) = (Vec::new(), Vec::new());
        for (nonce, is_checked) in lock(&self.0).iter() {
            if *is_checked { &mut others } else { &mut again }.push(*nonce);
        }
        choices.shuffle(&mut others);
        others.truncate(if is_everything { usize::MAX } else { SAMPLE });
        again.append(&mut others);
        again
    }
}

/// The signature of a nonce for an action, good for an hour.
pub fn signed(nonce: u64, action: &str) -> Value {
    let now = SystemClock.unix_seconds().0;
    signature(nonce, now, now + 3600, Some(action))
}

/// Asserts that a used nonce, signed anew for a new person, is refused.
pub async fn send_again(
    context: &CrashTestContext,
    nonce: u64,
    party: &SimulatedParty,
    choices: &mut CrashChoices,
) -> Result<(), DaemonGone> {
    let action = "with a used nonce";
    let asked = ProofParameters {
        app_id: APP,
        action,
        signal: "",
        environment: Environment::Staging,
        nonce: Some(U256::from(nonce)),
    };
    let person = format!("late {:x?}", choices.bytes());
    let mut random = |bytes: &mut [u8; 32]| *bytes = choices.bytes();
    let mut body = prove::uniqueness(&person_of(&person), &asked, party, &mut random).expect("a proof");
    body["rp_signature"] = signed(nonce, action);
    let url = format!("{}/api/v4/verify/{APP}", context.addresses.verification());
    if let Some(reply) = context.send(context.http.post(url).json(&body)).await? {
        let code = reply.body["code"].as_str();
        assert_eq!((reply.status, code), (400, Some("duplicate_nonce")), "nonce {nonce} was used before: {reply:?}");
        context.count_answer();
        if let Some(is_checked) = lock(&context.verification.nonces.0).get_mut(&nonce) {
            *is_checked = true;
        }
    }
    Ok(())
}

/// Asserts after a restart that used nonces are still refused.
pub async fn check(
    context: &CrashTestContext,
    party: &SimulatedParty,
    choices: &mut CrashChoices,
    is_everything: bool,
) -> Result<(), DaemonGone> {
    let again = context.verification.nonces.to_send_again(choices, is_everything);
    several(again.into_iter().map(|nonce| {
        let mut choices = CrashChoices::of(context.seed, &format!("{:?} nonce {nonce}", choices.bytes()));
        async move { send_again(context, nonce, party, &mut choices).await }
    }))
    .await
    .map(drop)
}

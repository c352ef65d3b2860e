//! What the provider remembers, and how each record may change. The records themselves know no time but what is handed in.

use super::authorize::KeptRequest;
use super::claims::{Person, Scopes};
use crate::verification::{Environment, ProofKind};
use crate::{B256, encode_fields};

/// An authorization request on its way: it waits for a person, is answered, and is done when its response is given out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub request: KeptRequest,
    /// SHA-256 of the secret that only the browser (or program) that asked has.
    pub secret_hash: B256,
    /// What the proof has to be bound to: 32 random bytes, used up by the first accepted proof.
    pub signal: B256,
    /// The person's answer.
    pub answer: Option<Answer>,
    /// Whether the response was given out.
    pub is_done: bool,
}

encode_fields!(Transaction { request, secret_hash, signal, answer, is_done } version 1 of "transaction");

/// What a person answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// With a proof.
    Proved(Person),
    /// With a refusal.
    Refused,
}

impl crate::encoding::Encoding for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Refused => out.push(0),
            Self::Proved(person) => {
                out.push(1);
                person.encode(out);
            }
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, crate::encoding::DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Refused),
            1 => Person::decode(input).map(Self::Proved),
            tag => Err(crate::encoding::DecodeError::UnknownTag { kind: "an answer", tag }),
        }
    }
}

/// An authorization code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationCode {
    pub client_id: String,
    pub redirect_uri: String,
    pub person: Person,
    pub scopes: Scopes,
    pub nonce: Option<String>,
    pub code_challenge: Option<String>,
    /// Until when it can be used, Unix seconds. The record lives longer, to know a second use.
    pub valid_until: u64,
    /// SHA-256 of the access token that its use gave; zero when the use failed.
    pub used_for: Option<B256>,
}

encode_fields!(AuthorizationCode { client_id, redirect_uri, person, scopes, nonce, code_challenge, valid_until, used_for } version 1 of "authorization code");

/// An access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    pub client_id: String,
    pub person: Person,
    pub scopes: Scopes,
    /// Unix seconds.
    pub issued_at: u64,
}

encode_fields!(AccessToken { client_id, person, scopes, issued_at } version 1 of "access token");

/// What a browser knows of people: for each client the one who signed in there, and for no other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrowserSession {
    pub clients: Vec<ClientSession>,
}

encode_fields!(BrowserSession { clients } version 1 of "browser session");

/// Who signed in to a client, and what they approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    pub client_id: String,
    /// The kind of proof: the two kinds give different subjects.
    pub proof: ProofKind,
    pub environment: Environment,
    pub person: Person,
    pub scopes: Scopes,
}

encode_fields!(ClientSession { client_id, proof, environment, person, scopes });

/// The most clients that one browser's session knows; the oldest goes first.
pub const MOST_CLIENTS: usize = 64;

impl BrowserSession {
    /// Who signed in to a client with this kind of proof, in this environment.
    pub fn of(&self, client_id: &str, proof: ProofKind, environment: Environment) -> Option<&ClientSession> {
        let mut sessions = self.clients.iter().filter(|session| session.client_id == client_id);
        sessions.find(|session| session.proof == proof && session.environment == environment)
    }

    /// The session after somebody signed in to a client.
    pub fn with(mut self, new: ClientSession) -> Self {
        self.clients.retain(|session| session.client_id != new.client_id);
        self.clients.push(new);
        let surplus = self.clients.len().saturating_sub(MOST_CLIENTS);
        self.clients.drain(..surplus);
        self
    }
}

/// The keys that ID tokens are signed with, oldest first: published ones that signed tokens which may be alive, the current one,
/// the next one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningKeys {
    pub keys: Vec<SigningKey>,
}

encode_fields!(SigningKeys { keys } version 1 of "signing keys");

/// One of them.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    pub id: String,
    /// PKCS #1, DER.
    pub private_key: Vec<u8>,
    /// Since when it is published, Unix seconds.
    pub published_at: u64,
    /// When it began to sign; `None` for the next key.
    pub promoted_at: Option<u64>,
    /// When it stopped; `None` for the current and the next key.
    pub retired_at: Option<u64>,
}

encode_fields!(SigningKey { id, private_key, published_at, promoted_at, retired_at });

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Why keys are not rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the next key has been published for {published_for} s, clients may not know it before {LEAST_PUBLICATION} s; wait, or use --now"
)]
pub struct KeyTooYoung {
    pub published_for: u64,
}

/// How long a key has to be published before it signs, in seconds: what a client may have cached for an hour.
pub const LEAST_PUBLICATION: u64 = 3600;

impl SigningKeys {
    /// The key that signs.
    pub fn current(&self) -> Option<&SigningKey> {
        self.keys.iter().find(|key| key.promoted_at.is_some() && key.retired_at.is_none())
    }

    /// The first keys of a new provider: the first signs at once, because nobody has fetched anything.
    pub fn first(current: SigningKey, next: SigningKey, now: u64) -> Self {
        Self { keys: vec![SigningKey { promoted_at: Some(now), ..current }, next] }
    }

    /// Retires the current key, promotes the next one and publishes `new` behind it. Keys whose last token has expired go.
    pub fn rotate(&self, new: SigningKey, now: u64, token_lifetime: u64, force: bool) -> Result<Self, KeyTooYoung> {
        if !force {
            self.is_due(now)?;
        }
        let mut keys: Vec<SigningKey> = self.without_expired(now, token_lifetime).keys;
        for key in &mut keys {
            match key.promoted_at {
                Some(_) => key.retired_at = key.retired_at.or(Some(now)),
                None => key.promoted_at = Some(now),
            }
        }
        keys.push(new);
        Ok(Self { keys })
    }

    /// Whether clients can know the next key by now.
    pub fn is_due(&self, now: u64) -> Result<(), KeyTooYoung> {
        let published_for = self.next().map_or(u64::MAX, |next| now.saturating_sub(next.published_at));
        if published_for < LEAST_PUBLICATION { Err(KeyTooYoung { published_for }) } else { Ok(()) }
    }

    /// The key that is published and does not sign yet.
    pub fn next(&self) -> Option<&SigningKey> {
        self.keys.iter().find(|key| key.promoted_at.is_none())
    }

    /// The keys without those whose last token has expired.
    pub fn without_expired(&self, now: u64, token_lifetime: u64) -> Self {
        let is_needed =
            |key: &&SigningKey| key.retired_at.is_none_or(|retired| retired.saturating_add(token_lifetime) >= now);
        Self { keys: self.keys.iter().filter(is_needed).cloned().collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, published_at: u64) -> SigningKey {
        SigningKey { id: id.to_owned(), private_key: vec![1], published_at, promoted_at: None, retired_at: None }
    }

    fn ids(keys: &SigningKeys) -> Vec<&str> {
        keys.keys.iter().map(|key| key.id.as_str()).collect()
    }

    #[test]
    fn a_key_is_published_before_it_signs_and_until_its_last_token_expires() {
        let keys = SigningKeys::first(key("a", 0), key("b", 0), 0);
        assert_eq!((keys.current().map(|key| &*key.id), keys.next().map(|key| &*key.id)), (Some("a"), Some("b")));
        assert_eq!(keys.rotate(key("c", 3599), 3599, 3600, false), Err(KeyTooYoung { published_for: 3599 }));
        assert!(keys.rotate(key("c", 10), 10, 3600, true).is_ok());
        let keys = keys.rotate(key("c", 3600), 3600, 3600, false).expect("old enough");
        assert_eq!((keys.current().map(|key| &*key.id), keys.next().map(|key| &*key.id)), (Some("b"), Some("c")));
        assert_eq!(ids(&keys), ["a", "b", "c"]);
        // The last token of a expires at 7200.
        assert_eq!(ids(&keys.without_expired(7200, 3600)), ["a", "b", "c"]);
        assert_eq!(ids(&keys.without_expired(7201, 3600)), ["b", "c"]);
        let keys = keys.rotate(key("d", 7201), 7201, 3600, false).expect("old enough");
        assert_eq!(ids(&keys), ["b", "c", "d"]);
        assert_eq!(keys.current().map(|key| &*key.id), Some("c"));
        assert!(!format!("{keys:?}").contains("private"));
    }
}

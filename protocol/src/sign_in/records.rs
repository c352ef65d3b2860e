//! The stored records of the provider, and how each can change. The caller passes the time.

use super::authorize::AuthorizationRequest;
use super::claims::{Person, Scopes};
use super::discovery::SigningAlgorithm;
use super::proof_request::SignInProof;
use super::response::ResponseType;
use crate::encoding::{DecodeError, Encoding};
use crate::time::{LONGEST_CLOCK_STEP, UnixSeconds};
use crate::verification::Environment;
use crate::{B256, encode_enum, encode_fields};

/// An authorization code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationCode {
    /// The client that the code was issued to; another client cannot use it.
    pub client_id: String,
    /// The redirect URI of the authorization request, which the token request must repeat byte for
    /// byte.
    pub redirect_uri: String,
    /// The person who signed in.
    pub person: Person,
    /// The granted scopes: those of the authorization request.
    pub scopes: Scopes,
    /// The request's nonce, for the ID token.
    pub nonce: Option<String>,
    /// The request's PKCE challenge (S256).
    pub code_challenge: Option<String>,
    /// End of the validity, exclusive. The record of a used code is stored longer, so that a second
    /// use is detected.
    pub valid_until: UnixSeconds,
    /// What the first use led to; `None` while the code is unused.
    pub used_for: Option<CodeUse>,
}

encode_fields!(AuthorizationCode { client_id, redirect_uri, person, scopes, nonce, code_challenge, valid_until, used_for } version 2 of "authorization code");

/// What the first use of an authorization code led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeUse {
    /// It gave the access token with this SHA-256.
    Token(B256),
    /// It was refused, and used the code up.
    Refused(RedemptionError),
}

/// Why a token request of the right client used its code up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RedemptionError {
    /// `redirect_uri` was missing, or another one than that of the authorization request.
    RedirectUri,
    /// `code_verifier` was missing.
    NoVerifier,
    /// `code_verifier` was given, and the authorization request had no `code_challenge`.
    NeedlessVerifier,
    /// `code_verifier` did not go with the `code_challenge`.
    WrongVerifier,
}

encode_enum!(RedemptionError { RedirectUri = 0, NoVerifier = 1, NeedlessVerifier = 2, WrongVerifier = 3 } of "a refused use of a code");

impl Encoding for CodeUse {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Token(hash) => {
                out.push(0);
                hash.encode(out);
            }
            Self::Refused(error) => {
                out.push(1);
                error.encode(out);
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Encoding::decode(input).map(Self::Token),
            1 => Encoding::decode(input).map(Self::Refused),
            tag => Err(DecodeError::UnknownTag { kind: "the use of a code", tag }),
        }
    }
}

/// An access token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessToken {
    /// The client that the token was issued to.
    pub client_id: String,
    /// The person whose claims the token gives access to.
    pub person: Person,
    /// The granted scopes: those of the authorization request.
    pub scopes: Scopes,
    /// When the token was issued.
    pub issued_at: UnixSeconds,
}

encode_fields!(AccessToken { client_id, person, scopes, issued_at } version 1 of "access token");

/// A browser's session. It holds for each client the person who signed in there; another client
/// does not see that entry. It is stored as a [`super::sealed::SealedSession`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrowserSession {
    /// The sign-ins, the oldest first: at most one for each client, redirect URI and response type,
    /// and at most [`MOST_SIGN_INS`]. All sign-ins to one client are of the same person.
    pub clients: Vec<ClientSession>,
}

encode_fields!(BrowserSession { clients } version 1 of "browser session");

/// The person who signed in to a client, and the request that the person approved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientSession {
    /// The client that the person signed in to.
    pub client_id: String,
    /// What was asked for: each way gives other subjects.
    pub proof: SignInProof,
    /// The environment of the proof.
    pub environment: Environment,
    /// The person who signed in.
    pub person: Person,
    /// The scopes that the person approved.
    pub scopes: Scopes,
    /// Where the approved response went.
    pub redirect_uri: String,
    /// What the approved response carried.
    pub response_type: ResponseType,
}

encode_fields!(ClientSession { client_id, proof, environment, person, scopes, redirect_uri, response_type });

/// The most sign-ins of one browser session. A further sign-in drops the oldest.
pub const MOST_SIGN_INS: usize = 64;

impl ClientSession {
    /// Whether this sign-in answers a request of its client without the person: the request has the
    /// approved redirect URI and response type, and
    /// [`is_answered_by`](AuthorizationRequest::is_answered_by) the sign-in.
    pub fn answers(&self, request: &AuthorizationRequest, now: UnixSeconds) -> bool {
        self.client_id == request.client_id
            && self.redirect_uri == request.target.redirect_uri
            && self.response_type == request.response_type
            && request.is_answered_by(self.person.auth_time, self.scopes, now)
    }

    /// Whether two sign-ins are of the same person at the same client. Another kind of proof gives
    /// another subject, so it counts as another person.
    fn is_same_person(&self, other: &Self) -> bool {
        let parts = |session: &Self| (session.proof, session.environment, session.person.subject);
        self.client_id == other.client_id && parts(self) == parts(other)
    }

    fn is_same_request(&self, other: &Self) -> bool {
        self.redirect_uri == other.redirect_uri && self.response_type == other.response_type
    }
}

impl BrowserSession {
    /// The sign-ins to a client with this kind of proof, in this environment.
    pub fn of<'s>(
        &'s self,
        client_id: &'s str,
        proof: SignInProof,
        environment: Environment,
    ) -> impl Iterator<Item = &'s ClientSession> {
        let sessions = self.clients.iter().filter(move |session| session.client_id == client_id);
        sessions.filter(move |session| session.proof == proof && session.environment == environment)
    }

    /// The sign-ins that have not ended by `now`. A sign-in ends `lifetime` seconds after its
    /// proof, however often the session was renewed.
    pub fn without_ended(mut self, now: UnixSeconds, lifetime: u64) -> Self {
        self.clients.retain(|session| session.person.auth_time.plus(lifetime) > now);
        self
    }

    /// The sign-ins of the same person to the same client as `known`.
    pub fn only_same_person(mut self, known: &ClientSession) -> Self {
        self.clients.retain(|session| session.is_same_person(known));
        self
    }

    /// The session after a sign-in to a client. The new entry replaces the client's earlier one for
    /// the same request, and all of the client's entries of another person; with more than
    /// [`MOST_SIGN_INS`] entries the oldest is dropped.
    pub fn with(mut self, new: ClientSession) -> Self {
        self.clients.retain(|session| {
            session.client_id != new.client_id || (session.is_same_person(&new) && !session.is_same_request(&new))
        });
        self.clients.push(new);
        let surplus = self.clients.len().saturating_sub(MOST_SIGN_INS);
        self.clients.drain(..surplus);
        self
    }
}

/// The keys that ID tokens are signed with, oldest first: retired keys whose tokens can still be
/// valid, the current key, the next key.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SigningKeys {
    /// The keys in the order of their publication.
    pub keys: Vec<SigningKey>,
    /// Sign-ins whose proof was accepted at this time or before have ended, with all their codes,
    /// tokens and sessions.
    pub sessions_ended_at: Option<UnixSeconds>,
}

encode_fields!(SigningKeys { keys, sessions_ended_at } version 1 of "signing keys");

/// A signing key: an RSA key for RS256, or a key on the curve P-256 for ES256. The first byte of
/// the public key says which.
#[derive(Clone, PartialEq, Eq)]
pub struct SigningKey {
    /// The `kid`: base64url of the first 16 bytes of SHA-256 of the modulus, or of the coordinates
    /// x and y (32 bytes each) of a key on P-256.
    pub id: String,
    /// The public key. An RSA key is in PKCS #1, DER, and begins with 0x30. A key on P-256 is an
    /// uncompressed point (SEC 1, section 2.3.3): 65 bytes, of which the first is 0x04.
    pub public_key: Vec<u8>,
    /// The private key in DER: in PKCS #1 for RSA, in PKCS #8 for P-256. It is encrypted when the
    /// service has a key for that. `None` from the retirement on, because a retired key signs
    /// nothing any more.
    pub private_key: Option<Vec<u8>>,
    /// When the key was published.
    pub published_at: UnixSeconds,
    /// When the key began to sign; `None` for the next key.
    pub promoted_at: Option<UnixSeconds>,
    /// When the key stopped signing; `None` for the current and the next key.
    pub retired_at: Option<UnixSeconds>,
}

encode_fields!(SigningKey { id, public_key, private_key, published_at, promoted_at, retired_at });

impl SigningKey {
    /// The algorithm that the key signs with; `None` when the public key has neither form.
    pub fn algorithm(&self) -> Option<SigningAlgorithm> {
        match self.public_key.first() {
            Some(0x30) => Some(SigningAlgorithm::Rs256),
            Some(0x04) => Some(SigningAlgorithm::Es256),
            _ => None,
        }
    }

    /// Whether the key is published: it signs, will sign, or has signed tokens that have not
    /// expired. Any other key is kept for checking hints alone. `token_lifetime` is in seconds.
    pub fn is_published(&self, now: UnixSeconds, token_lifetime: u64) -> bool {
        self.retired_at.is_none_or(|retired| retired.plus(token_lifetime) >= now)
    }
}

impl std::fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SigningKey").field("id", &self.id).finish_non_exhaustive()
    }
}

/// The keys are not rotated, because the next key was published too recently.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the next key was published {published_for} s ago; it must be published for {LEAST_PUBLICATION} s before it signs; \
     wait, or use --now"
)]
pub struct KeyTooYoung {
    /// Seconds since the next key was published.
    pub published_for: u64,
}

/// No signing key has this id.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no signing key has the id {id}; `selfsame keys list` shows the ids")]
pub struct UnknownKey {
    /// The id that was asked for.
    pub id: String,
}

/// How long a key must be published before it signs, in seconds. A client that caches the key set
/// for up to an hour then has the key before the first token that it signed.
pub const LEAST_PUBLICATION: u64 = 3600;

/// The most retired keys that are kept, so that ID tokens are recognized as hints however old they
/// are. With a rotation every 30 days these are the keys of 82 years, with one every hour, the
/// shortest that can be configured, those of six weeks. An RSA key takes 327 bytes of the record, a
/// key on P-256 takes 122, so the record has at most a third of a mebibyte.
pub const MOST_RETIRED: usize = 1000;

impl SigningKeys {
    /// The key that signs.
    pub fn current(&self) -> Option<&SigningKey> {
        self.keys.iter().find(|key| key.promoted_at.is_some() && key.retired_at.is_none())
    }

    /// The first keys of a new provider. `current` signs at once, because no client has fetched a
    /// key set yet.
    pub fn first(current: SigningKey, next: SigningKey, now: UnixSeconds) -> Self {
        Self { keys: vec![SigningKey { promoted_at: Some(now), ..current }, next], sessions_ended_at: None }
    }

    /// Retires the current key and forgets its private part, promotes the next one and publishes
    /// `new` after it. Retired keys stay, for hints: of more than [`MOST_RETIRED`] the oldest go,
    /// when their last token has expired. `token_lifetime` is in seconds; with `force` the age of
    /// the next key does not matter.
    ///
    /// # Errors
    /// The next key was published less than [`LEAST_PUBLICATION`] seconds ago, and `force` is
    /// false.
    pub fn rotate(
        &self,
        new: SigningKey,
        now: UnixSeconds,
        token_lifetime: u64,
        force: bool,
    ) -> Result<Self, KeyTooYoung> {
        if !force {
            self.check_due(now)?;
        }
        let mut keys = self.keys.clone();
        for key in &mut keys {
            match key.promoted_at {
                Some(_) => {
                    key.retired_at = key.retired_at.or(Some(now));
                    key.private_key = None;
                }
                None => key.promoted_at = Some(now),
            }
        }
        keys.push(new);
        let retired = keys.iter().filter(|key| key.retired_at.is_some()).count();
        let mut surplus = retired.saturating_sub(MOST_RETIRED);
        keys.retain(|key| {
            let goes = surplus > 0 && !key.is_published(now, token_lifetime);
            surplus -= usize::from(goes);
            !goes
        });
        Ok(Self { keys, ..*self })
    }

    /// Removes a key at once: clients that fetch the keys from now on accept nothing that it
    /// signed. When it is the current key, the next one is promoted, however young it is; `new`
    /// becomes the next key when there is none. With `end_sessions` all sign-ins up to `now` end.
    ///
    /// # Errors
    /// No key has this id.
    pub fn revoke(&self, id: &str, new: SigningKey, now: UnixSeconds, end_sessions: bool) -> Result<Self, UnknownKey> {
        self.check_known(id)?;
        let keys = self.keys.iter().filter(|key| key.id != id).cloned().collect();
        let sessions_ended_at = self.ended_at(now, end_sessions);
        let mut left = Self { keys, sessions_ended_at };
        if left.next().is_none() {
            left.keys.push(new.clone());
        }
        if left.current().is_none() {
            let next = left.keys.iter_mut().find(|key| key.promoted_at.is_none());
            next.into_iter().for_each(|key| key.promoted_at = Some(now));
            left.keys.push(new);
        }
        Ok(left)
    }

    /// Removes all keys at once, also those that cannot be read. With `end_sessions` all sign-ins
    /// up to `now` end; the caller has deleted them, so a time from a clock that was ahead does not
    /// have to stay.
    pub fn revoke_all(&self, now: UnixSeconds, end_sessions: bool) -> Self {
        let sessions_ended_at = if end_sessions { Some(now) } else { self.sessions_ended_at };
        Self { keys: Vec::new(), sessions_ended_at }
    }

    /// Checks that a key has this id.
    ///
    /// # Errors
    /// No key has this id.
    pub fn check_known(&self, id: &str) -> Result<(), UnknownKey> {
        let is_known = self.keys.iter().any(|key| key.id == id);
        if is_known { Ok(()) } else { Err(UnknownKey { id: id.to_owned() }) }
    }

    /// The new [`SigningKeys::sessions_ended_at`]. What has ended stays so when the clock is set
    /// back.
    fn ended_at(&self, now: UnixSeconds, end_sessions: bool) -> Option<UnixSeconds> {
        if end_sessions { self.sessions_ended_at.max(Some(now)) } else { self.sessions_ended_at }
    }

    /// Checks that the next key was published long enough for clients to have fetched it.
    ///
    /// # Errors
    /// The next key was published less than [`LEAST_PUBLICATION`] seconds ago.
    pub fn check_due(&self, now: UnixSeconds) -> Result<(), KeyTooYoung> {
        let published_for = self.next().map_or(u64::MAX, |next| now.since(next.published_at));
        if published_for < LEAST_PUBLICATION { Err(KeyTooYoung { published_for }) } else { Ok(()) }
    }

    /// The latest of the keys' times, if it lies more than [`LONGEST_CLOCK_STEP`] after `now`: the
    /// clock was wrong when it was written, or is wrong now.
    pub fn time_from_the_future(&self, now: UnixSeconds) -> Option<UnixSeconds> {
        let times =
            |key: &SigningKey| key.promoted_at.into_iter().chain(key.retired_at).chain([key.published_at]).max();
        let latest = self.keys.iter().filter_map(times).max();
        latest.filter(|latest| latest.since(now) > LONGEST_CLOCK_STEP.as_secs())
    }

    /// The same keys, with `now` in place of later times. Without it, keys of a clock that was
    /// years ahead would not be rotated for years. When they were really published is not
    /// known, so the next key counts as published now.
    pub fn with_times_until(&self, now: UnixSeconds) -> Self {
        let keys = self.keys.iter().cloned().map(|key| SigningKey {
            published_at: key.published_at.min(now),
            promoted_at: key.promoted_at.map(|time| time.min(now)),
            retired_at: key.retired_at.map(|time| time.min(now)),
            ..key
        });
        Self { keys: keys.collect(), ..*self }
    }

    /// The key that is published and does not sign yet.
    pub fn next(&self) -> Option<&SigningKey> {
        self.keys.iter().find(|key| key.promoted_at.is_none())
    }

    /// The keys that are published: without those whose last token has expired. `token_lifetime` is
    /// in seconds.
    pub fn without_expired(&self, now: UnixSeconds, token_lifetime: u64) -> Self {
        let keys = self.keys.iter().filter(|key| key.is_published(now, token_lifetime)).cloned();
        Self { keys: keys.collect(), ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(id: &str, published_at: u64) -> SigningKey {
        let published_at = UnixSeconds(published_at);
        SigningKey {
            id: id.to_owned(),
            public_key: vec![2],
            private_key: Some(vec![1]),
            published_at,
            promoted_at: None,
            retired_at: None,
        }
    }

    fn ids(keys: &SigningKeys) -> Vec<&str> {
        keys.keys.iter().map(|key| key.id.as_str()).collect()
    }

    #[test]
    fn a_revoked_key_is_gone_and_another_signs() {
        let keys = SigningKeys::first(key("a", 0), key("b", 0), UnixSeconds(0));
        let keys = keys.rotate(key("c", 3600), UnixSeconds(3600), 3600, false).expect("the next key is old enough");
        let now = UnixSeconds(3700);
        for (revoked, left, current, next) in [
            ("a", vec!["b", "c"], "b", "c"),
            ("b", vec!["a", "c", "d"], "c", "d"),
            ("c", vec!["a", "b", "d"], "b", "d"),
        ] {
            let keys = keys.revoke(revoked, key("d", 3700), now, false).expect("a known key");
            assert_eq!(ids(&keys), left, "{revoked}");
            assert_eq!(
                (keys.current().map(|key| &*key.id), keys.next().map(|key| &*key.id)),
                (Some(current), Some(next))
            );
            assert_eq!(keys.sessions_ended_at, None);
        }
        assert!(keys.revoke("x", key("d", 3700), now, false).is_err());
        let ended = keys.revoke("a", key("d", 3700), now, true).expect("a known key");
        assert_eq!(ended.sessions_ended_at, Some(now));
        let earlier = UnixSeconds(3650);
        for (end_sessions, ended_at) in [(false, Some(now)), (true, Some(now))] {
            let revoked = ended.revoke("b", key("e", 3700), earlier, end_sessions).expect("a known key");
            assert_eq!(revoked.sessions_ended_at, ended_at, "the clock was set back");
            let none = ended.revoke_all(earlier, end_sessions);
            // Its caller deletes the sign-ins.
            let ended_at = if end_sessions { Some(earlier) } else { ended_at };
            assert_eq!((none.keys.len(), none.sessions_ended_at), (0, ended_at));
        }
        assert_eq!(keys.revoke_all(now, true).sessions_ended_at, Some(now));
    }

    /// A stolen store or backup then has no private key that is older than the last rotation.
    #[test]
    fn a_retired_key_has_no_private_part() {
        let mut keys = SigningKeys::first(key("a", 0), key("b", 0), UnixSeconds(0));
        for (new, has_private) in [("c", vec![false, true, true]), ("d", vec![false, false, true, true])] {
            keys = keys.rotate(key(new, 5), UnixSeconds(5), 3600, true).expect("forced");
            assert_eq!(keys.keys.iter().map(|key| key.private_key.is_some()).collect::<Vec<_>>(), has_private);
        }
    }

    #[test]
    fn of_many_retired_keys_the_oldest_go_when_they_are_not_published() {
        let mut keys = SigningKeys::first(key("0", 0), key("1", 0), UnixSeconds(0));
        let rotate = |keys: &SigningKeys, number: usize, now: u64| {
            keys.rotate(key(&number.to_string(), now), UnixSeconds(now), 3600, true).expect("forced")
        };
        for number in 2..MOST_RETIRED + 4 {
            keys = rotate(&keys, number, 100);
        }
        assert_eq!(keys.keys.len(), MOST_RETIRED + 4, "their tokens are valid");
        keys = rotate(&keys, MOST_RETIRED + 4, 3700);
        assert_eq!(keys.keys.len(), MOST_RETIRED + 5, "the last second");
        keys = rotate(&keys, MOST_RETIRED + 5, 3701);
        assert_eq!((keys.keys.len(), &*keys.keys[0].id), (MOST_RETIRED + 2, "4"));
        let current = (MOST_RETIRED + 4).to_string();
        assert_eq!((keys.current().map(|key| &*key.id), keys.next().is_some()), (Some(&*current), true));
    }

    #[test]
    fn keys_of_a_clock_that_was_ahead_count_from_now_on() {
        let keys = SigningKeys::first(key("a", 90_000), key("b", 90_000), UnixSeconds(90_000));
        let keys = keys.rotate(key("c", 90_100), UnixSeconds(90_100), 3600, true).expect("forced");
        assert_eq!(keys.time_from_the_future(UnixSeconds(89_799)), Some(UnixSeconds(90_100)));
        // A correction of the clock.
        assert_eq!(keys.time_from_the_future(UnixSeconds(89_800)), None);
        let now = UnixSeconds(1000);
        let corrected = keys.with_times_until(now);
        assert_eq!((ids(&corrected), corrected.time_from_the_future(now)), (ids(&keys), None));
        assert_eq!(corrected.check_due(now), Err(KeyTooYoung { published_for: 0 }));
        assert_eq!(corrected.check_due(UnixSeconds(4600)), Ok(()));
        assert_eq!(ids(&corrected.without_expired(UnixSeconds(4601), 3600)), ["b", "c"]);
        assert_eq!(corrected.with_times_until(UnixSeconds(5000)).keys, corrected.keys, "past times stay");
    }

    #[test]
    fn a_signing_key_is_published_before_it_signs_and_until_its_last_token_expires() {
        let keys = SigningKeys::first(key("a", 0), key("b", 0), UnixSeconds(0));
        assert_eq!((keys.current().map(|key| &*key.id), keys.next().map(|key| &*key.id)), (Some("a"), Some("b")));
        assert_eq!(
            keys.rotate(key("c", 3599), UnixSeconds(3599), 3600, false),
            Err(KeyTooYoung { published_for: 3599 })
        );
        assert!(keys.rotate(key("c", 10), UnixSeconds(10), 3600, true).is_ok());
        let keys = keys.rotate(key("c", 3600), UnixSeconds(3600), 3600, false).expect("the next key is old enough");
        assert_eq!((keys.current().map(|key| &*key.id), keys.next().map(|key| &*key.id)), (Some("b"), Some("c")));
        assert_eq!(ids(&keys), ["a", "b", "c"]);
        // The last token of key `a` expires at 7200 seconds.
        assert_eq!(ids(&keys.without_expired(UnixSeconds(7200), 3600)), ["a", "b", "c"]);
        assert_eq!(ids(&keys.without_expired(UnixSeconds(7201), 3600)), ["b", "c"]);
        let keys = keys.rotate(key("d", 7201), UnixSeconds(7201), 3600, false).expect("the next key is old enough");
        assert_eq!(ids(&keys), ["a", "b", "c", "d"], "a retired key is kept for hints");
        assert_eq!(keys.current().map(|key| &*key.id), Some("c"));
        assert!(!format!("{keys:?}").contains("private"));
    }
}

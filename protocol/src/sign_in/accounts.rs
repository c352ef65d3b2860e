//! Accounts: a person at an application, for as long as the application lasts.
//!
//! An account has a subject that never changes. A *pointer* finds the account: a secret that a
//! browser holds. A *proof* authenticates: a pointer alone signs nobody in.
//!
//! At the first visit the person is asked for a proof of uniqueness that is bound to a new session.
//! Its nullifier makes the account or finds it, and the session is the account's from then on. A
//! browser with a pointer asks for a proof in that session, which wallets give at any time; a proof
//! of uniqueness they give once and then not again for a year.

use aws_lc_rs::hmac;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use zeroize::Zeroizing;

use super::pointers::MOST_CODES;
use crate::encoding::encode;
use crate::ids::Nullifier;
use crate::time::UnixSeconds;
use crate::verification::Environment;
use crate::verification::request::SessionId;
use crate::{B256, encode_enum, encode_fields, keccak256};

/// How long a browser keeps its pointers after their last use, in seconds: 400 days, the longest
/// time that browsers keep a cookie (RFC 6265bis, section 5.5).
pub const POINTERS_KEPT: u64 = 400 * 24 * 3600;

/// How old a proof may be with which a person makes all others forget an account, in seconds: an
/// hour, exclusive. So a cookie of a session that is stolen later shuts the person out of nothing.
const FRESH_PROOF: u64 = HOUR;

/// The most pointers of one browser. A further one drops the one that was used longest ago.
pub const MOST_POINTERS: usize = 64;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;

/// The accounts of one application in one environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Realm<'a> {
    /// The application: its client id.
    pub client_id: &'a str,
    /// The environment of its proofs.
    pub environment: Environment,
}

impl Realm<'_> {
    /// The id of the record of the account with a subject.
    pub fn account(&self, subject: B256) -> B256 {
        self.record("account", subject)
    }

    /// The id of the record that says which account a nullifier is of.
    pub fn by_nullifier(&self, nullifier: Nullifier) -> B256 {
        self.record("nullifier", B256::from(nullifier.0))
    }

    /// The id of the record that says which account a session is of.
    pub fn by_session(&self, session: &SessionId) -> B256 {
        self.record("session", B256::from(session.commitment))
    }

    /// The id of the record that says which subjects new accounts get.
    pub fn subjects(&self) -> B256 {
        self.record("subjects", B256::ZERO)
    }

    fn record(&self, kind: &str, id: B256) -> B256 {
        keccak256(encode(&((kind.to_owned(), self.client_id.to_owned()), (self.environment, id))))
    }
}

// Which subjects the people of an application get.

/// What the subject of a new account is: the setting `subject`. It is chosen before an
/// application's first account, and is in the store from then on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, strum::IntoStaticStr, JsonSchema, ToSchema,
)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum SubjectKind {
    /// A keyed hash of the nullifier, which nobody else can compute.
    #[default]
    Derived,
    /// The nullifier: the subject that the same person has where sign-ins ask for a proof of
    /// uniqueness each time, for the same action and relying party.
    Nullifier,
}

encode_enum!(SubjectKind { Derived = 0, Nullifier = 1 } of "a kind of subject");

impl SubjectKind {
    /// All kinds.
    pub const ALL: [Self; 2] = [Self::Derived, Self::Nullifier];

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// Which subjects new accounts of an application get. It is written in one step with the
/// application's first account, or with its first accepted proof when the application has no
/// accounts, and changes only when an operator says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecidedSubjects {
    /// The kind of the subjects.
    pub kind: SubjectKind,
    /// The day on which it was decided.
    pub decided_on: UnixSeconds,
    /// Whether the application has a legacy history: a legacy proof was accepted. It stays so,
    /// whatever is asked for later.
    pub has_legacy: bool,
}

encode_fields!(DecidedSubjects { kind, decided_on, has_legacy } version 1 of "decided subjects");

impl DecidedSubjects {
    /// The decision that is made at `now`.
    pub fn new(kind: SubjectKind, now: UnixSeconds) -> Self {
        Self { kind, decided_on: now.rounded_down(DAY), has_legacy: false }
    }
}

/// The secret that the subjects of new accounts are derived with.
pub struct SubjectKey(Zeroizing<[u8; 32]>);

impl SubjectKey {
    /// The key of 32 bytes; `None` of another number.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self(Zeroizing::new(bytes)))
    }

    /// The subject of a new account: HMAC-SHA256 of the application's id, the environment and the
    /// nullifier, each after its length as four bytes, big-endian. Nobody who has another
    /// application's subject, or who gets the person to answer the same statement elsewhere, can
    /// tell it.
    pub fn subject(&self, realm: &Realm<'_>, nullifier: Nullifier) -> B256 {
        let nullifier = nullifier.0.to_be_bytes::<32>();
        let mut context = hmac::Context::with_key(&hmac::Key::new(hmac::HMAC_SHA256, self.0.as_slice()));
        for part in [realm.client_id.as_bytes(), realm.environment.name().as_bytes(), &nullifier] {
            context.update(&(part.len() as u32).to_be_bytes());
            context.update(part);
        }
        B256::from_slice(context.sign().as_ref())
    }
}

/// A person at an application. It does not expire.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInAccount {
    /// The claim `sub`. It never changes.
    pub subject: B256,
    /// The nullifier of the person's legacy proofs; `None` for an account that a first proof made.
    pub legacy: Option<Nullifier>,
    /// The current proofs of the person; `None` for an account of legacy proofs alone.
    pub current: Option<CurrentProofs>,
    /// Current proofs of another person, which were given for the account after `current`
    /// ([`super::attaching`]). Neither sign in then.
    pub disputed_by: Option<CurrentProofs>,
    /// The credential of the last proof of uniqueness.
    pub identifier: String,
    /// Which pointers are good: those that have this number.
    pub generation: u32,
    /// How many proofs of uniqueness it has had that are bound to a session. A second one came from
    /// an authenticator, or a browser, that did not know the account.
    pub firsts: u32,
    /// How many sign-in codes were made of it in this generation.
    pub codes: u8,
    /// The day on which it was made.
    pub created_on: UnixSeconds,
    /// The hour in which the person last gave a proof.
    pub human_at: UnixSeconds,
}

encode_fields!(SignInAccount { subject, legacy, current, disputed_by, identifier, generation, firsts, codes, created_on, human_at } version 1 of "account");

/// The current proofs of a person at an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CurrentProofs {
    /// The nullifier of the proofs of uniqueness for the action of sign-ins.
    pub nullifier: Nullifier,
    /// The session that the next proof is asked for in.
    pub session: SessionId,
    /// The hour in which they were attached to an account of legacy proofs; `None` when they made
    /// the account.
    pub attached_at: Option<UnixSeconds>,
}

encode_fields!(CurrentProofs { nullifier, session, attached_at });

impl SignInAccount {
    /// A new account, of a person whose proof of uniqueness was accepted at `now`.
    pub fn new(subject: B256, first: FirstProof, now: UnixSeconds) -> Self {
        let FirstProof { nullifier, session, identifier } = first;
        let current = Some(CurrentProofs { nullifier, session, attached_at: None });
        Self { subject, current, identifier, firsts: 1, ..Self::empty(now) }
    }

    /// A new account, of a person whose legacy proof was accepted at `now`. Its nullifier is the
    /// subject, as it was before the application had accounts.
    pub fn of_legacy(nullifier: Nullifier, identifier: String, now: UnixSeconds) -> Self {
        Self { subject: B256::from(nullifier.0), legacy: Some(nullifier), identifier, ..Self::empty(now) }
    }

    fn empty(now: UnixSeconds) -> Self {
        Self {
            subject: B256::ZERO,
            legacy: None,
            current: None,
            disputed_by: None,
            identifier: String::new(),
            generation: 0,
            firsts: 0,
            codes: 0,
            created_on: now.rounded_down(DAY),
            human_at: now.rounded_down(HOUR),
        }
    }

    /// The account after a further proof of uniqueness of the same person: the new session replaces
    /// the old one.
    pub fn after_first(&self, first: FirstProof, now: UnixSeconds) -> Self {
        let FirstProof { session, identifier, .. } = first;
        let firsts = self.firsts.saturating_add(1);
        let current = self.current.clone().map(|current| CurrentProofs { session, ..current });
        Self { current, identifier, firsts, human_at: now.rounded_down(HOUR), ..self.clone() }
    }

    /// The account to which every pointer that was made before is worth nothing.
    pub fn without_pointers(&self) -> Self {
        Self { generation: self.generation.saturating_add(1), codes: 0, ..self.clone() }
    }

    /// Whether a person whose proof of it was accepted at `auth_time` may still make all others
    /// forget it at `now`.
    pub fn may_lose_pointers(auth_time: UnixSeconds, now: UnixSeconds) -> bool {
        now < auth_time.plus(FRESH_PROOF)
    }

    /// The account after a sign-in code of it was made; `None` when there were [`MOST_CODES`].
    pub fn with_code(&self) -> Option<Self> {
        (self.codes < MOST_CODES).then(|| Self { codes: self.codes + 1, ..self.clone() })
    }

    /// A pointer to it.
    pub fn pointer(&self, realm: Realm<'_>) -> Pointer {
        let Realm { client_id, environment } = realm;
        let (subject, generation) = (self.subject, self.generation);
        Pointer { client_id: client_id.to_owned(), environment, subject, generation, legacy_since: None }
    }

    /// What a transaction asks for, for a proof of the account in its session; `None` when it has
    /// none that signs in.
    pub fn asked(&self) -> Option<AskedAccount> {
        let session = self.undisputed()?.session.clone();
        Some(AskedAccount { subject: self.subject, session, generation: self.generation })
    }

    /// The current proofs that sign in.
    pub fn undisputed(&self) -> Option<&CurrentProofs> {
        self.current.as_ref().filter(|_| self.disputed_by.is_none())
    }

    /// The account after a proof of the person that changes nothing else of it.
    pub fn after_proof(&self, now: UnixSeconds) -> Self {
        Self { human_at: now.rounded_down(HOUR), ..self.clone() }
    }
}

/// What an accepted proof of uniqueness says, which is bound to a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FirstProof {
    /// Its nullifier.
    pub nullifier: Nullifier,
    /// The session that it is bound to.
    pub session: SessionId,
    /// Its credential.
    pub identifier: String,
}

/// The account that a transaction asks for a proof of, and the session that it asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedAccount {
    /// The subject of the account.
    pub subject: B256,
    /// The session that was the account's when the transaction began.
    pub session: SessionId,
    /// The generation that was the account's when the transaction began. An answer counts whatever
    /// has become of that, because the proof shows the person.
    pub generation: u32,
}

encode_fields!(AskedAccount { subject, session, generation });

// What a browser holds: pointers to accounts.

/// What leads a browser to an account. It gives no right but to be asked for a proof of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    /// The application: its client id.
    pub client_id: String,
    /// The environment of its proofs.
    pub environment: Environment,
    /// The account's subject.
    pub subject: B256,
    /// The account's generation when the pointer was made: it is good while it is the account's.
    pub generation: u32,
    /// Since when it is in this browser because a legacy proof of the account signed the person in
    /// there; `None` for a pointer that came in another way.
    pub legacy_since: Option<UnixSeconds>,
}

encode_fields!(Pointer { client_id, environment, subject, generation, legacy_since });

impl Pointer {
    /// Whether it is of an application's accounts.
    pub fn is_of(&self, realm: Realm<'_>) -> bool {
        (&*self.client_id, self.environment) == (realm.client_id, realm.environment)
    }

    /// Whether it leads to an account of its application: it was made after all others were last
    /// forgotten.
    pub fn leads_to(&self, account: &SignInAccount) -> bool {
        (self.subject, self.generation) == (account.subject, account.generation)
    }
}

/// The pointers of one browser, of which the one that was used last is the last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BrowserPointers {
    /// At most one for each account, and at most [`MOST_POINTERS`].
    pub pointers: Vec<Pointer>,
}

encode_fields!(BrowserPointers { pointers } version 1 of "pointers");

impl BrowserPointers {
    /// When their record expires that was written at `now`: with the first day that begins when
    /// [`POINTERS_KEPT`] is over. By the second a reader of several backups would tell which
    /// accounts were used in one browser.
    pub fn expires_at(now: UnixSeconds) -> UnixSeconds {
        now.plus(POINTERS_KEPT + DAY - 1).rounded_down(DAY)
    }

    /// The pointers to accounts of an application, the one that was used last first.
    pub fn of(&self, realm: Realm<'_>) -> impl Iterator<Item = &Pointer> {
        self.pointers.iter().rev().filter(move |pointer| pointer.is_of(realm))
    }

    /// Whether one of them leads to an account of an application.
    pub fn know(&self, realm: Realm<'_>, account: &SignInAccount) -> bool {
        self.of(realm).any(|pointer| pointer.leads_to(account))
    }

    /// The pointers after one was made or used. It keeps the time since which a legacy proof has
    /// led to the account in this browser.
    pub fn with(mut self, mut new: Pointer) -> Self {
        let same = |pointer: &Pointer| (pointer.client_id.clone(), pointer.environment, pointer.subject);
        let known = self.pointers.iter().find(|pointer| same(pointer) == same(&new));
        let since = known.filter(|known| known.generation == new.generation).and_then(|known| known.legacy_since);
        new.legacy_since = since.or(new.legacy_since);
        self.pointers.retain(|pointer| same(pointer) != same(&new));
        self.pointers.push(new);
        let surplus = self.pointers.len().saturating_sub(MOST_POINTERS);
        self.pointers.drain(..surplus);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::U256;

    const REALM: Realm<'static> = Realm { client_id: "app_a", environment: Environment::Staging };

    fn session(commitment: u64) -> SessionId {
        SessionId { text: format!("session_{commitment:064x}01{:062x}", 0), commitment: U256::from(commitment) }
    }

    fn first(nullifier: u64, commitment: u64) -> FirstProof {
        let identifier = "proof_of_human".to_owned();
        FirstProof { nullifier: Nullifier(U256::from(nullifier)), session: session(commitment), identifier }
    }

    /// Computed with Python: `hmac.new(bytes(range(32)), b"".join(len(part).to_bytes(4, "big") +
    /// part for part in [b"app_a", b"staging", (7).to_bytes(32, "big")]), "sha256")`.
    #[test]
    fn a_subject_is_the_hmac_of_its_parts_with_their_lengths() {
        let bytes: Vec<u8> = (0..32).collect();
        let key = SubjectKey::from_bytes(&bytes).expect("32 bytes");
        let subject = key.subject(&REALM, Nullifier(U256::from(7)));
        assert_eq!(format!("{subject:#x}"), "0x1a55e0cc5a5ac4c1fe43363ec6371d40f5d609d61a96dd1bde73bddacb578374");
        assert!(SubjectKey::from_bytes(&bytes[1..]).is_none());
        // No part can stand for a piece of its neighbour.
        let other = Realm { client_id: "app_", ..REALM };
        let staging = Realm { environment: Environment::Production, ..REALM };
        for (realm, nullifier) in [(other, 7), (staging, 7), (REALM, 8)] {
            assert_ne!(key.subject(&realm, Nullifier(U256::from(nullifier))), subject);
        }
    }

    #[test]
    fn records_of_other_applications_environments_and_kinds_have_other_ids() {
        let number = B256::from(U256::from(7));
        let ids = |realm: Realm<'_>| {
            let by_nullifier = realm.by_nullifier(Nullifier(U256::from(7)));
            [realm.account(number), by_nullifier, realm.by_session(&session(7)), realm.subjects()]
        };
        let realms =
            [REALM, Realm { client_id: "app_b", ..REALM }, Realm { environment: Environment::Production, ..REALM }];
        let all: std::collections::HashSet<_> = realms.into_iter().flat_map(ids).collect();
        assert_eq!(all.len(), 12);
    }

    #[test]
    fn a_further_proof_of_uniqueness_replaces_the_session_and_keeps_the_subject() {
        let subject = B256::repeat_byte(1);
        let made = SignInAccount::new(subject, first(7, 1), UnixSeconds(90_061));
        assert_eq!((made.created_on, made.human_at), (UnixSeconds(86_400), UnixSeconds(90_000)), "a day, an hour");
        let again = made.after_first(first(7, 2), UnixSeconds(200_000));
        let session_of = |account: &SignInAccount| account.asked().expect("a session").session;
        assert_eq!((again.subject, session_of(&again), again.created_on), (subject, session(2), made.created_on));
        assert_eq!(again.human_at, UnixSeconds(198_000));
        assert_eq!(session_of(&again.after_proof(UnixSeconds(300_000))), session(2));
    }

    #[test]
    fn a_pointer_is_good_until_all_others_are_forgotten() {
        let account = SignInAccount::new(B256::repeat_byte(1), first(7, 1), UnixSeconds(0));
        let before = account.pointer(REALM);
        let raised = account.without_pointers();
        let after = raised.pointer(REALM);
        let renewed = raised.after_first(first(7, 2), UnixSeconds(HOUR)).after_proof(UnixSeconds(DAY));
        #[rustfmt::skip]
        let table = [
            ("made before", &before, &account, true),
            ("made before, and forgotten", &before, &raised, false),
            ("made before, and forgotten, and a new session", &before, &renewed, false),
            ("made after", &after, &raised, true),
            ("made after, and a new session", &after, &renewed, true),
            ("made after, in a store that was restored", &after, &account, false),
        ];
        for (what, pointer, account, expected) in table {
            assert_eq!(pointer.leads_to(account), expected, "{what}");
        }
        assert_eq!((account.firsts, renewed.firsts), (1, 2));
        let with_codes = |codes| SignInAccount { codes, ..account.clone() }.with_code().map(|after| after.codes);
        assert_eq!(
            (with_codes(0), with_codes(MOST_CODES - 1), with_codes(MOST_CODES)),
            (Some(1), Some(MOST_CODES), None)
        );
        for (age, expected) in [(0, true), (HOUR - 1, true), (HOUR, false), (DAY, false)] {
            let (auth_time, now) = (UnixSeconds(DAY), UnixSeconds(DAY + age));
            assert_eq!(SignInAccount::may_lose_pointers(auth_time, now), expected, "{age} s");
        }
    }

    #[test]
    fn a_browser_has_the_pointer_that_it_used_last_first() {
        let pointer = |subject: u8, client: &str| Pointer {
            client_id: client.to_owned(),
            environment: Environment::Staging,
            subject: B256::repeat_byte(subject),
            generation: 0,
            legacy_since: None,
        };
        let mut known = BrowserPointers::default();
        for (subject, client) in [(1, "app_a"), (2, "app_a"), (3, "app_b"), (1, "app_a")] {
            known = known.with(pointer(subject, client));
        }
        let subjects: Vec<_> = known.of(REALM).map(|pointer| pointer.subject.0[0]).collect();
        assert_eq!(subjects, [1, 2]);
        let account = |subject: u8| SignInAccount::new(B256::repeat_byte(subject), first(7, 1), UnixSeconds(0));
        assert!(known.know(REALM, &account(2)) && !known.know(REALM, &account(3)));
        assert!(!known.know(REALM, &account(2).without_pointers()));
        assert_eq!(known.of(Realm { environment: Environment::Production, ..REALM }).count(), 0);
        for subject in 0..=MOST_POINTERS as u8 {
            known = known.with(pointer(subject, "app_c"));
        }
        assert_eq!((known.pointers.len(), known.of(REALM).count()), (MOST_POINTERS, 0), "the oldest are dropped");
        for (now, days) in [(0, 400), (1, 401), (DAY - 1, 401), (DAY, 401), (DAY + 1, 402)] {
            assert_eq!(BrowserPointers::expires_at(UnixSeconds(now)), UnixSeconds(days * DAY), "{now}");
        }
    }
}

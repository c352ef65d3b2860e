//! What a sign-in asks a person for, where no pointer leads to an account that has a session.
//!
//! An application without accounts asks for the same proof each time. One with accounts asks for a
//! *first proof*: uniqueness that is bound to a new session. An application whose people have had
//! legacy proofs, its *legacy history*, has to find the same account again:
//!
//! - Until legacy proofs end it asks for one of them. It finds the account, or makes it.
//! - A person whose authenticator makes none, and everybody after that time, is asked for a first
//!   proof of a credential that was first issued when new people could make no legacy proofs any
//!   more. Only a bound of the proof shows that; an authenticator's word is no evidence.
//! - Who has an older credential is asked for a first proof without that bound, which finds an
//!   account and makes none. It is asked for only when the person wishes it: an authenticator gives
//!   such a proof once and then not again for a year.

use super::accounts::{AskedAccount, SignInAccount};
use super::claims::Person;
use super::proof_request::{SignInProof, WalletFailure};
use super::transaction::{Answer, Transaction};
use crate::B256;
use crate::encoding::{DecodeError, Encoding};
use crate::time::UnixSeconds;
use crate::verification::ProofKind;

/// When people could make no legacy proofs any more whose credential is newer, by the word of their
/// makers: 2026-06-01T00:00:00Z.
pub const CURRENT_ALONE_SINCE: UnixSeconds = UnixSeconds(1_780_272_000);

/// When legacy proofs end, by the word of their makers: 2027-04-01T00:00:00Z.
pub const LEGACY_ENDS: UnixSeconds = UnixSeconds(1_806_537_600);

/// What a transaction asks any person for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A legacy proof.
    Legacy,
    /// A proof of uniqueness that is bound to no session.
    Uniqueness,
    /// A proof of uniqueness that is bound to a new session.
    First {
        /// The credential has to be first issued at this time or later; `None` for any time.
        issued_since: Option<UnixSeconds>,
        /// What the proof does.
        purpose: FirstPurpose,
    },
}

/// What a first proof does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FirstPurpose {
    /// It finds the account of its nullifier, or makes it.
    MakesAccount,
    /// It finds the account of its nullifier, and makes none.
    FindsAccount,
    /// It is attached to the account of this person, whose legacy proof was accepted just before in
    /// the same browser.
    AttachesTo(Person),
}

/// How an application that may have a legacy history takes legacy proofs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LegacyRules {
    /// When legacy proofs end, exclusive.
    pub ends_at: UnixSeconds,
    /// Since when new people can make no legacy proofs.
    pub current_alone_since: UnixSeconds,
    /// Whether people with an older credential, of whom no account is found, get one when legacy
    /// proofs have ended. A person can then have two.
    pub allows_old_credentials: bool,
    /// Whether people can attach current proofs to their accounts.
    pub may_attach: bool,
}

impl Default for LegacyRules {
    fn default() -> Self {
        Self {
            ends_at: LEGACY_ENDS,
            current_alone_since: CURRENT_ALONE_SINCE,
            allows_old_credentials: false,
            may_attach: true,
        }
    }
}

impl LegacyRules {
    /// Whether legacy proofs are still made at `now`.
    pub fn is_open(&self, now: UnixSeconds) -> bool {
        now < self.ends_at
    }

    /// The ask of people with an older credential at `now`.
    fn of_old_credentials(&self, now: UnixSeconds) -> Ask {
        let purpose = match self.allows_old_credentials && !self.is_open(now) {
            true => FirstPurpose::MakesAccount,
            false => FirstPurpose::FindsAccount,
        };
        Ask::First { issued_since: None, purpose }
    }
}

impl Ask {
    /// A first proof that makes an account of everybody.
    pub const FIRST: Self = Self::First { issued_since: None, purpose: FirstPurpose::MakesAccount };

    /// What any person is asked for first, at `now`. `history` is there when the application has
    /// accounts, and a legacy history.
    pub fn of_any_person(proof: SignInProof, history: Option<&LegacyRules>, now: UnixSeconds) -> Self {
        match (proof, history) {
            (SignInProof::Legacy, _) => Self::Legacy,
            (SignInProof::Current, _) => Self::Uniqueness,
            (SignInProof::Account, None) => Self::FIRST,
            (SignInProof::Account, Some(history)) if history.is_open(now) => Self::Legacy,
            (SignInProof::Account, Some(history)) => {
                Self::First { issued_since: Some(history.current_alone_since), purpose: FirstPurpose::MakesAccount }
            }
        }
    }

    /// What a person is asked for next at an application with a legacy history, whose authenticator
    /// has no legacy credential: a first proof of a newer credential.
    pub fn after_failure(self, failure: WalletFailure, history: &LegacyRules) -> Option<Self> {
        let makes_account = FirstPurpose::MakesAccount;
        let newer = Self::First { issued_since: Some(history.current_alone_since), purpose: makes_account };
        (self == Self::Legacy && failure == WalletFailure::NoLegacyProof).then_some(newer)
    }

    /// What a person is asked for next at an application with a legacy history, who says that the
    /// credential is an older one, at `now`.
    pub fn of_older_credential(self, history: &LegacyRules, now: UnixSeconds) -> Option<Self> {
        match self {
            Self::First { issued_since: Some(_), .. } => Some(history.of_old_credentials(now)),
            _ => None,
        }
    }

    /// Whether it is a first proof.
    pub fn is_first(self) -> bool {
        matches!(self, Self::First { .. })
    }

    /// The kind of the proof.
    pub fn kind(self) -> ProofKind {
        match self {
            Self::Legacy => ProofKind::Legacy,
            Self::Uniqueness | Self::First { .. } => ProofKind::Current,
        }
    }

    /// The time that the credential has to be first issued at, or later.
    pub fn issued_since(self) -> Option<UnixSeconds> {
        match self {
            Self::First { issued_since, .. } => issued_since,
            Self::Legacy | Self::Uniqueness => None,
        }
    }

    /// The person to whose account a first proof is attached.
    pub fn attaches_to(self) -> Option<Person> {
        match self {
            Self::First { purpose: FirstPurpose::AttachesTo(person), .. } => Some(person),
            _ => None,
        }
    }
}

// Which proof comes after one.

/// The proof that a sign-in at an application with a legacy history goes on with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextProof {
    /// The one without which it cannot be completed: in the session of the account that a legacy
    /// proof led to; a first proof of a newer credential, because the authenticator has no legacy
    /// one; or a legacy proof, because the session is not the person's.
    Needed,
    /// A first proof that is attached to the account to which the legacy proof signs the person in.
    Attached,
    /// A first proof of an older credential.
    OlderCredential,
}

/// What a sign-in asks for that goes on with another proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Continuation {
    /// The account.
    pub account: Option<AskedAccount>,
    /// What any person is asked for, where no account is; `None` for what the application asks for
    /// first.
    pub ask: Option<Ask>,
}

impl Continuation {
    fn of(ask: Ask) -> Self {
        Self { account: None, ask: Some(ask) }
    }
}

impl Transaction {
    /// The subject of the account on which it depends what a transaction goes on with.
    pub fn account_of_next_proof(&self) -> Option<B256> {
        match self.answer {
            Some(Answer::Proved(person)) => Some(person.subject),
            Some(Answer::Pointed) => self.pointer.as_ref().map(|pointer| pointer.subject),
            _ => self.account.as_ref().map(|asked| asked.subject),
        }
    }

    /// What a transaction goes on with at `now`; `None` where nothing comes. `account` is that of
    /// [`Transaction::account_of_next_proof`].
    pub fn asks_next(
        &self,
        next: NextProof,
        account: Option<&SignInAccount>,
        history: &LegacyRules,
        now: UnixSeconds,
    ) -> Option<Continuation> {
        let expects_person = self.request.expected_subject.is_some();
        match (next, self.answer) {
            (NextProof::Needed, Some(Answer::Pointed)) => {
                let leads_there =
                    |account: &&SignInAccount| self.pointer.as_ref().is_some_and(|pointer| pointer.leads_to(account));
                let account = account.filter(leads_there).and_then(SignInAccount::asked);
                Some(Continuation { account, ask: None })
            }
            // Another person may have attached their own proofs, and the session is theirs. Then a
            // legacy proof signs the person in, who is told.
            (NextProof::Needed, Some(Answer::Failed(WalletFailure::Broken))) => {
                let is_provisional = account.is_some_and(|account| account.is_provisional(now));
                (is_provisional && history.is_open(now)).then_some(Continuation::of(Ask::Legacy))
            }
            // Another person's proof of uniqueness would be spent for nothing.
            (NextProof::Needed, Some(Answer::Failed(failure))) if self.account.is_none() && !expects_person => {
                self.ask.after_failure(failure, history).map(Continuation::of)
            }
            (NextProof::Attached, Some(Answer::Proved(person))) => {
                let is_legacy = self.pointer.as_ref().is_some_and(|pointer| pointer.legacy_since.is_some());
                let is_open = |account: &SignInAccount| self.attachable.iter().any(|known| known.is_open(account, now));
                let may_be = history.may_attach && history.is_open(now) && account.is_some_and(is_open);
                let purpose = FirstPurpose::AttachesTo(person);
                (may_be && is_legacy).then_some(Continuation::of(Ask::First { issued_since: None, purpose }))
            }
            (NextProof::OlderCredential, None | Some(Answer::Failed(_))) if !expects_person => {
                self.ask.of_older_credential(history, now).map(Continuation::of)
            }
            _ => None,
        }
    }
}

impl Encoding for Ask {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Legacy => out.push(0),
            Self::Uniqueness => out.push(1),
            Self::First { issued_since, purpose } => {
                out.push(2);
                issued_since.encode(out);
                match purpose {
                    FirstPurpose::MakesAccount => out.push(0),
                    FirstPurpose::FindsAccount => out.push(1),
                    FirstPurpose::AttachesTo(person) => {
                        out.push(2);
                        person.encode(out);
                    }
                }
            }
        }
    }

    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Legacy),
            1 => Ok(Self::Uniqueness),
            2 => {
                let issued_since = Option::decode(input)?;
                let purpose = match u8::decode(input)? {
                    0 => FirstPurpose::MakesAccount,
                    1 => FirstPurpose::FindsAccount,
                    2 => FirstPurpose::AttachesTo(Person::decode(input)?),
                    tag => return Err(DecodeError::UnknownTag { kind: "what a first proof does", tag }),
                };
                Ok(Self::First { issued_since, purpose })
            }
            tag => Err(DecodeError::UnknownTag { kind: "what a sign-in asks for", tag }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::accounts::{FirstProof, Pointer, Realm};
    use super::super::attaching::{Attachable, Attachment, PROVISIONAL};
    use super::super::authorize::KeptRequest;
    use super::super::claims::VerificationLevel;
    use super::super::transaction::tests::transaction;
    use super::*;
    use crate::U256;
    use crate::encoding::{decode, encode};
    use crate::ids::Nullifier;
    use crate::verification::Environment;
    use crate::verification::request::SessionId;

    const BEFORE: UnixSeconds = UnixSeconds(LEGACY_ENDS.0 - 1);

    #[test]
    fn what_any_person_is_asked_for() {
        use SignInProof::{Account, Current, Legacy};
        let rules = LegacyRules::default();
        let newer = Ask::First { issued_since: Some(CURRENT_ALONE_SINCE), purpose: FirstPurpose::MakesAccount };
        #[rustfmt::skip]
        let table = [
            ("legacy", Legacy, None, BEFORE, Ask::Legacy),
            ("legacy, after the end", Legacy, None, LEGACY_ENDS, Ask::Legacy),
            ("current", Current, None, BEFORE, Ask::Uniqueness),
            ("accounts", Account, None, BEFORE, Ask::FIRST),
            ("accounts, after the end", Account, None, LEGACY_ENDS, Ask::FIRST),
            ("accounts with a legacy history", Account, Some(&rules), BEFORE, Ask::Legacy),
            ("accounts with a legacy history, after the end", Account, Some(&rules), LEGACY_ENDS, newer),
        ];
        for (what, proof, history, now, expected) in table {
            assert_eq!(Ask::of_any_person(proof, history, now), expected, "{what}");
        }
        // The dates are those that their makers have said.
        let text = |time: UnixSeconds| crate::time::UnixMillis(time.0 * 1000).to_iso_8601();
        assert_eq!(
            [CURRENT_ALONE_SINCE, LEGACY_ENDS].map(text),
            ["2026-06-01T00:00:00.000Z", "2027-04-01T00:00:00.000Z"]
        );
    }

    #[test]
    fn an_authenticators_word_makes_no_account_without_the_bound() {
        let refuses = LegacyRules::default();
        let allows = LegacyRules { allows_old_credentials: true, ..refuses };
        let newer = Ask::of_any_person(SignInProof::Account, Some(&refuses), LEGACY_ENDS);
        assert_eq!(Ask::Legacy.after_failure(WalletFailure::NoLegacyProof, &refuses), Some(newer));
        for failure in WalletFailure::ALL {
            for ask in [Ask::FIRST, newer, Ask::Uniqueness] {
                assert_eq!(ask.after_failure(failure, &refuses), None, "{ask:?} {failure:?}");
            }
            let is_word = failure == WalletFailure::NoLegacyProof;
            assert_eq!(Ask::Legacy.after_failure(failure, &refuses).is_some(), is_word, "{failure:?}");
        }
        let finds = Ask::First { issued_since: None, purpose: FirstPurpose::FindsAccount };
        #[rustfmt::skip]
        let table = [
            ("before the end", newer, &refuses, BEFORE, Some(finds)),
            ("after the end", newer, &refuses, LEGACY_ENDS, Some(finds)),
            ("before the end, where old ones are allowed", newer, &allows, BEFORE, Some(finds)),
            ("after the end, where old ones are allowed", newer, &allows, LEGACY_ENDS, Some(Ask::FIRST)),
            ("without a bound already", finds, &allows, LEGACY_ENDS, None),
            ("a legacy proof", Ask::Legacy, &allows, LEGACY_ENDS, None),
        ];
        for (what, ask, rules, now, expected) in table {
            assert_eq!(ask.of_older_credential(rules, now), expected, "{what}");
        }
    }

    /// A sign-in goes on with another proof only where that leads somewhere.
    #[test]
    fn what_a_sign_in_goes_on_with() {
        use NextProof::{Attached, Needed, OlderCredential};
        let rules = LegacyRules::default();
        let closed = LegacyRules { may_attach: false, ..rules };
        let now = UnixSeconds(CURRENT_ALONE_SINCE.0 + 90 * 24 * 3600);
        let (nullifier, realm) =
            (Nullifier(U256::from(5)), Realm { client_id: "app_a", environment: Environment::Staging });
        let legacy = SignInAccount::of_legacy([1; 16], nullifier, "orb".to_owned(), now);
        let session = SessionId { text: "session_7".to_owned(), commitment: U256::from(7) };
        let first = FirstProof { nullifier: Nullifier(U256::from(7)), session, identifier: "orb".to_owned() };
        let Ok(Attachment::Attached(attached)) = legacy.with_attached(first, now) else { panic!("it is attached") };
        let firm = now.plus(PROVISIONAL);
        let person = Person { subject: legacy.subject, level: VerificationLevel::Orb, group: None, auth_time: now };
        let asking = Transaction { account: None, ask: Ask::Legacy, attachable: Vec::new(), ..transaction() };
        let asking = Transaction { request: KeptRequest { expected_subject: None, ..asking.request }, ..asking };
        let expecting = |transaction: &Transaction| {
            let request = KeptRequest { expected_subject: Some("0x01".to_owned()), ..transaction.request.clone() };
            Transaction { request, ..transaction.clone() }
        };
        let failed = |failure| Transaction { answer: Some(Answer::Failed(failure)), ..asking.clone() };
        let pointed =
            Transaction { answer: Some(Answer::Pointed), pointer: Some(attached.pointer(realm)), ..asking.clone() };
        let returning = Transaction { account: attached.asked(), ..failed(WalletFailure::Broken) };
        let known = Attachable { subject: legacy.subject, generation: 0 };
        let aged = Pointer { legacy_since: Some(now), ..legacy.pointer(realm) };
        let proved = Transaction {
            answer: Some(Answer::Proved(person)),
            pointer: Some(aged),
            attachable: vec![known],
            ..asking.clone()
        };
        let by_session = Transaction { pointer: Some(legacy.pointer(realm)), ..proved.clone() };
        let newer = Ask::First { issued_since: Some(CURRENT_ALONE_SINCE), purpose: FirstPurpose::MakesAccount };
        let finds = Ask::First { issued_since: None, purpose: FirstPurpose::FindsAccount };
        let attaches = Ask::First { issued_since: None, purpose: FirstPurpose::AttachesTo(person) };
        let no_legacy = failed(WalletFailure::NoLegacyProof);
        let asks_newer = Transaction { ask: newer, ..asking.clone() };
        let of_session = Continuation { account: attached.asked(), ask: None };
        let anew = Continuation { account: None, ask: None };
        let (forgotten, some) = (legacy.without_pointers(), |ask| Some(Continuation::of(ask)));
        #[rustfmt::skip]
        let table = [
            ("a legacy proof led to the account", &pointed, Needed, Some(&attached), &rules, now, Some(of_session)),
            ("all others were made to forget it since", &pointed, Needed, Some(&attached.without_pointers()), &rules, now, Some(anew.clone())),
            ("it is no longer there", &pointed, Needed, None, &rules, now, Some(anew)),
            ("no legacy proof", &no_legacy, Needed, None, &rules, now, some(newer)),
            ("no legacy proof, of a person who is expected", &expecting(&no_legacy), Needed, None, &rules, now, None),
            ("another failure", &failed(WalletFailure::CredentialUnavailable), Needed, None, &rules, now, None),
            ("the session may be another person's", &returning, Needed, Some(&attached), &rules, now, some(Ask::Legacy)),
            ("the same, of a person who is expected", &expecting(&returning), Needed, Some(&attached), &rules, now, some(Ask::Legacy)),
            ("the session is the account's for good", &returning, Needed, Some(&attached), &rules, firm, None),
            ("legacy proofs have ended", &returning, Needed, Some(&attached), &LegacyRules { ends_at: now, ..rules }, now, None),
            ("attaching", &proved, Attached, Some(&legacy), &rules, now, some(attaches)),
            ("disputing", &proved, Attached, Some(&attached), &rules, now, some(attaches)),
            ("attached for good meanwhile", &proved, Attached, Some(&attached), &rules, firm, None),
            ("forgotten meanwhile", &proved, Attached, Some(&forgotten), &rules, now, None),
            ("the browser has not known it for long", &Transaction { attachable: Vec::new(), ..proved.clone() }, Attached, Some(&legacy), &rules, now, None),
            ("proved in the session", &by_session, Attached, Some(&legacy), &rules, now, None),
            ("nothing is attached at the application", &proved, Attached, Some(&legacy), &closed, now, None),
            ("attaching after the end", &proved, Attached, Some(&legacy), &rules, LEGACY_ENDS, None),
            ("an older credential", &asks_newer, OlderCredential, None, &rules, now, some(finds)),
            ("an older credential, of a person who is expected", &expecting(&asks_newer), OlderCredential, None, &rules, now, None),
            ("an older one than none", &asking, OlderCredential, None, &rules, now, None),
            ("nothing is needed", &proved, Needed, Some(&legacy), &rules, now, None),
            ("it is not answered", &asking, Needed, None, &rules, now, None),
        ];
        for (what, transaction, next, account, rules, now, expected) in table {
            assert_eq!(transaction.asks_next(next, account, rules, now), expected, "{what}");
        }
        let subjects = [&pointed, &returning, &proved, &asking].map(Transaction::account_of_next_proof);
        assert_eq!(subjects, [Some(legacy.subject), Some(legacy.subject), Some(legacy.subject), None]);
    }

    #[test]
    fn asks_are_stored() {
        let person =
            Person { subject: B256::repeat_byte(7), level: VerificationLevel::Orb, group: None, auth_time: BEFORE };
        let purposes = [FirstPurpose::MakesAccount, FirstPurpose::FindsAccount, FirstPurpose::AttachesTo(person)];
        let firsts = purposes.map(|purpose| Ask::First { issued_since: Some(BEFORE), purpose });
        for ask in [Ask::Legacy, Ask::Uniqueness, Ask::FIRST].into_iter().chain(firsts) {
            assert_eq!(decode::<Ask>(&encode(&ask)), Ok(ask));
        }
        assert_eq!((firsts[2].attaches_to(), firsts[1].attaches_to()), (Some(person), None));
    }
}

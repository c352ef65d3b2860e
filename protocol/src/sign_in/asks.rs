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

use super::claims::Person;
use super::proof_request::{SignInProof, WalletFailure};
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
    use super::super::claims::VerificationLevel;
    use super::*;
    use crate::B256;
    use crate::encoding::{decode, encode};

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

    #[test]
    fn asks_are_stored() {
        let person = Person { subject: B256::repeat_byte(7), level: VerificationLevel::Orb, auth_time: BEFORE };
        let purposes = [FirstPurpose::MakesAccount, FirstPurpose::FindsAccount, FirstPurpose::AttachesTo(person)];
        let firsts = purposes.map(|purpose| Ask::First { issued_since: Some(BEFORE), purpose });
        for ask in [Ask::Legacy, Ask::Uniqueness, Ask::FIRST].into_iter().chain(firsts) {
            assert_eq!(decode::<Ask>(&encode(&ask)), Ok(ask));
        }
        assert_eq!((firsts[2].attaches_to(), firsts[1].attaches_to()), (Some(person), None));
    }
}

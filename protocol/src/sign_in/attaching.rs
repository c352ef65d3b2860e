//! Attaching: how a person's current proofs come to an account of legacy proofs.
//!
//! No proof shows that a legacy proof and a current one are of the same person. Both are given one
//! after the other, in one browser. A legacy proof can be relayed from another page, and with two
//! of them a thief could attach current proofs of their own. So:
//!
//! - The browser has known the account for a day, since a legacy proof signed the person in there.
//! - For 30 days the attachment is provisional: legacy proofs sign in as well, and each such
//!   sign-in tells the person of it.
//! - A person who says that it was somebody else attaches their own current proofs, under the same
//!   condition. Then neither of them signs in, legacy proofs do, and nothing more is attached until
//!   an operator has chosen.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::accounts::{CurrentProofs, FirstProof, Pointer, SignInAccount};
use crate::time::UnixSeconds;
use crate::{B256, encode_fields};

/// How long a browser has to have known the account, in seconds: a day.
pub const KNOWN_FOR: u64 = 24 * 3600;

/// How long an attachment is provisional, in seconds: 30 days.
pub const PROVISIONAL: u64 = 30 * 24 * 3600;

/// The most accounts of one browser that one sign-in lets current proofs be attached to.
pub const MOST_ATTACHABLE: usize = 4;

/// What an accepted legacy proof of an account does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LegacyEffect {
    /// It signs the person in.
    SignsIn,
    /// It leads to the account, as a pointer does: a proof in its session signs in.
    LeadsToAccount,
}

/// An account to which current proofs may be attached in a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attachable {
    /// The subject of the account.
    pub subject: B256,
    /// The generation of the pointer that led to it.
    pub generation: u32,
}

encode_fields!(Attachable { subject, generation });

impl Attachable {
    /// Whether they still may be attached to the account at `now`.
    pub fn is_open(&self, account: &SignInAccount, now: UnixSeconds) -> bool {
        (self.subject, self.generation) == (account.subject, account.generation) && account.takes_current_proofs(now)
    }
}

/// An account after current proofs were given for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attachment {
    /// They are attached to it.
    Attached(SignInAccount),
    /// The same person's were attached before.
    Again(SignInAccount),
    /// Another person's were attached before. Both are kept, and neither of them signs in.
    Disputed(SignInAccount),
}

/// Why current proofs are not attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotAttached {
    /// Two persons' were given, and the operator has not chosen yet.
    Disputed,
    /// Another person's belong to the account for good.
    Firm,
}

/// Which current proofs an operator lets an account have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, strum::IntoStaticStr, ToSchema)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum KeptProofs {
    /// Those that were attached first.
    First,
    /// Those that were given afterwards, by a person who said that the first ones are not theirs.
    Second,
    /// None: the account has its legacy proofs alone, and others can be attached.
    None,
}

impl KeptProofs {
    /// All choices.
    pub const ALL: [Self; 3] = [Self::First, Self::Second, Self::None];

    /// The name in commands.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// An account after an operator has chosen, and the proofs that do not belong to it any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The account.
    pub account: SignInAccount,
    /// What it has lost.
    pub dropped: Vec<CurrentProofs>,
}

/// Why the current proofs of an account are not chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotChosen {
    /// There are no such proofs, or the account has no legacy ones.
    NoSuchProofs,
    /// A second person's proofs would be dropped, and the operator does not know of them: they may
    /// have come after the operator looked at the account.
    Unseen,
}

impl SignInAccount {
    /// Whether current proofs were attached so lately that the person is told of it.
    pub fn is_provisional(&self, now: UnixSeconds) -> bool {
        let attached_at = self.undisputed().and_then(|current| current.attached_at);
        attached_at.is_some_and(|attached_at| now < attached_at.plus(PROVISIONAL))
    }

    /// Whether another person may have attached current proofs. All others cannot be made to forget
    /// the account then: a thief could shut the person out of the browsers that can undo it.
    pub fn is_contested(&self, now: UnixSeconds) -> bool {
        self.disputed_by.is_some() || self.is_provisional(now)
    }

    /// What a legacy proof of the account does that is accepted at `now`.
    pub fn effect_of_legacy_proof(&self, now: UnixSeconds) -> LegacyEffect {
        match self.undisputed().is_none() || self.is_provisional(now) {
            true => LegacyEffect::SignsIn,
            false => LegacyEffect::LeadsToAccount,
        }
    }

    /// Whether a browser with this pointer has known the account for long enough, at `now`, so that
    /// its person may attach current proofs, or say that the attached ones are not theirs.
    pub fn may_be_attached_to(&self, pointer: &Pointer, now: UnixSeconds) -> bool {
        let is_known = pointer.legacy_since.is_some_and(|since| now >= since.plus(KNOWN_FOR));
        is_known && pointer.leads_to(self) && self.takes_current_proofs(now)
    }

    /// Whether current proofs can be attached to it at `now`, or a dispute about them begin.
    pub fn takes_current_proofs(&self, now: UnixSeconds) -> bool {
        let is_open = self.current.is_none() || self.is_provisional(now);
        self.legacy.is_some() && self.disputed_by.is_none() && is_open
    }

    /// The account after a first proof was accepted for it at `now`, whose nullifier no other
    /// account has.
    ///
    /// # Errors
    /// See [`NotAttached`].
    pub fn with_attached(&self, first: FirstProof, now: UnixSeconds) -> Result<Attachment, NotAttached> {
        let FirstProof { nullifier, session, identifier } = first.clone();
        let given = CurrentProofs { nullifier, session, attached_at: Some(now.rounded_down(3600)) };
        let firsts = self.firsts.saturating_add(1);
        match &self.current {
            _ if self.disputed_by.is_some() => Err(NotAttached::Disputed),
            None => {
                let after = Self { current: Some(given), identifier, firsts, ..self.after_proof(now) };
                Ok(Attachment::Attached(after))
            }
            Some(current) if current.nullifier == nullifier => Ok(Attachment::Again(self.after_first(first, now))),
            Some(_) if self.is_provisional(now) => {
                Ok(Attachment::Disputed(Self { disputed_by: Some(given), firsts, ..self.after_proof(now) }))
            }
            Some(_) => Err(NotAttached::Firm),
        }
    }

    /// The account after an operator has chosen which current proofs belong to it, for good.
    /// `knows_of_two` says that the operator knows of the proofs of two persons.
    ///
    /// # Errors
    /// See [`NotChosen`].
    pub fn with_chosen(&self, kept: KeptProofs, knows_of_two: bool) -> Result<Chosen, NotChosen> {
        let Some(first) = self.current.clone().filter(|_| self.legacy.is_some()) else {
            return Err(NotChosen::NoSuchProofs);
        };
        let (keeps, drops) = match (kept, self.disputed_by.clone()) {
            (KeptProofs::First | KeptProofs::None, Some(_)) if !knows_of_two => return Err(NotChosen::Unseen),
            (KeptProofs::First, second) => (first, second),
            (KeptProofs::Second, Some(second)) => (second, Some(first)),
            (KeptProofs::Second, None) => return Err(NotChosen::NoSuchProofs),
            (KeptProofs::None, second) => {
                let dropped = [first].into_iter().chain(second).collect();
                // The browser that attached them does not do it again at once.
                let account = Self { current: None, disputed_by: None, ..self.without_pointers() };
                return Ok(Chosen { account, dropped });
            }
        };
        let current = Some(CurrentProofs { attached_at: None, ..keeps });
        let account = Self { current, disputed_by: None, ..self.clone() };
        Ok(Chosen { account, dropped: drops.into_iter().collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::super::accounts::Realm;
    use super::*;
    use crate::U256;
    use crate::ids::Nullifier;
    use crate::verification::Environment;
    use crate::verification::request::SessionId;

    const REALM: Realm<'static> = Realm { client_id: "app_a", environment: Environment::Staging };
    const DAY: u64 = 24 * 3600;
    const ATTACHED: UnixSeconds = UnixSeconds(100 * DAY);

    fn first(nullifier: u64) -> FirstProof {
        let session = SessionId { text: format!("session_{nullifier}"), commitment: U256::from(nullifier) };
        FirstProof { nullifier: Nullifier(U256::from(nullifier)), session, identifier: "proof_of_human".to_owned() }
    }

    fn legacy() -> SignInAccount {
        SignInAccount::of_legacy([5; 16], Nullifier(U256::from(5)), "orb".to_owned(), UnixSeconds(0))
    }

    fn attached() -> SignInAccount {
        match legacy().with_attached(first(7), ATTACHED) {
            Ok(Attachment::Attached(account)) => account,
            other => panic!("{other:?}"),
        }
    }

    fn disputed() -> SignInAccount {
        match attached().with_attached(first(8), ATTACHED.plus(DAY)) {
            Ok(Attachment::Disputed(account)) => account,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_a_legacy_proof_does() {
        use LegacyEffect::{LeadsToAccount, SignsIn};
        let made_by_first = SignInAccount::new([5; 16], legacy().subject, first(7), ATTACHED);
        let chosen = disputed().with_chosen(KeptProofs::Second, true).expect("chosen").account;
        let (last, end) = (ATTACHED.plus(PROVISIONAL - 1), ATTACHED.plus(PROVISIONAL));
        #[rustfmt::skip]
        let table = [
            ("no current proofs", legacy(), ATTACHED, SignsIn, false),
            ("just attached", attached(), ATTACHED, SignsIn, true),
            ("in the last provisional second", attached(), last, SignsIn, true),
            ("attached for good", attached(), end, LeadsToAccount, false),
            ("disputed", disputed(), ATTACHED.plus(DAY), SignsIn, false),
            ("disputed, after the time", disputed(), end, SignsIn, false),
            ("chosen by the operator", chosen, ATTACHED.plus(DAY), LeadsToAccount, false),
            ("made by a first proof", made_by_first, ATTACHED, LeadsToAccount, false),
        ];
        for (what, account, now, effect, is_provisional) in table {
            assert_eq!(
                (account.effect_of_legacy_proof(now), account.is_provisional(now)),
                (effect, is_provisional),
                "{what}"
            );
        }
    }

    #[test]
    fn a_browser_has_to_have_known_the_account_for_a_day() {
        let pointer = |since: Option<u64>| Pointer { legacy_since: since.map(UnixSeconds), ..legacy().pointer(REALM) };
        let (now, later) = (ATTACHED, ATTACHED.plus(PROVISIONAL));
        let known = Some(now.0 - DAY);
        let forgotten = legacy().without_pointers();
        let none = SignInAccount { legacy: None, ..legacy() };
        #[rustfmt::skip]
        let table = [
            ("for a day", legacy(), known, now, true),
            ("for a second less", legacy(), Some(now.0 - DAY + 1), now, false),
            ("by a link, a code or a passkey", legacy(), None, now, false),
            ("all others forgotten since", forgotten, known, now, false),
            ("attached lately", attached(), known, now, true),
            ("attached for good", attached(), known, later, false),
            ("disputed", disputed(), known, now, false),
            ("without legacy proofs", none, known, now, false),
        ];
        for (what, account, since, now, expected) in table {
            assert_eq!(account.may_be_attached_to(&pointer(since), now), expected, "{what}");
        }
    }

    #[test]
    fn a_second_person_disputes_and_the_same_one_does_not() {
        let again = attached().with_attached(first(7), ATTACHED.plus(PROVISIONAL)).expect("the same person");
        assert!(matches!(&again, Attachment::Again(account) if account.firsts == 2 && account.disputed_by.is_none()));
        let disputed = disputed();
        assert_eq!((disputed.asked(), disputed.current.clone()), (None, attached().current), "both are kept");
        assert_eq!(disputed.disputed_by.as_ref().map(|other| other.nullifier), Some(first(8).nullifier));
        assert_eq!(disputed.with_attached(first(7), ATTACHED), Err(NotAttached::Disputed));
        let too_late = attached().with_attached(first(8), ATTACHED.plus(PROVISIONAL));
        assert_eq!(too_late, Err(NotAttached::Firm));
    }

    #[test]
    fn an_operator_chooses() {
        use NotChosen::{NoSuchProofs, Unseen};

        let nullifiers = |chosen: &Chosen| {
            let dropped: Vec<_> = chosen.dropped.iter().map(|dropped| dropped.nullifier).collect();
            (chosen.account.undisputed().map(|current| current.nullifier), dropped)
        };
        let (one, two) = (first(7).nullifier, first(8).nullifier);
        let made_by_first = SignInAccount { legacy: None, ..attached() };
        #[rustfmt::skip]
        let table = [
            ("the first of two", disputed(), KeptProofs::First, true, Ok((Some(one), vec![two]))),
            ("the first, and the second came unseen", disputed(), KeptProofs::First, false, Err(Unseen)),
            ("the second of two", disputed(), KeptProofs::Second, true, Ok((Some(two), vec![one]))),
            ("the second, whose name says that there are two", disputed(), KeptProofs::Second, false, Ok((Some(two), vec![one]))),
            ("none of two", disputed(), KeptProofs::None, true, Ok((None, vec![one, two]))),
            ("none, and the second came unseen", disputed(), KeptProofs::None, false, Err(Unseen)),
            ("the only ones", attached(), KeptProofs::First, false, Ok((Some(one), vec![]))),
            ("the only ones, and two were seen", attached(), KeptProofs::First, true, Ok((Some(one), vec![]))),
            ("second ones that there are not", attached(), KeptProofs::Second, true, Err(NoSuchProofs)),
            ("not the only ones", attached(), KeptProofs::None, false, Ok((None, vec![one]))),
            ("nothing to choose", legacy(), KeptProofs::First, true, Err(NoSuchProofs)),
            ("nothing to drop", legacy(), KeptProofs::None, true, Err(NoSuchProofs)),
            ("made by a first proof", made_by_first, KeptProofs::None, true, Err(NoSuchProofs)),
        ];
        for (what, account, kept, knows_of_two, expected) in table {
            let chosen = account.with_chosen(kept, knows_of_two);
            assert_eq!(chosen.as_ref().map(nullifiers).map_err(|error| *error), expected, "{what}");
            let is_firm = chosen.is_ok_and(|chosen| !chosen.account.is_provisional(ATTACHED));
            assert!(is_firm || expected.is_err(), "{what}");
        }
    }
}

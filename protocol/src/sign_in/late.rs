//! A first proof that comes late. An authenticator spends its proof of uniqueness when it *makes*
//! it, and gives no other one for a year. So a transaction that asks for one takes it also when the
//! page says that the sign-in is over: it then completes no sign-in, but it makes the account, and
//! the browser that began can ask for a proof in its session next time.

use super::accounts::Pointer;
use super::proof_request::WalletFailure;
use super::transaction::{Answer, KEPT_AFTER_END, Transaction};
use crate::time::UnixSeconds;

/// How long a first proof is taken after an authenticator first got the request, in seconds.
pub const FIRST_TAKEN: u64 = 900;

/// How long the browser in which a transaction began finds the account that was proved, in seconds
/// after an authenticator first got the request: a day.
pub const FIRST_KEPT: u64 = 24 * 3600;

/// What an accepted proof does for a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofEffect {
    /// It answers the transaction.
    Answers,
    /// A first proof makes or finds the account, and answers nothing: the sign-in is over, was
    /// cancelled, or was answered without a proof. Every other proof has no effect.
    MakesAccount,
    /// It has none.
    None,
}

impl Transaction {
    /// Until when authenticators get the request and answer it, exclusive.
    pub fn answers_until(&self) -> UnixSeconds {
        match self.opened_at.filter(|_| self.asks_first()) {
            Some(opened_at) => self.ends_at.max(opened_at.plus(FIRST_TAKEN)),
            None => self.ends_at,
        }
    }

    /// What a proof does that is accepted at `now`.
    pub fn effect_of_proof(&self, now: UnixSeconds) -> ProofEffect {
        match self.is_waiting(now) {
            true => ProofEffect::Answers,
            false if self.takes_late() && !self.has_proof() && now < self.answers_until() => ProofEffect::MakesAccount,
            false => ProofEffect::None,
        }
    }

    /// What leads to the account that was proved, where the browser in which it began has not been
    /// told of it: the proof came late, the digits were lost, or the response was never fetched.
    pub fn untold_account(&self) -> Option<&Pointer> {
        match self.answer {
            Some(Answer::Proved(_)) if self.response.is_some() => None,
            _ => self.pointer.as_ref(),
        }
    }

    /// Whether a first proof may have been made for it that never arrived.
    pub fn may_have_lost_first(&self) -> bool {
        let says_none = matches!(self.answer, Some(Answer::Failed(failure)) if failure != WalletFailure::UnboundProof);
        self.asks_first() && self.opened_at.is_some() && !self.has_proof() && !says_none
    }

    /// Whether it takes a first proof after its end. One that is attached to the account of a
    /// legacy proof is taken only while the person has not gone on without it.
    fn takes_late(&self) -> bool {
        let has_gone_on = self.response.is_some() || matches!(self.answer, Some(Answer::Refused));
        self.asks_first() && (self.ask.attaches_to().is_none() || !has_gone_on)
    }

    fn has_proof(&self) -> bool {
        matches!(self.answer, Some(Answer::Proved(_))) || self.pointer.is_some()
    }

    /// When the record expires.
    pub fn kept_until(&self) -> UnixSeconds {
        let kept = self.ends_at.plus(KEPT_AFTER_END);
        match (self.opened_at, &self.pointer) {
            (Some(opened_at), Some(_)) => kept.max(opened_at.plus(FIRST_KEPT)),
            _ => kept,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::asks::Ask;
    use super::super::claims::{Person, VerificationLevel};
    use super::super::transaction::tests::{response, transaction};
    use super::*;
    use crate::B256;
    use crate::verification::Environment;

    const BEGAN: UnixSeconds = UnixSeconds(1_800_000_000);
    const OPENED: UnixSeconds = UnixSeconds(BEGAN.0 + 60);
    const END: UnixSeconds = UnixSeconds(BEGAN.0 + 300);

    #[test]
    fn what_a_first_proof_does_when() {
        let asking = Transaction { ask: Ask::FIRST, account: None, return_hash: None, ..transaction() };
        let opened = Transaction { opened_at: Some(OPENED), ..asking.clone() };
        let person =
            Person { subject: B256::repeat_byte(7), level: VerificationLevel::Orb, group: None, auth_time: OPENED };
        let with = |answer| Transaction { answer: Some(answer), ..opened.clone() };
        let pointer = |subject: u8| Pointer {
            client_id: "app_a".to_owned(),
            environment: Environment::Staging,
            subject: B256::repeat_byte(subject),
            generation: 0,
            legacy_since: None,
        };
        let proved = Transaction { pointer: Some(pointer(7)), ..with(Answer::Proved(person)) };
        let failed = with(Answer::Failed(WalletFailure::NullifierReplayed));
        let unbound = with(Answer::Failed(WalletFailure::UnboundProof));
        let completed = Transaction { response: Some(response("code")), ..proved.clone() };
        let cancelled = Transaction { response: Some(response("error")), ..with(Answer::Refused) };
        let with_account = Transaction { pointer: Some(pointer(8)), ..opened.clone() };
        let other = Transaction { ask: Ask::Legacy, ..opened.clone() };
        let (last, after) = (UnixSeconds(OPENED.0 + FIRST_TAKEN - 1), UnixSeconds(OPENED.0 + FIRST_TAKEN));
        let before_end = UnixSeconds(END.0 - 1);
        let (one, two) = (Some(&pointer(7)), Some(&pointer(8)));
        // What a proof does at the last second of the sign-in, at its end, at the last second for a
        // first proof, and after it; the account that the browser was not told of; whether a proof
        // may be lost.
        use ProofEffect::{Answers, MakesAccount, None as Nothing};
        let late = [MakesAccount, MakesAccount, MakesAccount, Nothing];
        #[rustfmt::skip]
        let table = [
            ("no authenticator opened it", asking, [Answers, Nothing, Nothing, Nothing], None, false),
            ("it was opened", opened, [Answers, MakesAccount, MakesAccount, Nothing], None, true),
            ("it asks for no first proof", other, [Answers, Nothing, Nothing, Nothing], None, false),
            ("it is proved", proved, [Nothing; 4], one, false),
            ("it is completed", completed, [Nothing; 4], None, false),
            ("the wallet failed", failed, late, None, false),
            ("its proof was unbound", unbound, late, None, true),
            ("it was cancelled", cancelled, late, None, true),
            ("the proof came late", with_account, [Answers, Nothing, Nothing, Nothing], two, false),
        ];
        for (what, transaction, effects, untold, may_be_lost) in table {
            assert_eq!([before_end, END, last, after].map(|now| transaction.effect_of_proof(now)), effects, "{what}");
            assert_eq!(
                (transaction.untold_account(), transaction.may_have_lost_first()),
                (untold, may_be_lost),
                "{what}"
            );
        }
    }

    #[test]
    fn a_transaction_with_a_proved_account_is_kept_for_a_day() {
        let asking = Transaction { ask: Ask::FIRST, account: None, ..transaction() };
        assert_eq!((asking.answers_until(), asking.kept_until()), (END, END.plus(KEPT_AFTER_END)));
        let opened = Transaction { opened_at: Some(OPENED), ..asking };
        assert_eq!(opened.answers_until(), OPENED.plus(FIRST_TAKEN));
        assert_eq!(opened.kept_until(), END.plus(KEPT_AFTER_END), "anybody can open it");
        let pointer = Pointer {
            client_id: "app_a".to_owned(),
            environment: Environment::Staging,
            subject: B256::ZERO,
            generation: 0,
            legacy_since: None,
        };
        let proved = Transaction { pointer: Some(pointer), ..opened };
        assert_eq!(proved.kept_until(), OPENED.plus(FIRST_KEPT));
        let long = Transaction { ends_at: BEGAN.plus(48 * 3600), ..proved };
        assert_eq!(long.answers_until(), long.ends_at);
        assert_eq!(long.kept_until(), long.ends_at.plus(KEPT_AFTER_END));
    }
}

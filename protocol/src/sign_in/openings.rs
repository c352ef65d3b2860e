//! Openings of a sign-in: in which browsers its short page is open, what an authenticator is asked
//! for there, and which challenges it got.
//!
//! A person who scans the code of a sign-in opens its short page in another browser than the one in
//! which the sign-in began. That browser may remember another account, or one where the first
//! browser remembers none; then the authenticator that it opens is asked for that account. And when
//! the answer came from there, that browser can remember the account.

use std::fmt;
use std::str::FromStr;

use sha2::{Digest, Sha256};

use super::accounts::AskedAccount;
use super::transaction::Transaction;
use crate::encoding::{DecodeError, Encoding};
use crate::time::UnixSeconds;
use crate::verification::ProofKind;
use crate::verification::identity::hash_to_field;
use crate::{U256, encode_fields};

// What the short address of a sign-in has in place of its transaction's id.

/// 80 random bits, written as 16 lower-case letters and digits (base32, RFC 4648): short enough for
/// a code that every camera reads, and to be typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ShortId(pub [u8; 10]);

impl Encoding for ShortId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Encoding::decode(input).map(Self)
    }
}

/// A text that is not a short id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a short id is 16 characters of a to z and 2 to 7")]
pub struct InvalidShortId;

const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl ShortId {
    /// The id of the transaction with this short id: the first 16 bytes of a hash. So the short
    /// address needs no record of its own.
    pub fn transaction_id(&self) -> [u8; 16] {
        let hash = Sha256::new().chain_update(b"selfsame transaction ").chain_update(self.0).finalize();
        let mut id = [0; 16];
        id.copy_from_slice(&hash[..16]);
        id
    }
}

impl fmt::Display for ShortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.0.iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        (0..16).rev().try_for_each(|place| {
            let digit = (bits >> (5 * place)) & 31;
            write!(f, "{}", char::from(BASE32[digit as usize]))
        })
    }
}

impl FromStr for ShortId {
    type Err = InvalidShortId;

    fn from_str(text: &str) -> Result<Self, InvalidShortId> {
        let digit = |byte: u8| BASE32.iter().position(|digit| *digit == byte).map(|digit| digit as u128);
        let bits = text.bytes().try_fold(0_u128, |bits, byte| Some(bits << 5 | digit(byte)?));
        let bits = bits.filter(|_| text.len() == 16).ok_or(InvalidShortId)?;
        let mut id = [0; 10];
        id.copy_from_slice(&bits.to_be_bytes()[6..]);
        Ok(Self(id))
    }
}

// Openings elsewhere, and challenges.

/// The most accounts of other browsers that one sign-in asks for.
pub const MOST_ELSEWHERE: usize = 4;

/// The most challenges of a transaction. A request for a current proof is given out with a fresh
/// one each time, until it has had as many; then the last one repeats.
pub const MOST_CHALLENGES: u8 = 8;

/// An opening: the id of a transaction in a browser that opened its short page, as a part of the
/// address of the proof request. 80 bits, written as 16 letters and digits like a [`ShortId`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpeningId([u8; 10]);

impl OpeningId {
    /// The opening in the browser whose cookie has this secret: a hash of it and the transaction.
    /// So the address does not give the cookie away, nor which openings are of one browser.
    pub fn of(secret: &str, transaction: ShortId) -> Self {
        let hash = Sha256::new()
            .chain_update(b"selfsame opening ")
            .chain_update(transaction.0)
            .chain_update(secret)
            .finalize();
        let mut id = [0; 10];
        id.copy_from_slice(&hash[..10]);
        Self(id)
    }
}

impl fmt::Display for OpeningId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        ShortId(self.0).fmt(f)
    }
}

impl FromStr for OpeningId {
    type Err = InvalidShortId;

    fn from_str(text: &str) -> Result<Self, InvalidShortId> {
        text.parse::<ShortId>().map(|ShortId(id)| Self(id))
    }
}

impl Encoding for OpeningId {
    fn encode(&self, out: &mut Vec<u8>) {
        self.0.encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Encoding::decode(input).map(Self)
    }
}

/// An account that is asked for in another browser than the one in which the sign-in began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedElsewhere {
    /// The opening in that browser.
    pub opening: OpeningId,
    /// The account, which a pointer of that browser led to.
    pub account: AskedAccount,
}

encode_fields!(AskedElsewhere { opening, account });

/// A challenge of a transaction: the nonce that a current proof is bound to. The nodes behind
/// authenticators take a nonce once, so each time that the request is fetched it has another one,
/// and an answer to any of them counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Challenge {
    /// Which of the transaction's challenges it is, from 0.
    pub number: u8,
    /// The nonce.
    pub nonce: U256,
}

// What is asked for.

impl Transaction {
    /// The account that is asked for in an opening, or where the sign-in began; `None` where any
    /// person may answer.
    pub fn asked_at(&self, opening: Option<OpeningId>) -> Option<&AskedAccount> {
        let elsewhere = self.elsewhere.iter().find(|asked| Some(asked.opening) == opening);
        elsewhere.map(|asked| &asked.account).or(self.account.as_ref())
    }

    /// The kind of the proof that is asked for in an opening, or where the sign-in began. A proof
    /// in a session is a current one.
    pub fn kind_at(&self, opening: Option<OpeningId>) -> ProofKind {
        if self.asked_at(opening).is_some() { ProofKind::Current } else { self.ask.kind() }
    }

    /// The accounts that are asked for anywhere.
    pub fn asked_accounts(&self) -> impl Iterator<Item = &AskedAccount> {
        self.account.iter().chain(self.elsewhere.iter().map(|asked| &asked.account))
    }

    /// The transaction after it asks for an account in an opening, in place of what it asked for
    /// there before. When it asks for as many as it can, the account takes the place of the first
    /// one that no authenticator was asked for yet; `None` where there is none.
    pub fn asking_at(&self, opening: OpeningId, account: AskedAccount) -> Option<Self> {
        let mut elsewhere = self.elsewhere.clone();
        elsewhere.retain(|asked| asked.opening != opening);
        if self.account.as_ref() != Some(&account) {
            if elsewhere.len() >= MOST_ELSEWHERE {
                let is_idle = |asked: &AskedElsewhere| !self.challenges.contains(&Some(asked.opening));
                elsewhere.remove(elsewhere.iter().position(is_idle)?);
            }
            elsewhere.push(AskedElsewhere { opening, account });
        }
        Some(Self { elsewhere, ..self.clone() })
    }
}

// Challenges.

impl Transaction {
    /// The challenge that the request gets when it is given out for a proof of this kind. A legacy
    /// proof is bound to no nonce, so its request always has the first one.
    pub fn next_challenge(&self, kind: ProofKind) -> Challenge {
        self.challenge(match kind {
            ProofKind::Legacy => 0,
            ProofKind::Current => self.given().min(MOST_CHALLENGES - 1),
        })
    }

    /// The challenges that an answer may be bound to, the newest first.
    pub fn open_challenges(&self) -> impl Iterator<Item = Challenge> + '_ {
        (0..self.given().clamp(1, MOST_CHALLENGES)).rev().map(|number| self.challenge(number))
    }

    /// The transaction after it gave out a challenge at `now`, for an opening elsewhere or where
    /// the sign-in began. A challenge that several got is of none of them.
    pub fn with_given(self, challenge: Challenge, opening: Option<OpeningId>, now: UnixSeconds) -> Self {
        let mut challenges = self.challenges;
        match challenges.get_mut(usize::from(challenge.number)) {
            Some(given) if *given != opening => *given = None,
            Some(_) => {}
            None => challenges.push(opening),
        }
        Self { challenges, opened_at: self.opened_at.or(Some(now)), ..self }
    }

    /// A challenge by its number.
    pub fn challenge(&self, number: u8) -> Challenge {
        let seed = [b"sign-in nonce".as_slice(), self.challenge_seed.as_slice(), &[number]].concat();
        Challenge { number, nonce: hash_to_field(&seed) }
    }

    /// The opening that alone got the challenge with this nonce.
    pub fn opening_with(&self, nonce: U256) -> Option<OpeningId> {
        let challenge = self.open_challenges().find(|challenge| challenge.nonce == nonce)?;
        *self.challenges.get(usize::from(challenge.number))?
    }

    /// How many challenges were given out.
    fn given(&self) -> u8 {
        u8::try_from(self.challenges.len()).unwrap_or(MOST_CHALLENGES)
    }
}

#[cfg(test)]
mod tests {
    use super::super::transaction::tests::transaction;
    use super::*;
    use crate::B256;
    use crate::verification::request::SessionId;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    fn opening(secret: &str) -> OpeningId {
        OpeningId::of(secret, ShortId([1; 10]))
    }

    fn account(number: u8) -> AskedAccount {
        let session = SessionId { text: format!("session_{number}"), commitment: U256::from(number) };
        AskedAccount { subject: B256::repeat_byte(number), session, generation: 0 }
    }

    #[test]
    fn a_short_id_has_exactly_one_text() {
        for (bytes, text) in [
            ([0; 10], "aaaaaaaaaaaaaaaa"),
            ([0xff; 10], "7777777777777777"),
            ([0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x01, 0x23], "aerukz4jvpg66ajd"),
        ] {
            assert_eq!(ShortId(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(ShortId(bytes)));
        }
        for text in
            ["", "aaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaa", "AAAAAAAAAAAAAAAA", "aaaaaaaaaaaaaaa1", "aaaaaaaaaaaaaaé"]
        {
            assert_eq!(text.parse::<ShortId>(), Err(InvalidShortId), "{text:?}");
        }
        assert_ne!(ShortId([1; 10]).transaction_id(), ShortId([2; 10]).transaction_id());
    }

    #[test]
    fn a_transaction_gives_out_eight_challenges_and_then_the_last_one() {
        let mut transaction = transaction();
        let first = transaction.next_challenge(ProofKind::Current);
        // An answer to the first one counts before it was given out: embedders read it beforehand.
        assert_eq!(transaction.open_challenges().collect::<Vec<_>>(), [first]);
        let mut given = Vec::new();
        for number in 0..12_u8 {
            let challenge = transaction.next_challenge(ProofKind::Current);
            assert_eq!(challenge.number, number.min(MOST_CHALLENGES - 1));
            assert_eq!(transaction.next_challenge(ProofKind::Legacy).number, 0, "a legacy proof has no nonce");
            transaction = transaction.with_given(challenge, None, UnixSeconds(number.into()));
            if !given.contains(&challenge) {
                given.insert(0, challenge);
            }
            assert_eq!(transaction.open_challenges().collect::<Vec<_>>(), given, "the newest first");
        }
        let nonces: std::collections::HashSet<_> = given.iter().map(|challenge| challenge.nonce).collect();
        assert_eq!((nonces.len(), transaction.opened_at), (8, Some(UnixSeconds(0))));
        let other = Transaction { challenge_seed: B256::repeat_byte(9), ..transaction };
        assert!(!nonces.contains(&other.challenge(0).nonce));
    }

    #[test]
    fn a_challenge_is_of_the_opening_that_alone_got_it() {
        let (phone, tablet) = (opening("phone"), opening("tablet"));
        let mut transaction = transaction();
        for given_to in [None, Some(phone), Some(tablet), Some(phone), None, None, None, Some(phone)] {
            let challenge = transaction.next_challenge(ProofKind::Current);
            transaction = transaction.with_given(challenge, given_to, NOW);
        }
        let of = |transaction: &Transaction, number| transaction.opening_with(transaction.challenge(number).nonce);
        let openings: Vec<_> = (0..9).map(|number| of(&transaction, number)).collect();
        let (phone_, tablet_) = (Some(phone), Some(tablet));
        assert_eq!(openings, [None, phone_, tablet_, phone_, None, None, None, phone_, None]);
        // The last challenge repeats.
        for (given_to, expected) in [(phone_, phone_), (tablet_, None), (tablet_, None)] {
            let challenge = transaction.next_challenge(ProofKind::Current);
            transaction = transaction.with_given(challenge, given_to, NOW);
            assert_eq!(of(&transaction, 7), expected);
        }
    }

    #[test]
    fn an_opening_asks_for_what_its_browser_remembers() {
        let began = Transaction { account: Some(account(1)), ..transaction() };
        let (phone, tablet) = (opening("phone"), opening("tablet"));
        let asking_at =
            |transaction: &Transaction, opening, account| transaction.asking_at(opening, account).expect("room");
        let asking = asking_at(&began, phone, account(2));
        assert_eq!(asking.asked_at(None), Some(&account(1)));
        assert_eq!(asking.asked_at(Some(tablet)), Some(&account(1)), "it remembers none");
        assert_eq!(asking.asked_at(Some(phone)), Some(&account(2)));
        assert_eq!(asking.asked_accounts().cloned().collect::<Vec<_>>(), [account(1), account(2)]);
        assert_eq!(asking_at(&asking, phone, account(2)), asking);
        assert_eq!(asking_at(&asking, phone, account(1)), began, "what is asked for where it began");
        // An opening whose authenticator got the request keeps its place.
        let given = asking.next_challenge(ProofKind::Current);
        let asked = asking.clone().with_given(given, Some(phone), NOW);
        for (start, keeps) in [(asking, false), (asked, true)] {
            let many =
                (0..9).fold(start, |asking, number| asking_at(&asking, opening(&number.to_string()), account(3)));
            assert_eq!(many.elsewhere.len(), MOST_ELSEWHERE);
            let of_phone = if keeps { account(2) } else { account(1) };
            assert_eq!(many.asked_at(Some(phone)), Some(&of_phone));
            assert_eq!(many.asked_at(Some(opening("8"))), Some(&account(3)));
        }
    }

    #[test]
    fn an_opening_says_nothing_of_its_browser() {
        let id = opening("phone");
        assert_eq!(id.to_string().parse(), Ok(id));
        let others = [opening("tablet"), OpeningId::of("phone", ShortId([2; 10]))];
        assert!(!others.contains(&id) && others[0] != others[1]);
        assert_eq!("A".parse::<OpeningId>(), Err(InvalidShortId));
    }
}

//! A transaction: an authorization request that waits for a person's answer, and how it can change.
//! The caller passes time and random bytes.

use std::fmt;

use super::accounts::{AskedAccount, Pointer};
use super::asks::Ask;
use super::attaching::Attachable;
use super::authorize::KeptRequest;
use super::claims::Person;
use super::openings::{AskedElsewhere, OpeningId, ShortId};
use super::proof_request::{Initiator, SignInRequest, WalletFailure};
use super::sealed::SealedResponse;
use crate::encoding::{DecodeError, Encoding};
use crate::time::UnixSeconds;
use crate::{B256, encode_fields};

/// How long a transaction is kept after its end, in seconds: the browser that began it can cancel
/// it then, so that the application hears of it, or begin again with the same request.
pub const KEPT_AFTER_END: u64 = 3600;

/// How often the time of a transaction can be extended.
pub const MOST_EXTENSIONS: u8 = 2;

/// The most proofs that are counted as not accepted. Each is a write, and any client that knows the
/// address of the request can cause it.
pub const MOST_REFUSED: u8 = 8;

/// The most different wrong digits. With the last of them the transaction is over.
pub const MOST_WRONG_DIGITS: usize = 3;

/// An authorization request under way. It waits for a person, is answered, and its response is
/// given out, again to the same secret as long as that can be of use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    /// What the short address of the sign-in has in place of the transaction's id.
    pub short_id: ShortId,
    /// The part of the authorization request that the response needs.
    pub request: KeptRequest,
    /// SHA-256 of the secret that only the browser or program that sent the request holds.
    pub secret_hash: B256,
    /// The signal that the proof must be bound to: 32 random bytes. The first accepted proof uses
    /// it up.
    pub signal: B256,
    /// 32 random bytes, from which the nonces of the transaction's challenges are derived.
    pub challenge_seed: B256,
    /// The challenges that were given out: for each the opening elsewhere that alone got it.
    pub challenges: Vec<Option<OpeningId>>,
    /// The account that the person is asked to prove, where a pointer of the browser in which it
    /// began led to one; `None` where any person may answer.
    pub account: Option<AskedAccount>,
    /// What any person is asked for, where no account is.
    pub ask: Ask,
    /// The accounts of legacy proofs to which their persons may attach current ones, or say that
    /// attached ones are not theirs: the browser in which it began has known them for long enough
    /// ([`super::attaching`]). At most [`MOST_ATTACHABLE`](super::attaching::MOST_ATTACHABLE).
    pub attachable: Vec<Attachable>,
    /// Whether it follows an accepted proof, or one that the wallet could not make.
    pub is_continued: bool,
    /// Whether the person to ask was chosen: by the application, by a hint or
    /// `prompt=select_account`, or the person, by "Another person", a sign-in code or a passkey.
    /// Other browsers then ask for the same.
    pub is_chosen: bool,
    /// The accounts that are asked for in other browsers which opened the short page.
    pub elsewhere: Vec<AskedElsewhere>,
    /// What began the sign-in.
    pub initiator: Initiator,
    /// End of the time in which it takes an answer, exclusive. It can still be completed then, when
    /// it was answered before; and it is kept for [`KEPT_AFTER_END`], for the browser that has its
    /// secret.
    pub ends_at: UnixSeconds,
    /// How often that time was extended.
    pub extensions: u8,
    /// When an authenticator first got the request; `None` until then.
    pub opened_at: Option<UnixSeconds>,
    /// The request in the form of the service itself, as an authenticator last got it.
    pub opened: Option<OpenedRequest>,
    /// How many proofs were not accepted, as far as it is counted ([`MOST_REFUSED`]).
    pub refused: u8,
    /// The person's answer; `None` while the request waits for it.
    pub answer: Option<Answer>,
    /// The opening whose request was answered; `None` when it was not that of an opening
    /// elsewhere, or it is not known.
    pub answered_at: Option<OpeningId>,
    /// What leads to the account that was proved, for the browser in which it began
    /// ([`Transaction::untold_account`]).
    pub pointer: Option<Pointer>,
    /// SHA-256 of the secret in the return URL, when the answer came from the browser's own device.
    /// The response is then given out only to a caller with both secrets.
    pub return_hash: Option<B256>,
    /// The digits that the wallet shows, when it asked for some. The response is then given out
    /// only to a caller who types them.
    pub digits: Option<DigitCheck>,
    /// The response, once it was given out.
    pub response: Option<SealedResponse>,
}

encode_fields!(Transaction { short_id, request, secret_hash, signal, challenge_seed, challenges, account, ask, attachable, is_continued, is_chosen, elsewhere, initiator, ends_at, extensions, opened_at, opened, refused, answer, answered_at, pointer, return_hash, digits, response } version 5 of "transaction");

/// The longest record of a transaction, in bytes, for an application whose redirect URI, name and
/// host have at most 512 bytes together: `state` and `nonce` are as long as they may be, an
/// authenticator has got the request in its signed form, and the response was given out. Each
/// change writes it anew; a client that fetches the request as often as it can causes
/// [`super::openings::MOST_CHALLENGES`] changes, and one that sends proofs [`MOST_REFUSED`].
pub const LONGEST_TRANSACTION: usize = 18 * 1024;

/// A proof request that an authenticator has got in the form of the service itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedRequest {
    /// The request. A change of the configuration does not change it any more, and only its nonce
    /// is another one when it is given out again.
    pub request: SignInRequest,
    /// The signed form of it, a JWS in the compact form. With the same nonce it is signed again
    /// only when its key was revoked.
    pub signed: String,
}

encode_fields!(OpenedRequest { request, signed });

/// A person's answer to an authorization request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The person sent a proof, which was accepted.
    Proved(Person),
    /// The person refused.
    Refused,
    /// The person's wallet gave no proof.
    Failed(WalletFailure),
    /// The person sent a legacy proof, which was accepted, and only leads to the account: its
    /// session is asked for next.
    Pointed,
}

impl Encoding for Answer {
    fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Refused => out.push(0),
            Self::Pointed => out.push(3),
            Self::Failed(failure) => {
                out.push(2);
                failure.encode(out);
            }
            Self::Proved(person) => {
                out.push(1);
                person.encode(out);
            }
        }
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        match u8::decode(input)? {
            0 => Ok(Self::Refused),
            1 => Person::decode(input).map(Self::Proved),
            2 => WalletFailure::decode(input).map(Self::Failed),
            3 => Ok(Self::Pointed),
            tag => Err(DecodeError::UnknownTag { kind: "an answer", tag }),
        }
    }
}

// Where a transaction stands.

/// Where a transaction stands, for a caller that has its secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Its state.
    pub state: TransactionState,
    /// When it ends, exclusive; zero when there is no such transaction.
    pub ends_at: UnixSeconds,
    /// How often its time can still be extended.
    pub extensions_left: u8,
}

/// The state of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionState {
    /// No authenticator has opened the request yet.
    Waiting,
    /// An authenticator has opened the request, and the person has not answered yet.
    Opened,
    /// This many proofs were not accepted, and another one can be sent.
    Refused(u8),
    /// A proof was accepted, or the person refused: the caller can complete the transaction.
    Answered,
    /// A proof from the browser's own device was accepted: the caller can complete the transaction
    /// with the return URL, which the authenticator opens.
    AnsweredOnSameDevice,
    /// A proof was accepted whose wallet shows digits: the caller can complete the transaction with
    /// them.
    AnsweredWithDigits,
    /// It ended without an answer, or never existed.
    Over,
    /// Its response was given out.
    Done,
}

/// Who is asked by a transaction that takes the place of another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPerson {
    /// The person of the same account, if the other one asked for an account.
    Same,
    /// Any person.
    Another,
}

/// Why a transaction does not give way to another one with the same request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeepsPlace {
    /// Its response was given out.
    #[error("it was completed before")]
    Completed,
    /// The application expects one person.
    #[error("the application expects the person whom its id_token_hint names; no other person can answer")]
    ExpectsPerson,
    /// It waits, or was answered.
    #[error("this sign-in is under way; a new code is for one that ended without an answer")]
    UnderWay,
}

impl Progress {
    /// The progress of a transaction that does not exist.
    pub const NONE: Self = Self { state: TransactionState::Over, ends_at: UnixSeconds(0), extensions_left: 0 };

    /// Whether the transaction waits for the person's answer.
    pub fn is_waiting(self) -> bool {
        use TransactionState::{Opened, Refused, Waiting};
        matches!(self.state, Waiting | Opened | Refused(_))
    }

    /// Whether the state can change without the caller: the transaction waits for an answer, or for
    /// what the person does with it.
    pub fn can_change(self) -> bool {
        use TransactionState::{AnsweredOnSameDevice, AnsweredWithDigits};
        self.is_waiting() || matches!(self.state, AnsweredOnSameDevice | AnsweredWithDigits)
    }
}

impl Transaction {
    /// Whether it asks any person for a first proof, which authenticators give once and then not
    /// again for a year.
    pub fn asks_first(&self) -> bool {
        self.account.is_none() && self.ask.is_first()
    }

    /// Whether it waits for an answer at `now`.
    pub fn is_waiting(&self, now: UnixSeconds) -> bool {
        self.answer.is_none() && self.response.is_none() && now < self.ends_at
    }

    /// Where it stands at `now`.
    pub fn progress(&self, now: UnixSeconds) -> Progress {
        use TransactionState::*;

        let state = match self.answer {
            _ if self.response.is_some() => Done,
            Some(_) if self.return_hash.is_some() => AnsweredOnSameDevice,
            Some(_) if self.digits.is_some() => AnsweredWithDigits,
            Some(_) => Answered,
            None if now >= self.ends_at => Over,
            None if self.refused > 0 => Refused(self.refused),
            None if self.opened_at.is_some() => Opened,
            None => Waiting,
        };
        let extensions_left = MOST_EXTENSIONS.saturating_sub(self.extensions);
        Progress { state, ends_at: self.ends_at, extensions_left }
    }

    /// Whether a browser that has the transaction's cookie and sends `request` goes on with it at
    /// `now`: it is the transaction's own request, its time is not over, and its response was not
    /// given out. Another site may have planted the cookie of its own sign-in, so the request has
    /// to be one that it cannot know.
    pub fn goes_on_with(&self, request: &KeptRequest, now: UnixSeconds) -> bool {
        self.request == *request && request.is_known_to_client_alone() && now < self.ends_at && self.response.is_none()
    }

    /// The transaction with more time: `lifetime` seconds from `now`. `None` when it does not wait
    /// for an answer, or was extended as often as it can be.
    pub fn with_more_time(&self, now: UnixSeconds, lifetime: u64) -> Option<Self> {
        let can_be = self.is_waiting(now) && self.extensions < MOST_EXTENSIONS;
        let ends_at = self.ends_at.max(now.plus(lifetime));
        can_be.then(|| Self { ends_at, extensions: self.extensions + 1, ..self.clone() })
    }

    /// Checks that the transaction gives way at `now` to another one with the same request: it
    /// ended without an answer, or the wallet gave no proof, or another person is asked while it
    /// waits.
    ///
    /// # Errors
    /// See [`KeepsPlace`].
    pub fn check_gives_way(&self, next: NextPerson, now: UnixSeconds) -> Result<(), KeepsPlace> {
        let progress = self.progress(now);
        if progress.state == TransactionState::Done {
            return Err(KeepsPlace::Completed);
        }
        if next == NextPerson::Another && self.request.expected_subject.is_some() {
            return Err(KeepsPlace::ExpectsPerson);
        }
        let has_failed = matches!(self.answer, Some(Answer::Failed(_)));
        let may_be_another = next == NextPerson::Another && progress.is_waiting();
        let gives_way = has_failed || may_be_another || progress.state == TransactionState::Over;
        if gives_way { Ok(()) } else { Err(KeepsPlace::UnderWay) }
    }

    /// The transaction after it ended without an answer that counts: its browser goes on with
    /// another one.
    pub fn ended(&self, now: UnixSeconds) -> Self {
        let (ends_at, extensions) = (self.ends_at.min(now), MOST_EXTENSIONS);
        Self { answer: None, digits: None, return_hash: None, ends_at, extensions, ..self.clone() }
    }

    /// The transaction after a proof was not accepted; `None` when it does not wait for one, or has
    /// counted as many as it counts.
    pub fn with_refused_proof(&self, now: UnixSeconds) -> Option<Self> {
        let counts = self.is_waiting(now) && self.refused < MOST_REFUSED;
        counts.then(|| Self { refused: self.refused + 1, ..self.clone() })
    }

    /// The transaction after wrong digits were typed. After the last try the answer is dropped, and
    /// the transaction is over.
    pub fn with_wrong_digits(&self, typed: &str, now: UnixSeconds) -> Self {
        let Some(digits) = self.digits.as_ref().filter(|_| self.response.is_none()) else { return self.clone() };
        let mut wrong = digits.wrong.clone();
        // A browser repeats a request whose answer was lost.
        if !wrong.iter().any(|other| other == typed) {
            wrong.push(typed.to_owned());
        }
        if wrong.len() < MOST_WRONG_DIGITS {
            let digits = Some(DigitCheck { wrong, ..digits.clone() });
            return Self { digits, ..self.clone() };
        }
        self.ended(now)
    }
}

// The digits that a wallet shows, and that the person types on the screen where the sign-in began.

/// The digits of a transaction, and what was typed in their place.
#[derive(Clone, PartialEq, Eq)]
pub struct DigitCheck {
    /// Three digits.
    pub expected: String,
    /// The different texts that were typed and are wrong.
    pub wrong: Vec<String>,
}

encode_fields!(DigitCheck { expected, wrong });

impl fmt::Debug for DigitCheck {
    /// Without the digits: embedders write debug forms to logs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DigitCheck").field("wrong", &self.wrong.len()).finish_non_exhaustive()
    }
}

impl DigitCheck {
    /// Three digits from random bytes.
    pub fn new(random: [u8; 8]) -> Self {
        Self { expected: format!("{:03}", u64::from_be_bytes(random) % 1000), wrong: Vec::new() }
    }

    /// Whether a text has the form of digits: a text of another form is a slip, not a try.
    pub fn is_try(text: &str) -> bool {
        text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::asks::FirstPurpose;
    use super::super::attaching::MOST_ATTACHABLE;
    use super::super::claims::{Scopes, VerificationLevel};
    use super::super::openings::{MOST_CHALLENGES, MOST_ELSEWHERE};
    use super::super::proof_request::{CrossDevice, LONGEST_USER_AGENT, ProofType};
    use super::super::response::{ResponseMode, ResponseType, Target};
    use super::super::sealed::GivenResponse;
    use super::*;
    use crate::U256;
    use crate::encoding::encode;
    use crate::verification::request::SessionId;
    use crate::verification::{Environment, ProofKind};

    pub fn transaction() -> Transaction {
        let request = KeptRequest {
            client_id: format!("app_{}", "a".repeat(60)),
            target: Target {
                redirect_uri: format!("https://{}/callback", "h".repeat(200)),
                mode: ResponseMode::FormPost,
                state: Some("s".repeat(2048)),
            },
            response_type: ResponseType::CODE,
            scopes: Scopes::default(),
            nonce: Some("n".repeat(2048)),
            code_challenge: Some("c".repeat(43)),
            expected_subject: Some("0".repeat(66)),
        };
        let initiator = Initiator {
            network: "2001:db8:1234::/48".to_owned(),
            user_agent: "u".repeat(LONGEST_USER_AGENT),
            time: UnixSeconds(1_800_000_000),
        };
        Transaction {
            short_id: ShortId([5; 10]),
            request,
            secret_hash: B256::repeat_byte(1),
            signal: B256::repeat_byte(2),
            challenge_seed: B256::repeat_byte(3),
            challenges: Vec::new(),
            account: Some(AskedAccount { subject: B256::repeat_byte(6), session: session(), generation: 0 }),
            ask: Ask::First {
                issued_since: Some(UnixSeconds(1_800_000_000)),
                purpose: FirstPurpose::AttachesTo(Person {
                    subject: B256::repeat_byte(6),
                    level: VerificationLevel::Orb,
                    group: None,
                    auth_time: UnixSeconds(1_800_000_000),
                }),
            },
            attachable: vec![Attachable { subject: B256::repeat_byte(6), generation: 0 }; MOST_ATTACHABLE],
            is_continued: false,
            is_chosen: false,
            elsewhere: Vec::new(),
            initiator,
            ends_at: UnixSeconds(1_800_000_300),
            extensions: 0,
            opened_at: None,
            opened: None,
            refused: 0,
            answer: None,
            answered_at: None,
            pointer: None,
            return_hash: Some(B256::repeat_byte(4)),
            digits: None,
            response: None,
        }
    }

    #[test]
    fn no_transaction_is_longer_than_is_said() {
        let mut transaction = transaction();
        let challenge = transaction.next_challenge(ProofKind::Current);
        let plain = SignInRequest {
            app_id: transaction.request.client_id.clone(),
            app_name: "N".repeat(64),
            action: "sign-in".to_owned(),
            signal: format!("{:#x}", transaction.signal),
            nonce: challenge.nonce,
            protocol_versions: vec!["4.0".to_owned()],
            environment: Environment::Staging,
            scopes: "openid email profile".to_owned(),
            expires_at: UnixSeconds(1_800_000_300),
            answer_url: format!("https://{}/authorize/{}/proof", "i".repeat(100), "0".repeat(32)),
            redirect_host: "h".repeat(200),
            initiator: transaction.initiator.clone(),
            proof_type: Some(ProofType::Session),
            session_id: Some(session().text),
            genesis_issued_at_min: Some(UnixSeconds(1_800_000_000)),
            identifier: Some("i".repeat(64)),
            cross_device: CrossDevice::Allow,
        };
        let claims = serde_json::to_string(&plain).expect("JSON");
        // The header and an RSA signature of 4096 bits, and the claims with the issuer, in
        // base64url.
        let signed = "j".repeat(200 + 683 + (claims.len() + 120) * 4 / 3);
        transaction.opened = Some(OpenedRequest { request: plain, signed });
        let opening = OpeningId::of("a browser", transaction.short_id);
        let account = transaction.account.clone().expect("an account");
        transaction.elsewhere = vec![AskedElsewhere { opening, account }; MOST_ELSEWHERE];
        transaction.challenges = vec![Some(opening); usize::from(MOST_CHALLENGES)];
        transaction.answered_at = Some(opening);
        transaction.pointer = Some(Pointer {
            client_id: transaction.request.client_id.clone(),
            environment: Environment::Production,
            subject: B256::repeat_byte(7),
            generation: u32::MAX,
            legacy_since: Some(NOW),
        });
        let wrong = vec!["000".to_owned(); MOST_WRONG_DIGITS];
        transaction.digits = Some(DigitCheck { expected: "000".to_owned(), wrong });
        transaction = transaction.with_given(challenge, None, UnixSeconds(1_800_000_000));

        // An ID token carries the nonce.
        let fields = vec![("code", "c".repeat(43)), ("access_token", "t".repeat(43)), ("id_token", "i".repeat(4800))];
        let given = GivenResponse { fields, new_session: Some("s".repeat(43)), pointers: Some("p".repeat(43)) };
        let sealed = SealedResponse::seal(&given, UnixSeconds(1_800_000_001), "secret", [0; 12]).expect("sealed");
        let length = encode(&Transaction { response: Some(sealed), ..transaction }).len();
        assert!((LONGEST_TRANSACTION / 2..=LONGEST_TRANSACTION).contains(&length), "{length}");
    }

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    /// A response with one field that was given out.
    pub fn response(name: &'static str) -> SealedResponse {
        let given = GivenResponse { fields: vec![(name, "value".to_owned())], new_session: None, pointers: None };
        SealedResponse::seal(&given, NOW, "secret", [0; 12]).expect("sealed")
    }

    fn session() -> SessionId {
        SessionId { text: format!("session_{}", "0".repeat(128)), commitment: U256::ZERO }
    }

    #[test]
    fn where_a_transaction_stands() {
        use TransactionState::*;

        let open = Transaction { return_hash: None, ..transaction() };
        let opened = Transaction { opened_at: Some(NOW), ..open.clone() };
        let answered = Transaction { answer: Some(Answer::Refused), ..opened.clone() };
        let response = response("error");
        let digits = Some(DigitCheck::new([0; 8]));
        let (last, end) = (UnixSeconds(open.ends_at.0 - 1), open.ends_at);
        #[rustfmt::skip]
        let table = [
            ("new", open.clone(), Waiting, Over, true),
            ("opened", opened.clone(), Opened, Over, true),
            ("a proof was not accepted", opened.with_refused_proof(NOW).expect("it waits"), Refused(1), Over, true),
            ("answered", answered.clone(), Answered, Answered, false),
            ("on the same device", Transaction { return_hash: Some(B256::ZERO), ..answered.clone() }, AnsweredOnSameDevice, AnsweredOnSameDevice, true),
            ("with digits", Transaction { digits, ..answered.clone() }, AnsweredWithDigits, AnsweredWithDigits, true),
            ("given out", Transaction { response: Some(response.clone()), ..answered }, Done, Done, false),
            ("cancelled", Transaction { response: Some(response), ..open }, Done, Done, false),
        ];
        for (name, transaction, before, after, can_change) in table {
            assert_eq!((transaction.progress(last).state, transaction.progress(end).state), (before, after), "{name}");
            assert_eq!(transaction.progress(last).can_change(), can_change, "{name}");
        }
        assert!(!Progress::NONE.can_change());
    }

    #[test]
    fn more_time_is_given_twice_and_only_before_the_end() {
        let open = transaction();
        let late = UnixSeconds(open.ends_at.0 - 1);
        let once = open.with_more_time(late, 300).expect("more time");
        assert_eq!((once.ends_at, once.progress(late).extensions_left), (late.plus(300), 1));
        let twice = once.with_more_time(late, 300).expect("more time");
        assert_eq!((twice.ends_at, twice.progress(late).extensions_left), (late.plus(300), 0));
        assert_eq!(twice.with_more_time(late, 300), None);
        assert_eq!(open.with_more_time(open.ends_at, 300), None, "it is over");
        let answered = Transaction { answer: Some(Answer::Refused), ..open.clone() };
        assert_eq!(answered.with_more_time(late, 300), None, "it needs none");
        assert_eq!(open.with_more_time(NOW, 1).expect("more time").ends_at, open.ends_at, "never less");
        assert_eq!(twice.kept_until(), late.plus(300 + KEPT_AFTER_END));
    }

    #[test]
    fn a_few_refused_proofs_are_counted() {
        let mut open = transaction();
        for count in 1..=MOST_REFUSED {
            open = open.with_refused_proof(NOW).expect("it waits");
            assert_eq!(open.progress(NOW).state, TransactionState::Refused(count));
        }
        assert_eq!(open.with_refused_proof(NOW), None);
        assert_eq!(transaction().with_refused_proof(open.ends_at), None, "it is over");
    }

    #[test]
    fn three_different_wrong_digits_end_a_transaction() {
        let digits = DigitCheck { expected: "042".to_owned(), wrong: Vec::new() };
        let answered =
            Transaction { answer: Some(Answer::Refused), return_hash: None, digits: Some(digits), ..transaction() };
        let tried = |tries: &[&str]| {
            tries.iter().fold(answered.clone(), |transaction, typed| transaction.with_wrong_digits(typed, NOW))
        };
        for tries in [&["000"][..], &["000", "000", "000", "000"], &["000", "001", "001"]] {
            assert_eq!(tried(tries).progress(NOW).state, TransactionState::AnsweredWithDigits, "{tries:?}");
        }
        let over = tried(&["000", "001", "002"]);
        assert_eq!(over.progress(NOW), Progress { state: TransactionState::Over, ends_at: NOW, extensions_left: 0 });
        assert!(over.answer.is_none() && !format!("{answered:?}").contains("042"));
        let response = response("code");
        let done = Transaction { response: Some(response), ..tried(&["000", "001"]) };
        assert_eq!(done.with_wrong_digits("002", NOW), done, "its response can be given again");
        for (text, is_try) in
            [("042", true), ("42", false), ("0042", false), ("04a", false), ("", false), ("０４２", false)]
        {
            assert_eq!(DigitCheck::is_try(text), is_try, "{text}");
        }
        assert_eq!(DigitCheck::new([0xff; 8]).expected, "615");
        assert_eq!(DigitCheck::new([0, 0, 0, 0, 0, 0, 0, 7]).expected, "007");
    }

    #[test]
    fn when_a_transaction_gives_way_to_another_one() {
        use KeepsPlace::{Completed, ExpectsPerson, UnderWay};
        use NextPerson::{Another, Same};

        let mut open = Transaction { return_hash: None, ..transaction() };
        open.request.expected_subject = None;
        let (now, end) = (UnixSeconds(open.ends_at.0 - 1), open.ends_at);
        let mut expecting = open.clone();
        expecting.request.expected_subject = Some("0x1".to_owned());
        let failed = |transaction: &Transaction| Transaction {
            answer: Some(Answer::Failed(WalletFailure::NullifierReplayed)),
            ..transaction.clone()
        };
        let refused = Transaction { answer: Some(Answer::Refused), ..open.clone() };
        let response = response("error");
        let done = Transaction { response: Some(response), ..refused.clone() };
        #[rustfmt::skip]
        let table = [
            ("it waits", &open, Same, now, Err(UnderWay)),
            ("it waits", &open, Another, now, Ok(())),
            ("it waits for one person", &expecting, Another, now, Err(ExpectsPerson)),
            ("it is over", &open, Same, end, Ok(())),
            ("it is over", &open, Another, end, Ok(())),
            ("it is over", &expecting, Same, end, Ok(())),
            ("the wallet gave no proof", &failed(&open), Same, now, Ok(())),
            ("the wallet gave no proof", &failed(&open), Another, now, Ok(())),
            ("the wallet gave no proof", &failed(&expecting), Same, now, Ok(())),
            ("the wallet gave no proof", &failed(&expecting), Another, now, Err(ExpectsPerson)),
            ("it was answered", &refused, Same, now, Err(UnderWay)),
            ("it was answered", &refused, Another, end, Err(UnderWay)),
            ("it was completed", &done, Same, end, Err(Completed)),
            ("it was completed", &done, Another, now, Err(Completed)),
        ];
        for (what, transaction, next, now, expected) in table {
            assert_eq!(transaction.check_gives_way(next, now), expected, "{what}, {next:?}");
        }
        let ended = failed(&open).ended(now);
        assert_eq!((ended.progress(now).state, ended.answer), (TransactionState::Over, None));
    }

    #[test]
    fn a_browser_goes_on_with_its_own_request_alone() {
        let own = transaction();
        let (now, request) = (UnixSeconds(own.ends_at.0 - 1), own.request.clone());
        assert!(own.goes_on_with(&request, now) && !own.goes_on_with(&request, own.ends_at));
        let other = |change: fn(&mut KeptRequest)| {
            let mut request = request.clone();
            change(&mut request);
            request
        };
        for changed in [
            other(|request| request.client_id.push('b')),
            other(|request| request.target.state = Some("another".to_owned())),
            other(|request| request.nonce = None),
            other(|request| request.scopes.email = true),
        ] {
            assert!(!own.goes_on_with(&changed, now), "{changed:?}");
        }
        let response = response("error");
        assert!(!Transaction { response: Some(response), ..own.clone() }.goes_on_with(&request, now));
        // A request that another site can make is begun anew.
        let mut known = other(|request| (request.nonce, request.code_challenge) = (None, None));
        assert!(Transaction { request: known.clone(), ..own.clone() }.goes_on_with(&known, now), "it has a state");
        known.target.state = None;
        assert!(!Transaction { request: known.clone(), ..own }.goes_on_with(&known, now));
    }
}

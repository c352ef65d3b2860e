//! Proof of work for a request: a number that makes a hash begin with zero bits. One solution takes
//! about `2^difficulty` hashes. The hash covers the registry, the body of the request and a time,
//! so that a solution is good for one body and for a few minutes. A service accepts each
//! [`Solution`] once, so that many requests need many solutions.

use std::fmt;
use std::str::FromStr;

use alloy_primitives::{B256, keccak256};

use crate::eip712::RegistryDomain;
use crate::time::UnixSeconds;

/// The header that carries the solution.
pub const HEADER: &str = "Proof-Of-Work";

/// How far the time of a solution may be from the service's, in seconds, inclusive.
pub const MOST_AGE: u64 = 300;

/// Begins every hash, so that a solution has no use elsewhere.
const TAG: &[u8] = b"selfsame proof of work v1";

/// A solution, on the wire `<Unix seconds>:<number>` in decimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProofOfWork {
    /// When the work began.
    pub time: UnixSeconds,
    /// The number that was found.
    pub number: u64,
}

/// A solution that was checked, in the form in which a service remembers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solution {
    /// The hash that begins with zero bits.
    pub hash: B256,
    /// When the work began.
    pub time: UnixSeconds,
}

impl Solution {
    /// The last second at which a request with this solution can still be waiting for admission: it
    /// passes [`ProofOfWork::check`] until [`MOST_AGE`] after its time, and waits far less than the
    /// same time after that.
    pub fn last_use(&self) -> UnixSeconds {
        self.time.plus(2 * MOST_AGE)
    }
}

/// Why a solution is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProofOfWorkError {
    /// The text is not a solution.
    #[error("the header {HEADER} is not <Unix seconds>:<number> in decimal digits")]
    Malformed,
    /// The time is too far from the service's.
    #[error("the time of the header {HEADER} is {time}, more than {MOST_AGE} s from {now}")]
    Time {
        /// The time of the solution.
        time: UnixSeconds,
        /// The service's time.
        now: UnixSeconds,
    },
    /// The hash begins with fewer zero bits than are asked for.
    #[error("the hash begins with {found} zero bits, it must begin with {difficulty}")]
    TooLittle {
        /// Zero bits that the hash begins with.
        found: u32,
        /// Zero bits that are asked for.
        difficulty: u32,
    },
}

impl FromStr for ProofOfWork {
    type Err = ProofOfWorkError;

    fn from_str(text: &str) -> Result<Self, ProofOfWorkError> {
        let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        let read = || {
            let (time, solution) = text.split_once(':')?;
            Some(Self { time: UnixSeconds(number(time)?), number: number(solution)? })
        };
        read().ok_or(ProofOfWorkError::Malformed)
    }
}

impl fmt::Display for ProofOfWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.time.0, self.number)
    }
}

impl ProofOfWork {
    /// Checks a solution for a body at the time `now`. Whether it was used before is up to the
    /// caller.
    ///
    /// # Errors
    /// [`ProofOfWorkError::Time`] or [`ProofOfWorkError::TooLittle`].
    pub fn check(
        self,
        domain: &RegistryDomain,
        body: &[u8],
        difficulty: u32,
        now: UnixSeconds,
    ) -> Result<Solution, ProofOfWorkError> {
        if now.0.abs_diff(self.time.0) > MOST_AGE {
            return Err(ProofOfWorkError::Time { time: self.time, now });
        }
        let hash = self.hash(&challenge(domain, body));
        let found = zero_bits(&hash);
        if found < difficulty {
            return Err(ProofOfWorkError::TooLittle { found, difficulty });
        }
        Ok(Solution { hash, time: self.time })
    }

    /// Finds a solution, after about `2^difficulty` hashes.
    pub fn solve(domain: &RegistryDomain, body: &[u8], difficulty: u32, now: UnixSeconds) -> Self {
        let challenge = challenge(domain, body);
        let mut solution = Self { time: now, number: 0 };
        while zero_bits(&solution.hash(&challenge)) < difficulty {
            solution.number += 1;
        }
        solution
    }

    /// keccak256(challenge, time, number); both as 8 bytes, big-endian.
    fn hash(self, challenge: &B256) -> B256 {
        keccak256([challenge.as_slice(), &self.time.0.to_be_bytes(), &self.number.to_be_bytes()].concat())
    }
}

/// Zero bits at the beginning of a hash.
fn zero_bits(hash: &B256) -> u32 {
    let whole = hash.iter().take_while(|byte| **byte == 0).count();
    whole as u32 * 8 + hash.get(whole).map_or(0, |byte| byte.leading_zeros())
}

/// keccak256 of the tag, the chain id (8 bytes, big-endian), the registry's address, and keccak256
/// of the body.
fn challenge(domain: &RegistryDomain, body: &[u8]) -> B256 {
    let chain_id = domain.chain_id.to_be_bytes();
    keccak256([TAG, &chain_id, domain.verifying_contract.as_slice(), keccak256(body).as_slice()].concat())
}

#[cfg(test)]
mod tests {
    use alloy_primitives::Address;

    use super::*;

    #[test]
    fn a_solution_is_good_for_one_body_one_registry_and_some_minutes() {
        let domain = RegistryDomain { chain_id: 1, verifying_contract: Address::ZERO };
        let now = UnixSeconds(1_800_000_000);
        let solution = ProofOfWork::solve(&domain, b"body", 12, now);
        assert_eq!(solution.to_string().parse(), Ok(solution));
        for (seconds, is_good) in [(0, true), (MOST_AGE, true), (MOST_AGE + 1, false)] {
            assert_eq!(solution.check(&domain, b"body", 12, now.plus(seconds)).is_ok(), is_good);
            assert_eq!(solution.check(&domain, b"body", 12, UnixSeconds(now.0 - seconds)).is_ok(), is_good);
        }
        let others = [
            solution.check(&domain, b"other", 12, now),
            solution.check(&RegistryDomain { chain_id: 2, ..domain }, b"body", 12, now),
            solution.check(&domain, b"body", 100, now),
        ];
        assert!(others.iter().all(|result| matches!(result, Err(ProofOfWorkError::TooLittle { .. }))), "{others:?}");
        let checked = solution.check(&domain, b"body", 0, now).expect("a solution");
        assert_eq!((checked.time, checked.last_use()), (now, now.plus(600)));
    }

    #[test]
    fn malformed_solutions_are_refused() {
        for text in ["", ":", "1:", ":1", "1", "1:2:3", "+1:2", "1: 2", "0x1:2", "18446744073709551616:1", "1:é"] {
            assert_eq!(text.parse::<ProofOfWork>(), Err(ProofOfWorkError::Malformed), "{text}");
        }
    }
}

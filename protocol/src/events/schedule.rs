//! When a webhook that failed is sent again.

use std::time::Duration;

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;

/// The waits after the first attempt and those after it, in seconds (Standard Webhooks,
/// "Deliverability and reliability"). After the last one a message is a dead letter.
const WAITS: [u64; 9] = [5, 5 * MINUTE, 30 * MINUTE, 2 * HOUR, 5 * HOUR, 10 * HOUR, 14 * HOUR, 20 * HOUR, 24 * HOUR];

/// How many times a message is sent before it is a dead letter.
pub const MOST_ATTEMPTS: u32 = WAITS.len() as u32 + 1;

/// The wait after this many failed attempts, at least 1; `None` when there is no further attempt.
/// `chance` lengthens it by up to a fifth, so that the messages of an outage do not come back all
/// at once. A receiver that asks for a longer wait gets it, up to a day.
pub fn wait_after(attempts: u32, chance: u32, asked: Option<Duration>) -> Option<Duration> {
    let wait = Duration::from_secs(*WAITS.get(usize::try_from(attempts).ok()?.checked_sub(1)?)?);
    let spread = wait.mul_f64(0.2 * f64::from(chance) / f64::from(u32::MAX));
    let longest = Duration::from_secs(24 * HOUR);
    Some((wait + spread).max(asked.unwrap_or_default().min(longest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_until_the_last_attempt() {
        let wait = |attempts| wait_after(attempts, 0, None).map(|wait| wait.as_secs());
        assert_eq!(wait(1), Some(5));
        assert_eq!(wait(4), Some(2 * HOUR));
        assert_eq!(wait(MOST_ATTEMPTS - 1), Some(24 * HOUR));
        assert_eq!(wait(MOST_ATTEMPTS), None);
        assert_eq!(wait(0), None);
    }

    #[test]
    fn chance_and_the_receiver_lengthen_a_wait() {
        assert_eq!(wait_after(1, u32::MAX, None), Some(Duration::from_secs(6)));
        assert_eq!(wait_after(1, 0, Some(Duration::from_secs(100))), Some(Duration::from_secs(100)));
        assert_eq!(wait_after(2, 0, Some(Duration::from_secs(1))), Some(Duration::from_secs(300)));
        assert_eq!(wait_after(1, 0, Some(Duration::MAX)), Some(Duration::from_secs(86_400)));
    }
}

//! Whether a history of concurrent calls is linearizable (Herlihy and Wing, 1990): whether every
//! call can have taken effect at one moment between its begin and its end, so that an object that
//! serves one call after the other gives the same answers.
//!
//! The search is that of Wing and Gong, with Lowe's memory of what was tried: it takes any call
//! that began before every other one had ended, and goes on with the rest.

use std::collections::HashSet;
use std::hash::Hash;

/// A call of a history. Its times are numbers of events, each used once.
#[derive(Clone, Debug)]
pub(super) struct Call<C> {
    /// What was called, and what was answered.
    pub content: C,
    pub began: u64,
    /// `None` when no answer came: the call may take effect at any later moment, or never.
    pub ended: Option<u64>,
}

/// An object that serves one call after the other.
pub(super) trait SequentialObject {
    type State: Clone + Eq + Hash;
    type Call;

    /// The state after a call; `None` when the object would have answered otherwise in this state.
    fn serve(&self, state: &Self::State, call: &Self::Call) -> Option<Self::State>;

    /// Whether a call never changes the state.
    fn is_read(&self, call: &Self::Call) -> bool;
}

/// Which calls have taken effect.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Done(Vec<bool>);

/// Looks for an order of the calls in which the object, beginning with a state, gives the answers.
///
/// # Errors
/// No order gives them. The longest attempt stops before one of the returned calls.
pub(super) fn linearize<O: SequentialObject>(
    object: &O,
    initial: O::State,
    calls: &[Call<O::Call>],
) -> Result<(), Vec<usize>> {
    let mut tried = HashSet::new();
    let (mut longest, mut stops_before) = (0, Vec::new());
    let mut open = vec![(Done(vec![false; calls.len()]), initial)];
    while let Some((mut done, state)) = open.pop() {
        take_reads(object, &state, calls, &mut done);
        let waits = |index: &usize| !done.0[*index];
        if (0..calls.len()).filter(waits).all(|index| calls[index].ended.is_none()) {
            return Ok(());
        }
        if !tried.insert((done.clone(), state.clone())) {
            continue;
        }
        let next = possible(calls, &done);
        let length = done.0.iter().filter(|is_done| **is_done).count();
        if length >= longest {
            (longest, stops_before) = (length, next.clone());
        }
        for index in next {
            if let Some(next) = object.serve(&state, &calls[index].content) {
                let mut done = done.clone();
                done.0[index] = true;
                open.push((done, next));
            }
        }
    }
    Err(stops_before)
}

/// The calls that can be the next to take effect: they began before any other one had ended.
fn possible<C>(calls: &[Call<C>], done: &Done) -> Vec<usize> {
    let waiting = || (0..calls.len()).filter(|index| !done.0[*index]);
    let first_end = waiting().filter_map(|index| calls[index].ended).min().unwrap_or(u64::MAX);
    waiting().filter(|index| calls[*index].began < first_end).collect()
}

/// Takes the reads that are right in this state. It is never better to take one later, because it
/// changes nothing.
fn take_reads<O: SequentialObject>(object: &O, state: &O::State, calls: &[Call<O::Call>], done: &mut Done) {
    loop {
        let mut right = possible(calls, done);
        right.retain(|index| {
            let call = &calls[*index].content;
            object.is_read(call) && object.serve(state, call).is_some()
        });
        if right.is_empty() {
            return;
        }
        right.into_iter().for_each(|index| done.0[index] = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A number that is written and read.
    struct Register;

    #[derive(Clone, Copy)]
    enum Access {
        Write(u8),
        Read(u8),
    }

    use Access::*;

    impl SequentialObject for Register {
        type State = u8;
        type Call = Access;

        fn serve(&self, state: &u8, call: &Access) -> Option<u8> {
            match *call {
                Write(value) => Some(value),
                Read(value) => (value == *state).then_some(value),
            }
        }

        fn is_read(&self, call: &Access) -> bool {
            matches!(call, Read(_))
        }
    }

    #[track_caller]
    fn check(is_right: bool, calls: &[(Access, u64, Option<u64>)]) {
        let call = |&(content, began, ended): &(Access, u64, Option<u64>)| Call { content, began, ended };
        let calls: Vec<_> = calls.iter().map(call).collect();
        assert_eq!(linearize(&Register, 0, &calls).is_ok(), is_right);
    }

    #[test]
    fn the_calls_are_named_that_are_in_no_order() {
        let calls = [(Write(1), 0, Some(1)), (Read(1), 2, Some(4)), (Read(0), 3, Some(5)), (Read(1), 6, Some(7))];
        let calls = calls.map(|(content, began, ended)| Call { content, began, ended });
        assert_eq!(linearize(&Register, 0, &calls), Err(vec![2]));
    }

    #[test]
    fn a_read_shows_what_was_written_before_it_began() {
        check(true, &[(Write(1), 0, Some(1)), (Read(1), 2, Some(3))]);
        check(false, &[(Write(1), 0, Some(1)), (Read(0), 2, Some(3))]);
        check(false, &[(Write(1), 0, Some(1)), (Write(2), 2, Some(3)), (Read(1), 4, Some(5))]);
        check(false, &[(Read(1), 0, Some(1)), (Write(1), 2, Some(3))]);
    }

    #[test]
    fn calls_at_the_same_time_take_effect_in_any_order_that_all_see() {
        let writes = [(Write(1), 0, Some(5)), (Write(2), 1, Some(6))];
        for (first, second, is_right) in [(1, 2, true), (2, 1, true), (0, 1, true), (1, 0, false)] {
            let reads = [(Read(first), 2, Some(3)), (Read(second), 4, Some(7))];
            check(is_right, &[&writes[..], &reads].concat());
        }
        // After both, the last one stays.
        let reads = [(Read(1), 7, Some(8)), (Read(2), 9, Some(10))];
        check(false, &[&writes[..], &reads].concat());
    }

    #[test]
    fn a_call_without_an_answer_takes_effect_once_or_never() {
        check(true, &[(Write(1), 0, None), (Read(0), 1, Some(2))]);
        check(true, &[(Write(1), 0, None), (Read(0), 1, Some(2)), (Read(1), 3, Some(4))]);
        check(false, &[(Write(1), 0, None), (Read(1), 1, Some(2)), (Read(0), 3, Some(4))]);
        check(false, &[(Write(1), 0, None), (Read(1), 1, Some(2)), (Write(2), 3, Some(4)), (Read(1), 5, Some(6))]);
    }
}

//! The order of the events.

use std::fmt;
use std::str::FromStr;

use crate::encode_fields;

/// The place of an event: first by the record of the log, then by the event within it. A record of
/// a block stands for many events.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventPosition {
    /// Number of the record, counted from 1.
    pub sequence: u64,
    /// Number of the event within the record, counted from 0.
    pub index: u32,
}

encode_fields!(EventPosition { sequence, index });

impl EventPosition {
    /// The first position of a record.
    pub fn start_of(sequence: u64) -> Self {
        Self { sequence, index: 0 }
    }

    /// A position whose [`next`](Self::next) is this one: that of the event before it, or the last
    /// one that the record before may have.
    pub fn before(self) -> Self {
        match self.index.checked_sub(1) {
            Some(index) => Self { index, ..self },
            None => Self { sequence: self.sequence.saturating_sub(1), index: u32::MAX },
        }
    }

    /// The next position within the record; that of the next record behind the last one that a
    /// record may have.
    pub fn next(self) -> Self {
        match self.index.checked_add(1) {
            Some(index) => Self { index, ..self },
            None => Self::start_of(self.sequence.saturating_add(1)),
        }
    }
}

impl fmt::Display for EventPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.sequence, self.index)
    }
}

/// A text that is not a position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a position is two numbers with a point between them, as in 12.0")]
pub struct EventPositionError;

impl FromStr for EventPosition {
    type Err = EventPositionError;

    fn from_str(text: &str) -> Result<Self, EventPositionError> {
        let (sequence, index) = text.split_once('.').ok_or(EventPositionError)?;
        let number = |digits: &str, most: usize| {
            let is_number = (1..=most).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse::<u64>().ok().filter(|_| is_number).ok_or(EventPositionError)
        };
        // No record has more events than the index can count: a greater one is behind them, too.
        let index = u32::try_from(number(index, 10)?).unwrap_or(u32::MAX);
        Ok(Self { sequence: number(sequence, 19)?, index })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_ordered_by_record_and_event() {
        let at = |sequence, index| EventPosition { sequence, index };
        let mut positions = [at(2, 0), at(1, 10), at(1, 2)];
        positions.sort();
        assert_eq!(positions, [at(1, 2), at(1, 10), at(2, 0)]);
        assert_eq!(at(1, 2).next(), at(1, 3));
        for position in [at(1, 3), at(2, 0), at(1, 0)] {
            assert_eq!(position.before().next(), position);
        }
    }

    #[test]
    fn a_position_is_read_from_its_text_alone() {
        let position = EventPosition { sequence: 12, index: 3 };
        assert_eq!(position.to_string().parse(), Ok(position));
        assert_eq!("7.9999999999".parse(), Ok(EventPosition { sequence: 7, index: u32::MAX }));
        let too_long = ["12.12345678901", "12345678901234567890.1"];
        for text in ["", "12", "12.", ".3", "12.3.4", "+12.3", "12.-3", "x.1", " 12.3"].into_iter().chain(too_long) {
            assert_eq!(text.parse::<EventPosition>(), Err(EventPositionError), "{text:?}");
        }
    }
}

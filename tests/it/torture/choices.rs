//! Streams of choices that follow from the seed of a run.

use alloy_primitives::keccak256;

/// One stream of choices. Streams with different names are independent, so the order in which
/// clients draw does not matter.
pub struct CrashChoices {
    stream: [u8; 32],
    drawn: u64,
}

impl CrashChoices {
    /// The stream of a name.
    pub fn of(seed: u64, name: &str) -> Self {
        Self { stream: keccak256(format!("{seed} {name}")).0, drawn: 0 }
    }

    /// Fresh bytes.
    pub fn bytes(&mut self) -> [u8; 32] {
        self.drawn += 1;
        keccak256([self.stream.as_slice(), &self.drawn.to_be_bytes()].concat()).0
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let [a, b, c, d, ..] = self.bytes();
        u32::from_be_bytes([a, b, c, d]) as usize % bound
    }

    /// True once in `times` calls on average.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of several items; `None` if there are none.
    pub fn one_of<'a, T>(&mut self, items: &'a [T]) -> Option<&'a T> {
        (!items.is_empty()).then(|| &items[self.below(items.len())])
    }

    /// Puts items into a random order.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for index in (1..items.len()).rev() {
            items.swap(index, self.below(index + 1));
        }
    }
}

//! The hashes of a large update of the tree, on all cores.

use rayon::iter::{IndexedParallelIterator, ParallelIterator};
use rayon::slice::{ParallelSlice, ParallelSliceMut};
use selfsame_protocol::tree::{HashPairs, Node, hash_pairs};

/// Fewer pairs than this are hashed on the calling thread. They take half a millisecond with the
/// instructions that hash eight at once, and waking a thread takes some microseconds.
const LEAST_PAIRS: usize = 512;

/// Pairs that a thread takes at a time.
const CHUNK: usize = 128;

/// Hashes many pairs on the threads of the rayon pool that it is called in, few on the calling
/// thread.
#[derive(Clone, Copy, Debug)]
pub struct AllCores;

impl HashPairs for AllCores {
    fn hash_pairs(&self, pairs: &[[Node; 2]]) -> Vec<Node> {
        if pairs.len() < LEAST_PAIRS || rayon::current_num_threads() < 2 {
            return hash_pairs(pairs);
        }
        let mut parents = vec![Node::ZERO; pairs.len()];
        let chunks = parents.par_chunks_mut(CHUNK).zip(pairs.par_chunks(CHUNK));
        chunks.for_each(|(parents, pairs)| parents.copy_from_slice(&hash_pairs(pairs)));
        parents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hashes_of_batches_of_each_size_are_those_of_one_thread() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().expect("threads start");
        for count in [0, 1, LEAST_PAIRS - 1, LEAST_PAIRS, 3 * CHUNK + LEAST_PAIRS + 5] {
            let node = |number: usize| Node::left_padding_from(&number.to_be_bytes());
            let pairs: Vec<_> = (0..count).map(|index| [node(index), node(7 * index + 1)]).collect();
            assert_eq!(pool.install(|| AllCores.hash_pairs(&pairs)), hash_pairs(&pairs));
        }
    }
}

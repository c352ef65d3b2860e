//! The border to JavaScript, which `prover.mjs` is the other side of.
//!
//! There is one buffer. JavaScript asks for it with a length, fills it, and calls a function, which
//! reads the buffer and puts its answer there: the result with status 0, or the name of an error
//! with status 1. Numbers have 32 bytes, the highest first.
//!
//! | function | what is in the buffer | result |
//! |---|---|---|
//! | `begin_key` | the file of the key | nothing |
//! | `read_key` | how many steps of reading it are done now (4 bytes) | one byte: 1 when there are more |
//! | `prove` | a request: the fields of [`Request`] in the order of [`read_request`] | root, nullifier, eight words |
//! | `poseidon` | one or two numbers | their hash |

use std::cell::RefCell;

use crate::field::Scalar;
use crate::key::KeyReader;
use crate::secret::overwrite;
use crate::witness::DEPTH;
use crate::{prove as make_proof, Error, Input, Poseidon, ProvingKey, Request};

struct State {
    buffer: Vec<u8>,
    /// The key that is not whole yet.
    reader: Option<KeyReader<Vec<u8>>>,
    key: Option<ProvingKey>,
    poseidon: Option<Poseidon>,
}

thread_local! {
    static STATE: RefCell<State> = const { RefCell::new(State { buffer: Vec::new(), reader: None, key: None, poseidon: None }) };
}

/// Runs a function on the buffer, which is overwritten before it has the answer.
fn answer(work: impl FnOnce(&mut State) -> Result<Vec<u8>, Error>) -> u32 {
    STATE.with(|state| {
        let state = &mut *state.borrow_mut();
        let result = work(state);
        overwrite(&mut state.buffer);
        let status = u32::from(result.is_err());
        state.buffer = result.unwrap_or_else(|error| error.name().as_bytes().to_vec());
        status
    })
}

/// Makes the buffer this long, filled with zeros, and returns its address.
#[no_mangle]
pub extern "C" fn request(length: usize) -> *mut u8 {
    STATE.with(|state| {
        let state = &mut *state.borrow_mut();
        state.buffer = vec![0; length];
        state.buffer.as_mut_ptr()
    })
}

/// The address of the buffer.
#[no_mangle]
pub extern "C" fn answer_address() -> *const u8 {
    STATE.with(|state| state.borrow().buffer.as_ptr())
}

/// The length of the buffer.
#[no_mangle]
pub extern "C" fn answer_length() -> usize {
    STATE.with(|state| state.borrow().buffer.len())
}

/// Keeps the file of the key for [`read_key`].
#[no_mangle]
pub extern "C" fn begin_key() -> u32 {
    answer(|state| {
        state.reader = Some(KeyReader::new(std::mem::take(&mut state.buffer))?);
        Ok(Vec::new())
    })
}

/// Does further steps of reading the key. After the last one there is the key.
#[no_mangle]
pub extern "C" fn read_key() -> u32 {
    answer(|state| {
        let count = Fields(&state.buffer).bytes().ok_or(Error::RequestLength)?;
        let mut reader = match state.reader.take() {
            Some(reader) => reader,
            // Another caller has done the last steps meanwhile.
            None if state.key.is_some() => return Ok(vec![0]),
            None => return Err(Error::KeyMissing),
        };
        let has_more = reader.read_part(u32::from_be_bytes(count) as usize)?;
        if has_more {
            state.reader = Some(reader);
        } else {
            state.key = reader.finish();
        }
        Ok(vec![u8::from(has_more)])
    })
}

/// Makes the proof that the buffer asks for.
#[no_mangle]
pub extern "C" fn prove() -> u32 {
    answer(|state| {
        let key = state.key.as_ref().ok_or(Error::KeyMissing)?;
        let mut request = read_request(&state.buffer).ok_or(Error::RequestLength)?;
        let proof = make_proof(key, state.poseidon.get_or_insert_with(Poseidon::new), &request);
        overwrite(&mut request.nullifier_seed);
        overwrite(&mut request.trapdoor);
        request.randomness.iter_mut().for_each(|random| overwrite(random));
        let proof = proof?;
        Ok([&[proof.root, proof.nullifier], &proof.words[..]].concat().concat())
    })
}

/// Hashes the numbers of the buffer.
#[no_mangle]
pub extern "C" fn poseidon() -> u32 {
    answer(|state| {
        let mut fields = Fields(&state.buffer);
        let mut number =
            || fields.number().map(|bytes| Scalar::from_bytes(&bytes).ok_or(Error::NotInField(Input::Hashed)));
        let first = number().ok_or(Error::RequestLength)??;
        let second = number().transpose()?;
        let poseidon = state.poseidon.get_or_insert_with(Poseidon::new);
        let hash = second.map_or_else(|| poseidon.hash_one(first), |second| poseidon.hash_two(first, second));
        Ok(hash.to_bytes().to_vec())
    })
}

/// The rest of a request.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let field = self.0.get(..N)?.try_into().ok()?;
        self.0 = &self.0[N..];
        Some(field)
    }

    fn number(&mut self) -> Option<[u8; 32]> {
        self.bytes()
    }
}

/// Reads a request: nullifier seed, trapdoor, position (4 bytes), siblings, external nullifier,
/// signal hash, twice 48 random bytes, and the root, which may be missing.
fn read_request(buffer: &[u8]) -> Option<Request> {
    let mut fields = Fields(buffer);
    let (nullifier_seed, trapdoor) = (fields.number()?, fields.number()?);
    let position = u32::from_be_bytes(fields.bytes()?);
    let mut siblings = [[0; 32]; DEPTH];
    for sibling in &mut siblings {
        *sibling = fields.number()?;
    }
    let (external_nullifier, signal_hash) = (fields.number()?, fields.number()?);
    let randomness = [fields.bytes()?, fields.bytes()?];
    let root = if fields.0.is_empty() { None } else { Some(fields.number()?) };
    let request =
        Request { nullifier_seed, trapdoor, position, siblings, root, external_nullifier, signal_hash, randomness };
    fields.0.is_empty().then_some(request)
}

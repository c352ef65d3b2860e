//! The proof: Groth16 with the polynomial arithmetic of snarkjs, which the key is made for.

use crate::curve::{Affine, Point};
use crate::field::{shift_right, Base, Extension, Field, Limbs, Scalar};
use crate::key::{ProvingKey, DOMAIN};
use crate::multiples::sum_of_multiples;
use crate::poseidon::Poseidon;
use crate::secret::Secret;
use crate::witness::{Inputs, Witness, CONSTRAINTS, DEPTH, PUBLIC_WIRES};
use crate::{Error, Input};

/// What a proof is asked for. Numbers are 32 bytes, the highest first, and below the modulus of the
/// scalar field.
#[derive(Clone)]
pub struct Request {
    /// The identity's nullifier seed.
    pub nullifier_seed: [u8; 32],
    /// The identity's trapdoor.
    pub trapdoor: [u8; 32],
    /// Position of the identity's leaf.
    pub position: u32,
    /// Siblings of the nodes from the leaf to below the root.
    pub siblings: [[u8; 32]; DEPTH],
    /// The root that the path must lead to, when the caller knows it.
    pub root: Option<[u8; 32]>,
    /// The external nullifier.
    pub external_nullifier: [u8; 32],
    /// The signal hash.
    pub signal_hash: [u8; 32],
    /// Random bytes, which make the proof tell nothing of the identity. They are used for one proof
    /// only and come from the system's generator.
    pub randomness: [[u8; 48]; 2],
}

/// A proof and the public inputs that it computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The root.
    pub root: [u8; 32],
    /// The nullifier.
    pub nullifier: [u8; 32],
    /// The words of the proof: A.x A.y B.x.c1 B.x.c0 B.y.c1 B.y.c0 C.x C.y.
    pub words: [[u8; 32]; 8],
}

/// Makes a proof. Uses one core for about a second in a browser.
pub fn prove(key: &ProvingKey, poseidon: &Poseidon, request: &Request) -> Result<Proof, Error> {
    let inputs = read_inputs(request)?;
    // Before the work that a proof is.
    read_randomness(&request.randomness)?;
    let witness = Witness::new(poseidon, &inputs);
    if request.root.map_or(false, |expected| expected != witness.root().to_bytes()) {
        return Err(Error::PathNotOfRoot);
    }
    prove_witness(key, &witness, &request.randomness)
}

/// Makes the proof of a witness, which is not checked: that of a wrong one is refused by verifiers.
pub fn prove_witness(key: &ProvingKey, witness: &Witness, randomness: &[[u8; 48]; 2]) -> Result<Proof, Error> {
    let (r, s) = read_randomness(randomness)?;
    let (a, b, c) = points(key, witness, r, s).ok_or(Error::Infinity)?;
    Ok(Proof {
        root: witness.root().to_bytes(),
        nullifier: witness.nullifier().to_bytes(),
        words: [a.x, a.y, b.x.imaginary, b.x.real, b.y.imaginary, b.y.real, c.x, c.y].map(Base::to_bytes),
    })
}

fn read_inputs(request: &Request) -> Result<Inputs, Error> {
    let read = |bytes, input| Scalar::from_bytes(bytes).ok_or(Error::NotInField(input));
    if request.position >> DEPTH != 0 {
        return Err(Error::PositionOutsideTree);
    }
    let mut siblings = [Scalar::ZERO; DEPTH];
    for (sibling, bytes) in siblings.iter_mut().zip(&request.siblings) {
        *sibling = read(bytes, Input::Sibling)?;
    }
    if let Some(root) = &request.root {
        read(root, Input::Root)?;
    }
    Ok(Inputs {
        nullifier_seed: read(&request.nullifier_seed, Input::NullifierSeed)?,
        trapdoor: read(&request.trapdoor, Input::Trapdoor)?,
        position: request.position,
        siblings,
        external_nullifier: read(&request.external_nullifier, Input::ExternalNullifier)?,
        signal_hash: read(&request.signal_hash, Input::SignalHash)?,
    })
}

/// The two numbers that blind the proof. Bytes that nobody has filled give zeros, or two equal
/// numbers. Random bytes do not, but for a chance of 2⁻²⁵².
fn read_randomness(randomness: &[[u8; 48]; 2]) -> Result<(Scalar, Scalar), Error> {
    let [r, s] = [Scalar::from_wide_bytes(&randomness[0]), Scalar::from_wide_bytes(&randomness[1])];
    if r == Scalar::ZERO || s == Scalar::ZERO || r == s {
        return Err(Error::NotRandom);
    }
    Ok((r, s))
}

/// The three points of the proof:
///
/// - `A = α + Σ wire · A + r·δ`
/// - `B = β + Σ wire · B + s·δ`, in both groups
/// - `C = Σ quotient · H + Σ wire · L + s·A + r·B − r·s·δ`
///
/// `None` when one of them is the point at infinity, which blinding makes as improbable as a guess
/// of the identity.
fn points(
    key: &ProvingKey,
    witness: &Witness,
    r: Scalar,
    s: Scalar,
) -> Option<(Affine<Base>, Affine<Extension>, Affine<Base>)> {
    let wires = numbers(&witness.wires);
    let (r_number, s_number) = (r.to_limbs(), s.to_limbs());
    let delta = Point::from(key.delta);
    let select = |selected: &mut dyn Iterator<Item = Limbs>| selected.collect::<Secret<Limbs>>();

    let mut a = sum_of_multiples(&key.a.points, &select(&mut key.a.select(&wires)));
    a.add_affine(&key.alpha);
    a.add(&delta.times(&r_number));

    let b_wires = select(&mut key.b.select(&wires));
    let mut b = sum_of_multiples(&key.b.points, &b_wires);
    b.add_affine(&key.beta);
    b.add(&delta.times(&s_number));
    let mut b_second = sum_of_multiples(&key.b_second, &b_wires);
    b_second.add_affine(&key.beta_second);
    b_second.add(&Point::from(key.delta_second).times(&s_number));

    let quotient = numbers(&quotient(witness));
    let c_numbers = select(&mut quotient.iter().chain(&wires[PUBLIC_WIRES..]).copied());
    let mut c = sum_of_multiples(&key.c, &c_numbers);
    c.add(&a.times(&s_number));
    c.add(&b.times(&r_number));
    c.add(&delta.times(&(r * s).to_limbs()).negative());
    Some((a.to_affine()?, b_second.to_affine()?, c.to_affine()?))
}

fn numbers(values: &[Scalar]) -> Secret<Limbs> {
    values.iter().map(|value| value.to_limbs()).collect()
}

/// The values of `a · b − c` at the points of the shifted domain, where `a`, `b` and `c` are the
/// polynomials that have the values of the constraints on the domain. The points `H` are made for
/// these values, so that no division by the domain's polynomial is left.
fn quotient(witness: &Witness) -> Secret<Scalar> {
    let domain = Domain::new();
    let mut a = Secret::blank(DOMAIN);
    let mut b = Secret::blank(DOMAIN);
    let mut c = Secret::blank(DOMAIN);
    a[..CONSTRAINTS].copy_from_slice(&witness.a);
    b[..CONSTRAINTS].copy_from_slice(&witness.b);
    for (c, (a, b)) in c.iter_mut().zip(a.iter().zip(b.iter())) {
        *c = *a * *b;
    }
    // Rows of the setup that make the public wires independent of each other. Their `b` is zero.
    a[CONSTRAINTS..CONSTRAINTS + PUBLIC_WIRES].copy_from_slice(&witness.wires[..PUBLIC_WIRES]);
    for values in [&mut a, &mut b, &mut c] {
        domain.shift(values);
    }
    for (a, (b, c)) in a.iter_mut().zip(b.iter().zip(c.iter())) {
        *a = *a * *b - *c;
    }
    a
}

/// The roots of unity of order [`DOMAIN`].
struct Domain {
    /// Powers of the first root, up to half of the order.
    roots: Vec<Scalar>,
    /// The root of twice the order by which the domain is shifted.
    shift: Scalar,
    /// The inverse of the order.
    inverse_order: Scalar,
}

impl Domain {
    fn new() -> Self {
        // The multiplicative group has the generator 5 and an order divisible by 2²⁸.
        let log = DOMAIN.trailing_zeros();
        let minus_one = (-Scalar::ONE).to_limbs();
        let shift = Scalar::small(5).power(&shift_right(&minus_one, log + 1));
        let root = shift.square();
        let mut roots = vec![Scalar::ONE; DOMAIN / 2];
        for i in 1..roots.len() {
            roots[i] = roots[i - 1] * root;
        }
        Self { roots, shift, inverse_order: Scalar::small(DOMAIN as u32).inverse() }
    }

    /// From the values of a polynomial on the domain to those on the shifted domain.
    fn shift(&self, values: &mut [Scalar]) {
        self.transform(values);
        // The inverse transformation is the transformation with the values in the reverse order.
        values[1..].reverse();
        let mut factor = self.inverse_order;
        for value in values.iter_mut() {
            *value = *value * factor;
            factor = factor * self.shift;
        }
        self.transform(values);
    }

    /// The values on the domain of the polynomial with these coefficients: the fast Fourier
    /// transformation of Cooley and Tukey, in place.
    fn transform(&self, values: &mut [Scalar]) {
        let bits = DOMAIN.trailing_zeros();
        for i in 0..DOMAIN {
            let reversed = i.reverse_bits() >> (usize::BITS - bits);
            if i < reversed {
                values.swap(i, reversed);
            }
        }
        let mut half = 1;
        while half < DOMAIN {
            for block in values.chunks_exact_mut(2 * half) {
                let (low, high) = block.split_at_mut(half);
                let roots = self.roots.iter().step_by(DOMAIN / 2 / half);
                for ((low, high), root) in low.iter_mut().zip(high).zip(roots) {
                    let term = *high * *root;
                    (*low, *high) = (*low + term, *low - term);
                }
            }
            half *= 2;
        }
    }
}

//! Arithmetic on eight elements of a 254-bit prime field at once.
//!
//! A processor with AVX-512 IFMA multiplies eight pairs of 52-bit numbers with one instruction. The
//! types here use that for BN254's two fields: its scalars (`FrConfig`, the node hash) and its
//! coordinates (`FqConfig`, the curve). What is computed is the same on every processor.
//!
//! - [`Avx512`] says that this processor has the instructions; only [`Avx512::detect`] makes it.
//!   [`Portable`] does the same with plain integers, for tests. It is slower than the scalar
//!   arithmetic of `ark`, which is the right choice where [`Avx512::detect`] returns nothing.
//! - [`Elements`] are eight elements, each with a bound in its type: how many times the modulus it
//!   is at most. Additions raise the bound, products lower it to 2. A chain of operations in which
//!   a carry could be lost does not compile.
//! - [`Sum`] is the same before carries are propagated, for several additions in a row.
//! - A [`Kernel`] is the code that [`Instructions::run`] compiles for the instructions.
//!
//! # Representation
//!
//! An element `a` is kept as `a · 2^260` modulo `p` (Montgomery form) in five limbs of 52 bits,
//! least significant first, one vector a limb. The modulus has 254 bits, so about six bits are left
//! in the 260: sums of up to 84 elements fit without a reduction.
//!
//! # Multiplication
//!
//! Montgomery's reduction clears the product's five low limbs by adding multiples of `p`. It would
//! find each multiple with a multiplication by `-1/p`. Here the first four limbs are cleared with
//! multiples of `N = k · p`, where `k = -1/p` modulo `2^52`: `N` is `-1` modulo `2^52`, so the
//! multiple is the limb itself. `N` has 306 bits. What it adds is shifted out by the last step,
//! which uses `p`; it makes the result larger by `p · k / 2^52`, an eighth of `p` for both fields.

#[cfg(target_arch = "x86_64")]
mod avx512;
mod elements;
mod modulus;
mod words;

#[cfg(target_arch = "x86_64")]
pub use avx512::{Avx512, Avx512Words};
pub use elements::{Constant, Elements, Factor, Sum, sum_of_products};
pub use words::{Instructions, Kernel, LANES, Portable, PortableWords, Step, Words};

#[cfg(test)]
mod tests;

use alloy_primitives::U256;
use ark_bn254::{Fq, FqConfig, Fr, FrConfig};
use ark_ff::{AdditiveGroup, BigInt, BigInteger, Field, Fp, MontBackend, MontConfig, PrimeField};
use proptest::prelude::*;

use super::*;

type Element<C> = Fp<MontBackend<C, 4>, 4>;

/// What the tests compare with `ark`, for one set of instructions and one field.
struct Agreement<C: MontConfig<4>> {
    left: [Element<C>; LANES],
    right: [Element<C>; LANES],
}

fn each<C: MontConfig<4>>(compute: impl Fn(usize) -> Element<C>) -> [Element<C>; LANES] {
    std::array::from_fn(compute)
}

fn be_bytes(number: BigInt<4>) -> [u8; 32] {
    number.to_bytes_be().try_into().expect("32 bytes")
}

/// [`Elements::store`], compiled once and not at each call, which would take the compiler minutes.
#[inline(never)]
fn stored<W: Words, C: MontConfig<4>, const BOUND: u64>(elements: Elements<W, C, BOUND>) -> [Element<C>; LANES] {
    elements.store()
}

impl<C: MontConfig<4>> Kernel for Agreement<C> {
    type Output = ();

    fn run<I: Instructions>(self, instructions: I) {
        let Self { left, right } = self;
        let (a, b) = (Elements::load(instructions, &left), Elements::load(instructions, &right));
        assert_eq!(stored(a), left);
        let sum: Elements<_, _, 4> = a.add(b);
        assert_eq!(stored(sum), each(|lane| left[lane] + right[lane]));
        assert_eq!(stored(a.add_reduced(b)), stored(sum));
        assert_eq!(stored(sum.reduce()), stored(sum));
        let difference: Elements<_, _, 4> = a.sub(b);
        assert_eq!(stored(difference), each(|lane| left[lane] - right[lane]));
        assert_eq!(stored(a.sub_reduced(b)), stored(difference));
        assert_eq!(stored(difference.neg()), each(|lane| right[lane] - left[lane]));
        assert_eq!(stored(a.neg()), each(|lane| -left[lane]));
        assert_eq!(stored(a.mul(b)), each(|lane| left[lane] * right[lane]));
        assert_eq!(stored(a.square()), each(|lane| left[lane].square()));
        assert_eq!(stored(difference.mul(sum)), each(|lane| left[lane].square() - right[lane].square()));
        let two_products = a.mul_add_mul(b, sum, difference);
        assert_eq!(
            stored(two_products),
            each(|lane| left[lane] * right[lane] + left[lane].square() - right[lane].square())
        );

        // The greatest bounds that compile.
        let (a8, b9): (Elements<_, _, 8>, Elements<_, _, 9>) = (a.widen(), b.widen());
        let (a12, b13): (Elements<_, _, 12>, Elements<_, _, 13>) = (a.widen(), b.widen());
        assert_eq!(stored(a12.square_sum::<3>().carry()), each(|lane| left[lane].square()));
        assert_eq!(stored(a12.mul_sum::<13, 3>(b13).carry()), each(|lane| left[lane] * right[lane]));
        let multiple = |bound, base: Element<C>| (0..bound).map(|_| base).sum::<Element<C>>();
        assert_eq!(stored(a8.square()), each(|lane| left[lane].square()));
        assert_eq!(stored(a8.mul(b9)), each(|lane| left[lane] * right[lane]));
        let four: Elements<_, _, 8> = a.sum().double::<4>().double::<8>().carry();
        assert_eq!(stored(four.square()), each(|lane| multiple(16, left[lane].square())));
        let ten: Sum<_, _, 20> = four.sum().double::<16>().add(a.sum().double::<4>());
        assert_eq!(stored(ten.reduce()), each(|lane| multiple(10, left[lane])));
        assert_eq!(stored(ten.carry().reduce()), each(|lane| multiple(10, left[lane])));
        // A chain in which each number is as large as its bound allows.
        let mut chain: (_, Elements<_, _, 8>) = (left, a.widen());
        for _ in 0..20 {
            let twice: Elements<_, _, 4> = chain.1.square().add(b);
            chain = (each(|lane| chain.0[lane].square() + right[lane]), twice.widen());
        }
        assert_eq!(stored(chain.1), chain.0);

        assert_eq!(a.to_be_bytes(), left.map(|element| be_bytes(element.into_bigint())));
        assert_eq!(Elements::from_be_bytes(instructions, &a.to_be_bytes()).store(), left);
        let constant = Constant::new(left[3]);
        assert_eq!(Elements::splat(instructions, &constant).store(), [left[3]; LANES]);
        assert_eq!(Elements::<_, C, 1>::zero(instructions).store(), [Element::<C>::ZERO; LANES]);
        let zeros = |elements: [Element<C>; LANES]| {
            elements.iter().rev().fold(0, |mask, element| mask << 1 | u8::from(*element == Element::<C>::ZERO))
        };
        assert_eq!(a.are_zero(), zeros(left));
        assert_eq!(difference.are_zero(), zeros(stored(difference)));
        assert_eq!(a.sub::<2, 4>(a).are_zero(), 0xff);
        assert_eq!(a.neg().add::<2, 4>(a).are_zero(), 0xff);
        let mixed = a.replace(0b0101_0011, b);
        assert_eq!(stored(mixed), each(|lane| if 0b0101_0011 >> lane & 1 == 1 { right[lane] } else { left[lane] }));
    }
}

fn agree<C: MontConfig<4>>(left: [Element<C>; LANES], right: [Element<C>; LANES]) {
    Portable.run(Agreement { left, right });
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::detect() {
        avx512.run(Agreement { left, right });
    }
}

/// Numbers at which carries and reductions begin: powers of two and the multiples of the modulus,
/// with their neighbours.
fn edges<C: MontConfig<4>>() -> Vec<Element<C>> {
    let small = (0..4u64).map(Element::<C>::from);
    let powers = (0..254).map(|exponent| Element::<C>::from(2u64).pow([exponent]));
    let all_ones = [52, 64, 104, 128, 156, 192, 208, 253]
        .map(|exponent: u64| Element::<C>::from(2u64).pow([exponent]) - Element::<C>::from(1u64));
    // Elements whose Montgomery form is one of the edges.
    let unshifted = [254u64, 256, 260, 264, 520].map(|exponent| Element::<C>::from(2u64).pow([exponent]).inverse());
    let numbers: Vec<_> = small.chain(powers).chain(all_ones).chain(unshifted.into_iter().flatten()).collect();
    numbers.iter().flat_map(|number| [*number, -*number, *number + Element::<C>::from(1u64)]).collect()
}

fn agree_on_edges<C: MontConfig<4>>() {
    let edges = edges::<C>();
    for step in [1, 7, 64, 255] {
        for start in (0..edges.len()).step_by(LANES) {
            let at = |offset: usize| each::<C>(|lane| edges[(start + lane + offset) % edges.len()]);
            agree(at(0), at(step));
        }
    }
}

#[test]
fn edges_of_the_scalar_field_agree_with_ark() {
    agree_on_edges::<FrConfig>();
}

#[test]
fn edges_of_the_coordinate_field_agree_with_ark() {
    agree_on_edges::<FqConfig>();
}

/// Reads numbers of 256 bits, also those that are no canonical elements.
struct Numbers([[u8; 32]; LANES]);

impl Kernel for Numbers {
    type Output = ([Fr; LANES], [Fq; LANES]);
    fn run<I: Instructions>(self, instructions: I) -> Self::Output {
        let scalars = Elements::<_, FrConfig>::from_be_bytes(instructions, &self.0);
        let coordinates = Elements::<_, FqConfig>::from_be_bytes(instructions, &self.0);
        (scalars.store(), coordinates.store())
    }
}

fn read_alike(numbers: [[u8; 32]; LANES]) {
    let scalars = numbers.map(|number| Fr::from_be_bytes_mod_order(&number));
    let coordinates = numbers.map(|number| Fq::from_be_bytes_mod_order(&number));
    assert_eq!(Portable.run(Numbers(numbers)), (scalars, coordinates));
    #[cfg(target_arch = "x86_64")]
    if let Some(avx512) = Avx512::detect() {
        assert_eq!(avx512.run(Numbers(numbers)), (scalars, coordinates));
    }
}

#[test]
fn numbers_from_the_modulus_on_count_as_their_remainder() {
    let modulus = U256::from_limbs(Fr::MODULUS.0);
    let multiples = (1..=5).map(|factor| modulus * U256::from(factor));
    let neighbours = multiples.flat_map(|multiple| [multiple - U256::ONE, multiple, multiple + U256::ONE]);
    let numbers: Vec<_> = neighbours.chain([U256::MAX]).map(|number| number.to_be_bytes()).collect();
    for chunk in numbers.as_chunks().0 {
        read_alike(*chunk);
    }
}

fn elements<C: MontConfig<4>>() -> impl Strategy<Value = [Element<C>; LANES]> {
    let element = prop::array::uniform32(any::<u8>()).prop_map(|bytes| Element::<C>::from_be_bytes_mod_order(&bytes));
    prop::array::uniform8(element)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn elements_of_the_scalar_field_agree_with_ark(left in elements::<FrConfig>(), right in elements::<FrConfig>()) {
        agree(left, right);
    }

    #[test]
    fn elements_of_the_coordinate_field_agree_with_ark(left in elements::<FqConfig>(), right in elements::<FqConfig>()) {
        agree(left, right);
    }

    #[test]
    fn numbers_are_read_as_ark_reads_them(numbers in prop::array::uniform8(prop::array::uniform32(any::<u8>()))) {
        read_alike(numbers);
    }
}

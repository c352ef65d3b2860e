//! Eight elements of a field.

#![expect(
    clippy::should_implement_trait,
    reason = "an operator's result has one type, and here the caller chooses the bound of the result"
)]

use std::fmt;
use std::marker::PhantomData;

use ark_ff::{BigInt, Fp, MontBackend, MontConfig};

use super::modulus::{LIMB, LIMBS, Limbs, Modulus, join, split};
use super::words::{Instructions, LANES, Step, Words};

/// An element of `ark`'s field.
type Element<C> = Fp<MontBackend<C, 4>, 4>;

/// Eight elements of the field with modulus `C`, each kept as a number of at most `BOUND` times the
/// modulus (inclusive), in limbs below `2^52`.
///
/// Where a result has a bound of its own, the caller's type chooses it, and the compiler refuses
/// one that is too small:
///
/// ```
/// # use ark_bn254::{Fr, FrConfig};
/// # use selfsame_lanes::{Elements, Instructions, Portable};
/// let one = Elements::<_, FrConfig>::load(Portable, &[Fr::from(1u64); 8]);
/// let two: Elements<_, _, 4> = one.add(one);
/// assert_eq!(two.mul(two).store(), [Fr::from(4u64); 8]);
/// ```
pub struct Elements<W, C, const BOUND: u64 = 2> {
    pub(super) limbs: [W; LIMBS],
    field: PhantomData<C>,
}

/// Eight sums of elements whose carries are not propagated: numbers of at most `BOUND` times the
/// modulus, in limbs of at most `BOUND * 2^56`.
pub struct Sum<W, C, const BOUND: u64> {
    limbs: [W; LIMBS],
    field: PhantomData<C>,
}

/// An element that is put into all lanes at once.
pub struct Constant<C> {
    limbs: Limbs,
    field: PhantomData<C>,
}

impl<C: MontConfig<4>> Constant<C> {
    /// The constant of an element.
    pub fn new(element: Element<C>) -> Self {
        // In Montgomery form of 256 bits, 16 times the element is the element in the form of 260.
        let shifted: Element<C> = element * Element::<C>::from(16u64);
        Self { limbs: split(shifted.0.0), field: PhantomData }
    }
}

/// The elements with the given numbers as Montgomery form; the numbers are below `2^256`.
#[inline(always)]
fn transpose<I: Instructions>(instructions: I, number: impl Fn(usize) -> [u64; 4]) -> [I::Words; LIMBS] {
    let mut rows = [[0; LANES]; LIMBS];
    for lane in 0..LANES {
        let limbs = split(number(lane));
        for (row, limb) in rows.iter_mut().zip(limbs) {
            row[lane] = limb;
        }
    }
    rows.map(|row| instructions.words(&row))
}

impl<W: Words, C: MontConfig<4>> Elements<W, C> {
    /// Converts eight elements.
    #[inline(always)]
    pub fn load<I: Instructions<Words = W>>(instructions: I, elements: &[Element<C>; LANES]) -> Self {
        const { assert!(Modulus::<C>::product_fits(1, 2)) };
        let limbs = transpose(instructions, |lane| elements[lane].0.0);
        mul_by(limbs, &Modulus::<C>::FROM_256)
    }

    /// Converts eight big-endian numbers of 256 bits; each stands for its remainder by the modulus.
    #[inline(always)]
    pub fn from_be_bytes<I: Instructions<Words = W>>(instructions: I, numbers: &[[u8; 32]; LANES]) -> Self {
        // 2^256 is below six times the modulus.
        const { assert!(Modulus::<C>::multiple(6)[4] >> 48 > 0 && Modulus::<C>::product_fits(6, 2)) };
        let limbs = transpose(instructions, |lane| {
            let mut words = [0; 4];
            for (word, bytes) in words.iter_mut().rev().zip(numbers[lane].as_chunks().0) {
                *word = u64::from_be_bytes(*bytes);
            }
            words
        });
        mul_by(limbs, &Modulus::<C>::FROM_NUMBER)
    }
}

impl<W: Words, C: MontConfig<4>> Elements<W, C, 1> {
    /// The same element in each lane.
    #[inline(always)]
    pub fn splat<I: Instructions<Words = W>>(instructions: I, constant: &Constant<C>) -> Self {
        let zero = instructions.words(&[0; LANES]);
        Self::new(constant.limbs.map(|limb| zero.splat(limb)))
    }

    /// Zero in each lane.
    #[inline(always)]
    pub fn zero<I: Instructions<Words = W>>(instructions: I) -> Self {
        Self::new([instructions.words(&[0; LANES]); LIMBS])
    }
}

/// The product of numbers below `2^256` and a number below the modulus.
#[inline(always)]
fn mul_by<W: Words, C: MontConfig<4>>(limbs: [W; LIMBS], factor: &Limbs) -> Elements<W, C> {
    let factor = factor.map(|limb| limbs[0].splat(limb));
    let mut columns = [limbs[0].splat(0); 2 * LIMBS];
    add_product(&mut columns, &limbs, &factor);
    reduce_product(columns).carry()
}

impl<W: Words, C: MontConfig<4>, const BOUND: u64> Elements<W, C, BOUND> {
    #[inline(always)]
    fn new(limbs: [W; LIMBS]) -> Self {
        const { assert!(Modulus::<C>::fits(BOUND)) };
        Self { limbs, field: PhantomData }
    }

    /// The elements as `ark` has them.
    #[inline(always)]
    pub fn store(self) -> [Element<C>; LANES] {
        self.times(&Modulus::<C>::TO_256).to_numbers().map(|number| Fp::new_unchecked(BigInt(number)))
    }

    /// The elements as big-endian numbers below the modulus.
    #[inline(always)]
    pub fn to_be_bytes(self) -> [[u8; 32]; LANES] {
        self.leave_montgomery_form().to_numbers().map(|number| {
            let mut bytes = [0; 32];
            for (bytes, word) in bytes.as_chunks_mut().0.iter_mut().rev().zip(number) {
                *bytes = word.to_be_bytes();
            }
            bytes
        })
    }

    /// A bit for each lane (lane 0 the lowest): whether the element is zero.
    #[inline(always)]
    pub fn are_zero(self) -> u8 {
        let Elements { limbs: [a, b, c, d, e], .. } = self.leave_montgomery_form().subtract_once::<1, 1>();
        // No limb is negative, and the sum of five has no carry.
        a.plus(b).plus(c).plus(d).plus(e).are_zero()
    }

    /// `other` in the lanes whose bit in `mask` is set, `self` in the others.
    #[inline(always)]
    pub fn replace(self, mask: u8, other: Self) -> Self {
        Self::new(replace(self.limbs, mask, &other.limbs))
    }

    /// The same elements with a larger bound.
    #[inline(always)]
    pub fn widen<const RESULT: u64>(self) -> Elements<W, C, RESULT> {
        const { assert!(RESULT >= BOUND) };
        Elements::new(self.limbs)
    }

    /// The elements, to be added to others.
    #[inline(always)]
    pub fn sum(self) -> Sum<W, C, BOUND> {
        Sum::new(self.limbs)
    }

    /// The sums.
    #[inline(always)]
    pub fn add<const OTHER: u64, const RESULT: u64>(self, other: Elements<W, C, OTHER>) -> Elements<W, C, RESULT> {
        const { assert!(RESULT >= BOUND + OTHER) };
        Elements::new(propagate(plus(&self.limbs, &other.limbs)))
    }

    /// The differences.
    #[inline(always)]
    pub fn sub<const OTHER: u64, const RESULT: u64>(self, other: Elements<W, C, OTHER>) -> Elements<W, C, RESULT> {
        const { assert!(RESULT >= BOUND + OTHER) };
        Elements::new(propagate(plus(&self.limbs, &complement::<W, C, OTHER>(&other.limbs))))
    }

    /// The elements times -1.
    #[inline(always)]
    pub fn neg(self) -> Self {
        Self::new(propagate(complement::<W, C, BOUND>(&self.limbs)))
    }

    /// The sums, reduced to the smallest bound; the bounds together are at most 4.
    #[inline(always)]
    pub fn add_reduced<const OTHER: u64>(self, other: Elements<W, C, OTHER>) -> Elements<W, C> {
        const { assert!(BOUND + OTHER <= 4) };
        self.add::<OTHER, 4>(other).subtract_once::<2, 2>()
    }

    /// The differences, reduced to the smallest bound; the bounds together are at most 4.
    #[inline(always)]
    pub fn sub_reduced<const OTHER: u64>(self, other: Elements<W, C, OTHER>) -> Elements<W, C> {
        const { assert!(BOUND + OTHER <= 4) };
        self.sub::<OTHER, 4>(other).subtract_once::<2, 2>()
    }

    /// The elements, reduced to the smallest bound; the bound is at most 21.
    #[inline(always)]
    pub fn reduce(self) -> Elements<W, C> {
        self.sum().reduce().subtract_once::<2, 2>()
    }

    /// The products. The bounds' product is at most 73.
    #[inline(always)]
    pub fn mul<const OTHER: u64>(self, other: Elements<W, C, OTHER>) -> Elements<W, C> {
        self.mul_sum(other).carry()
    }

    /// The products, to be added to others. Their bound is 2 when the product of the bounds is at
    /// most 73, and 3 when it is at most 157.
    #[inline(always)]
    pub fn mul_sum<const OTHER: u64, const RESULT: u64>(self, other: Elements<W, C, OTHER>) -> Sum<W, C, RESULT> {
        const { assert!(Modulus::<C>::product_fits(BOUND * OTHER, RESULT)) };
        let mut columns = [self.limbs[0].splat(0); 2 * LIMBS];
        add_product(&mut columns, &self.limbs, &other.limbs);
        reduce_product(columns)
    }

    /// `self * other + second * second_other`, with one reduction for both products. The bounds'
    /// products are at most 73 together.
    #[inline(always)]
    pub fn mul_add_mul<const OTHER: u64, const SECOND: u64, const SECOND_OTHER: u64>(
        self,
        other: Elements<W, C, OTHER>,
        second: Elements<W, C, SECOND>,
        second_other: Elements<W, C, SECOND_OTHER>,
    ) -> Elements<W, C> {
        const { assert!(Modulus::<C>::product_fits(BOUND * OTHER + SECOND * SECOND_OTHER, 2)) };
        let mut columns = [self.limbs[0].splat(0); 2 * LIMBS];
        add_product(&mut columns, &self.limbs, &other.limbs);
        add_product(&mut columns, &second.limbs, &second_other.limbs);
        reduce_product(columns).carry()
    }

    /// The squares; the bound is at most 8.
    #[inline(always)]
    pub fn square(self) -> Elements<W, C> {
        self.square_sum().carry()
    }

    /// The squares, to be added to others. Their bound is 2 up to a bound of 8, and 3 up to 12.
    #[inline(always)]
    pub fn square_sum<const RESULT: u64>(self) -> Sum<W, C, RESULT> {
        const { assert!(Modulus::<C>::product_fits(BOUND * BOUND, RESULT)) };
        let mut columns = [self.limbs[0].splat(0); 2 * LIMBS];
        add_square(&mut columns, &self.limbs);
        reduce_product(columns)
    }

    /// The product with a constant below the modulus.
    #[inline(always)]
    fn times(self, factor: &Limbs) -> Elements<W, C> {
        const { assert!(Modulus::<C>::product_fits(BOUND, 2)) };
        mul_by(self.limbs, factor)
    }

    /// The numbers that the elements are, at most the modulus and an eighth of it.
    #[inline(always)]
    fn leave_montgomery_form(self) -> Elements<W, C> {
        let zero = self.limbs[0].splat(0);
        let [a, b, c, d, e] = self.limbs;
        reduce_product([a, b, c, d, e, zero, zero, zero, zero, zero]).carry()
    }

    /// Subtracts a multiple of the modulus in the lanes that are not below it.
    #[inline(always)]
    fn subtract_once<const MULTIPLE: u64, const RESULT: u64>(self) -> Elements<W, C, RESULT> {
        let multiple = Modulus::<C>::multiple(MULTIPLE);
        let mut limbs = self.limbs;
        for (limb, multiple) in limbs.iter_mut().zip(multiple) {
            *limb = limb.minus(limb.splat(multiple));
        }
        let reduced = propagate(limbs);
        let too_small = reduced[LIMBS - 1].are_negative();
        Elements::new(replace(reduced, too_small, &self.limbs))
    }
}

impl<W: Words, C: MontConfig<4>> Elements<W, C> {
    /// The least numbers that stand for these, which are below twice the modulus.
    #[inline(always)]
    fn to_numbers(self) -> [[u64; 4]; LANES] {
        let rows = self.subtract_once::<1, 1>().limbs.map(W::to_array);
        std::array::from_fn(|lane| join(rows.map(|row| row[lane])))
    }
}

impl<W: Words, C: MontConfig<4>, const BOUND: u64> Sum<W, C, BOUND> {
    #[inline(always)]
    fn new(limbs: [W; LIMBS]) -> Self {
        const { assert!(Modulus::<C>::fits(BOUND)) };
        Self { limbs, field: PhantomData }
    }

    /// The sums.
    #[inline(always)]
    pub fn add<const OTHER: u64, const RESULT: u64>(self, other: Sum<W, C, OTHER>) -> Sum<W, C, RESULT> {
        const { assert!(RESULT >= BOUND + OTHER) };
        Sum::new(plus(&self.limbs, &other.limbs))
    }

    /// Twice the elements.
    #[inline(always)]
    pub fn double<const RESULT: u64>(self) -> Sum<W, C, RESULT> {
        self.add(self)
    }

    /// Propagates the carries.
    #[inline(always)]
    pub fn carry(self) -> Elements<W, C, BOUND> {
        Elements::new(propagate(self.limbs))
    }

    /// Propagates the carries, and subtracts a multiple of the modulus that the highest bits
    /// select. The bound is at most 21.
    #[inline(always)]
    pub fn reduce(self) -> Elements<W, C, 4> {
        const { assert!(Modulus::<C>::fits_table(BOUND)) };
        // Without the carries the highest limb may be too small by one in the bits from 255 on. The
        // multiple is then too small, which the bound of the result allows for.
        let index = self.limbs[LIMBS - 1].shift_right::<47>();
        let mut limbs = self.limbs;
        for (limb, multiples) in limbs.iter_mut().zip(&Modulus::<C>::MULTIPLES) {
            *limb = limb.minus(index.look_up(multiples));
        }
        Elements::new(propagate(limbs))
    }
}

#[inline(always)]
pub(super) fn plus<W: Words>(left: &[W; LIMBS], right: &[W; LIMBS]) -> [W; LIMBS] {
    // A loop: a closure is not always compiled into the kernel, and without its instructions.
    let mut sum = *left;
    for (limb, other) in sum.iter_mut().zip(right) {
        *limb = limb.plus(*other);
    }
    sum
}

#[inline(always)]
fn replace<W: Words>(mut limbs: [W; LIMBS], mask: u8, others: &[W; LIMBS]) -> [W; LIMBS] {
    for (limb, other) in limbs.iter_mut().zip(others) {
        *limb = limb.replace(mask, *other);
    }
    limbs
}

/// `BOUND` times the modulus, less the numbers; limbs may be negative.
#[inline(always)]
fn complement<W: Words, C: MontConfig<4>, const BOUND: u64>(limbs: &[W; LIMBS]) -> [W; LIMBS] {
    let multiple = const { Modulus::<C>::multiple(BOUND) };
    let mut complement = *limbs;
    for (limb, multiple) in complement.iter_mut().zip(multiple) {
        *limb = limb.splat(multiple).minus(*limb);
    }
    complement
}

/// Limbs that are the same in each lane.
#[inline(always)]
fn splat<W: Words>(any: W, limbs: Limbs) -> [W; LIMBS] {
    let mut words = [any; LIMBS];
    for (word, limb) in words.iter_mut().zip(limbs) {
        *word = any.splat(limb);
    }
    words
}

/// Brings all limbs but the highest below `2^52`. The limbs are signed numbers. When the number
/// they are together is negative, so is the highest limb.
#[inline(always)]
pub(super) fn propagate<W: Words>(mut limbs: [W; LIMBS]) -> [W; LIMBS] {
    let mask = limbs[0].splat(LIMB);
    for limb in 0..LIMBS - 1 {
        limbs[limb + 1] = limbs[limb + 1].plus(limbs[limb].carry());
        limbs[limb] = limbs[limb].and(mask);
    }
    limbs
}

/// Adds a product to columns, each of which gets at most ten numbers below `2^52`.
#[inline(always)]
pub(super) fn add_product<W: Words>(columns: &mut [W; 2 * LIMBS], left: &[W; LIMBS], right: &[W; LIMBS]) {
    for i in 0..LIMBS {
        for j in 0..LIMBS {
            columns[i + j] = columns[i + j].plus_low_product(left[i], right[j]);
            columns[i + j + 1] = columns[i + j + 1].plus_high_product(left[i], right[j]);
        }
    }
}

/// Adds a square to empty columns.
#[inline(always)]
fn add_square<W: Words>(columns: &mut [W; 2 * LIMBS], limbs: &[W; LIMBS]) {
    for i in 0..LIMBS {
        for j in i + 1..LIMBS {
            columns[i + j] = columns[i + j].plus_low_product(limbs[i], limbs[j]);
            columns[i + j + 1] = columns[i + j + 1].plus_high_product(limbs[i], limbs[j]);
        }
    }
    for column in &mut columns[1..2 * LIMBS - 1] {
        *column = column.plus(*column);
    }
    for (i, limb) in limbs.iter().enumerate() {
        columns[2 * i] = columns[2 * i].plus_low_product(*limb, *limb);
        columns[2 * i + 1] = columns[2 * i + 1].plus_high_product(*limb, *limb);
    }
}

/// Montgomery's reduction of a number that [`Modulus::product_fits`] allows, with columns below
/// `2^57`: the number divided by `2^260`.
#[inline(always)]
pub(super) fn reduce_product<W: Words, C: MontConfig<4>, const RESULT: u64>(
    mut columns: [W; 2 * LIMBS],
) -> Sum<W, C, RESULT> {
    let zero = columns[0].splat(0);
    let friendly = splat(zero, const { Modulus::<C>::FRIENDLY });
    for i in 0..LIMBS - 1 {
        // The column's low 52 bits are cleared when they are added to themselves times `N`, that is
        // -1 modulo 2^52. The product's instructions ignore the bits above.
        let multiple = columns[i];
        columns[i + 1] = columns[i + 1].plus(multiple.carry());
        for (j, limb) in friendly.into_iter().enumerate() {
            columns[i + 1 + j] = columns[i + 1 + j].plus_low_product(multiple, limb);
            columns[i + 2 + j] = columns[i + 2 + j].plus_high_product(multiple, limb);
        }
    }
    let modulus = splat(zero, const { Modulus::<C>::LIMBS });
    let last = columns[LIMBS - 1];
    let multiple = zero.plus_low_product(last, zero.splat(Modulus::<C>::FACTOR));
    // The lowest column gets the product's low bits and becomes 0 or 2^52: its carry is what
    // rounding up gives.
    columns[LIMBS] = columns[LIMBS].plus(last.plus(zero.splat(LIMB)).carry()).plus_high_product(multiple, modulus[0]);
    for j in 1..LIMBS {
        columns[LIMBS - 1 + j] = columns[LIMBS - 1 + j].plus_low_product(multiple, modulus[j]);
        columns[LIMBS + j] = columns[LIMBS + j].plus_high_product(multiple, modulus[j]);
    }
    let [.., a, b, c, d, e] = columns;
    Sum::new([a, b, c, d, e])
}

impl<W: Copy, C, const BOUND: u64> Clone for Elements<W, C, BOUND> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy, C, const BOUND: u64> Copy for Elements<W, C, BOUND> {}

impl<W: fmt::Debug, C, const BOUND: u64> fmt::Debug for Elements<W, C, BOUND> {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_tuple("Elements").field(&self.limbs).finish()
    }
}

impl<W: Copy, C, const BOUND: u64> Clone for Sum<W, C, BOUND> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy, C, const BOUND: u64> Copy for Sum<W, C, BOUND> {}

// Products in the quadratic extension of the field: numbers a + b·i with i² = -1.

/// Eight elements of the extension, prepared to be multiplied: real and imaginary part, each of at
/// most `BOUND` times the modulus, and their sum.
pub struct Factor<W, C, const BOUND: u64 = 2> {
    real: [W; LIMBS],
    imaginary: [W; LIMBS],
    sum: [W; LIMBS],
    field: PhantomData<C>,
}

impl<W: Words, C: MontConfig<4>, const BOUND: u64> Factor<W, C, BOUND> {
    /// The factor with these parts.
    #[inline(always)]
    pub fn new(real: Elements<W, C, BOUND>, imaginary: Elements<W, C, BOUND>) -> Self {
        const { assert!(Modulus::<C>::fits(2 * BOUND)) };
        let sum = propagate(plus(&real.limbs, &imaginary.limbs));
        Self { real: real.limbs, imaginary: imaginary.limbs, sum, field: PhantomData }
    }
}

impl<W: Copy, C, const BOUND: u64> Clone for Factor<W, C, BOUND> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy, C, const BOUND: u64> Copy for Factor<W, C, BOUND> {}

/// Factors to be multiplied.
type Pairs<'a, W, C, const LEFT: u64, const RIGHT: u64, const COUNT: usize> =
    [(&'a Factor<W, C, LEFT>, &'a Factor<W, C, RIGHT>); COUNT];

/// The sum of `COUNT` products of factors, as real and imaginary part. The bounds' product times
/// twice the count is at most 73.
///
/// All products share one reduction for each part. Karatsuba's trick takes three products of field
/// elements for each: `(a + b·i)(c + d·i) = ac - bd + ((a + b)(c + d) - ac - bd)·i`.
///
/// It is compiled as a function of its own, so that code with many products stays small.
#[inline(always)]
pub fn sum_of_products<I: Instructions, C: MontConfig<4>, const LEFT: u64, const RIGHT: u64, const COUNT: usize>(
    instructions: I,
    pairs: Pairs<'_, I::Words, C, LEFT, RIGHT, COUNT>,
) -> [Elements<I::Words, C>; 2] {
    instructions.call(SumOfProducts { pairs })
}

struct SumOfProducts<'a, W, C, const LEFT: u64, const RIGHT: u64, const COUNT: usize> {
    pairs: Pairs<'a, W, C, LEFT, RIGHT, COUNT>,
}

impl<I: Instructions, C: MontConfig<4>, const LEFT: u64, const RIGHT: u64, const COUNT: usize> Step<I>
    for SumOfProducts<'_, I::Words, C, LEFT, RIGHT, COUNT>
{
    type Output = [Elements<I::Words, C>; 2];

    #[inline(always)]
    fn run(self, _: I) -> Self::Output {
        const { assert!(Modulus::<C>::product_fits(2 * COUNT as u64 * LEFT * RIGHT, 2) && COUNT > 0 && COUNT <= 8) };
        let zero = self.pairs[0].0.real[0].splat(0);
        let (mut real, mut imaginary, mut cross) = ([zero; 2 * LIMBS], [zero; 2 * LIMBS], [zero; 2 * LIMBS]);
        for (left, right) in self.pairs {
            add_product(&mut real, &left.real, &right.real);
        }
        for (left, right) in self.pairs {
            add_product(&mut imaginary, &left.imaginary, &right.imaginary);
        }
        for (left, right) in self.pairs {
            add_product(&mut cross, &left.sum, &right.sum);
        }
        // The difference of the first two can be negative, so a multiple of the modulus is added.
        let multiple = const { Modulus::<C>::square_multiple(COUNT as u64 * LEFT * RIGHT) };
        for column in 0..2 * LIMBS {
            cross[column] = cross[column].minus(real[column]).minus(imaginary[column]);
            real[column] = real[column].minus(imaginary[column]).plus(zero.splat(multiple[column]));
        }
        [reduce_product(real).carry(), reduce_product(cross).carry()]
    }
}

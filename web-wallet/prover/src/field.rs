//! The two prime fields of BN254, and the quadratic extension of the base field.
//!
//! Elements are in Montgomery form: they hold `value · 2²⁶¹ mod modulus`, in nine limbs of 29 bits.
//! WebAssembly multiplies 64 bits by 64 bits to 64 bits at most, and a sum of eighteen products of
//! such limbs has fewer than 63 bits. So a carry is taken once for each limb of a product, and not
//! once for each product of two limbs. The native build has the same limbs, so that the tests run
//! the arithmetic that the browser runs.
//!
//! Sums, differences, products and conversions take no branch on their operands and read no memory
//! at an address that depends on them. Comparisons, and what is built on them, do.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Add, Mul, Neg, Sub};

/// A number below 2²⁵⁶ in limbs of 32 bits; the lowest limb is the first.
pub type Limbs = [u32; 8];

/// Bits of a limb of an element.
const BITS: usize = 29;

/// A limb whose bits are all ones.
const MASK: u32 = (1 << BITS) - 1;

/// Limbs of an element.
const COUNT: usize = 9;

/// A number in limbs of 29 bits; the lowest limb is the first.
type Short = [u32; COUNT];

/// The modulus of a prime field. It is odd and below 2²⁵⁴: the products below rely on it.
pub trait Modulus: Copy + PartialEq + Eq {
    /// The modulus itself.
    const MODULUS: Limbs;
    /// The modulus in the limbs of elements.
    const SHORT: Short = to_short(&Self::MODULUS);
    /// −modulus⁻¹ mod 2²⁹.
    const NEGATED_INVERSE: u32 = negated_inverse(Self::MODULUS[0]) & MASK;
    /// 2²⁶¹ mod modulus: one in Montgomery form.
    const ONE: Short = power_of_two(BITS * COUNT, &Self::SHORT);
    /// 2⁵²² mod modulus: a product with it brings a number into Montgomery form.
    const SQUARED_RADIX: Short = power_of_two(2 * BITS * COUNT, &Self::SHORT);
}

/// The modulus of the coordinates of points.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct BaseModulus;

impl Modulus for BaseModulus {
    const MODULUS: Limbs =
        [0xd87c_fd47, 0x3c20_8c16, 0x6871_ca8d, 0x9781_6a91, 0x8181_585d, 0xb850_45b6, 0xe131_a029, 0x3064_4e72];
}

/// The modulus of scalars: the order of the groups, and the field of the circuit.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ScalarModulus;

impl Modulus for ScalarModulus {
    const MODULUS: Limbs =
        [0xf000_0001, 0x43e1_f593, 0x79b9_7091, 0x2833_e848, 0x8181_585d, 0xb850_45b6, 0xe131_a029, 0x3064_4e72];
}

/// Newton's iteration for an inverse modulo 2³²: each step doubles the number of correct bits.
const fn negated_inverse(odd: u32) -> u32 {
    let mut inverse = odd;
    let mut step = 0;
    while step < 4 {
        inverse = inverse.wrapping_mul(2u32.wrapping_sub(odd.wrapping_mul(inverse)));
        step += 1;
    }
    inverse.wrapping_neg()
}

const fn power_of_two(exponent: usize, modulus: &Short) -> Short {
    let mut power = [1, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut step = 0;
    while step < exponent {
        power = add(&power, &power, modulus);
        step += 1;
    }
    power
}

const fn to_short(number: &Limbs) -> Short {
    let (mut short, mut i) = ([0; COUNT], 0);
    while i < COUNT {
        let (limb, shift) = (i * BITS / 32, i * BITS % 32);
        let higher = if limb < 7 { number[limb + 1] } else { 0 };
        short[i] = ((number[limb] as u64 | (higher as u64) << 32) >> shift) as u32 & MASK;
        i += 1;
    }
    short
}

fn from_short(short: &Short) -> Limbs {
    let mut number = [0; 8];
    for (i, part) in short.iter().enumerate() {
        let (limb, shift) = (i * BITS / 32, i * BITS % 32);
        let bits = u64::from(*part) << shift;
        number[limb] |= bits as u32;
        if limb < 7 {
            number[limb + 1] |= (bits >> 32) as u32;
        }
    }
    number
}

/// Takes the carries of a number between −modulus and modulus, and adds the modulus to a negative
/// number. The limbs that it is given may be negative and have up to 63 bits.
#[inline(always)]
const fn settle(limbs: &[i64; COUNT], modulus: &Short) -> Short {
    let (mut settled, mut carry, mut i) = ([0; COUNT], 0, 0);
    while i < COUNT {
        carry += limbs[i];
        settled[i] = carry as u32 & MASK;
        carry >>= BITS;
        i += 1;
    }
    // What is carried out of the highest limb is the sign: all bits are ones, or zeros.
    let (is_negative, mut carry, mut i) = (carry as u32, 0, 0);
    while i < COUNT {
        carry += settled[i] + (modulus[i] & is_negative);
        settled[i] = carry & MASK;
        carry >>= BITS;
        i += 1;
    }
    settled
}

/// `a + b mod modulus`, for numbers below the modulus.
#[inline(always)]
const fn add(a: &Short, b: &Short, modulus: &Short) -> Short {
    let (mut sum, mut i) = ([0; COUNT], 0);
    while i < COUNT {
        sum[i] = a[i] as i64 + b[i] as i64 - modulus[i] as i64;
        i += 1;
    }
    settle(&sum, modulus)
}

/// Whether `a < b`, as a mask: all bits are ones, or zeros.
fn is_below(a: &Limbs, b: &Limbs) -> u32 {
    let borrow = a.iter().zip(b).fold(0, |borrow, (a, b)| (borrow + i64::from(*a) - i64::from(*b)) >> 32);
    borrow as u32
}

/// The bytes of a number, the highest first.
fn to_bytes(limbs: &Limbs) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (part, limb) in bytes.chunks_exact_mut(4).zip(limbs.iter().rev()) {
        part.copy_from_slice(&limb.to_be_bytes());
    }
    bytes
}

/// The number of which these are the bytes, the highest first.
fn from_bytes(bytes: &[u8; 32]) -> Limbs {
    let mut limbs = [0; 8];
    for (limb, part) in limbs.iter_mut().rev().zip(bytes.chunks_exact(4)) {
        *limb = u32::from_be_bytes([part[0], part[1], part[2], part[3]]);
    }
    limbs
}

/// Repeats a block for each limb, with its index as a constant. The compiler does not unroll a loop
/// of this length, and would keep the limbs in memory.
macro_rules! for_each_limb {
    ($index:ident, $block:block) => {
        for_each_limb!(@ $index, $block, 0 1 2 3 4 5 6 7 8)
    };
    (@ $index:ident, $block:block, $($number:literal)*) => {
        $({
            const $index: usize = $number;
            $block
        })*
    };
}

/// Montgomery's product, `a · b / 2²⁶¹`, of numbers below twice the modulus: a number below twice
/// the modulus, whose limbs have up to 63 bits.
#[inline(always)]
fn product<M: Modulus>(a: &Short, b: &Short) -> [i64; COUNT] {
    let mut sums = [0; 2 * COUNT];
    for_each_limb!(I, {
        for j in 0..COUNT {
            sums[I + j] += u64::from(a[I]) * u64::from(b[j]);
        }
    });
    divide_by_radix::<M>(sums)
}

/// The product of a number with itself. Of the products of two different limbs each is computed
/// once.
#[inline(always)]
fn square<M: Modulus>(a: &Short) -> [i64; COUNT] {
    let mut sums = [0; 2 * COUNT];
    for_each_limb!(I, {
        sums[2 * I] += u64::from(a[I]) * u64::from(a[I]);
        for j in 0..COUNT {
            if I < j {
                sums[I + j] += u64::from(2 * a[I]) * u64::from(a[j]);
            }
        }
    });
    divide_by_radix::<M>(sums)
}

/// Divides a number by 2²⁶¹. Each step adds the multiple of the modulus that makes the lowest limb
/// zero, and drops that limb. A limb gets at most eighteen products of 58 bits, and a carry.
#[inline(always)]
fn divide_by_radix<M: Modulus>(mut sums: [u64; 2 * COUNT]) -> [i64; COUNT] {
    for_each_limb!(I, {
        let multiple = u64::from((sums[I] as u32).wrapping_mul(M::NEGATED_INVERSE) & MASK);
        for j in 0..COUNT {
            sums[I + j] += multiple * u64::from(M::SHORT[j]);
        }
        sums[I + 1] += sums[I] >> BITS;
    });
    let mut quotient = [0; COUNT];
    for (i, limb) in quotient.iter_mut().enumerate() {
        *limb = sums[COUNT + i] as i64;
    }
    quotient
}

/// Takes the carries of a number that is not negative.
#[inline(always)]
fn carried(limbs: &[i64; COUNT]) -> Short {
    let (mut short, mut carry) = ([0; COUNT], 0);
    for (limb, sum) in short.iter_mut().zip(limbs) {
        carry += *sum;
        *limb = carry as u32 & MASK;
        carry >>= BITS;
    }
    short
}

/// The square of a number below twice the modulus, below twice the modulus.
#[inline(never)]
fn square_below_twice<M: Modulus>(a: &Short) -> Short {
    carried(&square::<M>(a))
}

/// `number mod modulus`, for a number below twice the modulus.
#[inline(always)]
fn reduced<M: Modulus>(mut number: [i64; COUNT]) -> Short {
    for (limb, modulus) in number.iter_mut().zip(M::SHORT) {
        *limb -= i64::from(modulus);
    }
    settle(&number, &M::SHORT)
}

/// What the curves need of a field.
pub trait Field:
    Copy + PartialEq + Add<Output = Self> + Sub<Output = Self> + Mul<Output = Self> + Neg<Output = Self>
{
    /// The neutral element of addition.
    const ZERO: Self;
    /// The neutral element of multiplication.
    const ONE: Self;

    /// The inverse; zero for zero.
    #[must_use]
    fn inverse(self) -> Self;

    /// The product with itself.
    #[must_use]
    #[inline]
    fn square(self) -> Self {
        self * self
    }

    /// The sum with itself.
    #[must_use]
    #[inline]
    fn double(self) -> Self {
        self + self
    }
}

/// A field of which the coordinates of points are.
pub trait Coordinate: Field {
    /// The constant `b` of the curve's equation `y² = x³ + b`.
    fn curve_constant() -> Self;

    /// A square root, when there is one.
    fn root(self) -> Option<Self>;

    /// Whether the element is greater than its negative. Elements are compared as numbers, those of
    /// the extension by their imaginary parts and then by their real parts.
    fn is_greater_than_negative(self) -> bool;
}

/// An element of a prime field, in Montgomery form.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Element<M>(Short, PhantomData<M>);

/// A coordinate of a point of the first group.
pub type Base = Element<BaseModulus>;

/// A scalar, and a value of the circuit.
pub type Scalar = Element<ScalarModulus>;

impl<M: Modulus> Element<M> {
    const fn from_montgomery(limbs: Short) -> Self {
        Self(limbs, PhantomData)
    }

    /// The element of a number, unless the number is not below the modulus.
    pub fn from_limbs(number: &Limbs) -> Option<Self> {
        (is_below(number, &M::MODULUS) != 0).then(|| Self::from_number(number))
    }

    /// The element of a number that is below the modulus.
    fn from_number(number: &Limbs) -> Self {
        Self::from_montgomery(to_short(number)) * Self::from_montgomery(M::SQUARED_RADIX)
    }

    /// The element as a number below the modulus.
    pub fn to_limbs(self) -> Limbs {
        from_short(&(self * Self::from_montgomery([1, 0, 0, 0, 0, 0, 0, 0, 0])).0)
    }

    /// The element of a number in 32 bytes, the highest first, unless the number is not below the
    /// modulus.
    pub fn from_bytes(bytes: &[u8; 32]) -> Option<Self> {
        Self::from_limbs(&from_bytes(bytes))
    }

    /// The element as a number in 32 bytes, the highest first.
    pub fn to_bytes(self) -> [u8; 32] {
        to_bytes(&self.to_limbs())
    }

    /// A number of 48 bytes, the highest first, modulo the modulus. Of random bytes the result is
    /// uniform but for a difference of 2⁻¹³⁰.
    pub fn from_wide_bytes(bytes: &[u8; 48]) -> Self {
        let shift = Self::from_number(&[0, 0, 0, 0, 1, 0, 0, 0]);
        let mut element = Self::default();
        for chunk in bytes.chunks_exact(16) {
            let mut low = [0; 32];
            low[16..].copy_from_slice(chunk);
            // 16 bytes are below the modulus.
            element = element * shift + Self::from_number(&from_bytes(&low));
        }
        element
    }

    /// The element of a small number.
    pub fn small(number: u32) -> Self {
        Self::from_number(&[number, 0, 0, 0, 0, 0, 0, 0])
    }

    /// The product with itself.
    #[inline(never)]
    fn squared(self) -> Self {
        Self::from_montgomery(reduced::<M>(square::<M>(&self.0)))
    }

    /// The power with a public exponent, up to five bits of it at a time. The numbers on the way
    /// stay below twice the modulus; only the last one is reduced.
    #[must_use]
    pub fn power(self, exponent: &Limbs) -> Self {
        let multiply = |a: &Short, b: &Short| carried(&product::<M>(a, b));
        let squared = square_below_twice::<M>(&self.0);
        let mut odd_powers = [self.0; 16];
        for i in 1..16 {
            odd_powers[i] = multiply(&odd_powers[i - 1], &squared);
        }
        let bit = |place: usize| exponent[place / 32] >> (place % 32) & 1;
        let mut result = M::ONE;
        let mut place = 256;
        while place > 0 {
            // The next bits that begin and end with a one, or a single zero.
            let mut end = place - 1;
            if bit(end) == 1 {
                end = place.saturating_sub(5);
                while bit(end) == 0 {
                    end += 1;
                }
            }
            for _ in end..place {
                result = square_below_twice::<M>(&result);
            }
            let digit = (end..place).rev().fold(0, |digit, place| digit << 1 | bit(place));
            if digit != 0 {
                result = multiply(&result, &odd_powers[digit as usize / 2]);
            }
            place = end;
        }
        Self::from_montgomery(reduced::<M>(result.map(i64::from)))
    }

    /// The inverse by Fermat's little theorem: the power with the modulus − 2.
    fn fermat_inverse(self) -> Self {
        let mut exponent = M::MODULUS;
        exponent[0] -= 2;
        self.power(&exponent)
    }
}

impl<M: Modulus> Default for Element<M> {
    /// Zero.
    fn default() -> Self {
        Self::from_montgomery([0; COUNT])
    }
}

impl<M: Modulus> Add for Element<M> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::from_montgomery(add(&self.0, &other.0, &M::SHORT))
    }
}

impl<M: Modulus> Sub for Element<M> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let mut difference = [0; COUNT];
        for (i, limb) in difference.iter_mut().enumerate() {
            *limb = i64::from(self.0[i]) - i64::from(other.0[i]);
        }
        Self::from_montgomery(settle(&difference, &M::SHORT))
    }
}

impl<M: Modulus> Neg for Element<M> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        Self::default() - self
    }
}

impl<M: Modulus> Mul for Element<M> {
    type Output = Self;

    #[inline(never)]
    fn mul(self, other: Self) -> Self {
        Self::from_montgomery(reduced::<M>(product::<M>(&self.0, &other.0)))
    }
}

impl<M: Modulus> fmt::Debug for Element<M> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("0x")?;
        self.to_limbs().iter().rev().try_for_each(|limb| write!(formatter, "{limb:08x}"))
    }
}

/// A number without its lowest bits, of which there are fewer than 32.
pub fn shift_right(number: &Limbs, bits: u32) -> Limbs {
    let mut shifted = [0; 8];
    for i in 0..8 {
        let higher = if i < 7 { number[i + 1] } else { 0 };
        shifted[i] = ((u64::from(number[i]) | u64::from(higher) << 32) >> bits) as u32;
    }
    shifted
}

/// Whether a number is greater than half of the modulus, which is odd.
fn is_in_upper_half(element: Base) -> bool {
    let half = shift_right(&BaseModulus::MODULUS, 1);
    is_below(&half, &element.to_limbs()) != 0
}

impl Base {
    /// For a square `a`, the inverse of its root; for another `a` of the field, the number `t` with
    /// `a · t² = −1`; zero for zero. It is the power with (modulus − 3) / 4, since the modulus is 3
    /// modulo 4.
    fn inverse_root(self) -> Self {
        self.power(&shift_right(&BaseModulus::MODULUS, 2))
    }

    fn half(self) -> Self {
        /// Half of one in Montgomery form.
        const HALF: Short = half_of_one();
        self * Self::from_montgomery(HALF)
    }
}

/// Half of one in Montgomery form: 2²⁶⁰ mod modulus.
const fn half_of_one() -> Short {
    power_of_two(BITS * COUNT - 1, &BaseModulus::SHORT)
}

impl Field for Base {
    const ZERO: Self = Self::from_montgomery([0; COUNT]);
    const ONE: Self = Self::from_montgomery(BaseModulus::ONE);

    fn inverse(self) -> Self {
        self.fermat_inverse()
    }

    fn square(self) -> Self {
        self.squared()
    }
}

impl Coordinate for Base {
    fn curve_constant() -> Self {
        Self::small(3)
    }

    fn root(self) -> Option<Self> {
        let root = self * self.inverse_root();
        (root.square() == self).then_some(root)
    }

    fn is_greater_than_negative(self) -> bool {
        is_in_upper_half(self)
    }
}

impl Field for Scalar {
    const ZERO: Self = Self::from_montgomery([0; COUNT]);
    const ONE: Self = Self::from_montgomery(ScalarModulus::ONE);

    fn inverse(self) -> Self {
        self.fermat_inverse()
    }

    fn square(self) -> Self {
        self.squared()
    }
}

/// `real + imaginary · u` with `u² = −1`: a coordinate of a point of the second group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extension {
    /// The part without `u`.
    pub real: Base,
    /// The factor of `u`.
    pub imaginary: Base,
}

impl Extension {
    /// An element from its two parts.
    pub const fn new(real: Base, imaginary: Base) -> Self {
        Self { real, imaginary }
    }
}

impl Add for Extension {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::new(self.real + other.real, self.imaginary + other.imaginary)
    }
}

impl Sub for Extension {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self::new(self.real - other.real, self.imaginary - other.imaginary)
    }
}

impl Neg for Extension {
    type Output = Self;

    fn neg(self) -> Self {
        Self::new(-self.real, -self.imaginary)
    }
}

impl Mul for Extension {
    type Output = Self;

    /// Karatsuba's product: three products of the base field.
    fn mul(self, other: Self) -> Self {
        let (real, imaginary) = (self.real * other.real, self.imaginary * other.imaginary);
        let both = (self.real + self.imaginary) * (other.real + other.imaginary);
        Self::new(real - imaginary, both - real - imaginary)
    }
}

impl Field for Extension {
    const ZERO: Self = Self::new(Base::ZERO, Base::ZERO);
    const ONE: Self = Self::new(Base::ONE, Base::ZERO);

    fn square(self) -> Self {
        let cross = self.real * self.imaginary;
        Self::new((self.real + self.imaginary) * (self.real - self.imaginary), cross.double())
    }

    /// The conjugate divided by the norm.
    fn inverse(self) -> Self {
        let inverse_norm = (self.real.square() + self.imaginary.square()).inverse();
        Self::new(self.real * inverse_norm, -self.imaginary * inverse_norm)
    }
}

impl Coordinate for Extension {
    /// 3 / (9 + u): the curve of the second group is a sextic twist.
    fn curve_constant() -> Self {
        Self::new(Base::small(3), Base::ZERO) * Self::new(Base::small(9), Base::ONE).inverse()
    }

    /// The complex method. An element is a square when its norm is one in the base field. With
    /// `h = (real + root of the norm) / 2` and `t` the inverse root of `h`, the root is
    /// `h·t + (imaginary·t/2)·u`, or, where `h` has no root, `−imaginary·t/2 + (h·t)·u`.
    fn root(self) -> Option<Self> {
        if self.imaginary == Base::ZERO {
            let real = self.real.root().map(|root| Self::new(root, Base::ZERO));
            return real.or_else(|| (-self.real).root().map(|root| Self::new(Base::ZERO, root)));
        }
        let norm = (self.real.square() + self.imaginary.square()).root()?;
        let h = (self.real + norm).half();
        let t = h.inverse_root();
        let (long, short) = (h * t, (self.imaginary * t).half());
        let has_root = long * t == Base::ONE;
        Some(if has_root { Self::new(long, short) } else { Self::new(-short, long) })
    }

    fn is_greater_than_negative(self) -> bool {
        let part = if self.imaginary == Base::ZERO { self.real } else { self.imaginary };
        part.is_greater_than_negative()
    }
}

//! The two prime fields of BN254, and the quadratic extension of the base field.
//!
//! Elements are in Montgomery form: the limbs hold `value · 2²⁵⁶ mod modulus`. Limbs have 32 bits,
//! because WebAssembly multiplies 64 bits by 64 bits to 64 bits at most. The native build has the
//! same limbs, so that the tests run the arithmetic that the browser runs.
//!
//! Sums, differences, products and conversions take no branch on their operands and read no memory
//! at an address that depends on them. Comparisons, and what is built on them, do.

use core::fmt;
use core::marker::PhantomData;
use core::ops::{Add, Mul, Neg, Sub};

/// A number below 2²⁵⁶; the lowest limb is the first.
pub type Limbs = [u32; 8];

/// The modulus of a prime field. It is odd and below 2²⁵⁴, which the carries below rely on.
pub trait Modulus: Copy + PartialEq + Eq {
    /// The modulus itself.
    const MODULUS: Limbs;
    /// −modulus⁻¹ mod 2³².
    const NEGATED_INVERSE: u32 = negated_inverse(Self::MODULUS[0]);
    /// 2²⁵⁶ mod modulus: one in Montgomery form.
    const ONE: Limbs = power_of_two(256, &Self::MODULUS);
    /// 2⁵¹² mod modulus: a product with it brings a number into Montgomery form.
    const SQUARED_RADIX: Limbs = power_of_two(512, &Self::MODULUS);
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

const fn power_of_two(exponent: usize, modulus: &Limbs) -> Limbs {
    let mut power = [1, 0, 0, 0, 0, 0, 0, 0];
    let mut step = 0;
    while step < exponent {
        power = reduce(&add_limbs(&power, &power), modulus);
        step += 1;
    }
    power
}

/// The sum of two numbers below 2²⁵⁵.
#[inline(always)]
const fn add_limbs(a: &Limbs, b: &Limbs) -> Limbs {
    let (mut sum, mut carry, mut i) = ([0; 8], 0u64, 0);
    while i < 8 {
        carry += a[i] as u64 + b[i] as u64;
        sum[i] = carry as u32;
        carry >>= 32;
        i += 1;
    }
    sum
}

/// `a − b` modulo 2²⁵⁶, and a mask: all bits are ones when `a < b`, and zeros otherwise.
#[inline(always)]
const fn subtract_limbs(a: &Limbs, b: &Limbs) -> (Limbs, u32) {
    let (mut difference, mut borrow, mut i) = ([0; 8], 0i64, 0);
    while i < 8 {
        borrow += a[i] as i64 - b[i] as i64;
        difference[i] = borrow as u32;
        borrow >>= 32;
        i += 1;
    }
    (difference, borrow as u32)
}

/// `number mod modulus`, for a number below twice the modulus.
#[inline(always)]
const fn reduce(number: &Limbs, modulus: &Limbs) -> Limbs {
    let (mut reduced, is_below) = subtract_limbs(number, modulus);
    let mut i = 0;
    while i < 8 {
        reduced[i] ^= (reduced[i] ^ number[i]) & is_below;
        i += 1;
    }
    reduced
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
pub struct Element<M>(Limbs, PhantomData<M>);

/// A coordinate of a point of the first group.
pub type Base = Element<BaseModulus>;

/// A scalar, and a value of the circuit.
pub type Scalar = Element<ScalarModulus>;

impl<M: Modulus> Element<M> {
    const fn from_montgomery(limbs: Limbs) -> Self {
        Self(limbs, PhantomData)
    }

    /// The element of a number, unless the number is not below the modulus.
    pub fn from_limbs(number: &Limbs) -> Option<Self> {
        let (_, is_below) = subtract_limbs(number, &M::MODULUS);
        (is_below != 0).then(|| Self::from_montgomery(*number) * Self::from_montgomery(M::SQUARED_RADIX))
    }

    /// The element as a number below the modulus.
    pub fn to_limbs(self) -> Limbs {
        (self * Self::from_montgomery([1, 0, 0, 0, 0, 0, 0, 0])).0
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
        let shift = Self::from_montgomery([0, 0, 0, 0, 1, 0, 0, 0]);
        let radix = Self::from_montgomery(M::SQUARED_RADIX);
        let mut element = Self::default();
        for chunk in bytes.chunks_exact(16) {
            let mut low = [0; 32];
            low[16..].copy_from_slice(chunk);
            // 16 bytes are below the modulus.
            let chunk = Self::from_montgomery(from_bytes(&low)) * radix;
            element = element * (shift * radix) + chunk;
        }
        element
    }

    /// The element of a small number.
    pub fn small(number: u32) -> Self {
        Self::from_montgomery([number, 0, 0, 0, 0, 0, 0, 0]) * Self::from_montgomery(M::SQUARED_RADIX)
    }

    /// The power with a public exponent, four bits of it at a time.
    #[must_use]
    pub fn power(self, exponent: &Limbs) -> Self {
        let mut powers = [Self::from_montgomery(M::ONE); 16];
        for i in 1..16 {
            powers[i] = powers[i - 1] * self;
        }
        let mut result = powers[0];
        for i in (0..64).rev() {
            for _ in 0..4 {
                result = result * result;
            }
            let digit = exponent[i / 8] >> (4 * (i % 8)) & 15;
            if digit != 0 {
                result = result * powers[digit as usize];
            }
        }
        result
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
        Self::from_montgomery([0; 8])
    }
}

impl<M: Modulus> Add for Element<M> {
    type Output = Self;

    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self::from_montgomery(reduce(&add_limbs(&self.0, &other.0), &M::MODULUS))
    }
}

impl<M: Modulus> Sub for Element<M> {
    type Output = Self;

    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        let (mut difference, is_below) = subtract_limbs(&self.0, &other.0);
        let mut carry = 0u64;
        for (limb, modulus) in difference.iter_mut().zip(&M::MODULUS) {
            carry += u64::from(*limb) + u64::from(modulus & is_below);
            *limb = carry as u32;
            carry >>= 32;
        }
        Self::from_montgomery(difference)
    }
}

impl<M: Modulus> Neg for Element<M> {
    type Output = Self;

    #[inline(always)]
    fn neg(self) -> Self {
        Self::from_montgomery([0; 8]) - self
    }
}

impl<M: Modulus> Mul for Element<M> {
    type Output = Self;

    /// Montgomery's product, `a · b / 2²⁵⁶`. Each step adds `a · bᵢ` and the multiple of the
    /// modulus that makes the lowest limb zero, and drops that limb. What is kept stays below twice
    /// the modulus, which is below 2²⁵⁵: the two carries of the highest limb have a sum below 2³².
    #[inline(never)]
    fn mul(self, other: Self) -> Self {
        let a = &self.0;
        let mut kept = [0u32; 8];
        for factor in other.0 {
            let factor = u64::from(factor);
            let product = u64::from(kept[0]) + u64::from(a[0]) * factor;
            let multiple = u64::from((product as u32).wrapping_mul(M::NEGATED_INVERSE));
            let mut product_carry = product >> 32;
            let mut multiple_carry = (u64::from(product as u32) + multiple * u64::from(M::MODULUS[0])) >> 32;
            for i in 1..8 {
                let product = u64::from(kept[i]) + u64::from(a[i]) * factor + product_carry;
                product_carry = product >> 32;
                let sum = u64::from(product as u32) + multiple * u64::from(M::MODULUS[i]) + multiple_carry;
                kept[i - 1] = sum as u32;
                multiple_carry = sum >> 32;
            }
            kept[7] = (product_carry + multiple_carry) as u32;
        }
        Self::from_montgomery(reduce(&kept, &M::MODULUS))
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
    subtract_limbs(&half, &element.to_limbs()).1 != 0
}

impl Base {
    /// For a square `a`, the inverse of its root; for another `a` of the field, the number `t` with
    /// `a · t² = −1`; zero for zero. It is the power with (modulus − 3) / 4, since the modulus is 3
    /// modulo 4.
    fn inverse_root(self) -> Self {
        self.power(&shift_right(&BaseModulus::MODULUS, 2))
    }

    fn half(self) -> Self {
        /// (modulus + 1) / 2 in Montgomery form is half of one.
        const HALF: Limbs = half_of_one();
        self * Self::from_montgomery(HALF)
    }
}

/// Half of one in Montgomery form: one, or the sum of one and the modulus, is even.
const fn half_of_one() -> Limbs {
    let mut even = BaseModulus::ONE;
    if even[0] & 1 == 1 {
        even = add_limbs(&even, &BaseModulus::MODULUS);
    }
    let mut i = 0;
    while i < 8 {
        let higher = if i < 7 { even[i + 1] << 31 } else { 0 };
        even[i] = even[i] >> 1 | higher;
        i += 1;
    }
    even
}

impl Field for Base {
    const ZERO: Self = Self::from_montgomery([0; 8]);
    const ONE: Self = Self::from_montgomery(BaseModulus::ONE);

    fn inverse(self) -> Self {
        self.fermat_inverse()
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
    const ZERO: Self = Self::from_montgomery([0; 8]);
    const ONE: Self = Self::from_montgomery(ScalarModulus::ONE);

    fn inverse(self) -> Self {
        self.fermat_inverse()
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

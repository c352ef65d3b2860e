//! What follows from a modulus, computed by the compiler.

use std::marker::PhantomData;

use ark_ff::MontConfig;

/// Limbs of an element.
pub(super) const LIMBS: usize = 5;

/// Bits of a limb.
const BITS: u32 = 52;

/// A number of 260 bits, least significant limb first.
pub(super) type Limbs = [u64; LIMBS];

/// The greatest limb.
pub(super) const LIMB: u64 = (1 << BITS) - 1;

/// The numbers that the arithmetic of a field needs.
pub(super) struct Modulus<C>(PhantomData<C>);

impl<C: MontConfig<4>> Modulus<C> {
    /// The modulus.
    pub(super) const LIMBS: Limbs = split(C::MODULUS.0);

    /// `k`: minus the modulus's inverse, modulo `2^52`.
    pub(super) const FACTOR: u64 = {
        // Each step of Newton's iteration doubles the number of right bits; 1 has one.
        let (modulus, mut inverse, mut step) = (C::MODULUS.0[0], 1u64, 0);
        while step < 6 {
            inverse = inverse.wrapping_mul(2u64.wrapping_sub(modulus.wrapping_mul(inverse)));
            step += 1;
        }
        inverse.wrapping_neg() & LIMB
    };

    /// `(k · p + 1) / 2^52`.
    pub(super) const FRIENDLY: Limbs = {
        let (modulus, mut product, mut carry, mut index) = (Self::LIMBS, [0; LIMBS + 1], 1u128, 0);
        while index < LIMBS {
            carry += modulus[index] as u128 * Self::FACTOR as u128;
            product[index] = carry as u64 & LIMB;
            carry >>= BITS;
            index += 1;
        }
        assert!(product[0] == 0, "the factor is wrong");
        [product[1], product[2], product[3], product[4], carry as u64]
    };

    /// What a number of 256-bit Montgomery form is multiplied with to get that of 260 bits.
    pub(super) const FROM_256: Limbs = Self::power_of_two(264);

    /// What a number of 260-bit Montgomery form is multiplied with to get that of 256 bits.
    pub(super) const TO_256: Limbs = Self::power_of_two(256);

    /// What a number is multiplied with to get its Montgomery form.
    pub(super) const FROM_NUMBER: Limbs = Self::power_of_two(520);

    /// Multiples of the modulus for [`super::Sum::reduce`]: limb `i` of the multiple that is
    /// subtracted from a number from `j · 2^255` up to the next `j` is in row `i` and column `j`.
    pub(super) const MULTIPLES: [[u64; 8]; LIMBS] = {
        let (mut table, mut column, mut factor) = ([[0; 8]; LIMBS], 0, 0);
        while column < 8 {
            // 2^255 is bit 47 of the highest limb.
            while Self::multiple(factor + 1)[4] < (column as u64) << 47 {
                factor += 1;
            }
            let multiple = Self::multiple(factor);
            let mut row = 0;
            while row < LIMBS {
                table[row][column] = multiple[row];
                row += 1;
            }
            column += 1;
        }
        table
    };

    /// A multiple of the modulus below `2^260`.
    pub(super) const fn multiple(factor: u64) -> Limbs {
        let (mut product, mut carry, mut index) = ([0; LIMBS], 0u128, 0);
        while index < LIMBS {
            carry += Self::LIMBS[index] as u128 * factor as u128;
            product[index] = carry as u64 & LIMB;
            carry >>= BITS;
            index += 1;
        }
        assert!(carry == 0, "the multiple has more than 260 bits");
        product
    }

    /// A multiple of the modulus's square, in ten limbs.
    pub(super) const fn square_multiple(factor: u64) -> [u64; 2 * LIMBS] {
        let (modulus, left) = (Self::LIMBS, Self::multiple(factor));
        let (mut product, mut row) = ([0; 2 * LIMBS], 0);
        while row < LIMBS {
            let (mut carry, mut column) = (0u128, 0);
            while column < LIMBS {
                carry += product[row + column] as u128 + left[row] as u128 * modulus[column] as u128;
                product[row + column] = carry as u64 & LIMB;
                carry >>= BITS;
                column += 1;
            }
            product[row + LIMBS] = carry as u64;
            row += 1;
        }
        product
    }

    /// Whether a number of at most `bound` times the modulus has 260 bits.
    pub(super) const fn fits(bound: u64) -> bool {
        (Self::LIMBS[4] + 1) * bound <= 1 << BITS
    }

    /// Whether a number of at most `bound` times the modulus is below `2^258`, so that its bits
    /// from 255 on are an index of [`Self::MULTIPLES`], and whether a number below `2^255` plus
    /// the modulus is at most four times the modulus.
    pub(super) const fn fits_table(bound: u64) -> bool {
        (Self::LIMBS[4] + 1) * bound <= 8 << 47 && (1 << 47) < 3 * Self::LIMBS[4]
    }

    /// Whether the reduction of a product of at most `bound` times the square of the modulus gives
    /// less than `result` times the modulus.
    ///
    /// The four steps with `N = k · p` make `V < bound · p² / 2^208 + N` of the product, the last
    /// one `(V + m · p) / 2^52` with `m < 2^52`: less than `p · (bound · p / 2^260 + k / 2^52 +
    /// 1)`.
    pub(super) const fn product_fits(bound: u64, result: u64) -> bool {
        (Self::LIMBS[4] + 1) * bound + Self::FACTOR <= (result - 1) << BITS
    }

    /// A power of two modulo the modulus.
    const fn power_of_two(exponent: u32) -> Limbs {
        let (modulus, mut power, mut step) = (C::MODULUS.0, [1, 0, 0, 0], 0);
        while step < exponent {
            power = double(power, modulus);
            step += 1;
        }
        split(power)
    }
}

/// Twice a number, modulo a modulus below `2^255`.
const fn double(number: [u64; 4], modulus: [u64; 4]) -> [u64; 4] {
    let (mut doubled, mut carry, mut index) = ([0; 4], 0, 0);
    while index < 4 {
        doubled[index] = number[index] << 1 | carry;
        carry = number[index] >> 63;
        index += 1;
    }
    let (mut reduced, mut borrow, mut index) = ([0; 4], false, 0);
    while index < 4 {
        let (difference, first) = doubled[index].overflowing_sub(modulus[index]);
        let (difference, second) = difference.overflowing_sub(borrow as u64);
        reduced[index] = difference;
        borrow = first || second;
        index += 1;
    }
    if borrow { doubled } else { reduced }
}

/// The limbs of a number.
#[inline(always)]
pub(super) const fn split(number: [u64; 4]) -> Limbs {
    let [a, b, c, d] = number;
    [a & LIMB, (a >> 52 | b << 12) & LIMB, (b >> 40 | c << 24) & LIMB, (c >> 28 | d << 36) & LIMB, d >> 16]
}

/// The number below `2^256` that has these limbs.
#[inline(always)]
pub(super) const fn join(limbs: Limbs) -> [u64; 4] {
    let [a, b, c, d, e] = limbs;
    [a | b << 52, b >> 12 | c << 40, c >> 24 | d << 28, d >> 36 | e << 16]
}

//! Eight 64-bit words, and who computes with them.

/// How many elements are computed at once.
pub const LANES: usize = 8;

/// Eight unsigned 64-bit words, one a lane. Operations act on each lane and wrap.
///
/// A value can only be made through [`Instructions`], so it is a proof that the processor has the
/// instructions that the operations need.
pub trait Words: Copy {
    /// The same number in each lane.
    fn splat(self, number: u64) -> Self;
    /// The numbers in the lanes.
    fn to_array(self) -> [u64; LANES];
    /// The sum.
    fn plus(self, other: Self) -> Self;
    /// The difference.
    fn minus(self, other: Self) -> Self;
    /// The bits that both have.
    fn and(self, other: Self) -> Self;
    /// The words shifted right by 52 bits, as signed numbers: the sign bit fills.
    fn carry(self) -> Self;
    /// The words shifted right by `BITS` bits.
    fn shift_right<const BITS: u32>(self) -> Self;
    /// `self` plus the low 52 bits of the product of the low 52 bits of `left` and `right`.
    fn plus_low_product(self, left: Self, right: Self) -> Self;
    /// `self` plus the bits from 52 on of the product of the low 52 bits of `left` and `right`.
    fn plus_high_product(self, left: Self, right: Self) -> Self;
    /// In each lane the number of `table` whose index is in the low three bits.
    fn look_up(self, table: &[u64; 8]) -> Self;
    /// A bit for each lane (lane 0 the lowest): whether its number as a signed one is negative.
    fn are_negative(self) -> u8;
    /// A bit for each lane: whether its number is 0.
    fn are_zero(self) -> u8;
    /// `other` in the lanes whose bit in `mask` is set, `self` in the others.
    fn replace(self, mask: u8, other: Self) -> Self;
}

/// The instructions of a processor.
pub trait Instructions: Copy {
    /// The words that they compute with.
    type Words: Words;
    /// Puts numbers into the lanes.
    fn words(self, numbers: &[u64; LANES]) -> Self::Words;
    /// Runs a kernel, compiled for these instructions.
    fn run<K: Kernel>(self, kernel: K) -> K::Output;
    /// Calls a step of a kernel, which is compiled as a function of its own.
    fn call<S: Step<Self>>(self, step: S) -> S::Output;
}

/// Code that is compiled for several sets of instructions.
///
/// [`Kernel::run`] and the functions on [`Words`] that it calls must be `#[inline(always)]`:
/// otherwise they are compiled without the instructions, and each operation becomes a call.
pub trait Kernel {
    /// What it computes.
    type Output;
    /// Computes it.
    fn run<I: Instructions>(self, instructions: I) -> Self::Output;
}

/// A part of a kernel that is called rather than compiled into its caller, with arguments that hold
/// words. A large kernel would not fit into the processor's cache of instructions as one function.
///
/// [`Step::run`] and the functions on [`Words`] that it calls must be `#[inline(always)]`, too.
pub trait Step<I: Instructions> {
    /// What it computes.
    type Output;
    /// Computes it.
    fn run(self, instructions: I) -> Self::Output;
}

/// Plain integer arithmetic, which every processor has.
#[derive(Clone, Copy, Debug)]
pub struct Portable;

/// The words of [`Portable`].
#[derive(Clone, Copy, Debug)]
pub struct PortableWords([u64; LANES]);

impl Instructions for Portable {
    type Words = PortableWords;
    fn words(self, numbers: &[u64; LANES]) -> PortableWords {
        PortableWords(*numbers)
    }
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
    fn call<S: Step<Self>>(self, step: S) -> S::Output {
        step.run(self)
    }
}

/// The bits of a limb.
const LIMB: u64 = (1 << 52) - 1;

impl PortableWords {
    // Inlined into a kernel these would be a hundred times as much code as vector instructions are.
    #[inline(never)]
    fn map2(self, other: Self, operation: impl Fn(u64, u64) -> u64) -> Self {
        Self(std::array::from_fn(|lane| operation(self.0[lane], other.0[lane])))
    }

    #[inline(never)]
    fn map3(self, left: Self, right: Self, operation: impl Fn(u64, u128) -> u64) -> Self {
        let product = |lane: usize| u128::from(left.0[lane] & LIMB) * u128::from(right.0[lane] & LIMB);
        Self(std::array::from_fn(|lane| operation(self.0[lane], product(lane))))
    }

    fn mask(self, condition: impl Fn(u64) -> bool) -> u8 {
        self.0.iter().rev().fold(0, |mask, number| mask << 1 | u8::from(condition(*number)))
    }
}

impl Words for PortableWords {
    fn splat(self, number: u64) -> Self {
        Self([number; LANES])
    }
    fn to_array(self) -> [u64; LANES] {
        self.0
    }
    fn plus(self, other: Self) -> Self {
        self.map2(other, u64::wrapping_add)
    }
    fn minus(self, other: Self) -> Self {
        self.map2(other, u64::wrapping_sub)
    }
    fn and(self, other: Self) -> Self {
        self.map2(other, |left, right| left & right)
    }
    fn carry(self) -> Self {
        Self(self.0.map(|number| (number.cast_signed() >> 52).cast_unsigned()))
    }
    fn shift_right<const BITS: u32>(self) -> Self {
        Self(self.0.map(|number| number >> BITS))
    }
    fn plus_low_product(self, left: Self, right: Self) -> Self {
        self.map3(left, right, |number, product| number.wrapping_add(product as u64 & LIMB))
    }
    fn plus_high_product(self, left: Self, right: Self) -> Self {
        self.map3(left, right, |number, product| number.wrapping_add((product >> 52) as u64))
    }
    fn look_up(self, table: &[u64; 8]) -> Self {
        Self(self.0.map(|index| table[(index & 7) as usize]))
    }
    fn are_negative(self) -> u8 {
        self.mask(|number| number.cast_signed() < 0)
    }
    fn are_zero(self) -> u8 {
        self.mask(|number| number == 0)
    }
    fn replace(self, mask: u8, other: Self) -> Self {
        Self(std::array::from_fn(|lane| if mask >> lane & 1 == 1 { other.0[lane] } else { self.0[lane] }))
    }
}

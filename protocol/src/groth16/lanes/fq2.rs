//! Eight elements of the extension that the coordinates of G2 are in.

use ark_bn254::{Fq, Fq2, FqConfig};

use crate::lanes::{Constant, Elements, Factor, Instructions, LANES, Sum, Words, sum_of_products};

/// Eight elements of the base field.
pub(super) type Fqs<W, const BOUND: u64 = 2> = Elements<W, FqConfig, BOUND>;

/// Elements of the extension that are prepared to be multiplied.
pub(super) type Fq2Factor<W, const BOUND: u64 = 2> = Factor<W, FqConfig, BOUND>;

/// Eight elements real + imaginary · i, each part at most `BOUND` times the modulus.
pub(super) struct Fq2s<W, const BOUND: u64 = 2> {
    pub real: Fqs<W, BOUND>,
    pub imaginary: Fqs<W, BOUND>,
}

/// An element that is put into all lanes at once.
pub(super) struct Fq2Constant {
    real: Constant<FqConfig>,
    imaginary: Constant<FqConfig>,
}

/// Nine times the elements.
#[inline(always)]
pub(super) fn nine_times<W: Words>(elements: Fqs<W>) -> Sum<W, FqConfig, 18> {
    elements.sum().double::<4>().double::<8>().double::<16>().add(elements.sum())
}

/// Three times the elements.
#[inline(always)]
pub(super) fn triple<W: Words>(elements: Fqs<W>) -> Fqs<W, 6> {
    elements.sum().double::<4>().add::<2, 6>(elements.sum()).carry()
}

impl Fq2Constant {
    pub(super) fn new(element: Fq2) -> Self {
        Self { real: Constant::new(element.c0), imaginary: Constant::new(element.c1) }
    }
}

impl<W: Words> Fq2s<W> {
    #[inline(always)]
    pub(super) fn load<I: Instructions<Words = W>>(instructions: I, element: impl Fn(usize) -> Fq2) -> Self {
        let real: [Fq; LANES] = std::array::from_fn(|lane| element(lane).c0);
        let imaginary: [Fq; LANES] = std::array::from_fn(|lane| element(lane).c1);
        Self { real: Fqs::load(instructions, &real), imaginary: Fqs::load(instructions, &imaginary) }
    }

    #[inline(always)]
    pub(super) fn splat<I: Instructions<Words = W>>(instructions: I, constant: &Fq2Constant) -> Self {
        let Fq2Constant { real, imaginary } = constant;
        Self { real: Fqs::splat(instructions, real).widen(), imaginary: Fqs::splat(instructions, imaginary).widen() }
    }

    /// The product.
    #[inline(always)]
    pub(super) fn mul<I: Instructions<Words = W>>(instructions: I, left: &Fq2Factor<W>, right: &Fq2Factor<W>) -> Self {
        Self::sum(instructions, [(left, right)])
    }

    /// The sum of products; see [`sum_of_products`].
    #[inline(always)]
    pub(super) fn sum<I: Instructions<Words = W>, const LEFT: u64, const RIGHT: u64, const COUNT: usize>(
        instructions: I,
        pairs: [(&Fq2Factor<W, LEFT>, &Fq2Factor<W, RIGHT>); COUNT],
    ) -> Self {
        let [real, imaginary] = sum_of_products(instructions, pairs);
        Self { real, imaginary }
    }

    /// The square: (a + b)(a - b) + 2ab·i.
    #[inline(always)]
    pub(super) fn square(self) -> Self {
        let Self { real, imaginary } = self;
        let difference: Fqs<W, 4> = real.sub(imaginary);
        Self { real: real.add::<2, 4>(imaginary).mul(difference), imaginary: real.add::<2, 4>(real).mul(imaginary) }
    }

    /// The product with 9 + i, the number that the tower of extensions is built on.
    #[inline(always)]
    pub(super) fn times_tower_constant(self) -> Fq2s<W, 4> {
        let Self { real, imaginary } = self;
        Fq2s {
            real: nine_times(real).add::<2, 20>(imaginary.neg().sum()).reduce(),
            imaginary: nine_times(imaginary).add::<2, 20>(real.sum()).reduce(),
        }
    }

    /// Three times the elements, reduced.
    #[inline(always)]
    pub(super) fn triple(self) -> Self {
        Self { real: triple(self.real).reduce(), imaginary: triple(self.imaginary).reduce() }
    }

    /// The difference, reduced.
    #[inline(always)]
    pub(super) fn sub_reduced(self, other: Self) -> Self {
        Self { real: self.real.sub_reduced(other.real), imaginary: self.imaginary.sub_reduced(other.imaginary) }
    }
}

impl<W: Words, const BOUND: u64> Fq2s<W, BOUND> {
    /// The elements, prepared to be multiplied.
    #[inline(always)]
    pub(super) fn factor(self) -> Fq2Factor<W, BOUND> {
        Factor::new(self.real, self.imaginary)
    }

    #[inline(always)]
    pub(super) fn widen<const RESULT: u64>(self) -> Fq2s<W, RESULT> {
        Fq2s { real: self.real.widen(), imaginary: self.imaginary.widen() }
    }

    #[inline(always)]
    pub(super) fn add<const OTHER: u64, const RESULT: u64>(self, other: Fq2s<W, OTHER>) -> Fq2s<W, RESULT> {
        Fq2s { real: self.real.add(other.real), imaginary: self.imaginary.add(other.imaginary) }
    }

    #[inline(always)]
    pub(super) fn sub<const OTHER: u64, const RESULT: u64>(self, other: Fq2s<W, OTHER>) -> Fq2s<W, RESULT> {
        Fq2s { real: self.real.sub(other.real), imaginary: self.imaginary.sub(other.imaginary) }
    }

    #[inline(always)]
    pub(super) fn neg(self) -> Self {
        Self { real: self.real.neg(), imaginary: self.imaginary.neg() }
    }

    /// The elements with -i in place of i.
    #[inline(always)]
    pub(super) fn conjugate(self) -> Self {
        Self { real: self.real, imaginary: self.imaginary.neg() }
    }

    /// The equivalent elements with the smallest bound.
    #[inline(always)]
    pub(super) fn reduce(self) -> Fq2s<W> {
        Fq2s { real: self.real.reduce(), imaginary: self.imaginary.reduce() }
    }

    /// The product with elements of the base field.
    #[inline(always)]
    pub(super) fn scale(self, factor: Fqs<W>) -> Fq2s<W> {
        Fq2s { real: self.real.mul(factor), imaginary: self.imaginary.mul(factor) }
    }

    /// A bit for each lane (lane 0 the lowest): whether the element is zero.
    #[inline(always)]
    pub(super) fn are_zero(self) -> u8 {
        self.real.are_zero() & self.imaginary.are_zero()
    }

    #[inline(always)]
    pub(super) fn store(self) -> [Fq2; LANES] {
        let (real, imaginary) = (self.real.store(), self.imaginary.store());
        std::array::from_fn(|lane| Fq2::new(real[lane], imaginary[lane]))
    }
}

impl<W: Copy, const BOUND: u64> Clone for Fq2s<W, BOUND> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy, const BOUND: u64> Copy for Fq2s<W, BOUND> {}

//! The extension fields of BN254, eight elements at once: Fq2, and Fq12 above it.

use ark_bn254::{Fq, Fq2, Fq6, Fq12, FqConfig};
use ark_ff::{AdditiveGroup, Field};

use selfsame_lanes::{Constant, Elements, Factor, Instructions, LANES, Step, Sum, Words, sum_of_products};

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

// Eight elements of the field that pairings have their values in.
//
// An element is a polynomial of degree 5 in w over the extension, modulo w⁶ = 9 + i. Each
// coefficient of a product is a sum of products of the factors' coefficients, with one reduction.

/// The coefficients, that of 1 first.
pub(super) struct Fq12s<W>([Fq2s<W>; 6]);

/// A line `one + first · w + third · w³` at a point.
pub(super) struct Line<W> {
    pub one: Fq2s<W>,
    pub first: Fq2s<W>,
    pub third: Fq2s<W>,
}

impl<W: Words> Fq12s<W> {
    pub(super) fn one<I: Instructions<Words = W>>(instructions: I) -> Self {
        let one = Fq2s::splat(instructions, &Fq2Constant::new(ark_bn254::Fq2::ONE));
        let zero = Fq2s::splat(instructions, &Fq2Constant::new(ark_bn254::Fq2::ZERO));
        Self([one, zero, zero, zero, zero, zero])
    }

    /// Squares the elements.
    #[inline(always)]
    pub(super) fn square<I: Instructions<Words = W>>(&mut self, instructions: I) {
        instructions.call(Square(self));
    }

    /// Multiplies the elements by lines.
    #[inline(always)]
    pub(super) fn mul_by_line<I: Instructions<Words = W>>(&mut self, instructions: I, line: &Line<W>) {
        instructions.call(MulByLine(self, line));
    }

    /// The elements as `ark` has them, whose polynomials are in w² first.
    #[inline(always)]
    pub(super) fn store(&self) -> [Fq12; LANES] {
        let coefficients = self.0.map(Fq2s::store);
        let part = |first: usize, lane: usize| {
            Fq6::new(coefficients[first][lane], coefficients[first + 2][lane], coefficients[first + 4][lane])
        };
        std::array::from_fn(|lane| Fq12::new(part(0, lane), part(1, lane)))
    }
}

struct Square<'a, W>(&'a mut Fq12s<W>);

impl<I: Instructions> Step<I> for Square<'_, I::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, instructions: I) {
        let Fq12s(coefficients) = self.0;
        let mut factors = [coefficients[0].factor(); 6];
        let mut wide = [coefficients[0].widen::<4>().factor(); 6];
        let mut doubled = wide;
        // Multiplied by w⁶.
        let mut wrapped = factors;
        for (index, coefficient) in coefficients.iter().enumerate() {
            factors[index] = coefficient.factor();
            wide[index] = coefficient.widen::<4>().factor();
            doubled[index] = coefficient.add::<2, 4>(*coefficient).factor();
            if index >= 3 {
                wrapped[index] = coefficient.times_tower_constant().reduce().factor();
            }
        }
        let [f0, f1, f2, f3, f4, f5] = &wide;
        let [g0, g1, g2, g3, g4, g5] = &factors;
        let [d0, d1, d2, d3, d4, _] = &doubled;
        let [_, _, _, x3, x4, x5] = &wrapped;
        *coefficients = [
            Fq2s::sum(instructions, [(f0, g0), (d1, x5), (d2, x4), (f3, x3)]),
            Fq2s::sum(instructions, [(d0, g1), (d2, x5), (d3, x4)]),
            Fq2s::sum(instructions, [(d0, g2), (f1, g1), (d3, x5), (f4, x4)]),
            Fq2s::sum(instructions, [(d0, g3), (d1, g2), (d4, x5)]),
            Fq2s::sum(instructions, [(d0, g4), (d1, g3), (f2, g2), (f5, x5)]),
            Fq2s::sum(instructions, [(d0, g5), (d1, g4), (d2, g3)]),
        ];
    }
}

struct MulByLine<'a, W>(&'a mut Fq12s<W>, &'a Line<W>);

impl<I: Instructions> Step<I> for MulByLine<'_, I::Words> {
    type Output = ();

    #[inline(always)]
    fn run(self, instructions: I) {
        let Self(Fq12s(coefficients), Line { one, first, third }) = self;
        let mut factors = [coefficients[0].factor(); 6];
        for (factor, coefficient) in factors.iter_mut().zip(&*coefficients) {
            *factor = coefficient.factor();
        }
        let plain = [one.widen::<4>().factor(), first.widen::<4>().factor(), third.widen::<4>().factor()];
        // Multiplied by w⁶.
        let wrapped = [first.times_tower_constant().factor(), third.times_tower_constant().factor()];
        for (degree, coefficient) in coefficients.iter_mut().enumerate() {
            let first = if degree < 1 { &wrapped[0] } else { &plain[1] };
            let third = if degree < 3 { &wrapped[1] } else { &plain[2] };
            *coefficient = Fq2s::sum(
                instructions,
                [
                    (&factors[degree], &plain[0]),
                    (&factors[(degree + 5) % 6], first),
                    (&factors[(degree + 3) % 6], third),
                ],
            );
        }
    }
}

impl<W: Copy> Clone for Fq12s<W> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<W: Copy> Copy for Fq12s<W> {}

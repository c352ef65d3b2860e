//! Points of the two groups, on `y² = x³ + b`, and sums of their multiples.

use crate::field::{Base, Coordinate, Extension, Field, Limbs};

/// A point that is not the point at infinity, by its coordinates.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Affine<F> {
    /// First coordinate.
    pub x: F,
    /// Second coordinate.
    pub y: F,
}

/// A point of the first group.
pub type G1 = Affine<Base>;

/// A point of the second group.
pub type G2 = Affine<Extension>;

impl<F: Coordinate> Affine<F> {
    /// The point with this first coordinate, whose second one is, or is not, greater than its
    /// negative. `constant` is [`Coordinate::curve_constant`]. `None` when the curve has no such
    /// point. Nothing checks that a point of the second group is in the subgroup of prime order.
    pub fn from_x(x: F, is_greater: bool, constant: F) -> Option<Self> {
        let y = (x.square() * x + constant).root()?;
        Some(Self { x, y: if y.is_greater_than_negative() == is_greater { y } else { -y } })
    }
}

impl<F: Field> Affine<F> {
    /// The point with the other second coordinate.
    #[must_use]
    #[inline]
    pub fn negative(self) -> Self {
        Self { x: self.x, y: -self.y }
    }
}

/// A point as `x = X / ZZ` and `y = Y / ZZZ` with `ZZ³ = ZZZ²`; the point at infinity has `ZZ = 0`.
/// The formulas are those of "XYZZ coordinates" in the Explicit-Formulas Database.
#[derive(Clone, Copy, Debug)]
pub struct Point<F> {
    x: F,
    y: F,
    zz: F,
    zzz: F,
}

impl<F: Field> From<Affine<F>> for Point<F> {
    fn from(point: Affine<F>) -> Self {
        Self { x: point.x, y: point.y, zz: F::ONE, zzz: F::ONE }
    }
}

impl<F: Field> Point<F> {
    /// The neutral element.
    pub const INFINITY: Self = Self { x: F::ZERO, y: F::ZERO, zz: F::ZERO, zzz: F::ZERO };

    /// The sum with itself (`dbl-2008-s-1`).
    #[must_use]
    pub fn double(&self) -> Self {
        let u = self.y.double();
        let v = u.square();
        let w = u * v;
        let s = self.x * v;
        let square = self.x.square();
        let m = square.double() + square;
        let x = m.square() - s.double();
        Self { x, y: m * (s - x) - w * self.y, zz: v * self.zz, zzz: w * self.zzz }
    }

    /// Adds a point that is not the one at infinity (`madd-2008-s`).
    pub fn add_affine(&mut self, other: &Affine<F>) {
        if self.zz == F::ZERO {
            *self = Self::from(*other);
            return;
        }
        let p = other.x * self.zz - self.x;
        let r = other.y * self.zzz - self.y;
        if p == F::ZERO {
            *self = if r == F::ZERO { self.double() } else { Self::INFINITY };
            return;
        }
        *self = Self::chord(p, r, *self);
    }

    /// Adds a point (`add-2008-s`).
    pub fn add(&mut self, other: &Self) {
        if other.zz == F::ZERO {
            return;
        }
        if self.zz == F::ZERO {
            *self = *other;
            return;
        }
        let x = self.x * other.zz;
        let y = self.y * other.zzz;
        let p = other.x * self.zz - x;
        let r = other.y * self.zzz - y;
        if p == F::ZERO {
            *self = if r == F::ZERO { self.double() } else { Self::INFINITY };
            return;
        }
        *self = Self::chord(p, r, Self { x, y, zz: self.zz * other.zz, zzz: self.zzz * other.zzz });
    }

    /// The end of both sums: the third point of the line through two different points. `p` and `r`
    /// are the differences of their coordinates over the common denominators of `first`.
    fn chord(p: F, r: F, first: Self) -> Self {
        let pp = p.square();
        let ppp = p * pp;
        let q = first.x * pp;
        let x = r.square() - ppp - q.double();
        Self { x, y: r * (q - x) - first.y * ppp, zz: first.zz * pp, zzz: first.zzz * ppp }
    }

    /// The multiple with a number: as many doublings as the number has bits, and one addition for
    /// each bit that is one.
    #[must_use]
    pub fn times(&self, number: &Limbs) -> Self {
        let mut product = Self::INFINITY;
        for bit in (0..256).rev() {
            product = product.double();
            if number[bit / 32] >> (bit % 32) & 1 == 1 {
                product.add(self);
            }
        }
        product
    }

    /// The point with the other second coordinate.
    #[must_use]
    pub fn negative(self) -> Self {
        Self { y: -self.y, ..self }
    }

    /// The coordinates; `None` for the point at infinity.
    pub fn to_affine(self) -> Option<Affine<F>> {
        if self.zz == F::ZERO {
            return None;
        }
        let inverse = (self.zz * self.zzz).inverse();
        Some(Affine { x: self.x * inverse * self.zzz, y: self.y * inverse * self.zz })
    }
}

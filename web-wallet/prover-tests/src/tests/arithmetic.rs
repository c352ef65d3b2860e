//! The prover's arithmetic, compared with that of arkworks.

use ark_bn254::{Fq, Fq2, g1, g2};
use ark_ec::short_weierstrass::Projective;
use ark_ec::{AffineRepr, CurveGroup, PrimeGroup, VariableBaseMSM};
use ark_ff::{Field as _, One, Zero};
use selfsame_prover::curve::{Affine, Point};
use selfsame_prover::field::{Base, Coordinate, Extension, Field, Scalar};
use selfsame_prover::multiples::sum_of_multiples;

use super::*;

const CASES: usize = 2_000;

/// Random elements, and those at which carries and reductions differ.
fn elements<F: PrimeField>(count: usize, random: &mut impl Rng) -> Vec<F> {
    let two = F::from(2u64);
    let mut elements = vec![F::zero(), F::one(), two, -F::one(), -two, two.inverse().expect("an inverse")];
    elements.extend((1..254).map(|bit| two.pow([bit])));
    // In Montgomery form these are one, powers of two, and neighbours of the modulus. The last one
    // has limbs of ones.
    let radix = two.pow([261u64]);
    let inverse = radix.inverse().expect("an inverse");
    elements.extend([inverse, -inverse, inverse.double(), two.pow([255u64]) * inverse, radix, -radix]);
    elements.push((two.pow([253u64]) - F::one()) * inverse);
    elements.extend((0..count).map(|_| F::rand(random)));
    elements
}

fn check_prime_field<F: PrimeField, M: Modulus>()
where
    Element<M>: Field,
{
    let mut random = random();
    let elements: Vec<F> = elements(cases("TEST_PROVER_ARITHMETIC", CASES), &mut random);
    for (index, a) in elements.iter().enumerate() {
        let b = elements[random.gen_range(0..elements.len())];
        let (a, ours_a, ours_b) = (*a, ours::<F, M>(*a), ours::<F, M>(b));
        assert_eq!(ours_a + ours_b, ours(a + b), "{a} + {b}");
        assert_eq!(ours_a - ours_b, ours(a - b), "{a} - {b}");
        assert_eq!(ours_a * ours_b, ours(a * b), "{a} * {b}");
        assert_eq!(-ours_a, ours(-a), "-{a}");
        assert_eq!(ours_a.square(), ours(a.square()), "{a} squared");
        assert_eq!(ours_a * ours_a, ours_a.square(), "{a} * {a}");
        assert_eq!(ours_a.double(), ours(a.double()), "{a} doubled");
        assert_eq!(ours_a.to_bytes(), bytes(a), "{a} as bytes");
        if index % 16 == 0 || index < 300 {
            assert_eq!(ours_a.inverse(), ours(a.inverse().unwrap_or_default()), "inverse of {a}");
            let exponent = random.r#gen::<[u32; 8]>();
            let limbs: [u64; 4] =
                std::array::from_fn(|i| u64::from(exponent[2 * i]) | u64::from(exponent[2 * i + 1]) << 32);
            assert_eq!(ours_a.power(&exponent), ours(a.pow(limbs)), "{a} to a power");
        }
        let mut wide = [0; 48];
        random.fill(&mut wide[..]);
        assert_eq!(Element::<M>::from_wide_bytes(&wide), ours(F::from_be_bytes_mod_order(&wide)), "{wide:?}");
    }
    assert_eq!(Element::<M>::from_wide_bytes(&[255; 48]), ours(F::from_be_bytes_mod_order(&[255; 48])));
}

#[test]
fn prime_fields_compute_as_in_arkworks() {
    check_prime_field::<Fq, selfsame_prover::field::BaseModulus>();
    check_prime_field::<Fr, selfsame_prover::field::ScalarModulus>();
}

#[test]
fn numbers_from_the_modulus_on_are_refused() {
    let mut modulus = bytes(-Fr::one());
    assert!(Scalar::from_bytes(&modulus).is_some());
    modulus[31] += 1;
    assert_eq!(Scalar::from_bytes(&modulus), None);
    modulus[31] += 1;
    assert_eq!(Scalar::from_bytes(&modulus), None);
    assert_eq!(Scalar::from_bytes(&[255; 32]), None);
    // The modulus of the base field is greater.
    assert!(Base::from_bytes(&modulus).is_some());
    let mut modulus = bytes(-Fq::one());
    modulus[31] += 1;
    assert_eq!(Base::from_bytes(&modulus), None);
}

fn ours2(element: Fq2) -> Extension {
    Extension::new(ours(element.c0), ours(element.c1))
}

#[test]
fn the_extension_computes_as_in_arkworks() {
    let mut random = random();
    let parts: Vec<Fq> = elements(100, &mut random);
    let mut roots = 0;
    for _ in 0..cases("TEST_PROVER_ARITHMETIC", CASES) {
        let [a, b] = [(); 2]
            .map(|()| Fq2::new(parts[random.gen_range(0..parts.len())], parts[random.gen_range(0..parts.len())]));
        assert_eq!(ours2(a) + ours2(b), ours2(a + b), "{a} + {b}");
        assert_eq!(ours2(a) - ours2(b), ours2(a - b), "{a} - {b}");
        assert_eq!(ours2(a) * ours2(b), ours2(a * b), "{a} * {b}");
        assert_eq!(ours2(a).square(), ours2(a.square()), "{a} squared");
        assert_eq!(-ours2(a), ours2(-a), "-{a}");
        assert_eq!(ours2(a).inverse(), ours2(a.inverse().unwrap_or_default()), "inverse of {a}");
        assert_eq!(ours2(a).is_greater_than_negative(), a > -a, "{a} and its negative");
        // Roots of elements that have one, and of others.
        let root = ours2(a.square()).root().expect("a square has a root");
        assert!(root == ours2(a) || root == ours2(-a), "root of {a} squared");
        assert_eq!(ours2(a).root().is_some(), a.sqrt().is_some(), "root of {a}");
        roots += usize::from(a.sqrt().is_some());
        let real = ours(a.c0).root();
        assert_eq!(real.map(Field::square), a.c0.sqrt().map(|root| ours(root.square())), "root of {}", a.c0);
    }
    assert!(roots > 100, "{roots} elements with a root");
}

type G1Projective = Projective<g1::Config>;
type G2Projective = Projective<g2::Config>;

/// Both groups: how to go from arkworks to the prover.
trait Group: CurveGroup<ScalarField = Fr> + VariableBaseMSM {
    type Ours: Coordinate;

    fn affine(self) -> Option<Affine<Self::Ours>>;
}

impl Group for G1Projective {
    type Ours = Base;

    fn affine(self) -> Option<Affine<Base>> {
        let point = self.into_affine();
        point.xy().map(|(x, y)| Affine { x: ours(x), y: ours(y) })
    }
}

impl Group for G2Projective {
    type Ours = Extension;

    fn affine(self) -> Option<Affine<Extension>> {
        let point = self.into_affine();
        point.xy().map(|(x, y)| Affine { x: ours2(x), y: ours2(y) })
    }
}

fn ours_point<G: Group>(point: G) -> Point<G::Ours> {
    point.affine().map_or(Point::INFINITY, Point::from)
}

fn limbs(scalar: Fr) -> [u32; 8] {
    ours::<Fr, selfsame_prover::field::ScalarModulus>(scalar).to_limbs()
}

fn check_group<G: Group>()
where
    G::Ours: std::fmt::Debug,
{
    let mut random = random();
    let generator = G::generator();
    for case in 0..cases("TEST_PROVER_ARITHMETIC", CASES) / 10 {
        let a = generator * Fr::rand(&mut random);
        // Every kind of sum: of the same point, of opposite points, with the point at infinity.
        let b = match case % 5 {
            0 => a,
            1 => -a,
            2 => G::zero(),
            _ => generator * Fr::rand(&mut random),
        };
        // A point whose denominators are not one.
        let mut sum = ours_point(a + generator);
        sum.add(&ours_point(-generator));
        assert_eq!(sum.to_affine(), a.affine());
        let doubled = sum.double();
        assert_eq!(doubled.to_affine(), a.double().affine());
        let mut other = ours_point(b - generator);
        other.add(&ours_point(generator));
        let mut mixed = sum;
        if let Some(affine) = b.affine() {
            mixed.add_affine(&affine);
            assert_eq!(mixed.to_affine(), (a + b).affine());
        }
        sum.add(&other);
        assert_eq!(sum.to_affine(), (a + b).affine());
        assert_eq!(sum.negative().to_affine(), (-(a + b)).affine());
        let scalar = if case < 3 { Fr::from(case as u64) } else { Fr::rand(&mut random) };
        assert_eq!(ours_point(a).times(&limbs(scalar)).to_affine(), (a * scalar).affine());
        let affine = a.affine().expect("not at infinity");
        let is_greater = affine.y.is_greater_than_negative();
        let constant = G::Ours::curve_constant();
        assert_eq!(Affine::from_x(affine.x, is_greater, constant), Some(affine));
        assert_eq!(Affine::from_x(affine.x, !is_greater, constant), Some(affine.negative()));
    }
}

#[test]
fn groups_compute_as_in_arkworks() {
    check_group::<G1Projective>();
    check_group::<G2Projective>();
}

fn check_sums<G: Group>(lengths: &[usize])
where
    G::Ours: std::fmt::Debug,
{
    let mut random = random();
    for length in lengths {
        let mut points: Vec<G> = (0..*length).map(|_| G::generator() * Fr::rand(&mut random)).collect();
        let mut scalars: Vec<Fr> = elements(*length, &mut random);
        scalars.reverse();
        scalars.truncate(*length);
        // The same point and the same scalar often, and opposite ones: sums in buckets that are
        // doublings, or that vanish.
        for index in (0..*length).step_by(3).skip(1) {
            points[index] = if index % 2 == 0 { points[index - 1] } else { -points[index - 1] };
            scalars[index] = scalars[index - 1];
        }
        // All digits at their bounds.
        for (scalar, bytes) in scalars.iter_mut().zip([[0xff; 31], [0x80; 31], [0x7f; 31], [0x01; 31]]) {
            *scalar = Fr::from_le_bytes_mod_order(&bytes);
        }
        let expected = G::msm(&G::normalize_batch(&points), &scalars).expect("as many points as scalars");
        let points: Vec<_> = points.into_iter().map(|point| point.affine().expect("not at infinity")).collect();
        let scalars: Vec<_> = scalars.into_iter().map(limbs).collect();
        assert_eq!(sum_of_multiples(&points, &scalars).to_affine(), expected.affine(), "{length} points");
    }
}

#[test]
fn sums_of_multiples_are_those_of_arkworks() {
    check_sums::<G1Projective>(&[0, 1, 2, 3, 4, 5, 100, 1_000, 3_000]);
    check_sums::<G2Projective>(&[0, 1, 2, 3, 4, 5, 100, 700]);
}

#[test]
fn a_sum_of_opposite_multiples_is_the_point_at_infinity() {
    let point = G1Projective::generator().affine().expect("not at infinity");
    let (one, minus_one) = (limbs(Fr::one()), limbs(-Fr::one()));
    assert_eq!(sum_of_multiples(&[point, point], &[one, minus_one]).to_affine(), None);
    assert_eq!(sum_of_multiples(&[point, point.negative()], &[one, one]).to_affine(), None);
}

/// The curve has no point with the first coordinate zero: three is not a square.
#[test]
fn a_coordinate_without_a_point_is_refused() {
    assert_eq!(Affine::from_x(Base::ZERO, true, Base::curve_constant()), None);
    let x = (0..).map(|x| Fq2::new(Fq::from(x), Fq::one())).find(|x| {
        let constant = Fq2::new(Fq::from(3), Fq::zero()) / Fq2::new(Fq::from(9), Fq::one());
        (x.square() * x + constant).sqrt().is_none()
    });
    assert_eq!(Affine::from_x(ours2(x.expect("half of all")), true, Extension::curve_constant()), None);
}

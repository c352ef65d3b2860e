//! The words in registers of 512 bits. This is the only unsafe code of the crate.

#![expect(unsafe_code, reason = "an instruction that the processor may lack can only be named in unsafe code")]

use std::arch::x86_64::{
    __m512i, _mm512_add_epi64, _mm512_and_si512, _mm512_cmplt_epi64_mask, _mm512_loadu_epi64, _mm512_madd52hi_epu64,
    _mm512_madd52lo_epu64, _mm512_mask_blend_epi64, _mm512_permutexvar_epi64, _mm512_set1_epi64, _mm512_setzero_si512,
    _mm512_srai_epi64, _mm512_srli_epi64, _mm512_storeu_epi64, _mm512_sub_epi64, _mm512_testn_epi64_mask,
};

use super::words::{Instructions, Kernel, LANES, Step, Words};

/// AVX-512 with its multiplication of 52-bit numbers (IFMA). Intel's processors have it since Ice
/// Lake (2019), AMD's since Zen 4 (2022).
///
/// The value says that this processor has `avx512f` and `avx512ifma`.
#[derive(Clone, Copy, Debug)]
pub struct Avx512(());

impl Avx512 {
    /// Asks the processor. The answer is cached; asking again takes a nanosecond.
    pub fn detect() -> Option<Self> {
        let has_instructions = is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512ifma");
        has_instructions.then_some(Self(()))
    }
}

/// The words of [`Avx512`]. Only [`Instructions::words`] of an [`Avx512`] and operations on words
/// make them.
#[derive(Clone, Copy, Debug)]
pub struct Avx512Words(__m512i);

/// Compiled with the instructions; what is inlined into it, too.
#[target_feature(enable = "avx512f,avx512ifma")]
fn with_instructions<K: Kernel>(instructions: Avx512, kernel: K) -> K::Output {
    kernel.run(instructions)
}

/// Like [`with_instructions`], for a step.
#[target_feature(enable = "avx512f,avx512ifma")]
#[inline(never)]
fn call_with_instructions<S: Step<Avx512>>(instructions: Avx512, step: S) -> S::Output {
    step.run(instructions)
}

impl Instructions for Avx512 {
    type Words = Avx512Words;

    #[inline(always)]
    fn words(self, numbers: &[u64; LANES]) -> Avx512Words {
        // SAFETY: `self` says that the processor has the instructions; the array has 64 bytes, and
        // the load needs no alignment.
        Avx512Words(unsafe { _mm512_loadu_epi64(numbers.as_ptr().cast()) })
    }

    #[inline(always)]
    fn run<K: Kernel>(self, kernel: K) -> K::Output {
        // SAFETY: `self` says that the processor has the instructions.
        unsafe { with_instructions(self, kernel) }
    }

    #[inline(always)]
    fn call<S: Step<Self>>(self, step: S) -> S::Output {
        // SAFETY: `self` says that the processor has the instructions.
        unsafe { call_with_instructions(self, step) }
    }
}

// SAFETY, for each block below: `self` was made by `Avx512`, so the processor has the instructions.
// Apart from those of `to_array` and `look_up`, they touch no memory.
impl Words for Avx512Words {
    #[inline(always)]
    fn splat(self, number: u64) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_set1_epi64(number.cast_signed()) })
    }

    #[inline(always)]
    fn to_array(self) -> [u64; LANES] {
        let mut numbers = [0; LANES];
        // SAFETY: see above; the array has 64 bytes, and the store needs no alignment.
        unsafe { _mm512_storeu_epi64(numbers.as_mut_ptr().cast(), self.0) };
        numbers
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn and(self, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_and_si512(self.0, other.0) })
    }

    #[inline(always)]
    fn carry(self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_srai_epi64::<52>(self.0) })
    }

    #[inline(always)]
    fn shift_right<const BITS: u32>(self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_srli_epi64::<BITS>(self.0) })
    }

    #[inline(always)]
    fn plus_low_product(self, left: Self, right: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_madd52lo_epu64(self.0, left.0, right.0) })
    }

    #[inline(always)]
    fn plus_high_product(self, left: Self, right: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_madd52hi_epu64(self.0, left.0, right.0) })
    }

    #[inline(always)]
    fn look_up(self, table: &[u64; 8]) -> Self {
        // SAFETY: see above; the table has 64 bytes, and the load needs no alignment.
        Self(unsafe { _mm512_permutexvar_epi64(self.0, _mm512_loadu_epi64(table.as_ptr().cast())) })
    }

    #[inline(always)]
    fn are_negative(self) -> u8 {
        // SAFETY: see above.
        unsafe { _mm512_cmplt_epi64_mask(self.0, _mm512_setzero_si512()) }
    }

    #[inline(always)]
    fn are_zero(self) -> u8 {
        // SAFETY: see above.
        unsafe { _mm512_testn_epi64_mask(self.0, self.0) }
    }

    #[inline(always)]
    fn replace(self, mask: u8, other: Self) -> Self {
        // SAFETY: see above.
        Self(unsafe { _mm512_mask_blend_epi64(mask, self.0, other.0) })
    }
}

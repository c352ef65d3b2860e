//! Memory that is overwritten when it is released.

use core::ops::{Deref, DerefMut};
use core::sync::atomic::{compiler_fence, Ordering};

/// Values that tell something about the identity. Their memory is overwritten when they are
/// dropped; copies in registers and on the stack are not.
pub struct Secret<T: Copy + Default>(Vec<T>);

impl<T: Copy + Default> Secret<T> {
    /// Memory for as many values as `capacity` says. A vector that grows would leave its old
    /// memory as it is, so `capacity` must suffice.
    pub fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    /// This many values, all of them [`Default::default`].
    pub fn blank(length: usize) -> Self {
        Self(vec![T::default(); length])
    }

    /// Adds a value at the end.
    pub fn push(&mut self, value: T) {
        debug_assert!(self.0.len() < self.0.capacity());
        self.0.push(value);
    }
}

impl<T: Copy + Default> FromIterator<T> for Secret<T> {
    /// The iterator must know its length, or memory that it has grown out of is not overwritten.
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T: Copy + Default> Deref for Secret<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Copy + Default> DerefMut for Secret<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.0
    }
}

impl<T: Copy + Default> Drop for Secret<T> {
    fn drop(&mut self) {
        overwrite(&mut self.0);
    }
}

/// Overwrites values. The writes are volatile: the compiler would leave out others, since nothing
/// reads the memory afterwards.
#[allow(unsafe_code)]
pub fn overwrite<T: Copy + Default>(values: &mut [T]) {
    for value in values {
        // SAFETY: `value` is a unique reference, hence valid and aligned.
        unsafe { core::ptr::write_volatile(value, T::default()) };
    }
    compiler_fence(Ordering::SeqCst);
}

//! The memory that a piece of work uses. The test binary's allocator counts bytes for each thread.

#![allow(unsafe_code, reason = "an allocator that counts can only be written with unsafe code")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use proptest::prelude::*;

thread_local! {
    static IN_USE: Cell<usize> = const { Cell::new(0) };
    static MOST: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator with a count of the bytes that each thread has in use.
pub struct CountingAllocator;

fn count(taken: usize, given_back: usize) {
    // A thread that is ending no longer has counters.
    let _ = IN_USE.try_with(|in_use| {
        let now = in_use.get().saturating_add(taken).saturating_sub(given_back);
        in_use.set(now);
        MOST.with(|most| most.set(most.get().max(now)));
    });
}

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count(new_size, layout.size());
        unsafe { System.realloc(block, layout, new_size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count(0, layout.size());
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// The result of some work, and the largest number of bytes that it had in use.
pub fn memory_of<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = IN_USE.with(Cell::get);
    MOST.with(|most| most.set(before));
    let result = work();
    (result, MOST.with(Cell::get).saturating_sub(before))
}

/// Does the work on an input of `length` bytes, and checks that its memory is in proportion: a
/// value may be larger than its text, but only by a constant factor.
pub fn check_memory_in_proportion<T>(length: usize, work: impl FnOnce() -> T) -> Result<T, TestCaseError> {
    let (result, most) = memory_of(work);
    prop_assert!(most <= (64 << 10) + 256 * length, "{} bytes of memory for {} bytes of input", most, length);
    Ok(result)
}

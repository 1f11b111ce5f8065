//! Memory for the arguments of a caller whose own memory the library cannot see: WebAssembly, which becomes the Go back end.

use std::alloc::{Layout, alloc, dealloc};

/// Alignment of all that a call passes.
const ALIGN: usize = 8;

/// Returns memory of `size` bytes, aligned for any argument; NULL if there is none. `size` is not 0.
#[unsafe(no_mangle)]
pub extern "C" fn rk_memory_allocate(size: usize) -> *mut u8 {
    match Layout::from_size_align(size, ALIGN) {
        // SAFETY: the size is not 0, as promised.
        Ok(layout) => unsafe { alloc(layout) },
        Err(_) => std::ptr::null_mut(),
    }
}

/// Gives back what rk_memory_allocate returned for this size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_memory_free(memory: *mut u8, size: usize) {
    if let Ok(layout) = Layout::from_size_align(size, ALIGN) {
        // SAFETY: it was allocated with this layout, as promised.
        unsafe { dealloc(memory, layout) }
    }
}

//! What a caller needs whose memory and stack are not the library's: WebAssembly, which becomes the Go back end.

use std::alloc::{Layout, alloc, dealloc};

use parking_lot::Mutex;

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

/// What the last panic said, and where. A panic ends the call by a trap, of which the caller sees no more.
static FAULT: Mutex<String> = Mutex::new(String::new());

/// Keeps the messages of panics for rk_memory_fault.
#[unsafe(no_mangle)]
pub extern "C" fn rk_memory_keep_faults() {
    std::panic::set_hook(Box::new(|info| {
        if let Some(mut fault) = FAULT.try_lock() {
            *fault = info.to_string();
        }
    }));
}

/// Returns the last panic's message, and writes its length; it stays where it is until the next panic.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rk_memory_fault(len: *mut usize) -> *const u8 {
    let fault = FAULT.lock();
    // SAFETY: valid for a write, as promised.
    unsafe { len.write(fault.len()) };
    fault.as_ptr()
}

//! Exports the lab to WebAssembly: three functions, no imports, and no unsafe code.
//!
//! Touches only its own memory. A page asks for room with [`request`], writes its bytes there, and
//! calls [`call`]. The answer lies at [`answer`]. A panic ends the instance with a trap.

use baton_lab::lab::Lab;
use std::cell::RefCell;

/// The lab, the request, and the answer.
#[derive(Default)]
struct Exchange {
    lab: Lab,
    request: Vec<u8>,
    answer: String,
}

thread_local! {
    static EXCHANGE: RefCell<Exchange> = RefCell::default();
}

/// Makes room for a request of `length` bytes, and returns its address.
#[unsafe(no_mangle)]
pub extern "C" fn request(length: usize) -> *const u8 {
    EXCHANGE.with_borrow_mut(|exchange| {
        exchange.request = vec![0; length];
        exchange.request.as_ptr()
    })
}

/// Answers the request, and returns the length of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn call() -> usize {
    EXCHANGE.with_borrow_mut(|exchange| {
        let request = String::from_utf8_lossy(&exchange.request).into_owned();
        exchange.answer = exchange.lab.call(&request);
        exchange.answer.len()
    })
}

/// The address of the answer.
#[unsafe(no_mangle)]
pub extern "C" fn answer() -> *const u8 {
    EXCHANGE.with_borrow(|exchange| exchange.answer.as_ptr())
}

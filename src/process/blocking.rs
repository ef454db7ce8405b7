//! Runs blocking work on the runtime's blocking threads.
//!
//! Touches those threads. Start with [`run_blocking`]. A panic of the work unwinds the task that
//! awaits it, so the supervisor ends the process.

use std::any::Any;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::task::{JoinHandle, spawn_blocking};

/// A future for blocking work. The work continues if the future is dropped.
#[derive(Debug)]
pub(crate) struct Blocking<T> {
    name: &'static str,
    handle: JoinHandle<T>,
}

/// Runs `work` on a blocking thread. The log calls it `name` if it panics.
pub(crate) fn run_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Blocking<T> {
    Blocking { name, handle: spawn_blocking(work) }
}

/// Logs that `name` panicked, and unwinds. The process then exits with 75 if it leads, else with
/// 70.
pub(crate) fn resume_panic(name: &str, panic: Box<dyn Any + Send>) -> ! {
    tracing::error!(event = "fault", "{name} panicked");
    resume_unwind(panic)
}

impl<T> Future for Blocking<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match ready!(Pin::new(&mut self.handle).poll(cx)) {
            Ok(result) => Poll::Ready(result),
            // Nothing aborts the work, so the only error is a panic.
            Err(error) => resume_panic(self.name, error.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tokio::runtime::Builder;

    #[test]
    fn panic_of_blocking_work_unwinds_the_awaiting_task() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let work = async { run_blocking("a test", || panic!("a planned panic")).await };
        let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
        let panic = ended.expect_err("the task continues");
        assert_eq!(panic.downcast_ref(), Some(&"a planned panic"));
        assert_eq!(runtime.block_on(async { run_blocking("a test", || 7).await }), 7);
    }
}

//! Work that may block, on the runtime's threads for it.
//!
//! Touches those threads. Start with [`run_blocking`]. A panic there is a fault of Baton, so the
//! task that awaits the work unwinds with it, and the supervisor ends the process.

use std::any::Any;
use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::task::{JoinHandle, spawn_blocking};

/// Work under way. It goes on when this is dropped.
#[derive(Debug)]
pub(crate) struct Blocking<T> {
    name: &'static str,
    handle: JoinHandle<T>,
}

/// Runs `work` where it may block; `name` says in the log which work panicked.
pub(crate) fn run_blocking<T: Send + 'static>(
    name: &'static str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Blocking<T> {
    Blocking { name, handle: spawn_blocking(work) }
}

/// Logs that `name` panicked, and unwinds: this ends the process with 75 if it leads, else with 70.
pub(crate) fn fault(name: &str, panic: Box<dyn Any + Send>) -> ! {
    tracing::error!(event = "fault", "{name} panicked");
    resume_unwind(panic)
}

impl<T> Future for Blocking<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        match ready!(Pin::new(&mut self.handle).poll(cx)) {
            Ok(result) => Poll::Ready(result),
            // Nothing aborts the work, so it panicked.
            Err(died) => fault(self.name, died.into_panic()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use tokio::runtime::Builder;

    #[test]
    fn panic_of_blocking_work_unwinds_the_task_that_awaits_it() {
        let runtime = Builder::new_current_thread().build().unwrap();
        let work = async { run_blocking("a test", || panic!("a fault of ours")).await };
        let ended = catch_unwind(AssertUnwindSafe(|| runtime.block_on(work)));
        let panic = ended.expect_err("the task goes on");
        assert_eq!(panic.downcast_ref(), Some(&"a fault of ours"));
        assert_eq!(runtime.block_on(async { run_blocking("a test", || 7).await }), 7);
    }
}

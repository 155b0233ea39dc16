//! What stays on its thread, where a type is asked for that need not.

use std::{
    mem::ManuallyDrop,
    pin::Pin,
    task::{Context, Poll},
};

thread_local! {
    /// Its address tells a thread from all others that live.
    static MARK: u8 = const { 0 };
}

/// A value that only its own thread can reach.
///
/// A worker of a server is one thread, and what it holds is cheap because of that; the engine asks of what
/// a store holds that it could change threads. Reaching for the value from another thread is an error of
/// this program and panics; dropped there, the value is leaked.
pub(crate) struct OnThread<T> {
    value: ManuallyDrop<T>,
    thread: usize,
}

// SAFETY: the value is reached through `get`, `get_mut`, `poll` and `drop` alone, and each of them asks
// first whether it is on the thread that made it. A thread's mark can only be reused after the thread's end,
// when a value that it left is not shared with it any more.
unsafe impl<T> Send for OnThread<T> {}
// SAFETY: as for `Send`: references on another thread can't be used for anything.
unsafe impl<T> Sync for OnThread<T> {}

fn this_thread() -> usize {
    MARK.with(|mark| std::ptr::from_ref(mark) as usize)
}

impl<T> OnThread<T> {
    /// Of the calling thread.
    pub(crate) fn new(value: T) -> Self {
        Self {
            value: ManuallyDrop::new(value),
            thread: this_thread(),
        }
    }

    fn check(&self) {
        assert_eq!(
            self.thread,
            this_thread(),
            "wall: a service's request changed threads; please report it"
        );
    }

    /// The value.
    pub(crate) fn get(&self) -> &T {
        self.check();
        &self.value
    }

    fn pinned(self: Pin<&mut Self>) -> Pin<&mut T> {
        self.check();
        // SAFETY: the value is never moved out of `self`: `drop` drops it in its place.
        unsafe { self.map_unchecked_mut(|this| &mut *this.value) }
    }
}

impl<T> Drop for OnThread<T> {
    fn drop(&mut self) {
        if self.thread == this_thread() {
            // SAFETY: dropped once, here, and not reached afterwards.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}

impl<F: Future> Future for OnThread<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        self.pinned().poll(context)
    }
}

impl<B: http_body::Body> http_body::Body for OnThread<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<http_body::Frame<B::Data>, B::Error>>> {
        self.pinned().poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.get().is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.get().size_hint()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{cell::Cell, rc::Rc};

    #[test]
    fn its_own_thread_reaches_it() {
        let value = OnThread::new(Rc::new(Cell::new(1)));
        value.get().set(2);
        assert_eq!(value.get().get(), 2);
    }

    #[test]
    fn another_thread_neither_reaches_nor_drops_it() {
        let shared = Rc::new(());
        let value = OnThread::new(Rc::clone(&shared));
        let reached = std::thread::spawn(move || {
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                value.get();
            }))
            .is_ok()
        });
        assert!(!reached.join().unwrap());
        assert_eq!(
            Rc::strong_count(&shared),
            2,
            "leaked, not dropped over there"
        );
    }
}

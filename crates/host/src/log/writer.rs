//! The thread that writes.

use super::{Common, Order};
use std::{
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::Duration,
};

/// How long a sink that takes no more is left alone.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Lines that are put together before they are passed on.
const MOST_TOGETHER: usize = 256;

/// Starts the thread. It ends with the last log.
pub(super) fn start(orders: Receiver<Order>, common: Arc<Common>) {
    let thread = thread::Builder::new().name("log".into());
    let started = thread.spawn(move || write_all(&orders, &common));
    // Without a thread the queue is closed, and every line counts as dropped.
    drop(started);
}

fn write_all(orders: &Receiver<Order>, common: &Common) {
    loop {
        let sinks = common.sinks();
        let is_pending = sinks.iter().any(|sink| sink.is_pending());
        let first = match is_pending {
            true => orders.recv_timeout(AGAIN_AFTER),
            false => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        if common.reopen.swap(false, Ordering::AcqRel) {
            reopen(common);
        }
        match first {
            Ok(order) => carry_out(order, orders, common),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return flush(common),
        }
        flush(common);
    }
}

/// Takes this order and those behind it, until there is enough to pass on.
fn carry_out(first: Order, orders: &Receiver<Order>, common: &Common) {
    let more = std::iter::from_fn(|| orders.try_recv().ok());
    for order in std::iter::once(first).chain(more).take(MOST_TOGETHER) {
        match order {
            Order::Write(entry) => {
                common.let_go(&entry);
                common.count_dropped(entry.origin.sink.put(&entry));
            }
            Order::Reopen => {
                flush(common);
                reopen(common);
            }
            Order::Flush(answer) => {
                flush(common);
                let is_all = !common.sinks().iter().any(|sink| sink.is_pending());
                let _ = answer.try_send(is_all);
            }
        }
    }
}

fn flush(common: &Common) {
    for sink in common.sinks() {
        common.count_dropped(sink.flush());
    }
}

fn reopen(common: &Common) {
    for sink in common.sinks() {
        if let Err(error) = sink.reopen() {
            // The old file is still written, and this line goes there.
            common.say(&error.to_string());
        }
    }
}

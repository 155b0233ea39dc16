use super::*;
use std::{future::poll_fn, pin::pin};
use tokio::runtime::Builder;

fn permits(instances: usize, wait_time: Duration) -> Rc<Permits> {
    Permits::new(Share {
        instances,
        wait_time,
    })
}

const LONG: Duration = Duration::from_secs(3600);

fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = Builder::new_current_thread().enable_time().build();
    runtime.unwrap().block_on(future)
}

async fn poll_once<F: Future>(future: &mut Pin<&mut F>) -> Option<F::Output> {
    poll_fn(|context| {
        Poll::Ready(match future.as_mut().poll(context) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        })
    })
    .await
}

#[test]
fn those_who_wait_have_their_permits_in_order() {
    let permits = permits(1, LONG);
    run(async {
        let held = permits.take_free().unwrap();
        let mut first = pin!(permits.take());
        let mut second = pin!(permits.take());
        assert!(poll_once(&mut first).await.is_none());
        assert!(poll_once(&mut second).await.is_none());
        drop(held);
        assert!(permits.take_free().is_none(), "it is the first one's");
        assert!(poll_once(&mut second).await.is_none());
        let held = poll_once(&mut first).await.unwrap().unwrap();
        drop(held);
        assert!(poll_once(&mut second).await.unwrap().is_ok());
    });
    assert_eq!(permits.taken.get(), 0);
}

#[test]
fn a_permit_of_who_has_gone_is_the_next_ones() {
    let permits = permits(1, LONG);
    run(async {
        let held = permits.take_free().unwrap();
        let mut second = Box::pin(permits.take());
        {
            let mut gone_before = pin!(permits.take());
            let mut gone_after = Box::pin(permits.take());
            assert!(poll_once(&mut gone_after.as_mut()).await.is_none());
            assert!(poll_once(&mut gone_before).await.is_none());
            assert!(poll_once(&mut second.as_mut()).await.is_none());
            drop(held);
            assert_eq!(permits.queue.borrow().len(), 2, "the first has its turn");
            // And goes without having taken it.
            drop(gone_after);
            assert_eq!(permits.queue.borrow().len(), 1);
        }
        assert!(poll_once(&mut second.as_mut()).await.unwrap().is_ok());
    });
    assert_eq!(permits.taken.get(), 0);
    assert!(permits.queue.borrow().is_empty());
}

#[test]
fn who_waits_too_long_is_told_so_and_takes_nothing() {
    let permits = permits(1, Duration::from_millis(1));
    run(async {
        let held = permits.take_free().unwrap();
        assert!(permits.take().await.is_err());
        assert!(permits.queue.borrow().is_empty());
        drop(held);
        assert!(permits.take().await.is_ok());
    });
}

#[test]
fn refusals_are_told_once_in_a_while_with_their_number() {
    let permits = permits(1, LONG);
    assert_eq!(permits.refuse(), Some(1));
    assert_eq!((permits.refuse(), permits.refuse()), (None, None));
    let long_ago = Instant::now().checked_sub(TOLD_EVERY);
    permits.told.set(long_ago);
    assert_eq!(permits.refuse(), Some(3));
}

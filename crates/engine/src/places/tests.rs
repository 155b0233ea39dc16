use super::*;
use std::{future::poll_fn, pin::pin};
use tokio::runtime::Builder;

fn places(instances: usize, wait_time: Duration) -> Rc<Places> {
    Places::new(Share {
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
fn those_who_wait_have_their_places_in_order() {
    let places = places(1, LONG);
    run(async {
        let held = places.take_free().unwrap();
        let mut first = pin!(places.take());
        let mut second = pin!(places.take());
        assert!(poll_once(&mut first).await.is_none());
        assert!(poll_once(&mut second).await.is_none());
        drop(held);
        assert!(places.take_free().is_none(), "it is the first one's");
        assert!(poll_once(&mut second).await.is_none());
        let held = poll_once(&mut first).await.unwrap().unwrap();
        drop(held);
        assert!(poll_once(&mut second).await.unwrap().is_ok());
    });
    assert_eq!(places.taken.get(), 0);
}

#[test]
fn a_place_of_who_has_gone_is_the_next_ones() {
    let places = places(1, LONG);
    run(async {
        let held = places.take_free().unwrap();
        let mut second = Box::pin(places.take());
        {
            let mut gone_before = pin!(places.take());
            let mut gone_after = Box::pin(places.take());
            assert!(poll_once(&mut gone_after.as_mut()).await.is_none());
            assert!(poll_once(&mut gone_before).await.is_none());
            assert!(poll_once(&mut second.as_mut()).await.is_none());
            drop(held);
            assert_eq!(places.queue.borrow().len(), 2, "the first has its place");
            // And goes without having taken it.
            drop(gone_after);
            assert_eq!(places.queue.borrow().len(), 1);
        }
        assert!(poll_once(&mut second.as_mut()).await.unwrap().is_ok());
    });
    assert_eq!(places.taken.get(), 0);
    assert!(places.queue.borrow().is_empty());
}

#[test]
fn who_waits_too_long_is_told_so_and_takes_nothing() {
    let places = places(1, Duration::from_millis(1));
    run(async {
        let held = places.take_free().unwrap();
        assert!(places.take().await.is_err());
        assert!(places.queue.borrow().is_empty());
        drop(held);
        assert!(places.take().await.is_ok());
    });
}

#[test]
fn refusals_are_told_once_in_a_while_with_their_number() {
    let places = places(1, LONG);
    assert_eq!(places.refuse(), Some(1));
    assert_eq!((places.refuse(), places.refuse()), (None, None));
    let long_ago = Instant::now().checked_sub(TOLD_EVERY);
    places.told.set(long_ago);
    assert_eq!(places.refuse(), Some(3));
}

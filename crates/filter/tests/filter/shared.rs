//! What instances share: data, queues, metrics.

use crate::harness::*;
use palisade_filter::{MetricValue, Notify, Settings, Shared, SharedBounds};
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Told(Mutex<Vec<u32>>);

impl Notify for Told {
    fn queue_ready(&self, queue: u32) {
        self.0.lock().unwrap().push(queue);
    }
}

fn start(script: &Script, vm_id: &str, shared: &Arc<Shared>) -> Fixture {
    let settings = Settings {
        vm_id: vm_id.to_owned(),
        ..script.settings()
    };
    script.start_with(settings, shared, None).unwrap()
}

fn tick(fixture: &mut Fixture) -> (Vec<u32>, Vec<String>) {
    fixture.events();
    fixture.instance.on_tick().unwrap();
    (fixture.statuses(), fixture.lines())
}

fn text(text: &str) -> Vec<String> {
    vec![text.to_owned()]
}

#[test]
fn data_goes_from_instance_to_instance_and_no_further_than_the_vm_id() {
    let shared = Arc::new(Shared::default());
    let mut writer = Script::new();
    let (key, value) = (writer.text("key"), writer.text("value"));
    call!(writer, TICK, "proxy_set_shared_data", key, value, 0);
    let mut reader = Script::new();
    let key = reader.text("key");
    call!(
        reader,
        TICK,
        "proxy_get_shared_data",
        key,
        DATA,
        LENGTH,
        NUMBER
    );
    reader.show(TICK);
    let mut other = start(&reader, "other", &shared);
    let mut reader = start(&reader, "one", &shared);
    let mut writer = start(&writer, "one", &shared);
    assert_eq!(tick(&mut reader).0, [NOT_FOUND]);
    assert_eq!(tick(&mut writer).0, [OK]);
    assert_eq!(tick(&mut reader), (vec![OK], text("value")));
    assert_eq!(tick(&mut other).0, [NOT_FOUND]);
    // It outlives those that made it.
    drop(writer);
    assert_eq!(tick(&mut reader).0, [OK]);
    shared.retain(|_, vm_id| vm_id != "one", |_| true);
}

#[test]
fn data_is_compared_before_it_is_swapped() {
    let shared = Arc::new(Shared::default());
    let mut script = Script::new();
    let (key, value) = (script.text("key"), script.text("value"));
    call!(script, TICK, "proxy_set_shared_data", key, value, 0);
    call!(
        script,
        TICK,
        "proxy_get_shared_data",
        key,
        DATA,
        LENGTH,
        NUMBER
    );
    // The number that it has, and then not any more.
    for _ in 0..2 {
        call!(
            script,
            TICK,
            "proxy_set_shared_data",
            key,
            value,
            LOAD_NUMBER
        );
    }
    assert_eq!(
        tick(&mut start(&script, "one", &shared)).0,
        [OK, OK, OK, CAS_MISMATCH]
    );
}

const LOAD_NUMBER: u64 = crate::guest::LOAD | NUMBER;

#[test]
fn data_is_bounded() {
    let shared = Arc::new(Shared::new(SharedBounds {
        data_keys: 2,
        ..SharedBounds::default()
    }));
    let mut script = Script::new();
    for key in ["a", "b", "c", "a"] {
        let key = script.text(key);
        call!(script, TICK, "proxy_set_shared_data", key, key, 0);
    }
    assert_eq!(
        tick(&mut start(&script, "one", &shared)).0,
        [OK, OK, INTERNAL_FAILURE, OK]
    );
}

#[test]
fn what_is_too_long_is_refused_before_it_is_looked_up_or_copied() {
    let shared = Arc::new(Shared::new(SharedBounds {
        data_bytes: 1 << 10,
        key_bytes: 4,
        name_bytes: 4,
        ..SharedBounds::default()
    }));
    let mut script = Script::new();
    let [key, long, value] = ["four", "fives", &"v".repeat(1 << 10)].map(|text| script.text(text));
    // All of the guest's memory, and no text.
    let all = [0, 4 * 65536];
    for (key, value) in [(key, key), (long, key), (all, key), (key, value)] {
        call!(script, TICK, "proxy_set_shared_data", key, value, 0);
    }
    for key in [key, long, all] {
        let name = "proxy_get_shared_data";
        call!(script, TICK, name, key, DATA, LENGTH, NUMBER);
    }
    for name in [long, all] {
        call!(script, TICK, "proxy_register_shared_queue", name, NUMBER);
        call!(
            script,
            TICK,
            "proxy_resolve_shared_queue",
            [0, 0],
            name,
            NUMBER
        );
        call!(script, TICK, "proxy_define_metric", 0, name, NUMBER);
    }
    call!(script, TICK, "proxy_register_shared_queue", key, NUMBER);
    call!(
        script,
        TICK,
        "proxy_enqueue_shared_queue",
        LOAD_NUMBER,
        value
    );
    let (full, none) = (INTERNAL_FAILURE, NOT_FOUND);
    let mut expected = vec![OK, full, full, full, OK, none, none];
    expected.extend([full, none, full].repeat(2));
    expected.extend([OK, OK]);
    assert_eq!(tick(&mut start(&script, "one", &shared)).0, expected);
}

#[test]
fn a_queue_tells_who_registered_it_last_also_of_another_instance() {
    let shared = Arc::new(Shared::default());
    let mut consumer = Script::new();
    let name = consumer.text("queue");
    call!(
        consumer,
        CONFIGURE,
        "proxy_register_shared_queue",
        name,
        NUMBER
    );
    for _ in 0..2 {
        let queue = LOAD_NUMBER;
        call!(
            consumer,
            QUEUE_READY,
            "proxy_dequeue_shared_queue",
            queue,
            DATA,
            LENGTH
        );
    }
    consumer.show(QUEUE_READY);
    let mut producer = Script::new();
    let (vm_id, name, value) = (
        producer.text("one"),
        producer.text("queue"),
        producer.text("value"),
    );
    call!(
        producer,
        TICK,
        "proxy_resolve_shared_queue",
        vm_id,
        name,
        NUMBER
    );
    call!(
        producer,
        TICK,
        "proxy_enqueue_shared_queue",
        LOAD_NUMBER,
        value
    );
    let told = Arc::new(Told::default());
    let settings = Settings {
        vm_id: "one".to_owned(),
        ..consumer.settings()
    };
    let notify = Arc::clone(&told) as Arc<dyn Notify>;
    let mut consumer = consumer
        .start_with(settings, &shared, Some(notify))
        .unwrap();
    let mut producer_bed = start(&producer, "one", &shared);
    assert_eq!(tick(&mut producer_bed).0, [OK, OK]);
    assert_eq!(*told.0.lock().unwrap(), [1]);
    consumer.events();
    consumer.instance.on_queue_ready(1).unwrap();
    assert_eq!(consumer.statuses(), [OK, EMPTY]);
    assert_eq!(consumer.lines(), ["value"]);
    assert_eq!(consumer.callbacks(), [("proxy_on_queue_ready", vec![1, 1])]);
    // Nobody is told any more.
    drop(consumer);
    assert_eq!(tick(&mut producer_bed).0, [OK, OK]);
    assert_eq!(told.0.lock().unwrap().len(), 1);
    // Another's queue is none, not even by its number.
    let mut other = start(&producer, "other", &shared);
    assert_eq!(tick(&mut other).0, [NOT_FOUND, NOT_FOUND]);
}

#[test]
fn a_dying_instance_leaves_the_queue_to_the_one_that_came_after_it() {
    let shared = Arc::new(Shared::default());
    let mut script = Script::new();
    let name = script.text("queue");
    call!(
        script,
        CONFIGURE,
        "proxy_register_shared_queue",
        name,
        NUMBER
    );
    call!(script, TICK, "proxy_enqueue_shared_queue", 1, name);
    // A filter's instances on one worker are told in one way.
    let told = Arc::new(Told::default());
    let start = || {
        let notify = Arc::clone(&told) as Arc<dyn Notify>;
        script
            .start_with(script.settings(), &shared, Some(notify))
            .unwrap()
    };
    let first = start();
    let mut second = start();
    drop(first);
    assert_eq!(tick(&mut second).0, [OK]);
    assert_eq!(*told.0.lock().unwrap(), [1]);
    // What was registered before is the last one's, whoever goes.
    let third = start();
    drop(third);
    assert_eq!(tick(&mut second).0, [OK]);
    assert_eq!(told.0.lock().unwrap().len(), 1);
}

#[test]
fn queues_that_do_not_exist_are_not_found_and_what_has_no_room_is_refused() {
    let shared = Arc::new(Shared::new(SharedBounds {
        queues: 1,
        queue_length: 1,
        ..SharedBounds::default()
    }));
    let mut script = Script::new();
    let (name, other) = (script.text("queue"), script.text("other"));
    let none = [0, 0];
    call!(
        script,
        TICK,
        "proxy_resolve_shared_queue",
        none,
        name,
        NUMBER
    );
    call!(script, TICK, "proxy_register_shared_queue", name, NUMBER);
    call!(script, TICK, "proxy_register_shared_queue", name, NUMBER);
    call!(script, TICK, "proxy_register_shared_queue", other, LENGTH);
    call!(
        script,
        TICK,
        "proxy_resolve_shared_queue",
        none,
        name,
        NUMBER
    );
    call!(
        script,
        TICK,
        "proxy_enqueue_shared_queue",
        LOAD_NUMBER,
        other
    );
    call!(
        script,
        TICK,
        "proxy_enqueue_shared_queue",
        LOAD_NUMBER,
        other
    );
    for queue in [0, 2, u32::MAX] {
        call!(script, TICK, "proxy_enqueue_shared_queue", queue, other);
        call!(
            script,
            TICK,
            "proxy_dequeue_shared_queue",
            queue,
            DATA,
            LENGTH
        );
    }
    assert_eq!(
        tick(&mut start(&script, "one", &shared)).0,
        [
            NOT_FOUND,
            OK,
            OK,
            INTERNAL_FAILURE,
            OK,
            OK,
            INTERNAL_FAILURE,
            NOT_FOUND,
            NOT_FOUND,
            NOT_FOUND,
            NOT_FOUND,
            NOT_FOUND,
            NOT_FOUND
        ]
    );
}

#[test]
fn metrics_add_up_over_instances() {
    let shared = Arc::new(Shared::default());
    let mut script = Script::new();
    let names = ["counter", "gauge", "histogram"].map(|name| script.text(name));
    for (kind, name) in names.into_iter().enumerate() {
        call!(
            script,
            TICK,
            "proxy_define_metric",
            kind as u32,
            name,
            NUMBER
        );
    }
    // The same again is the same number.
    call!(script, TICK, "proxy_define_metric", 0, names[0], NUMBER);
    call!(script, TICK, "proxy_increment_metric", LOAD_NUMBER, 2);
    call!(script, TICK, "proxy_record_metric", 1, 5);
    call!(
        script,
        TICK,
        "proxy_increment_metric",
        1,
        (-2i64).cast_unsigned()
    );
    call!(script, TICK, "proxy_record_metric", 2, 100);
    call!(script, TICK, "proxy_get_metric", 0, NUMBER);
    script.show_number(TICK, 1);
    let mut one = start(&script, "one", &shared);
    let mut two = start(&script, "two", &shared);
    assert_eq!(tick(&mut one), (vec![OK; 9], text("\x02")));
    assert_eq!(tick(&mut two), (vec![OK; 9], text("\x04")));
    let metrics = shared.metrics();
    let names: Vec<_> = metrics.iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["counter", "gauge", "histogram"]);
    assert!(metrics.iter().all(|metric| metric.filter == "filter"));
    assert_eq!(metrics[0].value, MetricValue::Counter(4));
    assert_eq!(metrics[1].value, MetricValue::Gauge(3));
    let MetricValue::Histogram(histogram) = &metrics[2].value else {
        panic!("no histogram");
    };
    assert_eq!((histogram.count, histogram.sum), (2, 200));
    shared.retain(|_, _| true, |filter| filter != "filter");
    assert!(shared.metrics().is_empty());
}

#[test]
fn metrics_that_can_not_be_are_refused() {
    let shared = Arc::new(Shared::new(SharedBounds {
        metrics: 2,
        ..SharedBounds::default()
    }));
    let mut script = Script::new();
    let (a, b, c) = (script.text("a"), script.text("b"), script.text("c"));
    let not_text = script.bytes(&[0xff]);
    call!(script, TICK, "proxy_define_metric", 3, a, NUMBER);
    call!(script, TICK, "proxy_define_metric", 0, not_text, NUMBER);
    call!(script, TICK, "proxy_define_metric", 0, a, NUMBER);
    call!(script, TICK, "proxy_define_metric", 1, a, NUMBER);
    call!(script, TICK, "proxy_define_metric", 2, b, NUMBER);
    call!(script, TICK, "proxy_define_metric", 0, c, NUMBER);
    call!(
        script,
        TICK,
        "proxy_increment_metric",
        0,
        (-1i64).cast_unsigned()
    );
    call!(script, TICK, "proxy_increment_metric", 1, 1);
    call!(script, TICK, "proxy_get_metric", 1, NUMBER);
    for number in [2, u32::MAX] {
        call!(script, TICK, "proxy_increment_metric", number, 1);
        call!(script, TICK, "proxy_record_metric", number, 1);
        call!(script, TICK, "proxy_get_metric", number, NUMBER);
    }
    let bad = BAD_ARGUMENT;
    let mut expected = vec![bad, bad, OK, bad, OK, INTERNAL_FAILURE, bad, bad, bad];
    expected.extend([NOT_FOUND; 6]);
    assert_eq!(tick(&mut start(&script, "one", &shared)).0, expected);
}

//! The fuzz target `proxy_wasm_call`, over a fixed number of edits of its seeds, the same in each run.

#[path = "../../../../fuzz/checks/edits.rs"]
mod edits;

use crate::guest::{CALL_BYTES, CALLBACKS, LOAD, MOST_BYTES, call, check, functions, map, text};

const CALLS: usize = 3_000;

/// Addresses at the edges, contexts, maps, results of calls before.
const PIECES: &[&[u8]] = &[
    &[0; 8],
    &[1, 0, 0, 0, 0, 0, 0, 0],
    &[2, 0, 0, 0, 0, 0, 0, 0],
    &[3, 0, 0, 0, 0, 0, 0, 0],
    &[8, 0, 0, 0, 1, 0, 0, 0],
    &[12, 0, 0, 0, 1, 0, 0, 0],
    &[0, 0, 1, 0, 0, 0, 0, 0],
    &[32, 0, 1, 0, 0, 0, 0, 0],
    &[0xf8, 0xff, 3, 0, 0, 0, 0, 0],
    &[0, 0, 4, 0, 0, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
    &[0xff; 8],
];

#[test]
fn edited_calls_give_statuses_and_leave_messages_whole() {
    let seeds = edits::seeds("proxy_wasm_call");
    for seed in &seeds {
        assert!(check(seed) > 0);
    }
    let (succeeded, _) =
        edits::check_edits(&seeds, PIECES, CALLS, |bytes| usize::from(check(bytes) > 0));
    assert!(succeeded > CALLS / 2, "{succeeded} of {CALLS}");
}

/// One after the other in every callback, with every piece for all arguments.
#[test]
fn every_function_that_there_is_gives_a_status() {
    let names: Vec<_> = functions().iter().map(|(name, _)| *name).collect();
    // One of each kind of row.
    for name in ["proxy_log", "proxy_get_metric", "fd_write", "sock_shutdown"] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    assert!(
        names.len() * CALL_BYTES <= MOST_BYTES,
        "not all of them would be called"
    );
    for callback in 0..CALLBACKS.len() {
        for piece in PIECES {
            let argument = u64::from_le_bytes((*piece).try_into().unwrap());
            let calls = names
                .iter()
                .map(|name| call(callback, name, &[argument; 12]));
            check(&calls.collect::<Vec<_>>().concat());
        }
    }
}

/// Writes the seeds anew: each a little program of calls.
#[test]
#[ignore = "writes fuzz/seeds/proxy_wasm_call"]
fn write_seeds_of_calls() {
    let all = |callback, calls: &[(&str, Vec<u64>)]| -> Vec<u8> {
        let calls = calls.iter();
        calls
            .flat_map(|(name, arguments)| call(callback, name, arguments))
            .collect()
    };
    let [given, length] = [LOAD | 8, LOAD | 12];
    let maps = |callback, map_number| {
        let get = [vec![map_number], text(4).into(), vec![8, 12]].concat();
        let add = [vec![map_number], text(4).into(), text(8).into()].concat();
        let pairs = [vec![map_number], map(2).into()].concat();
        all(
            callback,
            &[
                ("proxy_get_header_map_value", get),
                ("proxy_add_header_map_value", add.clone()),
                ("proxy_replace_header_map_value", add),
                ("proxy_get_header_map_pairs", vec![map_number, 8, 12]),
                (
                    "proxy_set_header_map_pairs",
                    vec![map_number, given, length],
                ),
                ("proxy_set_header_map_pairs", pairs),
                (
                    "proxy_remove_header_map_value",
                    [vec![map_number], text(5).into()].concat(),
                ),
                ("proxy_get_header_map_size", vec![map_number, 16]),
            ],
        )
    };
    let pseudo: Vec<_> = [(0, 7), (1, 12), (2, 8), (15, 12), (6, 8), (4, 9)]
        .into_iter()
        .map(|(key, value)| {
            let arguments = [vec![0], text(key).into(), text(value).into()].concat();
            ("proxy_replace_header_map_value", arguments)
        })
        .collect();
    let buffers = |callback, buffer| {
        let set = [vec![buffer, 0, 2], text(7).into()].concat();
        let append = [vec![buffer, u32::MAX.into(), 0, given, length]].concat();
        all(
            callback,
            &[
                ("proxy_get_buffer_bytes", vec![buffer, 0, 100, 8, 12]),
                ("proxy_set_buffer_bytes", set),
                ("proxy_set_buffer_bytes", append),
                ("proxy_get_buffer_status", vec![buffer, 16, 20]),
                ("return", vec![1]),
            ],
        )
    };
    let http_call = [
        text(12).into(),
        map(0).into(),
        text(7).into(),
        map(2).into(),
        vec![5, 16],
    ]
    .concat();
    let respond = [
        vec![403],
        text(11).into(),
        text(7).into(),
        map(1).into(),
        vec![0],
    ]
    .concat();
    let programs: [(&str, Vec<u8>); 8] = [
        (
            "maps",
            [maps(4, 0), maps(6, 1), maps(7, 2), maps(9, 3)].concat(),
        ),
        ("pseudo", all(4, &pseudo)),
        (
            "buffers",
            [buffers(5, 0), buffers(8, 1), buffers(11, 0)].concat(),
        ),
        (
            "properties",
            all(
                4,
                &[
                    (
                        "proxy_get_property",
                        [text(10).into(), vec![8, 12]].concat(),
                    ),
                    (
                        "proxy_set_property",
                        [text(4).into(), vec![given, length]].concat(),
                    ),
                    (
                        "proxy_get_property",
                        [text(11).into(), vec![8, 12]].concat(),
                    ),
                ],
            ),
        ),
        (
            "calls",
            [
                all(
                    4,
                    &[("proxy_http_call", http_call.clone()), ("return", vec![1])],
                ),
                maps(15, 6),
                buffers(15, 4),
                all(
                    15,
                    &[
                        ("proxy_set_effective_context", vec![2]),
                        ("proxy_continue_stream", vec![0]),
                        ("proxy_http_call", http_call),
                        ("proxy_get_status", vec![16, 8, 12]),
                    ],
                ),
            ]
            .concat(),
        ),
        (
            "streams",
            [
                all(13, &[("proxy_set_effective_context", vec![2])]),
                all(13, &[("proxy_send_local_response", respond.clone())]),
                all(5, &[("proxy_send_local_response", respond)]),
                all(8, &[("proxy_close_stream", vec![1])]),
                all(10, &[("return", vec![0])]),
                all(13, &[("proxy_done", vec![])]),
            ]
            .concat(),
        ),
        (
            "shared",
            all(
                13,
                &[
                    (
                        "proxy_set_shared_data",
                        [text(4).into(), text(7).into(), vec![0]].concat(),
                    ),
                    (
                        "proxy_get_shared_data",
                        [text(4).into(), vec![8, 12, 16]].concat(),
                    ),
                    (
                        "proxy_register_shared_queue",
                        [text(4).into(), vec![16]].concat(),
                    ),
                    ("proxy_enqueue_shared_queue", vec![LOAD | 16, given, length]),
                    ("proxy_dequeue_shared_queue", vec![LOAD | 16, 8, 12]),
                    (
                        "proxy_define_metric",
                        [vec![0], text(4).into(), vec![20]].concat(),
                    ),
                    ("proxy_increment_metric", vec![LOAD | 20, 3]),
                    ("proxy_get_metric", vec![LOAD | 20, 24]),
                ],
            ),
        ),
        (
            "wasi",
            [
                all(16, &[("proxy_log", [vec![2], text(7).into()].concat())]),
                all(
                    1,
                    &[
                        ("environ_sizes_get", vec![8, 12]),
                        ("environ_get", vec![256, 512]),
                        ("fd_write", vec![1, 256, 1, 16]),
                        ("clock_time_get", vec![0, 0, 24]),
                        ("random_get", vec![256, 64]),
                        ("fd_fdstat_get", vec![1, 512]),
                        ("poll_oneoff", vec![0, 0, 1, 16]),
                        ("proxy_set_tick_period_milliseconds", vec![100]),
                    ],
                ),
            ]
            .concat(),
        ),
    ];
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = folder.join("../../fuzz/seeds/proxy_wasm_call");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, calls) in programs {
        assert_eq!(calls.len() % CALL_BYTES, 0);
        std::fs::write(folder.join(name), calls).unwrap();
    }
}

//! The fuzz targets `wasm_module` and `host_call`, over a fixed number of edits of their seeds, the same in
//! each run.

#[path = "../../../fuzz/checks/edits.rs"]
mod edits;
#[path = "../../../fuzz/checks/host_call.rs"]
mod host_call;
#[path = "../../../fuzz/checks/wasm_module.rs"]
mod wasm_module;

use host_call::call;
use wasm_module::Taken;

const MODULES: usize = 1_500;
const CALLS: usize = 3_000;

/// Types, section numbers, lengths and opcodes.
const PIECES_OF_MODULES: &[&[u8]] = &[
    &[0x60, 0, 0],
    &[0x7f],
    &[0x7e],
    &[0x70, 0, 1],
    &[3, 2, 1, 0],
    &[5, 3, 1, 0, 1],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0x0b],
    &[0x41, 0],
    &[0x10, 0],
    &[0x03, 0x40],
    &[0xfd, 0x0c],
    &[0xfe, 0x10],
];

/// Addresses at the edges, descriptors, flags.
const PIECES_OF_CALLS: &[&[u8]] = &[
    &[3, 0, 0, 0, 0, 0, 0, 0],
    &[4, 0, 0, 0, 0, 0, 0, 0],
    &[64, 0, 0, 0, 0, 0, 0, 0],
    &[160, 0, 0, 0, 0, 0, 0, 0],
    &[0xf8, 0xff, 1, 0, 0, 0, 0, 0],
    &[0xff, 0xff, 1, 0, 0, 0, 0, 0],
    &[0, 0, 2, 0, 0, 0, 0, 0],
    &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
    &[0xff; 8],
    &[0, 0, 0, 0, 0, 0, 0, 0x80],
    &[1, 0, 0, 0, 0, 0, 0, 0],
    &[0; 8],
];

#[test]
fn edited_modules_are_compiled_or_refused() {
    let seeds = edits::seeds("wasm_module");
    for seed in &seeds {
        assert_ne!(wasm_module::check(seed), Taken::Refused);
    }
    let mut programs = 0;
    let (compiled, refused) = edits::check_edits(&seeds, PIECES_OF_MODULES, MODULES, |bytes| {
        let taken = wasm_module::check(bytes);
        programs += usize::from(taken == Taken::Program);
        usize::from(taken != Taken::Refused)
    });
    assert!(
        programs > 15 && compiled > 20 && refused > 300,
        "{compiled} compiled, {programs} of them programs; {refused} refused"
    );
}

#[test]
fn edited_calls_give_error_codes_and_change_nothing_outside() {
    let seeds = edits::seeds("host_call");
    for seed in &seeds {
        assert!(host_call::check(seed) > 0);
    }
    let (succeeded, _) = edits::check_edits(&seeds, PIECES_OF_CALLS, CALLS, |bytes| {
        usize::from(host_call::check(bytes) > 0)
    });
    assert!(succeeded > CALLS / 2, "{succeeded} of {CALLS}");
}

/// Writes the seeds anew: each a little program of calls.
#[test]
#[ignore = "writes fuzz/seeds/host_call"]
fn write_seeds_of_calls() {
    const ALL: u64 = u64::MAX >> 34;
    let open =
        |name: u64, length, flags| call("path_open", &[3, 1, name, length, flags, ALL, ALL, 0, 8]);
    let programs: [(&str, Vec<Vec<u8>>); 6] = [
        (
            "read",
            vec![
                open(64, 1, 0),
                call("fd_read", &[4, 0, 1, 8]),
                call("fd_seek", &[4, 0, 0, 16]),
                call("fd_close", &[4]),
            ],
        ),
        (
            "write",
            vec![
                open(352, 3, 1),
                call("fd_write", &[4, 0, 1, 8]),
                call("fd_pwrite", &[4, 0, 1, 5, 8]),
                call("fd_allocate", &[4, 0, 100]),
                call("fd_filestat_set_size", &[4, 3]),
                call("fd_sync", &[4]),
            ],
        ),
        (
            "names",
            vec![
                call("path_rename", &[3, 64, 1, 3, 352, 3]),
                call("path_link", &[3, 0, 352, 3, 3, 416, 5]),
                call("path_symlink", &[64, 1, 3, 448, 5]),
                call("path_unlink_file", &[3, 352, 3]),
                call("path_create_directory", &[3, 352, 3]),
                call("path_remove_directory", &[3, 352, 3]),
            ],
        ),
        (
            "look",
            vec![
                call("path_filestat_get", &[3, 1, 64, 1, 1024]),
                call("path_readlink", &[3, 128, 2, 1024, 64, 8]),
                call("fd_readdir", &[3, 1024, 512, 0, 8]),
                call("fd_prestat_get", &[3, 1024]),
                call("fd_prestat_dir_name", &[3, 1024, 7]),
                call("path_filestat_set_times", &[3, 1, 64, 1, 5, 5, 5]),
            ],
        ),
        (
            "out",
            vec![
                open(160, 2, 0),
                open(192, 11, 0),
                open(288, 9, 0),
                call("path_link", &[3, 1, 160, 2, 3, 352, 3]),
                call("path_rename", &[3, 64, 1, 3, 288, 9]),
                call("path_filestat_get", &[3, 0, 64, 1, 1024]),
            ],
        ),
        (
            "rest",
            vec![
                call("poll_oneoff", &[1024, 2048, 1, 8]),
                call("clock_time_get", &[1, 0, 8]),
                call("clock_res_get", &[0, 8]),
                call("random_get", &[1024, 64]),
                call("args_sizes_get", &[8, 16]),
                call("environ_get", &[8, 1024]),
                call("fd_renumber", &[2, 1]),
                call("fd_fdstat_get", &[3, 1024]),
                call("sock_shutdown", &[0, 1]),
                call("sched_yield", &[]),
            ],
        ),
    ];
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/host_call");
    std::fs::create_dir_all(&folder).unwrap();
    for (name, calls) in programs {
        std::fs::write(folder.join(name), calls.concat()).unwrap();
    }
}

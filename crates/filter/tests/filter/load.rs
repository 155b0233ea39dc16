//! Which modules are filters.

use crate::harness::*;
use palisade_engine::guest::{Engine, EngineOptions};
use palisade_filter::{
    Action, CallRefused, Fault, Filter, Host, HttpCall, Instance, LoadError, LogLevel, Settings,
    Shared,
};
use std::{cell::RefCell, rc::Rc, sync::Arc};

/// Loads a module of its own.
pub(crate) fn filter(text: &str, settings: Settings) -> Result<(Filter, Arc<Shared>), LoadError> {
    let shared = Arc::new(Shared::default());
    let binary = wat::parse_str(text).expect("read the module's text");
    let engine = Engine::shared().expect("an engine");
    let program = engine.compile(&binary)?;
    Ok((Filter::load(&program, settings, &shared)?, shared))
}

/// A server that keeps lines and refuses all else.
#[derive(Default)]
pub(crate) struct Lines(pub(crate) RefCell<Vec<(LogLevel, String)>>);

impl Host for Lines {
    fn log(&self, level: LogLevel, line: &[u8]) {
        let line = String::from_utf8_lossy(line).into_owned();
        self.0.borrow_mut().push((level, line));
    }

    fn call(&self, _call: HttpCall) -> Result<(), CallRefused> {
        Err(CallRefused)
    }
}

pub(crate) fn start(filter: &Filter) -> Result<Instance, Fault> {
    Instance::start(filter, Rc::new(Lines::default()), None)
}

fn refused(exports: &str) -> String {
    let text = format!("(module (memory (export \"memory\") 1) {exports})");
    match filter(&text, Settings::new("f")) {
        Ok(_) => panic!("it should have been refused"),
        Err(error) => error.to_string(),
    }
}

const MARKER: &str = r#"(func (export "proxy_abi_version_0_2_1"))"#;
const MALLOC: &str = r#"(func (export "malloc") (param i32) (result i32) (i32.const 1024))"#;

#[test]
fn a_module_must_say_its_version_have_an_allocator_and_callbacks_of_the_right_types() {
    let version = refused(MALLOC);
    assert!(version.contains("no proxy-wasm filter"), "{version}");
    let newer = refused(&format!(
        r#"(func (export "proxy_abi_version_0_3_0")) {MALLOC}"#
    ));
    assert!(newer.contains("no proxy-wasm filter"), "{newer}");
    let allocator = refused(MARKER);
    assert!(allocator.contains("nor `malloc`"), "{allocator}");
    let callback = refused(&format!(
        r#"{MARKER} {MALLOC} (func (export "proxy_on_tick") (param i64))"#
    ));
    assert!(callback.contains("proxy_on_tick"), "{callback}");
    let import = r#"(module (import "env" "proxy_else" (func)))"#;
    let error = filter(
        &format!("{}{MARKER}{MALLOC})", &import[..import.len() - 1]),
        Settings::new("f"),
    );
    assert!(error.unwrap_err().to_string().contains("proxy_else"));
}

#[test]
fn an_older_module_gets_no_end_of_stream_and_no_field_is_an_empty_one() {
    let text = r#"(module
        (import "env" "proxy_get_configuration" (func $configuration (param i32 i32) (result i32)))
        (import "env" "proxy_get_header_map_value"
          (func $get (param i32 i32 i32 i32 i32) (result i32)))
        (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
        (import "env" "proxy_continue_request" (func $continue (result i32)))
        (import "env" "proxy_clear_route_cache" (func $clear (result i32)))
        (memory (export "memory") 1)
        (data (i32.const 64) "x-none")
        (func (export "proxy_abi_version_0_1_0"))
        (func (export "malloc") (param i32) (result i32) (i32.const 1024))
        (func $show
          (drop (call $configuration (i32.const 8) (i32.const 12)))
          (drop (call $log (i32.const 2) (i32.load (i32.const 8)) (i32.load (i32.const 12)))))
        (func (export "proxy_on_vm_start") (param i32 i32) (result i32) (call $show) (i32.const 1))
        (func (export "proxy_on_configure") (param i32 i32) (result i32) (call $show) (i32.const 1))
        (func (export "proxy_on_request_headers") (param i32 i32) (result i32)
          (call $get (i32.const 0) (i32.const 64) (i32.const 6) (i32.const 8) (i32.const 12))
          (i32.load (i32.const 12))
          (call $continue) (call $clear)
          i32.add i32.add i32.add))"#;
    let settings = Settings {
        configuration: "of the plugin".into(),
        vm_configuration: "of the vm".into(),
        ..Settings::new("f")
    };
    let (filter, _) = filter(text, settings).unwrap();
    let lines = Rc::new(Lines::default());
    let mut instance = Instance::start(&filter, Rc::clone(&lines) as Rc<dyn Host>, None).unwrap();
    let info = |text: &str| (LogLevel::Info, text.to_owned());
    assert_eq!(
        *lines.0.borrow(),
        [info("of the vm"), info("of the plugin")]
    );
    let id = instance.open(crate::guest::exchange());
    let action = instance.on_request_headers(id, true).unwrap();
    // All of them gave 0.
    assert_eq!(action, Action::Continue);
}

#[test]
fn a_module_is_initialised_as_a_reactor_or_as_a_command() {
    let text = |exports: &str| {
        format!(
            r#"(module
            (import "env" "proxy_log" (func $log (param i32 i32 i32) (result i32)))
            (memory (export "memory") 1)
            (data (i32.const 0) "initialize main start")
            {MARKER} {MALLOC}
            (func $say (param i32 i32)
              (drop (call $log (i32.const 2) (local.get 0) (local.get 1))))
            {exports})"#
        )
    };
    let initialize = r#"(func (export "_initialize") (call $say (i32.const 0) (i32.const 10)))"#;
    let main = r#"(func (export "main") (param i32 i32) (result i32)
        (call $say (i32.const 11) (i32.const 4)) (i32.const 0))"#;
    let start = r#"(func (export "_start") (call $say (i32.const 16) (i32.const 5)))"#;
    let cases = [
        (
            format!("{initialize}{main}{start}"),
            vec!["initialize", "main"],
        ),
        (format!("{main}{start}"), vec!["start"]),
        (initialize.to_owned(), vec!["initialize"]),
    ];
    for (exports, said) in cases {
        let (filter, _) = filter(&text(&exports), Settings::new("f")).unwrap();
        let lines = Rc::new(Lines::default());
        Instance::start(&filter, Rc::clone(&lines) as Rc<dyn Host>, None).unwrap();
        let lines: Vec<_> = lines.0.take().into_iter().map(|(_, line)| line).collect();
        assert_eq!(lines, said);
    }
}

#[test]
fn filters_go_from_thread_to_thread() {
    fn check<T: Send + Sync>() {}
    check::<Filter>();
    check::<Shared>();
    let script = Script::new();
    let shared = Arc::new(Shared::default());
    let filter = Filter::load(&crate::guest::program(), script.settings(), &shared).unwrap();
    std::thread::spawn(move || start(&filter).unwrap().on_tick().unwrap())
        .join()
        .unwrap();
}

#[test]
fn a_module_of_0_2_100_holds_its_head_for_its_body() {
    for (marker, wanted, action) in [
        ("0_2_100", 1, Action::HoldHead),
        ("0_2_100", 3, Action::Pause),
        ("0_2_100", 4, Action::Pause),
        ("0_2_1", 1, Action::Pause),
    ] {
        let text = format!(
            r#"(module
            (memory (export "memory") 1)
            (func (export "proxy_abi_version_{marker}"))
            {MALLOC}
            (func (export "proxy_on_request_headers") (param i32 i32 i32) (result i32)
              (i32.const {wanted})))"#
        );
        let (filter, _) = filter(&text, Settings::new("f")).unwrap();
        let mut instance = start(&filter).unwrap();
        let id = instance.open(crate::guest::exchange());
        let given = instance.on_request_headers(id, false).unwrap();
        assert_eq!(given, action, "{marker} {wanted}");
    }
}

#[test]
fn filters_of_several_engines_can_share() {
    let shared = Arc::new(Shared::default());
    let binary = wat::parse_str(format!(
        r#"(module
        (import "env" "proxy_done" (func (result i32)))
        (memory (export "memory") 1) {MARKER} {MALLOC})"#
    ))
    .unwrap();
    let another = Engine::new(EngineOptions {
        instances: 1,
        ..EngineOptions::default()
    });
    for engine in [&Engine::shared().unwrap(), &another.unwrap()] {
        let program = engine.compile(&binary).unwrap();
        for _ in 0..2 {
            let filter = Filter::load(&program, Settings::new("f"), &shared).unwrap();
            start(&filter).unwrap();
        }
    }
}

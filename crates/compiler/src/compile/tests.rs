use super::*;

fn bytes(text: &str) -> Vec<u8> {
    wat::parse_str(text).expect("a module")
}

fn program() -> Vec<u8> {
    bytes(r#"(module (func (export "_start")))"#)
}

fn filter() -> Vec<u8> {
    bytes(
        r#"(module (func (export "_start"))
                   (func (export "proxy_abi_version_0_2_1")))"#,
    )
}

/// A component with an export of this name.
fn component(export: &str) -> Vec<u8> {
    bytes(&format!(
        r#"(component (instance $nothing) (export "{export}" (instance $nothing)))"#
    ))
}

const SERVICE: &str = "wasi:http/incoming-handler@0.2.4";
const NEW_SERVICE: &str = "wasi:http/handler@0.3.0";

fn refusal(purpose: Purpose, module: &[u8]) -> String {
    let error = compile_for(purpose, module).expect_err("refused");
    assert!(matches!(error, CompileError::OtherKind { .. }), "{error:?}");
    error.to_string()
}

#[test]
fn each_kind_is_compiled_for_its_purpose() {
    for (purpose, module) in [
        (Purpose::Program, program()),
        (Purpose::Program, component("wasi:cli/run@0.2.0")),
        (Purpose::Filter, filter()),
        (Purpose::Service, component(SERVICE)),
        (Purpose::Service, component(NEW_SERVICE)),
    ] {
        let code = compile_for(purpose, &module);
        assert!(code.is_ok(), "{purpose:?}: {:?}", code.err());
    }
}

#[test]
fn a_filter_is_neither_a_component_nor_a_program() {
    let text = refusal(Purpose::Filter, &component(SERVICE));
    assert!(text.starts_with("guest: it is a component"), "{text}");
    let text = refusal(Purpose::Filter, &program());
    assert!(
        text.contains("`_start`") && text.contains("palisade run"),
        "{text}"
    );
    let text = refusal(Purpose::Filter, &bytes("(module)"));
    assert!(text.contains("nothing of proxy-wasm"), "{text}");
}

#[test]
fn a_service_is_a_component_with_a_handler() {
    let text = refusal(Purpose::Service, &filter());
    assert!(text.contains("proxy-wasm filter"), "{text}");
    let text = refusal(Purpose::Service, &program());
    assert!(text.contains("a core module"), "{text}");
    let text = refusal(Purpose::Service, &component("wasi:cli/run@0.2.0"));
    assert!(text.contains("a program"), "{text}");
    let text = refusal(Purpose::Service, &bytes("(component)"));
    assert!(text.contains("exports neither"), "{text}");
}

/// What a part within exports is not the component's own.
#[test]
fn exports_of_parts_do_not_count() {
    let within = bytes(&format!(
        r#"(component
             (component (instance $nothing) (export "{SERVICE}" (instance $nothing)))
             (core module (func (export "proxy_on_tick"))))"#
    ));
    assert!(refusal(Purpose::Service, &within).contains("exports neither"));
}

#[test]
fn what_is_no_webassembly_is_called_so() {
    for purpose in [Purpose::Program, Purpose::Filter, Purpose::Service] {
        let mut broken = filter();
        broken.truncate(broken.len() - 3);
        for bytes in [&b"\0asm"[..], &broken, b"text"] {
            let error = compile_for(purpose, bytes).expect_err("refused");
            assert!(matches!(error, CompileError::Invalid(_)), "{error:?}");
        }
    }
}

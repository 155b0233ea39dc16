//! Filters that nobody here wrote do what their authors say they do.

use crate::fixture::{Fixture, fetched};
use crate::raw_http::{Answer, Request};

/// Where requests end that no filter answers: it tells them back.
fn tell(request: &Request) -> Answer {
    let headers: String = request
        .headers
        .iter()
        .map(|(name, value)| format!("{name}: {value}\n"))
        .collect();
    let body = String::from_utf8_lossy(&request.body);
    Answer::new(
        200,
        format!("{} {}\n{headers}\n{body}", request.method, request.path),
    )
}

fn fixture() -> Fixture {
    Fixture::new().backend("teller", tell)
}

// --- the examples of the Rust SDK ---

pub(crate) fn http_headers_answers_and_traces() {
    answers_and_traces("http_headers");
}

pub(crate) fn http_headers_of_abi_0_1_does_the_same() {
    answers_and_traces("http_headers_0.1");
}

fn answers_and_traces(module: &str) {
    let fixture =
        fixture()
            .filter("headers", &fetched(module), "")
            .route("/", &["headers"], "teller");
    let mut server = fixture.serve();
    let hello = server.get("/hello");
    assert_eq!(
        (hello.status, hello.text().as_str()),
        (200, "Hello, World!\n")
    );
    assert_eq!(
        (hello.value("hello"), hello.value("powered-by")),
        (Some("World"), Some("proxy-wasm"))
    );
    assert!(
        fixture.asked("teller").is_empty(),
        "the filter answered this one"
    );

    let other = server.ask(&Request::new("GET", "/other").header("x-mine", "seen"));
    assert!(other.text().starts_with("GET /other\n"), "{}", other.text());
    server.wait_for_line("-> :path: /other");
    server.wait_for_line("-> x-mine: seen");
    server.wait_for_line("<- :status: 200");
    server.wait_for_line("completed.");
}

pub(crate) fn http_config_adds_what_it_was_configured_with() {
    let fixture = fixture()
        .filter(
            "config",
            &fetched("http_config"),
            "configuration = \"of this filter\"",
        )
        .route("/", &["config"], "teller");
    let answer = fixture.serve().get("/");
    assert_eq!(answer.value("custom-header"), Some("of this filter"));
}

pub(crate) fn http_body_redacts_what_is_secret() {
    let fixture = Fixture::new()
        .backend("teller", |request| match request.path.as_str() {
            "/secret" => Answer::new(200, "this is a secret text"),
            _ => Answer::new(200, "x".repeat(300_000)),
        })
        .filter("body", &fetched("http_body"), "")
        .route("/", &["body"], "teller");
    let server = fixture.serve();
    assert_eq!(
        server.get("/secret").text(),
        "Original message body (21 bytes) redacted."
    );
    assert_eq!(server.get("/plain").text(), "x".repeat(300_000));
}

pub(crate) fn http_auth_random_asks_before_it_lets_pass() {
    let fixture = fixture().backend("httpbin", |request| match request.path.as_str() {
        "/bytes/1" => Answer::new(200, [2]),
        _ => Answer::new(404, ""),
    });
    let grant = fixture.grant("httpbin");
    let fixture = fixture
        .filter("auth", &fetched("http_auth_random"), &grant)
        .route("/", &["auth"], "teller");
    let answer = fixture.serve().get("/");
    assert_eq!(
        (answer.status, answer.value("powered-by")),
        (200, Some("proxy-wasm"))
    );
    assert_eq!(
        fixture.asked("httpbin")[0].value("host"),
        Some("httpbin.org")
    );
}

pub(crate) fn http_auth_random_refuses_odd_bytes() {
    let fixture = fixture().backend("httpbin", |_| Answer::new(200, [7]));
    let grant = fixture.grant("httpbin");
    let fixture = fixture
        .filter("auth", &fetched("http_auth_random"), &grant)
        .route("/", &["auth"], "teller");
    let answer = fixture.serve().get("/");
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (403, "Access forbidden.\n")
    );
    assert!(
        fixture.asked("teller").is_empty(),
        "a request passed that was refused"
    );
}

/// It takes a refusal for a reason to panic: that costs the request, and no other one.
pub(crate) fn http_auth_random_without_a_grant_reaches_nobody() {
    let fixture = fixture()
        .backend("httpbin", |_| Answer::new(200, [2]))
        .filter("auth", &fetched("http_auth_random"), "")
        .route("/open", &[], "teller")
        .route("/", &["auth"], "teller");
    let mut server = fixture.serve();
    for _ in 0..3 {
        assert!(server.get("/").status >= 500);
        assert_eq!(server.get("/open").status, 200);
    }
    assert!(
        fixture.asked("httpbin").is_empty(),
        "it was called without a grant"
    );
    assert!(server.is_alive());
}

/// It is no filter of requests: its author has it greet, and panic where it is asked about one.
pub(crate) fn hello_world_greets_and_filters_nothing() {
    let fixture = fixture()
        .filter("hello", &fetched("hello_world"), "")
        .route("/beside", &[], "teller")
        .route("/", &["hello"], "teller");
    let mut server = fixture.serve();
    assert_eq!(server.get("/").status, 500);
    server.wait_for_line("Hello, World!");
    server.wait_for_line("missing ContextType on root_context");
    assert_eq!(server.get("/beside").status, 200);
}

// --- AssemblyScript ---

const SCRIPT: &str = "root-id = \"add_header\"\nconfiguration = \"you\"";

pub(crate) fn assemblyscript_adds_its_header() {
    let fixture = fixture()
        .filter("script", &fetched("assemblyscript"), SCRIPT)
        .route("/", &["script"], "teller");
    assert_eq!(fixture.serve().get("/").value("hello"), Some("you"));
}

// --- Higress and GPUStack: Go, and one in Rust ---

pub(crate) fn transformer_transforms_requests() {
    const RULES: &str = r#"configuration = '''
{"reqRules": [
  {"operate": "remove", "headers": [{"key": "X-remove"}], "querys": [{"key": "k1"}]},
  {"operate": "rename", "headers": [{"oldKey": "X-not-renamed", "newKey": "X-renamed"}],
   "querys": [{"oldKey": "k2", "newKey": "k2-new"}], "body": [{"oldKey": "a2", "newKey": "a2-new"}]},
  {"operate": "replace", "headers": [{"key": "X-replace", "newValue": "replaced"}],
   "body": [{"key": "a3", "newValue": "t3-new", "value_type": "string"}]},
  {"operate": "add", "headers": [{"key": "X-add-append", "value": "host-$1", "host_pattern": "^(.*)\\.com$"}],
   "querys": [{"key": "k3", "value": "v3"}]},
  {"operate": "append", "headers": [{"key": "X-add-append", "appendValue": "path-$1",
   "path_pattern": "^.*?\\/(\\w+)[\\?]{0,1}.*$"}]},
  {"operate": "map", "headers": [{"fromKey": "X-add-append", "toKey": "X-map"}]},
  {"operate": "dedupe", "headers": [{"key": "X-dedupe-first", "strategy": "RETAIN_FIRST"},
                                    {"key": "X-dedupe-last", "strategy": "RETAIN_LAST"},
                                    {"key": "X-dedupe-unique", "strategy": "RETAIN_UNIQUE"}]}
]}'''"#;
    let fixture = fixture()
        .filter("transformer", &fetched("transformer"), RULES)
        .route("/", &["transformer"], "teller");
    let server = fixture.serve();
    let mut request = Request::new("POST", "/post?k1=v1&k2=v2")
        .header("host", "foo.bar.com")
        .header("content-type", "application/json")
        .header("x-remove", "exist")
        .header("x-not-renamed", "test")
        .header("x-replace", "not-replaced")
        .body(r#"{"a1":"t1","a2":"t2","a3":"t3"}"#);
    for value in ["1", "2", "3", "3", "2", "1"] {
        request = request
            .header("x-dedupe-first", value)
            .header("x-dedupe-last", value)
            .header("x-dedupe-unique", value);
    }
    assert_eq!(server.ask(&request).status, 200);
    let asked = &fixture.asked("teller")[0];
    let values = |name: &str| {
        let found = asked.headers.iter().filter(|(one, _)| one == name);
        found
            .map(|(_, value)| value.as_str())
            .collect::<Vec<_>>()
            .join(",")
    };
    assert_eq!(values("x-remove"), "");
    assert_eq!(
        (
            values("x-not-renamed").as_str(),
            values("x-renamed").as_str()
        ),
        ("", "test")
    );
    assert_eq!(values("x-replace"), "replaced");
    assert_eq!(values("x-add-append"), "host-foo.bar,path-post");
    assert_eq!(values("x-map"), "host-foo.bar,path-post");
    // A filter gets a repeated field as one list, as everybody does: nothing of it is left to take out.
    for name in ["x-dedupe-first", "x-dedupe-last", "x-dedupe-unique"] {
        assert_eq!(values(name), "1, 2, 3, 3, 2, 1");
    }
    assert!(!asked.path.contains("k1="), "{}", asked.path);
    assert!(
        asked.path.contains("k2-new=v2") && asked.path.contains("k3=v3"),
        "{}",
        asked.path
    );
    let body: serde_json::Value = serde_json::from_slice(&asked.body).expect("JSON");
    assert_eq!(
        body,
        serde_json::json!({"a1": "t1", "a2-new": "t2", "a3": "t3-new"})
    );
}

pub(crate) fn transformer_transforms_answers() {
    const RULES: &str = r#"configuration = '''
{"respRules": [
  {"operate": "remove", "headers": [{"key": "X-remove"}], "body": [{"key": "a1"}]},
  {"operate": "add", "headers": [{"key": "X-added", "value": "yes"}],
   "body": [{"key": "a2", "value": "t2", "value_type": "string"}]}
]}'''"#;
    let fixture = Fixture::new()
        .backend("json", |_| {
            let answer = Answer::new(200, r#"{"a1":"t1","a3":"t3"}"#);
            answer
                .header("content-type", "application/json")
                .header("x-remove", "here")
        })
        .filter("transformer", &fetched("transformer"), RULES)
        .route("/", &["transformer"], "json");
    let answer = fixture.serve().get("/");
    assert_eq!(
        (answer.value("x-remove"), answer.value("x-added")),
        (None, Some("yes"))
    );
    let body: serde_json::Value = serde_json::from_slice(&answer.body).expect("JSON");
    assert_eq!(body, serde_json::json!({"a2": "t2", "a3": "t3"}));
}

/// A body parameter becomes a header field: the head waits for the body.
pub(crate) fn transformer_maps_bodies_to_headers() {
    const RULES: &str = r#"configuration = '''
{"reqRules": [{"operate": "map", "headers": [{"fromKey": "userId", "toKey": "x-user-id"}], "mapSource": "body"}]}'''"#;
    let fixture = fixture()
        .filter("transformer", &fetched("transformer"), RULES)
        .route("/", &["transformer"], "teller");
    let request = Request::new("POST", "/").header("content-type", "application/json");
    fixture
        .serve()
        .ask(&request.body(r#"{"userId":12, "userName":"johnlanni"}"#));
    let asked = &fixture.asked("teller")[0];
    assert_eq!(asked.value("x-user-id"), Some("12"));
    assert_eq!(asked.body, br#"{"userId":12, "userName":"johnlanni"}"#);
}

/// It looks for single words: bodies are cut into words before they are compared.
pub(crate) fn data_masking_denies_and_masks() {
    const RULES: &str = r#"configuration = '''
{"system_deny": false, "deny_openai": false, "deny_raw": true, "deny_words": ["forbidden"],
 "deny_code": 403, "deny_raw_message": "denied", "deny_raw_content_type": "text/plain",
 "replace_roles": [{"regex": "sk-[0-9a-zA-Z]*", "type": "replace", "value": "****"}]}'''
# It unpacks a dictionary of Chinese when it is configured.
policy = { limits = { time = "60s", memory = "256M" } }
isolation = "kept""#;
    let fixture = fixture()
        .filter("masking", &fetched("ai-data-masking"), RULES)
        .route("/", &["masking"], "teller");
    let server = fixture.serve();
    let request = Request::new("POST", "/").header("content-type", "text/plain");
    let denied = server.ask(&request.clone().body("I want the forbidden fruit"));
    assert_eq!((denied.status, denied.text().as_str()), (403, "denied"));
    assert!(
        fixture.asked("teller").is_empty(),
        "a denied request passed"
    );

    assert_eq!(
        server
            .ask(&request.body("my key is sk-12345, keep it"))
            .status,
        200
    );
    assert_eq!(fixture.asked("teller")[0].body, b"my key is ****, keep it");
}

pub(crate) fn statistics_count_tokens() {
    let fixture = Fixture::new()
        .backend("llm", |_| {
            let answer = r#"{"id":"1","object":"chat.completion","model":"small","choices":[{"index":0,"message":
                {"role":"assistant","content":"4"}}],"usage":{"prompt_tokens":11,"completion_tokens":7,"total_tokens":18}}"#;
            Answer::new(200, answer).header("content-type", "application/json")
        })
        .filter("statistics", &fetched("ai-statistics"), "configuration = '{}'")
        .route("/", &["statistics"], "llm");
    let server = fixture.serve();
    let question = r#"{"model":"small","messages":[{"role":"user","content":"2+2"}]}"#;
    let request =
        Request::new("POST", "/v1/chat/completions").header("content-type", "application/json");
    for _ in 0..2 {
        assert_eq!(server.ask(&request.clone().body(question)).status, 200);
    }
    let figures = server.admin("/metrics");
    let has = |name: &str, value: &str| {
        figures
            .lines()
            .any(|line| line.contains(name) && line.contains("small") && line.ends_with(value))
    };
    assert!(has("input_token", " 22"), "{figures}");
    assert!(has("output_token", " 14"), "{figures}");
}

/// It asks about requests of the routes that its configuration names, and lets those of others pass.
pub(crate) fn external_authentication_is_asked() {
    const SERVICE: &str = "outbound|8090||auth.dns";
    const RULES: &str = r#"
configuration = '''
{"route_match_regexes": ["^guarded$"],
 "authz": {"endpoint_mode": "forward_auth", "timeout": 1000,
  "endpoint": {"service_name": "auth.dns", "service_port": 8090, "path": "/auth", "request_method": "GET"},
  "authorization_response": {"allowed_upstream_headers": [{"exact": "x-user-id"}]}}}'''"#;
    let fixture = fixture().backend(SERVICE, |request| match request.value("authorization") {
        Some("right") => Answer::new(200, "").header("x-user-id", "7"),
        _ => Answer::new(401, "").header("x-why", "no such key"),
    });
    let settings = fixture.grant(SERVICE) + RULES;
    let fixture = fixture
        .filter("auth", &fetched("gpustack-ext-auth"), &settings)
        .text("[[route]]\nname = \"open\"\npath = \"/open\"\nfilters = [\"auth\"]\nservice = \"teller\"\n")
        .text("[[route]]\nname = \"guarded\"\nfilters = [\"auth\"]\nservice = \"teller\"\n");
    let server = fixture.serve();
    let refused = server.ask(&Request::new("GET", "/users?all").header("authorization", "wrong"));
    assert_eq!(refused.status, 401);
    assert!(
        fixture.asked("teller").is_empty(),
        "a refused request passed"
    );

    let passed = server.ask(&Request::new("GET", "/users?all").header("authorization", "right"));
    assert_eq!(passed.status, 200);
    assert_eq!(fixture.asked("teller")[0].value("x-user-id"), Some("7"));
    assert_eq!(server.get("/open").status, 200);
    let asked = fixture.asked(SERVICE);
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert_eq!(
        (
            asked[0].method.as_str(),
            asked[0].path.as_str(),
            asked[0].value("x-forwarded-uri")
        ),
        ("GET", "/auth", Some("/users?all"))
    );
}

pub(crate) fn addresses_are_looked_at() {
    const RULES: &str = r#"configuration = '''
{"realIPHeader": "x-seen-from", "consumers": {"*": {"deniedCidrs": ["10.0.0.0/8"]}}}'''"#;
    let fixture = fixture()
        .filter("acl", &fetched("gpustack-ip-acl"), RULES)
        .route("/", &["acl"], "teller");
    let server = fixture.serve();
    let from = |address: &str| {
        let request = Request::new("GET", "/").header("x-mse-consumer", "somebody");
        // `x-real-ip` is not a client's to say.
        server.ask(&request.header("x-seen-from", address)).status
    };
    assert_eq!(from("10.1.2.3"), 403);
    assert_eq!(from("11.1.2.3"), 200);
}

/// It imports what one server has beside the ABI.
pub(crate) fn rate_limit_is_told_what_is_missing() {
    let fixture = fixture()
        .filter("limit", &fetched("gpustack-rate-limit"), "")
        .route("/", &["limit"], "teller");
    let said = fixture.refusal();
    assert!(said.contains("proxy_redis_"), "{said}");
}

/// One after the other, on one way.
pub(crate) fn filters_of_three_languages_make_a_chain() {
    const GO: &str = r#"configuration = '''
{"reqRules": [{"operate": "add", "headers": [{"key": "x-go", "value": "was here"}]}]}'''"#;
    let fixture = fixture()
        .filter("rust", &fetched("http_config"), "configuration = \"rust\"")
        .filter("script", &fetched("assemblyscript"), SCRIPT)
        .filter("go", &fetched("transformer"), GO)
        .route("/", &["rust", "script", "go"], "teller");
    let server = fixture.serve();
    for _ in 0..50 {
        let answer = server.get("/");
        assert_eq!(
            (answer.value("custom-header"), answer.value("hello")),
            (Some("rust"), Some("you"))
        );
        assert!(
            answer.text().contains("x-go: was here\n"),
            "{}",
            answer.text()
        );
    }
}

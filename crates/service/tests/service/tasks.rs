//! Guests of WASI 0.3.

use crate::{
    Loaded,
    fixture::{self, Fixture},
};
use http::StatusCode;
use palisade_service::Fault;

pub(crate) fn a_new_body_streams_both_ways(component: &Loaded) {
    let fixture = Fixture::new(component, "");
    fixture.run(async {
        let (parts, body) = fixture::channel();
        parts.data("begun");
        let asked = fixture.ask_async(fixture::request("/echo", body));
        let mut response = asked.await.unwrap().into_body();
        assert_eq!(
            fixture::next(&mut response).await.into_data().unwrap(),
            "begun"
        );
        for part in ["one", "two"] {
            parts.data(part);
            assert_eq!(
                fixture::next(&mut response).await.into_data().unwrap(),
                part
            );
        }
        drop(parts);
        assert!(fixture::is_at_end(&mut response).await);
    });
    assert_eq!(fixture.metrics().faults, 0);
}

pub(crate) fn a_new_guest_sees_its_request(component: &Loaded) {
    let text = Fixture::new(component, "").get("/request").text();
    assert!(
        text.starts_with("Method::Get Some(Scheme::Http) Some(\"test\")"),
        "{text}"
    );
}

pub(crate) fn new_faults_are_told(component: &Loaded) {
    let fixture = Fixture::new(component, "[limits]\ntime = \"100ms\"");
    assert!(matches!(fixture.fail("/trap"), Fault::Trap(_)));
    assert!(matches!(fixture.fail("/loop"), Fault::Time(_)));
    assert!(matches!(fixture.fail("/wait"), Fault::Time(_)));
    assert_eq!(
        fixture.fail("/error").status(),
        StatusCode::INTERNAL_SERVER_ERROR
    );
    assert_eq!(fixture.metrics().memory_bytes, 0);
    assert_eq!(fixture.get("/hello").status, StatusCode::OK);
}

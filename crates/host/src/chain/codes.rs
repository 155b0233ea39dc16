//! The code of a route's filters, got before a request meets the first of them.

use super::Stop;
use crate::{
    body::Body,
    config::OnFailure,
    filters::{FilterHandle, NoInstance},
};
use http::Response;
use palisade_filter::Filter;
use smallvec::SmallVec;
use std::rc::Rc;

/// Of each filter of a route, for one request. `None`: the request goes on without that filter.
pub(crate) type Codes = SmallVec<[Option<Filter>; 2]>;

/// The code of all of these, if that takes no waiting; or the response where there is none of a filter that must not be left
/// out.
pub(crate) fn codes_at_once(filters: &[Rc<FilterHandle>]) -> Option<Result<Codes, Response<Body>>> {
    let mut codes = Codes::new();
    for filter in filters {
        match code_or_stop(filter, filter.code_at_once()?) {
            Ok(code) => codes.push(code),
            Err(stop) => return Some(Err(stop.into_response())),
        }
    }
    Some(Ok(codes))
}

/// The same, waited for.
pub(crate) async fn codes(filters: &[Rc<FilterHandle>]) -> Result<Codes, Response<Body>> {
    let mut codes = Codes::new();
    for filter in filters {
        let code = match filter.code_at_once() {
            Some(code) => code,
            None => filter.code().await,
        };
        codes.push(code_or_stop(filter, code).map_err(Stop::into_response)?);
    }
    Ok(codes)
}

fn code_or_stop(
    filter: &FilterHandle,
    code: Result<Filter, NoInstance>,
) -> Result<Option<Filter>, Stop> {
    let why = match code {
        Ok(code) => return Ok(Some(code)),
        Err(why) => why,
    };
    filter.metrics.errors.add(1);
    match filter.loaded.on_failure {
        OnFailure::Close => Err(Stop::from(why)),
        OnFailure::Open => Ok(None),
    }
}

//! What a guest reads and changes of messages: fields and bodies.

use super::{At, CallResponse, State};
use crate::{
    Exchange, Part,
    abi::{Buffer, Map, Status},
    fields::{Change, View, Written},
};
use bytes::{Buf, BytesMut};
use http::{HeaderMap, header};

impl State {
    /// The fields of a map. Those of the exchange can be read as long as it is here.
    pub(crate) fn view(&self, map: Map) -> Result<View<'_>, Status> {
        match (map, &self.response) {
            (Map::CallHeaders | Map::CallTrailers, CallResponse::None) => Err(Status::BadArgument),
            (Map::CallHeaders | Map::CallTrailers, CallResponse::Failed) => Ok(View::Nothing),
            (Map::CallHeaders, CallResponse::Here(call)) => Ok(View::of_call(call)),
            (Map::CallTrailers, CallResponse::Here(call)) => Ok(View::Trailers(&call.trailers)),
            _ => view_exchange(self.exchange().ok_or(Status::BadArgument)?, map),
        }
    }

    /// The fields of a map, to be changed, and what is kept of what the guest has written to it: while
    /// its callback is under way, and as long as it has the stream wait.
    pub(crate) fn change(
        &mut self,
        map: Map,
        change: impl FnOnce(&mut Change<'_>, Written<'_>) -> Result<(), Status>,
    ) -> Result<(), Status> {
        let (part, count) = match map {
            Map::RequestHeaders => (Part::RequestHeaders, 0),
            Map::RequestTrailers => (Part::RequestTrailers, 1),
            Map::ResponseHeaders => (Part::ResponseHeaders, 2),
            Map::ResponseTrailers => (Part::ResponseTrailers, 3),
            Map::CallHeaders | Map::CallTrailers => return Err(Status::BadArgument),
        };
        let At::Stream(context) = self.effective else {
            return Err(Status::BadArgument);
        };
        let stream = self.streams.get_mut(context).ok_or(Status::BadArgument)?;
        if !stream.changeable.has(part) {
            return Err(Status::BadArgument);
        }
        let exchange = stream.exchange.as_deref_mut().ok_or(Status::BadArgument)?;
        let mut fields = change_exchange(exchange, part).ok_or(Status::BadArgument)?;
        let bounds = &self.loaded.settings.bounds;
        let written = Written {
            bounds,
            bytes: &mut stream.written[count],
            known: self.known.as_deref_mut(),
        };
        let changed = change(&mut fields, written);
        forget_empty_trailers(exchange, part);
        changed
    }

    /// Bytes of a buffer.
    pub(crate) fn buffer(&self, buffer: Buffer) -> Result<&[u8], Status> {
        match buffer {
            Buffer::RequestBody => {
                let exchange = self.exchange().ok_or(Status::NotFound)?;
                Ok(&exchange.request_rest.body)
            }
            Buffer::ResponseBody => {
                let exchange = self.exchange().ok_or(Status::NotFound)?;
                Ok(&exchange.response_rest.body)
            }
            Buffer::CallBody => match &self.response {
                CallResponse::Here(call) => Ok(call.response.body()),
                CallResponse::Failed => Ok(&[]),
                CallResponse::None => Err(Status::NotFound),
            },
            Buffer::VmConfiguration => Ok(&self.loaded.settings.vm_configuration),
            Buffer::PluginConfiguration => Ok(&self.loaded.settings.configuration),
        }
    }

    /// Puts bytes in place of some of a body.
    pub(crate) fn set_buffer(
        &mut self,
        buffer: Buffer,
        start: u32,
        length: u32,
        bytes: &[u8],
    ) -> Result<(), Status> {
        let part = match buffer {
            Buffer::RequestBody => Part::RequestBody,
            Buffer::ResponseBody => Part::ResponseBody,
            _ => return Err(Status::BadArgument),
        };
        let most = self.loaded.settings.bounds.body_bytes;
        let stream = self.effective_stream_mut().ok_or(Status::NotFound)?;
        if !stream.changeable.has(part) {
            return Err(Status::NotFound);
        }
        let exchange = stream.exchange.as_deref_mut().ok_or(Status::NotFound)?;
        let (message, headers) = match part {
            Part::RequestBody => (
                &mut exchange.request_rest,
                Some(&mut exchange.request.headers),
            ),
            _ => {
                let response = exchange.response.as_mut();
                (
                    &mut exchange.response_rest,
                    response.map(|parts| &mut parts.headers),
                )
            }
        };
        let (start, length) = (start as usize, length as usize);
        splice(&mut message.body, start, length, bytes, most)?;
        if let Some(headers) = headers {
            // The length that was said is not the body's any more.
            headers.remove(header::CONTENT_LENGTH);
        }
        Ok(())
    }
}

fn view_exchange(exchange: &Exchange, map: Map) -> Result<View<'_>, Status> {
    Ok(match map {
        Map::RequestHeaders => View::of_request(exchange),
        Map::RequestTrailers => view_trailers(exchange.request_rest.trailers.as_deref()),
        Map::ResponseHeaders => match &exchange.response {
            Some(parts) => View::Response(parts.status, &parts.headers),
            None => return Err(Status::BadArgument),
        },
        Map::ResponseTrailers => view_trailers(exchange.response_rest.trailers.as_deref()),
        Map::CallHeaders | Map::CallTrailers => View::Nothing,
    })
}

fn view_trailers(trailers: Option<&HeaderMap>) -> View<'_> {
    trailers.map_or(View::Nothing, View::Trailers)
}

/// Trailers that are not there begin with the first field.
fn change_exchange(exchange: &mut Exchange, part: Part) -> Option<Change<'_>> {
    Some(match part {
        Part::RequestHeaders => {
            exchange.is_request_changed = true;
            Change::Request(&mut exchange.request)
        }
        Part::ResponseHeaders => Change::Response(exchange.response.as_mut()?),
        Part::RequestTrailers => {
            Change::Trailers(exchange.request_rest.trailers.get_or_insert_default())
        }
        Part::ResponseTrailers => {
            Change::Trailers(exchange.response_rest.trailers.get_or_insert_default())
        }
        Part::RequestBody | Part::ResponseBody => return None,
    })
}

/// Trailers without a field are none: a message that ends without does not end with empty ones because somebody
/// tried to make some.
fn forget_empty_trailers(exchange: &mut Exchange, part: Part) {
    let trailers = match part {
        Part::RequestTrailers => &mut exchange.request_rest.trailers,
        Part::ResponseTrailers => &mut exchange.response_rest.trailers,
        _ => return,
    };
    trailers.take_if(|trailers| trailers.is_empty());
}

/// Puts bytes in place of `length` bytes from `start` on, both cut to what there is. The body grows up to
/// `most` bytes.
fn splice(
    body: &mut BytesMut,
    start: usize,
    length: usize,
    bytes: &[u8],
    most: usize,
) -> Result<(), Status> {
    let start = start.min(body.len());
    let length = length.min(body.len() - start);
    let after = body.len() - length + bytes.len();
    if after > most && after > body.len() {
        return Err(Status::InternalFailure);
    }
    let mut tail = body.split_off(start);
    tail.advance(length);
    body.extend_from_slice(bytes);
    body.extend_from_slice(&tail);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(start: usize, length: usize, bytes: &str) -> Result<String, Status> {
        let mut body = BytesMut::from("012345");
        splice(&mut body, start, length, bytes.as_bytes(), 10)?;
        Ok(String::from_utf8(body.to_vec()).unwrap())
    }

    #[test]
    fn bodies_are_prepended_to_appended_to_replaced_and_bounded() {
        let max = u32::MAX as usize;
        assert_eq!(spliced(0, 0, "ab").unwrap(), "ab012345");
        assert_eq!(spliced(max, 0, "ab").unwrap(), "012345ab");
        assert_eq!(spliced(max, max, "ab").unwrap(), "012345ab");
        assert_eq!(spliced(0, max, "ab").unwrap(), "ab");
        assert_eq!(spliced(2, 2, "ab").unwrap(), "01ab45");
        assert_eq!(spliced(3, 0, "ab").unwrap(), "012ab345");
        assert_eq!(spliced(1, 4, "").unwrap(), "05");
        assert_eq!(spliced(0, 0, "abcd").unwrap(), "abcd012345");
        assert_eq!(spliced(0, 0, "abcde"), Err(Status::InternalFailure));
        assert_eq!(spliced(0, 6, "0123456789a"), Err(Status::InternalFailure));
    }

    #[test]
    fn what_is_longer_than_the_bound_may_be_cut() {
        let mut body = BytesMut::from("0123456789");
        splice(&mut body, 0, 1, b"ab", 4).unwrap_err();
        splice(&mut body, 0, 1, b"a", 4).unwrap();
        splice(&mut body, 0, 8, b"", 4).unwrap();
        assert_eq!(&body[..], b"89");
    }
}

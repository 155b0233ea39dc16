//! One thread's share of a service: its instances, its contexts, its clock.

use crate::{
    Fault,
    call::{self, Request},
    code::Code,
    component::Component,
    drive::Drive,
    host::Host,
    request_body,
    response::{self, ResponseBody},
    shared::{Shared, idle},
};
use bytes::Bytes;
use http::Response;
use std::rc::Rc;

/// What answers the requests of one thread. It is to be used below a tokio runtime of that thread alone
/// (`current_thread`), with its clock on.
pub struct Worker {
    shared: Rc<Shared>,
}

impl Worker {
    /// For the calling thread.
    pub fn new(component: &Component, host: Rc<dyn Host>) -> Self {
        Self {
            shared: Rc::new(Shared::new(component, host)),
        }
    }

    /// Whether nothing of it is under way. Instances may wait for a request.
    pub fn is_idle(&self) -> bool {
        Rc::strong_count(&self.shared) == 1
    }

    /// Has an instance of this code answer a request, once the first part of its body is there: the head as soon as the guest has set it; the
    /// response's body comes as the guest writes it, driven by whoever polls it. Dropping either ends the guest.
    ///
    /// `is_secure`: whether it came by TLS.
    ///
    /// # Errors
    ///
    /// When the guest failed before it answered; the log has been told. [`Fault::status`] is for the client.
    pub async fn answer<B>(
        &self,
        code: &Code,
        request: http::Request<B>,
        is_secure: bool,
    ) -> Result<Response<ResponseBody>, Fault>
    where
        B: http_body::Body<Data = Bytes> + 'static,
        B::Error: Into<crate::BodyError>,
    {
        let (head, body) = request.into_parts();
        call::check(&head)?;
        let (body, wait) = request_body::receive(body).await?;
        let request = Request {
            head,
            body,
            is_secure,
        };
        let permit = self.shared.permit().await?;
        let (send_head, head) = tokio::sync::oneshot::channel();
        let run = call::run(Rc::clone(&self.shared), code.clone(), request, send_head);
        let drive = Drive::new(run, Rc::clone(&self.shared), code, permit, wait);
        response::respond(drive, head).await
    }
}

/// Has the instance give way that waits for a request for longest, of whatever component of this one's engine and thread: it
/// keeps its code loaded.
pub fn ask_oldest_to_leave(code: &Code) {
    idle::ask_oldest(code.engine());
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Worker")
            .field("memory_bytes", &self.shared.held_bytes())
            .finish_non_exhaustive()
    }
}

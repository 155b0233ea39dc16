//! The addresses that are listened on, and how they become those of another configuration.

use super::{
    Certificate, Edge, EdgeError, ListenError, Listening, TlsError, accept::Bound, tls::Secured,
};
use crate::config::{Address, Listener, Tls};
use std::sync::Arc;

/// The addresses that are listened on, in the configuration's order.
#[derive(Default)]
pub(crate) struct Listeners(Vec<OpenListener>);

/// What changes at the listeners of one worker.
pub(crate) struct ListenerChanges {
    pub(crate) new: Vec<Bound>,
    /// Those that stay, and what they speak from now on.
    pub(crate) kept: Vec<(Address, Option<Secured>)>,
    pub(crate) gone: Vec<Address>,
}

/// An address that is listened on, as this thread knows it.
struct OpenListener {
    /// As the configuration has it: port 0 stays 0.
    asked: Address,
    listening: Listening,
    tls: Option<OpenTls>,
}

/// How a listener speaks TLS.
#[derive(Clone)]
struct OpenTls {
    files: Vec<Tls>,
    secured: Secured,
}

impl Listeners {
    /// Opens what is new, with a socket for each worker, and says what becomes of what is there. Changes
    /// nothing.
    pub(crate) fn plan(&self, edge: &Edge, workers: usize) -> Result<ListenerPlan, EdgeError> {
        let mut plan = ListenerPlan { steps: Vec::new() };
        for listener in &edge.listeners {
            let step = match plan.find_old(&self.0, &listener.address) {
                Some(index) => Step::keep(index, &self.0[index], listener)?,
                None if plan.is_taken(&self.0, &listener.address) => {
                    return Err(ListenError::twice(&listener.address).into());
                }
                None => Step::New(OpenListener::open(listener, workers)?),
            };
            plan.steps.push(step);
        }
        Ok(plan)
    }

    /// What a plan comes to for one worker.
    pub(crate) fn changes(
        &self,
        plan: &ListenerPlan,
        worker: usize,
    ) -> Result<ListenerChanges, ListenError> {
        Ok(ListenerChanges {
            new: plan.new_listeners(worker)?,
            kept: plan.kept(&self.0),
            gone: plan.gone(&self.0),
        })
    }

    /// Carries a plan out, as far as it is not the workers'.
    pub(crate) fn carry_out(&mut self, plan: ListenerPlan) {
        self.0 = plan.carry_out(std::mem::take(&mut self.0));
    }

    /// Reads every certificate anew. The first error, if there is one; the other certificates are replaced.
    pub(crate) fn reload_certificates(&self) -> Result<(), TlsError> {
        let mut result = Ok(());
        for tls in self.0.iter().filter_map(|open| open.tls.as_ref()) {
            match Certificate::read(&tls.files) {
                Ok(certificate) => tls.secured.certificate.replace(&certificate),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// The addresses, with the ports that they really are.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        let addresses = self.0.iter().map(|open| open.listening.address());
        addresses.cloned().collect()
    }

    /// Lets nobody in any more.
    pub(crate) fn close_to_new(self) {
        for open in self.0 {
            open.listening.close_to_new();
        }
    }
}

impl OpenListener {
    fn open(listener: &Listener, workers: usize) -> Result<Self, EdgeError> {
        Ok(Self {
            asked: listener.address.clone(),
            tls: OpenTls::open_any(&listener.tls)?,
            listening: Listening::bind(&listener.address, listener.mode, workers)?,
        })
    }
}

/// What becomes of the listeners, in the new configuration's order. Old ones without a step go.
pub(crate) struct ListenerPlan {
    steps: Vec<Step>,
}

enum Step {
    New(OpenListener),
    Keep {
        index: usize,
        mode: Option<u32>,
        tls: Option<OpenTls>,
        /// What the certificate is to be replaced by.
        read: Option<Arc<Certificate>>,
    },
}

impl Step {
    /// A listener that speaks TLS as before keeps what it has for that, tickets of sessions too.
    fn keep(index: usize, open: &OpenListener, listener: &Listener) -> Result<Self, TlsError> {
        let (tls, read) = match &open.tls {
            None => (OpenTls::open_any(&listener.tls)?, None),
            Some(_) if listener.tls.is_empty() => (None, None),
            Some(open) => {
                let files = listener.tls.clone();
                let read = Certificate::read(&files)?;
                (
                    Some(OpenTls {
                        files,
                        ..open.clone()
                    }),
                    Some(read),
                )
            }
        };
        let mode = listener.mode;
        Ok(Self::Keep {
            index,
            mode,
            tls,
            read,
        })
    }
}

impl ListenerPlan {
    fn find_old(&self, old: &[OpenListener], address: &Address) -> Option<usize> {
        (0..old.len()).find(|&index| old[index].asked == *address && !self.keeps(index))
    }

    fn keeps(&self, old: usize) -> bool {
        let is_kept = |step: &Step| matches!(step, Step::Keep { index, .. } if *index == old);
        self.steps.iter().any(is_kept)
    }

    /// Whether the address was named before. Port 0 is another port each time.
    fn is_taken(&self, old: &[OpenListener], address: &Address) -> bool {
        if matches!(address, Address::Internet(address) if address.port() == 0) {
            return false;
        }
        self.steps.iter().any(|step| match step {
            Step::New(open) => open.asked == *address,
            Step::Keep { index, .. } => old[*index].asked == *address,
        })
    }

    fn new_listeners(&self, worker: usize) -> Result<Vec<Bound>, ListenError> {
        let new = self.steps.iter().filter_map(|step| match step {
            Step::New(open) => Some(open),
            Step::Keep { .. } => None,
        });
        new.map(|open| {
            Ok(Bound {
                address: open.listening.address().clone(),
                socket: open.listening.socket(worker)?,
                tls: open.tls.as_ref().map(|tls| tls.secured.clone()),
            })
        })
        .collect()
    }

    fn kept(&self, old: &[OpenListener]) -> Vec<(Address, Option<Secured>)> {
        let kept = self.steps.iter().filter_map(|step| match step {
            Step::New(_) => None,
            Step::Keep { index, tls, .. } => Some((index, tls)),
        });
        kept.map(|(&index, tls)| {
            let secured = tls.as_ref().map(|tls| tls.secured.clone());
            (old[index].listening.address().clone(), secured)
        })
        .collect()
    }

    fn gone(&self, old: &[OpenListener]) -> Vec<Address> {
        let gone = (0..old.len()).filter(|&index| !self.keeps(index));
        gone.map(|index| old[index].listening.address().clone())
            .collect()
    }

    fn carry_out(self, old: Vec<OpenListener>) -> Vec<OpenListener> {
        let mut old: Vec<_> = old.into_iter().map(Some).collect();
        let listeners = self.steps.into_iter().filter_map(|step| match step {
            Step::New(open) => Some(open),
            Step::Keep {
                index,
                mode,
                tls,
                read,
            } => {
                let open = old[index].take()?;
                open.listening.set_mode(mode);
                if let (Some(tls), Some(read)) = (&tls, read) {
                    tls.secured.certificate.replace(&read);
                }
                Some(OpenListener { tls, ..open })
            }
        });
        let listeners = listeners.collect();
        for open in old.into_iter().flatten() {
            open.listening.close_to_new();
        }
        listeners
    }
}

impl OpenTls {
    /// `None`: the listener has no certificates, and speaks no TLS.
    fn open_any(files: &[Tls]) -> Result<Option<Self>, TlsError> {
        if files.is_empty() {
            return Ok(None);
        }
        let certificate = Certificate::read(files)?;
        Ok(Some(Self {
            files: files.to_vec(),
            secured: Secured {
                config: Arc::clone(&certificate).server_config()?,
                certificate,
            },
        }))
    }
}

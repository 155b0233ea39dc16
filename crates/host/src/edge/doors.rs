//! The addresses that are listened on, and how they become those of another configuration.

use super::{
    Certificate, Edge, EdgeError, ListenError, Listening, TlsError, accept::Door, tls::Secured,
};
use crate::config::{Address, Listener, Tls};
use std::sync::Arc;

/// The addresses that are listened on, in the configuration's order.
#[derive(Default)]
pub(crate) struct Doors(Vec<OpenDoor>);

/// What changes at the doors of one worker.
pub(crate) struct DoorChanges {
    pub(crate) new: Vec<Door>,
    /// Those that stay, and what they speak from now on.
    pub(crate) kept: Vec<(Address, Option<Secured>)>,
    pub(crate) gone: Vec<Address>,
}

/// An address that is listened on, as this thread knows it.
struct OpenDoor {
    /// As the configuration has it: port 0 stays 0.
    asked: Address,
    listening: Listening,
    tls: Option<OpenTls>,
}

/// How a door speaks TLS.
#[derive(Clone)]
struct OpenTls {
    files: Vec<Tls>,
    secured: Secured,
}

impl Doors {
    /// Opens what is new, with a socket for each worker, and says what becomes of what is there. Changes
    /// nothing.
    pub(crate) fn plan(&self, edge: &Edge, workers: usize) -> Result<DoorPlan, EdgeError> {
        let mut plan = DoorPlan { steps: Vec::new() };
        for listener in &edge.listeners {
            let step = match plan.find_old(&self.0, &listener.address) {
                Some(index) => Step::keep(index, &self.0[index], listener)?,
                None if plan.is_taken(&self.0, &listener.address) => {
                    return Err(ListenError::twice(&listener.address).into());
                }
                None => Step::New(OpenDoor::open(listener, workers)?),
            };
            plan.steps.push(step);
        }
        Ok(plan)
    }

    /// What a plan comes to for one worker.
    pub(crate) fn changes(
        &self,
        plan: &DoorPlan,
        worker: usize,
    ) -> Result<DoorChanges, ListenError> {
        Ok(DoorChanges {
            new: plan.new_doors(worker)?,
            kept: plan.kept(&self.0),
            gone: plan.gone(&self.0),
        })
    }

    /// Carries a plan out, as far as it is not the workers'.
    pub(crate) fn carry_out(&mut self, plan: DoorPlan) {
        self.0 = plan.carry_out(std::mem::take(&mut self.0));
    }

    /// Reads every certificate anew. The first error, if there is one; the other certificates are replaced.
    pub(crate) fn reload_certificates(&self) -> Result<(), TlsError> {
        let mut result = Ok(());
        for tls in self.0.iter().filter_map(|door| door.tls.as_ref()) {
            match Certificate::read(&tls.files) {
                Ok(certificate) => tls.secured.certificate.replace(&certificate),
                Err(error) => result = result.and(Err(error)),
            }
        }
        result
    }

    /// The addresses, with the ports that they really are.
    pub(crate) fn addresses(&self) -> Vec<Address> {
        let addresses = self.0.iter().map(|door| door.listening.address());
        addresses.cloned().collect()
    }

    /// Lets nobody in any more.
    pub(crate) fn close_to_new(self) {
        for door in self.0 {
            door.listening.close_to_new();
        }
    }
}

impl OpenDoor {
    fn open(listener: &Listener, workers: usize) -> Result<Self, EdgeError> {
        Ok(Self {
            asked: listener.address.clone(),
            tls: OpenTls::open_any(&listener.tls)?,
            listening: Listening::bind(&listener.address, listener.mode, workers)?,
        })
    }
}

/// What becomes of the doors, in the new configuration's order. Old ones without a step go.
pub(crate) struct DoorPlan {
    steps: Vec<Step>,
}

enum Step {
    New(OpenDoor),
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
    fn keep(index: usize, door: &OpenDoor, listener: &Listener) -> Result<Self, TlsError> {
        let (tls, read) = match &door.tls {
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

impl DoorPlan {
    fn find_old(&self, old: &[OpenDoor], address: &Address) -> Option<usize> {
        (0..old.len()).find(|&index| old[index].asked == *address && !self.keeps(index))
    }

    fn keeps(&self, old: usize) -> bool {
        let is_kept = |step: &Step| matches!(step, Step::Keep { index, .. } if *index == old);
        self.steps.iter().any(is_kept)
    }

    /// Whether the address was named before. Port 0 is another port each time.
    fn is_taken(&self, old: &[OpenDoor], address: &Address) -> bool {
        if matches!(address, Address::Internet(address) if address.port() == 0) {
            return false;
        }
        self.steps.iter().any(|step| match step {
            Step::New(door) => door.asked == *address,
            Step::Keep { index, .. } => old[*index].asked == *address,
        })
    }

    fn new_doors(&self, worker: usize) -> Result<Vec<Door>, ListenError> {
        let new = self.steps.iter().filter_map(|step| match step {
            Step::New(door) => Some(door),
            Step::Keep { .. } => None,
        });
        new.map(|door| {
            Ok(Door {
                address: door.listening.address().clone(),
                socket: door.listening.socket(worker)?,
                tls: door.tls.as_ref().map(|tls| tls.secured.clone()),
            })
        })
        .collect()
    }

    fn kept(&self, old: &[OpenDoor]) -> Vec<(Address, Option<Secured>)> {
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

    fn gone(&self, old: &[OpenDoor]) -> Vec<Address> {
        let gone = (0..old.len()).filter(|&index| !self.keeps(index));
        gone.map(|index| old[index].listening.address().clone())
            .collect()
    }

    fn carry_out(self, old: Vec<OpenDoor>) -> Vec<OpenDoor> {
        let mut old: Vec<_> = old.into_iter().map(Some).collect();
        let doors = self.steps.into_iter().filter_map(|step| match step {
            Step::New(door) => Some(door),
            Step::Keep {
                index,
                mode,
                tls,
                read,
            } => {
                let door = old[index].take()?;
                door.listening.set_mode(mode);
                if let (Some(tls), Some(read)) = (&tls, read) {
                    tls.secured.certificate.replace(&read);
                }
                Some(OpenDoor { tls, ..door })
            }
        });
        let doors = doors.collect();
        for door in old.into_iter().flatten() {
            door.listening.close_to_new();
        }
        doors
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

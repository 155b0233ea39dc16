//! What filters of one `vm_id` share.

mod data;
mod queue;

pub(crate) use data::{Data, SetError};
pub(crate) use queue::{Queues, Registrant};

use crate::settings::SharedBounds;

/// What filters of one `vm_id` share, and no others see.
#[derive(Debug)]
pub(crate) struct Space {
    pub(crate) data: Data,
    pub(crate) queues: Queues,
}

impl Space {
    pub(crate) fn new(bounds: &SharedBounds) -> Self {
        Self {
            data: Data::new(bounds),
            queues: Queues::new(bounds),
        }
    }
}

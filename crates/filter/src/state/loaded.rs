//! What all instances of a filter share.

use super::State;
use crate::{Settings, callbacks::Callbacks, metrics::Series, space::Space};
use palisade_engine::guest::Linked;
use std::sync::Arc;

/// What all instances of a filter share.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) linked: Linked<State>,
    pub(crate) callbacks: Callbacks,
    pub(crate) settings: Settings,
    pub(crate) reads_properties: bool,
    pub(crate) changes_bodies: bool,
    pub(crate) space: Arc<Space>,
    pub(crate) series: Arc<Series>,
}

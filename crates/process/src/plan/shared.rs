//! What copies of a plan share.

use serde::{Serialize, Serializer};
use std::{
    ops::{Deref, DerefMut},
    sync::Arc,
};

/// A value that is copied when a copy is changed, and no sooner: plans are copied for each launch, and hardly ever changed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shared<T>(Arc<T>);

impl<T> From<T> for Shared<T> {
    fn from(value: T) -> Self {
        Self(Arc::new(value))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for Shared<T> {
    fn deref_mut(&mut self) -> &mut T {
        Arc::make_mut(&mut self.0)
    }
}

impl<T: Serialize> Serialize for Shared<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_that_is_changed_is_its_own() {
        let first = Shared::from(vec![1]);
        let mut second = first.clone();
        assert!(std::ptr::eq(&*first, &*second));
        second.push(2);
        assert_eq!((first.len(), second.len()), (1, 2));
        assert_eq!(serde_json::to_string(&second).unwrap(), "[1,2]");
    }
}

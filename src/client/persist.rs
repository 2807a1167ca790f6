use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Engine;
use crate::snapshot::{Secrets, SnapshotError};

/// What a binding saves of itself. It is implemented in this crate only.
pub trait Persist: Clone {
    /// The name of the binding.
    const KIND: &'static str;
    /// What is saved.
    type State: DeserializeOwned;

    /// Drops the secrets, and with them the transport.
    fn forget_secrets(&mut self, engine: &mut Engine);

    /// What is saved, serialized as [`Self::State`].
    fn state(&self, secrets: Secrets) -> impl Serialize;

    /// The binding in this state; `self` is a new one.
    ///
    /// # Errors
    /// [`SnapshotError::Invalid`], [`SnapshotError::Limit`].
    fn restore(self, engine: &mut Engine, state: Self::State) -> Result<Self, SnapshotError>;

    /// The session moved without its transport.
    fn lose_transport(&mut self, engine: &mut Engine, secrets: Secrets);
}

use core::time::Duration;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

/// A map that is being serialized.
pub(super) struct Written<M>(pub(super) M);

impl<M: SerializeMap> Written<M> {
    pub(super) fn always(&mut self, key: &'static str, value: &impl Serialize) -> Result<(), M::Error> {
        self.0.serialize_entry(key, value)
    }

    pub(super) fn unless(&mut self, default: bool, key: &'static str, value: &impl Serialize) -> Result<(), M::Error> {
        if default { Ok(()) } else { self.always(key, value) }
    }
}

/// Seconds, as an integer if they are whole.
pub(super) struct Seconds(pub(super) Duration);

impl Serialize for Seconds {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.subsec_nanos() {
            0 => serializer.serialize_u64(self.0.as_secs()),
            _ => serializer.serialize_f64(self.0.as_secs_f64()),
        }
    }
}

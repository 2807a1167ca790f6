use alloc::sync::Arc;

/// Maximum characters of a name, including prefix and suffix.
pub const MAX_LEN: usize = 64;

/// A name that was chosen.
#[derive(Clone, Debug)]
pub(super) enum Name {
    /// The plain name.
    Plain,
    /// Another one.
    Suffixed(Arc<str>),
}

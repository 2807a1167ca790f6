//! Signals that ask probe to end. The servers lead process groups of their own, so a terminal's Ctrl-C does not reach
//! them: probe ends them before it ends itself.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The signal that came last, 0 as long as none did.
pub(crate) struct Interrupt(Arc<AtomicUsize>);

impl Interrupt {
    pub(crate) fn listen() -> io::Result<Self> {
        let last = Arc::new(AtomicUsize::new(0));
        let signals = [
            SIGINT,
            SIGTERM,
            #[cfg(unix)]
            signal_hook::consts::SIGHUP,
        ];
        for signal in signals {
            flag::register_usize(signal, Arc::clone(&last), usize::try_from(signal).unwrap_or_default())?;
        }
        Ok(Self(last))
    }

    pub(crate) fn came(&self) -> bool {
        self.0.load(Ordering::Relaxed) != 0
    }

    /// The exit status that shells give a program which a signal ended; none where no signal came.
    pub(crate) fn status(&self) -> Option<u8> {
        self.came().then(|| u8::try_from(self.0.load(Ordering::Relaxed).saturating_add(128)).unwrap_or(1))
    }
}

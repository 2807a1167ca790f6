//! Signals that ask probe to end. The servers lead their own process groups, so a terminal's Ctrl-C does not reach
//! them: probe terminates them before it exits.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// The last signal received; 0 if none.
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

    /// The exit status for a program ended by this signal, as in shells; `None` without a signal.
    pub(crate) fn status(&self) -> Option<u8> {
        self.came().then(|| u8::try_from(self.0.load(Ordering::Relaxed).saturating_add(128)).unwrap_or(1))
    }
}

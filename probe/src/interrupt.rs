//! Signals that end the program.

use std::io;

#[cfg(unix)]
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals, and the exit status that one of them led to.
pub(crate) struct Interrupt {
    #[cfg(unix)]
    signals: [(Signal, u8); 3],
    #[cfg(windows)]
    signal: tokio::signal::windows::CtrlC,
    status: Option<u8>,
}

impl Interrupt {
    /// Listens in the context of a runtime. From then on the program does not end by itself.
    #[cfg(unix)]
    pub(crate) fn listen() -> io::Result<Self> {
        let listen = |kind: SignalKind| -> io::Result<(Signal, u8)> {
            let number = u8::try_from(kind.as_raw_value()).unwrap_or_default();
            Ok((signal(kind)?, number.saturating_add(128)))
        };
        let signals = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()];
        let [interrupt, terminate, hangup] = signals.map(listen);
        Ok(Self { signals: [interrupt?, terminate?, hangup?], status: None })
    }

    #[cfg(windows)]
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self { signal: tokio::signal::windows::ctrl_c()?, status: None })
    }

    /// Waits for a signal; at once after the first one.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) {
        if self.status.is_none() {
            let [(interrupt, a), (terminate, b), (hangup, c)] = &mut self.signals;
            let status = tokio::select! {
                _ = interrupt.recv() => *a,
                _ = terminate.recv() => *b,
                _ = hangup.recv() => *c,
            };
            self.status = Some(status);
        }
    }

    #[cfg(windows)]
    pub(crate) async fn next(&mut self) {
        if self.status.is_none() {
            self.signal.recv().await;
            self.status = Some(130);
        }
    }

    pub(crate) const fn came(&self) -> bool {
        self.status.is_some()
    }

    /// The exit status for a program ended by this signal, as in shells; `None` without a signal.
    pub(crate) const fn status(&self) -> Option<u8> {
        self.status
    }
}

//! The options of sessions, and what the operating system provides for them.

use std::time::{Duration, SystemTime};

use mcp_proto::{Client, Keepalive, Messages, Options, Reconnect};

use crate::args::Settings;

/// A session that was never opened.
pub(crate) fn unopened(options: Options) -> mcp_proto::Engine {
    mcp_proto::Engine::clone(&Client::new(Messages::new(), options, 0))
}

/// The options of a run's sessions.
pub(crate) fn options(settings: &Settings) -> Options {
    let mut options = Options::new("mcp-proto-probe", env!("CARGO_PKG_VERSION"));
    options.capabilities.elicitation = true;
    options.capabilities.elicitation_url = settings.answers.offer_urls();
    options.capabilities.tasks = true;
    options.capabilities.sampling = settings.answers.offer_sampling();
    options.eras = settings.eras;
    options.reconnect = None;
    if settings.watch.is_some() {
        let mut keepalive = Keepalive::default();
        keepalive.interval = Duration::from_secs(5);
        keepalive.timeout = Duration::from_secs(3);
        keepalive.threshold = 2;
        keepalive.discover = true;
        options.keepalive = Some(keepalive);
        let mut reconnect = Reconnect::default();
        reconnect.initial = Duration::from_millis(250);
        options.reconnect = Some(reconnect);
    }
    options
}

/// Entropy of the operating system.
pub(crate) fn entropy() -> Result<[u8; 32], String> {
    let mut entropy = [0; 32];
    let filled = rustls::crypto::ring::default_provider().secure_random.fill(&mut entropy);
    filled.map(|()| entropy).map_err(|_| "the system has no random numbers".into())
}

/// The time since the Unix epoch.
pub(crate) fn unix() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

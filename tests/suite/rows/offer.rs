//! What `initialize` offers after a refusal.

use mcp_proto::{KnownEra, Options, ProtocolVersion};
use serde_json::{Value, json};

use crate::common::{Host, legacy};
use crate::rows::{refuse, refuse_with};

const BOTH: &str = "this version does not know the capability `elicitation`";

fn capable() -> Options {
    let mut options = legacy();
    options.capabilities.elicitation = true;
    options
}

/// The server is known to support only the oldest version.
fn oldest(mut options: Options) -> Options {
    options.known_era = Some(KnownEra::new(ProtocolVersion::V2024_11_05));
    options
}

/// Refuses `initialize`, and returns the next offer: the version, and whether capabilities are declared.
fn next(host: &mut Host, code: i64, message: &str) -> Option<(Value, bool)> {
    let initialize = host.take_one();
    refuse(host, &initialize, code, message);
    let next = host.take_sent().pop()?;
    assert_eq!(next["method"], "initialize");
    let offer = (next["params"]["protocolVersion"].clone(), next["params"]["capabilities"] != json!({}));
    host.sent.push(next);
    Some(offer)
}

#[test]
fn a_refusal_of_version_and_capabilities_changes_the_version_first() {
    let mut host = Host::open(capable());
    assert_eq!(next(&mut host, -32000, BOTH), Some((json!("2025-06-18"), true)));
}

#[test]
fn without_an_older_version_the_capabilities_are_left_out() {
    let mut host = Host::open(oldest(capable()));
    assert_eq!(next(&mut host, -32000, BOTH), Some((json!("2024-11-05"), false)));
    assert_eq!(next(&mut host, -32000, BOTH), None, "nothing is left to offer");
}

#[test]
fn without_capabilities_only_the_version_changes() {
    for code in [-32000, -32602] {
        let mut host = Host::open(legacy());
        assert_eq!(next(&mut host, code, BOTH), Some((json!("2025-06-18"), false)), "{code}");
    }
    let mut host = Host::open(legacy());
    let roots = "invalid roots";
    assert_eq!(next(&mut host, -32602, roots), Some((json!("2025-06-18"), false)));
}

#[test]
fn invalid_parameters_of_the_oldest_version_leave_the_capabilities_out_once() {
    let mut host = Host::open(oldest(capable()));
    assert_eq!(next(&mut host, -32602, "invalid parameters"), Some((json!("2024-11-05"), false)));
    assert_eq!(next(&mut host, -32602, "invalid parameters"), None, "nothing is left to offer");
}

#[test]
fn what_the_refusal_is_about_is_changed_and_nothing_else() {
    let mut host = Host::open(oldest(capable()));
    let words = "the capability `elicitation` is not supported";
    assert_eq!(next(&mut host, -32000, words), Some((json!("2024-11-05"), false)));
    let mut host = Host::open(oldest(capable()));
    assert_eq!(next(&mut host, -32603, "out of order"), None);
    // The server names a version, which may not be the next one.
    let mut host = Host::open(capable());
    let initialize = host.take_one();
    let data = json!({"supported": ["2025-03-26"]});
    refuse_with(
        &mut host,
        &initialize,
        json!({"code": -32602, "message": "Unsupported protocol version", "data": data}),
    );
    let next = host.take_one();
    assert_eq!(next["params"]["protocolVersion"], "2025-03-26");
    assert_ne!(next["params"]["capabilities"], json!({}));
}

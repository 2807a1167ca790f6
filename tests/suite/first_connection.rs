//! The first connection of a client: it is tried a few times before the client is parked.

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};
use mcp_proto::{Cause, Event, FailureKind, OpenFailure, Options, Outcome, Recovery, Request, Time, Transport};
use serde_json::json;

/// How a connection ends before the client is ready.
#[derive(Clone, Copy, Debug)]
enum End {
    Unreachable,
    Exits,
    Silent,
    RefusesHandshake,
    RefusesList,
}

const ENDS: [End; 4] = [End::Exits, End::Silent, End::RefusesHandshake, End::RefusesList];

impl End {
    const fn kind(self) -> FailureKind {
        match self {
            Self::Unreachable => FailureKind::Connect,
            Self::Exits => FailureKind::Closed,
            Self::Silent => FailureKind::HandshakeTimeout,
            Self::RefusesHandshake => FailureKind::HandshakeRejected,
            Self::RefusesList => FailureKind::ListFailed,
        }
    }

    /// Ends the connection that is being opened in this way, and its transport.
    fn end_connection(self, host: &mut Host) {
        if let Self::Unreachable = self {
            return host.transport(Transport::OpenFailed { how: OpenFailure::Connect, why: "refused" });
        }
        host.transport(Transport::Opened);
        let server = Server::legacy(json!({"tools": {}}));
        match self {
            Self::Unreachable => {}
            Self::Exits => host.close_transport(),
            Self::Silent => host.wait(seconds(60)),
            Self::RefusesHandshake => host.serve(&mut Server::new().error("initialize", -32000, "go away")),
            Self::RefusesList => host.serve(&mut server.error("tools/list", -32603, "no")),
        }
        if !host.shuts.is_empty() {
            host.shuts.clear();
            host.close_transport();
        }
    }
}

fn opening(options: Options) -> Host {
    let mut host = Host::new(options);
    host.session.open(host.now).unwrap();
    host.collect();
    host
}

fn last_down(host: &Host) -> (FailureKind, Recovery) {
    let down = host.events.iter().rev().find_map(|event| match event {
        Event::Down { failure, next } => Some((failure.kind, *next)),
        _ => None,
    });
    down.unwrap()
}

/// Waits for the next transport.
fn wait_for_open(host: &mut Host) {
    let opens = host.opens;
    let deadline = host.session.deadline().unwrap();
    host.wait(deadline - host.now);
    assert_eq!(host.opens, opens + 1);
    host.take_sent();
}

/// A server that starts beside the client, as in any compose file.
#[test]
fn nobody_listens_yet_the_server_is_tried_for_as_long_as_the_connect_timeout() {
    for (connect, bound) in [(Some(seconds(20)), seconds(20)), (None, seconds(60))] {
        let mut host = opening({
            let mut options = reconnecting(legacy());
            options.timeouts.connect = connect;
            options
        });
        let mut attempts = 0;
        while host.now < Time::ZERO + bound {
            attempts += 1;
            End::Unreachable.end_connection(&mut host);
            let (kind, next) = last_down(&host);
            assert_eq!(kind, FailureKind::Connect);
            assert!(matches!(next, Recovery::Reopen { .. }), "{attempts} {next:?}");
            wait_for_open(&mut host);
        }
        assert!((6..=9).contains(&attempts), "{attempts}");
        End::Unreachable.end_connection(&mut host);
        assert!(matches!(last_down(&host).1, Recovery::Parked { .. }));
    }
    // One that listens at last is ready at once.
    let mut host = opening(reconnecting(legacy()));
    for _ in 0..5 {
        End::Unreachable.end_connection(&mut host);
        wait_for_open(&mut host);
    }
    host.transport(Transport::Opened);
    host.serve(&mut Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["x"])));
    assert!(host.is_ready());
    // The failure is told at once without reconnects.
    let mut host = opening(legacy());
    End::Unreachable.end_connection(&mut host);
    assert_eq!(host.failure_kind(), Some(FailureKind::Connect));
}

#[test]
fn a_first_connection_that_fails_is_tried_three_times_and_then_parked() {
    for end in ENDS {
        let mut host = opening(reconnecting(legacy()));
        let call = host.session.request(host.now, Request::call_tool("x", None).timeout(seconds(2000))).unwrap();
        for attempt in 1..=2 {
            let before = host.now;
            end.end_connection(&mut host);
            let (kind, next) = last_down(&host);
            assert_eq!(kind, end.kind());
            assert!(matches!(next, Recovery::Reopen { .. }), "{end:?}, attempt {attempt}: {next:?}");
            wait_for_open(&mut host);
            assert!(host.now - before <= seconds(70));
        }
        end.end_connection(&mut host);
        let (kind, next) = last_down(&host);
        let Recovery::Parked { until, .. } = next else { panic!("{end:?}: {next:?}") };
        assert_eq!((kind, until), (end.kind(), host.now + seconds(300)));
        assert_eq!(host.opens, 3, "{end:?}");
        assert!(!host.session.is_closed() && host.ended(call).is_none());

        // One attempt per interval; the client is ready when the server is.
        wait_for_open(&mut host);
        assert_eq!(host.now, until);
        end.end_connection(&mut host);
        assert!(matches!(last_down(&host).1, Recovery::Parked { .. }), "{end:?}");
        wait_for_open(&mut host);
        host.transport(Transport::Opened);
        let server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["x"]));
        host.serve(&mut server.result("tools/call", json!({"content": []})));
        assert!(host.is_ready());
        assert!(matches!(host.ended(call), Some(Outcome::Result(_))), "{end:?}");
    }
}

#[test]
fn a_parked_first_connection_is_tried_again_by_command() {
    let mut host = opening(reconnecting(legacy()));
    for _ in 0..2 {
        End::Exits.end_connection(&mut host);
        wait_for_open(&mut host);
    }
    End::Exits.end_connection(&mut host);
    host.session.open(host.now).unwrap();
    host.collect();
    assert_eq!(host.opens, 4);
}

#[test]
fn an_unsupported_version_parks_the_first_connection_at_once() {
    let mut host = opening(reconnecting(options()));
    host.transport(Transport::Opened);
    let data = json!({"supported": ["1999-01-01"], "requested": "2026-07-28"});
    let refusal = json!({"code": -32022, "message": "unsupported", "data": data});
    let refuse = move |_: &serde_json::Value| Err(refusal.clone());
    host.serve(&mut Server::new().on("server/discover", refuse.clone()).on("initialize", refuse));
    let (kind, next) = last_down(&host);
    assert_eq!(kind, FailureKind::UnsupportedVersion);
    assert!(matches!(next, Recovery::Parked { .. }), "{next:?}");
    assert!(!host.session.is_closed());
}

#[test]
fn without_reconnects_the_first_failure_closes_the_client() {
    for end in ENDS {
        let mut host = opening(legacy());
        end.end_connection(&mut host);
        assert!(host.session.is_closed(), "{end:?}");
        assert!(matches!(host.cause(), Some(Cause::Failed(failure)) if failure.kind == end.kind()), "{end:?}");
        assert_eq!(host.opens, 1);
    }
}

#[test]
fn the_number_of_attempts_is_an_option() {
    for first in [0, 1, 5] {
        let mut options = reconnecting(legacy());
        options.reconnect.as_mut().unwrap().first_attempts = first;
        let mut host = opening(options);
        for _ in 1..first {
            End::RefusesHandshake.end_connection(&mut host);
            wait_for_open(&mut host);
        }
        End::RefusesHandshake.end_connection(&mut host);
        assert!(matches!(last_down(&host).1, Recovery::Parked { .. }), "{first}");
        assert_eq!(host.opens, first.max(1));
    }
}

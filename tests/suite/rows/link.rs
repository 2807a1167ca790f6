//! Rows of the connection: what the embedder has polled of it, and how its end is reported.

use mcp_proto::{Event, OpenFailure, Options, Reconnect, Request, Secrets, ShutdownStep, Transport};
use serde_json::json;

use crate::common::{Host, Server, legacy, options, reconnecting, seconds, tools};
use crate::web::{Reply, Web, site};

/// How a connection ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Close,
    Spawn,
    Connect,
    Closed,
    Violation,
    Timeout,
}

const ENDS: [End; 6] = [End::Close, End::Spawn, End::Connect, End::Closed, End::Violation, End::Timeout];

/// Whether another connection follows.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Tries {
    Never,
    Left,
    UsedUp,
}

#[derive(Clone, Copy, Debug)]
struct Case {
    was_ready: bool,
    opened: bool,
    seen: bool,
    tries: Tries,
    end: End,
}

fn configure(mut options: Options, case: Case) -> Options {
    options.keepalive = None;
    options.reconnect = match case.tries {
        Tries::Never => None,
        Tries::Left => Some(Reconnect::default()),
        Tries::UsedUp => {
            let mut reconnect = Reconnect::default();
            (reconnect.first_attempts, reconnect.max_losses) = (1, 1);
            Some(reconnect)
        }
    };
    options
}

/// A client whose connection is being opened or was opened. If it is not `seen`, the embedder polled nothing of it.
fn reach(options: Options, case: Case) -> Host {
    let mut host = if case.was_ready {
        let mut server = Server::legacy(json!({"tools": {}})).result("tools/list", tools(&["x"]));
        let mut host = Host::connect(options, &mut server);
        host.close_transport();
        host.now = host.session.deadline().unwrap();
        host.session.handle_timeout(host.now);
        host
    } else {
        let mut host = Host::new(options);
        host.session.open(host.now).unwrap();
        host
    };
    host.events.clear();
    if case.seen {
        host.collect();
    }
    if case.opened {
        // The second report means nothing.
        report(&mut host, Transport::Opened);
        report(&mut host, Transport::Opened);
    }
    if case.seen {
        host.collect();
    }
    host
}

fn report(host: &mut Host, event: Transport<'_>) {
    let connection = host.session.connection();
    host.session.handle_transport(host.now, connection, event);
}

fn end(host: &mut Host, case: Case) {
    match case.end {
        End::Close => host.session.close(host.now).unwrap(),
        End::Spawn => report(host, Transport::OpenFailed { how: OpenFailure::Spawn, why: "no such file" }),
        End::Connect => report(host, Transport::OpenFailed { how: OpenFailure::Connect, why: "refused" }),
        End::Closed => report(host, Transport::Closed { why: "exit status 1" }),
        End::Violation => report(host, Transport::ProtocolViolation { why: "a line without an end" }),
        End::Timeout => {
            host.now = host.now + seconds(3600);
            host.session.handle_timeout(host.now);
        }
    }
}

/// A loss that the embedder cannot have noticed is not reported, unless it is final.
#[test]
fn a_loss_is_reported_if_the_embedder_saw_the_connection_or_the_client_closes() {
    for was_ready in [false, true] {
        for (opened, seen) in [(false, false), (false, true), (true, false), (true, true)] {
            for tries in [Tries::Never, Tries::Left, Tries::UsedUp] {
                for end_of in ENDS {
                    let case = Case { was_ready, opened, seen, tries, end: end_of };
                    if was_ready && tries == Tries::Never {
                        continue;
                    }
                    let mut host = reach(configure(legacy(), case), case);
                    assert!(host.session.open(host.now).is_err(), "{case:?}: it is open");
                    end(&mut host, case);
                    host.collect();
                    let downs = host.events.iter().filter(|event| matches!(event, Event::Down { .. })).count();
                    let closes = host.session.request(host.now, Request::new("x")).is_err();
                    // An open transport cannot fail to open.
                    let lost = !(case.end == End::Close || opened && matches!(case.end, End::Spawn | End::Connect));
                    assert_eq!(downs, usize::from(lost && (seen || closes)), "{case:?}: {:?}", host.events);
                    assert_eq!(closes, case.end == End::Close || lost && !continues(case), "{case:?}");
                    assert_follows(&mut host, case, lost);
                }
            }
        }
    }
}

/// What follows: a transport that may be open is shut down, and another connection comes by itself or by command.
fn assert_follows(host: &mut Host, case: Case, lost: bool) {
    let label = format!("{case:?}");
    let shuts = case.end == End::Close && case.seen || matches!(case.end, End::Violation | End::Timeout);
    assert_eq!(host.shuts.len(), usize::from(shuts), "{label}");
    if !lost || !continues(case) {
        return;
    }
    let before = host.session.connection();
    if shuts {
        // What is being shut down cannot fail any more.
        host.transport(Transport::ProtocolViolation { why: "more" });
        if case.tries == Tries::Left {
            assert!(host.session.open(host.now).is_err(), "{label}: it is opened again anyway");
        }
        host.close_transport();
    }
    let parked = case.tries == Tries::UsedUp || case.end == End::Spawn;
    host.wait(seconds(10));
    assert_eq!(host.session.connection() == before, parked, "{label}");
    if parked {
        // Authorization is not what it lacks.
        let _ = host.session.authorized(host.now);
        assert_eq!(host.session.connection(), before, "{label}");
        host.session.open(host.now).unwrap();
    }
    let next = host.session.connection();
    assert_ne!(next, before, "{label}");
    let _ = host.session.authorized(host.now);
    host.collect();
    assert_eq!(host.session.connection(), next, "{label}: one at a time");
}

/// Whether the client continues after the loss.
fn continues(case: Case) -> bool {
    match case.end {
        End::Close | End::Violation => false,
        End::Spawn | End::Connect | End::Closed | End::Timeout => case.tries != Tries::Never,
    }
}

/// An unpolled connection needs no shutdown.
#[test]
fn a_client_that_closes_before_its_connection_is_polled_is_closed_at_once() {
    for opened in [false, true] {
        let case = Case { was_ready: false, opened, seen: false, tries: Tries::Left, end: End::Close };
        let mut host = reach(configure(legacy(), case), case);
        host.session.close(host.now).unwrap();
        host.collect();
        assert!(host.session.is_closed(), "{opened}");
        assert!(matches!(host.events[..], [Event::Closed { .. }]), "{:?}", host.events);
    }
}

#[test]
fn an_unpolled_handshake_also_gets_a_new_transport() {
    let case = Case { was_ready: false, opened: true, seen: false, tries: Tries::Left, end: End::Closed };
    let mut host = reach(configure(options(), case), case);
    let first = host.session.connection();
    end(&mut host, case);
    assert_ne!(host.session.connection(), first);
    host.collect();
    assert!(host.events.is_empty(), "{:?}", host.events);
}

#[test]
fn authorization_reopens_a_client_that_is_parked_for_lack_of_it_and_no_other() {
    for (status, reopens) in [(401, true), (403, true), (500, false)] {
        let mut options = legacy();
        options.reconnect = Some(Reconnect::default());
        let mut refuse = site().first("initialize", 1, move |_| Reply::text(status, "no"));
        let mut web = Web::connect(options, &mut refuse);
        assert!(!web.is_ready(), "{status}");
        let sent = web.log.len();
        if web.session.authorized(web.now).is_ok() {
            web.collect();
            web.serve(&mut refuse);
        }
        assert_eq!(web.is_ready(), reopens, "{status}");
        assert_eq!(web.log.len() > sent, reopens, "{status}");
    }
}

#[test]
fn a_client_that_is_parked_for_lack_of_authorization_reopens_after_its_time_by_command_or_closes() {
    for way in ["time", "open", "close"] {
        let mut options = legacy();
        options.reconnect = Some(Reconnect::default());
        let mut refuse = site().first("initialize", 1, |_| Reply::text(401, "who"));
        let mut web = Web::connect(options, &mut refuse);
        match way {
            "time" => web.wait(Reconnect::default().parked_backoff + seconds(1)),
            "open" => web.session.open(web.now).unwrap(),
            _ => web.session.close(web.now).unwrap(),
        }
        web.collect();
        web.serve(&mut refuse);
        assert_eq!(web.is_ready(), way != "close", "{way}");
        assert_eq!(web.session.is_closed(), way == "close", "{way}");
    }
}

/// How the transport of a connection that is being shut down ends; a violation is not its end.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Last {
    OpenFailed,
    Closed,
    Moved,
    Violation,
}

/// What shuts a connection down.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Shut {
    /// The embedder closes the client.
    Close,
    /// It was not open in time, and another one follows.
    Reconnect,
    /// As `Reconnect`, but attempts are used up.
    Park,
    /// Its server answers no list, and another connection of the legacy era replaces it.
    Replace,
}

/// The shutdown of a transport is over when the transport is gone, in whichever way.
#[test]
fn a_shutdown_ends_with_its_transport() {
    for shut in [Shut::Close, Shut::Reconnect, Shut::Park, Shut::Replace] {
        for is_agreed in if shut == Shut::Replace { &[true][..] } else { &[false, true] }.iter().copied() {
            for last in [Last::OpenFailed, Last::Closed, Last::Moved, Last::Violation] {
                let label = format!("{shut:?} {is_agreed} {last:?}");
                let mut options = reconnecting(if shut == Shut::Replace { options() } else { legacy() });
                options.timeouts.discovery = seconds(30);
                if shut == Shut::Park {
                    options.reconnect.as_mut().unwrap().first_attempts = 1;
                }
                let mut host = Host::new(options);
                host.session.open(host.now).unwrap();
                host.collect();
                if is_agreed {
                    host.transport(Transport::Opened);
                    let capabilities = json!({"tools": {}});
                    let mut server = match shut {
                        Shut::Replace => Server::modern(capabilities),
                        Shut::Close | Shut::Reconnect | Shut::Park => Server::legacy(capabilities),
                    };
                    let request = host.take_one();
                    host.receive(server.answer(&request).remove(0));
                }
                match shut {
                    Shut::Close => host.session.close(host.now).unwrap(),
                    Shut::Reconnect | Shut::Park | Shut::Replace => {
                        host.now = host.session.deadline().unwrap();
                        host.session.handle_timeout(host.now);
                    }
                }
                host.collect();
                assert_eq!(host.shuts, [ShutdownStep::CloseInput], "{label}");
                match last {
                    Last::OpenFailed => host.transport(Transport::OpenFailed { how: OpenFailure::Connect, why: "no" }),
                    Last::Closed => host.close_transport(),
                    Last::Moved => {
                        host.session = crate::moved::moved(
                            &host.session,
                            mcp_proto::Messages::new(),
                            mcp_proto::Moved::WithoutTransport,
                        );
                        host.collect();
                    }
                    Last::Violation => {
                        let text =
                            |host: &Host| serde_json::to_string(&host.session.snapshot(Secrets::Included)).unwrap();
                        let before = text(&host);
                        host.transport(Transport::ProtocolViolation { why: "no" });
                        assert_eq!(text(&host), before, "{label}");
                    }
                }
                let ends = last != Last::Violation;
                assert_eq!(host.session.is_closed(), ends && shut == Shut::Close, "{label}");
                host.wait(seconds(30));
                assert_eq!(host.shuts.contains(&ShutdownStep::Terminate), !ends, "{label}");
                // It is opened again after the backoff, or by command.
                if ends && shut == Shut::Park {
                    host.session.open(host.now).unwrap();
                    host.collect();
                }
                if ends && shut != Shut::Close {
                    assert_eq!(host.opens, 2, "{label}");
                }
            }
        }
    }
}

/// Nothing is polled until the transport was killed.
#[test]
fn a_connection_that_is_polled_after_its_shutdown_is_followed_by_another_one() {
    for tries in [Tries::Left, Tries::UsedUp] {
        let case = Case { was_ready: false, opened: false, seen: false, tries, end: End::Timeout };
        let mut host = reach(configure(legacy(), case), case);
        for wait in [3600, 3, 3, 3] {
            host.now = host.now + seconds(wait);
            host.session.handle_timeout(host.now);
        }
        let before = host.session.connection();
        host.collect();
        assert_eq!((host.opens, host.shuts.last()), (1, Some(&ShutdownStep::Kill)));
        if tries == Tries::UsedUp {
            host.session.open(host.now).unwrap();
        }
        host.wait(seconds(10));
        assert_ne!(host.session.connection(), before, "{tries:?}");
    }
}

//! The body of the target `message`.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use mcp_proto::{
    Action, Client, Diagnosis, Engine, Failure, FailureKind, Lines, Messages, Request, StderrLines, Time, Transport,
};
use serde::de::IgnoredAny;

use super::checks::{assert_same, check_kept, check_line};
use super::input::Input;
use super::peer::{self, Peer};
use super::rig::Operated as _;
use super::session::Rig;

/// Gives the bytes to sessions in several states.
pub fn message(bytes: &[u8]) -> u64 {
    let mut print = DefaultHasher::new();
    for session in prepared() {
        let mut session = session.clone();
        session.handle_message(session_time(), session.connection(), bytes);
        let mut sent = 0;
        let mut actions = 0;
        while let Some(action) = session.poll() {
            actions += 1;
            // The shortest request has about twenty bytes, and its refusal about a hundred.
            assert!(actions <= 32 + bytes.len() / 8, "{actions} actions");
            if let Action::Send(message) = &action {
                check_line(message);
                sent += message.line().len();
            }
            format!("{action:?}").hash(&mut print);
        }
        assert!(sent <= (16 << 10) + bytes.len() * 16, "{sent} bytes");
        check_kept(&session);
    }
    let [short, long] = ready();
    let mut whole = short.clone();
    let mut pieces = whole.clone();
    whole.handle_bytes(session_time(), whole.connection(), bytes);
    for byte in bytes {
        pieces.handle_bytes(session_time(), pieces.connection(), &[*byte]);
    }
    let (whole, pieces): (&Engine, &Engine) = (&whole, &pieces);
    assert_same(whole, pieces, "the chunks made a difference");
    if bytes.split(|byte| *byte == b'\n').next().is_some_and(|line| serde_json::from_slice::<IgnoredAny>(line).is_ok())
    {
        let (mut plain, mut padded) = (long.clone(), long.clone());
        padded.handle_bytes(session_time(), padded.connection(), &[b' '; LONG]);
        for session in [&mut plain, &mut padded] {
            session.handle_bytes(session_time(), session.connection(), &[bytes, b"\n"].concat());
        }
        assert_same(&plain, &padded, "the length of the line made a difference");
    }
    for kind in [FailureKind::HandshakeTimeout, FailureKind::Protocol, FailureKind::Closed] {
        let failure = Failure::new(kind, "the server closed the connection: exit status: 1");
        Diagnosis::new(failure, whole, &StderrLines::default()).finding.hash(&mut print);
    }
    print.finish()
}

fn session_time() -> Time {
    Time::from_millis(2_000)
}

/// A line of this length has memory of its own, which becomes the result of a call.
const LONG: usize = 80 << 10;

/// Sessions over a stream of lines that are ready, with a call in flight: with the limits of all targets, and for long lines.
fn ready() -> &'static [Client<Lines>; 2] {
    static READY: OnceLock<[Client<Lines>; 2]> = OnceLock::new();
    READY.get_or_init(|| {
        [4096, 2 * LONG].map(|limit| {
            let mut input = Input(b"2?00000000");
            let mut options = input.options();
            options.limits.message.bytes = limit;
            let mut peer = Peer::new(&mut input);
            let mut session = Client::new(Lines::new(), options, 0);
            session.open(Time::ZERO).expect("a new session can be opened");
            session.handle_transport(Time::ZERO, session.connection(), Transport::Opened);
            while let Some(action) = session.poll() {
                if let Action::Send(message) = action
                    && let (Some(id), Some(method)) = (message.wire_id().map(|id| id.as_u64()), message.method())
                {
                    let answer = peer::answer(id, &peer.result(method, 0)) + "\n";
                    session.handle_bytes(Time::ZERO, session.connection(), answer.as_bytes());
                }
            }
            assert!(session.is_ready());
            session.request(Time::ZERO, Request::call_tool("a", None)).expect("the session takes a call");
            session.handle_timeout(session_time());
            while session.poll().is_some() {}
            session
        })
    })
}

/// Sessions in several states, each with what it is waiting for.
fn prepared() -> &'static [Client<Messages>] {
    static PREPARED: OnceLock<Vec<Client<Messages>>> = OnceLock::new();
    PREPARED.get_or_init(|| {
        // In the format of the target `session`: options, then operations.
        let scripts: [&[u8]; 12] = [
            b"0000000000 ab",
            b"2000000000 ab",
            b"2?00000000 abe00 e00e00e00e00 i20 j200j350k00k16",
            b"2?00000000 abe00",
            b"2?00000000 abe00 e02e02",
            b"0?00000000 abe00 e00e00e00e00 k00k10",
            b"0?00000000 abf00 e00 e00e00e00e00 k00",
            b"2?11110000 abe00 e00e00e00e00e00 i00i20q3",
            b"0?00000000 abe00 e00e00e00e00 k00e02k06",
            b"2?00000006 abe00 e00e00 S0e00S1",
            b"0?00000006 S0S1 abe00 e00e00 i76",
            b"0?00020006 S0S1 abe00 e00e00 k00",
        ];
        scripts.map(|script| Rig::run(script).session).into()
    })
}

//! A client that authorizes itself, and moves to another process: its tokens come from the store again.

use mcp_proto::binding::oauth::OAuthInput;
use mcp_proto::testkit::{Endpoint, Reply};
use mcp_proto::{Http, Moved, Request, RequestId};

use crate::moved::moved;
use crate::web::modern_site;

use super::joined::{Joined, MCP};
use super::*;

/// A client with a store, which calls once it is ready, with a token that the server does not accept any more.
struct Traveller {
    it: Joined,
    record: Option<Vec<u8>>,
    call: Option<RequestId>,
}

impl Traveller {
    fn new() -> Self {
        let it = Joined::with(modern_site(), |options| options.stored = true);
        // What was not stored when it moved is lost, and a refresh token that rotates with it.
        let same = Reply::With(json!({"refresh_token": null}));
        it.issuer.borrow_mut().set_always(Endpoint::Refresh, same);
        Self { it, record: None, call: None }
    }

    /// Something that waits is answered: the store, the authorization server, the user, the server.
    fn step(&mut self) {
        let it = &mut self.it;
        if let Some(action) = it.store.pop_front() {
            match action {
                StoreAction::Acquire(id) => drop(it.input(OAuthInput::Acquired { id, acquired: true })),
                StoreAction::Load(id) => {
                    it.input(OAuthInput::Loaded { id, record: Ok(self.record.as_deref()) });
                }
                StoreAction::Save { id, record, .. } => {
                    self.record = Some(record.expose().to_vec());
                    it.input(OAuthInput::Saved { id, saved: SaveOutcome::Stored });
                }
                _ => {}
            }
        } else if !it.sent.is_empty() {
            it.issue();
        } else if it.browse.is_some() {
            it.consent();
        } else if let fresh = it.web.take()
            && !fresh.is_empty()
        {
            for exchange in fresh.into_iter().filter(|exchange| it.web.is_open(exchange)).collect::<Vec<_>>() {
                let reply = it.site.reply(&exchange);
                it.web.reply(&exchange, reply);
            }
            it.take();
        } else if it.web.is_ready() && self.call.is_none() {
            it.revoke();
            self.call = Some(it.web.request(Request::call_tool("a", None)));
        }
        it.take();
    }

    fn is_over(&self) -> bool {
        self.call.is_some_and(|call| self.it.web.ended(call).is_some())
    }

    /// Another process continues with its own authorization.
    fn travel(&mut self) {
        let it = &mut self.it;
        let mut options = OAuthOptions::new("suite", REDIRECT);
        options.registered.push(RegisteredClient::new("app"));
        options.stored = true;
        let unix = Duration::from_secs(EPOCH) + it.web.now.since(Time::ZERO);
        let auth = Authorization::new(MCP, options, [2; 32], it.web.now, unix).unwrap();
        let text = serde_json::to_string(&it.web.session.snapshot(mcp_proto::Secrets::Included)).unwrap();
        assert!(!text.contains("-hush"), "a snapshot contains no tokens");
        it.web.session = moved(&it.web.session, Http::new(MCP).unwrap().with_oauth(auth), Moved::WithTransport);
        it.sent.clear();
        it.store.clear();
        it.browse = None;
        it.web.session.authorized(it.web.now).unwrap();
        it.web.collect();
        it.take();
    }
}

#[test]
fn a_client_that_moves_at_any_moment_gets_its_token_from_the_store_and_ends_its_call() {
    let mut moments = 0;
    for moment in 0.. {
        let mut traveller = Traveller::new();
        for _ in 0..moment {
            traveller.step();
        }
        if traveller.is_over() {
            break;
        }
        moments += 1;
        let had_record = traveller.record.is_some();
        traveller.travel();
        let mut asked = false;
        for _ in 0..60 {
            asked |= traveller.it.browse.is_some();
            traveller.step();
        }
        let call = traveller.call.unwrap_or_else(|| panic!("not ready after a move at {moment}"));
        assert_eq!(traveller.it.web.outcome(call), "Result", "moved at {moment}");
        assert!(!(had_record && asked), "the user is asked again after a move at {moment}");
    }
    assert!(moments > 15, "{moments}");
}

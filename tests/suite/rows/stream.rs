//! Rows of the GET stream of a legacy server when its session ends.

use crate::common::{Steps, legacy, reconnecting, seconds};
use crate::web::{Reply, Site, Web, site};

const GET: &str = "GET";

/// The server loses the session, and a call notices it. The next session sends one GET.
fn assert_follows(mut web: Web, mut site: Site) {
    let before = web.count(GET);
    site.forget_session();
    let (_, call) = web.call("a");
    let reply = site.reply(&call);
    assert_eq!(reply.status, 404);
    web.reply(&call, reply);
    web.serve(&mut site);
    assert!(web.is_ready());
    assert_eq!((web.count("initialize"), web.count(GET)), (2, before + 1));
    assert!(web.is_open(&web.last(GET)));
    web.wait_and_serve(seconds(100), &mut site);
    assert_eq!(web.count(GET), before + 1, "queued requests ended with their session");
}

#[test]
fn a_requested_get_stream_is_requested_again_in_the_next_session() {
    let (mut web, mut site) = (Web::open(reconnecting(legacy())), site());
    let mut steps = Steps::until("the session is ready");
    while !web.is_ready() {
        steps.step();
        for exchange in web.take().into_iter().filter(|exchange| !exchange.is(GET)) {
            let reply = site.reply(&exchange);
            web.reply(&exchange, reply);
        }
    }
    let get = web.last(GET);
    web.wait(seconds(1));
    assert!(web.is_ready() && web.is_open(&get), "requests do not wait for its response");
    assert_follows(web, site);
}

#[test]
fn an_open_get_stream_is_dropped_and_requested_again_in_the_next_session() {
    let mut site = site();
    let web = Web::connect(reconnecting(legacy()), &mut site);
    assert!(web.is_ready() && web.is_open(&web.last(GET)));
    assert_follows(web, site);
}

#[test]
fn a_get_stream_waiting_for_its_retry_is_requested_once_in_the_next_session() {
    let mut site = site();
    let mut web = Web::connect(reconnecting(legacy()), &mut site);
    let get = web.last(GET);
    web.end(&get);
    assert!(web.take().is_empty(), "not at once");
    assert_follows(web, site);
}

#[test]
fn a_refused_get_stream_is_requested_in_the_next_session() {
    let mut site = site();
    site.streams = false;
    let mut web = Web::connect(reconnecting(legacy()), &mut site);
    site.streams = true;
    web.wait_and_serve(seconds(100), &mut site);
    assert_eq!((web.is_ready(), web.count(GET)), (true, 1), "not requested again before");
    assert_follows(web, site);
}

/// A stream that was open is requested again: each answer to that request, and whether there is another request later.
#[test]
fn a_get_stream_that_was_open_is_requested_again_until_it_is_refused() {
    let stream = || Reply::stream("").unfinished();
    for (answer, again) in [
        (Reply::status(405), false),
        (Reply::status(501), false),
        (Reply::json(200, &serde_json::json!({})), true),
        (Reply::text(400, "not now"), true),
        (Reply::status(503), true),
        (stream(), true),
    ] {
        let mut site = site();
        let mut web = Web::connect(legacy(), &mut site);
        let opened = web.last(GET);
        web.end(&opened);
        web.wait(seconds(10));
        assert_eq!(web.count(GET), 2, "{answer:?}");
        let asked = web.last(GET);
        let is_stream = answer.body.is_empty() && answer.status == 200;
        web.reply(&asked, answer.clone());
        web.wait(seconds(100));
        assert_eq!(web.is_open(&asked), is_stream, "{answer:?}");
        if is_stream {
            assert_eq!(web.count(GET), 2, "it is open");
            web.end(&asked);
            web.wait(seconds(100));
        }
        assert_eq!(web.count(GET) > 2, again, "{answer:?}");
        assert!(web.is_ready(), "{answer:?}");
    }
}

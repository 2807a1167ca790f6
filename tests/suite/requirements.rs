//! Requirements of the specification, each shown as it is written.

use mcp_proto::{Event, Options, Outcome, Request, Transport};
use serde_json::{Value, json};

use crate::common::{Host, Server, legacy, options, seconds, tools};
use crate::web::{Site, VERSION, Web, modern_site, raw, site, tool, was_answered};

fn eras() -> [(Options, Site); 2] {
    [(legacy(), site()), (options(), modern_site())]
}

/// All that is sent to a server which says that it is this one, in a session with a call, a failure and a refresh.
fn sent_to(options: Options, site: Site, info: Value) -> Vec<String> {
    let mut failing = true;
    let site = site.rule(move |exchange| {
        let fails = exchange.is("tools/call") && std::mem::replace(&mut failing, false);
        fails.then(|| crate::web::Reply::json(200, &exchange.error(-32603, "broken")))
    });
    let mut site = site.map_replies(move |exchange, mut reply| {
        if exchange.is("initialize") || exchange.is("server/discover") {
            let mut body: Value = serde_json::from_slice(&reply.body).unwrap();
            if exchange.is("initialize") {
                body["result"]["serverInfo"] = info.clone();
            } else {
                body["result"]["_meta"]["io.modelcontextprotocol/serverInfo"] = info.clone();
            }
            reply.body = body.to_string().into_bytes();
        }
        reply
    });
    let mut web = Web::connect(options, &mut site);
    assert!(web.is_ready());
    for _ in 0..2 {
        web.request(tool("a"));
        web.serve(&mut site);
    }
    web.session.refresh(web.now, mcp_proto::Family::Tools).unwrap();
    web.collect();
    web.wait_and_serve(seconds(120), &mut site);
    web.close();
    web.serve(&mut site);
    let shown = |exchange: &crate::web::Exchange| {
        let request = &exchange.request;
        let body = String::from_utf8_lossy(request.body()).into_owned();
        format!("{:?} {} {} {:?} {body}", exchange.at, request.method(), request.uri(), request.headers())
    };
    web.log.iter().map(shown).collect()
}

#[test]
fn what_a_server_says_that_it_is_changes_nothing_that_is_sent() {
    for at in 0..2 {
        let sent = |info: Value| {
            let (options, site) = eras().into_iter().nth(at).unwrap();
            sent_to(options, site, info)
        };
        let plain = sent(json!({"name": "s", "version": "1"}));
        for (name, version) in [("github-mcp-server", "0.0.1"), ("mcp-proto", "99.0.0"), ("", ""), ("a\nb", "x")] {
            assert_eq!(sent(json!({"name": name, "version": version})), plain, "{name} {version}");
        }
    }
}

#[test]
fn each_post_to_a_modern_server_names_the_version_of_its_body_in_a_header() {
    let mut site = modern_site();
    let mut web = Web::connect(options(), &mut site);
    web.request(tool("a"));
    web.request(Request::new("acme/x"));
    web.session.notify(web.now, "acme/told", None).unwrap();
    web.collect();
    web.serve(&mut site);
    web.wait_and_serve(seconds(300), &mut site);
    let posts: Vec<_> = web.log.iter().filter(|exchange| exchange.verb() == "POST").collect();
    let names: Vec<_> = posts.iter().map(|post| post.name()).collect();
    for name in ["server/discover", "tools/list", "tools/call", "acme/x", "acme/told"] {
        assert!(names.iter().any(|posted| posted == name), "{name}: {names:?}");
    }
    for post in posts {
        assert_eq!(post.header(VERSION), Some("2026-07-28"), "{}", post.name());
        let named = post.json()["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"].clone();
        // A notification has no metadata of a request.
        if post.json().get("id").is_some() || !named.is_null() {
            assert_eq!(named.as_str(), post.header(VERSION), "{}", post.name());
        }
    }
}

/// Drivers report output on standard error as a sign of life, and nothing else.
#[test]
fn what_a_server_writes_to_its_standard_error_is_no_failure() {
    for (options, modern) in [(legacy(), false), (options(), true)] {
        let capabilities = json!({"tools": {}});
        let server = if modern { Server::modern(capabilities) } else { Server::legacy(capabilities) };
        let content = json!({"resultType": "complete", "content": []});
        let mut server = server.result("tools/list", tools(&["a"])).result("tools/call", content);
        let mut host = Host::open(options);
        let write = |host: &mut Host| (0..100).for_each(|_| host.transport(Transport::SignOfLife));
        write(&mut host);
        host.serve(&mut server);
        assert!(host.is_ready());
        let told = host.events.len();
        write(&mut host);
        let call = host.session.request(host.now, tool("a")).unwrap();
        host.collect();
        write(&mut host);
        assert_eq!((host.events.len(), host.session.quirks().len()), (told, 0));
        host.serve(&mut server);
        assert!(matches!(host.result_of(call), Outcome::Result(_)) && host.is_ready());
    }
}

/// The schema of a form with a default for each property.
fn form() -> Value {
    json!({"message": "who?", "requestedSchema": {"type": "object", "properties": {
        "name": {"type": "string", "default": "ada"}, "age": {"type": "integer", "default": 36}}}})
}

/// The user may take minutes to review a form, and change each value, or leave it out.
#[test]
fn a_form_is_answered_when_the_user_does_it_with_what_the_user_says() {
    let content = json!({"name": "grace", "age": 85});
    for answer in
        [json!({"action": "accept", "content": content}), json!({"action": "decline"}), json!({"action": "cancel"})]
    {
        let text = raw(&answer);
        let mut asking = legacy();
        asking.capabilities.elicitation = true;
        let mut web = Web::connect(asking, &mut site());
        let stream = web.last("GET");
        web.push(&stream, json!({"jsonrpc": "2.0", "id": 7, "method": "elicitation/create", "params": form()}));
        let asked = web.events.iter().find_map(|event| match event {
            Event::ServerRequest { id, .. } => Some(*id),
            _ => None,
        });
        web.wait(seconds(120));
        assert_eq!(web.take_names(), [""; 0], "before the user answered");
        web.session.respond(web.now, asked.unwrap(), Ok(&text)).unwrap();
        web.collect();
        assert_eq!(web.take_named("(answer)").json()["result"], answer);

        let mut asking = options();
        asking.capabilities.elicitation = true;
        let mut web = Web::connect(asking, &mut modern_site());
        let (request, call) = web.call("a");
        let inputs = json!({"q": {"method": "elicitation/create", "params": form()}});
        let required = json!({"resultType": "input_required", "inputRequests": inputs});
        web.reply(&call, crate::web::Reply::json(200, &call.result(required)));
        web.wait(seconds(120));
        assert_eq!(web.take_names(), [""; 0], "before the user answered");
        web.session.provide(web.now, request, [("q", &*text)]).unwrap();
        web.collect();
        let again = web.take_named("tools/call");
        assert_eq!(again.json()["params"]["inputResponses"], json!({"q": answer}));
        let content = json!({"resultType": "complete", "content": []});
        web.reply(&again, crate::web::Reply::json(200, &again.result(content)));
        assert!(was_answered(&web, request));
    }
}

#[test]
fn names_of_tools_are_case_sensitive() {
    for (options, site) in
        [(legacy(), Site::legacy(json!({"tools": {}}))), (options(), Site::modern(json!({"tools": {}})))]
    {
        let mut site = site.result("tools/list", tools(&["Read", "read", "READ"]));
        let mut web = Web::connect(options, &mut site);
        assert_eq!(web.keys(mcp_proto::Family::Tools), ["Read", "read", "READ"]);
        assert!(web.session.catalog().tool("rEAD").is_none() && web.quirks().is_empty());
        for name in ["READ", "read"] {
            let (_, call) = web.call(name);
            assert_eq!(call.json()["params"]["name"], name);
        }
    }
}

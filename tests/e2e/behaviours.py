"""Runs probe with servers that misbehave, and checks what it makes of them.

usage: behaviours.py PROBE [CASE]..., or behaviours.py serve KIND FOLDER as such a server over stdio
"""
import concurrent.futures, http.server, json, os, subprocess, sys, tempfile, threading, time

from cases import chosen


def tool(name, **more):
    return {"name": name, "inputSchema": {"type": "object"}, **more}


def count(folder, what):
    """Counts something across the processes of a server."""
    with open(os.path.join(folder, what), "a") as file:
        file.write("x")
    return os.path.getsize(os.path.join(folder, what))


class Refused(Exception):
    """An error with data."""


# A request that needs a visit to a URL.
VISIT = {"code": -32042, "message": "connect first", "data": {"elicitations": [
    {"mode": "url", "elicitationId": "e", "url": "https://example.com/connect", "message": "Connect."}]}}
# The server was replaced by one of the other era.
OTHER_VERSION = {"code": -32022, "message": "Unsupported protocol version",
                 "data": {"supported": ["2026-07-28"], "requested": "2025-11-25"}}


# What the servers of the kinds "samples" and "forms" ask during a call, by id.
ASKS = {
    "samples": {
        "many": {"messages": [], "maxTokens": 9999, "modelPreferences": {"hints": [{"name": "theirs"}]}},
        "tools": {"messages": [], "maxTokens": 10, "tools": [tool("x")]},
    },
    "forms": {"form": {"message": "?", "requestedSchema": {"type": "object", "properties": {
        "given": {"type": "string", "default": "not used"}, "name": {"type": "string", "default": "Ann"},
        "age": {"type": "integer", "default": "thirty"}, "ok": {"type": "boolean", "default": True}, "none": {"type": "string"},
        "twice": {"type": "integer", "default": 1}, "TWICE": {"type": "integer", "default": 2}}}}},
}


def ask(kind):
    """Sends the requests of this kind, and returns their ids."""
    method = {"samples": "sampling/createMessage", "forms": "elicitation/create"}.get(kind)
    for name, params in ASKS.get(kind, {}).items():
        message = json.dumps({"jsonrpc": "2.0", "id": name, "method": method, "params": params})
        # One name, written in two ways.
        print(message.replace("TWICE", "\\u0074wice"), flush=True)
    return set(ASKS.get(kind, ()))


# What a terminal acts on: a control sequence of one character, a new line, and changes of the writing direction.
CONTROLS = "\u009b31m red \u0085 \u202e back \u2066 \u200f \u061c"
LONG = "long_" * 14


def tools(kind, folder):
    """The result of tools/list."""
    if kind == "names":
        return {"tools": [tool(name) for name in (LONG, "a.b", "a-b", "a_b", "x y", "plain")]}
    if kind == "controls":
        return {"tools": [tool("a", description=CONTROLS)]}
    if kind == "cursor":
        page = count(folder, "pages")
        # The cursor never changes, and the third page brings nothing new.
        return {"tools": [tool("abb"[min(page, 3) - 1])], "nextCursor": "same"}
    if kind == "invalid":
        return {"tools": [tool("a"), {"no": "name"}, tool("a"), {"inputSchema": {}}]}
    return {"tools": [tool("a", annotations={"readOnlyHint": True})]}


def answer(kind, folder, method, params):
    """The result of a request, or None for no response."""
    replaced = kind == "replaced" and size(folder, "starts") > 1
    if method == "server/discover" and (kind in ("modern", "tasks") or replaced):
        return {"supportedVersions": ["2026-07-28"], "resultType": "complete",
                "capabilities": {"tools": {"listChanged": True}, "extensions": {"io.modelcontextprotocol/tasks": {}}}}
    if method == "subscriptions/listen":
        count(folder, "listens")
        raise KeyError(method)
    if kind == "tasks" and method in ("tools/call", "tasks/get"):
        task = {"taskId": "t", "createdAt": "2026-01-01T00:00:00Z", "lastUpdatedAt": "2026-01-01T00:00:00Z", "ttlMs": 60000,
                "pollIntervalMs": 100}
        if method == "tools/call":
            return {**task, "resultType": "task", "status": "working"}
        if count(folder, "polls") == 1:
            return {**task, "resultType": "complete", "status": "working", "statusMessage": "half"}
        return {**task, "resultType": "complete", "status": "completed", "result": {"content": [], "resultType": "complete"}}
    if method == "initialize":
        capabilities = {} if kind == "answers-nothing" else {"tools": {}}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "f", "version": "1"}}
    if method == "tools/list":
        count(folder, "lists")
        return None if kind == "silent" else tools(kind, folder)
    if method == "resources/list":
        return {"resources": [{"uri": "r:1", "name": "r"}]}
    if method == "ping" and kind in ("ignores-pings", "answers-nothing"):
        count(folder, "pings")
        return None
    if method == "tools/call":
        calls = count(folder, "calls")
        if calls == 1 and kind == "dies":
            sys.exit(1)
        if calls == 1 and kind == "urls":
            raise Refused(VISIT)
        if calls == 2 and kind == "replaced":
            raise Refused(OTHER_VERSION)
        if replaced:
            return {"content": [], "resultType": "complete"}
        return None if kind in ("slow", "stays") else {"content": [], "resultType": "of-its-own"}
    raise KeyError(method)


def serve(kind, folder):
    if count(folder, "starts") == 1 and kind == "starts-late" or kind == "never-starts":
        sys.exit(1)
    awaited, held = set(), []
    while kind == "never-reads":
        print('{"jsonrpc":"2.0","id":1,"method":"ping"}', flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if message.get("id") in awaited and "method" not in message:
            with open(os.path.join(folder, "replies"), "a") as file:
                file.write(line)
            awaited.remove(message["id"])
            if not awaited:
                print(json.dumps(held.pop()), flush=True)
        if "id" not in message or "method" not in message:
            continue
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        try:
            result = answer(kind, folder, message["method"], message.get("params", {}))
            if result is None:
                continue
            reply["result"] = result
            if message["method"] == "tools/call" and kind in ASKS:
                held.append(reply)
                awaited = ask(kind)
                continue
        except KeyError:
            reply["error"] = {"code": -32601, "message": "no such method"}
        except Refused as refused:
            reply["error"] = refused.args[0]
        print(json.dumps(reply, ensure_ascii=kind != "controls"), flush=True)
        if kind == "modern" and message["method"] == "tools/list":
            # Of a subscription that nobody made.
            foreign = {"_meta": {"io.modelcontextprotocol/subscriptionId": "another"}}
            print(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": foreign}), flush=True)
    while kind == "stays":
        # The end of its input means nothing to it.
        time.sleep(1)


class Web(http.server.BaseHTTPRequestHandler):
    """A server with sessions that answers one method with 404. The first call of the kind "expires" finds no session."""
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, status, body, headers = message.get("method"), 200, b"", {}
        if self.server.kind == "renews" and method == "initialize" and size(self.server.folder, "sessions") > 0:
            # The renewal of the session takes longer than the run.
            time.sleep(30)
            self.close_connection = True
            return
        if method == "resources/read":
            status = 404
        elif self.server.kind in ("expires", "renews") and method == "tools/call" and count(self.server.folder, "tries") == 1:
            status, error = 404, {"code": -32601, "message": "Session not found"}
            body = json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode()
            headers["content-type"] = "application/json"
        elif "id" not in message:
            status = 202
        else:
            reply = {"jsonrpc": "2.0", "id": message["id"]}
            try:
                reply["result"] = answer("web", self.server.folder, method, {})
                if method == "initialize":
                    headers["mcp-session-id"] = "session-%d" % count(self.server.folder, "sessions")
                    reply["result"]["capabilities"]["resources"] = {}
            except KeyError:
                reply["error"] = {"code": -32601, "message": "no such method"}
            body = json.dumps(reply).encode()
            headers["content-type"] = "application/json"
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    do_DELETE = do_GET

    def log_message(self, *_):
        pass


def run(probe, *args):
    begin = time.monotonic()
    done = subprocess.run([probe, "--json", *args], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120,
                          check=False)
    try:
        return json.loads(done.stdout), time.monotonic() - begin
    except json.JSONDecodeError:
        raise AssertionError(done.stdout + done.stderr) from None


def stdio(probe, kind, folder, *args):
    """The report on a server of this kind, alone."""
    return run(probe, *args, "stdio", "--", sys.executable, __file__, "serve", kind, folder)[0]


def text(probe, kind, folder, *args):
    """The report for people on a server of this kind."""
    return words(probe, *args, "stdio", "--", sys.executable, __file__, "serve", kind, folder)


def words(*command):
    """What a command writes to standard output."""
    return subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=False).stdout


def web(probe, kind, folder, *args):
    """The report on a server of this kind over HTTP."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    server.kind, server.folder, server.daemon_threads = kind, folder, True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        return run(probe, *args, "http", "http://127.0.0.1:%d/mcp" % server.server_port)[0]
    finally:
        server.shutdown()


def configured(probe, kind, folder, entry, *args):
    """The same in a configuration file: its report, that of the calls, and the seconds that it took."""
    entry = {"command": sys.executable, "args": [__file__, "serve", kind, folder], **entry}
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump({"mcp_servers": {"s": entry}}, file)
    report, seconds = run(probe, *args, "config", path)
    return report["servers"]["s"], report["calls"], seconds


def replies(folder):
    """The responses that the server received, by id, and the names that are in one object twice."""
    twice = []

    def members(pairs):
        names = [name for name, _ in pairs]
        twice.extend(name for name in set(names) if names.count(name) > 1)
        return dict(pairs)

    with open(os.path.join(folder, "replies")) as file:
        got = [json.loads(line, object_pairs_hook=members) for line in file]
    return {reply["id"]: reply for reply in got}, twice


def size(folder, what):
    path = os.path.join(folder, what)
    return os.path.getsize(path) if os.path.exists(path) else 0


def expect(what, got, want):
    if got != want:
        raise AssertionError("%s: %s, not %s" % (what, json.dumps(got), json.dumps(want)))


def the_first_connection_is_retried(probe, folder):
    report = stdio(probe, "starts-late", folder, "--call", "a")
    expect("outcome", report["outcome"], "ready")
    expect("calls", [call["outcome"] for call in report["calls"]], ["result"])
    expect("starts", size(folder, "starts"), 2)


def a_server_that_never_reads_is_ended(probe, folder):
    report = stdio(probe, "never-reads", folder)
    expect("outcome", report["outcome"], "failed")
    expect("why", "it does not read its input" in report["failure"]["message"], True)


def a_session_that_ends_by_itself_is_replayed_with_the_calls_that_were_left(probe, folder):
    journal = os.path.join(folder, "journal")
    report = stdio(probe, "dies", folder, "--journal", journal, "--call", "a", "--call", "a")
    expect("outcomes", [call["outcome"] for call in report["calls"]], ["unknown", "not-sent"])
    expect("the replay", run(probe, "--replay", journal)[0], report)


def what_is_known_of_a_server_that_has_to_be_killed_is_reported(probe, folder):
    report, calls, _ = configured(probe, "stays", folder, {}, "--timeout", "4", "--call", "mcp_s_a")
    expect("call", [call["outcome"] for call in calls], ["timeout"])
    expect("what is known", (report["era"], report["server"]["name"], len(report["tools"])), ("legacy", "f", 1))


def connect_timeout_bounds_discovery_too(probe, folder):
    report, _, seconds = configured(probe, "silent", folder, {"connect_timeout": 2})
    expect("outcome", report["outcome"], "failed")
    expect("in time", seconds < 30, True)


def a_constant_cursor_is_followed_while_pages_are_new(probe, folder):
    report = stdio(probe, "cursor", folder)
    expect("tools", [tool["name"] for tool in report["tools"]], ["a", "b"])
    expect("pages", size(folder, "pages") <= 4, True)


def a_result_type_of_the_servers_own_changes_nothing(probe, folder):
    report = stdio(probe, "plain", folder, "--call", "a")
    expect("result", report["calls"][0]["result"], {"content": [], "resultType": "of-its-own"})


def every_invalid_item_is_told(probe, folder):
    report = stdio(probe, "invalid", folder)
    expect("tools", [tool["name"] for tool in report["tools"]], ["a"])
    detail = " ".join(quirk["detail"] for quirk in report["quirks"])
    expect("items", [number for number in "1234" if "item " + number in detail], ["2", "4"])
    expect("the one that came twice", "duplicate-item" in [quirk["kind"] for quirk in report["quirks"]], True)


def a_lost_call_of_an_untrusted_server_runs_once(probe, folder):
    report = stdio(probe, "dies", folder, "--watch", "4", "--call", "a", "--call", "a")
    # The tool says that it is read-only, and the client connects again.
    expect("outcomes", [call["outcome"] for call in report["calls"]], ["unknown", "result"])
    expect("calls", size(folder, "calls"), 2)
    expect("starts", size(folder, "starts"), 2)


def a_lost_read_only_call_of_a_trusted_server_runs_again(probe, folder):
    report, done, _ = configured(probe, "dies", folder, {"trust": True}, "--call", "mcp_s_a")
    expect("outcomes", [call["outcome"] for call in done], ["result"])
    expect("calls", size(folder, "calls"), 2)
    expect("connects", (size(folder, "starts"), report["connects"]), (2, 2))


def three_failed_starts_park_a_server(probe, folder):
    report = stdio(probe, "never-starts", folder, "--era", "legacy", "--watch", "20")
    expect("outcome", (report["outcome"], report["failure"]["kind"]), ("failed", "closed"))
    expect("events", [event["kind"] for event in report["events"]], ["down", "down", "down", "parked", "closed"])
    expect("starts", size(folder, "starts"), 3)


def a_server_that_answers_nothing_is_restarted_once_and_not_sent_pings_again(probe, folder):
    report = stdio(probe, "answers-nothing", folder, "--era", "legacy", "--watch", "30")
    expect("outcome", report["outcome"], "ready")
    expect("quirks", [quirk["kind"] for quirk in report["quirks"]], ["ping-silent"])
    expect("starts", (size(folder, "starts"), report["connects"]), (2, 2))
    expect("pings", size(folder, "pings"), 2)


def a_sampling_request_is_limited_by_the_policy_of_the_entry(probe, folder):
    answer = 'sampling/createMessage={"model":"m","role":"assistant","content":{"type":"text","text":"x"}}'
    entry = {"sampling": {"max_tokens_cap": 100, "model": "ours", "allowed_models": ["ours"]}}
    report, done, _ = configured(probe, "samples", folder, entry, "--answer", answer, "--call", "mcp_s_a")
    expect("outcome", [call["outcome"] for call in done], ["result"])
    asked = [event["detail"]["params"] for event in report["events"] if event["kind"] == "asked"]
    expect("asked", asked, [{"messages": [], "maxTokens": 100, "modelPreferences": {"hints": [{"name": "ours"}]}}])
    got, _ = replies(folder)
    expect("result", got["many"]["result"]["model"], "m")
    expect("tools, which are not declared", got["tools"]["error"]["code"], -32602)


def defaults_of_the_right_type_fill_a_form_once(probe, folder):
    answer = 'elicitation/create={"action":"accept","content":{"given":"mine"}}'
    report = stdio(probe, "forms", folder, "--answer", answer, "--call", "a")
    expect("outcome", [call["outcome"] for call in report["calls"]], ["result"])
    got, twice = replies(folder)
    content = got["form"]["result"]["content"]
    expect("action", got["form"]["result"]["action"], "accept")
    expect("content", {name: content[name] for name in content if name != "twice"}, {"given": "mine", "name": "Ann", "ok": True})
    expect("names that came twice", (twice, content["twice"] in (1, 2)), ([], True))


def a_form_without_an_answer_is_declined(probe, folder):
    report = stdio(probe, "forms", folder, "--call", "a")
    expect("outcome", [call["outcome"] for call in report["calls"]], ["result"])
    expect("reply", replies(folder)[0]["form"]["result"], {"action": "decline"})


def the_timeout_of_an_entry_bounds_a_call(probe, folder):
    _, done, seconds = configured(probe, "slow", folder, {"timeout": 1}, "--call", "mcp_s_a")
    expect("outcome", [call["outcome"] for call in done], ["timeout"])
    # It names the bound that passed, the one without progress.
    expect("error", done[0]["error"]["message"], "neither a response nor progress within the timeout")
    expect("in time", seconds < 30, True)


def a_404_to_one_method_is_an_error_of_that_method(probe, folder):
    report = web(probe, "web", folder, "--read", "r:1", "--call", "a", "--read", "r:1", "--call", "a")
    expect("outcome", report["outcome"], "ready")
    expect("calls", [call["outcome"] for call in report["calls"]], ["error", "result", "error", "result"])
    # One for the session, and one to find out that the session is not what is missing.
    expect("sessions", size(folder, "sessions") <= 3, True)


def an_expired_session_is_recognised_behind_an_error_of_another_meaning(probe, folder):
    report = web(probe, "expires", folder, "--call", "a")
    expect("calls", [call["outcome"] for call in report["calls"]], ["result"])
    expect("runs", size(folder, "calls"), 1)
    expect("sessions", (size(folder, "sessions"), report["connects"]), (2, 2))
    # Nothing is closed: the session is renewed.
    expect("down", [event["detail"]["kind"] for event in report["events"] if event["kind"] == "down"], ["expired"])


def a_run_that_ends_while_a_session_is_renewed_is_late(probe, folder):
    report = web(probe, "renews", folder, "--timeout", "4", "--call", "a", "--call", "a")
    expect("failure", report["failure"]["kind"], "timeout")
    expect("why", "waited for the answer to `initialize" in report["failure"]["message"], True)
    # The time is the one that passed, and the call says whose time was up.
    expect("time", report["failure"]["message"].startswith("not done after 4."), True)
    expect("calls", [call["outcome"] for call in report["calls"]], ["timeout", "not-sent"])
    expect("error", "run's time" in report["calls"][0]["error"]["message"], True)


def a_replay_of_a_run_that_was_late_has_its_report(probe, folder):
    journal = os.path.join(folder, "journal")
    for args in (["--call", "a", "--call", "a"], ["--watch", "9"]):
        kind = "slow" if "--call" in args else "plain"
        live = stdio(probe, kind, folder, "--timeout", "2", "--journal", journal, *args)
        expect("failure", live["failure"]["kind"], "timeout")
        expect("replay", run(probe, "--replay", journal)[0], live)


def the_time_of_a_run_bounds_a_server_that_does_not_exit(probe, folder):
    begin = time.monotonic()
    script = "trap '' TERM; while :; do sleep 1; done"
    report, _ = run(probe, "--timeout", "2", "stdio", "--", "sh", "-c", script)
    expect("failure", report["failure"]["kind"], "timeout")
    expect("in time", time.monotonic() - begin < 4, True)


def a_program_that_cannot_be_started_is_named_with_its_path(probe, folder):
    report, _ = run(probe, "stdio", "--", "/nonexistent/server")
    expect("kind", report["failure"]["kind"], "spawn")
    expect("path", "`/nonexistent/server`" in report["failure"]["message"], True)


def a_failure_is_the_first_of_the_report_for_people(probe, folder):
    report = text(probe, "slow", folder, "--timeout", "2", "--call", "a", "--call", "a")
    lines = report.splitlines()
    expect("first line", ": not done after 2." in lines[0], True)
    expect("second line", lines[1].startswith("  What to do: "), True)
    places = [report.find(part) for part in ("What to do: ", "timeout: not done after", "Tools  1", "Calls")]
    expect("order", (places == sorted(places), min(places) > 0), (True, True))


def the_first_line_names_the_cause(probe, folder):
    script = "echo 'Error: GITHUB_TOKEN is not set' >&2; echo '    at f (x.js:1:1)' >&2; exit 1"
    shown = words(probe, "stdio", "--", "sh", "-c", script)
    expect("first line", shown.splitlines()[0], "sh: GITHUB_TOKEN is not set (exit status 1)")
    report, _ = run(probe, "stdio", "--", "sh", "-c", script)
    expect("diagnosis", report["diagnosis"], {
        "stage": "spawn", "cause": "setting-missing", "evidence": ["GITHUB_TOKEN is not set"],
        "advice": "Set it in the environment that the program gets: in the `env` of its entry, or in this shell.",
    })
    expect("of a server that is well", stdio(probe, "plain", folder)["diagnosis"], None)


def a_program_that_does_not_answer_is_named_before_the_time_of_the_run_is_over(probe, folder):
    begin = time.monotonic()
    report, _ = run(probe, "--timeout", "22", "stdio", "--", "sleep", "100")
    expect("diagnosis", (report["failure"]["kind"], report["diagnosis"]["cause"]), ("handshake-timeout", "silent"))
    expect("in half of the time", time.monotonic() - begin < 14, True)


def a_name_that_is_not_its_own_is_told(probe, folder):
    report = text(probe, "names", folder)
    section = report.split("Under another name than its own  4")[-1].split("\n\n")[0]
    # The one that needs no change keeps its name.
    told = [name in section for name in (LONG, ": a.b;", ": a-b;", ": x y;", ": a_b;", "plain")]
    expect("names", told, [True] * 4 + [False] * 2)
    expect("why", [section.count(why) for why in ("too long", "another tool", "replaced")], [1, 2, 1])


def what_a_terminal_acts_on_is_escaped(probe, folder):
    command = ["--json", "stdio", "--", sys.executable, __file__, "serve", "controls", folder]
    done = subprocess.run([probe, *command], stdin=subprocess.DEVNULL, capture_output=True, timeout=120, check=False)
    described = json.loads(done.stdout)["tools"][0]["description"]
    expect("value", described, CONTROLS)
    for shown in (done.stdout.decode(), text(probe, "controls", folder)):
        left = [c for c in shown if c in CONTROLS and ord(c) > 127]
        expect("characters", left, [])


def a_server_that_is_replaced_by_one_of_the_other_era_is_met_by_one_handshake(probe, folder):
    for number, options in enumerate(([], ["--watch", "4"])):
        inner = os.path.join(folder, str(number))
        os.mkdir(inner)
        report = stdio(probe, "replaced", inner, *options, "--call", "a", "--call", "a", "--call", "a")
        expect("calls", [call["outcome"] for call in report["calls"]], ["result", "result", "result"])
        expect("outcome", (report["outcome"], report["era"], report["protocolVersion"]), ("ready", "modern", "2026-07-28"))
        expect("connects", (report["connects"], size(inner, "starts")), (2, 2))


def a_server_that_never_answers_pings_stays_connected(probe, folder):
    report = stdio(probe, "ignores-pings", folder, "--watch", "30", "--call", "a")
    expect("outcome", report["outcome"], "ready")
    expect("pings", size(folder, "pings") > 0, True)
    expect("starts", (size(folder, "starts"), report["connects"]), (1, 1))
    # A response to tools/list shows that the server lives.
    expect("lists", size(folder, "lists") > 1, True)


def a_refused_subscription_is_asked_for_once(probe, folder):
    report = stdio(probe, "modern", folder, "--watch", "5")
    expect("outcome", (report["outcome"], report["era"]), ("ready", "modern"))
    expect("listens", size(folder, "listens"), 1)


def a_notification_of_a_foreign_subscription_changes_nothing(probe, folder):
    report = stdio(probe, "modern", folder, "--watch", "5")
    expect("outcome", (report["outcome"], report["era"]), ("ready", "modern"))
    expect("lists", size(folder, "lists"), 1)
    expect("events", [event["kind"] for event in report["events"]], ["ready", "closed"])


def a_task_is_reported_by_events(probe, folder):
    report = stdio(probe, "tasks", folder, "--call", "a")
    expect("calls", [call["outcome"] for call in report["calls"]], ["result"])
    tasks = [event["detail"] for event in report["events"] if event["kind"] == "task"]
    # The end is the outcome of the call.
    expect("statuses", [task["status"] for task in tasks], ["working", "working"])
    expect("message", tasks[1].get("statusMessage"), "half")


def a_url_is_visited_with_an_answer_and_shown_without(probe, folder):
    for option, outcome, calls in (([], "error", 1), (["--answer", 'elicitation/create={"action":"accept"}'], "result", 2)):
        inner = os.path.join(folder, str(calls))
        os.mkdir(inner)
        report = stdio(probe, "urls", inner, *option, "--call", "a")
        expect("outcome of %d" % calls, [call["outcome"] for call in report["calls"]], [outcome])
        expect("calls", size(inner, "calls"), calls)
        expect("address", "https://example.com/connect" in json.dumps(report), True)


CASES = [
    a_run_that_ends_while_a_session_is_renewed_is_late,
    a_replay_of_a_run_that_was_late_has_its_report,
    the_time_of_a_run_bounds_a_server_that_does_not_exit,
    a_program_that_cannot_be_started_is_named_with_its_path,
    a_failure_is_the_first_of_the_report_for_people,
    the_first_line_names_the_cause,
    a_program_that_does_not_answer_is_named_before_the_time_of_the_run_is_over,
    a_name_that_is_not_its_own_is_told,
    what_a_terminal_acts_on_is_escaped,
    a_server_that_never_answers_pings_stays_connected,
    a_server_that_answers_nothing_is_restarted_once_and_not_sent_pings_again,
    a_server_that_never_reads_is_ended,
    a_refused_subscription_is_asked_for_once,
    a_notification_of_a_foreign_subscription_changes_nothing,
    a_task_is_reported_by_events,
    a_url_is_visited_with_an_answer_and_shown_without,
    the_first_connection_is_retried,
    a_session_that_ends_by_itself_is_replayed_with_the_calls_that_were_left,
    what_is_known_of_a_server_that_has_to_be_killed_is_reported,
    connect_timeout_bounds_discovery_too,
    a_constant_cursor_is_followed_while_pages_are_new,
    a_result_type_of_the_servers_own_changes_nothing,
    every_invalid_item_is_told,
    a_lost_call_of_an_untrusted_server_runs_once,
    a_lost_read_only_call_of_a_trusted_server_runs_again,
    three_failed_starts_park_a_server,
    a_sampling_request_is_limited_by_the_policy_of_the_entry,
    defaults_of_the_right_type_fill_a_form_once,
    a_form_without_an_answer_is_declined,
    the_timeout_of_an_entry_bounds_a_call,
    a_404_to_one_method_is_an_error_of_that_method,
    an_expired_session_is_recognised_behind_an_error_of_another_meaning,
    a_server_that_is_replaced_by_one_of_the_other_era_is_met_by_one_handshake,
]


def passes(probe, case):
    with tempfile.TemporaryDirectory() as folder:
        try:
            case(os.path.abspath(probe), folder)
            print("ok  ", case.__name__)
            return True
        except (AssertionError, KeyError, IndexError, subprocess.TimeoutExpired) as wrong:
            print("FAILED", case.__name__, wrong)
            return False


def main(probe, *names):
    cases = chosen({case.__name__: case for case in CASES}, names).values()
    # Most of the time they wait.
    with concurrent.futures.ThreadPoolExecutor(max_workers=4) as pool:
        sys.exit(not all(list(pool.map(lambda case: passes(probe, case), cases))))


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(*sys.argv[2:])
    else:
        main(*sys.argv[1:])

"""Runs probe with servers over HTTP whose authorization is wrong, and with one where it works: auth_findings.py PROBE
[CASE]..."""

import http.server
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

from cases import chosen

RESOURCE, SERVER = "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-authorization-server"
SECRET = "hush"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def reply(self, status, body=b"", **headers):
        if not isinstance(body, bytes):
            body, headers["content_type"] = json.dumps(body).encode(), "application/json"
        self.send_response(status)
        for name, value in {**headers, "content_length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        documents = self.server.documents
        if self.path not in documents:
            return self.reply(405 if self.path == "/mcp" else 404)
        document = documents[self.path]
        if document is ENDLESS:
            return self.pour()
        return self.reply(200, document, **({"content_type": "text/html"} if isinstance(document, bytes) else {}))

    def pour(self):
        """A body without end, in small pieces and then in large ones; counts what the client takes."""
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            self.wfile.write(b"1\r\n \r\n" * 2000)
            while self.server.taken < 256 << 20:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(SPACES), SPACES))
                self.server.taken += len(SPACES)
        except OSError:
            pass
        self.close_connection = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.requests.append((self.path, body.decode(), self.headers.get("authorization")))
        if self.path == "/register":
            return self.reply(201, {**json.loads(body), "client_id": "dynamic"})
        if self.path == "/token":
            if self.server.tokens is None:
                # It hangs.
                return self.server.end.wait(60)
            tokens = len([path for path, *_ in self.server.requests if path == "/token"])
            token = {"access_token": "hush-access-%d" % tokens, "token_type": "Bearer", "expires_in": 3600}
            return self.reply(200, {**token, **self.server.tokens})
        if not self.headers.get("authorization", "").startswith("Bearer hush-access"):
            challenge = 'Bearer resource_metadata="%s%s"' % (self.server.base, RESOURCE)
            return self.reply(401, www_authenticate=challenge)
        message = json.loads(body)
        if "id" not in message:
            return self.reply(202)
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if message["method"] == self.server.forbids:
            return self.reply(403, www_authenticate='Bearer error="insufficient_scope", scope="write"')
        if message["method"] == "initialize":
            reply["result"] = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s"}}
        elif message["method"] == "tools/list":
            reply["result"] = {"tools": [{"name": "a", "inputSchema": {}}]}
        elif message["method"] == "tools/call":
            reply["result"] = {"content": []}
        else:
            reply["error"] = {"code": -32601, "message": "no such method"}
        return self.reply(200, reply)

    def do_DELETE(self):
        self.reply(405)

    def log_message(self, *_):
        pass


class Site:
    """A server that is its own authorization server, with changed metadata: `None` removes a member or a document. One
    method needs more scopes than any token has."""

    def __init__(self, resource=(), server=(), forbids=None, tokens=()):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        base = self.server.base = "http://127.0.0.1:%d" % self.server.server_port
        self.server.requests, self.server.forbids, self.server.taken = [], forbids, 0
        self.server.tokens, self.server.end = tokens if tokens is None else dict(tokens), threading.Event()
        documents = {
            RESOURCE: ({"resource": base + "/mcp", "authorization_servers": [base], "scopes_supported": ["read"]}, resource),
            SERVER: ({
                "issuer": base, "authorization_endpoint": base + "/authorize", "token_endpoint": base + "/token",
                "registration_endpoint": base + "/register", "response_types_supported": ["code"],
                "code_challenge_methods_supported": ["S256"], "token_endpoint_auth_methods_supported": ["none"],
            }, server),
        }
        self.server.documents = {}
        for path, (document, change) in documents.items():
            if isinstance(change, bytes) or change is ENDLESS:
                self.server.documents[path] = change
            elif change is not None:
                document = {**document, **dict(change)}
                self.server.documents[path] = {name: value for name, value in document.items() if value is not None}
        self.url = base + "/mcp"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.end.set()
        self.server.shutdown()
        self.server.server_close()


    def sent(self, path):
        return [body for at, body, _ in self.server.requests if at == path]


ENDLESS, SPACES = object(), b" " * (1 << 20)
PAGE = b"<!doctype html><title>Sign in</title>"
OPERATOR = "The server's operator has to correct its metadata"
AUTHORIZATION_OPERATOR = "The operator of the authorization server has to correct its metadata"
ELSEWHERE = "https://elsewhere.example"
# Each: the server, the stage of the last step, words of its finding, words of the verdict, the exit status.
KINDS = {
    "everything is right": ({}, "server-metadata", "PKCE: S256; registration: pre-registered, dynamic", "a token can be obtained", 0),
    "no resource metadata": ({"resource": None}, "server-metadata", "PKCE: S256", "a token can be obtained", 0),
    "a page instead of the resource metadata": ({"resource": PAGE}, "server-metadata", "PKCE: S256", "a token can be obtained", 0),
    "no metadata": ({"resource": None, "server": None}, "server-metadata", "there is no metadata here",
                    "its operator has to add protected-resource metadata", 1),
    "the metadata of another resource": ({"resource": {"resource": ELSEWHERE + "/mcp"}}, "resource-metadata",
                                         "its `resource` is `%s/mcp`, which does not cover" % ELSEWHERE, OPERATOR, 1),
    "no server metadata": ({"server": None}, "server-metadata", "there is no metadata", AUTHORIZATION_OPERATOR, 1),
    "a page instead of the server metadata": ({"server": PAGE}, "server-metadata", "there is no metadata", AUTHORIZATION_OPERATOR, 1),
    "the metadata of another issuer": ({"server": {"issuer": ELSEWHERE}}, "server-metadata", "its `issuer` is `%s`, not" % ELSEWHERE,
                                       AUTHORIZATION_OPERATOR, 1),
    "PKCE without S256": ({"server": {"code_challenge_methods_supported": ["plain"]}}, "server-metadata",
                          "does not contain `S256`", AUTHORIZATION_OPERATOR, 1),
    "no PKCE": ({"server": {"code_challenge_methods_supported": None}}, "server-metadata", "does not contain `S256`",
                AUTHORIZATION_OPERATOR, 1),
    "a token endpoint that is not https": ({"server": {"token_endpoint": "http://elsewhere.example/token"}}, "server-metadata",
                                           "`token_endpoint` has `http://elsewhere.example/token`, which is not https",
                                           AUTHORIZATION_OPERATOR, 1),
    "no registration": ({"server": {"registration_endpoint": None}}, "server-metadata", "registration: pre-registered",
                        "registration: pre-registered", 0),
}
# What a step before the last one found.
EARLIER = {
    "no resource metadata": "there is no metadata here",
    "a page instead of the resource metadata": "there is no metadata here",
}


def passed(name, right, *shown):
    print("ok  " if right else "FAILED", name, *() if right else shown)
    return right


def inspect(probe, name):
    how, stage, finding, verdict, status = KINDS[name]
    with Site(**how) as site:
        command = [probe, "--json", "--timeout", "20", "auth", site.url]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    report = json.loads(run.stdout)
    first, last = report["steps"][0], report["steps"][-1]
    earlier = [step["finding"] for step in report["steps"] if step["stage"] == "resource-metadata"]
    right = (run.returncode == status and (first["stage"], first["status"]) == ("challenge", 401)
             and last["stage"] == stage and finding in last["finding"] and verdict in report["verdict"]
             and (name not in EARLIER or EARLIER[name] in earlier)
             # The ways to register are those of metadata that is right.
             and report["registration"] == (["pre-registered", "dynamic"][:1 + ("no registration" != name)] if status == 0 else [])
             # Without a user nothing is registered, and no token is requested.
             and {path for path, *_ in site.server.requests} == {"/mcp"})
    return passed("auth: " + name, right, run.returncode, report)


def the_checks_of_a_sign_in(probe):
    """The report for people has each check, and the first that fails; nothing is registered."""
    right, shown = True, []
    for how, options, checks, words in [
        ({}, [], ["ok", "ok", "ok", "ok"], "dynamic, authenticates by `none`"),
        ({"server": {"token_endpoint_auth_methods_supported": ["client_secret_post"]}}, [], ["ok"] * 4,
         "dynamic, authenticates by `client_secret_post`"),
        ({"server": {"registration_endpoint": None}}, [], ["ok", "ok", "FAILS", "-"],
         "Register a client there, and give its ID with --client-id"),
        ({"server": {"registration_endpoint": None}}, ["--client-id", "app"], ["ok"] * 4, "a token can be obtained"),
        ({"server": {"code_challenge_methods_supported": None}}, [], ["ok", "FAILS", "-", "-"], "does not contain `S256`"),
        ({"resource": {"resource": ELSEWHERE + "/mcp"}}, [], ["FAILS", "-", "-", "-"], "does not cover"),
    ]:
        with Site(**how) as site:
            command = [probe, "--timeout", "20", *options, "auth", site.url]
            out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False).stdout
            sent = {path for path, *_ in site.server.requests}
        lines = out.split("What a sign-in checks:\n")[-1].splitlines()
        good = [line.split()[0] for line in lines[:4]] == checks and words in out and sent == {"/mcp"}
        # No advice to run what runs.
        right = right and good and "probe auth" not in out
        shown += [] if good else [how, out]
    return passed("auth: the checks of a sign-in", right, *shown)


def a_server_that_is_not_there(probe):
    """What is wrong is told as a connection tells it."""
    run = subprocess.run([probe, "--json", "auth", "http://127.0.0.1:1/mcp"], capture_output=True, text=True, timeout=60, check=False)
    words = "the server: nobody listens. Is the server running, and are host and port right?"
    return passed("auth: a server that is not there", json.loads(run.stdout)["verdict"] == words and run.returncode == 1, run.stdout)


def what_is_taken_of_a_response_without_end(probe):
    right, shown = True, []
    for how in ({"resource": ENDLESS}, {"server": ENDLESS}):
        with Site(**how) as site:
            command = [probe, "--json", "--timeout", "20", "auth", site.url]
            run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            time.sleep(0.2)
            taken = site.server.taken
        # The metadata is longer than it may be. The system's buffers count, too.
        right = right and run.returncode == 1 and taken < 10 << 20 and "longer than" in run.stdout
        shown += [taken, run.stdout]
    return passed("auth: what is taken of a response without end", right, *shown)


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class SignIn:
    """A run with --oauth whose user pastes the redirect."""

    def __init__(self, probe, site, *options):
        environment = {name: value for name, value in os.environ.items() if name != "BROWSER"}
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        target = ["http", site.url]
        if "config" in options:
            at = options.index("config")
            options, target = options[:at], options[at:]
        else:
            options = ["--oauth", *options]
        command = [probe, "--json", "--timeout", "30", *options, *target]
        self.process = subprocess.Popen(command, env=environment, text=True, **pipes)
        self.err = ""

    def opened(self):
        """The query of the URL of the next line `open:`."""
        for line in self.process.stderr:
            self.err += line
            if line.startswith("open: "):
                url = urllib.parse.urlsplit(line.split()[1])
                return {**dict(urllib.parse.parse_qsl(url.query)), "path": url.path}
        raise AssertionError("no line `open:`: " + self.err)

    def paste(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def end(self):
        out, err = self.process.communicate(timeout=60)
        self.err += err
        return json.loads(out), self.process.returncode, out + self.err


def a_pasted_redirect(probe):
    """The port, the scope and the resource of the request are those that were given; a redirect of another run is refused."""
    port = free_port()
    with Site() as site:
        run = SignIn(probe, site, "--oauth-port", str(port), "--scope", "mine", "--call", "a")
        asked = run.opened()
        redirect = "http://127.0.0.1:%d/callback" % port
        run.paste(redirect + "?code=c&state=another")
        run.paste("%s?code=c&state=%s" % (redirect, asked["state"]))
        report, status, shown = run.end()
        registered = [json.loads(body) for body in site.sent("/register")]
        tokens = [dict(urllib.parse.parse_qsl(body)) for body in site.sent("/token")]
    right = (status == 0 and [call["outcome"] for call in report["calls"]] == ["result"]
             and (asked["path"], asked["redirect_uri"], asked["scope"], asked["resource"]) == ("/authorize", redirect, "mine", site.url)
             and asked["code_challenge_method"] == "S256" and "this is not the redirect" in shown
             and [it["redirect_uris"] for it in registered] == [[redirect]]
             and [(it["code"], it["redirect_uri"]) for it in tokens] == [("c", redirect)]
             and report["authorization"]["grants"] == ["authorization_code"] and SECRET not in shown
             # A first authorization is a part of the handshake.
             and report["connects"] == 1)
    return passed("sign in: a pasted redirect", right, status, report, asked, shown)


def visit(url):
    """The status of a page."""
    try:
        with urllib.request.urlopen(url, timeout=20) as page:
            return page.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError as error:
        return str(error)


def a_redirect_beside_silent_connections(probe):
    """Connections that send nothing, or never end their request, do not delay the browser. A wrong `state` is told."""
    with Site() as site:
        run = SignIn(probe, site)
        asked = run.opened()
        redirect = asked["redirect_uri"]
        port = urllib.parse.urlsplit(redirect).port
        silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(20)]
        silent[0].sendall(b"GET /callback?code=c HTTP/1.1\r\n")
        begin = time.monotonic()
        wrong = [visit(redirect + "?code=c&state=another"), visit(redirect + "?code=c"), visit(redirect + "/other?state=s")]
        good = visit("%s?code=c&state=%s" % (redirect, asked["state"]))
        took = time.monotonic() - begin
        report, status, _ = run.end()
        sent = site.sent("/token")
        for connection in silent:
            connection.close()
    right = (wrong, good, status, len(sent)) == ([400, 400, 404], 200, 0, 1) and took < 4
    return passed("sign in: a redirect beside silent connections", right, wrong, good, took, status, report)


def a_connection_ends_in_time(probe):
    """Each byte in time does not make the whole request so."""
    with Site() as site:
        run = SignIn(probe, site)
        asked = run.opened()
        begin, open_for = time.monotonic(), None
        with socket.create_connection(("127.0.0.1", urllib.parse.urlsplit(asked["redirect_uri"]).port)) as slow:
            slow.settimeout(0.5)
            while open_for is None and time.monotonic() - begin < 20:
                try:
                    slow.sendall(b"x")
                    open_for = time.monotonic() - begin if slow.recv(1) == b"" else None
                except socket.timeout:
                    pass
                except OSError:
                    open_for = time.monotonic() - begin
        run.paste("?code=c&state=" + asked["state"])
        report, status, _ = run.end()
    return passed("sign in: a connection ends in time", status == 0 and (open_for or 20) < 10, open_for, report)


def a_token_endpoint_that_hangs(probe):
    with Site(tokens=None) as site:
        begin = time.monotonic()
        run = SignIn(probe, site, "--timeout", "4")
        asked = run.opened()
        run.paste("?code=c&state=" + asked["state"])
        report, status, _ = run.end()
        took = time.monotonic() - begin
    failure = report["failure"] or {"kind": None, "message": ""}
    right = (status, failure["kind"]) == (1, "timeout") and "waited for the authorization server" in failure["message"] and took < 6
    return passed("sign in: a token endpoint that hangs", right, took, report)


def a_registration_stays_stored(probe):
    """What a run makes is dynamic, refreshed or not; what it found in the file is stored, refreshed or not."""
    with tempfile.TemporaryDirectory() as folder, Site(tokens={"expires_in": 1, "refresh_token": "hush-refresh"}) as site:
        file = os.path.join(folder, "tokens.json")
        run = SignIn(probe, site, "--tokens", file, "--watch", "3", "--call", "a")
        run.paste("?code=c&state=" + run.opened()["state"])
        first, status, _ = run.end()
        time.sleep(1.5)
        second, again, shown = SignIn(probe, site, "--tokens", file, "--call", "a").end()
    told = [(report["authorization"]["registration"], set(report["authorization"]["grants"])) for report in (first, second)]
    right = (status, again) == (0, 0) and told[1] == ("stored", {"refresh_token"}) and told[0][0] == "dynamic"
    return passed("sign in: a registration stays stored", right and SECRET not in shown, told, second)


def a_file_of_something_else(probe):
    """It is left as it is, and nothing begins."""
    right, shown = True, []
    for text in ("no json", '{"mcpServers": {"a": {"command": "b"}}}', "[]", '{"https://a.example/": "x"}'):
        with tempfile.TemporaryDirectory() as folder, Site() as site:
            file = pathlib.Path(folder) / "tokens.json"
            file.write_text(text)
            command = [probe, "--json", "--oauth", "--tokens", file, "http", site.url]
            run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, stdin=subprocess.DEVNULL)
            good = (run.returncode, run.stdout, site.server.requests, file.read_text()) == (2, "", [], text)
            right = right and good and "left as it is" in run.stderr
            shown += [text, run.returncode, run.stderr]
    return passed("sign in: a file of something else", right, *shown)


def a_secret_of_the_environment(probe):
    """It goes to the server that --issuer names, and to no other one."""
    right, shown = True, []
    secret = "hush-of-the-environment"
    environment = {**os.environ, "MCP_CLIENT_SECRET": secret}
    for issuer in (lambda site: ["--issuer", site.server.base], lambda site: ["--issuer", ELSEWHERE], lambda site: []):
        with Site() as site:
            options = ["--json", "--oauth", "--client-id", "app", "--grant", "client-credentials", *issuer(site)]
            run = subprocess.run([probe, *options, "http", site.url], capture_output=True, text=True, timeout=60,
                                 env=environment, check=False, stdin=subprocess.DEVNULL)
            report, sent = json.loads(run.stdout), [str(it) for it in site.server.requests if it[0] == "/token"]
            base = site.server.base
        message = (report["failure"] or {"message": ""})["message"]
        if base in issuer(site):
            good = report["outcome"] == "ready" and report["authorization"]["grants"] == ["client_credentials"] and sent
        else:
            good = report["failure"]["kind"] == "unauthorized" and not sent
            # It is said what the server offers, and what is to be given.
            good = good and ("give --issuer " + base in message if not issuer(site) else ELSEWHERE in message)
        right = right and bool(good) and SECRET not in run.stdout + run.stderr
        shown += [report["failure"], sent]
    return passed("sign in: a secret of the environment", right, *shown)


def entries_of_a_file(probe):
    """`auth: oauth` signs in without an option. The failure says what the server offers, with and without it."""
    right, shown = True, []
    for entry, redirect, words in [
        ({"auth": "oauth"}, "?code=c&state=", None),
        ({"auth": "oauth"}, "?error=access_denied&state=", "The server offers OAuth at `%s`; registration: pre-registered, dynamic"),
        ({}, None, "The server offers OAuth at `%s`: `auth: oauth` in its entry obtains a token"),
    ]:
        with tempfile.TemporaryDirectory() as folder, Site() as site:
            file = os.path.join(folder, "servers.json")
            with open(file, "w") as text:
                json.dump({"mcpServers": {"s": {"url": site.url, **entry}}}, text)
            run = SignIn(probe, site, "config", file)
            if redirect:
                run.paste(redirect + run.opened()["state"])
            report, status, output = run.end()
            report, base = report["servers"]["s"], site.server.base
        if words is None:
            good = (report["outcome"], report["authorization"]["grants"], status) == ("ready", ["authorization_code"], 0)
        else:
            good = status == 1 and report["failure"]["kind"] == "unauthorized" and words % base in report["failure"]["message"]
        right = right and good and SECRET not in output
        shown.append(report)
    return passed("sign in: entries of a file", right, *shown)


def refuse_more_scopes(probe, method):
    """A user authorizes the client, and then refuses the scopes that the method needs."""
    with Site(forbids=method) as site:
        run = SignIn(probe, site, "--call", "a")
        asked = run.opened()
        run.paste("?code=c&state=" + asked["state"])
        more = run.opened()
        run.paste("?error=access_denied&state=" + more["state"])
        report, status, shown = run.end()
    reason = "the authorization server answered `access_denied`"
    right = (status == 1 and SECRET not in shown and (asked["scope"], more["scope"]) == ("read", "read write")
             and report["authorization"]["error"] == {"stage": "step-up", "reason": reason})
    return right, report, (status, asked, more, report, shown)


def a_step_up_that_is_refused_during_a_call(probe):
    """The call has failed, and the session goes on."""
    right, report, told = refuse_more_scopes(probe, "tools/call")
    call = report["calls"][0]
    right = (right and report["outcome"] == "ready" and call["outcome"] == "error" and call["error"]["status"] == 403
             and "step-up" in call["error"]["message"])
    return passed("sign in: a step-up that is refused during a call", right, *told)


def a_step_up_that_is_refused_at_first(probe):
    """There is no session."""
    right, report, told = refuse_more_scopes(probe, "initialize")
    failure = report["failure"] or {"kind": None, "message": ""}
    right = right and failure["kind"] == "forbidden" and "Ask who administers the account" in failure["message"]
    return passed("sign in: a step-up that is refused at first", right, *told)


def main(probe, *names):
    cases = {name: lambda probe, name=name: inspect(probe, name) for name in KINDS}
    cases |= {case.__name__: case for case in (
        the_checks_of_a_sign_in, a_server_that_is_not_there, what_is_taken_of_a_response_without_end, a_pasted_redirect,
        a_redirect_beside_silent_connections, a_connection_ends_in_time, a_token_endpoint_that_hangs,
        a_registration_stays_stored, a_file_of_something_else, a_secret_of_the_environment, entries_of_a_file,
        a_step_up_that_is_refused_during_a_call, a_step_up_that_is_refused_at_first)}
    sys.exit(not all([case(probe) for case in chosen(cases, names).values()]))


if __name__ == "__main__":
    main(*sys.argv[1:])

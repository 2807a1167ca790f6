"""Runs probe with servers over HTTP whose authorization is wrong, and with one where it works: auth_findings.py PROBE."""

import http.server
import json
import os
import socket
import subprocess
import sys
import threading
import urllib.parse

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
        return self.reply(200, document, **({"content_type": "text/html"} if isinstance(document, bytes) else {}))

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.requests.append((self.path, body.decode()))
        if self.path == "/register":
            return self.reply(201, {**json.loads(body), "client_id": "dynamic"})
        if self.path == "/token":
            tokens = len([path for path, _ in self.server.requests if path == "/token"])
            return self.reply(200, {"access_token": "hush-access-%d" % tokens, "token_type": "Bearer", "expires_in": 3600})
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

    def __init__(self, resource=(), server=(), forbids=None):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        base = self.server.base = "http://127.0.0.1:%d" % self.server.server_port
        self.server.requests, self.server.forbids = [], forbids
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
            if isinstance(change, bytes):
                self.server.documents[path] = change
            elif change is not None:
                document = {**document, **dict(change)}
                self.server.documents[path] = {name: value for name, value in document.items() if value is not None}
        self.url = base + "/mcp"

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


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
             and {path for path, _ in site.server.requests} == {"/mcp"})
    return passed("auth: " + name, right, run.returncode, report)


def free_port():
    with socket.socket() as it:
        it.bind(("127.0.0.1", 0))
        return it.getsockname()[1]


class SignIn:
    """A run with --oauth whose user pastes the redirect."""

    def __init__(self, probe, site, *options):
        environment = {name: value for name, value in os.environ.items() if name != "BROWSER"}
        pipes = {name: subprocess.PIPE for name in ("stdin", "stdout", "stderr")}
        command = [probe, "--json", "--timeout", "30", "--oauth", *options, "http", site.url]
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
        registered = [json.loads(body) for path, body in site.server.requests if path == "/register"]
        tokens = [dict(urllib.parse.parse_qsl(body)) for path, body in site.server.requests if path == "/token"]
    right = (status == 0 and [call["outcome"] for call in report["calls"]] == ["result"]
             and (asked["path"], asked["redirect_uri"], asked["scope"], asked["resource"]) == ("/authorize", redirect, "mine", site.url)
             and asked["code_challenge_method"] == "S256" and "this is not the redirect" in shown
             and [it["redirect_uris"] for it in registered] == [[redirect]]
             and [(it["code"], it["redirect_uri"]) for it in tokens] == [("c", redirect)]
             and report["authorization"]["grants"] == ["authorization_code"] and SECRET not in shown)
    return passed("sign in: a pasted redirect", right, status, report, asked, shown)


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


def main(probe):
    right = [inspect(probe, name) for name in KINDS]
    right += [case(probe) for case in (a_pasted_redirect, a_step_up_that_is_refused_during_a_call, a_step_up_that_is_refused_at_first)]
    sys.exit(not all(right))


if __name__ == "__main__":
    main(*sys.argv[1:])

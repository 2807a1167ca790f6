"""Checks that probe's output and journals contain no secrets of URLs, headers, configuration files and sign-ins, also where
a server repeats them: secrets.py PROBE [CASE]..."""

import http.server
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

from cases import chosen

SECRET = "hush"
ANSWERS = {
    "redirects": (307, {"location": "https://elsewhere.example/login?api_key=hush-location"}, b""),
    "refuses": (401, {"www-authenticate": "Bearer realm=\"r\""}, b""),
    "forbids": (403, {}, b"no"),
    "fails": (500, {}, b"it broke"),
    "says nothing": (200, {"content-type": "application/json", "mcp-session-id": "hush-session"}, b""),
}


def serve(status, headers, body):
    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def journal(probe):
    """A server repeats the headers in its response, which the report shows and the journal does not have."""
    server = serve(400, {"content-type": "text/plain"}, b"no such user: hush-token, hush-tenant of hush-key-0123, tiny")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        headers = ["Authorization: Bearer hush-token", "X-Lines: hush  one\\nhush  two", "X-Api-Key: hush-key-0123"]
        headers += ["X-Tenant: hush-tenant", "X-Size: tiny"]
        headers += ["Accept: application/json, text/event-stream"]
        options = [option for header in headers for option in ("--header", header)]
        command = [probe, "--timeout", "10", *options, "--journal", path, "http", url]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        text = path.read_text()
        replay = subprocess.run([probe, "--replay", path], capture_output=True, text=True, timeout=60, check=False)
    server.shutdown()
    good = SECRET not in text and "no such user: secret1" in text and "differs" not in replay.stdout + replay.stderr
    # What is too short to be looked for is told.
    good = good and run.stderr.count("the journal may contain") == 1 and "the value of x-size" in run.stderr
    # A secret has the same mask in the report and in the journal.
    good = good and replay.stdout == run.stdout and "no such user: secret11xx" in run.stdout
    print("ok  " if good else "FAILED", "journal", "" if good else run.stderr + text)
    return good


def told(name, run, expected, *files):
    """Prints whether the run has what is expected and no secret in its output and these files."""
    shown = run.stdout + run.stderr + "".join(Path(file).read_text() for file in files)
    leaks = [line[:300] for line in shown.splitlines() if SECRET in line.lower()]
    missing = [words for words in expected if words not in shown]
    print("FAILED" if leaks or missing else "ok  ", name, *leaks, *(f"there is no {words!r}" for words in missing))
    return not leaks and not missing


def run_probe(probe, *args, **env):
    env = dict(os.environ, **env)
    run = [probe, "--timeout", "20", *args]
    return subprocess.run(run, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)


class Echo(http.server.BaseHTTPRequestHandler):
    """A server that repeats what it is given, and its own authorization server."""

    protocol_version = "HTTP/1.1"
    demands_token = False

    def respond(self, status, body=None, **headers):
        body = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "content-type": "application/json", "content-length": str(len(body))}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        origin = f"http://127.0.0.1:{self.server.server_port}"
        if "oauth-protected-resource" in self.path:
            return self.respond(200, {"resource": origin + "/mcp", "authorization_servers": [origin]})
        if "oauth-authorization-server" in self.path:
            return self.respond(200, {
                "issuer": origin, "authorization_endpoint": origin + "/authorize", "token_endpoint": origin + "/token",
                "response_types_supported": ["code"], "grant_types_supported": ["client_credentials"],
                "code_challenge_methods_supported": ["S256"],
                "token_endpoint_auth_methods_supported": ["client_secret_post"]})
        return self.respond(405)

    def do_DELETE(self):
        self.respond(200)

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.path == "/token":
            self.server.repeated = body.decode()
            return self.respond(200, {"access_token": "hush-access-token", "token_type": "Bearer", "expires_in": 3600})
        if self.demands_token and "authorization" not in self.headers:
            return self.respond(401, www_authenticate="Bearer")
        message = json.loads(body)
        given = "; ".join([*self.headers.values(), self.server.repeated])
        if message["method"] == "server/discover":
            return self.respond(200, self.error(message, -32601, given))
        if "id" not in message:
            return self.respond(202)
        results = {
            "initialize": {"protocolVersion": "2025-06-18", "serverInfo": {"name": given, "version": given},
                           "capabilities": {"tools": {}, "prompts": {}, given: {}}, "instructions": given},
            "tools/list": {"tools": [{"name": "echo", "description": given, "inputSchema": {"description": given}}, given]},
            "prompts/list": {"prompts": [{"name": "echo", "description": given, given: given}]},
            "tools/call": {"content": [{"type": "text", "text": given + json.dumps(given)}], "structuredContent": {given: given}},
        }
        result = results.get(message["method"])
        self.respond(200, self.error(message, -32000, given) if result is None else self.result(message, result))

    @staticmethod
    def error(message, code, given):
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": code, "message": given, "data": [given]}}

    @staticmethod
    def result(message, result):
        return {"jsonrpc": "2.0", "id": message["id"], "result": result}

    def log_message(self, *_):
        pass


class Demanding(Echo):
    demands_token = True


def listen(handler):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.repeated = ""
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


HEADERS = ["Authorization: Bearer hush-token+/=", 'X-Key: hush "quoted" \\\\ key', "X-Short: abc", "X-Long: " + "hush-" * 40]


def echoed(probe):
    """A server repeats headers, the password and the key of its URL in every text that a report shows."""
    server, good = listen(Echo), True
    options = [option for header in HEADERS for option in ("--header", header)]
    options += ["--call", "echo", "--call", "none", "--prompt", "echo"]
    for user, query, repeated in (("ada:hush-password", "?api_key=hush-api-key", "hush-password; hush-api-key"),
                                  ("ada:hush%40password", "", "hush@password"), ("hush-user", "?token=hush-api%2bkey", "hush-api+key")):
        server.repeated = f"{user}; {query}; {repeated}"
        url = f"http://{user}@127.0.0.1:{server.server_port}/mcp{query}"
        for shown in (["--json"], ["--diagram"], ["--json", "--diagram"]):
            with tempfile.TemporaryDirectory() as folder:
                journal = Path(folder) / "journal"
                run = run_probe(probe, *shown, *options, "--journal", journal, "http", url, COLUMNS="60")
                # A short header is a part of other texts.
                good &= told(" ".join(["echoed", user, *shown]), run, ["secret1", "abc"], journal)
                good &= "--json" not in shown or json.loads(run.stdout)["outcome"] == "ready"
    server.shutdown()
    return good


def signed_in(probe):
    """A server repeats the token, and the secret that it was obtained with."""
    server, good = listen(Demanding), True
    origin = f"http://127.0.0.1:{server.server_port}"
    options = ["--oauth", "--grant", "client-credentials", "--client-id", "app", "--issuer", origin, "--call", "echo"]
    for shown in (["--json"], ["--diagram"]):
        run = run_probe(probe, *shown, *options, "http", origin + "/mcp", MCP_CLIENT_SECRET="hush-client-secret")
        good &= told(" ".join(["signed in", *shown]), run, ["client_credentials", "secret1"])
    server.shutdown()
    return good


def in_stdio(probe):
    """A program writes the password of its database to standard error, in pieces, and in its last words."""
    script = "printf 'no way to postgres://ada:hush-pass' >&2; sleep 0.3; printf 'word@a/b, bye> ' >&2; sleep 0.3; exit 1"
    for shown in (["--json"], ["--diagram"]):
        run = run_probe(probe, *shown, "stdio", "--", "sh", "-c", script, "postgres://ada:hush-password@a/b")
        if not told(" ".join(["stdio", *shown]), run, ["ada:secret10", "@a/b, bye> "]):
            return False
    return True


def configured(probe):
    """The servers of a file repeat headers, variables, arguments and the secrets that variables of probe have."""
    server = listen(Echo)
    script = 'printf "hush-to" >&2; sleep 0.3; echo "ken $1, $KEEP" >&2; exit 1'
    program = {"command": "sh", "args": ["-c", script.replace("hush", "$HALF"), "0", "${MY_API_KEY}"],
               "env": {"HALF": "hush", "MY_TOKEN": "hush-token", "KEEP": "a-plain-value"}}
    server.repeated = "hush-client-secret; hush-password"
    servers = {
        "program": program, "another": program,
        "web": {"url": f"http://ada:hush-password@127.0.0.1:{server.server_port}/mcp",
                "headers": {"X-Any": "hush-header", "X-Own": "${MY_API_KEY}"},
                "oauth": {"client_id": "app", "client_secret": "hush-client-secret", "issuer": "https://a.example"}},
    }
    good = True
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mcp.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        for shown in ([], ["--json"]):
            run = run_probe(probe, *shown, "--header", "X-More: hush-more", "config", file, MY_API_KEY="hush-variable")
            good &= told(" ".join(["configured", *shown]), run, ["a-plain-value", "program: secret1", "another: secret1"])
    server.shutdown()
    return good


LINES = [*(f"{n}hushAb+/{n}hushCd" * 3 for n in range(9)), "9hushEf=="]
PEM = "\n".join(["-----BEGIN PRIVATE KEY-----", *LINES, "-----END PRIVATE KEY-----"])
ACCOUNT = json.dumps({"project": "p", "private_key": PEM, "notes": ["hush-note-%05d" % n for n in range(1500)]}, indent=2)
# Of each program, what its entry has, and a script that shows it.
SHOWN = {
    "lines": ({"PRIVATE_KEY": PEM}, 'echo "$PRIVATE_KEY" >&2'),
    "one line": ({"PRIVATE_KEY": PEM}, 'echo $PRIVATE_KEY >&2'),
    "a line": ({"PRIVATE_KEY": PEM}, 'echo "$PRIVATE_KEY" | sed -n 4p >&2'),
    "escaped": ({"SIGNING_PEM": PEM.replace("\n", "\\n")}, """printf '%b\n' "$SIGNING_PEM" >&2"""),
    "long": ({"GOOGLE_CREDENTIALS": ACCOUNT}, 'echo "$GOOGLE_CREDENTIALS" >&2'),
    "long line": ({"SESSION_COOKIE": "hush" * 6000 + "end"}, 'echo "of $SESSION_COOKIE" >&2'),
    "query": ({"COMMAND": "https://a.example/?token=hush-tok-1 --flag"}, "echo hush-tok-1 is wrong >&2"),
    "quoted": ({"COMMAND": '{"url":"https://a.example/?token=hush-tok-2","b":"c@d"}'}, "echo hush-tok-2 is wrong >&2"),
    "two URLs": ({"SERVERS": "r://a:hushpass1@h,r://b:hushpass2@h"}, "echo hushpass1 hushpass2 >&2"),
    "option": ({"OPTION": "--url=https://hush-user-key@h/"}, "echo hush-user-key is wrong >&2"),
    **{name: ({name: "hush-" + name}, f"echo hush-{name} is wrong >&2")
       for name in ("GITHUB_PAT", "PASSPHRASE", "MY_JWT", "COOKIE", "TLS_PEM", "CREDENTIALS")},
}


def shown_in_part(probe):
    """Programs show parts of what their entries have as secrets."""
    good = True
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mcp.json"
        for name, (env, script) in SHOWN.items():
            server = {"command": "sh", "args": ["-c", script + "; exit 1"], "env": env}
            file.write_text(json.dumps({"mcpServers": {name: server}}))
            for options in ([], ["--json"]):
                run = run_probe(probe, *options, "config", file)
                good &= told(" ".join(["shown", name, *options]), run, ["secret"])
    return good


def words(probe):
    """Secrets that are ordinary words change no names of members or servers, and no fixed words of reports."""
    server = listen(Echo)
    url = f"http://ada:required@127.0.0.1:{server.server_port}/mcp"
    script = "echo the user postgres is unknown, and so is outcomes >&2; exit 1"
    servers = {
        "postgres": {"command": "sh", "args": ["-c", script], "env": {"DB_PASSWORD": "postgres", "AUTH": "disabled"}},
        "protocolVersion": {"command": "sh", "args": ["-c", script, "postgres://a:outcomes@b/c"]},
        "configuration": {"url": url, "headers": {"X-A": "protocolVersion", "X-B": "inputSchema", "X-C": "disabled"}},
        "off": {"command": "sh", "disabled": True},
    }
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "mcp.json"
        file.write_text(json.dumps({"mcpServers": servers}))
        run = run_probe(probe, "--json", "config", file)
        report = json.loads(run.stdout)["servers"]
        good = sorted(report) == sorted(servers) and report["off"]["outcome"] == "disabled"
        good &= "user postgres" in report["postgres"]["failure"]["message"] and "outcomes" not in run.stdout + run.stderr
        good &= all(set(report["off"]) == set(one) for one in report.values())
        tools = report["configuration"]["tools"]
        good &= [set(tool) for tool in tools] == [{"name", "exposedName", "description", "inputSchema"}]
        # What is given as a header is a secret, whatever it is.
        good &= "; inputSchema" not in run.stdout and "disabled;" not in run.stdout
    server.shutdown()
    print("ok  " if good else "FAILED", "words", "" if good else run.stdout + run.stderr)
    return good


def answered(probe, name):
    """A server that answers like this."""
    server, good = serve(*ANSWERS[name]), True
    url = f"http://ada:hush-password@127.0.0.1:{server.server_port}/mcp?api_key=hush-query"
    for options in (["--json"], ["--diagram"]):
        command = [probe, *options, "--timeout", "10", "--header", "Authorization: Bearer hush-token", "http", url]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        shown = run.stdout + run.stderr
        leaks = [line for line in shown.splitlines() if SECRET in line]
        reported = run.returncode == 1 and (options != ["--json"] or json.loads(run.stdout)["outcome"] == "failed")
        good = good and reported and not leaks
        print("FAILED" if leaks or not reported else "ok  ", name, *options, *leaks)
    server.shutdown()
    return good


def main(probe, *names):
    cases = {case.__name__: case for case in (journal, echoed, signed_in, in_stdio, configured, shown_in_part, words)}
    cases |= {name: lambda probe, name=name: answered(probe, name) for name in ANSWERS}
    sys.exit(not all([case(probe) for case in chosen(cases, names).values()]))


if __name__ == "__main__":
    main(*sys.argv[1:])

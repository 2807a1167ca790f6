"""Makes each cause of a failure with a program or a server that fails so, and compares what the probe tells of it with
`diagnoses.json`: the first line for people, and the diagnosis of the JSON report.

usage: diagnoses.py PROBE [--write | CAUSE...]

With `--write` what the probe tells becomes what is expected. A change of that file is to be read.

`certificates/` has an authority that no system knows, and certificates of it: for 127.0.0.1, for another name, and expired.
Not here, because no machine makes them the same way each time: `network-unreachable`, `connect-timeout`, `unreachable`,
`overrun`; `tests/suite/diagnosis.rs` has their texts. `sign-in-failed` needs a browser (`drivers/tokio/tests/oauth.rs`), and
`connection-lost` is told of a server that was ready, which the probe connects to again.
"""
import json, os, re, socket, ssl, struct, subprocess, sys, tempfile, threading

from cases import chosen

HERE = os.path.dirname(os.path.abspath(__file__))
EMPTY = {"PATH": os.environ["PATH"]}


def told(probe, args, env=None):
    """The diagnosis of the probe's report, and the first line for people, without what differs from run to run."""
    environment = dict(EMPTY, **(env or {}))
    runs = [subprocess.Popen([probe, *option, *args], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                             env=environment, stdin=subprocess.DEVNULL) for option in (["--json"], [])]
    found, people = (run.communicate(timeout=120)[0] for run in runs)
    found = json.loads(found)
    if "servers" in found:
        found, = found["servers"].values()
    value = json.dumps({"finding": people.splitlines()[0], **(found["diagnosis"] or {"cause": None})})
    for it, name in ((os.path.realpath(HERE), "HERE"), (tempfile.gettempdir() + r"/tmp\w+", "FOLDER"),
                     (r"127\.0\.0\.1:\d{4,5}", "HOST"), (r"verification time .*?ago\)", "TIME")):
        value = re.sub(it, name, value)
    return json.loads(value)


def shell(script, *before):
    return [*before, "stdio", "--", "sh", "-c", script]


def says(stderr):
    return shell("printf '%s\\n' '" + stderr + "' >&2; exit 1")


def answers(*messages):
    """A server over stdio that answers each request by the next of these."""
    script = "".join("read -r line; printf '%s\\n' '" + json.dumps(message) + "'; " for message in messages)
    return shell(script + "exec sleep 30")


RESULT = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
NO_METHOD = {"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}


def legacy(*messages):
    """One that is connected in the legacy era, whose lists are answered by these."""
    first = "".join("read -r line; printf '%s\\n' '" + json.dumps(it) + "'; " for it in (
        NO_METHOD, {"jsonrpc": "2.0", "id": 2, "result": RESULT}))
    rest = "read -r line; " + "".join("read -r line; printf '%s\\n' '" + json.dumps(it) + "'; " for it in messages)
    return shell(first + rest + "exec sleep 30", "--timeout", "3")


PROGRAMS = {
    "setting-missing": says("Error: GITHUB_TOKEN is not set"),
    "argument-invalid": says("Usage: server <folder>"),
    "module-missing": says("ModuleNotFoundError: No module named x"),
    "package-not-found": says("npm error 404  x@* is not in this registry."),
    "registry-unreachable": says("npm error network request to https://registry.npmjs.org/x failed"),
    "image-not-found": says("docker: Error response from daemon: pull access denied for x"),
    "container-engine-down": says("docker: Cannot connect to the Docker daemon"),
    "runtime-version": says("npm error engine Unsupported engine"),
    "port-in-use": says("Error: listen EADDRINUSE: address already in use :::3000"),
    "backend-unreachable": says("Error: connect ECONNREFUSED 127.0.0.1:5432"),
    "file-missing": says("FileNotFoundError: [Errno 2] No such file or directory: x"),
    "permission-denied": says("PermissionError: [Errno 13] Permission denied: /x"),
    "credential-refused": says("Error: 401 Unauthorized: Bad credentials"),
    "out-of-memory": says("FATAL ERROR: JavaScript heap out of memory"),
    "crashed": says("panic: runtime error: index out of range"),
    "command-not-found": ["stdio", "--", "/nonexistent/server"],
    "command-not-executable": ["stdio", "--", os.path.join(HERE, "certificates/ca.pem")],
    "exited": says("goodbye"),
    "exited-silently": shell("exit 3"),
    "killed": shell("echo started >&2; kill -9 $$"),
    "pipe-closed": shell("exec 1>&-; exec sleep 60"),
    "silent": shell("exec sleep 30", "--timeout", "2"),
    "serves-http": shell("echo 'Uvicorn running on http://127.0.0.1:8000' >&2; exec sleep 30", "--timeout", "2"),
    "login-awaited": shell("echo 'To authenticate, visit https://x/device' >&2; exec sleep 30", "--timeout", "2"),
    "consent-awaited": shell("echo 'Ok to proceed? (y)' >&2; exec sleep 30", "--timeout", "2"),
    "downloading": shell("echo 'Downloading x (10 MB)' >&2; exec sleep 30", "--timeout", "2"),
    "not-mcp": shell("echo hello; exec sleep 30", "--timeout", "2"),
    "handshake-refused": answers(NO_METHOD, {"jsonrpc": "2.0", "id": 2, "error": {"code": -1, "message": "go away"}}),
    "answer-invalid": answers(NO_METHOD, {"jsonrpc": "2.0", "id": 2, "result": {"capabilities": 1}}),
    "version-unsupported": answers(NO_METHOD, {"jsonrpc": "2.0", "id": 2, "result": dict(RESULT, protocolVersion="1999")}),
    "list-failed": legacy({"jsonrpc": "2.0", "id": 3, "error": {"code": -1, "message": "no database"}}),
    "list-silent": legacy(),
    "script-missing": ["stdio", "--", "python3", "/nonexistent/server.py"],
    "echo": ["stdio", "--", "cat"],
}


def serve(answer, context=None):
    """A server on a port of its own, which gives each connection to a function. Returns the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=handle, args=(connection,), daemon=True).start()

    def handle(connection):
        try:
            if context:
                connection = context.wrap_socket(connection, server_side=True)
            answer(connection)
        except (OSError, ssl.SSLError):
            pass

    threading.Thread(target=accept, daemon=True).start()
    return listener.getsockname()[1]


def request(connection):
    """Reads a request: its head and its body."""
    data = b""
    while b"\r\n\r\n" not in data:
        piece = connection.recv(65536)
        if not piece:
            raise OSError
        data += piece
    head, body = data.split(b"\r\n\r\n", 1)
    length = next((int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")), 0)
    while len(body) < length:
        body += connection.recv(65536)
    return head, body


def responds(status, body=b"", *headers):
    def answer(connection):
        request(connection)
        lines = [b"HTTP/1.1 " + status, b"content-length: %d" % len(body), b"connection: close", *headers]
        connection.sendall(b"\r\n".join(lines) + b"\r\n\r\n" + body)
        connection.close()
    return answer


def resets(connection):
    request(connection)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def alerts(connection):
    connection.recv(65536)
    connection.sendall(bytes([0x15, 3, 3, 0, 2, 2, 40]))
    connection.close()


def keeps(connection):
    request(connection)
    connection.recv(1)


def forgets(connection):
    """Opens sessions, and has forgotten each at once."""
    head, body = request(connection)
    message = json.loads(body or b"{}")
    if message.get("method") == "server/discover":
        status, result = b"404 Not Found", {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}}
    elif message.get("method") == "initialize":
        status, result = b"200 OK", {"jsonrpc": "2.0", "id": message["id"], "result": RESULT}
    else:
        status, result = b"404 Not Found", {}
    text = json.dumps(result).encode()
    connection.sendall(b"HTTP/1.1 " + status + b"\r\ncontent-type: application/json\r\nmcp-session-id: s\r\nconnection: close\r\n"
                       b"content-length: %d\r\n\r\n" % len(text) + text)
    connection.close()


def tls(name, clients=None):
    """Demands a certificate of these clients, if any."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(os.path.join(HERE, "certificates", name))
    if clients:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(os.path.join(HERE, "certificates", clients))
    return context


TRUSTED = {"SSL_CERT_FILE": os.path.join(HERE, "certificates/ca.pem")}
OK = responds(b"200 OK")
# The cause: the scheme, what is served, the certificates of its TLS, the environment.
SITES = {
    "path-not-found": ("http", responds(b"404 Not Found"), None, {}),
    "method-refused": ("http", responds(b"405 Method Not Allowed"), None, {}),
    "rate-limited": ("http", responds(b"429 Too Many Requests"), None, {}),
    "server-fault": ("http", responds(b"500 Internal Server Error"), None, {}),
    "gateway-fault": ("http", responds(b"502 Bad Gateway"), None, {}),
    "token-required": ("http", responds(b"401 Unauthorized"), None, {}),
    "access-refused": ("http", responds(b"403 Forbidden"), None, {}),
    "host-refused": ("http", responds(b"403 Forbidden", b"Invalid Host header"), None, {}),
    "web-page": ("http", responds(b"200 OK", b"<!doctype html>", b"content-type: text/html"), None, {}),
    "tls-required": ("http", responds(b"400 Bad Request", b"Client sent an HTTP request to an HTTPS server."), None, {}),
    "connection-reset": ("http", resets, None, {}),
    "no-answer": ("http", keeps, None, {}),
    "sessions-expire": ("http", forgets, None, {}),
    "tls-not-spoken": ("https", lambda connection: connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n"), None, {}),
    "tls-failed": ("https", alerts, None, {}),
    "certificate-issuer": ("https", OK, ["good.pem"], {}),
    "certificate-expired": ("https", OK, ["expired.pem"], TRUSTED),
    "certificate-name": ("https", OK, ["other.pem"], TRUSTED),
    "client-certificate-required": ("https", OK, ["good.pem", "client.pem"], TRUSTED),
}


# The entry of a configuration file.
ENTRIES = {
    "url-invalid": {"url": "htp://x"},
    "folder-missing": {"command": "sh", "cwd": "/nonexistent"},
    "not-started": {"command": "sh", "args": ["x" * 300_000]},
}


def of_site(probe, cause):
    scheme, answer, certificates, env = SITES[cause]
    port = serve(answer, tls(*certificates) if certificates else None)
    before = ["--timeout", "3"] if cause == "no-answer" else []
    return told(probe, [*before, "http", "%s://127.0.0.1:%d/x" % (scheme, port)], env)


def of_proxy(probe):
    proxy = serve(responds(b"403 Forbidden"))
    return told(probe, ["http", "https://example.invalid/mcp"], {"HTTPS_PROXY": "http://127.0.0.1:%d" % proxy})


def of_entry(probe, entry):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "servers.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump({"mcpServers": {"s": entry}}, file)
        return told(probe, ["config", path])


def of_binary(probe):
    with tempfile.TemporaryDirectory() as folder:
        binary = os.path.join(folder, "binary")
        with open(binary, "wb") as file:
            file.write(b"\x7fELF of no machine")
        os.chmod(binary, 0o755)
        return told(probe, ["stdio", "--", binary])


def started_twice(probe):
    done = subprocess.run([probe, *says("goodbye")], capture_output=True, text=True, timeout=120, env=EMPTY, check=False)
    return {"cause": "started twice", "is told": "It was started 2 times" in done.stdout}


CASES = {
    **{cause: lambda probe, args=args: told(probe, args) for cause, args in PROGRAMS.items()},
    **{cause: lambda probe, cause=cause: of_site(probe, cause) for cause in SITES},
    "nobody-listens": lambda probe: told(probe, ["http", "http://127.0.0.1:1/mcp"]),
    "host-unknown": lambda probe: told(probe, ["http", "http://nosuch.invalid/mcp"]),
    "proxy-refused": of_proxy,
    **{cause: lambda probe, entry=entry: of_entry(probe, entry) for cause, entry in ENTRIES.items()},
    "command-format": of_binary,
    "started twice": started_twice,
}


def main():
    probe, *names = sys.argv[1:]
    probe, is_written = os.path.abspath(probe), names == ["--write"]
    cases = chosen(CASES, [] if is_written else names)
    expected_file = os.path.join(HERE, "diagnoses.json")
    expected, found = json.load(open(expected_file, encoding="utf-8")), {}
    for cause, case in cases.items():
        found[cause] = case(probe)
        is_right = found[cause]["cause"] == cause and found[cause] == expected.get(cause)
        print("%-4s %s" % ("ok" if is_right else "FAIL", cause), flush=True)
    if is_written:
        with open(expected_file, "w", encoding="utf-8") as file:
            file.write(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    elif names:
        expected = {cause: it for cause, it in expected.items() if cause in names}
    for cause in expected.keys() | found.keys():
        if expected.get(cause) != found.get(cause):
            print(cause, expected.get(cause), found.get(cause), sep="\n  ")
    sys.exit(expected != found or any(cause != it["cause"] for cause, it in found.items()))


main()

"""Kills examples/moving with calls in flight, several times, and has another process continue from its snapshot.

Every call has to end once, and the server must not run one twice.

usage: moving.py MOVING
"""
import collections, http.server, json, os, subprocess, sys, tempfile, threading, time

MOVING = os.path.abspath(sys.argv[1])
CALLS, KILLS = 30, 3
SESSION = "the-only-session"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.methods = collections.Counter()
        self.runs = collections.Counter()
        self.in_flight = 0

    def handle_error(self, request, client_address):
        # The client was killed.
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def reply(self, status, body=None, headers=()):
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if body is not None:
            self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        self.reply(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, server = message.get("method"), self.server
        with server.lock:
            server.methods[method] += 1
        if method != "initialize" and self.headers.get("mcp-session-id") != SESSION:
            return self.reply(404)
        if "id" not in message:
            return self.reply(202)
        answer = lambda result: {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if method == "initialize":
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "moving", "version": "1"}}
            return self.reply(200, answer(result), [("mcp-session-id", SESSION)])
        if method == "tools/list":
            return self.reply(200, answer({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}))
        if method == "tools/call":
            with server.lock:
                server.runs[message["params"]["arguments"]["n"]] += 1
                server.in_flight += 1
            time.sleep(0.15)
            with server.lock:
                server.in_flight -= 1
            return self.reply(200, answer({"content": []}))
        # `server/discover` is one of them: this server is a legacy one.
        error = {"code": -32601, "message": "Method not found"}
        return self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})


def main():
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        command = [MOVING, "http://127.0.0.1:%d/mcp" % server.server_port, folder + "/state.json", "work", str(CALLS)]
        for kill in range(KILLS):
            process = subprocess.Popen(command)
            target, end = (kill + 1) * CALLS // (KILLS + 2), time.monotonic() + 60
            while not (server.in_flight >= 2 and len(server.runs) >= target):
                assert time.monotonic() < end and process.poll() is None, "no calls are in flight"
                time.sleep(0.001)
            process.kill()
            process.wait()
        last = subprocess.run(command, stdout=subprocess.PIPE, timeout=120, check=True, text=True)
    ended = dict(line.split(" ", 1) for line in last.stdout.splitlines())
    outcomes = collections.Counter(ended.values())
    print("calls: %s; requests: %s" % (dict(outcomes), dict(server.methods)))
    assert sorted(map(int, ended)) == list(range(CALLS)), "each call ends once"
    assert set(outcomes) == {"result", "unknown"}, "a call in flight is unknown, and no other"
    assert max(server.runs.values()) == 1, "a call ran twice: %s" % server.runs
    missing = [n for n, outcome in ended.items() if outcome == "result" and server.runs[int(n)] != 1]
    assert not missing, "a result without a run: %s" % missing
    assert server.methods["initialize"] == 1, "the session continues"


main()

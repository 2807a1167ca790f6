"""A server over HTTP for moving.py and gateway.py (2025-06-18) that counts what ran. Its tool `work` takes a moment; its
argument `n` names the call. A call may have another answer than an empty result, in `answers`: the text of a member."""
import collections, http.server, json, os, threading, time


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = "http://127.0.0.1:%d/mcp" % self.server_port
        self.lock = threading.Lock()
        self.methods = collections.Counter()
        self.sessions = set()
        self.runs = collections.Counter()
        self.running = set()
        self.answers = {}
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address):
        # The client was killed.
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def reply(self, status, body=None, headers=()):
        text = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
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
        self.server.sessions.discard(self.headers.get("mcp-session-id"))
        self.reply(200)

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        method, server = message.get("method"), self.server
        with server.lock:
            server.methods[method] += 1
        if method != "initialize" and self.headers.get("mcp-session-id") not in server.sessions:
            return self.reply(404)
        if "id" not in message:
            return self.reply(202)
        answer = lambda result: {"jsonrpc": "2.0", "id": message["id"], "result": result}
        if method == "initialize":
            session = os.urandom(8).hex()
            server.sessions.add(session)
            result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                      "serverInfo": {"name": "ledger", "version": "1"}}
            return self.reply(200, answer(result), [("mcp-session-id", session)])
        if method == "tools/list":
            return self.reply(200, answer({"tools": [{"name": "work", "inputSchema": {"type": "object"}}]}))
        if method == "tools/call":
            n = message["params"]["arguments"]["n"]
            with server.lock:
                server.runs[n] += 1
                server.running.add(n)
            time.sleep(0.15)
            with server.lock:
                server.running.discard(n)
            member = server.answers.get(n, '"result": {"content": []}')
            return self.reply(200, ('{"jsonrpc": "2.0", "id": %s, %s}' % (json.dumps(message["id"]), member)).encode())
        # `server/discover` is one of them: this server is a legacy one.
        error = {"code": -32601, "message": "Method not found"}
        return self.reply(200, {"jsonrpc": "2.0", "id": message["id"], "error": error})

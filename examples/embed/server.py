"""The server of the examples of examples/embed (2025-11-25), over stdio; with the argument `http` it prints its port, and serves
requests with the header `x-key: hush`. It has tools to be listed, of which `echo` can be called."""
import http.server, json, sys

TOOLS = ["echo", "fail", "count", "ask", "sample", "roots", "wait", "waits", "cancelled", "helper", "log", "errors", "die", "add-tool"]


def result(method, params):
    if method == "initialize":
        capabilities = {"tools": {}, "resources": {}, "prompts": {}}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": {"name": "test", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call" and params["name"] == "echo":
        return {"content": [{"type": "text", "text": params.get("arguments", {}).get("message", "")}]}
    if method == "resources/list":
        return {"resources": [{"uri": "test:a", "name": "a"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet"}]}
    if method == "ping":
        return {}
    return None


def response(message):
    answer = result(message["method"], message.get("params", {}))
    answer = {"result": answer} if answer is not None else {"error": {"code": -32601, "message": "no such method"}}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}) + "\n"


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def reply(self, status, *headers):
        self.send_response(status)
        for name, value in headers or [("content-length", "0")]:
            self.send_header(name, value)
        # For pages of other origins.
        self.send_header("access-control-allow-origin", "*")
        self.send_header("access-control-expose-headers", "mcp-session-id")
        self.end_headers()

    def do_OPTIONS(self):
        asked = self.headers["access-control-request-headers"] or ""
        methods = ("access-control-allow-methods", "GET, POST, DELETE")
        self.reply(204, methods, ("access-control-allow-headers", asked))

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.headers["x-key"] != "hush":
            return self.reply(403)
        if "method" not in message or "id" not in message:
            return self.reply(202)
        self.close_connection = True
        self.reply(200, ("content-type", "text/event-stream"), ("mcp-session-id", "one"), ("connection", "close"))
        self.wfile.write(b"data: %s\n" % response(message).encode())

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        self.reply(200)


if sys.argv[1:] == ["http"]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        sys.stdout.write(response(message))
        sys.stdout.flush()

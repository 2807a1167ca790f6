"""A server for the examples of examples/embed (2025-11-25), over stdio. Its only argument, if any, is what it does instead:
`exit`, `deaf` (reads nothing), `mute` (reads nothing after it listed its tools), `stubborn` (ignores the end of its input and
SIGTERM), `http` (prints its port, and serves requests with the header `x-key: hush`), `https` (the same, with the certificate
that follows)."""
import http.server, json, os, signal, ssl, subprocess, sys, threading, time

MODE = sys.argv[1] if len(sys.argv) > 1 else ""
LOCK = threading.Lock()
CANCELLED = []
# Calls of `wait` over stdio: how many came, those that are open, and the most that were open at a time.
WAITS = {"all": 0, "open": set(), "most": 0}
ANSWERS = {}
STREAM = threading.local()


def send(message):
    text = json.dumps({"jsonrpc": "2.0", **message}) + "\n"
    if hasattr(STREAM, "http"):
        STREAM.http.write(b"data: %s\n" % text.encode())
        return
    with LOCK:
        sys.stdout.write(text)
        sys.stdout.flush()


def text(words, **more):
    return {"content": [{"type": "text", "text": words}], **more}


def ask(method, params):
    """Asks the client, and waits for its response."""
    ident = "ask-%d" % len(ANSWERS)
    came = ANSWERS[ident] = [threading.Event(), None]
    send({"id": ident, "method": method, "params": params})
    came[0].wait()
    return came[1]


def call(ident, name, arguments, meta):
    if name == "echo":
        message = arguments.get("message", "")
        return text(message, structuredContent={"message": message, "pid": os.getpid()})
    if name == "fail":
        return text("it does not work", isError=True)
    if name == "count":
        for step in range(arguments["to"]):
            send({"method": "notifications/progress", "params": {
                "progressToken": meta["progressToken"], "progress": step + 1, "total": arguments["to"]}})
            time.sleep(arguments.get("pause", 0))
        return text("counted")
    if name == "ask":
        schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
        return text(json.dumps(ask("elicitation/create", {"message": "who?", "requestedSchema": schema})))
    if name == "sample":
        content = {"type": "text", "text": "hi"}
        messages = [{"role": "user", "content": content}]
        return text(json.dumps(ask("sampling/createMessage", {"messages": messages, "maxTokens": 9})))
    if name == "roots":
        return text(json.dumps(ask("roots/list", {})))
    if name == "cancelled":
        return text(json.dumps(CANCELLED))
    if name == "waits":
        return text("", structuredContent={**WAITS, "open": len(WAITS["open"])})
    if name == "helper":
        # It keeps the output open.
        return text(str(subprocess.Popen(["sleep", "1000"], stdin=subprocess.DEVNULL).pid))
    if name == "log":
        for number in range(arguments["count"]):
            send({"method": "notifications/message", "params": {"level": "info", "data": str(number) * arguments["size"]}})
        return text("logged")
    if name == "errors":
        sys.stderr.write("x" * arguments["size"] + "\n")
        sys.stderr.flush()
        return text("written")
    if name == "die":
        sys.stderr.write("first words\nthe disk is full\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "add-tool":
        TOOLS.append("added")
        send({"method": "notifications/tools/list_changed"})
        return text("added")
    return None


TOOLS = ["echo", "fail", "count", "ask", "sample", "roots", "wait", "waits", "cancelled", "helper", "log", "errors", "die", "add-tool"]
CAPABILITIES = {"tools": {}} if MODE == "mute" else {
    "tools": {"listChanged": True}, "resources": {"subscribe": True}, "prompts": {}, "logging": {}}


def result(method, ident, params):
    if method == "initialize":
        return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": {"name": "test", "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in TOOLS]}
    if method == "tools/call":
        return call(ident, params["name"], params.get("arguments", {}), params.get("_meta", {}))
    if method == "resources/list":
        return {"resources": [{"uri": "test:a", "name": "a"}]}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    if method == "resources/read":
        return {"contents": [{"uri": params["uri"], "text": "the content"}]}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet"}]}
    if method == "prompts/get":
        words = "hello, " + params["arguments"]["who"]
        return {"messages": [{"role": "user", "content": {"type": "text", "text": words}}]}
    if method in ("ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"):
        return {}
    return None


def respond(message):
    ident, method, params = message["id"], message["method"], message.get("params", {})
    if method == "tools/call" and params["name"] == "wait":
        return
    answer = result(method, ident, params)
    if answer is None:
        send({"id": ident, "error": {"code": -32601, "message": "no such method"}})
    else:
        send({"id": ident, "result": answer})


def receive(message):
    """Takes what needs no response."""
    if message.get("method") == "notifications/cancelled":
        CANCELLED.append(message["params"]["requestId"])
        WAITS["open"].discard(CANCELLED[-1])
    elif message.get("id") in ANSWERS:
        came = ANSWERS[message["id"]]
        came[1] = message.get("result", message.get("error"))
        came[0].set()


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
            receive(message)
            return self.reply(202)
        self.close_connection = True
        self.reply(200, ("content-type", "text/event-stream"), ("mcp-session-id", "one"), ("connection", "close"))
        STREAM.http = self.wfile
        respond(message)
        while message["method"] == "tools/call" and message["params"]["name"] == "wait":
            try:
                self.wfile.write(b": still there\n\n")
            except OSError:
                return CANCELLED.append(message["id"])
            time.sleep(0.02)

    def do_GET(self):
        self.reply(405)

    def do_DELETE(self):
        print("deleted", self.headers["mcp-session-id"], flush=True)
        self.reply(200)


if MODE == "exit":
    sys.exit("the key is missing")
if MODE == "deaf":
    time.sleep(1000)
if MODE == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if MODE in ("http", "https"):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if MODE == "https":
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(sys.argv[2])
        server.socket = context.wrap_socket(server.socket, server_side=True)
    print(server.server_port, flush=True)
    server.serve_forever()
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "tools/call" and message["params"]["name"] == "wait":
        WAITS["open"].add(message["id"])
        WAITS.update(all=WAITS["all"] + 1, most=max(WAITS["most"], len(WAITS["open"])))
    elif MODE == "mute" and message.get("method") == "tools/list":
        respond(message)
        time.sleep(1000)
    elif "method" in message and "id" in message:
        threading.Thread(target=respond, args=[message], daemon=True).start()
    else:
        receive(message)
if MODE == "stubborn":
    time.sleep(1000)
os._exit(0)

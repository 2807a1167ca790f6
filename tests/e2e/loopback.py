"""Runs examples/loopback against real servers, in the folder SERVERS.

usage: loopback.py LOOPBACK SERVERS SEED
"""
import hashlib, json, os, signal, socket, subprocess, sys, time

LOOPBACK, SERVERS = map(os.path.abspath, sys.argv[1:3])
SEED = sys.argv[3]
ROOT = os.environ.get("MCP_SERVERS_ROOT") or os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
    "mcp-servers-" + hashlib.sha256(open(SERVERS + "/units.json", "rb").read()).hexdigest()[:8])
# Server, tool, arguments, and a word of the response: HTTP+SSE, the legacy era, the modern era.
RUNS = [
    ("everything-sse", "echo", '{"message": "$"}', "Echo: $"),
    ("everything-http", "echo", '{"message": "$"}', "Echo: $"),
    ("own-py2-low-tools-http", "tool_3", "{}", "tool_3"),
]


def listening(port, process):
    end = time.monotonic() + 90
    while time.monotonic() < end and process.poll() is None:
        with socket.socket() as s:
            s.settimeout(1)
            if s.connect_ex(("127.0.0.1", port)) == 0:
                return True
        time.sleep(0.2)
    return False


def run(name, tool, args, word):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = json.loads(subprocess.check_output([SERVERS + "/run-one", "--json", name, ROOT, str(port)]))
    os.makedirs(server["cwd"], exist_ok=True)
    process = subprocess.Popen(server["command"]["start"], cwd=server["cwd"], env=dict(os.environ, **server["env"]),
                               stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        if not listening(port, process):
            print("the server did not start")
            return False
        url = server["command"]["url"]
        return subprocess.run([LOOPBACK, "200", "15", SEED, url, tool, args, word]).returncode == 0
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


subprocess.run([SERVERS + "/install", ROOT], check=True, stdout=subprocess.DEVNULL)
failed = 0
for name, *what in RUNS:
    print("== %s, seed %s" % (name, SEED), flush=True)
    failed += not run(name, *what)
sys.exit(failed > 0)

"""Records sessions with the real servers in the folder SERVERS through probe, and replays them in another process: the
report is the same, and a changed byte is named with its line.

usage: journal.py PROBE SERVERS [NAME ...]
"""
import hashlib, json, os, random, re, signal, socket, subprocess, sys, tempfile, time

PROBE, SERVERS = map(os.path.abspath, sys.argv[1:3])
NAMES = sys.argv[3:]
ROOT = os.environ.get("MCP_SERVERS_ROOT") or os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
    "mcp-servers-" + hashlib.sha256(open(SERVERS + "/units.json", "rb").read()).hexdigest()[:8])
# Server and options: stdio in both eras, HTTP+SSE, Streamable HTTP in both eras.
RUNS = [
    ("everything", ["--call", "echo", "--args", '{"message": "größe"}', "--call", "trigger-elicitation-request"]),
    ("time", ["--era", "modern", "--call", "get_current_time", "--args", '{"timezone": "Mars/Base"}', "--watch", "1"]),
    ("everything-sse", ["--call", "echo", "--args", '{"message": "hello"}']),
    ("everything-http", ["--call", "echo", "--args", '{"message": "hello"}', "--header", "Authorization: Bearer hush"]),
    ("own-py2-low-tools-http", ["--call", "tool_3", "--header", "Authorization: Bearer hush"]),
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


def probe(*args, **more):
    return subprocess.run([PROBE, "--json", *args], stdin=subprocess.DEVNULL, capture_output=True, **more)


def record(name, options, journal):
    """The report of a session with a server."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    server = json.loads(subprocess.check_output([SERVERS + "/run-one", "--json", name, ROOT, str(port)]))
    os.makedirs(server["cwd"], exist_ok=True)
    place, options = dict(cwd=server["cwd"], env=dict(os.environ, **server["env"])), ["--journal", journal, *options]
    if isinstance(server["command"], list):
        return probe(*options, "stdio", "--", *server["command"], **place)
    process = subprocess.Popen(server["command"]["start"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True, **place)
    try:
        assert listening(port, process), "the server did not start"
        return probe(*options, "http", server["command"]["url"])
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def check(name, options):
    with tempfile.TemporaryDirectory() as folder:
        journal, changed = folder + "/journal", folder + "/changed"
        live = record(name, options, journal)
        assert json.loads(live.stdout)["outcome"] == "ready", live
        replayed = probe("--replay", journal)
        assert replayed.stdout == live.stdout, "another report:\n%s\n%s" % (live, replayed)
        assert replayed.returncode == live.returncode and not replayed.stderr, replayed
        lines = open(journal, "rb").read().splitlines(keepends=True)
        assert b"hush" not in b"".join(lines), "a secret"
        choose = random.Random(name)
        for at in choose.sample(range(len(lines)), min(25, len(lines))):
            line = lines[at]
            byte = choose.randrange(len(line) - 1)
            other = b"y" if line[byte:byte + 1] == b"x" else b"x"
            with open(changed, "wb") as file:
                file.writelines([*lines[:at], line[:byte], other, line[byte + 1:], *lines[at + 1:]])
            wrong = probe("--replay", changed)
            named = re.search(rb"line (\d+)", wrong.stderr)
            # What is wrong with the first line is that it is no header, whatever its number.
            assert wrong.returncode == 1 and (at == 0 or named and int(named[1]) == at + 1), (at, byte, wrong)
        with open(changed, "wb") as file:
            file.writelines(lines[:-2])
        cut = probe("--replay", changed)
        assert cut.returncode == 1 and b"cut off after line %d" % (len(lines) - 2) in cut.stderr, cut
        return len(lines)


chosen = {name for name, _ in RUNS if not NAMES or name in NAMES}
units = {unit for it in json.load(open(SERVERS + "/servers.json")) if it["name"] in chosen for unit in it["install"][2:]}
subprocess.run([SERVERS + "/install", ROOT, *sorted(units)], check=True, stdout=subprocess.DEVNULL)
failed = 0
for name, options in RUNS:
    if NAMES and name not in NAMES:
        continue
    try:
        print("%s: %d lines, replayed to the same report" % (name, check(name, options)), flush=True)
    except AssertionError as error:
        print("%s: %s" % (name, error), flush=True)
        failed += 1
sys.exit(failed > 0)

"""Uses the real servers in the folder SERVERS through probe.

usage: servers_use.py PROBE SERVERS
"""
import concurrent.futures, hashlib, json, os, signal, subprocess, sys, tempfile, threading

PROBE, SERVERS = map(os.path.abspath, sys.argv[1:])
ROOT = os.environ.get("MCP_SERVERS_ROOT") or os.path.join(
    os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")),
    "mcp-servers-" + hashlib.sha256(open(SERVERS + "/units.json", "rb").read()).hexdigest()[:8])
BOTH = ["legacy", "modern"]
ACCEPT = {"action": "accept", "content": {"name": "Ann", "check": True}}
SAMPLE = {"role": "assistant", "content": {"type": "text", "text": "a word from the model"}, "model": "none"}


def call(name, args, outcome, text=""):
    return ["--call", name, "--args", json.dumps(args)], outcome, text


def read(uri, outcome, text=""):
    return ["--read", uri], outcome, text


def prompt(name, args, outcome, text=""):
    return ["--prompt", name, "--args", json.dumps(args)], outcome, text


# Requests for undeclared capabilities are not sent, so any name works.
NO_CALL, NO_READ = call("x", {}, "not-advertised"), read("x:y", "not-advertised")
NO_PROMPT = prompt("x", {}, "not-advertised")

# Server, eras and requests, each with its outcome and a text in it. Calls that would need the network or a credential
# are chosen so that the server itself refuses them.
USES = [
    ("everything", ["legacy"], [
        call("echo", {"message": "hello"}, "result", "Echo: hello"),
        call("trigger-elicitation-request", {}, "result", "Ann"),
        call("trigger-sampling-request", {"prompt": "say a word"}, "result", "a word from the model"),
        read("demo://resource/static/document/features.md", "result", "# Everything Server"),
        read("demo://resource/dynamic/text/1", "result", "Resource 1"),
        prompt("simple-prompt", {}, "result", "a simple prompt"),
        prompt("args-prompt", {"city": "Bern"}, "result", "Bern"),
    ]),
    ("memory", ["legacy"], [
        call("read_graph", {}, "result", "entities"),
        read("memory://knowledge-graph", "result", "entities"),
        NO_PROMPT,
    ]),
    ("desktop-commander", ["legacy"], [call("get_config", {}, "result", "blockedCommands")]),
    ("browsermcp", ["legacy"], [call("browser_snapshot", {}, "tool-error", "No connection"), NO_PROMPT]),
    ("exa", ["legacy"], [
        call("web_search_exa", {}, "tool-error", "Invalid arguments"),
        read("exa://tools/list", "result", "web_search_exa"),
        prompt("web_search_help", {"x": ""}, "result", "search"),
    ]),
    ("context7", BOTH, [call("resolve-library-id", {}, "tool-error", "Invalid arguments")]),
    ("kubernetes", BOTH, [
        call("configuration_view", {}, "result", "current-context: x"),
        call("pods_list", {}, "tool-error", "connection refused"),
        prompt("cluster-health-check", {}, "result", "Cluster Health Check"),
    ]),
    ("mongodb", BOTH, [
        call("list-connections", {}, "result", "no active connections"),
        read("debug://mongodb", "result", "no MongoDB connections"),
        NO_PROMPT,
    ]),
    ("time", BOTH, [
        call("get_current_time", {"timezone": "UTC"}, "result", "is_dst"),
        call("get_current_time", {"timezone": "Mars/Base"}, "tool-error", "Invalid timezone"),
    ]),
    ("aws-documentation", BOTH, [
        call("read_documentation", {"url": "https://127.0.0.1/"}, "tool-error", "supported domains"),
    ]),
    ("arxiv", ["legacy"], [
        call("list_papers", {}, "result", "total_papers"),
        prompt("summarize_paper", {"paper_id": "1"}, "result", "Summarize paper 1"),
        NO_READ,
    ]),
    ("sqlite-mcp1.6", ["legacy"], [
        call("list_tables", {}, "result", "[]"),
        read("memo://insights", "result", "insights"),
        prompt("mcp-demo", {"topic": "tea"}, "result", "tea"),
    ]),
    ("fetch-mcp1.12", ["legacy"], [
        call("fetch", {"url": "http://127.0.0.1:1/"}, "tool-error", "Failed to fetch"),
        prompt("fetch", {"url": "http://127.0.0.1:1/"}, "result", "Failed to fetch"),
        NO_READ,
    ]),
    ("own-py2-high-prompts", BOTH, [
        call("x", {}, "tool-error", "Unknown tool"),
        read("x:y", "error", "Unknown resource"),
        prompt("prompt_0", {"who": "Ann"}, "result", "hello Ann 0"),
    ]),
    ("own-fastmcp4-resources", BOTH, [
        call("x", {}, "tool-error", "Unknown tool"),
        read("mem://item/0", "result", "item 0"),
        read("mem://by-name/Ann", "result", "Ann"),
        prompt("x", {}, "error", "Unknown prompt"),
    ]),
    ("own-ts2-tools", BOTH, [
        call("tool_0", {"x": 1}, "result", '"1"'),
        call("tool_0", {}, "tool-error", "Invalid arguments"),
        NO_READ,
        NO_PROMPT,
    ]),
    ("own-ts2-prompts-modern-only", ["modern"], [
        NO_CALL,
        NO_READ,
        prompt("prompt_0", {"who": "Ann"}, "result", "hello Ann"),
    ]),
    # These two list prompts or resources that they do not return.
    ("own-rmcp3-resources", BOTH, [NO_CALL, read("mem://item/0", "error", "resources/read"), NO_PROMPT]),
    ("own-rmcp08-prompts", ["legacy"], [NO_CALL, NO_READ, prompt("prompt_0", {}, "error", "prompts/get")]),
]
# Servers that fail.
FAIL = {"postgres-0.6": "list-failed", "sqlite-broken": "closed"}


def command(name, more=()):
    server = json.loads(subprocess.check_output([SERVERS + "/run-one", "--json", name, ROOT]))
    os.makedirs(server["cwd"], exist_ok=True)
    env = dict(os.environ, **server["env"])
    return dict(args=["stdio", "--"] + server["command"] + list(more), cwd=server["cwd"], env=env)


def probe(server, options, ready=lambda process: None):
    """Runs probe; with --watch, calls `ready` when probe reports that the server is ready."""
    process = subprocess.Popen([PROBE, "--json"] + options + server["args"], cwd=server["cwd"], env=server["env"],
                               text=True, errors="replace", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)

    def listen():
        for line in process.stderr:
            if line.startswith("probe: ") and line.split()[3:] == ["ready"]:
                ready(process)

    listener = threading.Thread(target=listen)
    listener.start()
    out = process.stdout.read()
    listener.join()
    return process.wait(), json.loads(out)


def expect(what, got, want):
    if got != want:
        raise AssertionError("%s: %s, not %s" % (what, json.dumps(got)[:400], json.dumps(want)))


def use(name, era, steps):
    options = ["--era", era, "--answer", "elicitation/create=" + json.dumps(ACCEPT),
               "--answer", "sampling/createMessage=" + json.dumps(SAMPLE)]
    status, report = probe(command(name), options + [option for step in steps for option in step[0]])
    expect("failure", report["failure"], None)
    expect("era", report["era"], era)
    expect("calls", [call["outcome"] for call in report["calls"]], [outcome for _, outcome, _ in steps])
    for call, (options, _, text) in zip(report["calls"], steps):
        if text not in json.dumps([call["result"], call["error"]]):
            raise AssertionError("%s: no %r in %s" % (options, text, json.dumps(call)[:400]))
    expect("exit status", status, 0 if all(outcome in ("result", "tool-error") for _, outcome, _ in steps) else 1)
    # Uses what the server offers.
    made = {options[0] for options, outcome, _ in steps if outcome != "not-advertised"}
    for family, option in (("tools", "--call"), ("resources", "--read"), ("prompts", "--prompt")):
        offered = report["families"][family]["items"] > 0
        expect("uses of its %s" % family, offered and option not in made, False)


def fail(name, kind):
    status, report = probe(command(name), ["--call", "x", "--read", "x:y", "--prompt", "x"])
    expect("outcome", report["outcome"], "failed")
    expect("failure", report["failure"]["kind"], kind)
    expect("calls", [call["outcome"] for call in report["calls"]], ["not-sent"] * 3)
    expect("exit status", status, 1)


def events(report, kind):
    return [event["detail"] for event in report["events"] if event["kind"] == kind]


def resources_change():
    """A tool adds a resource."""
    args = {"name": "a.gz", "data": "data:text/plain;base64,aGVsbG8=", "outputType": "resourceLink"}
    steps = ["--call", "gzip-file-as-resource", "--args", json.dumps(args)]
    status, report = probe(command("everything"), ["--watch", "4"] + steps)
    expect("calls", [call["outcome"] for call in report["calls"]], ["result"])
    expect("resources-changed", events(report, "resources-changed"),
           [{"added": ["demo://resource/session/a.gz"], "removed": [], "changed": []}])
    expect("exit status", status, 0)


def resource_is_updated():
    """A tool changes a resource."""
    entity = {"name": "Ann", "entityType": "person", "observations": []}
    steps = ["--call", "create_entities", "--args", json.dumps({"entities": [entity]}),
             "--call", "delete_entities", "--args", json.dumps({"entityNames": ["Ann"]})]
    status, report = probe(command("memory"), ["--watch", "1"] + steps)
    expect("calls", [call["outcome"] for call in report["calls"]], ["result"] * 2)
    expect("resource-updated", events(report, "resource-updated"), [{"uri": "memory://knowledge-graph"}] * 2)
    expect("exit status", status, 0)


def tools_change(era):
    """The server reloads a changed configuration."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as config:
        def write(text):
            config.seek(0)
            config.write(text)
            config.flush()

        def reconfigure(process):
            write('toolsets = ["core", "helm"]\n')
            lines = subprocess.check_output(["ps", "-A", "-o", "pid=", "-o", "ppid="], text=True).splitlines()
            children = {int(parent): int(child) for child, parent in map(str.split, lines)}
            pid = process.pid
            while pid in children:
                pid = children[pid]
            os.kill(pid, signal.SIGHUP)

        write('toolsets = ["core"]\n')
        server = command("kubernetes", ["--config", config.name])
        status, report = probe(server, ["--era", era, "--watch", "4"], reconfigure)
    expect("era", report["era"], era)
    expect("tools-changed", events(report, "tools-changed"),
           [{"added": ["helm_install", "helm_list", "helm_uninstall"], "removed": [], "changed": []}])
    expect("exit status", status, 0)


subprocess.run([SERVERS + "/install", ROOT], check=True, stdout=subprocess.DEVNULL)
known = {server["name"] for server in json.load(open(SERVERS + "/servers.json")) if server["kind"] == "stdio"}
expect("servers", sorted({name for name, _, _ in USES} | set(FAIL)), sorted(known))
jobs = [("kubernetes, tools change, " + era, tools_change, era) for era in BOTH]
jobs += [("everything, resources change", resources_change), ("memory, resource is updated", resource_is_updated)]
jobs += [("%s, %s" % (name, era), use, name, era, steps) for name, eras, steps in USES for era in eras]
jobs += [("%s, fails" % name, fail, name, kind) for name, kind in FAIL.items()]


def run(job):
    try:
        job[1](*job[2:])
        return "ok   " + job[0]
    except Exception as error:
        return "FAIL %s: %s: %s" % (job[0], type(error).__name__, error)


failed = 0
with concurrent.futures.ThreadPoolExecutor(3) as pool:
    for line in pool.map(run, jobs):
        failed += line.startswith("FAIL")
        print(line, flush=True)
print("%d passed, %d failed" % (len(jobs) - failed, failed))
sys.exit(failed > 0)

"""Watches the demo server in both eras through probe while it changes, disconnects and stops responding; kills it
during a call.

usage: watch.py PROBE
"""
import concurrent.futures, json, os, signal, subprocess, sys, threading

PROBE = os.path.abspath(sys.argv[1])


def child_of(parent):
    lines = subprocess.check_output(["ps", "-A", "-o", "pid=", "-o", "ppid="], text=True).splitlines()
    (child,) = [child for child, its_parent in (map(int, line.split()) for line in lines) if its_parent == parent]
    return child


def probe(args, kill):
    """Runs probe; with `kill`, kills its server during the first call. Returns the exit status, the report, and the events
    that the server printed."""
    process = subprocess.Popen([PROBE, "--json"] + args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    said = []

    def listen():
        killed = not kill
        for line in process.stderr:
            said.extend([line[6:].strip()] if line.startswith("demo: ") else [])
            if not killed and line.split()[3:4] == ["progress"]:
                killed = True
                os.kill(child_of(process.pid), signal.SIGKILL)

    listener = threading.Thread(target=listen)
    listener.start()
    out = process.stdout.read()
    listener.join()
    return process.wait(), json.loads(out), said


def expect(what, got, want):
    if got != want:
        raise AssertionError("%s: %s, not %s" % (what, json.dumps(got), json.dumps(want)))


def of(report, kind):
    return [event["detail"] for event in report["events"] if event["kind"] == kind]


def sound(status, report, outcomes):
    """Checks what holds for every run."""
    expect("failure", report["failure"], None)
    expect("outcome", report["outcome"], "ready")
    expect("calls", [call["outcome"] for call in report["calls"]], outcomes)
    expect("exit status", status, 0 if set(outcomes) == {"result"} else 1)
    expect("connects", report["connects"], 2)
    expect("quirks", report["quirks"], [])
    kinds = [event["kind"] for event in report["events"]]
    expect("connection", [kind for kind in kinds if kind in ("ready", "down", "reconnected", "parked", "closed")],
           ["ready", "down", "reconnected", "closed"])


def changes(era):
    calls = ["--call", "echo", "--args", '{"text": "x"}', "--read", "garden://rain", "--prompt", "week_plan"]
    status, report, said = probe(["--era", era, "--watch", "30"] + calls, kill=False)
    sound(status, report, ["result"] * 3)
    wanted, there = [], False
    for what in said:
        if what == "the butterfly comes":
            wanted, there = wanted + [{"added": ["butterfly"], "removed": [], "changed": []}], True
        elif what == "the butterfly goes" or what == "the gate closes" and there:
            wanted, there = wanted + [{"added": [], "removed": ["butterfly"], "changed": []}], False
    expect("tools-changed", of(report, "tools-changed"), wanted)
    expect("changes", len(wanted), 9)
    # Once before the connection was lost, and once after.
    expect("rain", said.count("it rains"), 2)
    expect("resource-updated", of(report, "resource-updated"), [{"uri": "garden://rain"}] * 2)
    # One keepalive request timed out during the silence; its response was late.
    expect("silence", said.count("silence"), 1)
    expect("late-answer", of(report, "late-answer"), [{"answers": 1}])
    at = {event["kind"]: event["atMs"] for event in report["events"]}
    expect("watched for 30 s", at["closed"] - at["ready"] >= 30000, True)


def killed(era):
    calls = ["--call", "slow", "--call", "echo", "--args", '{"text": "x"}']
    status, report, _ = probe(["--era", era, "--watch", "10"] + calls, kill=True)
    sound(status, report, ["unknown", "result"])
    expect("echo", report["calls"][1]["result"]["content"], [{"type": "text", "text": "x"}])


def killed_in_what_says_that_it_only_reads(era):
    status, report, _ = probe(["--era", era, "--watch", "1", "--call", "sleep", "--args", '{"ms": 4000}'], kill=True)
    # The annotation of a server that is not trusted does not repeat a call.
    sound(status, report, ["unknown"])


def run(job):
    what, era = job
    name = "%s, %s" % (what.__name__.replace("_", " "), era)
    try:
        what(era)
        return "ok   " + name
    except Exception as error:
        return "FAIL %s: %s: %s" % (name, type(error).__name__, error)


jobs = [(what, era) for what in (killed_in_what_says_that_it_only_reads, killed, changes) for era in ("legacy", "modern")]
failed = 0
with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
    for line in pool.map(run, jobs):
        failed += line.startswith("FAIL")
        print(line, flush=True)
sys.exit(failed > 0)

"""Kills examples/moving with calls in flight, several times, and has another process continue from its snapshot.

Every call has to end once, and the server must not run one twice.

usage: moving.py MOVING
"""
import collections, os, subprocess, sys, tempfile, time

import ledger

MOVING = os.path.abspath(sys.argv[1])
CALLS, KILLS = 30, 3


def main():
    server = ledger.Server()
    with tempfile.TemporaryDirectory() as folder:
        command = [MOVING, server.url, folder + "/state.json", "work", str(CALLS)]
        for kill in range(KILLS):
            process = subprocess.Popen(command)
            target, end = (kill + 1) * CALLS // (KILLS + 2), time.monotonic() + 60
            while not (len(server.running) >= 2 and len(server.runs) >= target):
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

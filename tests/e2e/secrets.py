"""Checks that probe's output and journals contain no secrets of URLs or headers: secrets.py PROBE."""

import http.server
import json
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

SECRET = "hush"
ANSWERS = {
    "redirects": (307, {"location": "https://elsewhere.example/login?api_key=hush-location"}, b""),
    "refuses": (401, {"www-authenticate": "Bearer realm=\"r\""}, b""),
    "forbids": (403, {}, b"no"),
    "fails": (500, {}, b"it broke"),
    "says nothing": (200, {"content-type": "application/json", "mcp-session-id": "hush-session"}, b""),
}


def serve(status, headers, body):
    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self):
            self.rfile.read(int(self.headers.get("content-length") or 0))
            self.send_response(status)
            for name, value in {**headers, "content-length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_DELETE = answer

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def journal(probe):
    """A server repeats the headers in its response, which the report shows and the journal does not have."""
    server = serve(400, {"content-type": "text/plain"}, b"no such user: hush-token, hush-tenant of hush-key-0123, tiny")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        url = f"http://127.0.0.1:{server.server_port}/mcp"
        headers = ["Authorization: Bearer hush-token", "X-Api-Key: hush-key-0123", "X-Tenant: hush-tenant", "X-Size: tiny"]
        headers += ["Accept: application/json, text/event-stream"]
        options = [option for header in headers for option in ("--header", header)]
        command = [probe, "--timeout", "10", *options, "--journal", path, "http", url]
        run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        text = path.read_text()
        replay = subprocess.run([probe, "--replay", path], capture_output=True, text=True, timeout=60, check=False)
    server.shutdown()
    good = SECRET not in text and "no such user: secret1" in text and "differs" not in replay.stdout + replay.stderr
    # What is too short to be looked for is told.
    good = good and run.stderr.count("the journal may contain") == 1 and "the value of x-size" in run.stderr
    print("ok  " if good else "FAILED", "journal", "" if good else run.stderr + text)
    return good


def main(probe):
    failed = not journal(probe)
    for name, answer in ANSWERS.items():
        server = serve(*answer)
        url = f"http://ada:hush-password@127.0.0.1:{server.server_port}/mcp?api_key=hush-query"
        for options in (["--json"], ["--diagram"]):
            command = [probe, *options, "--timeout", "10", "--header", "Authorization: Bearer hush-token", "http", url]
            run = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
            shown = run.stdout + run.stderr
            leaks = [line for line in shown.splitlines() if SECRET in line]
            reported = run.returncode == 1 and (options != ["--json"] or json.loads(run.stdout)["outcome"] == "failed")
            failed = failed or bool(leaks) or not reported
            print("FAILED" if leaks or not reported else "ok  ", name, *options, *leaks)
        server.shutdown()
    sys.exit(failed)


if __name__ == "__main__":
    main(*sys.argv[1:])

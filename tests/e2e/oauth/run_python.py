"""Runs probe and the library's example with the official Python SDK's own authorization server, with dynamic registration:
run_python.py PROBE EXAMPLE PYTHON, where PYTHON has the SDK.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from run import CALL, HERE, Bench, told


def main(probe, example, python):
    bench = Bench(probe, python, "-W", "ignore", HERE / "python_server.py")
    folder = tempfile.TemporaryDirectory()
    file = pathlib.Path(folder.name) / "tokens.json"
    stored = ["--oauth", "--tokens", str(file), *CALL]

    report, status = bench.run(target="auth")
    bench.check("the verdict", ("dynamic" in report["registration"], status), (True, 0))
    report, status = bench.run(*stored)
    bench.check("a user who signs in", told(report, "registration", "grants", "error"), ("dynamic", ["authorization_code"], None))
    # Version 1 appends a slash to its issuer.
    issuer, resource = told(report, "issuer", "resource")
    bench.check("issuer and resource", (issuer.rstrip("/"), resource), (bench.issuer, bench.resource))
    bench.check("the call", (report["outcome"], [call["outcome"] for call in report["calls"]], status), ("ready", ["result"], 0))
    bench.expire()
    report, _ = bench.run(*stored)
    refreshed = told(report, "registration", "grants", "error")
    bench.check("an expired token is refreshed", refreshed, ("stored", ["refresh_token"], None))
    bench.expire()
    bench.seen("?forget")
    report, _ = bench.run(*stored)
    renewed = told(report, "registration", "grants", "error")
    bench.check("a server that forgot its clients gets the client anew", renewed, ("dynamic", ["authorization_code"], None))
    report, status = bench.run(*stored, "--sign-out")
    bench.check("a client that signs out at the end", (report["outcome"], status), ("ready", 0))
    seen = bench.seen()
    # The server supports no client without a secret.
    bench.check("it is registered once by each", seen["methods"], ["client_secret_post"] * 2)
    bench.check("the tokens are revoked", sorted(set(seen["revoked"])), ["AccessToken", "RefreshToken"])

    context = {"toolCalls": [{"name": "echo", "arguments": {"message": "hi"}}]}
    environment = {"MCP_CONFORMANCE_PROTOCOL_VERSION": "2025-11-25", "MCP_CONFORMANCE_CONTEXT": json.dumps(context)}
    ran = subprocess.run([example, bench.resource], env={**os.environ, **environment}, capture_output=True, text=True, timeout=60)
    bench.outputs.append(ran.stdout + ran.stderr)
    grants = bench.seen()["grants"][len(seen["grants"]) :]
    bench.check("the library's example", (ran.returncode, grants), (0, ["authorization_code"]))
    bench.finish()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Checks that probe uses the proxies of the environment for HTTP.

usage: proxies.py PROBE [CASE]...
"""
import os, socket, subprocess, sys, threading

from cases import chosen

PROBE = os.path.abspath(sys.argv[1])


def proxy(heads):
    """Starts a proxy that refuses each request and stores its head; returns the port."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve():
        while True:
            connection, _ = listener.accept()
            head = b""
            while b"\r\n\r\n" not in head:
                chunk = connection.recv(4096)
                if not chunk:
                    break
                head += chunk
            heads.append(head.split(b"\r\n\r\n")[0].decode(errors="replace").split("\r\n"))
            connection.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
            connection.close()

    threading.Thread(target=serve, daemon=True).start()
    return listener.getsockname()[1]


def asked(url, exempt):
    """Returns the first line of each request to the proxy, and whether each had the credentials."""
    heads = []
    address = "http://user:password@127.0.0.1:%d" % proxy(heads)
    env = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    env.update(http_proxy=address, HTTPS_PROXY=address, NO_PROXY=exempt)
    subprocess.run([PROBE, "--timeout", "20", "http", url], env=env, stdin=subprocess.DEVNULL,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=60)
    return [head[0] for head in heads], all(
        any(line.lower() == "proxy-authorization: basic dxnlcjpwyxnzd29yza==" for line in head) for head in heads)


CASES = [
    ("the whole URL to a proxy", "http://example.invalid/mcp", "", "POST http://example.invalid/mcp HTTP/1.1"),
    ("a tunnel to a server with TLS", "https://example.invalid/mcp", "", "CONNECT example.invalid:443 HTTP/1.1"),
    ("a server that is exempt", "http://example.invalid/mcp", "example.invalid", None),
    ("an address where all are exempt", "http://192.0.2.1:9/mcp", "*", None),
    ("this machine", "http://127.0.0.1:9/mcp", "", None),
]
failed = 0
for name, (url, exempt, expected) in chosen({name: case for name, *case in CASES}, sys.argv[2:]).items():
    lines, authorized = asked(url, exempt)
    right = authorized and (lines[:1] == [expected] if expected else not lines)
    failed += not right
    print("ok   " + name if right else "FAIL %s: %s, credentials %s" % (name, lines, authorized), flush=True)
sys.exit(failed > 0)

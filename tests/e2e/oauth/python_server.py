"""An MCP server of the official Python SDK with the SDK's own authorization server, as its examples have them.

python_server.py prints a line of JSON with the addresses, and ends when its standard input does. Each user consents at once.
`/admin` is for the test: the clients that were registered, the grants, and the secrets that were issued.
"""

import json
import secrets
import socket
import sys
import threading
import time

import uvicorn
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.shared.auth import OAuthToken
from starlette.responses import JSONResponse

try:
    from mcp.server.mcpserver import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer

# Seconds for which an access token is valid.
LIFE = 3
SCOPE = "user"


class Provider:
    """Keeps everything in memory; the SDK checks the client's authentication, the verifier and the redirect URI."""

    def __init__(self):
        self.clients, self.codes, self.refresh, self.access = {}, {}, {}, {}
        self.grants, self.methods, self.revoked, self.issued = [], [], [], []

    def secret(self, kind):
        self.issued.append(f"{kind}-{secrets.token_hex(16)}")
        return self.issued[-1]

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info
        self.methods.append(client_info.token_endpoint_auth_method)
        self.issued.extend(filter(None, [client_info.client_secret]))

    async def authorize(self, client, params):
        code = self.secret("code")
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [SCOPE],
            expires_at=time.time() + 300,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def load_access_token(self, token):
        found = self.access.get(token)
        return found if found and found.expires_at > time.time() else None

    def issue(self, kind, client, scopes, resource):
        self.grants.append(kind)
        access, refresh = self.secret("access"), self.secret("refresh")
        common = {"client_id": client.client_id, "scopes": scopes}
        self.access[access] = AccessToken(token=access, expires_at=int(time.time() + LIFE), resource=resource, **common)
        self.refresh[refresh] = RefreshToken(token=refresh, **common)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIFE, scope=" ".join(scopes))

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.issue("authorization_code", client, authorization_code.scopes, authorization_code.resource)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh[refresh_token.token]
        return self.issue("refresh_token", client, scopes, None)

    async def revoke_token(self, token):
        self.revoked.append(type(token).__name__)
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


def main():
    listener = socket.create_server(("127.0.0.1", 0))
    issuer = f"http://127.0.0.1:{listener.getsockname()[1]}"
    provider = Provider()
    auth = AuthSettings(
        issuer_url=issuer,
        resource_server_url=f"{issuer}/mcp",
        required_scopes=[SCOPE],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=[SCOPE], default_scopes=[SCOPE]),
        revocation_options=RevocationOptions(enabled=True),
    )
    server = MCPServer("python", auth_server_provider=provider, auth=auth, log_level="CRITICAL")

    @server.tool()
    def echo(message: str) -> str:
        return message

    @server.custom_route("/admin", methods=["GET"])
    async def admin(request):
        if request.url.query == "forget":
            # As after a restart.
            for known in provider.clients, provider.codes, provider.refresh, provider.access:
                known.clear()
        seen = {"methods": provider.methods, "grants": provider.grants, "revoked": provider.revoked, "secrets": provider.issued}
        return JSONResponse(seen)

    print(json.dumps({"issuer": issuer, "resource": f"{issuer}/mcp", "admin": f"{issuer}/admin", "life": LIFE}), flush=True)
    run = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="error"))

    def end():
        sys.stdin.read()
        run.should_exit = True

    threading.Thread(target=end, daemon=True).start()
    run.run(sockets=[listener])


if __name__ == "__main__":
    main()

// An authorization server (npm's `oidc-provider`), and in front of a real MCP server (`server-everything`) a resource
// server that demands its tokens: node server.mjs MODULES. Prints a line of JSON with the addresses.
//
// `/admin` of the resource server is for the test: what was issued and requested, and the revocation of all grants.

import { spawn } from "node:child_process";
import http from "node:http";
import { createRequire } from "node:module";
import { once } from "node:events";
import path from "node:path";
import { pathToFileURL } from "node:url";

const modules = path.resolve(process.argv[2]);
const from = createRequire(path.join(modules, "x.js"));
const { default: Provider } = await import(pathToFileURL(from.resolve("oidc-provider")).href);

/** Seconds for which an access token is valid. */
const LIFE = 3;

const freePort = async () => {
  const server = http.createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address();
  server.close();
  await once(server, "close");
  return port;
};

const [issuerPort, resourcePort, everythingPort] = [await freePort(), await freePort(), await freePort()];
const issuer = `http://127.0.0.1:${issuerPort}`;
const resource = `http://127.0.0.1:${resourcePort}/mcp`;

const everything = spawn(
  process.execPath,
  [path.join(modules, "@modelcontextprotocol/server-everything/dist/index.js"), "streamableHttp"],
  { env: { ...process.env, PORT: String(everythingPort) }, stdio: "ignore" },
);
process.on("exit", () => everything.kill());
process.on("SIGTERM", () => process.exit());
process.stdin.on("end", () => process.exit()).resume();

const seen = { secrets: [], registrations: 0, grants: [], revocations: [] };
const grants = new Set();

const provider = new Provider(issuer, {
  clients: [
    {
      client_id: "service",
      client_secret: "hush-client-secret-of-the-service",
      grant_types: ["client_credentials"],
      redirect_uris: [],
      response_types: [],
    },
  ],
  scopes: ["offline_access", "mcp"],
  pkce: { required: () => true },
  rotateRefreshToken: true,
  issueRefreshToken: async () => true,
  ttl: { AccessToken: LIFE, ClientCredentials: LIFE, RefreshToken: 600, Grant: 600, Interaction: 600, Session: 600 },
  cookies: { keys: ["a key of the test"] },
  features: {
    clientCredentials: { enabled: true },
    devInteractions: { enabled: true },
    introspection: { enabled: true },
    registration: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: () => ({ scope: "mcp", audience: resource, accessTokenTTL: LIFE, accessTokenFormat: "opaque" }),
      useGrantedResource: () => true,
    },
  },
});
provider.use(async (context, next) => {
  await next();
  const { route, params } = context.oidc ?? {};
  if (route === "revocation" && context.status === 200) seen.revocations.push(params.token_type_hint);
});
provider.on("registration_create.success", () => seen.registrations++);
provider.on("grant.success", (context) => {
  seen.grants.push(context.oidc.params.grant_type);
  const { access_token, refresh_token } = context.body;
  seen.secrets.push(...[access_token, refresh_token].filter(Boolean));
  for (const { grantId } of Object.values(context.oidc.entities)) if (grantId) grants.add(grantId);
});
provider.on("authorization.success", (context, response) => response?.code && seen.secrets.push(response.code));
http.createServer(provider.callback()).listen(issuerPort, "127.0.0.1");

const json = (response, status, body, headers = {}) =>
  response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));

/** Whether a request has a token that is valid for this resource. */
const isAuthorized = async (request) => {
  const token = /^Bearer (\S+)$/i.exec(request.headers.authorization ?? "")?.[1];
  if (!token) return false;
  const found = (await provider.AccessToken.find(token)) ?? (await provider.ClientCredentials.find(token));
  if (!found || found.isExpired || found.aud !== resource) return false;
  return !found.grantId || Boolean(await provider.Grant.find(found.grantId));
};

const forward = (request, response) => {
  const { authorization, host, ...headers } = request.headers;
  const target = { host: "127.0.0.1", port: everythingPort, path: request.url, method: request.method, headers };
  const upstream = http.request(target, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  upstream.on("error", () => response.destroy());
  response.on("close", () => upstream.destroy());
  request.pipe(upstream);
};

http
  .createServer(async (request, response) => {
    switch (request.url) {
      case "/.well-known/oauth-protected-resource/mcp":
        return json(response, 200, { resource, authorization_servers: [issuer], scopes_supported: ["mcp"] });
      case "/admin":
        return json(response, 200, seen);
      case "/admin/revoke":
        for (const id of grants) {
          await provider.RefreshToken.revokeByGrantId(id);
          await provider.AccessToken.revokeByGrantId(id);
          await (await provider.Grant.find(id))?.destroy();
        }
        grants.clear();
        return json(response, 200, {});
      case "/mcp": {
        if (await isAuthorized(request)) return forward(request, response);
        const metadata = `http://127.0.0.1:${resourcePort}/.well-known/oauth-protected-resource/mcp`;
        request.resume();
        return json(response, 401, {}, { "www-authenticate": `Bearer resource_metadata="${metadata}"` });
      }
      default:
        return json(response, 404, {});
    }
  })
  .listen(resourcePort, "127.0.0.1");

// The MCP server is there when it answers.
for (;;) {
  try {
    await fetch(`http://127.0.0.1:${everythingPort}/mcp`);
    break;
  } catch {
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
}
console.log(JSON.stringify({ issuer, resource, admin: `http://127.0.0.1:${resourcePort}/admin`, life: LIFE }));

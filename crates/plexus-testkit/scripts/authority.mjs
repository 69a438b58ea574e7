// An authorization server for tests: the unmodified oidc-provider with its own login form, and a
// few URLs below /test/ for inspecting it and injecting faults.
//
//   node authority.mjs '{"issuer": null, "ttl": 3600}'
//
// Prints `{"url": …}` when it listens. The default issuer is its own address.
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const options = JSON.parse(process.argv[2] ?? '{}');
// A client metadata document at a URL that only this server resolves.
const DOCUMENT = 'https://hub.example/plexus.json';
const LOOPBACK = 'http://127.0.0.1/callback';
const saved = { AccessToken: [], RefreshToken: [], ClientCredentials: [] };
const counts = { authorization_code: 0, refresh_token: 0, client_credentials: 0, refused: 0, registered: 0 };
let down = false;
let handle;

const server = createServer((request, response) => {
  handle(request, response).catch((error) => {
    process.stderr.write(`${error.stack}\n`);
    response.writeHead(500).end();
  });
});
server.listen(0, '127.0.0.1', () => {
  const address = `http://127.0.0.1:${server.address().port}`;
  start(options.issuer ?? address);
  process.stdout.write(`${JSON.stringify({ url: address })}\n`);
});

function start(issuer) {
  const native = {
    application_type: 'native',
    redirect_uris: [LOOPBACK],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
  };
  const provider = new Provider(issuer, {
    clients: [
      { client_id: 'registered', client_secret: 'known-to-both', ...native },
      {
        client_id: 'robot',
        client_secret: 'of+the robot',
        grant_types: ['client_credentials'],
        redirect_uris: [],
        response_types: [],
      },
    ],
    cookies: { keys: ['for tests only'] },
    scopes: ['openid', 'offline_access'],
    pkce: { required: () => true },
    rotateRefreshToken: true,
    ttl: { AccessToken: options.ttl ?? 3600, ClientCredentials: options.ttl ?? 3600, RefreshToken: 86400 },
    features: {
      devInteractions: { enabled: true },
      registration: { enabled: true },
      revocation: { enabled: true },
      clientCredentials: { enabled: true },
      clientIdMetadataDocument: { enabled: true, ack: 'draft-02' },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => false,
        getResourceServerInfo: (_, resource) => ({
          scope: 'tools',
          audience: resource,
          accessTokenTTL: options.ttl ?? 3600,
          accessTokenFormat: 'opaque',
        }),
      },
    },
    fetch: async (url) => {
      if (String(url) !== DOCUMENT) throw new Error(`nothing else is fetched: ${url}`);
      const document = {
        client_id: DOCUMENT, client_name: 'Plexus', token_endpoint_auth_method: 'none', ...native,
      };
      return new Response(JSON.stringify(document), { headers: { 'content-type': 'application/json' } });
    },
  });
  for (const [event, kind] of [
    ['access_token.saved', 'AccessToken'],
    ['refresh_token.saved', 'RefreshToken'],
    ['client_credentials.saved', 'ClientCredentials'],
  ]) {
    provider.on(event, (token) => saved[kind].push(token));
  }
  provider.on('grant.success', (context) => { counts[context.oidc.params.grant_type] += 1; });
  provider.on('grant.error', () => { counts.refused += 1; });
  provider.on('registration_create.success', () => { counts.registered += 1; });
  const callback = provider.callback();
  handle = async (request, response) => {
    const answer = (value) => response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(value));
    const destroy = async (kind) => {
      await Promise.all(saved[kind].splice(0).map((token) => token.destroy()));
      answer({});
    };
    switch (request.url) {
      case '/test/counts':
        return answer(counts);
      case '/test/check': {
        const value = (request.headers.authorization ?? '').replace(/^Bearer /, '');
        const found = (await provider.AccessToken.find(value)) ?? (await provider.ClientCredentials.find(value));
        return answer({ active: found?.isValid ?? false, aud: found?.aud ?? null, scope: found?.scope ?? null });
      }
      case '/test/expire':
        return destroy('AccessToken');
      case '/test/revoke':
        return destroy('RefreshToken');
      case '/test/down':
        down = true;
        return answer({});
      case '/test/up':
        down = false;
        return answer({});
      default:
        if (down) return response.writeHead(503).end('down for a test');
        return callback(request, response);
    }
  };
}

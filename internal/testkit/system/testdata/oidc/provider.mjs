// Usage: node provider.mjs PORT REDIRECT
// A provider of OpenID Connect on 127.0.0.1. Any login with any password signs in; the groups
// of a person are those of the login's name, between dots.
import {generateKeyPairSync} from "node:crypto";
import Provider from "oidc-provider";

const [port, redirect] = process.argv.slice(2);
const {privateKey} = generateKeyPairSync("rsa", {modulusLength: 2048});
const provider = new Provider(`http://localhost:${port}`, {
  clients: [{client_id: "maestro", client_secret: "a-secret-of-the-test", redirect_uris: [redirect]}],
  jwks: {keys: [{...privateKey.export({format: "jwk"}), use: "sig", alg: "RS256", kid: "test"}]},
  cookies: {keys: ["a key of the test"]},
  scopes: ["openid", "profile", "email", "groups"],
  claims: {openid: ["sub"], email: ["email", "email_verified"], profile: ["preferred_username"], groups: ["groups"]},
  findAccount: (_, sub) => ({
    accountId: sub,
    claims: () => ({sub, email: `${sub}@example.org`, email_verified: true, groups: sub.split(".")}),
  }),
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));

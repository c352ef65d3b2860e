// Passkeys that several browsers share, as a person's account syncs them between devices. Chromium's virtual
// authenticators belong to one tab and do not give their secrets away, so here the page's interface to passkeys
// is replaced; the tests with one device use Chromium's.

import { createHmac, randomBytes } from "node:crypto";

// `credentials` are those of the keychain.
export function newKeychain(credentials = []) {
  const output = ({ secret }, first) => first && createHmac("sha256", secret).update(Buffer.from(first, "base64")).digest("base64");
  return {
    credentials,
    // What a device keeps that is taken out of the account now.
    copy: () => newKeychain([...credentials]),
    create({ userHandle, rpId, first }) {
      const credential = { id: randomBytes(16).toString("base64"), userHandle, rpId, secret: randomBytes(32) };
      credentials.push(credential);
      return { id: credential.id, output: output(credential, first) };
    },
    // The credential that the person chooses: the newest one that is allowed.
    get({ allowed, rpId, first }) {
      const credential = credentials.findLast((each) => each.rpId === rpId && (allowed.length === 0 || allowed.includes(each.id)));
      return credential && { id: credential.id, userHandle: credential.userHandle, output: output(credential, first) };
    },
    // Gives the keychain to the pages of this browser's context.
    async connect(context) {
      await context.exposeBinding("selfsameKeychain", (_, act, parameters) => this[act](parameters));
      await context.addInitScript(() => {
        // Pages that are not secure have none.
        if (!navigator.credentials) return;
        const toText = (source) => btoa(String.fromCharCode(...new Uint8Array(source.buffer ?? source, source.byteOffset ?? 0, source.byteLength)));
        const toBytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;
        const refuse = () => Promise.reject(new DOMException("The operation either timed out or was not allowed.", "NotAllowedError"));
        const answer = ({ id, userHandle, output }) => {
          const values = {
            id: id.replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", ""),
            rawId: toBytes(id),
            type: "public-key",
            authenticatorAttachment: "platform",
            response: { userHandle: userHandle ? toBytes(userHandle) : null, getTransports: () => ["internal"] },
            getClientExtensionResults: () => ({ prf: output ? { enabled: true, results: { first: toBytes(output) } } : { enabled: true } }),
          };
          const properties = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, { value }]));
          return Object.create(PublicKeyCredential.prototype, properties);
        };
        const firstOf = (extensions) => extensions?.prf?.eval?.first && toText(extensions.prf.eval.first);
        Object.assign(navigator.credentials, {
          async create({ publicKey: { rp, user, extensions } }) {
            return answer(await selfsameKeychain("create", { userHandle: toText(user.id), rpId: rp.id ?? location.hostname, first: firstOf(extensions) }));
          },
          async get({ mediation, signal, publicKey: { rpId, allowCredentials = [], extensions } }) {
            // What waits in a field's menu is not chosen here.
            if (mediation === "conditional") return new Promise((_, reject) => signal?.addEventListener("abort", () => reject(signal.reason)));
            const found = await selfsameKeychain("get", { allowed: allowCredentials.map(({ id }) => toText(id)), rpId: rpId ?? location.hostname, first: firstOf(extensions) });
            return found ? answer(found) : refuse();
          },
        });
      });
    },
  };
}

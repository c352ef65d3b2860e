// A page that signs people in with oidc-client-ts. It has no server of its own and no secret.

import { UserManager } from "oidc-client-ts";

const element = (id) => document.getElementById(id);
const home = new URL("/", location.href).href;

const manager = new UserManager({
  ...(await (await fetch("settings.json")).json()),
  // Silent renewal needs the redirect URI of the interactive sign-in, so there is only this one.
  redirect_uri: home,
  silent_redirect_uri: home,
  post_logout_redirect_uri: home,
  scope: "openid",
  // Renews a minute before the access token expires, with prompt=none in a hidden frame.
  automaticSilentRenew: true,
});

function show(user) {
  element("status").textContent = user ? `You are ${user.profile.sub}.` : "You are not signed in.";
  element("sign-in").hidden = Boolean(user);
  element("sign-out").hidden = !user;
}

function showProblem(error) {
  // `error.error` is the code of the standard: access_denied after a refusal, login_required when the
  // session of the sign-in page has ended or the browser does not send its cookie.
  element("problem").textContent = error ? `${error.error ?? error.name}: ${error.message}` : "";
}

element("sign-in").addEventListener("click", () => manager.signinRedirect().catch(showProblem));
element("sign-out").addEventListener("click", () => manager.signoutRedirect().catch(showProblem));
manager.events.addUserLoaded((user) => (show(user), showProblem()));
manager.events.addUserUnloaded(() => show(null));
manager.events.addSilentRenewError((error) => {
  showProblem(error);
  element("sign-in").hidden = false;
});
manager.events.addAccessTokenExpired(() => manager.removeUser());

async function start() {
  const answer = new URLSearchParams(location.search);
  if (answer.has("code") || answer.has("error")) {
    // In the hidden frame this hands the answer to the page around it. In the window it exchanges the
    // code, and checks `state` and the nonce.
    await manager.signinCallback().catch(showProblem);
    if (window.parent !== window) return;
    history.replaceState(null, "", "/");
  }
  show(await manager.getUser());
}

await start();

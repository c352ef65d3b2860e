"use strict";

// A passkey carries the name of an account from one browser to another, and a proof follows. Its signature is not used, so nobody
// checks the challenge. In a block, because the page can have another script with names of its own.
{
  const status = document.getElementById("passkey-status");
  const making = document.getElementById("make-passkey");
  const using = document.getElementById("use-passkey");

  const random = () => crypto.getRandomValues(new Uint8Array(32));
  const bytesOf = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (letter) => letter.charCodeAt(0));
  const textOf = (bytes) =>
    btoa(String.fromCharCode(...new Uint8Array(bytes))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");

  // Offers what `attempt` does when the person wants it, and says what came of it.
  function offer(element, event, attempt) {
    const texts = element.dataset;
    let isBusy = false;
    element.hidden = false;
    element.addEventListener(event, async (wish) => {
      wish.preventDefault();
      if (isBusy) return;
      isBusy = true;
      status.textContent = "";
      try {
        status.textContent = (await attempt(texts)) ?? "";
      } catch ({ name }) {
        // The browser does not tell a person who declined from one whose time was over, or who has no passkey.
        status.textContent = name === "NotAllowedError" || name === "AbortError" ? texts.declined : texts.cannot;
      } finally {
        isBusy = false;
      }
    });
  }

  async function make(texts) {
    const language = document.documentElement.lang;
    const locale = navigator.languages.find((wished) => wished.split("-")[0] === language) ?? language;
    // People who share a keychain tell their accounts apart by the day.
    const day = new Intl.DateTimeFormat(locale, { dateStyle: "medium" }).format(new Date());
    await navigator.credentials.create({
      publicKey: {
        rp: { id: texts.domain, name: texts.service },
        user: { id: bytesOf(texts.handle), name: `${texts.application} · ${day}`, displayName: texts.application },
        challenge: random(),
        pubKeyCredParams: [-7, -257].map((alg) => ({ type: "public-key", alg })),
        authenticatorSelection: { residentKey: "required", requireResidentKey: true, userVerification: "preferred" },
        attestation: "none",
      },
    });
    making.hidden = true;
    status.focus();
    return texts.made;
  }

  async function use(texts) {
    const publicKey = { challenge: random(), rpId: texts.domain, userVerification: "preferred" };
    const { userHandle } = (await navigator.credentials.get({ publicKey })).response;
    // Another service below the same domain has made it.
    if (userHandle?.byteLength !== 32) return texts.unknown;
    const { handle } = using.elements;
    handle.value = textOf(userHandle);
    using.submit();
    // Back comes to a page without it.
    handle.value = "";
  }

  if (window.PublicKeyCredential && navigator.credentials) {
    if (making) {
      document.getElementById("no-passkeys").hidden = true;
      offer(making, "click", make);
    }
    if (using) offer(using, "submit", use);
  }
}

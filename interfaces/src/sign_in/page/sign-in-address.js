"use strict";

// In browsers that run no scripts the person copies the text by hand.
const button = document.getElementById("copy");
if (button) {
  const address = document.getElementById("address");
  const result = document.getElementById("copy-status");
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(address.textContent);
      result.textContent = button.dataset.copied;
    } catch {
      // The browser has no clipboard for this page, or the person did not allow it.
      getSelection().selectAllChildren(address);
      result.textContent = button.dataset.failed;
    }
  });
}

// The short page in a browser elsewhere: the person comes back from the authenticator, and the page says what is next.
if (document.querySelector("main[data-waits]")) {
  const look = async () => {
    const answer = await fetch(location.pathname, { cache: "no-store", headers: { accept: "application/json" } });
    if (answer.status === 404) location.reload();
  };
  // Without a network the page stays as it is.
  const comesBack = () => look().catch(() => {});
  document.addEventListener("visibilitychange", () => document.hidden || comesBack());
  addEventListener("pageshow", ({ persisted }) => persisted && comesBack());
}

// Times in the person's zone, in their variety of the language of the page.
const language = document.documentElement.lang;
const locale = navigator.languages.find((wished) => wished.split("-")[0] === language) ?? language;
const format = new Intl.DateTimeFormat(locale, { dateStyle: "medium", timeStyle: "short" });
for (const time of document.querySelectorAll("time[data-local]")) {
  time.textContent = time.dataset.local.replace("{time}", format.format(new Date(time.dateTime)));
}

// Days that stand in a sentence.
const dayFormat = new Intl.DateTimeFormat(locale, { dateStyle: "long" });
for (const day of document.querySelectorAll("time[data-day]")) {
  day.textContent = dayFormat.format(new Date(day.dateTime));
}

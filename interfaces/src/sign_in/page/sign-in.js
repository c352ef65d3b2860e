"use strict";

const main = document.querySelector("main");
// What the page says is in its language, so its texts come with it.
const texts = main.dataset;
const base = texts.transaction;
const byId = (id) => document.getElementById(id);
const [offline, moreTime, countdown, ending] = ["offline", "more-time", "countdown", "ending"].map(byId);
const goOn = byId("continue").firstElementChild;

const ANSWER_LIMIT = 8_000;
// The limits of the questions of a check. The first ones may go over connections that died while the device slept, without a word;
// the last one leaves time to a slow network.
const CHECK_LIMITS = [2_000, 2_000, 4_000, ANSWER_LIMIT];
const CONTINUE_AFTER = 45_000;
const ENDING = 60_000;
// A stream without a sign of life for so long is dead: the service sends one every 15 s.
const SILENCE = 30_000;

// How far the clock of this device is ahead of the service's.
const ahead = Date.now() - texts.now * 1000;
let expires = texts.expires * 1000 + ahead;
let extensions = Number(texts.extensions);
let state = texts.state;
const isOneOf = (...states) => states.includes(state);
const isAsking = () => isOneOf("waiting", "opened", "refused");

// Reload and Back come to the page, not to digits that were sent.
if (location.pathname.endsWith("/complete")) history.replaceState(null, "", texts.page);
// In browsers that run no scripts both are there from the beginning.
goOn.hidden = moreTime.hidden = true;
setTimeout(() => (goOn.hidden = false), CONTINUE_AFTER);
// A large screen shows the code, also where the style sheet cannot open its box.
const code = document.querySelector(".code");
if (code && getComputedStyle(code).order === "-1") code.open = true;

// The states of the page.

function show(next) {
  if (next === state) return;
  state = texts.state = next;
  byId("progress").textContent = texts[next];
  for (const part of document.querySelectorAll("[data-for]")) {
    part.hidden = !part.dataset.for.split(" ").includes(next);
  }
  if (next === "digits") byId("typed").focus();
  tick();
}

const say = (element, text) => element.textContent !== text && (element.textContent = text);

const sayOffline = () => say(offline, isOneOf("over", "done", "answered") ? "" : texts.offline);

function extend({ expires_at, extensions_left }) {
  if (!expires_at) return;
  expires = expires_at * 1000 + ahead;
  extensions = extensions_left;
  tick();
}

// Takes over what the service says.
function take(event) {
  if (navigator.onLine) say(offline, "");
  if (isOneOf("done", "answered")) return;
  extend(event);
  if (event.state === "waiting") {
    // What is over by the clock stays over, unless there is more time.
    if (state !== "over" || expires > Date.now()) show(event.refused ? "refused" : event.opened ? "opened" : "waiting");
  } else if (event.state === "over") end(event.done ? "done" : "over");
  else if (event.digits) show("digits");
  // The response is given out only at the address that the authenticator opens.
  else if (event.same_device) show("here");
  else complete();
}

function end(last) {
  stream?.close();
  stream = undefined;
  show(last);
}

// Tabs with the same sign-in hear when it is done in one of them.
const tabs = window.BroadcastChannel && new BroadcastChannel("selfsame-sign-in");
if (tabs) tabs.onmessage = ({ data }) => data.transaction === base && end("done");

function complete() {
  end("answered");
  const leave = async () => {
    // A browser without a network would show a page of its own in place of this one. It may be wrong about the network, so the service
    // is asked.
    while (!navigator.onLine && (await ask()) === undefined) {
      say(offline, texts.offline);
      await new Promise((resolve) => {
        addEventListener("online", resolve, { once: true });
        setTimeout(resolve, 3_000);
      });
    }
    say(offline, "");
    if (state === "done") return;
    tabs?.postMessage({ transaction: base });
    goOn.hidden = false;
    // Replaces this page in the history, so that the button "back" leads to the application.
    location.replace(texts.complete);
  };
  // Of several tabs the one that the person sees goes on.
  if (document.hidden) setTimeout(leave, 1000);
  else leave();
}

// What the service says: in a stream, or, where that is blocked, in answers to questions.

let stream;
let heard = Date.now();
let isPolling = false;

// Asks how far the sign-in is. The answer is held back for `wait` seconds while nothing changes. Returns after how many seconds to
// ask again; nothing when there was no answer.
async function ask(wait = 0, limit = ANSWER_LIMIT) {
  try {
    const signal = AbortSignal.timeout?.(limit + wait * 1000);
    const answer = await fetch(`${base}/progress?wait=${wait}`, { cache: "no-store", signal });
    if (answer.ok) take(await answer.json());
    else if (answer.status === 404) take({ state: "over" });
    // Other errors are temporary.
    return answer.ok ? 1 : Number(answer.headers.get("retry-after")) || 3;
  } catch {
    // The sign-in continues when a connection breaks.
    return undefined;
  }
}

async function poll() {
  if (isPolling) return;
  isPolling = true;
  while (!isOneOf("over", "done", "answered")) {
    // An answer that returns at once causes no busy loop.
    const pause = (await ask(25)) ?? (sayOffline(), 3);
    await new Promise((resolve) => setTimeout(resolve, pause * 1000));
  }
  isPolling = false;
}

function listen() {
  stream?.close();
  if (isPolling || isOneOf("over", "done", "answered")) return;
  if (!window.EventSource) return void poll();
  heard = Date.now();
  const opened = (stream = new EventSource(`${base}/events`));
  opened.onmessage = ({ data }) => {
    heard = Date.now();
    take(JSON.parse(data));
  };
  opened.addEventListener("alive", () => (heard = Date.now()));
  opened.onerror = () => {
    // The browser connects again by itself. After an error status it does not, and the page polls.
    if (opened === stream && opened.readyState === EventSource.CLOSED) poll();
  };
}

// A stream can die without a word: the phone slept, or the network changed. So the page does not trust it.
async function check(isLost) {
  if (isOneOf("done", "answered")) return;
  let isAnswered = false;
  for (const limit of CHECK_LIMITS) {
    isAnswered = (await ask(0, limit)) !== undefined;
    if (isAnswered || !navigator.onLine) break;
    isLost = true;
  }
  if (!isAnswered) sayOffline();
  if (isLost || Date.now() - heard > SILENCE / 2) listen();
}

document.addEventListener("visibilitychange", () => document.hidden || check());
addEventListener("pageshow", ({ persisted }) => persisted && check(true));
addEventListener("online", () => check(true));
addEventListener("offline", sayOffline);

// The time. The page names its end, and counts nothing down.

const language = document.documentElement.lang;
// The person's own variety of the language of the page.
const locale = navigator.languages.find((wished) => wished.split("-")[0] === language) ?? language;
const clock = new Intl.DateTimeFormat(locale, { timeStyle: "short" });
let isOverAsked = false;

function tick() {
  if (!isAsking()) return;
  const left = expires - Date.now();
  say(countdown, texts.until.replace("{time}", clock.format(expires)));
  // Said once.
  say(ending, left > ENDING ? "" : texts.ending);
  const isOffered = left <= ENDING && extensions > 0;
  // Who pressed it hears the new time.
  if (!isOffered && moreTime.contains(document.activeElement)) countdown.focus();
  moreTime.hidden = !isOffered;
  if (left > 0) isOverAsked = false;
  else if (!isOverAsked) {
    isOverAsked = true;
    ask().then(() => isAsking() && expires <= Date.now() && show("over"));
  }
}

setInterval(() => {
  tick();
  if (!isOneOf("over", "done", "answered") && !isPolling && Date.now() - heard > SILENCE) {
    heard = Date.now();
    check(true);
  }
}, 1000);

tick();
listen();

// The forms that lead to no other page, unless there are no scripts.

function enhance(form, use) {
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (form.ariaBusy === "true") return;
    form.ariaBusy = "true";
    try {
      const signal = AbortSignal.timeout?.(ANSWER_LIMIT);
      const answer = await fetch(form.action, { method: "POST", headers: { accept: "application/json" }, signal });
      // The page that answers the form says what is wrong.
      if (answer.ok) use(await answer.json());
      else form.submit();
    } catch {
      sayOffline();
    } finally {
      form.ariaBusy = "false";
    }
  });
}

enhance(moreTime, extend);
enhance(byId("new-code"), (answer) => location.replace(answer.location));

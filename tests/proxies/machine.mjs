// Loopback addresses, so that nothing here meets another program's ports, and waiting.

import { randomInt } from "node:crypto";
import { connect } from "node:net";

// The address that clients call from. It is not 127.0.0.1, which the proxies call the daemon from
// and which config/production.toml trusts.
export const CLIENT_ADDRESS = "127.1.2.3";
export const CLIENT_NETWORK = "127.1.2.0/24";
export const TRUSTED_ADDRESS = "127.0.0.1";

// Longer than a busy machine needs for anything here, in milliseconds.
export const PATIENCE = 300_000;

// An address for one daemon or one proxy, which listens on well-known ports of it.
export function loopbackAddress() {
  return `127.${randomInt(64, 250)}.${randomInt(1, 250)}.${randomInt(1, 250)}`;
}

// Waits until something listens. Fails when `process` ends before, or when it takes too long.
export async function listening(address, port, process, log) {
  const deadline = Date.now() + PATIENCE;
  for (;;) {
    const accepted = await new Promise((resolve) => {
      const socket = connect({ host: address, port }, () => resolve(true)).on("error", () => resolve(false));
      socket.on("connect", () => socket.end());
    });
    if (accepted) return;
    if (process.exitCode !== null || Date.now() > deadline) {
      throw new Error(`${process.spawnfile} does not listen on ${address}:${port}: ${log()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

// Ends a process and waits for its end.
export async function end(process) {
  if (process.exitCode !== null || process.signalCode !== null) return;
  const ended = new Promise((resolve) => process.once("exit", resolve));
  process.kill("SIGTERM");
  const timer = setTimeout(() => process.kill("SIGKILL"), 5_000);
  await ended;
  clearTimeout(timer);
}

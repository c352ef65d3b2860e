/** The messages between a page and the worker. */

import type { Vault } from "./vault.ts";

export type Method = keyof Vault;

/** All that a page may call; another name in a message calls nothing. */
export const METHODS: Record<Method, true> = {
  status: true,
  prepare: true,
  readInvitation: true,
  create: true,
  seal: true,
  enrol: true,
  resume: true,
  unlock: true,
  lock: true,
  restore: true,
  newCode: true,
  codeKept: true,
  addSealing: true,
  userHandle: true,
  beginReplacement: true,
  replace: true,
  leave: true,
  forget: true,
  read: true,
  answerSignIn: true,
  answerProof: true,
  refuse: true,
  service: true,
};

export interface Question {
  id: number;
  method: Method;
  parameters: unknown[];
}

export type Reply = { id: number; value: unknown } | { id: number; code: string; detail: string };

/** What both ends have of a port or a worker. */
export interface Port {
  postMessage(message: unknown): void;
  addEventListener(type: "message", listener: (event: MessageEvent<never>) => void): void;
}

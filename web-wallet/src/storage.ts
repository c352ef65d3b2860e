/**
 * What this browser keeps: one record, in IndexedDB. Several tabs may be open; a writing says which record it has read,
 * and is refused when another tab has written since. Web Locks let one tab at a time through a whole act.
 */

import type { Content, DeviceSlot } from "./sealed.ts";
import { VaultError } from "./vault.ts";

/** A group as the pages may know it without a key. */
export interface KnownGroup {
  group: string;
  name: string;
  joined: boolean;
  environment: string;
  legacyIdentifier: string | null;
  /** Published with the group; by it the wallet knows proofs that are for the group alone. */
  groupKey: string;
}

export interface StoredWallet {
  format: 1;
  /** Counts the writings. */
  revision: number;
  content: Content;
  /** Slots that are never sent. */
  device: DeviceSlot[];
  /** Ids of the passkeys that were used in this browser. */
  credentials: Uint8Array[];
  /** The version of the copy at the service; `null` before there is one. */
  version: number | null;
  /** Whether the service has an older copy, or none, although it should have one. */
  dirty: boolean;
  /** Whether the code is a new one that the copy at the service does not have yet. */
  hasNewCode: boolean;
  groups: KnownGroup[];
  codeKept: boolean;
  pending: "join" | "replace" | null;
}

export interface Storage {
  read(): Promise<StoredWallet | null>;
  /** Writes a record whose `revision` is one more than that of the record it takes the place of; 1 for the first. */
  write(record: StoredWallet): Promise<void>;
  remove(): Promise<void>;
}

/** Lets one piece of work at a time through, also of other tabs. */
export type Exclusive = <T>(work: () => Promise<T>) => Promise<T>;

const isNext = (before: StoredWallet | null, record: StoredWallet): boolean => record.revision === (before?.revision ?? 0) + 1;

/** For tests, and for a browser that refuses to store anything while a page is open. */
export class MemoryStorage implements Storage {
  #record: StoredWallet | null = null;

  async read(): Promise<StoredWallet | null> {
    return structuredClone(this.#record);
  }

  async write(record: StoredWallet): Promise<void> {
    if (!isNext(this.#record, record)) throw new VaultError("changed_elsewhere");
    this.#record = structuredClone(record);
  }

  async remove(): Promise<void> {
    this.#record = null;
  }
}

const STORE = "wallet";
const KEY = "person";

const answerOf = <T>(request: IDBRequest<T>): Promise<T> =>
  new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB"));
  });

export class BrowserStorage implements Storage {
  #factory: IDBFactory;
  #database: Promise<IDBDatabase> | null = null;

  constructor(factory: IDBFactory) {
    this.#factory = factory;
  }

  #open(): Promise<IDBDatabase> {
    this.#database ??= new Promise<IDBDatabase>((resolve, reject) => {
      const request = this.#factory.open("selfsame-wallet", 1);
      request.onupgradeneeded = () => request.result.createObjectStore(STORE);
      request.onsuccess = () => {
        const database = request.result;
        // A later version of the wallet in another tab, or a person who clears the browser's data.
        const forget = () => {
          database.close();
          this.#database = null;
        };
        database.onversionchange = forget;
        database.onclose = forget;
        resolve(database);
      };
      request.onerror = () => reject(request.error ?? new Error("IndexedDB"));
      request.onblocked = () => reject(new Error("IndexedDB is blocked by another tab"));
    });
    this.#database.catch(() => {
      this.#database = null;
    });
    return this.#database;
  }

  async #within<T>(mode: IDBTransactionMode, work: (store: IDBObjectStore) => Promise<T>): Promise<T> {
    try {
      // Durability matters for writings: the next step makes the service depend on them.
      const transaction = (await this.#open()).transaction(STORE, mode, { durability: "strict" });
      const done = new Promise<void>((resolve, reject) => {
        transaction.oncomplete = () => resolve();
        transaction.onabort = () => reject(transaction.error ?? new Error("IndexedDB aborted"));
      });
      // The work's own error says more than that of the abort.
      done.catch(() => undefined);
      try {
        const result = await work(transaction.objectStore(STORE));
        await done;
        return result;
      } catch (error) {
        try {
          transaction.abort();
        } catch {
          // It is over already.
        }
        throw error;
      }
    } catch (error) {
      if (error instanceof VaultError) throw error;
      throw new VaultError("storage", error instanceof Error ? error.name : "");
    }
  }

  async read(): Promise<StoredWallet | null> {
    const record = await this.#within("readonly", (store) => answerOf(store.get(KEY) as IDBRequest<StoredWallet | undefined>));
    if (record !== undefined && record.format !== 1) throw new VaultError("storage", "the record is of a newer version of this page");
    return record ?? null;
  }

  async write(record: StoredWallet): Promise<void> {
    await this.#within("readwrite", async (store) => {
      const before = await answerOf(store.get(KEY) as IDBRequest<StoredWallet | undefined>);
      if (!isNext(before ?? null, record)) throw new VaultError("changed_elsewhere");
      await answerOf(store.put(record, KEY));
    });
  }

  async remove(): Promise<void> {
    await this.#within("readwrite", (store) => answerOf(store.delete(KEY)));
  }
}

/** One piece of work at a time within one worker. */
export const queue = (): Exclusive => {
  let last: Promise<unknown> = Promise.resolve();
  return <T>(work: () => Promise<T>) => {
    const result = last.then(work, work);
    last = result.catch(() => undefined);
    return result;
  };
};

/** How long one tab waits for another, in milliseconds. */
const PATIENCE = 60_000;

/**
 * The same for all tabs, where the browser has Web Locks. Without them the revision of the record decides. A tab that the
 * system has put to sleep in the middle of an act keeps the lock, so the wait has an end.
 */
export const exclusive = (locks: LockManager | undefined, patience = PATIENCE): Exclusive => {
  const own = queue();
  if (!locks) return own;
  const request = async <T>(work: () => Promise<T>): Promise<T> => {
    const abort = new AbortController();
    const timer = setTimeout(() => abort.abort(new VaultError("changed_elsewhere", "another tab is busy")), patience);
    return (await locks.request("selfsame-wallet", { signal: abort.signal }, () => {
      clearTimeout(timer);
      return work();
    })) as T;
  };
  return <T>(work: () => Promise<T>) => own(() => request(work));
};

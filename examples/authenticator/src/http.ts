// Calls of the services: JSON in and out, and waiting when a service asks for it.

/** An answer that is not success. `code` is the interface's. */
export class ServiceError extends Error {
  constructor(
    readonly status: number,
    readonly code: string,
    message: string,
  ) {
    super(`${status} ${code}: ${message}`);
  }
}

/** How often a call is sent again after 429, 503 or 504, or when there is no answer. */
const RETRIES = 4;

const sleep = (seconds: number) => new Promise((resolve) => setTimeout(resolve, 1000 * seconds));

interface Call {
  body?: unknown;
  headers?: Record<string, string>;
  /** Whether the call may be sent twice: a read, or a request with an `Idempotency-Key`. */
  repeatable: boolean;
}

async function call<Answer>(url: string, { body, headers, repeatable }: Call): Promise<Answer> {
  // No service sends its callers on; a redirect would lead to an address that was not checked.
  const init: RequestInit = {
    headers: { accept: "application/json", ...headers },
    redirect: "manual",
    signal: AbortSignal.timeout(90_000),
  };
  if (body !== undefined) {
    init.method = "POST";
    init.headers = { ...init.headers, "content-type": "application/json" };
    init.body = JSON.stringify(body);
  }
  for (let attempt = 0; ; attempt++) {
    const isLast = !repeatable || attempt === RETRIES;
    let response;
    try {
      response = await fetch(url, init);
    } catch (error) {
      if (isLast) throw error;
      await sleep(1);
      continue;
    }
    if ([429, 503, 504].includes(response.status) && !isLast) {
      await sleep(Number(response.headers.get("retry-after") ?? 1));
      continue;
    }
    if (response.status >= 300 && response.status < 400) {
      throw new ServiceError(response.status, "redirect", `${url} leads to another address`);
    }
    const answer = await response.json();
    if (response.ok) return answer as Answer;
    const { code, message, detail } = answer as Record<string, string>;
    throw new ServiceError(response.status, code ?? "unknown", message ?? detail ?? "");
  }
}

export const read = <Answer>(url: string): Promise<Answer> => call(url, { repeatable: true });

/** A query of the indexer: a POST that changes nothing. */
export const query = <Answer>(url: string, body: unknown): Promise<Answer> => call(url, { body, repeatable: true });

/** A request of the gateway. With its own key it is carried out once, however often it is sent. */
export function submit<Answer>(url: string, body: unknown): Promise<Answer> {
  return call(url, { body, repeatable: true, headers: { "idempotency-key": crypto.randomUUID() } });
}

/** A request that must not be sent twice. */
export const post = <Answer>(url: string, body: unknown): Promise<Answer> => call(url, { body, repeatable: false });

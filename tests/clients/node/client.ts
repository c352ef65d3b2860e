// A client of the service whose types are generated from its description. It is compiled in the test,
// so the compiler checks every path, field and answer below.

import createClient from "openapi-fetch";
import type { paths } from "./generated/service.js";

const [baseUrl, requestId] = process.argv.slice(2) as [string, string];
const client = createClient<paths>({ baseUrl });

const status = await client.GET("/status/{request_id}", { params: { path: { request_id: requestId }, query: { wait: 30 } } });
if (!status.data) throw new Error(status.error.message);
const { state } = status.data.status;

const proof = await client.POST("/inclusion-proof", { body: { leaf_index: "1" } });
if (!proof.data) throw new Error(proof.error.message);
const siblings: number = proof.data.siblings.length;

const unknown = await client.POST("/inclusion-proof", { body: { leaf_index: "99" } });
const notFound: "not_found" | string | undefined = unknown.error?.code;

const refused = await client.POST("/api/v4/verify/{rp_id}", {
  params: { path: { rp_id: "app_staging_5e1f5a3e000000000000000000000001" } },
  body: {
    protocol_version: "4.0",
    nonce: "0x1",
    action: "vote",
    environment: "staging",
    responses: [
      {
        identifier: "proof_of_human",
        issuer_schema_id: 1,
        nullifier: "0x2a",
        expires_at_min: 4102444800,
        proof: ["0x1", "0x2", "0x3", "0x4", "0x5"],
      },
    ],
  },
});
const { code, results } = refused.error as NonNullable<typeof refused.error>;

console.log(JSON.stringify({ state, siblings, notFound, code, result: results?.[0]?.code }));

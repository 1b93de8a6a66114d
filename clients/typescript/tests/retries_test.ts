/** What is sent again, and which error a call throws. */

import assert from "node:assert/strict";

import * as client from "../src/index.ts";
import { json, problem, stubbed } from "./stub_server.ts";

Deno.test("a request is sent again after 429, 503 and a broken connection, with the same key", async () => {
  const { hw, seen } = stubbed(
    () => problem(429, { retryAfter: 0 }),
    () => problem(503, { retryAfter: 0 }),
    () => Promise.reject(new TypeError("connection reset")),
    () => json({ id: "1", name: "watched" }, 201),
  );
  assert.equal((await hw.datasets.create("watched")).name, "watched");
  assert.equal(seen.length, 4);
  const keys = new Set(seen.map((request) => request.headers.get("Idempotency-Key")));
  assert.equal(keys.size, 1);
  assert.ok(!keys.has(null));
});

Deno.test("a request that got no response in time is not sent again", async () => {
  let requests = 0;
  const fetch = ((_: string, { signal }: RequestInit) => {
    requests++;
    return new Promise((_, reject) =>
      signal!.addEventListener("abort", () => reject(signal!.reason))
    );
  }) as typeof globalThis.fetch;
  const hw = new client.Headwater({ url: "http://headwater.test", key: "x", fetch });
  await assert.rejects(hw.me({ timeoutMs: 5 }), client.TimedOut);
  assert.equal(requests, 1);
});

Deno.test("a signal ends a call during the wait before a retry", async () => {
  const { hw } = stubbed(() => problem(503, { retryAfter: 60 }));
  const stop = new AbortController();
  const asked = hw.me({ signal: stop.signal });
  setTimeout(() => stop.abort(new Error("enough")), 5);
  await assert.rejects(asked, /enough/);
});

Deno.test("a deploy in progress is waited for beyond the retries", async () => {
  const pending = { type: "urn:headwater:problem:deploy-pending", retryAfter: 0 };
  const flow = { id: "1", name: "x", revision: 1, pipeline_config: {} };
  let left = 9;
  const { hw } = stubbed(
    () => json(flow),
    () => left-- > 0 ? problem(503, pending) : json({ condition: "Stable" }),
  );
  assert.equal((await (await hw.flows.get("1")).deploy()).condition, "Stable");
});

Deno.test("the wait for a deploy uses up no retries", async () => {
  const pending = { type: "urn:headwater:problem:deploy-pending", retryAfter: 0 };
  const flow = { id: "1", name: "x", revision: 1, pipeline_config: {} };
  const answers = [pending, pending, pending, pending, pending, pending, { retryAfter: 0 }];
  const { hw } = stubbed(
    () => json(flow),
    () => {
      const answer = answers.shift();
      return answer ? problem(503, answer) : json({ condition: "Stable" });
    },
  );
  assert.equal((await (await hw.flows.get("1")).deploy()).condition, "Stable");
});

Deno.test("a pause is repeated as often as other calls", async () => {
  const pending = { type: "urn:headwater:problem:deploy-pending", retryAfter: 0 };
  let pauses = 0;
  const { hw } = stubbed(
    () => json({ id: "1", name: "x", revision: 1, pipeline_config: {} }),
    () => {
      pauses++;
      return problem(503, pending);
    },
  );
  const found = await hw.flows.get("1");
  await assert.rejects(found.pause(), client.DeployPending);
  assert.equal(pauses, 6);
});

Deno.test("the wait for a deploy ends although retries are left", async () => {
  const pending = { type: "urn:headwater:problem:deploy-pending", retryAfter: 0 };
  const flow = { id: "1", name: "x", revision: 1, pipeline_config: {} };
  let deploys = 0;
  const { hw } = stubbed(
    () => json(flow),
    () => {
      deploys++;
      return problem(503, pending);
    },
  );
  const found = await hw.flows.get("1");
  await assert.rejects(found.deploy({ waitMs: 0 }), client.DeployPending);
  assert.equal(deploys, 1);
});

const ERRORS: [number, string, keyof typeof client][] = [
  [401, "unauthenticated", "Unauthenticated"],
  [403, "forbidden", "NotAllowed"],
  [403, "quota", "QuotaExceeded"],
  [404, "not-found", "NotFound"],
  [409, "conflict", "Conflict"],
  [409, "unreadable", "Unreadable"],
  [412, "precondition-failed", "RevisionChanged"],
  [422, "validation", "Unprocessable"],
  [422, "deploy-failed", "DeployFailed"],
  [500, "internal", "ServerError"],
];
for (const [status, type, name] of ERRORS) {
  Deno.test(`${status} ${type} is ${name}`, async () => {
    const errors = [{ pointer: "/name", detail: "is required" }];
    const members = {
      type: `urn:headwater:problem:${type}`,
      detail: "What to do.",
      used: 9,
      allowed: 10,
      errors,
    };
    const { hw } = stubbed(() => problem(status, members));
    const error = await hw.me().catch((thrown) => thrown);
    assert.equal(error.constructor, client[name]);
    assert.ok(error instanceof client.HeadwaterError);
    assert.equal(error.message, "What to do.");
    if (error instanceof client.QuotaExceeded) {
      assert.deepEqual([error.used, error.allowed], [9, 10]);
    }
    if (error instanceof client.Unprocessable) assert.deepEqual(error.errors, errors);
  });
}

Deno.test("the text of a proxy's error is its message", async () => {
  const { hw } = stubbed(() => new Response("<h1>Bad gateway</h1>", { status: 502 }));
  await assert.rejects(
    hw.me(),
    (error) => error instanceof client.ServerError && error.message.includes("Bad gateway"),
  );
});

Deno.test("another server's page is an unexpected response", async () => {
  const { hw } = stubbed(() => new Response("<html></html>"));
  await assert.rejects(hw.me(), client.UnexpectedResponse);
});

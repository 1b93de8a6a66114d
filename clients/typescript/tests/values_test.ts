/** Integers of any size, lists in pages, and uploads in parts. */

import assert from "node:assert/strict";

import { type Dataset, parseJson, stringifyJson } from "../src/index.ts";
import { json, problem, stubbed } from "./stub_server.ts";

Deno.test("integers keep all digits", () => {
  const text =
    '{"small":7,"large":123456789012345678901234567890,"float":1.5e300,"text":"12345678901234567890"}';
  const value = parseJson(text) as Record<string, unknown>;
  assert.equal(value["large"], 123456789012345678901234567890n);
  assert.equal(value["small"], 7);
  assert.equal(value["float"], 1.5e300);
  assert.equal(value["text"], "12345678901234567890");
  assert.equal(stringifyJson(value), text.replace("1.5e300", "1.5e+300"));
});

Deno.test("a list asks for its pages", async () => {
  const { hw, seen } = stubbed(
    () => json([{ id: "1" }], 200, { Link: '</api/v1/flow?limit=1&cursor=17-0a>; rel="next"' }),
    () => json([{ id: "2" }]),
  );
  assert.deepEqual(await Array.fromAsync(hw.flows.list({ pageSize: 1 }), (flow) => flow.id), [
    "1",
    "2",
  ]);
  assert.equal(seen[1]!.url.searchParams.get("cursor"), "17-0a");
});

async function dataset(reply: (values: string[], request: number) => Response | Promise<Response>) {
  let request = 0;
  const { hw, seen } = stubbed(
    () => json({ id: "1", name: "watched" }),
    ({ body }) => reply(JSON.parse(body).values, ++request),
  );
  return { dataset: await hw.datasets.get("1") as Dataset, seen };
}

function* numbers(count: number): Generator<string> {
  for (let number = 0; number < count; number++) yield String(number);
}

Deno.test("an upload sends batches of 10,000 to 250,000 values, two at once", async () => {
  let [open, most] = [0, 0];
  const sizes: number[] = [];
  const secondEnded = Promise.withResolvers<void>();
  const { dataset: watched } = await dataset(async (values, request) => {
    most = Math.max(most, ++open);
    sizes.push(values.length);
    if (request === 1) await secondEnded.promise;
    if (request === 2) setTimeout(secondEnded.resolve, 50);
    open--;
    return json({ count: values.length, version: request });
  });
  const complete: number[] = [];
  const total = await watched.add(numbers(600_001), {
    onProgress: (state) => complete.push(state.complete),
  });
  assert.deepEqual(total, { sent: 600_001, changed: 600_001, version: 7, complete: 600_001 });
  assert.deepEqual(sizes, [10_000, 20_000, 40_000, 80_000, 160_000, 250_000, 40_001]);
  assert.equal(most, 2);
  assert.equal(complete.at(-1), 600_001);
  assert.equal(complete[0], 0, "the second part ends first, and the first is not stored yet");
});

Deno.test("an upload ends with the first part that fails", async () => {
  const { dataset: watched, seen } = await dataset(() => problem(422, { detail: "too long" }));
  await assert.rejects(watched.add(numbers(1_500_000)), /too long/);
  assert.ok(seen.length <= 3);
});

Deno.test("a text is no list of values", async () => {
  const { dataset: watched } = await dataset(() => json({}));
  await assert.rejects(watched.add("0xa"), TypeError);
});

Deno.test("a filter's values are replaced in one request", async () => {
  const transform = {
    uid: "9",
    type: "redis_set_filter",
    filter_expr: "root = this.a",
    name: "token",
  };
  const { hw, seen } = stubbed(
    () => json({ id: "1", name: "x", pipeline_config: { transforms: [transform], sinks: [] } }),
    () => json({ count: 45_000, version: 1 }),
  );
  const filter = (await hw.flows.get("1")).filter("token");
  assert.equal((await filter.replace(numbers(45_000))).count, 45_000);
  assert.equal(JSON.parse(seen[1]!.body).values.length, 45_000);
  await filter.replace([]);
  assert.deepEqual(JSON.parse(seen[2]!.body), { values: [] });
  await filter.replace(new Blob(['{"values":["0xa"]}']));
  assert.deepEqual(JSON.parse(seen[3]!.body), { values: ["0xa"] });
});

/** A pipeline from its creation to its end. Arguments: the address of the API, and a key. */

import assert from "node:assert/strict";

import { Headwater, kafka, NotFound, setFilter, Unprocessable, v8 } from "../../../clients/typescript/src/index.ts";

const [url, key] = Deno.args;
const hw = new Headwater({ url: url!, key: key! });
const TOKEN = "0x833589fcd6edb6e08f4c7c32d4f71b54bda02913";
const pipeline = {
  source: { chain: "base", entity: "erc20_token_transfer" },
  transforms: [
    setFilter("root = this.token_address", { values: [TOKEN], name: "token" }),
    v8("function process(record) { record.seen = true; return record; }", { name: "js" }),
  ],
  sinks: [kafka("out")],
};

const flow = await hw.flows.create({ name: "typescript", pipeline_config: pipeline });
assert.equal((await flow.deploy()).status, "deployed");
assert.equal((await hw.flows.find("typescript")).id, flow.id);

// The test writes one record to the stream as soon as the tail is open.
for await (const item of flow.tail("out", { onOpen: () => console.log("open") })) {
  const record = item.record as Record<string, unknown>;
  assert.equal(record["raw_amount"], 123456789012345678901234567890n);
  assert.equal(record["seen"], true);
  break;
}
assert.equal((await flow.records("out")).length, 1);
assert.equal((await flow.stats()).workers_health.healthy_workers, 1);

const numbers = Array.from({ length: 300_000 }, (_, number) => `0x${number.toString(16).padStart(40, "0")}`);
const token = flow.filter("token");
const added = await token.add(numbers);
assert.equal(added.changed, 300_000);
assert.equal((await token.count()).count, 300_001);
assert.equal((await token.applied({ version: added.version, waitS: 10 })).applied, true);
assert.equal((await token.replace(numbers)).count, 300_000);
assert.equal(await token.check(TOKEN), false);
assert.equal((await Array.fromAsync(token.values())).length, 300_000);

await flow.update({ tags: ["typescript"] });
const states = await Array.fromAsync(hw.flows.overview({ tag: "typescript" }), (item) => item.state);
assert.deepEqual(states, ["deployed"]);
assert.deepEqual(await Array.fromAsync(flow.revisions({ pageSize: 1 }), ({ revision }) => revision), [2, 1]);

const empty = { name: "", pipeline_config: pipeline };
await assert.rejects(hw.flows.create(empty), (error) => {
  return error instanceof Unprocessable && error.errors[0]?.pointer === "/name";
});
await flow.delete();
await assert.rejects(hw.flows.get(flow.id), NotFound);
console.log("done");

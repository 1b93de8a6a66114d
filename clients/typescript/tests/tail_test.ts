/** Live tails. */

import assert from "node:assert/strict";

import { problem, stubbed } from "./stub_server.ts";

const BEGIN = 'event: records\ndata: [{"offset": 1, "of": "base/log"}, ';
const REST = '{"offset": 2, "of": "base/log"}]\n\n: keep-alive\n\n';

function stream(...parts: string[]): Response {
  return new Response(ReadableStream.from(parts).pipeThrough(new TextEncoderStream()));
}

Deno.test("a tail yields the records of events, which may arrive in pieces", async () => {
  const { hw } = stubbed(() =>
    stream(BEGIN, REST, 'event: skipped\ndata: {"of": "base/log", "count": 3}\n\n')
  );
  const stop = new AbortController();
  const [offsets, skipped] = [[] as number[], [] as number[]];
  const options = {
    onSkipped: ({ count }: { count: number }) => skipped.push(count),
    signal: stop.signal,
  };
  const read = async () => {
    for await (const record of hw.tail(["base/log"], options)) {
      offsets.push(record.offset);
      if (offsets.length === 3) stop.abort(new Error("enough"));
    }
  };
  await assert.rejects(read(), /enough/);
  assert.deepEqual(offsets.slice(0, 3), [1, 2, 1]);
  assert.equal(skipped[0], 3);
});

Deno.test("a tail continues with the topics that have not ended", async () => {
  const ended = (of: string) =>
    `event: end\ndata: {"of": "${of}", "reason": "deployment_ended"}\n\n`;
  const { hw, seen } = stubbed(() => stream(ended("a/out")), () => stream(ended("b/out")));
  const events = await Array.fromAsync(hw.tailEvents(["a/out", "b/out"]), (event) => event.kind);
  assert.deepEqual(events, ["open", "end", "open", "end"]);
  assert.deepEqual(seen.map(({ url }) => url.searchParams.getAll("of")), [["a/out", "b/out"], [
    "b/out",
  ]]);
});

Deno.test("a tail says that its connection broke, and opens another", async () => {
  const broken = new ReadableStream({
    start: (controller) => controller.error(new TypeError("reset")),
  });
  const { hw } = stubbed(
    () => new Response(broken),
    () => stream('event: end\ndata: {"reason": "key_ended"}\n\n'),
  );
  const events = await Array.fromAsync(hw.tailEvents(["base/log"]), (event) => event.kind);
  assert.deepEqual(events, ["open", "broken", "open", "end"]);
});

Deno.test("a tail that the server refuses for a while is opened again", async () => {
  const refused = () => problem(503, { detail: "Kafka is unavailable.", retryAfter: 0 });
  const { hw } = stubbed(
    ...Array.from({ length: 6 }, () => refused),
    () => problem(502, { retryAfter: 0 }),
    () => stream('event: end\ndata: {"reason": "key_ended"}\n\n'),
  );
  const events = await Array.fromAsync(
    hw.tailEvents(["base/log"]),
    (event) => event.kind === "broken" ? event.error.name : event.kind,
  );
  assert.deepEqual(events, ["Unavailable", "ServerError", "open", "end"]);
});

Deno.test("a tail that the key may not open ends with the error", async () => {
  const { hw } = stubbed(() => problem(403, { detail: "no scope" }));
  await assert.rejects(Array.fromAsync(hw.tailEvents(["base/log"])), /no scope/);
});

/** The client has every call of the API's description, and understands its examples. */

import assert from "node:assert/strict";

import { type Dataset, type Flow, Headwater, kafka, setFilter, signIn, v8 } from "../src/index.ts";

const DESCRIPTION = new URL("../../../docs/reference/openapi.json", import.meta.url);
/** Operations for load balancers and Prometheus. */
const WITHOUT_METHOD = ["getLiveness", "getProcessMetrics"];
const ID = "01ke0a2x8rv5c3m7qd9t4jw6hz";
const FILTER = "01ke0a2x8rv5c3m7qd9t4jw6j0";
const VALUES = ["0x9f47c0de13b5a8264e7fd09c31b6a5e80d24f7c1"];
const DOCUMENT = {
  name: "x",
  pipeline_config: { source: { chain: "base", entity: "log" }, sinks: [kafka("out")] },
};

interface Operation {
  operationId: string;
  responses: Record<string, { content?: Record<string, { example?: unknown }> }>;
}

const { paths } = JSON.parse(await Deno.readTextFile(DESCRIPTION)) as {
  paths: Record<string, Record<string, Operation>>;
};

type Objects = { hw: Headwater; flow: Flow; dataset: Dataset };
type Work = (objects: Objects) => unknown;

const CALLS: Record<string, Work> = {
  getPriceStats: ({ hw }) => hw.prices.stats([[VALUES[0]!, "base"]]),
  listTokens: ({ hw }) => hw.prices.tokens({ q: "0x9f" }),
  getPriceHistory: ({ hw }) => hw.prices.history(VALUES[0]!, "base"),
  explainPrice: ({ hw }) => hw.prices.explain(VALUES[0]!, "base"),
  listConfigurations: ({ hw }) => hw.flows.list(),
  createConfiguration: ({ hw }) => hw.flows.create(DOCUMENT),
  listDatasets: ({ hw }) => hw.datasets.list(),
  createDataset: ({ hw }) => hw.datasets.create("watched"),
  addDatasetEntriesByName: ({ hw }) => hw.datasets.addEntries("watched", VALUES),
  deleteDataset: ({ dataset }) => dataset.delete(),
  getDataset: ({ hw }) => hw.datasets.get("01ke0a4gt1n6b8y2kf5s7pm3xc"),
  removeDatasetEntries: ({ dataset }) => dataset.remove(VALUES),
  listDatasetEntries: ({ dataset }) => dataset.values(),
  addDatasetEntries: ({ dataset }) => dataset.add(VALUES),
  getAppliedDatasetVersion: ({ dataset }) => dataset.applied({ version: 2 }),
  checkDatasetEntry: ({ dataset }) => dataset.check(VALUES[0]!),
  getLimits: ({ hw }) => hw.limits(),
  getMe: ({ hw }) => hw.me(),
  getOverview: ({ hw }) => hw.flows.overview(),
  listStreams: ({ hw }) => hw.streams.list(),
  getStreamRecords: ({ hw }) => hw.streams.records("base", "log"),
  tailStream: ({ hw }) => hw.streams.tail("base", "log"),
  tailSeveral: ({ hw }) => hw.tail(["base/log", `${ID}/transfers`]),
  validateConfiguration: ({ hw }) => hw.flows.validate(DOCUMENT, { records: [{ n: 1 }] }),
  deleteConfiguration: ({ flow }) => flow.delete(),
  getConfiguration: ({ hw }) => hw.flows.get(ID),
  replaceConfiguration: ({ flow }) => flow.replace(DOCUMENT, { ifRevision: 1 }),
  listDeadLetters: ({ flow }) => flow.deadLetters.list(),
  redriveDeadLetters: ({ flow }) => flow.deadLetters.startRedrive({ ids: ["0/17"] }),
  summarizeDeadLetters: ({ flow }) => flow.deadLetters.summary(),
  getDeployment: ({ flow }) => flow.deployment(),
  deployConfiguration: ({ flow }) => flow.deploy(),
  rotateCredentials: ({ flow }) => flow.rotateCredentials(),
  getDeploymentLogs: ({ flow }) => flow.logs({ limit: 10 }),
  getDeploymentMetrics: ({ flow }) => flow.metrics({ timeRange: "1d" }),
  getDeploymentRecords: ({ flow }) => flow.records("transfers"),
  tailDeployment: ({ flow }) => flow.tail("transfers"),
  getDeploymentStats: ({ flow }) => flow.stats(),
  pausePipeline: ({ flow }) => flow.pause(),
  getRedrive: ({ flow }) => flow.deadLetters.redriveState("01ke0a2x8rv5c3m7qd9t4jw6j5"),
  resumePipeline: ({ flow }) => flow.resume(),
  listRevisions: ({ flow }) => flow.revisions(),
  getRevision: ({ flow }) => flow.readRevision(1),
  diffRevisions: ({ flow }) => flow.diff(2),
  rewindPipeline: ({ flow }) => flow.rewind({ 0: 1200 }),
  rollBack: ({ flow }) => flow.rollback(3),
  tearDown: ({ flow }) => flow.teardown(),
  replaceTransforms: ({ flow }) =>
    flow.replaceTransforms([v8("function process(r) { return r; }")]),
  changeTransform: ({ flow }) =>
    flow.changeTransform(FILTER, setFilter("root = this.token_address")),
  removeFilterValues: ({ flow }) => flow.filter(FILTER).remove(VALUES),
  listFilterValues: ({ flow }) => flow.filter(FILTER).values(),
  addFilterValues: ({ flow }) => flow.filter(FILTER).add(VALUES),
  replaceFilterValues: ({ flow }) => flow.filter(FILTER).replace(VALUES),
  getAppliedFilterVersion: ({ flow }) => flow.filter(FILTER).applied({ version: 2, waitS: 5 }),
  checkFilterValue: ({ flow }) => flow.filter(FILTER).check(VALUES[0]!),
  countFilterValues: ({ flow }) => flow.filter(FILTER).count(),
  getReadiness: ({ hw }) => hw.readiness(),
  signIn: () => signIn("code", { url: "http://headwater.test", fetch: answer(asked) }),
  signOut: ({ hw }) => hw.signOut(),
};

/** The operations that were asked for since the begin of a step. */
const asked: string[] = [];

/** Returns the operation of a request; of several patterns, the one with the fewest parameters. */
function operationOf(method: string, path: string): Operation {
  const segments = path.split("/");
  const found = Object.keys(paths)
    .filter((pattern) => {
      const parts = pattern.split("/");
      return parts.length === segments.length &&
        parts.every((part, index) => part.startsWith("{") || part === segments[index]);
    })
    .sort((one, other) => one.split("{").length - other.split("{").length);
  return found.map((pattern) => paths[pattern]![method.toLowerCase()]).find((each) => each)!;
}

function exampleOf(operation: Operation): unknown {
  const [, response] = Object.entries(operation.responses).find(([status]) => status < "300")!;
  return Object.values(response.content ?? {})[0]?.example;
}

/** Answers with the examples of the description; a tail sends one record and ends. */
function answer(asked: string[]): typeof fetch {
  return ((input: string, init: RequestInit) => {
    const operation = operationOf(init.method!, new URL(input).pathname);
    asked.push(operation.operationId);
    const example = exampleOf(operation);
    if (typeof example !== "string") {
      return Promise.resolve(new Response(example === undefined ? null : JSON.stringify(example)));
    }
    const end = 'event: end\ndata: {"reason": "deployment_ended"}\n\n';
    return Promise.resolve(new Response(`${example.trim()}\n\n${end}`));
  }) as typeof fetch;
}

function isIterable(value: unknown): value is AsyncIterable<unknown> {
  return typeof value === "object" && value !== null && Symbol.asyncIterator in value;
}

Deno.test("every operation has a method", async (test) => {
  const operations = Object.values(paths).flatMap((path) => Object.values(path));
  const ids = operations.map((operation) => operation.operationId);
  const needed = ids.filter((id) => !WITHOUT_METHOD.includes(id));
  assert.deepEqual(needed.filter((id) => !(id in CALLS)), []);
  for (const id of needed) {
    await test.step(id, async () => {
      const work = CALLS[id]!;
      const hw = new Headwater({
        url: "http://headwater.test",
        key: "hw_live_x",
        fetch: answer(asked),
      });
      const flow = await hw.flows.get(ID);
      const dataset = await hw.datasets.get("01ke0a4gt1n6b8y2kf5s7pm3xc");
      asked.length = 0;
      const result = work({ hw, flow, dataset });
      await (isIterable(result) ? result[Symbol.asyncIterator]().next() : result);
      assert.ok(asked.includes(id), `asked for ${asked}`);
    });
  }
});

/** The typed client of Headwater, for browsers and Deno. */

export * from "./builders.ts";
export { Headwater, signIn } from "./client.ts";
export * from "./errors.ts";
export { parseJson, stringifyJson } from "./json.ts";
export type { ListOptions } from "./pages.ts";
export { Dataset } from "./resources/datasets.ts";
export type { LetterSelection } from "./resources/dead_letters.ts";
export { Filter } from "./resources/filters.ts";
export { type DeployOptions, Flow, type MetricsOptions } from "./resources/flow.ts";
export type { OverviewQuery, TrialOptions } from "./resources/flows.ts";
export type { Token } from "./resources/prices.ts";
export type { RecordOptions } from "./resources/streams.ts";
export { ValueSet } from "./resources/value_set.ts";
export type { CallOptions, ClientOptions } from "./session.ts";
export type { TailEvent, TailOptions } from "./tail.ts";
export type * from "./types.ts";
export type { Upload, UploadOptions, Values } from "./upload.ts";

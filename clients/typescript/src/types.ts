/** The names under which the client exports the schemas of the API. */

import type { components } from "./schema.ts";

type Schemas = components["schemas"];

export type Applied = Schemas["Applied"];
export type ApiKey = Schemas["KeyBody"];
/** A new API key. Its text is shown only in this response. */
export type SignedIn = ApiKey & { key: string };
export type DatasetInfo = Schemas["DatasetBody"];
export type DeadLetter = Schemas["DeadLetterBody"];
export type DeadLetterPage = Schemas["DeadLettersBody"];
export type Deployment = Schemas["DeploymentBody"];
export type Diff = Schemas["RevisionComparison"];
export type EntriesPage = Schemas["EntriesPage"];
export type Fault = Schemas["Fault"];
export type FilterCount = Schemas["FilterCount"];
export type FilterPage = Schemas["FilterPage"];
export type FlowConfig = Schemas["FlowConfig"];
/** A `kafka` sink of a deployment, and how to connect to its topic. */
export type KafkaConnection = Schemas["SinkConnection"];
export type LetterGroup = Schemas["LetterSummaryBody"];
export type LogLine = Schemas["LogEntry"];
export type MetricPoint = Schemas["MetricPoint"];
export type MetricSeries = Schemas["MetricSeries"];
export type Metrics = Schemas["DeploymentSeries"];
export type MetricsSummary = Schemas["MetricsSummary"];
export type OutputRecord = Schemas["OutputItem"];
export type OverviewItem = Schemas["OverviewItem"];
export type OverviewPage = Schemas["OverviewBody"];
export type PipelineConfig = Schemas["PipelineConfig"];
export type PricedToken = Schemas["TokenList"]["items"][number];
export type PriceExplanation = Schemas["PriceExplanation"];
export type PriceHistory = Schemas["PriceHistory"];
export type PriceItem = Schemas["PriceItem"];
export type PriceStats = Schemas["PriceStats"];
export type PricedTokenPage = Schemas["TokenList"];
export type Problem = Schemas["ProblemDetails"];
export type Quota = Schemas["QuotaLimit"];
export type Redrive = Schemas["RedriveBody"];
export type ResumedDeployment = Schemas["ResumedDeployment"];
export type Revision = Schemas["RevisionItem"];
export type RevisionPage = Schemas["RevisionList"];
export type Rewound = Schemas["RewoundPipeline"];
export type Sink = PipelineConfig["sinks"][number];
/** A sink of a deployment: a `KafkaConnection`, or a `prices` sink, which has no topic. */
export type SinkConnection = Deployment["sinks"][number];
export type StartedRedrive = Schemas["RedriveAccepted"];
export type Stats = Schemas["DeploymentStats"];
export type Stream = Schemas["Stream"];
export type StreamRecord = Schemas["RecordItem"];
export type StreamSample = Schemas["StreamSample"];
export type Transform = NonNullable<PipelineConfig["transforms"]>[number];
export type SavedTransform = Schemas["SavedV8Transform"] | Schemas["SavedRedisSetFilterTransform"];
export type TransformMetrics = Schemas["TransformSeries"];
export type Trial = Schemas["TrialBody"];
export type TrialRecord = Schemas["TrialRecordBody"];
export type Worker = Schemas["WorkerEntry"];

/** Readiness of the server. With status 503 the problem document has the states of the services too. */
export type Readiness = Schemas["Readiness"];

/** The body of a request that creates or replaces a configuration. */
export type NewFlow = Omit<Schemas["NewFlow"], "pipeline_config"> & {
  pipeline_config: NewPipeline;
};
export type NewPipeline = Omit<Schemas["NewPipelineConfig"], "source"> & { source: NewSource };
export type NewTransform = NonNullable<NewPipeline["transforms"]>[number];
export type NewSink = NewPipeline["sinks"][number];

/** The stream that a pipeline reads. */
export interface NewSource {
  chain: string;
  entity: string;
  type?: "kafka" | "pubsub";
  is_zerolag?: boolean;
  /** `latest`, `earliest` or an RFC 3339 time: where a new deployment starts. */
  start_at?: string;
}

/** A record of a live tail. */
export type TailRecord = StreamRecord & {
  /** The name of the stream or sink, in a tail of several. */
  of?: string;
  headers?: Record<string, string | null>;
};
/** The number of records that a tail does not show, because they are too many. */
export interface Skipped {
  of?: string;
  count: number;
}
/** Why a tail has ended. */
export interface TailEnd {
  of?: string;
  reason: string;
  detail?: string;
}

export type TimeRange = "1h" | "1d" | "1w";

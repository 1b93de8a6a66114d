/** One pipeline: its configuration and its deployment. */

import { DeployFailed } from "../errors.ts";
import { cursorItems, type ListOptions } from "../pages.ts";
import { type Call, type CallOptions, path, type Session, sleep } from "../session.ts";
import { tail, type TailOptions } from "../tail.ts";
import type {
  Deployment,
  Diff,
  FlowConfig,
  LogLine,
  Metrics,
  MetricsSummary,
  NewFlow,
  NewTransform,
  OutputRecord,
  PipelineConfig,
  ResumedDeployment,
  Revision,
  RevisionPage,
  Rewound,
  SavedTransform,
  Stats,
  TailRecord,
  TimeRange,
  TransformMetrics,
} from "../types.ts";
import { DeadLetters } from "./dead_letters.ts";
import { Filter } from "./filters.ts";
import type { RecordOptions } from "./streams.ts";

const DEPLOY_WAIT_MS = 300_000;
const POLL_MS = 1000;

/** Options of a call that may wait for a deploy. */
export interface DeployOptions extends CallOptions {
  /**
   * The milliseconds after which no request is sent again while the deploy is in progress; the default is 300,000.
   *
   * The server answers a request after a minute at most.
   */
  waitMs?: number | undefined;
}

/** Selects metrics. */
export interface MetricsOptions extends CallOptions {
  /** The time before now that the metrics cover; the default is `1h`. */
  timeRange?: TimeRange;
  /** Only these types of metrics. */
  types?: string[];
}

/** A pipeline. */
export class Flow {
  /** The configuration as it was read or saved last by this object. */
  config: FlowConfig;
  /** The records that could not be processed. */
  readonly deadLetters: DeadLetters;
  readonly #session: Session;

  constructor(session: Session, config: FlowConfig) {
    this.#session = session;
    this.config = config;
    this.deadLetters = new DeadLetters(session, config.id);
  }

  get id(): string {
    return this.config.id;
  }

  get name(): string {
    return this.config.name;
  }

  get revision(): number {
    return this.config.revision;
  }

  /** The typed form of the pipeline. It may be wrong for a configuration that is `unreadable`. */
  get pipeline(): PipelineConfig {
    return this.config.pipeline_config as PipelineConfig;
  }

  /** Returns the set of the filter with this name or uid. */
  filter(name: string): Filter {
    return new Filter(this.#session, this.id, this.#uid(name));
  }

  /** Reads the configuration again. */
  async refresh(options?: CallOptions): Promise<this> {
    this.config = await this.#get([], {}, options);
    return this;
  }

  /**
   * Saves a new revision with these members changed, and the others as they are in `config`.
   *
   * A deployed pipeline keeps running unchanged until the next deploy. Throws RevisionChanged when the
   * configuration was saved meanwhile.
   */
  update(changes: Partial<NewFlow>, options?: CallOptions): Promise<this> {
    const { name, description, tags, external_id } = this.config;
    const members = { name, description, tags, ...(external_id ? { external_id } : {}) };
    const { pipeline_config, ...top } = changes;
    const pipeline = { ...this.pipeline, ...pipeline_config } as NewFlow["pipeline_config"];
    return this.replace({ ...members, ...top, pipeline_config: pipeline }, {
      ...options,
      ifRevision: this.revision,
    });
  }

  /** Saves a whole configuration. Throws RevisionChanged when `ifRevision` is not the newest one. */
  async replace(
    document: NewFlow,
    { ifRevision, ...options }: CallOptions & { ifRevision?: number } = {},
  ): Promise<this> {
    const headers: Record<string, string> = ifRevision === undefined
      ? {}
      : { "If-Match": `"${ifRevision}"` };
    this.config = await this.#session.send(
      { method: "PUT", path: this.#path(), body: document, headers },
      options,
    );
    return this;
  }

  /** Replaces the transform with this name or uid. A deployed pipeline is deployed again. */
  async changeTransform(
    name: string,
    transform: NewTransform,
    options?: CallOptions,
  ): Promise<SavedTransform> {
    const address = this.#path("transforms", this.#uid(name));
    const call: Call = { method: "PATCH", path: address, body: transform };
    const changed = await this.#session.send<SavedTransform>(call, options);
    await this.refresh(options);
    return changed;
  }

  /** Replaces the list of transforms. A deployed pipeline is deployed again. */
  async replaceTransforms(
    transforms: NewTransform[],
    options?: CallOptions,
  ): Promise<SavedTransform[]> {
    const call: Call = { method: "PUT", path: this.#path("transforms"), body: transforms };
    const changed = await this.#session.send<SavedTransform[]>(call, options);
    await this.refresh(options);
    return changed;
  }

  /** Deletes the configuration, its deployment and the values of its filters. */
  async delete(options?: CallOptions): Promise<void> {
    await this.#session.send({ method: "DELETE", path: this.#path() }, options);
  }

  /**
   * Deploys the newest revision, and returns the deployment when its workers are ready.
   *
   * A paused pipeline is resumed. Throws DeployFailed with the reason when the workers do not become
   * ready. With `untilStable` it waits for another 30 s, until the revision can no longer be rolled back.
   */
  async deploy(
    { untilStable, ...options }: DeployOptions & { untilStable?: boolean } = {},
  ): Promise<Deployment> {
    const deployment = await this.#deploy<Deployment>(["deploy"], undefined, options);
    return untilStable ? await this.#untilStable(deployment, options) : deployment;
  }

  /** Returns the deployment with its credentials. Throws NotFound when the pipeline is not deployed. */
  deployment(options?: CallOptions): Promise<Deployment> {
    return this.#get(["deploy"], {}, options);
  }

  /** Waits until the rollout has ended. Throws DeployFailed when the revision was rolled back. */
  async waitUntilStable(options?: CallOptions): Promise<Deployment> {
    return await this.#untilStable(await this.deployment(options), options);
  }

  /** Ends the workers; topics, credentials, values and positions stay. */
  async pause(options?: CallOptions): Promise<void> {
    await this.#post(["pause"], undefined, options);
  }

  /** Continues where the pipeline was paused, and returns when its workers are ready. */
  resume(options?: DeployOptions): Promise<ResumedDeployment> {
    return this.#deploy(["resume"], undefined, options);
  }

  /** Moves the positions in the source: to `earliest`, `latest`, a time, or an offset of each partition. */
  rewind(
    to: "earliest" | "latest" | string | Date | Record<number, number>,
    options?: DeployOptions,
  ): Promise<Rewound> {
    return this.#deploy(["rewind"], { to: to instanceof Date ? to.toISOString() : to }, options);
  }

  /**
   * Saves an earlier revision as the newest one, and deploys it if the pipeline runs.
   *
   * Returns the deployment; null when the pipeline is not deployed or is paused.
   */
  async rollback(revision: number, options?: DeployOptions): Promise<Deployment | null> {
    const response = await this.#deploy<Deployment | FlowConfig>(
      ["rollback"],
      { revision },
      options,
    );
    if ("pipeline_config" in response) {
      this.config = response;
      return null;
    }
    await this.refresh(options);
    return response;
  }

  /** Removes workers, topics and credentials. The configuration and the values of its filters stay. */
  async teardown(options?: DeployOptions): Promise<void> {
    await this.#deploy(["teardown"], undefined, options);
  }

  /** Replaces the readers' password, and returns the deployment with the new one. */
  rotateCredentials(options?: CallOptions): Promise<Deployment> {
    return this.#post(["deploy", "credentials"], undefined, options);
  }

  /** Yields the stored revisions, newest first. */
  revisions({ pageSize = 100, ...options }: ListOptions = {}): AsyncGenerator<Revision, void> {
    return cursorItems(this.#session, this.#path("revisions"), { limit: pageSize }, options);
  }

  /** Returns one page of the stored revisions; `revisions()` yields all of them. */
  revisionPage(
    { cursor, limit, ...options }: CallOptions & { cursor?: string | null; limit?: number } = {},
  ): Promise<RevisionPage> {
    return this.#get(["revisions"], { cursor, limit }, options);
  }

  /** Returns the configuration as it was at a revision. */
  readRevision(revision: number, options?: CallOptions): Promise<FlowConfig> {
    return this.#get(["revisions", revision], {}, options);
  }

  /** Compares a revision with another one, by default with the one before. */
  diff(
    revision: number,
    { against, ...options }: CallOptions & { against?: number } = {},
  ): Promise<Diff> {
    return this.#get(["revisions", revision, "diff"], { against }, options);
  }

  /** Returns the state of each worker, and the lag. */
  stats(options?: CallOptions): Promise<Stats> {
    return this.#get(["deploy", "stats"], {}, options);
  }

  /** Returns metrics over time, all or some types. */
  metrics(options?: MetricsOptions): Promise<Metrics> {
    return this.#metrics({}, options);
  }

  /** Returns the metrics of each transform over time. */
  metricsByTransform(options?: MetricsOptions): Promise<TransformMetrics> {
    return this.#metrics({ by: "transform" }, options);
  }

  /** Returns the metrics of a time range, each as one value. */
  metricsSummary(options?: MetricsOptions): Promise<MetricsSummary> {
    return this.#metrics({ aggregated: true }, options);
  }

  /** Returns log lines of the workers and `console.log` lines of the scripts, newest first. */
  async logs({ limit, ...options }: CallOptions & { limit?: number } = {}): Promise<LogLine[]> {
    return (await this.#get<{ lines: LogLine[] }>(["deploy", "logs"], { limit }, options)).lines;
  }

  /** Returns outputs of a sink (or `dlq`), oldest first; by default of the first sink with a topic. */
  async records(
    sink?: string,
    { limit, from, ...options }: RecordOptions = {},
  ): Promise<OutputRecord[]> {
    const query = { sink, limit, from };
    return (await this.#get<{ items: OutputRecord[] }>(["deploy", "records"], query, options))
      .items;
  }

  /** Yields the new records of a sink (or `dlq`), at most 200 per second, until the deployment ends. */
  tail(sink?: string, options: TailOptions = {}): AsyncGenerator<TailRecord, void> {
    return tail(this.#session, this.#path("deploy", "records", "tail"), { sink }, options);
  }

  async #untilStable(deployment: Deployment, options: CallOptions = {}): Promise<Deployment> {
    while (deployment.condition === "RollingOut") {
      await sleep(POLL_MS, options.signal);
      deployment = await this.deployment(options);
    }
    if (deployment.condition === "RolledBack" || deployment.condition === "Failed") {
      const { condition: title, reason: detail } = deployment;
      const named = { type: "", instance: "", request_id: "" };
      const error = new DeployFailed({ ...named, status: 200, title, detail });
      error.deployment = deployment;
      throw error;
    }
    return deployment;
  }

  #metrics<T>(
    query: NonNullable<Call["query"]>,
    { timeRange, types, ...options }: MetricsOptions = {},
  ): Promise<T> {
    const chosen = { time_range: timeRange, metrics: types?.join(","), ...query };
    return this.#get(["deploy", "metrics"], chosen, options);
  }

  #get<T>(
    segments: (string | number)[],
    query: NonNullable<Call["query"]>,
    options?: CallOptions,
  ): Promise<T> {
    return this.#session.send({ method: "GET", path: this.#path(...segments), query }, options);
  }

  #post<T>(
    segments: string[],
    body: unknown,
    { waitMs, ...options }: DeployOptions = {},
  ): Promise<T> {
    const call: Call = {
      method: "POST",
      path: this.#path(...segments),
      body,
      deployWaitMs: waitMs,
    };
    return this.#session.send(call, options);
  }

  /** Sends a POST, and sends it again while the deploy that it began is in progress. */
  #deploy<T>(
    segments: string[],
    body: unknown,
    { waitMs = DEPLOY_WAIT_MS, ...options }: DeployOptions = {},
  ): Promise<T> {
    return this.#post(segments, body, { waitMs, ...options });
  }

  #path(...more: (string | number)[]): string {
    return path("flow", this.id, ...more);
  }

  #uid(name: string): string {
    const transforms = this.pipeline.transforms ?? [];
    const found = transforms.find((transform) => name === transform.name || name === transform.uid);
    if (found) return found.uid;
    const known = transforms.map((transform) => transform.name ?? transform.uid).join(", ");
    throw new RangeError(
      `"${this.name}" has no transform with the name or uid "${name}". It has: ${known || "none"}.`,
    );
  }
}

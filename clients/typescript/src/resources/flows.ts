/** All pipelines of the API key's owner. */

import { Ambiguous, NotFound } from "../errors.ts";
import { cursorItems, linkItems, type ListOptions } from "../pages.ts";
import { type CallOptions, path, type Session } from "../session.ts";
import type {
  FlowConfig,
  NewFlow,
  OverviewItem,
  OverviewPage,
  StreamSample,
  Trial,
} from "../types.ts";
import { Flow } from "./flow.ts";

/** Selects pipelines. */
export interface OverviewQuery {
  /** Only pipelines whose id, name or external id contains this text. */
  q?: string | undefined;
  /** Only pipelines with this tag. */
  tag?: string | undefined;
  /** Only `draft`, `deployed`, `paused`, `failing` or `unreadable` pipelines. */
  state?: string | undefined;
}

/** The sample records of a trial, and the revision with which it compares the results. */
export interface TrialOptions extends CallOptions {
  /** The id of the stored configuration, whose filters' live values are used. */
  id?: string;
  /** Sample records. */
  records?: unknown[];
  /** In place of `records`, records of the stream: `{last: 1000}`. */
  sample?: StreamSample;
  /** The revision whose results are compared with the results of this configuration. */
  against?: "deployed" | number;
  /** `summary` leaves the results of single records out. */
  detail?: "records" | "summary";
}

const FLOW = path("flow");
/** An id of a configuration. A pipeline may have the name of another resource below /flow. */
const ID = /^[0-9a-z]{26}$/;
const OVERVIEW = path("flow", "overview");

/** All pipelines of the API key's owner. */
export class Flows {
  readonly #session: Session;

  constructor(session: Session) {
    this.#session = session;
  }

  /** Creates a configuration. Nothing runs until it is deployed. */
  async create(document: NewFlow, options?: CallOptions): Promise<Flow> {
    const call = { method: "POST", path: FLOW, body: document } as const;
    return this.#bind(await this.#session.send(call, options));
  }

  /** Returns the pipeline with this id. Throws NotFound. */
  async get(id: string, options?: CallOptions): Promise<Flow> {
    const call = { method: "GET", path: path("flow", id) } as const;
    return this.#bind(await this.#session.send(call, options));
  }

  /** Returns the pipeline with this id, external id or name. Throws NotFound and Ambiguous. */
  async find(reference: string, options?: CallOptions): Promise<Flow> {
    if (ID.test(reference)) {
      try {
        return await this.get(reference, options);
      } catch (error) {
        if (!(error instanceof NotFound)) throw error;
      }
    }
    const external = await this.findExternal(reference, options);
    if (external) return external;
    const ids: string[] = [];
    for await (const item of this.overview({ q: reference, ...options })) {
      if (item.name === reference) ids.push(item.id);
    }
    if (ids.length > 1) throw new Ambiguous(reference, ids);
    if (ids[0] === undefined) {
      const detail = `You have no pipeline with the id, external id or name "${reference}".`;
      const title = "Not found";
      throw new NotFound({ type: "", title, status: 404, detail, instance: "", request_id: "" });
    }
    return await this.get(ids[0], options);
  }

  /** Returns the pipeline with this external id; null when there is none. */
  async findExternal(externalId: string, options?: CallOptions): Promise<Flow | null> {
    const call = { method: "GET", path: FLOW, query: { external_id: externalId } } as const;
    const [config] = await this.#session.send<FlowConfig[]>(call, options);
    return config ? this.#bind(config) : null;
  }

  /** Yields the pipelines, newest first. `overview` yields their states and rates too. */
  async *list({ pageSize = 100, ...options }: ListOptions = {}): AsyncGenerator<Flow, void> {
    const configs = linkItems<FlowConfig>(this.#session, FLOW, { limit: pageSize }, options);
    for await (const config of configs) yield this.#bind(config);
  }

  /** Yields the pipelines with their states, rates and errors of the last hour. */
  overview(
    { q, tag, state, pageSize = 100, ...options }: ListOptions & OverviewQuery = {},
  ): AsyncGenerator<OverviewItem, void> {
    return cursorItems(this.#session, OVERVIEW, { q, tag, state, limit: pageSize }, options);
  }

  /** Returns one page of the overview, with the start of the first minute that the counts cover. */
  overviewPage(
    { q, tag, state, limit, cursor, ...options }:
      & CallOptions
      & OverviewQuery
      & { limit?: number; cursor?: string | null } = {},
  ): Promise<OverviewPage> {
    const query = { q, tag, state, limit, cursor };
    return this.#session.send({ method: "GET", path: OVERVIEW, query }, options);
  }

  /** Runs a configuration on sample records, and returns what each transform does to them. */
  validate(
    document: NewFlow,
    { signal, timeoutMs, ...trial }: TrialOptions = {},
  ): Promise<Trial> {
    const call = {
      method: "POST",
      path: path("flow", "validate"),
      body: { ...document, ...trial },
      retriable: false,
    } as const;
    return this.#session.send(call, { signal, timeoutMs });
  }

  #bind(config: FlowConfig): Flow {
    return new Flow(this.#session, config);
  }
}

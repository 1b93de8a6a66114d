/** The dead letters of a pipeline: look at them, and send them through the pipeline again. */

import { cursorItems, type ListOptions } from "../pages.ts";
import { type CallOptions, path, type Session, sleep } from "../session.ts";
import type { DeadLetter, DeadLetterPage, LetterGroup, Redrive, StartedRedrive } from "../types.ts";

const POLL_MS = 500;

/** Selects dead letters by id, or else by error and transform; by default all that were not redriven. */
export interface LetterSelection {
  /** The ids of letters, also of letters that were redriven already. */
  ids?: string[] | undefined;
  /** Only letters with this class of error. */
  error?: string | undefined;
  /** Only letters of this transform (its uid) or sink (its name). */
  transform?: string | undefined;
}

/** The dead letters of a pipeline. */
export class DeadLetters {
  readonly #session: Session;
  readonly #configId: string;

  constructor(session: Session, configId: string) {
    this.#session = session;
    this.#configId = configId;
  }

  /** Yields the dead letters, newest first. */
  list(
    { error, transform, pageSize = 100, ...options }: ListOptions & Omit<LetterSelection, "ids"> =
      {},
  ): AsyncGenerator<DeadLetter, void> {
    return cursorItems(this.#session, this.#path(), { error, transform, limit: pageSize }, options);
  }

  /** Returns one page of dead letters; `list()` yields all of them. */
  page(
    { cursor, limit, error, transform, ...options }:
      & CallOptions
      & Omit<LetterSelection, "ids">
      & { cursor?: string | null; limit?: number } = {},
  ): Promise<DeadLetterPage> {
    const query = { cursor, limit, error, transform };
    return this.#session.send({ method: "GET", path: this.#path(), query }, options);
  }

  /** Returns the counts of the dead letters by class and place of the error. */
  async summary(options?: CallOptions): Promise<LetterGroup[]> {
    const call = { method: "GET", path: this.#path("summary") } as const;
    return (await this.#session.send<{ items: LetterGroup[] }>(call, options)).items;
  }

  /** Returns how many letters a redrive with this selection would send. */
  async count(selection: LetterSelection = {}, options?: CallOptions): Promise<number> {
    const body = { ...bodyOf(selection), dry_run: true };
    const call = { method: "POST", path: this.#path("redrive"), body } as const;
    return (await this.#session.send<{ requested: number }>(call, options)).requested;
  }

  /** Begins a redrive, and returns its id. */
  startRedrive(selection: LetterSelection = {}, options?: CallOptions): Promise<StartedRedrive> {
    const call = { method: "POST", path: this.#path("redrive"), body: bodyOf(selection) } as const;
    return this.#session.send(call, options);
  }

  /** Returns the state of a redrive. */
  redriveState(id: string, options?: CallOptions): Promise<Redrive> {
    return this.#session.send(
      { method: "GET", path: path("flow", this.#configId, "redrives", id) },
      options,
    );
  }

  /** Sends letters through the running revision, and waits for the end. */
  async redrive(
    selection: LetterSelection = {},
    { onProgress, ...options }: CallOptions & { onProgress?: (state: Redrive) => void } = {},
  ): Promise<Redrive> {
    const { id } = await this.startRedrive(selection, options);
    for (;;) {
      const state = await this.redriveState(id, options);
      onProgress?.(state);
      if (state.state !== "running") return state;
      await sleep(POLL_MS, options.signal);
    }
  }

  #path(...more: string[]): string {
    return path("flow", this.#configId, "dead-letters", ...more);
  }
}

/** Returns the body that selects letters. */
function bodyOf({ ids, error, transform }: LetterSelection): Record<string, unknown> {
  if (ids) return { ids };
  if (error === undefined && transform === undefined) return { all: true };
  return { error, transform_uid: transform };
}

import type { TailRecord } from "headwater-client";

/** How many records a tail keeps. Older ones are dropped. */
export const MAX_RECORDS = 50_000;

/**
 * How many records `advance` shows at least. A batch of new rows is spread over some frames, which
 * keeps each one short.
 */
const MIN_ROWS_PER_FRAME = 4;
/** The part of the waiting records that `advance` shows, so that many records don't wait long. */
const SHOWN_PART = 1 / 6;

/** A record of a tail, with a sequence number that is unique on the page. */
export type Row = TailRecord & { sequence: number };

/** The newest records of a tail, and how many others there were. It tells listeners about each change. */
export class TailBuffer {
  /** The oldest first. The array grows and shrinks in place. */
  rows: Row[] = [];
  /** A number that grows with each change. */
  version = 0;
  #skipped = 0;
  #missed = 0;
  #received = 0;
  /** The records that have arrived and are not in `rows` yet. */
  #waiting: Row[] = [];
  /** The newest offset of each partition. */
  readonly #newest = new Map<string, number>();
  /** Partitions that had no record yet on the present connection. */
  #awaitFirstRecord = new Set<string>();
  readonly #listeners = new Set<() => void>();

  /** Calls a function after each change, until the returned function is called. */
  readonly subscribe = (listener: () => void): () => void => {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  };

  /** Adds records that have arrived. `advance` shows them. */
  add(records: TailRecord[]) {
    for (const record of records) {
      const partition = `${record.of} ${record.partition}`;
      if (this.#awaitFirstRecord.delete(partition)) {
        this.#missed += Math.max(0, record.offset - this.#newest.get(partition)! - 1);
      }
      this.#newest.set(partition, record.offset);
      this.#waiting.push(Object.assign(record, { sequence: this.#received++ }));
    }
  }

  /** Moves some of the records that have arrived to `rows`. Returns whether further ones wait. */
  advance(): boolean {
    const count = Math.max(MIN_ROWS_PER_FRAME, Math.ceil(this.#waiting.length * SHOWN_PART));
    this.rows.push(...this.#waiting.splice(0, count));
    if (this.rows.length > MAX_RECORDS) this.rows.splice(0, this.rows.length - MAX_RECORDS);
    this.#notify();
    return this.#waiting.length > 0;
  }

  /** Counts records that the server has left out. */
  skip(count: number) {
    this.#skipped += count;
  }

  /** Prepares to count the records that were missed before this connection. */
  onConnected() {
    this.#awaitFirstRecord = new Set(this.#newest.keys());
  }

  /** The number of records that were ever added. */
  get received() {
    return this.#received;
  }

  /** How many records the server has left out. */
  get skipped() {
    return this.#skipped;
  }

  /** How many records were appended while there was no connection, as far as the offsets tell. */
  get missed() {
    return this.#missed;
  }

  clear() {
    this.rows = [];
    this.#waiting = [];
    this.#skipped = this.#missed = 0;
    this.#notify();
  }

  #notify() {
    this.version += 1;
    for (const each of this.#listeners) each();
  }
}

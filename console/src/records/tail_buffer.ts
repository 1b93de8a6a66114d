import type { TailRecord } from "headwater-client";

/** The newest records that a tail keeps. */
export const MOST_RECORDS = 50_000;

/** A record of the page, with a number that no other one has. */
export type Row = TailRecord & { row: number };

/** What a tail has shown, and what it has not. */
export class TailBuffer {
  /** The oldest first. The array grows and shrinks in place. */
  rows: Row[] = [];
  /** How many records the server has left out. */
  skipped = 0;
  /** How many records were appended while there was no connection, as far as the offsets tell. */
  missed = 0;
  #count = 0;
  /** The newest offset of each partition. */
  readonly #newest = new Map<string, number>();
  /** Partitions that had no record yet on the present connection. */
  #resumed = new Set<string>();

  add(records: TailRecord[]) {
    for (const record of records) {
      const partition = `${record.of} ${record.partition}`;
      if (this.#resumed.delete(partition)) {
        this.missed += Math.max(0, record.offset - this.#newest.get(partition)! - 1);
      }
      this.#newest.set(partition, record.offset);
      this.rows.push(Object.assign(record, { row: this.#count++ }));
    }
    if (this.rows.length > MOST_RECORDS) this.rows.splice(0, this.rows.length - MOST_RECORDS);
  }

  /** A new connection is open. */
  resume() {
    this.#resumed = new Set(this.#newest.keys());
  }

  clear() {
    this.rows = [];
    this.skipped = this.missed = 0;
  }
}

import { stringifyJson, type TailRecord } from "headwater-client";

/** The value of a record as one line. */
export function recordText(item: Pick<TailRecord, "record" | "record_base64">): string {
  return item.record_base64 ? `base64 ${item.record_base64}` : stringifyJson(item.record) ?? "";
}

/** The value of a record, whatever it is. */
export function recordValue(item: Pick<TailRecord, "record" | "record_base64">): unknown {
  return item.record_base64 ?? item.record;
}

/** Builds the parts of a configuration. */

import type { NewSink, NewSource, NewTransform } from "./types.ts";

/** Returns a filter that keeps the records whose selected value is in its set. */
export function setFilter(
  filterExpr: string,
  members: { values?: string[]; name?: string; uid?: string } = {},
): NewTransform {
  const { values, ...named } = members;
  const initial = values ? { set_values: values } : {};
  return { type: "redis_set_filter", filter_expr: filterExpr, ...initial, ...named };
}

/** Returns a transform that runs a script in JavaScript or TypeScript. */
export function v8(script: string, members: { name?: string; uid?: string } = {}): NewTransform {
  return { type: "v8", script, ...members };
}

/** Returns a sink with a Kafka topic of its own. */
export function kafka(
  name: string,
  members: Omit<Extract<NewSink, { type: "kafka" }>, "type" | "name" | "uid"> = {},
): NewSink {
  return { type: "kafka", name, ...members };
}

/** Returns a sink whose records are ticks of the installation's token prices. */
export function prices(name: string): NewSink {
  return { type: "prices", name };
}

/** Returns a source. */
export function source(
  chain: string,
  entity: string,
  members: Omit<NewSource, "chain" | "entity"> = {},
): NewSource {
  return { chain, entity, ...members };
}

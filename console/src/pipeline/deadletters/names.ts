import type { Flow } from "headwater-client";

/** Returns the name under which people know a transform or a sink. */
export function nameOf(flow: Flow, uid: string): string {
  const transforms = flow.pipeline.transforms ?? [];
  const index = transforms.findIndex((transform) => transform.uid === uid);
  const transform = transforms[index];
  if (!transform) {
    return flow.pipeline.sinks.some((sink) => sink.name === uid) ? `sink ${uid}` : uid;
  }
  return transform.name ?? `${transform.type === "v8" ? "script" : "filter"} ${index + 1}`;
}

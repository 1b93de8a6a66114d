import type { Flow, NewFlow, NewSink, NewSource, NewTransform, Transform } from "headwater-client";

/** A transform of the editor. */
export interface EditedTransform {
  /** Names the transform on the page; the uid of a stored one. */
  key: string;
  transform: NewTransform;
  /** Left out of trials; saved all the same. */
  isOff: boolean;
}

/** The configuration as it is in the editor. */
export interface EditedDocument {
  name: string;
  description: string;
  tags: string[];
  source: NewSource;
  transforms: EditedTransform[];
  sinks: NewSink[];
}

/** Returns the stored configuration of a pipeline in the form of the editor. */
export function documentOf(flow: Flow): EditedDocument {
  const { source, transforms = [], sinks } = flow.pipeline;
  const { name, description, tags } = flow.config;
  return {
    name,
    description,
    tags,
    source,
    transforms: transforms.map((transform) => ({
      key: transform.uid,
      transform: editable(transform),
      isOff: false,
    })),
    sinks,
  };
}

/** Returns the body of a request that saves or tries the document. */
export function bodyOf(
  flow: Flow,
  document: EditedDocument,
  transforms = document.transforms,
): NewFlow {
  const { parallelism, delivery } = flow.pipeline;
  const { external_id } = flow.config;
  return {
    name: document.name,
    description: document.description,
    tags: document.tags,
    ...(external_id ? { external_id } : {}),
    pipeline_config: {
      source: document.source,
      transforms: transforms.map(({ transform }) => transform),
      sinks: document.sinks,
      ...(parallelism === undefined ? {} : { parallelism }),
      ...(delivery === undefined ? {} : { delivery }),
    },
  };
}

/** Returns the code of a transform: its script, or its expression. */
export function codeOf(transform: NewTransform): string {
  return transform.type === "v8" ? transform.script : transform.filter_expr;
}

export function withCode(transform: NewTransform, code: string): NewTransform {
  return transform.type === "v8"
    ? { ...transform, script: code }
    : { ...transform, filter_expr: code };
}

export function labelOf(transform: NewTransform, index: number): string {
  return transform.name || `${transform.type === "v8" ? "script" : "filter"} ${index + 1}`;
}

function editable(transform: Transform): NewTransform {
  const { name, ...rest } = transform;
  return name ? { ...rest, name } : rest;
}

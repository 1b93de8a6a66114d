import type { NewTransform } from "headwater-client";

import { type EditedDocument, type EditedTransform, withCode } from "./document.ts";

/** A change of the document. */
export type Change =
  | { kind: "set"; members: Partial<Omit<EditedDocument, "transforms">> }
  | { kind: "code"; key: string; code: string }
  | { kind: "name"; key: string; name: string }
  | { kind: "off"; key: string; isOff: boolean }
  | { kind: "move"; key: string; by: -1 | 1 }
  | { kind: "remove"; key: string }
  | { kind: "add"; key: string; type: NewTransform["type"] }
  | { kind: "reset"; document: EditedDocument };

const FIRST_SCRIPT = `function process(record) {
  return record;
}
`;
const FIRST_EXPRESSION = "root = this.address";

/** Returns the changed document. */
export function changed(document: EditedDocument, change: Change): EditedDocument {
  const { transforms } = document;
  const mapped = (key: string, work: (each: EditedTransform) => EditedTransform) => ({
    ...document,
    transforms: transforms.map((each) => each.key === key ? work(each) : each),
  });
  switch (change.kind) {
    case "set":
      return { ...document, ...change.members };
    case "code":
      return mapped(
        change.key,
        (each) => ({ ...each, transform: withCode(each.transform, change.code) }),
      );
    case "name":
      return mapped(
        change.key,
        (each) => ({ ...each, transform: renamed(each.transform, change.name) }),
      );
    case "off":
      return mapped(change.key, (each) => ({ ...each, isOff: change.isOff }));
    case "remove":
      return { ...document, transforms: transforms.filter(({ key }) => key !== change.key) };
    case "add":
      return {
        ...document,
        transforms: [...transforms, {
          key: change.key,
          transform: empty(change.type),
          isOff: false,
        }],
      };
    case "move":
      return { ...document, transforms: moved(transforms, change.key, change.by) };
    case "reset":
      return change.document;
  }
}

function renamed({ name: _, ...transform }: NewTransform, name: string): NewTransform {
  return name ? { ...transform, name } : transform;
}

function empty(type: NewTransform["type"]): NewTransform {
  return type === "v8" ? { type, script: FIRST_SCRIPT } : { type, filter_expr: FIRST_EXPRESSION };
}

function moved(transforms: EditedTransform[], key: string, by: -1 | 1): EditedTransform[] {
  const from = transforms.findIndex((each) => each.key === key);
  const to = from + by;
  const [one, other] = [transforms[from], transforms[to]];
  return one && other ? transforms.with(from, other).with(to, one) : transforms;
}

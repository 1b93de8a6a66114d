import type {
  Completion,
  CompletionContext,
  CompletionResult,
  CompletionSource,
} from "@codemirror/autocomplete";

const FLOW: Completion[] = [
  {
    label: "contains",
    type: "function",
    detail: "(dataset, values)",
    info: "Whether any of the values is in the dataset.",
  },
];
const NAMES: Completion[] = [
  { label: "record", type: "variable", info: "A record of the stream." },
  { label: "flow", type: "namespace", info: "Lookups in datasets." },
  { label: "console", type: "namespace", info: "console.log writes to the log of the worker." },
];
const PATH = /(?:\w+\.)+\w*/;

/** Completes the members of a record of the stream, of `flow`, and the names that a script has. */
export function completions(example: () => unknown, isScript: boolean): CompletionSource {
  return (context: CompletionContext): CompletionResult | null => {
    const path = context.matchBefore(PATH);
    if (path) {
      const names = path.text.split(".");
      const typed = names.pop() ?? "";
      const from = context.pos - typed.length;
      if (names[0] === "flow") return { from, options: FLOW };
      const members = membersAt(example(), names.slice(1));
      return members.length ? { from, options: members } : null;
    }
    const word = context.matchBefore(/\w+/);
    if (!word && !context.explicit) return null;
    const names = isScript ? NAMES : [{ label: "root = this.", type: "keyword" }];
    return { from: word?.from ?? context.pos, options: names };
  };
}

function membersAt(value: unknown, names: string[]): Completion[] {
  const found = names.reduce<unknown>((at, name) => isObject(at) ? at[name] : undefined, value);
  if (!isObject(found)) return [];
  return Object.entries(found).map(([label, member]) => ({
    label,
    type: "property",
    detail: typeof member === "object"
      ? (Array.isArray(member) ? "array" : "object")
      : String(member).slice(0, 40),
  }));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null;
}

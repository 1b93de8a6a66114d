/** JSON in which integers of any size keep all digits: those beyond 2^53 - 1 are BigInts. */

const LONG_INTEGER = /\d{16}/;
const INTEGER = /^-?\d+$/;

/** `JSON.rawJSON` and the third argument of a reviver, which TypeScript's library does not describe. */
const native = JSON as unknown as {
  rawJSON(text: string): unknown;
  parse(
    text: string,
    reviver: (name: string, value: unknown, context: { source?: string }) => unknown,
  ): unknown;
};

/** Parses JSON. An integer that a number can't hold becomes a BigInt. */
export function parseJson(text: string): unknown {
  return LONG_INTEGER.test(text) ? native.parse(text, keepDigits) : JSON.parse(text);
}

/** Writes JSON. BigInts become integers. */
export function stringifyJson(value: unknown, indent?: number): string {
  return JSON.stringify(
    value,
    (_, member) => typeof member === "bigint" ? native.rawJSON(String(member)) : member,
    indent,
  );
}

function keepDigits(_: string, value: unknown, { source }: { source?: string }): unknown {
  const isRounded = typeof value === "number" && !Number.isSafeInteger(value);
  return isRounded && source !== undefined && INTEGER.test(source) ? BigInt(source) : value;
}

/** Values out of pasted text and files. */

const MOST_CHARACTERS = 1_024;
const PREVIEW_BYTES = 65_536;
const PREVIEW_ROWS = 20;

/** What a pasted text has. */
export interface Pasted {
  /** Trimmed and lower-case, each once. */
  values: string[];
  doubles: number;
  /** Values that are too long. */
  bad: string[];
}

/** Reads values that are separated by white space, commas or semicolons. */
export function parsePasted(text: string): Pasted {
  const all = text.split(/[\s,;]+/).map(clean).filter((value) => value !== "");
  const good = all.filter((value) => value.length <= MOST_CHARACTERS);
  const values = [...new Set(good)];
  return {
    values,
    doubles: good.length - values.length,
    bad: all.filter((value) => value.length > MOST_CHARACTERS),
  };
}

/** How the lines of a file are read. */
export interface FileShape {
  kind: "json lines" | "csv" | "text";
  /** The columns: names of members, or the heads of a CSV file. */
  columns: string[];
  /** Whether the first line names the columns. */
  hasHead: boolean;
  /** The first rows, for a preview. */
  rows: string[][];
}

/** Looks at the beginning of a file. */
export async function shapeOf(file: File): Promise<FileShape> {
  const lines = (await file.slice(0, PREVIEW_BYTES).text()).split(/\r?\n/).filter((line) =>
    line.trim() !== ""
  ).slice(0, PREVIEW_ROWS + 1);
  const first = lines[0] ?? "";
  if (first.startsWith("{")) {
    const columns = membersOf(first);
    return {
      kind: "json lines",
      columns,
      hasHead: false,
      rows: lines.map((line) => columns.map((name) => memberOf(line, name))),
    };
  }
  const heads = cellsOf(first);
  if (heads.length === 1) {
    return { kind: "text", columns: ["value"], hasHead: false, rows: lines.map((line) => [line]) };
  }
  const hasHead = !heads.some((head) => /^0x|\d{4}/.test(head));
  const columns = hasHead ? heads : heads.map((_, index) => `column ${index + 1}`);
  return { kind: "csv", columns, hasHead, rows: lines.slice(hasHead ? 1 : 0).map(cellsOf) };
}

/** Yields the values of one column; the file is read as a stream. `onBytes` gets how far it is. */
export async function* valuesOf(
  file: File,
  { kind, columns, hasHead }: FileShape,
  column: string,
  onBytes: (bytes: number) => void,
): AsyncGenerator<string, void> {
  const index = columns.indexOf(column);
  let isHead = hasHead;
  for await (const line of linesOf(file, onBytes)) {
    if (isHead) {
      isHead = false;
      continue;
    }
    const text = kind === "text"
      ? line
      : kind === "csv"
      ? cellsOf(line)[index] ?? ""
      : memberOf(line, column);
    const value = clean(text);
    if (value !== "") yield value;
  }
}

async function* linesOf(
  file: File,
  onBytes: (bytes: number) => void,
): AsyncGenerator<string, void> {
  const reader = file.stream().getReader();
  const decoder = new TextDecoder();
  let [rest, bytes] = ["", 0];
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    bytes += part.value.byteLength;
    onBytes(bytes);
    const lines = (rest + decoder.decode(part.value, { stream: true })).split(/\r?\n/);
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest) yield rest;
}

/** Returns the cells of a CSV line; quotes may enclose a cell. */
function cellsOf(line: string): string[] {
  return Array.from(
    line.matchAll(/(?:^|[,;\t])(?:"((?:[^"]|"")*)"|([^,;\t]*))/g),
    ([, quoted, plain]) => quoted?.replaceAll('""', '"') ?? plain ?? "",
  );
}

function membersOf(line: string): string[] {
  try {
    return Object.keys(JSON.parse(line));
  } catch (error) {
    throw new Error(
      "The first line of the file is not a whole JSON object. Each line must be one.",
      {
        cause: error,
      },
    );
  }
}

function memberOf(line: string, name: string): string {
  const value = line.trim() === "" ? undefined : JSON.parse(line)[name];
  return value === undefined || value === null ? "" : String(value);
}

function clean(text: string): string {
  return text.trim().toLowerCase();
}

/** Values out of pasted text and files. */

const MAX_CHARACTERS = 1_024;
const PREVIEW_BYTES = 65_536;
const PREVIEW_ROWS = 20;

/** The values of a pasted text. */
export interface Pasted {
  /** Trimmed and lower-case, each once. */
  values: string[];
  duplicates: number;
  tooLong: string[];
}

/** Reads values that are separated by white space, commas or semicolons. */
export function parsePasted(text: string): Pasted {
  const all = text.split(/[\s,;]+/).map(clean).filter((value) => value !== "");
  const good = all.filter((value) => value.length <= MAX_CHARACTERS);
  const values = [...new Set(good)];
  return {
    values,
    duplicates: good.length - values.length,
    tooLong: all.filter((value) => value.length > MAX_CHARACTERS),
  };
}

/** How the lines of a file are read. */
export interface FileShape {
  kind: "json lines" | "csv" | "text";
  /** The columns: names of members, or the header of a CSV file. */
  columns: string[];
  /** Whether the first line names the columns. */
  hasHeader: boolean;
  /** What separates the cells of a CSV file. */
  separator: string;
  /** The first rows, for a preview. */
  rows: string[][];
}

/** Detects the format and the columns of a file from its first 64 KiB. */
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
      hasHeader: false,
      separator: "",
      rows: lines.map((line) => columns.map((name) => memberOf(line, name))),
    };
  }
  const separator = separatorOf(first);
  const cells = cellsOf(first, separator);
  if (cells.length === 1 && !/\.csv$/i.test(file.name)) {
    return {
      kind: "text",
      columns: ["value"],
      hasHeader: false,
      separator,
      rows: lines.map((line) => [line]),
    };
  }
  const hasHeader = !cells.some((cell) => /^0x|\d{4}/.test(cell));
  const columns = hasHeader ? cells : cells.map((_, index) => `column ${index + 1}`);
  const rows = lines.slice(hasHeader ? 1 : 0).map((line) => cellsOf(line, separator));
  return { kind: "csv", columns, hasHeader, separator, rows };
}

/** The state of a file that is read as a stream. */
export interface FileReading {
  /** The number of bytes read so far. */
  bytes: number;
  /** Called for each value that is left out because it is too long. */
  onTooLong: () => void;
}

/** Yields the values of one column. The file is read as a stream. */
export async function* valuesOf(
  file: File,
  { kind, columns, hasHeader, separator }: FileShape,
  column: string,
  reading: FileReading,
): AsyncGenerator<string, void> {
  const index = columns.indexOf(column);
  let isHeader = hasHeader;
  for await (const line of linesOf(file, reading)) {
    if (isHeader) {
      isHeader = false;
      continue;
    }
    const text = kind === "text"
      ? line
      : kind === "csv"
      ? cellsOf(line, separator)[index] ?? ""
      : memberOf(line, column);
    const value = clean(text);
    if (value.length > MAX_CHARACTERS) reading.onTooLong();
    else if (value !== "") yield value;
  }
}

async function* linesOf(file: File, reading: FileReading): AsyncGenerator<string, void> {
  const reader = file.stream().getReader();
  const decoder = new TextDecoder();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    await nextTask();
    reading.bytes += part.value.byteLength;
    const lines = (rest + decoder.decode(part.value, { stream: true })).split(/\r?\n/);
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest) yield rest;
}

/** Lets the page handle its events: a file that is in memory already is read without a pause. */
function nextTask(): Promise<void> {
  return new Promise((resolve) => {
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(undefined);
  });
}

const SEPARATORS = [",", ";", "\t"];
const CELLS = new Map(
  SEPARATORS.map((
    each,
  ) => [each, new RegExp(`(?:^|${each})(?:"((?:[^"]|"")*)"|([^${each}]*))`, "g")]),
);

/** Returns the separator that the first line of a CSV file has most often. */
function separatorOf(line: string): string {
  const counts = SEPARATORS.map((each) => line.split(each).length);
  return SEPARATORS[counts.indexOf(Math.max(...counts))]!;
}

/** Returns the cells of a CSV line; quotes may enclose a cell. */
function cellsOf(line: string, separator: string): string[] {
  return Array.from(
    line.matchAll(CELLS.get(separator)!),
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

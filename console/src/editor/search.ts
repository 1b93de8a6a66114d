/** On which records the editor tries the transforms, as it is in the address of the page. */
export interface EditSearch {
  /** The dead letters with this error, in place of the stream's last records. */
  error?: string;
  /** The transform that is open, and whose letters are tried. */
  transform?: string;
}

export function readEdit(search: Record<string, unknown>): EditSearch {
  return {
    ...(typeof search["error"] === "string" ? { error: search["error"] } : {}),
    ...(search["transform"] === undefined ? {} : { transform: String(search["transform"]) }),
  };
}

/** Writes request bodies of any size to the origin private file system (OPFS) of the browser. */

const PREFIX = "headwater-values-";
/** A file older than this was left behind by a page that was closed. */
const LEFT_BEHIND_AFTER_MS = 86_400_000;
const BLOCK_VALUES = 20_000;

/** A request body in a file, and the function that removes the file. */
export interface RequestFile {
  body: Blob;
  remove: () => Promise<void>;
}

/**
 * Writes `{"values": […]}` to a file, so that no page or process has it in memory as a whole.
 *
 * Returns undefined where there is no OPFS, for example outside of a secure context.
 */
export async function requestFile(
  values: AsyncIterable<string>,
): Promise<RequestFile | undefined> {
  const directory = await navigator.storage?.getDirectory().catch(() => undefined);
  if (!directory) return undefined;
  await removeLeftBehind(directory);
  const name = PREFIX + crypto.randomUUID();
  const remove = () => directory.removeEntry(name);
  const handle = await directory.getFileHandle(name, { create: true });
  try {
    const file = await handle.createWritable();
    for await (const text of bodyOf(values)) await file.write(text);
    await file.close();
    return { body: await handle.getFile(), remove };
  } catch (error) {
    await remove().catch(() => undefined);
    throw error;
  }
}

/** Yields the text of the body in blocks. */
export async function* bodyOf(values: AsyncIterable<string>): AsyncGenerator<string, void> {
  let [text, count] = ['{"values":[', 0];
  for await (const value of values) {
    text += (count === 0 ? "" : ",") + JSON.stringify(value);
    if (++count % BLOCK_VALUES > 0) continue;
    yield text;
    text = "";
  }
  yield text + "]}";
}

async function removeLeftBehind(directory: FileSystemDirectoryHandle): Promise<void> {
  for await (const [name, handle] of directory.entries()) {
    if (!name.startsWith(PREFIX) || !(handle instanceof FileSystemFileHandle)) continue;
    const { lastModified } = await handle.getFile();
    if (Date.now() - lastModified > LEFT_BEHIND_AFTER_MS) await directory.removeEntry(name);
  }
}

/** Writes the types of the API's schemas: `generate.ts docs/reference/openapi.json src/schema.ts`. */

import openapiTS, { astToString, type OpenAPI3 } from "openapi-typescript";

const [source, target] = Deno.args;
if (!source || !target) throw new Error("usage: generate.ts OPENAPI_JSON SCHEMA_TS");

const withoutTitles = (name: string, value: unknown) =>
  name === "title" && typeof value === "string" ? undefined : value;
const { openapi, components } = JSON.parse(
  await Deno.readTextFile(source),
  withoutTitles,
) as OpenAPI3;
const types = await openapiTS(
  {
    openapi,
    info: { title: "", version: "" },
    paths: {},
    components: { schemas: components?.schemas ?? {} },
  },
  { defaultNonNullable: false },
);
const head = "/** The schemas of the API. `deno task generate` writes this file. */\n\n";
await Deno.writeTextFile(target, head + astToString(types));

import { CircleDollarSign, Database, KeyRound, Waves, Workflow } from "lucide-react";

/** The main pages: the links of the rail, and the first results of the search. `g` and a key open one. */
export const PAGES = [
  { to: "/pipelines", label: "Pipelines", Icon: Workflow, key: "p" },
  { to: "/streams", label: "Streams", Icon: Waves, key: "s" },
  { to: "/datasets", label: "Datasets", Icon: Database, key: "d" },
  { to: "/prices", label: "Prices", Icon: CircleDollarSign, key: "r" },
  { to: "/keys", label: "Keys", Icon: KeyRound, key: "k" },
] as const;

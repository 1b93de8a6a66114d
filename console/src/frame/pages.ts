import { CircleDollarSign, Database, KeyRound, Waves, Workflow } from "lucide-react";

/** The main pages: the links of the rail, and the first results of the search. */
export const PAGES = [
  { to: "/pipelines", label: "Pipelines", Icon: Workflow },
  { to: "/streams", label: "Streams", Icon: Waves },
  { to: "/datasets", label: "Datasets", Icon: Database },
  { to: "/prices", label: "Prices", Icon: CircleDollarSign },
  { to: "/keys", label: "Keys", Icon: KeyRound },
] as const;

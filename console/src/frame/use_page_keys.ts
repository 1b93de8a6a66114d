import { useWindowEvent } from "@mantine/hooks";
import { spotlight } from "@mantine/spotlight";
import { useNavigate } from "@tanstack/react-router";
import { useRef } from "react";

import { PAGE_SEARCH } from "../common/PageSearch.tsx";
import { PAGES } from "./pages.ts";

/** The second key of two must follow the first one within this time. */
const WITHIN_MS = 1_500;
/** Where keys are text, or belong to a dialog. */
const OTHERS =
  "input:not([type=checkbox], [type=radio]), textarea, select, [contenteditable=true], [role=dialog]";

/** The keys that work on every page: `g` and a letter open a page, `/` searches, `?` shows all keys. */
export function usePageKeys(showHelp: () => void) {
  const navigate = useNavigate();
  const firstAt = useRef(-Infinity);
  useWindowEvent("keydown", (event) => {
    const isOther = event.target instanceof Element && event.target.closest(OTHERS);
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || isOther) return;
    const isSecond = event.timeStamp - firstAt.current < WITHIN_MS;
    if (event.key !== "Shift") firstAt.current = event.key === "g" ? event.timeStamp : -Infinity;
    const page = isSecond && PAGES.find(({ key }) => key === event.key);
    if (page) void navigate({ to: page.to });
    else if (event.key === "/") search();
    else if (event.key === "?") showHelp();
    else return;
    event.preventDefault();
  });
}

/** Reaches the search of the page; on a page without one, the search of the console. */
function search() {
  const field = document.getElementById(PAGE_SEARCH);
  if (field) field.focus();
  else spotlight.open();
}

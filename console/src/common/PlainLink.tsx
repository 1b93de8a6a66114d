import { useRouter } from "@tanstack/react-router";
import type { AnchorHTMLAttributes, MouseEvent } from "react";

/** A link to a path of the console for long lists: a plain element, which costs less than a component of the library. */
export function PlainLink(
  { path, className = "plain-link", ...rest }:
    & { path: string }
    & AnchorHTMLAttributes<HTMLAnchorElement>,
) {
  const { basepath, history } = useRouter();
  const href = basepath + path;
  const follow = (event: MouseEvent) => {
    const { button, metaKey, ctrlKey, shiftKey, altKey } = event;
    if (button !== 0 || metaKey || ctrlKey || shiftKey || altKey) return;
    event.preventDefault();
    history.push(href);
  };
  return <a {...rest} className={`mantine-focus-auto ${className}`} href={href} onClick={follow} />;
}

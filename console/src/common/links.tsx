import { Anchor, type AnchorProps, Button, type ButtonProps } from "@mantine/core";
import { createLink } from "@tanstack/react-router";
import type { AnchorHTMLAttributes } from "react";

type AnchorAttributes = Omit<AnchorHTMLAttributes<HTMLAnchorElement>, "color">;

/** Components of the library as links to pages of the console. */
export const LinkAnchor = createLink((props: AnchorProps & AnchorAttributes) => (
  <Anchor {...props} />
));

export const LinkButton = createLink((props: ButtonProps & AnchorAttributes) => (
  <Button component="a" {...props} />
));

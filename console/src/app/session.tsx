import { createContext, type ReactNode, useCallback, useContext, useMemo, useState } from "react";
import { Headwater } from "headwater-client";

import { code } from "../signin/code.ts";
import { queryClient } from "./query_client.ts";

const UNAUTHENTICATED = 401;
const KEY_NAME = "headwater-key";
/** Set while the key came from a one-time code: such a key is revoked when its user signs out. */
const FROM_CODE_NAME = "headwater-key-from-code";

interface Session {
  /** The client with the key of this tab; undefined before signing in. It signs out when the server refuses the key. */
  hw: Headwater | undefined;
  /** Why the last session ended; empty when it was the user's wish. */
  notice: string;
  signIn: (key: string, isFromCode?: boolean) => void;
  signOut: (notice?: string) => void;
}

const SessionContext = createContext<Session | undefined>(undefined);

/** Keeps the API key for as long as the tab is open. */
export function SessionProvider({ children }: { children: ReactNode }) {
  const [key, setKey] = useState(() => code ? "" : sessionStorage.getItem(KEY_NAME) ?? "");
  const [notice, setNotice] = useState("");

  const signIn = useCallback((entered: string, isFromCode = false) => {
    sessionStorage.setItem(KEY_NAME, entered);
    if (isFromCode) sessionStorage.setItem(FROM_CODE_NAME, "true");
    setNotice("");
    setKey(entered);
  }, []);
  const signOut = useCallback((why = "") => {
    const isFromCode = sessionStorage.getItem(FROM_CODE_NAME) !== null;
    const ended = sessionStorage.getItem(KEY_NAME);
    if (isFromCode && ended && !why) new Headwater({ key: ended }).signOut().catch(() => undefined);
    sessionStorage.removeItem(KEY_NAME);
    sessionStorage.removeItem(FROM_CODE_NAME);
    queryClient.clear();
    setNotice(why);
    setKey("");
  }, []);
  const hw = useMemo(() => {
    if (!key) return undefined;
    const send: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (response.status === UNAUTHENTICATED && key === sessionStorage.getItem(KEY_NAME)) {
        signOut("The API key is no longer valid: it was revoked, or has expired.");
      }
      return response;
    };
    return new Headwater({ key, retries: 1, fetch: send });
  }, [key, signOut]);
  const session = useMemo(() => ({ hw, notice, signIn, signOut }), [hw, notice, signIn, signOut]);
  return <SessionContext value={session}>{children}</SessionContext>;
}

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (!session) throw new Error("There is no SessionProvider.");
  return session;
}

/** Returns the client. Only pages behind the sign-in use it. */
export function useHeadwater(): Headwater {
  const { hw } = useSession();
  if (!hw) throw new Error("Nobody is signed in.");
  return hw;
}

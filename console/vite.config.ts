import { fileURLToPath } from "node:url";

import react from "@vitejs/plugin-react";
import { defineConfig } from "vite";

/** The server replaces this text by a new nonce in every response. */
const NONCE = "__NONCE__";

export default defineConfig({
  base: "/console/",
  plugins: [react()],
  resolve: {
    alias: {
      "headwater-client": fileURLToPath(
        new URL("../clients/typescript/src/index.ts", import.meta.url),
      ),
    },
  },
  html: { cspNonce: NONCE },
  build: {
    outDir: "../headwater/api/console_files",
    emptyOutDir: true,
    target: "es2023",
    assetsInlineLimit: 0,
    chunkSizeWarningLimit: 1000,
  },
  server: { proxy: { "/api": "http://127.0.0.1:8080", "/readyz": "http://127.0.0.1:8080" } },
});

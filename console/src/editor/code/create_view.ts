import {
  autocompletion,
  closeBrackets,
  closeBracketsKeymap,
  completionKeymap,
} from "@codemirror/autocomplete";
import { defaultKeymap, history, historyKeymap, indentWithTab } from "@codemirror/commands";
import { javascript, javascriptLanguage } from "@codemirror/lang-javascript";
import { bracketMatching, indentOnInput, syntaxHighlighting } from "@codemirror/language";
import { type Diagnostic, lintGutter, setDiagnostics } from "@codemirror/lint";
import { EditorState } from "@codemirror/state";
import {
  drawSelection,
  EditorView,
  highlightActiveLine,
  keymap,
  lineNumbers,
} from "@codemirror/view";

import { nonce } from "../../app/nonce.ts";
import type { CodeProblem } from "../trial/problems.ts";
import { completions } from "./completions.ts";
import { colorsOf, themeOf } from "./theme.ts";

/** What an editor is created from. */
export interface ViewOptions {
  parent: HTMLElement;
  label: string;
  code: string;
  isScript: boolean;
  isDark: boolean;
  /** Returns a record of the stream, whose members are completed. */
  example: () => unknown;
  onChange: (code: string) => void;
}

/** An editor of code. */
export interface CodeView {
  setCode: (code: string) => void;
  setProblems: (problems: CodeProblem[]) => void;
  destroy: () => void;
}

export function createView(
  { parent, label, code, isScript, isDark, example, onChange }: ViewOptions,
): CodeView {
  const view = new EditorView({
    parent,
    state: EditorState.create({
      doc: code,
      extensions: [
        EditorView.cspNonce.of(nonce),
        EditorView.contentAttributes.of({ "aria-label": label, tabindex: "0" }),
        lineNumbers(),
        history(),
        drawSelection(),
        indentOnInput(),
        bracketMatching(),
        closeBrackets(),
        highlightActiveLine(),
        lintGutter(),
        autocompletion(),
        javascript({ typescript: true }),
        javascriptLanguage.data.of({ autocomplete: completions(example, isScript) }),
        syntaxHighlighting(colorsOf(isDark)),
        themeOf(isDark, isScript),
        keymap.of([
          ...closeBracketsKeymap,
          ...defaultKeymap,
          ...historyKeymap,
          ...completionKeymap,
          indentWithTab,
        ]),
        EditorView.updateListener.of((update) => {
          if (update.docChanged) onChange(update.state.doc.toString());
        }),
      ],
    }),
  });
  return {
    setCode: (text) => {
      const { doc } = view.state;
      if (doc.toString() !== text) {
        view.dispatch({ changes: { from: 0, to: doc.length, insert: text } });
      }
    },
    setProblems: (problems) => {
      view.dispatch(
        setDiagnostics(view.state, problems.map((problem) => diagnostic(view.state, problem))),
      );
    },
    destroy: () => view.destroy(),
  };
}

function diagnostic(
  { doc }: EditorState,
  { line, column, message, isWarning }: CodeProblem,
): Diagnostic {
  const at = doc.line(Math.min(Math.max(line ?? 1, 1), doc.lines));
  const from = Math.min(at.from + Math.max((column ?? 1) - 1, 0), at.to);
  return { from, to: at.to, severity: isWarning ? "warning" : "error", message };
}

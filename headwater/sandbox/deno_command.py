"""The command line with which Deno runs the harness."""

import base64
import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import deno

from headwater.errors import SandboxFailed

HEAP_MB = 128
_HARNESS = Path(__file__).with_name("harness")
_INDENT_OR_COMMENT = re.compile(r"^ *(//.*)?", re.MULTILINE)
_SOURCES = ("realm_setup", "stacks", "builtin_class", "web", "console", "records")
_FLAGS = (
    "run",
    "--no-prompt",
    "--no-remote",
    "--no-npm",
    "--no-config",
    "--no-lock",
    "--cached-only",
    "--no-code-cache",
    "--quiet",
    "--node-modules-dir=none",
)
_V8_FLAGS = f"--single-threaded,--max-old-space-size={HEAP_MB},--max-semi-space-size=16"
"""The semi-space, which contains young objects, has 16 MB, because most objects of a batch die young.

With 8 MB a script takes 5 % more CPU time; with 32 MB the child takes 50 MB more memory.
"""
_STRIPPER_IMPORT = "import { stripTypeScriptTypes } from 'node:module';"
_NO_STRIPPER = "const stripTypeScriptTypes = null;"


@dataclass(frozen=True, slots=True)
class DenoCommand:
    """The command line and limits with which the launcher executes Deno.

    Attributes:
        argv: The command line.
        data_bytes: The limit RLIMIT_DATA. With the JIT, V8 reserves 512 MB of address space for code, which counts
            against this limit.
        jit: Whether V8 compiles scripts to machine code.
        for_validation: Whether the child validates scripts before they are saved. Such a child strips TypeScript types,
            and refuses a script whose top level reads the time or a random number.
        niceness: How much the child lowers its CPU priority, from 0 to 19.
    """

    argv: tuple[str, ...]
    data_bytes: int
    jit: bool
    for_validation: bool = False
    niceness: int = 0


@cache
def deno_command(*, jit: bool, for_validation: bool = False, niceness: int = 0) -> DenoCommand:
    """Return the command that runs Deno with the harness as its main module.

    Raises SandboxFailed when the deno wheel contains no executable.
    """
    try:
        binary = deno.find_deno_bin()
    except FileNotFoundError as error:
        raise SandboxFailed("The deno program is missing: install the pinned `deno` wheel again.") from error
    v8_flags = _V8_FLAGS if jit else f"{_V8_FLAGS},--jitless"
    data_mb = 800 if jit else 320
    argv = (str(Path(binary).resolve()), *_FLAGS, f"--v8-flags={v8_flags}", _main_module(for_validation=for_validation))
    return DenoCommand(argv, data_mb << 20, jit, for_validation, niceness)


def _main_module(*, for_validation: bool) -> str:
    """Return the harness as a data: URL, so that Deno needs no access to Headwater's files."""
    stripper = _STRIPPER_IMPORT if for_validation else _NO_STRIPPER
    sources = json.dumps({name: _code(name) for name in _SOURCES})
    text = f"{stripper}\nconst SOURCES = {sources};\n" + _code("main")
    return "data:application/javascript;base64," + base64.b64encode(text.encode()).decode()


def _code(name: str) -> str:
    """Return a harness file without indentation and without lines that are only a comment.

    The whole harness is one argument, and Linux limits an argument to 128 KiB (MAX_ARG_STRLEN).
    """
    return _INDENT_OR_COMMENT.sub("", (_HARNESS / f"{name}.js").read_text("utf-8"))

"""The JavaScript engine: Deno, how it is started, and the harness that it runs."""

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
_NO_CODE = re.compile(r"^ *(//.*)?", re.MULTILINE)
_SOURCES = ("realm", "stacks", "kinds", "web", "console", "records")
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
"""What a batch makes is young: with half as much room for it a script takes 5 % more CPU; twice as much takes 50 MB."""
_IMPORT_STRIPPER = "import { stripTypeScriptTypes } from 'node:module';"
_NO_STRIPPER = "const stripTypeScriptTypes = null;"


@dataclass(frozen=True, slots=True)
class Engine:
    """The program that the launcher becomes.

    Attributes:
        argv: Its command line.
        data_bytes: The limit of its data memory. With the JIT, V8 reserves 512 MB of addresses for code, which count.
        jit: Whether V8 compiles to machine code.
        checking: Whether it is for scripts that are saved: it strips the types of TypeScript, and refuses scripts whose
            top level asks for the time or for a random number.
    """

    argv: tuple[str, ...]
    data_bytes: int
    jit: bool
    checking: bool = False


@cache
def deno_engine(*, jit: bool, checking: bool = False) -> Engine:
    """Deno with our harness as its main module. Raises SandboxFailed when the deno wheel has no program."""
    try:
        program = deno.find_deno_bin()
    except FileNotFoundError as error:
        raise SandboxFailed("The deno program is missing: install the pinned `deno` wheel again.") from error
    v8_flags = _V8_FLAGS if jit else f"{_V8_FLAGS},--jitless"
    data_mb = 800 if jit else 320
    argv = (str(Path(program).resolve()), *_FLAGS, f"--v8-flags={v8_flags}", _main_module(checking=checking))
    return Engine(argv, data_mb << 20, jit, checking)


def _main_module(*, checking: bool) -> str:
    """The harness as a data: address, so that no file of ours has to be readable in the sandbox."""
    stripper = _IMPORT_STRIPPER if checking else _NO_STRIPPER
    sources = json.dumps({name: _code(name) for name in _SOURCES})
    text = f"{stripper}\nconst SOURCES = {sources};\n" + _code("outer")
    return "data:application/javascript;base64," + base64.b64encode(text.encode()).decode()


def _code(name: str) -> str:
    """A file of the harness without comments and indentation: as one argument the harness may have 128 KiB."""
    return _NO_CODE.sub("", (_HARNESS / f"{name}.js").read_text())

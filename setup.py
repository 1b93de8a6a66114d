"""Builds the native library and its declarations, the files of the page /docs, and the console.

The `ziglang` wheel brings the C compiler. The `deno` wheel downloads Swagger UI and builds the console, so the machine
needs no compiler, no Node and no npm.
"""

import gzip
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

import cffi
import deno
from setuptools import Command, Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

FLAGS = [
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-target",
    "x86_64-linux-gnu",
    "-shared",
    "-fPIC",
    "-ffreestanding",
    "-nostdlib",
    "-s",
]
SWAGGER_UI = Path("headwater/api/swagger_ui")
SWAGGER_UI_FILES = ("swagger-ui-bundle.js", "swagger-ui.css", "favicon-32x32.png", "LICENSE", "NOTICE")
CONSOLE = Path("console")
CONSOLE_FILES = Path("headwater/api/console_files")


class BuildWithWebPages(build_py):
    """Writes the files of web pages into the source tree before it is copied."""

    def run(self) -> None:
        self._download_swagger_ui()
        self.run_command("build_console")
        super().run()

    def _download_swagger_ui(self) -> None:
        """Download the files of Swagger UI from npm, as deno.lock pins them."""
        with TemporaryDirectory() as folder:
            for name in ("deno.json", "deno.lock"):
                shutil.copy(SWAGGER_UI / name, folder)
            subprocess.run([deno.find_deno_bin(), "install", "--quiet", "--frozen"], cwd=folder, check=True)
            for name in SWAGGER_UI_FILES:
                shutil.copy(Path(folder, "node_modules", "swagger-ui-dist", name), SWAGGER_UI)


class BuildConsole(Command):
    """Builds the console with packages from npm, as deno.lock pins them, and compresses its files."""

    user_options: ClassVar[list[tuple[str, str | None, str]]] = []

    def initialize_options(self) -> None:
        pass

    def finalize_options(self) -> None:
        pass

    def run(self) -> None:
        for arguments in (["install", "--quiet", "--frozen"], ["run", "-A", "npm:vite", "build", "--logLevel=warn"]):
            subprocess.run([deno.find_deno_bin(), *arguments], cwd=CONSOLE, check=True)
        for path in CONSOLE_FILES.glob("assets/*"):
            Path(f"{path}.gz").write_bytes(gzip.compress(path.read_bytes(), mtime=0))


class BuildNativeLibrary(build_ext):
    """Builds a plain shared library without Python's C API, so that one file serves all versions of Python.

    The module declarations.py has the header files as cffi has parsed them, so that no process parses them at start.
    """

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.so"

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *ext.sources, "-o", str(target)]
        subprocess.run(command, check=True)
        declarations = cffi.FFI()
        declarations.set_source("headwater.native.declarations", None)
        for name in ("declarations.h", "librdkafka.h"):
            declarations.cdef(Path("headwater/native", name).read_text())
        for folder in {target.parent, Path("headwater/native")}:  # the wheel's files, and the source tree
            declarations.emit_python_code(str(folder / "declarations.py"))


class PlatformWheel(bdist_wheel):
    """Builds one wheel for all versions of Python on Linux with glibc.

    The native library needs no version of glibc, so the tag has the oldest one that tags can name.
    """

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", "manylinux_2_5_x86_64"


setup(
    ext_modules=[Extension("headwater.native.native", sorted(map(str, Path("headwater/native").glob("*.c"))))],
    cmdclass={
        "build_console": BuildConsole,
        "build_py": BuildWithWebPages,
        "build_ext": BuildNativeLibrary,
        "bdist_wheel": PlatformWheel,
    },
)

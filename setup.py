"""Builds what is not Python: the native library, and the files of the page /docs.

The `ziglang` wheel brings the C compiler, and the `deno` wheel downloads Swagger UI, so the machine needs no compiler
and no npm.
"""

import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import deno
from setuptools import Extension, setup
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


class BuildWithSwaggerUI(build_py):
    """Downloads the files of Swagger UI from npm, as deno.lock pins them, into the source tree before it is copied."""

    def run(self) -> None:
        with TemporaryDirectory() as folder:
            for name in ("deno.json", "deno.lock"):
                shutil.copy(SWAGGER_UI / name, folder)
            subprocess.run([deno.find_deno_bin(), "install", "--quiet", "--frozen"], cwd=folder, check=True)
            for name in SWAGGER_UI_FILES:
                shutil.copy(Path(folder, "node_modules", "swagger-ui-dist", name), SWAGGER_UI)
        super().run()


class BuildNativeLibrary(build_ext):
    """Builds a plain shared library without Python's C API, so that one file serves all versions of Python."""

    def get_ext_filename(self, fullname: str) -> str:
        return f"{fullname.replace('.', '/')}.so"

    def build_extension(self, ext: Extension) -> None:
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "ziglang", "cc", *FLAGS, *ext.sources, "-o", str(target)]
        subprocess.run(command, check=True)


class PlatformWheel(bdist_wheel):
    """Builds one wheel for all versions of Python on Linux with glibc.

    The native library needs no version of glibc, so the tag has the oldest one that tags can name.
    """

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", "manylinux_2_5_x86_64"


setup(
    ext_modules=[Extension("headwater.native.native", sorted(map(str, Path("headwater/native").glob("*.c"))))],
    cmdclass={"build_py": BuildWithSwaggerUI, "build_ext": BuildNativeLibrary, "bdist_wheel": PlatformWheel},
)

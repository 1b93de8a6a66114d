"""Compiles headwater/native/*.c with the C compiler of the `ziglang` wheel, so that the machine needs no compiler."""

import subprocess
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

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
    """Builds one wheel for all versions of Python on this platform."""

    def get_tag(self) -> tuple[str, str, str]:
        return "py3", "none", super().get_tag()[2]


setup(
    ext_modules=[Extension("headwater.native.native", sorted(map(str, Path("headwater/native").glob("*.c"))))],
    cmdclass={"build_ext": BuildNativeLibrary, "bdist_wheel": PlatformWheel},
)

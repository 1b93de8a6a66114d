"""Puts the jars of the embedded Kafka and their SHA-256 sums into the package.

They are the jars that `headwater fetch` downloads and checks.
"""

import shutil
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

from headwater.brokers.embedded.jars import CHECKSUMS, download_jars
from headwater.settings import Settings

JARS = Path("headwater_embedded/jars")
REQUIREMENTS = Path("../requirements/embedded.in")


class BuildWithJars(build_py):
    """Copies the jars into the source tree before it is copied into the wheel."""

    def run(self) -> None:
        shutil.rmtree(JARS, ignore_errors=True)
        shutil.copytree(download_jars(Settings().cache_dir.expanduser()), JARS)
        shutil.copy(CHECKSUMS, JARS)
        super().run()


setup(cmdclass={"build_py": BuildWithJars}, install_requires=REQUIREMENTS.read_text().split())

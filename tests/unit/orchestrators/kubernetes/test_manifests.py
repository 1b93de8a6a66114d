"""The Secret and the Pods of a worker set."""

import json
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lightkube.resources.core_v1 import Secret

from headwater.errors import SetupError
from headwater.model.access import KafkaAccess
from headwater.model.worker_spec import PubSubPull, WorkerSet
from headwater.orchestrators.kubernetes import labels, manifests
from headwater.orchestrators.kubernetes.settings import PodSettings, PodTemplate
from tests.contract.test_orchestrator import worker_set

SETTINGS = PodSettings(
    "headwater:1",
    instance="prod",
    memory_limit=1 << 30,
    cpu_limit="2",
    service_account="workers",
    priority_class="high",
)
TEMPLATE = PodTemplate(SETTINGS)


def spec_of(secret: Secret, name: str) -> Any:
    assert secret.data is not None
    return json.loads(b64decode(secret.data[name]))


def pod_document(wanted: WorkerSet, template: PodTemplate = TEMPLATE) -> Any:
    secret = manifests.secret(wanted, template)
    assert secret.metadata is not None
    secret.metadata.uid = "u1"
    return manifests.pod(wanted, 3, secret, template, role=labels.WORKER, restarts=2).to_dict()


def test_the_secret_has_the_spec_and_a_token() -> None:
    secret = manifests.secret(worker_set(), TEMPLATE)
    assert spec_of(secret, "spec-hash1.json")["kafka"]["password"] == "secret"
    assert len(manifests.token(secret)) == 64
    assert manifests.token(secret) != manifests.token(manifests.secret(worker_set(), TEMPLATE))
    assert secret.immutable


def test_files_of_the_spec_are_in_the_secret(tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.write_text("a certificate")
    wanted = worker_set()
    kafka = KafkaAccess(bootstrap_servers="b:1", security_protocol="SSL", ca_file=str(certificates))
    spec = wanted.spec.model_copy(update={"kafka": kafka})
    secret = manifests.secret(WorkerSet(wanted.id, 1, spec, "hash1"), TEMPLATE)
    mounted = spec_of(secret, "spec-hash1.json")["kafka"]["ca_file"]
    assert secret.data is not None
    assert b64decode(secret.data[Path(mounted).name]) == b"a certificate"
    certificates.unlink()
    with pytest.raises(SetupError, match=r"ca.pem, which can't be read"):
        manifests.secret(WorkerSet(wanted.id, 1, spec, "hash1"), TEMPLATE)


def test_files_in_the_url_of_valkey_are_in_the_secret(tmp_path: Path) -> None:
    certificates = tmp_path / "ca.pem"
    certificates.write_text("a certificate")
    wanted = worker_set()
    hosts = "rediss-cluster://me:p%3Fw@v1:1,v2:2"
    url = f"{hosts}?ssl_ca_certs={certificates}&ssl_check_hostname=false"
    secret = manifests.secret(
        WorkerSet(wanted.id, 1, wanted.spec.model_copy(update={"redis_url": url}), "hash1"), TEMPLATE
    )
    mounted = f"{manifests.SPEC_DIRECTORY}/file-0"
    assert spec_of(secret, "spec-hash1.json")["redis_url"] == (
        f"{hosts}?ssl_ca_certs={mounted}&ssl_check_hostname=false"
    )
    assert secret.data is not None
    assert b64decode(secret.data["file-0"]) == b"a certificate"


def test_each_setting_changes_the_template() -> None:
    others = (
        replace(SETTINGS, image="headwater:2"),
        replace(SETTINGS, memory_limit=1 << 29),
        replace(SETTINGS, node_selector={"pool": "workers"}),
    )
    assert len({TEMPLATE.hash, *(PodTemplate(each).hash for each in others)}) == 4
    assert PodTemplate(replace(SETTINGS)).hash == TEMPLATE.hash


class TestReplacedFiles:
    """A file that the spec names gets other content, such as new CA certificates."""

    @pytest.fixture
    def certificates(self, tmp_path: Path) -> Path:
        file = tmp_path / "ca.pem"
        file.write_text("a certificate")
        return file

    def template(self, **changes: object) -> PodTemplate:
        return PodTemplate(SETTINGS, manifests.files_hash(worker_set().spec.model_copy(update=changes)))

    @pytest.mark.parametrize(
        "changes",
        [
            lambda path: {"kafka": KafkaAccess(bootstrap_servers="b:1", security_protocol="SSL", ca_file=path)},
            lambda path: {"source": KafkaAccess(bootstrap_servers="b:1", security_protocol="SSL", ca_file=path)},
            lambda path: {"source": PubSubPull(project="p", credentials_file=path, subscription="s")},
            lambda path: {"redis_url": f"rediss://v:1?ssl_ca_certs={path}"},
        ],
        ids=["Kafka", "a source on another Kafka", "Pub/Sub", "Valkey"],
    )
    def test_the_content_changes_the_template(
        self, certificates: Path, changes: Callable[[str], dict[str, object]]
    ) -> None:
        before = self.template(**changes(str(certificates)))
        assert self.template(**changes(str(certificates))) == before
        certificates.write_text("another certificate")
        after = self.template(**changes(str(certificates)))
        assert len({TEMPLATE.hash, before.hash, after.hash}) == 3
        certificates.unlink()
        assert self.template(**changes(str(certificates))).hash not in (before.hash, after.hash)

    def test_each_content_has_a_secret_and_a_pod_of_its_own(self, certificates: Path) -> None:
        wanted = worker_set()
        kafka = KafkaAccess(bootstrap_servers="b:1", security_protocol="SSL", ca_file=str(certificates))
        wanted = replace(wanted, spec=wanted.spec.model_copy(update={"kafka": kafka}))
        old = pod_document(wanted, PodTemplate(SETTINGS, manifests.files_hash(wanted.spec)))["metadata"]
        certificates.write_text("another certificate")
        new = pod_document(wanted, PodTemplate(SETTINGS, manifests.files_hash(wanted.spec)))["metadata"]
        assert old["name"] != new["name"]
        assert old["ownerReferences"][0]["name"] != new["ownerReferences"][0]["name"]
        assert old["labels"]["headwater/spec"] == new["labels"]["headwater/spec"]


def test_the_pod_has_least_rights() -> None:
    pod = pod_document(worker_set())
    spec, (container,) = pod["spec"], pod["spec"]["containers"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["serviceAccountName"] == "workers"
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
    }
    assert container["resources"] == {
        "limits": {"memory": str(1 << 30), "cpu": "2"},
        "requests": {"memory": str(1 << 30), "cpu": "100m"},
    }
    assert spec["priorityClassName"] == "high"
    assert "secret" not in json.dumps(container["command"]) + json.dumps(container.get("env", []))


def test_names_and_labels() -> None:
    wanted = worker_set(deployment_id="d1.redrive-2")
    metadata = pod_document(wanted)["metadata"]
    assert metadata["name"] == f"d1-redrive-2-3-hash1-{TEMPLATE.hash}"
    assert metadata["labels"] == {
        "app.kubernetes.io/name": "headwater",
        "app.kubernetes.io/component": "worker",
        "app.kubernetes.io/managed-by": "headwater",
        "app.kubernetes.io/instance": "prod",
        "headwater/worker-set": "d1.redrive-2",
        "headwater/deployment": "d1",
        "headwater/slot": "3",
        "headwater/spec": "hash1",
        "headwater/template": TEMPLATE.hash,
        "headwater/role": "worker",
    }
    assert metadata["ownerReferences"][0]["name"] == "d1-redrive-2-hash1"


@pytest.mark.parametrize(
    ("profile", "expected"),
    [
        ("RuntimeDefault", {"type": "RuntimeDefault"}),
        ("Localhost:profiles/headwater.json", {"type": "Localhost", "localhostProfile": "profiles/headwater.json"}),
    ],
)
def test_seccomp_profiles(profile: str, expected: dict[str, str]) -> None:
    pod = pod_document(worker_set(), PodTemplate(PodSettings("i", seccomp_profile=profile)))
    assert pod["spec"]["securityContext"]["seccompProfile"] == expected

"""The link that `headwater up` prints, from the click to signing out."""

import re
import time

import httpx2

from tests.acceptance.installation import Installation

PATH = "/api/v1/flow/sign-in"
LINK = re.compile(r"http://127\.0\.0\.1:\d+/console/sign-in#code=(\S+)")


def test_signing_in_and_out(installation: Installation) -> None:
    printed = installation.run("keys", "sign-in-link", "--port", str(installation.port))
    link = LINK.search(printed.stdout)
    assert link is not None, printed.stdout + printed.stderr
    assert LINK.search(installation.log()), "headwater up prints a link too"
    with httpx2.Client(base_url=installation.url) as nobody:
        answer = nobody.post(PATH, json={"code": link[1]})
        assert answer.status_code == 200, answer.text
        again = nobody.post(PATH, json={"code": link[1]})
        assert (again.status_code, again.json()["type"]) == (401, "urn:headwater:problem:invalid-sign-in-code")
    body = answer.json()
    with installation.client() as own, installation.client(body["key"]) as signed_in:
        me = signed_in.get("/api/v1/flow/me").json()
        assert me == {name: value for name, value in body.items() if name != "key"}
        expected = own.get("/api/v1/flow/me").json()
        assert (me["owner"], me["scopes"]) == (expected["owner"], expected["scopes"])
        assert own.delete(PATH).status_code == 409
        assert signed_in.delete(PATH).status_code == 200
        deadline = time.monotonic() + 10
        while signed_in.get("/api/v1/flow/me").status_code != 401:  # other API processes cache the key for 3 s
            assert time.monotonic() < deadline
            time.sleep(0.2)
    audit = installation.run("audit", "--object", body["key_id"], "--json").stdout
    assert [action in audit for action in ("key.sign_in", "key.revoke")] == [True, True]
    assert link[1] not in installation.log()
    assert body["key"] not in installation.log()

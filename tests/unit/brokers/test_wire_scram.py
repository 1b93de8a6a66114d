"""SCRAM: the exchange of RFC 7677, section 3, and whoever pretends to be a broker."""

import base64
from typing import Any

import pytest
from aiokafka.conn import ScramAuthenticator
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.brokers.wire.scram import DIGESTS, MAX_ITERATIONS, Scram

NONCE = "rOprNGfwEbeRWgbNEkqO"
JOINED = f"{NONCE}%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CHALLENGE = f"r={JOINED},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = f"c=biws,r={JOINED},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


@pytest.fixture
def login() -> Scram:
    return Scram("SCRAM-SHA-256", "user", "pencil", NONCE)


class TestTheExchange:
    def test_is_that_of_the_rfc(self, login: Scram) -> None:
        assert login.first() == f"n,,n=user,r={NONCE}".encode()
        assert login.final(CHALLENGE.encode()) == PROOF.encode()
        login.verify(SIGNATURE.encode())

    def test_no_two_have_the_same_nonce(self) -> None:
        firsts = {Scram("SCRAM-SHA-512", "user", "pencil").first() for _ in range(3)}
        assert len(firsts) == 3
        assert all(first.count(b",") == 3 for first in firsts)

    def test_a_name_may_have_what_separates_attributes(self) -> None:
        assert Scram("SCRAM-SHA-512", "a,b=c", "", NONCE).first() == f"n,,n=a=2Cb=3Dc,r={NONCE}".encode()

    @settings(max_examples=20)
    @given(st.sampled_from([*DIGESTS]), st.text(max_size=20), st.text(max_size=20), st.binary(min_size=1, max_size=30))
    def test_is_that_of_another_client(self, mechanism: str, user: str, password: str, salt: bytes) -> None:
        ours = Scram(mechanism, user, password, NONCE)
        theirs: Any = ScramAuthenticator(
            loop=None, sasl_plain_username=user, sasl_plain_password=password, sasl_mechanism=mechanism
        )
        theirs._nonce = NONCE
        challenge = f"r={JOINED},s={base64.b64encode(salt).decode()},i=4096"
        assert ours.first() == theirs.first_message().encode()
        theirs.process_server_first_message(challenge)
        assert ours.final(challenge.encode()) == theirs.final_message().encode()
        ours.verify(b"v=" + base64.b64encode(theirs._server_signature))


class TestAnImpostor:
    @pytest.mark.parametrize(
        "challenge",
        [
            CHALLENGE.replace(NONCE, "another"),
            CHALLENGE.replace(JOINED, NONCE),
            CHALLENGE.replace("4096", "4095"),
            CHALLENGE.replace("4096", str(MAX_ITERATIONS + 1)),
            CHALLENGE.replace("4096", "many"),
            CHALLENGE.replace("W22", "?"),
            f"m=more,{CHALLENGE}",
            f"r={JOINED}",
            "e=other-error",
            "",
        ],
    )
    def test_gets_no_proof(self, login: Scram, challenge: str) -> None:
        with pytest.raises(ValueError, match=r"\w"):
            login.final(challenge.encode())

    def test_gets_no_proof_for_bytes_that_are_no_text(self, login: Scram) -> None:
        with pytest.raises(UnicodeDecodeError):
            login.final(b"r=\xff")

    @pytest.mark.parametrize("answer", [SIGNATURE.replace("6rr", "7rr"), "v=", "v=?", "e=invalid-proof", ""])
    def test_does_not_pass(self, login: Scram, answer: str) -> None:
        login.final(CHALLENGE.encode())
        with pytest.raises(ValueError, match=r"\w"):
            login.verify(answer.encode())

    def test_does_not_pass_before_it_gave_a_challenge(self, login: Scram) -> None:
        with pytest.raises(ValueError, match="signature"):
            login.verify(b"v=")

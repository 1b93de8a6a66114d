"""The encryption of credentials, and the file of the secret key."""

import base64
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.errors import SetupError
from headwater.stores.sql.encryption import KEY_ID_BYTES, FieldCipher, load_or_create_secret_key

KEY = bytes(range(32))


class TestFieldCipher:
    @given(st.text(), st.text(), st.text())
    def test_decrypts_what_it_encrypted(self, text: str, deployment_id: str, field: str) -> None:
        cipher = FieldCipher(KEY)
        assert cipher.decrypt(cipher.encrypt(text, deployment_id, field), deployment_id, field) == text

    def test_two_encryptions_of_one_text_differ(self) -> None:
        cipher = FieldCipher(KEY)
        assert cipher.encrypt("password", "d1", "reader") != cipher.encrypt("password", "d1", "reader")

    @pytest.mark.parametrize(("deployment_id", "field"), [("d2", "reader"), ("d1", "worker")])
    def test_a_value_of_another_row_or_column_is_rejected(self, deployment_id: str, field: str) -> None:
        cipher = FieldCipher(KEY)
        with pytest.raises(SetupError):
            cipher.decrypt(cipher.encrypt("password", "d1", "reader"), deployment_id, field)

    def test_another_key_says_what_to_do(self) -> None:
        with pytest.raises(SetupError, match="HEADWATER_SECRET_KEY"):
            FieldCipher(bytes(32)).decrypt(FieldCipher(KEY).encrypt("password", "d1", "reader"), "d1", "reader")

    def test_an_old_key_decrypts_and_does_not_encrypt(self) -> None:
        old, new = FieldCipher(KEY), FieldCipher(bytes(32), KEY)
        assert new.decrypt(old.encrypt("password", "d1", "reader"), "d1", "reader") == "password"
        with pytest.raises(SetupError):
            old.decrypt(new.encrypt("password", "d1", "reader"), "d1", "reader")

    def test_a_value_without_key_id_is_decrypted_with_any_key(self) -> None:
        without_key_id = FieldCipher(KEY).encrypt("password", "d1", "reader")[KEY_ID_BYTES:]
        for cipher in (FieldCipher(KEY), FieldCipher(bytes(32), KEY)):
            assert cipher.decrypt(without_key_id, "d1", "reader") == "password"
            assert not cipher.is_current(without_key_id)

    def test_the_key_id_tells_the_key(self) -> None:
        encrypted = FieldCipher(KEY).encrypt("password", "d1", "reader")
        assert FieldCipher(KEY, bytes(32)).is_current(encrypted)
        assert not FieldCipher(bytes(32), KEY).is_current(encrypted)
        assert not FieldCipher(KEY).is_current(None)
        assert KEY[:2] not in encrypted[:KEY_ID_BYTES]

    @given(st.binary(max_size=64))
    def test_other_bytes_are_rejected(self, encrypted: bytes) -> None:
        with pytest.raises(SetupError):
            FieldCipher(KEY).decrypt(encrypted, "d1", "reader")

    @pytest.mark.parametrize("length", [0, 16, 31, 33])
    def test_a_key_of_another_length_is_rejected(self, length: int) -> None:
        with pytest.raises(SetupError, match="32 bytes"):
            FieldCipher(bytes(length))


class TestSecretKey:
    def test_the_key_file_is_created_once_and_private(self, tmp_path: Path) -> None:
        path = tmp_path / "secret-key"
        key = load_or_create_secret_key(path)
        assert len(key) == 32
        assert base64.b64decode(path.read_text()) == key
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert load_or_create_secret_key(path) == key

    def test_concurrent_starts_create_one_key_file(self, tmp_path: Path) -> None:
        with ThreadPoolExecutor(16) as pool:
            keys = set(pool.map(lambda _: load_or_create_secret_key(tmp_path / "secret-key"), range(64)))
        assert len(keys) == 1
        assert [file.name for file in tmp_path.iterdir()] == ["secret-key"]

    @pytest.mark.parametrize("content", [b"", b"hello", b"\xff\xfe", base64.b64encode(bytes(31))])
    def test_an_invalid_key_file_is_rejected(self, tmp_path: Path, content: bytes) -> None:
        path = tmp_path / "secret-key"
        path.write_bytes(content)
        with pytest.raises(SetupError, match="secret-key"):
            load_or_create_secret_key(path)
        assert path.read_bytes() == content

    def test_a_missing_directory(self, tmp_path: Path) -> None:
        with pytest.raises(SetupError, match="Check its directory"):
            load_or_create_secret_key(tmp_path / "missing" / "secret-key")

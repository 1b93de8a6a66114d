"""The encrypted passwords in the rows of deployments.

This module also rotates the secret key that encrypts the passwords.
"""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection, Row, delete, insert, select, update

from headwater.errors import DecryptionFailed
from headwater.model.deployment import Deployment
from headwater.stores.sql import store_errors
from headwater.stores.sql.connections import Connections
from headwater.stores.sql.encryption import FieldCipher
from headwater.stores.sql.tables import ACTIVE, deployments, secret_key_proof

FIELDS: Final = ("reader_password", "worker_password")
DEPLOYMENTS_PER_TRANSACTION: Final = 200
_PROOF: Final = ("headwater", "secret_key_proof", "sealed")
"""The text that is encrypted to prove a key, and the two parts of its associated data.

The parts take the place of the deployment id and the field name of a password.
"""
COLUMNS: Final = (deployments.c.id.label("deployment_id"), *(deployments.c[name] for name in FIELDS))
"""The columns of a row that `CredentialRows.decryption_error` reads."""
_SELECT_BATCH: Final = (
    select(*COLUMNS).where(ACTIVE).order_by(deployments.c.id).limit(DEPLOYMENTS_PER_TRANSACTION).with_for_update()
)


class RotationResult(NamedTuple):
    """The result of a rotation of the secret key.

    Attributes:
        encrypted: The number of deployments whose passwords were encrypted with the new key.
        unreadable: The number of deployments whose passwords no key decrypts. These passwords are unchanged.
    """

    encrypted: int
    unreadable: int


class CredentialRows:
    """Encrypts and decrypts the passwords of deployments. No other class does."""

    def __init__(self, cipher: FieldCipher) -> None:
        self._cipher = cipher

    def encrypt(self, deployment: Deployment) -> dict[str, bytes]:
        """Return the encrypted passwords of a deployment by column."""
        return self._encrypt({name: getattr(deployment, name) for name in FIELDS}, deployment.id)

    def decrypt(self, row: Row[Any], deployment_id: str) -> dict[str, str]:
        """Return the passwords in a row by column. Raises DecryptionFailed."""
        return {name: self._cipher.decrypt(getattr(row, name), deployment_id, name) for name in FIELDS}

    def decryption_error(self, row: Row[Any]) -> str:
        """Return why the passwords of the deployment in a row can't be decrypted.

        Returns an empty text when the passwords can be decrypted, or when the row has no deployment.
        """
        if row.deployment_id is None:
            return ""
        try:
            self.decrypt(row, row.deployment_id)
        except DecryptionFailed:
            return store_errors.UNREADABLE_PASSWORDS
        return ""

    def check_key(self, connection: Connection) -> None:
        """Check that the secret key decrypts the stored passwords, and store a proof of the key.

        Raises DecryptionFailed, a SetupError, when the key decrypts no password. Single passwords that were encrypted
        with another key are ignored: their deployments are reported as unreadable.
        """
        proof = connection.scalar(select(secret_key_proof.c.encrypted))
        if proof is not None and self._is_proof(proof):
            return
        rows = connection.execute(select(*COLUMNS).where(ACTIVE)).all()
        if rows and all(self.decryption_error(row) for row in rows):
            raise DecryptionFailed
        self._write_proof(connection)

    def rotate_key(self, connections: Connections) -> RotationResult:
        """Encrypt all passwords with the new secret key.

        Each transaction encrypts the passwords of at most DEPLOYMENTS_PER_TRANSACTION deployments. Passwords with the
        id of the new key are skipped, so another call continues a rotation that was killed. The proof of the key is
        written last.
        """
        encrypted = unreadable = 0
        last_id = ""
        while True:
            with connections.writing() as connection:
                batch = connection.execute(_SELECT_BATCH.where(deployments.c.id > last_id)).all()
                results = [self._encrypt_row(connection, row) for row in batch if not self._is_current(row)]
            encrypted += results.count(True)
            unreadable += results.count(False)
            if not batch:
                break
            last_id = batch[-1].deployment_id
        with connections.writing() as connection:
            self._write_proof(connection)
        return RotationResult(encrypted, unreadable)

    def _is_current(self, row: Row[Any]) -> bool:
        return all(self._cipher.is_current(getattr(row, name)) for name in FIELDS)

    def _encrypt_row(self, connection: Connection, row: Row[Any]) -> bool:
        """Encrypt the passwords of a row with the new key.

        Return False when the passwords can't be decrypted.
        """
        try:
            passwords = self.decrypt(row, row.deployment_id)
        except DecryptionFailed:
            return False
        values = self._encrypt(passwords, row.deployment_id)
        connection.execute(update(deployments).where(deployments.c.id == row.deployment_id).values(**values))
        return True

    def _encrypt(self, passwords: Mapping[str, str], deployment_id: str) -> dict[str, bytes]:
        return {name: self._cipher.encrypt(password, deployment_id, name) for name, password in passwords.items()}

    def _is_proof(self, stored: bytes) -> bool:
        try:
            return self._cipher.decrypt(stored, *_PROOF[1:]) == _PROOF[0]
        except DecryptionFailed:
            return False

    def _write_proof(self, connection: Connection) -> None:
        connection.execute(delete(secret_key_proof))
        connection.execute(insert(secret_key_proof).values(id=1, encrypted=self._cipher.encrypt(*_PROOF)))

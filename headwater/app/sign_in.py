"""Creates links to the console with a one-time code."""

import time

from headwater.app.api_url import local_api_url
from headwater.app.data_directory import DataDirectory
from headwater.app.database import connect_database
from headwater.app.endpoints import Endpoints
from headwater.errors import SetupError, Unauthenticated
from headwater.services.ids import utc_now
from headwater.services.keys import Keys
from headwater.services.sign_in import SignIns
from headwater.settings import Settings

CONSOLE_SIGN_IN = "/console/sign-in"


def create_sign_in_link(settings: Settings) -> str:
    """Create a one-time code, and return the link that signs in with it.

    The code is in the fragment of the link, which browsers don't send to the server, so it is in no log. The key that
    it gives has the owner and the scopes of the key in the file `api-key` of the data directory.

    Raises SetupError when there is no such file, or when its key is not valid.
    """
    data_directory = DataDirectory(settings.data_dir)
    try:
        text = data_directory.api_key.read_text("utf-8", "replace").strip()
    except OSError as error:
        raise SetupError(f"There is no API key in {data_directory.api_key}. `headwater up` creates it.") from error
    with connect_database(Endpoints(settings, data_directory)) as database:
        keys = Keys(database.keys, utc_now, time.monotonic)
        try:
            source = keys.authenticate(text)
        except Unauthenticated as error:
            raise SetupError(
                f"The API key in {data_directory.api_key} is not valid, so no link can be made. Run `headwater keys "
                "create`, and write the key that it prints into this file."
            ) from error
        code, _ = SignIns(database.sign_ins, keys, utc_now).create_code(source)
    return f"{local_api_url(settings)}{CONSOLE_SIGN_IN}#code={code}"

"""Entry point: `python app.py`, also on Hugging Face Spaces. `python app.py --help` lists the settings."""

import sys

from pydantic import ValidationError

from voxrtc.settings import Settings
from voxrtc.web import main

if __name__ == "__main__":
    try:
        settings = Settings(_cli_parse_args=True)  # type: ignore[call-arg]
    except ValidationError as wrong:
        sys.exit("\n".join(f"{'.'.join(map(str, error['loc']))}: {error['msg']}" for error in wrong.errors()))
    main(settings)

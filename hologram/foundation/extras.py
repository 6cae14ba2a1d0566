"""What to type where something is missing that an extra of this distribution installs."""


def install(extra: str) -> str:
    """The command, for who has hologram as a distribution, and for who has a checkout."""
    return f"pip install 'hologram[{extra}]' (in a checkout '.[{extra}]')"

"""Names of a package that are imported when they are first used."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], list[str]]:
    """Return the ``__getattr__`` and the ``__all__`` of a package.

    Parameters
    ----------
    package : str
        Name of the package.
    homes : mapping of str to str
        Module of the package that defines each name, or with its full name a module elsewhere.
    """

    def get(name: str) -> Any:
        if name in homes:
            home = homes[name]
            whole = home.startswith("kem_pymc.")
            return getattr(import_module(home if whole else f"{package}.{home}"), name)
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return get, sorted(homes)

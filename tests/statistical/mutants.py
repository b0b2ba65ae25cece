"""Moves with a fault put in, to see that the tests notice it."""

import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType

from kem_pymc._system.jit.cache import cache_folder


def mutant(
    originals: Sequence[ModuleType], name: str, changes: Mapping[str, str], extra: str
) -> ModuleType:
    """Return one module like several together, whose source has been changed.

    Parameters
    ----------
    originals : sequence of modules
        What a later one defines takes the place of what an earlier one imports from it.
    name : str
        Of the mutant; a Python word.
    changes : mapping of str to str
        What replaces which text. Every text has to occur exactly once.
    extra : str
        Source that is added at the end.
    """
    source = "\n\n".join(Path(str(m.__file__)).read_text(encoding="utf-8") for m in originals)
    for old, new in changes.items():
        assert source.count(old) == 1, f"{name}: {old!r} occurs {source.count(old)} times"
        source = source.replace(old, new)
    # A file of its own, so that compiled code is kept as long as neither it nor the package change.
    path = cache_folder() / "mutants" / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source + extra, encoding="utf-8")
    spec = importlib.util.spec_from_file_location(f"tests.statistical.mutant_{name}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where cached code looks for it
    spec.loader.exec_module(module)
    return module

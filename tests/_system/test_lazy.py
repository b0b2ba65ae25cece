"""Names of a package that are imported when they are first used."""

from xml.etree import ElementTree

import pytest

from kem_pymc._system.lazy import lazily


def test_a_name_is_imported_when_it_is_used():
    """Fails where a package imports all of its modules at once."""
    get, names = lazily("xml", {"ElementTree": "etree.ElementTree", "absent": "nowhere"})
    assert names == ["ElementTree", "absent"]
    assert get("ElementTree") is ElementTree.ElementTree
    with pytest.raises(ModuleNotFoundError, match="nowhere"):
        get("absent")
    with pytest.raises(AttributeError, match="module 'xml' has no attribute 'dom'"):
        get("dom")

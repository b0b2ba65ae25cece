"""Plain data with something changed in it that doesn't belong there, for hypothesis."""

import copy
import json
import math
from typing import Any

from hypothesis import strategies as st


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


#: What may stand anywhere in a file that came from somewhere else.
ODD = st.one_of(
    st.sampled_from([None, True, False, 0, -1, -5, 10**400, -(10**400), 10**12, 2**63, 0.5, -0.0]),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e308, -1e308, 5e-324, 1e16]),
    st.sampled_from(
        ["", "x", "NaN", "WHITE", "SE0", "SE9", "ARD", "LIN0 + ", "\x00", "\ud800", "é"]
    ),
    st.sampled_from(["SE" + "9" * 5000, "SE0 x " * 300 + "SE0", "a" * 10_000, "{", "[" * 3000]),
    st.sampled_from([[], {}, [[]], [None], {"": None}, {"a": {}}, [1, "a"], ["SE0", "SE0"]]),
    st.sampled_from([30, 200, 900]).map(_nested),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
)


def _places(data: Any, path: tuple = ()) -> list[tuple]:
    items = data.items() if isinstance(data, dict) else enumerate(data)
    found = []
    for key, value in items:
        found.append((*path, key))
        if isinstance(value, dict | list):
            found += _places(value, (*path, key))
    return found


@st.composite
def mutated(draw: Any, data: dict[str, Any]) -> dict[str, Any]:
    """Return a copy of plain data, changed in one to three places."""
    data = copy.deepcopy(data)
    for _ in range(draw(st.sampled_from([1, 1, 1, 2, 3]))):
        places = _places(data)
        if not places:
            break
        # Tops and parts alike: most places lie within long lists.
        depths = sorted({len(path) for path in places})
        depth = draw(st.sampled_from(depths))
        *path, key = draw(st.sampled_from([p for p in places if len(p) == depth]))
        owner: Any = data
        for part in path:
            owner = owner[part]
        what = draw(st.sampled_from(["replace", "replace", "delete", "nest", "repeat", "add"]))
        if what == "replace":
            owner[key] = copy.deepcopy(draw(ODD))  # or changes would last
        elif what == "delete":
            del owner[key]
        elif what == "nest":
            owner[key] = draw(st.sampled_from([[owner[key]], {"a": owner[key]}]))
        elif what == "repeat" and isinstance(owner, list):
            owner[:] = owner * draw(st.integers(2, 3))
        elif isinstance(owner, dict):
            owner[draw(st.sampled_from(["", "draw", "final", "extra", "é"]))] = copy.deepcopy(
                draw(ODD)
            )
    return data


def written(data: Any) -> bytes:
    """Return plain data as Python writes it, with whatever JSON doesn't know."""
    return json.dumps(data).encode()

"""What a refusal looks like."""

import re

import pytest

from kem_pymc.errors import InputError


def refused(call, *words):
    """The call is refused in two sentences that hold these words."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    assert len(re.findall(r"[.!?](?=\s|$)", message)) == 2, message
    for word in words:
        assert word in message
    return message

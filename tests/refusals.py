"""What a refusal looks like."""

import pytest

from kem_pymc.errors import InputError


def refused(call, *words):
    """The call is refused with a message that contains these words."""
    with pytest.raises(InputError) as caught:
        call()
    message = str(caught.value)
    for word in words:
        assert word in message
    return message

"""Any message of one of kio's classes, as Hypothesis draws it."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st
from kio.static.primitive import Records

st.register_type_strategy(Records, st.binary(max_size=40).map(Records))


@cache
def messages(message_class: Any) -> st.SearchStrategy[Any]:
    """Messages of a class; to find out what its fields may be takes longer than to draw some."""
    return st.from_type(message_class)

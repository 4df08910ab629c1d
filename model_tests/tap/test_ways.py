"""What becomes of requests and responses of each API, and of what is none."""

from __future__ import annotations

import pytest

from tidegauge.impl.tap.copies import CHANGES, NOT_RECORDED, READS
from tidegauge.impl.tap.rewriting import may_have_addresses
from tidegauge.impl.tap.ways import way_of
from tidegauge.impl.wire.apis import BROKER_APIS, ApiKey


@pytest.mark.parametrize("key", sorted(BROKER_APIS))
def test_each_api_has_its_way(key: ApiKey) -> None:
    for version in range(BROKER_APIS[key].highest + 2):
        way = way_of(key, version)
        assert way.is_read == (key in READS)
        assert way.is_left_out == (key in NOT_RECORDED)
        assert way.has_addresses == may_have_addresses(key, version)
        assert way.has_acks == (key == ApiKey.PRODUCE)
        assert way.begins_tokens == (key == ApiKey.SASL_HANDSHAKE and version == 0)


def test_what_may_have_been_done_without_a_response_is_copied_before_it_is_passed_on() -> None:
    before = {key for key in ApiKey if way_of(key, 0).is_copied_before}
    assert before == {*CHANGES, ApiKey.CREATE_TOPICS}


@pytest.mark.parametrize(("key", "version"), [(999, 0), (-1, 0), (32767, -32768)])
def test_what_is_no_api_passes_and_is_left_out(key: int, version: int) -> None:
    way = way_of(key, version)
    assert way.is_left_out
    assert not any((way.is_read, way.has_acks, way.is_copied_before, way.has_addresses, way.begins_tokens))

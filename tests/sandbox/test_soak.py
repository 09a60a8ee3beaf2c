"""A zygote that has served hundreds of candidates, good and bad, is what it was."""

from __future__ import annotations

from progevo.bench.soak import soak

#: What a zygote may grow by: measured, 0.2 MiB over the first hundred candidates and none after.
GROWTH_BYTES = 1024 * 1024


def test_nothing_grows_and_nothing_stays():
    found = soak(400)
    before, after = found["before"], found["after"]
    assert found["unexpected"] == []
    assert sum(found["statuses"].values()) == 400
    assert found["left"] == 0
    assert after["processes"] == before["processes"]
    assert after["host_descriptors"] == before["host_descriptors"]
    if before["zygote_descriptors"] is not None:
        assert after["zygote_descriptors"] == before["zygote_descriptors"]
        assert after["zygote_rss_bytes"] - before["zygote_rss_bytes"] < GROWTH_BYTES
        assert after["zygote_uss_bytes"] - before["zygote_uss_bytes"] < GROWTH_BYTES

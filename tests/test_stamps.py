from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import pytest
from hypothesis import event, example, given
from hypothesis import strategies as st

from vault_mem import stamps

MOMENTS = st.datetimes(
    min_value=datetime(1970, 1, 2),  # noqa: DTZ001 - hypothesis takes naive bounds
    max_value=datetime(9990, 1, 1),  # noqa: DTZ001 - see above
    timezones=st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes))),
)


@pytest.mark.parametrize(
    ("text", "epoch", "zoned"),
    (
        pytest.param("2026-12-01T10:00:00Z", 1796119200.0, True, id="Z"),
        pytest.param("2026-12-01t10:00:00z", 1796119200.0, True, id="lower case"),
        pytest.param("2026-12-01T12:00:00+02:00", 1796119200.0, True, id="east"),
        pytest.param("2026-12-01T05:00:00-0500", 1796119200.0, True, id="west without colon"),
        pytest.param("2026-12-01T12:00:00+02", 1796119200.0, True, id="hours only"),
        pytest.param("2026-12-01 10:00:00 +00:00", 1796119200.0, True, id="blanks"),
        pytest.param("2026-12-01T10:00:00.5Z", 1796119200.5, True, id="one digit"),
        pytest.param("2026-12-01T10:00:00.000000001Z", 1796119200.000000001, True, id="nine digits"),
        pytest.param("2026-12-01T10:00Z", 1796119200.0, True, id="no seconds"),
        pytest.param("2026-12-01T10:00:00", 1796119200.0, False, id="no zone is UTC, and said"),
        pytest.param("2026-12-01", 1796083200.0, True, id="a date is midnight UTC"),
        pytest.param("  2026-12-01T10:00:00Z\n", 1796119200.0, True, id="space around"),
        pytest.param("2024-02-29", 1709164800.0, True, id="a leap day"),
        pytest.param("1969-12-31T23:59:59Z", -1.0, True, id="before the epoch"),
    ),
)
def test_a_stamp_is_read_to_seconds(text: str, epoch: float, zoned: bool) -> None:
    assert stamps.parse(text) == stamps.Stamp(epoch, zoned)


@pytest.mark.parametrize(
    "text",
    (
        "",
        "soon",
        "2026",
        "2026-12",
        "2026-13-01",
        "2026-00-01",
        "2026-12-32",
        "2025-02-29",
        "2026-04-31",
        "2026-12-01T",
        "2026-12-01T25:00:00Z",
        "2026-12-01T10:60:00Z",
        "2026-12-01T10:00:00.Z",
        "2026-12-01T10:00.5Z",
        "2026-12-01T10Z",
        "2026-12-01T10:00:00+",
        "2026-12-01T10:00:00+99:00",
        "2026-12-01T10:00:00 Europe/Vienna",
        "20261201T100000Z",
        "2026-12-01Q10:00:00Z",
        "\uff12\uff10\uff12\uff16-12-01",
        "²026-12-01",
        "yesterday 2026-12-01",
        "1796119200",
    ),
)
def test_anything_else_is_no_stamp(text: str) -> None:
    assert stamps.parse(text) is None


@given(MOMENTS)
def test_every_moment_is_read_as_the_library_reads_it(moment: datetime) -> None:
    read = stamps.parse(moment.isoformat())

    assert read is not None
    assert read.zoned
    assert read.epoch == pytest.approx(moment.timestamp(), abs=1e-5)


@given(st.integers(0, 250_000_000_000))
def test_a_written_stamp_is_read_back(millis: int) -> None:
    assert stamps.epoch_of(stamps.utc_millis(millis / 1000)) == pytest.approx(millis / 1000, abs=1e-6)
    assert stamps.epoch_of(stamps.utc(millis // 1000)) == millis // 1000


@given(st.dates(min_value=date(1970, 1, 1)))
def test_every_day_is_read(day: date) -> None:
    expected = datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()

    assert stamps.parse(day.isoformat()) == stamps.Stamp(expected, zoned=True)
    assert stamps.day(expected) == day.isoformat()


@given(st.text(max_size=30))
def test_no_text_makes_the_reader_fail(text: str) -> None:
    stamps.parse(text)
    stamps.parse("2026-12-01T" + text)


@pytest.mark.parametrize("value", (None, 5, 5.0, True, [], {}, b"2026-12-01"), ids=repr)
def test_what_is_no_text_has_no_epoch(value: object) -> None:
    assert stamps.epoch_of(value) is None


def test_milliseconds_keep_the_order_of_two_saves_within_a_second() -> None:
    first, second = stamps.utc_millis(1796119200.001), stamps.utc_millis(1796119200.002)

    assert first == "2026-12-01T10:00:00.001Z"
    assert first < second


def test_a_fraction_that_rounds_up_moves_the_second_on() -> None:
    assert stamps.utc_millis(1796119199.9999) == "2026-12-01T10:00:00.000Z"


def test_days_and_minutes_are_those_of_utc() -> None:
    assert stamps.day(1796169599.0) == "2026-12-01"
    assert stamps.minute(1796119200.0) == "10:00"


@given(
    st.from_regex(
        r"\A[0-9]{4}[-/][0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}[:.][0-9]{2}(\.[0-9]{3})?[Zz]\Z", fullmatch=True
    )
)
@example("1970-01-01T00:00:05.685Z")
@example("2026-12-01T10:00:00.001Z")
def test_the_short_way_for_our_own_stamps_gives_what_the_long_way_gives(text: str) -> None:
    slow = stamps.parse(text)

    event("read" if slow else "refused")
    assert stamps.epoch_of(text) == (None if slow is None else round(slow.epoch, 6))


@given(MOMENTS, MOMENTS)
def test_what_looks_earlier_is_earlier(first: datetime, second: datetime) -> None:
    for form in (stamps.utc, stamps.utc_millis):
        for other in (stamps.utc, stamps.utc_millis):
            one, two = form(first.timestamp()), other(second.timestamp())
            if stamps.surely_before(one, two):
                assert (stamps.epoch_of(one) or 0) < (stamps.epoch_of(two) or 0)


@pytest.mark.parametrize("odd", (None, 1, ("2020-01-01T00:00:00Z",), "2020-01-01", "2020-01-01T00:00:00+01:00", ""))
def test_nothing_is_said_of_another_form(odd: object) -> None:
    assert not stamps.surely_before(odd, "2026-12-01T10:00:00Z")
    assert not stamps.surely_before("2026-12-01T10:00:00Z", odd)

from __future__ import annotations

import pickle
import typing
from typing import Any

import pytest

from vault_mem.record import NamedTuple


class Point(NamedTuple):
    """A value with one required and two optional fields, a method and a property."""

    x: int
    y: int = 0
    names: tuple[str, ...] = ()

    @property
    def sum(self) -> int:
        return self.x + self.y

    def moved(self, by: int) -> Point:
        return self._replace(x=self.x + by)


class Reference(typing.NamedTuple):
    x: int
    y: int = 0
    names: tuple[str, ...] = ()


def test_fields_come_in_order_and_defaults_fill_the_rest() -> None:
    assert Point(1) == (1, 0, ())
    assert Point(1, names=("a",)) == (1, 0, ("a",))
    assert Point(y=2, x=1).y == 2
    assert Point._fields == Reference._fields
    assert Point._field_defaults == Reference._field_defaults


def test_a_value_has_methods_properties_and_a_changed_copy() -> None:
    point = Point(1, 2)

    assert point.sum == 3
    assert point.moved(4) == Point(5, 2)
    assert point == Point(1, 2)
    assert point._asdict() == Reference(1, 2)._asdict()


def test_a_value_cannot_be_changed() -> None:
    point = Point(1)

    with pytest.raises(AttributeError):
        point.x = 2  # type: ignore[misc]  # that is the point
    with pytest.raises(AttributeError):
        point.z = 2  # type: ignore[attr-defined]  # that is the point


@pytest.mark.parametrize(
    ("arguments", "named", "says"),
    (
        pytest.param((), {}, "missing 'x'", id="a field is missing"),
        pytest.param((1, 2, (), 4), {}, "takes 3 values, 4 were given", id="one too many"),
        pytest.param((1,), {"z": 1}, "no field 'z'", id="an unknown name"),
        pytest.param((1,), {"x": 1}, "no field 'x'", id="given twice"),
    ),
)
def test_a_wrong_call_names_what_is_wrong(arguments: tuple[Any, ...], named: dict[str, Any], says: str) -> None:
    with pytest.raises(TypeError, match=says):
        Point(*arguments, **named)


def test_it_prints_matches_hashes_and_pickles_like_the_library_one() -> None:
    point = Point(1, 2, ("a",))

    assert repr(point) == repr(Reference(1, 2, ("a",))).replace("Reference", "Point")
    assert {point: 1}[Point(1, 2, ("a",))] == 1
    assert pickle.loads(pickle.dumps(point)) == point
    match point:
        case Point(x, y, _):
            assert (x, y) == (1, 2)
        case _:
            pytest.fail("did not match")


def test_the_values_are_those_of_the_library_one() -> None:
    assert tuple(Point(1)) == tuple(Reference(1))
    assert type(Point(1)) is Point

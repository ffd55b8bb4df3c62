"""Frozen values for the hook path.

`dataclasses` costs 8-15 ms of CPU to import and `typing.NamedTuple` 7-8 ms, a whole interpreter start (docs/explanation/performance.md).
Type checkers see `typing.NamedTuple`; at run time the small metaclass below makes the same kind of tuple: fields in order, defaults,
`_fields`, `_replace`, `_asdict`, methods and properties. Annotations are never evaluated, so modules that define values begin with
`from __future__ import annotations`.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414 - an explicit re-export
else:
    from _collections import _tuplegetter

    class _Fields(type):
        """Turns the annotations of a class into tuple fields."""

        def __new__(cls, name, bases, space):
            fields = tuple(space.get("__annotations__", ()))
            space["_field_defaults"] = {field: space.pop(field) for field in fields if field in space}
            space["_fields"] = space["__match_args__"] = fields
            space["__slots__"] = ()
            optional = 0
            while optional < len(fields) and fields[-1 - optional] in space["_field_defaults"]:
                optional += 1
            space["_tail"] = tuple(space["_field_defaults"][field] for field in fields[len(fields) - optional :])
            for index, field in enumerate(fields):
                space[field] = _tuplegetter(index, "")
            return super().__new__(cls, name, bases, space)

    class NamedTuple(tuple, metaclass=_Fields):
        """An immutable value with named fields."""

        def __new__(cls, *args, **kwargs):
            fields = cls._fields
            if not kwargs:
                # The usual call, in a fifth of the time: ten thousand candidates are made by it.
                missing = len(fields) - len(args)
                if missing == 0:
                    return tuple.__new__(cls, args)
                if 0 < missing <= len(cls._tail):
                    return tuple.__new__(cls, args + cls._tail[-missing:])
            if len(args) > len(fields):
                raise TypeError(f"{cls.__name__}() takes {len(fields)} values, {len(args)} were given")
            values = list(args)
            defaults = cls._field_defaults
            for field in fields[len(args) :]:
                if field in kwargs:
                    values.append(kwargs.pop(field))
                elif field in defaults:
                    values.append(defaults[field])
                else:
                    raise TypeError(f"{cls.__name__}() is missing {field!r}")
            if kwargs:
                raise TypeError(f"{cls.__name__}() has no field {next(iter(kwargs))!r}")
            return tuple.__new__(cls, values)

        def __getnewargs__(self):
            return tuple(self)

        def __repr__(self):
            inner = ", ".join(f"{field}={value!r}" for field, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({inner})"

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def _replace(self, **changes):
            # Once a turn of a transcript: a third of the time that the constructor takes by names.
            values = [changes.pop(field, value) for field, value in zip(self._fields, self, strict=True)]
            if changes:
                raise TypeError(f"{type(self).__name__}() has no field {next(iter(changes))!r}")
            return tuple.__new__(type(self), values)

"""Where continuity lies: `runtime/context/<session hash>/` with the event log, the state made from it, and one file a checkpoint.

The log is the truth, the state its fold, kept so that a hook need not read the log. Whoever changes something holds the session's lock. A state
that is damaged or behind the log is made again from log and checkpoint files; a checkpoint file is never overwritten.
"""

from __future__ import annotations

import os

from vault_mem import files, jsontext, lock, stamps
from vault_mem.record import NamedTuple
from vault_mem.session import checkpoint, continuity, identity
from vault_mem.session.continuity import Event, State

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from vault_mem.session.continuity import Event as _Event

LOG_LIMIT = 1 << 20
RECORD_LIMIT = 1 << 20
LEFT_BEHIND = 3600.0
STATE, LOG, LOCK = "state.json", "events.jsonl", "lock"


class Kept(NamedTuple):
    """A state with the size of the log it was made from."""

    state: State
    size: int


def base(runtime: str) -> str:
    """The folder of all sessions."""
    return f"{runtime}/context"


def folder(runtime: str, session: str) -> str:
    """The folder of one session (safe id)."""
    return f"{runtime}/context/{identity.folder(session)}"


def marker(runtime: str, session: str) -> str:
    """The file that exists while a hook of this session has something to look after; asking for it is all that an ordinary hook does."""
    return f"{runtime}/context/open/{session}"


def mark(runtime: str, session: str, *, wanted: bool) -> None:
    """Put the marker there or take it away."""
    path = marker(runtime, session)
    if wanted:
        if not os.path.exists(path):
            files.make_dirs(os.path.dirname(path))
            files.write_atomic(path, b"", durable=False)
    else:
        files.remove(path)


def locked(runtime: str, session: str, *, timeout: float) -> lock.Locked:
    """The session's own lock; the folder is made, for its owner alone."""
    directory = folder(runtime, session)
    files.make_dirs(f"{directory}/checkpoints")
    return lock.Locked(f"{directory}/{LOCK}", timeout=timeout)


# Events and state


def load(runtime: str, session: str) -> State | None:
    """The state of a session, brought up to its log; None when nothing is known of it."""
    found = kept(folder(runtime, session))
    return None if found is None else found.state


def kept(directory: str) -> Kept | None:
    """The state that is kept, brought up to the log; made anew where it is damaged or ahead of it."""
    size = _size(f"{directory}/{LOG}")
    stored = _stored(directory)
    if stored is not None and stored.size == size:
        return stored
    if stored is not None and stored.size < size:
        events, end = _events(f"{directory}/{LOG}", stored.size)
        if events and _follows(events, stored.state):
            return Kept(continuity.folded(events, stored.state), end)
    return rebuilt(directory)


def _follows(events: list[_Event], state: State) -> bool:
    return all(event.kind != continuity.CARRIED for event in events) and bool(state.session)


def _stored(directory: str) -> Kept | None:
    value = _json(f"{directory}/{STATE}")
    if not isinstance(value, dict) or type(value.get("log")) is not int:
        return None
    state = continuity.from_json(value.get("state"))
    return None if state is None else Kept(state, value["log"])


def _json(path: str) -> object:
    try:
        return jsontext.loads(files.read(path, limit=RECORD_LIMIT).decode("utf-8"))
    except (OSError, ValueError):
        return None


def _size(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_size
    except OSError:
        return 0


def _events(path: str, offset: int = 0) -> tuple[list[_Event], int]:
    """The events from *offset* on, and where the last whole line ends; lines that are no events are passed over."""
    try:
        data = files.read(path)[offset:]
    except OSError:
        return [], offset
    end = data.rfind(b"\n") + 1
    found = []
    for line in data[:end].split(b"\n"):
        try:
            event = continuity.event_from_json(jsontext.loads(line.decode("utf-8"))) if line.strip() else None
        except ValueError:
            event = None
        if event is not None:
            found.append(event)
    return found, offset + len(data)


def events(runtime: str, session: str) -> tuple[_Event, ...]:
    """The log of a session since it was last turned over, oldest first."""
    return tuple(_events(f"{folder(runtime, session)}/{LOG}")[0])


def rebuilt(directory: str) -> Kept | None:
    """The state as the log tells it, and where the log is gone or behind, as the checkpoint files do; None when there is neither."""
    found, end = _events(f"{directory}/{LOG}")
    state = continuity.folded(found)
    for generation in generations(directory):
        record = read_checkpoint(directory, generation) if generation > state.generation else None
        if record is not None:
            state = _from_header(state, record)
    if not state.session:
        record = newest(directory)
        name = record["session"].get("id") if record else None
        harness = record["session"].get("harness") if record else None
        if isinstance(name, str):
            state = state._replace(session=name, harness=harness if isinstance(harness, str) else "")
    return Kept(state, end) if found or state.generation else None


def _from_header(state: State, record: Mapping[str, Any]) -> State:
    """*state* with a checkpoint that no event tells of: the process died between the file and the log, or the log is lost."""
    at = stamps.epoch_of(record["created_at"]) or 0.0
    kind = continuity.CREATED if record["reason"] == continuity.PRE_COMPACT else continuity.TAKEN
    phase = continuity.step(state.phase, kind)
    return state._replace(
        phase=phase,
        generation=record["generation"],
        latest=record["id"],
        checkpointed=at,
        updated=max(at, state.updated),
    )


def append(
    runtime: str,
    state: State,
    planned: Iterable[tuple[str, Mapping[str, Any]]],
    *,
    at: float,
    durable: bool = True,
) -> State:
    """Write the events to the log in one piece, then the state that they make. The caller holds the session's lock and read *state* under it.

    *state* names session and harness also before anything is known of them; the first row of a log then carries the names.
    """
    names = {"session": state.session, "harness": state.harness} if not state.events else {}
    rows = [
        Event(continuity.ulid(at, index.to_bytes(2, "big") + os.urandom(8)), at, kind, {**data, **names})
        for index, (kind, data) in enumerate(planned)
    ]
    if not rows:
        return state
    directory = folder(runtime, state.session)
    path = f"{directory}/{LOG}"
    files.make_dirs(directory)
    size = _size(path)
    if size > LOG_LIMIT:
        state = _turned_over(directory, state, at=at)
        size = _size(path)
    after = continuity.folded(rows, state)
    data = b"".join((jsontext.dumps(continuity.event_to_json(row)) + "\n").encode("utf-8", "replace") for row in rows)
    if size and not _ends_whole(path):
        data = b"\n" + data  # a writer was killed in the middle of a line
    files.append(path, data)
    store(directory, after, size + len(data), durable=durable)
    return after


def _ends_whole(path: str) -> bool:
    handle = os.open(path, os.O_RDONLY | files.NOT_FOLLOWED)
    try:
        return os.pread(handle, 1, max(0, os.fstat(handle).st_size - 1)) == b"\n"
    finally:
        os.close(handle)


def _turned_over(directory: str, state: State, *, at: float) -> State:
    """Begin a new log with one row that carries the state; the old one stays beside it."""
    row = Event(continuity.ulid(at, os.urandom(10)), at, continuity.CARRIED, {"state": continuity.to_json(state)})
    os.replace(f"{directory}/{LOG}", f"{directory}/{LOG}.1")
    data = (jsontext.dumps(continuity.event_to_json(row)) + "\n").encode("utf-8", "replace")
    files.append(f"{directory}/{LOG}", data)
    return continuity.apply(state, row)


def store(directory: str, state: State, size: int, *, durable: bool = True) -> None:
    """Keep a state with the size of the log it was made from."""
    text = jsontext.dumps({"log": size, "state": continuity.to_json(state)}) + "\n"
    files.write_atomic(f"{directory}/{STATE}", text.encode("utf-8", "replace"), durable=durable)


def states(runtime: str) -> tuple[State, ...]:
    """The states of all sessions, the one that changed last first. Cheap enough for the doctor: one small file a session."""
    found = [known.state for directory in directories(runtime) if (known := kept(directory)) is not None]
    return tuple(sorted(found, key=lambda state: (-state.updated, state.session)))


def directories(runtime: str) -> tuple[str, ...]:
    """The folders of all sessions, in the order of their names."""
    try:
        names = sorted(os.listdir(base(runtime)))
    except OSError:
        return ()
    return tuple(
        f"{base(runtime)}/{name}" for name in names if len(name) == 24 and os.path.isdir(f"{base(runtime)}/{name}")
    )


# Checkpoints


def path_of(directory: str, generation: int) -> str:
    """Where a generation lies."""
    return f"{directory}/checkpoints/{generation:06d}.json"


def generations(directory: str) -> tuple[int, ...]:
    """The generations that lie there, oldest first; whether they can be read is another question."""
    try:
        names = os.listdir(f"{directory}/checkpoints")
    except OSError:
        return ()
    return tuple(sorted(int(name[:-5]) for name in names if name.endswith(".json") and name[:-5].isdigit()))


def read_checkpoint(directory: str, generation: int) -> dict[str, Any] | None:
    """One checkpoint; None when it is not there or is not whole."""
    try:
        text = files.read(path_of(directory, generation), limit=RECORD_LIMIT).decode("utf-8")
    except (OSError, ValueError):
        return None
    record = checkpoint.read(text)
    return record if record is not None and record["generation"] == generation else None


def newest(directory: str) -> dict[str, Any] | None:
    """The newest checkpoint that can be read."""
    found = (read_checkpoint(directory, generation) for generation in reversed(generations(directory)))
    return next((record for record in found if record is not None), None)


def add_checkpoint(directory: str, record: Mapping[str, Any], *, durable: bool) -> str:
    """Write a new generation; FileExistsError when it is there already. Gives its path."""
    path = path_of(directory, record["generation"])
    files.make_dirs(os.path.dirname(path))
    files.create(path, checkpoint.written(dict(record)), durable=durable)
    return path


def sweep(directory: str, *, now: float) -> int:
    """Remove temporary files of writers that died; how many there were."""
    swept = 0
    for place in (directory, f"{directory}/checkpoints"):
        try:
            names = os.listdir(place)
        except OSError:
            continue
        for name in names:
            path = f"{place}/{name}"
            try:
                if files.is_temporary(name) and now - os.stat(path, follow_symlinks=False).st_mtime > LEFT_BEHIND:
                    swept += files.remove(path)
            except OSError:
                continue
    return swept

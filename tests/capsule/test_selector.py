from __future__ import annotations

import pytest

from vault_mem import stamps
from vault_mem.capsule import model, selector
from vault_mem.capsule.selector import Candidate, Delivery, Facts, select

NOW = 1_796_000_000.0


def capsule(name: str, age: float = 60.0, **fields: object) -> Candidate:
    header = {
        "id": name,
        "status": "active",
        "objective": f"Objective of {name}.",
        "waiting_on": "Nothing.",
        "next_valid_action": f"Action of {name}.",
        "created_at": stamps.utc_millis(NOW - age),
        "session_id": f"session-of-{name}",
        **fields,
    }
    return Candidate(name, f"capsules/2026-12/{name}.md", header)  # type: ignore[arg-type]  # a table of loosely typed fields


def facts(**given: object) -> Facts:
    return Facts(**{"deliveries": {}, "started": NOW, **given})  # type: ignore[arg-type]  # a table of loosely typed fields


def reasons(selection: selector.Selection) -> dict[str, str]:
    return {rejection.name: rejection.reason for rejection in selection.rejected}


@pytest.mark.parametrize(
    ("candidate", "reason"),
    (
        pytest.param(capsule("a", status="resumed"), "already-consumed", id="resumed"),
        pytest.param(capsule("a", status="consumed"), "already-consumed", id="legacy-consumed"),
        pytest.param(capsule("a", status="resolved"), "already-consumed", id="resolved"),
        pytest.param(capsule("a", status="paused"), "status-not-active", id="paused"),
        pytest.param(capsule("a", status="Active"), "status-not-active", id="case-matters"),
        pytest.param(capsule("a", status=None), "status-not-active", id="no-status"),
        pytest.param(capsule("a", id=None), "no-id", id="null-id"),
        pytest.param(capsule("a", created_at="yesterday"), "bad-created_at", id="bad-stamp"),
        pytest.param(capsule("a", created_at=None), "bad-created_at", id="no-stamp"),
        pytest.param(capsule("a", age=-601.0), "future-created_at", id="future"),
        pytest.param(capsule("a", objective="  "), "missing-required-field", id="blank-objective"),
        pytest.param(capsule("a", next_valid_action=None), "missing-required-field", id="null-action"),
        pytest.param(capsule("a", expires=stamps.utc(NOW - 1)), "expired", id="expired"),
        pytest.param(Candidate("a", "capsules/a.md", None, "symlink"), "symlink", id="symlink"),
        pytest.param(
            Candidate("a", "capsules/a.md", None, "duplicate-key", "status"), "duplicate-key", id="duplicate-key"
        ),
    ),
)
def test_a_capsule_that_is_passed_over_says_why(candidate: Candidate, reason: str) -> None:
    selection = select([candidate], now=NOW, facts=facts())

    assert selection.chosen is None
    assert selection.unavailable == "all-candidates-rejected"
    assert reasons(selection) == {"a": reason}


def test_the_newest_active_one_wins_and_the_ledger_names_every_other_one() -> None:
    everyone = [
        capsule("old", 600),
        capsule("new", 60),
        capsule("spent", 30, status="resumed"),
        Candidate("bad", "capsules/bad.md", None, "not-utf8"),
    ]

    selection = select(everyone, now=NOW, facts=facts())

    assert (selection.chosen, selection.tier) == (everyone[1], selector.ACTIVE)
    assert reasons(selection) == {"old": "older-active", "spent": "already-consumed", "bad": "not-utf8"}


@pytest.mark.parametrize("order", (("tie-1", "tie-2"), ("tie-2", "tie-1")))
def test_equal_times_go_to_the_greater_id_whatever_the_order_of_the_files(order: tuple[str, str]) -> None:
    selection = select([capsule(name) for name in order], now=NOW, facts=facts())

    assert selection.chosen is not None
    assert selection.chosen.name == "tie-2"


def test_fractions_of_a_second_count() -> None:
    early, late = (
        capsule("b", created_at="2026-11-28T10:00:00.100Z"),
        capsule("a", created_at="2026-11-28T11:00:00.2+01:00"),
    )

    selection = select([early, late], now=NOW, facts=facts())

    assert selection.chosen is late


@pytest.mark.parametrize(
    "wording",
    ("Unknown: no operator objective was captured in this session.", "Unknown: no human objective was captured"),
)
def test_a_placeholder_loses_to_an_older_real_one_and_wins_alone(wording: str) -> None:
    nothing = "No concrete next action was captured in this Stop delta."
    placeholder, real = capsule("p", 10, objective=wording, next_valid_action=nothing), capsule("r", 1000)

    both = select([placeholder, real], now=NOW, facts=facts())
    alone = select([placeholder], now=NOW, facts=facts())

    assert (both.chosen, reasons(both)) == (real, {"p": "placeholder-demoted"})
    assert (alone.chosen, alone.tier) == (placeholder, selector.PLACEHOLDER)


@pytest.mark.parametrize(
    "unknown",
    (
        {"objective": "Unknown: no operator objective was captured in this session."},
        {"next_valid_action": "No concrete next action was captured in this Stop delta."},
    ),
    ids=("objective", "next-action"),
)
def test_a_newer_capsule_that_knows_one_of_the_two_comes_before_an_older_one(unknown: dict[str, str]) -> None:
    newer, older = capsule("n", 10, **unknown), capsule("o", 1000)

    found = select([newer, older], now=NOW, facts=facts())

    assert (found.chosen, found.tier, reasons(found)) == (newer, selector.ACTIVE, {"o": "older-active"})


def test_the_session_just_cleared_comes_before_a_newer_one_of_another_session() -> None:
    mine, other = capsule("mine", 60), capsule("other", 10)

    selection = select([mine, other], now=NOW, facts=facts(bound="session-of-mine"))

    assert (selection.chosen, selection.tier) == (mine, selector.SESSION_BOUND)
    assert reasons(selection) == {"other": "older-active"}


def test_history_overrules_a_file_that_says_active() -> None:
    restored = capsule("restored")

    selection = select(
        [restored, capsule("older", 600)], now=NOW, facts=facts(deliveries={"restored": Delivery("x", NOW - 30)})
    )

    assert selection.chosen is not None
    assert selection.chosen.name == "older"
    assert reasons(selection) == {"restored": "consumed-in-history"}


SPENT = capsule("spent", 100, status="resumed")
HANDED = {"spent": Delivery("consumer", NOW - 50)}


def test_a_consumer_that_saved_nothing_leaves_its_capsule_for_a_redelivery() -> None:
    selection = select([SPENT, capsule("older", 500, status="resolved")], now=NOW, facts=facts(deliveries=HANDED))

    assert (selection.chosen, selection.tier) == (SPENT, selector.REDELIVERY)
    assert reasons(selection) == {"older": "already-consumed"}


@pytest.mark.parametrize(
    ("more", "given"),
    (
        pytest.param([capsule("child", 40, status="resolved", session_id="consumer")], {}, id="the-consumer-saved"),
        pytest.param(
            [capsule("child", 140, status="paused", parent_capsule_id="spent")], {}, id="it-has-a-child-in-the-tree"
        ),
        pytest.param([], {"parents": frozenset({"spent"})}, id="it-has-a-child-in-history"),
        pytest.param([], {"saved": frozenset({"consumer"})}, id="the-consumer-saved-in-history"),
        pytest.param([], {"alive": frozenset({"consumer"})}, id="the-consumer-lives"),
        pytest.param(
            [],
            {"deliveries": {"spent": Delivery("consumer", NOW + 0.001)}},
            id="it-was-consumed-after-this-resume-began",
        ),
        pytest.param([capsule("newer", 10, status="paused")], {}, id="it-is-not-the-newest-of-the-seat"),
        pytest.param([], {"deliveries": {}}, id="history-knows-no-delivery"),
    ),
)
def test_no_redelivery_when(more: list[Candidate], given: dict[str, object]) -> None:
    selection = select([SPENT, *more], now=NOW, facts=facts(**{"deliveries": HANDED, **given}))

    assert selection.chosen is None
    assert selection.tier == selector.NONE


def test_a_seat_is_never_stuck_on_its_first_spent_capsule() -> None:
    for turns in range(1, 6):
        spent = [capsule(f"s{n}", 1000 - n * 10, status="resumed") for n in range(turns)]
        fresh = capsule(
            f"s{turns}", 1000 - turns * 10, next_valid_action="No concrete next action was captured in this Stop delta."
        )

        selection = select(
            [*spent, fresh],
            now=NOW,
            facts=facts(
                deliveries={each.name: Delivery(f"session-of-s{n + 1}", NOW - 900) for n, each in enumerate(spent)}
            ),
        )

        assert selection.chosen is fresh


def test_capsules_of_other_projects_are_left_alone_only_where_a_setting_says_so() -> None:
    elsewhere = capsule("elsewhere", project="other")

    assert select([elsewhere], now=NOW, facts=facts()).chosen is elsewhere
    assert reasons(select([elsewhere], now=NOW, facts=facts(project="mine"))) == {"elsewhere": "other-project"}


@pytest.mark.parametrize("reason", sorted(selector.ORDINARY_REASONS))
def test_ordinary_reasons_raise_no_alarm(reason: str) -> None:
    assert selector.Rejection("a", reason).ordinary


@pytest.mark.parametrize("status", (model.PAUSED, model.ABANDONED, model.SUPERSEDED))
def test_a_capsule_put_to_rest_raises_no_alarm(status: str) -> None:
    assert selector.Rejection("a", "status-not-active", status).ordinary


@pytest.mark.parametrize("reason", sorted(selector.DEFECT_REASONS))
def test_defects_raise_an_alarm(reason: str) -> None:
    assert not selector.Rejection("a", reason, "draft").ordinary


def test_an_empty_tree_says_so() -> None:
    assert select([], now=NOW, facts=facts()).unavailable == "no-capsules-on-disk"
    assert select([], now=NOW, facts=facts(), unavailable="no-capsules-dir").unavailable == "no-capsules-dir"


def test_two_files_of_one_name_are_told_apart_by_their_paths() -> None:
    def of(path: str, created: str, status: str) -> selector.Candidate:
        fields: dict[str, model.Value] = {
            "id": "same",
            "status": status,
            "objective": "o",
            "next_valid_action": "n",
            "created_at": created,
        }
        return selector.Candidate("same", path, fields)

    newest = of("capsules/2026-12/same.md", "2026-12-01T10:00:00Z", "resumed")
    older = of("capsules/2026-11/same.md", "2026-11-01T10:00:00Z", "resolved")
    facts = selector.Facts({"same": selector.Delivery("s", 1.0)}, started=2.0)

    selection = selector.select((newest, older), now=4e9, facts=facts)

    assert selection.chosen is newest
    assert [(each.path, each.reason) for each in selection.rejected] == [
        ("capsules/2026-11/same.md", "already-consumed")
    ]

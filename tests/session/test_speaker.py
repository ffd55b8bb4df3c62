from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vault_mem.session import identity, patches, places, speaker


def told(text: str, *, human: bool | None = None, sender: str = "") -> tuple[str, str] | None:
    turn = speaker.prompt(text, at=None, human=human, sender=sender)
    return (turn.tag, turn.text) if turn else None


@pytest.mark.parametrize(
    ("text", "expected"),
    (
        pytest.param("fix it", ("OPERATOR", "fix it"), id="words"),
        pytest.param("<div> is not closed", ("OPERATOR", "<div> is not closed"), id="a text that begins with a tag"),
        pytest.param("fix it <system-reminder>x</system-reminder> now", ("OPERATOR", "fix it  now"), id="block within"),
        pytest.param("<SYSTEM-REMINDER>x</SYSTEM-REMINDER>fix it", ("OPERATOR", "fix it"), id="block in capitals"),
        pytest.param("<ide_opened_file>/p/a.py</ide_opened_file>fix it", ("OPERATOR", "fix it"), id="editor"),
        pytest.param("<user-prompt-submit-hook>x</user-prompt-submit-hook>", None, id="hook alone"),
        pytest.param(
            "<permissions instructions>x</permissions instructions>fix", ("OPERATOR", "fix"), id="name with a blank"
        ),
        pytest.param("[inbox] two messages", ("RELAY:inbox", "[inbox] two messages"), id="inbox"),
        pytest.param("Another Claude session sent a message: hold on", ("PEER:agent", "hold on"), id="another session"),
        pytest.param('<channel source="CI">red</channel>', ("RELAY:ci", "red"), id="channel"),
        pytest.param(
            'quote: teammate_id="x" is an attribute',
            ("OPERATOR", 'quote: teammate_id="x" is an attribute'),
            id="quoted",
        ),
        pytest.param("@/p/a.md", ("ATTACHMENT", "@/p/a.md"), id="path alone"),
        pytest.param("/p/shot.png", ("ATTACHMENT", "/p/shot.png"), id="pasted path"),
        pytest.param("@/p/a.md summarise it", ("OPERATOR", "summarise it"), id="path before words"),
        pytest.param("@anna look at this", ("OPERATOR", "@anna look at this"), id="somebody is mentioned"),
        pytest.param("look at @/p/a.md", ("OPERATOR", "look at @/p/a.md"), id="path within words"),
        pytest.param("README.md", ("OPERATOR", "README.md"), id="a name without a folder"),
        pytest.param("/resume", None, id="our own command"),
        pytest.param("/vault-mem:context-capsule now", None, id="our own command with its plugin"),
        pytest.param("/review the diff", ("OPERATOR", "/review the diff"), id="another command"),
        pytest.param("   \n ", None, id="nothing"),
    ),
)
def test_who_speaks_is_told_by_the_text(text: str, expected: tuple[str, str] | None) -> None:
    assert told(text) == expected


def test_what_the_client_says_of_the_sender_counts_more_than_the_words() -> None:
    assert told("[auto-pull] done", human=True) == ("OPERATOR", "[auto-pull] done")
    assert told("do it", human=False) == ("INJECT:harness", "do it")
    assert told("do it", human=False, sender="PEER:ada") == ("PEER:ada", "do it")


def test_only_the_beginning_of_a_very_long_text_is_looked_at() -> None:
    found = told("x" * 1_000_000)

    assert found is not None
    assert len(found[1]) == speaker.BOUND


@given(st.text(alphabet="<>/abc -system-reminder\"'@[]\n", max_size=80))
def test_any_text_is_somebodys_or_nobodys(text: str) -> None:
    told(text)
    assert len(speaker.without_blocks(text)) <= len(text)


@pytest.mark.parametrize(
    ("path", "cwd", "expected"),
    (
        ("/p/a.py", "/p", "a.py"),
        ("a.py", "/p/sub", "sub/a.py"),
        ("../a.py", "/p/sub", "a.py"),
        ("./b//c.py", "/p", "b/c.py"),
        ("/q/a.py", "/p", "/q/a.py"),
        ("/pp/a.py", "/p", "/pp/a.py"),
        ("../../a.py", "/p", "/a.py"),
        ("~/a.py", "/p", "~/a.py"),
        ("", "/p", "/p"),
    ),
)
def test_a_path_is_told_as_seen_from_the_project(path: str, cwd: str, expected: str) -> None:
    assert places.relative(path, cwd=cwd, project="/p") == expected


def test_slashes_of_another_system_are_read() -> None:
    assert places.relative("C:\\w\\p\\src\\a.py", cwd="C:\\w\\p", project="C:\\w\\p") == "src/a.py"


@pytest.mark.parametrize(
    "path", ("README.md", "docs/a.rst", "LICENSE", "CHANGELOG", "x.png", "/elsewhere/a.py", "~/a.py", ".gitignore")
)
def test_prose_and_what_lies_elsewhere_breaks_no_test(path: str) -> None:
    assert not places.is_code(path)


@pytest.mark.parametrize("path", ("a.py", "Makefile", "src/x.ts", "conf.toml", "data.json", "Dockerfile", "a.sql"))
def test_a_change_of_anything_else_can(path: str) -> None:
    assert places.is_code(path)


def test_a_patch_names_its_files_in_order_and_once() -> None:
    text = "*** Begin Patch\n*** Add File: a b.py\n+*** Update File: no.py\n*** Update File: c.py\n*** Move to: d.py\n*** Delete File: e.py\n*** Update File: c.py\n*** End Patch"

    assert patches.paths(text) == ("a b.py", "c.py", "d.py", "e.py")
    assert patches.paths("no patch *** here") == ()


@pytest.mark.parametrize("raw", ("", ".", "..", "a/b", "../x", "a b", "é", "-a", ".a", "a" * 129, "a\n", "a\0"))
def test_an_id_that_can_be_no_file_name_becomes_one(raw: str) -> None:
    name = identity.safe_id(raw)

    assert name.startswith("session-")
    assert len(name) == len("session-") + 12
    assert identity.safe_id(name) == name


@pytest.mark.parametrize("raw", ("a", "0196-abc_d.e", "A" * 128, "019a0b1c-2d3e-7f40-8a1b-2c3d4e5f6a7b"))
def test_an_id_that_can_be_a_file_name_stays(raw: str) -> None:
    assert identity.safe_id(raw) == raw


def test_sessions_that_share_their_first_characters_have_capsules_of_their_own() -> None:
    names = {identity.autosave_id(f"019a0b1c-{number}", "2026-12-01") for number in range(50)}

    assert len(names) == 50
    assert identity.autosave_id("s", "2026-12-01", n=2).endswith("-2")

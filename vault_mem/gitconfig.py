"""What a repository's own configuration can make git run: a reader of its files and the judgement of every key. Pure.

Git itself is never asked, because asking it already obeys the configuration. Whatever this reader does not understand is unsafe.
"""

from __future__ import annotations

from vault_mem.record import NamedTuple

OURS = "vault-mem"
DRIVER_ARGUMENTS = ("merge-driver", "%O", "%A", "%B", "%P")


class Entry(NamedTuple):
    """One setting: `section.name` or `section.Subsection.name`, section and name in lower case; value None is a bare key."""

    key: str
    value: str | None


class GitConfigSyntaxError(ValueError):
    """A configuration file has a line that git or we would not understand."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Sections of which no key starts a program or reaches another host, but for the exceptions below.
_SECTIONS = _words(
    "advice author branch color column committer diff feature fetch gc gui i18n index init log maintenance merge notes pack pull push"
    " rebase receive remote rerere safe status submodule tag transfer uploadpack user worktree"
)
_CORE = _words(
    "abbrev attributesfile autocrlf bare bigfilethreshold checkroundtripencoding checkstat commentchar commentstring commitgraph"
    " compression createobject deltabasecachelimit eol excludesfile filemode filesreflocktimeout fsync fsyncmethod fsyncobjectfiles"
    " hidedotfiles ignorecase ignorestat logallrefupdates longpaths loosecompression maxtreedepth multipackindex notesref"
    " packedgitlimit packedgitwindowsize packedrefstimeout precomposeunicode prefersymlinkrefs preloadindex protecthfs protectntfs"
    " quotepath repositoryformatversion restrictinheritedhandles safecrlf sharedrepository sparsecheckout sparsecheckoutcone"
    " splitindex symlinks trustctime untrackedcache usereplacerefs warnambiguousrefs whitespace"
)
_EXTENSIONS = _words(
    "compatobjectformat noop noop-v1 objectformat preciousobjects refstorage relativeworktrees worktreeconfig"
)
_REMOTE = _words("fetch followremotehead mirror prune prunetags push pushurl skipdefaultupdate skipfetchall tagopt url")
_DIFF_DRIVER = _words("algorithm binary cachetextconv funcname wordregex xfuncname")
_EXCEPTIONS = frozenset(("diff.external", "fetch.bundleuri", "gc.recentobjectshook", "uploadpack.packobjectshook"))
# Every call of ours overrides these, so a person's own habits in a vault do not lock it.
_SWITCHED_OFF = _words(
    "commit.gpgsign core.askpass core.editor core.fsmonitor core.fsmonitorhookversion core.hookspath core.pager push.gpgsign"
    " sequence.editor tag.gpgsign user.signingkey"
)
_SWITCHED_OFF_SECTIONS = frozenset(("fsmonitor", "gpg", "pager"))
_MERGE_ATTRIBUTES = frozenset((OURS, "binary", "text", "union"))


def parse(text: str) -> tuple[Entry, ...]:
    """The settings of a git configuration file in order; raises GitConfigSyntaxError."""
    found: list[Entry] = []
    section = ""
    at = 1 if text[:1] == "\ufeff" else 0
    while at < len(text):
        char = text[at]
        if char in " \t\r\n":
            at += 1
        elif char in "#;":
            at = _line_end(text, at)
        elif char == "[":
            section, at = _section(text, at + 1)
        elif section and char.isascii() and char.isalpha():
            name, at = _name(text, at)
            value, at = _value(text, at)
            found.append(Entry(f"{section}.{name}", value))
        else:
            raise GitConfigSyntaxError(f"line {text.count(chr(10), 0, at) + 1}")
    return tuple(found)


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def _name(text: str, at: int) -> tuple[str, int]:
    start = at
    while at < len(text) and text[at].isascii() and (text[at].isalnum() or text[at] in "-."):
        at += 1
    return text[start:at].lower(), at


def _section(text: str, at: int) -> tuple[str, int]:
    name, at = _name(text, at)
    if text[at : at + 1] == "]" and name:
        return name, at + 1
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    if text[at : at + 1] != '"' or not name:
        raise GitConfigSyntaxError("a section header")
    at += 1
    sub = ""
    while at < len(text) and text[at] not in '"\n':
        at += text[at] == "\\"
        sub += text[at : at + 1]
        at += 1
    if text[at : at + 2] != '"]':
        raise GitConfigSyntaxError("a section header")
    return f"{name}.{sub}", at + 2


_ESCAPES = {"n": "\n", "t": "\t", "b": "\b", '"': '"', "\\": "\\", "\n": ""}


def _value(text: str, at: int) -> tuple[str | None, int]:
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    if text[at : at + 1] in ("", "\n", "#", ";") or text[at : at + 2] == "\r\n":
        return None, _line_end(text, at)
    if text[at] != "=":
        raise GitConfigSyntaxError("a setting")
    at += 1
    while text[at : at + 1] in (" ", "\t"):
        at += 1
    out, quoted, kept = "", False, 0
    while at < len(text) and text[at] != "\n":
        char = text[at]
        at += 1
        if char == "\\":
            following = "\n" if text[at : at + 2] == "\r\n" else text[at : at + 1]
            at += 2 if text[at : at + 2] == "\r\n" else 1
            if following not in _ESCAPES:
                raise GitConfigSyntaxError("an escape")
            out += _ESCAPES[following]
            kept = len(out)
        elif char == '"':
            quoted = not quoted
            kept = len(out)
        elif char in "#;" and not quoted:
            at = _line_end(text, at) - 1
            break
        else:
            out += char
            kept = len(out) if quoted or char not in " \t\r" else kept
    if quoted:
        raise GitConfigSyntaxError("an open quote")
    return out[:kept], at + 1


def judged(entry: Entry, *, trees: tuple[str, ...] = ()) -> str:
    """`allowed`, `ignored` (can run a program, switched off on every call) or `unsafe`. Our own merge driver must lie outside *trees*."""
    key, value = entry.key, entry.value or ""
    section, _, rest = key.partition(".")
    subsection, _, name = rest.rpartition(".")
    if key in _SWITCHED_OFF or section in _SWITCHED_OFF_SECTIONS:
        return "ignored"
    if section == "core":
        safe = not subsection and name in _CORE
    elif section == "extensions":
        safe = not subsection and name in _EXTENSIONS
    elif section == "lfs":
        safe = key == "lfs.repositoryformatversion"
    elif section not in _SECTIONS or key in _EXCEPTIONS:
        safe = False
    elif section == "merge" and subsection:
        safe = subsection == OURS and _merge_driver_is_ours(name, value, trees)
    elif section == "diff" and subsection:
        safe = name in _DIFF_DRIVER
    elif section in ("remote", "branch"):
        known = section == "branch" or not subsection or name in _REMOTE
        safe = known and (
            name not in ("url", "pushurl", "remote", "pushremote", "pushdefault") or _is_plain_remote(value)
        )
    elif section == "submodule" and subsection:
        safe = _is_plain_remote(value) and not value.startswith("!")
    else:
        safe = True
    return "allowed" if safe else "unsafe"


def _is_plain_remote(value: str) -> bool:
    """Whether a remote is reached by git itself: `helper::address` starts a program, a leading dash becomes its option."""
    host = value.partition("://")[2] if "://" in value else value
    return not value.startswith("-") and not host.startswith("-") and "::" not in value.partition("/")[0]


def _merge_driver_is_ours(name: str, value: str, trees: tuple[str, ...]) -> bool:
    if name in ("name", "recursive"):
        return name == "name" or value in _MERGE_ATTRIBUTES
    if name != "driver":
        return False
    import shlex

    written = value.replace("%%", "%")
    try:
        words = shlex.split(written)
    except ValueError:
        return False
    program = words[0] if words else ""
    if program[:1] != "/" or program.rpartition("/")[2] != OURS or tuple(words[1:]) != DRIVER_ARGUMENTS:
        return False
    if any(program.startswith(tree.rstrip("/") + "/") for tree in trees):
        return False
    # The shell that runs it must see these words and nothing else.
    quoted = shlex.quote(program)
    return written.removeprefix(quoted if quoted in written else f"'{program}'").split() == list(DRIVER_ARGUMENTS)


def attributes(text: str) -> tuple[str, ...]:
    """The assignments of an attributes file that hand content to a program: `filter=…`, and `merge=…` other than ours or git's own."""
    found: list[str] = []
    for line in text.splitlines():
        if line.lstrip().startswith("#"):
            continue
        for token in line.split():
            name, sign, value = token.partition("=")
            if sign and (name == "filter" or (name == "merge" and value not in _MERGE_ATTRIBUTES)):
                found.append(token)
    return tuple(found)

"""The rules behind `redact`: keys in blocks, tokens, addresses, headers, command lines, and what is assigned to a telling name.

Each rule is a search for a fixed mark and a bounded look around it, so that the time grows with the length of the text and nothing else; that,
and 5 ms of CPU for importing `re` and as much again for compiling, is why no regular expression stands here.
"""

from __future__ import annotations

from vault_mem.redactassigned import assigned
from vault_mem.redactblocks import blocks
from vault_mem.redacttokens import (
    ALNUM,
    DIGITS,
    HEX,
    OVERLAP,
    TOKENS,
    WINDOW,
    WORD,
    is_random,
    lowered,
    next_token,
    run,
    run_end,
    shaped,
    stands_alone,
)
from vault_mem.redactvalues import is_reference, is_wordy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    Span = tuple[int, int, str]  # from, to, kind

ADDRESS_LIMIT = 2048
ADDRESS_ENDS = ("://", "\n", " ", "\t", '"', "<", ">", "`", "\\", "\r")
NO_PASSWORDS = (
    "password",
    "pass",
    "passwd",
    "pw",
    "pwd",
    "secret",
    "x-oauth-basic",
    "x-token-auth",
)  # of examples; names of a scheme
HELD = "[redacted"
CREDENTIAL = ALNUM + "-._~+/=%|"
BLANK = " \t"
COOKIE_VALUE = ALNUM + "-_.%+/=:~|"
SESSION_NAMES = ("sess", "sid", "auth", "token", "csrf", "xsrf", "jwt", "remember", "login", "secret", "ticket", "sso")
COOKIE_ATTRIBUTES = frozenset(
    ("path", "domain", "expires", "max-age", "samesite", "secure", "httponly", "priority", "partitioned", "version")
)
COOKIE_ALONE = (
    "connect.sid=",
    "phpsessid=",
    "jsessionid=",
    "asp.net_sessionid=",
    "_gitlab_session=",
    "laravel_session=",
    "sessionid=",
    "user_session=",
)


def apply(text: str) -> str:
    """*text* after every rule was asked once, in an order in which a wide secret goes before what stands inside it."""
    text = _replaced(text, blocks(text))
    text = _replaced(text, _addresses(text))
    text = _replaced(text, _tokens(text))
    text = _replaced(text, _headers(text))
    text = _replaced(text, _commands(text))
    return _replaced(text, assigned(text))


def _begin(span: Span) -> int:
    return span[0]


def _replaced(text: str, spans: Iterable[Span]) -> str:
    """*text* with each of *spans* gone; of two that overlap the first stays, prolonged."""
    merged: list[Span] = []
    for begin, end, kind in sorted(spans, key=_begin):
        if merged and begin < merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]), merged[-1][2])
        else:
            merged.append((begin, end, kind))
    if not merged:
        return text
    parts: list[str] = []
    last = 0
    for begin, end, kind in merged:
        parts += (text[last:begin], "[redacted:", kind, "]")
        last = end
    parts.append(text[last:])
    return "".join(parts)


# tokens


def _tokens(text: str) -> list[Span]:
    spans: list[Span] = []
    for token in TOKENS:
        found = next_token(text, 0, token) if token[0] in text else None
        while found:
            spans.append((*found, token[1]))
            if token[1] == "aws":
                spans += _aws_secret(text, found[1])
            found = next_token(text, found[1], token)
    return spans + _jwts(text) + _words(text)


def _aws_secret(text: str, at: int) -> list[Span]:
    """The secret key beside an access key id: about forty characters, not hexadecimal."""
    near = text[at : at + 300]
    spans: list[Span] = []
    place = 0
    while place < len(near):
        word = run(near, place, ALNUM + "+/")
        if 38 <= len(word) <= 44 and word.strip(HEX) and is_random(word) and any(digit in word for digit in DIGITS):
            spans.append((at + place, at + place + len(word), "aws"))
        place += len(word) + 1
    return spans


def _jwts(text: str) -> list[Span]:
    spans: list[Span] = []
    at = text.find("eyJ")
    while at >= 0:
        end = at + 3
        if stands_alone(text, at):
            end = run_end(text, at, WORD + ".=")
            token = text[at:end].rstrip(".")
            parts = token.split(".")
            if (len(parts) > 2 and len(parts[0]) > 8 and len(parts[-1]) > 5) or (
                len(parts) == 2 and len(parts[0]) > 8 and parts[1].startswith("eyJ")
            ):
                spans.append((at, at + len(token), "jwt"))
        at = text.find("eyJ", end)
    return spans


def _words(text: str) -> list[Span]:
    """Tokens known by their shape, wherever in a word they stand."""
    spans: list[Span] = []
    for mark, least, most, alphabet in ((":", 8, 10, DIGITS), (".", 23, 28, WORD)):
        at = text.find(mark)
        while at >= 0:
            head = text[max(0, at - most - 1) : at]
            first = head[len(head.rstrip(alphabet)) :]
            end = at + 1
            if least <= len(first) <= most:
                rest = run(text, at, WORD + mark, 128).rstrip(mark)
                kind = shaped(first + rest)
                if kind:
                    end = at + len(rest)
                    spans.append((at - len(first), end, kind))
            at = text.find(mark, end)
    return spans + _azure(text) + _mailchimp(text)


def _azure(text: str) -> list[Span]:
    spans: list[Span] = []
    at = text.find("Q~")
    while at >= 0:
        rest = run(text, at + 2, WORD + "~.", 64)
        if len(rest) >= 28 and text[at - 1 : at].isdigit() and is_random(rest):
            head = text[max(0, at - 4) : at]
            spans.append((at - len(head) + len(head.rstrip(WORD)), at + 2 + len(rest), "azure"))
        at = text.find("Q~", at + 2)
    return spans


def _mailchimp(text: str) -> list[Span]:
    spans: list[Span] = []
    at = text.find("-us")
    while at >= 0:
        head = text[max(0, at - 33) : at]
        body = head[len(head.rstrip(ALNUM)) :]
        if len(body) == 32 and run(text, at + 3, DIGITS, 3) and is_random(body):
            spans.append((at - 32, at + 3 + len(run(text, at + 3, DIGITS, 3)), "mailchimp"))
        at = text.find("-us", at + 3)
    return spans


# addresses


def _addresses(text: str) -> list[Span]:
    spans: list[Span] = []
    at = text.find("://")
    while at >= 0:
        span = _userinfo(text, at + 3)
        if span:
            spans.append(span)
        at = text.find("://", span[1] if span else at + 3)
    return spans


def _userinfo(text: str, at: int) -> Span | None:
    """The password (or the user that is a token) of the address whose authority begins at *at*."""
    word = text[at : at + ADDRESS_LIMIT]
    if "@" not in word:
        return None
    for stop in ADDRESS_ENDS:
        word = word.partition(stop)[0]
    authority = word
    for stop in "/?#":
        authority = authority.partition(stop)[0]
    name = authority.rpartition("@")[0]
    user, colon, password = name.partition(":")
    if "@" not in authority:
        user, colon, password = _odd_password(word, authority)
    random = (
        len(user) >= 20 and is_random(user) and not user.strip(WORD + ".") and any(digit in user for digit in DIGITS)
    )
    if HELD in user or not (colon or random):
        return None
    end = at + len(user)
    if password and not is_reference(password) and password.lower() not in NO_PASSWORDS:
        return at if random else end + 1, end + 1 + len(password), "url"
    return (at, end, "url") if random else None


def _odd_password(word: str, authority: str) -> tuple[str, str, str]:
    """User, `:` and password of an address that forgot to encode `/`, `?` or `#` in the password."""
    user, colon, port = authority.partition(":")
    if not colon or not port or port.isdigit() or "@" not in word or "." in user:
        return "", "", ""
    return user, colon, word[len(user) + 1 :].rpartition("@")[0]


# headers


def _headers(text: str) -> list[Span]:
    low = lowered(text)
    spans: list[Span] = []
    for mark, rule in (("bearer", _credential), ("basic", _credential), ("authorization", _authorization)):
        at = low.find(mark)
        while at >= 0:
            begin, value, kind = rule(text, low, at, mark)
            if kind:
                spans.append(
                    (
                        begin,
                        run_end(text, begin + len(value), CREDENTIAL) if len(value) == WINDOW else begin + len(value),
                        kind,
                    )
                )
            # What was refused holds no other credential but at its end; looking at every place of it again would be quadratic.
            at = low.find(mark, max(at + len(mark), begin + len(value) - OVERLAP))
    return spans + _cookies(text, low)


def _credential(text: str, low: str, at: int, scheme: str) -> tuple[int, str, str]:
    """Place, text and kind of what follows `Bearer` or `Basic`, wherever in a text; no kind: it is no credential."""
    begin = at + len(scheme)
    blank = run(text, begin, BLANK, 8) or ("%20" if text.startswith("%20", begin) else "")
    if not blank or not stands_alone(text, at):
        return begin, "", ""
    begin += len(blank)
    whole = run(text, begin, CREDENTIAL)
    value = whole.rstrip(".|")
    named = "authorization" in low[max(0, at - 24) : at]
    if (
        not value
        or text[begin + len(whole) : begin + len(whole) + 1] in ("(", "[", "{")
        or is_reference(value)
        or is_wordy(value)
    ):
        return begin, whole, ""
    if scheme == "basic":
        secret = _is_basic(value) or (named and len(value) >= 8)
    else:
        secret = len(value) >= (6 if named else 16) and (named or is_random(value))
    return begin, value, scheme if secret else ""


def _is_basic(value: str) -> bool:
    """Whether *value* is `user:password` in base64."""
    import binascii

    if len(value) < 8:
        return False
    try:
        pair = binascii.a2b_base64(value + "=" * (-len(value) % 4)).decode("utf-8")
    except ValueError:
        return False
    return ":" in pair and pair.isprintable()


def _authorization(text: str, _: str, at: int, mark: str) -> tuple[int, str, str]:
    """The same for a header that names no scheme, or one of its own (`Token`, `ApiKey`)."""
    after = at + len(mark)
    after += len(run(text, after, "\"'`]\\ \t", 8))
    sign = run(text, after, ":=,>", 3)
    begin = after + len(sign)
    begin += len(run(text, begin, "\"'`\\ \t", 8))
    value = run(text, begin, CREDENTIAL + ":") if sign else ""
    space = begin + len(value)
    if (
        value.isalpha()
        and text[space : space + 1] == " "
        and value.lower() not in ("digest", "negotiate", "basic", "bearer")
    ):
        begin = space + len(run(text, space, " ", 4))
        value = run(text, begin, CREDENTIAL + ":")
        if value.lower().startswith("token="):
            begin += 6
            value = value[6:]
    behind = text[begin + len(value) : begin + len(value) + 1]
    trimmed = value.rstrip(".|:")
    if (
        len(trimmed) < 12
        or behind in ("(", "[")
        or is_reference(trimmed)
        or is_wordy(trimmed)
        or not is_random(trimmed)
    ):
        return begin, value, ""
    return begin, trimmed, "authorization"


def _cookies(text: str, low: str) -> list[Span]:
    spans: list[Span] = []
    at = low.find("cookie")
    while at >= 0:
        after = at + 6
        after += len(run(low, after, "s\"'`] ", 4))
        sign = run(low, after, ":=", 1)
        end = after + len(sign)
        if sign:
            line = text[end : end + WINDOW].partition("\n")[0]
            spans += _pairs(line, end)
            end += len(line)
        at = low.find("cookie", max(end, at + 6))
    for name in COOKIE_ALONE:
        at = low.find(name)
        while at >= 0:
            begin = at + len(name)
            value = run(text, begin, COOKIE_VALUE)
            if len(value) >= 16 and is_random(value):
                spans.append((begin, begin + len(value), "cookie"))
            at = low.find(name, max(begin, begin + len(value) - OVERLAP))
    return spans


def _pairs(line: str, offset: int) -> list[Span]:
    """The values in `a=b; c=d` that are a session's."""
    spans: list[Span] = []
    place = 0
    for part in line.split(";"):
        name, sign, value = part.partition("=")
        begin = offset + place + len(name) + 1
        place += len(part) + 1
        begin += len(value) - len(value.lstrip(" \"'`\\"))
        value = run(value.lstrip(" \"'`\\"), 0, COOKIE_VALUE + "!*@")
        name = name.strip(" \"'`\\").lower()
        if not sign or " " in name or name in COOKIE_ATTRIBUTES or is_reference(value):
            continue
        telling = any(word in name for word in SESSION_NAMES)
        if (telling and len(value) >= 6 and not is_wordy(value)) or (
            len(value) >= 16 and is_random(value) and not is_wordy(value)
        ):
            spans.append((begin, begin + len(value), "cookie"))
    return spans


# command lines


PROGRAMS = (
    ("curl", ("-u", "--user", "--proxy-user", "-U")),
    ("mysql", ("-p",)),
    ("mariadb", ("-p",)),
    ("sshpass", ("-p",)),
    ("redis-cli", ("-a", "--pass")),
    ("docker login", ("-p",)),
    ("openssl", ("-passin", "-passout", "-pass")),
)


def _commands(text: str) -> list[Span]:
    """Passwords behind flags that do not say so."""
    spans: list[Span] = []
    for program, flags in PROGRAMS:
        at = text.find(program)
        while at >= 0:
            line = text[at : at + WINDOW].partition("\n")[0]
            for flag in flags:
                place = line.find(f" {flag}")
                while place >= 0:
                    spans += _flag(line, at, place + 1 + len(flag), program)
                    place = line.find(f" {flag}", place + 1)
            at = text.find(program, at + len(line))
    return spans + _identified(text)


def _flag(line: str, offset: int, begin: int, program: str) -> list[Span]:
    """The value behind a flag that ends at *begin*; joined: `-psecret` is the only way this program takes it."""
    joined = program in ("mysql", "mariadb")
    blank = run(line, begin, " =", 2)
    if (joined and blank) or not (joined or blank or program in ("curl", "sshpass")):
        return []
    begin += len(blank)
    quote = line[begin : begin + 1] if line[begin : begin + 1] in ("'", '"') else ""
    begin += len(quote)
    rest = line[begin:]
    value = (rest.partition(quote)[0] if quote else rest.partition(" ")[0].rstrip("`\"';)")).rstrip("\\")
    if program in ("curl", "openssl"):
        head, colon, value = value.partition(":")
        if not colon or value.isdigit() or (program == "openssl" and head != "pass"):
            return []
        begin += len(head) + 1
    if len(value) < 4 or is_reference(value) or value.startswith("-"):
        return []
    return [(offset + begin, offset + begin + len(value), "password")]


def _identified(text: str) -> list[Span]:
    """The password in `IDENTIFIED BY '…'` and `IDENTIFIED WITH plugin BY '…'`."""
    low = lowered(text)
    spans: list[Span] = []
    at = low.find("identified ")
    while at >= 0:
        by = low.find("by '", at, at + 64)
        end = text.find("'", by + 4, by + 256) if by >= 0 else -1
        if end > by + 4 and not is_reference(text[by + 4 : end]):
            spans.append((by + 4, end, "password"))
        at = low.find("identified ", at + 11)
    return spans

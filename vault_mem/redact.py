"""Secrets out of text before it is stored anywhere: each becomes `[redacted:<kind>]`, the rest of the sentence stays.

This module is the cheap half: an ordinary turn is looked at once and imports nothing; only text with something suspicious in it loads
`vault_mem.redactrules`. detect-secrets is not used: importing its detectors costs 100 ms of CPU (they pull in `requests`), ten interpreter
starts, and of twelve common kinds they find the whole value of three (of a GitHub token `ghp`, of a JWT no signature, of a PEM block a header).
"""

from __future__ import annotations

from vault_mem import jsontext
from vault_mem.redacttokens import ALNUM, DIGITS, KEYWORDS, SHORTEST, WORD, has_token, is_random, lowered

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

ROUNDS = 8  # taking one secret out can show the next; text that still changes after these is built to
HELD = "[redacted:"
ENVIRONMENT = "[redacted:env]"

# What the rules also know; a text without any of these, without a token and without an assigned secret is ordinary.
STRUCTURES = ("eyJ", "-----BEGIN ", "-----END ", "---- BEGIN ", "Private-Lines:", "Q~")
HEADERS = (
    "bearer ",
    "bearer%20",
    "bearer\t",
    "basic ",
    "cookie",
    "authorization",
    "connect.sid",
    "sessid",
    "user_session=",
    "laravel_session=",
)
COMMANDS = ("curl", "mysql", "mariadb", "sshpass", "redis-cli", "docker login", "openssl", "identified by")
CLOSING = "\"'`\\]*)>"
BLANK = " \t"
VERBS = ("is ", "was ", "is: ", "are ", "to ")


def redact(text: str, secrets: tuple[str, ...] = ()) -> str:
    """*text* with every secret shape, and every one of *secrets* (`environment_secrets`) as it stands, replaced."""
    for secret in secrets:
        if secret in text:
            text = text.replace(secret, ENVIRONMENT)
    if len(text) < 8 or not suspicious(text):
        return text
    from vault_mem import redactrules

    for _ in range(ROUNDS):
        before = text
        text = redactrules.apply(before)
        if text == before:
            break
    return text


def suspicious(text: str) -> bool:
    """Whether the rules have to look at *text*; False is certain, True is not."""
    # A token has no blank in it, and long words are a small part of prose: 120 searches cost less there than ten in the whole text.
    long = [word for word in text.split() if len(word) >= SHORTEST]
    if long and _has_token(long):
        return True
    for mark in STRUCTURES:
        if mark in text:
            return True
    low = lowered(text)
    for mark in HEADERS:
        if mark in low:
            return True
    return ("://" in text and "@" in text) or _command(low) or _assigned(low)


def _has_token(words: list[str]) -> bool:
    if has_token(words):
        return True
    joined = " ".join(words)
    if "." not in joined and ":" not in joined and "-us" not in joined:
        return False
    return any(
        (len(word) > 56 and word.count(".") > 1)
        or (":" in word and len(word) > 41 and _numbered(word))
        or ("-us" in word and len(word) > 34)
        for word in words
    )


def _numbered(word: str) -> bool:
    """A number of eight digits or more before a colon, as in a Telegram token."""
    return any(len(head) > 7 and head[-8:].isdigit() for head in word.split(":")[:-1])


def _command(low: str) -> bool:
    if "machine " in low and "login " in low:
        return True
    return (" -" in low or " by" in low) and any(mark in low for mark in COMMANDS)


def _assigned(low: str) -> bool:
    """A name of a secret with something that could be its value behind it."""
    for keyword in KEYWORDS:
        at = low.find(keyword)
        while at >= 0:
            end = at + len(keyword)
            if (keyword != "key" or _owned(low, at)) and _followed(low, at, end):
                return True
            at = low.find(keyword, end)
    return False


def _owned(low: str, at: int) -> bool:
    """Whether `key` is part of a longer name; a bare one is what every dictionary has."""
    before = low[at - 1] if at else " "
    return before in WORD or (
        before == " "
        and low[max(0, at - 8) : at - 1].rpartition(" ")[2] in ("api", "access", "secret", "private", "account", "ssh")
    )


def _followed(low: str, at: int, end: int) -> bool:
    tail = low[end : end + 64].lstrip(WORD)
    if not tail:
        return False
    inner = tail.lstrip(CLOSING + BLANK)
    if inner.startswith(("=", ":")) or tail[0] == "<" or tail.startswith((">", '",', "',")) or "value" in inner:
        return True
    if tail[0] not in BLANK:
        return False
    if inner.startswith(VERBS) or tail.lstrip(BLANK)[:1] in ('"', "'", "`"):
        return True
    if low[max(0, at - 32) : at].rpartition(" ")[2].startswith("-"):
        return True
    word = inner.split(None, 1)[0] if inner else ""
    return len(word) > 7 and any(digit in word for digit in DIGITS)


LEAST = 12
# One string each, asked with blanks around the word: a set would be built in every hook.
SECRET_WORDS = (
    " TOKEN TOKENS SECRET SECRETS PASSWORD PASSWD PASSPHRASE PASSCODE PASS PWD KEY KEYS CREDENTIAL CREDENTIALS CREDS"
    " AUTH AUTHORIZATION PAT JWT BEARER COOKIE SIGNATURE PRIVATE WEBHOOK DSN "
)
SECRET_ENDS = (
    *("TOKEN", "SECRET", "PASSWORD", "PASSWD", "PASSPHRASE", "CREDENTIAL", "CREDENTIALS"),
    *("APIKEY", "ACCESSKEY", "SECRETKEY", "PRIVATEKEY", "AUTHKEY"),
)
# `AUTH_PROVIDER=service-account` names a thing, and that word would vanish from every note.
PLAIN_ENDS = " PROVIDER MODE METHOD TYPE NAME FILE PATH DIR SOCK HOST ENDPOINT USER USERNAME REGION ALGORITHM "


def environment_secrets(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values in *environ* that must not be stored, with their JSON-escaped and URL-encoded forms, longest first."""
    found: set[str] = set()
    for name, value in environ.items():
        if len(value) >= LEAST and _names_a_secret(name):
            whole = value.strip()
            if len(whole) >= LEAST and not _ordinary(whole):
                found.update(_forms(whole))
    return tuple(sorted(found, key=len, reverse=True))


def _names_a_secret(name: str) -> bool:
    parts = [part.rstrip(DIGITS) for part in name.upper().replace("-", "_").replace(".", "_").split("_")]
    parts = [part for part in parts if part]
    if not parts or f" {parts[-1]} " in PLAIN_ENDS:
        return False
    return any(f" {part} " in SECRET_WORDS or part.endswith(SECRET_ENDS) for part in parts)


def _ordinary(value: str) -> bool:
    """A word, a path, a number or an address without credentials."""
    if HELD in value or value in ENVIRONMENT or not value.strip(DIGITS + "+-.,_:eE "):
        return True
    if value.isalpha() and (len(value) < 20 or value.islower() or value.isupper() or value.istitle()):
        return True
    if "://" in value and not any(letter.isspace() for letter in value):
        authority = value.partition("://")[2].partition("/")[0]
        port = authority.partition(":")[2]
        return "@" not in authority and (not port or port.isdigit())
    return _is_path(value)


def _is_path(value: str) -> bool:
    if value.startswith(("~/", "./", "../", "file:", "unix:")) or (value[1:3] in (":\\", ":/") and value[0].isalpha()):
        return True
    if "/" not in value or "+" in value or "=" in value or "\n" in value:
        return False
    parts = [part for part in value.split("/") if part]
    if value.startswith("/") and len(parts) > 1:
        # An AWS secret key may begin with a slash and have another one.
        return len(parts) > 3 or not all(len(part) > 8 and is_random(part) and "." not in part for part in parts)
    return len(parts) > 1 and ("." in parts[-1] or all(part.lower() == part and len(part) <= 20 for part in parts))


def _forms(value: str) -> set[str]:
    """*value* as it stands, in JSON and in addresses."""
    forms = {value}
    if value.isascii() and value.isalnum():
        return forms
    for ascii_only in (False, True):
        escaped = jsontext.dumps(value, escaped=ascii_only)[1:-1]
        forms.add(escaped)
        forms.add(escaped.replace("/", "\\/"))
    for kept in ("", "/", "!'()*"):
        encoded = _percent(value, kept)
        forms.update((encoded, encoded.replace("%20", "+"), _lower_codes(encoded)))
    return forms


def _percent(value: str, kept: str) -> str:
    """*value* percent-encoded, but for letters, digits, `-._~` and *kept*."""
    plain = ALNUM + "-._~" + kept
    return "".join(
        letter if letter in plain else "".join(f"%{byte:02X}" for byte in letter.encode("utf-8", "surrogatepass"))
        for letter in value
    )


def _lower_codes(encoded: str) -> str:
    """The same with the hexadecimal digits in lower case, which is as valid."""
    first, *rest = encoded.split("%")
    return first + "".join(f"%{part[:2].lower()}{part[2:]}" for part in rest)

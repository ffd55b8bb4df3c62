"""What a value says about itself: a reference, a mask, a word, code, or something that has to go."""

from __future__ import annotations

from vault_mem.record import NamedTuple
from vault_mem.redactnames import PASSWORD, PASSWORDS, SECRETS, WEAK, split_words
from vault_mem.redacttokens import DIGITS, HEX, is_random

# how the value is written
QUOTED = "quoted"
TIGHT = "tight"  # NAME=value
CODE = "code"  # name = value, name: value
FLAG = "flag"  # --name value
PROSE = "prose"  # the name is value, the name value
LISTED = "listed"  # "name", "value"


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


# words that stand where a value could, and are none
PLAIN = _set("""
    none null nil true false undefined str string text bytes int integer number bool boolean any object optional
    required hidden redacted secret password passwd token empty unset missing invalid expired revoked rotated
    changed leaked wrong prompt varchar char nullable default env sensitive encrypted inherit disabled enabled
    changeme placeholder example unknown value field bearer basic username user admin login authenticated write
    read omitted masked same later todo tbd n/a yes no off on
""")
# words that have a number behind them
TECHNICAL = _set("""
    sha md base utf aes rs hs es ps rsa oauth pbkdf argon ed x http ipv pkcs bcrypt scrypt hmac v s k ec p tls int
    uint u i web auth win python py node mp h log part step phase rev
""")
STAND_INS = _set("""
    your my the placeholder example changeme change replace insert todo redacted sample here some enter goes
""")
TELLING = ("pass", "secret", "token", "key", "pwd", "credential", "auth")
REFERENCES = (
    "$",
    "<",
    "{",
    "%(",
    "%{",
    "%s",
    "#{",
    "[",
    "(",
    "!",
    "&",
    "process.env",
    "import.meta",
    "os.environ",
    "os.getenv",
    "getenv",
    "env.",
    "env(",
    "op://",
    "arn:",
    "ref+",
    "vault:",
    "self.",
    "this.",
    "enc[",
    "ssm:",
    "secrets.",
    "file:",
    "@",
)


class Found(NamedTuple):
    """A value behind a name."""

    begin: int
    end: int
    how: str
    name: str


def is_reference(value: str) -> bool:
    """Whether *value* points at a secret, masks it or stands in for it."""
    low = value.lower()
    if (
        low.startswith(REFERENCES)
        or "[redacted" in low
        or "${" in value
        or "{{" in value
        or "$(" in value
        or "…" in value
        or "..." in value
    ):
        return True
    if not low.strip("x*.-_•#?0 ") or (low.startswith("%") and low.endswith("%")):
        return True
    parts = low.replace("-", "_").replace(" ", "_").replace(".", "_").split("_")
    return all(part.isalpha() for part in parts if part) and any(part in STAND_INS for part in parts)


def is_wordy(value: str) -> bool:
    """Whether *value* is made of words, small numbers, versions and technical terms only."""
    for sign in "_./:+=":
        value = value.replace(sign, "-")
    return all(_is_word(part) for part in value.split("-") if part)


def _is_word(part: str) -> bool:
    if part.isalpha():
        return not _is_jumbled(part)
    if part.isdigit():
        return len(part) <= 4
    stem = part.rstrip(DIGITS).lower()
    return (
        stem in TECHNICAL
        or stem in PASSWORDS
        or stem in SECRETS
        or stem == "key"
        or part.lower() in ("1password", "2fa", "oauth2", "k8s", "s3", "i18n", "e2e")
    )


def _is_jumbled(word: str) -> bool:
    """Letters only, in a case no word and no name is written in."""
    if len(word) < 16 or word.islower() or word.isupper():
        return False
    return len(split_words(word)) * 5 > len(word)


def is_secret(text: str, found: Found, level: int) -> bool:
    """Whether the value *found* in *text* has to go, given the level of its name."""
    value = text[found.begin : found.end]
    if len(value) < 4 or is_reference(value) or value.lower() in PLAIN or _is_structured(value, level):
        return False
    if found.how not in (QUOTED, LISTED) and _is_code(text, found, value):
        return False
    wordy = is_wordy(value)
    if level == WEAK:
        return len(value) >= 16 and is_random(value) and not wordy and bool(value.strip(HEX + "-")) and " " not in value
    if found.how == QUOTED:
        if " " in value and found.name.isupper() and text[found.begin - 2 : found.begin - 1] == "=":
            return level == PASSWORD and not any(word in value.lower() for word in TELLING)
        return _quoted_secret(value, found.name, level, wordy=wordy)
    if found.how == TIGHT:
        return _tight_secret(text, found, value, level, wordy=wordy)
    if found.how == FLAG:
        return (
            not wordy
            or found.name == "--netrc"
            or (level == PASSWORD and len(value) > 5 and text[found.end : found.end + 2] == " -")
        )
    if found.how == CODE:
        return _code_secret(text, found, value, level, wordy=wordy)
    if wordy or (not any(digit in value for digit in DIGITS) and not _is_jumbled(value)):
        return False
    least = 8 if level == PASSWORD else 16
    return len(value) >= least and (bool(value.strip(HEX + "-")) or found.how == LISTED) and not _is_compound(value)


def _quoted_secret(value: str, name: str, level: int, *, wordy: bool) -> bool:
    if " " in value:
        return (
            level == PASSWORD
            and name.lower().endswith("phrase")
            and len(value) > 15
            and value.islower()
            and "pass" not in value
        )
    if not wordy:
        return len(value) >= (4 if level == PASSWORD else 8)
    low = value.lower()
    if any(word in low for word in TELLING):
        return False
    if level == PASSWORD:
        return value.isascii() and not value.istitle()
    return _is_phrase(value) or (value.isalpha() and len(value) >= 12 and low == value)


def _tight_secret(text: str, found: Found, value: str, level: int, *, wordy: bool) -> bool:
    if not wordy:
        return len(value) >= (4 if level == PASSWORD else 8)
    low = value.lower()
    if any(word in low for word in ("pass", "secret", "token", "pwd", "credential")) and not (
        found.name.isupper() and any(digit in value for digit in DIGITS)
    ):
        return False
    ends = text[found.end : found.end + 1] in ("", "\n", "\r", " ", ";", "&", '"', "'", "`", "\\")
    if level == PASSWORD:
        return ends and len(value) > 4 and "." not in value and (not value.isdigit() or len(value) > 5)
    return ends and found.name.isupper() and (_is_phrase(value) or (value.isalpha() and len(value) >= 10))


def _code_secret(text: str, found: Found, value: str, level: int, *, wordy: bool) -> bool:
    if not wordy:
        if value.isidentifier() and level != PASSWORD:
            return len(value) >= 8 and sum(letter.isdigit() for letter in value) > 1
        return len(value) >= (6 if level == PASSWORD else 8) and not _is_compound(value)
    if level != PASSWORD or text[found.end : found.end + 1] not in ("", "\n", "\r"):
        return False
    line = text[text.rfind("\n", 0, found.begin) + 1 : found.begin]
    mapping = line.rstrip().endswith(":") and line.strip(" \t-").lower().startswith(found.name.lower())
    return (
        mapping and value.islower() and len(value) > 5 and value.replace("-", "").isalpha() and value not in TECHNICAL
    )


def _is_phrase(value: str) -> bool:
    """Several words with hyphens, long enough for a passphrase."""
    return len(value) >= 20 and value.count("-") > 1 and "." not in value and "/" not in value


def _is_compound(value: str) -> bool:
    """A hyphened or dotted word with a number at one end, such as `sha256-hashed` or `reset-flow-2b`."""
    parts = value.replace(".", "-").replace("/", "-").split("-")
    return len(parts) > 1 and value.lower() == value and sum(part.isalpha() for part in parts) * 2 >= len(parts)


def _is_structured(value: str, level: int) -> bool:
    """A number, a date, a path, an address, a hash with its algorithm, a measure."""
    if not value.strip(DIGITS + "-.,:_/ "):
        if len(value) == 36 and value.count("-") == 4:
            return False  # a UUID that happens to have no letter
        return level != PASSWORD or not value.isdigit() or len(value) < 6
    if not value.strip(DIGITS + "smhdkKMGTBbix%") and len(value) < 8:
        return True
    low = value.lower()
    if low.startswith(
        (
            "sha256:",
            "sha512-",
            "sha384-",
            "sha1-",
            "sha256-",
            "sha512:",
            "sha1:",
            "md5:",
            "http://",
            "https://",
            "data:",
            "/",
            "./",
            "../",
            "~/",
            "c:\\",
        )
    ):
        return not (value.startswith("/") and value.count("/") == 1 and len(value) > 19) or "://" in value
    parts = value.split("/")
    return len(parts) > 1 and level != PASSWORD and all(is_wordy(part) for part in parts)


def _is_code(text: str, found: Found, value: str) -> bool:
    """A call, an index, a type with parameters, a chain of attributes."""
    behind = text[found.end : found.end + 2]
    if (
        behind[:1] in ("(", "[")
        or value.endswith(("(", "["))
        or value.startswith((".", "-", "=", ">", "|", "+", ",", ")", "]", "}", ":"))
    ):
        return True
    head = value
    for sign in ("(", "[", "<", "{"):
        head = head.partition(sign)[0]
    if (
        head != value
        and head.replace(".", "").replace("_", "").isalnum()
        and not (found.how == TIGHT and found.name.isupper() and "(" not in value)
    ):
        return True
    parts = value.split(".")
    return len(parts) > 1 and all(part.isidentifier() for part in parts) and found.how != TIGHT

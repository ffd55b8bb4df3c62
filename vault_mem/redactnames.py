"""What a name says about its value: a password, a secret, perhaps a secret, or nothing."""

from __future__ import annotations

from vault_mem.redacttokens import DIGITS

# levels of a name
NOTHING = 0
WEAK = 1  # `auth`, `SOME_KEY`: only what looks random
SECRET = 2
PASSWORD = 3  # people choose them: words count too where nothing else can stand


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


PASSWORDS = frozenset(("password", "passwd", "passphrase", "passcode", "pass", "pwd", "passwort", "pw", "userpass"))
PASSWORD_ENDS = ("password", "passwd", "passphrase", "passwort", "pwd", "dbpass", "userpass")
SECRETS = frozenset(
    ("secret", "token", "apikey", "credential", "credentials", "creds", "accesskey", "secretkey", "privatekey")
)
SECRET_ENDS = ("secret", "token", "apikey", "accesskey", "secretkey", "privatekey", "authkey", "sharedkey")
KEY_OWNERS = _set("""
    api access secret private encryption signing sign auth account master service storage shared client license
    deploy admin aws stripe openai anthropic google gemini sendgrid mailgun datadog app application session cookie
    crypt cipher aes hmac jwt webhook root subscription server ingest integration consumer unseal recovery wallet
    bot user rpc maps
""")
# a name that goes on with one of these names something about the secret, not the secret
ABOUT = _set("""
    count counts type types url uri path paths file files filename name names expiry expires expiration expire ttl
    length len limit limits hash hashes hashed field fields input label prompt policy policies ref refs arn version
    budget usage size max min index regex pattern format prefix help error errors message required enabled disabled
    reset strength rotation manager provider method mode endpoint host port username scope scopes algorithm alg
    rule rules validator validation placeholder hint title description id ids class selector engine backend age
    date time at changed updated created status state valid invalid kind bucket scanning scanner scan detection
    digest checksum stdin in from source command cmd helper generator exists visible icon button encoder encoding
    embedding embeddings classification classifier mask pool sha md
""")
# and one that follows these is a thing of another kind
BEFORE = _set("""
    max min num total prompt completion cached next page continuation public primary foreign sort partition cache
    hot shortcut idempotency no without missing eos bos pad unk sep mask cancellation cursor design dedup map group
    row column translation
""")


def split_words(name: str) -> list[str]:
    """The words of a name in snake_case, kebab-case, camelCase or any mixture, in lower case, without numbers."""
    words: list[str] = []
    word = ""
    for place, letter in enumerate(name):
        if not letter.isalpha():
            words.append(word)
            word = ""
            continue
        before = name[place - 1 : place]
        behind = name[place + 1 : place + 2]
        if letter.isupper() and word and (before.islower() or (behind.islower() and before.isupper())):
            words.append(word)
            word = ""
        word += letter
    words.append(word)
    return [word.lower() for word in words if word]


def level_of(name: str, before: str) -> int:
    """How secret the value of *name* is; *before* is the text in front of it (`API key` is two words)."""
    words = split_words(name)
    if name.isupper() or name.islower() or "_" in name or "-" in name:
        whole = [word for word in name.replace("-", "_").lower().split("_") if word]
        words = [word.rstrip(DIGITS) for word in whole if word.rstrip(DIGITS)]
    level = NOTHING
    for place in range(len(words)):
        here = _word_level(words, place, before)
        rest = words[place + 1 :]
        if (
            here
            and not any(later in ABOUT for later in rest)
            and not any(earlier in BEFORE for earlier in words[:place])
        ):
            level = max(level, here)
    if level == WEAK and not (name.isupper() or words[-1] == "auth"):
        return NOTHING
    return level


def _word_level(words: list[str], place: int, before: str) -> int:
    word = words[place]
    if word in PASSWORDS or word.endswith(PASSWORD_ENDS):
        return PASSWORD
    if word in SECRETS or word.endswith(SECRET_ENDS):
        return SECRET
    if word == "key":
        owner = (
            words[place - 1]
            if place
            else before.rstrip().rpartition(" ")[2].lower().strip("\"'`(*_")
            if before.endswith(" ")
            else ""
        )
        return SECRET if owner in KEY_OWNERS else WEAK
    return WEAK if word == "auth" else NOTHING

"""What tokens of well-known issuers look like, and where one begins and ends. Only string searches: no `re` on the hook path, and linear."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    Token = tuple[str, str, str, int]

LOWER = "abcdefghijklmnopqrstuvwxyz"
UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
DIGITS = "0123456789"
ALNUM = LOWER + UPPER + DIGITS
WORD = ALNUM + "_-"
BASE64 = ALNUM + "+/="
HEX = DIGITS + "abcdefABCDEF"
KEYWORDS = ("pass", "pwd", "secret", "token", "credential", "creds", "auth", "key")  # what a telling name contains
WINDOW = 4096
OVERLAP = 64

# prefix, kind, alphabet of what follows, least length of that (below the official one: a token cut by a terminal is still a token)
TOKENS = (
    ("AKIA", "aws", UPPER + DIGITS, 16),
    ("ASIA", "aws", UPPER + DIGITS, 16),
    ("ABIA", "aws", UPPER + DIGITS, 16),
    ("ACCA", "aws", UPPER + DIGITS, 16),
    ("ABSK", "aws", BASE64, 60),
    ("ghp_", "github", ALNUM, 20),
    ("gho_", "github", ALNUM, 20),
    ("ghu_", "github", ALNUM, 20),
    ("ghs_", "github", ALNUM, 20),
    ("ghr_", "github", ALNUM, 20),
    ("github_pat_", "github", WORD, 20),
    ("glpat-", "gitlab", WORD + ".", 16),
    ("gldt-", "gitlab", WORD, 16),
    ("glft-", "gitlab", WORD, 16),
    ("glrt-", "gitlab", WORD + ".", 16),
    ("glrtr-", "gitlab", WORD, 16),
    ("glcbt-", "gitlab", WORD, 16),
    ("glimt-", "gitlab", WORD, 16),
    ("glptt-", "gitlab", WORD, 16),
    ("glsoat-", "gitlab", WORD, 16),
    ("glagent-", "gitlab", WORD, 16),
    ("gloas-", "gitlab", WORD, 16),
    ("glffct-", "gitlab", WORD, 16),
    ("GR1348941", "gitlab", WORD, 16),
    ("xoxb-", "slack", WORD, 12),
    ("xoxp-", "slack", WORD, 12),
    ("xoxa-", "slack", WORD, 12),
    ("xoxo-", "slack", WORD, 12),
    ("xoxr-", "slack", WORD, 12),
    ("xoxs-", "slack", WORD, 12),
    ("xoxc-", "slack", WORD, 12),
    ("xoxd-", "slack", WORD + "%", 12),
    ("xoxe-", "slack", WORD, 12),
    ("xoxe.", "slack", WORD + ".", 12),
    ("xapp-", "slack", WORD, 12),
    ("xwfp-", "slack", WORD, 12),
    ("hooks.slack.com/services/", "slack", WORD + "/", 16),
    ("hooks.slack.com/workflows/", "slack", WORD + "/", 16),
    ("hooks.slack.com/triggers/", "slack", WORD + "/", 16),
    ("/api/webhooks/", "discord", WORD + "/", 40),
    ("sk_live_", "stripe", ALNUM, 10),
    ("sk_test_", "stripe", ALNUM, 10),
    ("rk_live_", "stripe", ALNUM, 10),
    ("rk_test_", "stripe", ALNUM, 10),
    ("whsec_", "webhook", BASE64, 20),
    ("sk-proj-", "openai", WORD, 16),
    ("sk-svcacct-", "openai", WORD, 16),
    ("sk-admin-", "openai", WORD, 16),
    ("sk-ant-", "anthropic", WORD, 16),
    ("sk-or-v1-", "openrouter", WORD, 16),
    ("sk-", "openai", WORD, 20),
    ("AIza", "google", WORD, 24),
    ("ya29.", "google", WORD + ".", 20),
    ("GOCSPX-", "google", WORD, 20),
    ("1//0", "google", WORD, 30),
    (":APA91b", "google", WORD, 60),
    ("npm_", "npm", ALNUM, 20),
    ("pypi-", "pypi", WORD, 30),
    ("hf_", "huggingface", ALNUM, 20),
    ("api_org_", "huggingface", ALNUM, 20),
    ("dop_v1_", "digitalocean", ALNUM, 24),
    ("doo_v1_", "digitalocean", ALNUM, 24),
    ("dor_v1_", "digitalocean", ALNUM, 24),
    ("SG.", "sendgrid", WORD + ".", 30),
    ("SK", "twilio", ALNUM, 32),
    ("AccountKey=", "azure", BASE64 + "%", 30),
    ("SharedAccessKey=", "azure", BASE64 + "%", 30),
    ("&sig=", "azure", ALNUM + "%+/=_-", 30),
    ("?sig=", "azure", ALNUM + "%+/=_-", 30),
    ("hvs.", "vault", WORD, 20),
    ("hvb.", "vault", WORD, 20),
    ("hvr.", "vault", WORD, 20),
    ("AGE-SECRET-KEY-", "age", UPPER + DIGITS, 20),
    ("b3BlbnNzaC1rZXktdjE", "ssh", BASE64, 40),
    ("LS0tLS1CRUdJTiBSU0Eg", "pem", BASE64, 40),
    ("LS0tLS1CRUdJTiBQUklW", "pem", BASE64, 40),
    ("LS0tLS1CRUdJTiBFQyBQ", "pem", BASE64, 40),
    ("LS0tLS1CRUdJTiBPUEVO", "pem", BASE64, 40),
    ("LS0tLS1CRUdJTiBFTkNS", "pem", BASE64, 40),
    ("shpat_", "shopify", ALNUM, 20),
    ("shpss_", "shopify", ALNUM, 20),
    ("shpca_", "shopify", ALNUM, 20),
    ("shppa_", "shopify", ALNUM, 20),
    ("sq0atp-", "square", WORD, 20),
    ("sq0csp-", "square", WORD, 20),
    ("EAAA", "square", WORD, 50),
    ("dckr_pat_", "docker", WORD, 20),
    ("dckr_oat_", "docker", WORD, 20),
    ("ATATT3", "atlassian", WORD + "=.", 40),
    ("ATCTT3", "atlassian", WORD + "=.", 40),
    ("ATBB", "atlassian", ALNUM, 24),
    ("PMAK-", "postman", WORD, 24),
    ("lin_api_", "linear", ALNUM, 20),
    ("ntn_", "notion", ALNUM, 30),
    ("secret_", "notion", ALNUM, 40),
    ("figd_", "figma", WORD, 20),
    ("rubygems_", "rubygems", ALNUM, 24),
    ("oy2", "nuget", LOWER + DIGITS, 40),
    ("pul-", "pulumi", ALNUM, 30),
    ("dapi", "databricks", ALNUM, 32),
    ("glsa_", "grafana", WORD, 20),
    ("glc_", "grafana", BASE64, 30),
    ("NRAK-", "newrelic", ALNUM, 20),
    ("sntrys_", "sentry", BASE64 + "_-", 30),
    ("sntryu_", "sentry", ALNUM, 32),
    ("tskey-", "tailscale", WORD, 16),
    ("fo1_", "fly", WORD, 30),
    ("fm2_", "fly", BASE64, 60),
    ("sbp_", "supabase", ALNUM, 24),
    ("sb_secret_", "supabase", WORD, 16),
    ("gsk_", "groq", ALNUM, 30),
    ("xai-", "xai", ALNUM, 30),
    ("r8_", "replicate", ALNUM, 30),
    ("pplx-", "perplexity", ALNUM, 30),
    ("nvapi-", "nvidia", WORD, 40),
    ("CCIPAT_", "circleci", WORD, 30),
    ("bkua_", "buildkite", ALNUM, 30),
    ("pscale_", "planetscale", WORD + ".", 32),
    ("phx_", "posthog", ALNUM, 30),
    ("LTAI", "alibaba", ALNUM, 16),
    ("AKCp", "artifactory", ALNUM, 40),
    ("EZAK", "easypost", ALNUM, 40),
    ("ops_eyJ", "1password", BASE64 + "_-", 40),
    ("A3-", "1password", UPPER + DIGITS + "-", 30),
    ("re_", "resend", WORD, 28),
    ("v2.local.", "paseto", WORD + ".", 30),
    ("v4.local.", "paseto", WORD + ".", 30),
)
SHORTEST = 18  # of all tokens above, prefix included
GENERIC = frozenset(("sk-", "pypi-", "pul-"))  # prefixes that words have too: the body needs a long random part

# Every byte but ASCII letters and digits becomes a blank: what is between them is a piece, and a token begins where a piece begins.
PIECES = bytes(byte if chr(byte) in ALNUM else 32 for byte in range(256))


def _by_head() -> tuple[dict[bytes, list[Token]], dict[bytes, list[Token]], list[Token]]:
    """`TOKENS` by what the piece is that they begin with, by the first two bytes of it where it goes on, and those without a piece."""
    whole: dict[bytes, list[Token]] = {}
    begun: dict[bytes, list[Token]] = {}
    rest: list[Token] = []
    for token in TOKENS:
        pieces = token[0].encode().translate(PIECES).split(b" ", 1)
        if not pieces[0]:
            rest.append(token)
        elif len(pieces) > 1:
            whole.setdefault(pieces[0], []).append(token)
        else:
            begun.setdefault(pieces[0][:2], []).append(token)
    return whole, begun, rest


WHOLE, BEGUN, HEADLESS = _by_head()
ESCAPES = ("\\", "%")  # a token may stand behind an escape of these, within a piece
COLOUR = "\x1b["


def has_token(words: list[str]) -> bool:
    """Whether a token of a known issuer stands in one of *words*, which have no blanks and are long enough for one.

    Says what `has_token_anywhere` says, at a tenth of its cost: only issuers whose prefix some piece begins with are looked for.
    """
    joined = " ".join(words)
    if COLOUR in joined:
        return has_token_anywhere(joined)
    for escape in ESCAPES:
        if escape in joined:
            if has_token_anywhere(" ".join([word for word in words if escape in word])):
                return True
            words = [word for word in words if escape not in word]
            joined = " ".join(words)
    for token in HEADLESS:
        if token[0] in joined and next_token(joined, 0, token):
            return True
    pieces = set(joined.encode("ascii", "replace").translate(PIECES).split())
    for heads, table in ((pieces, WHOLE), ({piece[:2] for piece in pieces}, BEGUN)):
        for head in heads & table.keys():
            for token in table[head]:
                if token[0] in joined and next_token(joined, 0, token):
                    return True
    return False


def has_token_anywhere(text: str) -> bool:
    """Whether a token of a known issuer stands in *text*: one search for every issuer."""
    return any(token[0] in text and next_token(text, 0, token) for token in TOKENS)


def lowered(text: str) -> str:
    """*text* in lower case, letter for letter at the same place."""
    return text.replace("\u0130", "i").lower()


def next_token(text: str, start: int, token: tuple[str, str, str, int]) -> tuple[int, int] | None:
    """Where the next such token at or behind *start* begins and ends; *token* is a row of `TOKENS`."""
    prefix, _, alphabet, least = token
    begin = text.find(prefix, start)
    while begin >= 0:
        after = begin + len(prefix)
        if stands_alone(text, begin):
            rest = run(text, after, alphabet)
            if len(rest) >= least and is_random(rest, generic=prefix in GENERIC):
                end = run_end(text, after, alphabet)
                return begin, begin + len(text[begin:end].rstrip(".-"))
            # Nothing in a refused run makes a token but its end; looking at every place of it again would be quadratic.
            after = max(after, after + len(rest) - OVERLAP)
        begin = text.find(prefix, after)
    return None


def stands_alone(text: str, at: int) -> bool:
    """Whether a word can begin at *at*: no letter or digit before it, unless that belongs to an escape."""
    if at == 0 or text[at] not in ALNUM:
        return True
    before = text[at - 1]
    if before not in ALNUM:
        return True
    back = text[max(0, at - 8) : at]
    return (
        (before in "nrtbfv" and back[-2:-1] == "\\")
        or (back[-3:-2] == "%" and not back[-2:].strip(HEX))
        or (back[-6:-4] == "\\u" and not back[-4:].strip(HEX))
        or (back[-4:-2] == "\\x" and not back[-2:].strip(HEX))
        or (before == "m" and "\x1b[" in back)
    )


def run(text: str, at: int, alphabet: str, limit: int = WINDOW) -> str:
    """The characters of *alphabet* from *at* on, at most *limit*."""
    window = text[at : at + limit]
    return window[: len(window) - len(window.lstrip(alphabet))]


def run_end(text: str, at: int, alphabet: str) -> int:
    """Where the characters of *alphabet* that begin at *at* end, however many."""
    while True:
        length = len(run(text, at, alphabet))
        at += length
        if length < WINDOW:
            return at


def is_random(rest: str, *, generic: bool = False) -> bool:
    """Whether *rest* can be the body of a token: no words, no row of `x`. generic: the prefix is also an ordinary word part (`sk-`)."""
    low = rest.lower()
    if low == rest and not any(digit in rest for digit in DIGITS):
        return False
    if len(set(low) - set("-_.x*")) < 3 or "your" in low[:48] or "redacted" in low[:48]:
        return False
    if not generic:
        return True
    parts = rest.replace("_", "-").split("-")
    return any(len(part) >= 16 and (part.lower() != part or any(digit in part for digit in DIGITS)) for part in parts)


def shaped(word: str) -> str:
    """The kind of a token that has no prefix but a shape of its own; '' for other words."""
    if len(word) > 56 and word[0] in "MNO" and word.count(".") == 2:
        first, second, third = word.split(".")
        if 23 <= len(first) <= 28 and 5 <= len(second) <= 7 and 27 <= len(third) <= 45 and not word.strip(WORD + "."):
            return "discord" if is_random(first) and is_random(third) else ""
    number, colon, rest = word.partition(":")
    if colon and 8 <= len(number) <= 10 and number.isdigit() and 33 <= len(rest) <= 40 and not rest.strip(WORD):
        return "telegram" if is_random(rest) else ""
    return ""

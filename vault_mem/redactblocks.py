"""Private keys in blocks: between BEGIN and END, cut at either side, with line ends as they are, escaped or folded to blanks."""

from __future__ import annotations

from vault_mem.redacttokens import BASE64, DIGITS, is_random, run, run_end

TYPE_CHECKING = False
if TYPE_CHECKING:
    Span = tuple[int, int, str]

BLOCK_LIMIT = 65536
LABEL_LIMIT = 64


def blocks(text: str) -> list[Span]:
    """Where private keys stand in *text*."""
    spans: list[Span] = []
    for mark in ("-----BEGIN ", "---- BEGIN "):
        at = text.find(mark)
        while at >= 0:
            span = _block(text, at, mark)
            if span:
                spans.append(span)
            at = text.find(mark, span[1] if span else at + len(mark))
    at = text.find("Private-Lines:")
    while at >= 0:
        end = _body_end(text, at + len("Private-Lines:"))
        if end:
            spans.append((at, end, "putty"))
        at = text.find("Private-Lines:", end or at + 1)
    return spans + _tails(text, spans)


def _label(text: str, at: int) -> str:
    """The words between the dashes that begin before *at* and those that follow; '' when it is no private key."""
    label, dashes, _ = text[at : at + LABEL_LIMIT].partition("----")
    return label if dashes and "PRIVATE KEY" in label and "\n" not in label else ""


def _block(text: str, at: int, mark: str) -> Span | None:
    label = _label(text, at + len(mark))
    if not label:
        return None
    kind = "pgp" if label.startswith("PGP") else "pem"
    body = at + len(mark) + len(label)
    body += len(run(text, body, "-"))
    begins = text.find("BEGIN ", body, body + BLOCK_LIMIT)
    end = text.find(f"END {label.strip()}", body, begins if begins >= 0 else body + BLOCK_LIMIT)
    if end >= 0:
        after = end + len(f"END {label.strip()}")
        after += len(run(text, after, " ")) if text[after : after + 2] == " -" else 0
        inside = text[body:end].rstrip(" -")
        if not _is_key(inside):
            return None
        return at, after + len(run(text, after, "-")), kind
    cut = _body_end(text, body)
    return (at, cut, kind) if cut else None


def _is_key(inside: str) -> bool:
    """Whether what stands between BEGIN and END can be a key: a sentence about the two marks and `...` are none."""
    letters = inside.replace("\\n", " ").replace("\\r", " ")
    words = [word.strip("\"'+,\\>|") for word in letters.split()]
    if any(len(word) >= 16 and not word.strip(BASE64) and not word.isalpha() for word in words):
        return True
    if any(len(word) >= 16 and word.isalpha() and word.lower() != word for word in words):
        return True
    ordinary = inside[:1] in (" ", "`", '"', "'", "") and not inside.startswith(("' +", '" +'))
    return (
        not ordinary
        and any(len(word) >= 6 and not word.strip(BASE64) for word in words)
        and "your" not in letters.lower()
    )


def _body_end(text: str, at: int) -> int:
    """Where the key text that begins at *at* ends when its END line is missing; 0: none follows."""
    end = 0
    limit = min(len(text), at + BLOCK_LIMIT)
    full = False
    while at < limit:
        at += _gap(text, at)
        word = run(text, at, BASE64)
        header = _armor_header(text, at)
        if header:
            at += header
            continue
        if not word:
            return end
        whole = len(word) >= 20 and (is_random(word) or full)
        last = full and (word.endswith("=") or word.startswith("=") or _closes(text, at + len(word), word))
        if not whole and not last:
            if end or len(word) > 3 or not word.isdigit():
                return end
            at += len(word)  # the number of a line
            continue
        at = run_end(text, at, BASE64)
        end = at
        full = len(word) >= 20
    return end


def _closes(text: str, end: int, word: str) -> bool:
    """Whether *word*, too short for a line of a key, is the last one: alone on its line and no word of a language."""
    return any(digit in word for digit in DIGITS) and text[end : end + 1] in ("", "\n", "\r", "\\", '"', "-")


def _gap(text: str, at: int) -> int:
    """The length of blanks, line ends as they are or escaped, and the marks a quoted or compared text puts before its lines."""
    length = 0
    while True:
        step = (
            len(run(text, at + length, " \t\r\n\"'+>|,\\", 512)) if text[at + length : at + length + 1] != "\\" else 0
        )
        length += step
        if text[at + length : at + length + 2] in ("\\n", "\\r", "\\t"):
            length += 2
        elif text[at + length : at + length + 1] == "\\":
            length += 1
        elif not step:
            return length


def _armor_header(text: str, at: int) -> int:
    """The length of a line such as `Proc-Type: 4,ENCRYPTED` inside a key block."""
    for name in ("Proc-Type:", "DEK-Info:", "Version:", "Comment:", "Hash:", "Charset:", "Subject:"):
        if text.startswith(name, at):
            line = text[at : at + 256]
            return min(len(part) for part in (line.split("\n", 1)[0], line.split("\\n", 1)[0]))
    return 0


def _tails(text: str, known: list[Span]) -> list[Span]:
    """The key text before an END line whose beginning was cut off."""
    spans: list[Span] = []
    ends = {end for _, end, _ in known}
    at = text.find("-----END ")
    while at >= 0:
        label = _label(text, at + 9)
        if label and at + 9 + len(label) + 5 not in ends:
            begin = at
            while True:
                head = text[max(0, begin - 256) : begin].rstrip(" \t\r\n\"'+>|,\\")
                head = head[:-1].rstrip(" \\") if head.endswith("\\n") else head
                word = head[len(head.rstrip(BASE64)) :]
                if word.startswith("n") and head[: -len(word)].endswith("\\"):
                    word = word[1:]
                if len(word) < 20 and not (begin == at and word and is_random(word)):
                    break
                begin = max(0, begin - 256) + len(head) - len(word)
            if begin < at:
                spans.append((begin, at, "pem"))
        at = text.find("-----END ", at + 9)
    return spans

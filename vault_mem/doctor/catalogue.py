"""Every fault the doctor can name: its token, how bad it is, what it is in general and why it matters. The reference page is held equal to this table."""

from __future__ import annotations

from dataclasses import dataclass

from vault_mem.report import FAIL, WARN, Finding

NOTE = "info"
SEVERITIES = (FAIL, WARN, NOTE)


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of fault. *fixed*: what `--fix` does about it, "" when a person has to."""

    token: str
    severity: str
    meaning: str
    why: str
    fixed: str = ""


_NOTHING_WORKS = (
    "hooks write nothing and resume reads nothing until it is mended; there is no fallback to another folder"
)
_NOT_COMMITTED = "text is written but not committed: no history, no delivery record, nothing to sync"
_NOT_SAVED = "turns are not saved, and nobody says so in the session"
_PASSED_OVER = "whatever was written there is not handed to the next session"

ROOT = (
    Kind(
        "no-seat",
        FAIL,
        "there is no seat at or above the directory",
        "without a seat nothing is saved and nothing is resumed",
    ),
    Kind("root-unreadable", FAIL, "`.aigent/state.json` cannot be read", _NOTHING_WORKS),
    Kind("root-not-json", FAIL, "`.aigent/state.json` is not valid JSON", _NOTHING_WORKS),
    Kind("root-not-object", FAIL, "`.aigent/state.json` holds something else than an object", _NOTHING_WORKS),
    Kind("root-not-string", FAIL, "`memory_root` is not a string", _NOTHING_WORKS),
    Kind("root-empty", FAIL, "`memory_root` is empty", _NOTHING_WORKS),
    Kind("root-too-long", FAIL, "`memory_root` has more than 240 characters", _NOTHING_WORKS),
    Kind("root-control-character", FAIL, "`memory_root` has a control character in it", _NOTHING_WORKS),
    Kind("root-backslash", FAIL, "`memory_root` is written with backslashes", _NOTHING_WORKS),
    Kind("root-absolute", FAIL, "`memory_root` is an absolute path", _NOTHING_WORKS),
    Kind("root-dot-segment", FAIL, "`memory_root` has an empty or `.` segment", _NOTHING_WORKS),
    Kind("root-parent-segment", FAIL, "`memory_root` has a `..` segment", _NOTHING_WORKS),
    Kind("root-symlink", FAIL, "the declared memory root passes through a symbolic link", _NOTHING_WORKS),
    Kind("root-uninspectable", FAIL, "the declared memory root cannot be looked at", _NOTHING_WORKS),
    Kind("root-not-directory", FAIL, "the memory root is no directory", _NOTHING_WORKS),
    Kind("root-missing", FAIL, "the declared memory root does not exist", _NOTHING_WORKS),
    Kind(
        "root-undeclared",
        WARN,
        "the seat names no memory root, a default is used",
        "a folder that appears beside it later would be taken instead",
    ),
    Kind("switched-off", WARN, "`VAULT_MEM_OFF` or `LIFECYCLE_KILL_STOP_WRITER` is set", _NOT_SAVED),
    Kind(
        "extension-refused",
        WARN,
        "the lifecycle extension of the seat is refused as a whole",
        "none of its lines is shown at a clear",
    ),
)
TRUST = (
    Kind(
        "untrusted",
        FAIL,
        "this user never trusted this seat",
        "nothing is injected and nothing is written in a seat that is not trusted",
    ),
    Kind(
        "trust-unreadable",
        FAIL,
        "the trust record cannot be read",
        "it counts as not trusted: nothing is injected, nothing written",
    ),
    Kind(
        "trust-moved",
        FAIL,
        "the trust record names another memory root",
        "it counts as not trusted: nothing is injected, nothing written",
    ),
    Kind(
        "trust-open-to-others",
        WARN,
        "other users may write the trust record or its folder",
        "whoever can write it can make a hostile seat trusted",
    ),
    Kind(
        "history-rewritten",
        WARN,
        "the newest commit we vouch for is no longer in the history",
        "somebody replaced what was recorded; deliveries may be repeated or lost",
    ),
    Kind(
        "other-vault",
        WARN,
        "the vault has other root commits than the one that was trusted",
        "this is not the repository you trusted",
    ),
)
GIT = (
    Kind("git-missing", FAIL, "git is not on PATH", _NOT_COMMITTED),
    Kind("git-old", WARN, "git is older than 2.30", "parts of the vault were never tried with it"),
    Kind("vault-missing", FAIL, "there is no git repository at the memory root", _NOT_COMMITTED),
    Kind(
        "vault-adopted-no-repo",
        WARN,
        "the adopted tree has no repository of its own",
        "capsules are written and not committed; deliveries are kept in files only",
    ),
    Kind("vault-broken", FAIL, "objects or references of the vault are missing or damaged", _NOT_COMMITTED),
    Kind("vault-bare", FAIL, "the vault is configured as a bare repository", _NOT_COMMITTED),
    Kind("vault-unborn", FAIL, "the branch of the vault has no commit", _NOT_COMMITTED, "makes the first commit"),
    Kind("vault-detached", FAIL, "HEAD of the vault is on no branch", _NOT_COMMITTED),
    Kind("vault-mid-merge", FAIL, "a merge was begun in the vault and not ended", _NOT_COMMITTED),
    Kind("vault-mid-rebase", FAIL, "a rebase was begun in the vault and not ended", _NOT_COMMITTED),
    Kind("vault-mid-pick", FAIL, "a cherry-pick or revert was begun in the vault and not ended", _NOT_COMMITTED),
    Kind("vault-mid-bisect", FAIL, "a bisect was begun in the vault and not ended", _NOT_COMMITTED),
    Kind("other-owner", FAIL, "git says the vault belongs to another user", _NOT_COMMITTED),
    Kind(
        "unsafe-git-config",
        FAIL,
        "configuration or attributes of the vault can start a program",
        "hooks refuse such a vault, because git would run what a file in the tree says",
    ),
    Kind(
        "config-ignored",
        NOTE,
        "configuration of the vault could start a program and is switched off",
        "nothing of it is run by us; it is listed so that you know",
    ),
    Kind(
        "index-lock-left",
        FAIL,
        "an abandoned `index.lock` lies in the vault",
        "your own commits in the vault fail while it lies there; the next save removes it",
        "removes it, and only when no git process works in the vault",
    ),
    Kind(
        "index-locked",
        WARN,
        "`index.lock` is held, or too young to be called abandoned",
        "no commit is made while it lies there",
    ),
    Kind(
        "ref-lock-left",
        FAIL,
        "an abandoned lock of HEAD or of the branch lies in the vault",
        "your own commits in the vault fail while it lies there; the next save removes it",
        "removes it, and only when no git process works in the vault",
    ),
    Kind(
        "ref-locked",
        WARN,
        "a lock of HEAD or of the branch is held, or too young to be called abandoned",
        "no commit is made while it lies there",
    ),
    Kind(
        "unfinished-commit",
        WARN,
        "a writer of ours was killed between commit and index",
        "the index does not agree with HEAD until it is finished",
        "finishes or undoes it",
    ),
    Kind(
        "identity-missing",
        NOTE,
        "git knows no name or address here",
        "saves are committed as vault-mem <vault-mem@localhost>",
    ),
    Kind(
        "identity-config-only",
        WARN,
        "`user.useConfigOnly` is set and there is no name or address",
        "your own commits in the vault fail; saves are committed as vault-mem <vault-mem@localhost>",
    ),
    Kind(
        "signing-unusable",
        WARN,
        "commits are to be signed and the signing program cannot be started",
        "your own commits fail; saves are not signed, because nobody could answer a prompt in a hook",
    ),
    Kind(
        "signing-off-for-saves",
        NOTE,
        "commits are to be signed; saves are not",
        "a prompt in a hook could be answered by nobody",
    ),
    Kind(
        "hooks-path-off-for-saves",
        NOTE,
        "`core.hooksPath` names git hooks; saves do not run them",
        "a failing pre-commit hook of yours never stops a save",
    ),
    Kind(
        "capsules-ignored",
        WARN,
        "an ignore rule hides capsules from git",
        "saves are committed all the same, but `git add` and `git status` pass them over",
    ),
    Kind(
        "driver-missing",
        WARN,
        "the vault has no merge driver",
        "`git merge` and `git pull` make conflicts in capsules",
        "sets `merge.vault-mem.driver`",
    ),
    Kind(
        "driver-gone",
        WARN,
        "the program of the merge driver does not exist",
        "`git merge` and `git pull` fail or make conflicts in capsules",
        "sets `merge.vault-mem.driver`",
    ),
    Kind(
        "attributes-missing",
        WARN,
        "the vault has no `.gitattributes` that names the merge driver",
        "line ends may be changed and merges make conflicts in capsules",
        "writes it and commits it",
    ),
    Kind(
        "not-excluded",
        WARN,
        "the project's git does not ignore the memory root",
        "`git add -A` would take private memory into the project",
        "adds it to `.git/info/exclude`",
    ),
    Kind(
        "root-tracked",
        WARN,
        "the project's git tracks files below the memory root",
        "private memory goes wherever the project is pushed",
    ),
    Kind(
        "mirrored",
        WARN,
        "a remote of the project is a mirror",
        "`git push` to it would publish or delete the private reference of the memory",
    ),
    Kind(
        "edited-outside",
        WARN,
        "capsules differ from what was committed last",
        "somebody else wrote them; the difference is in no commit",
    ),
    Kind(
        "untracked-capsule",
        WARN,
        "capsules lie in the tree that no commit has",
        "they are lost with the folder, and no other machine gets them",
    ),
    Kind(
        "capsule-vanished",
        WARN,
        "capsules that were committed are missing from the tree",
        "they are not handed over; the next commit of git itself would delete them",
    ),
    Kind(
        "diverged", WARN, "the vault and its remote have both moved on", "other machines do not see what is saved here"
    ),
    Kind(
        "unsynced",
        NOTE,
        "the vault has commits its remote lacks, or the other way round",
        "other machines do not see what is saved here",
    ),
)
STATE = (
    Kind(
        "runtime-unusable",
        FAIL,
        "`runtime/` is no directory that can be used",
        "no lock can be taken, so nothing is saved",
    ),
    Kind("read-only", FAIL, "the vault cannot be written", _NOT_SAVED),
    Kind("disk-full", FAIL, "less than 4 MB or 100 files are free", _NOT_SAVED),
    Kind("disk-low", WARN, "less than 64 MB or 2,000 files are free", "saves will fail when it is used up"),
    Kind(
        "vault-lock-held",
        WARN,
        "another process holds the vault lock",
        "hooks wait for it a little and then leave the turn to the next one",
    ),
    Kind(
        "lock-unusable", FAIL, "the lock file is a link or no regular file", "no lock can be taken, so nothing is saved"
    ),
    Kind("commit-owed", WARN, "saves are on disk and could not be committed", _NOT_COMMITTED, "commits them"),
    Kind(
        "delivery-unfinished",
        WARN,
        "a capsule was printed and the commit of the delivery is owed",
        "until then it counts as delivered; the next hook completes it",
    ),
    Kind(
        "delivery-stale",
        WARN,
        "a delivery that the history has is noted as interrupted: its text may not have been seen",
        "the next clear hands the capsule out again, loudly, unless its session saved something",
        "removes the note, and with it the repetition",
    ),
    Kind("spooled", NOTE, "turns wait to be merged", "the next hook merges them"),
    Kind(
        "state-damaged",
        WARN,
        "files of the hooks' state cannot be read",
        "what they remembered is made anew from transcript and history",
        "removes them",
    ),
    Kind("leftovers", NOTE, "temporary files of a killed writer lie about", "they are of no use", "removes them"),
    Kind(
        "unsaved-work",
        NOTE,
        "transcripts have grown since they were saved last",
        "the next start of a session saves them",
    ),
    Kind("recent-failures", WARN, "hooks failed in the last day", "turns may have been saved late or not at all"),
    Kind("bad-settings", WARN, "a setting has a value that cannot be used", "the default is used in its place"),
    Kind(
        "bad-tunable",
        WARN,
        "an environment variable of the context reset has a value that cannot be used",
        "the default is used in its place",
    ),
    Kind(
        "watcher-stale",
        FAIL,
        "the watcher of the context reset was set up and stands still",
        "no session is measured, no wake is raised and no `/clear` that was asked for is typed",
    ),
    Kind(
        "wake-undrained",
        FAIL,
        "a wake has waited for more than ten minutes",
        "what it says was not acted on: a session may stand over its ceiling",
    ),
)
HOOKS = (
    Kind("hooks-missing", FAIL, "no client starts our hooks here", _NOT_SAVED),
    Kind(
        "hook-missing",
        FAIL,
        "one of our hooks is not wired",
        "what it does is left out: turns not saved, or nothing handed over",
        "adds it",
    ),
    Kind(
        "hook-doubled",
        WARN,
        "a hook of ours is registered twice",
        "the client runs both at the same moment; the second waits for the first at every turn",
        "removes what is doubled within one file",
    ),
    Kind(
        "hook-matcher",
        FAIL,
        "the matcher of our SessionStart hook leaves out a source",
        "after that kind of start nothing is handed over",
        "makes it an entry without a matcher",
    ),
    Kind(
        "hook-wrong-place",
        WARN,
        "a hook of ours hangs on an event it was not made for",
        "it does nothing there, or the wrong thing",
        "moves it",
    ),
    Kind(
        "hook-program-missing",
        FAIL,
        "the program a hook of ours starts does not exist or is not executable",
        _NOT_SAVED,
        "names the program that runs now",
    ),
    Kind("hook-fails", FAIL, "the exact command of a hook of ours was run and failed", _NOT_SAVED),
    Kind(
        "hook-blocks",
        FAIL,
        "the exact command of a hook of ours ends with exit code 2",
        "the client reads 2 as a refusal and stops the turn",
    ),
    Kind(
        "hook-timeout-unit",
        WARN,
        "the time limit of a hook of ours looks like milliseconds",
        "the unit is seconds: a hanging hook would hold the session for hours",
        "sets it to ours",
    ),
    Kind(
        "hook-background",
        WARN,
        "a hook of ours runs in the background",
        "the client may end before it is saved; Codex does not run such hooks at all",
        "makes it an entry of ours anew",
    ),
    Kind(
        "hook-mixed",
        NOTE,
        "a hook of ours is part of a longer command line",
        "it is left alone, and not run by the doctor",
    ),
    Kind(
        "settings-malformed",
        FAIL,
        "a client's settings file has a shape the client refuses",
        "the client may pass over the whole file, permissions included",
    ),
    Kind(
        "settings-unreadable",
        FAIL,
        "a client's settings file cannot be read",
        "the client may pass over the whole file, permissions included",
    ),
    Kind("hooks-disabled", FAIL, "`disableAllHooks` is set", _NOT_SAVED),
    Kind(
        "started-below-root",
        WARN,
        "project settings are not read when a client is started in a sub-directory",
        _NOT_SAVED,
    ),
    Kind(
        "bad-client-home",
        FAIL,
        "`CLAUDE_CONFIG_DIR` or `CODEX_HOME` is no absolute path",
        "the client and we would look in different places",
    ),
    Kind(
        "codex-unreviewed",
        WARN,
        "Codex has not been told that our hooks may run",
        "`codex exec` passes over hooks that were not reviewed, without a word",
    ),
    Kind(
        "ceiling-above-compaction",
        WARN,
        "the client compacts by itself before the context ceiling is reached",
        "the session loses its detail before anybody is told that it is time for a hand-over",
    ),
    Kind("client-missing", NOTE, "no client program is on PATH", "hooks run only when a client starts them"),
    Kind("client-silent", WARN, "a client program does not tell its version", "it may not start at all"),
    Kind(
        "client-old",
        WARN,
        "a client is older than any that was tried",
        "hooks may be missing there or behave in another way",
    ),
    Kind(
        "foreign-timeout-unit",
        WARN,
        "the time limit of another tool's hook looks like milliseconds",
        "the unit is seconds: a hanging hook would hold the session for hours",
    ),
    Kind(
        "foreign-unquoted",
        WARN,
        "another tool's hook has a path with blanks without quotes",
        "the shell takes it apart, the hook never runs",
    ),
    Kind(
        "foreign-missing", WARN, "the program of another tool's hook does not exist", "every event shows a failed hook"
    ),
    Kind(
        "foreign-recursion",
        WARN,
        "another tool's hook starts a client",
        "that session fires hooks of its own: loops, and capsules of sessions nobody held",
    ),
    Kind(
        "foreign-lifecycle",
        FAIL,
        "hooks of aigent-OS or Harnery are wired beside ours",
        "both hand out and consume capsules: one takes what the other should have had",
    ),
    Kind(
        "two-memories",
        WARN,
        "another memory tool injects text at the start of a session",
        "the session gets two accounts of what was done, and both cost context",
    ),
    Kind("skill-missing", WARN, "a skill of ours is not installed", "the words of the skill do nothing in a session"),
    Kind("skill-edited", NOTE, "a skill of ours was edited", "it is never overwritten; new text would lie beside it"),
    Kind("skill-link", WARN, "a skill of ours is a symbolic link", "it is not written through a link"),
)
MEMORY = (
    Kind("capsules-unreadable", FAIL, "`capsules/` cannot be read, or is a symbolic link", _PASSED_OVER),
    Kind("capsule-rejected", WARN, "a capsule will be passed over for a defect", _PASSED_OVER),
    Kind("capsule-future", WARN, "a capsule was written in the future", "it is passed over; a clock was or is wrong"),
    Kind("capsule-duplicate-id", WARN, "two capsules have the same id", "a delivery of one counts for both"),
    Kind(
        "capsule-anchors",
        WARN,
        "the sections of a capsule are damaged",
        "new bullets for it go to a new file, because nothing is repaired by guessing",
    ),
    Kind(
        "capsule-invalid",
        NOTE,
        "a capsule can be handed over but breaks a rule",
        "the next session is shown something as unknown",
    ),
    Kind(
        "only-placeholders",
        NOTE,
        "the newest capsule says only that nothing was captured",
        "the next session is told little",
    ),
    Kind(
        "capsules-waiting",
        NOTE,
        "many active capsules wait, and a clear hands out only the newest",
        "the others are only named",
    ),
    Kind(
        "clock",
        FAIL,
        "the clock of this machine is wrong",
        "capsules get times that make others seem to come from the future",
    ),
)
PROVE = (
    Kind("proof-save", FAIL, "a save could not be landed on the scratch reference", _NOT_COMMITTED),
    Kind("proof-resume", FAIL, "the saved capsule could not be read back", _PASSED_OVER),
    Kind(
        "proof-undo",
        FAIL,
        "the scratch reference could not be removed",
        "a reference of ours is left in the repository",
    ),
    Kind(
        "proof-touched",
        FAIL,
        "the proof changed HEAD, the branch, the index or the configuration",
        "that must never happen; please report it",
    ),
    Kind(
        "proved",
        NOTE,
        "a save, a resume and an undo were landed for real",
        "what a hook does works here; of the proof only unreferenced objects are left",
    ),
    Kind(
        "proved-despite",
        NOTE,
        "something that stops your own commits was there and did not stop the save",
        "your own commits in the vault fail or wait; mend it when you like",
    ),
)
ODD = (Kind("check-failed", WARN, "a check of the doctor itself failed", "what it looks at is unknown"),)

GROUPS = {
    "root": ROOT,
    "trust": TRUST,
    "git": GIT,
    "state": STATE,
    "hooks": HOOKS,
    "capsules": MEMORY,
    "proof": PROVE,
    "doctor": ODD,
}
KINDS = {kind.token: kind for kinds in GROUPS.values() for kind in kinds}


def found(token: str, where: str, what: str, fix: str = "", *, severity: str = "") -> Finding:
    """A finding of a kind of the table; *severity* only where a case is milder or harder than its kind."""
    kind = KINDS[token]
    return Finding(token, severity or kind.severity, where, what, kind.why, fix)

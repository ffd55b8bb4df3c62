"""Which modules an ordinary hook imports, in the order in which their imports end: what `image` runs ahead.

`tests/test_architecture.py` holds the lists against real hooks and says what belongs here. A module too many costs every hook some 0.1 ms.
"""

from __future__ import annotations

STAGES = {
    # `vault-mem hook`, until the seat is found: where there is none, nothing more is loaded.
    "hook": """
        hooks record processes errors harness jsontext session session.event harness.registry hooks.streams vault roots digest files stamps
        trust vault.store hooks.run
    """,
    "saving": """
        receipts clientprocess lock redacttokens redact capsule capsule.model capsule.text capsule.header capsule.sections capsule.gate
        capsule.lineage capsule.selector repo repo.shape repo.objects session.turns session.evidence session.identity worktree capsule.codec
        index version repo.identity repo.index repo.light repo.commit vault.commits vault.tree vault.headers transcript harness.rows
        session.speaker harness.claude vault.delta vault.active writer session.nods session.shell session.outcome session.places
        session.folding session.distil
    """,
    "user-prompt-submit": """
        receipts redacttokens redact session.identity journal
    """,
    "post-tool-use": """
        receipts session.identity
    """,
    "resume": """
        hooks errors files jsontext record stamps receipts processes clientprocess digest session session.identity injections lock capsule
        capsule.model capsule.text capsule.header capsule.lifecycle capsule.lineage capsule.sections capsule.gate capsule.selector
        capsule.inert capsule.procedure capsule.provenance vault index trust version repo repo.identity repo.shape repo.objects repo.index
        repo.light repo.commit vault.commits vault.tree vault.headers roots vault.store vault.vouched vault.chosen vault.choice resume harness
        session.event harness.registry hooks.streams hooks.answers hooks.run vault.tidy hooks.start worktree vault.moved
    """,
}

"""`python -m vault_mem`."""

from vault_mem.entry import script

script()

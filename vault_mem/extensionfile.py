"""The file an install declares its lifecycle extension in: `.aigent/lifecycle-extension.json` below the seat."""

from __future__ import annotations

import errno
import os

from vault_mem import files
from vault_mem.capsule import extension

NAME = ".aigent/lifecycle-extension.json"
SIZE_LIMIT = 256 << 10


def load(root: str) -> extension.Declaration:
    """What *root* declares. Without a file nothing; whatever is wrong with the file refuses it as a whole, and says so."""
    path = os.path.join(root, *NAME.split("/"))
    try:
        data = files.read(path, limit=SIZE_LIMIT)
    except FileNotFoundError:
        return extension.Declaration()
    except OSError as error:
        # A directory that holds no `.aigent` directory declares nothing either.
        if error.errno == errno.ENOTDIR:
            return extension.Declaration()
        return extension.refused(path, f"cannot be read ({errno.errorcode.get(error.errno or 0, 'EIO')})")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        return extension.refused(path, f"cannot be read (not UTF-8 at byte {error.start})")
    return extension.declared(text, path=path)

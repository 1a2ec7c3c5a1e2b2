"""The folder of language models, where pylance looks for them, too."""

from __future__ import annotations

import os
import sys
from pathlib import Path

HOME = "LANCE_LANGUAGE_MODEL_HOME"
"""The environment variable with the folder."""


def model_folder(tokenizer: str) -> Path:
    """The folder of the model of a tokenizer, such as "jieba/default", which need not exist."""
    local = "~/Library/Application Support" if sys.platform == "darwin" else os.environ.get("XDG_DATA_HOME") or "~/.local/share"
    home = Path(os.environ.get(HOME) or Path(local).expanduser() / "lance" / "language_models")
    return home / tokenizer

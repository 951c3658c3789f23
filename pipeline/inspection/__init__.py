"""What a checkpoint is, from its configuration and file list only. Nothing of a model is executed or allocated here.

`inspect_checkpoint` judges a local folder or a Hub file list; the answer is an `Inspection`, never a loaded model.
"""

from pipeline.inspection.service import Inspection, Problem, inspect_checkpoint, require_usable

__all__ = ["Inspection", "Problem", "inspect_checkpoint", "require_usable"]

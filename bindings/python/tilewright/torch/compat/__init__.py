"""Switching: modules with the names and signatures of other libraries, and patches that put ours in their place.

    from tilewright.torch.compat.liger import LigerFusedLinearCrossEntropyLoss    # instead of liger_kernel.transformers
    patch = tilewright.torch.compat.patch_transformers(model)                     # patch.undo() gives back what was

Arguments that choose another library's kernels, chunks or filters are accepted and have no meaning here.
"""

from ._patch import Patch
from .hugging_face import patch_transformers
from .liger import patch_liger
from .torch_functional import patch_torch

__all__ = ["Patch", "patch_liger", "patch_torch", "patch_transformers"]

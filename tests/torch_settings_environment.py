"""An environment whose module changes torch's default dtype when it is imported."""

import impure_environment
import torch

torch.set_default_dtype(torch.float64)
Counting = impure_environment.Counting

"""A run's config with the files that its folder has copies of."""

import dataclasses
from typing import Any

from drumline.recipes.first_policies import start_of
from drumline.recipes.methods import config_from
from drumline.runs.folder import RunFolder
from drumline.runs.start_policy import own_start


def own_config(folder: RunFolder) -> Any:
    """Return the config of a run; the policy that it starts from is the folder's copy."""
    config = config_from(folder.document)
    start = start_of(config)
    if not start:
        return config
    return dataclasses.replace(config, start_from=own_start(folder, start))

"""PPO in lock-step, HTS-RL's synchronous rival: the same learner, environments and network."""

from dataclasses import dataclass
from typing import Any, ClassVar

from drumline.recipes import hts
from drumline.recipes.actor_critic_config import (
    EpochsConfig,
    SynchronousConfig,
    refuse_uneven_minibatches,
    refuse_unusable_epochs,
)
from drumline.recipes.actor_critic_presets import IMAGES
from drumline.recipes.layout import LockstepLayout
from drumline.recipes.lockstep import lockstep_recipe
from drumline.recipes.rotation import RotationRecipe

METHOD = "ppo"


@dataclass(frozen=True)
class PPO(EpochsConfig, SynchronousConfig):
    """PPO in lock-step (Schulman et al. 2017). Every field is an argument of the result."""

    learner: ClassVar[str] = "ppo"
    correction_used: ClassVar[str] = "ppo-ratio"

    def __post_init__(self) -> None:
        refuse_unusable_epochs(self)
        SynchronousConfig.__post_init__(self)
        refuse_uneven_minibatches(self, self.minibatches)


def preset(env_id: str) -> dict[str, Any]:
    """Return hts's preset; where images are learned from, nobody else needs the cores meanwhile."""
    threads = {"learner_threads": 2} if env_id in IMAGES else {}
    return {**hts.preset(env_id), **threads}


def build(config: PPO, layout: LockstepLayout) -> RotationRecipe:
    """Put the parts together."""
    return lockstep_recipe(METHOD, config, layout)

"""Families of configs that share parts and checks, for annotations only."""

from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, Union

if TYPE_CHECKING:
    from drumline.recipes.a2c import A2C
    from drumline.recipes.aes import AES
    from drumline.recipes.ars import ARS
    from drumline.recipes.cem import CEM
    from drumline.recipes.cem_rl import CEMRL
    from drumline.recipes.erl import ERL
    from drumline.recipes.es import ES
    from drumline.recipes.hts import HTS
    from drumline.recipes.impala import Impala
    from drumline.recipes.p_cem_rl import PCEMRL
    from drumline.recipes.ppo import PPO
    from drumline.recipes.td3 import TD3

Config: TypeAlias = Any
"""A method's config of any class, also from outside: its fields are known at run time only."""
Fields: TypeAlias = dict[str, Any]
"""Fields of a config by name, as presets and config.json have them."""
Space: TypeAlias = Any
"""A Gymnasium space: which attributes it has says what it is."""

ActorCritic: TypeAlias = Union["HTS", "A2C", "PPO", "Impala"]
Lockstep: TypeAlias = Union["A2C", "PPO"]
Epochs: TypeAlias = Union["HTS", "PPO"]
Searching: TypeAlias = Union["ES", "ARS"]
CrossEntropy: TypeAlias = Union["CEM", "CEMRL", "PCEMRL"]
Refining: TypeAlias = Union["CEMRL", "PCEMRL"]
Learned: TypeAlias = Union["AES", "CEM", "CEMRL", "PCEMRL", "ERL", "TD3"]
Clocked: TypeAlias = Union["AES", "PCEMRL"]
Replayed: TypeAlias = Union["AES", "CEMRL", "PCEMRL", "ERL"]
Rollouts = TypeVar("Rollouts", bound=ActorCritic)

"""A search as a run folder describes it, put together again in this process."""

from drumline.api.foreign_code import CodeTrust
from drumline.api.own_config import own_config
from drumline.recipes.methods import find_method
from drumline.runs.folder import RunError, RunFolder
from drumline.training.generational_run import GenerationalRecipe


def stored_search(folder: RunFolder, trust: CodeTrust, only_searches: str) -> GenerationalRecipe:
    """Return the parts of a run's search, with its initial parameters; RunError if it is none.

    `only_searches` ends that sentence.
    """
    trust.run(folder)
    name = folder.document["method"]
    method = find_method(name)
    recipe = method.built(own_config(folder), method.layout(pool="inline"))
    if not isinstance(recipe, GenerationalRecipe):
        raise RunError(f"{folder.shown} is a run of {name}{only_searches}")
    return recipe

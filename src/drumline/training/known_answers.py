"""Known answers of the libraries that compute in a run, as this process gives them."""

from collections.abc import Iterable

from drumline.runtime.known_answer import numpy_answer

ONEDNN = "onednn"


def known_answers(packages: Iterable[str]) -> dict[str, str]:
    """Return what NumPy, and torch where it is among the packages, answer in this process.

    `onednn` is torch's, of large products (`functional/products.py`), where it has an answer.
    """
    answers = {"numpy": numpy_answer()}
    if "torch" in packages:
        from drumline.functional.torch_answer import onednn_answer, torch_answer  # imports torch

        answers["torch"] = torch_answer()
        if product := onednn_answer():
            answers[ONEDNN] = product
    return answers

"""The first sentence: what the evidence allows to say, and no more."""

from __future__ import annotations

from typing import Any

import numpy as np

from smaller.app.study.costs import Costs
from smaller.app.study.intervals import mean_interval
from smaller.arrays import Array

__all__ = ["BETTER", "GUESSING", "WITHHELD", "cost_of_sparsity", "verdict"]

BETTER, GUESSING, WITHHELD = "better", "guessing", "withheld"


def verdict(
    judged: dict[str, Any], shuffled: dict[str, Any] | None, likely_group: str | None, used: int | None, features: int
) -> dict[str, Any]:
    """Return the state of the evidence and the sentence about it.

    Better than guessing is what lies outside the error's 95% interval, or gains log-loss with 99% confidence, and does
    better than the same procedure on shuffled labels. A likely group column that nobody has answered for withholds the
    claim: rows of one patient on both sides of a split make any interval too good.
    """
    if likely_group is not None:
        return {
            "state": WITHHELD,
            "sentence": f"Not settled: rows may belong together by '{likely_group}', and then the error is too good "
            f"and an interval would promise too much. Answer with --group '{likely_group}', or with --group none.",
        }
    by_error = _beats(judged, shuffled)
    by_loss = judged["gain_interval"][0] > 0 and (shuffled is None or judged["log_loss"] < shuffled["log_loss"])
    if not (by_error or by_loss):
        return {
            "state": GUESSING,
            "sentence": "No better than guessing: on rows not learnt from, this table gives no evidence that the "
            "features predict the target.",
        }
    size = "" if used is None else f"{used:,} of {features:,} feature{'s' * (features != 1)} "
    verb = "predicts" if used == 1 else "predict"
    start = f"{size}{verb} the target better than guessing" if used else "The target is predicted better than guessing"
    measure = "the number of errors" if judged["cost"] is None else f"the {judged['cost']['name']}"
    best = "the commonest class" if judged["cost"] is None else "the best single answer"
    how = "" if by_error else f", in its probabilities; {best} is not beaten in {measure}"
    return {"state": BETTER, "sentence": f"{start}{how}."}


def _beats(judged: dict[str, Any], shuffled: dict[str, Any] | None) -> bool:
    """Tell whether the decisions do better than one answer for all, and than luck: in cost if mistakes have one."""
    if judged["cost"] is None:
        value, high, guess = judged["error"], judged["error_interval"][1], judged["baseline_error"]
        luck = None if shuffled is None else shuffled["error"]
    else:
        value, high, guess = judged["cost"]["value"], judged["cost"]["interval"][1], judged["cost"]["baseline"]
        luck = None if shuffled is None else shuffled["cost"]["value"]
    return bool(high < guess and (luck is None or value < luck))


def cost_of_sparsity(
    codes: Array,
    proba: Array,
    full: Array,
    groups: Array | None,
    features: int,
    used: int | None,
    costs: Costs | None = None,
) -> dict[str, Any]:
    """Compare a model with a ridge model of all features on the same rows (first repeat of both)."""
    at = np.arange(len(codes))
    gain = np.log(proba[at, codes]) - np.log(full[at, codes])  # positive: the sparse model is better
    low, high = mean_interval(gain[None], groups)
    noun = f"all {features:,} features"
    if costs is None:
        error, ours = (float((P.argmax(axis=1) != codes).mean()) for P in (full, proba))
        facts = f"a ridge model of {noun} is wrong in {error:.1%} of the same rows, this one in {ours:.1%}"
    else:
        error, ours = (float(costs.matrix[codes, costs.decide(P)].mean()) for P in (full, proba))
        facts = f"a ridge model of {noun} has the {costs.name} {error:.3g} on the same rows, this one {ours:.3g}"
    if high < 0:
        sentence = f"Sparsity costs accuracy here: {facts}, and its log-loss is better by {-gain.mean():.3f}."
    elif low > 0:
        sentence = f"Nothing is lost by leaving features out: {facts}, and its log-loss is worse by {gain.mean():.3f}."
    else:
        sentence = f"Against all features: {facts}; the log-losses do not differ beyond chance."
    return {
        "error": error,
        "log_loss": float(-np.log(full[at, codes]).mean()),
        "gain": float(gain.mean()),
        "gain_interval": [low, high],
        "features": features,
        "used": used,
        "sentence": sentence,
    }

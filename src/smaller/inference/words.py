"""What may be said of a range and of an effect: never more than the simulations of docs/how-sure.md have shown."""

from __future__ import annotations

from typing import Any

from smaller.inference.coefficients import CoefIntervals

__all__ = ["EFFECTS_NOTE", "effect_in_words", "range_in_words", "range_notes"]

EFFECTS_NOTE = (
    "Ranges are meant for 90 of 100 effects; in simulations they held 73 to 90 of 100 effects that are not zero, fewer "
    "with fewer samples: a real effect may be larger than its range. A feature that was not chosen may have an effect "
    "all the same."
)
_SHOWS = "The range shows how far the number of samples leaves the weights of the chosen {parts} open."
_SHOWS_PROCESS = "The range shows how far the number of samples leaves the model open, its kernel and alpha as given."
_AS_GIVEN = "It takes the choice of {parts} as given. For the most clear-cut cases it is too narrow: in simulations"
_AT_90 = " it held the truth in 60 to 85 of 100 of them, not in 90."
_ELSEWHERE = " ranges meant for 90 of 100 held the truth in 60 to 85 of 100 of them."
_NOTHING = (
    "There are too few samples for so many features to say how sure a single probability is. The error rate {where} "
    "was measured and stays valid."
)
_RARE = 0.05  # of corrected p-values


def range_in_words(probability: float, low: float, high: float) -> str:
    """Return a probability with its range: "0.83, plausible range 0.64 to 0.93."."""
    if not low <= high:  # not a number
        return f"{probability:.2f}, range not known."
    return f"{probability:.2f}, plausible range {low:.2f} to {high:.2f}."


def range_notes(
    posterior: Any, *, level: float = 0.9, parts: str = "features", where: str = "above"
) -> tuple[str, ...]:
    """Return the sentences that go with the ranges of a fit; ``parts`` are what was chosen.

    One sentence where the simulated coverage is that of the level (reach below 1.5, 400 rows, two classes), two up to
    a reach of 4; beyond, the one that says there is no range; ``where`` the report's error rate stands.
    """
    if posterior.beyond_reach:
        return (_NOTHING.format(where=where),)
    if posterior.takes_nothing_as_given:
        return (_SHOWS_PROCESS,)
    first = _SHOWS.format(parts=parts)
    if posterior.sound:
        return (first,)
    return first, _AS_GIVEN.format(parts=parts) + (_AT_90 if level == 0.9 else _ELSEWHERE)


def effect_in_words(effects: CoefIntervals, i: int) -> str:
    """Return row ``i`` of a table of effects: "Effect 1.2 (0.5 to 1.9)", and what its p-value means if it is small."""
    text = f"Effect {effects.estimate[i]:.2g} ({effects.low[i]:.2g} to {effects.high[i]:.2g})."
    if not effects.p_corrected[i] < _RARE:
        return text
    return (
        f"{text} So large a value would be rare if this feature had no effect given the others (corrected for all "
        f"{effects.n_columns})."
    )

"""Standard errors of figures per token, by a bootstrap over the sentences of a corpus."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from headwise.model.training.processes import Processes

_RESAMPLES = 200
_SEED = 0


class Bootstrap:
    """Resampled sums of figures over sentences, and of their tokens, give standard errors.

    A resample draws each sentence a number of times that has the Poisson distribution of mean 1, so
    that sentences can be added one after another and in several processes. (Chamandy et al. 2012;
    the resampling of a whole corpus, Efron 1979, has this distribution in the limit.) The numbers
    depend on the seed and on the sentence's place in the corpus only.
    """

    def __init__(self, figures: int, device: torch.device) -> None:
        """Prepare for a number of figures."""
        # In the last column the tokens.
        self._sums = torch.zeros(_RESAMPLES, figures + 1, dtype=torch.float64, device=device)

    def add(self, places: Sequence[int], figures: Tensor, tokens: Tensor) -> None:
        """Add sentences.

        Args:
            places: index of each sentence in the corpus, (B,).
            figures: their figures, summed over tokens, (B, figures).
            tokens: their numbers of tokens, (B,).
        """
        draws = [np.random.default_rng((_SEED, at)).poisson(1, _RESAMPLES) for at in places]
        times = torch.tensor(np.array(draws), dtype=torch.float64, device=self._sums.device)
        columns = torch.cat([figures, tokens[:, None]], dim=1).double()
        self._sums += times.T @ columns

    def all_reduce(self, processes: Processes) -> None:
        """Add the sums of all processes; every process must call this."""
        self._sums = processes.sum(self._sums)

    def standard_errors(self) -> Tensor:
        """Return the standard deviation of each figure per token over the resamples, (figures,).

        NaN where a resample has no token, as of one or two sentences.
        """
        return (self._sums[:, :-1] / self._sums[:, -1:]).std(dim=0)

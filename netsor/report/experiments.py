"""The experiments of the founding paper, each a program, options, a measure and a view."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from netsor.report import beyond, measures, views
from netsor.report.measures import Measure
from netsor.report.views import Show


@dataclass(frozen=True)
class Experiment:
    """quick and full: options of the measure, full on top of quick. `programs`: files in programs/ that it runs."""

    name: str
    title: str
    caption: str
    programs: tuple[str, ...]
    measure: Measure
    show: Show
    quick: Mapping[str, Any]
    full: Mapping[str, Any] = field(default_factory=dict)

    def options(self, quick: bool) -> dict[str, Any]:
        return dict(self.quick) if quick else {**self.quick, **self.full}


LAYER = {"program": "attention", "settings": {}, "limit_runs": 2**16}
WIDE = {"runs": 2**14, "widths": [16, 64, 256]}

EXPERIMENTS = (
    Experiment(
        "fig1a",
        "Figure 1a: one layer at several widths",
        "Density of y₁ of the first token, H = 2, four tokens, clip, and its limit.",
        ("attention",),
        measures.densities,
        views.densities,
        {**LAYER, "widths": [16, 64, 256, 1024], "runs": 2**14},
        {"runs": 2**17, "limit_runs": 2**18},
    ),
    Experiment(
        "fig1b",
        "Figure 1b: distance from the limit against width",
        "KL divergence of the law at width n from the limit, by two estimates, with what each shows by noise alone.",
        ("attention",),
        measures.divergence,
        views.divergence,
        {
            **LAYER,
            "runs": {16: 2**12, 64: 2**13, **dict.fromkeys((256, 512, 1024, 2048, 4096), 2**16)},
            "slope": (256, 4096),
            "kde_widths": [16, 64, 256, 1024],
            "samples": 50_000,
            "seeds": 3,
        },
        {
            "runs": {
                **dict.fromkeys((16, 64), 2**15),
                **dict.fromkeys((256, 512, 1024, 2048, 4096), 2**19),
                16384: 2**16,
                100_000: 2**14,
            },
            "kde_widths": [16, 64, 256, 1024, 4096],
            "seeds": 10,
        },
    ),
    Experiment(
        "fig2a",
        "Figure 2a: the score under two scalings",
        "Density of the score p₁₁ under 1/√n and under 1/n.",
        ("attention", "inverse_n_attention"),
        measures.scores,
        views.scores,
        {"width": 256, "runs": 2**15},
        {"runs": 2**18},
    ),
    Experiment(
        "fig2b",
        "Figure 2b: few and many heads",
        "Density of y₁ of the first token for few and many heads, their limits (solid), and infinitely many heads.",
        ("attention", "two_layers"),
        measures.heads,
        views.heads,
        {"width": 256, "heads": {1: (2**15, 2**17), 2: (2**15, 2**17), 256: (2**11, 2**14)}},
        {"heads": {1: (2**19, 2**19), 2: (2**19, 2**19), 256: (2**14, 2**15)}},
    ),
    Experiment(
        "fig3",
        "Figure 3: heads of low rank",
        "Heads of fixed dimension n_H: densities at n = 64 H and in the limit (solid); the gap to wide heads.",
        ("low_rank_attention", "attention"),
        measures.low_rank,
        views.low_rank,
        {
            "rank": 64,
            "heads": {1: 2**13, 4: 2**12, 16: 2**11},
            "small": [(rank, H) for rank in (1, 2, 4) for H in (1, 64)],
            "small_runs": 2**20,
            "limit_runs": 2**17,
            "score_runs": 2**19,
        },
        {"heads": {1: 2**16, 4: 2**15, 16: 2**14}, "small_runs": 2**22, "limit_runs": 2**19},
    ),
    Experiment(
        "s8",
        "Appendix B.3: eight tokens",
        "Density of y₁ of the first of eight tokens.",
        ("attention",),
        measures.densities,
        views.densities,
        {**LAYER, **WIDE, "settings": {"tokens": 8}},
        {"runs": 2**17, "limit_runs": 2**18},
    ),
    Experiment(
        "relu",
        "Figure 5: ReLU tokens",
        "Density of y₁ of the first of four tokens relu(W h), one head.",
        ("attention",),
        measures.densities,
        views.densities,
        {**LAYER, **WIDE, "settings": {"phi": "relu", "heads": 1}},
        {"runs": 2**17, "limit_runs": 2**18},
    ),
    Experiment(
        "tails",
        "Corollary 3.2: tails",
        "Exact tail of the limit for one and two heads, and the sub-Gaussian bound.",
        ("attention", "linear_attention"),
        beyond.tails,
        beyond.show_tails,
        {"heads": [1, 2], "far": 4.0, "limit_runs": 2**15},
        {"limit_runs": 2**18},
    ),
    Experiment(
        "observables",
        "Attention in numbers",
        "Concentration of the weights, entropy, and the correlation of two tokens after attention, in the limit.",
        ("attention_observables",),
        beyond.observables,
        beyond.show_observables,
        {
            "sweeps": {
                "beta": [0.25, 0.5, 1, 2, 4],
                "tokens": [2, 4, 8, 16],
                "heads": [1, 2, 8],
                "sigma": [0.5, 1, 2],
                "correlation": [0.0, 0.5],
            },
            "limit_runs": 2**12,
            "draws": 2**17,
        },
        {"limit_runs": 2**16, "draws": 2**20},
    ),
    Experiment(
        "exact",
        "Exact moments at width n",
        "Moments of scores as rational functions of n, relative to their limits.",
        ("transformer_block",),
        beyond.exact,
        beyond.show_exact,
        {"widths": [8, 64, 256], "powers": [2, 4, 6], "runs": 2**16},
        {"runs": 2**20},
    ),
)

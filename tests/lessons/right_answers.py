"""Right answers in other styles than ours: numpy, loops, lists, closed forms, other types, other rounding."""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

from tests.lessons.solutions import (
    area_of,
    attn_of,
    bleu_of,
    choose_of,
    distilled_of,
    dominates_of,
    down_of,
    hours_of,
    kd_mean_of,
    kd_of,
    matches_of,
    mixed_of,
    moves_of,
    nats_of,
    p_of,
    p_value_of,
    pack_of,
    positions_of,
    range_of,
    rate_of,
    response_of,
    scales_of,
    shares_of,
    spread_of,
    unequal_of,
    uni_of,
    up_of,
    updates_of,
    verdict_of,
)

RIGHT: dict[str, list[Callable[..., Any]]] = {
    "l01.UNEQUAL": [
        unequal_of, lambda s: list(unequal_of(s)), lambda s: np.array(unequal_of(s)),
        lambda s: torch.tensor(unequal_of(s)),
    ],
    "l01.PACK": [
        pack_of, lambda x, b: tuple(tuple(batch) for batch in pack_of(x, b)),
        lambda x, b: [np.array(z) for z in pack_of(x, b)],
    ],
    "l01.KEEP_MASK": [
        lambda n: torch.tensor([[j < k for j in range(max(n.tolist()))] for k in n.tolist()]),
        lambda n: np.arange(max(n.tolist())) < n.numpy()[:, None],
    ],
    "l02.PROBABILITIES": [
        p_of, lambda s, t: p_of(s, t).tolist(), lambda s, t: p_of(s, t).float(),
        lambda s, t: np.array(s) ** (1 / t) / sum(np.array(s) ** (1 / t)),
        lambda s, t: torch.softmax(torch.tensor(s).double().log() / t, 0),
        lambda s, t: tuple(round(x, 7) for x in p_of(s, t).tolist()),
    ],
    "l02.RATIO": [
        lambda s, t: math.exp((math.log(max(s)) - math.log(min(s))) / t),
        lambda s, t: np.max(s) ** (1 / t) / np.min(s) ** (1 / t),
        lambda s, t: torch.tensor(max(s) / min(s)) ** (1 / t),
    ],
    "l02.VISITS": [
        lambda s, t, d: d * p_of(s, t) / torch.tensor(s), lambda s, t, d: d * np.array(p_of(s, t)) / np.array(s),
    ],
    "l03.ATTENTION": [
        attn_of, lambda q, k, v, mask: F.scaled_dot_product_attention(q, k, v, attn_mask=mask),
        lambda q, k, v, mask: torch.einsum("bhqk,bhkd->bhqd", (torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[3] ** 0.5
                                                               + torch.where(mask, 0.0, -1e9)).softmax(-1), v),
    ],
    "l03.CAUSAL_MASK": [lambda n: np.tri(n, dtype=bool), lambda n: torch.arange(n)[:, None] >= torch.arange(n)],
    "l03.POSITIONS": [positions_of, lambda n, d: positions_of(n, d).numpy(), lambda n, d: positions_of(n, d).tolist()],
    "l04.PERPLEXITY": [
        lambda x, g, pad: nats_of(x, g, pad).mean().exp(), lambda x, g, pad: np.exp(nats_of(x, g, pad).numpy().mean()),
    ],
    "l04.SMOOTHED": [
        lambda g, v, e: torch.tensor([[1 - e if j == k else e / (v - 1) for j in range(v)] for k in g.tolist()]),
        lambda g, v, e: np.where(np.eye(v)[g.numpy()] == 1, 1 - e, e / (v - 1)),
    ],
    "l04.RATE": [rate_of, lambda t, p, w: p * t / w if t < w else p * (w / t) ** 0.5],
    "l05.MATCHES": [
        matches_of, lambda h, r, n: tuple(matches_of(h, r, n)), lambda h, r, n: np.array(matches_of(h, r, n)),
    ],
    "l05.CORPUS_BLEU": [bleu_of, lambda *a: np.float64(bleu_of(*a)), lambda *a: torch.tensor(bleu_of(*a))],
    "l06.DOMINATES": [
        dominates_of, lambda a, b: np.all(np.array(a) >= np.array(b)) and np.any(np.array(a) > np.array(b)),
        lambda a, b: a != b and min(x - y for x, y in zip(a, b, strict=True)) >= 0,
        lambda a, b: bool((torch.tensor(a) >= torch.tensor(b)).all() & (torch.tensor(a) > torch.tensor(b)).any()),
    ],
    "l06.FRONTIER": [lambda pts: np.flatnonzero([not any(dominates_of(q, p) for q in pts) for p in pts])],
    "l06.AREA": [area_of, lambda pts, ref: np.float64(area_of(pts, ref))],
    "l06.VERDICT": [lambda a, b: verdict_of(a, b, range_of), lambda a, b: np.str_(verdict_of(a, b, range_of))],
    "l07.KD": [
        kd_of, lambda s, t: F.cross_entropy(s, t.softmax(-1), reduction="sum"),
        lambda s, t: sum(kd_of(x, y) for x, y in zip(s, t, strict=True)),
    ],
    "l07.KD_MEAN": [
        kd_mean_of,
        lambda s, t, n: sum(kd_of(s[i, : n[i]], t[i, : n[i]]) for i in range(len(n))) / n.sum(),
    ],
    "l07.MIXED": [mixed_of, lambda g, p, a, e: mixed_of(g, p, a, e).numpy()],
    "l08.UNI": [
        uni_of, lambda x, a: torch.where(x == x.amax(0), a, 0.0),
        lambda x, a: [[a * (p >= q) for p, q in zip(*r, strict=True)] for r in (x, x.flip(0))],
    ],
    "l08.DISTILLED": [distilled_of, lambda p, w: distilled_of(p, w).tolist()],
    "l08.SECOND_OPINION": [
        lambda a, b: (b & ~a).sum() / (~a).sum(), lambda a, b: sum((b & ~a).tolist()) / sum((~a).tolist()),
    ],
    "l08.ZONED": [lambda x, a, bits: uni_of(x, a, bits * math.log(2))],
    "l09.UP": [
        up_of, lambda a, mu: 1 / (1 + (1 - a) / a * math.exp(-mu)), lambda a, mu: [float(x) for x in up_of(a, mu)],
    ],
    "l09.DOWN": [down_of],
    "l09.DISTANCES": [moves_of, lambda a, mu: (up_of(a, mu) - a, a - down_of(a, mu))],
    "l11.TRIALS": [
        lambda n, a: (len(list(itertools.product(range(a), repeat=n))), a), lambda n, a: np.array([a**n, a]),
    ],
    "l11.CHOICE": [choose_of, lambda r: tuple(choose_of(r))],
    "l12.GRADIENT": [
        lambda p, r: r.sum() * p - r, lambda p, r: [float(r.sum() * x - y) for x, y in zip(p, r, strict=True)],
    ],
    "l12.RESPONSE": [response_of, lambda p, v, rho: response_of(p, v, rho).numpy()],
    "l13.SPREAD": [spread_of, lambda v: (statistics.mean(v), statistics.stdev(v)), lambda v: np.array(spread_of(v))],
    "l13.P_VALUE": [p_value_of, lambda d: Fraction(p_value_of(d))],
    "l14.SCALES": [scales_of, lambda f, k: np.array(scales_of(f, k)), lambda f, k: [int(s) for s in scales_of(f, k)]],
    "l15.UPDATES": [updates_of, lambda *a: float(updates_of(*a)), lambda *a: np.int64(updates_of(*a))],
    "l15.HOURS": [hours_of, lambda *a: np.float32(hours_of(*a))],
    "l16.SHARES": [shares_of, lambda x, i, k: shares_of(x, i, k).numpy()],
}  # fmt: skip

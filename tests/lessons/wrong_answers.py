"""Wrong answers as students write them, each under the exercise that it belongs to."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
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
    grams_of,
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
    tail_of,
    unequal_of,
    uni_of,
    up_of,
    updates_of,
    verdict_of,
)


def _printed(x: Any) -> None:
    print(x)


def _nothing(x: Any) -> None:
    str(x)


WRONG: dict[str, list[Callable[..., Any]]] = {
    "l01.UNEQUAL": [
        lambda s: (unequal_of(s)[0], 100 * unequal_of(s)[1]), lambda s: unequal_of(s)[0],
        lambda s: [*unequal_of(s)][::-1],
        lambda s: _printed(unequal_of(s)), lambda s: (round(unequal_of(s)[0]), unequal_of(s)[1]),
        lambda s: (unequal_of(s)[0], 1 - unequal_of(s)[1]), lambda s: (math.log(unequal_of(s)[0]), unequal_of(s)[1]),
    ],
    "l01.TAGS": [
        lambda pairs, pair, style: {"source": f"__{pair.split('-')[1]}__"}, lambda pairs, pair, style: _nothing(pair),
        lambda pairs, pair, style: {"source": f"__{pair.split('-')[0]}__", "target": f"__{pair.split('-')[1]}__"},
    ],
    "l01.PACK": [
        lambda x, b: pack_of(x, b)[1:], lambda x, b: [len(batch) for batch in pack_of(x, b)],
        lambda x, b: pack_of(x, b)[::-1], lambda x, b: [n for batch in pack_of(x, b) for n in batch], lambda x, b: x,
    ],
    "l01.KEEP_MASK": [
        lambda n: (torch.arange(int(n.max())) < n[:, None]).float(), lambda n: torch.arange(int(n.max())) <= n[:, None],
        lambda n: torch.arange(int(n.max())) >= n[:, None], lambda n: (torch.arange(int(n.max())) < n[:, None]).int(),
    ],
    "l02.PROBABILITIES": [
        lambda s, t: 100 * p_of(s, t), lambda s, t: p_of(s, t).log(), lambda s, t: torch.tensor(s) ** (1 / t),
        lambda s, t: [n ** (1 / t) for n in s] / sum(s), lambda s, t: p_of(s, 1 / t), lambda s, t: p_of(s, t).flip(0),
        lambda s, t: torch.softmax(torch.tensor(s).double() ** (1 / t), 0),
        lambda s, t: round(max(p_of(s, t)).item(), 2),
        lambda s, t: _nothing(p_of(s, t)), lambda s, t: (n for n in p_of(s, t)),
        lambda s, t: p_of(s, t).round(decimals=2),
    ],
    "l02.RATIO": [
        lambda s, t: (s[0] / s[-1]) / t, lambda s, t: max(s) ** (1 / t), lambda s, t: math.log(max(s) / min(s)) / t,
        lambda s, t: _printed((max(s) / min(s)) ** (1 / t)), lambda s, t: str((max(s) / min(s)) ** (1 / t)),
        lambda s, t: int((max(s) / min(s)) ** (1 / t)),
    ],
    "l02.VISITS": [
        lambda s, t, d: d * p_of(s, t), lambda s, t, d: (p_of(s, t) / torch.tensor(s)).tolist(),
        lambda s, t, d: [d * p / n for p, n in zip(p_of(s, t), s, strict=True)][::-1],
        lambda s, t, d: sum(d * p / n for p, n in zip(p_of(s, t), s, strict=True)),
        lambda s, t, d: [d * p // n for p, n in zip(p_of(s, t), s, strict=True)],
    ],
    "l03.ATTENTION": [
        lambda q, k, v, mask: attn_of(q, k, v, mask, math.sqrt(k.shape[-2])),
        lambda q, k, v, mask: attn_of(q, k, v, ~mask),
        lambda q, k, v, mask: attn_of(q, k, v, mask, 1.0), lambda q, k, v, mask: attn_of(q, k, v, mask, q.shape[-1]),
        lambda q, k, v, mask: attn_of(q, k, v, mask)[0], lambda q, k, v, mask: attn_of(q, k, v, mask).transpose(1, 2),
        lambda q, k, v, mask: attn_of(q, k, v, torch.ones_like(mask)), lambda q, k, v, mask: attn_of(q, k.T, v, mask),
    ],
    "l03.CAUSAL_MASK": [
        lambda n: torch.ones(n, n).tril(), lambda n: torch.ones(n, n).triu().bool(), lambda n: torch.eye(n).bool(),
        lambda n: torch.ones(n, n).tril(-1).bool(), lambda n: ~torch.ones(n, n).tril().bool(),
    ],
    "l03.WITH_TORCH": [
        lambda q, k, v, src, pad: F.scaled_dot_product_attention(q, k, v, attn_mask=src == pad),
        lambda q, k, v, src, pad: F.scaled_dot_product_attention(q, k, v, (src == pad)[:, None, None]),
        lambda q, k, v, src, pad: F.scaled_dot_product_attention(q, k, v),
    ],
    "l03.POSITIONS": [
        lambda n, d: positions_of(n, d)[1:], lambda n, d: positions_of(n, d, 100.0), lambda n, d: positions_of(n, d).T,
        lambda n, d: positions_of(n + 1, d)[1:], lambda n, d: positions_of(n, d).roll(d // 2, 1),
        lambda n, d: -positions_of(n, d),
    ],
    "l04.PERPLEXITY": [
        lambda x, g, pad: nats_of(x, g, pad).mean(), lambda x, g, pad: 2 ** nats_of(x, g, pad).mean(),
        lambda x, g, pad: math.exp(-nats_of(x, g, pad).mean()), lambda x, g, pad: nats_of(x, g, pad).exp().mean(),
        lambda x, g, pad: round(math.exp(nats_of(x, g, pad).mean()), 1),
        lambda x, g, pad: np.mean([math.exp(nats_of(a[None], b[None], pad).mean()) for a, b in zip(x, g, strict=True)]),
    ],
    "l04.SMOOTHED": [
        lambda g, v, e: (1 - e) * F.one_hot(g, v) + e / v, lambda g, v, e: F.one_hot(g, v).float(),
        lambda g, v, e: (1 - e) * F.one_hot(g, v) + e / (v - 1), lambda g, v, e: (1 - e) * F.one_hot(g, v),
    ],
    "l04.RATE": [
        lambda t, p, w: p * t / w, lambda t, p, w: 100 * rate_of(t, p, w), lambda t, p, w: rate_of(t - 1, p, w),
        lambda t, p, w: rate_of(t, 1.0, w), lambda t, p, w: p, lambda t, p, w: 2 * rate_of(t, p, w),
    ],
    "l05.MATCHES": [
        lambda h, r, n: matches_of(h, r, n)[0] / matches_of(h, r, n)[1], lambda h, r, n: matches_of(r, h, n),
        lambda h, r, n: matches_of(h, r, n)[::-1], lambda h, r, n: matches_of(h, r, 1),
        lambda h, r, n: sum(g in grams_of(r, n) for g in grams_of(h, n)),
    ],
    "l05.CORPUS_BLEU": [
        lambda *a: bleu_of(*a) / 100, lambda m, t, h, r: bleu_of(m, t, r, h),
        lambda m, t, h, r: bleu_of(m, t, [1], [1]),
        lambda *a: round(bleu_of(*a)), lambda *a: math.log(bleu_of(*a)),
        lambda m, t, h, r: 100 * math.exp(1 - sum(r) / sum(h)) * math.exp(np.log(np.sum(m, 0) / np.sum(t, 0)).mean()),
    ],
    "l06.DOMINATES": [
        lambda a, b: a > b, lambda a, b: np.all(np.array(a) > np.array(b)), lambda a, b: not dominates_of(a, b),
        lambda a, b: np.all(np.array(a) >= np.array(b)), lambda a, b: dominates_of(b, a), lambda a, b: max(a) > max(b),
        lambda a, b: np.mean(a) > np.mean(b), lambda a, b: str(dominates_of(a, b)),
    ],
    "l06.FRONTIER": [
        lambda pts: [p for p in pts if not any(dominates_of(q, p) for q in pts)],
        lambda pts: [not any(dominates_of(q, p) for q in pts) for p in pts],
        lambda pts: [i for i, p in enumerate(pts) if not any(dominates_of(p, q) for q in pts)],
        lambda pts: {i for i, p in enumerate(pts) if not any(dominates_of(q, p) for q in pts)},
    ],
    "l06.AREA": [
        lambda pts, ref: sum((x - ref[0]) * (y - ref[1]) for x, y in pts), lambda pts, ref: area_of(pts, (0.0, 0.0)),
        lambda pts, ref: max((x - ref[0]) * (y - ref[1]) for x, y in pts), lambda pts, ref: -area_of(pts, ref),
        lambda pts, ref: sum((b[0] - a[0]) * (a[1] + b[1] - 2 * ref[1]) / 2 for a, b in pairwise(sorted(pts))),
        lambda pts, ref: area_of(pts, ref) / 2,
    ],
    "l06.VERDICT": [
        lambda a, b: verdict_of(a, b, lambda x: np.std(x, ddof=1)), lambda a, b: verdict_of(a, b, np.std),
        lambda a, b: "noise" if abs(np.mean(b) - np.mean(a)) <= range_of(a) + range_of(b) else "better",
        lambda a, b: verdict_of(a, b, lambda x: 0.0), lambda a, b: verdict_of(b, a, range_of),
        lambda a, b: verdict_of(a, b, range_of).upper(), lambda a, b: verdict_of(a, b, lambda x: 1.0),
        lambda a, b: verdict_of(a, b, lambda x: range_of(a) + range_of(b)),
    ],
    "l07.KD": [
        lambda s, t: F.kl_div(s.log_softmax(-1), t.softmax(-1), reduction="sum"), lambda s, t: kd_of(t, s),
        lambda s, t: -kd_of(s, t), lambda s, t: kd_of(s, t) / math.log(2), lambda s, t: kd_of(s, t) / len(s),
        lambda s, t: ((s.softmax(-1) - t.softmax(-1)) ** 2).mean(), lambda s, t: kd_of(s, t) / math.log(10),
        lambda s, t: -F.kl_div(s.log_softmax(-1), t.softmax(-1), reduction="sum"), lambda s, t: -(t * s).sum(),
        lambda s, t: F.kl_div(t.log_softmax(-1), s.softmax(-1), reduction="sum"), lambda s, t: kd_of(s, t).exp(),
    ],
    "l07.KD_MEAN": [
        lambda s, t, n: kd_of(s, t) / n.sum(), lambda s, t, n: kd_mean_of(s, t, n) * n.sum(),
        lambda s, t, n: kd_of(s, t) / n.numel(), lambda s, t, n: kd_mean_of(s, t, n) * 2,
        lambda s, t, n: -kd_mean_of(s, t, n),
        lambda s, t, n: kd_mean_of(s, t, n) / math.log(2),
    ],
    "l07.MIXED": [
        lambda g, p, a, e: a * F.one_hot(g, p.shape[-1]) + (1 - a) * p, lambda g, p, a, e: mixed_of(g, p, 1 - a, e),
        lambda g, p, a, e: mixed_of(g, p, a, 0.0), lambda g, p, a, e: mixed_of(g, p, a, e).log(),
        lambda g, p, a, e: mixed_of(g, p, a, e).T, lambda g, p, a, e: mixed_of(g, p, a, e) / a,
    ],
    "l08.UNI": [
        lambda x, a: a * (x > x.flip(0)), lambda x, a: a * (x <= x.flip(0)), lambda x, a: (x >= x.flip(0)).double(),
        lambda x, a: uni_of(x, a)[0], lambda x, a: uni_of(x, a).flip(0), lambda x, a: uni_of(x, a) / 2, lambda x, a: a,
    ],
    "l08.DISTILLED": [
        lambda p, w: (p * w).sum(1), lambda p, w: distilled_of(p, w).mean(), lambda p, w: 100 * distilled_of(p, w),
        lambda p, w: (w > 0).sum(1), lambda p, w: p * (w > 0), lambda p, w: (p * (w == 0)).sum(1),
    ],
    "l08.SECOND_OPINION": [
        lambda a, b: (b & ~a).sum(), lambda a, b: 100 * (b & ~a).sum() / (~a).sum(),
        lambda a, b: (b & ~a).sum() / len(a),
    ],
    "l08.ZONED": [
        lambda x, a, bits: uni_of(x, a, bits), lambda x, a, bits: uni_of(x, a, bits / math.log(2)),
        lambda x, a, bits: uni_of(x, a), lambda x, a, bits: 1 - uni_of(x, a, bits * math.log(2)),
    ],
    "l09.UP": [
        lambda a, mu: up_of(a, mu) * 100, lambda a, mu: (a + mu).clamp(max=1), lambda a, mu: torch.logit(a) + mu,
        lambda a, mu: down_of(a, mu), lambda a, mu: a, lambda a, mu: up_of(a, 1), lambda a, mu: 1 - up_of(a, mu),
    ],
    "l09.DOWN": [lambda a, mu: up_of(a, mu), lambda a, mu: (a - mu).clamp(min=0), lambda a, mu: torch.sigmoid(a - mu)],
    "l09.DISTANCES": [
        lambda a, mu: moves_of(a, mu).T, lambda a, mu: -moves_of(a, mu), lambda a, mu: moves_of(a, mu).sum(0),
        lambda a, mu: moves_of(a, mu).flip(0), lambda a, mu: (up_of(a, mu) - a, down_of(a, mu) - a),
    ],
    "l09.MU": [
        lambda t, T, s: math.sqrt(1 - t / T), lambda t, T, s: 1.0,
        lambda t, T, s: {"constant": 1.0, "to_0": (1 - t / T) ** 0.5, "to_0.2": 0.2 + 0.8 * (1 - t / T) ** 0.5,
                         "early_stop": math.sqrt(1 - 1.2 * t / T)}[s],
    ],
    "l10.TRIAL_SET": [
        lambda n, rho, b: [int(rho * x) for x in n], lambda n, rho, b: [max(b, round(rho * x)) for x in n],
        lambda n, rho, b: [min(x, max(b, math.ceil(rho * x))) for x in n], lambda n, rho, b: rho * n,
    ],
    "l10.OVERHEAD": [
        lambda rho, n, s: rho * n, lambda rho, n, s: 100 * rho * (3 * n + (1 if s else n)) / 4,
        lambda rho, n, s: rho * (3 * n + (1 if s else n)), lambda rho, n, s: rho * (3 * n + (n if s else 1)) / 4,
    ],
    "l11.TRIALS": [
        lambda n, a: a**n, lambda n, a: (n**a, a), lambda n, a: (a, a**n), lambda n, a: (a**n, n),
        lambda n, a: (a * n, a),
    ],
    "l11.CHOICE": [
        lambda r: r.argmin(0), lambda r: choose_of(-r), lambda r: choose_of(r)[0], lambda r: choose_of(r)[::-1],
        lambda r: [("up", "keep", "down")[i] for i in r.argmin(0)],
        lambda r: [choose_of(r.sum(1, keepdim=True))[0]] * r.shape[1],
    ],
    "l11.BREAKING": [lambda space: torch.zeros(len(space), 2), lambda space: torch.rand(2, len(space))],
    "l12.GRADIENT": [
        lambda p, r: r - r.sum() * p, lambda p, r: -r / p, lambda p, r: r.sum() * p, lambda p, r: p - r,
        lambda p, r: (r.sum() * p - r).mean(), lambda p, r: (r.sum() * p - r) / len(p),
    ],
    "l12.RESPONSE": [
        lambda p, v, rho: response_of(p, v, rho / 2), lambda p, v, rho: response_of(p, -v, rho), lambda p, v, rho: p,
        lambda p, v, rho: 100 * response_of(p, v, rho), lambda p, v, rho: response_of(p, v, rho) - p,
    ],
    "l13.SPREAD": [
        lambda v: (np.mean(v), np.std(v)), lambda v: spread_of(v)[::-1], lambda v: spread_of(v)[1],
        lambda v: (np.mean(v), np.var(v, ddof=1)), lambda v: (sum(v), spread_of(v)[1]),
        lambda v: (np.mean(v), np.ptp(v)),
    ],
    "l13.P_VALUE": [
        lambda d: tail_of(d)[0] / tail_of(d)[1], lambda d: (d <= 0).mean(), lambda d: 1 - p_value_of(d),
        lambda d: 100 * p_value_of(d),
        lambda d: (tail_of(d)[0] + 1) / (tail_of(d)[1] + 1), lambda d: 2 * tail_of(d)[0] / tail_of(d)[1],
        lambda d: p_value_of(d) < 0.05,
    ],
    "l14.PAIRS": [
        lambda rows, c: [(r[c], r["en"]) for r in rows if r[c] != "__NULL__"],
        lambda rows, c: [(r[c], r["en"]) for r in rows if c in r and "__NULL__" not in (r[c], r["en"])],
        lambda rows, c: [(r.get(c, ""), r["en"]) for r in rows], lambda rows, c: [r["en"] for r in rows],
        lambda rows, c: [(r[c], r["en"]) for r in rows if c in r and "NULL" not in r[c] + r["en"] and r[c].strip()],
    ],
    "l14.SCALES": [
        lambda f, k: scales_of(f, k)[1:], lambda f, k: [s / 2 for s in scales_of(f, k)],
        lambda f, k: scales_of(f, k)[::-1],
        lambda f, k: [65536.0] * len(f), lambda f, k: scales_of([not ok for ok in f], k),
        lambda f, k: scales_of(f, k)[-1],
    ],
    "l15.UPDATES": [
        lambda s, m, b, e: sum(s) * m * e / b, lambda s, m, b, e: updates_of(s, m, b, 1),
        lambda s, m, b, e: 2 * updates_of(s, m, b, e),
        lambda s, m, b, e: updates_of(s, m, b, e) + 1, lambda s, m, b, e: math.ceil(sum(s) / b) * e,
    ],
    "l15.HOURS": [
        lambda n, v, p, g: n / v, lambda n, v, p, g: hours_of(n, v, p, 1), lambda n, v, p, g: 3 * hours_of(n, v, p, g),
        lambda n, v, p, g: 60 * hours_of(n, v, p, g), lambda n, v, p, g: n * p / v / 3600 / g,
        lambda n, v, p, g: hours_of(n, v, 3, g),
    ],
    "l15.TOKENIZER": [
        lambda pair: "zh" if "zh" in pair else "13a", lambda pair: "13a", lambda pair: "zh",
        lambda pair: "zh" if pair.startswith("zh") else "13a", lambda pair: pair.split("-")[1],
    ],
    "l16.SHARES": [
        lambda x, i, k: torch.softmax(-k * x, 1), lambda x, i, k: torch.softmax(-k * x, 0),
        lambda x, i, k: shares_of(x, i, -k), lambda x, i, k: shares_of(x, i, k)[i],
        lambda x, i, k: 100 * shares_of(x, i, k),
        lambda x, i, k: shares_of(x, i, 1.0), lambda x, i, k: shares_of(x, i, k).T,
    ],
}  # fmt: skip

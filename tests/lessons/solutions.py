"""Solutions of exercises as a student may write them; right and wrong answers of the tests are made from them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn import functional as F

NAN, INF = math.nan, math.inf


def p_of(sizes: Any, tau: float) -> Any:
    w = torch.tensor([float(n) for n in sizes], dtype=torch.float64) ** (1 / tau)
    return w / w.sum()


def unequal_of(s: Any) -> tuple[float, float]:
    o = sorted(s)
    return o[-1] / o[0], sum(o[len(o) // 2 :]) / sum(o)


def pack_of(lengths: Any, budget: int) -> list[list[int]]:
    out: list[list[int]] = []
    for n in sorted(lengths):
        if out and n * (len(out[-1]) + 1) <= budget:
            out[-1].append(n)
        else:
            out.append([n])
    return out


def attn_of(q: Any, k: Any, v: Any, mask: Any, scale: float | None = None) -> Any:
    s = q @ k.transpose(-1, -2) / (scale or math.sqrt(q.shape[-1]))
    return s.masked_fill(~mask, -INF).softmax(-1) @ v


def positions_of(n: int, d: int, base: float = 10000.0) -> Any:
    a = torch.arange(n)[:, None] * base ** (-2 * torch.arange(d // 2) / d)
    return torch.cat([a.sin(), a.cos()], 1)


def nats_of(logp: Any, gold: Any, pad: int) -> Any:
    return -logp.gather(2, gold[..., None])[..., 0][gold != pad]


def rate_of(t: int, peak: float, w: int) -> float:
    return peak * min(t / w, math.sqrt(w / t))


def kd_of(s: Any, t: Any) -> Any:
    return -(t.softmax(-1) * s.log_softmax(-1)).sum()


def kd_mean_of(s: Any, t: Any, n: Any) -> Any:
    keep = torch.arange(s.shape[1]) < n[:, None]
    return kd_of(s[keep], t[keep]) / keep.sum()


def mixed_of(g: Any, p: Any, a: float, e: float) -> Any:
    one = F.one_hot(g, p.shape[-1]).double()
    return (1 - a) * ((1 - e) * one + e / (p.shape[-1] - 1) * (1 - one)) + a * p


def up_of(a: Any, mu: float) -> Any:
    return torch.sigmoid(torch.logit(a) + mu)


def down_of(a: Any, mu: float) -> Any:
    o = a * math.exp(-mu)
    return o / (1 - a + o)


def area_of(points: Any, ref: Any) -> float:
    total, floor = 0.0, ref[1]
    for x, y in sorted({p for p in points if p[0] > ref[0] and p[1] > ref[1]}, reverse=True):
        if y > floor:
            total, floor = total + (x - ref[0]) * (y - floor), y
    return total


def dominates_of(a: Any, b: Any) -> bool:
    return all(x >= y for x, y in zip(a, b, strict=True)) and any(x > y for x, y in zip(a, b, strict=True))


def grams_of(t: Any, n: int) -> Counter[Any]:
    return Counter(tuple(t[i : i + n]) for i in range(len(t) - n + 1))


def matches_of(h: Any, r: Any, n: int) -> list[int]:
    return [(grams_of(h, n) & grams_of(r, n)).total(), grams_of(h, n).total()]


def bleu_of(m: Any, t: Any, h: Any, r: Any) -> float:
    p = np.sum(m, 0) / np.sum(t, 0)
    return float(100 * min(1, math.exp(1 - sum(r) / sum(h))) * math.exp(np.log(p).mean()))


def verdict_of(a: Any, b: Any, spread: Callable[[Any], float]) -> str:
    d = np.mean(b) - np.mean(a)
    return "noise" if abs(d) <= max(spread(a), spread(b)) else "better" if d > 0 else "worse"


def range_of(x: Any) -> float:
    return float(max(x) - min(x))


def distilled_of(p: Any, w: Any) -> Any:
    return (p * (w > 0)).sum(1)


def uni_of(x: Any, a: float, zone: float = 0.0) -> Any:
    return a * (x >= x.flip(0) - zone).double()


def moves_of(a: Any, mu: float) -> Any:
    return torch.stack([up_of(a, mu) - a, a - down_of(a, mu)])


def choose_of(r: Any) -> list[str]:
    return [("keep", "up", "down")[i] for i in r.argmin(0)]


def response_of(p: Any, v: Any, rho: float) -> Any:
    x = v - (p * v).sum()
    return p * (1 + math.sqrt(2 * rho) * x / (p * x * x).sum().sqrt())


def spread_of(v: Any) -> tuple[float, float]:
    return float(np.mean(v)), float(np.std(v, ddof=1))


def tail_of(d: Any) -> tuple[int, int]:
    return min(int((d <= 0).sum()), int((d >= 0).sum())), len(d)


def p_value_of(d: Any) -> float:
    tail, n = tail_of(d)
    return min(1.0, 2 * (tail + 1) / (n + 1))


def scales_of(flags: Any, k: int) -> list[float]:
    s, good, out = 65536.0, 0, []
    for ok in flags:
        out.append(s)
        good = good + 1 if ok else 0
        if not ok:
            s /= 2
        elif good == k:
            s, good = 2 * s, 0
    return out


def hours_of(n: float, v: float, passes: float, g: int) -> float:
    return n * passes / 3 / v / 3600 / g


def updates_of(s: Any, mean: float, b: int, e: float) -> int:
    return math.ceil(e * math.ceil(sum(s) * mean / b))


def shares_of(x: Any, i: int, k: float) -> Any:
    w = torch.exp(-k * x)
    w[i] = 0
    return w / w.sum(0)

"""Beam search against all possible sequences, against a slow search that is written differently, and by hand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from pmd_lite.model.decoding import Hypothesis, beam_search, translate_batch
from pmd_lite.model.transformer import DecoderState, Transformer

PAD, UNK, BOS, EOS = 0, 1, 2, 3
A, B, C = 4, 5, 6
IDS = {"bos": BOS, "eos": EOS, "pad": PAD}


def build(vocab: int = 12, seed: int = 0) -> Transformer:
    """A float64 model with sharp and varied predictions, in which EOS is neither rare nor sure."""
    torch.manual_seed(seed)
    model = Transformer(vocab, d_model=16, heads=2, ffn=32, dropout=0.3, tie="none", max_len=40).double().eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    model.decoder_norm.bias.data = 0.7 * model.output.weight.data[EOS]  # type: ignore[union-attr]
    return model


def sources(lengths: Sequence[int], vocab: int = 12, seed: int = 0) -> Tensor:
    """Random sentences [batch, longest], padded on the right."""
    ids = torch.randint(EOS + 1, vocab, (len(lengths), max(lengths)), generator=torch.Generator().manual_seed(seed))
    return ids * (torch.arange(max(lengths)) < torch.tensor(lengths)[:, None])


@torch.no_grad()
def log_p(model: Transformer, src: Tensor, tokens: list[int]) -> float:
    """log p(tokens | src) of one sentence [1, src_len], without a cache."""
    logits = model(src, torch.tensor([[BOS, *tokens[:-1]]]))[0]
    return logits.log_softmax(-1)[range(len(tokens)), tokens].sum().item()


def score(model: Transformer, src: Tensor, hypothesis: Hypothesis, penalty: float, prefix: Sequence[int] = ()) -> float:
    whole = [*prefix, *hypothesis.tokens, EOS]
    return log_p(model, src, whole) / len(whole) ** penalty


@torch.no_grad()
def slow_greedy(model: Transformer, src: Tensor, max_len: int) -> list[int]:
    tokens: list[int] = []
    while len(tokens) < max_len:
        logits = model(src, torch.tensor([[BOS, *tokens]]))[0, -1]
        logits[[PAD, BOS]] = -math.inf
        best = int(logits.argmax())
        if best == EOS:
            break
        tokens.append(best)
    return tokens


@torch.no_grad()
def slow_beam_search(
    model: Transformer, src: Tensor, beam: int, max_len: int, penalty: float, stop: str
) -> list[tuple[list[int], float]]:
    """The same search for one sentence, in plain Python, without cache or batch, and with no early end but `full`."""
    vocab = model.vocab_size
    live: list[tuple[float, list[int]]] = [(0.0, [])]
    finished: list[tuple[float, list[int]]] = []
    for length in range(max_len + 1):
        grown = []
        logits = model(src.expand(len(live), -1), torch.tensor([[BOS, *tokens] for _, tokens in live]))[:, -1]
        for (value, tokens), log_probs in zip(live, logits.log_softmax(-1).tolist(), strict=True):
            allowed = [EOS] if length == max_len else [i for i in range(vocab) if i not in (PAD, BOS)]
            grown += [(value + log_probs[i], [*tokens, i]) for i in allowed]
        grown.sort(key=lambda item: -item[0])
        finished += [(v / len(t) ** penalty, t[:-1]) for v, t in grown[:beam] if t[-1] == EOS]
        live = [item for item in grown if item[1][-1] != EOS][:beam]
        if not live or (stop == "full" and len(finished) >= beam):
            break
    finished.sort(key=lambda item: -item[0])
    return [(tokens, value) for value, tokens in finished[:beam]]


# ---------------------------------------------------------------------------------------- against independent searches


@pytest.mark.slow
@pytest.mark.parametrize("prefix", [[], [B]])
def test_a_wide_beam_finds_the_best_of_all_sequences_in_order(prefix: list[int]) -> None:
    # Three tokens may appear (UNK, A, B) and at most three of them: 1 + 3 + 9 + 27 = 40 sequences.
    model, src = build(vocab=6, seed=3), sources([4, 2, 3], vocab=6)
    every = [list(t) for n in range(4) for t in itertools.product([UNK, A, B], repeat=n)]
    sums = [{tuple(t): log_p(model, src[i : i + 1], [*prefix, *t, EOS]) for t in every} for i in range(3)]
    for penalty in (0.0, 0.6, 1.0, 2.0, -0.5):
        found = beam_search(model, src, beam=40, n_best=40, max_len=3, length_penalty=penalty, prefix=prefix, **IDS)
        for of, hypotheses in zip(sums, found, strict=True):
            scores = {t: value / len([*prefix, *t, EOS]) ** penalty for t, value in of.items()}
            expected = sorted(scores, key=lambda t: -scores[t])
            assert [tuple(h.tokens) for h in hypotheses] == expected
            assert [h.score for h in hypotheses] == pytest.approx([scores[t] for t in expected], abs=1e-9)


def test_greedy_equals_greedy_without_a_cache() -> None:
    model, src = build(), sources([5, 2, 7, 4, 1, 6, 3, 3])
    expected = [slow_greedy(model, src[i : i + 1], 15) for i in range(8)]
    found = translate_batch(model, src, beam=1, max_len=15, **IDS)
    assert [h.tokens for h in found] == expected
    lengths = [len(tokens) for tokens in expected]
    assert min(lengths) < 5 and max(lengths) == 15  # some end by themselves, some are cut
    for i, hypothesis in enumerate(found):
        assert hypothesis.score == pytest.approx(score(model, src[i : i + 1], hypothesis, 1.0), abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["bound", "full"])
@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_equals_a_slow_beam_search(stop: str, penalty: float) -> None:
    src = sources([5, 2, 4])
    for seed, beam in itertools.product(range(3), (2, 5)):
        model = build(seed=seed)
        found = beam_search(
            model, src, beam=beam, n_best=beam, max_len=8, length_penalty=penalty, stop=stop, **IDS  # type: ignore[arg-type]
        )  # fmt: skip
        for i, hypotheses in enumerate(found):
            expected = slow_beam_search(model, src[i : i + 1], beam, 8, penalty, stop)
            assert [h.tokens for h in hypotheses] == [tokens for tokens, _ in expected]
            assert [h.score for h in hypotheses] == pytest.approx([value for _, value in expected], abs=1e-9)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 50),
    lengths=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    beam=st.integers(1, 7),
    max_len=st.integers(1, 9),
    prefix=st.lists(st.integers(A, 9), max_size=2),
    banned=st.sets(st.sampled_from([UNK, A, B]), max_size=2),
    penalty=st.sampled_from([1.0, 0.0, 2.0, -1.0]),
)
def test_whatever_comes_back_is_allowed_and_has_its_true_score(
    seed: int, lengths: list[int], beam: int, max_len: int, prefix: list[int], banned: set[int], penalty: float
) -> None:
    model, src = build(seed=seed), sources(lengths, seed=seed)
    options = {"beam": beam, "max_len": max_len, "prefix": prefix, "banned": sorted(banned), **IDS}
    options["length_penalty"] = penalty
    found = beam_search(model, src, n_best=beam, **options)  # type: ignore[arg-type]
    assert len(found) == len(lengths)
    for i, hypotheses in enumerate(found):
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(h.tokens) for h in hypotheses}) == len(hypotheses) <= beam
        for h in hypotheses:
            assert len(h.tokens) <= max_len
            assert not {PAD, BOS, EOS, *banned} & set(h.tokens)
            assert h.score == pytest.approx(score(model, src[i : i + 1], h, penalty, prefix), abs=1e-9)
    # Asking for one hypothesis ends the search earlier, but must not change which is the best.
    best = translate_batch(model, src, **options)  # type: ignore[arg-type]
    assert [h.tokens for h in best] == [hypotheses[0].tokens for hypotheses in found]


# ------------------------------------------------------------------------------------------------------------- by hand


class Chain(Transformer):
    """A language with known probabilities: the next token depends only on the one before it.

    EOS follows a token that has no line of its own.
    """

    def __init__(self, table: dict[int, dict[int, float]]) -> None:
        super().__init__(7, d_model=2, heads=1, max_len=40)
        probabilities = torch.zeros(7, 7, dtype=torch.float64)
        for before in range(7):
            for token, p in table.get(before, {EOS: 1.0}).items():
                probabilities[before, token] = p
        self.log_table = probabilities.log()

    def decode(self, trg_in: Tensor, state: DecoderState) -> Tensor:
        return trg_in[:, :, None].double()

    def project(self, hidden: Tensor) -> Tensor:
        return self.log_table[hidden[..., 0].long()]


SRC = torch.tensor([[A, EOS]])


def test_length_penalty_by_hand() -> None:
    same = {EOS: 0.5, A: 0.3, B: 0.2}
    model = Chain({BOS: same, A: same, B: same})
    end, a = math.log(0.5), math.log(0.3)
    by_hand = {  # penalty -> the score of nothing, A, A A and A A A (EOS counts as a token)
        0.0: [end, a + end, 2 * a + end, 3 * a + end],
        1.0: [end, (a + end) / 2, (2 * a + end) / 3, (3 * a + end) / 4],
        2.0: [end, (a + end) / 4, (2 * a + end) / 9, (3 * a + end) / 16],
    }
    for penalty, scores in by_hand.items():
        found = beam_search(model, SRC, beam=40, n_best=40, max_len=3, length_penalty=penalty, **IDS)[0]
        table = {tuple(h.tokens): h.score for h in found}
        assert [table[(A,) * n] for n in range(4)] == pytest.approx(scores)
        best = translate_batch(model, SRC, beam=5, max_len=3, length_penalty=penalty, **IDS)[0]
        assert best.tokens == ([A, A, A] if penalty == 2.0 else [])
        assert best.score == pytest.approx(max(scores))


def test_a_prefix_is_forced_scored_and_stripped() -> None:
    # Left alone, the model says A. After the unlikely C it says B.
    model = Chain({BOS: {A: 0.9, C: 0.1}, A: {EOS: 1.0}, B: {EOS: 1.0}, C: {B: 0.8, A: 0.2}})
    assert translate_batch(model, SRC, max_len=4, **IDS)[0].tokens == [A]
    forced = translate_batch(model, SRC, max_len=4, prefix=[C], **IDS)[0]
    assert forced.tokens == [B]
    assert forced.score == pytest.approx((math.log(0.1) + math.log(0.8)) / 3)  # C, B, EOS


def test_banned_ids_give_way_without_renormalising() -> None:
    model = Chain({BOS: {UNK: 0.6, A: 0.3, B: 0.1}, UNK: {EOS: 1.0}, A: {EOS: 1.0}, B: {EOS: 1.0}})
    assert translate_batch(model, SRC, max_len=4, **IDS)[0].tokens == [UNK]
    allowed = translate_batch(model, SRC, max_len=4, banned=[UNK], **IDS)[0]
    assert allowed.tokens == [A]
    assert allowed.score == pytest.approx(math.log(0.3) / 2)


def test_beam_search_looks_past_the_first_token() -> None:
    # A is the better start, but B leads to a better whole: 0.6 * 0.3 against 0.4 * 0.9.
    model = Chain({BOS: {A: 0.6, B: 0.4}, A: {C: 0.7, EOS: 0.3}, B: {EOS: 0.9, C: 0.1}, C: {A: 0.5, B: 0.5}})
    assert translate_batch(model, SRC, beam=1, max_len=1, length_penalty=0.0, **IDS)[0].tokens == [A]
    best = translate_batch(model, SRC, beam=2, max_len=1, length_penalty=0.0, **IDS)[0]
    assert (best.tokens, best.score) == ([B], pytest.approx(math.log(0.36)))


def test_bound_waits_for_a_better_hypothesis_where_full_has_stopped() -> None:
    # After two steps "" and "B" have finished, so a beam of 2 is full. "A" looks hopeless at its own length, with
    # ln(0.1) / 2 against ln(0.7), but thirty of them come to a better score.
    model = Chain({BOS: {EOS: 0.7, B: 0.2, A: 0.1}, A: {A: 0.98, EOS: 0.02}, B: {EOS: 1.0}})
    options = {"beam": 2, "max_len": 30, "length_penalty": 1.0}
    assert translate_batch(model, SRC, stop="full", **options, **IDS)[0].tokens == []  # type: ignore[arg-type]
    patient = translate_batch(model, SRC, stop="bound", **options, **IDS)[0]  # type: ignore[arg-type]
    assert patient.tokens == [A] * 30
    assert patient.score == pytest.approx((math.log(0.1) + 29 * math.log(0.98) + math.log(0.02)) / 31)


def test_bound_holds_for_a_penalty_that_favours_short_translations() -> None:
    # Scores are log p times the length. "" has finished with ln(0.15); "A" will come to 2 ln(0.8 * 0.9), better,
    # though at the greatest length ln(0.8) alone would count 31 times.
    model = Chain({BOS: {A: 0.8, EOS: 0.15, B: 0.05}, A: {EOS: 0.9, A: 0.1}})
    best = translate_batch(model, SRC, beam=2, max_len=30, length_penalty=-1.0, **IDS)[0]
    assert (best.tokens, best.score) == ([A], pytest.approx(2 * math.log(0.72)))


def test_equal_scores_are_settled_by_beam_and_then_by_id() -> None:
    third = {A: 1 / 3, B: 1 / 3, C: 1 / 3}
    model = Chain({BOS: third, **{token: {EOS: 0.25, A: 0.25, B: 0.25, C: 0.25} for token in third}})
    found = beam_search(model, SRC, beam=20, n_best=12, max_len=2, length_penalty=0.0, banned=[UNK], **IDS)[0]
    assert [h.tokens for h in found] == [[A], [B], [C], *([x, y] for x in (A, B, C) for y in (A, B, C))]


# ------------------------------------------------------------------------------------------------------------ the batch


@pytest.mark.parametrize("beam", [1, 4])
def test_a_batch_gives_what_its_sentences_give_alone_in_the_same_order(beam: int) -> None:
    model, lengths = build(), [5, 2, 7, 4, 1, 6, 3, 5]
    src = sources(lengths)
    src[7] = src[0]
    together = beam_search(model, src, beam=beam, n_best=beam, max_len=12, **IDS)
    for i, length in enumerate(lengths):
        alone = beam_search(model, src[i : i + 1, :length], beam=beam, n_best=beam, max_len=12, **IDS)[0]
        assert [h.tokens for h in together[i]] == [h.tokens for h in alone]
        assert [h.score for h in together[i]] == pytest.approx([h.score for h in alone], abs=1e-9)
    assert len({tuple(hypotheses[0].tokens) for hypotheses in together}) > 3


def test_finished_sentences_leave_and_the_source_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model, src = build(), sources([5, 2, 7, 4, 1, 6, 3, 3])
    rows: list[int] = []
    reads: list[int] = []
    decode = model.decode

    def spy(trg_in: Tensor, state: DecoderState) -> Tensor:
        rows.append(len(trg_in))
        return decode(trg_in, state)

    monkeypatch.setattr(model, "decode", spy)
    for layer in model.decoder:
        layer.cross_attention.kv.register_forward_hook(lambda module, args, out: reads.append(len(out)))
    found = translate_batch(model, src, beam=1, max_len=15, **IDS)
    lengths = [len(h.tokens) for h in found]
    # A sentence of n tokens reads BOS and its n tokens.
    assert rows == [sum(n >= step for n in lengths) for step in range(max(lengths) + 1)]
    assert rows[-1] < rows[0]
    reads.clear()
    translate_batch(model, src, beam=5, max_len=15, **IDS)
    assert reads == [8, 8]  # two layers, eight sentences: not once per beam, not once per step


def test_no_sentences() -> None:
    assert translate_batch(build(), torch.empty(0, 3, dtype=torch.long), max_len=5, **IDS) == []


@pytest.mark.parametrize("training", [True, False])
def test_dropout_is_off_while_searching_and_the_mode_comes_back(training: bool) -> None:
    model, src = build(), sources([5, 3])
    expected = translate_batch(model, src, max_len=8, **IDS)
    model.train(training)
    assert translate_batch(model, src, max_len=8, **IDS) == expected
    assert all(module.training is training for module in model.modules())


def test_under_autocast_scores_stay_close_and_float32() -> None:
    model, src = build(), sources([5, 3, 4])
    for parameter in model.float().parameters():
        parameter.data *= 0.5  # predictions less sharp, so that bfloat16 is close
    with torch.autocast("cpu", torch.bfloat16):
        rough = translate_batch(model, src, beam=4, max_len=8, **IDS)
    for i, hypothesis in enumerate(rough):
        true = score(model.double(), src[i : i + 1], hypothesis, 1.0)
        assert hypothesis.score == pytest.approx(true, abs=0.05)


# --------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam": 0}, "beam must be at least 1, not 0"),
        ({"max_len": 0}, "max_len must be at least 1"),
        ({"beam": 2, "n_best": 3}, "n_best must not exceed beam, but 3 > 2"),
        ({"max_len": 39, "prefix": [A]}, "BOS, a prefix of 1 and max_len=39 do not fit into the model's max_len=40"),
        ({"stop": "never"}, "stop must be one of bound, full"),
        ({"pad": UNK}, "pad is 1, but the model was built with pad=0"),
        ({"banned": [EOS]}, "eos must differ from pad and must not be banned"),
        ({"prefix": [12]}, r"prefix: \[12\] is not within the vocabulary of 12 ids"),
    ],
)
def test_arguments_that_do_not_fit(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        beam_search(build(), sources([2]), **{"max_len": 5, **IDS, **options})  # type: ignore[arg-type]


def test_the_longest_translation_fits_exactly() -> None:
    model = Chain({BOS: {A: 1.0}, A: {A: 1 - 1e-9, EOS: 1e-9}})
    model.max_len = 40
    assert translate_batch(model, SRC, max_len=39, beam=1, **IDS)[0].tokens == [A] * 39
    real = build()
    assert translate_batch(real, sources([3]), max_len=39, beam=1, banned=range(UNK, A), **{**IDS, "eos": C})


def test_weights_that_are_not_numbers_are_reported() -> None:
    model = build()
    model.embedding.weight.data.fill_(math.nan)
    with pytest.raises(ValueError, match="NaN"):
        translate_batch(model, sources([3, 2]), max_len=5, **IDS)

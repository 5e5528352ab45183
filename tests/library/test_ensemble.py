"""Several models that translate as one, by the mean of their probabilities, in scoring and at each decoding step."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch

from pmd_lite.api import train
from pmd_lite.cli.arguments import main
from pmd_lite.data.corpus import Corpus
from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import chrf_only
from pmd_lite.model.decoding import beam_search
from pmd_lite.model.ensemble import Ensemble
from pmd_lite.model.transformer import Transformer
from pmd_lite.run import Run
from tests.conftest import SHORT

PAD, BOS, EOS, VOCAB = 0, 1, 2, 9


def model(seed: int, d_model: int = 8, vocab: int = VOCAB) -> Transformer:
    torch.manual_seed(seed)
    made = Transformer(vocab, d_model=d_model, heads=2, encoder_layers=1, decoder_layers=1, ffn=16, dropout=0.1,
                       max_len=16, pad=PAD)  # fmt: skip
    with torch.no_grad():  # sharp enough that the members disagree
        for weight in made.parameters():
            weight.mul_(3)
    return made.eval()


SRC = torch.tensor([[5, 6, 7, EOS], [4, 3, EOS, PAD]])
TRG = torch.tensor([[BOS, 4, 5], [BOS, 8, 3]])


def test_it_gives_the_mean_of_the_members_probabilities() -> None:
    members = [model(1), model(2, d_model=12), model(3)]
    mean = torch.stack([m(SRC, TRG).softmax(-1) for m in members]).mean(0)
    together = Ensemble(members).eval()
    found = together.project(together.hidden(SRC, TRG))
    torch.testing.assert_close(found.exp(), mean)
    torch.testing.assert_close(found.log_softmax(-1), found, msg="it is a distribution already")
    assert not torch.allclose(members[0](SRC, TRG).softmax(-1), mean, atol=0.01), "the members disagree"


def search(one: Transformer | Ensemble, beam: int) -> list[tuple[list[int], float]]:
    found = beam_search(one, SRC, beam=beam, max_len=4, length_penalty=0.7, bos=BOS, eos=EOS, pad=PAD)
    return [(hypotheses[0].tokens, hypotheses[0].score) for hypotheses in found]


def test_one_member_is_the_model_itself() -> None:
    one = model(1)
    for (ours, score), (theirs, other) in zip(search(Ensemble([one]), 3), search(one, 3), strict=True):
        assert ours == theirs
        assert score == pytest.approx(other, abs=1e-5)


@pytest.mark.slow
def test_the_search_finds_the_sentence_that_the_mean_prefers() -> None:
    """Against all 6 + 36 + ... sentences, scored by teacher forcing with the mean of the members' probabilities."""
    members = [model(1), model(2, d_model=12)]
    letters = [i for i in range(VOCAB) if i not in (PAD, BOS, EOS)]
    best: list[tuple[list[int], float]] = []
    for row in range(2):
        scored = []
        src = SRC[row : row + 1]
        for length in range(4):
            for words in itertools.product(letters, repeat=length):
                target = torch.tensor([[BOS, *words]])
                logp = torch.stack([m(src, target).softmax(-1) for m in members]).mean(0).log()[0]
                total = sum(float(logp[i, token]) for i, token in enumerate([*words, EOS]))
                scored.append((list(words), total / (length + 1) ** 0.7))
        best.append(max(scored, key=lambda x: x[1]))
    found = [
        (h[0].tokens, h[0].score)
        for h in beam_search(Ensemble(members), SRC, beam=40, max_len=3, length_penalty=0.7, bos=BOS, eos=EOS, pad=PAD)
    ]
    for (ours, score), (theirs, other) in zip(found, best, strict=True):
        assert ours == theirs
        assert math.isclose(score, other, abs_tol=1e-4)


@pytest.mark.parametrize("members", [[], [model(1), model(2, vocab=VOCAB + 1)]])
def test_what_cannot_be_averaged_is_refused(members: list[Transformer]) -> None:
    with pytest.raises(UserError, match="the same vocabulary"):
        Ensemble(members)


# ---------------------------------------------------------------- the students of runs


@pytest.fixture(scope="module")
def runs(tiny_corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Bi-PMD and a single model with its tokenizer; a third run has a tokenizer of its own."""
    folder = tmp_path_factory.mktemp("ensemble")
    words: dict[str, Any] = {**SHORT, "steps": 4, "show": "off", "device": "cpu"}
    both = train(tiny_corpus, "bi-pmd", "toy", out=folder / "both", **words)
    one = train(tiny_corpus, "tau=1", "toy", out=folder / "one", tokenizer=both.path / "tokenizer", **words)
    return [both, one, train(tiny_corpus, "tau=1", "toy", out=folder / "foreign", **{**words, "vocab_size": 80})]


@pytest.mark.slow
def test_the_students_of_runs_translate_together(runs: list[Run], tiny_corpus: Corpus) -> None:
    both, one, _ = runs
    pair = both.pairs[0]
    sentences = [src for src, _ in tiny_corpus.test[pair]] + [""]
    members = [both.model(0), both.model(1), one.model()]
    together = Ensemble(members).eval()
    assert both.translate(sentences, pair, ensemble=[one]) == both.translate(sentences, pair, model=together)
    own = Ensemble(members[:2]).eval()
    for same in ([both], [both.path, str(both.path)]):
        assert both.translate(sentences, pair, ensemble=same) == both.translate(sentences, pair, model=own)
    assert one.translate(sentences, pair, ensemble=[one]) == one.translate(sentences, pair)
    src, trg = torch.tensor([[5, 6, 2]]), torch.tensor([[1, 4]])
    mean = torch.stack([m(src, trg).softmax(-1) for m in members]).mean(0)
    together = both.ensemble(one)
    torch.testing.assert_close(together.project(together.hidden(src, trg)).exp(), mean)


@pytest.mark.slow
def test_an_ensemble_is_scored_beside_the_students(
    runs: list[Run], tiny_corpus: Corpus, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    both, one, _ = runs
    before = (both.path / "scores.json").read_bytes()
    scores = both.evaluate(tiny_corpus, ensemble=[one])
    assert list(scores) == ["ensemble"] and (both.path / "scores.json").read_bytes() == before
    pair = both.pairs[0]
    hyps = both.translate([src for src, _ in tiny_corpus.test[pair]], pair, ensemble=[one])
    assert scores["ensemble"][pair]["chrf"] == chrf_only(hyps, [trg for _, trg in tiny_corpus.test[pair]])[0]
    monkeypatch.setattr("pmd_lite.api.load_corpus", lambda *_, **__: tiny_corpus)
    assert main(["evaluate", str(both.path), "--ensemble", str(one.path), "--tokenize", "char"]) == 0
    assert "ensemble" in capsys.readouterr().out
    assert (both.path / "scores.json").read_bytes() == before
    (both.path / "in.txt").write_text(tiny_corpus.test[pair][0][0] + "\n", encoding="utf-8")
    file = both.path / "in.txt"
    words = ["translate", str(both.path), "--pair", pair, "--file", str(file), "--ensemble", str(one.path)]
    assert main(words) == 0
    assert capsys.readouterr().out.rstrip("\n") == hyps[0]


@pytest.mark.slow
def test_runs_with_other_ids_cannot_translate_together(runs: list[Run], tiny_corpus: Corpus) -> None:
    both, _, foreign = runs
    with pytest.raises(UserError, match="cannot translate together: they need one tokenizer and the same pairs"):
        both.translate(["a"], both.pairs[0], ensemble=[foreign])

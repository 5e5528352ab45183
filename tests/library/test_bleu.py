"""BLEU and chrF agree with independent computations; and the Chinese tokenizer."""

from __future__ import annotations

import importlib.util
import math
import os
import random
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import sacrebleu

from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import chrf_only, corpus_bleu
from pmd_lite.evaluation.tokenizers import tokenizer_for

WORDS = [f"w{i}" for i in range(40)]


def noisy(lines: list[str], share: float, seed: int) -> list[str]:
    """Replace a share of the words by random ones."""
    rng = random.Random(seed)
    return [" ".join(rng.choice(WORDS) if rng.random() < share else w for w in line.split()) for line in lines]


@pytest.fixture
def refs() -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choice(WORDS) for _ in range(rng.randint(5, 14))) for _ in range(60)]


def bleu_by_hand(hyps: list[str], refs: list[str]) -> float:
    """Papineni et al. 2002 for words between spaces, without smoothing."""
    hit, all_ = Counter(), Counter()
    for hyp, ref in zip(hyps, refs, strict=True):
        h, r = hyp.split(), ref.split()
        for n in range(1, 5):
            grams, known = (Counter(tuple(x[i : i + n]) for i in range(len(x) - n + 1)) for x in (h, r))
            hit[n] += (grams & known).total()
            all_[n] += grams.total()
    hyp_len, ref_len = sum(len(h.split()) for h in hyps), sum(len(r.split()) for r in refs)
    penalty = min(1.0, math.exp(1 - ref_len / hyp_len))
    return 100 * penalty * math.exp(sum(math.log(hit[n] / all_[n]) for n in range(1, 5)) / 4)


def test_bleu_of_one_sentence_counted_on_paper() -> None:
    # 5 of 6 words, 3 of 5 bigrams, 2 of 4 trigrams, 1 of 3 four-grams, equal lengths: the fourth root of 1/12.
    score = corpus_bleu(["the cat sat on the mat"], ["the cat sat on a mat"], "en")
    assert score.bleu == pytest.approx(100 * (1 / 12) ** 0.25)


def test_bleu_with_brevity_penalty_counted_on_paper() -> None:
    # Every n-gram is right, but 5 words stand for 6.
    score = corpus_bleu(["the cat sat on a"], ["the cat sat on a mat"], "en")
    assert score.bleu == pytest.approx(100 * math.exp(-1 / 5))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.4])
def test_bleu_agrees_with_an_independent_implementation(refs: list[str], share: float) -> None:
    hyps = noisy(refs, share, seed=1)
    hyps[3] = hyps[3].rsplit(" ", 1)[0]  # lengths differ, so that the brevity penalty takes part
    assert corpus_bleu(hyps, refs, "tur").bleu == pytest.approx(bleu_by_hand(hyps, refs))


def test_scores_agree_with_sacrebleu_functions(refs: list[str]) -> None:
    hyps = noisy(refs, 0.3, seed=2)
    score = corpus_bleu(hyps, refs, "de")
    assert score.bleu == pytest.approx(sacrebleu.corpus_bleu(hyps, [refs], tokenize="13a").score)
    assert score.chrf == pytest.approx(sacrebleu.corpus_chrf(hyps, [refs]).score)


def test_scores_agree_with_the_sacrebleu_command_line(tmp_path: Path) -> None:
    hyps = ["我喜欢苹果, really.", "他们没有来。", "Il dit: «oui»!"]
    refs = ["我喜欢红苹果, really.", "他们昨天没有来。", "Il dit : «oui»!"]
    for name, lines in (("hyp", hyps), ("ref", refs)):
        (tmp_path / name).write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    command = [sys.executable, "-m", "sacrebleu", "ref", "-i", "hyp", "-b", "-w", "6", "-m", "bleu", "--tokenize", "zh"]
    env = {k: v for k, v in os.environ.items() if not k.startswith("SACREBLEU")} | {"PYTHONUTF8": "1"}
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, encoding="utf-8", check=True)
    assert corpus_bleu(hyps, refs, "zh").bleu == pytest.approx(float(run.stdout), abs=1e-5)


def test_chinese_is_scored_by_character_and_not_as_one_word() -> None:
    # One character of ten is wrong. The default tokenizer sees one word, wrong as a whole.
    hyps, refs = ["我们昨天在河边看书了"], ["我们昨天在河里看书了"]
    assert corpus_bleu(hyps, refs, "en").bleu == 0
    by_character = [" ".join(hyps[0])], [" ".join(refs[0])]
    assert corpus_bleu(hyps, refs, "zh").bleu == pytest.approx(bleu_by_hand(*by_character))
    assert corpus_bleu(hyps, refs, "zho").bleu == corpus_bleu(hyps, refs, "zh").bleu > 50


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("zh", "zh"), ("zho", "zh"), ("zh_cn", "zh"), ("ZH", "zh"), ("ja", "ja-mecab"), ("ko", "ko-mecab"), ("tr", "13a"),
     ("fra", "13a"), ("tur", "13a"), ("en", "13a"), ("pt_br", "13a")],
)  # fmt: skip
def test_tokenizer_follows_the_language(language: str, tokenizer: str) -> None:
    assert tokenizer_for(language) == tokenizer


@pytest.mark.parametrize("language", ["en-zh", "zh-en", ""])
def test_a_pair_is_not_a_target_language(language: str) -> None:
    with pytest.raises(UserError, match="one target language"):
        corpus_bleu(["a"], ["a"], language)


@pytest.mark.parametrize(("language", "module", "extra"), [("ja", "MeCab", "ja"), ("ko", "mecab_ko", "ko")])
def test_missing_tokenizer_names_the_command_that_installs_it(language: str, module: str, extra: str) -> None:
    if importlib.util.find_spec(module):
        assert "mecab" in corpus_bleu(["a b c d"], ["a b c d"], language).signature
    else:
        with pytest.raises(UserError, match=re.escape(f'pip install "sacrebleu[{extra}]"')):
            corpus_bleu(["a"], ["a"], language)


def test_signatures_say_how_the_number_was_made() -> None:
    score = corpus_bleu(["a b c d"], ["a b c d"], "zh")
    bleu = dict(item.split(":") for item in score.signature.split("|"))
    assert bleu["tok"] == "zh" and bleu["smooth"] == "exp" and bleu["case"] == "mixed" and bleu["nrefs"] == "1"
    assert bleu["version"] == sacrebleu.__version__
    assert corpus_bleu(["a b c d"], ["a b c d"], "de").signature == score.signature.replace("tok:zh", "tok:13a")
    assert score.chrf_signature.endswith(f"version:{sacrebleu.__version__}") and "nc:6|nw:0" in score.chrf_signature


@pytest.mark.parametrize(
    ("hyps", "refs", "words"),
    [([], [], "Nothing to score"), (["a"], ["a", "b"], "1 translations but 2 references"),
     ("ab", ["a", "b"], "single string"), (["a", None], ["a", "b"], "Number 2 of the translations is a NoneType")],
)  # fmt: skip
def test_bad_lists_are_refused(hyps: list[str], refs: list[str], words: str) -> None:
    for score in (lambda: corpus_bleu(hyps, refs, "en"), lambda: chrf_only(hyps, refs)):
        with pytest.raises(UserError, match=words):
            score()


def test_tokenised_text_is_warned_about(refs: list[str], caplog: pytest.LogCaptureFixture) -> None:
    tokenised = [f"{ref} ." for ref in refs] * 2
    corpus_bleu(tokenised, tokenised, "en")
    assert "forgot to detokenize" in caplog.text

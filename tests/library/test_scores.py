"""Which tokenizer scores a language, what happens when it is missing, and the text files beside the translations."""

from __future__ import annotations

import importlib
import importlib.util
import json
import math
import shutil
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import sacrebleu

import pmd_lite as pmd
from pmd_corpora.writing import write_corpus
from pmd_lite.cli.arguments import main
from pmd_lite.comparing.comparison import Comparison
from pmd_lite.comparing.summary import finished_systems
from pmd_lite.data.corpus import Corpus
from pmd_lite.data.tokenizer import PAD
from pmd_lite.disk import write_json
from pmd_lite.errors import UserError
from pmd_lite.evaluation.bleu import corpus_bleu
from pmd_lite.evaluation.score_tables import score_table
from pmd_lite.evaluation.scoring import is_stale, said_beside
from pmd_lite.evaluation.significance import bleu_of, sentence_stats
from pmd_lite.evaluation.tokenizers import MissingScorer, check_scorers, tokenizer_for, tokenizer_of
from pmd_lite.methods import decides_by_bleu, get_method
from pmd_lite.model.transformer import Transformer
from pmd_lite.run import Run
from pmd_lite.training.dev import greedy_score
from pmd_lite.training.rundir import RunDir
from tests.conftest import SHORT

# FLORES-200's languages (README of facebookresearch/flores), codes as there: a list that is independent of ours.
FLORES = {
    "zho_Hans": "zh", "zho_Hant": "zh", "yue_Hant": "zh", "jpn_Jpan": "ja-mecab", "kor_Hang": "ko-mecab",
    "tha_Thai": "char", "lao_Laoo": "char", "khm_Khmr": "char", "mya_Mymr": "char", "shn_Mymr": "char",
    "bod_Tibt": "char", "dzo_Tibt": "char", "jav_Latn": "13a", "vie_Latn": "13a", "hin_Deva": "13a",
}  # fmt: skip
THAI = ["หนังสืออยู่บนโต๊ะเก่า", "เด็กคนนั้นเดินไปที่แม่น้ำ"]
NEEDS = 'pip install "sacrebleu[ko]"'


@pytest.fixture
def no_mecab(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without MeCab, whatever is installed here."""
    for name in ("ko", "ja"):
        module = importlib.import_module(f"sacrebleu.tokenizers.tokenizer_{name}_mecab")
        monkeypatch.setattr(module, "MeCab", None)


@pytest.fixture(scope="module")
def korean(tiny_corpus: Corpus) -> Corpus:
    """One-to-many, with a target that calls itself Korean and one that calls itself Thai."""
    turned = tiny_corpus.reversed()
    names = {"eng-zho": "eng-kor", "eng-tur": "eng-tha"}
    keep = [pair for pair in turned.pairs if pair in ("eng-fra", *names)]
    train, valid, test = (
        {names.get(pair, pair): getattr(turned, split)[pair] for pair in keep} for split in ("train", "valid", "test")
    )
    return replace(turned, pairs=tuple(names.get(pair, pair) for pair in keep), train=train, valid=valid, test=test)


@pytest.fixture(scope="module")
def scored(korean: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run of which Korean was scored with 13a."""
    out = tmp_path_factory.mktemp("scores") / "run"
    return pmd.train(korean, "tau=1", "toy", out=out, show="off", tokenize="13a", **SHORT)


@pytest.fixture
def run(scored: Run, tmp_path: Path) -> Run:
    """A copy that a test may write to."""
    return Run(shutil.copytree(scored.path, tmp_path / "run"))


# ---------------------------------------------------------------- the table


def test_languages_of_flores_without_spaces_have_a_tokenizer_that_finds_words() -> None:
    for code, tokenizer in FLORES.items():
        assert tokenizer_for(code) == tokenizer, f"{code} with its script"
        assert tokenizer_for(code.split("_")[0]) == tokenizer, f"{code} without its script"


@pytest.mark.parametrize(
    ("language", "tokenizer"),
    [("th", "char"), ("lo", "char"), ("km", "char"), ("my", "char"), ("bur", "char"), ("bo", "char"), ("dz", "char"),
     ("wuu", "zh"), ("hak", "zh"), ("nan", "zh"), ("lzh", "zh"), ("chi", "zh"), ("zh_cn", "zh"), ("zh_TW", "zh"),
     ("zh_latn", "13a"), ("jv", "13a"), ("jv_java", "char"), ("sr_Latn", "13a"), ("en", "13a"), ("TH", "char")],
)  # fmt: skip
def test_tokenizer_follows_the_script(language: str, tokenizer: str) -> None:
    assert tokenizer_for(language) == tokenizer


def test_thai_with_one_wrong_letter_is_nearly_right() -> None:
    hyps = [line[:8] + "ก" + line[9:] for line in THAI]
    assert corpus_bleu(hyps, THAI, "th").bleu > 60
    assert corpus_bleu(hyps, THAI, "th", "13a").bleu == 0, "one long word, wrong as a whole"
    assert corpus_bleu(hyps, THAI, "th").bleu == pytest.approx(
        sacrebleu.corpus_bleu(hyps, [THAI], tokenize="char").score
    )


def test_a_tokenizer_that_is_asked_for_replaces_that_of_the_language() -> None:
    assert tokenizer_for("ko", "13a") == "13a" and tokenizer_for("fr", "flores200") == "flores200"
    with pytest.raises(UserError, match="one target language"):
        tokenizer_for("en-zh", "13a")
    score = corpus_bleu(["我喜欢茶和水"], ["我喜欢茶和水"], "zh", "char")
    assert "tok:char" in score.signature and tokenizer_of(score.signature) == "char"
    assert tokenizer_of("nrefs:1|tok:ko-mecab-0.996/ko-0.9.2-KO|version:2.6.0") == "ko-mecab"


def test_significance_counts_with_the_same_tokenizer() -> None:
    hyps = [line[:8] + "ก" + line[9:] for line in THAI]
    for tokenize in ("auto", "13a", "char"):
        total = sentence_stats(hyps, THAI, "th", tokenize).sum(axis=0)  # type: ignore[arg-type]
        assert bleu_of(total) == pytest.approx(corpus_bleu(hyps, THAI, "th", tokenize).bleu)  # type: ignore[arg-type]


@pytest.mark.skipif(not importlib.util.find_spec("mecab_ko"), reason="needs sacrebleu[ko]")
def test_korean_is_scored_by_mecab() -> None:
    refs = ["나는 어제 강가에서 책을 읽었습니다.", "그들은 어제 오지 않았다."]
    hyps = ["나는 어제 강가에서 책을 읽었다.", "그들은 오지 않았다."]
    assert corpus_bleu(hyps, refs, "ko").bleu == pytest.approx(74.77, abs=0.01)  # by sacreBLEU's command line
    assert corpus_bleu(hyps, refs, "ko", "13a").bleu == pytest.approx(46.59, abs=0.01)


# ---------------------------------------------------------------- before training


def test_a_missing_tokenizer_is_said_before_a_file_is_written(no_mecab: None, korean: Corpus, tmp_path: Path) -> None:
    for method in ("tau=1", "multi-distill"):
        with pytest.raises(UserError, match=r"eng-kor.*ko-mecab.*sacrebleu\[ko\].*--tokenize 13a"):
            pmd.train(korean, method, "toy", out=tmp_path / "run", show="off", **SHORT)
    with pytest.raises(UserError, match="eng-kor"):  # it decides by dev BLEU, scored at the end or not
        pmd.train(korean, "multi-distill", "toy", out=tmp_path / "run", show="off", score=False, **SHORT)
    assert not (tmp_path / "run").exists()


def test_estimate_says_it_too(no_mecab: None, korean: Corpus) -> None:
    with pytest.raises(UserError, match="ko-mecab"):
        pmd.estimate(korean, "tau=1", seconds=0.1, **SHORT)
    sizes = {"en-ko": 100, "en-fr": 200}
    with pytest.raises(UserError, match="ko-mecab"):
        pmd.estimate(sizes=sizes, seconds=0.1, **SHORT)
    elsewhere = pmd.estimate(sizes=sizes, tokens_per_second=100.0, **SHORT)
    assert any("ko-mecab" in guess for guess in elsewhere.guesses), "another machine may have it"
    assert pmd.estimate(korean, "tau=1", seconds=0.1, tokenize="13a", **SHORT)


def test_compare_says_it_too(no_mecab: None, korean: Corpus, tmp_path: Path) -> None:
    write_corpus(korean, tmp_path / "corpus")
    with pytest.raises(UserError, match="ko-mecab"):
        pmd.compare(tmp_path / "corpus", ["tau=1"], [1], out=tmp_path / "out", show=False, **SHORT)
    with pytest.raises(UserError, match=r"13a and auto.*cannot be compared"):
        pmd.compare(tmp_path / "corpus", ["tau=1", "tau=5 tokenize=13a"], [1], out=tmp_path / "out", **SHORT)
    assert not (tmp_path / "out").exists()


def test_a_download_that_fails_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **words: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr("sacrebleu.metrics.bleu._get_tokenizer", refuse)
    with pytest.raises(UserError, match=r"fr-en: .*flores200.*no route to host.*--tokenize char"):
        check_scorers(["fr-en"], "flores200")


@pytest.mark.slow
def test_dev_bleu_uses_the_tokenizer_of_the_run(tiny_encoded: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    real = corpus_bleu

    def spy(hyps: list[str], refs: list[str], language: str, tokenize: Any = "auto") -> Any:
        asked.append(tokenize)
        return real(hyps, refs, language, tokenize)

    monkeypatch.setattr("pmd_lite.training.dev.corpus_bleu", spy)
    config = pmd.preset("toy", **{**SHORT, "tokenize": "char"})
    model = Transformer(tiny_encoded.tokenizer.vocab_size, **asdict(config.model), pad=PAD)
    greedy_score(model, tiny_encoded, config)
    assert asked == ["char"] * len(tiny_encoded.pairs)


# ---------------------------------------------------------------- another tokenizer for a finished run


def test_another_tokenizer_scores_the_stored_translations(
    run: Run, korean: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It translates nothing and makes no other run; later evaluations use the same tokenizer."""
    assert {score["signature"].split("tok:")[1].split("|")[0] for score in run.scores["model_1"].values()} == {"13a"}
    before, lines = run.scores, run.translations("eng-tha")
    monkeypatch.setattr(Run, "translate", lambda *args, **words: pytest.fail("translated again"))
    again = pmd.train(korean, "tau=1", "toy", out=run.path, show="off", tokenize="char", **SHORT)
    assert again.tokenize == "char"
    for pair, score in again.scores["model_1"].items():
        assert tokenizer_of(score["signature"]) == "char"
        assert score["chrf"] == before["model_1"][pair]["chrf"]
    refs = [trg for _, trg in korean.test["eng-tha"]]
    assert again.bleu()["eng-tha"] == sacrebleu.corpus_bleu(lines, [refs], tokenize="char").score
    assert again.dir.config["config"]["train"]["tokenize"] == "13a", "config.json is written once"


@pytest.mark.slow
def test_only_multi_distill_by_bleu_is_another_run_with_another_tokenizer(three_pairs: Corpus, tmp_path: Path) -> None:
    short = {**SHORT, "steps": 2, "eval_every": 2}
    for criterion in ("bleu", "loss"):
        out, words = tmp_path / criterion, {**short, "md_criterion": criterion}
        pmd.train(three_pairs, "multi-distill", "toy", out=out, show="off", **words)
        if criterion == "loss":
            pmd.train(three_pairs, "multi-distill", "toy", out=out, show="off", tokenize="char", **words)
            continue
        with pytest.raises(UserError, match=r"holds another run: config\.train\.tokenize"):
            pmd.train(three_pairs, "multi-distill", "toy", out=out, show="off", tokenize="char", **words)
    assert not decides_by_bleu(get_method("auto-pmd").distiller, pmd.preset("toy"))


def test_the_command_evaluates_with_a_tokenizer_and_shows_chrf(
    run: Run, korean: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(korean, tmp_path / "corpus")
    assert main(["evaluate", str(run.path), "--corpus", str(tmp_path / "corpus"), "--tokenize", "char"]) == 0
    out = capsys.readouterr().out
    rows = {tuple(line.split()[:2]): line.split()[2:] for line in out.splitlines() if line.startswith("model_1")}
    assert rows["model_1", "BLEU"] == [f"{bleu:.1f}" for bleu in run.bleu().values()]
    assert rows["model_1", "chrF"] == [f"{score['chrf']:.1f}" for score in run.scores["model_1"].values()]
    assert "BLEU signature: nrefs:1" in out and "tok:char" in out and "chrF signature: nrefs:1" in out


def test_every_distinct_signature_is_printed_once() -> None:
    def score(tok: str) -> dict[str, Any]:
        return {"bleu": 1.0, "chrf": 2.0, "signature": f"nrefs:1|tok:{tok}", "chrf_signature": "nrefs:1|nc:6"}

    scores = {"model_1": {"en-fr": score("13a"), "en-zh": score("zh"), "en-de": score("13a")},
              "model_2": {"en-fr": score("13a"), "en-zh": score("zh"), "en-de": score("13a")}}  # fmt: skip
    assert said_beside([scores, scores], ["bleu", "chrf"]) == [
        "BLEU signature of en-fr, en-de: nrefs:1|tok:13a",
        "BLEU signature of en-zh: nrefs:1|tok:zh",
        "chrF signature: nrefs:1|nc:6",
    ]


def test_show_has_a_table_for_each_metric(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(run.path)]) == 0
    plain = capsys.readouterr().out
    assert "Test BLEU" in plain and "chrF" not in plain
    assert main(["show", str(run.path), "--metrics", "chrf", "bleu"]) == 0
    both = capsys.readouterr().out
    assert 0 < both.index("Test chrF") < both.index("Test BLEU")
    chrf = [score["chrf"] for score in run.scores["model_1"].values()]
    assert score_table([run], "chrf").rows[0][1:4] == chrf
    assert f"{sum(chrf) / 3:.1f}" in both


# ---------------------------------------------------------------- one missing scorer


@pytest.fixture
def lost(no_mecab: None, run: Run, korean: Corpus) -> Iterator[Run]:
    """The run scored as its languages want, on a machine without MeCab: Korean has no BLEU."""
    run.rescore(korean, "auto")
    yield run


def test_the_other_pairs_are_scored(lost: Run, scored: Run) -> None:
    scores = lost.scores["model_1"]
    missing = scores["eng-kor"]
    assert missing["bleu"] is None and missing["signature"] is None and NEEDS in missing["reason"]
    assert missing["chrf"] == scored.scores["model_1"]["eng-kor"]["chrf"]
    assert scores["eng-fra"] == scored.scores["model_1"]["eng-fra"]
    assert tokenizer_of(scores["eng-tha"]["signature"]) == "char"
    assert math.isnan(lost.bleu()["eng-kor"]) and not math.isnan(lost.bleu()["eng-fra"])
    low, high = lost.point()
    assert math.isnan(low) != math.isnan(high), "only the group that Korean belongs to has no mean"


@pytest.mark.slow
def test_tables_and_figures_go_on_without_it(lost: Run, capsys: pytest.CaptureFixture[str]) -> None:
    row = dict(zip(lost.table().columns, lost.table().rows[0], strict=True))
    assert row["eng-kor"] is None and row["mean"] is None and row["eng-fra"] == lost.bleu()["eng-fra"]
    assert "no BLEU for eng-kor" in lost.table().caption and "nan" not in lost.table().to_text()
    assert main(["show", str(lost.path), "--figures", "--metrics", "bleu", "chrf"]) == 0
    out = capsys.readouterr().out
    assert "no BLEU for eng-kor: BLEU for the target language" in out and NEEDS in out
    assert "is not in the frontier" in out
    with pytest.raises(UserError, match="no BLEU for eng-kor"):
        lost.plot_frontier()


def test_evaluate_prints_a_dash_and_the_reason(
    lost: Run, korean: Corpus, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_corpus(korean, tmp_path / "corpus")
    assert main(["evaluate", str(lost.path), "--corpus", str(tmp_path / "corpus")]) == 0
    out = capsys.readouterr().out
    bleu = next(line.split() for line in out.splitlines() if line.split()[:2] == ["model_1", "BLEU"])
    assert bleu[2 + lost.pairs.index("eng-kor")] == "-" and "no BLEU for eng-kor" in out


def test_once_the_scorer_is_there_the_same_call_scores(lost: Run, korean: Corpus) -> None:
    assert not is_stale(lost.scores, "auto"), "nothing has changed"
    assert is_stale(lost.scores, "13a")
    again = pmd.train(korean, "tau=1", "toy", out=lost.path, show="off", tokenize="13a", **SHORT)
    assert not again.without_bleu


@pytest.fixture(scope="module")
def compared(korean: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """tau=1 and tau=5 with two seeds, all scored with 13a."""
    place = tmp_path_factory.mktemp("compared")
    write_corpus(korean, place / "corpus")
    pmd.compare(place / "corpus", ["tau=1", "tau=5"], [1, 2], out=place / "out", workers=1, show=False, tokenize="13a",
                **{**SHORT, "steps": 4})  # fmt: skip
    return place / "out"


@pytest.mark.slow
def test_a_comparison_goes_on_without_it(compared: Path, tmp_path: Path) -> None:
    """Means over Korean are "-", the differences of the other group stay as they were."""
    found = Comparison(shutil.copytree(compared, tmp_path / "out"))
    system = finished_systems(found.path)[1]
    whole = found.systems["tau=5"]["differences"]
    assert set(whole) == {"mean", "HRL", "LRL"}
    chrf = [sum(run.measured("chrf").values()) / 3 for run in system.runs]
    assert found.table().rows[1][7].mean == pytest.approx(sum(chrf) / 2, abs=1e-4)  # type: ignore[union-attr]
    for file in (tmp_path / "out" / "runs").glob("*/scores.json"):
        data = json.loads(file.read_text(encoding="utf-8"))
        for of in data["scores"].values():
            of["eng-kor"] |= {"bleu": None, "signature": None, "reason": "lost on the way"}
        write_json(file, RunDir(file.parent).sealed(data))
    after = Comparison(tmp_path / "out")
    kept = after.systems["tau=5"]["differences"]
    group = "HRL" if "eng-kor" in system.runs[0].groups[1] else "LRL"
    assert kept == {group: whole[group]}
    row = dict(zip(after.table().columns, after.table().rows[1], strict=True))
    assert row["BLEU"] is None and row["diff"] == "" and row[group].mean > -1  # type: ignore[union-attr]
    assert "no BLEU for eng-kor" in after.table().caption
    after.save()
    assert Comparison.load(tmp_path / "out" / "summary.json").table().to_text() == after.table().to_text()
    summary = json.loads((tmp_path / "out" / "summary.json").read_text(encoding="utf-8"))
    assert summary["systems"][0]["bleu"][0]["eng-kor"] is None and "lost on the way" in str(summary["notes"])


@pytest.mark.slow
def test_statistics_of_a_tokenizer_that_is_missing_here_are_left_out(
    compared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Scored with the tokenizer installed, read without it: BLEU is shown, differences of that pair are not."""
    shutil.copytree(compared, tmp_path / "out")
    for file in (tmp_path / "out" / "runs").glob("*/scores.json"):
        data = json.loads(file.read_text(encoding="utf-8").replace("tok:13a", "tok:flores200"))
        write_json(file, RunDir(file.parent).sealed(data))
    monkeypatch.setattr(
        "pmd_lite.comparing.summary.missing_scorers", lambda pairs, name: {pair: name for pair in pairs}
    )
    found = Comparison(tmp_path / "out")
    row = dict(zip(found.table().columns, found.table().rows[1], strict=True))
    assert row["BLEU"] is not None and row["diff"] == row["diff "] == row["diff  "] == ""
    assert "No diff with eng-" in found.table().caption


def test_a_comparison_of_two_tokenizers_is_refused(compared: Path, korean: Corpus, tmp_path: Path) -> None:
    systems = finished_systems(shutil.copytree(compared, tmp_path / "out"))
    systems[1].runs[0].rescore(korean, "char")
    with pytest.raises(UserError, match=r"13a in .*char in .*cannot be compared"):
        Comparison(tmp_path / "out")
    assert "tokenizers differ" in score_table([system.runs[0] for system in systems], "bleu").caption


# ---------------------------------------------------------------- text files for other metrics


def test_sources_translations_and_references_are_parallel_files(run: Run, korean: Corpus) -> None:
    folder = run.path / "translations"
    assert len(list(folder.iterdir())) == 3 * len(korean.pairs)
    for pair in korean.pairs:
        files = [(folder / f"test.{what}.{pair}.txt").read_bytes().decode() for what in ("src", "model_1", "ref")]
        src, hyp, ref = (text.removesuffix("\n").split("\n") for text in files)
        assert all(text.endswith("\n") and "\r" not in text for text in files)
        assert (src, ref) == ([s for s, _ in korean.test[pair]], [t for _, t in korean.test[pair]])
        assert hyp == run.translations(pair)


@pytest.mark.slow
def test_line_ends_inside_a_sentence_do_not_shift_the_lines(
    run: Run, korean: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = korean.pairs[0]
    (src, trg), *rest = korean.test[pair]
    broken = [(src + "\r\nand\rmore\u2028text", f"{trg}\x85one\nline"), *rest]
    odd: Any = SimpleNamespace(pairs=korean.pairs, test={**korean.test, pair: broken})
    monkeypatch.setattr(Run, "check_corpus", lambda *corpus: None)
    run.evaluate(odd)
    for what in ("src", "model_1", "ref"):
        text = (run.path / "translations" / f"test.{what}.{pair}.txt").read_bytes().decode()
        assert text.count("\n") == len(text.splitlines()) == len(broken), what
    written = (run.path / "translations" / f"test.ref.{pair}.txt").read_text(encoding="utf-8").split("\n")[0]
    assert written == f"{trg} one line"


def test_a_missing_scorer_is_an_error_of_its_own(no_mecab: None) -> None:
    with pytest.raises(MissingScorer, match="ja-mecab"):
        sentence_stats(["a"], ["a"], "ja")

"""Which sacreBLEU tokenizer counts the words of a target language, and whether this machine has it.

BLEU needs words, and the tokenizer 13a splits at spaces. In a script without spaces between words it takes a sentence
for one long word, right or wrong as a whole. So the tokenizer follows from the script of the language:

* Which scripts are written without spaces between words: Unicode Standard Annex 14 (Line Breaking, revision 51), line
  breaking classes ID (Han, kana, Yi), SA ("complex context": Thai, Lao, Myanmar, Khmer, Tai Le, New Tai Lue, Tai Tham,
  Tai Viet, Ahom) and AK, AS (Balinese, Javanese, Batak, Cham); and Tibetan, whose tsheg, of class BA, separates
  syllables, not words.
* Which language is written in which script: CLDR 49, likelySubtags.xml and the three-letter aliases of
  supplementalMetadata.xml. So Javanese ("jv") counts as Latin, its script of today; "jv_java" names the other script.

Languages in Chinese characters are scored with "zh", Japanese with "ja-mecab", Korean with "ko-mecab": sacreBLEU's own
defaults, and the field's convention. All other scripts without spaces are scored with "char", every character a word:
it needs neither a download nor a package, so a score cannot fail because there is no network. "flores200" (spBLEU:
pieces of one sentencepiece model for 200 languages; NLLB Team 2022) is closer to words, but sacreBLEU downloads its
model at the first use; ask for it by name. Scores of two tokenizers cannot be compared, whatever the language.
"""

from collections.abc import Sequence

from sacrebleu import BLEU

from pmd_lite.config import Tokenize
from pmd_lite.data.tokenizer import split_pair
from pmd_lite.errors import UserError, reason

_SCRIPTS = {
    "Hans": ("zh", "cdo chi cjy cmn cnp cpx csp czh gan hak hnm hsn luh mnp nan sjc wuu zh zho"),
    "Hant": ("zh", "ltc lzh yue"),
    "Hani": ("zh", "how oko swi zch zeh zgb zgm zgn zhd zlj zln zlq zqe zyg zyn zzj"),
    "Jpan": ("ja-mecab", "ams ja jpn yoi"),
    "Kore": ("ko-mecab", "ko kor"),
    "Hang": ("ko-mecab", "jje okm"),
    "Kana": ("char", "ain ryu"),
    "Thai": ("char", "bzi cbn cog kdt khf kjt kxm lcp lwl lwm mkm mlf mpz mra nyl nyw pht phu prt pry pww skb sou th "
                     "tha thm tts ugo urk yoy"),
    "Laoo": ("char", "alk brv jeg kgd kjg kuf lao lbo llo lo ncq nev ngt oyb pho pnx sct skk sqq sss thx tth tto"),
    "Mymr": ("char", "aio blk bur bwe ccq csh csj dnu dnv hpo int jkp kht kjp ksu ksw kvq kvt kxf kxk mnw mwt my mya "
                     "obr omx pce phk pll pwo pyx rbb rki rmz shn tco tjl tvn ybd yin zkn"),
    "Khmr": ("char", "brb khm km krr krv okz pcb rka smu tpu xhm xkk"),
    "Tibt": ("char", "adp adx bfu bkk bo bod bro cgk cna dka dre dz dzl dzo ght goe jda jya kbg kgy khg kjz kkf lbj "
                     "lkh luk lya muk neh npb ole otb pcr sbu sgt sip spt tgf tib tkk tsj twm xkf zau"),
    "Yiii": ("char", "ii iii nos nsd nsf nsv nty smh yig yiv ysd ysn ysp"),
    "Tale": ("char", "tdd thi"),
    "Talu": ("char", "khb"),
    "Lana": ("char", "cuu kkh nod stu"),
    "Tavt": ("char", "blt soa tyr"),
    "Ahom": ("char", "aho"),
    "Bali": ("char", "kaw"),
    "Java": ("char", "osi tes"),
    "Batk": ("char", "btd btm"),
    "Cham": ("char", "cjm"),
}  # fmt: skip
"""{ISO 15924 script: (tokenizer, the languages that CLDR lists under it)}."""
_SPACED = ("Latn", "Cyrl", "Arab")  # scripts that a suffix may name instead, such as nan_latn
_BY_SCRIPT = {script: tokenizer for script, (tokenizer, _) in _SCRIPTS.items()} | dict.fromkeys(_SPACED, "13a")
_BY_LANGUAGE = {code: tokenizer for tokenizer, codes in _SCRIPTS.values() for code in codes.split()}
_NAMES = ("13a", "zh", "ja-mecab", "ko-mecab", "flores200", "flores101", "spBLEU-1K", "char", "intl", "none")


class MissingScorer(UserError):
    """This machine lacks the BLEU tokenizer of a language."""


def tokenizer_for(trg_lang: str, tokenize: Tokenize = "auto") -> str:
    """Name of the sacreBLEU tokenizer for one target language: `tokenize`, or with "auto" that of its script.

    "zh_cn" counts as "zh"; a suffix that names a script ("zh_hant", "nan_latn", "khm_Khmr") decides. All languages that
    are not in the table above get mteval's 13a: they are written with spaces.

    Raises UserError for a language pair: otherwise "en-zh" would silently be scored as if it were not Chinese.
    """
    if not trg_lang or "-" in trg_lang:
        raise UserError(f'"{trg_lang}" is not one target language. Give the language alone, for example "zh".')
    if tokenize != "auto":
        return tokenize
    language, *suffixes = trg_lang.split("_")
    named = [_BY_SCRIPT[suffix.title()] for suffix in suffixes if suffix.title() in _BY_SCRIPT]
    return named[0] if named else _BY_LANGUAGE.get(language.lower(), "13a")


def tokenizer_of(signature: str) -> str:
    """The tokenizer that a sacreBLEU signature names ("...|tok:ko-mecab-0.996/ko-0.9.2-KO|..." -> "ko-mecab")."""
    named = next((field.removeprefix("tok:") for field in signature.split("|") if field.startswith("tok:")), "")
    return next((name for name in _NAMES if named == name or named.startswith(f"{name}-")), named)


def bleu_metric(trg_lang: str, tokenize: Tokenize = "auto") -> BLEU:
    """BLEU with the tokenizer of the language. Raises MissingScorer, with the remedy, when this machine lacks it."""
    name = tokenizer_for(trg_lang, tokenize)
    try:
        return BLEU(tokenize=name)
    except (Exception, SystemExit) as error:  # sacreBLEU raises many kinds, and exits where a certificate fails
        other = "13a" if name == "ko-mecab" else "char"
        if name in ("ja-mecab", "ko-mecab"):
            extra = name.split("-")[0]
            what, remedy = "which is not installed", f'Run: pip install "sacrebleu[{extra}]" (or "pmd_lite[{extra}]")'
        else:
            what, remedy = f"which sacreBLEU could not load ({reason(error)})", (
                "Its model is downloaded once, into ~/.sacrebleu/models: connect this machine to a network, or copy "
                "the file from another; delete it there if it is cut off")  # fmt: skip
        raise MissingScorer(
            f'BLEU for the target language "{trg_lang}" needs the tokenizer {name}, {what}. {remedy}; or score with '
            f'another tokenizer: --tokenize {other} (in Python: tokenize="{other}")'
        ) from error


def missing_scorers(pairs: Sequence[str], tokenize: Tokenize) -> dict[str, str]:
    """{pair: why it would have no BLEU here, and what to do}. Loads every tokenizer, and downloads what it must."""
    names = {pair: tokenizer_for(split_pair(pair)[1], tokenize) for pair in pairs}
    problems = {}
    for name, pair in {name: pair for pair, name in reversed(names.items())}.items():  # each tokenizer once
        try:
            bleu_metric(split_pair(pair)[1], tokenize)
        except MissingScorer as error:
            problems[name] = str(error)
    return {pair: problems[name] for pair, name in names.items() if name in problems}


def check_scorers(pairs: Sequence[str], tokenize: Tokenize) -> None:
    """Raises UserError when this machine could not score a pair: call it before hours of training."""
    if missing := missing_scorers(pairs, tokenize):
        raise UserError(f"{', '.join(missing)}: {'. '.join(dict.fromkeys(missing.values()))}")

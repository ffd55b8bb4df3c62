# ruff: noqa: RUF001 - words of other scripts look like Latin ones, that is their nature
from __future__ import annotations

import pytest

from vault_mem.session.nods import is_nod

NODS = {
    "English": ("yes", "Yes, please.", "ok", "OK!", "go on", "go ahead", "continue", "sounds good", "looks good to me", "do it", "thanks!", "Yes, go ahead and continue", "lgtm 👍", "1", "y", "perfect, thank you very much", "sure, that works", "yes do that", "please continue", "keep going", "yes, let's do it", "approved", "👍"),
    "Mandarin": ("好", "好的", "可以", "继续", "请继续", "是的", "没问题，继续吧", "谢谢", "好的，谢谢", "对", "行"),
    "Hindi": ("हाँ", "हां", "ठीक है", "जी हाँ", "जारी रखें", "आगे बढ़ो", "धन्यवाद", "बहुत अच्छा"),
    "Spanish": ("sí", "Si, por favor", "vale", "de acuerdo", "continúa", "sigue adelante", "perfecto, gracias", "muy bien", "claro que sí", "hazlo"),
    "French": ("oui", "d'accord", "vas-y", "continue", "c'est bon", "très bien, merci beaucoup", "parfait", "oui, continuez s'il vous plaît", "ok merci"),
    "Arabic": ("نعم", "حسنا", "تمام", "استمر", "نعم، من فضلك", "شكرا جزيلا", "أكمل", "موافق"),
    "Bengali": ("হ্যাঁ", "ঠিক আছে", "চালিয়ে যান", "ধন্যবাদ", "আচ্ছা"),
    "Portuguese": ("sim", "Sim, por favor", "tá bom", "está bem", "pode continuar", "continue", "beleza", "perfeito, obrigado", "segue em frente"),
    "Russian": ("да", "хорошо", "продолжай", "давай дальше", "спасибо большое", "да, пожалуйста", "ок", "согласен"),
    "Urdu": ("ہاں", "جی ہاں", "ٹھیک ہے", "جاری رکھیں", "شکریہ"),
    "Indonesian": ("ya", "oke", "lanjutkan", "lanjut saja", "terima kasih", "baik"),
    "German": ("ja", "ja, bitte", "mach weiter", "passt so", "genau so", "danke!", "einverstanden", "ja gerne"),
    "Japanese": ("はい", "はい、お願いします", "続けてください", "ありがとうございます", "了解です", "大丈夫です"),
    "a bare no": ("no", "No, thanks.", "nein", "non merci", "não", "нет", "لا", "नहीं", "না", "نہیں", "tidak", "いいえ", "不用了，谢谢"),
    "nothing": ("", "...", "!!", "  "),
}  # fmt: skip
REQUESTS = (
    "and the docs", "run the tests", "fix it", "yes, but rename the field first", "ok now add a test", "stop", "commit", "push it",
    "good. now the second thing: semicolons", "thanks! set the version to 0.3.1 as well", "what is next?", "ok?", "why", "revert that",
    "不要继续", "好的，但是先写测试", "修复这个错误", "टेस्ट चलाओ", "no, para", "sí, pero primero las pruebas", "lance les tests",
    "شغل الاختبارات", "rode os testes", "запусти тесты", "jalankan tes", "und die Doku",
    "テストを書いて", "use option 2 instead", "delete all",
)  # fmt: skip


@pytest.mark.parametrize(
    "text", [pytest.param(text, id=f"{language}: {text}") for language, found in NODS.items() for text in found]
)
def test_a_nod_is_no_request_in_any_of_the_languages_most_people_speak(text: str) -> None:
    assert is_nod(text)


@pytest.mark.parametrize("text", REQUESTS)
def test_a_few_words_that_ask_for_something_are_a_request(text: str) -> None:
    assert not is_nod(text)


def test_a_long_text_is_never_a_nod() -> None:
    assert not is_nod("yes " * 20)

"""Whether a few words of a person are a request, or only a nod: yes, no, thanks, go on."""

# ruff: noqa: RUF001 - words of other scripts look like Latin ones, that is their nature

from __future__ import annotations


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# The ten languages with the most speakers, and German and Japanese. A nod needs one word of NODS; FILLERS may stand around it.
NODS = _words(
    """
    yes y yep yeah yup ok okay okey k kk sure fine good great perfect nice cool alright right correct continue proceed go agreed approved
    approve accepted accept lgtm thanks thank thx ty cheers exactly absolutely definitely awesome excellent super do next fantastic wonderful
    brilliant neat done understood agree yessir aye
    ja jo jup jawohl jep genau passt klar gut super prima weiter mach machen danke stimmt richtig einverstanden gerne gern sehr toll perfekt
    sí si vale bueno bien claro dale sigue siga seguir continúa continua continuar adelante gracias perfecto correcto exacto hazlo procede
    oui ouais d'accord daccord parfait continue continuez vas merci bien exact exactement allez poursuis poursuivez procède
    sim certo claro ótimo otimo bom beleza continue continua prossiga obrigado obrigada perfeito isso segue vá
    да ага хорошо ладно давай давайте продолжай продолжайте дальше спасибо отлично верно согласен согласна конечно ок окей супер вперед вперёд
    نعم أجل حسنا حسناً موافق تمام استمر أكمل تابع شكرا شكراً طيب أكيد صحيح ممتاز واصل
    हाँ हां जी ठीक अच्छा सही जारी धन्यवाद शुक्रिया बढ़िया बिलकुल बिल्कुल आगे
    হ্যাঁ হ্যা জি ঠিক আচ্ছা চালিয়ে ধন্যবাদ ভালো হুম
    ہاں جی ٹھیک اچھا جاری شکریہ بالکل صحیح آگے
    ya iya oke baik lanjut lanjutkan teruskan terima setuju siap sip betul benar
    no nope nah nein nee nö non não nao нет неа لا नहीं नही না না نہیں tidak nggak
    """
)
# Phrases whose words mean something else alone.
PHRASES = (
    "keep going",
    "carry on",
    "carry it on",
    "de acuerdo",
    "está bien",
    "esta bien",
    "no hay problema",
    "no problem",
    "c'est bon",
    "ça marche",
    "ça va",
    "pas de problème",
    "está bem",
    "esta bem",
    "sem problema",
    "in ordnung",
    "kein problem",
    "leg los",
    "без проблем",
)
FILLERS = _words(
    """
    on ahead it that this is s the a an pls please now then so just let us lets let's you very much lot all with and i am i'm we re sounds
    looks works for me well keep going carry step one to both of course thats that's it's its here there still yet as proposed suggested
    es das so bitte nun jetzt dann mal auch schön vielen dank alles mit und ich finde bin die das der
    por favor eso así que muy está esta todo muchas lo la el de acuerdo con y
    ça va c'est très bien je suis le la s'il te vous plaît svp tout de beaucoup y
    tá está bem muito por favor pode tudo o a com e isso mesmo em frente
    это так пожалуйста очень все всё и с большое хорошая
    من فضلك على هذا الله جدا جزيلا في إلى الأمام
    है रखें रखो करो कीजिए करें बढ़ो बढ़ें बहुत से यह
    আছে যান যাও করুন করো অনেক এটা
    ہے رکھیں رکھو کرو کریں بہت بڑھیں یہ
    saja kasih banyak sudah itu ini dong
    """
)
# Languages without blanks between words: what is left after taking these away, longest first, must be nothing.
UNSPACED = sorted(
    _words(
        "没有问题 不要了 不用了 不是 不用 不 请继续 继续吧 就这样 没问题 很好的 可以的 是的 好的 好了 好吧 可以 继续 没错 对的 谢谢 不错 同意 明白 当然 行吧 很好 嗯嗯 好 行 对 是 嗯 请 吧 了 的 啊 你 下一步 "
        "いいえ いえ お願いします おねがいします ありがとうございます わかりました 分かりました 続けてください つづけてください 進めてください 了解しました "
        "大丈夫です それでいいです いいですね いいです そうです お願い ありがとう 了解です 続けて つづけて 進めて すすめて 大丈夫 了解 どうぞ はい うん ええ オッケー いいね いいよ です ね よ"
    ),
    key=len,
    reverse=True,
)
QUESTION = ("?", "？", "؟")
LONGEST_NOD = 60


def _spoken(char: str) -> bool:
    """Whether *char* is part of a word: letters, digits, and the vowel signs that some scripts write as marks."""
    return char.isalnum() or char in "'’" or "\u0900" <= char <= "\u0dff" or "\u0610" <= char <= "\u065f"


def _unspaced(word: str) -> bool:
    return any("\u3040" <= char <= "\u30ff" or "\u4e00" <= char <= "\u9fff" for char in word)


def _nod_without_blanks(word: str) -> bool:
    while word:
        for piece in UNSPACED:
            if word.startswith(piece):
                word = word[len(piece) :]
                break
        else:
            return False
    return True


def is_nod(text: str) -> bool:
    """Whether *text* only agrees, declines, thanks, picks an option or says go on, so that it is no request by itself."""
    if len(text) > LONGEST_NOD or any(mark in text for mark in QUESTION):
        return False
    words = "".join(char if _spoken(char) else " " for char in text.casefold()).replace("’", "'").split()
    nods = 0
    said = f" {' '.join(words)} "
    for phrase in PHRASES if len(words) > 1 else ():
        if f" {phrase} " in said:
            said = said.replace(f" {phrase} ", " ")
            nods += 1
    words = said.split()
    for word in words:
        if word in NODS or word.isdigit() or len(word) == 1:
            nods += 1
        elif _unspaced(word):
            if not _nod_without_blanks(word):
                return False
            nods += 1
        elif word not in FILLERS:
            return False
    return nods > 0 or not words

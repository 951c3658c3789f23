"""A bank of words in several languages and scripts, of which probe texts are made. Ours; nobody's text is copied."""

from __future__ import annotations

import random

WORDS = {
    "en": "river budget engine quiet garden contract winter signal orange teacher harbour protein window market "
    "thunder ladder invoice violin desert printer melody cotton bridge planet salary kitchen forest number",
    "de": "Fluss Vertrag Maschine Garten Winter Lehrer Hafen Fenster Gewitter Rechnung Geige Wüste Brücke Küche Wald "
    "Zahl Schlüssel Straße grün langsam übermorgen heißt",
    "fr": "rivière contrat moteur jardin hiver professeur fenêtre marché orage facture violon désert pont cuisine "
    "forêt nombre clé rue lentement déjà être",
    "es": "río contrato motor jardín invierno maestra puerto ventana mercado trueno factura violín desierto puente "
    "cocina bosque número llave mañana",
    "ru": "река договор мотор сад зима учитель гавань окно рынок гроза счёт скрипка пустыня мост лес",
    "zh": "河流 合同 花园 冬天 老师 港口 窗户 市场 雷声 账单 沙漠 桥梁 厨房 森林 数字",
    "ja": "川 契約 庭 冬 先生 港 窓 市場 雷 請求書 砂漠 橋 台所 森 ありがとう ゆっくり",
    "ar": "نهر عقد محرك حديقة شتاء معلم ميناء نافذة سوق رعد فاتورة صحراء جسر مطبخ غابة",
    "hi": "नदी अनुबंध बगीचा सर्दी शिक्षक बंदरगाह खिड़की बाज़ार गरज रेगिस्तान पुल रसोई जंगल",
    "marks": "🙂 🚀 🌧️ 3.14 42 #7 €5 ? ! — (a) x=1 NULL https://example.org",
}
OWN_LANGUAGE = 0.85  # share of words in the text's main language


def probe_text(rng: random.Random, words: int) -> str:
    """A text of `words` words, mostly of one language, with now and then a word or sign of another."""
    main = rng.choice(sorted(WORDS))
    banks = [main if rng.random() < OWN_LANGUAGE else rng.choice(sorted(WORDS)) for _ in range(words)]
    return " ".join(rng.choice(WORDS[bank].split()) for bank in banks)

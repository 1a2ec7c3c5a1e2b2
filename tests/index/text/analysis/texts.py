"""Texts in twelve languages and of characters that tokenizers treat in different ways."""

from __future__ import annotations

TEXTS = {
    "English": "Mark'd ye his words? It's 3.14 at foo_bar, a.b:c and e-mail; runners running the marathons.",
    "German": "Die Straßen der Größe „Übermut“ heißen nicht Donaudampfschifffahrt, sondern das, was 1.000,50 € kostet.",
    "French": "L'été, aujourd'hui, n'est pas œuvre de l’Académie française : 12 % des élèves rêvaient.",
    "Russian": "Приветмир! Всё ещё не кончено: «Война и мир» — 1 225 страниц, как-то так.",
    "Arabic": "اللغة العربية لغةٌ جميلة، ومن أقدم اللغات ١٢٣ في العالم.",
    "Hebrew": "צה\"ל הוא צבא; ג'ירפה וח\"כ דיברו עם ה'רב' ב-2024.",
    "Chinese": "我来到北京清华大学，他来到了网易杭研大厦。中华人民共和国成立于1949年，程序员买iPhone了。",
    "Japanese": "東京都の天気は晴れです。カタカナとひらがな、ｶﾀｶﾅ、我々は日本語を読む。人々ー",
    "Korean": "나는 학교에 갑니다. 그리고 대한민국의 수도는 서울이다!",
    "Thai": "ภาษาไทยเป็นภาษาที่มีระดับเสียงของคำแน่นอน ทุกสองสัปดาห์ ๑๒๓ ฯลฯ",
    "Hindi": "हिन्दी विश्व की एक प्रमुख भाषा है, और क्षत्रिय १२३.",
    "Burmese, Khmer, Lao": "မြန်မာဘာသာစကားသည် ភាសាខ្មែរគឺជាភាសា ພາສາລາວເປັນພາສາ",
    "mixed": "aภาษาไทยb我c 1我2 한국어русский עבריתabc _a_ __ a_1 x\u00ady\u200dz e\u0301a\u0300 👨‍👩‍👧a🇩🇪🇫🇷 ⓐⓑ Ⅷ½",
}
"""By language."""

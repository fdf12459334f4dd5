"""The texts that every tokenizer family is compared on: deterministic, 1,400 of them, as bytes."""
import random

SENTENCES = [
    "The quick brown fox jumps over the lazy dog.", "It's 3.14159 o'clock; we'll see what they've done, I'm sure you'd agree.",
    "WE'RE HERE, AND THEY'LL COME: I'VE SEEN IT'S TRUE, HE'D'VE GONE.", "don\u2019t can\u2019t won\u2019t l'homme d'\u00e9t\u00e9 '\u017f \u017fs 's",
    "Zwölf Boxkämpfer jagen Viktor quer über den großen Sylter Deich. Straßenbahn!", "Portez ce vieux whisky au juge blond qui fume — déjà vu, naïve façade.",
    "El veloz murciélago hindú comía feliz cardillo y kiwi. ¿Qué? ¡Olé!", "Pchnąć w tę łódź jeża lub ośm skrzyń fig. Žluťoučký kůň úpěl ďábelské ódy.",
    "Съешь же ещё этих мягких французских булок, да выпей чаю.", "Ξεσκεπάζω την ψυχοφθόρα βδελυγμία. Ἐν ἀρχῇ ἦν ὁ λόγος.",
    "いろはにほへと ちりぬるを。日本語のテキスト、カタカナも漢字も。東京タワーは333メートルです!", "我能吞下玻璃而不伤身体。今天天气很好，我们去公园吧！人工智能2024年。",
    "다람쥐 헌 쳇바퀴에 타고파. 안녕하세요, 오늘 날씨가 좋네요.", "نص حكيم له سر قاطع وذو شأن عظيم. مرحبا بالعالم ١٢٣٤٥٦",
    "דג סקרן שט בים מאוכזב ולפתע מצא חברה. שָׁלוֹם", "ऋषियों को सताने वाले दुष्ट राक्षसों का नाश। नमस्ते दुनिया १२३", "আমি বাংলায় গান গাই। স্বাগতম",
    "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน", "Việt Nam: Tiếng Việt có dấu thanh phức tạp lắm đấy.", "Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul'da ıssız",
    "யாமறிந்த மொழிகளிலே தமிழ்மொழி போல்", "తెలుగు భాష చాలా అందమైనది", "ქართული ენა 🇬🇪 სამშობლო", "Հայերեն լեզու", "አማርኛ ቋንቋ", "ខ្មែរ ភាសា", "မြန်မာဘာသာ", "བོད་ཡིག",
    "👩‍👩‍👧‍👦 family 🏳️‍🌈 flags 🇯🇵🇺🇸 skin 👍🏽 keycap 1️⃣ ❤️ ☺︎ 🦙🚀✨", "e\u0301 \u0065\u0301\u0327 n\u0303 \u1100\u1161\u11a8 \ufb01ne \u00bd \u00b2 \u2168 \uff21\uff22\uff11 \u212b \u1e9e",
    "def f(x, *, y=None):\n    \"\"\"doc\"\"\"\n\treturn {k: v**2 for k, v in x.items() if v != y}  # comment\n", "#include <stdio.h>\r\nint main(void) {\r\n  printf(\"%d\\n\", 0x7fffffff);\r\n}\r\n",
    "SELECT a.id, COUNT(*) FROM t AS a WHERE x <> 'it''s' GROUP BY 1 HAVING COUNT(*)>=10;", "<html><body class=\"a b\">&nbsp;&#39;</body></html>", "https://example.com/path?q=1&r=%20#frag user@mail.co",
    "\\begin{equation} \\int_0^\\infty e^{-x^2} dx = \\frac{\\sqrt{\\pi}}{2} \\end{equation}", "{\"key\": [1, 2.5e-10, true, null], \"k2\": {\"\\u00e9\": \"x\\ty\"}}",
    "1 12 123 1234 12345 123456 1234567 12345678 1,234,567.89 0xDEADBEEF v1.2.3-rc4", "CamelCaseWords andSnake_case_words HTTPServer iPhone MacBookPro XMLHttpRequest ABCdefGHI ǅungla",
    "$100 €50 £3 ¥1000 50% ±1 ≤ ≥ ≠ ∞ ∑ ∂ → ⇒ ⟨x⟩ … — – ‘q’ “q” «q» ¿¡", "!!! ??? ... --- === *** ### @@@ &&& /// \\\\\\ ___ ~~~ ``` ''' \"\"\" ((())) [[[]]] {{{}}}", "=-=-= :-) ;) <3 ^_^ (╯°□°)╯︵ ┻━┻ ¯\\_(ツ)_/¯",
    "Hello\u3000world\u00a0nbsp\u2003em\u200bzero\u200cnj\u200dj\ufeffbom\u2028line\u2029para\u0085nel\u1680ogham", "\u0000nul\u0001soh\u0007bel\u0008bs\u000bvt\u000cff\u001besc\u007fdel\u0080pad\u009fapc",
    "\ufffd replacement \ufffe\uffff nonchar \U0001fffe \ue000 pua \U000f0000 \U0010ffff", "İIıi ŞşĞğ ẞß ﬀﬁﬂ ŉ ǰ ΐ ΰ և", "a\u0300\u0301\u0302\u0303\u0304b\u0323\u0307 q\u0307\u0323 \u0344 \u0958 \u09dc", "≮ ≯ \u226e Å Å Ω Ω K K",
    "▁under▁▁score▁ ▁ _ ▂ \u2581\u2581\u2581x", "Ġ Ċ ĉ Ģ Ńa Ġthe ĊĊ", "<0x41> <0xE3><0x81><0x82> 0x0A", "##inner ##s un##able [UNK] [CLS] [SEP] [MASK]", "a</w> b</w>",
]

SPECIALS = [
    "<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<mask>", "<|endoftext|>", "<|begin_of_text|>", "<|end_of_text|>", "<|eot_id|>", "<|start_header_id|>", "<|end_header_id|>",
    "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>", "<|fim_prefix|>", "<think>", "</think>", "<tool_call>", "</tool_call>",
    "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", "<｜User｜>", "<｜Assistant｜>", "<｜fim▁hole｜>", "<|placeholder1|>", "<|start|>", "<|channel|>", "<|message|>", "<unused7>", "<2mass>", "[@BOS@]",
    "<table>", "<h1>", "<end_of_image>", "<reserved_16>", "<|reserved_special_token_5|>", "<|vision_start|>", "<｜tool▁calls▁begin｜>", "<|box_end|>", "\n\n\n", "▁▁▁▁",
]

INVALID = [
    b"\xff", b"\xfe\xff", b"\x80", b"a\x80b", b"\xc3", b"\xc3(", b"\xc0\xaf", b"\xe3\x81", b"\xe3\x81\x41", b"\xf0\x9f\x98", b"\xf0\x9f\x98 ok", b"\xed\xa0\x80", b"\xed\xb0\x80x", b"\xf4\x90\x80\x80", b"\xf5\x80\x80\x80",
    b"\xf8\x88\x80\x80\x80", b"caf\xe9 latin1 \xa9", b" \xff \xff\xff ", b"\xe2\x82", b"\xe2\x82\xac\xe2\x82", b"\xe0\x80\x80", b"\xf0\x80\x80\x80", b"\xc1\xbf\x41", b"ok\xef\xbf", b"\xef\xbf\xbd\xff", b"\n\xff\n", b"word\xc2 \xa0", b"\xe4\xb8\xad\xe6\x96",
]


def texts():
    rng = random.Random(20240607)
    out = [s.encode() for s in SENTENCES + SPECIALS] + list(INVALID)
    out += [s.encode() for s in ["", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", " \n ", "\n \n", "a", " a", "a ", "  a  ", "\u3000", "\u00a0\u00a0", "0", "00", "000", "0000", "'", "''", "' s", "\u0301", "\u200d"]]
    for s in SENTENCES[:30]:
        out.append(s.upper().encode())
        out.append(("  " + s + "\n\n" + s[::-1]).encode())
    for n in (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 33, 64, 100, 257):
        for c in " \n\ta-=0日é▁":
            out.append((c * n).encode())
            out.append(("x" + c * n + "y").encode())
    pool = [" ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", "'s", "'LL", "'re", "\u2019t", "a", "B", "the", "The", " the", "ing", "1", "42", "999", "2024", "é", "e\u0301", "日", "本語", "な", "한", "ا", "ß", "!", "?!", "...", "--", "_", "▁",
            "👩", "\u200d", "🏽", "\u00a0", "\u3000", "\u2028", "\x00", "\x1b", "<", ">", "|", "/", "\\", "#", "½", "٣", "Ⅻ", "ǅ", "ʰ", "ﬁ", "\u0323", "İ", "中", "Привет", "नमस्ते", "ไทย"]
    while len(out) < 1020:
        out.append("".join(rng.choice(pool) for _ in range(rng.randrange(1, 24))).encode())
    words = [w for s in SENTENCES for w in s.split()]
    while len(out) < 1220:
        out.append(rng.choice([" ", "", "\n"]).encode() + rng.choice([" ", "  ", "\n", "-", ""]).join(rng.choice(words) for _ in range(rng.randrange(1, 14))).encode())
    while len(out) < 1330:
        parts = [rng.choice(SPECIALS if rng.random() < 0.4 else pool + words) + rng.choice(["", "", " ", "\n", "  "]) for _ in range(rng.randrange(2, 9))]
        out.append("".join(parts).encode())
    while len(out) < 1400:
        parts = [rng.choice(INVALID) if rng.random() < 0.5 else rng.choice(pool + words).encode() for _ in range(rng.randrange(2, 8))]
        out.append(b"".join(parts))
    return out

package tokenizer

import (
	"fmt"
	"strings"
)

// ggufPre is what a value of tokenizer.ggml.pre stands for in llama.cpp.
type ggufPre struct {
	key          string
	names        string   // the values, with spaces between
	patterns     []string // applied one after another
	ignoreMerges bool
	bos          bool // a text begins with the begin-of-sequence token unless the file says otherwise
	characters   bool // merges are of characters, not of bytes
	escaped      bool // spaces are ▁
}

// Patterns of llama.cpp, as llama-vocab.cpp has them.
const (
	gpt2Pattern   = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)`
	anyCase       = `(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])`
	spacesPattern = `\s*[\r\n]+|\s+(?!\S)|\s+`
	llama3Pattern = anyCase + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spacesPattern
	qwen2Pattern  = anyCase + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spacesPattern
	deepSeek3Main = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\\r\\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\\r\\n]*|" + spacesPattern
	kanaPattern   = `[一-龥぀-ゟ゠-ヿ]+`
	bloomPattern  = ` ?[^(\s|.,!?…。，、।۔،)]+`
	casedHead     = `[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+`
	casedTail     = `[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*`
	casedMarks    = `[^\r\n\p{L}\p{N}]?((?=[\p{L}\p{M}])([^a-z]))`
	lowerMarks    = `((?=[\p{L}\p{M}])([^A-Z]))`
	slashRest     = `| ?[^\s\p{L}\p{N}]+[\r\n/]*|` + spacesPattern
	rightDigits   = `\d{1,3}(?=(?:\d{3})*\b)`
	aheadDigits   = `(?=(\d{3})+(?!\d))`
	lettersMarks  = `[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+` + anyCase + `?`
	linesPattern  = `[^\n]+|[\n]+`
	kimiPattern   = `\p{Han}+`

	// wideIdeographs is `[一-龥ࠀ-一가-퟿]+` without the white space in it, which llama.cpp replaces before it looks.
	wideIdeographs = `[一-龥ࠀ-\x{167f}\x{1681}-\x{1fff}\x{200b}-\x{2027}\x{202a}-\x{202e}\x{2030}-\x{205e}\x{2060}-\x{2fff}\x{3001}-一가-퟿]+`

	// deepSeekLetters is what deepseek-llm takes for letters.
	deepSeekLetters = `[A-Za-z\x{b5}\x{c0}-\x{d6}\x{d8}-\x{f6}\x{f8}-\x{1ba}\x{1bc}-\x{1bf}\x{1c4}-\x{293}\x{295}-\x{2af}\x{370}-\x{373}\x{376}` +
		`\x{377}\x{37b}-\x{37d}\x{37f}\x{386}\x{388}-\x{38a}\x{38c}\x{38e}-\x{3a1}\x{3a3}-\x{3f5}\x{3f7}-\x{481}\x{48a}-\x{52f}` +
		`\x{531}-\x{556}\x{10a0}-\x{10c5}\x{13a0}-\x{13f5}\x{13f8}-\x{13fd}\x{1c90}-\x{1cba}\x{1cbd}-\x{1cbf}\x{1d00}-\x{1d2b}` +
		`\x{1d6b}-\x{1d77}\x{1d79}-\x{1d9a}\x{1e00}-\x{1f15}\x{1f18}-\x{1f1d}\x{1f20}-\x{1f45}\x{1f48}-\x{1f4d}\x{1f50}-\x{1f57}` +
		`\x{1f59}\x{1f5b}\x{1f5d}\x{1f5f}-\x{1f7d}\x{1f80}-\x{1fb4}\x{1fb6}-\x{1fbc}\x{1fbe}\x{1fc2}-\x{1fc4}\x{1fc6}-\x{1fcc}` +
		`\x{1fd0}-\x{1fd3}\x{1fd6}-\x{1fdb}\x{1fe0}-\x{1fec}\x{1ff2}-\x{1ff4}\x{1ff6}-\x{1ffc}\x{2102}\x{2107}\x{210a}-\x{2113}` +
		`\x{2115}\x{2119}-\x{211d}\x{2124}\x{2126}\x{2128}\x{212a}-\x{212d}\x{212f}-\x{2134}\x{2139}\x{213c}-\x{213f}\x{2145}-` +
		`\x{2149}\x{214e}\x{2183}\x{2184}\x{2c00}-\x{2c7b}\x{2c7e}-\x{2ce4}\x{2ceb}-\x{2cee}\x{2cf2}\x{2cf3}\x{a640}-\x{a66d}` +
		`\x{a680}-\x{a69b}\x{a722}-\x{a76f}\x{a771}-\x{a787}\x{a78b}-\x{a78e}\x{ab70}-\x{abbf}\x{fb00}-\x{fb06}\x{fb13}-\x{fb17}` +
		`\x{ff21}-\x{ff3a}\x{ff41}-\x{ff5a}\x{10400}-\x{1044f}\x{104b0}-\x{104d3}\x{104d8}-\x{104fb}\x{10c80}-\x{10cb2}\x{10cc0}-` +
		`\x{10cf2}\x{118a0}-\x{118df}\x{1e900}-\x{1e943}]+`
)

// ggufPres is every value that llama.cpp knows, grouped by what it does.
func ggufPres() []ggufPre {
	return []ggufPre{
		{key: "default", names: "default", patterns: []string{`[\p{P}\$\+<=>\^~\|]+`, gpt2Pattern, `\p{N}+`, `[0-9][0-9][0-9]`}},
		{key: "llama3", names: "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
			patterns: []string{llama3Pattern}, ignoreMerges: true, bos: true},
		{key: "llama3", names: "dbrx smaug-bpe glm4 chatglm-bpe", patterns: []string{llama3Pattern}},
		{key: "jais2", names: "jais-2", patterns: []string{anyCase + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+` +
			`|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}`}},
		{key: "minicpm5", names: "minicpm5", ignoreMerges: true, patterns: []string{`\p{N}{1,3}`,
			anyCase + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+| ?[^\s\p{L}\p{N}]+[\r\n]*|` + spacesPattern}},
		{key: "deepseek-llm", names: "deepseek-llm", patterns: []string{
			`[\r\n]`, `\s?` + deepSeekLetters, `\s?[!-/:-~！-／：-～‘-‟、-。]+`, `\s+$`, wideIdeographs, `\p{N}+`}},
		{key: "deepseek-coder", names: "deepseek-coder", patterns: []string{`[\r\n]`, `\s?\p{L}+`, `\s?\p{P}+`, wideIdeographs, `\p{N}`}},
		{key: "deepseek-v3", names: "deepseek-v3 hunyuan-dense joyai-llm", patterns: []string{`\p{N}{1,3}`, kanaPattern, deepSeek3Main}},
		{key: "youtu", names: "youtu", ignoreMerges: true, patterns: []string{
			`[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+`, lettersMarks + `|\p{N}` + slashRest}},
		{key: "falcon", names: "falcon", patterns: []string{"[\\p{P}\\$\\+<=>\\^~\\|`]+", gpt2Pattern, `[0-9][0-9][0-9]`}},
		{key: "starcoder", names: "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2", patterns: []string{`\p{N}`, gpt2Pattern}},
		{key: "gpt2", names: "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert jina-v1-en jina-v2-code " +
			"roberta-bpe mpt olmo jais trillion granite-docling exaone4", patterns: []string{gpt2Pattern}},
		{key: "qwen2", names: "qwen2 deepseek-r1-qwen kormo f2llmv2 stablelm2 hunyuan solar-open megrez grok-2", patterns: []string{qwen2Pattern}},
		{key: "qwen35", names: "qwen35", patterns: []string{
			anyCase + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|` + spacesPattern}},
		{key: "bloom", names: "poro-chat bloom gpt3-finnish", patterns: []string{bloomPattern}},
		{key: "viking", names: "viking", patterns: []string{bloomPattern, `\p{N}`}},
		{key: "tekken", names: "tekken", ignoreMerges: true, bos: true, patterns: []string{casedHead + `|` + casedTail + `|\p{N}` + slashRest}},
		{key: "chameleon", names: "chameleon", bos: true, patterns: []string{
			`<sentinel:[0-9]+>`, `(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z`, `([\t\n]|    |  )`, `\p{N}`, "[\\p{P}!-/:-@\\[-`{-~]", gpt2Pattern}},
		{key: "gpt-4o", names: "gpt-4o llama4 kanana2 talkie minimax-m2", patterns: []string{
			casedHead + anyCase + `?|` + casedTail + anyCase + `?|\p{N}{1,3}` + slashRest}},
		{key: "granite-embed", names: "granite-embed-multi-97m", ignoreMerges: true, patterns: []string{
			casedMarks + `*` + lowerMarks + `+` + anyCase + `?|` + casedMarks + `+` + lowerMarks + `*` + anyCase + `?|\p{N}{1,3}` + slashRest}},
		{key: "tiny_aya", names: "tiny_aya cohere2moe", patterns: []string{rightDigits, lettersMarks + `|\p{N}{1,3}` + slashRest}},
		{key: "kimi-k2", names: "kimi-k2", patterns: []string{kimiPattern}},
		{key: "superbpe", names: "superbpe", patterns: []string{`\p{N}+`, aheadDigits}},
		{key: "bailingmoe", names: "bailingmoe bailingmoe2 llada-moe", patterns: []string{
			`'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+`}},
		{key: "seed-coder", names: "seed-coder", patterns: []string{
			anyCase + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|` + spacesPattern}},
		{key: "afmoe", names: "afmoe", patterns: []string{rightDigits,
			`[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+`, deepSeek3Main}},
		{key: "laguna", names: "laguna", patterns: []string{linesPattern, qwen2Pattern}},
		{key: "exaone-moe", names: "exaone-moe", patterns: []string{
			anyCase + `|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+`}},
		{key: "gemma4", names: "gemma4 granite-embed-multi-311m", patterns: []string{linesPattern}, characters: true, escaped: true},
		{key: "sarvam-moe", names: "sarvam-moe", patterns: []string{linesPattern}, characters: true, escaped: true},
		{key: "whitespace", names: "whitespace", patterns: []string{`\S+`}, characters: true},
	}
}

// ggufPattern finds what a value of tokenizer.ggml.pre stands for. None is llama.cpp's default.
func ggufPattern(name string) (*ggufPre, error) {
	if name == "" {
		name = "default"
	}
	for _, p := range ggufPres() {
		for n := range strings.FieldsSeq(p.names) {
			if n == name {
				return &p, nil
			}
		}
	}
	return nil, fmt.Errorf("tokenizer: tokenizer.ggml.pre is %q, which is not known", name)
}

// ggufStage is the stage of a pattern, of which llama.cpp has code of its own for some.
func ggufStage(pattern string, known map[string]alternative) (stage, error) {
	switch pattern {
	case rightDigits:
		return rightGroups{}, nil
	case aheadDigits:
		return aheadGroups{}, nil
	case kimiPattern:
		return &split{splitter: branches{
			hanWord, kimiWord, known[`\p{N}{1,3}`], known[` ?[^\s\p{L}\p{N}]+[\r\n]*`], linesEnd, spacesBefore, spaces,
		}}, nil
	}
	s, err := newSplitter(pattern, known)
	return &split{splitter: s}, err
}

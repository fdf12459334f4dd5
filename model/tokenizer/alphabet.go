package tokenizer

import "unicode/utf8"

// A tokenizer.json spells the bytes of a token as printable characters: a byte that prints in Latin-1 stands for itself,
// the other 68 take the characters from U+0100 on, in order. (GPT-2, encoder.py, bytes_to_unicode.)

// firstShifted is the character of the first byte that does not print.
const firstShifted = 0x100

// lastShifted is that of the last of the 68.
const lastShifted = firstShifted + 67

// alphabet holds both directions of the spelling.
type alphabet struct {
	runes [256]rune              // byte to character
	bytes [lastShifted + 1]int16 // character to byte, -1 without one
	order [256]byte              // bytes by their character: the ids 0 to 255 of GPT-2 and of a tokenizer that is trained here
}

// newAlphabet builds the table.
func newAlphabet() *alphabet {
	a := &alphabet{}
	for r := range a.bytes {
		a.bytes[r] = -1
	}
	n, shifted := 0, rune(firstShifted)
	for b := range 256 {
		if printsInLatin1(b) {
			a.runes[b] = rune(b)
			a.order[n] = byte(b)
			n++
		}
	}
	for b := range 256 {
		if !printsInLatin1(b) {
			a.runes[b] = shifted
			a.order[n] = byte(b)
			n++
			shifted++
		}
	}
	for b, r := range a.runes {
		a.bytes[r] = int16(b)
	}
	return a
}

func printsInLatin1(b int) bool {
	return '!' <= b && b <= '~' || 0xa1 <= b && b <= 0xac || 0xae <= b
}

// spell returns the characters that stand for some bytes.
func (a *alphabet) spell(token []byte) string { return string(a.appendSpelled(nil, token)) }

func (a *alphabet) appendSpelled(dst, token []byte) []byte {
	for _, b := range token {
		dst = utf8.AppendRune(dst, a.runes[b])
	}
	return dst
}

// unspell returns the bytes that a text stands for, and false if one of its characters is not of the alphabet.
func (a *alphabet) unspell(s []byte) ([]byte, bool) {
	return a.appendUnspelled(make([]byte, 0, len(s)), s) //mem:ok one token
}

func (a *alphabet) appendUnspelled(dst, s []byte) ([]byte, bool) {
	for _, r := range string(s) {
		if r > lastShifted || a.bytes[r] < 0 {
			return dst, false
		}
		dst = append(dst, byte(a.bytes[r]))
	}
	return dst, true
}

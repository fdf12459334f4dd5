package corpus

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	text, err := io.ReadAll(Text())
	if err != nil {
		t.Fatal(err)
	}
	if got := len(text); got != Bytes {
		t.Errorf("got %d bytes, want %d", got, Bytes)
	}
	sum := sha256.Sum256(text)
	const want = "09fa71fdd7bdcd0f58e861b5a34bcc5fe7808e8158643f102c3107a98661a218" // printed by generate.py
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("SHA-256: got %s, want %s", got, want)
	}
	for i, c := range text {
		if c >= 0x80 || c < ' ' && c != '\n' {
			t.Fatalf("byte %d is 0x%02x, want printable ASCII", i, c)
		}
	}
	for _, line := range []string{"To be, or not to be,", "Shall I compare thee to a summer's day?", "Out, damned spot!"} {
		if !strings.Contains(string(text), line) {
			t.Errorf("the text lacks %q", line)
		}
	}
}

package tier

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
)

// A copy in parts moves the same bytes as one at once, whoever does the parts, and as often as it is started.
func TestParted(t *testing.T) {
	s := NewStream()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{0, 1, partBytes, partBytes + 1, 3*partBytes - 7, 5 * partBytes} {
		back := make([]byte, n+64)
		from, to := make([]byte, n), make([]byte, n)
		out := Parted(Job{Store: NewMemStore(back), Write: true, Buf: from, Off: 64})
		in := Parted(Job{Store: NewMemStore(back), Buf: to, Off: 64})
		if (out.Parts != nil) != (n > partBytes) {
			t.Errorf("%d bytes: parts %v", n, out.Parts)
		}
		for range 3 {
			for i := range from {
				from[i] = byte(rng.Uint32())
			}
			s.Start(out)
			if err := s.Wait(s.Start(in)); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(from, to) {
				t.Errorf("%d bytes came back changed", n)
			}
		}
	}
	short := Parted(Job{Store: NewMemStore(make([]byte, 3*partBytes)), Buf: make([]byte, 4*partBytes)})
	err := s.Wait(s.Start(short))
	if err == nil || !errors.Is(s.Close(), err) {
		t.Errorf("a store that is too short: %v", err)
	}
}

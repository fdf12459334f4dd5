package weights

import (
	"encoding/binary"
	"math"
	"os"
	"testing"

	"loadline/internal/golden"
)

const familiesDir = "../testdata/arch/"

// Directories of every family, as transformers writes them, hand out their weights as Pieces say where they lie.
func TestDirectoriesOfEveryFamily(t *testing.T) {
	entries, err := os.ReadDir(familiesDir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		m, err := Open(familiesDir + e.Name())
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		published := golden.Load(t, familiesDir+e.Name()+"/model.safetensors")
		for _, p := range m.Config.Parameters() {
			b := make([]byte, 4*p.Elems())
			for at := 0; at < len(b); at += 4 * 100 { // in pieces that cut rows
				if err := m.Source(p.Name, b[at:min(at+4*100, len(b))]); err != nil {
					t.Fatalf("%s: %s: %v", e.Name(), p.Name, err)
				}
			}
			for _, x := range p.Pieces {
				want, _ := published.F32(x.Name)
				for r := range x.Rows {
					for c := range x.Cols {
						at := (x.Row+r)*x.Width + x.Col + c*max(1, x.Step)
						if x.Transposed {
							at = (x.Row+c)*x.Width + x.Col + r*max(1, x.Step)
						}
						got := math.Float32frombits(binary.LittleEndian.Uint32(b[4*(x.First+r*x.Cols+c):]))
						if got != want[at] {
							t.Fatalf("%s: %s: row %d, column %d: got %v, want %v", e.Name(), p.Name, r, c, got, want[at])
						}
					}
				}
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

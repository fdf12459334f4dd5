package e2e

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"loadline/graph"
	"loadline/model"
	"loadline/tensor/kernel"
	"loadline/train"
)

// hashed are short runs that reuse memory in every way, and the hash of each one's loss bits.
func hashed(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, c := range []model.Config{dense(4), experts(2), gpt2(2)} {
		for _, v := range variants() {
			if !regexp.MustCompile(`again|full|least|host$|disk$`).MatchString(v.name) {
				continue
			}
			o := bitOptions(c)
			o.Steps, o.EvalEvery = 4, 4
			if c.ModelType == model.GPT2 {
				o.Attention = "standard"
			}
			s := setup{device: cpuOf(kernel.Best(), 1)}
			v.edit(t, &o, s)
			h := sha256.New()
			for _, x := range run(t, o, s).losses {
				if x != x {
					t.Errorf("%s, %s: a loss is not a number", c.ModelType, v.name)
				}
				binary.Write(h, binary.LittleEndian, x) // a hash takes everything
			}
			out[strings.ReplaceAll(c.ModelType+" "+v.name, " ", "_")] = hex.EncodeToString(h.Sum(nil))
		}
	}
	return out
}

// printed is how TestHashes prints a run.
var printed = regexp.MustCompile(`run (\S+) has losses ([0-9a-f]{64})`)

// TestHashes prints the hashes of this build; TestPoisonChangesNoBit runs it in the other one. Runs of one model agree.
func TestHashes(t *testing.T) {
	all := hashed(t)
	for name, hash := range all {
		t.Logf("run %s has losses %s", name, hash)
		if kind, _, _ := strings.Cut(name, "_"); hash != all[kind+"_again"] {
			t.Errorf("%s and %s_again differ", name, kind)
		}
	}
}

// The build that overwrites dead memory with NaN has the loss bits of the build that does not.
func TestPoisonChangesNoBit(t *testing.T) {
	if testing.Short() {
		t.Log("compiling the other build takes long: only the bits within this one are compared, in TestHashes")
		return
	}
	args := []string{"test", "-count=1", "-vet=off", "-v", "-run=^TestHashes$"}
	if !poisoned {
		args = append(args, "-tags=invariants")
	}
	root, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	other := exec.CommandContext(t.Context(), "go", append(args, "./e2e")...)
	other.Dir = root
	out, err := other.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(other.Args[1:], " "), err, out)
	}
	theirs := map[string]string{}
	for _, m := range printed.FindAllSubmatch(out, -1) {
		theirs[string(m[1])] = string(m[2])
	}
	ours := hashed(t)
	if len(theirs) != len(ours) || len(ours) == 0 {
		t.Errorf("got %d runs, want %d, and some", len(theirs), len(ours))
	}
	for name, hash := range ours {
		if theirs[name] != hash {
			t.Errorf("%s: got losses %s with dead memory overwritten: %v, want %s", name, theirs[name], !poisoned, hash)
		}
	}
}

// A buffer whose life is cut short shows where dead memory is overwritten, and only there: the comparison above would notice.
func TestPoisonShows(t *testing.T) {
	o := bitOptions(dense(2))
	o.Accumulate, o.Steps, o.EvalEvery = 1, 1, 0
	s := setup{device: cpuOf(kernel.Best(), 1), loose: true} // the plan is about to be falsified
	want := run(t, o, s).losses[0]
	j := plan(t, o, s)
	for i := range j.Step.Instrs {
		in := &j.Step.Instrs[i]
		if _, ok := in.Op.(graph.HeadLossGrad); !ok {
			continue
		}
		b := &j.Step.Buffers[in.In[0].Buffer]
		if b.Persistent() || int(b.First) >= i {
			t.Fatalf("instruction %d reads %q, which lives from %d to %d", i, b.Name, b.First, b.Last)
		}
		b.Last = int32(i) - 1
		r, err := rank(t, j, nil, s)
		var stop *train.NonFiniteError
		switch {
		case poisoned && !errors.As(err, &stop):
			t.Errorf("got losses %v (%v), want a loss that is not a number", r.losses, err)
		case !poisoned && (err != nil || r.losses[0] != want):
			t.Errorf("got losses %v (%v), want %v", r.losses, err, want)
		}
		return
	}
	t.Fatal("no loss head")
}

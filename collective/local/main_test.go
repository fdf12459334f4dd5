package local

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"loadline/collective"
)

// The tests run real processes: the test binary starts itself again, with a role to play in the place of the tests.
const (
	seatVar = "LOADLINE_TEST_SEAT"
	roleVar = "LOADLINE_TEST_ROLE"
	argVar  = "LOADLINE_TEST_ARG"
)

// roles are what a child can do. What a role returns goes to stderr, and the process exits with 1.
var roles = map[string]func(g *Group, arg string, out io.Writer) error{
	"correct":  playCorrect,
	"stress":   playStress,
	"allocs":   playAllocs,
	"loop":     playLoop,
	"mismatch": playMismatch,
	"leave":    playLeave,
	"timeout":  playTimeout,
	"stubborn": playStubborn,
	"bench":    playBench,
}

func TestMain(m *testing.M) {
	role := os.Getenv(roleVar)
	if role == "" {
		os.Exit(m.Run())
	}
	flag.Parse()
	var err error
	if role == "parent" {
		err = playParent(os.Getenv(argVar), os.Stdout)
	} else {
		err = play(role, os.Getenv(argVar), os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play joins the world that the parent made, and plays a role in it.
func play(role, arg string, out io.Writer) (err error) {
	seat, err := ParseSeat(os.Getenv(seatVar))
	if err != nil {
		return err
	}
	g, err := Join(seat, nil)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, g.Close()) }()
	return roles[role](g, arg, out)
}

// troupe is a world of test processes with what they say.
type troupe struct {
	*World
	cmds   []*exec.Cmd
	stdout []bytes.Buffer
	stderr []bytes.Buffer
}

// command returns this test binary in a role.
func command(role, arg string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), roleVar+"="+role, argVar+"="+arg)
	return cmd
}

// cast makes a world and starts a process in a role for every rank from first on.
func cast(t testing.TB, ranks, first int, o Options, role, arg string) *troupe {
	t.Helper()
	w, err := NewWorld(ranks, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	tr := &troupe{World: w, cmds: make([]*exec.Cmd, ranks), stdout: make([]bytes.Buffer, ranks), stderr: make([]bytes.Buffer, ranks)}
	for r := first; r < ranks; r++ {
		cmd := command(role, arg)
		cmd.Stdout, cmd.Stderr = &tr.stdout[r], &tr.stderr[r]
		cmd.Env = append(cmd.Env, seatVar+"="+w.Seat(cmd, r).String())
		if err := w.Start(cmd, r); err != nil {
			t.Fatal(err)
		}
		tr.cmds[r] = cmd
	}
	return tr
}

// succeed waits for all processes and fails the test with what they said if one failed.
func (tr *troupe) succeed(t testing.TB) {
	t.Helper()
	if err := tr.Wait(); err != nil {
		t.Errorf("%v", err)
		for r := range tr.stderr {
			t.Errorf("rank %d: %s", r, tr.stderr[r].String())
		}
	}
}

// ended returns how long after since a rank wrote that it ended with want.
func (tr *troupe) ended(t testing.TB, rank int, want string, since time.Time) {
	t.Helper()
	text, nanos, ok := strings.Cut(strings.TrimSpace(tr.stdout[rank].String()), " at ")
	if !ok || text != want {
		t.Errorf("rank %d ended with %q and said %q, want %q", rank, tr.stdout[rank].String(), tr.stderr[rank].String(), want)
		return
	}
	var at int64
	fmt.Sscan(nanos, &at)
	if late := time.Unix(0, at).Sub(since); late > 2*time.Second {
		t.Errorf("rank %d ended %v after the cause, want at most 2s", rank, late)
	}
}

// report writes how a rank's work ended, in the form that ended reads.
func report(out io.Writer, err error) error {
	var lost *collective.RankLostError
	var mismatch *collective.MismatchError
	var late *collective.TimeoutError
	text := "nothing"
	switch {
	case errors.As(err, &lost):
		text = fmt.Sprintf("lost %d left=%v", lost.Rank, lost.Left)
	case errors.As(err, &mismatch), errors.As(err, &late):
		text = err.Error()
	case errors.Is(err, ErrParentLost):
		text = "parent lost"
	case err != nil:
		return err
	}
	_, werr := fmt.Fprintf(out, "%s at %d\n", text, time.Now().UnixNano())
	return werr
}

package local

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"loadline/collective"
	"loadline/mem"
)

// playLoop makes collectives until one fails. With arg "compute" it works on its own for a while between them.
func playLoop(g *Group, arg string, out io.Writer) error {
	x := make([]float32, 100000)
	for {
		if err := g.AllReduce(x); err != nil {
			return report(out, err)
		}
		if arg == "compute" {
			for begun := time.Now(); time.Since(begun) < 20*time.Millisecond; {
				x[0]++
			}
		}
	}
}

// await polls until ok, for at most ten seconds.
func await(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for begun := time.Now(); !ok(); nap(time.Millisecond) {
		if time.Since(begun) > 10*time.Second {
			t.Fatalf("%s: not after ten seconds", what)
		}
	}
}

// running waits until all ranks are some steps into their loop, and a random time more.
func (tr *troupe) running(t testing.TB) {
	t.Helper()
	for r := range tr.ranks {
		await(t, "ranks at work", func() bool { return stepOf(tr.seg, r) > 5 })
	}
	nap(time.Duration(rand.IntN(int(30 * time.Millisecond))))
}

func TestKilledRank(t *testing.T) {
	for _, arg := range []string{"", "", "compute"} {
		tr := cast(t, 3, 0, Options{}, "loop", arg)
		tr.running(t)
		victim := rand.IntN(3)
		at := time.Now()
		if err := tr.cmds[victim].Process.Kill(); err != nil {
			t.Fatal(err)
		}
		err := tr.Wait()
		var exit *ExitError
		var status *exec.ExitError
		if !errors.As(err, &exit) || exit.Rank != victim || !errors.As(err, &status) {
			t.Errorf("Wait gave %v, want the exit of rank %d", err, victim)
		}
		for r := range 3 {
			if r != victim {
				tr.ended(t, r, fmt.Sprintf("lost %d left=false", victim), at)
			}
		}
	}
}

// Without a parent that watches, the ranks find out for themselves, even while the dead one is a zombie.
func TestKilledRankUnwatched(t *testing.T) {
	tr := cast(t, 3, 3, Options{}, "", "")
	for r := range 3 {
		cmd := command("loop", "")
		cmd.Stdout, cmd.Stderr = &tr.stdout[r], &tr.stderr[r]
		cmd.Env = append(cmd.Env, seatVar+"="+tr.Seat(cmd, r).String())
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		tr.cmds[r] = cmd
	}
	tr.running(t)
	at := time.Now()
	if err := tr.cmds[1].Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []int{0, 2, 1} {
		if err := tr.cmds[r].Wait(); (err != nil) != (r == 1) {
			t.Errorf("rank %d ended with %v", r, err)
		}
	}
	tr.ended(t, 0, "lost 1 left=false", at)
	tr.ended(t, 2, "lost 1 left=false", at)
}

func TestChildThatNeverJoins(t *testing.T) {
	tr := cast(t, 2, 2, Options{}, "", "")
	g, err := tr.Join(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd := command("loop", "")
	tr.Seat(cmd, 1) // and never told: the child cannot parse an empty seat
	at := time.Now()
	if err := tr.Start(cmd, 1); err != nil {
		t.Fatal(err)
	}
	var lost *collective.RankLostError
	if err := g.Barrier(); !errors.As(err, &lost) || lost.Rank != 1 {
		t.Errorf("barrier gave %v, want rank 1 lost", err)
	}
	if late := time.Since(at); late > 2*time.Second {
		t.Errorf("it took %v, want at most 2s", late)
	}
	if err := g.Barrier(); !errors.As(err, &lost) {
		t.Errorf("a second barrier gave %v, want the same error", err)
	}
	var exit *ExitError
	if err := tr.Wait(); !errors.As(err, &exit) || exit.Rank != 1 {
		t.Errorf("Wait gave %v, want the exit of rank 1", err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestStartFails(t *testing.T) {
	tr := cast(t, 2, 2, Options{}, "", "")
	g, err := tr.Join(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/nonexistent/loadline")
	tr.Seat(cmd, 1)
	if err := tr.Start(cmd, 1); err == nil {
		t.Error("starting nothing gave no error")
	}
	var lost *collective.RankLostError
	if err := g.Barrier(); !errors.As(err, &lost) || lost.Rank != 1 {
		t.Errorf("barrier gave %v, want rank 1 lost", err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

// playMismatch makes a call that differs from rank 0's on the other ranks.
func playMismatch(g *Group, arg string, out io.Writer) error {
	x := make([]float32, 300000)
	for range 3 {
		if err := g.AllReduce(x); err != nil {
			return err
		}
	}
	if g.Rank() == 0 {
		return report(out, g.AllReduce(x))
	}
	switch arg {
	case "length":
		return report(out, g.AllReduce(x[:7]))
	case "op":
		return report(out, g.Barrier())
	default:
		return report(out, g.Broadcast(bytesOf(x[:3]), 1))
	}
}

func TestMismatch(t *testing.T) {
	for arg, other := range map[string]string{"length": "all-reduce of 7", "op": "barrier", "root": "broadcast of 12, root 1"} {
		at := time.Now()
		tr := cast(t, 3, 0, Options{}, "mismatch", arg)
		tr.succeed(t)
		for r := range 3 {
			tr.ended(t, r, "collective: ranks differ: rank 0 in all-reduce of 300000, rank 1 in "+other, at)
		}
	}
}

// playLeave closes rank 1 early.
func playLeave(g *Group, _ string, out io.Writer) error {
	for i := 0; ; i++ {
		if g.Rank() == 1 && i == 10 {
			return report(out, nil)
		}
		if err := g.Barrier(); err != nil {
			return report(out, err)
		}
	}
}

func TestRankThatLeaves(t *testing.T) {
	at := time.Now()
	tr := cast(t, 3, 0, Options{}, "leave", "")
	tr.succeed(t)
	tr.ended(t, 0, "lost 1 left=true", at)
	tr.ended(t, 1, "nothing", at)
	tr.ended(t, 2, "lost 1 left=true", at)
}

// playTimeout has rank 1 stay away until rank 0 has given up.
func playTimeout(g *Group, _ string, out io.Writer) error {
	for g.Rank() == 1 && stateOf(g.seg, 0) != stateLeft {
		nap(time.Millisecond)
	}
	return report(out, g.Barrier())
}

func TestTimeout(t *testing.T) {
	at := time.Now()
	tr := cast(t, 2, 0, Options{Timeout: 50 * time.Millisecond}, "timeout", "")
	tr.succeed(t)
	tr.ended(t, 0, "collective: rank 1 did not come within 50ms", at)
}

// playStubborn fails on rank 0 and goes on for ever, outside of collectives, on the others.
func playStubborn(g *Group, _ string, _ io.Writer) error {
	if err := g.Barrier(); err != nil {
		return err
	}
	if g.Rank() == 0 {
		os.Exit(7)
	}
	for {
		nap(time.Second)
	}
}

func TestStubbornRankIsKilled(t *testing.T) {
	tr := cast(t, 2, 0, Options{Grace: 50 * time.Millisecond}, "stubborn", "")
	var exit *ExitError
	var status *exec.ExitError
	if err := tr.Wait(); !errors.As(err, &exit) || exit.Rank != 0 || !errors.As(err, &status) || status.ExitCode() != 7 {
		t.Errorf("Wait gave %v, want rank 0 with exit status 7", err)
	}
}

// playParent makes a world of two looping ranks, prints their process ids and waits to be killed. With arg "unguarded" the kernel
// does not kill the children, so that they have to notice.
func playParent(arg string, out io.Writer) error {
	w, err := NewWorld(2, Options{})
	if err != nil {
		return err
	}
	for r := range 2 {
		cmd := command("loop", "")
		cmd.Env = append(cmd.Env, seatVar+"="+w.Seat(cmd, r).String())
		if arg == "unguarded" {
			cmd.SysProcAttr = nil
		}
		if err := w.Start(cmd, r); err != nil {
			return err
		}
	}
	for r := range 2 {
		for stepOf(w.seg, r) < 5 {
			nap(time.Millisecond)
		}
	}
	if _, err := fmt.Fprintln(out, w.children[0].cmd.Process.Pid, w.children[1].cmd.Process.Pid); err != nil {
		return err
	}
	return w.Wait()
}

func TestKilledParent(t *testing.T) {
	for _, arg := range []string{"guarded", "unguarded"} {
		t.Run(arg, func(t *testing.T) {
			cmd := command("parent", arg)
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			line := make([]byte, 64)
			n, err := out.Read(line)
			if err != nil {
				t.Fatal(err)
			}
			var ranks []*process
			for _, word := range strings.Fields(string(line[:n])) {
				pid, err := strconv.Atoi(word)
				if err != nil {
					t.Fatal(err)
				}
				ranks = append(ranks, openProcess(pid, processStart(pid)))
			}
			if len(ranks) != 2 || !ranks[0].alive() || !ranks[1].alive() {
				t.Fatalf("parent said %q, want two ranks that live", line[:n])
			}
			at := time.Now()
			if err := cmd.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			await(t, "ranks end", func() bool { return !ranks[0].alive() && !ranks[1].alive() })
			if late := time.Since(at); late > 2*time.Second {
				t.Errorf("ranks ended after %v, want at most 2s", late)
			}
			if err := cmd.Wait(); err == nil {
				t.Error("a killed parent ended without an error")
			}
			for _, p := range ranks {
				if err := p.close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func TestProcessAlive(t *testing.T) {
	self := openProcess(os.Getpid(), processStart(os.Getpid()))
	if !self.alive() {
		t.Error("this process is said to be dead")
	}
	if other := openProcess(os.Getpid(), processStart(os.Getpid())+1); other.alive() {
		t.Error("a process of another start time, with our number, is said to be alive")
	}
	cmd := command("loop", "")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p := openProcess(cmd.Process.Pid, processStart(cmd.Process.Pid))
	await(t, "a zombie counts as dead", func() bool { return !p.alive() })
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err == nil {
		t.Error("a rank without a seat ended without an error")
	}
	if p.alive() || unixAlive(cmd.Process.Pid) {
		t.Error("a reaped process is said to be alive")
	}
}

func unixAlive(pid int) bool { return syscall.Kill(pid, 0) == nil }

func TestSeat(t *testing.T) {
	s := Seat{Rank: 1, Ranks: 12, FD: 3}
	if got, err := ParseSeat(s.String()); err != nil || got != s {
		t.Errorf("got %v, %v, want %v", got, err, s)
	}
	for _, text := range []string{"", "1/2", "1@3", "2/2@3", "-1/2@3", "0/0@3", "0/5000@3", "0/2@-1", "0/2@3 ", "a/b@c", "0/2@99999999999"} {
		if got, err := ParseSeat(text); err == nil {
			t.Errorf("seat %q parsed as %v, want an error", text, got)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{{WindowBytes: 100}, {WindowBytes: -1}, {WindowBytes: 3 << 30}, {Timeout: -1}, {Grace: -1}} {
		if o.Validate() == nil {
			t.Errorf("%+v is said to be valid", o)
		}
	}
	for _, c := range []struct {
		ranks int
		o     Options
	}{{0, Options{}}, {maxRanks + 1, Options{}}, {100, Options{WindowBytes: 4096}}} {
		if w, err := NewWorld(c.ranks, c.o); err == nil {
			t.Errorf("a world of %d ranks with %+v was made", c.ranks, c.o)
			_ = w.Close()
		}
	}
}

// The mapping of a process is booked once, from the first rank in it to the last.
func TestLedger(t *testing.T) {
	w, err := NewWorld(3, Options{WindowBytes: 8192})
	if err != nil {
		t.Fatal(err)
	}
	total := SegmentBytes(3, 8192)
	small := mem.NewLedger(limit(total - 1))
	var over *mem.OverBudgetError
	if _, err := w.Join(0, small); !errors.As(err, &over) {
		t.Errorf("joining over the budget gave %v", err)
	}
	ledger := mem.NewLedger(limit(total))
	var groups []*Group
	for r := range 2 {
		g, err := w.Join(r, ledger)
		if err != nil {
			t.Fatal(err)
		}
		groups = append(groups, g)
	}
	if got := ledger.InUse()[mem.Host][mem.CommBuffers]; got != total {
		t.Errorf("%d bytes are booked, want %d", got, total)
	}
	// A mapping of its own, as in a child.
	fd, err := unix.Dup(int(w.File().Fd()))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Join(Seat{Rank: 2, Ranks: 3, FD: uintptr(fd)}, ledger); !errors.As(err, &over) {
		t.Errorf("joining over the budget gave %v", err)
	}
	if fd, err = unix.Dup(int(w.File().Fd())); err != nil {
		t.Fatal(err)
	}
	other := mem.NewLedger(limit(total))
	g, err := Join(Seat{Rank: 2, Ranks: 3, FD: uintptr(fd)}, other)
	if err != nil {
		t.Fatal(err)
	}
	if got := other.InUse()[mem.Host][mem.CommBuffers]; got != total {
		t.Errorf("%d bytes are booked by the child, want %d", got, total)
	}
	for _, g := range append(groups, g) {
		if err := g.Close(); err != nil {
			t.Error(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	for _, l := range []*mem.Ledger{small, ledger, other} {
		if got := l.InUse()[mem.Host][mem.CommBuffers]; got != 0 {
			t.Errorf("%d bytes are booked at the end, want 0", got)
		}
	}
}

func limit(n mem.Bytes) mem.Limits { return mem.Limits{Memory: n} }

// A file that is no world, or a world of another shape, is refused.
func TestJoinRefuses(t *testing.T) {
	w, err := NewWorld(2, Options{WindowBytes: 8192})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := openSegment(w.File(), 3, nil); err == nil {
		t.Error("a seat of three ranks fits a world of two")
	}
	w.seg.header().windowBytes = 4096
	if _, err := openSegment(w.File(), 2, nil); err == nil {
		t.Error("a world of the wrong length was accepted")
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	other, err := syscall.Open(os.DevNull, syscall.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Join(Seat{Rank: 0, Ranks: 2, FD: uintptr(other)}, nil); err == nil {
		t.Error("a device was accepted as a world")
	}
}
